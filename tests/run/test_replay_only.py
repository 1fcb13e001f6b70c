"""`learn` and `collect`: each half leaves the other exactly as it was."""

from __future__ import annotations

import signal
import sys

import pytest
from lived_in import Guarded, Turns, Weary
from lives import FAST, LIVELY, REPLAYING, digest, either, make, rows, weights

from each_step import after_each_step
from rookery import Callback, ConfigError, EnvError, MultiAgentArena, Trainer
from rookery.core.process.interrupt import Interrupted
from rookery.envs.placeholder_env import PlaceholderEnv
from selection import slow_except

SHORT = {"config": {"sampling.iteration_steps": 60}}
MIXED = {
    "env": MultiAgentArena,
    "policies": {"a": FAST, "b": REPLAYING},
    "policy_mapping": {"agent1": "a", "agent2": "b"},
    "env_config": {"max_timesteps": 23},
}
EVERYWHERE = {
    "batched": {"env": "CartPole-v1", "cfg": REPLAYING, **SHORT},
    "serial, by actions": {"env": Guarded, "cfg": LIVELY, **SHORT},
    "processes": {
        "env": Guarded,
        "cfg": LIVELY,
        "config": {"sampling.iteration_steps": 60, "env.implementation": "processes", "sampling.env_processes": 1},
    },
    "late agents": {"env": Turns, "policies": {"a": REPLAYING, "b": FAST}, "policy_mapping": either},
    "two policies": MIXED,
    "a rest": {"env": Weary, "cfg": REPLAYING, **SHORT},
    "played ahead": {
        "env": "CartPole-v1",
        "cfg": REPLAYING,
        "config": {"sampling.iteration_steps": 60, "sampling.staleness": 1},
    },
}


@pytest.fixture
def forbidding():
    """Makes the guarded environment raise when it is constructed, reset or stepped."""

    def forbid(forbidden=True):
        Guarded.forbidden = forbidden

    yield forbid
    Guarded.forbidden = False


def replaying(run_dir=None, **arguments):
    """A short run of DQN that has learned a little."""
    trainer = make("CartPole-v1", run_dir, REPLAYING, **{**SHORT, **arguments})
    trainer.train({"iterations": 3})
    return trainer


# --- learning ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", slow_except("batched", of=EVERYWHERE))
def test_a_run_goes_on_bit_for_bit_after_learning_where_its_environment_is_not(name, tmp_path, forbidding):
    case = EVERYWHERE[name]
    with make(run_dir=tmp_path / "never stopped", **case) as trainer:
        trainer.train({"iterations": 2})
        trainer.learn(15)
        trainer.train({"iterations": 5})
        expected = digest(trainer), weights(trainer), rows(tmp_path / "never stopped")
    with make(run_dir=tmp_path / "run", **case) as trainer:
        trainer.train({"iterations": 2})
        assert trainer._pool.worker.lengths.any(), "no episode is under way, so that nothing was to be kept"
    forbidding()
    with Trainer.load(tmp_path / "run", resume=True, play=False) as trainer:
        assert isinstance(trainer.env, PlaceholderEnv)
        trainer.learn(15)
    forbidding(False)
    with Trainer.load(tmp_path / "run", resume=True) as trainer:
        trainer.train({"iterations": 5})
        assert (digest(trainer), weights(trainer), rows(tmp_path / "run")) == expected


def test_learning_does_not_touch_an_environment_that_is_there(forbidding):
    with make(Guarded, cfg=LIVELY, **SHORT) as trainer:
        trainer.train({"iterations": 2})
        before = weights(trainer)
        forbidding()
        result = trainer.learn(20)
        assert weights(trainer) != before
        assert (result.env_steps, result.sampling, result.steps_per_second) == (120, False, 0.0)
        with pytest.raises(EnvError, match="stepped"):
            trainer.train_iteration()


