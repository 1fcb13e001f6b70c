"""Stacks of frames that are stored once each, and read back bit for bit, whatever starts an episode."""

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st
from stories import ACTION, Film, Story, even_fragments, random_fragments

from rookery.core.spaces.arrays import action_spec, obs_spec
from rookery.replay import frames
from rookery.replay.budget import bytes_needed
from rookery.replay.frames import PlainLeaf, StackedLeaf, may_be_stack
from selection import slow


def as_filmed(memory, story, n_step=1):
    """Checks that samples equal the observations."""
    batch = memory.sample(64, n_step=n_step, gamma=0.9, beta=0.4)
    for i, serial in enumerate(batch.row.tolist()):
        assert (batch.obs["obs"][i].numpy() == story.picture(story.rows[serial].obs)).all()
        reward, discount, seen = story.window(serial, n_step, 0.9)
        assert (batch.reward[i].item(), batch.discount[i].item()) == pytest.approx((reward, discount), rel=1e-6)
        assert seen is None or (batch.next_obs["obs"][i].numpy() == story.picture(seen)).all()


@given(
    seed=st.integers(0, 2**32 - 1),
    slots=st.integers(1, 4),
    T=st.integers(1, 5),
    capacity=st.integers(1, 80),
    padding=st.sampled_from(["repeat", "zeros"]),
    still=st.sampled_from([0.0, 0.5]),
    reach=st.sampled_from([4, 40]),
)
def test_what_is_read_back_is_what_was_seen(seed, slots, T, capacity, padding, still, reach):
    rng = np.random.default_rng(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(frames, "REACH", reach)  # so that frames are written over, and slots sleep for too long
        story = Film(rng)
        story.padding, story.still = padding, still
        memory, plain = story.memory(capacity=capacity), story.memory(capacity=capacity, frame_stacks=False)
        for _ in range(rng.integers(1, 15)):
            if rng.random() < 0.2:
                story.closes(int(rng.integers(slots)))
            if rng.random() < 0.2:
                story.breaks(int(rng.integers(slots)))
            quiet = rng.random() < 0.7
            rollout = story.play(T, even_fragments(slots, T) if quiet else random_fragments(rng, slots, T))
            memory.add(rollout)
            plain.add(rollout)
            assert isinstance(memory.observations.leaves["obs"], StackedLeaf)
            assert type(plain.observations.leaves["obs"]) is PlainLeaf
            as_filmed(plain, story)
            if len(memory):
                as_filmed(memory, story, int(rng.integers(1, 4)))


def test_a_frame_is_stored_once():
    story = Film(np.random.default_rng(0))
    memory = story.memory(capacity=1000)
    for _ in range(50):
        memory.add(story.play(4, even_fragments(3, 4)))
    # 600 decisions of 3 slots: a frame for each, and one for what each slot sees now
    assert memory.observations.leaves["obs"].head == 603


def test_the_start_of_an_episode_takes_the_frames_that_are_new():
    for padding, frames_of_a_start in (("repeat", 1), ("zeros", 2)):
        story = Film(np.random.default_rng(0))
        story.padding = padding
        memory = story.memory(capacity=1000)
        memory.add(story.play(1, even_fragments(1, 1)))
        assert memory.observations.leaves["obs"].head == frames_of_a_start + 1


def test_a_million_frames_of_pong_take_7_gigabytes():
    pong = obs_spec(spaces.Box(0, 255, (4, 84, 84), np.uint8), spaces.Discrete(6))
    action = action_spec(spaces.Discrete(6))
    size = {
        stacks: bytes_needed(pong, action, 1_000_000, memory_size=0, memory_every=1, frame_stacks=stacks)
        for stacks in (True, False)
    }
    assert 84 * 84 * 1e6 < size[True] < 7.7e9
    assert size[False] > 28e9


def test_where_frames_run_out_the_oldest_rows_go():
    story = Film(np.random.default_rng(0))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(frames, "REACH", 8)
        memory = story.memory(capacity=64)
        for _ in range(64):  # each decision ends its episode: two frames a row
            memory.add(story.play(1, [(0, [2])]))
        leaf = memory.observations.leaves["obs"]
        assert len(leaf.frames) == 64 + 4 + 8
        assert 30 <= len(memory) <= 36
        as_filmed(memory, story)


@pytest.mark.parametrize("shape", [(3, 32, 32), slow((4, 16, 16))])
def test_pictures_that_are_no_stacks_are_stored_whole_as_soon_as_that_shows(shape):
    rng = np.random.default_rng(0)

    class Pictures(Film):
        def new_obs(self, slot, first):
            number = Story.new_obs(self, slot, first)
            self.pictures[number] = rng.integers(0, 255, shape).astype(np.uint8)
            return number

    story = Pictures(rng, spaces.Box(0, 255, shape, np.uint8))
    memory = story.memory(capacity=100)
    for _ in range(60):
        memory.add(story.play(4, even_fragments(1, 4) if rng.random() < 0.5 else random_fragments(rng, 2, 4)))
        as_filmed(memory, story)
    assert type(memory.observations.leaves["obs"]) is PlainLeaf
    assert len(memory) == 100


def test_what_may_be_a_stack_is_a_few_pictures_of_bytes():
    def leaf(*shape, dtype=np.uint8):
        return obs_spec(spaces.Box(0, 255, shape, dtype), ACTION).leaves[0]

    assert may_be_stack(leaf(4, 84, 84))
    assert may_be_stack(leaf(4, 84, 84, 3))
    assert not may_be_stack(leaf(84, 84, 3))
    assert not may_be_stack(leaf(10, 10, 4))
    assert not may_be_stack(leaf(4, 84, 84, dtype=np.float32))
    assert not may_be_stack(leaf(128))
