"""Basic: prizes, both ends, what is seen, and what chance and the best player get, counted out."""

import numpy as np
import pytest

from rookery.tasks.basic import LARGE, LEFT, PLACES, RIGHT, SMALL, START, STAY, STEP_COST, WAY, Basic
from rookery.tasks.games.players import basic_best


def played(*actions, max_steps=100):
    """The last step of some actions in one lane, the rewards, and the places that were seen."""
    env = Basic(1, max_steps)
    shown, rewards, seen = env.reset(lambda lane, episode: 0), [], []
    for action in actions:
        seen.append(int(shown.rows[0].obs["obs"][0].argmax()))
        shown = env.step([np.array([action])])
        rewards.append(float(shown.rows[0].reward[0]))
    return shown, rewards, seen


def test_the_large_prize_is_seven_steps_away_and_ends_the_episode():
    shown, rewards, seen = played(*[RIGHT] * 7)
    assert seen == list(range(10, 17))
    assert shown.rows[0].terminated.all()
    assert rewards == pytest.approx([-0.01] * 6 + [0.99])
    assert sum(rewards) == pytest.approx(0.93)
    np.testing.assert_array_equal(shown.rows[0].obs["obs"][0], np.eye(PLACES, dtype=np.uint8)[START])


def test_the_small_prize_is_near_and_ends_the_episode():
    shown, rewards, _ = played(*[LEFT] * 3)
    assert shown.rows[0].terminated.all()
    assert sum(rewards) == pytest.approx(0.07)


def test_whoever_stands_still_is_cut_off_and_pays():
    shown, rewards, seen = played(*[STAY] * 5, max_steps=5)
    assert seen == [START] * 5
    assert shown.rows[0].truncated.all()
    assert not shown.rows[0].terminated.any()
    assert sum(rewards) == pytest.approx(-0.05)
    assert shown.rows[0].final_obs["obs"][0].argmax() == START


def test_the_best_player_gets_what_is_told_and_chance_what_can_be_counted_out():
    env, rng = Basic(200), np.random.default_rng(0)
    rewards = np.zeros(200)
    shown = env.reset(lambda lane, episode: lane)
    for _ in range(7):
        shown = env.step([basic_best(shown.rows[0].obs, rng)])
        rewards += shown.rows[0].reward
    assert shown.ended.all()
    np.testing.assert_allclose(rewards, 0.93)

    chance, expected = np.eye(PLACES)[START], 0.0
    for _ in range(100):
        moved = np.zeros(PLACES)
        for way in WAY:
            np.add.at(moved, np.clip(np.arange(PLACES) + way, 0, PLACES - 1), chance / 3)
        expected += 0.1 * moved[SMALL] + moved[LARGE] - STEP_COST * chance.sum()
        moved[[SMALL, LARGE]] = 0.0
        chance = moved
    assert expected == pytest.approx(0.046, abs=0.0005)
    shown, earned, first = env.reset(lambda lane, episode: lane), np.zeros(200), np.ones(200, dtype=bool)
    for _ in range(100):
        shown = env.step([rng.integers(0, 3, 200)])
        earned += shown.rows[0].reward * first
        first &= ~shown.ended
    assert earned.mean() == pytest.approx(expected, abs=0.12)
