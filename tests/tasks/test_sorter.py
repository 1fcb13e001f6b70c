"""The sorter: its rules, and its twin of many copies."""

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env as gymnasium_check

from rookery.core.errors import EnvError
from rookery.envs.base import VectorEnv
from rookery.envs.check import check_env
from rookery.envs.make import make_env
from rookery.envs.vector.serial import SerialEnv
from rookery.tasks.sorter import DISTANCE, NUMBER, VISITED, BatchedSorter, Sorter
from selection import slow


def plan(lane, episode):
    return (lane * 7919 + episode * 104729 + 13) % 2**31


def towards(obs):
    """A move that brings the explorer nearer to the lowest tile that was not visited."""
    tiles = obs["tiles"][obs["tiles"][:, VISITED] == 0]
    down, right = tiles[tiles[:, NUMBER:].argmax(1).argmin(), DISTANCE]
    if abs(down) >= abs(right):
        return 2 if down > 0 else 0
    return 1 if right > 0 else 3


def test_numbers_and_places_differ_and_order_says_nothing_of_the_number():
    env = Sorter(max_tiles=6)
    counts, sorted_ones = set(), 0
    for seed in range(200):
        obs, _ = env.reset(seed=seed)
        assert env.observation_space.contains(obs)
        numbers = obs["tiles"][:, NUMBER:].argmax(1)
        assert len(set(numbers)) == len(numbers)
        places = {tuple(place) for place in np.round(obs["tiles"][:, DISTANCE] * 4).tolist()}
        assert len(places | {(0, 0)}) == len(numbers) + 1
        counts.add(len(numbers))
        sorted_ones += list(numbers) == sorted(numbers)
    assert counts == {2, 3, 4, 5, 6}
    assert sorted_ones < 80  # of two tiles every second, of more fewer


def test_tiles_in_ascending_order_pay_one_in_all_and_the_last_ends_the_episode():
    env = Sorter()
    unfinished = 0
    for seed in range(100):
        obs, _ = env.reset(seed=seed)
        total, terminated, truncated = 0.0, False, False
        while not (terminated or truncated):
            visited = obs["tiles"][:, VISITED].sum()
            obs, reward, terminated, truncated, _ = env.step(towards(obs))
            assert reward == pytest.approx((obs["tiles"][:, VISITED].sum() - visited) / len(obs["tiles"]))
            total += reward
        assert total == pytest.approx(obs["tiles"][:, VISITED].mean())
        assert terminated == bool(obs["tiles"][:, VISITED].all())
        unfinished += not terminated
    assert unfinished <= 2  # who knows the order has time enough


def test_only_the_lowest_tile_that_was_not_visited_counts():
    env = Sorter(max_tiles=3, side=3)
    env.reset(seed=0)
    state = env.get_state()
    three = np.zeros((3, NUMBER + 12), np.float32)
    three[[0, 1, 2], [NUMBER + 9, NUMBER + 4, NUMBER + 7]] = 1.0
    places = np.array([[0, 2], [0, 1], [1, 1]], np.float32)
    env.set_state({**state, "place": [0, 0], "places": places, "rank": [2, 0, 1], "tiles": three, "visited": 0})
    assert env.step(1)[1:4] == (1 / 3, False, False)  # number 5, the lowest
    assert env.step(3)[1:4] == (0.0, False, False)
    assert env.step(1)[1:4] == (0.0, False, False)  # and back to it
    assert env.step(1)[1:4] == (0.0, False, False)  # number 10, while 8 was not visited
    env.step(3)
    assert env.step(2)[1:4] == (1 / 3, False, False)
    env.step(0)
    obs, *outcome, _ = env.step(1)
    assert outcome == [1 / 3, True, False]
    assert obs["tiles"][:, VISITED].all()


def test_walls_stop_moves_and_time_truncates():
    env = Sorter(max_tiles=2, side=9, max_steps=3)
    for seed in range(20):
        obs, _ = env.reset(seed=seed)
        own = [obs["own"][0]]
        for step in range(3):
            obs, _, terminated, truncated, _ = env.step(0)
            own.append(obs["own"][0])
            if terminated:
                break
            assert truncated == (step == 2)
        np.testing.assert_allclose(own, [max(own[0] - 0.25 * k, -1) for k in range(len(own))], atol=1e-6)


