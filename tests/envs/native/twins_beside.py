"""Plays a twin in C beside what it replaces, and compares every number of it."""

import numpy as np
import pytest

from rookery.envs.native.variants import native_unavailable_reason
from rookery.envs.random_play import random_answers

needs_twins = pytest.mark.skipif(
    bool(native_unavailable_reason()), reason=native_unavailable_reason() or "they are here"
)


def plan(lane, episode):
    return (lane * 7919 + episode * 104729 + 13) % 2**31


def assert_equal_steps(one, other):
    """Two steps show the same, to the last bit; whether any episode has ended, the first says exactly."""
    assert np.array_equal(one.ended, other.ended)
    ends = [one.ended, *(flags for rows in one.rows for flags in (rows.terminated, rows.truncated))]
    assert one.any_end == any(flags.any() for flags in ends)
    for mine, theirs in zip(one.rows, other.rows, strict=True):
        for name in ("reward", "terminated", "truncated", "waiting", "final_index"):
            found, expected = getattr(mine, name), getattr(theirs, name)
            assert np.array_equal(found, expected), (name, found, expected)
            assert name != "reward" or found.tobytes() == expected.tobytes()
        for seen, expected in ((mine.obs, theirs.obs), (mine.final_obs, theirs.final_obs)):
            assert seen.keys() == expected.keys()
            for path in seen:
                rows = mine.waiting if seen is mine.obs else slice(None)
                assert np.array_equal(seen[path][rows], expected[path][rows], equal_nan=False), path


def play_beside(twin, other, steps, choose=random_answers, seeds=plan, begun=None):
    """Plays both with the same actions; gives how many agents were terminated and truncated."""
    shown = (twin.reset(seeds), other.reset(seeds)) if begun is None else begun
    rng, ends = np.random.default_rng(0), {"terminated": 0, "truncated": 0, "both": 0}
    for _ in range(steps):
        assert_equal_steps(*shown)
        answers = choose(twin, shown[0], rng)
        shown = twin.step(answers), other.step(answers)
        for rows in shown[0].rows:
            both = rows.terminated & rows.truncated
            ends["both"] += int(both.sum())
            ends["terminated"] += int((rows.terminated & ~both).sum())
            ends["truncated"] += int((rows.truncated & ~both).sum())
    assert_equal_steps(*shown)
    assert np.array_equal(twin.episode, other.episode)
    return ends


def assert_equal_states(one, other, ignoring=()):
    """Two saved states are the same, to the last bit."""
    assert one.keys() == other.keys()
    for name in one:
        if name not in ignoring:
            assert np.array_equal(one[name], other[name]), name


def assert_each_goes_on_from_the_other(twin, batched, again, steps=15):
    """Each of two environments resumes from the other's saved state; `again` makes new ones."""
    play_beside(twin, batched, steps)
    for state in (twin.state_dict(), batched.state_dict()):
        one, other = again()
        begun = []
        for env in (one, other):
            shown, lost = env.load_state_dict(state, plan)
            assert not lost.any() and env.exact
            begun.append(shown)
        play_beside(one, other, 2 * steps, begun=tuple(begun))
