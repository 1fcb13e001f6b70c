"""Workers that each sample a share of the lanes: the same weights as one worker, losses, and counts."""

from __future__ import annotations

import functools
import hashlib
import itertools
import threading

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from lives import LIVELY, REPLAYING

from rookery import A2CConfig, Callback, PPOConfig, Trainer
from rookery.core.errors import ConfigError, EnvError, WorkerLostError
from selection import slow, slow_repeats

HERE = {"ray": "here"}


def trainer_of(env, algorithm, workers, lanes=6, sampling=None, **more):
    """A trainer whose lanes are played by so many workers in this process; 0 = by the one it has."""
    more = {**more, **({"cluster": HERE} if workers else {})}
    return Trainer(env, algorithm, seed=3, sampling={"num_envs": lanes, "workers": workers, **(sampling or {})}, **more)


def weights_of(trainer):
    """A hash of all weights and statistics."""
    found = hashlib.sha256()
    for _, policy in sorted(trainer.policies.items()):
        for tensor in [*policy.parameters(), *policy.buffers()]:
            found.update(tensor.detach().numpy().tobytes())
    return found.hexdigest()


def played(env, algorithm, workers, iterations=2, **more):
    """Weights after some iterations, and what the last of them says."""
    with trainer_of(env, algorithm, workers, **more) as trainer:
        for _ in range(iterations):
            result = trainer.train_iteration()
        assert result.exact
        return weights_of(trainer), result.return_mean, result.env_steps, result.episodes, result.length_mean


class Blocks(gymnasium.Env):
    """Shows numbers to a network that no kernels know, and is cut off after seven steps."""

    observation_space = spaces.Dict({"a": spaces.Box(-1, 1, (3,), np.float32), "b": spaces.Discrete(3)})
    action_space = spaces.Dict({"move": spaces.Discrete(3), "force": spaces.Box(-1, 1, (2,), np.float32)})

    def __init__(self, fail=None):
        self.fail = fail

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return self._seen(), {}

    def _seen(self):
        return {"a": self.np_random.uniform(-1, 1, 3).astype(np.float32), "b": int(self.np_random.integers(3))}

    def step(self, action):
        self.time += 1
        if self.fail == self.time:
            raise ValueError("the gears have stuck")
        ended = bool(self.np_random.random() < 0.1)
        return self._seen(), float(action["move"] + action["force"].sum()), ended, self.time == 7, {}


PPO = PPOConfig(fragment_length=32, epochs=2, minibatch_size=48, model={"hidden": (16,)})
RECURRENT = PPO.replace(model={"hidden": (16,), "memory": {"kind": "lstm", "size": 8, "sequence_length": 8}})
TORCH = PPO.replace(model={"hidden": (16,), "native": False})
COURSE = {"masspole": {"lessons": [0.1, 0.5], "threshold": 1.0, "min_episodes": 2}}
CASES = {
    "ppo": ("CartPole-v1", PPO, {}),
    "normalized": ("Pendulum-v1", PPO.replace(model={"hidden": (16,), "normalize_obs": True}), {}),
    "lstm": ("CartPole-v1", RECURRENT, {}),
    "batch": ("CartPole-v1", A2CConfig(fragment_length=5, rollout_size=77, model={"hidden": (16,)}), {}),
    "sac": ("Pendulum-v1", LIVELY, {"sampling": {"iteration_steps": 120}}),
    "dqn": ("CartPole-v1", REPLAYING, {"sampling": {"iteration_steps": 120}}),
    "composite": (Blocks, PPO, {}),
    "torch": (Blocks, TORCH, {"sampling": {"inference_batch_envs": 2}}),
    "arena": ("rookery.tasks.games.arena:MultiAgentArena", PPO, {}),
    "lessons": ("CartPole-v1", PPO, {"curriculum": COURSE}),
    "parameters": ("Pendulum-v1", PPO, {"parameters": {"mass": {"sampler": "uniform", "low": 0.5, "high": 2.0}}}),
}


