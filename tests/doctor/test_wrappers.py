"""The comparison of wrappers with what they wrap: each rule finds its fault, and is silent on a wrapper without it."""

from __future__ import annotations

import time

import gymnasium
import numpy as np
import pytest
from gymnasium import wrappers
from gymnasium.spaces import Box, Discrete

from rookery.doctor.reward_fit import explained
from rookery.doctor.wrappers import audit
from rookery.doctor.wrappers.audit import wrapper_findings
from rookery.doctor.wrappers.record import play_recorded
from rookery.doctor.wrappers.rewards import all_equal


class Walk(gymnasium.Env):
    """A place and a noise; places near 5 pay; episodes end at either end or after 40 steps."""

    observation_space, action_space = Box(-50, 50, (2,), np.float32), Discrete(3)

    def look(self):
        info = {"action_mask": np.array([self.place > 1, True, self.place < 9], np.int8)}
        return np.array([self.place, self.np_random.normal()], np.float32), info

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.time = float(self.np_random.uniform(2, 8)), 0
        return self.look()

    def step(self, action):
        self.place += float(np.sum(action)) - 1.0 + self.np_random.normal(0, 0.3)
        self.time += 1
        obs, info = self.look()
        return obs, 2.0 - abs(self.place - 5.0), not 0 < self.place < 10, self.time >= 40, info


class Cart(Walk):
    """The same with a continuous action."""

    action_space = Box(-2, 2, (1,), np.float32)


class Repeat(gymnasium.Wrapper):
    def step(self, action):
        total = 0.0
        for _ in range(3):
            obs, reward, terminated, truncated, info = self.env.step(action)
            total += reward
            if terminated or truncated:
                break
        return obs, total, terminated, truncated, info


class RepeatBeyond(gymnasium.Wrapper):
    def step(self, action):
        results = [self.env.step(action) for _ in range(3)]
        over = [any(one[place] for one in results) for place in (2, 3)]
        return results[-1][0], sum(one[1] for one in results), *over, results[-1][4]


class Last(Repeat):
    def step(self, action):
        for _ in range(3):
            last = self.env.step(action)
            if last[2] or last[3]:
                break
        return last


class Change(gymnasium.Wrapper):
    """Changes what `step` returns."""

    def step(self, action):
        return self.change(*self.env.step(action))


class Hides(Change):
    def change(self, obs, reward, terminated, truncated, info):
        return obs, reward, False, truncated, info


class AsCut(Change):
    def change(self, obs, reward, terminated, truncated, info):
        return obs, reward, False, terminated or truncated, info


class AsEnd(Change):
    def change(self, obs, reward, terminated, truncated, info):
        return obs, reward, terminated or truncated, False, info


class NoCosts(Change):
    def change(self, obs, reward, terminated, truncated, info):
        return obs, max(reward, 0.0), terminated, truncated, info


class NoLast(Change):
    def change(self, obs, reward, terminated, truncated, info):
        return obs, 0.0 if terminated or truncated else reward, terminated, truncated, info


class Tenth(Change):
    def change(self, obs, reward, terminated, truncated, info):
        return obs, 0.1 * reward, terminated, truncated, info


class Late(gymnasium.Wrapper):
    """Passes on rewards, observations, masks or actions of the step before."""

    what = "reward"

    def reset(self, **given):
        self.last = self.env.reset(**given)
        self.last_reward, self.last_action = 0.0, 1
        return self.last

    def step(self, action):
        action, self.last_action = (self.last_action if self.what == "action" else action), action
        obs, reward, terminated, truncated, info = self.env.step(action)
        (last_obs, last_info), self.last = self.last, (obs, info)
        given, self.last_reward = self.last_reward if self.what == "reward" else reward, reward
        obs, info = last_obs if self.what == "obs" else obs, last_info if self.what == "mask" else info
        return obs, given, terminated, truncated, info


def late(name):
    return type("Late" + name, (Late,), {"what": name})


class View(gymnasium.ObservationWrapper):
    def observation(self, obs):
        return obs / 10


class Scaled(View):
    def observation(self, obs):
        return (obs - obs.min()) / (np.ptp(obs) + 1e-8)


