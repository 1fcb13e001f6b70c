"""The serial back end: which rows it shows, to the number."""

import copy

import gymnasium
import numpy as np
import pytest
from counting import ComingAndGoing, Counting, CountingAEC, CountingParallel, Parts, PartsTogether
from gymnasium import spaces

from rookery.core.errors import EnvError
from rookery.envs.base import VectorEnv
from rookery.envs.make import make_env
from rookery.envs.random_play import random_actions


def seeds(lane, episode):
    return 1000 * lane + episode


def serial(env, lanes=1, **config):
    return make_env(env, config, (), lanes, "serial")


def zeros(env, shown):
    """Action 0 for everyone who waits."""
    return [
        np.zeros((rows.waiting.sum(), *kind.action.space.shape), int)
        for kind, rows in zip(env.kinds, shown.rows, strict=True)
    ]


def play(env, steps):
    shown = env.reset(seeds)
    yield shown
    for _ in range(steps):
        shown = env.step(zeros(env, shown))
        yield shown


def table(env, steps):
    """Each step of a one-kind, one-lane env: obs of who waits, reward, terminated, truncated, final obs, ended."""
    found = []
    for shown in play(env, steps):
        rows = shown.rows[0]
        obs = [float(o) if w else None for o, w in zip(rows.obs["obs"][:, 0], rows.waiting, strict=True)]
        final = dict(zip(rows.final_index.tolist(), rows.final_obs["obs"][:, 0].tolist(), strict=True))
        ends = (rows.terminated.tolist(), rows.truncated.tolist())
        found.append((obs, rows.reward.tolist(), *ends, final, bool(shown.ended[0])))
    return found


NO, YES = [False], [True]


def test_a_serial_env_is_a_vector_env():
    assert isinstance(serial(Counting), VectorEnv)


@pytest.mark.parametrize("mutate", [False, True])
def test_the_counting_env_that_terminates_at_7_gives_this_table(mutate):
    expected = [([float(t)], [float(t)], NO, NO, {}, False) for t in range(7)]
    expected += [([0.0], [7.0], YES, NO, {}, True)]  # the reward of step 7 beside the first observation of episode 1
    expected += [([float(t)], [float(t)], NO, NO, {}, False) for t in range(1, 7)]
    expected += [([0.0], [7.0], YES, NO, {}, True)]
    assert table(serial(Counting, terminate_at=7, truncate_at=10, mutate=mutate), 14) == expected


@pytest.mark.parametrize("mutate", [False, True])
def test_the_counting_env_that_is_truncated_at_10_shows_its_final_observation(mutate):
    expected = [([float(t)], [float(t)], NO, NO, {}, False) for t in range(10)]
    expected += [([0.0], [10.0], NO, YES, {0: 10.0}, True)]  # s' = 10, never the 0 of the next episode
    expected += [([1.0], [1.0], NO, NO, {}, False)]
    assert table(serial(Counting, truncate_at=10, mutate=mutate), 11) == expected


def test_an_end_that_is_both_terminated_and_truncated_has_no_final_observation():
    last = table(serial(Counting, terminate_at=3, truncate_at=3), 3)[-1]
    assert last == ([0.0], [3.0], YES, YES, {}, True)


def test_lanes_end_on_their_own_and_final_rows_are_ascending():
    class Staggered(Counting):
        made = 0

        def __init__(self):
            super().__init__(truncate_at=2 + Staggered.made % 3)
            Staggered.made += 1

    env = serial(Staggered, 6)  # lanes 0 and 3 end after 2 steps, 1 and 4 after 3, 2 and 5 after 4
    ends = []
    for shown in play(env, 4):
        ends.append(np.flatnonzero(shown.ended).tolist())
    assert ends == [[], [], [0, 3], [1, 4], [0, 2, 3, 5]]
    rows = shown.rows[0]
    assert rows.final_index.tolist() == [0, 2, 3, 5]
    assert rows.final_obs["obs"][:, 0].tolist() == [2.0, 4.0, 2.0, 4.0]
    assert env.episode.tolist() == [2, 1, 1, 2, 1, 1]


def test_every_episode_starts_from_the_seed_of_its_lane_and_number():
    made = []

    def build():
        made.append(Counting(terminate_at=2))
        return made[-1]

    env = serial(build, 2)
    made[0].seeds.clear()  # the survey of lane 0 before the run
    for _ in play(env, 4):
        pass
    assert [one.seeds for one in made] == [[0, 1, 2], [1000, 1001, 1002]]


def test_a_second_reset_starts_again_at_episode_0():
    env = serial(Counting, 1, terminate_at=2)
    first = table(env, 5)
    assert table(env, 5) == first
    assert env.episode.tolist() == [2]


