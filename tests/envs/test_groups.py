"""Groups of agents: what environments say of them in each form, and `GroupEnv`, which shows them as rows."""

import numpy as np
import pytest
from gymnasium import spaces

from rookery.core.errors import EnvError
from rookery.core.seeding import Role, Streams
from rookery.envs.check import check_env
from rookery.envs.groups import GroupEnv, groups_of
from rookery.envs.make import make_env
from rookery.envs.placeholder_env import PlaceholderEnv, describe
from rookery.envs.random_play import random_answers
from rookery.tasks import Sacrifice


class Squad:
    """Agents who end after so many steps as `lives` says, negative = cut off then; each sees [step, own number].

    Its group `crew`, of all but those of `loners`, gets 10 when an agent ends, as the agents in `says` report. Those of
    `late` come after so many steps.
    """

    def __init__(self, lives=None, says=None, loners=(), wide=(), length=99, back=0, late=None):
        self.lives = lives or {"a": 1, "b": 3, "c": 4}
        self.possible_agents = list(self.lives)
        self.says, self.length, self.back, self.late = says, length, back, late or {}
        self.groups = {"crew": [agent for agent in self.lives if agent not in loners]}
        self.observation_spaces = {
            agent: spaces.Box(-99, 99, (3 if agent in wide else 2,)) for agent in self.possible_agents
        }
        self.action_spaces = {agent: spaces.Discrete(2) for agent in self.possible_agents}

    def _obs(self, agents):
        shape = {agent: self.observation_spaces[agent].shape for agent in agents}
        number = {agent: ord(agent) - 96 for agent in agents}
        return {agent: np.resize(np.float32([self.step_number, number[agent]]), shape[agent]) for agent in agents}

    def reset(self, seed=None, options=None):
        self.step_number, self.alive = 0, [agent for agent in self.lives if agent not in self.late]
        return self._obs(self.alive), {}

    def step(self, actions):
        assert set(actions) == set(self.alive)
        self.step_number += 1
        left = [agent for agent in self.alive if abs(self.lives[agent]) == self.step_number]
        over = self.step_number == self.length
        shown = self._obs(self.alive)
        reward = {agent: 1.0 + actions[agent] for agent in self.alive}
        said = self.says if self.says is not None else {left[0]: 10} if left else {}
        infos = {agent: {"group_reward": said[agent]} for agent in said if agent in self.alive}
        self.alive = [agent for agent in self.alive if agent not in left]
        if self.back and self.step_number == self.back:
            self.alive.append("a")
            shown |= self._obs(["a"])
        now = [agent for agent, step in self.late.items() if step == self.step_number]
        self.alive += now
        shown |= self._obs(now)
        terminated = {agent: self.lives[agent] > 0 for agent in left}
        truncated = {agent: self.lives[agent] < 0 for agent in left}
        terminated["__all__"], truncated["__all__"] = not self.alive, over
        return shown, reward, terminated, truncated, infos


def copies(num_lanes=1, wrapped=True, implementation="serial", helpers=None, moments=False, **config):
    env = make_env(Squad, config, (), num_lanes, implementation, helpers=helpers)
    return GroupEnv(env, moments) if wrapped else env


def begun(env):
    return env.reset(Streams(0).episodes(Role.ENV))


def go_on(env, shown):
    return env.step([np.zeros(int(rows.waiting.sum()), np.int64) for rows in shown.rows])


