"""n-step windows of a buffer, against a slow walk over the story."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from stories import ACTION, GOES_ON, IS_TRUNCATED, TERMINATES, Story, even_fragments, random_fragments

from rookery.core.errors import RookeryError
from rookery.replay.buffer import n_step_windows


def agrees(memory, story, n_step, gamma):
    """Checks that samples equal the story."""
    batch = memory.sample(96, n_step=n_step, gamma=gamma, beta=0.5)
    for i, serial in enumerate(batch.row.tolist()):
        truth = story.rows[serial]
        reward, discount, seen = story.window(serial, n_step, gamma)
        assert memory.first <= serial < memory.total
        assert batch.obs["obs"][i].tolist() == [truth.obs] * 2
        assert batch.action[i] == truth.obs % ACTION.n
        assert batch.reward[i].item() == pytest.approx(reward, rel=1e-6)
        assert batch.discount[i].item() == pytest.approx(discount, rel=1e-6)
        assert seen is None or batch.next_obs["obs"][i].tolist() == [seen] * 2


@given(
    seed=st.integers(0, 2**32 - 1),
    slots=st.integers(1, 4),
    T=st.integers(1, 5),
    capacity=st.integers(1, 60),
    kind=st.sampled_from(["uniform", "prioritized"]),
)
def test_windows_are_those_of_the_episodes(seed, slots, T, capacity, kind):
    rng = np.random.default_rng(seed)
    story = Story(rng)
    memory = story.memory(capacity=capacity, kind=kind)
    for _ in range(rng.integers(1, 15)):
        if rng.random() < 0.2:
            story.closes(int(rng.integers(slots)))
        if rng.random() < 0.2:
            story.breaks(int(rng.integers(slots)))
        quiet = rng.random() < 0.7
        steps = int(rng.integers(1, T + 1))
        memory.add(story.play(steps, even_fragments(slots, steps) if quiet else random_fragments(rng, slots, steps)))
        assert memory.total == len(story.rows)
        assert len(memory) == min(memory.total, capacity)
        agrees(memory, story, int(rng.integers(1, 6)), float(rng.choice([0.9, 0.5, 1.0])))


def test_golden_returns_of_three_steps():
    # r = [1, -.5, 2, 0, 1], gamma .9, V of the observation after each = [.2, -.1, .4, .3, .6]; rlax
    # n_step_bootstrapped_returns gives these for n = 3
    after = np.array([1, 2, 3, 4, 5])  # the last one was cut off: what was seen then stands at place 5
    reward = np.array([1, -0.5, 2, 0, 1], np.float32)
    value = np.array([0.5, 0.2, -0.1, 0.4, 0.3, 0.6])
    total, discount, place = n_step_windows(np.arange(5), after, reward, n_step=3, gamma=0.9)
    np.testing.assert_allclose(total + discount * value[place], [2.4616, 1.5187, 3.2474, 1.386, 1.54], rtol=1e-6)
    np.testing.assert_allclose(discount, [0.729, 0.729, 0.729, 0.81, 0.9], rtol=1e-6)


def test_a_window_ends_with_its_episode_and_a_truncated_one_bootstraps_from_its_last_sight():
    story = Story(np.random.default_rng(0))
    memory = story.memory(capacity=10)
    memory.add(story.play(4, [(0, [GOES_ON, TERMINATES, GOES_ON, IS_TRUNCATED])]))
    memory.add(story.play(1, [(0, [GOES_ON])]))
    rewards = [row.reward for row in story.rows]
    batch = memory.sample(200, n_step=3, gamma=0.5, beta=0.0)
    found = {
        serial: (reward, discount, int(seen[0]))
        for serial, reward, discount, seen in zip(
            batch.row.tolist(), batch.reward.tolist(), batch.discount.tolist(), batch.next_obs["obs"], strict=True
        )
    }
    assert found[0][:2] == (rewards[0] + 0.5 * rewards[1], 0.0)
    assert found[1][:2] == (rewards[1], 0.0)
    assert found[2] == (rewards[2] + 0.5 * rewards[3], 0.25, story.rows[3].next)
    assert found[3] == (rewards[3], 0.5, story.rows[3].next)
    assert found[4] == (rewards[4], 0.5, story.rows[4].next)


def test_the_newest_row_uses_the_steps_there_are():
    story = Story(np.random.default_rng(0))
    memory = story.memory(capacity=10)
    memory.add(story.play(2, [(0, [GOES_ON, GOES_ON])]))
    before = memory.sample(50, n_step=3, gamma=0.5, beta=0.0)
    assert set(before.discount.tolist()) == {0.25, 0.5}
    memory.add(story.play(1, [(0, [GOES_ON])]))
    after = memory.sample(50, n_step=3, gamma=0.5, beta=0.0)
    assert set(after.discount.tolist()) == {0.125, 0.25, 0.5}


def test_what_is_drawn_stays_when_the_rollout_and_the_memory_are_written_over():
    story = Story(np.random.default_rng(0))
    memory = story.memory(capacity=4)
    rollout = story.play(2, even_fragments(2, 2))
    memory.add(rollout)
    batch = memory.sample(20, n_step=1, gamma=0.9, beta=0.0)
    kept = batch.obs["obs"].clone(), batch.next_obs["obs"].clone(), batch.reward.clone()
    rollout.obs["obs"].fill_(-1), rollout.last_obs["obs"].fill_(-1), rollout.reward.fill_(-1)
    agrees(memory, story, 2, 0.9)
    memory.add(story.play(2, even_fragments(2, 2)))
    assert all(
        (one == other).all() for one, other in zip(kept, (*batch.obs.values(), *batch.next_obs.values(), batch.reward))
    )


def test_a_slot_that_sleeps_for_longer_than_the_memory_lasts_starts_without_a_past():
    story = Story(np.random.default_rng(0))
    memory = story.memory(capacity=6)
    memory.add(story.play(2, even_fragments(2, 2)))
    for _ in range(4):
        memory.add(story.play(2, [(0, [GOES_ON] * 2)]))
    memory.add(story.play(2, even_fragments(2, 2)))
    agrees(memory, story, 4, 0.9)


def test_an_empty_memory_says_that_it_is_empty():
    for kind in ("uniform", "prioritized"):
        with pytest.raises(RookeryError, match="buffer is empty"):
            Story(np.random.default_rng(0)).memory(capacity=6, kind=kind).sample(1, n_step=1, gamma=0.9, beta=0.4)
