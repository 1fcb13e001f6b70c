"""Learning from what older weights played: what is corrected, that the correction matters, and that it is exact."""

import math

import pytest
import torch
from gymnasium import spaces

from rookery import A2CConfig, PPOConfig, Trainer
from rookery.algorithms.on_policy.a2c import A2C, a2c_loss
from rookery.algorithms.on_policy.actor_critic import ONE_UPDATE_LATE, ValueColumn, advantage_targets
from rookery.algorithms.on_policy.ppo import PPO, PenaltyMinibatch, ppo_loss
from rookery.core.batch import Minibatch, Rollout
from rookery.core.optim import compute_gradients
from rookery.core.seeding import Streams
from rookery.core.spaces.arrays import action_spec, obs_spec
from rookery.models.distributions import Categorical
from rookery.models.heads import Outputs
from rookery.policies.policy import Policy

ONE, TWO = spaces.Box(-1.0, 1.0, (1,)), spaces.Discrete(2)
PLAIN = {"normalize_advantage": False, "entropy_coef": 0.0, "max_grad_norm": None}
PAY = torch.tensor([1.0, 3.0])
"""What the two arms of the bandit pay."""


def bandit():
    """Four pulls by weights that preferred arm 0, three to one; the arms pay 1 and 3."""
    action = torch.tensor([[0, 0, 0, 1]])
    nothing = torch.zeros(4, dtype=torch.long)
    return Rollout(
        obs={"obs": torch.zeros(1, 4, 1)},
        action=action,
        logp=torch.tensor([0.75, 0.25]).log()[action],
        reward=PAY[action],
        terminated=torch.ones(1, 4, dtype=torch.bool),
        truncated=torch.zeros(1, 4, dtype=torch.bool),
        last_obs={"obs": torch.zeros(4, 1)},
        final_obs={"obs": torch.zeros(0, 1)},
        boot_index=torch.zeros(0, 2, dtype=torch.long),
        slot=torch.arange(4),
        clock=nothing,
        length=nothing + 1,
        first=torch.ones(4, dtype=torch.bool),
        version=nothing,
    )


def learner(make, cfg, staleness):
    """Its policy pulls either arm with probability 1/2 and its values are 0: at observation 0 only biases count."""
    policy = Policy(
        obs_spec(ONE, TWO), action_spec(TWO), cfg.model, name="it", generator=torch.Generator().manual_seed(0)
    )
    made = make(policy, cfg, Streams(0), "it")
    made.staleness = staleness
    return made


def probability(policy):
    with torch.no_grad():
        return policy({"obs": torch.zeros(1, 1)}).log_probs[0].exp().tolist()


def slope(learner, rollout):
    """By how much a step along the loss's gradient raises the first logit, per unit of learning rate."""
    columns, correction = [ValueColumn(0.9)], learner.correction
    data = advantage_targets(learner.forward, rollout, rollout.reward, columns, gae_lambda=0.9, correction=correction)
    compute_gradients(learner.forward, learner.loss, data, learner.optimizer, learner.now())
    (bias,) = [p for n, p in learner.policy.head.named_parameters() if n.endswith("bias")]
    return -bias.grad[0].item()


CASES = [
    # under the policy that learns, the mean of pay * (1[arm 0] - 1/2) is (1 / 2 - 3 / 2) / 2 = -1/2
    (A2C, A2CConfig(**PLAIN), 1, -0.5),
    (PPO, PPOConfig(**PLAIN, minibatch_size=4), 1, -0.5),
    # controls. Four pulls as if they were its own: (3 * 1 / 2 - 3 / 2) / 4 = 0, nothing is learned
    (A2C, A2CConfig(**PLAIN), 0, 0.0),
    # the ratio to the weights that played is 2 for arm 1, which is clipped, and 2/3 for arm 0: the worse arm gains
    (PPO, PPOConfig(**PLAIN, minibatch_size=4), 0, 3 * (2 / 3) * 0.5 / 4),
]


@pytest.mark.parametrize(("make", "cfg", "staleness", "expected"), CASES)
def test_corrected_gradients_are_those_of_ones_own_play_and_uncorrected_ones_are_not(make, cfg, staleness, expected):
    assert slope(learner(make, cfg, staleness), bandit()) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(("make", "cfg", "staleness", "expected"), CASES)
