"""Rules about masks, wrappers, target entropies and ends: each finds its fault, and is silent without it."""

from __future__ import annotations

import math
import time
from contextlib import closing

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from rookery.core.spaces.arrays import action_spec
from rookery.doctor.effects import Effects
from rookery.doctor.env_play import play_env
from rookery.doctor.inside.attributes import left_behind, with_attributes
from rookery.doctor.inside.entropy_range import largest_entropy, target_entropy_unreachable
from rookery.doctor.inside.masks import MaskTrials, mask_findings, mask_inverted, naming_masks
from rookery.doctor.play_rules import Seen, obs_unnormalized
from rookery.doctor.probe import PlayMeasurements
from rookery.doctor.returns.comparisons import compare_with_random, is_best, no_better_than_constant
from rookery.doctor.returns.episode_returns import EpisodeReturns
from rookery.doctor.returns.plays import Plays
from rookery.doctor.returns.waiting import waiting_pays
from rookery.doctor.wrappers.audit import wrapper_findings
from rookery.doctor.wrappers.rewards import RewardPairs, changed_order, merged_rewards, reward_findings
from rookery.envs.make import make_env
from rookery.run.findings.catalog import finding
from rookery.run.findings.history import History
from rookery.run.findings.window import Window


def history(settings, alphas=(1.0, 2.0)):
    window = Window()
    for n, alpha in enumerate(alphas, 1):
        row = {"iteration": n, "env_steps": n, "episodes": n, "return_mean": 1.0, "return_min": 1.0, "return_max": 1.0,
               "length_mean": 1.0, "running_length": 1.0, "policies/main/alpha": alpha}  # fmt: skip
        window.add_row(row)
    return History(window, settings)


NUMBERS, CHOICES = action_spec(Box(-1, 1, (3,), np.float32)), action_spec(Discrete(4))


@pytest.mark.parametrize(
    ("action", "settings", "severity"),
    [
        (NUMBERS, {"target_entropy": 3.0}, "error"),
        (NUMBERS, {"target_entropy": 2.0}, "warning"),
        (NUMBERS, {"target_entropy": -3.0}, None),
        (NUMBERS, {"target_entropy": None}, None),
        (NUMBERS, {"target_entropy": 3.0, "alpha": 0.2}, None),  # it does not adapt
        (CHOICES, {"target_entropy": 1.5}, "error"),
        (CHOICES, {"entropy_share": 1.0}, "warning"),
        (CHOICES, {"entropy_share": 0.98}, None),
    ],
)
def test_a_target_entropy_that_actions_cannot_have_is_found(action, settings, severity):
    run = history({f"algorithm.{name}": value for name, value in settings.items()})
    found = target_entropy_unreachable(run, {"main": action})
    assert [one.severity for one in found] == [severity] * (severity is not None)
    assert largest_entropy(NUMBERS) == pytest.approx(3 * math.log(2))
    assert largest_entropy(CHOICES) == pytest.approx(math.log(4))


class Desk(gymnasium.Env):
    """Two of four tasks are open and pay; the mask allows these, or the others."""

    def __init__(self, inverted=False, penalty=1.0, length=20):
        self.inverted, self.penalty, self.length = inverted, penalty, length
        self.observation_space, self.action_space = Box(0, 1, (4,), np.float32), Discrete(4)

    def look(self):
        self.open = self.np_random.permutation([True, True, False, False])
        info = {"action_mask": (~self.open if self.inverted else self.open).astype(np.int8)}
        return self.open.astype(np.float32), info

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return self.look()

    def step(self, action):
        reward, self.time = (1.0 if self.open[action] else -self.penalty), self.time + 1
        obs, info = self.look()
        return obs, reward, False, self.time >= self.length, info


@pytest.mark.parametrize("inverted", [True, False])
def test_an_inverted_mask_is_found_and_actions_without_effect_name_it(inverted):
    def make(lanes):
        return make_env(Desk, {"inverted": inverted}, (), lanes, "serial")

    played = play_env(make, 0.8, 50)
    found = mask_findings(make, played.random.kinds, played.effects, time.monotonic() + 5.0)
    assert [one.rule for one in found] == ["mask-inverted"] * inverted
    before = played.findings()
    assert "actions-without-effect" in [one.rule for one in before]  # allowed actions alone: all pay the same
    after = naming_masks([*before, *found], played.random.kinds)
    left = [one for one in after if one.rule == "actions-without-effect"]
    assert [(one.severity, "the mask allows" in one.message) for one in left] == [("warning", True)] * (not inverted)