def test_an_env_that_keeps_or_changes_its_action_does_not_touch_the_callers_array():
    class Greedy(gymnasium.Env):
        observation_space, action_space = spaces.Box(-1, 1, (1,)), spaces.Box(-1, 1, (2,))

        def reset(self, *, seed=None, options=None):
            return np.zeros(1, np.float32), {}

        def step(self, action):
            action[:] = 9
            return np.zeros(1, np.float32), 0.0, False, False, {}

    env, actions = serial(Greedy, 2), np.zeros((2, 2), np.float32)
    env.reset(seeds)
    env.step([actions])
    assert not actions.any()


def test_parallel_agents_leave_one_by_one_and_the_episode_ends_with_the_last():
    env = serial(CountingParallel)
    assert [kind.agents for kind in env.kinds] == [("x",), ("y",)]
    found = [
        (*(float(rows.reward[0]) for rows in s.rows), *(bool(rows.waiting[0]) for rows in s.rows), bool(s.ended[0]))
        for s in play(env, 5)
    ]
    assert found == [
        (0.0, 0.0, True, True, False),
        (1.0, 10.0, True, True, False),
        (2.0, 20.0, False, True, False),  # x terminates and waits no more
        (0.0, 30.0, False, True, False),
        (0.0, 40.0, True, True, True),  # y is truncated, no agent is left, the next episode begins
        (1.0, 10.0, True, True, False),
    ]


def test_ends_of_parallel_agents_are_told_apart():
    env = serial(CountingParallel)
    steps = [[(r.terminated[0], r.truncated[0], r.final_obs["obs"].tolist()) for r in s.rows] for s in play(env, 4)]
    assert steps[2] == [(True, False, []), (False, False, [])]
    assert steps[4] == [(False, False, []), (False, True, [[4.0, 4.0]])]


def test_aec_agents_are_paid_once_and_wait_only_on_their_turn():
    nobody = [False, False, False]
    assert table(serial(CountingAEC), 9) == [
        ([0.0, None, None], [0, 0, 0], nobody, nobody, {}, False),
        ([None, 1.0, None], [1, -0.5, -0.5], nobody, nobody, {}, False),
        ([None, None, 2.0], [-0.5, 2, -0.5], nobody, nobody, {}, False),
        ([3.0, None, None], [-0.5, -0.5, 3], nobody, nobody, {}, False),
        ([None, None, 4.0], [4, -0.5, -0.5], [False, True, False], nobody, {}, False),  # b dies on a's turn
        ([5.0, None, None], [-0.5, 0, 5], nobody, nobody, {}, False),
        ([None, None, 6.0], [6, 0, -0.5], nobody, nobody, {}, False),
        ([7.0, None, None], [-0.5, 0, 7], nobody, nobody, {}, False),
        ([0.0, None, None], [8, 0, -0.5], nobody, [True, False, True], {0: 8.0, 2: 8.0}, True),
        ([None, 1.0, None], [1, -0.5, -0.5], nobody, nobody, {}, False),
    ]


def coming_and_going(env, steps):
    """By agent: observation if waiting, reward, terminated, truncated; then final observations, how many stale."""
    found = []
    for shown in play(env, steps):
        agents, finals, stale = {}, {}, 0
        for kind, rows in zip(env.kinds, shown.rows, strict=True):
            for row, name in enumerate(kind.agents):
                seen = rows.obs["obs"][row].tolist() if rows.waiting[row] else None
                entry = (seen, float(rows.reward[row]), bool(rows.terminated[row]), bool(rows.truncated[row]))
                if entry != (None, 0.0, False, False):
                    agents[name] = entry
            for row, final in zip(rows.final_index, rows.final_obs["obs"], strict=True):
                finals[kind.agents[row]] = final.tolist()
            stale += rows.final_stale
        found.append((agents, finals, stale, bool(shown.ended[0])))
    return found


GOING = [
    ({"a": ([0], 0, False, False)}, {}, 0, False),
    ({"a": (None, 1, False, False), "b": ([1], 0, False, False)}, {}, 0, False),
    ({"a": ([2], 0.5, False, False), "b": (None, 2, False, False), "c": ([2, 2], 0, False, False)}, {}, 0, False),
    ({"a": (None, 3, True, False), "b": ([3], 0, False, False), "c": ([3, 3], 3, False, False)}, {}, 0, False),
    ({"b": (None, 4, False, True), "c": ([4, 4], 0, False, False)}, {"b": [3]}, 1, False),  # b last saw 3
    ({"a": ([5], 0, False, False), "c": ([5, 5], 0, False, False)}, {}, 0, False),
    ({"a": ([0], 0, False, True), "c": (None, 6, False, True)}, {"a": [5], "c": [6, 6]}, 1, True),
]


