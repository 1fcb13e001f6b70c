"""`trainer.local_replay_buffer`, and replay buffers that scripts construct."""

import pickle

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete

from rookery.core.errors import ConfigError, RookeryError
from rookery.core.spaces.arrays import action_spec, obs_spec
from rookery.replay.buffer import ReplayBuffer, ReplayConfig
from rookery_rllib.batch.sample_batch import MultiAgentBatch, SampleBatch
from rookery_rllib.execution.replay_buffers import (
    BatchRing,
    LocalReplayBuffer,
    PrioritizedReplayBuffer,
    SimpleReplayBuffer,
)
from rookery_rllib.execution.trainer_replay import DrawSettings, StoredDecisions
from rookery_rllib.model.preprocessors import RowPreprocessor
from rookery_rllib.trainer.trainers import DDPGTrainer, DQNTrainer, PPOTrainer, SACTrainer, TD3Trainer

NAME = "default_policy"
SMALL = {"num_workers": 0, "learning_starts": 20, "train_batch_size": 16, "timesteps_per_iteration": 60, "seed": 5}
OF_DQN = {**SMALL, "env": "CartPole-v1", "model": {"fcnet_hiddens": [8]}, "hiddens": [8], "buffer_size": 500}


def episode(length, *, first=0, done=True, **more):
    """Rows of one episode whose observations count up from `first`."""
    obs = np.arange(first, first + length, dtype=np.float32)[:, None]
    ends = np.zeros(length, bool)
    ends[-1] = done
    return SampleBatch(
        obs=obs, new_obs=obs + 1, actions=np.arange(length) % 2, rewards=np.ones(length, np.float32), dones=ends, **more
    )


def stored(space=None, *, n_step=1, kind="uniform", capacity=64):
    space = Box(-1000.0, 1000.0, (1,)) if space is None else space
    cfg, acts = ReplayConfig(kind=kind, capacity=capacity), action_spec(Discrete(2))
    buffer = ReplayBuffer(
        obs_spec(space, Discrete(2)), acts, cfg, np.random.default_rng(0), memory_size=0, memory_every=1
    )
    return StoredDecisions(NAME, buffer, RowPreprocessor(space), DrawSettings(n_step, 0.5, 0.4, 8, 0))


# --- of a trainer -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "config"),
    [
        (DQNTrainer, OF_DQN),
        (SACTrainer, {**SMALL, "env": "Pendulum-v1"}),
        (DDPGTrainer, {**SMALL, "env": "Pendulum-v1", "exploration_config": {"random_timesteps": 20}}),
        (TD3Trainer, {**SMALL, "env": "Pendulum-v1", "exploration_config": {"random_timesteps": 20}}),
    ],
)
def test_a_trainer_shows_its_replay(kind, config):
    trainer = kind(config={**config, "learning_starts": 40})
    memory = trainer.local_replay_buffer
    assert isinstance(memory, LocalReplayBuffer)
    assert memory.replay() is None
    trainer.train()
    assert trainer.local_replay_buffer is memory
    batch = memory.replay()
    assert isinstance(batch, MultiAgentBatch) and batch.count == 16
    rows = batch.policy_batches[NAME]
    assert rows["obs"].shape == rows["new_obs"].shape == (16, *trainer.get_policy().observation_space.shape)
    held = len(memory.replay_buffers[NAME])
    told = memory.stats()
    assert told[f"policy_{NAME}"]["num_entries"] == told[f"policy_{NAME}"]["added_count"] == held >= 40
    memory.add_batch(rows)
    memory.update_priorities({NAME: (rows["batch_indexes"], np.ones(16))})
    assert len(memory.replay_buffers[NAME]) == held + 16
    assert {"add_batch_time_ms", "replay_time_ms", "update_priorities_time_ms"} <= memory.stats().keys()


def test_a_trainer_without_replay_shows_none():
    trainer = PPOTrainer(config={"env": "CartPole-v1", "num_workers": 0, "model": {"fcnet_hiddens": [4]}})
    assert trainer.local_replay_buffer is None


