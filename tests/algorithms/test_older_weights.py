"""IMPALA and APPO: on their own rollouts they are A2C and PPO, on those of others they are corrected, and they resume
exactly.
"""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from rookery import (
    A2CConfig,
    APPOConfig,
    ConfigError,
    IMPALAConfig,
    ModelConfig,
    MultiAgentArena,
    PPOConfig,
    Trainer,
)
from rookery.algorithms.on_policy.appo import BatchRing, RewardedRollout
from rookery.algorithms.on_policy.ppo import PenaltyMinibatch
from rookery.core.batch import joined
from selection import slow

SAME = {
    "gamma": 0.95, "gae_lambda": 1.0, "fragment_length": 16, "rollout_size": None, "entropy_coef": 0.02, "lr": 3e-3,
    "max_grad_norm": 0.5,
}  # fmt: skip
LSTM = ModelConfig(memory={"kind": "lstm", "size": 8, "sequence_length": 6})
TASKS = {
    "choices": ("CartPole-v1", {}),
    "numbers": ("Pendulum-v1", {"scale_rewards": True, "model": ModelConfig(normalize_obs=True)}),
    "memory": ("StatelessCartPole", {"model": LSTM}),
}
IMPALA_AS_A2C = IMPALAConfig(**SAME, optimizer="rmsprop")
APPO_AS_PPO = APPOConfig(**SAME, clip=0.2, minibatch_size=32, target_every=1, batch_uses=1)


