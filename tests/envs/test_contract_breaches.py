"""Environments that break their contract: each breach is named, with where, to whom and what was expected."""

import re
import traceback

import gymnasium
import numpy as np
import pytest
from counting import NUMBER, TWO, ComingAndGoing, Counting, CountingAEC, CountingParallel, WalkTogether
from gymnasium import spaces

from rookery.core.errors import EnvError
from rookery.envs.make import make_env
from rookery.envs.vector.layout import Layout


def play(env, steps, lanes, config):
    vector = make_env(env, config, (), lanes, "serial")
    shown = vector.reset(lambda lane, episode: 100 + 10 * lane + episode)
    for _ in range(steps):
        counts = [int(rows.waiting.sum()) for rows in shown.rows]
        ones = [np.ones((n, *kind.action.space.shape), int) for n, kind in zip(counts, vector.kinds, strict=True)]
        shown = vector.step(ones)


def error(env, steps=20, lanes=2, **config):
    """The EnvError that playing action 1 raises."""
    with pytest.raises(EnvError) as caught:
        play(env, steps, lanes, config)
    return caught.value


def breach(env, **config):
    return str(error(env, **config))


def returning(**changes):
    """A Counting env whose third step returns something else in the place of obs, reward, ..."""

    class Changed(Counting):
        def step(self, action):
            result = dict(zip(("obs", "reward", "terminated", "truncated", "info"), super().step(action), strict=True))
            return tuple((result | changes if self.t == 3 else result).values())

    return Changed


def test_an_exception_at_step_137_says_lane_seed_episode_step_agent_and_action():
    class Fragile(Counting):
        def step(self, action):
            result = super().step(action)
            return result if self.t < 137 else (result[0], 1 / 0, False, False, {})

    message = breach(Fragile, steps=200)
    assert message == (
        "Fragile: environment 0, seed 100, episode 0, step 137, agent 'agent', action 1: "
        "raised ZeroDivisionError: division by zero"
    )


def test_the_environments_own_traceback_is_beneath_the_error_and_begins_in_its_own_code():
    class Fragile(Counting):
        def step(self, action):
            raise KeyError("lever")

    cause = error(Fragile).__cause__
    assert isinstance(cause, KeyError)
    frames = traceback.extract_tb(cause.__traceback__)
    assert [(frame.name, frame.filename) for frame in frames] == [("step", __file__)]


def test_an_exception_in_a_later_episode_says_which():
    class Fragile(Counting):
        def reset(self, *, seed=None, options=None):
            if seed == 112:
                raise OSError("no such map")
            return super().reset(seed=seed)

    message = breach(Fragile, terminate_at=4)
    assert message == "Fragile: environment 1, seed 112, episode 2, step 0, agent 'agent': raised OSError: no such map"


def test_an_exception_of_a_multi_agent_env_lists_the_actions():
    class Fragile(CountingParallel):
        def step(self, actions):
            return super().step(actions) if self.t < 2 else 1 / 0

    message = breach(Fragile)
    assert message == (
        "Fragile: environment 0, seed 100, episode 0, step 3, actions {y: 1}: "
        "raised ZeroDivisionError: division by zero"
    )
    frames = traceback.extract_tb(error(Fragile).__cause__.__traceback__)
    assert frames[0].filename == __file__


def test_an_aec_env_that_raises_says_who_was_on_turn():
    class Fragile(CountingAEC):
        def step(self, action):
            super().step(action)
            if self.turn == 3:
                raise RuntimeError("boom")

    assert (
        breach(Fragile)
        == "Fragile: environment 0, seed 100, episode 0, step 3, actions {c: 1}: raised RuntimeError: boom"
    )


def test_a_reset_that_returns_only_an_observation_is_the_old_gym_api():
    class Old(Counting):
        def reset(self, *, seed=None, options=None):
            return super().reset(seed=seed)[0]

    message = breach(Old)
    assert "reset() returned ndarray of shape (1,), expected (obs, info)" in message
    assert "use Gymnasium's" in message and "shimmy" in message


def test_an_old_reset_whose_observation_has_two_numbers_is_not_taken_for_a_pair():
    class Old(Counting):
        def reset(self, *, seed=None, options=None):
            self.t = 0
            return np.zeros(2)

    assert "reset() returned ndarray of shape (2,), expected (obs, info)" in breach(Old)


def test_a_reset_without_a_seed_is_the_old_gym_api():
    class Old(gymnasium.Env):
        observation_space, action_space = NUMBER, TWO

        def reset(self):
            return np.zeros(1)

    message = breach(Old)
    assert "reset() takes no seed, expected reset(seed=, options=)" in message
    assert "shimmy" in message


