import math

import pytest
import torch
from torch import distributions as reference

from rookery.models.distributions import Categorical, DiagonalGaussian, MultiCategorical, NoiseSpec


def randn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def rand(*shape, seed=0):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed))


def close(a, b, tolerance=1e-5):
    return torch.allclose(a, b, atol=tolerance, rtol=tolerance)


def test_categorical_entropy_and_kl_to_uniform_of_logits_1_0_minus_1():
    # p = e^(1, 0, -1) / 4.086161 = (.665241, .244728, .090031); H = -sum p log p; KL to uniform = 1.098612 - H
    dist = Categorical(torch.tensor([1.0, 0.0, -1.0]))
    assert dist.entropy().item() == pytest.approx(0.832396, abs=1e-6)
    assert dist.kl(Categorical(torch.zeros(3))).item() == pytest.approx(0.266217, abs=1e-6)


def test_categorical_agrees_with_torch():
    mine, other = Categorical(randn(5, 3, 7)), Categorical(randn(5, 3, 7, seed=1))
    theirs, their_other = (reference.Categorical(logits=d.log_probs) for d in (mine, other))
    action = torch.randint(0, 7, (5, 3))
    assert close(mine.log_prob(action), theirs.log_prob(action))
    assert close(mine.entropy(), theirs.entropy())
    assert close(mine.kl(other), reference.kl_divergence(theirs, their_other))
    assert torch.equal(mine.mode(), theirs.mode)


def test_masked_categorical_is_the_softmax_over_the_allowed_choices():
    logits, mask = randn(4, 6), torch.tensor([True, False, True, True, False, True])
    dist, subset = Categorical(logits, mask.expand(4, 6)), Categorical(logits[:, mask])
    assert close(dist.log_probs[:, mask].exp(), torch.softmax(logits[:, mask], -1))
    assert (dist.log_probs[:, ~mask].exp() == 0).all()
    assert close(dist.entropy(), subset.entropy())
    other = Categorical(torch.zeros(4, 6), mask.expand(4, 6))
    assert close(dist.kl(other), subset.kl(Categorical(torch.zeros(4, 4))))


def test_masked_logits_get_no_gradient_and_everything_stays_finite():
    logits = randn(3, 4).requires_grad_()
    mask = torch.tensor([[True, False, True, False], [False, True, False, False], [True] * 4])
    dist = Categorical(logits, mask)
    (
        dist.entropy() + dist.log_prob(torch.tensor([0, 1, 2])) + dist.kl(Categorical(torch.zeros(3, 4), mask))
    ).sum().backward()
    assert torch.isfinite(logits.grad).all()
    assert (logits.grad[~mask] == 0).all()
    assert dist.entropy()[1].item() == 0.0  # one choice only


