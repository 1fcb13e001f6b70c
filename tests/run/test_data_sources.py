"""Training on chosen data: settings choose episodes, rewards and parts of batches, and respect a limit of RAM."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from gymnasium import spaces

from rookery import BCConfig, DQNConfig, IQLConfig, TD3BCConfig, Trainer, import_replay
from rookery.core.errors import ConfigError

ACTIONS = spaces.Box(-1, 1, (1,), np.float32)


def data_in(path, *, episodes=10, length=20, seen=0.0, reward=1.0):
    """Episodes of a constant that is seen; the k-th earns k times the reward at its end."""
    number = episodes * length
    rng = np.random.default_rng(0)
    ends = np.zeros(number, bool)
    ends[length - 1 :: length] = True
    earned = np.zeros(number, np.float32)
    earned[length - 1 :: length] = reward * np.arange(episodes)
    obs = np.stack((np.full(number, seen), rng.normal(size=number)), axis=1).astype(np.float32)
    arrays = {"obs": obs, "actions": rng.uniform(-1, 1, (number, 1)).astype(np.float32), "rewards": earned}
    np.savez(path.with_suffix(".npz"), **arrays, truncated=ends)
    made_of = {"observation_space": spaces.Box(-np.inf, np.inf, (2,), np.float32), "action_space": ACTIONS}
    import_replay(path.with_suffix(".npz"), path, **made_of)
    return str(path)


def small(cls, **settings):
    return cls(model={"hidden": (8,)}, batch_size=16, **settings)


def test_settings_choose_episodes_and_make_rewards_anew(tmp_path):
    data = data_in(tmp_path / "a")
    cfg = small(IQLConfig, replay={"start_from": (data,), "select": {"best": 0.2}, "relabel": {"scale": 0.5}})
    with Trainer(None, cfg, seed=0) as trainer:
        buffer = trainer.replays["main"].buffer
        assert len(buffer) == 40
        assert buffer.capacity == 100_040  # what was chosen, and room to play on
        assert sorted(set(buffer.reward[:40].tolist())) == [0.0, 4.0, 4.5]
        trainer.learn(3)


def test_weights_of_several_sources_hold_where_data_are_all_there_is(tmp_path):
    one, other = data_in(tmp_path / "a", seen=1.0), data_in(tmp_path / "b", seen=2.0, episodes=3)
    with Trainer(None, small(IQLConfig), replay=[f"{one}*0.25", f"{other}*0.75"], seed=0) as trainer:
        mixture = trainer.replays["main"].buffer
        drawn = np.concatenate([trainer.replays["main"].sample(16, n_step=1, gamma=0.9, beta=0).obs["obs"][:, 0]
                                for _ in range(10)])  # fmt: skip
        assert [(drawn == seen).sum() for seen in (1.0, 2.0)] == [40, 120]
        assert [len(buffer) for buffer in mixture.buffers] == [0, 200, 60]
        trainer.learn(3)
    cfg = small(IQLConfig, replay={"select": {"last_episodes": 2}})
    with Trainer(None, cfg, replay=[f"{one}*0.5", f"{other}*0.5"], seed=0) as trainer:
        assert [len(buffer) for buffer in trainer.replays["main"].buffer.buffers] == [0, 40, 40]
    with pytest.raises(ConfigError, match="uses all of its data equally, and draws no part of a batch from each"):
        Trainer(None, BCConfig(), replay=[f"{one}*0.5"], seed=0)


def test_observations_are_normalized_by_the_statistics_of_the_data_that_are_taken(tmp_path):
    one, other = data_in(tmp_path / "a", seen=4.0), data_in(tmp_path / "b", seen=8.0)
    cfg = small(TD3BCConfig, replay={"start_from": (one, other), "select": {"last_episodes": 5}})
    with Trainer(None, cfg, seed=0) as trainer:
        trainer.learn(2)
        normalizer = trainer.policies["main"].normalizer
        mean = [part for name, part in normalizer.state_dict().items() if "mean" in name][0].flatten()
        assert float(mean[0]) == pytest.approx(6.0)
        trainer.learn(2)
        assert float(mean[0]) == pytest.approx(6.0)


def test_data_without_episodes_that_are_good_enough_are_refused(tmp_path):
    data = data_in(tmp_path / "a")
    cfg = small(IQLConfig, replay={"start_from": (data,), "select": {"min_return": 100.0}})
    with pytest.raises(ConfigError, match="no episode has a return of 100 or more, the best one has 9"):
        Trainer(None, cfg, seed=0)


def test_a_run_with_chosen_data_and_a_mixture_resumes_exactly(tmp_path):
    data = data_in(tmp_path / "a")
    replay = {"mix": {data: 0.5}, "start_from": (data,), "select": {"best": 0.5}, "relabel": {"shift": 1.0}}
    cfg = small(IQLConfig, replay=replay)

    def weights(trainer):
        return np.concatenate([part.detach().numpy().ravel() for part in trainer.policies["main"].parameters()])

    with Trainer(None, cfg, seed=0) as trainer:
        trainer.learn(8)
        whole = weights(trainer)
    with Trainer(None, cfg, seed=0, run_dir=tmp_path / "run") as trainer:
        trainer.learn(4)
    with Trainer.load(tmp_path / "run", resume=True) as trainer:
        assert len(trainer.replays["main"].own) == 100
        trainer.learn(4)
        np.testing.assert_array_equal(weights(trainer), whole)


def test_functions_of_rewards_in_files_of_others_are_not_run():
    from rookery.run.checks.trusted_code import named_code

    (named,) = named_code({"algorithm.replay.relabel.function": "elsewhere:rewards"})
    assert named.name == "elsewhere:rewards" and named.kind.label == "a function that gives rewards"


def test_rows_in_files_come_to_the_same_weights(tmp_path):
    data = data_in(tmp_path / "a", episodes=40)
    found = []
    for memory_mb in (None, 1):
        cfg = small(TD3BCConfig, replay={"start_from": (data,), "memory_mb": memory_mb})
        with Trainer(None, cfg, seed=0) as trainer:
            assert (trainer.replays["main"].buffer.memmaps.in_files > 0) == (memory_mb is not None)
            trainer.learn(20)
            found.append([part.detach().numpy().copy() for part in trainer.policies["main"].parameters()])
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


def test_runs_that_play_can_keep_rows_in_files(tmp_path):
    cfg = small(DQNConfig, learning_starts=50, train_every=4, replay={"capacity": 30_000, "memory_mb": 1})
    with Trainer("CartPole-v1", cfg, num_envs=2, seed=0, run_dir=tmp_path / "run") as trainer:
        trainer.train({"env_steps": 200})
        assert trainer.replays["main"].buffer.memmaps.in_files > 0
    with Trainer.load(tmp_path / "run", resume=True) as trainer:
        assert len(trainer.replays["main"].buffer) == 200
        trainer.train({"env_steps": 300})


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="there is no /proc")
def test_data_larger_than_the_limit_take_no_more_ram(tmp_path):
    script = Path(__file__).parents[2] / "benchmarks" / "studies" / "data_memory.py"
    words = [sys.executable, str(script), "--gigabytes", "0.4", "--limit", "50", "--folder", str(tmp_path)]
    told = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    grown = {line.split(":")[0]: float(line.split()[-2]) for line in told.splitlines() if line.endswith(" MB")}
    assert grown["training"] <= 100
    assert grown["import"] <= 250  # blocks of the file and segments of replay, whatever the limit