def test_dict_agents_come_go_and_take_turns():
    env = serial(ComingAndGoing)
    assert [kind.agents for kind in env.kinds] == [("a", "b"), ("c",)]
    assert coming_and_going(env, 6) == GOING
    assert env.layout == 0


def test_unannounced_agents_and_kinds_get_their_place_when_they_appear():
    env = serial(ComingAndGoing, announced=False)
    assert [kind.agents for kind in env.kinds] == [("a",)]
    layouts = []
    generator = play(env, 6)
    for _ in generator:
        layouts.append(env.layout)
    assert [kind.agents for kind in env.kinds] == [("a", "b"), ("c",)]
    assert layouts == [0, 1, 2, 2, 2, 2, 2]
    assert coming_and_going(serial(ComingAndGoing, announced=False), 6) == GOING


def test_rows_of_other_lanes_move_to_their_new_numbers_when_an_agent_appears():
    class Late:
        observation_spaces = {name: spaces.Box(0, 99, (1,)) for name in "ab"}
        action_spaces = dict.fromkeys("ab", spaces.Discrete(2))
        possible_agents = ["a"]

        def reset(self, *, seed=None, options=None):
            self.seed, self.t = seed, 0
            return {"a": np.array([seed])}, {}

        def step(self, actions):
            self.t += 1
            new = {"b": np.array([50.0])} if self.seed == 20 and self.t == 2 else {}
            obs = {agent: np.array([self.seed + self.t]) for agent in actions} | new
            cut = self.seed == 10 and self.t == 2
            return obs, dict.fromkeys(actions, self.seed), {"__all__": False}, {"__all__": cut}, {}

    env = make_env(Late, {}, (), 3, "serial")
    shown = env.reset(lambda lane, episode: 10 * (lane + 1) + episode)
    shown = env.step(zeros(env, shown))
    assert shown.rows[0].obs["obs"][:, 0].tolist() == [11, 21, 31]
    shown = env.step(zeros(env, shown))  # lane 0 is cut off, then b appears in lane 1, then lane 2 is stepped
    rows = shown.rows[0]
    assert env.kinds[0].agents == ("a", "b")
    assert rows.waiting.tolist() == [True, False, True, True, True, False]
    assert rows.obs["obs"][:, 0].tolist() == [11, 0, 22, 50, 32, 0]
    assert rows.reward.tolist() == [10, 0, 20, 0, 30, 0]
    assert rows.final_index.tolist() == [0]
    assert rows.final_obs["obs"].tolist() == [[12]]


def test_a_mask_in_the_info_becomes_a_leaf_and_follows_the_episode():
    class Doors(Counting):
        def reset(self, *, seed=None, options=None):
            return super().reset(seed=seed)[0], {"action_mask": np.array([1, 0], np.int8)}

        def step(self, action):
            info = {"action_mask": np.array([0, 1], np.int8)} if self.t == 0 else {}
            return *super().step(action)[:4], info

    env = serial(Doors, 1, terminate_at=3)
    assert [leaf.path for leaf in env.kinds[0].obs.leaves] == ["obs", "action_mask"]
    masks = [shown.rows[0].obs["action_mask"][0].tolist() for shown in play(env, 3)]
    assert masks == [[True, False], [False, True], [True, True], [True, False]]  # an info without a mask allows all


def test_masks_by_agent_in_the_infos_are_lifted_too():
    class Masked(ComingAndGoing):
        def reset(self, *, seed=None, options=None):
            return super().reset(seed=seed)[0], {"a": {"action_mask": [True, False]}}

        def step(self, actions):
            obs, *rest, _ = super().step(actions)
            return obs, *rest, {agent: {"action_mask": [False, True]} for agent in obs}

    env = serial(Masked)
    assert all(kind.obs.has_mask for kind in env.kinds)
    first, second = (
        [shown.rows[0].obs["action_mask"][row].tolist() for row in np.flatnonzero(shown.rows[0].waiting)]
        for shown in play(env, 1)
    )
    assert first == [[True, False]]  # a's
    assert second == [[False, True]]  # b's


def test_an_observation_with_its_own_mask_keeps_it_beside_agents_whose_mask_is_in_the_info():
    own = spaces.Dict({"obs": spaces.Box(0, 9, (1,)), "action_mask": spaces.Box(0, 1, (2,), np.int8)})

    class Mixed:
        possible_agents = ["a", "b"]
        observation_spaces = {"a": spaces.Box(0, 9, (1,)), "b": own}
        action_spaces = dict.fromkeys("ab", spaces.Discrete(2))

        def reset(self, *, seed=None, options=None):
            obs = {"a": np.zeros(1), "b": {"obs": np.zeros(1), "action_mask": np.array([0, 1], np.int8)}}
            return obs, {"a": {"action_mask": np.array([1, 0], np.int8)}}

        def step(self, actions):
            raise AssertionError

    env = serial(Mixed)
    assert env.kinds[0].agents == ("a", "b")  # the same layout, so the same kind
    assert env.reset(seeds).rows[0].obs["action_mask"].tolist() == [[True, False], [False, True]]


