"""The closed forms of the losses' gradients against automatic differentiation of the losses, and their metrics."""

import dataclasses
import itertools

import pytest
import torch
from gymnasium import spaces

from rookery import A2CConfig, PPOConfig, ReinforceConfig
from rookery.algorithms.on_policy.a2c import a2c_gradient, a2c_loss
from rookery.algorithms.on_policy.ppo import PenaltyMinibatch, ppo_gradient, ppo_loss
from rookery.algorithms.on_policy.reinforce import ReinforceBatch, reinforce_gradient, reinforce_loss
from rookery.core.batch import Minibatch
from rookery.core.spaces.arrays import action_spec
from rookery.models.distributions import Categorical, Composite, Distribution
from rookery.models.heads import Outputs, distribution_for, noise_for, output_width
from selection import slow_repeats

SPACES = {
    "discrete": spaces.Discrete(2),
    "multi_discrete": spaces.MultiDiscrete([2, 5, 3]),
    "multi_binary": spaces.MultiBinary(4),
    "box": spaces.Box(-1, 1, (6,)),
    "composite": spaces.Tuple((spaces.MultiDiscrete([2, 4]), spaces.MultiBinary(3), spaces.Box(-1, 1, (2,)))),
}
MASKABLE = ("discrete", "multi_discrete", "composite")
PPO_SETTINGS = {
    "as it comes": {},
    "advantages as they are": {"normalize_advantage": False},
    "no entropy bonus": {"entropy_coef": 0.0},
    "no value loss": {"value_coef": 0.0},
    "values clipped": {"value_clip": 0.3},
    "value losses clipped": {"value_loss_clip": 0.5},
    "narrow": {"clip": 0.02, "entropy_coef": 0.1, "value_coef": 1.0, "value_clip": 1.0},
}
TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-5}
"""Of the largest element. Single precision: autograd itself is 4e-6 off where a `log_std` sums over rows."""


class Learning:
    """Returns outputs of networks for random rows, different from those when the rows were played."""

    def __init__(
        self, name, rows, *, masked=False, importance=False, moved=0.3, dtype=torch.float64, seed=0, columns=1
    ):
        generator = torch.Generator().manual_seed(seed)

        def normal(*shape):
            return torch.randn(*shape, generator=generator).to(dtype)

        self.spec = action_spec(SPACES[name])
        sizes, numbers, noise = self.spec.sizes, self.spec.num_numbers, noise_for(self.spec)
        self.mask = torch.rand(rows, sum(sizes), generator=generator) < 0.5 if masked else None
        if masked:
            for part in self.mask.split(sizes, -1):
                part[:, -1] = True
        output = normal(rows, output_width(self.spec))
        log_std = 0.3 * normal(numbers) if numbers else None
        old = distribution_for(self.spec, output, log_std, self.mask)
        uniform = torch.rand(rows, noise.uniform, generator=generator)
        action, logp = old.sample_logp(torch.cat((uniform, normal(rows, noise.normal)), -1).to(dtype))
        value = normal(rows, columns)
        self.batch = Minibatch(
            obs={},
            action=action,
            logp=logp,
            advantage=normal(rows),
            value_target=value + normal(rows, columns),
            value=value,
            importance=torch.rand(rows, generator=generator).to(dtype) + 0.5 if importance else None,
        )
        self.old = old.parameters
        self.leaves = [output + moved * normal(*output.shape), *([] if log_std is None else [log_std]), value]
        self.leaves[-1] = value + moved * normal(rows, columns)
        self.coef = torch.rand(rows, generator=generator).to(dtype) + 0.5

    def penalize(self):
        """Gives the batch a penalty, of another weight for each row; the spread of numbers has moved, too."""
        self.batch = PenaltyMinibatch(**vars(self.batch), old=self.old, kl_coef=self.coef)
        if self.spec.num_numbers:
            self.leaves[1] = self.leaves[1] + torch.linspace(-0.4, 0.3, self.spec.num_numbers).to(self.leaves[1])
        return self

    def outputs(self, leaves):
        """The last leaf is the value; it is missing for an algorithm that has none."""
        log_std = leaves[1] if self.spec.num_numbers else None
        return distribution_for(self.spec, leaves[0], log_std, self.mask), leaves[-1]

    def by_autograd(self, loss, batch, cfg, *, has_value=True):
        leaves = [leaf.clone().requires_grad_() for leaf in self.leaves]
        distribution, value = self.outputs(leaves)
        total, metrics = loss(Outputs(distribution, value) if has_value else distribution, batch, cfg)
        return torch.autograd.grad(total, leaves if has_value else leaves[:-1]), metrics

    def closed_form(self, loss, batch, cfg, *, has_value=True):
        distribution, value = self.outputs(self.leaves)
        gradient = {ppo_loss: ppo_gradient, a2c_loss: a2c_gradient, reinforce_loss: reinforce_gradient}[loss]
        return gradient(Outputs(distribution, value) if has_value else distribution, batch, cfg)

    def check(self, loss, batch, cfg, *, has_value=True):
        """Asserts that both ways give the same gradients and the same metrics; returns the gradients."""
        tolerance = TOLERANCE[self.leaves[0].dtype]
        expected, reference = self.by_autograd(loss, batch, cfg, has_value=has_value)
        gradients, metrics = self.closed_form(loss, batch, cfg, has_value=has_value)
        assert len(gradients) == len(expected)
        for found, wanted in zip(gradients, expected, strict=True):
            assert found.shape == wanted.shape
            assert found.dtype == wanted.dtype
            assert (found - wanted).abs().max() <= tolerance * wanted.abs().max()
        assert metrics.keys() == reference.keys()
        for name, wanted in reference.items():
            assert metrics[name].shape == wanted.shape
            assert metrics[name].dtype == wanted.dtype
            torch.testing.assert_close(metrics[name], wanted, rtol=tolerance, atol=tolerance)
        return gradients