class Unit(View):
    def observation(self, obs):
        return obs / np.linalg.norm(obs)


class Noise(View):
    def observation(self, obs):
        return obs[[1, 1]]


class NoMask(Change):
    def change(self, obs, reward, terminated, truncated, info):
        return obs, reward, terminated, truncated, {}

    def reset(self, **given):
        return self.env.reset(**given)[0], {}


class Inverts(Change):
    def change(self, obs, reward, terminated, truncated, info):
        return obs, reward, terminated, truncated, {"action_mask": 1 - info["action_mask"]}

    def reset(self, **given):
        obs, info = self.env.reset(**given)
        return obs, {"action_mask": 1 - info["action_mask"]}


class Act(gymnasium.ActionWrapper):
    def action(self, action):
        return action


class Ignores(Act):
    def action(self, action):
        return 0 * action


class Merges(Act):
    def action(self, action):
        return min(action, 1)


class Cuts(Act):
    def action(self, action):
        return np.clip(4 * action, -2, 2)


class Rounds(Act):
    def action(self, action):
        return np.round(action)


class SameSeed(gymnasium.Wrapper):
    def reset(self, **given):
        return self.env.reset(seed=7)


class Square(gymnasium.Env):
    """A place in the unit square, in an array of a type."""

    action_space = Discrete(4)
    dtype, space = np.float32, np.float32

    def __init__(self):
        self.observation_space = Box(0, 1, (2,), self.space)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.steps = self.np_random.uniform(0, 1, 2), 0
        return self.place.astype(self.dtype), {}

    def step(self, action):
        self.steps += 1
        self.place = np.clip(self.place + self.np_random.normal(0, 0.2, 2), 0, 1)
        return self.place.astype(self.dtype), 0.1 + float(self.place[0]), False, self.steps >= 20, {}


def square(dtype, space):
    return type(f"Square{np.dtype(dtype).kind}", (Square,), {"dtype": dtype, "space": space})


class Cells(Square):
    """Cells of a grid of 100 are whole numbers on purpose."""

    def __init__(self):
        self.observation_space = Box(0, 100, (2,), np.float32)

    def reset(self, **given):
        self.cell = 100 * super().reset(**given)[0]
        return np.floor(self.cell).astype(np.float32), {}

    def step(self, action):
        _, *rest = super().step(action)
        self.cell = 100 * self.place
        return np.floor(self.cell).astype(np.float32), *rest


class Flags(Square):
    """Flags say where the place is; they are no whole numbers of it."""

    def __init__(self):
        self.observation_space = Box(0, 1, (2,), np.int8)

    def reset(self, **given):
        return (super().reset(**given)[0] > 0.2).astype(np.int8), {}

    def step(self, action):
        obs, *rest = super().step(action)
        return (obs > 0.2).astype(np.int8), *rest


class Rounded(View):
    def observation(self, obs):
        return np.round(obs)


class Zeros(View):
    def observation(self, obs):
        return 0 * obs


class Signs(gymnasium.RewardWrapper):
    def reward(self, reward):
        return float(np.sign(reward))


FAULTS = [
    (Walk, RepeatBeyond, ["steps-after-end"]),
    (Walk, Last, ["rewards-lost"]),
    (Walk, Hides, ["ends-changed", "steps-after-end"]),
    (Walk, AsCut, ["ends-changed"]),
    (Walk, AsEnd, ["ends-changed"]),
    (Walk, NoCosts, ["rewards-lost"]),
    (Walk, NoLast, ["rewards-lost"]),
    (Walk, late("reward"), ["rewards-lost"]),
    (Walk, late("obs"), ["obs-late"]),
    (Walk, late("mask"), ["mask-changed"]),
    (Walk, late("action"), ["actions-changed"]),
    (Cart, late("action"), ["actions-changed"]),
    (Walk, Scaled, ["obs-merged"]),
    (Walk, Unit, ["obs-merged"]),
    (Walk, Noise, ["obs-merged"]),
    (Walk, NoMask, ["mask-changed"]),
    (Walk, Inverts, ["mask-changed"]),
    (Cart, Ignores, ["actions-changed"]),
    (Walk, Merges, ["actions-changed"]),
    (Cart, Cuts, ["actions-changed"]),
    (Cart, Rounds, ["actions-changed"]),
    (Walk, SameSeed, ["starts-alike"]),
]

