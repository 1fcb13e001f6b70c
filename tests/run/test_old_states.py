"""States in the form of the first versions of classes: runs resume from them."""

import json

import pytest

from rookery import PPOConfig, Trainer
from rookery.core.io.encoding import encode
from rookery.core.io.files import read_directory, write_directory
from rookery.core.state import VERSIONS, StateError

LATER = {
    "Trainer": ("callback_states",),
    "Windows": ("sources",),
    "Run": ("curriculum", "self_play", "apart"),
    "LocalPool": ("lessons", "lineup"),
    "RolloutWorker": ("plan", "mapping"),
    "LearnedSignal": ("due",),
    "SelfPlay": (),
}
"""By class, what states of its first version did not have; states of other classes stay as they are."""


def trainer():
    ppo = PPOConfig(fragment_length=16, epochs=1, signals={"extrinsic": {}, "rnd": {}}, model={"hidden": (8,)})
    return Trainer("CartPole-v1", ppo, num_envs=2, seed=4)


def as_first_written(state, seen):
    """Returns a state without what came later; adds the classes that lose something to `seen`."""
    if isinstance(state, list):
        return [as_first_written(item, seen) for item in state]
    if not isinstance(state, dict):
        return state
    classes = state.get(VERSIONS, {})
    seen.update(classes.keys() & LATER)
    later = {VERSIONS, *(name for one in classes for name in LATER.get(one, ()))}
    others = {one: version for one, version in classes.items() if one not in LATER}
    older = {key: as_first_written(item, seen) for key, item in state.items() if key not in later}
    return {VERSIONS: others, **older} if others else older


@pytest.mark.regression("data lost", "Older saved states are upgraded when they load, newer ones refused")
def test_a_run_resumes_from_states_of_the_first_versions():
    with trainer() as before, trainer() as after:
        before.train_iteration()
        seen = set()
        after.load_state_dict({**as_first_written(before.state_dict(), seen), "callbacks": []})
        assert seen == LATER.keys() - {"SelfPlay"}  # which is a part that the first states did not have
        before.train_iteration()
        after.train_iteration()
        mine, other = (
            {**one.state_dict(), "timers": None, "seconds": None, "criteria": None} for one in (before, after)
        )
        assert encode(mine["learners"]) == encode(other["learners"])
        assert json.dumps(encode(mine["pool"])[0]) == json.dumps(encode(other["pool"])[0])


@pytest.mark.regression("data lost", "Older saved states are upgraded when they load, newer ones refused")
def test_opponents_of_the_first_version_have_been_drawn_no_second_time():
    with trainer() as run:
        state = run._self_play.state_dict()
        run._self_play.load_state_dict({**as_first_written(state, set()), "lineup": {"kept": {"main": [1]}}})
        assert run._self_play.lineup == {"kept": {"main": [1]}, "round": 0}


@pytest.mark.regression("data lost", "Older saved states are upgraded when they load, newer ones refused")
@pytest.mark.parametrize(
    ("name", "path"), [("Run", ()), ("LocalPool", ("pool",)), ("RolloutWorker", ("pool", "worker"))]
)
def test_a_run_of_a_newer_version_is_refused(name, path):
    with trainer() as run:
        state = part = run.state_dict()
        for key in path:
            part = part[key]
        part[VERSIONS] = {name: 99}
        with pytest.raises(StateError, match=f"the state of {name} has version 99, .* up to [23]"):
            run.load_state_dict(state)


@pytest.mark.regression("data lost", "Older saved states are upgraded when they load, newer ones refused")
def test_the_error_of_a_newer_checkpoint_names_it(tmp_path):
    with trainer() as run:
        place = run.save(tmp_path / "saved")
    files, facts = read_directory(place)
    facts = {name: fact for name, fact in facts.items() if name not in ("files", "sha256", "signature")}
    state = json.loads(files["state.json"])
    state["pool"][VERSIONS] = {"LocalPool": 3}
    newer = tmp_path / "newer"
    write_directory(newer, {**files, "state.json": json.dumps(state).encode()}, facts)
    with pytest.raises(StateError, match=f"{newer}: LocalPool: the state of LocalPool has version 3, .* up to 2; "):
        Trainer.load(newer)