def played(cfg, env, staleness=0, iterations=6, **settings):
    """The weights that learn, actor and critic, after some updates."""
    cfg = cfg.replace(**settings)
    with Trainer(env, cfg, seed=3, num_envs=4, iteration_steps=64, config={"sampling.staleness": staleness}) as trainer:
        before = trainer.learners["main"].optimizer.flat.data.clone()
        for _ in range(iterations):
            trainer.train_iteration()
        assert trainer.learners["main"].updates >= iterations - 1
        return before, trainer.learners["main"].optimizer.flat.data.clone()


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize(
    ("mine", "other"),
    [
        (IMPALA_AS_A2C, A2CConfig(**SAME)),
        (APPO_AS_PPO, PPOConfig(**SAME, epochs=1, minibatch_size=32)),
    ],
    ids=["impala", "appo"],
)
def test_without_lag_impala_is_a2c_and_appo_is_ppo(task, mine, other):
    env, settings = TASKS[task]
    before, expected = played(other, env, **settings)
    start, found = played(mine, env, **settings)
    assert torch.equal(start, before)
    assert (expected - before).abs().max() > 1e-3
    assert torch.allclose(found, expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize("cfg", [IMPALA_AS_A2C, APPO_AS_PPO], ids=["impala", "appo"])
def test_bounds_are_what_the_settings_say_where_older_weights_play(cfg):
    first, again, other = (played(cfg, "CartPole-v1", 1, lr=3e-2, rho_bar=bound)[1] for bound in (1.0, 1.0, 2.0))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_impala_makes_its_steps_by_what_is_asked_for():
    ends = [
        played(IMPALAConfig(**SAME, optimizer=name), "CartPole-v1", iterations=2)[1] for name in ("adam", "rmsprop")
    ]
    assert not torch.allclose(*ends, atol=1e-4)


# --- APPO -------------------------------------------------------------------------------------------------------------


def appo(env="CartPole-v1", **settings):
    """A trainer with two batches of 4 x 16 decisions of one policy."""
    cfg = APPOConfig(**{**SAME, "normalize_values": False, "minibatch_size": 64, **settings})
    return Trainer(env, cfg, seed=5, num_envs=4, iteration_steps=64)


def test_the_target_network_follows_every_so_many_updates():
    with appo(target_every=3) as trainer:
        learner, equal = trainer.learners["main"], []
        ends = [learner.optimizer.flat.data.clone()]
        for _ in range(7):
            trainer.train_iteration()
            ends.append(learner.optimizer.flat.data.clone())
            equal.append([torch.equal(learner.target_data, end) for end in ends].index(True))
    assert equal == [0, 0, 0, 3, 3, 3, 6]


def test_ratios_and_values_are_those_of_the_target_network():
    with appo(target_every=1000, rho_bar=1.5, batch_uses=1) as trainer:
        learner = trainer.learners["main"]
        trainer.train_iteration()
        (rollout,) = trainer._pool.sample(10_000).rollouts.values()
        with torch.no_grad():
            learner.target_net.policy.head.linear.bias[0] += 3.0  # the target prefers the first choice
            obs = rollout.obs["obs"].flatten(0, 1)
            action = rollout.action.flatten()
            expected = learner.target_net.policy({"obs": obs}).log_prob(action)
        data = learner.targets(rollout)
    assert torch.allclose(data.logp, expected, atol=1e-6)
    ratio = (expected - rollout.logp.flatten()).exp()
    assert ratio.max() > 1.5 > 1.0 > ratio.min()
    assert torch.allclose(data.importance, ratio.clamp(max=1.5), atol=1e-5)


def test_the_penalty_is_on_the_divergence_from_the_target_network():
    with appo(kl_coef=0.5, target_every=1000, batch_uses=1) as trainer:
        learner = trainer.learners["main"]
        for _ in range(2):
            row = trainer.train_iteration().policies["main"].learning
        (rollout,) = trainer._pool.sample(10_000).rollouts.values()
        data = learner.targets(rollout)
        assert isinstance(data, PenaltyMinibatch)
        with torch.no_grad():
            expected = learner.target_net.policy({"obs": rollout.obs["obs"].flatten(0, 1)}).parameters
            now = learner.policy({"obs": rollout.obs["obs"].flatten(0, 1)}).parameters
    assert row["full_kl"] > 0
    assert torch.allclose(data.old, expected, atol=1e-6)
    assert not torch.allclose(data.old, now, atol=1e-4)


@pytest.mark.parametrize("env", ["CartPole-v1", slow("Pendulum-v1")])
def test_an_update_learns_from_the_new_batch_and_from_kept_ones(env):
    with appo(env, batch_uses=3, buffered_batches=2) as trainer:
        rows = [trainer.train_iteration().policies["main"] for _ in range(5)]
        assert [row.learning["kept_batches"] for row in rows] == [1, 2, 2, 2, 2]
        learner = trainer.learners["main"]
        (rollout,) = trainer._pool.sample(10_000).rollouts.values()
        kept = list(learner.ring.batches)
        action = learner.targets(rollout).action.view(16, 3, 4, -1).transpose(0, 1)
    drawn = [[torch.equal(part, batch.action.view(16, 4, -1)) for batch in (rollout, *kept)] for part in action]
    assert drawn[0] == [True, False, False]
    assert sorted(drawn[1:]) == [[False, False, True], [False, True, False]]


def a_batch(trainer):
    (rollout,) = trainer._pool.sample(10_000).rollouts.values()
    rollout = rollout.map(lambda _, tensor: tensor.clone())
    return RewardedRollout(**vars(rollout), rewards=rollout.reward.unsqueeze(-1))


def test_a_ring_gives_each_kept_batch_and_forgets_the_oldest():
    with appo() as trainer:
        batches = [a_batch(trainer) for _ in range(6)]
    ring, rng = BatchRing(), np.random.default_rng(0)
    seen = []
    for number, batch in enumerate(batches):
        given = ring.add_and_draw(batch, 1, 3, rng)
        assert given[0] is batch
        which = [k for b in given[1:] for k, other in enumerate(batches) if torch.equal(b.action, other.action)]
        assert all(number - 3 <= k < number for k in which)
        seen.append(len(which))
    assert seen == [0, 1, 1, 1, 1, 1]
    assert len(ring.batches) == 3
    before = rng.bit_generator.state
    assert len(ring.add_and_draw(batches[0], 0, 3, rng)) == 1
    assert ring.batches == []
    assert rng.bit_generator.state == before


@pytest.mark.parametrize("task", TASKS)
def test_targets_of_joined_batches_are_those_of_each(task):
    env, settings = TASKS[task]
    with appo(env, batch_uses=1, **settings) as trainer:
        learner, batches = trainer.learners["main"], []
        for steps in (16, 11):  # the second has shorter fragments
            batch = a_batch(trainer)
            batches.append(batch if steps == 16 else shortened(batch, steps))
        learner.value_scale.is_fixed = True
        alone = [learner.targets(batch) for batch in batches]
        together = learner.targets(joined(batches))
    for name in ("action", "logp", "advantage", "value_target", "value", "importance"):
        rows = torch.cat([getattr(data, name).float() for data in alone])
        found = getattr(together, name).float()
        assert len(found) == len(rows) == 4 * (16 + 11)
        # rows come in the order of time, then of fragments
        assert torch.allclose(found.sort(0).values, rows.sort(0).values, atol=1e-5), name
    assert (together.sequences is None) == (task != "memory")


def shortened(batch, steps):
    """The first decisions of each fragment; what was seen next is then what they would have decided on."""
    which = batch.boot_index[:, 0] < steps
    parts = batch.memory_every
    cut = batch.map(lambda name, t: t[:steps] if t.shape[:2] == batch.reward.shape else t)
    return replace(
        cut,
        last_obs={path: leaf[steps] for path, leaf in batch.obs.items()},
        final_obs={path: leaf[which] for path, leaf in batch.final_obs.items()},
        boot_index=batch.boot_index[which],
        length=batch.length.clamp(max=steps),
        memory=None if batch.memory is None else batch.memory[: -(-steps // parts)],
    )


def test_kept_batches_stay_as_they_were_played():
    with appo(batch_uses=2) as trainer:
        learner = trainer.learners["main"]
        trainer.train_iteration()
        (kept,) = learner.ring.batches
        before = kept.obs["obs"].clone(), kept.rewards.clone()
        trainer.train_iteration()
        assert learner.ring.batches[0] is kept
        assert torch.equal(kept.obs["obs"], before[0])
        assert torch.equal(kept.rewards, before[1])


@pytest.mark.parametrize("staleness", [0, 1])
def test_six_iterations_equal_three_and_three_more(staleness, tmp_path):
    cfg = APPOConfig(fragment_length=10, rollout_size=60, minibatch_size=30, buffered_batches=3, target_every=4)
    settings = {"num_envs": 3, "iteration_steps": 120, "seed": 4, "config": {"sampling.staleness": staleness}}
    with Trainer("CartPole-v1", cfg, **settings) as through:
        through.train({"iterations": 4})
        wanted = through.learners["main"].optimizer.flat.data.clone()
    with Trainer("CartPole-v1", cfg, **settings) as first:
        first.train({"iterations": 2})
        place = first.save(tmp_path / "half")
    with Trainer.load(place) as second:
        assert len(second.learners["main"].ring.batches) == 3
        second.train({"iterations": 4})
        assert torch.equal(second.learners["main"].optimizer.flat.data, wanted)


def test_bounds_must_be_above_nothing():
    for cls in (IMPALAConfig, APPOConfig):
        with pytest.raises(ConfigError, match="rho_bar"):
            cls(rho_bar=0.0)
    with pytest.raises(ConfigError, match="batch_uses"):
        APPOConfig(batch_uses=0)
    assert math.isclose(IMPALAConfig().rho_bar, 1.0)


# --- asynchronous playing ---------------------------------------------------------------------------------------------


def test_what_asynchronous_workers_play_is_corrected_with_and_without_memory():
    policies = {
        "impala": IMPALAConfig(fragment_length=10, rollout_size=60, lr=1e-2, model=LSTM),
        "appo": APPOConfig(fragment_length=10, rollout_size=60, minibatch_size=30, lr=1e-2, target_every=1),
    }
    sampling = {"num_envs": 6, "workers": 3, "asynchronous": True, "iteration_steps": 300, "max_requests_in_flight": 4}
    mapping = {"agent1": "impala", "agent2": "appo"}
    more = {"policies": policies, "policy_mapping": mapping, "cluster": {"ray": "here"}}
    with Trainer(MultiAgentArena, sampling=sampling, seed=1, **more) as trainer:
        before = {name: learner.optimizer.flat.data.clone() for name, learner in trainer.learners.items()}
        result = [trainer.train_iteration() for _ in range(4)][-1]
        for name, learner in trainer.learners.items():
            told = result.policies[name]
            assert told.lag_max >= 2
            assert told.learning["importance_std"] > 1e-4
            assert not torch.equal(learner.optimizer.flat.data, before[name])