def test_who_ends_before_the_group_stays_as_a_row_that_does_not_act():
    env = copies()
    shown = begun(env)
    (rows,) = shown.rows
    for alive, acted, reward in [
        ([1, 1, 1], [1, 1, 1], [0, 0, 0]),
        ([0, 1, 1], [0, 1, 1], [1, 1, 1]),
        ([0, 1, 1], [0, 1, 1], [0, 1, 1]),
        ([0, 0, 1], [0, 0, 1], [0, 1, 1]),
    ]:
        assert rows.waiting.all() and not rows.terminated.any() and not rows.truncated.any()
        assert rows.obs["central/alive"].tolist() == [alive] * 3
        assert rows.obs["central/acted"].ravel().tolist() == acted
        assert rows.reward.tolist() == reward
        seen = np.array([[env.env._step.rows[0].obs["obs"][i, 0], i + 1] for i in range(3)]) * np.array(alive)[:, None]
        assert (rows.obs["central/members/obs"] == seen).all()
        assert (rows.obs["obs"] == seen).all()
        assert rows.obs["central/me"].tolist() == [0, 1, 2]
        shown = go_on(env, shown)
    assert rows.terminated.all() and shown.ended.all() and not len(rows.final_index)
    assert rows.group_reward.tolist() == [10] * 3
    assert rows.waiting.all() and rows.obs["central/alive"].all()  # the next episode


def test_a_group_is_truncated_if_one_who_goes_last_is_and_shows_who_was_there():
    env = copies(2, lives={"a": 1, "b": 2, "c": -2})
    shown = go_on(env, begun(env))
    shown = go_on(env, shown)
    (rows,) = shown.rows
    assert rows.truncated.all() and not rows.terminated.any()
    assert rows.final_index.tolist() == list(range(6))
    assert rows.final_obs["central/alive"].tolist() == [[0, 0, 1]] * 6
    assert rows.final_obs["central/acted"].ravel().tolist() == [0, 0, 1] * 2
    assert rows.final_obs["obs"].tolist() == [[0, 0], [0, 0], [2, 3]] * 2
    assert rows.final_obs["central/members/obs"].tolist() == [[[0, 0], [0, 0], [2, 3]]] * 6


def test_who_is_cut_off_alone_counts_as_gone_until_the_group_ends():
    env = copies(lives={"a": -1, "b": 2, "c": 2})
    shown = go_on(env, begun(env))
    (rows,) = shown.rows
    assert not rows.truncated.any() and not len(rows.final_index)
    assert rows.obs["central/acted"].ravel().tolist() == [0, 1, 1]
    go_on(env, shown)
    assert rows.terminated.all() and not rows.truncated.any()


def test_an_episode_that_is_cut_off_truncates_the_group():
    env = copies(length=2)
    shown = go_on(env, go_on(env, begun(env)))
    assert shown.rows[0].truncated.all() and shown.ended.all()
    assert shown.rows[0].final_obs["central/alive"].tolist() == [[0, 1, 1]] * 3


def test_an_agent_that_comes_back_acts_again():
    env = copies(lives={"a": 1, "b": 5, "c": 5}, back=2)
    shown = go_on(env, begun(env))
    assert shown.rows[0].obs["central/acted"].ravel().tolist() == [0, 1, 1]
    shown = go_on(env, shown)
    assert shown.rows[0].obs["central/acted"].ravel().tolist() == [1, 1, 1]
    assert shown.rows[0].obs["obs"][0].tolist() == [2, 1]
    assert not shown.rows[0].terminated.any()


def test_a_group_waits_for_a_member_that_has_not_come_yet():
    config = {"lives": {"a": 1, "b": 5, "c": 6}, "late": {"b": 3}, "loners": ("c",), "says": {}}
    env, other = copies(2, **config), copies(2, **config)
    shown, (rows,) = begun(env), env._step.rows
    for _ in range(2):  # episodes
        for waiting, acted, ended in [
            ([0, 0, 1], [0, 1], [0, 0, 0]),  # a has gone; b has not come
            ([0, 0, 1], [0, 1], [0, 0, 0]),
            ([1, 1, 1], [0, 1], [0, 0, 0]),  # b is there, and a stays with it
            ([1, 1, 1], [0, 1], [0, 0, 0]),
            ([0, 0, 1], [1, 1], [1, 1, 0]),
            ([1, 0, 1], [1, 1], [0, 0, 1]),  # the next episode
        ]:
            shown = go_on(env, shown)
            assert rows.waiting.tolist() == waiting * 2
            assert rows.obs["central/acted"].reshape(2, 3)[:, :2].tolist() == [acted] * 2
            assert rows.terminated.tolist() == ended * 2
    shown = go_on(env, shown)
    again, _ = other.load_state_dict(env.state_dict(), Streams(0).episodes(Role.ENV))
    for _ in range(7):
        shown, again = go_on(env, shown), go_on(other, again)
        assert (shown.rows[0].waiting == again.rows[0].waiting).all()
        assert (shown.rows[0].terminated == again.rows[0].terminated).all()


