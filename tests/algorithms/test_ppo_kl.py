"""PPO's penalty on the divergence from the old policy, with the coefficient that adapts once an update."""

import math

import numpy as np
import pytest
import torch
from gymnasium import spaces

from rookery import PPOConfig
from rookery.algorithms.on_policy.ppo import PPO, Outputs, PenaltyMinibatch, ppo_loss
from rookery.core.batch import Minibatch, Rollout
from rookery.core.seeding import Streams
from rookery.core.spaces.arrays import action_spec, obs_spec
from rookery.models.distributions import Categorical
from rookery.policies.policy import Policy

VECTOR = spaces.Box(-np.inf, np.inf, (2,), np.float32)
THREE = spaces.Discrete(3)
PARTS = spaces.Tuple((spaces.MultiDiscrete([2, 3]), spaces.MultiBinary(2), spaces.Box(-1, 1, (1,))))


def learner(cfg, action=THREE, seed=0):
    generator = torch.Generator().manual_seed(seed)
    policy = Policy(obs_spec(VECTOR, action), action_spec(action), cfg.model, generator=generator)
    return PPO(policy, cfg, Streams(seed), "main")


def played(ppo, T=32, F=4, seed=1):
    """A rollout by the learner's own policy of random observations and rewards."""
    generator = torch.Generator().manual_seed(seed)
    obs = torch.randn(T, F, 2, generator=generator)
    noise = torch.rand(T * F, ppo.policy.noise.width, generator=generator)
    with torch.no_grad():
        action, logp = ppo.policy.act({"obs": obs.flatten(0, 1)}, noise)
    numbers = torch.zeros(F, dtype=torch.long)
    return Rollout(
        obs={"obs": obs},
        action=action.clone().unflatten(0, (T, F)),
        logp=logp.clone().unflatten(0, (T, F)),
        reward=torch.randn(T, F, generator=generator),
        terminated=torch.zeros(T, F, dtype=torch.bool),
        truncated=torch.zeros(T, F, dtype=torch.bool),
        last_obs={"obs": obs[-1]},
        final_obs={"obs": obs[0, :0]},
        boot_index=torch.zeros(0, 2, dtype=torch.long),
        slot=torch.arange(F),
        clock=numbers,
        length=torch.full((F,), T),
        first=torch.ones(F, dtype=torch.bool),
        version=numbers,
    )


def test_the_coefficient_follows_rllibs_rule():
    # above 2 targets times 1.5, below half of one times 0.5, else as it is; unknown (every step skipped): as it is
    ppo = learner(PPOConfig(kl_coef=0.2, kl_target=0.01))
    seen, expected, coef = [], [], 0.2
    for kl in (0.05, 0.021, 0.02, 0.01, 0.005, 0.0049, 0.0, None, 3.0):
        seen += ppo.adapt_penalty(kl).values()
        expected.append(coef)
        coef = coef * np.select([(kl or 0.01) > 0.02, (kl if kl is not None else 0.01) < 0.005], [1.5, 0.5], 1.0)
    assert seen == pytest.approx(expected)  # what is reported is what was in force
    assert ppo.kl_coef == pytest.approx(coef) == pytest.approx(0.2 * 1.5 * 1.5 * 0.5 * 0.5 * 1.5)


def test_the_penalty_is_the_coefficient_times_the_full_divergence_from_old_to_new():
    old = np.array([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]])
    new = np.array([[0.3, 0.3, 0.4], [0.1, 0.1, 0.8]])
    kl = (old * np.log(old / new)).sum(1).mean()
    logits = torch.tensor(new).log().requires_grad_()
    zeros = torch.zeros(2, dtype=torch.float64)
    rows = {"logp": zeros, "advantage": zeros, "value_target": zeros.unsqueeze(1), "value": zeros.unsqueeze(1)}
    plain = Minibatch(obs={}, action=torch.tensor([0, 2]), **rows)
    batch = PenaltyMinibatch(**vars(plain), old=torch.tensor(old).log(), kl_coef=torch.full((2,), 0.7))
    cfg = PPOConfig(kl_coef=0.2)
    outputs = Outputs(Categorical(logits), zeros.unsqueeze(1))
    loss, metrics = ppo_loss(outputs, batch, cfg)
    without, others = ppo_loss(outputs, plain, cfg)
    assert metrics["full_kl"].mean().item() == pytest.approx(kl)
    assert (loss - without).item() == pytest.approx(0.7 * kl)
    assert metrics.keys() - others.keys() == {"full_kl"}
    # d KL(p || softmax(z)) / dz = softmax(z) - p, of the mean over 2 rows
    (gradient,) = torch.autograd.grad(loss - without, logits)
    assert gradient.numpy() == pytest.approx(0.7 * (new - old) / 2)


