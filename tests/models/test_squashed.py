import math

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch.distributions import AffineTransform, Independent, Normal, TanhTransform, TransformedDistribution

from rookery.core.errors import SpaceError
from rookery.core.spaces.arrays import action_spec
from rookery.models.heads import head_from_json, head_to_json
from rookery.models.squashed import Deterministic, NoisyAction, Squashed, SquashedGaussian

BOX = spaces.Box(-1, 1, (3,), np.float32)


def head(spec=Squashed(), space=BOX, log_std_init=0.0, num_features=4):
    generator = torch.Generator().manual_seed(0)
    return spec.build(num_features, action_spec(space), log_std_init=log_std_init, generator=generator)


def reference(mean, log_std, scale=None):
    squash = [TanhTransform(cache_size=1)] + ([] if scale is None else [AffineTransform(0.0, scale)])
    return Independent(TransformedDistribution(Normal(mean, log_std.exp()), squash), 1)


def quantiles(n):
    """Normal numbers that fill their distribution evenly."""
    return Normal(0.0, 1.0).icdf((torch.arange(n, dtype=torch.float64) + 0.5) / n).float()


# --- the distribution -------------------------------------------------------------------------------------------------


def test_the_log_probability_is_the_golden_number():
    raw, mean, std = torch.tensor([0.3, -1.2]), torch.tensor([0.1, -0.5]), torch.tensor([0.5, 0.8])
    subject = SquashedGaussian(mean, std.log())
    assert subject.log_prob(torch.tanh(raw)).item() == pytest.approx(-0.10833935, abs=1e-6)
    assert subject.sample_logp((raw - mean) / std)[1].item() == pytest.approx(-0.10833935, abs=1e-6)
    # actions are stored in [-1, 1]; in an environment's [-2, 2] the density would be that of torch with a scale on top
    scaled = reference(mean, std.log(), 2.0).log_prob(2.0 * torch.tanh(raw))
    assert scaled.item() == pytest.approx(-1.49463371, abs=1e-6)


