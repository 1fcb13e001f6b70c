"""Action distributions of 2021, against torch.distributions, Rookery's own and samples."""

import math

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete, Tuple

from rookery.core.errors import ConfigError
from rookery.models import distributions as ours
from rookery.models import squashed
from rookery_rllib.model import action_distributions as dists

B = 5


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def assert_same_as_ours(theirs, mine, other, other_mine, actions):
    assert torch.allclose(theirs.logp(actions), mine.log_prob(actions), atol=1e-5)
    assert torch.allclose(theirs.entropy(), mine.entropy(), atol=1e-5)
    assert torch.allclose(theirs.kl(other), mine.kl(other_mine), atol=1e-5)
    assert torch.equal(theirs.deterministic_sample(), mine.mode())


def test_categorical_is_ours():
    logits, others = torch.randn(2, B, 4)
    mine, theirs = ours.Categorical(logits), dists.TorchCategorical(logits)
    actions = theirs.sample()
    assert actions.shape == (B,)
    assert torch.equal(theirs.sampled_action_logp(), theirs.logp(actions))
    assert_same_as_ours(theirs, mine, dists.TorchCategorical(others), ours.Categorical(others), actions)
    assert torch.equal(theirs.multi_entropy(), theirs.entropy())


def test_temperature_divides_logits_and_leaves_the_inputs_alone():
    logits = torch.randn(B, 4)
    before = logits.clone()
    cooler = dists.TorchCategorical(logits, temperature=0.5)
    assert torch.equal(logits, before)
    assert torch.allclose(cooler.dist.probs, (logits * 2).softmax(-1))
    with pytest.raises(ConfigError, match="temperature is 0"):
        dists.TorchCategorical(logits, temperature=0.0)


def test_several_choices_are_ours_part_by_part():
    logits, others = torch.randn(2, B, 5)
    theirs = dists.TorchMultiCategorical(logits, None, input_lens=np.array([2, 3]))
    other = dists.TorchMultiCategorical(others, None, input_lens=[2, 3])
    actions = theirs.sample()
    assert actions.shape == (B, 2)
    mine, other_mine = ours.MultiCategorical(logits, (2, 3)), ours.MultiCategorical(others, (2, 3))
    assert_same_as_ours(theirs, mine, other, other_mine, actions)
    assert theirs.multi_kl(other).shape == theirs.multi_entropy().shape == (B, 2)
    assert torch.equal(theirs.logp(list(actions.unbind(1))), theirs.logp(actions))
    assert theirs.required_model_output_shape(MultiDiscrete([2, 3]), {}) == 5


def test_a_box_of_integers_is_drawn_from_its_low_on():
    space = Box(-1, 1, (2, 2), np.int64)
    theirs = dists.TorchMultiCategorical(torch.randn(200, 12), None, input_lens=[3] * 4, action_space=space)
    actions = theirs.sample()
    assert actions.shape == (200, 2, 2)
    assert set(actions.unique().tolist()) == {-1, 0, 1}
    parts = ours.MultiCategorical(theirs.inputs, (3,) * 4)
    assert torch.allclose(theirs.sampled_action_logp(), parts.log_prob(actions.flatten(1) + 1), atol=1e-5)
    assert theirs.required_model_output_shape(space, {}) == 12
    uneven = Box(np.array([0, 0]), np.array([1, 2]), dtype=np.int64)
    with pytest.raises(ConfigError, match="different bounds"):
        theirs.required_model_output_shape(uneven, {})


def test_gaussian_is_ours():
    inputs, others = torch.randn(2, B, 6)
    theirs, other = dists.TorchDiagGaussian(inputs), dists.TorchDiagGaussian(others)
    mine, other_mine = (ours.DiagonalGaussian(*given.chunk(2, 1)) for given in (inputs, others))
    assert_same_as_ours(theirs, mine, other, other_mine, theirs.sample())
    assert theirs.required_model_output_shape(Box(-1, 1, (3,)), {}) == 6


def test_squashed_gaussian_is_ours_between_minus_1_and_1_and_stays_between_other_bounds():
    inputs = torch.cat((torch.randn(B, 2), torch.randn(B, 2) - 1), 1)
    theirs = dists.TorchSquashedGaussian(inputs)
    mine = squashed.SquashedGaussian(*inputs.chunk(2, 1))
    actions, logp = theirs.sample_logp()
    assert torch.allclose(theirs.logp(actions), mine.log_prob(actions), atol=2e-3)
    assert torch.allclose(logp, theirs.logp(actions), atol=2e-3)
    assert torch.allclose(theirs.deterministic_sample(), mine.mode(), atol=1e-6)
    wide = dists.TorchSquashedGaussian(torch.tensor([[-9.0, 9.0, 0.0, 0.0]]), None, low=-2.0, high=6.0)
    assert wide.deterministic_sample()[0].tolist() == pytest.approx([-2.0, 6.0])
    assert wide.logp(wide.sample()).isfinite().all()
    with pytest.raises(ValueError, match="no formula"):
        wide.entropy()
    with pytest.raises(ConfigError, match="must be above it"):
        dists.TorchSquashedGaussian(inputs, None, low=1.0, high=1.0)


def test_samples_of_a_squashed_gaussian_pass_gradients():
    inputs = torch.zeros(B, 2, requires_grad=True)
    dists.TorchSquashedGaussian(inputs).sample().sum().backward()
    assert (inputs.grad[:, 0] > 0).all()