def test_the_state_of_a_replay_goes_from_one_trainer_to_another():
    trainer = DQNTrainer(config={**OF_DQN, "n_step": 3})
    trainer.train()
    state = pickle.loads(pickle.dumps(trainer.local_replay_buffer.get_state()))
    other = DQNTrainer(config={**OF_DQN, "n_step": 3, "seed": 6})
    other.local_replay_buffer.set_state(state)
    assert len(other.local_replay_buffer.replay_buffers[NAME]) == len(trainer.local_replay_buffer.replay_buffers[NAME])
    copied = pickle.loads(pickle.dumps(trainer.local_replay_buffer))
    one, two, three = (
        memory.replay().policy_batches[NAME]
        for memory in (trainer.local_replay_buffer, other.local_replay_buffer, copied)
    )
    for name in one:
        assert np.array_equal(one[name], two[name]) and np.array_equal(one[name], three[name])
    other.train()
    smaller = DQNTrainer(config={**OF_DQN, "buffer_size": 20})
    smaller.local_replay_buffer.set_state(state)
    assert len(smaller.local_replay_buffer.replay_buffers[NAME]) == 20
    foreign = DQNTrainer(config={**OF_DQN, "env": "MountainCar-v0"})
    with pytest.raises(RookeryError, match="only rows of an environment with the same spaces"):
        foreign.local_replay_buffer.set_state(state)


def test_rows_that_a_script_samples_are_stored_as_the_trainer_would():
    trainer, other = DQNTrainer(config={**OF_DQN, "n_step": 1}), DQNTrainer(config={**OF_DQN, "n_step": 1})
    worker, memory = trainer.workers.local_worker(), trainer.local_replay_buffer
    for _ in range(12):
        memory.add_batch(worker.sample())
    other.rookery.collect(env_steps=48)
    mine, theirs = (each.rookery.replays[NAME].own for each in (trainer, other))
    size = min(len(mine), len(theirs))
    assert size > 30
    for name in ("action", "reward", "terminated"):
        assert np.array_equal(getattr(mine, name)[:size], getattr(theirs, name)[:size])
    assert np.array_equal(mine.observations.gather_rows(np.arange(size))["obs"],
                          theirs.observations.gather_rows(np.arange(size))["obs"])  # fmt: skip


def test_sampling_ends_the_random_start_also_where_rows_go_elsewhere():
    trainer = DQNTrainer(config={**OF_DQN, "exploration_config": {"final_epsilon": 0.0, "epsilon_timesteps": 1}})
    worker, head = trainer.workers.local_worker(), trainer.rookery.learners[NAME].policy.head
    worker.sample()
    assert float(head.epsilon) == 1.0
    while trainer.rookery.env_steps < 24:
        worker.sample()
    worker.sample()
    assert float(head.epsilon) == 0.0
    assert len(trainer.local_replay_buffer.replay_buffers[NAME]) == 0


def test_unknown_policies_are_named():
    trainer = DQNTrainer(config=OF_DQN)
    with pytest.raises(ConfigError, match="no policy 'other' with replay; there are default_policy"):
        trainer.local_replay_buffer.add_batch(MultiAgentBatch({"other": episode(2)}, 2))


# --- rows of a script in Rookery's buffers ----------------------------------------------------------------------------


def test_rows_of_an_episode_follow_each_other():
    memory = stored(n_step=3)
    memory.add(episode(5, eps_id=np.zeros(5, int), agent_index=np.zeros(5, int), t=np.arange(5)))
    rows = memory.sample(200)
    first = rows["obs"][:, 0].astype(int)
    wanted = {0: (1.75, 3, 0.125), 1: (1.75, 4, 0.125), 2: (1.75, None, 0.0), 3: (1.5, None, 0.0), 4: (1.0, None, 0.0)}
    assert set(first) == set(wanted)
    for row, at in enumerate(first):
        reward, after, discount = wanted[at]
        assert (rows["rewards"][row], rows["discount"][row]) == (reward, discount)
        assert rows["dones"][row] == (discount == 0.0)
        assert after is None or rows["new_obs"][row, 0] == after


def test_rows_of_different_episodes_do_not():
    memory = stored(n_step=3)
    memory.add(SampleBatch.concat_samples([episode(2, first=0, done=False), episode(2, first=10, done=False)]))
    memory.add(episode(2, first=2, done=False))  # of another batch: not known to follow
    rows = memory.sample(300)
    ends = {(int(row[0]), int(after[0])) for row, after in zip(rows["obs"], rows["new_obs"], strict=True)}
    assert ends == {(0, 2), (1, 2), (10, 12), (11, 12), (2, 4), (3, 4)}
    apart = episode(
        4, eps_id=np.array([0, 0, 1, 1]), agent_index=np.zeros(4, int), t=np.array([0, 1, 0, 1]), done=False
    )
    memory = stored(n_step=3)
    memory.add(apart)
    rows = memory.sample(300)
    ends = {(int(row[0]), int(after[0])) for row, after in zip(rows["obs"], rows["new_obs"], strict=True)}
    assert ends == {(0, 2), (1, 2), (2, 4), (3, 4)}