def test_samples_and_probabilities_are_those_of_torch():
    mean, log_std, noise = torch.randn(50, 3), torch.randn(50, 3) - 1, torch.randn(50, 3)
    action, logp = SquashedGaussian(mean, log_std).sample_logp(noise)
    theirs = reference(mean, log_std)
    raw = mean + log_std.exp() * noise
    squashed = TanhTransform(cache_size=1)
    torch.testing.assert_close(action, torch.tanh(raw))
    expected = Normal(mean, log_std.exp()).log_prob(raw) - squashed.log_abs_det_jacobian(raw, action)
    torch.testing.assert_close(logp, expected.sum(-1))
    inside = action.clamp(-0.99, 0.99)
    subject = SquashedGaussian(mean, log_std)
    torch.testing.assert_close(subject.log_prob(inside), theirs.log_prob(inside), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(subject.sample(noise), action)


def test_the_density_integrates_to_one():
    action = torch.linspace(-1, 1, 200_001)[:-1, None] + 5e-6
    subject = SquashedGaussian(torch.tensor([0.4]), torch.tensor([-0.3]))
    assert subject.log_prob(action).exp().mean().item() * 2 == pytest.approx(1.0, abs=1e-3)


def test_far_out_the_log_probability_is_exact_where_float32_sees_tanh_as_one():
    raw = 10.0
    exact = -0.5 * math.log(2 * math.pi) - 2 * (math.log(2) - raw - math.log1p(math.exp(-2 * raw)))
    action, logp = SquashedGaussian(torch.tensor([raw]), torch.zeros(1)).sample_logp(torch.zeros(1))
    assert action.item() == 1.0
    assert logp.item() == pytest.approx(exact, rel=1e-6)  # log(1 - tanh^2 + 1e-6) would be off by 5


@pytest.mark.parametrize("bound", [-1.0, 1.0])
def test_a_stored_action_at_a_bound_has_a_finite_probability(bound):
    subject = SquashedGaussian(torch.zeros(2), torch.zeros(2))
    assert torch.isfinite(subject.log_prob(torch.tensor([bound, 0.0])))


def test_gradients_pass_through_samples_and_their_probability():
    mean, log_std = torch.randn(4, 3, dtype=torch.float64), torch.randn(4, 3, dtype=torch.float64) - 1
    noise = torch.randn(4, 3, dtype=torch.float64)
    inputs = mean.requires_grad_(), log_std.requires_grad_()
    assert torch.autograd.gradcheck(lambda m, s: SquashedGaussian(m, s).sample_logp(noise), inputs)


# --- the head ---------------------------------------------------------------------------------------------------------


def test_the_layer_puts_out_means_then_log_standard_deviations():
    subject, x = head(), torch.randn(5, 4)
    output = subject.linear(x)
    dist = subject(x)
    assert torch.equal(dist.mean, output[:, :3])
    assert torch.equal(dist.log_std, output[:, 3:])
    assert torch.equal(dist.mode(), torch.tanh(output[:, :3]))


@pytest.mark.parametrize("log_std", ["clamp", "tanh"])
@pytest.mark.parametrize("init", [-3.0, 0.0, 1.0])
def test_the_spread_starts_where_the_setting_says_and_stays_in_range(log_std, init):
    subject = head(Squashed(log_std=log_std), log_std_init=init)
    torch.testing.assert_close(subject(torch.zeros(1, 4)).log_std, torch.full((1, 3), init))
    low, high = (-20.0, 2.0) if log_std == "clamp" else (-5.0, 2.0)
    for far, bound in ((-1e4, low), (1e4, high)):
        subject.linear.bias.data.fill_(far)
        torch.testing.assert_close(subject(torch.zeros(1, 4)).log_std, torch.full((1, 3), bound))


@pytest.mark.parametrize("spec", [Squashed(), Squashed(noise="gsde"), Deterministic()])
def test_warm_up_actions_are_uniform(spec):
    subject = head(spec, spaces.Box(-1, 1, (1,), np.float32))
    noise = torch.zeros(1000, subject.noise.width)
    noise[:, 0] = quantiles(1000)
    subject.random.fill_(1.0)
    carried = torch.zeros(1000, subject.exploration_size)
    action, logp = subject.draw(torch.randn(1000, 4), None, noise, carried)
    torch.testing.assert_close(action[:, 0], (torch.arange(1000) + 0.5) / 500 - 1, atol=1e-4, rtol=0)
    torch.testing.assert_close(logp, torch.full((1000,), -math.log(2.0)))


@pytest.mark.parametrize("spec", [Squashed(), Deterministic()])
def test_a_row_draws_from_what_the_head_says_once_it_is_no_longer_random(spec):
    subject, x = head(spec), torch.randn(5, 4)
    noise = torch.randn(5, 3)
    if isinstance(spec, Deterministic):
        subject.std.fill_(0.3)
    action, logp = subject.draw(x, None, noise, None)
    expected, its_logp = subject(x).sample_logp(noise)
    assert torch.equal(action, expected)
    assert torch.equal(logp, its_logp)


def test_the_deterministic_head_is_tanh_of_a_layer_and_noise_stays_within_bounds():
    subject, x = head(Deterministic()), torch.randn(5, 4)
    assert torch.equal(subject(x).mode(), torch.tanh(subject.linear(x)))
    disturbed = NoisyAction(torch.tensor([[0.9, -0.9, 0.0]]), torch.tensor(0.5))
    noise = torch.tensor([[2.0, -2.0, 0.5]])
    assert disturbed.sample(noise).tolist() == [[1.0, -1.0, 0.25]]
    assert disturbed.log_prob(disturbed.sample(noise)).tolist() == [0.0]
    gradient = torch.autograd.grad(subject(x).mode().sum(), subject.linear.weight)[0]
    assert gradient.abs().sum() > 0


@pytest.mark.parametrize("spec", [Squashed(), Deterministic()])
@pytest.mark.parametrize(
    ("space", "words"),
    [
        (spaces.Discrete(4), "DQN"),
        (spaces.MultiDiscrete([2, 2]), "PPO"),
        (spaces.MultiBinary(2), "PPO"),
        (spaces.Tuple((spaces.Box(-1, 1), spaces.MultiBinary(2))), "PPO"),
        (spaces.Box(np.array([-1, -np.inf], np.float32), np.array([1, 1], np.float32)), "no finite bounds in 1 of 2"),
    ],
)
def test_actions_without_bounds_and_other_sorts_are_refused_with_a_way_out(spec, space, words):
    with pytest.raises(SpaceError, match=words):
        head(spec, space)


@pytest.mark.parametrize("spec", [Squashed("gsde", 0.3, 8, "tanh"), Deterministic("ou", 0.2)])
def test_a_spec_survives_a_file(spec):
    assert head_from_json(head_to_json(spec)) == spec


@pytest.mark.regression(
    "wrong result", "Importance weights of a squashed policy hold where its actions lie at their bounds"
)
@pytest.mark.parametrize("raw", [-14.0, -9.5, 0.3, 7.0, 9.2, 15.0, 40.0])
def test_a_density_by_the_number_before_tanh_is_that_of_float64_at_any_distance_from_a_bound(raw):
    mean, log_std = 8.0, 1.2
    subject = SquashedGaussian(torch.tensor([mean]), torch.tensor([log_std]))
    given = torch.tensor([raw])
    found = subject.log_prob(torch.tanh(given), given)
    normal = -0.5 * ((raw - mean) / math.exp(log_std)) ** 2 - log_std - 0.5 * math.log(2 * math.pi)
    slope = 2.0 * (math.log(2.0) - raw - (-2.0 * raw if raw < -20 else math.log1p(math.exp(-2.0 * raw))))
    assert float(found) == pytest.approx(normal - slope, rel=1e-5, abs=1e-5)
    if abs(raw) > 9.1:
        assert (
            float(torch.tanh(given).abs()) == 1.0 and abs(float(subject.log_prob(torch.tanh(given))) - float(found)) > 1
        )


def test_a_number_before_tanh_that_is_not_known_is_taken_from_the_action():
    subject = SquashedGaussian(torch.zeros(2), torch.zeros(2))
    raw = torch.tensor([[0.4, -0.7]])
    given = torch.tensor([[float("nan"), -0.7]])
    torch.testing.assert_close(subject.log_prob(torch.tanh(raw), given), subject.log_prob(torch.tanh(raw)))
