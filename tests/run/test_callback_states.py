"""States of callbacks in checkpoints: each callback gets its own state back, whatever others are given in any order."""

from __future__ import annotations

import re

import pytest
from lives import rows

from rookery import Callback, PPOConfig, Trainer
from rookery.core.state import StateError
from rookery.rollout.hooks import UNNAMED, names_of
from rookery.run.checkpoint.callback_states import CallbackStates
from rookery.run.run import Windows

FAST = PPOConfig(fragment_length=16, epochs=1, minibatch_size=64)


class Count(Callback):
    """Counts episodes, and measures how many there were."""

    def __init__(self):
        self.count = 0

    def on_episode_end(self, episode):
        self.count += 1
        episode.metrics[type(self).__name__] = float(self.count)

    def state_dict(self):
        return {"count": self.count}

    def load_state_dict(self, state):
        self.count = state["count"]


class Other(Count):
    """Counts in tens."""

    def on_episode_end(self, episode):
        super().on_episode_end(episode)
        self.count += 9


class Length(Callback):
    """Measures, and keeps nothing."""

    def on_episode_start(self, episode):
        episode.metrics["length"] = 0.0

    def on_episode_end(self, episode):
        episode.metrics["length"] = episode.length


class Refusing(Callback):
    """Takes no state."""

    def state_dict(self):
        return {"a": 1}

    def load_state_dict(self, state):
        raise KeyError("b")


@pytest.fixture
def run(tmp_path):
    """The folder of a run of three iterations with callbacks, and these."""
    callbacks = [Count(), Other(), Length()]
    with Trainer("CartPole-v1", FAST, num_envs=4, seed=1, callbacks=callbacks, run_dir=tmp_path / "run") as trainer:
        trainer.train({"iterations": 3})
    assert callbacks[0].count and callbacks[1].count == 10 * callbacks[0].count
    return tmp_path / "run", callbacks


def resumed(folder, callbacks, iterations):
    with Trainer.load(folder, resume=True, callbacks=callbacks) as trainer:
        trainer.train({"iterations": iterations})
        return trainer


def measured(folder):
    """Names of the metrics in the last row of a run."""
    return {key.split("/")[1] for key in rows(folder)[-1] if key.startswith("metrics/")}


@pytest.mark.regression("wrong result", "Each callback gets its own state back, in whatever order callbacks are given")
def test_states_are_given_by_name_and_not_by_position(run):
    folder, (count, other, _) = run
    again = [Length(), Other(), Count()]
    with Trainer.load(folder, callbacks=again):
        assert (again[1].count, again[2].count) == (other.count, count.count)


@pytest.mark.regression("wrong result", "Each callback gets its own state back, in whatever order callbacks are given")
def test_those_of_one_class_are_told_apart_by_their_number(tmp_path):
    class Local(Count):
        pass

    callbacks = [Count(), Local(), Count(), Length()]
    assert names_of(callbacks) == [
        "test_callback_states:Count",
        f"test_callback_states:{Local.__qualname__}",
        "test_callback_states:Count 2",
        "test_callback_states:Length",
    ]
    script, ours = type("Script", (Count,), {"__module__": "__main__"}), type("Ours", (), {"__module__": "rookery.a.b"})
    assert names_of([script(), ours(), script()]) == ["Script", "rookery:Ours", "Script 2"]


@pytest.mark.regression("data lost", "The state of a callback that is not given stays in checkpoints")
def test_a_state_that_is_not_given_is_kept_and_its_metrics_leave_the_rows(run, capsys):
    folder, (count, other, _) = run
    assert measured(folder) == {"Count", "Other", "length"}
    capsys.readouterr()
    assert resumed(folder, [Count()], 4)._callbacks[0].count > count.count
    note = "note: this run had test_callback_states:Other, test_callback_states:Length, which is missing now"
    assert capsys.readouterr().err.count(note) == 1
    assert measured(folder) == {"Count"}
    resumed(folder, [], 5)
    assert measured(folder) == set()
    again = [Count(), Length(), Other()]
    resumed(folder, again, 6)
    assert again[2].count >= other.count and again[2].count % 10 == 0
    assert measured(folder) == {"Count", "Other", "length"}


def test_a_callback_that_the_run_did_not_have_begins_fresh_with_a_note(run, capsys):
    folder, _ = run

    class New(Count):
        pass

    callbacks = [New(), Count(), Other(), Length()]
    capsys.readouterr()
    with Trainer.load(folder, callbacks=callbacks):
        assert callbacks[0].count == 0
    said = capsys.readouterr().err
    assert re.fullmatch(r"note: the checkpoint has no state of test_callback_states:\S+New: starts fresh\n", said)


@pytest.mark.regression("unclear error", "A callback that refuses its stored state is named with that state")
def test_a_state_that_its_class_refuses_is_an_error_that_names_both(tmp_path):
    with Trainer("CartPole-v1", FAST, num_envs=2, seed=1, callbacks=[Refusing()]) as trainer:
        path = trainer.save(tmp_path / "saved")
    name = "test_callback_states:Refusing"
    with pytest.raises(StateError, match=f"{name}.load_state_dict refuses the state of {name}: KeyError: 'b'"):
        Trainer.load(path, callbacks=[Refusing()])


# --- checkpoints of older versions, which list states without names --------------------------------------------------


def loaded(listed, *callbacks):
    """Returns the states of callbacks after loading a list without names, and the notes."""
    notes = []
    states = CallbackStates(callbacks, Windows(), notes.append, notes, True)
    states.load_state_dict({UNNAMED: listed})
    return states, notes


@pytest.mark.regression("wrong result", "States of callbacks without names are refused where their number differs")
def test_states_without_names_go_by_position_where_their_number_agrees():
    one, other = Count(), Other()
    _, notes = loaded([{"count": 3}, None, {"count": 4}], one, Length(), other)
    assert (one.count, other.count) == (3, 4)
    assert len(notes) == 1 and "test_callback_states:Count, test_callback_states:Length" in notes[0]
    with pytest.raises(StateError, match="the states of 2 callbacks without their names, and 1 are given"):
        loaded([{"count": 3}, {"count": 4}], Count())


def test_states_without_names_are_kept_where_no_callback_is_given():
    states, notes = loaded([{"count": 3}])
    assert len(notes) == 1
    one = Count()
    CallbackStates([one], Windows(), notes.append, notes, True).load_state_dict(states.state_dict())
    assert one.count == 3


def test_callbacks_of_an_older_version_that_kept_nothing_need_no_note():
    assert loaded([None], Length())[1] == []
    assert loaded([None, None], Length())[1] == []


def test_a_checkpoint_of_an_older_version_loads(tmp_path):
    with Trainer("CartPole-v1", FAST, num_envs=2, seed=1, callbacks=[Count()]) as trainer:
        state = trainer.state_dict()
        named = state.pop("callback_states")
        state["callbacks"] = list(named.values())
        state["@versions"] = {name: version for name, version in state["@versions"].items() if name != "Trainer"}
        state["callbacks"][0]["count"] = 7
    with Trainer("CartPole-v1", FAST, num_envs=2, seed=1, callbacks=[Count()]) as trainer:
        trainer.load_state_dict(state)
        assert trainer._callbacks[0].count == 7
