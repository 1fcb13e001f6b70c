"""Experience as typed arrays."""

import pickle

import numpy as np
import pytest
import torch

from rookery.core.batch import Minibatch, Rollout, flat


def rollout(length, T=4):
    F = len(length)
    grid = torch.arange(T * F).view(T, F).float()
    flags = torch.zeros(T, F, dtype=torch.bool)
    header = torch.zeros(F, dtype=torch.long)
    return Rollout(
        obs={"obs": grid.unsqueeze(-1)}, action=grid.long(), logp=grid, reward=grid, terminated=flags, truncated=flags,
        last_obs={"obs": torch.zeros(F, 1)}, final_obs={"obs": torch.zeros(0, 1)},
        boot_index=torch.zeros(0, 2, dtype=torch.long), slot=header, clock=header, length=torch.tensor(length),
        first=header.bool(), version=header,
    )  # fmt: skip


def minibatch(n):
    rows = torch.arange(n).float()
    return Minibatch({"a": rows.unsqueeze(1), "b": rows}, rows.long(), -rows, rows * 2, rows * 3, rows * 4)


def test_rows_within_the_length_of_their_fragment_are_valid():
    data = rollout([4, 1, 3])
    assert data.valid.tolist() == [[True, True, True], [True, False, True], [True, False, True], [True, False, False]]
    assert data.last.tolist() == [[False, True, False], [False] * 3, [False, False, True], [True, False, False]]
    assert (data.num_decisions, data.num_cut) == (8, 2)
    assert data.valid_rows().tolist() == [0, 1, 2, 3, 5, 6, 8, 9]
    assert flat(data.reward, data.valid_rows()).tolist() == [0, 1, 2, 3, 5, 6, 8, 9]
    assert flat(data.obs["obs"], data.valid_rows()).shape == (8, 1)


def test_a_rollout_arrives_elsewhere_as_it_was():
    data = rollout([4, 1, 3])
    found = pickle.loads(pickle.dumps(data))
    tensors, others = {}, {}
    for kept, one in ((tensors, data), (others, found)):
        one.map(lambda name, tensor, kept=kept: kept.setdefault(name, tensor))
    assert list(tensors) == list(others)
    assert all(torch.equal(tensors[name], others[name]) for name in tensors)
    assert (found.memory, found.memory_every) == (None, 1)


def test_a_rollout_without_cuts_is_flattened_without_a_copy():
    data = rollout([4, 4])
    assert data.valid_rows() is None
    assert data.num_cut == 0
    assert flat(data.reward, None).data_ptr() == data.reward.data_ptr()


@pytest.mark.parametrize(("total", "size"), [(10, 3), (129, 128), (1504, 128), (7, 100), (5, 5), (1, 4), (256, 64)])
def test_an_epoch_covers_every_row_once_in_near_equal_parts(total, size):
    parts = list(minibatch(total).shuffled(size, np.random.default_rng(0)))
    sizes = [len(part) for part in parts]
    assert len(parts) == -(-total // size)
    assert max(sizes) <= size
    assert max(sizes) - min(sizes) <= 1
    rows = torch.cat([part.logp for part in parts])
    assert sorted((-rows).tolist()) == list(range(total))
    for part in parts:  # all fields of a row stay together
        row = part.action.float()
        assert torch.equal(part.obs["a"][:, 0], row)
        assert torch.equal(part.obs["b"], row)
        assert torch.equal(part.advantage, row * 2)
        assert torch.equal(part.value_target, row * 3)
        assert torch.equal(part.value, row * 4)


@pytest.mark.parametrize("size", [3, 4, 64, 128])
def test_there_is_never_a_tail_of_one(size):
    for total in range(2, 4 * size + 2):
        bounds = [total * part // -(-total // size) for part in range(-(-total // size) + 1)]
        assert np.diff(bounds).min() > 1
    assert min(len(part) for part in minibatch(2 * size + 1).shuffled(size, np.random.default_rng(0))) > 1


def test_the_order_comes_from_the_generator_alone():
    def order(seed):
        rng = np.random.default_rng(seed)
        return [part.action.tolist() for _ in range(2) for part in minibatch(20).shuffled(8, rng)]

    assert order(1) == order(1)
    assert order(1) != order(2)
    assert order(1)[:3] != order(1)[3:]  # another order in the next epoch