FAULTLESS = [
    (Walk, Repeat),
    (Walk, Tenth),
    (Walk, View),
    (Cart, Act),
    (Cart, wrappers.ClipAction),
    (Cart, lambda env: wrappers.RescaleAction(env, -1.0, 1.0)),
    (Walk, wrappers.NormalizeObservation),
    (Walk, wrappers.NormalizeReward),
    (Walk, wrappers.RecordEpisodeStatistics),
    (Walk, wrappers.TimeAwareObservation),
    (Walk, lambda env: wrappers.TimeLimit(env, 10)),
    (Walk, lambda env: wrappers.FrameStackObservation(env, 3)),
    (Walk, lambda env: wrappers.TransformReward(env, lambda reward: -reward)),
]


@pytest.mark.parametrize(("env", "wrapper", "rules"), FAULTS, ids=lambda one: getattr(one, "__name__", ""))
def test_a_fault_of_a_wrapper_is_found_and_named(env, wrapper, rules):
    found = wrapper_findings(lambda: wrapper(env()), time.monotonic() + 20.0)
    assert {one.rule for one in found if one.counts} == set(rules)
    assert all(wrapper.__name__ in one.message for one in found)


@pytest.mark.parametrize(("env", "wrapper"), FAULTLESS, ids=lambda one: getattr(one, "__name__", ""))
def test_wrappers_without_a_fault_have_no_finding(env, wrapper):
    assert wrapper_findings(lambda: wrapper(env()), time.monotonic() + 20.0) == []


def test_the_wrapper_at_fault_is_named_among_others():
    (found,) = wrapper_findings(lambda: View(Tenth(Last(Act(Walk())))), time.monotonic() + 20.0)
    assert found.rule == "rewards-lost" and "Last" in found.message and "last reward" in found.message


class Pair:
    """Two agents, each paid for its own action."""

    possible_agents = agents = ("one", "two")

    def __init__(self):
        self.observation_spaces = dict.fromkeys(self.agents, Box(0, 1, (1,), np.float32))
        self.action_spaces = {agent: Discrete(3) for agent in self.agents}

    def reset(self, seed=None, options=None):
        self.time = 0
        return {agent: np.zeros(1, np.float32) for agent in self.agents}, {agent: {} for agent in self.agents}

    def step(self, actions):
        self.time += 1
        over = dict.fromkeys((*self.agents, "__all__"), self.time >= 10)
        obs, infos = self.reset_view()
        return obs, {agent: float(action) for agent, action in actions.items()}, over, dict.fromkeys(over, False), infos

    def reset_view(self):
        return {agent: np.full(1, self.time / 10, np.float32) for agent in self.agents}, {}


class Exchanges:
    def __init__(self, env):
        self.env, self.possible_agents, self.action_spaces = env, env.possible_agents, env.action_spaces

    def reset(self, **given):
        return self.env.reset(**given)

    def step(self, actions):
        obs, reward, *rest = self.env.step(actions)
        return obs, dict(zip(reward, reversed(list(reward.values())), strict=True)), *rest


def test_rewards_that_a_wrapper_gives_to_other_agents_are_found():
    (found,) = wrapper_findings(lambda: Exchanges(Pair()), time.monotonic() + 10.0)
    assert found.rule == "rewards-swapped" and "one gets that of two" in found.message


def test_calls_are_recorded_level_by_level():
    recorder = play_recorded(lambda: Repeat(Walk()), lambda obs, info: 1, time.monotonic() + 10.0, 2)
    assert recorder.names == ["Repeat", "Walk"]
    outer, inner = recorder.levels
    steps = [call for call in outer if not call.is_reset]
    assert sum(call.is_reset for call in outer) == sum(call.is_reset for call in inner) == 2
    assert sum(len(call.steps_below) for call in steps) == len(inner) - 2
    assert [call.reward["agent"] for call in steps] == [
        sum(one.reward["agent"] for one in call.steps_below) for call in steps
    ]