def test_an_update_from_stale_pulls_prefers_the_better_arm_only_if_corrected(make, cfg, staleness, expected):
    made = learner(make, cfg.replace(lr=0.01), staleness)
    assert probability(made.policy) == [0.5, 0.5]
    row = made.training_step(bandit())
    better = probability(made.policy)[1]
    assert (better > 0.5 + 1e-4) == (staleness == 1)
    if staleness:
        assert row["importance_mean"] == pytest.approx((3 * 2 / 3 + 2) / 4)
        assert row["importance_std"] == pytest.approx(math.sqrt(3 * (1 / 3) ** 2 / 4 + 1 / 4))
    else:
        assert "importance_mean" not in row


def test_values_are_of_the_policy_that_learns_and_not_of_the_one_that_played():
    means = []
    for staleness in (0, 1):
        made = learner(PPO, PPOConfig(normalize_values=False), staleness)
        means.append(made.targets(bandit()).value_target.mean().item())
    assert means == pytest.approx([(3 * 1 + 3) / 4, (1 + 3) / 2])


def test_a_very_unlikely_action_counts_no_more_than_the_bound():
    rollout = bandit()
    rollout.logp[0, 3] = math.log(0.01)  # 50 times likelier now
    data = learner(PPO, PPOConfig(normalize_values=False), 1).targets(rollout)
    assert data.importance.max() == ONE_UPDATE_LATE.rho_bar
    assert data.value_target.max() == pytest.approx(3 * ONE_UPDATE_LATE.rho_bar)


@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1"])
def test_without_staleness_the_correction_corrects_nothing(env):
    with Trainer(env, PPOConfig(fragment_length=40, normalize_values=False), seed=3, num_envs=4) as trainer:
        (rollout,) = trainer._pool.sample(10_000).rollouts.values()
        ppo = trainer.learners["main"]
        plain = ppo.targets(rollout)
        ppo.correction = ONE_UPDATE_LATE
        corrected = ppo.targets(rollout)
    assert plain.importance is None
    assert torch.allclose(corrected.importance, torch.ones(160), atol=1e-5)
    for name in ("logp", "advantage", "value_target", "value"):
        assert torch.allclose(getattr(corrected, name), getattr(plain, name), atol=1e-3, rtol=1e-4), name


def test_the_decoupled_loss_of_two_rows_by_hand():
    # ratios to the start of the update 1.5 (clipped to 1.2) and 0.9; advantages 2 and -1; weights 0.5 and 1.5
    distribution = Categorical(torch.tensor([[0.3, 0.7], [0.55, 0.45]]).log())
    rows = {name: torch.zeros(2, 1) for name in ("value", "value_target")}
    batch = Minibatch(
        obs={},
        action=torch.tensor([0, 1]),
        logp=torch.tensor([0.2, 0.5]).log(),
        advantage=torch.tensor([2.0, -1.0]),
        importance=torch.tensor([0.5, 1.5]),
        **rows,
    )
    outputs = Outputs(distribution, torch.zeros(2, 1))
    _, metrics = ppo_loss(outputs, batch, PPOConfig(normalize_advantage=False))
    assert metrics["policy_loss"].item() == pytest.approx(-(0.5 * 1.2 * 2 - 1.5 * 0.9) / 2)
    _, metrics = a2c_loss(outputs, batch, A2CConfig())
    assert metrics["policy_loss"].item() == pytest.approx(
        -(0.5 * 2 * math.log(0.3) - 1.5 * math.log(0.45)) / 2, abs=1e-6
    )


def test_weights_stay_with_their_rows_when_a_batch_is_shuffled_and_penalized():
    made = learner(PPO, PPOConfig(kl_coef=0.3), 1)
    data = made.targets(bandit())
    assert isinstance(data, PenaltyMinibatch)
    for batch in data.shuffled(3, made.rng):
        assert torch.allclose(batch.importance, torch.tensor([2 / 3, 2.0])[batch.action])
        assert len(batch.old) == len(batch.kl_coef) == len(batch) == 2