def test_the_environment_need_not_even_be_found_to_learn(tmp_path, monkeypatch):
    with make(Guarded, tmp_path, LIVELY, **SHORT) as trainer:
        trainer.train({"iterations": 2})
    module = sys.modules.pop("lived_in")
    monkeypatch.setattr(sys, "path", [path for path in sys.path if not path.endswith("/run")])
    try:
        with pytest.raises(ConfigError, match="lived_in"):
            Trainer.load(tmp_path)
        with Trainer.load(tmp_path, resume=True, play=False) as trainer:
            assert trainer.learn(5).stop_reason.endswith(" gradient steps are made, 5 of them new")
    finally:
        sys.modules["lived_in"] = module
    monkeypatch.undo()
    with Trainer.load(tmp_path, resume=True) as trainer:
        assert trainer.train({"iterations": 4}).env_steps == 180


def test_what_has_no_environment_says_so_when_it_is_to_play(tmp_path):
    replaying(tmp_path).close()
    with Trainer.load(tmp_path, play=False) as trainer:
        for play in (trainer.train_iteration, lambda: trainer.collect(10)):
            with pytest.raises(
                EnvError, match=r"CartPole-v1, (batched|in C): this trainer was loaded to learn only \(play=False\)"
            ):
                play()


def test_learning_moves_no_schedule(tmp_path):
    with replaying(tmp_path) as trainer:
        learner = trainer.learners["main"]
        seen = learner.env_steps, learner.horizon, float(learner.policy.head.epsilon), learner.now()
        assert seen[2] not in (0.1, 1.0)
        trainer.learn(30)
        assert (learner.env_steps, learner.horizon, float(learner.policy.head.epsilon), learner.now()) == seen
        assert trainer.env_steps == seen[0]


def test_learning_is_reported_by_the_thousand_steps_and_saved(tmp_path, monkeypatch):
    monkeypatch.setattr("rookery.run.learn_or_collect.ITERATION", 20)
    with replaying(tmp_path) as trainer:
        before = trainer.learners["main"].replay.gradient_steps
        result = trainer.learn(50)
        assert result.iteration == 6
        assert result.policies["main"].gradient_steps == before + 50
        assert result.policies["main"].updates_per_env_step is None
    written = rows(tmp_path)
    assert [row["sampling"] for row in written] == [True] * 3 + [False] * 3
    made = [row["policies/main/gradient_steps"] for row in written[2:]]
    assert made == [before, before + 20, before + 40, before + 50]
    assert [row["env_steps"] for row in written[2:]] == [180] * 4
    with Trainer.load(tmp_path) as trainer:
        assert trainer.learners["main"].replay.gradient_steps == before + 50


def test_weights_that_learned_alone_are_those_that_play(tmp_path):
    with replaying(tmp_path) as trainer:
        trainer.learn(20)
        played = dict(trainer._pool.worker.policies["main"].policy.state_dict())
        learned = dict(trainer.policies["main"].state_dict())
        assert all(played[name].equal(learned[name]) for name in learned)


def test_only_the_policies_that_are_named_learn():
    with make(
        MultiAgentArena, policies={"a": REPLAYING, "b": REPLAYING}, policy_mapping=MIXED["policy_mapping"]
    ) as run:
        run.collect(100)
        run.learn(10, policies=["b"])
        assert [run.learners[name].replay.gradient_steps for name in ("a", "b")] == [0, 10]
        run.learn(10)
        assert [run.learners[name].replay.gradient_steps for name in ("a", "b")] == [10, 20]


def test_ctrl_c_ends_learning_between_two_steps_and_keeps_what_was_learned(tmp_path):
    with replaying(tmp_path) as trainer:
        learner = trainer.learners["main"]
        record = learner.replay.record

        def interrupted(*arguments):
            if learner.replay.gradient_steps == before + 14:
                trainer._interrupt.number = signal.SIGINT
            return record(*arguments)

        before = learner.replay.gradient_steps
        learner.replay.record = interrupted
        with pytest.raises(Interrupted):
            trainer.learn(1000)
        made = learner.replay.gradient_steps - before
        assert 14 < made < 30
        found = weights(trainer)
    assert rows(tmp_path)[-1]["policies/main/gradient_steps"] == before  # the iteration is not over
    with Trainer.load(tmp_path, resume=True) as trainer:
        assert weights(trainer) == found
        trainer.train({"iterations": 6})


