"""`Distribution.gradient` against automatic differentiation of what `log_prob` and `entropy` say."""

import itertools

import pytest
import torch
from gymnasium import spaces

from rookery.core.spaces.arrays import action_spec
from rookery.models.heads import distribution_for, noise_for, output_width
from selection import slow_repeats

SPACES = {
    "discrete 2": spaces.Discrete(2),
    "discrete 7": spaces.Discrete(7),
    "multi_discrete, equal": spaces.MultiDiscrete([3, 3]),
    "multi_discrete, unequal": spaces.MultiDiscrete([2, 5, 3]),
    "multi_binary": spaces.MultiBinary(4),
    "box 1": spaces.Box(-1, 1, (1,)),
    "box 6": spaces.Box(-1, 1, (2, 3)),
    "composite": spaces.Tuple((spaces.MultiDiscrete([2, 4]), spaces.MultiBinary(3), spaces.Box(-1, 1, (2,)))),
    "composite, no numbers": spaces.Tuple((spaces.Discrete(3), spaces.MultiBinary(2))),
    "composite, no choices": spaces.Tuple((spaces.MultiBinary(2), spaces.Box(-1, 1, (2,)))),
}
MASKABLE = [name for name, space in SPACES.items() if action_spec(space).sizes]


class Case:
    """Random outputs of a head, the actions drawn from them, and what a loss's derivatives might be."""

    def __init__(self, name, rows, *, masked=False, scale=2.0, dtype=torch.float64, seed=0):
        generator = torch.Generator().manual_seed(seed)
        self.spec = action_spec(SPACES[name])
        numbers = self.spec.num_numbers
        self.output = (scale * torch.randn(rows, output_width(self.spec), generator=generator)).to(dtype)
        self.log_std = (0.5 * torch.randn(numbers, generator=generator) - 0.5).to(dtype) if numbers else None
        self.mask = self.draw_mask(rows, generator) if masked else None
        noise = noise_for(self.spec)
        uniform = torch.rand(rows, noise.uniform, generator=generator)
        normal = torch.randn(rows, noise.normal, generator=generator)
        self.action = self.distribution().sample(torch.cat((uniform, normal), -1).to(dtype))
        self.logp_gradient = torch.randn(rows, generator=generator).to(dtype)
        self.entropy_gradient = torch.randn(rows, generator=generator).to(dtype)

    def draw_mask(self, rows, generator):
        """About half of the options, at least one of each choice."""
        parts = []
        for size in self.spec.sizes:
            part = torch.rand(rows, size, generator=generator) < 0.5
            part[torch.arange(rows), torch.randint(size, (rows,), generator=generator)] = True
            parts.append(part)
        return torch.cat(parts, -1)

    def distribution(self):
        return distribution_for(self.spec, self.output, self.log_std, self.mask)

    def closed_form(self, entropy_gradient):
        return self.distribution().gradient(self.action, self.logp_gradient, entropy_gradient)

    def by_autograd(self, entropy_gradient):
        """In double precision, whatever the case is in: autograd loses more to rounding than the closed form."""
        output = self.output.double().clone().requires_grad_()
        log_std = None if self.log_std is None else self.log_std.double().clone().requires_grad_()
        distribution = distribution_for(self.spec, output, log_std, self.mask)
        logp = distribution.log_prob(self.action if self.action.dtype == torch.long else self.action.double())
        loss = (self.logp_gradient * logp + entropy_gradient * distribution.entropy()).sum()
        leaves = [output] if log_std is None else [output, log_std]
        gradients = torch.autograd.grad(loss, leaves)
        return gradients[0], gradients[1] if len(leaves) == 2 else None


def assert_close(found, expected, tolerance):
    """Equal up to `tolerance` of the largest element, each of the pair."""
    for mine, reference in zip(found, expected, strict=True):
        if reference is None:
            assert mine is None
        else:
            assert mine.shape == reference.shape
            assert (mine - reference).abs().max() <= tolerance * reference.abs().max()


def cases():
    return [(name, False) for name in SPACES] + [(name, True) for name in MASKABLE]


