"""TRPO: Fisher products against explicit matrices, the step against its limit, the line search, a small training."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from gymnasium import spaces

from rookery import ModelConfig, Trainer, TRPOConfig
from rookery.algorithms.on_policy.trpo import (
    TRPO,
    FisherMatrix,
    conjugate_gradient,
    trpo_loss,
    value_gradient,
    value_loss,
)
from rookery.core.batch import Minibatch
from rookery.core.errors import ConfigError
from rookery.core.optim import gradient_step
from rookery.core.seeding import Streams
from rookery.core.spaces.arrays import action_spec, obs_spec

OBS = spaces.Box(-np.inf, np.inf, (2,), np.float32)
SPACES = {
    "discrete": spaces.Discrete(3),
    "continuous": spaces.Box(-1.0, 1.0, (2,), np.float32),
    "mixed": spaces.Dict({"a": spaces.Discrete(3), "b": spaces.MultiBinary(2), "c": spaces.Box(-2.0, 2.0, (1,))}),
}


def learner(action, **settings):
    cfg = TRPOConfig(**{"model": ModelConfig(hidden=(4,), native=False), **settings})
    generator = torch.Generator().manual_seed(0)
    policy = cfg.build_policy(obs_spec(OBS, action), action_spec(action), "hero", generator)
    with torch.no_grad():  # far from uniform
        for weight in policy.parameters():
            weight.add_(torch.randn(weight.shape, generator=generator) * 0.3)
    return TRPO(policy, cfg, Streams(0), "hero")


def batch(subject, rows=64, seed=1):
    generator = torch.Generator().manual_seed(seed)
    obs = {"obs": torch.randn(rows, 2, generator=generator)}
    noise = torch.rand(rows, subject.policy.noise.uniform, generator=generator)
    noise = torch.cat((noise, torch.randn(rows, subject.policy.noise.normal, generator=generator)), 1)
    with torch.no_grad():
        distribution = subject.net.behavior(obs)
        action, logp = distribution.sample_logp(noise)
    target = torch.randn(rows, 1, generator=generator)
    advantage = torch.randn(rows, generator=generator)
    return Minibatch(obs, action, logp, advantage, target, torch.zeros(rows, 1))


def weights_of(subject):
    return list(subject.policy_optimizer._weights)


def explicit_fisher(subject, data):
    """J' M J: Jacobians of the head's output, and the Fisher matrices of categories, flags and Gaussians, by hand."""
    weights, spec, head = weights_of(subject), subject.policy.action_spec, subject.policy.head
    categories, flags = sum(spec.sizes), spec.num_flags
    output = head.linear(subject.policy.trunk(data.obs))
    found = 0.0
    for row in output:
        grads = [torch.autograd.grad(each, weights, retain_graph=True, materialize_grads=True) for each in row]
        jacobian = torch.stack([torch.cat([part.reshape(-1) for part in each]) for each in grads])
        metric = torch.zeros(len(row), len(row))
        if categories:
            probs = torch.softmax(row[:categories], 0)
            metric[:categories, :categories] = torch.diag(probs) - torch.outer(probs, probs)
        for place in range(categories, categories + flags):
            yes = torch.sigmoid(row[place])
            metric[place, place] = yes * (1 - yes)
        for place, log_std in enumerate([] if head.log_std is None else head.log_std, categories + flags):
            metric[place, place] = (-2 * log_std).exp()
        found = found + jacobian.T @ metric.detach() @ jacobian / len(output)
    start = 0
    for weight in weights:
        for place in range(start, start + weight.numel()) if weight is head.log_std else ():
            found[place, place] += 2.0
        start += weight.numel()
    return found


@pytest.mark.parametrize("kind", SPACES)
def test_products_are_those_of_the_explicit_fisher_matrix(kind):
    subject = learner(SPACES[kind])
    data = batch(subject)
    matrix = explicit_fisher(subject, data)
    fisher = FisherMatrix(subject.distribution(data), weights_of(subject), damping=0.25)
    for seed in range(3):
        vector = torch.randn(len(matrix), generator=torch.Generator().manual_seed(seed))
        torch.testing.assert_close(fisher.product(vector), matrix @ vector + 0.25 * vector, rtol=1e-4, atol=1e-5)


def test_the_fisher_matrix_of_a_gaussian_is_known_in_closed_form():
    # mean = w x + b and a standard deviation s: F of the mean is [x, 1]' [x, 1] / s^2, that of log s is 2
    subject = learner(spaces.Box(-1.0, 1.0, (1,), np.float32), model=ModelConfig(hidden=(), native=False))
    data = batch(subject, rows=3)
    s = float(subject.policy.head.log_std.detach().exp())
    seen = torch.cat((data.obs["obs"], torch.ones(3, 1)), 1)
    expected = torch.zeros(4, 4)
    expected[:3, :3] = seen.T @ seen / 3 / s**2
    expected[3, 3] = 2.0
    weights = weights_of(subject)
    order = [w.numel() for w in weights]
    place = {id(w): start for w, start in zip(weights, np.cumsum([0, *order[:-1]]).tolist(), strict=True)}
    head = subject.policy.head
    at = [place[id(head.linear.weight)], place[id(head.linear.weight)] + 1, place[id(head.linear.bias)],
          place[id(head.log_std)]]  # fmt: skip
    fisher = FisherMatrix(subject.distribution(data), weights, damping=0.0)
    found = torch.stack([fisher.product(row) for row in torch.eye(4)])
    torch.testing.assert_close(found[at][:, at], expected, rtol=1e-4, atol=1e-5)


def test_the_fisher_matrix_of_a_categorical_is_known_in_closed_form():
    # for logits alone (no inputs), F = diag(p) - p p'
    subject = learner(spaces.Discrete(3), model=ModelConfig(hidden=(), native=False))
    data = batch(subject, rows=1)
    data.obs["obs"].zero_()
    probs = subject.distribution(data).log_probs.exp().detach()[0]
    fisher = FisherMatrix(subject.distribution(data), [subject.policy.head.linear.bias], damping=0.0)
    found = torch.stack([fisher.product(row) for row in torch.eye(3)])
    torch.testing.assert_close(found, torch.diag(probs) - torch.outer(probs, probs), rtol=1e-4, atol=1e-6)


def test_conjugate_gradient_solves_a_system_in_as_many_iterations_as_unknowns():
    generator = torch.Generator().manual_seed(0)
    root = torch.randn(5, 5, generator=generator, dtype=torch.float64)
    matrix, right = root @ root.T + torch.eye(5), torch.randn(5, generator=generator, dtype=torch.float64)
    exact = torch.linalg.solve(matrix, right)
    torch.testing.assert_close(conjugate_gradient(lambda v: matrix @ v, right, 5), exact)
    once = conjugate_gradient(lambda v: matrix @ v, right, 1)  # the best step along b
    torch.testing.assert_close(once, right * (right @ right) / (right @ (matrix @ right)))
    assert not conjugate_gradient(lambda v: matrix @ v, torch.zeros(5, dtype=torch.float64), 5).any()


def stepped(subject, data, **settings):
    cfg = replace(subject.cfg, **settings)
    before = subject.policy_optimizer.flat.data.clone()
    subject.policy_optimizer.aim(subject.distribution, data, cfg)
    gradient_step(subject.distribution, trpo_loss, data, subject.policy_optimizer, cfg)
    return before, subject.policy_optimizer.flat.data.clone(), subject.policy_optimizer.made


@pytest.mark.parametrize("max_kl", [1e-4, 0.01, 0.3])
@pytest.mark.parametrize("kind", SPACES)
def test_a_step_improves_the_surrogate_within_the_kl_limit(kind, max_kl):
    subject = learner(SPACES[kind])
    data = batch(subject)
    with torch.no_grad():
        old = subject.distribution(data)
        loss = float(trpo_loss(old, data, subject.cfg)[0])
        old = old.like(old.parameters.clone())
    before, after, made = stepped(subject, data, max_kl=max_kl)
    with torch.no_grad():
        new = subject.distribution(data)
        kl, gain = float(old.kl(new).mean()), loss - float(trpo_loss(new, data, subject.cfg)[0])
    assert made["rejected"] == 0 and not torch.equal(before, after)
    assert kl == pytest.approx(made["kl"], rel=1e-4) and gain == pytest.approx(made["surrogate_gain"], rel=1e-3)
    assert 0.3 * max_kl < kl <= max_kl  # the limit is used, not only kept
    assert gain > 0


def test_the_step_is_along_the_natural_gradient_and_as_long_as_its_quadratic_model_allows():
    subject = learner(SPACES["continuous"])
    data = batch(subject)
    matrix = explicit_fisher(subject, data) + 0.1 * torch.eye(len(subject.policy_optimizer.flat.data))
    loss = trpo_loss(subject.distribution(data), data, subject.cfg)[0]
    parts = torch.autograd.grad(loss, weights_of(subject))
    gradient = torch.cat([part.reshape(-1) for part in parts])
    direction = torch.linalg.solve(matrix, -gradient)
    expected = direction * math.sqrt(2 * 1e-4 / float(direction @ matrix @ direction))
    before, after, made = stepped(subject, data, max_kl=1e-4, cg_iterations=100)
    assert made["line_search_steps"] == 1
    torch.testing.assert_close(after - before, expected, rtol=0.02, atol=1e-5)


def test_the_line_search_rejects_what_breaks_the_limit_or_makes_the_surrogate_worse():
    subject = learner(SPACES["continuous"])
    data = batch(subject)
    optimizer = subject.policy_optimizer
    start = optimizer.flat.data.clone()
    with torch.no_grad():
        old = subject.distribution(data)
        old = old.like(old.parameters.clone())
    direction = stepped(subject, data)[1] - start  # one that improves
    optimizer.flat.data.copy_(start)
    for step, expected in ((-direction, (10, 1)), (direction * 1e4, (10, 1)), (direction, (1, 0))):
        optimizer.flat.data.copy_(start)
        optimizer.made = {"rejected": 1}
        optimizer._search(subject.distribution, data, subject.cfg, old, step)
        assert (optimizer.made["line_search_steps"], optimizer.made["rejected"]) == expected
        assert torch.equal(optimizer.flat.data, start) == bool(expected[1])
    optimizer.flat.data.copy_(start)
    optimizer._search(subject.distribution, data, subject.cfg, old, direction * 3.0)  # too long, but not for long
    tried = optimizer.made["line_search_steps"]
    assert tried > 1 and optimizer.made["kl"] <= subject.cfg.max_kl
    torch.testing.assert_close(optimizer.flat.data, start + direction * 3.0 * 0.8 ** (tried - 1))


def test_advantages_of_0_and_gradients_that_are_not_finite_change_nothing():
    subject = learner(SPACES["discrete"])
    data = batch(subject)
    for advantage in (torch.zeros(64), torch.full((64,), math.nan)):
        before, after, made = stepped(subject, replace(data, advantage=advantage))
        assert torch.equal(before, after) and made["rejected"] == 1
    assert subject.policy_optimizer.read_skipped() == (1, 1)


def test_the_gradient_of_the_value_loss_is_that_of_autograd():
    subject = learner(SPACES["discrete"])
    data = batch(subject)
    value = torch.randn(64, 1, requires_grad=True)
    loss, metrics = value_loss(value, data, subject.cfg)
    (expected,) = torch.autograd.grad(loss, value)
    (found,), other = value_gradient(value.detach(), data, subject.cfg)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(other["value_loss"], metrics["value_loss"])


def test_the_policy_and_its_values_learn_apart():
    trainer = Trainer("CartPole-v1", TRPOConfig(fragment_length=32, value_epochs=2), num_envs=2, seed=0)
    subject = trainer.learners["main"]
    values = subject.optimizer.flat.data.clone()
    row = trainer.train_iteration().policies["main"]
    assert row.kl <= subject.cfg.max_kl and not torch.equal(values, subject.optimizer.flat.data)
    policy = subject.policy_optimizer.flat.data.clone()
    whole = subject.optimizer.flat.whole
    assert whole is subject.policy_optimizer.flat.whole
    assert len(whole.data) == len(policy) + len(values)
    assert subject.value_forward.net.net is subject.net


@pytest.mark.parametrize("native", [True, False])
def test_a_few_updates_learn_cartpole(native):
    cfg = TRPOConfig(fragment_length=128, model=ModelConfig(native=native))
    with Trainer("CartPole-v1", cfg, num_envs=8, seed=1) as trainer:
        results = [trainer.train_iteration() for _ in range(16)]
    assert all(result.policies["main"].kl <= 0.01 for result in results)
    assert results[-1].return_mean > 60  # 20 at random


def test_networks_that_policy_and_values_share_are_refused():
    with pytest.raises(ConfigError, match=r"policies\.hero\.model: TRPO needs values with networks of their own"):
        learner(SPACES["discrete"], model=ModelConfig(shared_trunk=True))