@pytest.mark.parametrize(
    ("num_lanes", "settings"),
    [(1, {"max_steps": 9}), (9, {"max_steps": 12}), slow(16, {"max_tiles": 3, "side": 3, "max_steps": 7})],
)
def test_the_twin_gives_the_same_numbers_bit_for_bit(num_lanes, settings):
    batched = BatchedSorter(num_lanes, **settings)
    serial = make_env(Sorter, settings, (), num_lanes, "serial")
    assert isinstance(batched, VectorEnv)
    assert batched.kinds == serial.kinds
    shown, other = batched.reset(plan), serial.reset(plan)
    rng, ends = np.random.default_rng(0), np.zeros(2, int)
    for _ in range(400):
        for name in ("reward", "terminated", "truncated", "waiting", "final_index"):
            assert np.array_equal(getattr(shown.rows[0], name), getattr(other.rows[0], name)), name
        for mine, theirs in (
            (shown.rows[0].obs, other.rows[0].obs),
            (shown.rows[0].final_obs, other.rows[0].final_obs),
        ):
            assert all(mine[path].tobytes() == theirs[path].tobytes() for path in ("own", "tiles"))
        assert np.array_equal(shown.ended, other.ended)
        ends += [shown.rows[0].terminated.sum(), len(shown.rows[0].final_index)]
        actions = rng.integers(0, 4, num_lanes)
        for lane in range(num_lanes):
            tiles = shown.rows[0].obs["tiles"][lane]
            if rng.random() < 0.7:
                actions[lane] = towards({"tiles": tiles[tiles[:, 0] > 0, 1:]})
        shown, other = batched.step((actions,)), serial.step((actions,))
    assert ends.min() > 0
    serial.close()


def test_a_state_goes_on_where_it_was():
    first, second = BatchedSorter(5), BatchedSorter(5)
    first.reset(plan)
    rng = np.random.default_rng(1)
    for _ in range(30):
        first.step((rng.integers(0, 4, 5),))
    shown, lost = second.load_state_dict(first.state_dict(), plan)
    assert not lost.any()
    for _ in range(100):
        actions = (rng.integers(0, 4, 5),)
        one, other = first.step(actions), second.step(actions)
        assert np.array_equal(one.rows[0].obs["tiles"], other.rows[0].obs["tiles"])
        assert np.array_equal(one.rows[0].reward, other.rows[0].reward)
    with pytest.raises(EnvError, match="of other settings"):
        second.load_state_dict(BatchedSorter(4).state_dict(), plan)


def test_one_copy_goes_on_where_it_was_too():
    env, other = Sorter(), Sorter()
    env.reset(seed=3)
    other.reset(seed=9)
    env.step(1)
    other.set_state(env.get_state())
    for action in (0, 1, 2, 3, 1):
        one, two = env.step(action), other.step(action)
        assert np.array_equal(one[0]["tiles"], two[0]["tiles"])
        assert one[1:4] == two[1:4]
        if one[2]:
            break


def test_actions_out_of_range_are_refused():
    env = Sorter()
    env.reset(seed=0)
    with pytest.raises(EnvError, match="action 4"):
        env.step(4)


def test_the_sorter_keeps_every_contract():
    gymnasium_check(Sorter(), skip_render_check=True)
    findings = check_env("Sorter", {}, (), episodes=3, max_steps=200, seed=0)
    assert not [finding for finding in findings if finding.severity != "note"]


def test_a_subclass_has_no_twin_unless_it_names_one():
    class Own(Sorter):
        """Other rules."""

    assert isinstance(make_env(Sorter, None, (), 2, "auto"), BatchedSorter)
    assert isinstance(make_env(Own, None, (), 2, "auto"), SerialEnv)


def test_both_draw_the_same_pictures_and_tiles_turn_green_when_they_are_visited():
    pytest.importorskip("PIL")
    one, many = Sorter(render_mode="rgb_array"), BatchedSorter(1)
    assert one.render() is None
    obs, _ = one.reset(seed=plan(0, 0))
    many.reset(plan)
    before, over = one.render(), False
    assert np.array_equal(before, many.render(0))
    while not over:
        action = towards(obs)
        obs, _, terminated, truncated, _ = one.step(action)
        over = terminated or truncated
        many.step([np.array([action])])
        if not over:
            assert np.array_equal(one.render(), many.render(0))
    assert not np.array_equal(before, one.render())
    with pytest.raises(ValueError, match="render_mode is 'human'"):
        Sorter(render_mode="human")
