"""The shared contract that every adapter keeps, and what each kind of space, mask and style becomes."""

import gymnasium
import mpe2.simple_spread_v3
import numpy as np
import pettingzoo.classic.tictactoe_v3
import pytest
from counting import (
    ComingAndGoing,
    Counting,
    CountingAEC,
    CountingParallel,
    Parts,
    PartsTogether,
    Walk,
    WalkTogether,
)
from gymnasium import spaces

from rookery.core.spaces.arrays import MASK
from rookery.envs.make import make_env
from rookery.envs.random_play import random_actions
from rookery.tasks.games.arena import MultiAgentArena


def seeds(lane, episode):
    return 7919 * lane + episode


SPREAD = {"N": 2, "max_cycles": 6}

ENVS = {
    "gym class": (Walk, {}),
    "gym id": ("CartPole-v1", {"max_episode_steps": 12}),
    "gym id, mask in info": ("Taxi-v4", {"max_episode_steps": 10}),
    "gym callable": (lambda: gymnasium.wrappers.TimeLimit(Counting(), 5), {}),
    "gym both ends": (Counting, {"terminate_at": 7, "truncate_at": 10}),
    "gym class, actions of parts": (Parts, {}),
    "parallel": (CountingParallel, {}),
    "parallel module": (mpe2.simple_spread_v3, SPREAD),
    "aec": (CountingAEC, {}),
    "aec module with masks": (pettingzoo.classic.tictactoe_v3, {}),
    "aec of a parallel env": (mpe2.simple_spread_v3.env, SPREAD),
    "dict": (ComingAndGoing, {}),
    "dict, unannounced": (ComingAndGoing, {"announced": False}),
    "dict without agents": (WalkTogether, {}),
    "dict, actions of parts": (PartsTogether, {}),
    "arena": (MultiAgentArena, {"width": 3, "height": 3, "max_timesteps": 9}),
}


