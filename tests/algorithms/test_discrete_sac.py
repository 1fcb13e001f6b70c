"""SAC with discrete actions: exact expectations over all of them, masks, and that it learns."""

import math
from dataclasses import replace

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from stepping import step
from torch.distributions import Categorical

from rookery import Trainer
from rookery.algorithms.experience import Experience
from rookery.algorithms.off_policy.critics import StateAction
from rookery.algorithms.off_policy.sac import SAC, DiscreteBatch, SACConfig, discrete_actor_loss
from rookery.core.seeding import Streams
from rookery.core.spaces.arrays import MASK, action_spec, obs_spec
from rookery.policies.policy import Policy
from selection import slow

SMALL = {
    "discrete": True, "model": {"hidden": (16, 16)}, "batch_size": 32, "learning_starts": 50,
    "replay": {"capacity": 2000},
}  # fmt: skip
SEEN, FOUR = spaces.Box(-5, 5, (3,), np.float32), spaces.Discrete(4, start=7)


def sac(masked=False, **settings):
    cfg = SACConfig(**{**SMALL, **settings})
    generator = torch.Generator().manual_seed(0)
    obs = obs_spec(SEEN, FOUR, info_mask=masked)
    policy = Policy(obs, action_spec(FOUR), cfg.model, "hero", generator=generator, head=cfg.head)
    with torch.no_grad():
        policy.head.linear.weight.mul_(100)  # else all actions are alike
    return SAC(policy, cfg, Streams(0), "hero")


def transitions(masked=False, number=32):
    generator = torch.Generator().manual_seed(0)

    def seen():
        obs = {"obs": torch.randn(number, 3, generator=generator)}
        if masked:
            obs[MASK] = torch.rand(number, 4, generator=generator) < 0.5
            obs[MASK][:, 1] = True
        return obs

    return Experience(
        obs=seen(),
        action=torch.ones(number, dtype=torch.int64) if masked else torch.arange(number) % 4,
        reward=torch.randn(number, generator=generator),
        next_obs=seen(),
        discount=torch.full((number,), 0.9) * (torch.arange(number) % 5 > 0),
        weight=None,
        row=torch.arange(number),
    )


def learn_from(learner, rows):
    """Makes it draw the same rows every time."""
    learner.replay.sample = lambda *size, **window: rows
    return learner


def distribution(policy, obs):
    """Returns the action distribution by torch.distributions."""
    logits = policy.head.linear(policy.trunk(obs))
    return Categorical(logits=torch.where(obs[MASK], logits, -torch.inf) if MASK in obs else logits)


@pytest.mark.parametrize("masked", [False, True])
def test_critics_learn_the_soft_value_in_expectation_over_what_is_allowed(masked):
    rows = transitions(masked)
    learner = learn_from(sac(masked, alpha=0.3), rows)
    with torch.no_grad():
        pair = StateAction(rows.next_obs, rows.action)
        q, probs = learner.critics.target(pair).amin(0), distribution(learner.policy, rows.next_obs).probs
        entropy = -(probs * probs.clamp_min(1e-30).log()).sum(1)
        target = rows.reward + rows.discount * ((probs * q).sum(1) + 0.3 * entropy)
        values = learner.critics.net(StateAction(rows.obs, rows.action))
        error = values[:, torch.arange(32), rows.action] - target
    metrics = step(learner)
    assert float(metrics["critic_loss"]) == pytest.approx(float(0.5 * error.square().mean(1).sum()), rel=1e-5)


@pytest.mark.parametrize("masked", [False, True])
def test_the_actor_loss_is_an_exact_expectation(masked):
    learner, rows, q = sac(masked), transitions(masked), torch.randn(32, 4)
    batch = DiscreteBatch(rows.obs, q, torch.tensor(0.3))
    loss, metrics = discrete_actor_loss(learner.distribution(batch), batch, learner.cfg)
    wanted = distribution(learner.policy, rows.obs)
    entropy = -(wanted.probs * wanted.probs.clamp_min(1e-30).log()).sum(1)
    assert float(loss.detach()) == pytest.approx(
        float((-0.3 * entropy - (wanted.probs * q).sum(1)).mean().detach()), rel=1e-4
    )
    assert metrics["entropy"].tolist() == pytest.approx(entropy.tolist(), rel=1e-4, abs=1e-6)