@pytest.fixture(scope="module")
def alone():
    """Returns the result of a case with a single worker."""

    @functools.cache
    def run(case):
        env, algorithm, more = CASES[case]
        return played(env, algorithm, 0, **more)

    return run


@pytest.mark.parametrize(("case", "workers"), slow_repeats(of=itertools.product(CASES, (1, 2, 3))))
def test_any_number_of_workers_gives_the_same_weights(case, workers, alone):
    env, algorithm, more = CASES[case]
    assert played(env, algorithm, workers, **more) == alone(case)


def test_workers_in_groups_that_are_not_kept_are_not_said_to_be_exact():
    with trainer_of(Blocks, TORCH, 2) as trainer:
        assert not trainer.train_iteration().exact


# --- resuming ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", ["lstm", "sac", slow("parameters")])
def test_a_run_with_workers_is_taken_up_exactly(case, tmp_path):
    env, algorithm, more = CASES[case]
    expected = played(env, algorithm, 2, iterations=4, **more)[0]
    with trainer_of(env, algorithm, 2, **more) as trainer:
        for _ in range(2):
            trainer.train_iteration()
        trainer.save(tmp_path / "kept")
    with Trainer.load(tmp_path / "kept") as trainer:
        for _ in range(2):
            assert trainer.train_iteration().exact
        assert weights_of(trainer) == expected


# --- losses -----------------------------------------------------------------------------------------------------------


class Ledger:
    """Notes which decision of which slot every rollout has brought."""

    def __init__(self, trainer):
        self.seen = []
        (learner,) = trainer.learners.values()
        step = learner.training_step

        def note(rollout):
            headers = (rollout.slot.tolist(), rollout.clock.tolist(), rollout.length.tolist())
            for slot, clock, length in zip(*headers, strict=True):
                self.seen += [(slot, at) for at in range(clock, clock + length)]
            return step(rollout)

        learner.training_step = note


@pytest.mark.parametrize("asynchronous", [False, slow(True)])
def test_lanes_of_a_lost_worker_go_on_elsewhere_and_everything_is_counted(asynchronous):
    sampling = {"asynchronous": asynchronous, "iteration_steps": 240}
    with trainer_of("CartPole-v1", PPO, 3, sampling=sampling) as trainer:
        ledger, lost = Ledger(trainer), 0
        rng = np.random.default_rng(0)
        for _ in range(16):
            trainer.train_iteration()
            if rng.random() < 0.7:
                lost += trainer._pool.hosts.lose(int(rng.integers(3)))
        result = trainer.train_iteration()
        assert lost > 3
        assert len(ledger.seen) == len(set(ledger.seen))
        assert result.counters["workers_lost"] == lost
        assert not result.exact
        per_lane = {lane for lane, _ in ledger.seen}
        assert per_lane == set(range(6))
        kept = trainer._pool.undelivered("main")
        assert result.env_steps - len(ledger.seen) - kept == result.counters["decisions_lost"]


def test_a_run_ends_when_workers_are_lost_again_and_again():
    with trainer_of("CartPole-v1", PPO, 2, sampling={"max_restarts": 2}) as trainer:
        for _ in range(2):
            trainer.train_iteration()
            trainer._pool.hosts.lose(0)
        trainer.train_iteration()
        trainer._pool.hosts.lose(0)
        with pytest.raises(WorkerLostError, match=r"sampling\.max_restarts = 2"):
            trainer.train_iteration()


def test_the_next_episodes_of_a_lost_worker_are_the_next_of_its_lanes():
    with trainer_of("CartPole-v1", PPO, 2) as trainer:
        before = {}
        for number in range(6):
            trainer.train_iteration()
            for one in trainer._pool.standing:
                for lane, episode in enumerate(one.episode.tolist(), one.share.first):
                    assert episode > before.get(lane, -1) if number == 3 and one.share.number else True
                    before[lane] = episode
            if number == 2:
                trainer._pool.hosts.lose(1)
        assert trainer._pool.standing[1].share.skipped != (0, 0, 0)


