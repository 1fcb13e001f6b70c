import math

import numpy as np
import pytest
import torch
from gymnasium import spaces

from rookery.core.spaces.arrays import action_spec
from rookery.models.exploration import OrnsteinUhlenbeck, StateDependent
from rookery.models.squashed import Deterministic, Squashed

BOX = spaces.Box(-1, 1, (2,), np.float32)


def head(spec, num_features=6, log_std_init=0.0):
    generator = torch.Generator().manual_seed(0)
    return spec.build(num_features, action_spec(BOX), log_std_init=log_std_init, generator=generator)


# --- Ornstein-Uhlenbeck -----------------------------------------------------------------------------------------------


def test_drifting_noise_becomes_standard_normal_and_neighbours_correlate_by_what_is_kept():
    subject, slots = OrnsteinUhlenbeck(1, theta=0.15), 20_000
    generator = torch.Generator().manual_seed(0)
    carried, seen = torch.zeros(slots, 1), []
    for _ in range(60):
        seen.append(subject.numbers(torch.randn(slots, 1, generator=generator), carried, carried).clone())
    last, before, long_ago = seen[-1], seen[-2], seen[-6]
    assert last.std().item() == pytest.approx(1.0, abs=0.02)
    assert last.mean().item() == pytest.approx(0.0, abs=0.02)
    assert (last * before).mean().item() == pytest.approx(0.85, abs=0.02)
    assert (last * long_ago).mean().item() == pytest.approx(0.85**5, abs=0.03)


def test_drifting_noise_starts_at_zero_and_is_what_is_carried():
    subject, carried = OrnsteinUhlenbeck(2, theta=0.5), torch.zeros(1, 2)
    fresh = torch.tensor([[1.0, -2.0]])
    first = subject.numbers(fresh, carried, carried).clone()
    torch.testing.assert_close(first, math.sqrt(0.75) * fresh)
    second = subject.numbers(fresh, carried, carried)
    torch.testing.assert_close(second, 0.5 * first + math.sqrt(0.75) * fresh)
    assert torch.equal(carried, second)


def test_noise_that_keeps_nothing_is_white():
    subject, fresh = OrnsteinUhlenbeck(2, theta=1.0), torch.randn(5, 2)
    carried = torch.randn(5, 2)
    assert torch.equal(subject.numbers(fresh, carried, carried), fresh)


@pytest.mark.parametrize("spec", [Squashed(noise="ou"), Deterministic(noise="ou")])
def test_heads_draw_with_drifting_noise(spec):
    subject, x, fresh = head(spec), torch.randn(3, 6), torch.randn(3, 2)
    if isinstance(spec, Deterministic):
        subject.std.fill_(0.2)
    carried = torch.randn(3, subject.exploration_size)
    drifted = 0.85 * carried + math.sqrt(1 - 0.85**2) * fresh
    action, logp = subject.draw(x, None, fresh, carried)
    expected, its_logp = subject(x).sample_logp(drifted)
    torch.testing.assert_close(action, expected)
    torch.testing.assert_close(logp, its_logp)


# --- gSDE -------------------------------------------------------------------------------------------------------------


def test_state_dependent_noise_is_the_same_in_the_same_state_until_it_is_drawn_anew():
    subject = StateDependent(2, 6, every=3)
    x, carried = torch.randn(4, 6), torch.zeros(4, subject.size)
    seen = [subject.numbers(torch.randn(4, 12), carried, x) for _ in range(7)]
    for step, (now, after) in enumerate(zip(seen, seen[1:], strict=False), 1):
        assert torch.equal(now, after) == (step % 3 != 0)


def test_state_dependent_noise_may_last_for_whole_episodes_and_each_slot_has_its_own_clock():
    subject = StateDependent(2, 6, every=None)
    x, carried = torch.randn(2, 6), torch.zeros(2, subject.size)
    first = subject.numbers(torch.randn(2, 12), carried, x)
    for _ in range(50):
        assert torch.equal(subject.numbers(torch.randn(2, 12), carried, x), first)
    carried[1] = 0.0  # its episode ended
    then = subject.numbers(torch.randn(2, 12), carried, x)
    assert torch.equal(then[0], first[0])
    assert not torch.equal(then[1], first[1])


@pytest.mark.parametrize("spread", [None, torch.rand(2, 6) + 0.1])
def test_state_dependent_noise_is_linear_in_the_features_and_standard_normal(spread):
    subject, x = StateDependent(2, 6, every=None), torch.randn(1, 6).expand(20_000, 6)
    noise, carried = torch.randn(20_000, 12), torch.zeros(20_000, subject.size)
    numbers = subject.numbers(noise, carried, x, spread)
    assert numbers.std(0).tolist() == pytest.approx([1.0, 1.0], abs=0.03)
    scale = torch.ones(2, 6) if spread is None else spread
    by_hand = [
        (x[7] * scale[i] * noise[7].view(2, 6)[i]).sum() / (x[7] * scale[i]).square().sum().sqrt() for i in range(2)
    ]
    torch.testing.assert_close(numbers[7], torch.stack(by_hand))


def test_features_of_zeros_give_no_noise():
    subject = StateDependent(2, 6, every=None)
    numbers = subject.numbers(torch.randn(1, 12), torch.zeros(1, subject.size), torch.zeros(1, 6))
    assert numbers.tolist() == [[0.0, 0.0]]


def test_a_squashed_head_with_gsde_acts_by_mean_plus_its_noise_matrix_times_the_features():
    subject, x = head(Squashed(noise="gsde")), torch.randn(3, 6)
    subject.log_spread.data += 0.5 * torch.randn(2, 6)
    fresh, carried = torch.randn(3, 12), torch.zeros(3, subject.exploration_size)
    action, logp = subject.draw(x, None, fresh, carried)
    matrix = subject.log_spread.exp() * fresh.view(3, 2, 6)  # theta_eps ~ N(0, sigma^2)
    raw = subject.linear(x) + (matrix * x.unsqueeze(1)).sum(-1)
    torch.testing.assert_close(action, torch.tanh(raw), atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(logp, subject(x).log_prob(action), atol=1e-3, rtol=1e-3)


def test_the_learned_spread_has_a_gradient_and_shapes_no_features():
    subject, x = head(Squashed(noise="gsde")), torch.randn(3, 6, requires_grad=True)
    gradient, of_features = torch.autograd.grad(subject(x).log_std.sum(), [subject.log_spread, x], allow_unused=True)
    assert gradient.abs().min() > 0
    assert of_features is None


def test_the_spread_of_gsde_starts_where_the_setting_says_for_features_of_size_one():
    subject = head(Squashed(noise="gsde"), log_std_init=-1.0)
    torch.testing.assert_close(subject(torch.ones(1, 6)).log_std, torch.full((1, 2), -1.0), atol=1e-4, rtol=0)


@pytest.mark.parametrize("kind", ["white", "ou", "gsde"])
@pytest.mark.parametrize("make", [Squashed, Deterministic])
def test_evaluation_is_the_same_whatever_explores(make, kind):
    subject, x = head(make(noise=kind)), torch.randn(3, 6)
    subject.random.fill_(1.0)
    assert torch.equal(subject(x).mode(), torch.tanh(subject.linear(x)[:, :2]))
