"""Drawing in proportion to priorities: frequencies, weights, sums that stay exact, rows that are gone."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import chdtrc
from stories import Story, even_fragments

from rookery.core.errors import RookeryError
from rookery.replay.sum_tree import FAN, SumTree


def filled(priorities, **settings):
    """A memory of one slot with these priorities, oldest first."""
    story = Story(np.random.default_rng(0))
    memory = story.memory(kind="prioritized", capacity=len(priorities), **settings)
    memory.add(story.play(len(priorities), even_fragments(1, len(priorities))))
    memory.update_priorities(torch.arange(len(priorities)), torch.tensor(priorities))
    return memory, story


def drawn(memory, number, batch=64, beta=0.4):
    return np.concatenate([
        memory.sample(batch, n_step=1, gamma=0.9, beta=beta).row.numpy() for _ in range(-(-number // batch))
    ])  # fmt: skip


def test_rows_are_drawn_as_often_as_their_priorities_say():
    rng = np.random.default_rng(1)
    priorities = rng.exponential(size=200) + 0.05
    memory, _ = filled(priorities.tolist(), alpha=0.6)
    chance = (priorities + 1e-6) ** 0.6
    # batches of a stratified draw vary less than chance would have it; of the tree alone, draws are independent
    for found in (drawn(memory, 200_000, batch=2000), *(memory.tree.draw(rng.random(50_000)) for _ in range(4))):
        count = np.bincount(found, minlength=200)
        due = len(found) * chance / chance.sum()
        assert chdtrc(len(due) - 1, ((count - due) ** 2 / due).sum()) > 0.001  # p-value of Pearson's chi-squared test


def test_a_batch_takes_one_row_from_each_equal_part_of_the_total():
    memory, _ = filled([1.0] * 64)
    for _ in range(20):
        assert drawn(memory, 64).tolist() == list(range(64))


def test_golden_importance_weights():
    # P = [.308779, .468021, .203718, .019483], (N P)^-beta over the largest
    memory, _ = filled([1.0, 2.0, 0.5, 0.01], alpha=0.6, priority_eps=1e-12)
    weight = {}
    while len(weight) < 4:
        batch = memory.sample(256, n_step=1, gamma=0.9, beta=0.4)
        if 3 in batch.row:
            weight |= dict(zip(batch.row.tolist(), batch.weight.tolist(), strict=True))
    assert [weight[row] for row in range(4)] == pytest.approx([0.331131, 0.280384, 0.391063, 1.0], abs=1e-6)
    np.testing.assert_allclose(
        memory.priorities / memory.priorities.sum(), [0.308779, 0.468021, 0.203718, 0.019483], atol=1e-6
    )


def test_without_beta_all_weights_are_one():
    memory, _ = filled([1.0, 2.0, 0.5])
    assert memory.sample(9, n_step=1, gamma=0.9, beta=0.0).weight.tolist() == [1.0] * 9


def test_of_equal_rows_in_an_update_the_last_counts():
    memory, _ = filled([1.0] * 4, alpha=1.0)
    memory.update_priorities(torch.tensor([2, 1, 2, 2]), torch.tensor([5.0, 3.0, 7.0, 0.5]))
    assert memory.priorities == pytest.approx([1, 3, 0.5, 1], abs=1e-5)
    assert memory.tree.total == pytest.approx(5.5, abs=1e-5)


def test_new_rows_get_the_largest_priority_so_far():
    memory, story = filled([1.0, 8.0, 2.0, 1.0], alpha=1.0)
    memory.update_priorities(torch.tensor([1]), torch.tensor([0.5]))
    memory.add(story.play(1, even_fragments(1, 1)))
    assert memory.priorities == pytest.approx([0.5, 2, 1, 8], abs=1e-5)


def test_updates_of_rows_that_are_gone_or_of_what_is_no_number_are_passed_over():
    memory, story = filled([1.0] * 4, alpha=1.0)
    batch = memory.sample(8, n_step=1, gamma=0.9, beta=0.4)
    assert set(batch.row.tolist()) == {0, 1, 2, 3}
    memory.add(story.play(2, even_fragments(1, 2)))
    before = memory.priorities
    memory.update_priorities(torch.tensor([0, 1]), torch.tensor([50.0, 60.0]))
    memory.update_priorities(torch.tensor([2, 3]), torch.tensor([float("nan"), float("inf")]))
    assert (memory.priorities == before).all()
    assert memory.largest == 1.0


def test_a_priority_below_zero_is_refused_before_it_makes_the_sums_meaningless():
    memory, _ = filled([1.0, 2.0, 3.0])
    total = memory.tree.total
    with pytest.raises(RookeryError, match="a priority of -0.5: it must be at least 0"):
        memory.update_priorities(torch.tensor([1, 2]), torch.tensor([1.0, -0.5]))
    assert memory.tree.total == total


def test_priorities_of_zero_are_drawn_nevertheless():
    memory, _ = filled([0.0] * 4)
    assert set(drawn(memory, 64).tolist()) == {0, 1, 2, 3}


@given(seed=st.integers(0, 2**32 - 1), size=st.integers(1, 3 * FAN**2))
def test_sums_are_exact_after_any_updates(seed, size):
    rng = np.random.default_rng(seed)
    tree, values = SumTree(size), np.zeros(size)
    for _ in range(30):
        index = rng.integers(0, size, rng.integers(1, 80))
        new = rng.exponential(size=len(index)) ** 4 * (rng.random(len(index)) < 0.8)
        tree.write(index, new)
        values[index] = new
    rebuilt = SumTree(size)
    rebuilt.write(np.arange(size), values)
    assert tree.total == rebuilt.total == pytest.approx(values.sum(), rel=1e-12)
    uniform = rng.random(200)
    if values.any():
        assert (tree.draw(uniform) == rebuilt.draw(uniform)).all()


@given(seed=st.integers(0, 2**32 - 1), size=st.integers(1, 3 * FAN**2))
def test_what_is_drawn_lies_where_the_running_sum_says(seed, size):
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 5, size).astype(float)  # whole numbers: every sum is exact
    values[rng.integers(size)] = 3.0
    tree = SumTree(size)
    tree.write(np.arange(size), values)
    uniform = np.concatenate((rng.random(100), [0.0, np.nextafter(1.0, 0.0)]))
    target = np.minimum(uniform * values.sum(), np.nextafter(values.sum(), 0.0))
    assert (tree.draw(uniform) == values.cumsum().searchsorted(target, side="right")).all()


@given(seed=st.integers(0, 2**32 - 1), size=st.integers(1, 2000))
def test_what_has_no_chance_is_never_drawn(seed, size):
    rng = np.random.default_rng(seed)
    values = 10.0 ** rng.uniform(-300, 300, size) * (rng.random(size) < 0.3)
    values[rng.integers(size)] = 1e-8
    tree = SumTree(size)
    tree.write(np.arange(size), values)
    uniform = np.concatenate((rng.random(300), [0.0, np.nextafter(1.0, 0.0)]))
    assert (values[tree.draw(uniform)] > 0).all()
