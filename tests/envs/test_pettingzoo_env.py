"""PettingZoo environments that treat agents which have ended in ways of their own; every number is counted by hand."""

import numpy as np
import pytest
from counting import NUMBER, TWO, Pair
from gymnasium import spaces
from mpe2 import simple_v3
from pettingzoo.classic import tictactoe_v3
from pettingzoo.utils.conversions import aec_to_parallel
from pettingzoo.utils.wrappers import OrderEnforcingWrapper, TerminateIllegalWrapper

from rookery.core.errors import EnvError
from rookery.envs.adapters.lane import Breach
from rookery.envs.adapters.pettingzoo_env import AECLane, ParallelLane
from rookery.envs.check import check_env
from rookery.envs.make import make_env

HOW = ("removed", "one step", "stays", "flagged", "respawns")


def waiting(env, how, steps=7, lanes=1, **config):
    """Returns the agents that wait, are paid and have ended after the reset and each step of lane 0, from rows."""
    implementation, _, helpers = how.partition(" ")
    vector = make_env(env, config, (), lanes, implementation, helpers=int(helpers or 0))
    found, shown = [], vector.reset(lambda lane, episode: lane)
    for _ in range(steps + 1):
        (rows,) = shown.rows
        names = np.array(["x", "y"])
        ends = rows.terminated[:2] | rows.truncated[:2]
        acting = "".join(names[rows.waiting[:2]])
        found.append((acting, rows.reward[:2].tolist(), "".join(names[ends]), bool(shown.ended[0])))
        shown = vector.step([np.zeros(int(rows.waiting.sum()), np.int64)])
    vector.close()
    return found


EXPECTED = [
    ("xy", [0, 0], "", False),
    ("xy", [1, 10], "", False),
    ("y", [2, 20], "x", False),
    ("y", [0, 30], "", False),
    ("y", [0, 40], "", False),
    ("y", [0, 50], "", False),
    ("xy", [0, 60], "y", True),  # the next episode begins with the step that ends this one
    ("xy", [1, 10], "", False),
]
RESPAWN = [*EXPECTED[:4], ("xy", [0, 40], "", False), ("xy", [5, 50], "", False), ("xy", [6, 60], "xy", True)]


@pytest.mark.regression(
    "wrong result", "An agent that has ended and stays in `env.agents` of a PettingZoo environment is not asked again"
)
@pytest.mark.parametrize("how", ["serial", "threads 1"])
@pytest.mark.parametrize("after", HOW[:-1])
def test_an_agent_that_has_ended_is_not_asked_again_however_long_it_is_listed(after, how):
    assert waiting(Pair, how, after=after) == EXPECTED


@pytest.mark.regression(
    "wrong result",
    "An agent of a PettingZoo environment that is shown again with both flags false has respawned and acts",
)
def test_an_agent_shown_again_with_both_flags_false_acts_again():
    assert waiting(Pair, "serial", 6, after="respawns") == RESPAWN
    assert waiting(Pair, "threads 1", 6, lanes=2, after="respawns") == RESPAWN


@pytest.mark.slow
@pytest.mark.parametrize("after", HOW)
def test_processes_show_the_same_rows(after):
    shown = waiting(Pair, "processes 1", lanes=2, after=after)
    assert shown == waiting(Pair, "serial", lanes=2, after=after)


@pytest.mark.regression(
    "wrong result",
    "An agent of a PettingZoo environment that is shown again with both flags false has respawned and acts",
)
def test_an_agent_that_left_the_list_and_is_back_without_flags_acts_again():
    class Back(Pair):
        def step(self, actions):
            obs, *rest = super().step(actions)
            if self.t in (4, 5):
                self.agents, self.asked = ["x", "y"], ["x", "y"]
            return obs, *rest

    acting = [row[0] for row in waiting(Back, "serial", 4, after="removed")]
    assert acting == ["xy", "xy", "y", "y", "xy"]


@pytest.mark.regression(
    "wrong result", "An agent that has ended and stays in `env.agents` of a PettingZoo environment is not asked again"
)
def test_an_agent_that_appears_with_a_flag_set_is_not_asked():
    class Late(Pair):
        def step(self, actions):
            obs, rewards, terminations, truncations, infos = super().step(actions)
            self.agents = [*self.agents, "z"]
            return obs, rewards, terminations | {"z": True}, truncations, infos

    assert [row[0] for row in waiting(Late, "serial", 3, after="removed")] == ["xy", "xy", "y", "y"]