def test_a_reset_without_a_seed_is_named_in_an_env_of_several_agents():
    class Old:
        possible_agents = ["a", "b"]
        observation_spaces, action_spaces = dict.fromkeys("ab", NUMBER), dict.fromkeys("ab", TWO)

        def reset(self):
            return dict.fromkeys("ab", np.zeros(1))

        def step(self, actions):
            raise AssertionError

    assert "reset() takes no seed, expected reset(seed=, options=) -> (obs, infos), and five" in breach(Old)


def test_a_step_of_four_values_is_the_old_gym_api():
    class Old(Counting):
        def step(self, action):
            obs, reward, terminated, _, info = super().step(action)
            return obs, reward, terminated, info

    message = breach(Old)
    assert message.startswith(
        "Old: environment 0, seed 100, episode 0, step 1, agent 'agent', action 1: step() returned 4 "
    )
    assert "expected five: (obs, reward, terminated, truncated, info)" in message
    assert "use Gymnasium's" in message and "shimmy" in message


def test_spaces_of_another_library_are_named():
    class Old:
        observation_space, action_space = object(), TWO

        def reset(self):
            return np.zeros(1)

        def step(self, action):
            return np.zeros(1), 0.0, False, {}

    assert "observation_space is object, expected a gymnasium.spaces.Space" in breach(Old)


WHERE = "Changed: environment 0, seed 100, episode 0, step 3, agent 'agent', action 1: "


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"obs": np.array([np.nan], np.float32)}, "obs: non-finite observation nan (expected finite numbers)"),
        ({"obs": np.array([-np.inf])}, "obs: non-finite observation -inf (expected finite numbers)"),
        ({"obs": np.zeros(2, np.float32)}, "obs: shape (2,) where the space says (1,)"),
        ({"obs": np.zeros((1, 1), np.float32)}, "obs: shape (1, 1) where the space says (1,)"),
        ({"obs": 3.0}, "obs: shape () where the space says (1,)"),
        ({"obs": np.array(["high"])}, "obs: dtype <U4 where the space gives box (float32)"),
        ({"obs": np.array([3 + 1j])}, "obs: dtype complex128 where the space gives box (float32)"),
        ({"obs": None}, "obs: shape () where the space says (1,)"),
        ({"reward": np.nan}, "non-finite reward nan, expected a finite number"),
        ({"reward": -np.inf}, "non-finite reward -inf, expected a finite number"),
        ({"reward": None}, "reward is None, expected a finite number"),
        ({"reward": "much"}, "reward is 'much', expected a finite number"),
        ({"reward": np.zeros(2)}, "reward is array([0., 0.]), expected a finite number"),
        ({"reward": np.nan, "terminated": True}, "non-finite reward nan, expected a finite number"),
        (
            {"obs": np.array([np.inf], np.float32), "truncated": True},
            "obs: non-finite observation inf (expected finite numbers), in the last observation before a truncation",
        ),
    ],
)
def test_a_wrong_observation_or_reward_is_named(changes, problem):
    assert breach(returning(**changes)) == WHERE + problem


def test_the_lane_that_sent_nan_is_found():
    class Spoilt(Counting):
        def step(self, action):
            obs, *rest = super().step(action)
            return (obs * np.nan if self.t == 2 and self.seeds[-1] == 110 else obs), *rest

    assert breach(Spoilt).startswith(
        "Spoilt: environment 1, seed 110, episode 0, step 2, agent 'agent', action 1: obs: non-f"
    )


def test_a_first_observation_that_is_not_finite_is_at_step_0_of_the_new_episode():
    class Spoilt(Counting):
        def reset(self, *, seed=None, options=None):
            obs, info = super().reset(seed=seed)
            return obs + (np.inf if seed == 101 else 0), info

    message = breach(Spoilt, terminate_at=5)
    assert message == (
        "Spoilt: environment 0, seed 101, episode 1, step 0, agent 'agent': "
        "obs: non-finite observation inf (expected finite numbers)"
    )


def test_the_last_observation_of_a_terminated_episode_may_be_nan_because_nobody_uses_it():
    env = make_env(returning(obs=np.array([np.nan], np.float32), terminated=True), {}, (), 1, "serial")
    env.reset(lambda lane, episode: 0)
    for _ in range(3):
        shown = env.step([np.zeros(1, int)])
    assert shown.rows[0].terminated.tolist() == [True]