def test_the_oldest_rows_are_overwritten():
    memory = stored(capacity=4)
    memory.add(episode(6))
    assert len(memory) == 4
    assert set(memory.sample(100)["obs"][:, 0]) == {2.0, 3.0, 4.0, 5.0}


def test_priorities_decide_what_is_drawn():
    memory = stored(kind="prioritized")
    memory.add(episode(4), weight=1e-9)
    memory.add(episode(4, first=100), weight=1.0)
    rows = memory.sample(100)
    assert (rows["obs"] >= 100).mean() > 0.9
    memory.update_priorities(np.arange(4), np.full(4, 1e4))
    assert (memory.sample(100)["obs"] < 100).mean() > 0.9
    assert memory.sample(50, beta=0.0)["weights"].tolist() == [1.0] * 50


@pytest.mark.parametrize("shape", [(4, 20, 20), (20, 20, 3)])
def test_images_come_back_as_they_were(shape):
    rng, memory = np.random.default_rng(0), stored(Box(0, 255, shape, np.uint8))
    frames = rng.integers(0, 256, (12, *shape)).astype(np.uint8)
    batch = SampleBatch(obs=frames[:-1], new_obs=frames[1:], actions=np.arange(11) % 2, rewards=np.arange(11.0),
                        dones=np.zeros(11, bool))  # fmt: skip
    memory.add(batch)
    rows = memory.sample(40)
    at = rows["rewards"].astype(int)
    assert np.array_equal(rows["obs"], frames[at])
    assert np.array_equal(rows["new_obs"], frames[at + 1])


def test_nested_observations_are_preprocessed_rows():
    space = Dict({"place": Discrete(3), "speed": Box(-1.0, 1.0, (2,))})
    memory, rows = stored(space), RowPreprocessor(space)
    seen = rows.rows({"place": np.array([0, 2, 1]), "speed": np.eye(3, 2, dtype=np.float32)})
    memory.add(SampleBatch(obs=seen, new_obs=seen[::-1], actions=[0, 1, 1], rewards=[0.0, 1.0, 2.0], dones=[False] * 3))
    drawn = memory.sample(30)
    at = drawn["rewards"].astype(int)
    assert np.array_equal(drawn["obs"], seen[at]) and np.array_equal(drawn["new_obs"], seen[::-1][at])


def test_what_cannot_be_stored_says_why():
    with pytest.raises(ConfigError, match="no column actions, rewards, new_obs, dones"):
        stored().add(SampleBatch(obs=np.zeros((1, 1))))
    with pytest.raises(ConfigError, match="windows of n_step = 3 decisions"):
        stored(n_step=3).add(episode(2, discount=np.ones(2, np.float32)))
    stored(n_step=3).add(SampleBatch({name: torch.from_numpy(column) for name, column in episode(2).items()}))


# --- of a script ------------------------------------------------------------------------------------------------------


def test_a_ring_keeps_the_latest_rows():
    ring = BatchRing(4)
    for row in episode(6).timeslices(1):
        ring.add(row)
    assert len(ring) == 4
    assert set(ring.sample(100)["obs"][:, 0]) == {2.0, 3.0, 4.0, 5.0}
    told = ring.stats(debug=True)
    assert (told["added_count"], told["sampled_count"], told["num_entries"]) == (6, 100, 4)
    assert told["est_size_bytes"] > 0 and told["evicted_hit_count"] == 2
    with pytest.raises(ValueError, match="no rows"):
        ring.add(SampleBatch())


def test_a_prioritized_ring_weighs_what_it_draws():
    ring = PrioritizedReplayBuffer(8, alpha=1.0)
    for number, row in enumerate(episode(4).timeslices(1)):
        ring.add(row, weight=1.0 if number else 3.0)
    rows = ring.sample(4000, beta=1.0)
    often = (rows["obs"][:, 0] == 0.0).mean()
    assert 0.45 < often < 0.55  # 3 of 6
    assert np.allclose(np.unique(rows["weights"]), [1 / 3, 1.0])
    assert np.array_equal(rows["batch_indexes"], rows["obs"][:, 0].astype(int))
    ring.update_priorities([0, 1], [1e-6, 1e3])
    assert (ring.sample(100, beta=0.0)["obs"][:, 0] == 1.0).mean() > 0.9
    with pytest.raises(ValueError, match="above 0"):
        ring.update_priorities([0], [0.0])
    with pytest.raises(ValueError, match="of items that the buffer has"):
        ring.update_priorities([7], [1.0])
    with pytest.raises(ValueError, match="2 priorities for 1 items"):
        ring.update_priorities([0], [1.0, 2.0])
    assert "reprio_count" in ring.stats(debug=True)