def test_what_a_flagged_agent_is_paid_is_shown_and_nothing_waits_for_it():
    rows = waiting(Pair, "serial", 5, after="flagged", paid=7.0)
    assert [row[:2] for row in rows[3:]] == [("y", [7, 30]), ("y", [7, 40]), ("y", [7, 50])]


def test_the_check_says_that_an_ended_agent_is_still_listed_and_when_it_acts_again():
    texts = [finding.text for finding in check_env(Pair, {"after": "respawns"}, (), episodes=2, max_steps=20, seed=0)]
    assert any("still in env.agents after that step; it acts again only after" in text for text in texts), texts
    assert any("must act again although it ended" in text and "remove it from env.agents, or" in text for text in texts)


@pytest.mark.regression(
    "wrong result", "A PettingZoo `ParallelEnv` whose spaces are attributes is recognised as a parallel environment"
)
@pytest.mark.parametrize("form", ["by agent", "one for all", "a Dict space"])
def test_a_parallel_env_may_have_its_spaces_as_attributes(form):
    class Attributes(Pair):
        metadata = {"name": "attributes"}
        if form == "by agent":
            observation_space = action_space = None
            observation_spaces, action_spaces = {"x": NUMBER, "y": NUMBER}, {"x": TWO, "y": TWO}
        elif form == "one for all":
            observation_space, action_space = NUMBER, TWO
        else:
            observation_space = spaces.Dict({"x": NUMBER, "y": NUMBER})
            action_space = spaces.Dict({"x": TWO, "y": TWO})

    assert waiting(Attributes, "serial", after="removed") == EXPECTED


class Doubling(OrderEnforcingWrapper):
    """Pays twice, which is no check."""

    def __getattr__(self, name):
        value = super().__getattr__(name)
        return {agent: 2 * reward for agent, reward in value.items()} if name == "rewards" else value


def test_wrappers_that_only_check_calls_are_passed_by_and_others_are_not():
    wrapped = AECLane(tictactoe_v3.env())
    assert isinstance(wrapped.inner, TerminateIllegalWrapper)
    assert isinstance(wrapped.env, OrderEnforcingWrapper)
    rewards = []
    for make in (tictactoe_v3.raw_env, tictactoe_v3.env, lambda: Doubling(tictactoe_v3.raw_env())):
        lane = AECLane(make())
        shown, earned = lane.reset(seed=3), []
        for action in (0, 3, 1, 4, 2):  # player 1 has a row
            (agent,) = shown.obs
            shown = lane.step({agent: action})
            earned.append(dict(shown.reward))
        rewards.append(earned)
        assert shown.ended
    plain, checked, doubled = rewards
    assert plain == checked and plain[-1] == {"player_1": 1, "player_2": -1}
    assert doubled[-1] == {"player_1": 2, "player_2": -2}


def test_a_conversion_to_a_parallel_environment_loses_its_checks_alone():
    plain = simple_v3.raw_env()
    assert ParallelLane(aec_to_parallel(OrderEnforcingWrapper(plain))).env.aec_env is plain
    assert isinstance(ParallelLane(aec_to_parallel(Doubling(plain))).env.aec_env, Doubling)


@pytest.mark.parametrize("action", [5, -1])
def test_an_action_out_of_range_is_refused_where_the_check_of_pettingzoo_is_passed_by(action):
    message = f"action {action} is not from 0 to 4"
    parallel = make_env(simple_v3.parallel_env, {}, (), 1, "serial")
    aec = make_env(lambda: simple_v3.env(), {}, (), 1, "serial")
    for env in (parallel, aec):
        env.reset(lambda lane, episode: 0)
        with pytest.raises(EnvError, match=message):
            env.step([np.array([action])])
        env.close()


def test_actions_are_checked_where_each_episode_has_parameters():
    lane = ParallelLane(simple_v3.parallel_env())
    lane.without_checks(lane.env)  # as `begin` does with parameters
    with pytest.raises(Breach, match="action 9 is not from 0 to 4"):
        lane.argument({"agent_0": 9})


def test_a_method_that_a_user_has_put_onto_a_wrapper_is_called():
    env, seen = tictactoe_v3.env(), []
    play = env.step
    env.step = lambda action: (seen.append(action), play(action))
    lane = AECLane(env)
    lane.reset(seed=0)
    lane.step({"player_1": 4})
    assert seen == [4]
