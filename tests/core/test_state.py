"""State dicts, declared field by field."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

from rookery.core.state import Stateful


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
    assert Part.saved_names() == ["count", "rng", "array", "tensor", "net", "by_name", "several", "maybe"]
    assert Part.fixed_names() == ["setting"]


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
    with pytest.raises(KeyError, match="Part: state has"):
        Part().load_state_dict(state)