def test_a_group_ends_with_the_episode_though_a_member_has_never_come():
    env = copies(lives={"a": 1, "b": 9, "c": 3}, late={"b": 8}, loners=("c",), says={})
    shown = begun(env)
    for ended in ([0, 0, 0], [0, 0, 0], [1, 0, 1]):
        shown = go_on(env, shown)
        assert shown.rows[0].terminated.tolist() == ended


def test_agents_outside_of_groups_end_by_themselves():
    env = copies(loners=("a",), says={})
    shown = go_on(env, begun(env))
    (rows,) = shown.rows
    assert rows.terminated.tolist() == [True, False, False]
    assert rows.waiting.tolist() == [False, True, True]
    assert rows.obs["central/members/obs"].shape == (3, 2, 2)
    assert rows.obs["central/alive"].tolist()[1:] == [[1, 1]] * 2


def test_kinds_have_a_set_of_members_each():
    env = copies(wide=("b",))
    shown = go_on(env, begun(env))
    narrow, wide = shown.rows
    assert [kind.agents for kind in env.kinds] == [("a", "c"), ("b",)]
    for rows in (narrow, wide):
        assert rows.obs["central/0/alive"].tolist() == [[0, 1]] * len(rows.reward)
        assert rows.obs["central/1/alive"].tolist() == [[1]] * len(rows.reward)
        assert rows.obs["central/1/members/obs"].shape[1:] == (1, 3)
    assert narrow.obs["central/me"].tolist() == [0, 1] and wide.obs["central/me"].tolist() == [2]


def test_rows_of_one_group_share_a_number_at_each_moment():
    env = copies(2, moments=True)
    shown = begun(env)
    seen = []
    for _ in range(6):
        moment = shown.rows[0].obs["central/moment"].reshape(2, 3)
        assert (moment == moment[:, :1]).all()
        seen += moment[:, 0].tolist()
        shown = go_on(env, shown)
    assert len(set(seen)) == 12


def test_a_state_is_taken_up_with_who_has_gone():
    env, other = copies(3, moments=True), copies(3, moments=True)
    rng = [np.random.default_rng(0) for _ in range(2)]
    shown = begun(env)
    for _ in range(6):
        shown = env.step(random_answers(env, shown, rng[0]))
    rng[1].bit_generator.state = rng[0].bit_generator.state
    again, lost = other.load_state_dict(env.state_dict(), Streams(0).episodes(Role.ENV))
    assert not lost.any()
    for _ in range(10):
        for mine, theirs in zip(shown.rows, again.rows, strict=True):
            assert (mine.waiting == theirs.waiting).all()
            for path, array in mine.obs.items():
                assert (array[mine.waiting] == theirs.obs[path][mine.waiting]).all(), path
        shown, again = env.step(random_answers(env, shown, rng[0])), other.step(random_answers(other, again, rng[1]))
        assert (shown.rows[0].terminated == again.rows[0].terminated).all()
    with pytest.raises(EnvError, match="of another environment, or of one without groups"):
        other.load_state_dict(env.env.state_dict(), Streams(0).episodes(Role.ENV))


def test_episodes_that_are_given_up_begin_with_everybody():
    env = copies(2)
    go_on(env, begun(env))
    shown = env.restart(Streams(0).episodes(Role.ENV))
    assert shown.rows[0].obs["central/alive"].all() and not shown.rows[0].terminated.any()