def test_beta_has_the_density_of_its_parameters():
    inputs = torch.randn(B, 4)
    theirs = dists.TorchBeta(inputs, None, low=-1.0, high=3.0)
    actions = theirs.sample()
    assert ((actions > -1) & (actions < 3)).all()
    alpha, beta = (torch.nn.functional.softplus(inputs) + 1).chunk(2, 1)
    same = torch.distributions.Beta(alpha, beta)
    assert torch.allclose(theirs.logp(actions), same.log_prob((actions + 1) / 4).sum(1), atol=1e-5)
    assert torch.allclose(theirs.deterministic_sample(), -1 + 4 * same.mean)
    assert torch.allclose(theirs.entropy(), same.entropy().sum(1))
    assert theirs.kl(theirs).abs().max() < 1e-6


def test_dirichlet_gives_shares():
    theirs = dists.TorchDirichlet(torch.randn(B, 3))
    shares = theirs.sample()
    assert torch.allclose(shares.sum(1), torch.ones(B))
    assert torch.allclose(theirs.deterministic_sample().sum(1), torch.ones(B))
    assert torch.allclose(theirs.logp(shares), theirs.dist.log_prob(shares), atol=1e-4)
    assert theirs.logp(torch.tensor([[1.0, 0.0, 0.0]] * B)).isfinite().all()
    assert theirs.kl(theirs).abs().max() < 1e-6


def test_deterministic_gives_what_it_is_given():
    inputs = torch.randn(B, 3)
    theirs = dists.TorchDeterministic(inputs)
    assert torch.equal(theirs.sample(), inputs)
    assert torch.equal(theirs.sampled_action_logp(), torch.zeros(B))
    assert theirs.required_model_output_shape(Box(-1, 1, (3,)), {}) == 3


def test_gumbel_softmax_passes_gradients_and_knows_choices():
    logits = torch.randn(B, 3, requires_grad=True)
    theirs = dists.GumbelSoftmax(logits, temperature=0.5)
    drawn = theirs.sample()
    assert torch.allclose(drawn.sum(1), torch.ones(B))
    drawn[:, 0].sum().backward()
    assert logits.grad.abs().sum() > 0
    choices = torch.tensor([0, 1, 2, 0, 1])
    assert torch.allclose(theirs.logp(choices), dists.TorchCategorical(logits).logp(choices))


@pytest.mark.parametrize("merged", [True, False])
def test_parts_of_an_action_are_independent(merged):
    space = Dict({"b": Box(-1, 1, (2,)), "a": Discrete(3), "c": Tuple((MultiDiscrete([2, 2]),))})
    makers = [
        dists.TorchCategorical,
        dists.TorchDiagGaussian,
        lambda inputs, model: dists.TorchMultiCategorical(inputs, model, input_lens=[2, 2]),
    ]
    inputs, others = torch.randn(2, B, 11)

    def made(given):
        return dists.TorchMultiActionDistribution(
            given, None, child_distributions=makers, input_lens=[3, 4, 4], action_space=space
        )

    theirs = made(inputs)
    actions = theirs.sample()
    assert {key: getattr(part, "shape", None) for key, part in actions.items()} == {"a": (B,), "b": (B, 2), "c": None}
    a, b, c = inputs.split([3, 4, 4], 1)
    parts = ours.Categorical(a), ours.DiagonalGaussian(*b.chunk(2, 1)), ours.MultiCategorical(c, (2, 2))
    drawn = actions["a"], actions["b"], actions["c"][0]
    expected = sum(part.log_prob(action) for part, action in zip(parts, drawn, strict=True))
    side_by_side = torch.cat((drawn[0].unsqueeze(1).float(), drawn[1], drawn[2].float()), 1)
    assert torch.allclose(theirs.logp(side_by_side if merged else actions), expected, atol=1e-5)
    assert torch.allclose(theirs.logp(side_by_side.numpy()), expected, atol=1e-5)
    assert torch.allclose(theirs.sampled_action_logp(), expected, atol=1e-5)
    assert torch.allclose(theirs.entropy(), sum(part.entropy() for part in parts), atol=1e-5)
    assert (theirs.kl(made(others)) > 0).all()
    assert theirs.required_model_output_shape(space, {}) == 11


def test_arrays_become_tensors():
    theirs = dists.TorchCategorical(np.zeros((B, 3)), None)
    assert theirs.inputs.dtype == torch.float32
    assert theirs.logp(np.zeros(B, np.int64)).tolist() == pytest.approx([-math.log(3)] * B)


def test_a_class_of_a_script_writes_what_it_needs():
    class Lazy(dists.TorchDistributionWrapper):
        def _build_sample_op(self):
            return self.inputs.argmax(1)

        def logp(self, actions):
            return actions * 1.0

    lazy = Lazy(torch.eye(3))
    with pytest.raises(RuntimeError, match="call sample"):
        lazy.sampled_action_logp()
    assert lazy.sample().tolist() == [0, 1, 2]
    assert lazy.sampled_action_logp().tolist() == [0, 1, 2]
    with pytest.raises(NotImplementedError, match=r"Bare has no deterministic_sample\(\)"):
        type("Bare", (dists.ActionDistribution,), {})(None, None).deterministic_sample()