@pytest.mark.parametrize(
    ("space", "obs", "problem"),
    [
        (spaces.Discrete(3, start=2), 5, "obs: category 5 is outside the space (expected 2 to 4)"),
        (spaces.Discrete(3, start=2), 1, "obs: category 1 is outside the space (expected 2 to 4)"),
        (spaces.Discrete(3), 1.5, "obs: dtype float64 where the space gives discrete (int64)"),
        (spaces.MultiDiscrete([2, 3]), [1, 3], "obs: category 3 is outside the space (expected below [2, 3])"),
        (spaces.MultiBinary(2), np.array([0, 7]), "obs: flag 7 (expected 0 or 1)"),
        (
            spaces.Box(0, 255, (2, 2, 3), np.uint8),
            np.zeros((2, 2, 3), np.float32),
            "obs: dtype float32 where the space",
        ),
        (spaces.Dict(a=NUMBER, b=NUMBER), {"a": np.zeros(1)}, "b: missing from the observation"),
        (spaces.Tuple([NUMBER, NUMBER]), (np.zeros(1),), "1: missing from the observation"),
        (
            spaces.Dict(a=NUMBER, action_mask=spaces.MultiBinary(2)),
            {"a": np.zeros(1), "action_mask": np.zeros(2, np.int8)},
            "action_mask: no action is allowed (expected at least one)",
        ),
    ],
)
def test_observations_outside_their_space_are_named(space, obs, problem):
    class Outside(Counting):
        def __init__(self):
            super().__init__()
            self.observation_space = space

        def reset(self, *, seed=None, options=None):
            return obs, {}

    assert problem in breach(Outside)


def test_spaces_that_cannot_be_used_are_named():
    class Words(Counting):
        def __init__(self, words=True):
            super().__init__()
            if words:
                self.observation_space = spaces.Text(9)
            else:
                self.action_space = spaces.Text(9)

    assert "step 0, agent 'agent': no part of the observation space Text" in breach(Words)
    assert "use Discrete, MultiDiscrete, MultiBinary or Box, or Dict and Tuple of these" in breach(Words, words=False)


NUMBERS = spaces.Box(-1.0, 1.0, (2,), np.float32)
MASK_OF_NUMBERS = (
    "action_mask: actions of Box(-1.0, 1.0, (2,), float32) have no choices that a mask could allow; leave it out, or "
    "give that entry of info another name than action_mask"
)


class MaskedNumbers(Counting):
    """Gives a mask with actions that are numbers."""

    mask = np.ones(2, np.int8)

    def __init__(self, truncate_at=3):
        super().__init__(truncate_at=truncate_at)
        self.action_space = NUMBERS

    def reset(self, **kwargs):
        return super().reset(**kwargs)[0], {"action_mask": self.mask}


def test_a_mask_in_the_info_of_actions_without_choices_is_named():
    assert (
        breach(MaskedNumbers)
        == f"MaskedNumbers: environment 0, seed 100, episode 0, step 0, agent 'agent': {MASK_OF_NUMBERS}"
    )


@pytest.mark.parametrize("turns", [False, True])
def test_a_mask_in_the_infos_is_named_where_only_some_agents_have_choices(turns):
    class Mixed:
        possible_agents = ["a", "b"]
        observation_spaces = dict.fromkeys("ab", NUMBER)
        action_spaces = {"a": TWO, "b": NUMBERS}

        def reset(self, *, seed=None, options=None):
            obs = {agent: np.zeros(1) for agent in ("a" if turns else "ab")}
            return obs, {agent: {"action_mask": np.ones(2, np.int8)} for agent in "ab"}

        def step(self, actions):
            raise AssertionError

    assert breach(Mixed).endswith(f"episode 0, step 0, agent 'b': {MASK_OF_NUMBERS}")


def test_masks_of_actions_without_choices_are_looked_for_at_the_first_reset_alone(monkeypatch):
    looked_at, check = [], Layout.check_masks
    monkeypatch.setattr(Layout, "check_masks", lambda self, shown: looked_at.append(shown) or check(self, shown))
    monkeypatch.setattr(MaskedNumbers, "mask", None)
    play(MaskedNumbers, 20, 2, {})  # six episodes end in each lane
    assert [shown.obs for shown in looked_at] == [{}, {"agent": [0]}, {"agent": [0]}]  # the first is when it is built


def story(**changes):
    """A ComingAndGoing env whose second step returns something else."""

    class Changed(ComingAndGoing):
        def step(self, actions):
            names = ("obs", "rewards", "terminateds", "truncateds", "infos")
            result = dict(zip(names, super().step(actions), strict=True))
            if self.t == 2:
                result |= changes
            return tuple(result.values())

    return Changed