@pytest.mark.parametrize("inverted", [True, False])
def test_an_inverted_mask_is_found_in_short_episodes(inverted):
    def make(lanes):
        return make_env(Desk, {"inverted": inverted, "length": 3}, (), lanes, "serial")

    with closing(make(1)) as env:
        kinds = env.kinds
    found = mask_findings(make, kinds, [], time.monotonic() + 10.0)
    assert [one.rule for one in found] == ["mask-inverted"] * inverted


def trials(allowed, forbidden, moving=False):
    made = MaskTrials("agent")
    for _ in range(30):
        made.allowed.append(np.array(allowed, float))
        made.forbidden.append(np.array(forbidden, float))
        made.moving.append(moving)
    return made


@pytest.mark.parametrize(
    ("made", "is_idle", "is_found"),
    [
        (trials([-1, -1], [0.5, 1]), False, True),
        (trials([0, 0], [0], moving=True), True, True),
        (trials([0, 0], [0], moving=True), False, False),
        (trials([0, 0], [-1]), True, False),  # a penalty
        (trials([0, 1], [0.5, 1.5]), False, False),  # no better than the best allowed one on average
    ],
)
def test_masks_are_judged_by_rewards_and_effects(made, is_idle, is_found):
    assert bool(mask_inverted(made, is_idle)) == is_found


def pairs(name, raw, passed):
    return RewardPairs(name, [list(raw)] * 10, [list(passed)] * 10)


def test_rewards_that_become_equal_are_found_and_their_consequence_decides():
    coins, treasure = pairs("random play", [0.1] * 9, [1.0] * 9), pairs("the policy", [0.0, 10.0], [0.0, 1.0])
    assert merged_rewards([coins, treasure]) == (0.1, 10.0, 1.0)
    (found,) = reward_findings([coins, treasure], ["Sign"])
    assert (found.rule, found.severity) == ("rewards-merged", "warning") and "Sign" in found.message
    few = pairs("random play", [0.1, 0.0], [1.0, 0.0])
    (note,) = reward_findings([few, pairs("the policy", [10.0, 10.0], [1.0, 1.0])], ["Sign"])
    assert note.severity == "note"
    halved = [pairs("random play", [2.0, 4.0], [1.0, 2.0]), pairs("the policy", [8.0], [4.0])]
    assert merged_rewards(halved) is None and not changed_order(halved) and not reward_findings(halved, ["Half"])


def test_an_order_of_behaviours_that_wrappers_change_is_found():
    plays = [pairs("random play", [1.0, 1.0], [3.0, 4.0]), pairs("the policy", [4.0, 3.0], [1.0, 2.0])]
    assert [one.rule for one in reward_findings(plays, ["Bonus"])] == ["rewards-reordered"]


class Hall(gymnasium.Env):
    """Coins of 0.1 at one end, again and again, a treasure of 10 at the other, once."""

    observation_space, action_space = Box(0, 4, (1,), np.float32), Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.time = 2, 0
        return np.array([2], np.float32), {}

    def step(self, action):
        self.place, self.time = max(self.place + int(action) - 1, 0), self.time + 1
        reward = 10.0 if self.place == 4 else 0.1 * (self.place == 0)
        return np.array([self.place], np.float32), reward, self.place == 4, self.time >= 30, {}


class Constant:
    """Stands in for a policy."""

    memory_size = 0

    class obs_spec:  # noqa: N801
        has_mask = False

    class model:  # noqa: N801
        remembers = False

    def predict(self, obs, action_mask=None):
        return 0


@pytest.mark.parametrize("is_sign", [True, False])
def test_a_wrapper_that_takes_the_sign_of_rewards_is_found(is_sign):
    change = np.sign if is_sign else (lambda reward: 2.0 * reward)
    found = wrapper_findings(
        lambda: gymnasium.wrappers.TransformReward(Hall(), lambda reward: float(change(reward))),
        time.monotonic() + 5.0,
        Constant(),
    )
    assert [(one.rule, one.severity) for one in found] == [("rewards-merged", "warning")] * is_sign
    for make in (lambda: gymnasium.wrappers.NormalizeReward(Hall()), Hall, None):  # Hall has no wrappers
        assert not wrapper_findings(make, time.monotonic() + 5.0, Constant())