def replaced(batch, **fields):
    return type(batch)(**{**{item.name: getattr(batch, item.name) for item in dataclasses.fields(batch)}, **fields})


def cases():
    return [(name, False) for name in SPACES] + [(name, True) for name in MASKABLE]


@pytest.mark.parametrize(("case", "settings"), slow_repeats(of=itertools.product(cases(), PPO_SETTINGS)))
def test_ppo(case, settings):
    name, masked = case
    cfg = PPOConfig(**PPO_SETTINGS[settings])
    for rows in (1, 2, 17, 256):
        for importance in (False, True):
            learning = Learning(name, rows, masked=masked, importance=importance, seed=rows, columns=1 + 2 * importance)
            learning.check(ppo_loss, learning.batch, cfg)


@pytest.mark.parametrize("settings", [{}, {"normalize_advantage": True, "entropy_coef": 0.02}])
@pytest.mark.parametrize(("name", "masked"), cases())
def test_a2c(name, masked, settings):
    cfg = A2CConfig(**settings)
    for rows in (1, 2, 17, 256):
        for importance in (False, True):
            learning = Learning(name, rows, masked=masked, importance=importance, seed=rows, columns=1 + 2 * importance)
            learning.check(a2c_loss, learning.batch, cfg)


@pytest.mark.parametrize("settings", [{}, {"normalize_returns": False, "entropy_coef": 0.02}])
@pytest.mark.parametrize(("name", "masked"), cases())
def test_reinforce(name, masked, settings):
    cfg = ReinforceConfig(**settings)
    for rows in (1, 2, 17, 256):
        learning = Learning(name, rows, masked=masked, seed=rows)
        batch = ReinforceBatch({}, learning.batch.action, learning.batch.advantage)
        learning.check(reinforce_loss, batch, cfg, has_value=False)


@pytest.mark.parametrize(("name", "masked"), cases())
def test_single_precision(name, masked):
    learning = Learning(name, 256, masked=masked, importance=True, dtype=torch.float32)
    learning.check(ppo_loss, learning.batch, PPOConfig(value_clip=0.3))
    learning.check(a2c_loss, learning.batch, A2CConfig(entropy_coef=0.02))
    batch = ReinforceBatch({}, learning.batch.action, learning.batch.advantage)
    learning.check(reinforce_loss, batch, ReinforceConfig(entropy_coef=0.02), has_value=False)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", SPACES)
def test_the_first_epoch_where_the_ratio_is_1_has_the_whole_gradient(name, dtype):
    # min(ratio * A, clipped * A) is a tie in every row, of which autograd gives each side half: together all of it
    learning = Learning(name, 64, dtype=dtype)
    logp = learning.outputs(learning.leaves)[0].log_prob(learning.batch.action)
    batch = replaced(learning.batch, logp=logp)
    cfg = PPOConfig(entropy_coef=0.0, normalize_advantage=False)
    gradients = learning.check(ppo_loss, batch, cfg)
    plain = learning.check(a2c_loss, batch, A2CConfig())  # the score times the advantage
    assert (gradients[0] - plain[0]).abs().max() <= 1e-6 * plain[0].abs().max()


def test_a_ratio_on_the_edge_of_the_clip_range_still_has_its_gradient():
    learning = Learning("discrete", 256)
    logp = learning.outputs(learning.leaves)[0].log_prob(learning.batch.action)
    cfg = PPOConfig(clip=0.25, entropy_coef=0.0, normalize_advantage=False)
    batch = replaced(learning.batch, logp=logp - torch.tensor(1.25, dtype=torch.float64).log())
    on_edge = (logp - batch.logp).exp() == 1.25
    assert on_edge.sum() > 20
    output = learning.check(ppo_loss, batch, cfg)[0]
    assert (output[on_edge].abs().sum(-1) > 0).all()


