"""Pictures of the states that episodes end in, which are drawn before the next episodes begin."""

from dataclasses import replace

import numpy as np
import pytest
from counting import Counting, CountingParallel

from rookery.core.seeding import Role, Streams
from rookery.envs.drawing import draw_cart_pole
from rookery.envs.groups import GroupEnv
from rookery.envs.make import make_env
from rookery.envs.random_play import random_answers
from rookery.envs.teams import TeamEnv
from rookery.envs.vector.faults import STRICT
from selection import slow


def made(env, implementation="serial", keep=True, tolerance=STRICT, **config):
    env = make_env(env, config, (), 3, implementation, render=True, tolerance=tolerance)
    env.keep_last_pictures = keep
    return env


def ends(env, steps, seed=0):
    """Plays at random; gives lane, last picture and present picture wherever an episode ends."""
    rng, shown = np.random.default_rng(seed), env.reset(Streams(1).episodes(Role.ENV))
    for _ in range(steps):
        shown = env.step(random_answers(env, shown, rng))
        assert sorted(env.last_pictures) == np.flatnonzero(shown.ended).tolist()
        yield from ((lane, env.last_pictures.pop(lane), env.render(lane)) for lane in sorted(env.last_pictures))


@pytest.mark.parametrize(
    "name",
    ["MultiAgentArena", slow("Sorter"), "CueCorridor", slow("RepeatPrevious"), "CountRecall"],
)
def test_many_copies_at_once_draw_the_ends_that_one_by_one_would(name):
    found = [list(ends(made(name, how), 240)) for how in ("serial", "batched")]
    assert len(found[0]) == len(found[1]) >= 3
    for (lane, last, now), (other_lane, other_last, _) in zip(*found, strict=True):
        assert lane == other_lane
        assert np.array_equal(last, other_last)
        assert not np.array_equal(last, now)


class DrawnParallel(CountingParallel):
    """Draws its step, which is 4 at the end."""

    render_mode, render = "rgb_array", Counting.render


WITHIN = {
    "groups": GroupEnv,
    "teams": lambda env: TeamEnv(env, {"both": ("x", "y")}),
    "teams in groups": lambda env: GroupEnv(TeamEnv(env, {"both": ("x", "y")})),
}


@pytest.mark.parametrize("within", WITHIN.values(), ids=WITHIN.keys())
def test_ends_are_seen_through_groups_and_teams(within):
    env = within(made(DrawnParallel, keep=False))
    env.keep_last_pictures = True
    plain = list(ends(made(DrawnParallel), 9))
    found = list(ends(env, 9))
    assert [lane for lane, *_ in found] == [lane for lane, *_ in plain] == [0, 1, 2] * 2
    assert {(int(last.max()), int(now.max())) for _, last, now in found} == {(4, 0)}


@pytest.mark.parametrize(("env", "config"), [(Counting, {"truncate_at": 4}), (DrawnParallel, {})])
def test_the_state_that_is_drawn_is_that_after_the_last_step(env, config):
    pictures = list(ends(made(env, **config), 9))
    assert [lane for lane, *_ in pictures] == [0, 1, 2] * 2
    assert {(int(last.max()), int(now.max())) for _, last, now in pictures} == {(4, 0)}


def test_a_pole_is_drawn_where_it_was_at_its_time_limit():
    env = made("CartPole-v1", "batched", max_episode_steps=5)
    shown = env.reset(Streams(1).episodes(Role.ENV))
    for _ in range(5):
        shown = env.step([np.zeros(3, int)])
    for lane, (position, _, angle, _) in enumerate(shown.rows[0].final_obs["obs"].tolist()):
        assert np.array_equal(env.last_pictures[lane], draw_cart_pole(position, angle, 5, 5))


def test_an_environment_that_cannot_draw_its_end_plays_on():
    class Tidy(Counting):
        def render(self):
            if self.t == 2:
                raise RuntimeError("the window is closed")
            return super().render()

    pictures = list(ends(made(Tidy, truncate_at=2), 4))
    assert [last for _, last, _ in pictures] == [None] * 6


def test_nothing_is_drawn_unless_somebody_asks():
    env = made(Counting, keep=False, truncate_at=1)
    shown = env.reset(Streams(1).episodes(Role.ENV))
    assert env.step(random_answers(env, shown, np.random.default_rng(0))).ended.all()
    assert env.last_pictures == {}


def test_an_episode_that_was_given_up_has_no_last_picture():
    class Fragile(Counting):
        def step(self, action):
            if self.t == 1:
                raise OSError("the wire is loose")
            return super().step(action)

    env = made(Fragile, tolerance=replace(STRICT, on_error="restart"))
    shown = env.reset(Streams(1).episodes(Role.ENV))
    for _ in range(2):
        shown = env.step(random_answers(env, shown, np.random.default_rng(0)))
    assert shown.lost.all() and env.last_pictures == {}