def test_a_buffer_of_a_script_has_one_ring_for_each_policy():
    memory = LocalReplayBuffer(learning_starts=6, buffer_size=20, replay_batch_size=3, num_shards=2)
    assert LocalReplayBuffer.get_instance_for_testing() is memory
    assert (memory.replay_starts, memory.buffer_size) == (3, 10)
    memory.add_batch(MultiAgentBatch({"one": episode(2), "two": episode(2, first=10)}, 2))
    assert memory.replay() is None
    memory.add_batch(episode(1))
    batch = memory.replay()
    assert set(batch.policy_batches) == {"one", "two", NAME}
    assert all(part.count == 3 for part in batch.policy_batches.values())
    memory.update_priorities({"one": (np.array([0, 1]), np.array([-100.0, 0.0]))})  # sizes of errors
    assert (memory.replay_buffers["one"].sample(100, beta=0.4)["obs"][:, 0] == 0.0).mean() > 0.9
    assert set(memory.stats()) >= {"policy_one", "policy_two", "add_batch_time_ms"}


def test_weights_of_rows_are_their_first_priorities():
    memory = LocalReplayBuffer(learning_starts=0, buffer_size=20, replay_batch_size=100)
    memory.add_batch(episode(4, weights=np.array([1e-9, 1e-9, 5.0, 1e-9])))
    assert (memory.replay().policy_batches[NAME]["obs"][:, 0] == 2.0).mean() > 0.9


def test_a_buffer_of_a_script_is_pickled_and_restored():
    memory = LocalReplayBuffer(learning_starts=0, buffer_size=20, replay_batch_size=5)
    memory.add_batch(episode(4, weights=np.array([1.0, 2.0, 3.0, 4.0])))
    restored = LocalReplayBuffer(learning_starts=0, buffer_size=20, replay_batch_size=5)
    restored.set_state(pickle.loads(pickle.dumps(memory.get_state())))
    copies = [pickle.loads(pickle.dumps(memory)), restored]
    drawn = []
    for each in (memory, *copies):
        np.random.seed(3)
        drawn.append(each.replay().policy_batches[NAME])
    for other in drawn[1:]:
        assert all(np.array_equal(drawn[0][name], other[name]) for name in drawn[0])
    copies[0].add_batch(episode(2, first=50))
    assert (len(copies[0].replay_buffers[NAME]), len(memory.replay_buffers[NAME])) == (6, 4)


def test_sequences_and_steps_of_all_policies_together():
    memory = LocalReplayBuffer(learning_starts=0, buffer_size=50, replay_batch_size=8, replay_sequence_length=4)
    assert memory.replay_batch_size == 2
    batch = episode(8, seq_lens=np.array([4, 4]), state_in_0=np.zeros((2, 3), np.float32), done=False)
    memory.add_batch(batch)
    drawn = memory.replay().policy_batches[NAME]
    assert drawn["seq_lens"].tolist() == [4, 4]
    assert drawn["weights"].shape == (8,)
    memory = LocalReplayBuffer(learning_starts=0, buffer_size=50, replay_batch_size=2, replay_mode="lockstep")
    named = {"eps_id": np.zeros(3, int), "t": np.arange(3), "agent_index": np.zeros(3, int)}
    memory.add_batch(MultiAgentBatch({"one": episode(3, **named), "two": episode(3, first=10, **named)}, 3))
    parts = memory.replay().policy_batches
    assert np.array_equal(parts["one"]["obs"] + 10, parts["two"]["obs"])
    with pytest.raises(ValueError, match="replay_mode = 'other'"):
        LocalReplayBuffer(replay_mode="other")


def test_whole_batches_are_kept_too():
    simple = SimpleReplayBuffer(2)
    assert simple.replay() is None
    for first in (0, 10, 20):
        simple.add_batch(episode(1, first=first))
    assert {int(simple.replay()["obs"][0, 0]) for _ in range(50)} == {10, 20}
    nothing = SimpleReplayBuffer(0)
    nothing.add_batch(episode(1))
    assert nothing.replay() is None