@pytest.mark.parametrize("name", SPACES)
def test_rows_that_are_clipped_have_no_gradient_of_the_surrogate(name):
    # tripled probabilities of actions that were good: nothing is gained by going further
    learning = Learning(name, 64)
    logp = learning.outputs(learning.leaves)[0].log_prob(learning.batch.action)
    batch = replaced(learning.batch, logp=logp - 1.1, advantage=learning.batch.advantage.abs())
    cfg = PPOConfig(entropy_coef=0.0, normalize_advantage=False, value_clip=0.01)
    batch = replaced(batch, value=batch.value + 9.0)  # and values far beyond their range
    gradients = learning.check(ppo_loss, batch, cfg)
    assert all((gradient == 0).all() for gradient in gradients)
    # a third of the probability of good ones is not clipped, nor is any of bad ones that became likelier
    for sign, shift in ((1, 1.1), (-1, -1.1)):
        batch = replaced(batch, logp=logp + shift, advantage=sign * batch.advantage.abs())
        output = learning.check(ppo_loss, batch, cfg)[0]
        assert output.abs().max() > 0


def test_a_step_that_overflows_is_not_finite_either_way():
    # the optimizer skips it and counts it; a closed form that hid it would let a broken run continue
    learning = Learning("discrete", 8, dtype=torch.float32)
    good = learning.batch.advantage.abs()  # of which an infinite ratio is clipped, so that only its factor 0 is left
    batch = replaced(learning.batch, logp=learning.batch.logp - 200.0, advantage=good)
    cfg = PPOConfig(normalize_advantage=False)
    (expected, *_), _ = learning.by_autograd(ppo_loss, batch, cfg)
    (found, *_), _ = learning.closed_form(ppo_loss, batch, cfg)
    assert not expected.isfinite().all()
    assert not found.isfinite().all()


@pytest.mark.parametrize("settings", [{}, {"normalize_advantage": "batch", "entropy_coef": 0.0}])
@pytest.mark.parametrize(("name", "masked"), cases())
def test_ppo_with_a_penalty(name, masked, settings):
    cfg = PPOConfig(kl_coef=0.2, **settings)
    for rows in (1, 2, 17, 256):
        for importance in (False, True):
            learning = Learning(name, rows, masked=masked, importance=importance, seed=rows)
            plain, _ = learning.closed_form(ppo_loss, learning.batch, cfg)
            learning.penalize()
            gradients = learning.check(ppo_loss, learning.batch, cfg)
            assert rows < 17 or not torch.allclose(gradients[0], plain[0])


@pytest.mark.parametrize(("name", "masked"), cases())
def test_a_penalty_in_single_precision(name, masked):
    learning = Learning(name, 256, masked=masked, importance=True, dtype=torch.float32).penalize()
    learning.check(ppo_loss, learning.batch, PPOConfig(kl_coef=0.2))


@pytest.mark.parametrize("name", SPACES)
def test_the_batch_and_the_outputs_stay_as_they_are(name):
    learning = Learning(name, 17, importance=True)
    given = [*learning.leaves, *(leaf for leaf in vars(learning.batch).values() if isinstance(leaf, torch.Tensor))]
    before = [tensor.clone() for tensor in given]
    learning.closed_form(ppo_loss, learning.batch, PPOConfig(value_clip=0.3))
    learning.closed_form(a2c_loss, learning.batch, A2CConfig(entropy_coef=0.02))
    batch = ReinforceBatch({}, learning.batch.action, learning.batch.advantage)
    learning.closed_form(reinforce_loss, batch, ReinforceConfig(entropy_coef=0.02), has_value=False)
    assert all(torch.equal(now, then) for now, then in zip(given, before, strict=True))


class Unknown(Categorical):
    """A user's distribution without a closed-form gradient."""

    gradient = Distribution.gradient


class Unpenalized(Categorical):
    """A user's distribution without a closed-form gradient of the divergence."""

    kl_gradient = Distribution.kl_gradient


def test_a_divergence_without_a_gradient_of_its_own_is_left_to_autograd():
    learning = Learning("discrete", 4).penalize()
    value = learning.leaves[-1]
    for distribution in (Unpenalized(learning.leaves[0]), Categorical(learning.leaves[0])):
        found = ppo_gradient(Outputs(distribution, value), learning.batch, PPOConfig(kl_coef=0.2))
        assert (found is None) == isinstance(distribution, Unpenalized)
    composite = Composite([Unpenalized(learning.leaves[0])], [1])
    assert composite.kl_gradient(composite, torch.ones(4)) is None


def test_a_distribution_without_a_gradient_of_its_own_is_left_to_autograd():
    logits, batch = torch.randn(4, 3), Learning("discrete", 4).batch
    batch = replaced(batch, obs={})
    for distribution in (Unknown(logits), Composite([Unknown(logits)], [1])):
        assert distribution.gradient(torch.zeros(4, 1, dtype=torch.int64), torch.ones(4), 0.0) is None
    outputs = Outputs(Unknown(logits.double()), torch.zeros(4, 1, dtype=torch.float64))
    assert ppo_gradient(outputs, batch, PPOConfig()) is None
    assert a2c_gradient(outputs, batch, A2CConfig()) is None
    decisions = ReinforceBatch({}, batch.action, batch.advantage)
    assert reinforce_gradient(outputs.distribution, decisions, ReinforceConfig()) is None