def test_its_gradient_is_what_many_draws_come_to():
    learner, rows, q = sac(), transitions(), torch.randn(32, 4)
    batch = DiscreteBatch(rows.obs, q, torch.tensor(0.3))
    loss, _ = discrete_actor_loss(learner.distribution(batch), batch, learner.cfg)
    (exact,) = torch.autograd.grad(loss, learner.policy.head.linear.bias)
    drawn = distribution(learner.policy, rows.obs)
    torch.manual_seed(0)
    action = drawn.sample((20_000,))
    logp = drawn.log_prob(action)
    cost = (0.3 * logp - q.gather(1, action.T).T).detach()
    (estimate,) = torch.autograd.grad((logp * cost).mean(), learner.policy.head.linear.bias)
    assert estimate.tolist() == pytest.approx(exact.tolist(), abs=0.01)


def test_what_a_mask_forbids_has_no_part_in_the_actors_gradient():
    learner, rows = sac(masked=True), transitions(masked=True)
    rows.obs[MASK][:, 3] = False
    loss, _ = discrete_actor_loss(
        learner.distribution(batch := DiscreteBatch(rows.obs, torch.randn(32, 4), torch.tensor(0.3))),
        batch,
        learner.cfg,
    )
    (bias,) = torch.autograd.grad(loss, learner.policy.head.linear.bias)
    assert float(bias[3]) == 0.0
    assert float(bias[1]) != 0.0


def test_the_target_entropy_is_a_share_of_that_of_an_even_choice_among_what_is_allowed():
    assert sac(entropy_share=0.5).target_entropy(transitions()) == pytest.approx(0.5 * math.log(4))
    assert sac(target_entropy=0.3).target_entropy(transitions()) == 0.3
    mask = torch.tensor([[True, True, False, False], [False, False, True, False]])
    target = sac(masked=True, entropy_share=0.5).target_entropy(replace(transitions(masked=True), obs={MASK: mask}))
    assert target.tolist() == pytest.approx([0.5 * math.log(2), 0.0])


@pytest.mark.parametrize(("share", "rises"), [(1.0, True), (0.01, False)])
def test_entropy_below_its_target_raises_the_temperature(share, rises):
    learner = learn_from(sac(entropy_share=share, lr=1e-2), transitions())
    alphas = [float(step(learner)["alpha"]) for _ in range(4)]
    assert sorted(alphas, reverse=not rises) == alphas
    assert alphas[0] == 1.0
    assert alphas[-1] != 1.0


def test_the_actors_step_gives_critics_no_gradient():
    learner = learn_from(sac(), transitions())
    step(learner)
    grad = learner.critics.optimizer.flat.grad.clone()
    learner.learn_discrete(transitions(), torch.tensor(1.0), learner.cfg.replace(lr=1e-12))
    batch = DiscreteBatch(transitions().obs, torch.randn(32, 4), torch.tensor(0.3))
    loss, _ = discrete_actor_loss(learner.distribution(batch), batch, learner.cfg)
    after = learner.critics.optimizer.flat.grad.clone()
    loss.backward()
    assert torch.equal(learner.critics.optimizer.flat.grad, after)
    assert not torch.equal(grad, torch.zeros_like(grad))


class Choose(gymnasium.Env):
    """The sign of what is seen says which of two allowed actions earns 1; the third is never allowed."""

    observation_space = spaces.Box(-1, 1, (1,), np.float32)
    action_space = spaces.Discrete(3, start=5)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.clock = 0
        return self.look()

    def look(self):
        self.seen = self.np_random.uniform(-1, 1, 1).astype(np.float32)
        return self.seen, {"action_mask": np.array([True, True, False])}

    def step(self, action):
        assert action != 7, "the mask forbids it"
        earned = float((action == 6) == (self.seen[0] > 0))
        self.clock += 1
        obs, info = self.look()
        return obs, earned, False, self.clock == 10, info


@pytest.mark.parametrize("learns", [True, slow(False)])
def test_it_learns_to_choose_what_a_mask_allows(learns):
    cfg = SACConfig(**{**SMALL, "lr": 1e-2 if learns else 1e-12, "tau": 0.05, "gamma": 0.5})
    with Trainer(Choose, cfg, num_envs=2, seed=0, iteration_steps=450) as trainer:
        trainer.train({"env_steps": 450})
        score = trainer.evaluate(20).return_mean
    assert score > 8.5 if learns else score < 7.5