def history(name, lanes, steps):
    """Plays actions drawn from each lane's own stream, so that lane k does the same among however many lanes.

    Returns the env and, for each step, copies of what it showed by (lane, agent) and by lane.
    """
    env, config = ENVS[name]
    vector = make_env(env, config, (), lanes, "serial")
    streams = [np.random.default_rng(lane) for lane in range(lanes)]
    shown = vector.reset(seeds)
    found = [picture(vector, shown)]
    for _ in range(steps):
        actions = []
        for kind, rows in zip(vector.kinds, shown.rows, strict=True):
            stored = np.zeros((rows.waiting.sum(), *kind.action.shape), kind.action.dtype)
            for i, row in enumerate(np.flatnonzero(rows.waiting)):
                mask = rows.obs[MASK][row : row + 1] if kind.obs.has_mask else None
                stored[i] = random_actions(kind.action, 1, mask, streams[row // len(kind.agents)])[0]
            actions.append(kind.action.to_env(stored))
        shown = vector.step(actions)
        found.append(picture(vector, shown))
    return vector, found


def picture(vector, shown):
    """Plain copies: {(lane, agent): (waiting, obs or None, reward, terminated, truncated, final or None)}, ended."""
    agents = {}
    for kind, rows in zip(vector.kinds, shown.rows, strict=True):
        final = {int(row): k for k, row in enumerate(rows.final_index)}
        for row in range(len(rows.reward)):
            lane, column = divmod(row, len(kind.agents))
            obs = {p: a[row].tolist() for p, a in rows.obs.items()} if rows.waiting[row] else None
            last = {p: a[final[row]].tolist() for p, a in rows.final_obs.items()} if row in final else None
            ends = (bool(rows.terminated[row]), bool(rows.truncated[row]))
            agents[lane, kind.agents[column]] = (bool(rows.waiting[row]), obs, float(rows.reward[row]), *ends, last)
    return agents, shown.ended.tolist()


@pytest.fixture(scope="module", params=ENVS, ids=lambda name: name.replace(" ", "-"))
def played(request):
    return request.param, *history(request.param, 3, 40)


def test_slabs_have_the_shapes_and_types_of_their_kind(played):
    _, env, _ = played
    for kind, rows in zip(env.kinds, env.shown().rows, strict=True):
        size = env.num_lanes * len(kind.agents)
        assert {path: (a.shape, a.dtype) for path, a in rows.obs.items()} == {
            leaf.path: ((size, *leaf.shape), leaf.dtype) for leaf in kind.obs.leaves
        }
        assert rows.reward.shape == rows.terminated.shape == rows.truncated.shape == rows.waiting.shape == (size,)
        assert rows.reward.dtype == np.float64


def test_episodes_end_and_the_next_one_waits_at_once(played):
    _, env, found = played
    ends = np.array([ended for _, ended in found])
    assert ends.sum(axis=0).tolist() == env.episode.tolist()
    assert (env.episode > 0).all()
    for agents, ended in found:
        for lane in np.flatnonzero(ended):
            assert any(waiting for (at, _), (waiting, *_) in agents.items() if at == lane)


def test_an_agent_that_ends_waits_only_if_a_new_episode_began(played):
    _, _, found = played
    for agents, ended in found:
        for (lane, _), (waiting, _, _, terminated, truncated, _) in agents.items():
            assert not (waiting and (terminated or truncated)) or ended[lane]


def test_exactly_the_agents_that_were_only_truncated_have_a_final_observation(played):
    _, _, found = played
    for agents, _ in found:
        for _, _, _, terminated, truncated, final in agents.values():
            assert (final is not None) == (truncated and not terminated)


def test_a_lane_plays_the_same_episodes_alone_and_among_others(played):
    name, _, found = played
    _, alone = history(name, 1, 40)
    for (agents, ended), (own, own_ended) in zip(found, alone, strict=True):
        assert {key: value for key, value in agents.items() if key[0] == 0} == own
        assert ended[0] == own_ended[0]


def test_the_same_seeds_and_actions_give_the_same_rows(played):
    name, _, found = played
    assert history(name, 3, 40)[1] == found


def test_a_gym_lane_shows_what_a_plain_loop_shows():
    _, found = history("gym class", 1, 40)
    env, rng, episode = Walk(), np.random.default_rng(0), 0
    obs, _ = env.reset(seed=0)
    for agents, ended in found[1:]:
        last, reward, terminated, truncated, _ = env.step(rng.random((1, 2)).argmax())
        if terminated or truncated:
            episode += 1
            obs, _ = env.reset(seed=episode)
        else:
            obs = last
        final = {"obs": np.float32(last).tolist()} if truncated and not terminated else None
        expected = (True, {"obs": np.float32(obs).tolist()}, float(reward), bool(terminated), bool(truncated), final)
        assert agents[0, "agent"] == expected
        assert ended == [terminated or truncated]
    assert episode > 3


def test_tictactoe_gives_each_move_to_its_player_and_pays_both_at_the_end():
    env = make_env(pettingzoo.classic.tictactoe_v3, {}, (), 1, "serial")
    (kind,) = env.kinds
    assert kind.agents == ("player_1", "player_2")
    assert [leaf.path for leaf in kind.obs.leaves] == ["observation", "action_mask"]
    rows = env.reset(seeds).rows[0]
    for n, move in enumerate([0, 3, 1, 4]):  # player 1 fills the first column, player 2 the second
        assert rows.waiting.tolist() == [n % 2 == 0, n % 2 == 1]
        assert rows.obs[MASK][n % 2].tolist() == [cell not in [0, 3, 1, 4][:n] for cell in range(9)]
        rows = env.step([np.array([move])]).rows[0]
        assert not rows.reward.any() and not rows.terminated.any()
    shown = env.step([np.array([2])])
    assert shown.rows[0].reward.tolist() == [1, -1]
    assert shown.rows[0].terminated.tolist() == [True, True]
    assert shown.rows[0].waiting.tolist() == [True, False]
    assert shown.ended.tolist() == [True]


def test_an_illegal_move_in_tictactoe_costs_its_player_1():
    env = make_env(pettingzoo.classic.tictactoe_v3, {}, (), 1, "serial")
    env.reset(seeds)
    env.step([np.array([4])])
    shown = env.step([np.array([4])])
    assert shown.rows[0].reward.tolist() == [0, -1]
    assert shown.ended.tolist() == [True]


def test_parallel_and_aec_form_of_a_game_pay_the_same():
    def returns(env):
        vector = make_env(env, SPREAD, (), 1, "serial")
        shown, total, ended = vector.reset(seeds), {}, False
        while not ended:
            shown = vector.step([np.full(rows.waiting.sum(), 1) for rows in shown.rows])
            ended = shown.ended[0]
            for kind, rows in zip(vector.kinds, shown.rows, strict=True):
                for name, reward in zip(kind.agents, rows.reward, strict=True):
                    total[name] = total.get(name, 0.0) + reward
        return total

    parallel = returns(mpe2.simple_spread_v3.parallel_env)
    assert parallel == pytest.approx(returns(mpe2.simple_spread_v3.env))
    assert len(parallel) == 2


def test_taxi_gets_its_mask_from_the_info():
    env = make_env("Taxi-v4", {}, (), 2, "serial")
    assert env.kinds[0].obs.leaves[-1].shape == (6,)
    rows = env.reset(seeds).rows[0]
    plain = gymnasium.make("Taxi-v4")
    for lane in range(2):
        obs, info = plain.reset(seed=seeds(lane, 0))
        assert rows.obs["obs"][lane] == obs
        assert rows.obs[MASK][lane].tolist() == info["action_mask"].astype(bool).tolist()


def one_obs(space, obs, action=spaces.Discrete(2), lanes=1):
    """The row of a first observation, and the env."""

    class Shows(Counting):
        def __init__(self):
            super().__init__()
            self.observation_space, self.action_space = space, action

        def reset(self, *, seed=None, options=None):
            return obs, {}

    env = make_env(Shows, {}, (), lanes, "serial")
    return {path: array[0] for path, array in env.reset(seeds).rows[0].obs.items()}, env


def test_nested_observations_become_leaves_named_by_path():
    space = spaces.Dict(
        camera=spaces.Dict(left=spaces.Box(0, 255, (4, 6, 3), np.uint8)),
        body=spaces.Tuple([spaces.Box(-1, 1, (2,)), spaces.Discrete(3, start=3)]),
    )
    image = np.arange(72, dtype=np.uint8).reshape(4, 6, 3)
    tree, env = one_obs(space, {"camera": {"left": image}, "body": (np.array([0.5, -0.5]), np.int64(4))})
    assert set(tree) == {"camera/left", "body/0", "body/1"}
    assert tree["camera/left"].dtype == np.uint8 and (tree["camera/left"] == image).all()
    assert tree["body/0"].tolist() == [0.5, -0.5]
    assert tree["body/1"] == 1  # 4 is the second of 3, 4, 5
    assert next(leaf for leaf in env.kinds[0].obs.leaves if leaf.path == "camera/left").is_image


@pytest.mark.parametrize(
    ("space", "obs", "stored"),
    [
        (spaces.Discrete(3, start=3), 5, 2),
        (spaces.Discrete(3, start=-1), np.int64(-1), 0),
        (spaces.Discrete(4), np.array([3]), 3),
        (spaces.MultiDiscrete([3, 4]), np.array([2, 0]), [2, 0]),
        (spaces.MultiDiscrete([3, 4], start=[1, -2]), [3, -2], [2, 0]),
        (spaces.MultiDiscrete([[2, 2], [3, 3]]), np.array([[0, 1], [2, 0]]), [[0, 1], [2, 0]]),
        (spaces.MultiBinary(3), np.array([1, 0, 1], np.int8), [1, 0, 1]),
        (spaces.Box(-1, 1, ()), 0.25, 0.25),
        (spaces.Box(0, 9, (2,), np.int32), np.array([3, 4]), [3, 4]),
    ],
)
def test_each_space_is_stored_from_0(space, obs, stored):
    tree, _ = one_obs(space, obs)
    assert tree["obs"].tolist() == stored


def test_text_is_left_out_with_one_note():
    space = spaces.Dict(mission=spaces.Text(9), obs=spaces.Box(-1, 1, (1,)))
    tree, env = one_obs(space, {"mission": "go", "obs": np.zeros(1)}, lanes=3)
    assert set(tree) == {"obs"}
    assert env.notes == ("Shows: mission: Text observations cannot be used; that part is left out",)


def test_actions_reach_the_env_in_its_own_numbering():
    class Recorder(Counting):
        def __init__(self, space):
            super().__init__()
            self.action_space = space

        def step(self, action):
            assert self.action_space.contains(action), action
            given.append(np.asarray(action).tolist())
            return super().step(action)

    for space, stored, expected in [
        (spaces.Discrete(3, start=3), np.array([2]), [5]),
        (spaces.MultiDiscrete([2, 3]), np.array([[1, 2]]), [[1, 2]]),
        (spaces.Box(-2, 6, (2,)), np.array([[0.5, -7.0]], np.float32), [[4.0, -2.0]]),  # 2 + 4 * 0.5; clipped to -1
        (spaces.Box(-np.inf, np.inf, (1,)), np.array([[7.5]], np.float32), [[7.5]]),
    ]:
        given = []
        env = make_env(Recorder, {"space": space}, (), 1, "serial")
        env.reset(seeds)
        env.step([env.kinds[0].action.to_env(stored)])
        assert given == expected


def test_agents_with_equal_spaces_share_a_kind_and_ids_need_not_be_strings():
    env = make_env(WalkTogether, {}, (), 2, "serial")
    assert [kind.agents for kind in env.kinds] == [("0",)]
    env.reset(seeds)
    env.step([np.zeros((2, 1), np.float32)])
    assert [kind.agents for kind in env.kinds] == [("0", "1")]


BY_AGENT = spaces.Dict(a=spaces.Box(-1, 1, (1,)), b=spaces.Box(-1, 1, (2,)))


class Speaks:
    """A dict-style env in which a acts first, then b."""

    def reset(self, *, seed=None, options=None):
        return {"a": np.zeros(1)}, {}

    def step(self, actions):
        return {"b": np.zeros(2)}, {}, {"__all__": False}, {}, {}


class ByMethod(Speaks):
    def get_observation_space(self, agent):
        return BY_AGENT[agent]

    def get_action_space(self, agent):
        return spaces.Discrete(2)


class ByDictSpace(Speaks):
    observation_space = BY_AGENT
    action_space = spaces.Dict(a=spaces.Discrete(2), b=spaces.Discrete(2))


class MultiAgentEnv(gymnasium.Env):
    observation_spaces = None

    def get_observation_space(self, agent):
        raise ValueError("no spaces")


class ByBaseClass(Speaks, MultiAgentEnv):
    observation_space, action_space = BY_AGENT, spaces.Discrete(2)


@pytest.mark.parametrize("style", [ByMethod, ByDictSpace, ByBaseClass])
def test_dict_envs_may_state_their_spaces_in_each_of_the_known_ways(style):
    env = make_env(style, {}, (), 1, "serial")
    env.reset(seeds)
    env.step([np.zeros(rows.waiting.sum(), int) for rows in env.shown().rows])
    assert [(kind.agents, kind.obs.leaves[0].shape) for kind in env.kinds] == [(("a",), (1,)), (("b",), (2,))]