@pytest.mark.parametrize("implementation", ["processes", "threads"])
def test_rewards_of_groups_come_from_helpers_too(implementation):
    env, plain = copies(4, implementation=implementation, helpers=2), copies(4)
    try:
        shown, expected = begun(env), begun(plain)
        total = np.zeros(12)
        for _ in range(9):
            shown, expected = go_on(env, shown), go_on(plain, expected)
            assert (shown.rows[0].group_reward == expected.rows[0].group_reward).all()
            assert (shown.rows[0].reward == expected.rows[0].reward).all()
            total += shown.rows[0].group_reward
        assert (total == 70).all()  # three ends in the first four steps, four in the next five
    finally:
        env.close()


def test_an_environment_without_groups_pays_nothing_for_them():
    class Alone(Squad):
        def __init__(self):
            super().__init__()
            self.groups = ["not", "ours"]

    env = make_env(Alone, {}, (), 1, "serial")
    assert groups_of(env) == {} and begun(env).rows[0].group_reward is None
    assert GroupEnv(env).notes[-1] == "Alone names no groups, so all 3 agents of an environment are one"


def test_a_batched_environment_is_wrapped_as_it_is():
    env = GroupEnv(Sacrifice(4))
    shown, rng, gone = begun(env), np.random.default_rng(0), 0
    assert env.groups == {"team": ("a", "b", "c")}
    for _ in range(200):
        shown = env.step(random_answers(env, shown, rng))
        (rows,) = shown.rows
        gone += int((rows.obs["central/acted"] == 0).sum())
        ends = (rows.terminated | rows.truncated).reshape(4, 3)
        assert (ends.all(axis=1) == ends.any(axis=1)).all() and (ends[:, 0] == shown.ended).all()
    assert gone > 50


def test_what_stands_for_an_absent_environment_knows_its_groups():
    env = copies()
    absent = PlaceholderEnv(describe(env))
    assert absent.kinds[0].obs == env.kinds[0].obs and absent.groups == env.groups


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ({"crew": ["a", "b", "b"]}, "agent 'b' is twice in group 'crew'"),
        ({"x": ["a"], "y": ["b", "a"]}, "agent 'a' is in 'x' and 'y'; an agent is in one group at most"),
        ({"crew": ["a", "zoe"]}, r"'zoe' of group 'crew' is not one of the agents of an environment \(a, b, c\)"),
        ({"crew": "abc"}, "groups must be a dict from the name of a group to its agents in one environment"),
        ({"crew": []}, "'crew' has \\[\\]"),
    ],
)
def test_wrong_groups_are_refused(groups, message):
    class Wrong(Squad):
        def __init__(self):
            super().__init__()
            self.groups = groups

    with pytest.raises(EnvError, match=message):
        make_env(Wrong, {}, (), 1, "serial")


@pytest.mark.parametrize(
    ("says", "loners", "message"),
    [
        (
            {"a": 1.0, "b": 2.0},
            (),
            "agent 'b'.*group_reward is 2, and 'a' reports 1 in the same step; both are of group",
        ),
        ({"a": "much"}, (), "group_reward is 'much', expected a finite number"),
        ({"a": float("nan")}, (), "non-finite group_reward nan"),
        ({"c": 1.0}, ("c",), "agent 'c'.*none of the environment's groups has this agent"),
    ],
)
def test_wrong_rewards_of_groups_are_refused(says, loners, message):
    env = copies(says=says, loners=loners)
    with pytest.raises(EnvError, match=message):
        go_on(env, begun(env))


def test_members_may_say_the_same():
    env = copies(says={"a": 2.0, "b": 2})
    assert go_on(env, begun(env)).rows[0].group_reward.tolist() == [2, 2, 2]


def test_an_agent_whom_nobody_announced_is_refused():
    class Late(Squad):
        def __init__(self):
            super().__init__()
            self.observation_spaces["d"], self.action_spaces["d"] = spaces.Box(-99, 99, (2,)), spaces.Discrete(2)

        def step(self, actions):
            actions.pop("d", None)
            shown, *rest = super().step(actions)
            return (shown | self._obs(["d"]), *rest)

    env = GroupEnv(make_env(Late, {}, (), 1, "serial"))
    with pytest.raises(EnvError, match="'d' appeared without being announced.*possible_agents"):
        go_on(env, begun(env))