@pytest.mark.parametrize(("of", "rows"), slow_repeats(of=itertools.product(cases(), [1, 2, 17, 256])))
def test_the_closed_form_is_the_derivative(of, rows):
    name, masked = of
    case = Case(name, rows, masked=masked, seed=rows)
    for entropy_gradient in (0.0, -0.37, case.entropy_gradient):
        assert_close(case.closed_form(entropy_gradient), case.by_autograd(entropy_gradient), 1e-12)


@pytest.mark.parametrize(("name", "masked"), cases())
def test_single_precision_is_within_a_millionth_of_the_derivative(name, masked):
    case = Case(name, 256, masked=masked, dtype=torch.float32)
    for entropy_gradient in (0.0, -0.37):
        found = case.closed_form(entropy_gradient)
        assert all(part is None or part.dtype == torch.float32 for part in found)
        assert_close(found, case.by_autograd(entropy_gradient), 1e-6)


@pytest.mark.parametrize(("name", "masked"), cases())
def test_nearly_certain_actions_have_finite_gradients(name, masked):
    case = Case(name, 64, masked=masked, scale=60.0, dtype=torch.float32)
    found = case.closed_form(-0.37)
    assert all(part is None or part.isfinite().all() for part in found)
    assert_close(found, case.by_autograd(-0.37), 1e-5)


@pytest.mark.parametrize("name", MASKABLE)
def test_masked_logits_have_no_gradient_even_if_they_were_chosen(name):
    case = Case(name, 64, masked=True)
    forbidden = ~case.mask
    for choice, flags in enumerate(forbidden.split(case.spec.sizes, -1)):
        first = flags.long().argmax(-1)  # 0 in rows where all is allowed
        case.action = first if case.action.dim() == 1 else case.action.clone()
        if case.action.dim() == 2:
            case.action[:, choice] = first.to(case.action.dtype)
    for entropy_gradient in (0.0, -0.37):
        output, _ = case.closed_form(entropy_gradient)
        assert (output[:, : sum(case.spec.sizes)][forbidden] == 0).all()
        assert_close((output,), case.by_autograd(entropy_gradient)[:1], 1e-12)


def test_by_hand():
    # p = (1/4, 3/4), choice 0: d log p / d logits = (1, 0) - p. H = -sum p log p, dH / d logit = -p (log p + H)
    spec = action_spec(spaces.Discrete(2))
    distribution = distribution_for(spec, torch.tensor([[0.25, 0.75]], dtype=torch.float64).log(), None)
    action, one = torch.tensor([0]), torch.ones(1, dtype=torch.float64)
    assert distribution.gradient(action, one, 0.0)[0].tolist()[0] == pytest.approx([0.75, -0.75])
    slope = 0.75 * 0.25 * torch.log(torch.tensor(3.0)).item()  # p q log(q / p)
    assert distribution.gradient(action, 0 * one, 1.0)[0].tolist()[0] == pytest.approx([slope, -slope])
    # a number 2 standard deviations above its mean, std 1/2: d log p / d mean = 2 / 0.5, d / d log std = 2 ** 2 - 1
    spec = action_spec(spaces.Box(-1, 1, (1,)))
    log_std = torch.tensor([0.5], dtype=torch.float64).log()
    distribution = distribution_for(spec, torch.zeros(1, 1, dtype=torch.float64), log_std)
    mean, spread = distribution.gradient(torch.ones(1, 1, dtype=torch.float64), one, 0.0)
    assert (mean.item(), spread.item()) == pytest.approx((4.0, 3.0))
    assert distribution.gradient(torch.ones(1, 1, dtype=torch.float64), one, 5.0)[1].item() == pytest.approx(8.0)


@pytest.mark.parametrize("name", SPACES)
def test_nothing_that_was_given_is_changed(name):
    case = Case(name, 17)
    distribution = case.distribution()
    given = [case.output, case.action, case.logp_gradient, case.entropy_gradient, distribution.parameters]
    given += [] if case.log_std is None else [case.log_std]
    before = [tensor.clone() for tensor in given]
    for entropy_gradient in (0.0, -0.37, case.entropy_gradient):
        first = distribution.gradient(case.action, case.logp_gradient, entropy_gradient)
        second = distribution.gradient(case.action, case.logp_gradient, entropy_gradient)
        assert_close(second, first, 0.0)
    assert all(torch.equal(now, then) for now, then in zip(given, before, strict=True))