def episodes(*lists, terminated=True):
    rewards = [np.array(one, float) for one in lists] * (16 // len(lists))
    return EpisodeReturns(
        tuple(float(one.sum()) for one in rewards),
        lengths=tuple(map(len, rewards)),
        rewards=tuple(rewards),
        terminated=(terminated,) * len(rewards),
    )


WAIT, DOCK, FALL = [0.5, 1.0] * 10, [0.5, 1.0, 2.0], [1.0] * 5


@pytest.mark.parametrize(
    ("own", "chance", "constant", "severity"),
    [
        (episodes(WAIT, terminated=False), episodes(WAIT, terminated=False), episodes(DOCK), "warning"),
        (episodes(DOCK), episodes(WAIT, terminated=False), episodes(DOCK), "note"),
        (episodes([1.0] * 50, terminated=False), episodes(FALL), episodes(FALL), None),  # a fall has no bonus
        (episodes([1.0] * 50, terminated=False), episodes([1.0, 1.0, 100.0]), episodes(FALL), None),  # it pays
        (episodes([-1.0] * 20, terminated=False), episodes([-1.0] * 20, terminated=False), episodes(DOCK), None),
    ],
)
def test_rewards_that_make_waiting_pay_are_found(own, chance, constant, severity):
    found = waiting_pays(Plays(own, chance, None, [("action 1", constant)]))
    assert [one.severity for one in found] == [severity] * (severity is not None)


def test_a_difference_within_the_noise_is_called_so():
    own, chance = EpisodeReturns((1.0, 5.0) * 8), EpisodeReturns((5.0, 0.0) * 8)
    (found,) = compare_with_random(Plays(own, chance), None, False)
    assert "no better than random play: 3 and 2.5, a difference within the noise" in found.message


def test_a_policy_at_the_best_return_has_no_note_on_constant_actions():
    own, chance, best = (EpisodeReturns((value,) * 16) for value in (10.0, 2.0, 10.0))
    plays = Plays(own, chance, None, [("action 1", best)])
    assert is_best(plays, None) and not no_better_than_constant(plays, None, True, "main")
    worse = Plays(EpisodeReturns((9.0, 9.5) * 8), chance, None, [("action 1", EpisodeReturns((9.0, 11.0) * 8))])
    assert no_better_than_constant(worse, None, True, "main")


class Truck(gymnasium.Env):
    """Its battery is charged once, or in each reset."""

    observation_space, action_space = Box(-1e9, 1e9, (1,), np.float32), Discrete(2)

    def __init__(self, charges):
        self.charges, self.battery = charges, 50

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.time = 0.0, 0
        self.battery = 50 if self.charges else self.battery
        return np.array([self.place], np.float32), {}

    def step(self, action):
        self.place, self.time = self.place + (int(action) if self.battery else 0), self.time + 1
        self.battery = max(self.battery - int(action), 0)
        return np.array([self.place], np.float32), 0.0, False, self.time >= 20, {}


def test_the_attribute_that_survives_a_reset_is_named():
    of_state = finding("state-survives-reset", "line", "observations differ first")
    (found,) = with_attributes([of_state], lambda: Truck(charges=False))
    assert found.evidence[1] == "Truck.battery is 0 after reset, and 50 in a new environment"
    assert found.evidence[2].startswith("step ") and found.evidence[2].endswith(" is the first that differs")
    assert left_behind(lambda: Truck(charges=True)) == []
    assert with_attributes([of_state], None) == [of_state]


@pytest.mark.parametrize(("size", "is_found"), [(0.09, False), (0.001, True), (50.0, True)])
def test_small_vectors_are_no_fault_and_none_has_advice_on_images(size, is_found):
    with closing(make_env(Truck, {"charges": True}, (), 1, "serial")) as env:
        values = np.full((400, 1), size, np.float32)
        found = obs_unnormalized(Seen(PlayMeasurements(env.kinds, obs=[[{"obs": values}]]), 0, normalizes=False))
    assert (found is not None) == is_found
    assert found is None or "image" not in " ".join((*found.causes, *found.remedies))


def test_effects_without_a_mask_are_left_as_they_are():
    with closing(make_env(Truck, {"charges": True}, (), 1, "serial")) as env:
        idle = finding("actions-without-effect", "line", subject="agent")
        assert naming_masks([idle], env.kinds) == [idle]
        assert not mask_findings(lambda lanes: env, env.kinds, [Effects("agent")], time.monotonic() + 1.0)