FLAGS = {"__all__": False}


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"terminateds": {}}, ', actions {b: 1}: terminateds has no "__all__", expected it to hold whether'),
        ({"rewards": [1]}, ", actions {b: 1}: step() returned rewards as list, expected a dict by agent"),
        (
            {"obs": {"d": np.zeros(1)}},
            ", agent 'd': no observation space is known for this agent (known agents: a, b, c)",
        ),
        ({"rewards": {"b": None}}, ", agent 'b', action 1: reward is None, expected a finite number"),
        ({"rewards": {"a": np.nan}}, ", agent 'a': non-finite reward nan, expected a finite number"),
        ({"obs": {"a": np.full(1, np.nan)}}, ", agent 'a': obs: non-finite observation nan (expected finite numbers)"),
        ({"obs": {"b": np.zeros(3)}}, ", agent 'b', action 1: obs: shape (3,) where the space says (1,)"),
        (
            {"truncateds": {"b": True}, "obs": {"b": np.full(1, np.inf)}},
            ", agent 'b', action 1: obs: non-finite observation inf (expected finite numbers), in the last observation",
        ),
    ],
)
def test_breaches_of_dict_envs_name_the_agent(changes, problem):
    message = breach(story(**changes))
    assert message.startswith("Changed: environment 0, seed 100, episode 0, step 2" + problem)


def test_a_dict_env_with_four_returns_or_a_bare_observation_is_the_old_api():
    class Four(ComingAndGoing):
        def step(self, actions):
            return super().step(actions)[:4]

    class Bare(ComingAndGoing):
        def reset(self, *, seed=None, options=None):
            return super().reset()[0]

    assert "step() returned 4 values, expected five dicts by agent" in breach(Four)
    assert "reset() returned dict, expected (observations, infos)" in breach(Bare)
    assert "shimmy" in breach(Bare)


def test_a_bad_reward_beside_an_agent_nobody_announced_is_named():
    class Unpaid(WalkTogether):
        def step(self, actions):
            obs, _, *ends = super().step(actions)
            return obs, {0: float("nan")}, *ends

    assert "environment 0, seed 100, episode 0, step 1, agent '0', action [1]: non-finite reward nan" in breach(Unpaid)


def test_an_agent_that_acted_and_got_no_reward_got_0():
    env = make_env(story(rewards={}), {}, (), 1, "serial")
    env.reset(lambda lane, episode: 0)
    env.step([np.zeros(1, int), np.zeros(0, int)])
    assert env.step([np.zeros(1, int), np.zeros(0, int)]).rows[0].reward.tolist() == [0, 0]


def test_a_dict_env_that_forgets_to_end_is_found_out():
    class Endless(ComingAndGoing):
        def step(self, actions):
            return {}, {}, {"a": True, "__all__": False}, FLAGS, {}

    message = breach(Endless, steps=10_001, lanes=1)
    assert "step 10000, actions {}: no agent had to act for 10000 steps, expected the episode to end" in message


def test_a_parallel_agent_that_vanishes_is_named():
    class Vanishing(CountingParallel):
        def step(self, actions):
            result = super().step(actions)
            self.agents = ["y"]
            return result

    assert breach(Vanishing) == (
        "Vanishing: environment 0, seed 100, episode 0, step 1, agent 'x', action 1: "
        "left env.agents, expected it to be terminated or truncated with that step"
    )


def test_a_parallel_agent_without_an_observation_is_named():
    class Blind(CountingParallel):
        def step(self, actions):
            obs, *rest = super().step(actions)
            return {a: o for a, o in obs.items() if a != "y"}, *rest

    assert "step 1, agent 'y', action 1: no observation for this agent, expected one because" in breach(Blind)


def test_a_pettingzoo_agent_without_spaces_is_named():
    class Stranger(CountingParallel):
        def reset(self, seed=None, options=None):
            obs, infos = super().reset(seed)
            self.agents = [*self.agents, "z"]
            return obs | {"z": np.zeros(1)}, infos

    assert "agent 'z': no spaces are known for this agent (possible_agents: x, y)" in breach(Stranger)


def test_an_aec_env_that_does_not_remove_its_dead_is_named():
    class Undead(CountingAEC):
        def step(self, action):
            if action is not None:
                super().step(action)

    assert re.search(r"step 4, agent 'b': step\(None\) left the ended agent in env.agents", breach(Undead))


def test_an_aec_env_whose_turn_is_nobodys_is_named():
    class Lost(CountingAEC):
        def step(self, action):
            super().step(action)
            self.agent_selection = "q"

    assert "agent 'q': env.agent_selection is 'q', expected one of env.agents: ['a', 'b', 'c']" in breach(Lost)
