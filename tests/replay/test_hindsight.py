"""Hindsight experience replay: tiny episodes whose rewards, ends and windows were worked out by hand."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st
from stories import ACTION, GOES_ON, IS_TRUNCATED, TERMINATES, Story, even_fragments, random_fragments

from rookery.core.batch import TransitionsInPlace
from rookery.core.spaces.arrays import action_spec, obs_spec
from rookery.replay.buffer import ReplayBuffer, ReplayConfig
from rookery.replay.hindsight.order import EpisodeOrder
from rookery.replay.hindsight.relabeling import Hindsight
from rookery.replay.hindsight.settings import HindsightConfig

NUMBER = spaces.Box(-np.inf, np.inf, (1,), np.float32)
WANTED = 999.0
"""The goal that every episode of `GoalStory` is played for."""


class GoalStory(Story):
    """A story that observes the number of each sight as achieved goal."""

    def __init__(self, rng):
        super().__init__(rng, NUMBER)

    def memory(self, seed=0, **settings):
        names = ("observation", "achieved_goal", "desired_goal")
        spec = obs_spec(spaces.Dict(dict.fromkeys(names, NUMBER)), ACTION)
        cfg, rng = ReplayConfig(**settings), np.random.default_rng(seed)
        return ReplayBuffer(spec, action_spec(ACTION), cfg, rng, memory_size=0, memory_every=1)

    def play(self, T, fragments):
        """A rollout with the goals beside the observation."""
        rollout = super().play(T, fragments)
        trees = {}
        for name in ("obs", "last_obs", "final_obs"):
            seen = getattr(rollout, name)["obs"]
            wanted = torch.full_like(seen, WANTED)
            trees[name] = {"observation": seen, "achieved_goal": seen.clone(), "desired_goal": wanted}
        return replace(rollout, **trees)


class Numbers:
    """Judges goals: at the goal a decision pays 0 and ends the episode, if `ends`; elsewhere it pays -1."""

    def __init__(self, ends=True):
        self.ends = ends
        self.calls = 0

    def reward(self, achieved, desired):
        self.calls += 1
        return np.where((achieved == desired)[:, 0], 0.0, -1.0)

    def terminated(self, achieved, desired):
        return (achieved == desired)[:, 0] if self.ends else None


def told(ends=True, seed=0, **settings):
    """A story, its memory, and the goals of it."""
    story = GoalStory(np.random.default_rng(seed))
    memory = story.memory(seed, **{"capacity": 64, **settings})
    memory.relabeling = Hindsight(memory, lambda: Numbers(ends))
    return story, memory


def settings(strategy, relabeled=1.0):
    return {"hindsight": HindsightConfig(strategy=strategy, relabeled=relabeled)}


def rows_of(batch, serial):
    """The drawn copies of a row: achieved goal, desired goal, reward, discount, achieved goal afterwards."""
    found = set()
    for i in np.flatnonzero(batch.row.numpy() == serial):
        numbers = (
            batch.obs["achieved_goal"][i, 0],
            batch.obs["desired_goal"][i, 0],
            batch.reward[i],
            batch.discount[i],
            batch.next_obs["achieved_goal"][i, 0],
        )
        assert batch.next_obs["desired_goal"][i] == batch.obs["desired_goal"][i]
        assert batch.obs["observation"][i] == batch.obs["achieved_goal"][i]
        found.add(tuple(float(number) for number in numbers))
    return found


def test_one_episode_by_hand():
    # sights 1 2 3 4, decisions 0 1 2; the episode was cut off after the last one, which led to sight 4
    story, memory = told(**settings("future"))
    memory.add(story.play(3, [(0, [GOES_ON, GOES_ON, IS_TRUNCATED])]))
    batch = memory.sample(400, n_step=1, gamma=0.5, beta=0.0)
    assert rows_of(batch, 0) == {(1, 2, 0, 0, 2), (1, 3, -1, 0.5, 2), (1, 4, -1, 0.5, 2)}
    assert rows_of(batch, 1) == {(2, 3, 0, 0, 3), (2, 4, -1, 0.5, 3)}
    assert rows_of(batch, 2) == {(3, 4, 0, 0, 4)}
    batch = memory.sample(400, n_step=2, gamma=0.5, beta=0.0)
    # the goal of a window is one for all of its decisions, and ends it
    assert rows_of(batch, 0) == {(1, 2, 0, 0, 2), (1, 3, -1, 0, 3), (1, 4, -1.5, 0.25, 3)}
    assert rows_of(batch, 1) == {(2, 3, 0, 0, 3), (2, 4, -1, 0, 4)}
    assert rows_of(batch, 2) == {(3, 4, 0, 0, 4)}
    batch = memory.sample(400, n_step=3, gamma=0.5, beta=0.0)
    assert rows_of(batch, 0) == {(1, 2, 0, 0, 2), (1, 3, -1, 0, 3), (1, 4, -1.5, 0, 4)}


def test_without_a_function_for_ends_windows_go_on_beyond_the_goal():
    story, memory = told(ends=False, **settings("future"))
    memory.add(story.play(3, [(0, [GOES_ON, GOES_ON, IS_TRUNCATED])]))
    batch = memory.sample(400, n_step=3, gamma=0.5, beta=0.0)
    assert rows_of(batch, 0) == {(1, 2, -0.75, 0.125, 4), (1, 3, -1.25, 0.125, 4), (1, 4, -1.5, 0.125, 4)}
    assert rows_of(batch, 1) == {(2, 3, -0.5, 0.25, 4), (2, 4, -1, 0.25, 4)}


def test_the_terminating_decision_keeps_its_goal_and_windows_of_others_end_before_it():
    # the sight after a terminating decision is not stored: sights 1 2 3
    story, memory = told(**settings("future"))
    memory.add(story.play(3, [(0, [GOES_ON, GOES_ON, TERMINATES])]))
    paid = [row.reward for row in story.rows]
    batch = memory.sample(400, n_step=2, gamma=0.5, beta=0.0)
    assert rows_of(batch, 0) == {(1, 2, 0, 0, 2), (1, 3, -1, 0, 3)}
    assert rows_of(batch, 1) == {(2, 3, 0, 0, 3)}
    assert {row[:4] for row in rows_of(batch, 2)} == {(3, WANTED, paid[2], 0)}
    # with a function that ends nothing, the window of decision 0 ends at sight 3 too
    story, memory = told(ends=False, **settings("future"))
    memory.add(story.play(3, [(0, [GOES_ON, GOES_ON, TERMINATES])]))
    batch = memory.sample(400, n_step=3, gamma=0.5, beta=0.0)
    assert rows_of(batch, 0) == {(1, 2, -0.5, 0.25, 3), (1, 3, -1, 0.25, 3)}


def test_a_running_episode_keeps_its_goal_until_it_ends():
    story, memory = told(**settings("final"))
    memory.add(story.play(2, [(0, [GOES_ON, GOES_ON])]))
    paid = [row.reward for row in story.rows]
    batch = memory.sample(100, n_step=1, gamma=0.5, beta=0.0)
    assert rows_of(batch, 0) == {(1, WANTED, paid[0], 0.5, 2)}
    memory.add(story.play(1, [(0, [IS_TRUNCATED])]))
    batch = memory.sample(100, n_step=1, gamma=0.5, beta=0.0)
    assert rows_of(batch, 0) == {(1, 4, -1, 0.5, 2)}


def test_an_interrupted_episode_has_ended():
    story, memory = told(**settings("final"))
    memory.add(story.play(2, [(0, [GOES_ON, GOES_ON])]))
    story.breaks(0)
    memory.add(story.play(1, [(0, [GOES_ON])]))
    batch = memory.sample(100, n_step=1, gamma=0.5, beta=0.0)
    assert rows_of(batch, 0) == {(1, 3, -1, 0.5, 2)} and rows_of(batch, 1) == {(2, 3, 0, 0, 3)}


def test_of_a_share_of_decisions_the_goal_stays():
    story, memory = told(**settings("final", 0.8))
    memory.add(story.play(4, [(0, [GOES_ON] * 3 + [IS_TRUNCATED])]))
    batch = memory.sample(20_000, n_step=1, gamma=0.5, beta=0.0)
    kept = (batch.obs["desired_goal"] == WANTED).float().mean().item()
    assert kept == pytest.approx(0.2, abs=0.015)


@pytest.mark.parametrize(
    ("strategy", "places"), [("future", [2, 3, 4, 5]), ("final", [5]), ("episode", [1, 2, 3, 4, 5])]
)
def test_goals_are_drawn_evenly_among_those_of_the_strategy(strategy, places):
    # sights 1 to 6; of decision 1, which leads from sight 2 to 3, the goals are sights after decisions
    story, memory = told(**settings(strategy))
    memory.add(story.play(5, [(0, [GOES_ON] * 4 + [IS_TRUNCATED])]))
    batch = memory.sample(20_000, n_step=1, gamma=0.5, beta=0.0)
    drawn = batch.obs["desired_goal"][batch.row == 1, 0].numpy() - 1
    found, counts = np.unique(drawn, return_counts=True)
    assert found.tolist() == places
    np.testing.assert_allclose(counts / len(drawn), 1 / len(places), atol=0.03)


class Ended:
    """The slow way: the decisions of each episode that has ended, as far as they are stored."""

    def __init__(self, story, memory):
        self.episodes = {}
        number, current = -1, {}
        for row in story.rows:
            if row.begins or row.slot not in current:
                number += 1
                current[row.slot] = number
            self.episodes.setdefault(current[row.slot], []).append(row)
        self.of = {}
        for rows in self.episodes.values():
            last = rows[-1]
            over = last.terminated or last.truncated or (last.after is not None and last.after.begins)
            stored = [row for row in rows if row.serial >= memory.first]
            for row in stored if over else ():
                self.of[row.serial] = stored


@given(
    seed=st.integers(0, 2**32 - 1),
    slots=st.integers(1, 4),
    T=st.integers(1, 5),
    capacity=st.integers(2, 40),
    strategy=st.sampled_from(["future", "final", "episode"]),
)
def test_goals_are_those_of_the_decisions_episode_whatever_interleaves_and_is_overwritten(
    seed, slots, T, capacity, strategy
):
    rng = np.random.default_rng(seed)
    story, memory = told(seed=seed % 1000, capacity=capacity, **settings(strategy))
    for _ in range(rng.integers(1, 15)):
        if rng.random() < 0.2:
            story.breaks(int(rng.integers(slots)))
        steps = int(rng.integers(1, T + 1))
        quiet = rng.random() < 0.5
        memory.add(story.play(steps, even_fragments(slots, steps) if quiet else random_fragments(rng, slots, steps)))
        if rng.random() < 0.3:
            continue  # several rollouts between two batches
        ended = Ended(story, memory)
        n_step = int(rng.integers(1, 4))
        batch = memory.sample(48, n_step=n_step, gamma=0.5, beta=0.0)
        for i, serial in enumerate(batch.row.tolist()):
            row, goal = story.rows[serial], batch.obs["desired_goal"][i, 0].item()
            stored = ended.of.get(serial)
            reached = [] if stored is None else [other.next for other in stored if not other.terminated]
            if strategy != "episode" and stored is not None:
                reached = [other.next for other in stored[stored.index(row) :] if not other.terminated]
            if strategy == "final":
                reached = reached[-1:]
            if row.terminated or not reached:
                expected, discount, seen = story.window(serial, n_step, 0.5)
                assert goal == WANTED
            else:
                assert goal in reached
                expected, discount, seen = slow_window(row, goal, n_step)
            assert batch.reward[i].item() == pytest.approx(expected, rel=1e-6)
            assert batch.discount[i].item() == pytest.approx(discount)
            assert discount == 0 or batch.next_obs["achieved_goal"][i, 0].item() == seen


def slow_window(row, goal, n_step):
    """The window of a decision that is not terminating, for a goal that ends it."""
    total, discount = 0.0, 1.0
    for step in range(n_step):
        total -= discount * (row.next != goal)
        discount *= 0.5
        if row.next == goal:
            return total, 0.0, None
        following = row.after
        if step == n_step - 1 or row.truncated or following is None or following.begins or following.terminated:
            return total, discount, row.next
        row = following
    raise AssertionError


@pytest.mark.parametrize("strategy", ["future", "episode"])
def test_a_restored_buffer_draws_the_same_goals(strategy):
    rng = np.random.default_rng(3)
    story, memory = told(capacity=30, **settings(strategy, 0.7))
    for _ in range(20):
        memory.add(story.play(3, random_fragments(rng, 3, 3)))
        memory.sample(5, n_step=2, gamma=0.5, beta=0.0)
    state, segments = memory.state_dict(), [memory.rows_between(memory.first, memory.total)]
    _, other = told(capacity=30, **settings(strategy, 0.7))
    other.load_state_dict(state)
    other.restore(segments)
    for _ in range(5):
        more = story.play(2, random_fragments(rng, 3, 2))
        for buffer in (memory, other):
            buffer.add(more)
        one, same = (buffer.sample(64, n_step=2, gamma=0.5, beta=0.0) for buffer in (memory, other))
        for name in ("row", "reward", "discount"):
            assert torch.equal(getattr(one, name), getattr(same, name))
        assert all(torch.equal(one.obs[path], same.obs[path]) for path in one.obs)


def test_prioritized_rows_keep_their_weights_and_serial_numbers():
    story, memory = told(kind="prioritized", **settings("future"))
    memory.add(story.play(3, [(0, [GOES_ON, GOES_ON, IS_TRUNCATED])]))
    memory.update_priorities(torch.tensor([0, 1, 2]), torch.tensor([3.0, 1.0, 1.0]))
    batch = memory.sample(3000, n_step=1, gamma=0.5, beta=1.0)
    chance = memory.priorities / memory.priorities.sum()
    assert (batch.row == 0).float().mean().item() == pytest.approx(chance[0], abs=0.01)
    expected = chance.min() / chance
    assert batch.weight[batch.row == 0][0].item() == pytest.approx(expected[0], rel=1e-5)
    assert {row[1] for row in rows_of(batch, 1)} == {3, 4}


def test_without_a_strategy_samples_are_read_in_place_as_before():
    story = GoalStory(np.random.default_rng(0))
    memory = story.memory(capacity=64)
    memory.add(story.play(3, [(0, [GOES_ON, GOES_ON, TERMINATES])]))
    assert isinstance(memory.sample(8, n_step=1, gamma=0.5, beta=0.0), TransitionsInPlace)


def test_one_call_judges_all_decisions_of_a_batch():
    story, memory = told(**settings("future"))
    judge = Numbers()
    memory.relabeling = Hindsight(memory, lambda: judge)
    memory.add(story.play(4, [(0, [GOES_ON] * 3 + [IS_TRUNCATED])]))
    memory.sample(64, n_step=3, gamma=0.5, beta=0.0)
    assert judge.calls == 1


def test_places_of_long_episodes_beside_short_ones_are_right():
    # a slot whose episode outlasts many others takes its places late
    story, memory = told(capacity=12, **settings("future"))
    order = EpisodeOrder(memory)
    for _ in range(30):
        memory.add(story.play(1, [(0, [GOES_ON]), (1, [IS_TRUNCATED])]))
        order.follow()
        rows = np.arange(memory.first, memory.total) % 12
        short = rows[memory.slot[rows] == 1]
        assert order.is_placed(short).all() and not order.is_placed(rows[memory.slot[rows] == 0]).any()
    memory.add(story.play(1, [(0, [TERMINATES])]))
    order.follow()
    rows = np.arange(memory.first, memory.total) % 12
    long = rows[memory.slot[rows] == 0]
    span = order.span(long)
    assert span.later.tolist() == list(range(len(long)))[::-1]
    assert span.earlier.tolist() == list(range(len(long)))
    assert (order.rows_at(span.at, span.later) == long[-1]).all()
