"""The mathematics of returns, on numbers worked out elsewhere."""

import pytest
import torch

from rookery.core.ops import following, gae, vtrace

REWARD = torch.tensor([1, -0.5, 2, 0, 1], dtype=torch.float64)
VALUE = torch.tensor([0.5, 0.2, -0.1, 0.4, 0.3], dtype=torch.float64)
TRUNCATED_AT_2 = torch.tensor([False, False, True, False, True])  # and terminated at 4
NEXT_VALUE = torch.tensor([0.2, -0.1, 0.9, 0.3, 0.0], dtype=torch.float64)  # 0.9 is the value of the final observation


def estimate(next_value=NEXT_VALUE, ended=TRUNCATED_AT_2, reward=REWARD, value=VALUE, gae_lambda=0.8):
    return gae(reward, value, next_value, ended, gamma=0.9, gae_lambda=gae_lambda)


def close(found, expected):
    return torch.allclose(found, torch.tensor(expected, dtype=found.dtype), atol=1e-6, rtol=0)


def test_gae_bootstraps_a_truncated_step_from_its_final_observation():
    assert close(estimate(), [1.619744, 1.3052, 2.91, 0.374, 0.7])
    assert close(estimate() + VALUE, [2.119744, 1.5052, 2.81, 0.774, 1.0])


def test_gae_tells_truncation_from_termination_and_from_going_on():
    as_termination = NEXT_VALUE.clone()
    as_termination[2] = 0.0
    assert close(estimate(as_termination), [1.19984, 0.722, 2.1, 0.374, 0.7])
    ignored = NEXT_VALUE.clone()
    ignored[2] = VALUE[3]  # the next episode's first observation
    assert close(estimate(ignored, torch.tensor([False] * 4 + [True])), [1.526059, 1.175082, 2.72928, 0.374, 0.7])
    assert not close(estimate(), [1.19984, 0.722, 2.1, 0.374, 0.7])
    assert not close(estimate(), [1.526059, 1.175082, 2.72928, 0.374, 0.7])


def test_gae_of_an_unbroken_fragment_and_its_lambda_returns():
    next_value = following(VALUE.unsqueeze(1), torch.tensor([0.6], dtype=torch.float64)).squeeze(1)
    advantage = estimate(next_value, torch.tensor([False] * 4 + [True]))
    assert close(advantage, [1.671178, 1.376636, 3.009216, 0.7628, 1.24])
    assert close(advantage + VALUE, [2.171178, 1.576636, 2.909216, 1.1628, 1.54])


def test_the_last_row_ends_the_sum_whether_it_is_flagged_or_not():
    ended = torch.tensor([False, False, True, False, False])
    assert torch.equal(estimate(ended=ended), estimate())


def test_gae_with_lambda_0_is_the_one_step_error_and_with_1_the_discounted_return():
    assert torch.equal(estimate(gae_lambda=0.0), REWARD + 0.9 * NEXT_VALUE - VALUE)
    # 1 - 0.9 * 0.5 + 0.81 * (2 + 0.9 * 0.9) = 2.8261; then 1 * 0.9 = 0.9 is what decision 3 returns
    assert close(estimate(gae_lambda=1.0) + VALUE, [2.8261, 2.029, 2.81, 0.9, 1.0])


def test_gae_treats_each_column_by_itself_and_leaves_its_inputs_alone():
    columns = [torch.stack((x, x.flip(0)), 1) for x in (REWARD, VALUE, NEXT_VALUE, TRUNCATED_AT_2)]
    copies = [column.clone() for column in columns]
    found = gae(columns[0], columns[1], columns[2], columns[3], gamma=0.9, gae_lambda=0.8)
    assert torch.equal(found[:, 0], estimate())
    assert torch.equal(found[:, 1], estimate(NEXT_VALUE.flip(0), TRUNCATED_AT_2.flip(0), REWARD.flip(0), VALUE.flip(0)))
    assert all(torch.equal(column, copy) for column, copy in zip(columns, copies, strict=True))


@pytest.mark.parametrize("garbage", [float("nan"), float("inf"), 1e30])
def test_nothing_behind_an_end_leaks_into_what_came_before(garbage):
    pad = torch.full((3,), garbage, dtype=torch.float64)
    ended = torch.tensor([False, False, True, False, True, False, False, True])
    found = estimate(torch.cat((NEXT_VALUE, pad)), ended, torch.cat((REWARD, pad)), torch.cat((VALUE, pad)))
    assert torch.equal(found[:5], estimate())


def test_following_shifts_values_by_one_step():
    value = torch.arange(6.0).view(3, 2)
    assert following(value, torch.tensor([10.0, 11.0])).tolist() == [[2, 3], [4, 5], [10, 11]]


# --- V-trace ----------------------------------------------------------------------------------------------------------

