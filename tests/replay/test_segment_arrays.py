"""Rows as arrays: a buffer that was split into pieces and restored equals the original, and continues like it."""

import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st
from stories import Film, Story, even_fragments, random_fragments

from rookery.core.errors import RookeryError
from rookery.core.state import Stateful
from rookery.replay import frames
from rookery.replay.segment_arrays import rows_in


def same_batches(one, other, number, sequences):
    """Checks that the next samples of two buffers are equal to the last bit."""
    for _ in range(number):
        if sequences:
            mine, theirs = (memory.sample_sequences(8, length=5, beta=0.4) for memory in (one, other))
            pairs = [(mine.rollout.memory, theirs.rollout.memory)]
            pairs += [
                (getattr(mine.rollout, name), getattr(theirs.rollout, name)) for name in ("length", "reward", "first")
            ]
            pairs += [(tree["obs"], its["obs"]) for tree, its in (
                (mine.rollout.obs, theirs.rollout.obs),
                (mine.rollout.last_obs, theirs.rollout.last_obs),
                (mine.rollout.final_obs, theirs.rollout.final_obs),
            )]  # fmt: skip
        else:
            mine, theirs = (memory.sample(16, n_step=3, gamma=0.9, beta=0.4) for memory in (one, other))
            pairs = [(getattr(mine, name), getattr(theirs, name)) for name in ("action", "reward", "discount")]
            continues = mine.discount > 0
            pairs += [(mine.obs["obs"], theirs.obs["obs"])]
            pairs += [(mine.next_obs["obs"][continues], theirs.next_obs["obs"][continues])]
        assert torch.equal(mine.row, theirs.row)
        assert (mine.weight is None) == (theirs.weight is None)
        pairs += [] if mine.weight is None else [(mine.weight, theirs.weight)]
        assert all(torch.equal(*pair) for pair in pairs)
        priority = mine.row % 5 + 0.1
        one.update_priorities(mine.row, priority)
        other.update_priorities(theirs.row, priority)


def plays(story, memories, times, slots=3, T=4):
    for _ in range(times):
        rng = story.rng
        if rng.random() < 0.2:
            story.closes(int(rng.integers(slots)))
        if rng.random() < 0.2:
            story.breaks(int(rng.integers(slots)))
        rollout = story.play(T, even_fragments(slots, T) if rng.random() < 0.5 else random_fragments(rng, slots, T))
        for memory in memories:
            memory.add(rollout)


def drawable(memory, sequences):
    return len(memory) and (not sequences or memory.tree.total)


STORIES = {
    "vectors": lambda rng: Story(rng),
    "films": lambda rng: Film(rng),
    "memories": lambda rng: Story(rng, memory_every=2),
}