def test_inverse_cdf_takes_the_first_choice_whose_cumulative_probability_exceeds_the_number():
    dist = Categorical(torch.log(torch.tensor([0.25, 0.5, 0.25])).expand(6, 3))
    number = torch.tensor([[0.0], [0.2499], [0.2501], [0.7499], [0.7501], [0.9999]])
    assert dist.sample(number).tolist() == [0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize("number", [0.0, 2.0**-24, 0.5, 1.0 - 2.0**-24, 1.0])
def test_sampling_never_takes_a_masked_or_impossible_choice(number):
    mask = torch.tensor([[False, True, False, True, False], [True, False, False, False, False], [False] * 4 + [True]])
    action = Categorical(randn(3, 5), mask).sample(torch.full((3, 1), number))
    assert mask.gather(1, action[:, None]).all()
    impossible = Categorical(torch.tensor([-500.0, 3.0, -500.0, 2.0, -500.0]).expand(1, 5))
    assert impossible.sample(torch.full((1, 1), number)).item() in (1, 3)


def test_sample_frequencies_are_the_probabilities():
    # an even grid of 10,000 numbers: each frequency is off by at most one grid step at either edge
    probabilities = torch.tensor([0.1, 0.05, 0.6, 0.25])
    grid = ((torch.arange(10_000) + 0.5) / 10_000)[:, None]
    action = Categorical(probabilities.log().expand(10_000, 4)).sample(grid)
    assert close(torch.bincount(action) / 10_000, probabilities, 2e-4)


def test_long_categorical_rows_never_sample_past_the_end():
    dist = Categorical(randn(50, 5000))
    assert (dist.sample(torch.ones(50, 1)) < 5000).all()
    assert dist.sample(torch.ones(50, 1)).dtype == torch.int64


@pytest.mark.parametrize("sizes", [(3, 3), (2, 5, 3), (4,)])
def test_multi_categorical_is_the_sum_of_its_choices(sizes):
    logits, other = randn(6, sum(sizes)), randn(6, sum(sizes), seed=1)
    mask = rand(6, sum(sizes)) < 0.7
    mask[:, [0, *torch.tensor(sizes).cumsum(0)[:-1].tolist()]] = True
    dist, second = MultiCategorical(logits, sizes, mask), MultiCategorical(other, sizes, mask)
    parts = [Categorical(*pair) for pair in zip(logits.split(sizes, 1), mask.split(sizes, 1), strict=True)]
    others = [Categorical(*pair) for pair in zip(other.split(sizes, 1), mask.split(sizes, 1), strict=True)]
    noise = rand(6, len(sizes))
    action = dist.sample(noise)
    assert dist.noise == NoiseSpec(uniform=len(sizes))
    assert torch.equal(action, torch.stack([p.sample(noise[:, i : i + 1]) for i, p in enumerate(parts)], 1))
    assert torch.equal(dist.mode(), torch.stack([p.mode() for p in parts], 1))
    assert close(dist.log_prob(action), sum(p.log_prob(action[:, i]) for i, p in enumerate(parts)))
    assert close(dist.entropy(), sum(p.entropy() for p in parts))
    assert close(dist.kl(second), sum(p.kl(q) for p, q in zip(parts, others, strict=True)))


@pytest.mark.parametrize("shared_std", [True, False])
def test_gaussian_agrees_with_torch(shared_std):
    std_shape = (3,) if shared_std else (5, 2, 3)
    mine = DiagonalGaussian(randn(5, 2, 3), 0.5 * randn(*std_shape, seed=1))
    other = DiagonalGaussian(randn(5, 2, 3, seed=2), 0.5 * randn(*std_shape, seed=3))
    theirs, their_other = (
        reference.Independent(reference.Normal(d.mean, d.log_std.exp().expand(5, 2, 3)), 1) for d in (mine, other)
    )
    action = randn(5, 2, 3, seed=4)
    assert close(mine.log_prob(action), theirs.log_prob(action))
    assert close(mine.entropy(), theirs.entropy())
    assert close(mine.kl(other), reference.kl_divergence(theirs, their_other))
    assert torch.equal(mine.mode(), mine.mean)


def test_gaussian_sample_is_mean_plus_std_times_noise():
    # mean 1, std 2, noise -.5 -> action 0; log-density = -.5 * .25 - log 2 - .5 log(2 pi)
    dist = DiagonalGaussian(torch.tensor([[1.0]]), torch.tensor([math.log(2.0)]))
    action, logp = dist.sample_logp(torch.tensor([[-0.5]]))
    assert action.item() == pytest.approx(0.0, abs=1e-6)
    assert logp.item() == pytest.approx(-0.125 - math.log(2) - 0.5 * math.log(2 * math.pi), abs=1e-6)


@pytest.mark.parametrize(
    "dist",
    [Categorical(randn(9, 4)), MultiCategorical(randn(9, 5), (2, 3)), DiagonalGaussian(randn(9, 2), torch.zeros(2))],
)
def test_sample_logp_is_sample_and_log_prob(dist):
    noise = rand(9, dist.noise.width)
    action, logp = dist.sample_logp(noise)
    assert torch.equal(action, dist.sample(noise))
    assert close(logp, dist.log_prob(action))
    assert logp.shape == dist.entropy().shape == (9,)