def test_whoever_takes_over_lanes_has_the_lessons_of_the_run_after_it_was_taken_up_too(tmp_path):
    def masses(trainer):
        return {episode.parameters["masspole"] for episode in trainer._pool.sample(60).finished}

    with trainer_of("CartPole-v1", PPO, 2, curriculum=COURSE) as trainer:
        for _ in range(3):
            trainer.train_iteration()
        assert trainer._curriculum.lessons == {"masspole": 1}
        trainer.save(tmp_path / "kept")
    with Trainer.load(tmp_path / "kept") as trainer:
        for share in range(2):
            trainer._pool.hosts.lose(share)
        trainer.train_iteration()  # new workers of the lanes begin in it
        masses(trainer)
        assert masses(trainer) == {0.5}


# --- asynchronous -----------------------------------------------------------------------------------------------------


def test_asynchronous_workers_play_on_with_older_weights_and_say_how_old():
    sampling = {"asynchronous": True, "iteration_steps": 600}
    with trainer_of("CartPole-v1", A2CConfig(fragment_length=10, rollout_size=60), 3, sampling=sampling) as trainer:
        rows = [trainer.train_iteration() for _ in range(4)]
    told = rows[-1].policies["main"]
    assert 0 < told.lag_mean <= told.lag_max <= 4
    assert not rows[-1].exact
    assert rows[-1].env_steps >= 2400


def test_what_is_too_old_is_left_out_and_counted():
    sampling = {"asynchronous": True, "iteration_steps": 600, "max_policy_lag": 1, "max_requests_in_flight": 4}
    with trainer_of("CartPole-v1", A2CConfig(fragment_length=10, rollout_size=20), 3, sampling=sampling) as trainer:
        for _ in range(3):
            result = trainer.train_iteration()
    assert result.counters["decisions_too_old"] > 0
    assert result.policies["main"].lag_max <= 2


def test_an_asynchronous_run_that_is_taken_up_counts_what_was_under_way(tmp_path):
    cfg, sampling = A2CConfig(fragment_length=10, rollout_size=60), {"asynchronous": True, "iteration_steps": 300}
    with trainer_of("CartPole-v1", cfg, 3, sampling=sampling) as trainer:
        for _ in range(2):
            trainer.train_iteration()
        trainer.save(tmp_path / "kept")
        waiting = trainer._pool.undelivered("main")
        steps = trainer.env_steps
        assert trainer.train_iteration().env_steps > steps
    with Trainer.load(tmp_path / "kept") as trainer:
        result = trainer.train_iteration()
        assert waiting > 0
        assert result.counters["decisions_lost"] == waiting


@pytest.mark.parametrize("case", [slow("ppo"), "normalized", "lstm"])
def test_shares_that_move_to_other_hosts_lose_nothing_that_is_played(case):
    env, algorithm, _ = CASES[case]
    sampling = {"asynchronous": True, "iteration_steps": 240}
    with trainer_of(env, algorithm, 3, sampling=sampling) as trainer:
        ledger, hosts, waiting = Ledger(trainer), trainer._pool.hosts, []
        hosts.vacancies = lambda: [waiting.pop()] if waiting else []
        begun = []
        begin = hosts.begin
        hosts.begin = lambda share, make: (begun.append(share), begin(share, make))[1]
        for share in (0, 2, 2, 1):
            trainer.train_iteration()
            skipped = trainer._pool.standing[share].share.skipped
            waiting.append(share)
            while trainer._pool.standing[share].share.skipped == skipped:
                result = trainer.train_iteration()
        for _ in range(2):
            result = trainer.train_iteration()
        assert begun == [0, 2, 2, 1]
        assert result.counters["workers_moved"] == 4
        assert "workers_lost" not in result.counters and "decisions_lost" not in result.counters
        assert len(ledger.seen) == len(set(ledger.seen))
        assert result.env_steps == len(ledger.seen) + trainer._pool.undelivered("main")
        assert not result.exact