def test_callbacks_that_are_not_there_find_what_they_kept(tmp_path):
    class Counting(Callback):
        def __init__(self):
            self.steps = 0

        def on_episode_step(self, episode):
            self.steps += 1
            episode.user_data["steps"] = episode.user_data.get("steps", 0) + 1

        def on_episode_end(self, episode):
            episode.metrics["steps"] = episode.user_data["steps"]

        def state_dict(self):
            return {"steps": self.steps}

        def load_state_dict(self, state):
            self.steps = state["steps"]

    with make("CartPole-v1", tmp_path / "a", REPLAYING, callbacks=[Counting()], **SHORT) as trainer:
        trainer.train({"iterations": 3})
        trainer.learn(10)
        trainer.train({"iterations": 6})
        expected = digest(trainer), rows(tmp_path / "a")
    with make("CartPole-v1", tmp_path / "b", REPLAYING, callbacks=[Counting()], **SHORT) as trainer:
        trainer.train({"iterations": 3})
    with Trainer.load(tmp_path / "b", resume=True, play=False) as trainer:
        trainer.learn(10)
    with Trainer.load(tmp_path / "b", resume=True, callbacks=[Counting()]) as trainer:
        trainer.train({"iterations": 6})
        assert (digest(trainer), rows(tmp_path / "b")) == expected


def test_learning_alone_is_refused_where_there_is_nothing_to_learn_from(tmp_path):
    with make("CartPole-v1") as trainer:
        for refused in (trainer.learn, lambda: trainer.collect(10), trainer.pause_sampling):
            with pytest.raises(ConfigError, match=r"no policy .* learns from replay \(learning: main by PPO\); .*dqn"):
                refused()
    with make("CartPole-v1", cfg=REPLAYING) as trainer:
        with pytest.raises(ConfigError, match=r"policy 'main': its replay buffer is empty.*trainer\.collect"):
            trainer.learn(10)
        for number in (0, -3):
            with pytest.raises(ConfigError, match=f"learn: gradient_steps = {number}: must be at least 1"):
                trainer.learn(number)
            with pytest.raises(ConfigError, match=f"collect: env_steps = {number}: must be at least 1"):
                trainer.collect(number)
        with pytest.raises(ConfigError, match=r"policy 'mian' does not exist; there are main; did you mean 'main'\?"):
            trainer.learn(10, policies=["mian"])
        with pytest.raises(ConfigError, match=r"learning to begin \(decisions: main 0 of 60, learning_starts\)"):
            trainer.pause_sampling()
        assert trainer.iteration == 0
    with make(**MIXED) as trainer, pytest.raises(ConfigError, match="policy 'a' does not learn from replay"):
        trainer.learn(10, policies=["a"])


# --- collecting -------------------------------------------------------------------------------------------------------


def test_collecting_stores_and_learns_nothing(tmp_path):
    with make("CartPole-v1", tmp_path, REPLAYING) as trainer:
        learner = trainer.learners["main"]
        before = {name: value.clone() for name, value in learner.policy.named_parameters()}
        result = trainer.collect(150)
        assert (result.env_steps, len(learner.replay.buffer), learner.replay.gradient_steps) == (150, 150, 0)
        assert all(before[name].equal(value) for name, value in learner.policy.named_parameters())
        assert result.stop_reason == "150 env steps are played"
        assert result.policies["main"].decisions == 150
        trainer.learn(20)
    assert [row["sampling"] for row in rows(tmp_path)] == [True, False]


