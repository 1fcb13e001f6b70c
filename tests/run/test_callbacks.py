"""Callbacks: when they are called, what becomes of their metrics, and that they change nothing else."""

import hashlib
import json
import math
import traceback

import pytest
from gymnasium.envs.classic_control import CartPoleEnv

from rookery import Callback, MultiAgentArena, PPOConfig, Trainer
from rookery.core.errors import RookeryError

FAST = PPOConfig(fragment_length=16, epochs=2, minibatch_size=32)


class Diary(Callback):
    """The moments it was called at, one after the other."""

    def __init__(self):
        self.moments = []

    def on_train_start(self, trainer):
        self.moments.append(("train start", trainer.iteration))

    def on_iteration(self, trainer, result):
        assert result.iteration == trainer.iteration
        self.moments.append(("iteration", result.iteration))

    def on_evaluate(self, trainer, evaluation):
        self.moments.append(("evaluate", evaluation.episodes))

    def on_checkpoint(self, trainer, path):
        assert (path / "manifest.json").exists()
        self.moments.append(("checkpoint", path.name))

    def on_train_end(self, trainer, result):
        self.moments.append(("train end", result.stop_reason))


class Fields(Callback):
    """Counts the tiles that the explorer finds and the collisions, in `user_data` until the episode ends."""

    def on_episode_start(self, episode):
        episode.user_data.update(found=0, collisions=0, rewards=[])

    def on_episode_step(self, episode):
        episode.user_data["found"] += episode.reward["agent1"] == 1.0
        episode.user_data["collisions"] += episode.reward["agent2"] == 1.0
        episode.user_data["rewards"].append(episode.reward["agent1"])

    def on_episode_end(self, episode):
        episode.metrics["found"] = episode.user_data["found"]
        episode.metrics["collisions"] = episode.user_data["collisions"]
        episode.histograms["agent1"] = episode.user_data["rewards"]


class Account(Callback):
    """Collects the metrics and histograms of every episode, in the order of their ends."""

    def __init__(self):
        self.found = []
        self.returns = []

    def on_episode_end(self, episode):
        self.found.append(float(episode.metrics["found"]))
        self.returns.append(episode.returns["agent1"])


SHORT = {"max_timesteps": 10}


def arena(**arguments):
    return Trainer(MultiAgentArena, FAST, **{"seed": 1, "num_envs": 4, **arguments})


def weights(trainer):
    """A hash of everything that the algorithms learn."""
    seen = hashlib.sha256()
    for learner in trainer.learners.values():
        seen.update(learner.optimizer.flat.data.numpy().tobytes() + learner.optimizer.mean.numpy().tobytes())
    return seen.hexdigest()


def without_time(row):
    return {key: value for key, value in row.items() if not key.startswith("time/")}


def rows(run):
    return [without_time(json.loads(line)) for line in (run / "metrics.jsonl").read_text().splitlines()]


def test_moments_of_a_training_come_in_order(tmp_path):
    diary = Diary()
    with arena(callbacks=[diary], evaluation_every=2, evaluation_episodes=3, checkpoint_every=2,
               run_dir=tmp_path / "run") as trainer:  # fmt: skip
        trainer.train(stop={"iterations": 3})
        trainer.train(stop={"iterations": 4})
    assert diary.moments == [
        ("train start", 0),
        ("iteration", 1),
        ("evaluate", 3),
        ("iteration", 2),
        ("checkpoint", "000002"),
        ("iteration", 3),
        ("checkpoint", "000003"),
        ("train end", "iterations 3 reached 3"),
        ("train start", 3),
        ("evaluate", 3),
        ("iteration", 4),
        ("checkpoint", "000004"),
        ("train end", "iterations 4 reached 4"),
    ]


def test_callbacks_are_called_in_the_order_they_were_given_and_share_the_episode():
    account = Account()
    trainer = arena(callbacks=[Fields(), account], env_config=SHORT)
    trainer.train(stop={"iterations": 2})
    assert len(account.found) == trainer._windows.episodes > 0  # the second one sees the metrics of the first


