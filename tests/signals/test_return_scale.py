"""Reward scaling against a slow account of the same."""

import copy
import math

import numpy as np
import pytest
import torch

from rookery.core.batch import Rollout
from rookery.signals.return_scale import ReturnScale

GAMMA = 0.9


class Slow:
    """A discounted return a slot, its mean and spread over all steps so far, and rewards divided by the spread."""

    def __init__(self):
        self.running, self.returns = {}, []

    def step(self, slot, reward, first, ended):
        total = (0.0 if first else self.running.get(slot, 0.0)) * GAMMA + reward
        self.returns.append(total)
        self.running[slot] = 0.0 if ended else total

    def scale(self, reward):
        deviation = math.sqrt(np.var(self.returns) + 1e-8)
        return min(max(reward / deviation, -10.0), 10.0)


def rollout(fragments, T):
    """From fragments ``(slot, clock, first, [(reward, terminated, truncated), ...])``; rows behind them are garbage."""
    F = len(fragments)
    reward = torch.full((T, F), 1e6)
    flags = torch.zeros(2, T, F, dtype=torch.bool)
    for f, (_, _, _, rows) in enumerate(fragments):
        for t, (value, terminated, truncated) in enumerate(rows):
            reward[t, f], flags[0, t, f], flags[1, t, f] = value, terminated, truncated
    slot, clock, first = (torch.tensor([fragment[i] for fragment in fragments]) for i in range(3))
    grid, none = torch.zeros(T, F), torch.zeros(0, 2, dtype=torch.long)
    return Rollout(
        obs={}, action=grid, logp=grid, reward=reward, terminated=flags[0], truncated=flags[1], last_obs={},
        final_obs={}, boot_index=none, slot=slot, clock=clock, first=first, version=clock,
        length=torch.tensor([len(rows) for *_, rows in fragments]),
    )  # fmt: skip


def lives(rng, slots, T, takes):
    """Random fragments of `slots` lives that continue from rollout to rollout."""
    clock, first = dict.fromkeys(range(slots), 0), dict.fromkeys(range(slots), True)
    for _ in range(takes):
        fragments = []
        for slot in rng.permutation(np.repeat(range(slots), rng.integers(1, 4))).tolist():
            rows = [
                (float(rng.normal(3, 2)), bool(rng.random() < 0.1), bool(rng.random() < 0.1))
                for _ in range(rng.integers(1, T + 1))
            ]
            fragments.append((slot, clock[slot], first[slot], rows))
            clock[slot] += len(rows)
            first[slot] = rows[-1][1] or rows[-1][2]
        yield fragments


@pytest.mark.parametrize("seed", range(3))
def test_rewards_are_divided_by_the_spread_of_returns_over_fragments_and_takes(seed):
    rng = np.random.default_rng(seed)
    signal, slow = ReturnScale(GAMMA), Slow()
    for fragments in lives(rng, slots=3, T=6, takes=12):
        scaled = signal(rollout(fragments, T=6))
        for slot, _, first, rows in fragments:
            for t, (reward, terminated, truncated) in enumerate(rows):
                starts = first if t == 0 else rows[t - 1][1] or rows[t - 1][2]
                slow.step(slot, reward, starts, terminated or truncated)
        for f, (_, _, _, rows) in enumerate(fragments):
            for t, (reward, _, _) in enumerate(rows):
                assert scaled[t, f].item() == pytest.approx(slow.scale(reward), rel=1e-5)


def test_two_rewards_redone_by_hand():
    # returns 1 and 0.9 * 1 + 3 = 3.9: mean 2.45, deviation 1.45
    scaled = ReturnScale(GAMMA)(rollout([(0, 0, True, [(1.0, False, False), (3.0, False, False)])], T=2))
    assert scaled.flatten().tolist() == pytest.approx([1 / 1.45, 3 / 1.45])


def test_an_end_of_either_kind_starts_the_return_anew():
    def returns(terminated, truncated):
        rows = [(1.0, False, False), (1.0, terminated, truncated), (1.0, False, False)]
        return ReturnScale(GAMMA).discounted(rollout([(0, 0, True, rows)], T=3))[:, 0].tolist()

    assert returns(False, False) == pytest.approx([1, 1.9, 2.71])
    assert returns(True, False) == returns(False, True) == pytest.approx([1, 1.9, 1])


def test_a_slot_with_a_new_holder_does_not_inherit_a_return():
    signal = ReturnScale(GAMMA)
    signal(rollout([(0, 0, True, [(5.0, False, False)] * 3)], T=3))
    both = [(0, 3, False, [(1.0, False, False)]), (0, 0, True, [(1.0, False, False)])]
    found = signal.discounted(rollout(both, T=3))[0]
    assert found.tolist() == pytest.approx([(5 * 0.81 + 5 * 0.9 + 5) * 0.9 + 1, 1])


def test_a_new_holder_whose_clock_is_low_comes_after_the_one_before():
    # fragments of one slot in the order of time: clock 40 to 42 of one life, then clock 0 of the next
    fragments = [(0, 40, False, [(1.0, False, False)] * 2), (0, 0, True, [(1.0, False, False)] * 2)]
    fragments.append((0, 2, False, [(1.0, False, False)]))
    found = ReturnScale(GAMMA).discounted(rollout(fragments, T=2))
    assert found[:, 0].tolist() == pytest.approx([1, 1.9])
    assert found[:, 1].tolist() == pytest.approx([1, 1.9])
    assert found[0, 2] == pytest.approx(2.71)


def test_scaled_rewards_stay_within_ten():
    # n zeros and one r have deviation r * sqrt(n) / (n + 1): scaled, r becomes (n + 1) / sqrt(n)
    for zeros, largest in ((64, 65 / 8), (99, 10), (400, 10)):
        rows = [(0.0, True, False)] * zeros
        for sign in (1, -1):
            scaled = ReturnScale(GAMMA)(rollout([(0, 0, True, [*rows, (sign * 1000.0, True, False)])], T=zeros + 1))
            assert scaled[zeros, 0].item() == pytest.approx(sign * largest)


def test_rewards_that_never_vary_stay_finite():
    scaled = ReturnScale(GAMMA)(rollout([(0, 0, True, [(0.0, True, False)] * 4)], T=4))
    assert scaled.abs().max() == 0


def test_a_signal_goes_on_from_its_saved_state():
    takes = list(lives(np.random.default_rng(5), slots=2, T=4, takes=6))
    signal, other = ReturnScale(GAMMA), ReturnScale(GAMMA)
    for fragments in takes[:3]:
        signal(rollout(fragments, T=4))
    other.load_state_dict(copy.deepcopy(signal.state_dict()))
    for fragments in takes[3:]:
        assert torch.equal(signal(rollout(fragments, T=4)), other(rollout(fragments, T=4)))
