"""The mathematics of values of actions, on numbers worked out elsewhere, by slow loops, and at its edges."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rookery.core.ops import lambda_returns, n_step, project, quantile_huber, rescale, unrescale

REWARD = torch.tensor([1, -0.5, 2, 0, 1], dtype=torch.float64)
NEXT_VALUE = torch.tensor([0.2, -0.1, 0.4, 0.3, 0.6], dtype=torch.float64)
AT_THE_END = torch.tensor([False] * 4 + [True])


def close(found, expected):
    return torch.allclose(found, torch.tensor(expected, dtype=found.dtype), atol=1e-6, rtol=0)


def column(*numbers):
    return torch.tensor([numbers], dtype=torch.float64)


# --- returns ----------------------------------------------------------------------------------------------------------


def test_lambda_returns_of_an_unbroken_fragment():
    found = lambda_returns(REWARD, NEXT_VALUE, AT_THE_END, gamma=0.9, trace_lambda=0.8)
    assert close(found, [2.171178, 1.576636, 2.909216, 1.1628, 1.54])


def test_lambda_returns_stop_where_an_episode_ends():
    ended = torch.tensor([False, False, True, False, True])
    found = lambda_returns(REWARD, NEXT_VALUE, ended, gamma=0.9, trace_lambda=0.8)
    last = 2 + 0.9 * 0.4  # of decision 2, whatever came after its episode
    before = -0.5 + 0.9 * (0.2 * -0.1 + 0.8 * last)
    assert close(found[:3], [1 + 0.9 * (0.2 * 0.2 + 0.8 * before), before, last])


def test_lambda_0_is_the_next_reward_and_value_and_1_the_rewards_of_the_fragment():
    assert torch.allclose(
        lambda_returns(REWARD, NEXT_VALUE, AT_THE_END, gamma=0.9, trace_lambda=0.0), REWARD + 0.9 * NEXT_VALUE
    )
    whole = sum(0.9**t * REWARD[t] for t in range(5)) + 0.9**5 * 0.6
    found = lambda_returns(REWARD, NEXT_VALUE, AT_THE_END, gamma=0.9, trace_lambda=1.0)
    assert found[0].item() == pytest.approx(whole.item(), abs=1e-12)


def n_step_target(reward, value_after, ended, n, gamma):
    total, steps = n_step(reward, ended, n=n, gamma=gamma)
    return total + gamma**steps * value_after[torch.arange(len(reward)) + steps - 1]


def test_returns_of_three_steps():
    assert close(n_step_target(REWARD, NEXT_VALUE, AT_THE_END, 3, 0.9), [2.4616, 1.5187, 3.2474, 1.386, 1.54])


def test_a_window_that_meets_an_end_is_discounted_by_the_steps_that_it_has():
    ended = torch.tensor([False, False, True, False, True])
    total, steps = n_step(REWARD, ended, n=3, gamma=0.9)
    assert steps.tolist() == [3, 2, 1, 2, 1]
    assert close(total, [1 - 0.45 + 0.81 * 2, -0.5 + 1.8, 2, 0.9, 1])


@given(st.integers(1, 12), st.integers(1, 6), st.integers(1, 3), st.integers(0, 2**32 - 1))
def test_windows_are_those_of_a_slow_loop(length, n, columns, seed):
    rng = np.random.default_rng(seed)
    reward = torch.from_numpy(rng.normal(size=(length, columns)))
    ended = torch.from_numpy(rng.random((length, columns)) < 0.3)
    ended[-1] = True
    total, steps = n_step(reward, ended, n=n, gamma=0.9)
    for f in range(columns):
        for t in range(length):
            expected, k = 0.0, 0
            while k < n:
                expected += 0.9**k * reward[t + k, f].item()
                k += 1
                if ended[t + k - 1, f]:
                    break
            assert steps[t, f] == k
            assert total[t, f].item() == pytest.approx(expected, abs=1e-12)


def test_windows_do_not_look_behind_an_end_and_leave_their_inputs_alone():
    reward = torch.tensor([1.0, 2.0, float("nan"), float("nan")])
    ended = torch.tensor([False, True, False, True])
    copies = reward.clone(), ended.clone()
    total, _ = n_step(reward, ended, n=4, gamma=0.5)
    assert total[:2].tolist() == [2.0, 2.0]
    assert torch.equal(ended, copies[1])
    assert torch.equal(reward.nan_to_num(9), copies[0].nan_to_num(9))


# --- distributions ----------------------------------------------------------------------------------------------------

ATOMS = torch.linspace(-2, 2, 5, dtype=torch.float64)
PROBS = column(0.1, 0.2, 0.4, 0.2, 0.1)


def projected(reward, discount, probs=PROBS, atoms=ATOMS):
    return project(probs, torch.tensor([reward], dtype=atoms.dtype), torch.tensor([discount], dtype=atoms.dtype), atoms)


def test_the_projection_on_atoms():
    assert close(projected(0.7, 0.9), [[0.01, 0.13, 0.28, 0.36, 0.22]])


def test_an_atom_that_is_met_exactly_loses_nothing():
    assert torch.equal(projected(0.0, 1.0), PROBS)
    assert torch.allclose(projected(1.0, 1.0), column(0, 0.1, 0.2, 0.4, 0.3))
    assert torch.allclose(projected(2.0, 0.0), column(0, 0, 0, 0, 1))  # a terminal reward on the highest atom
    assert torch.allclose(projected(-2.0, 0.0), column(1, 0, 0, 0, 0))


def test_what_lies_outside_goes_to_the_outermost_atoms():
    assert torch.allclose(projected(100.0, 0.9), column(0, 0, 0, 0, 1))
    assert torch.allclose(projected(-100.0, 0.9), column(1, 0, 0, 0, 0))


@given(st.integers(2, 60), st.floats(-50, 50), st.floats(0, 1), st.integers(0, 2**32 - 1))
def test_a_projection_sums_to_one_and_keeps_the_mean_within_the_atoms(number, reward, discount, seed):
    atoms = torch.linspace(-60.0, 60.0, number)
    probs = torch.from_numpy(np.random.default_rng(seed).dirichlet(np.ones(number), size=1)).float()
    found = projected(reward, discount, probs, atoms)
    assert found.min() >= 0
    assert found.sum().item() == pytest.approx(1, abs=1e-5)
    moved = (reward + discount * atoms).clamp(-60, 60)
    assert (found @ atoms).item() == pytest.approx((probs @ moved).item(), abs=2e-3)


def test_quantile_regression_sums_over_predictions_and_averages_over_targets():
    predicted, target = column(0.1, 0.5, 1), column(0, 2, 0.3)
    assert quantile_huber(predicted, target, kappa=0.0).item() == pytest.approx(0.883333, abs=1e-6)
    assert quantile_huber(predicted, target, kappa=1.0).item() == pytest.approx(0.451389, abs=1e-6)
    twice = torch.cat((target, target), 1)
    assert torch.allclose(quantile_huber(predicted, twice, kappa=1.0), quantile_huber(predicted, target, kappa=1.0))


def test_quantiles_of_samples_minimize_the_loss():
    samples = torch.arange(100, dtype=torch.float64).unsqueeze(0)
    best = column(16.5, 49.5, 82.5)  # at fractions 1/6, 1/2, 5/6
    least = quantile_huber(best, samples, kappa=0.0)
    for shift in (-2.0, 2.0):
        for which in range(3):
            moved = best.clone()
            moved[0, which] += shift
            assert quantile_huber(moved, samples, kappa=0.0) > least


# --- rescaling --------------------------------------------------------------------------------------------------------


def test_rescaled_values():
    assert rescale(torch.tensor(10.0, dtype=torch.float64), eps=1e-3).item() == pytest.approx(2.326625, abs=1e-6)
    assert rescale(torch.tensor(-10.0), eps=1e-3).item() == pytest.approx(-2.326625, abs=1e-6)
    assert rescale(torch.tensor(0.0), eps=1e-3) == 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rescaling_is_undone_exactly(dtype):
    values = torch.tensor([0.0, 1e-3, -1e-3, 0.5, -1, 10, -300, 1e4, 1e6], dtype=dtype)
    tolerance = 1e-12 if dtype == torch.float64 else 1e-5
    again = unrescale(rescale(values, eps=1e-3), eps=1e-3)
    assert torch.allclose(again, values, rtol=tolerance, atol=tolerance / 10)
