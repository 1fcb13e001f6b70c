import math

import pytest
import torch
from torch import distributions as reference

from rookery.models.distributions import (
    Bernoulli,
    Categorical,
    Composite,
    DiagonalGaussian,
    MultiCategorical,
    NoiseSpec,
)


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


def test_log_probabilities_of_rows_and_of_tables_of_rows_are_the_same_bits():
    logits, weight = torch.randn(12, 5, requires_grad=True), torch.randn(12)
    action = torch.randint(5, (12,))
    found = []
    for shape in ((12,), (4, 3)):
        logp = Categorical(logits.view(*shape, 5)).log_prob(action.view(shape)).flatten()
        found.append((logp, *torch.autograd.grad(logp @ weight, logits)))
    assert all(torch.equal(*pair) for pair in zip(*found, strict=True))
    for wrong in (-1, 5):
        with pytest.raises(IndexError):
            Categorical(logits).log_prob(torch.full((12,), wrong))


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


@pytest.mark.parametrize("number", [0.0, 2.0**-24, 0.5, 1.0 - 2.0**-24])  # up to the largest float32 below 1
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
    largest = torch.full((50, 1), 1.0 - 2.0**-24)
    assert (dist.sample(largest) < 5000).all()
    assert dist.sample(largest).dtype == torch.int64


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


def test_flags_of_probability_one_quarter_and_one_half():
    # log(1/4) + log(1/2); H = log 2 + (1/4) log 4 + (3/4) log(4/3); KL of it to two halves = 2 log 2 - H
    dist = Bernoulli(torch.log(torch.tensor([1 / 3, 1.0])))
    assert dist.log_prob(torch.tensor([1, 0])).item() == pytest.approx(math.log(1 / 8), abs=1e-6)
    entropy = math.log(2) + math.log(4) / 4 + 0.75 * math.log(4 / 3)
    assert dist.entropy().item() == pytest.approx(entropy, abs=1e-6)
    assert dist.kl(Bernoulli(torch.zeros(2))).item() == pytest.approx(2 * math.log(2) - entropy, abs=1e-6)
    assert dist.sample(torch.tensor([[0.2499, 0.4999], [0.2501, 0.5001]])).tolist() == [[1, 1], [0, 0]]
    assert dist.mode().tolist() == [0, 0]


def test_flags_agree_with_torch():
    mine, other = Bernoulli(3 * randn(5, 2, 3)), Bernoulli(3 * randn(5, 2, 3, seed=1))
    theirs, their_other = (reference.Independent(reference.Bernoulli(logits=d.logits), 1) for d in (mine, other))
    action = mine.sample(rand(5, 2, 3))
    assert action.dtype == torch.int64
    assert close(mine.log_prob(action), theirs.log_prob(action.float()))
    assert close(mine.entropy(), theirs.entropy())
    assert close(mine.kl(other), reference.kl_divergence(theirs, their_other))


def test_flags_that_are_certain_stay_finite_and_are_never_missed():
    logits = torch.tensor([[200.0, -200.0]]).requires_grad_()
    dist = Bernoulli(logits)
    for number in (0.0, 0.5, 1 - 2.0**-24):
        assert dist.sample(torch.full((1, 2), number)).tolist() == [[1, 0]]
    assert dist.log_prob(torch.tensor([[1, 0]])).item() == 0.0
    assert dist.log_prob(torch.tensor([[0, 1]])).item() == -400.0
    assert dist.entropy().item() == 0.0
    assert dist.kl(Bernoulli(torch.tensor([[-200.0, -200.0]]))).item() == 200.0
    (dist.entropy() + dist.log_prob(torch.tensor([[0, 0]])) + dist.kl(Bernoulli(torch.zeros(1, 2)))).sum().backward()
    assert torch.isfinite(logits.grad).all()


def composite(seed=0, rows=6):
    """Two choices of 3 and 2, one of them masked, two flags and a number; and its parts."""
    mask = torch.tensor([True, False, True, True, True]).expand(rows, 5)
    parts = [
        MultiCategorical(randn(rows, 5, seed=seed), (3, 2), mask),
        Bernoulli(randn(rows, 2, seed=seed + 10)),
        DiagonalGaussian(randn(rows, 1, seed=seed + 20), torch.tensor([0.3])),
    ]
    return Composite(parts, (2, 2, 1)), parts