RATIO = torch.tensor([0.5, 3.0, 1.5, 0.2, 1.1], dtype=torch.float64)


def traced(ratio=RATIO, next_value=NEXT_VALUE, ended=TRUNCATED_AT_2, gae_lambda=0.8, rho_bar=2.0, c_bar=1.0):
    return vtrace(
        REWARD, VALUE, next_value, ended, ratio, gamma=0.9, gae_lambda=gae_lambda, rho_bar=rho_bar, c_bar=c_bar
    )


def test_vtrace_of_three_decisions_by_hand():
    # errors 1.4, -0.55, 1.5; weights 0.5, 2 (cut from 3), 1.5; factors back 0.72 * 0.5, 0.72 * 1 (cut), unused
    # corrections from the end: 2.25, -1.1 + 0.72 * 2.25 = 0.52, 0.7 + 0.36 * 0.52 = 0.8872
    reward, value, next_value, ratio = torch.tensor(
        [[1, 0, 2], [0.5, 1, 0.5], [1, 0.5, 0], [0.5, 3, 1.5]], dtype=torch.float64
    )
    ended = torch.tensor([False, False, True])
    advantage, target = vtrace(
        reward, value, next_value, ended, ratio, gamma=0.9, gae_lambda=0.8, rho_bar=2.0, c_bar=1.0
    )
    assert close(target, [1.3872, 1.52, 2.75])
    assert close(advantage, [1.4 + 0.72 * 0.52, -0.55 + 0.72 * 2.25, 1.5])


@pytest.mark.parametrize("gae_lambda", [0.0, 0.8, 1.0])
@pytest.mark.parametrize(("rho_bar", "c_bar"), [(1.0, 1.0), (2.0, 1.0), (9.0, 9.0)])
def test_vtrace_targets_are_the_sum_of_equation_1(gae_lambda, rho_bar, c_bar):
    _, target = traced(gae_lambda=gae_lambda, rho_bar=rho_bar, c_bar=c_bar)
    for s in range(5):
        expected, product = VALUE[s].item(), 1.0
        for t in range(s, 5):
            error = REWARD[t] + 0.9 * NEXT_VALUE[t] - VALUE[t]
            expected += 0.9 ** (t - s) * product * min(rho_bar, RATIO[t].item()) * error.item()
            product *= gae_lambda * min(c_bar, RATIO[t].item())
            if TRUNCATED_AT_2[t]:
                break
        assert target[s].item() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("gae_lambda", [0.0, 0.8, 1.0])
def test_vtrace_of_ones_own_play_is_gae_and_its_lambda_returns(gae_lambda):
    advantage, target = traced(torch.ones_like(RATIO), gae_lambda=gae_lambda)
    expected = estimate(gae_lambda=gae_lambda)
    assert torch.allclose(advantage, expected, atol=1e-12, rtol=0)
    assert torch.allclose(target, expected + VALUE, atol=1e-12, rtol=0)


def test_with_lambda_1_the_advantage_is_that_of_the_paper():
    advantage, target = traced(gae_lambda=1.0)  # r + gamma v' - V, v' the target within an episode
    after = [target[1], target[2], NEXT_VALUE[2], target[4], NEXT_VALUE[4]]
    assert close(advantage, [(REWARD[t] + 0.9 * after[t] - VALUE[t]).item() for t in range(5)])


def test_vtrace_agrees_with_the_published_implementations():
    # the numbers are those of rlax and of torchrl for these ratios and discounts, all bounds 1; value afterwards 0.6
    ratio = torch.tensor([0.5, 2.0, 1.0, 0.8, 1.5], dtype=torch.float64)
    next_value = torch.tensor([0.2, -0.1, 0.0, 0.3, 0.6], dtype=torch.float64)  # terminated at 2
    ended = torch.tensor([False, False, True, False, True])
    advantage, target = traced(ratio, next_value, ended, gae_lambda=1.0, rho_bar=1.0)
    assert close(target, [1.335, 1.3, 2.0, 1.1888, 1.54])
    assert close(advantage * ratio.clamp(max=1.0), [0.835, 1.1, 2.1, 0.7888, 1.24])


@pytest.mark.parametrize("garbage", [float("nan"), float("inf")])
def test_nothing_behind_an_end_leaks_into_a_trace(garbage):
    next_value, ratio = NEXT_VALUE.clone(), RATIO.clone()
    next_value[3:], ratio[3:] = garbage, garbage
    for found, expected in zip(traced(ratio, next_value), traced(), strict=True):
        assert torch.equal(found[:3], expected[:3])


def test_vtrace_leaves_its_inputs_alone():
    before = [part.clone() for part in (REWARD, VALUE, NEXT_VALUE, RATIO)]
    traced()
    assert all(torch.equal(now, then) for now, then in zip((REWARD, VALUE, NEXT_VALUE, RATIO), before, strict=True))
