"""Sequences of policies that remember, against a slow walk along the life of a slot."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from stories import GOES_ON, IS_TRUNCATED, MEMORY_SIZE, TERMINATES, Story, even_fragments, random_fragments

from rookery.core.errors import RookeryError


def walk(story, serial, length):
    """The decisions of a slot from one on."""
    found = [story.rows[serial]]
    while len(found) < length and found[-1].after is not None:
        found.append(found[-1].after)
    return found


def seen(leaf):
    return int(leaf[..., 0])


@given(
    seed=st.integers(0, 2**32 - 1),
    slots=st.integers(1, 3),
    T=st.integers(1, 6),
    every=st.integers(1, 4),
    capacity=st.integers(4, 60),
    length=st.integers(1, 9),
    kind=st.sampled_from(["uniform", "prioritized"]),
)
def test_sequences_are_stretches_of_the_life_of_a_slot(seed, slots, T, every, capacity, length, kind):
    rng = np.random.default_rng(seed)
    story = Story(rng, memory_every=every)
    memory = story.memory(capacity=capacity, kind=kind)
    for _ in range(rng.integers(1, 15)):
        if rng.random() < 0.2:
            story.closes(int(rng.integers(slots)))
        if rng.random() < 0.2:
            story.breaks(int(rng.integers(slots)))
        memory.add(story.play(T, random_fragments(rng, slots, T)))
    if not any(row.remembers for row in story.rows[memory.first :]):
        return
    drawn = memory.sample_sequences(24, length=length, beta=0.4)
    rollout = drawn.rollout
    assert rollout.reward.shape == (length, 24)
    finals = {(int(t), int(f)): k for k, (t, f) in enumerate(rollout.boot_index)}
    for f, serial in enumerate(drawn.row.tolist()):
        rows = walk(story, serial, length)
        assert rows[0].remembers
        assert memory.first <= serial
        assert rollout.memory[0, f].tolist() == [rows[0].obs + i for i in range(MEMORY_SIZE)]
        assert (rollout.slot[f], rollout.clock[f], rollout.length[f]) == (rows[0].slot, rows[0].clock, len(rows))
        for t, row in enumerate(rows):
            assert seen(rollout.obs["obs"][t, f]) == row.obs
            assert (rollout.reward[t, f], rollout.logp[t, f]) == (row.reward, -row.obs)
            assert rollout.begins[t, f] == row.begins
            assert rollout.terminated[t, f] == row.terminated
            cut = row.after is not None and row.after.begins
            assert rollout.truncated[t, f] == (not row.terminated and (row.truncated or cut))
            assert ((t, f) in finals) == bool(rollout.truncated[t, f])
            if (t, f) in finals:
                assert seen(rollout.final_obs["obs"][finals[t, f]]) == row.next
        if not (rows[-1].terminated or rollout.truncated[len(rows) - 1, f]):
            assert seen(rollout.last_obs["obs"][f]) == rows[-1].next
        assert not rollout.terminated[len(rows) :, f].any()
        assert not rollout.truncated[len(rows) :, f].any()


def test_a_sequence_is_a_rollout_that_lies_in_time():
    # episodes of 3 and 2 decisions, the second one cut off, then one more decision: T = 5 takes all but the last
    story = Story(np.random.default_rng(0), memory_every=10)
    memory = story.memory(capacity=20)
    memory.add(story.play(6, [(0, [GOES_ON, GOES_ON, TERMINATES, GOES_ON, IS_TRUNCATED, GOES_ON])]))
    rollout = memory.sample_sequences(2, length=5, beta=0.0).rollout
    assert rollout.begins[:, 0].tolist() == [True, False, False, True, False]
    timeline = rollout.timeline()
    assert timeline.length.tolist() == [7, 7]  # 5 decisions, what was seen at the cut, and what came after all
    assert timeline.first[:, 0].tolist() == [True, False, False, True, False, False, True]
    sequences, remembered = rollout.sequences()
    assert sequences.length.tolist() == [5, 5]
    assert remembered.tolist() == [[1.0, 2.0, 3.0]] * 2


def test_sequences_start_only_where_it_is_known_what_was_remembered():
    story = Story(np.random.default_rng(0), memory_every=4)
    memory = story.memory(capacity=100)
    for _ in range(4):
        memory.add(story.play(8, even_fragments(1, 8)))
    drawn = memory.sample_sequences(200, length=6, beta=0.0)
    assert set(drawn.row.tolist()) == set(range(0, 32, 4))
    assert drawn.weight is None


def test_sequences_are_drawn_by_the_priority_of_their_first_row():
    story = Story(np.random.default_rng(0), memory_every=4)
    memory = story.memory(capacity=100, kind="prioritized", alpha=1.0)
    memory.add(story.play(12, even_fragments(1, 12)))
    drawn = memory.sample_sequences(60, length=6, beta=0.0)
    memory.update_priorities(drawn.row, (drawn.row == 4) * 9.0 + 1.0)
    drawn = memory.sample_sequences(1100, length=6, beta=1.0)
    count = np.bincount(drawn.row.numpy(), minlength=12)
    assert count[[0, 4, 8]] == pytest.approx([1100 / 12, 11000 / 12, 1100 / 12], abs=2)
    assert drawn.weight[drawn.row == 4].tolist() == pytest.approx([0.1] * count[4], rel=1e-5)


def test_a_policy_that_remembers_nothing_has_no_sequences():
    story = Story(np.random.default_rng(0))
    memory = story.memory(capacity=20)
    memory.add(story.play(4, even_fragments(1, 4)))
    with pytest.raises(RookeryError, match="policies with memory"):
        memory.sample_sequences(2, length=3, beta=0.0)