def test_a_callback_that_overrides_nothing_about_episodes_costs_nothing():
    trainer = arena(callbacks=[Callback(), Diary()])
    assert trainer._pool.worker.listeners is None
    assert trainer.env.keep_infos == "none"
    ((_, told),) = arena(callbacks=[Callback(), Fields()])._pool.worker.listeners._listening["on_episode_step"]
    assert isinstance(told, Fields)


def test_callbacks_change_no_weights():
    plain = arena(policies=["agent1", "agent2"])
    plain.train(stop={"iterations": 4})
    watched = arena(policies=["agent1", "agent2"], callbacks=[Fields(), Diary()])
    watched.train(stop={"iterations": 4})
    assert weights(watched) == weights(plain)


def test_metrics_are_summed_up_over_the_last_hundred_episodes():
    account = Account()
    trainer = arena(callbacks=[Fields(), account], env_config=SHORT)
    seen = 0
    for result in trainer.iterations():
        window = account.found[-100:]
        if window:
            assert result.metrics["found"] == (min(window), math.fsum(window) / len(window), max(window))
            row = result.row()
            assert [row[f"metrics/found/{what}"] for what in ("min", "mean", "max")] == [*result.metrics["found"]]
        seen += len(window) == 100
        if seen == 4:
            break
    assert len(account.found) > 100


def test_metrics_stand_in_the_file_of_the_run(tmp_path):
    with arena(callbacks=[Fields()], env_config=SHORT, run_dir=tmp_path / "run") as trainer:
        result = trainer.train(stop={"iterations": 3})
    last = rows(tmp_path / "run")[-1]
    assert (last["metrics/collisions/min"], last["metrics/collisions/mean"], last["metrics/collisions/max"]) == (
        result.metrics["collisions"]
    )


def test_a_metric_measured_in_some_episodes_is_averaged_over_those():
    class Sometimes(Callback):
        def on_episode_end(self, episode):
            if episode.index % 2:
                episode.metrics["index"] = episode.index

    trainer = arena(callbacks=[Sometimes()], env_config=SHORT)
    result = trainer.train(stop={"episodes": 16})
    ended = trainer._windows.episodes // 4  # in each of the four lanes, which end together
    odd = [index for index in range(ended) if index % 2]
    assert result.metrics["index"] == (1.0, sum(odd) / len(odd), max(odd))


def test_histograms_are_of_the_episodes_that_ended_in_the_iteration():
    account = Account()
    trainer = arena(callbacks=[Fields(), account], env_config=SHORT)
    before = 0
    for _ in range(4):
        result = trainer.train_iteration()
        ended = account.returns[before:]
        before = len(account.returns)
        assert len(result.histograms.get("agent1", ())) == 10 * len(ended)
        assert sum(result.histograms.get("agent1", ())) == pytest.approx(sum(ended))


def test_what_a_callback_counts_in_an_episode_survives_a_restart_in_the_middle_of_it(tmp_path):
    through = arena(callbacks=[Fields()], env_config={"max_timesteps": 50})
    expected = [without_time(through.train_iteration().row()) for _ in range(8)]
    first = arena(callbacks=[Fields()], env_config={"max_timesteps": 50})
    found = [without_time(first.train_iteration().row()) for _ in range(4)]
    assert 0 < first._pool.worker.listeners.episodes[0].length < 50
    second = Trainer.load(first.save(tmp_path / "half"), callbacks=[Fields()])
    found += [without_time(second.train_iteration().row()) for _ in range(4)]
    assert found == expected
    assert expected[-1]["metrics/found/max"] > 1


def test_user_data_that_cannot_be_saved_is_lost_and_nothing_else(tmp_path):
    class Keeps(Callback):
        def on_episode_start(self, episode):
            episode.user_data["draw"] = (number for number in range(3))

    trainer = arena(callbacks=[Keeps()])
    trainer.train_iteration()
    restored = Trainer.load(trainer.save(tmp_path / "saved"), callbacks=[Keeps()])
    assert all(episode.user_data == {} for episode in restored._pool.worker.listeners.episodes)
    trainer.train_iteration()
    restored.train_iteration()
    assert weights(restored) == weights(trainer)


