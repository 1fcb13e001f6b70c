"""State dicts, declared field by field."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

from rookery.core.state import VERSIONS, StateError, Stateful


class Base(Stateful):
    saved = ("count",)
    fixed = ("setting",)

    def __init__(self, setting=1):
        self.setting, self.count = setting, 0


class Part(Base):
    saved = ("rng", "array", "tensor", "net", "by_name", "several", "maybe")

    def __init__(self, setting=1, parts=0):
        super().__init__(setting)
        self.rng = np.random.default_rng(0)
        self.array = np.zeros(3)
        self.tensor = torch.zeros(2)
        self.net = nn.Linear(2, 1)
        self.by_name = {f"p{n}": Part() for n in range(parts)}
        self.several = [Part() for _ in range(parts)]
        self.maybe = None


def changed(parts=2):
    part = Part(parts=parts)
    part.count, part.maybe = 5, {"rows": np.ones(2)}
    part.rng.random(7)
    part.array += 1
    part.tensor += 2
    part.net.weight.data.fill_(3.0)
    for inner in (*part.by_name.values(), *part.several):
        inner.count = 9
        inner.rng.random(3)
    return part


def test_names_add_up_along_the_base_classes():
    assert Part._saved_names() == ["count", "rng", "array", "tensor", "net", "by_name", "several", "maybe"]
    assert Part._fixed_names() == ["setting"]


def test_a_new_object_takes_over_everything_that_was_saved_and_nothing_else():
    part, other = changed(), Part(setting=7, parts=2)
    kept = [other.net, other.tensor, other.rng, other.by_name["p0"], other.several[1]]
    other.load_state_dict(part.state_dict())
    assert kept == [other.net, other.tensor, other.rng, other.by_name["p0"], other.several[1]]  # objects stay in place
    assert (other.count, other.setting) == (5, 7)
    assert other.array.tolist() == [1, 1, 1]
    assert other.tensor.tolist() == [2, 2]
    assert other.net.weight.tolist() == [[3, 3]]
    assert other.maybe["rows"].tolist() == [1, 1]
    assert other.rng.random() == part.rng.random()
    for mine, theirs in zip(
        (*other.by_name.values(), *other.several), (*part.by_name.values(), *part.several), strict=True
    ):
        assert mine.count == 9
        assert mine.rng.random() == theirs.rng.random()


def test_a_state_is_a_copy_of_its_object_and_of_what_it_is_loaded_into():
    part = changed()
    state = part.state_dict()
    before = copy.deepcopy(state)
    other = Part(parts=2)
    other.load_state_dict(state)
    for touched in (part, other):
        touched.array += 1
        touched.tensor += 1
        touched.net.weight.data.fill_(0.0)
        touched.rng.random()
        touched.maybe["rows"][:] = 8
        touched.several[0].array += 1
    assert state["rng"] == before["rng"]
    assert torch.equal(state["tensor"], before["tensor"])
    assert torch.equal(state["net"]["weight"], before["net"]["weight"])
    np.testing.assert_equal(state["array"], before["array"])
    np.testing.assert_equal(state["maybe"], before["maybe"])
    np.testing.assert_equal(state["several"][0]["array"], before["several"][0]["array"])


def test_a_tensor_that_others_look_into_is_filled_not_replaced():
    part = Part()
    view = part.tensor[:1]
    state = part.state_dict() | {"tensor": torch.tensor([4.0, 5.0])}
    part.load_state_dict(state)
    assert view.item() == 4.0


@pytest.mark.parametrize("change", [{"more": 1}, None])
def test_a_state_with_other_names_is_refused(change):
    state = Part().state_dict()
    state = state | change if change else {name: value for name, value in state.items() if name != "array"}
    with pytest.raises(StateError, match="Part: state has"):
        Part().load_state_dict(state)


class Renamed(Base):
    """Its `tries` was called `attempts` in version 1, and `unit` was missing before version 3."""

    state_version = 3
    saved = ("tries", "unit")

    def __init__(self, unit="s"):
        super().__init__()
        self.tries, self.unit = 0, unit

    def upgrade(self, state, version):
        state = dict(state)
        if version < 2:
            state["tries"] = state.pop("attempts")
        return {"unit": self.unit, **state}


class Longer(Renamed):
    """Counts from 0, where version 1 counted from 1."""

    state_version = 2
    saved = ("index",)

    def __init__(self):
        super().__init__()
        self.index = 0

    def upgrade(self, state, version):
        return {**state, "index": state["index"] - 1}


@pytest.mark.regression("data lost", "Older saved states are upgraded when they load, newer ones refused")
@pytest.mark.parametrize(
    ("wrote", "state"),
    [
        ({}, {"attempts": 4, "index": 3}),
        ({"Renamed": 2}, {"tries": 4, "index": 3}),
        ({"Renamed": 2, "Longer": 2}, {"tries": 4, "index": 2}),
        ({"Renamed": 3, "Longer": 2}, {"tries": 4, "unit": "s", "index": 2}),
    ],
)
def test_a_state_of_an_older_version_is_upgraded_class_by_class(wrote, state):
    given = {"count": 1, **state, **({VERSIONS: wrote} if wrote else {})}
    before, one = copy.deepcopy(given), Longer()
    one.load_state_dict(given)
    assert (one.count, one.tries, one.unit, one.index) == (1, 4, "s", 2)
    assert given == before
    assert one.state_dict()[VERSIONS] == {"Renamed": 3, "Longer": 2}


@pytest.mark.regression("data lost", "Older saved states are upgraded when they load, newer ones refused")
def test_a_state_that_is_up_to_date_is_not_upgraded_again():
    one = Longer()
    state = one._upgraded({"count": 1, "attempts": 4, "index": 3})
    assert one._upgraded(state) is state


@pytest.mark.regression("data lost", "Older saved states are upgraded when they load, newer ones refused")
def test_a_state_of_a_newer_version_is_refused_with_its_class_and_both_versions():
    one = Longer()
    for state in (one.state_dict() | {VERSIONS: {"Renamed": 4, "Longer": 2}}, {VERSIONS: {"Renamed": 4}}):
        with pytest.raises(StateError, match=r"Longer: the state of Renamed has version 4, .* versions up to 3;"):
            one.load_state_dict(state)
    with pytest.raises(StateError, match=r"Base: the state of Base has version 2, .* versions up to 1;"):
        Base().load_state_dict({"count": 1, VERSIONS: {"Base": 2}})


def test_a_class_that_has_never_changed_writes_no_version():
    assert VERSIONS not in Part().state_dict()
    assert Part._state_versions() == {}


def test_a_version_without_an_upgrade_is_refused_when_the_class_is_made():
    with pytest.raises(TypeError, match="Forgotten: state_version is 2, so it must define upgrade"):
        type("Forgotten", (Longer,), {"state_version": 2})
    with pytest.raises(TypeError, match="two base classes with a state_version have the same name"):
        type("Longer", (Longer,), {"state_version": 2, "upgrade": Longer.upgrade})


@pytest.mark.regression("wrong result", "A state of another number of objects is refused instead of taking their place")
def test_a_list_of_objects_is_not_replaced_by_the_states_of_another_number():
    one = Part(parts=2)
    with pytest.raises(StateError, match="there are 2 Part, and the state has 1"):
        one.load_state_dict(Part(parts=1).state_dict() | {"by_name": one.state_dict()["by_name"]})
    assert all(isinstance(part, Part) for part in one.several)


class Underscored(Stateful):
    """Its attributes got an underscore, and its stored states keep the names without one."""

    saved = ("_count", "part")

    def __init__(self):
        self._count, self.part = 0, Part()

    @classmethod
    def _key_of(cls, name):
        return name.removeprefix("_")


def test_an_attribute_may_have_another_key_in_a_state():
    one, other = Underscored(), Underscored()
    one._count, one.part.count = 3, 4
    state = one.state_dict()
    assert state.keys() == {"count", "part"}
    other.load_state_dict(state)
    assert (other._count, other.part.count) == (3, 4)
    with pytest.raises(StateError, match=r"state has \['_count', 'part'\], expected \['count', 'part'\]"):
        other.load_state_dict({"_count": 3, "part": state["part"]})


def test_two_attributes_with_the_same_key_are_refused():
    with pytest.raises(TypeError, match="two saved attributes have the same key"):
        type("Both", (Underscored,), {"saved": ("count",)})
