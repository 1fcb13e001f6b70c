"""A run on two learners is the run on one with doubled minibatches, and refuses what learners cannot agree on."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from rookery import MultiAgentArena, PPOConfig, Trainer
from rookery.algorithms.a2c import A2CConfig
from rookery.algorithms.dqn import DQNConfig
from rookery.algorithms.impala import IMPALAConfig
from rookery.algorithms.td3 import TD3Config
from rookery.cluster.ranks import Ranks, meet
from rookery.core.errors import ConfigError

CLUSTER = {"cluster.learners": 2}


def on_two(folder, work):
    """What `work(ranks)` gives on each of two ranks, which are threads here."""

    def one(rank):
        return work(meet(folder / "ranks", rank, 2, timeout=60))

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(one, range(2)))


def weights(trainer):
    return torch.cat([value.flatten().double() for value in trainer.policies["main"].state_dict().values()])


def test_a_run_on_two_learners_is_that_on_one_with_the_doubled_minibatch(tmp_path):
    def run(ranks, size, config):
        cfg = PPOConfig(fragment_length=32, minibatch_size=size, epochs=2, lr=3e-4, model={"normalize_obs": True})
        settings = {"warmup_steps": 0, "num_envs": 4, "seed": 5, "config": config}
        with Trainer("CartPole-v1", cfg, ranks=ranks, **settings) as trainer:
            before = weights(trainer)
            results = [trainer.train_iteration() for _ in range(2)]
            return before, weights(trainer), results[0], results[1]

    # a minibatch is the whole batch: then the rows of a gradient step are the same, in whatever order
    before, after, *one = run(Ranks(), 128, {})
    for _, mine, *ranked in on_two(tmp_path, lambda ranks: run(ranks, 64, CLUSTER)):
        assert torch.linalg.vector_norm(mine - after) <= 1e-4 * torch.linalg.vector_norm(after - before)
        for ours, theirs in zip(ranked, one, strict=True):
            assert ours.env_steps == theirs.env_steps
            assert ours.episodes == theirs.episodes
            assert ours.return_mean == pytest.approx(theirs.return_mean)
            assert ours.policies["main"].decisions == theirs.policies["main"].decisions


@pytest.mark.parametrize("normalize", [True, False])
def test_a_run_of_a2c_on_two_learners_is_that_on_one(tmp_path, normalize):
    def run(ranks, config):
        cfg = A2CConfig(normalize_advantage=normalize, model={"normalize_obs": True})
        settings = {"warmup_steps": 0, "num_envs": 4, "seed": 5, "config": config}
        with Trainer("CartPole-v1", cfg, ranks=ranks, **settings) as trainer:
            before = weights(trainer)
            for _ in range(4):
                trainer.train_iteration()
            return before, weights(trainer)

    before, after = run(Ranks(), {})
    for _, mine in on_two(tmp_path, lambda ranks: run(ranks, CLUSTER)):
        assert torch.linalg.vector_norm(mine - after) <= 1e-4 * torch.linalg.vector_norm(after - before)


REPLAYING = {"learning_starts": 64, "batch_size": 16, "model": {"normalize_obs": True}}


@pytest.mark.parametrize(
    ("env", "cfg"), [("CartPole-v1", DQNConfig(**REPLAYING)), ("Pendulum-v1", TD3Config(**REPLAYING))]
)
def test_learners_from_replay_end_with_the_same_weights(tmp_path, env, cfg):
    def run(ranks):
        with Trainer(env, cfg, ranks=ranks, num_envs=4, seed=5, config=CLUSTER) as trainer:
            before = weights(trainer)
            assert trainer.train({"env_steps": 200}).env_steps == 200
            assert not torch.equal(before, weights(trainer))
            return weights(trainer)

    first, second = on_two(tmp_path, run)
    assert torch.equal(first, second)


class Two(Ranks):
    size = 2


@pytest.mark.parametrize(
    ("env", "cfg", "settings", "message"),
    [
        ("CartPole-v1", PPOConfig(), {"num_envs": 1}, r"num_envs = 1 copies are too few"),
        ("CartPole-v1", PPOConfig(), {"num_envs": 3}, r"write num_envs=4"),
        ("CartPole-v1", PPOConfig(batch_size=64), {}, r"leave it out and set fragment_length"),
        ("CartPole-v1", A2CConfig(batch_size=64), {}, r"leave it out and set fragment_length"),
        ("CartPole-v1", IMPALAConfig(), {}, r"of impala learners do not agree.*use PPO, A2C, DQN, SAC, TD3, DDPG"),
        ("CartPole-v1", PPOConfig(), {"staleness": 1}, r"sampling\.staleness"),
        (MultiAgentArena, PPOConfig(), {}, r"several agents"),
    ],
)
def test_what_learners_cannot_agree_on_is_refused(env, cfg, settings, message):
    with pytest.raises(ConfigError, match=r"cluster\.learners = 2.*" + message):
        Trainer(env, cfg, ranks=Two(), **{"num_envs": 4, "config": CLUSTER, **settings})


class Three(Ranks):
    size = 3


def test_as_many_learners_are_asked_for_as_there_are():
    with pytest.raises(ConfigError, match=r"cluster\.learners = 2: 3 learner\(s\) are there"):
        Trainer("CartPole-v1", PPOConfig(), ranks=Three(), config=CLUSTER)