def test_a_final_mask_that_allows_nothing_is_opened():
    class Closing(Counting):
        def reset(self, *, seed=None, options=None):
            return super().reset(seed=seed)[0], {"action_mask": np.array([1, 1], np.int8)}

        def step(self, action):
            return *super().step(action)[:4], {"action_mask": np.array([0, 0], np.int8)}

    env = serial(Closing, truncate_at=1)
    *_, last = play(env, 1)
    assert last.rows[0].final_obs["action_mask"].tolist() == [[True, True]]


def test_float64_observations_are_stored_as_float32():
    class Precise(Counting):
        def observe(self):
            return np.array([self.t + 0.1], np.float64)

    *_, last = play(serial(Precise, 2), 3)
    assert last.rows[0].obs["obs"].dtype == np.float32
    assert last.rows[0].obs["obs"][:, 0].tolist() == [np.float32(3.1)] * 2


def test_rewards_may_be_integers_or_arrays_of_one_number():
    class Odd(Counting):
        def step(self, action):
            obs, reward, *rest = super().step(action)
            return obs, {1: 1, 2: np.array([2.0]), 3: np.float32(3), 4: np.array(4)}[self.t], *rest

    assert [s.rows[0].reward.tolist() for s in play(serial(Odd, 2, terminate_at=4), 4)][1:] == [
        [1, 1],
        [2, 2],
        [3, 3],
        [4, 4],
    ]


def test_the_wrong_number_of_actions_is_an_error():
    env = serial(Counting, 3)
    env.reset(seeds)
    with pytest.raises(EnvError, match=r"step\(\) got \[2\] actions by kind, expected \[3\]"):
        env.step([np.zeros(2, int)])
    env = serial(ComingAndGoing, 2)
    env.reset(seeds)
    with pytest.raises(EnvError, match=r"got \[1, 0\] actions by kind, expected \[2, 0\]"):
        env.step([np.zeros(1, int), np.zeros(0, int)])


def test_a_step_before_the_reset_is_an_error():
    with pytest.raises(EnvError, match=r"step\(\) before reset"):
        serial(Counting).step([np.zeros(1, int)])


def test_a_render_is_a_picture_of_the_lane_asked_for():
    env = make_env(Counting, {"truncate_at": 9}, (), 2, "serial", render=True)
    for _ in play(env, 2):
        pass
    picture = env.render(1)
    assert picture.shape == (2, 3, 3)
    assert picture.dtype == np.uint8
    assert (picture == 2).all()
    assert serial(Counting).render(0) is None
    env.close()


def played_parts(env, steps):
    """Plays random allowed actions of parts; what came out of each step, as plain numbers."""
    rng, found = np.random.default_rng(0), []
    for _ in range(steps):
        actions = []
        for kind, rows in zip(env.kinds, env.shown().rows, strict=True):
            drawn = random_actions(kind.action, len(rows.waiting), rows.obs["action_mask"], rng)
            actions.append(kind.action.to_env(drawn))
        shown = env.step(actions)
        found.append(
            [(rows.obs["obs"].tolist(), rows.reward.tolist(), rows.final_obs["obs"].tolist()) for rows in shown.rows]
        )
    return found


@pytest.mark.parametrize("env", [Parts, PartsTogether])
def test_an_episode_of_actions_of_parts_is_taken_up_by_playing_them_again(env):
    # 4 steps into an episode of 6, of an environment that writes into the actions it gets
    one, other = serial(env, 2), serial(env, 2)
    one.reset(seeds)
    played_parts(one, 4)
    state = copy.deepcopy(one.state_dict())
    assert [len(lane["actions"]) for lane in state["lanes"]] == [4, 4]
    _, lost = other.load_state_dict(state, seeds)
    assert not lost.any()
    assert played_parts(one, 9) == played_parts(other, 9)


def test_an_env_keeps_actions_of_parts_that_nobody_writes_into():
    env = serial(Parts)
    env.reset(seeds)
    played_parts(env, 5)
    given = env._lanes[0].env.given
    assert len({id(action) for action in given}) == len({id(action["keys"]) for action in given}) == 5
    assert [type(action["gear"]) for action in given] == [np.int64] * 5
    assert [action["arm"][0].dtype for action in given] == [np.float64] * 5