@pytest.mark.parametrize("sort", STORIES)
@given(seed=st.integers(0, 2**32 - 1), capacity=st.integers(5, 90), kind=st.sampled_from(["uniform", "prioritized"]))
def test_a_memory_that_is_restored_draws_the_next_batches_of_the_one_that_was_saved(sort, seed, capacity, kind):
    rng = np.random.default_rng(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(frames, "REACH", 24)
        story = STORIES[sort](rng)
        memory = story.memory(capacity=capacity, kind=kind)
        pieces = []
        for _ in range(rng.integers(1, 5)):  # pieces are made when their rows are new, as files are
            plays(story, [memory], int(rng.integers(1, 6)))
            start = pieces[-1]["serial"][0] + rows_in(pieces[-1]) if pieces else 0
            pieces.append(memory.rows_between(max(start, memory.first), memory.total))
            if start < memory.first:
                pieces = pieces[-1:]
        sequences = sort == "memories"
        if drawable(memory, sequences):
            same_batches(memory, memory_like(memory, story, capacity, kind, pieces), 0, sequences)
        other = memory_like(memory, story, capacity, kind, pieces)
        assert (other.first, other.total) == (memory.first, memory.total)
        for _ in range(4):
            if drawable(memory, sequences):
                same_batches(memory, other, 4, sequences)
            plays(story, [memory, other], 2)


def memory_like(memory, story, capacity, kind, pieces):
    other = story.memory(seed=99, capacity=capacity, kind=kind)
    other.load_state_dict(memory.state_dict())
    assert len(other) == 0
    other.restore(pieces)
    return other


@pytest.mark.parametrize("sort", STORIES)
@given(seed=st.integers(0, 2**32 - 1), capacity=st.integers(5, 120))
def test_rows_of_another_memory_are_added_as_new_ones(sort, seed, capacity):
    rng = np.random.default_rng(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(frames, "REACH", 24)
        story = STORIES[sort](rng)
        source, other = story.memory(capacity=60), story.memory(capacity=capacity, frame_stacks=bool(rng.integers(2)))
        plays(story, [source], 8)
        cuts = sorted({source.first, source.total, *rng.integers(source.first, source.total + 1, 3).tolist()})
        for number, (start, end) in enumerate(zip(cuts, cuts[1:], strict=False)):
            other.append(source.rows_between(start, end), continues=number > 0)
        assert other.total == len(source)
        moved = source.first
        rows = {row.serial - moved: row for row in story.rows[moved:]}
        if not len(other):
            return
        batch = other.sample(64, n_step=3, gamma=0.9, beta=0.4)
        for i, serial in enumerate(batch.row.tolist()):
            reward, discount, seen = story.window(rows[serial].serial, 3, 0.9)
            assert (batch.reward[i].item(), batch.discount[i].item()) == pytest.approx((reward, discount), rel=1e-6)
            assert (batch.obs["obs"][i].numpy() == story.picture(rows[serial].obs)).all()
            assert seen is None or (batch.next_obs["obs"][i].numpy() == story.picture(seen)).all()


def test_slots_of_foreign_rows_are_others():
    story, own = Story(np.random.default_rng(0)), Story(np.random.default_rng(1))
    source, memory = story.memory(capacity=20), own.memory(capacity=20)
    source.add(story.play(3, even_fragments(1, 3)))
    memory.add(own.play(3, even_fragments(1, 3)))
    memory.append(source.rows_between(0, 3), continues=False)
    memory.append(source.rows_between(0, 3), continues=False)
    memory.add(own.play(1, even_fragments(1, 1)))
    discount = dict(zip(*(part.tolist() for part in _windows(memory)), strict=True))
    # row 2 is followed by row 9, and the newest of either foreign copy by nothing
    assert [discount[row] for row in (0, 1, 2, 9)] == [0.125, 0.125, 0.25, 0.5]
    assert [discount[row] for row in (3, 4, 5, 6, 7, 8)] == [0.125, 0.25, 0.5] * 2


def _windows(memory):
    batch = memory.sample(400, n_step=3, gamma=0.5, beta=0.0)
    return batch.row, batch.discount


def test_a_smaller_memory_keeps_the_newest_rows_and_their_numbers():
    for story in (Story(np.random.default_rng(0)), Film(np.random.default_rng(0))):
        memory = story.memory(capacity=50, kind="prioritized")
        plays(story, [memory], 10)
        pieces = [
            memory.rows_between(memory.first, memory.first + 20),
            memory.rows_between(memory.first + 20, memory.total),
        ]
        smaller = story.memory(capacity=12, kind="prioritized")
        smaller.load_state_dict(memory.state_dict())
        smaller.restore(pieces)
        assert smaller.first >= memory.total - 12  # there may not be frames for all of them
        assert smaller.total == memory.total
        assert (smaller.priorities == memory.priorities[-len(smaller) :]).all()
        batch = smaller.sample(40, n_step=1, gamma=0.9, beta=0.4)
        for i, serial in enumerate(batch.row.tolist()):
            assert (batch.obs["obs"][i].numpy() == story.picture(story.rows[serial].obs)).all()


def test_a_memory_whose_rows_were_not_saved_goes_on_empty():
    story = Story(np.random.default_rng(0))
    memory, other = story.memory(capacity=50), story.memory(capacity=50)
    plays(story, [memory], 5)
    other.load_state_dict(memory.state_dict())
    assert (len(other), other.total) == (0, memory.total)
    plays(story, [other], 1)
    assert (other.sample(50, n_step=1, gamma=0.9, beta=0.4).row >= memory.total).all()


def test_what_does_not_fit_is_refused():
    story = Story(np.random.default_rng(0))
    memory = story.memory(capacity=100)
    plays(story, [memory], 5)
    piece, state = memory.rows_between(2, memory.total), memory.state_dict()
    wider = Story(np.random.default_rng(0), spaces.Box(-1, 1, (3,), np.float32)).memory(capacity=50)
    with pytest.raises(RookeryError, match=r"of shape \(2,\), the policy's is float32 of shape \(3,\)"):
        wider.append(piece, continues=False)
    with pytest.raises(RookeryError, match="have no 'reward'; they have action"):
        memory.append({name: array for name, array in piece.items() if name != "reward"}, continues=False)
    other = story.memory(capacity=100)
    other.load_state_dict(state)
    with pytest.raises(RookeryError, match="rows from 0 to 1 of the buffer are missing"):
        other.restore([piece])
    other.load_state_dict(state)
    with pytest.raises(RookeryError, match=f"ends at row 9, and should at {memory.total - 1}"):
        other.restore([memory.rows_between(0, 10)])
    with pytest.raises(RookeryError, match="are not all there"):
        memory.rows_between(0, memory.total + 1)


@pytest.mark.parametrize("sort", STORIES)
def test_every_attribute_of_a_memory_is_saved_or_made_again(sort):
    memory = STORIES[sort](np.random.default_rng(0)).memory(capacity=20, kind="prioritized")

    for part in (memory, memory.observations, *memory.observations.leaves.values()):
        if isinstance(part, Stateful):
            assert set(vars(part)) == {*part._saved_names(), *part._fixed_names()}


def test_priorities_follow_the_kind_a_memory_is_now():
    story = Story(np.random.default_rng(0), memory_every=2)
    for before, now in (("uniform", "prioritized"), ("prioritized", "uniform")):
        memory, other = story.memory(capacity=20, kind=before), story.memory(capacity=20, kind=now)
        memory.add(story.play(4, even_fragments(1, 4)))
        memory.update_priorities(torch.tensor([2]), torch.tensor([7.0]))
        other.load_state_dict(memory.state_dict())
        other.restore([memory.rows_between(memory.first, memory.total)])
        assert other.priorities == pytest.approx([1.0, 0.0, 1.0, 0.0], rel=1e-5)
        story.closes(0)