def test_an_environment_that_raises_has_no_finding_here_and_a_fault_of_a_rule_is_raised(monkeypatch):
    class Raises(gymnasium.Wrapper):
        def step(self, action):
            raise KeyError("of the environment")

    assert wrapper_findings(lambda: Raises(Walk()), time.monotonic() + 5.0) == []
    assert wrapper_findings(lambda: 1 / 0, time.monotonic() + 5.0) == []
    monkeypatch.setattr(audit, "seed_kept", lambda recorder: {}["a fault of a rule"])
    with pytest.raises(KeyError, match="a fault of a rule"):
        wrapper_findings(lambda: View(Walk()), time.monotonic() + 5.0)


def test_a_wrapper_may_catch_what_the_level_below_raises():
    class Fragile(Walk):
        def step(self, action):
            if self.time == 5:
                raise ValueError("of the environment")
            return super().step(action)

    class Catches(gymnasium.Wrapper):
        def step(self, action):
            try:
                return self.env.step(action)
            except ValueError:
                return self.env.look()[0], 0.0, True, False, {}

    recorder = play_recorded(lambda: Catches(Fragile()), None, time.monotonic() + 10.0, 2)
    assert sum(call.over for call in recorder.levels[0]) == 2


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (square(int, int), "place[0] become 2"),
        (square(np.float32, int), "fractions are cut off"),
        (lambda: Rounded(Square()), "Rounded makes whole numbers"),
        (lambda: Act(square(np.int8, np.int8)()), "place[0] become 2"),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_whole_numbers_in_place_of_fractions_are_found(make, words):
    (found,) = [one for one in wrapper_findings(make, time.monotonic() + 10.0) if one.rule == "obs-rounded"]
    assert found.severity == "warning" and words in f"{found.message} {found.evidence}"


@pytest.mark.parametrize("make", [Square, Cells, Flags, lambda: View(Square()), Walk, lambda: Zeros(Square())])
@pytest.mark.filterwarnings("ignore")
def test_whole_numbers_on_purpose_are_no_finding(make):
    assert not [one for one in wrapper_findings(make, time.monotonic() + 10.0) if one.rule == "obs-rounded"]


@pytest.mark.parametrize(
    ("env", "wrapper", "severity"),
    [(Square, Signs, "warning"), (lambda: gymnasium.make("CartPole-v1"), Signs, None), (Square, Tenth, None)],
)
def test_a_wrapper_that_makes_all_rewards_equal_is_named(env, wrapper, severity):
    chance = play_recorded(lambda: wrapper(env()), None, time.monotonic() + 10.0)
    found = all_equal(chance)
    assert [one.severity for one in found] == [severity] * (severity is not None)
    assert all("all rewards become 1 in Signs" in one.message for one in found)


def test_rewards_that_are_equal_where_episodes_end_are_a_note():
    class Ends(Square):
        def step(self, action):
            obs, reward, _, truncated, info = super().step(action)
            return obs, reward, self.np_random.uniform() < 0.1, truncated, info

    (found,) = all_equal(play_recorded(lambda: Signs(Ends()), None, time.monotonic() + 10.0))
    assert found.severity == "note" and "only the length of episodes" in found.message


def test_an_episode_without_end_is_no_fault_of_a_wrapper():
    class Endless(Walk):
        def step(self, action):
            obs, reward, *_, info = super().step(action)
            return obs, reward, False, False, info

    assert wrapper_findings(lambda: View(Endless()), time.monotonic() + 20.0) == []


def test_a_step_in_reset_is_no_step_after_the_end():
    class Settles(Walk):
        def reset(self, **given):
            super().reset(**given)
            return self.step(1)[0], {"action_mask": np.ones(3, np.int8)}

    assert not [one for one in wrapper_findings(lambda: View(Settles()), time.monotonic() + 20.0) if one.counts]


def test_an_observation_that_is_constant_but_for_rounding_explains_nothing():
    rows = np.random.default_rng(0).normal(size=(600, 2)) * [1.0, 1e-13] + [0.0, 300.0]
    share = explained(rows, rows[:, 0] ** 2, np.arange(600) // 20)
    assert share is not None and share > 0.9