class Turns:
    """A PettingZoo game in which p0 and p1 take turns; p0 ends with its second move, which earns the group 5."""

    metadata = {"name": "turns"}

    def __init__(self):
        self.possible_agents = ["p0", "p1"]
        self.groups = {"pair": ("p0", "p1")}

    def observation_space(self, agent):
        return spaces.Box(-9, 9, (1,))

    def action_space(self, agent):
        return spaces.Discrete(2)

    def reset(self, seed=None, options=None):
        self.agents, self.agent_selection, self.moves = ["p0", "p1"], "p0", 0
        self.rewards, self.infos = ({agent: make() for agent in self.agents} for make in (float, dict))
        self.terminations, self.truncations = (dict.fromkeys(self.agents, False) for _ in range(2))

    def observe(self, agent):
        return np.float32([self.moves])

    def step(self, action):
        who = self.agent_selection
        if self.terminations[who]:
            self.agents.remove(who)
            for table in (self.rewards, self.infos, self.terminations, self.truncations):
                del table[who]
            self.agent_selection = self.agents[0] if self.agents else who
            return
        self.moves += 1
        self.rewards, self.infos = ({agent: make() for agent in self.agents} for make in (float, dict))
        if self.moves == 3:
            self.terminations["p0"], self.infos["p0"] = True, {"group_reward": 5.0}
        if self.moves == 5:
            self.terminations["p1"] = True
        self.agent_selection = "p0" if self.terminations.get("p0") or (who == "p1" and "p0" in self.agents) else "p1"
        if self.moves == 5:
            self.agent_selection = "p1"

    def last(self):
        raise NotImplementedError

    def agent_iter(self):
        raise NotImplementedError


def test_turns_keep_what_a_mate_saw_last_and_the_reward_of_who_has_gone():
    env = GroupEnv(make_env(Turns, {}, (), 1, "serial"))
    shown = begun(env)
    (rows,) = shown.rows
    assert rows.waiting.tolist() == [True, False] and rows.obs["central/alive"][0].tolist() == [1, 0]
    shown = go_on(env, shown)  # p1 has seen move 1
    assert rows.waiting.tolist() == [False, True]
    assert rows.obs["central/members/obs"][1].ravel().tolist() == [0, 1]
    shown = go_on(env, shown)
    assert rows.obs["central/members/obs"][0].ravel().tolist() == [2, 1]
    shown = go_on(env, shown)  # p0 has ended with a group reward
    assert rows.group_reward.tolist() == [5, 5] and not rows.terminated.any()
    assert rows.waiting.tolist() == [True, True] and rows.obs["central/acted"].ravel().tolist() == [0, 1]
    shown = go_on(env, shown)
    assert rows.group_reward.tolist() == [0, 0]
    go_on(env, shown)
    assert rows.terminated.tolist() == [True, True]


def found(**config):
    return {finding.text: finding for finding in check_env(Squad, config, (), episodes=2, max_steps=50, seed=0)}


def test_the_check_tells_groups_and_finds_what_is_wrong_with_them():
    texts = found()
    assert "group 'crew': a, b, c win and lose together" in texts
    assert any("group rewards from 10 to 10" in text for text in texts)
    assert not [text for text, finding in texts.items() if finding.severity == "error"]
    wrong = "group_reward is 2, and 'a' of the same group reports 1: members must say the same, or one of them alone"
    assert found(says={"a": 1, "b": 2})[wrong].severity == "error"
    assert any("the agent is in no group" in text for text in found(says={"c": 1}, loners=("c",)))
    assert any("group_reward is 'x', expected a finite number" in text for text in found(says={"c": "x"}))


def test_rivals_without_groups_are_each_alone():
    env = make_env("TicTacToe", None, (), 2, "auto")
    together, apart = GroupEnv(env), GroupEnv(env, rivals=True)
    assert len(together._members) == 1 and any("names no groups" in note for note in together.notes)
    assert apart._members == [[0], [1]] and not any("names no groups" in note for note in apart.notes)
