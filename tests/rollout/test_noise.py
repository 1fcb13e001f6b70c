"""The random numbers behind actions."""

import numpy as np
import torch

from rookery.core.seeding import Streams
from rookery.rollout.noise import BLOCK, ActionNoise


def noise(policy="main", seed=0, uniform=2, normal=1):
    return ActionNoise(Streams(seed), policy, uniform, normal, torch.device("cpu"))


STEPS = [0, 1, 100, BLOCK - 1, BLOCK, BLOCK + 1, 5 * BLOCK + 17]


def test_more_slots_begin_with_fewer():
    few, many = noise(), noise()
    for step in STEPS:
        assert torch.equal(few.at(None, 3, step), many.at(None, 50, step)[:3])


def test_a_slot_gets_its_numbers_whoever_else_asks_and_in_whatever_order():
    forward, backward = noise(), noise()
    expected = {step: forward.at(None, 9, step).clone() for step in STEPS}
    for step in reversed(STEPS):
        assert torch.equal(backward.at(np.array([7, 2]), 9, step), expected[step][[7, 2]])
        assert torch.equal(backward.at(np.array([4]), 5, step), expected[step][[4]])


def test_slots_that_appear_in_the_middle_of_a_block_change_nothing():
    growing, whole = noise(), noise()
    for step, slots in ((10, 1), (11, 4), (12, 4), (13, 30)):
        assert torch.equal(growing.at(None, slots, step), whole.at(None, 30, step)[:slots])


def test_a_block_that_is_written_over_another_holds_what_a_new_one_does():
    used = noise()
    for step in (3, BLOCK + 3, 7 * BLOCK + 3, 3):
        assert torch.equal(used.at(None, 5, step), noise().at(None, 5, step))


def test_the_same_seed_gives_the_same_numbers_and_everything_else_others():
    numbers = noise().at(None, 4, 300)
    assert torch.equal(numbers, noise().at(None, 4, 300))
    others = [noise(seed=1), noise(policy="other")]
    draws = [numbers, *(other.at(None, 4, 300) for other in others), noise().at(None, 4, 301)]
    draws.append(noise().at(None, 4, 300 + BLOCK))
    assert len(torch.unique(torch.cat([d.flatten() for d in draws]))) == 5 * 4 * 3


def test_uniform_numbers_come_first_and_normal_ones_do_not_depend_on_them():
    both, normal = noise(), noise(uniform=0)
    assert torch.equal(both.at(None, 4, 9)[:, 2:], normal.at(None, 4, 9))
    numbers = torch.cat([noise(uniform=1, normal=1).at(None, 500, step) for step in range(20)])
    uniform, gauss = numbers.T
    assert ((uniform >= 0) & (uniform < 1)).all()
    # 10,000 draws: the means lie within 4 standard errors, 4 * 0.29 / 100 and 4 * 1 / 100
    assert abs(uniform.mean() - 0.5) < 0.012
    assert abs(gauss.mean()) < 0.04
    assert abs(gauss.std() - 1) < 0.03
    assert numbers.dtype == torch.float32