def test_the_state_of_a_callback_is_part_of_a_checkpoint(tmp_path):
    class Counts(Callback):
        def __init__(self):
            self.iterations = 0

        def on_iteration(self, trainer, result):
            self.iterations += 1

        def state_dict(self):
            return {"iterations": self.iterations}

        def load_state_dict(self, state):
            self.iterations = state["iterations"]

    counts = Counts()
    trainer = arena(callbacks=[Diary(), counts])
    trainer.train(stop={"iterations": 3})
    again = Counts()
    restored = Trainer.load(trainer.save(tmp_path / "saved"), callbacks=[Diary(), again])
    assert again.iterations == 3
    restored.train(stop={"iterations": 5})
    assert again.iterations == 5


def test_a_run_goes_on_without_its_callbacks_and_with_new_ones(tmp_path):
    trainer = arena(callbacks=[Fields()], env_config={"max_timesteps": 50})
    trainer.train(stop={"iterations": 2})
    saved = trainer.save(tmp_path / "saved")
    diary = Diary()
    bare, other = Trainer.load(saved), Trainer.load(saved, callbacks=[diary])
    for each in (trainer, bare, other):
        each.train(stop={"iterations": 4})
    assert weights(bare) == weights(other) == weights(trainer)
    assert diary.moments[0] == ("train start", 2)


@pytest.mark.parametrize("moment", ["on_train_start", "on_iteration", "on_episode_start", "on_episode_step",
                                    "on_episode_end", "on_evaluate", "on_train_end"])  # fmt: skip
def test_a_callback_that_fails_shows_its_own_line_and_its_own_error(moment):
    def broken(self, *about):
        raise ValueError("the user's own words")

    callback = type("Broken", (Callback,), {moment: broken})()
    trainer = arena(callbacks=[callback], env_config=SHORT, evaluation_every=1, evaluation_episodes=1)
    with pytest.raises(ValueError, match="^the user's own words$") as caught:
        trainer.train(stop={"iterations": 2})
    assert not isinstance(caught.value, RookeryError)
    assert caught.value.__cause__ is None and caught.value.__context__ is None
    last = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert (last.filename, last.name) == (__file__, "broken")


def test_the_environment_of_an_evaluation_is_not_watched():
    account = Account()
    trainer = arena(callbacks=[Fields(), account], env_config=SHORT)
    trainer.evaluate(episodes=5)
    assert account.found == []


class Telling(CartPoleEnv):
    """A cart pole that says in `info` how often it was stepped."""

    def reset(self, **arguments):
        self.steps = 0
        return super().reset(**arguments)

    def step(self, action):
        self.steps += 1
        *shown, info = super().step(action)
        return *shown, {**info, "steps": self.steps}


def test_what_an_environment_says_in_info_reaches_a_callback():
    class Listening(Callback):
        def on_episode_end(self, episode):
            episode.metrics["told"] = episode.info["agent"]["steps"]
            episode.metrics["counted"] = episode.length

    result = Trainer(Telling, FAST, callbacks=[Listening()], num_envs=2, seed=0).train(stop={"episodes": 10})
    assert result.metrics["told"] == result.metrics["counted"]


@pytest.mark.parametrize("moment", ["on_train_start", "on_iteration"])
def test_a_callback_that_returns_false_is_refused(moment):
    stopping = type("Stopping", (Callback,), {moment: lambda self, *about: False})()
    with (
        Trainer(MultiAgentArena, FAST, num_envs=2, seed=0, callbacks=[stopping]) as trainer,
        pytest.raises(RookeryError, match=rf"Stopping.{moment} returned False, which ends nothing; train\(stop=lambda"),
    ):
        trainer.train(stop={"iterations": 2})


def test_attributes_of_callbacks_in_stable_baselines3_lead_to_ours():
    with pytest.raises(AttributeError, match=r"no attribute 'logger': episode.metrics\[\"x\"\] = 3 in a callback"):
        Callback().logger.record("x", 1)
    with pytest.raises(AttributeError, match=r"no attribute 'num_timesteps': trainer.env_steps"):
        _ = Callback().num_timesteps