@pytest.mark.parametrize("action", [THREE, PARTS], ids=["choice", "parts"])
def test_the_old_distribution_is_that_before_the_update(action):
    ppo = learner(PPOConfig(kl_coef=0.2), action)
    data = ppo.targets(played(ppo))
    assert isinstance(data, PenaltyMinibatch)
    assert data.kl_coef.tolist() == pytest.approx([0.2] * 128)
    assert not data.old.requires_grad
    rows = data.map(lambda tensor: tensor[5:9])
    assert abs(ppo_loss(ppo.net(rows), rows, ppo.cfg)[1]["full_kl"].mean().item()) < 1e-6
    with torch.no_grad():
        ppo.policy.head.linear.weight.mul_(100)
    assert ppo_loss(ppo.net(rows), rows, ppo.cfg)[1]["full_kl"].mean() > 1e-3


@pytest.mark.parametrize(("lr", "factor"), [(1e-2, 1.5), (1e-9, 0.5)])
def test_the_coefficient_adapts_once_an_update_and_not_once_a_minibatch(lr, factor):
    ppo = learner(PPOConfig(kl_coef=0.3, kl_target=0.001, lr=lr, epochs=4, minibatch_size=32))
    used = []

    def watched(outputs, batch, cfg):
        used.append(batch.kl_coef.unique().tolist())
        return ppo_loss(outputs, batch, cfg)

    ppo.loss = watched
    row = ppo.training_step(played(ppo))
    assert len(used) == 16
    assert all(coef == pytest.approx([0.3]) for coef in used)
    assert row["kl_coef"] == 0.3
    assert ppo.kl_coef == pytest.approx(0.3 * factor)
    used.clear()
    assert ppo.training_step(played(ppo, seed=2))["kl_coef"] == pytest.approx(0.3 * factor)
    assert all(coef == pytest.approx([0.3 * factor]) for coef in used)


def test_a_strong_penalty_keeps_the_policy_near_its_old_self():
    def moved(kl_coef):
        ppo = learner(PPOConfig(kl_coef=kl_coef, lr=3e-3, clip=9.0, entropy_coef=0.0))
        return ppo.training_step(played(ppo))["full_kl"]

    assert moved(30.0) < 0.2 * moved(1e-9)


def test_without_a_penalty_nothing_of_it_is_there():
    ppo, other = learner(PPOConfig(epochs=2)), learner(PPOConfig(epochs=2, kl_target=7.0))
    assert type(learner(PPOConfig()).targets(played(ppo))) is Minibatch
    row = ppo.training_step(played(ppo))
    assert not {"full_kl", "kl_coef"} & row.keys()
    other.training_step(played(other))
    assert torch.equal(ppo.optimizer.flat.data, other.optimizer.flat.data)


def test_the_coefficient_is_part_of_what_is_saved():
    cfg = PPOConfig(kl_coef=0.3, lr=1e-9, epochs=1)
    ppo, other = learner(cfg), learner(cfg, seed=5)
    ppo.training_step(played(ppo))
    assert ppo.kl_coef == 0.15
    other.load_state_dict(ppo.state_dict())
    assert other.kl_coef == 0.15
    for one in (ppo, other):
        one.training_step(played(one, seed=3))
    assert ppo.kl_coef == other.kl_coef == 0.075
    assert torch.equal(ppo.optimizer.flat.data, other.optimizer.flat.data)


def test_a_gradient_that_is_not_finite_leaves_the_coefficient_finite():
    ppo = learner(PPOConfig(kl_coef=0.3, epochs=1))
    data = played(ppo)
    data.reward[0, 0] = math.nan
    row = ppo.training_step(data)
    assert row["skipped_steps"] > 0
    assert math.isfinite(ppo.kl_coef)
