"""Several memories as one: shares of every batch, priorities that find their way back, an own memory that is empty."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from plays import Play, drawn, memory_for

from rookery.core.errors import ConfigError, RookeryError
from rookery.replay.mixture import SOURCE, Mixture


def mixture(shares=(0.5,), own=60, **settings):
    """An own memory of so many rows, and one other for each share."""
    memories = [memory_for("numbers", seed=number, **settings) for number in range(len(shares) + 1)]
    for number, memory in enumerate(memories[1:], 1):
        Play(memory, seed=number).go_on(80)
        memory.rng = memories[0].rng
    if own:
        Play(memories[0]).go_on(own)
    return Mixture(memories[0], memories[1:], shares, ["mark"] * len(shares))


def sample(memory, size=16, **how):
    return memory.sample(size, **{"n_step": 1, "gamma": 0.9, "beta": 0.5, **how})


def sources(batch):
    return np.bincount(batch.row.numpy() // SOURCE, minlength=3).tolist()


def test_half_of_each_batch_comes_from_each_of_two():
    mixed = mixture()
    for _ in range(10):
        assert sources(sample(mixed)) == [8, 8, 0]


def test_shares_hold_over_many_batches_where_they_give_no_whole_rows():
    mixed = mixture((0.1, 0.33))
    counts = np.array([sources(sample(mixed, 7)) for _ in range(300)])
    assert (counts.sum(axis=1) == 7).all()
    np.testing.assert_allclose(counts.sum(axis=0) / counts.sum(), (0.57, 0.1, 0.33), atol=0.002)
    assert (np.abs(np.cumsum(counts, axis=0) - np.outer(np.arange(1, 301), (3.99, 0.7, 2.31))) < 1.01).all()


def test_while_the_own_memory_is_empty_all_of_a_batch_comes_from_the_others():
    mixed = mixture((0.25, 0.25), own=0)
    assert len(mixed) == mixed.total > 150
    assert sources(sample(mixed)) == [0, 8, 8]
    Play(mixed.own).go_on(10)
    counts = np.sum([sources(sample(mixed)) for _ in range(50)], axis=0)
    assert counts.tolist() == [400, 200, 200]


def test_shares_that_make_a_whole_leave_nothing_to_the_own_memory():
    mixed = mixture((0.75, 0.25))
    assert sources(sample(mixed)) == [0, 12, 4]


def test_where_all_are_empty_that_is_said():
    with pytest.raises(RookeryError, match="empty"):
        sample(Mixture(memory_for("numbers"), [memory_for("numbers")], [0.5], [""]))


@pytest.mark.parametrize("shares", [(0.0,), (-0.1,), (0.6, 0.5)])
def test_shares_that_are_none_are_refused(shares):
    with pytest.raises(ConfigError, match="each must be above 0, and all together at most 1"):
        mixture(shares)


def test_rows_are_those_of_the_memory_they_are_said_to_be_of():
    mixed = mixture((0.3, 0.3))
    batch = sample(mixed, 64)
    for obs, reward, row in zip(batch.obs["obs"], batch.reward, batch.row.tolist(), strict=True):
        memory, serial = mixed.buffers[row // SOURCE], row % SOURCE
        piece = memory.rows_between(serial, serial + 1)
        np.testing.assert_array_equal(obs, piece["obs/obs"][0])
        assert reward == piece["reward"][0]


def test_what_is_played_is_added_to_the_own_memory_only():
    mixed = mixture()
    before = [len(memory) for memory in mixed.buffers]
    play = Play(mixed.own, seed=5)
    rollout = play.rollout()
    mixed.add(rollout)
    assert [len(memory) for memory in mixed.buffers] == [before[0] + rollout.num_decisions, before[1]]


def test_priorities_are_those_of_the_memory_that_a_row_came_from():
    mixed = mixture((0.5,), kind="prioritized")
    before = [memory.priorities for memory in mixed.buffers]
    row = torch.tensor([3, SOURCE + 5])
    mixed.update_priorities(row, torch.tensor([7.0, 9.0]))
    cfg = mixed.cfg
    for memory, old, at, value in zip(mixed.buffers, before, (3, 5), (7.0, 9.0), strict=True):
        expected = old.copy()
        expected[at] = (value + cfg.priority_eps) ** cfg.alpha
        np.testing.assert_array_equal(memory.priorities, expected)


@pytest.mark.parametrize("settings", [{}, {"kind": "prioritized"}, {"kind": "prioritized", "memory_size": 4}])
def test_what_is_drawn_next_is_part_of_the_state(settings):
    one, other = mixture((0.3,), own=0, **settings), mixture((0.3,), own=0, **settings)
    drawn(one, 20)
    other.load_state_dict(one.state_dict())
    other.own.restore([])
    assert drawn(other) == drawn(one)


def test_sequences_of_several_memories_stand_side_by_side():
    mixed = mixture((0.5,), memory_size=4)
    batch = mixed.sample_sequences(8, length=6, beta=0.5)
    assert batch.rollout.reward.shape == (6, 8)
    assert batch.rollout.memory.shape == (1, 8, 4)
    assert batch.row.shape == (8,)
    assert (batch.row // SOURCE).tolist() == [0] * 4 + [1] * 4
    for t, f in batch.rollout.boot_index.tolist():
        assert batch.rollout.truncated[t, f] or not batch.rollout.terminated[t, f]
    timeline = batch.rollout.timeline()  # what it says of itself holds together
    assert int(timeline.length.sum()) == batch.rollout.num_decisions + 8 + len(batch.rollout.boot_index)