def test_schedules_move_while_collecting():
    with make("CartPole-v1", cfg=REPLAYING) as trainer:
        trainer.collect(201)
        learner = trainer.learners["main"]
        assert learner.env_steps == 198  # those of the last whole round
        assert float(learner.policy.head.epsilon) == pytest.approx(1.0 - 0.9 * 198 / 400)


def test_collecting_drops_what_other_policies_play_and_says_so(capsys):
    with make(**MIXED) as trainer:
        before = dict(trainer.learners["a"].state_dict())
        trainer.collect(500)
        assert trainer.learners["a"].updates == before["updates"] == 0
        assert len(trainer.learners["b"].replay.buffer) == 300  # the last of them
        assert trainer.learners["b"].replay.buffer.total == 498  # the last round is not whole yet
    assert "policy a has no replay: its experience while collecting is not kept" in capsys.readouterr().err


def test_an_iteration_that_was_stopped_goes_on_as_far_after_collecting(tmp_path):
    with make("CartPole-v1", tmp_path, REPLAYING, **SHORT) as trainer:

        def come(worker):
            if worker.vector_steps == 5:
                trainer._interrupt.number = signal.SIGINT

        after_each_step(trainer._pool.worker, come)
        with pytest.raises(Interrupted):
            trainer.train({"iterations": 2})
        assert trainer.env_steps == 15
    with Trainer.load(tmp_path, resume=True) as trainer:
        trainer.collect(300)
        trainer.train({"iterations": 2})
        assert trainer.env_steps == 360
    assert [row["env_steps"] for row in rows(tmp_path)] == [315, 360]


# --- pausing ----------------------------------------------------------------------------------------------------------


def test_a_paused_iteration_makes_the_gradient_steps_of_its_env_steps_and_leaves_the_environment(forbidding, tmp_path):
    with make(Guarded, tmp_path, LIVELY, config={"sampling.iteration_steps": 90}) as trainer:
        trainer.train({"iterations": 2})
        learner = trainer.learners["main"]
        before, env_steps = learner.replay.gradient_steps, trainer.env_steps
        trainer.pause_sampling()
        forbidding()
        trainer.train({"iterations": 4})
        assert learner.replay.gradient_steps == before + 2 * 90 * 0.2
        assert trainer.env_steps == env_steps
        forbidding(False)
    with Trainer.load(tmp_path, resume=True) as trainer:
        assert trainer._paused
        trainer.resume_sampling()
        trainer.train({"iterations": 5})
        assert trainer.env_steps == env_steps + 90
    assert [row["sampling"] for row in rows(tmp_path)] == [True, True, False, False, True]


def test_an_iteration_has_a_thousand_env_steps_where_nobody_says_how_many():
    with make("CartPole-v1", cfg=REPLAYING) as trainer:
        trainer.collect(60)
        trainer.pause_sampling()
        trainer.train_iteration()
        assert trainer.learners["main"].replay.gradient_steps == 250
        trainer.resume_sampling()
        trainer.train_iteration()
        assert trainer.env_steps == 60 + 1002  # whole steps of three copies


def test_a_paused_iteration_can_be_stopped_in_the_middle(tmp_path):
    found = []
    for stopped in (False, True):
        folder = tmp_path / str(stopped)
        with replaying(folder) as trainer:
            trainer.pause_sampling()
            if stopped:
                learner = trainer.learners["main"]
                learner.explore = lambda learn=learner.explore, run=trainer: (
                    learn(), setattr(run._interrupt, "number", signal.SIGINT))  # fmt: skip
                with pytest.raises(Interrupted):
                    trainer.train({"iterations": 4})
            else:
                trainer.train({"iterations": 5})
                found.append((digest(trainer), weights(trainer), rows(folder)))
        if stopped:
            with Trainer.load(folder, resume=True) as trainer:
                assert 0 < trainer._progress.unplayed < 60
                trainer.train({"iterations": 5})
                found.append((digest(trainer), weights(trainer), rows(folder)))
    assert found[0] == found[1]