def test_a_composite_is_its_parts_side_by_side():
    (dist, parts), (other, others) = composite(), composite(1)
    noise = rand(6, 5)
    action = dist.sample(noise)
    assert dist.noise == NoiseSpec(uniform=4, normal=1)
    assert action.dtype == torch.float32
    pieces = [parts[0].sample(noise[:, :2]), parts[1].sample(noise[:, 2:4]), parts[2].sample(noise[:, 4:])]
    assert torch.equal(action, torch.cat([piece.float() for piece in pieces], 1))
    assert torch.equal(dist.mode(), torch.cat([part.mode().float() for part in parts], 1))
    assert close(dist.log_prob(action), sum(part.log_prob(piece) for part, piece in zip(parts, pieces, strict=True)))
    assert close(dist.entropy(), sum(part.entropy() for part in parts))
    assert close(dist.kl(other), sum(mine.kl(theirs) for mine, theirs in zip(parts, others, strict=True)))


def test_a_composite_says_large_choices_exactly():
    logits = torch.full((1, 2**20 + 3), -50.0)
    logits[0, 2**20 + 1] = 50.0
    dist = Composite([MultiCategorical(logits, (2**20 + 3,))], (1,))
    assert dist.sample(torch.tensor([[0.5]])).item() == 2**20 + 1
    assert dist.log_prob(torch.tensor([[2.0**20 + 1]])).item() == 0.0


EVERY = [
    lambda seed: Categorical(randn(9, 4, seed=seed), torch.tensor([True, True, False, True]).expand(9, 4)),
    lambda seed: MultiCategorical(randn(9, 5, seed=seed), (2, 3)),
    lambda seed: Bernoulli(randn(9, 2, seed=seed)),
    lambda seed: DiagonalGaussian(randn(9, 2, seed=seed), torch.full((2,), 0.1 * seed)),
    lambda seed: composite(seed, 9)[0],
]


@pytest.mark.parametrize("make", EVERY)
def test_a_distribution_comes_back_from_its_parameters_row_by_row(make):
    dist, other = make(0), make(1)
    rows = torch.tensor([7, 2, 2])
    again = other.like(dist.parameters[rows])
    noise = rand(9, dist.noise.width)[rows]
    action = again.sample(noise)
    full = torch.zeros(9, dist.noise.width).index_copy(0, rows, noise)
    assert close(dist.sample(full)[7].float(), action[0].float())
    assert close(again.entropy(), dist.entropy()[rows])
    assert close(again.kl(again), torch.zeros(3))
    assert close(again.kl(other.like(other.parameters[rows])), dist.kl(other)[rows])
    assert type(again) is type(dist)


@pytest.mark.parametrize("make", EVERY)
def test_divergence_is_never_negative_and_is_the_mean_log_ratio(make):
    # KL(p || q) = E_p[log p - log q]: the mean over 20,000 draws lies within 5 standard errors
    dist, other = make(0), make(1)
    p, q = (d.like(d.parameters[:1].expand(20_000, -1)) for d in (dist, other))
    noise = torch.cat((rand(20_000, dist.noise.uniform), randn(20_000, dist.noise.normal)), 1)
    action = p.sample(noise)
    ratio = p.log_prob(action) - q.log_prob(action)
    assert p.kl(q)[0].item() == pytest.approx(ratio.mean().item(), abs=5 * ratio.std().item() / 20_000**0.5)
    assert (dist.kl(other) >= 0).all()


@pytest.mark.parametrize("dist", [make(0) for make in EVERY])
def test_sample_logp_is_sample_and_log_prob(dist):
    noise = rand(9, dist.noise.width)
    action, logp = dist.sample_logp(noise)
    assert torch.equal(action, dist.sample(noise))
    assert close(logp, dist.log_prob(action))
    assert logp.shape == dist.entropy().shape == (9,)