def test_synchronous_shares_do_not_move():
    with trainer_of("CartPole-v1", PPO, 2) as trainer:
        trainer._pool.hosts.vacancies = lambda: [0]
        for _ in range(2):
            result = trainer.train_iteration()
        assert result.exact and "workers_moved" not in result.counters


def test_a_share_that_is_lost_while_it_should_move_is_counted_as_lost():
    sampling = {"asynchronous": True, "iteration_steps": 240}
    with trainer_of("CartPole-v1", PPO, 2, sampling=sampling) as trainer:
        trainer.train_iteration()
        trainer._pool.moving.add(1)
        trainer._pool.hosts.lose(1)
        for _ in range(3):
            result = trainer.train_iteration()
        assert result.counters["workers_lost"] == 1
        assert not trainer._pool.moving


# --- what is waited for -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("asynchronous", [False, True])
def test_rows_and_timers_say_what_was_waited_for(asynchronous):
    sampling = {"asynchronous": asynchronous, "iteration_steps": 240}
    with trainer_of("CartPole-v1", PPO, 3, sampling=sampling) as trainer:
        first, last = trainer.train_iteration().row(), trainer.train_iteration().row()
        tree = {row.label for row in trainer.timers.rows()}
    names = ["wait", "fetch", "join", "bytes"]
    assert all(0 < first[f"time/workers/{name}"] < last[f"time/workers/{name}"] for name in names)
    assert all(0 < last[f"time/workers/idle/{number}"] < 1 for number in range(3))
    assert last["time/workers/bytes"] > 2 * 3 * 64 * 4 * 4  # observations alone of two updates
    assert {"workers", "workers.wait", "workers.fetch", "workers.join"} <= tree


def test_a_run_of_one_process_waits_for_nobody():
    with trainer_of("CartPole-v1", PPO, 0) as trainer:
        assert not trainer.train_iteration().waits


# --- everything else that a worker does -------------------------------------------------------------------------------


class Heights(Callback):
    """Measures something at the end of an episode."""

    def on_episode_end(self, episode):
        episode.metrics["steps"] = float(episode.length)


def test_callbacks_hear_of_episodes_where_they_are_played():
    alone = trainer_of("CartPole-v1", PPO, 0, callbacks=[Heights()])
    many = trainer_of("CartPole-v1", PPO, 2, callbacks=[Heights()])
    with alone, many:
        assert alone.train_iteration().metrics == many.train_iteration().metrics != {}


def test_an_error_of_the_environment_is_that_of_one_worker():
    found = []
    for workers in (0, 2):
        sampling = {"warmup_steps": 0}
        with trainer_of(Blocks, PPO, workers, sampling=sampling, env_config={"fail": 5}) as trainer:
            with pytest.raises(EnvError) as raised:
                trainer.train_iteration()
        found.append((type(raised.value), str(raised.value).replace("environment 3", "environment 0")))
    assert found[0] == found[1]
    assert "the gears have stuck" in found[0][1]


def test_what_cannot_be_sent_is_named_down_to_the_attribute():
    with pytest.raises(ConfigError, match=r"env\.config\.fail\.lock: it cannot be sent"):
        trainer_of(Blocks, PPO, 2, env_config={"fail": Held(threading.Lock())})


class Held:
    """Holds something that cannot be pickled."""

    def __init__(self, lock):
        self.lock = lock


def test_settings_of_workers_that_are_not_there_are_said_to_do_nothing():
    with Trainer("CartPole-v1", PPO, cluster={"ray": "local"}, sampling={"asynchronous": True}) as trainer:
        (note,) = [note for note in trainer._notes if "sampling.workers = 0" in note]
    assert note.startswith("sampling.asynchronous, cluster.ray: without effect")
