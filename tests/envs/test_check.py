"""Findings of `check_env` for environments that are broken on purpose, each in one way, some in many."""

import random

import gymnasium
import numpy as np
import pytest
from counting import NUMBER, PAIR, TWO, ComingAndGoing, Counting, CountingAEC, CountingParallel
from gymnasium import spaces

from rookery.envs.check import check_env
from rookery.tasks.games.arena import BatchedArena, MultiAgentArena
from rookery.tasks.games.sacrifice import Sacrifice


def check(env, episodes=3, max_steps=50, **config):
    return check_env(env, config, (), episodes=episodes, max_steps=max_steps, seed=0)


def told(findings, severity):
    return [f"{finding.where}: {finding.text}" if finding.where else finding.text for finding in findings
            if finding.severity == severity]  # fmt: skip


def errors(env, **kwargs):
    return told(check(env, **kwargs), "error")


def warnings(env, **kwargs):
    findings = check(env, **kwargs)
    assert told(findings, "error") == []
    return told(findings, "warning")


class Sound(gymnasium.Env):
    """Six to nine steps, as the seed says, that show a random number and the step."""

    def __init__(self):
        self.observation_space, self.action_space = PAIR, TWO

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t, self.length = 0, self.np_random.integers(6, 10)
        return self.see(), {}

    def see(self):
        return np.array([self.np_random.normal(), self.t], np.float32)

    def step(self, action):
        self.t += 1
        return self.see(), float(action), self.t == self.length, False, {}


def changing(**changes):
    """A Sound whose third step returns something else in the place of obs, reward, ..."""

    class Changed(Sound):
        def step(self, action):
            result = dict(zip(("obs", "reward", "terminated", "truncated", "info"), super().step(action), strict=True))
            return tuple((result | changes if self.t == 3 else result).values())

    return Changed


# --- sound ones ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("env", [Sound, "CartPole-v1", MultiAgentArena, "mpe2.simple_spread_v3"])
def test_a_sound_environment_has_no_errors_and_no_warnings(env):
    findings = check(env, episodes=3, max_steps=600)
    assert told(findings, "error") == []
    assert [
        text for text in told(findings, "warning") if "after exactly" not in text and "rewards were" not in text
    ] == []


def test_masks_in_a_method_that_is_never_called_are_doubtful():
    class Masked(Sound):
        def action_masks(self):
            return np.ones(2, bool)

    assert "action_masks() is never called" in "".join(warnings(Masked))


def test_agents_that_take_turns_or_come_and_go_are_sound():
    assert errors("pettingzoo.classic.tictactoe_v3") == []
    assert errors(CountingAEC) == errors(ComingAndGoing) == []


def test_facts_are_told_as_notes():
    notes = told(check(Sound), "note")
    assert any(text.startswith("Gymnasium style, 1 agent, episodes of ") for text in notes)
    assert any("acts in Discrete(2)" in text for text in notes)
    assert any(text.endswith("steps a second, one environment alone") for text in notes)
    assert any("resumed by repeating its actions" in text for text in notes)
    assert any("resumed from its state" in text for text in told(check("CartPole-v1"), "note"))


def test_an_environment_of_many_copies_is_played_as_such():
    findings = check(BatchedArena, max_steps=300)
    assert told(findings, "error") == told(findings, "warning") == []
    assert told(findings, "note") == ["BatchedArena plays many environments in one call, 2 agents each"]


def test_what_cannot_be_made_is_one_error():
    assert errors("CartPole-v9")[0].startswith("env 'CartPole-v9' is not a Gymnasium id; did you mean")

    class Unmakeable(Sound):
        def __init__(self):
            raise RuntimeError("no licence")

    assert errors(Unmakeable) == ["Unmakeable: building it with env.config {} raised RuntimeError: no licence"]


# --- one agent ----------------------------------------------------------------------------------------------


def test_all_breaches_are_told_at_once():
    class Broken(Sound):
        def __init__(self):
            super().__init__()
            self.observation_space = spaces.Dict({"a": PAIR, "b": spaces.Discrete(3), "c": NUMBER})

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            return {"a": np.zeros(3, np.float32), "b": 7, "c": np.zeros(1, np.float32)}, {}

        def step(self, action):
            np.random.random()
            over = super().step(action)[2:]
            return {"a": np.array([np.nan, 0], np.float32), "c": np.ones(1)}, float("nan"), *over

    findings = check(Broken)
    wrong = " | ".join(told(findings, "error"))
    assert "episode 0, reset, agent 'agent': observation a: shape (3,) where the space says (2,)" in wrong
    assert "episode 0, reset, agent 'agent': observation b: category 7 is outside the space" in wrong
    assert "episode 0, step 1, agent 'agent': observation b: missing from the observation" in wrong
    assert "episode 0, step 1, agent 'agent': observation a: non-finite observation nan" in wrong
    assert "episode 0, step 1, agent 'agent': reward is nan, expected a finite number" in wrong
    doubtful = " | ".join(told(findings, "warning"))
    assert "step() changes the global state of numpy.random" in doubtful
    assert "observation c: dtype float64 where the space says float32" in doubtful


def test_a_mask_of_actions_without_choices_is_an_error():
    class Numbers(Sound):
        def __init__(self):
            super().__init__()
            self.action_space = spaces.Box(-1, 1, (1,), np.float32)

        def step(self, action):
            return *super().step(action[0])[:4], {"action_mask": [True]}

    (error,) = errors(Numbers)
    assert error.startswith(
        "episode 0, step 1, agent 'agent': action_mask: actions of Box(-1.0, 1.0, (1,), float32) have"
    )


def test_a_breach_is_told_once_with_its_first_place_and_how_often():
    class Wrong(Sound):
        def step(self, action):
            return super().step(action)[0], "much", *super().step(action)[2:]

    (finding,) = [finding for finding in check(Wrong) if finding.severity == "error"]
    assert (finding.where, finding.text) == (
        "episode 0, step 1, agent 'agent'", "reward is 'much', expected a finite number",
    )  # fmt: skip
    assert finding.count > 3


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"obs": np.zeros(3)}, "observation obs: shape (3,) where the space says (2,)"),
        ({"obs": np.array(["a", "b"])}, "observation obs: dtype <U1 where the space gives box (float32)"),
        ({"obs": None}, "observation obs: "),
        ({"reward": None}, "reward is None, expected a finite number"),
        ({"reward": np.zeros(2)}, "reward is array([0., 0.]), expected a finite number"),
        ({"reward": float("inf")}, "reward is inf, expected a finite number"),
        ({"info": None}, "info is NoneType, expected a dict"),
    ],
)
def test_a_wrong_step_is_an_error_that_says_where(changes, message):
    (text,) = errors(changing(**changes))
    assert text.startswith("episode 0, step 3")
    assert message in text


def test_flags_that_are_no_truth_values_are_doubtful():
    text = "terminated is 0 (int), expected True or False"
    assert f"episode 0, step 3: {text}" in warnings(changing(terminated=0))


def test_spaces_that_cannot_be_used_are_errors_and_parts_left_out_are_not():
    class Texts(Sound):
        def __init__(self):
            super().__init__()
            self.observation_space, self.action_space = spaces.Text(5), spaces.Graph(PAIR, None)

    assert "no part of the observation space" in errors(Texts)[0]

    class Mixed(Sound):
        def __init__(self):
            super().__init__()
            self.observation_space = spaces.Dict({"x": PAIR, "words": spaces.Text(5)})

        def reset(self, **kwargs):
            obs, info = super().reset(**kwargs)
            return {"x": obs.astype(np.float32), "words": "hi"}, info

        def step(self, action):
            obs, *rest = super().step(action)
            return {"x": obs.astype(np.float32), "words": "hi"}, *rest

    assert any("words: Text observations cannot be used; that part is left out" in text for text in warnings(Mixed))


def test_values_outside_the_bounds_are_doubtful():
    class Outside(Sound):
        def __init__(self):
            super().__init__()
            self.observation_space = spaces.Box(np.float32([-100, 0]), np.float32([100, 4]))

    (text,) = warnings(Outside)
    assert text.endswith("observation obs: value 5 is outside the bounds 0 to 4 that the space gives")


def test_the_old_api_is_named_and_played_all_the_same():
    class Old(gymnasium.Env):
        observation_space, action_space = NUMBER, TWO

        def reset(self):
            self.t = 0
            return np.zeros(1, np.float32)

        def step(self, action):
            self.t += 1
            return np.full(2, self.t, np.float32), 1.0, self.t == 5, {}

    wrong = " | ".join(errors(Old))
    assert "reset() takes no seed, expected reset(seed=, options=)" in wrong
    assert "reset() returned ndarray of shape (1,), expected (obs, info)" in wrong
    assert "step() returned 4 values, expected five" in wrong
    assert "shape (2,) where the space says (1,)" in wrong  # what lies behind the old form is found too


def test_an_exception_is_told_with_its_line_and_the_other_episodes_are_played():
    class Fragile(Sound):
        def step(self, action):
            if self.t == 2:
                raise ValueError("boom")
            return super().step(action)

    (text,) = errors(Fragile)
    assert text.startswith("episode 0, step 3: step() raised ValueError: boom (")
    assert "test_check.py:" in text
    (finding,) = [finding for finding in check(Fragile) if finding.severity == "error"]
    assert finding.count >= 3  # once an episode


def test_an_episode_without_end_asks_for_a_limit():
    class Endless(Sound):
        def step(self, action):
            obs, reward, _, _, info = super().step(action)
            return obs, reward, False, False, info

    (text,) = warnings(Endless)
    assert text.startswith("episode 0, step 50: the episode did not end within 50 steps")
    assert "set truncated after" in text
    assert "env.config.max_episode_steps=1000" in warnings("CartPole-v1", max_steps=5)[0]


def test_a_limit_that_terminates_should_truncate():
    (text,) = warnings(Counting, terminate_at=12)
    assert text.startswith("all 3 episodes were terminated after exactly 12 steps")
    assert warnings(Counting, truncate_at=12) == []


def test_arrays_that_change_later_are_doubtful():
    (text,) = warnings(Counting, truncate_at=9, mutate=True)
    assert "the arrays it returned as observation change in a later step" in text


def test_an_action_that_is_changed_is_doubtful():
    class Greedy(Sound):
        def __init__(self):
            super().__init__()
            self.action_space = spaces.Box(-1, 1, (2,))

        def step(self, action):
            action *= 0
            return super().step(1)

    assert any("step() changes the action it is given" in text for text in warnings(Greedy))


def test_rewards_that_are_always_zero_are_doubtful():
    class Barren(Sound):
        def step(self, action):
            obs, _, *rest = super().step(action)
            return obs, 0.0, *rest

    assert any("rewards were 0" in text for text in warnings(Barren))


def test_observations_that_are_always_the_same_are_doubtful():
    class Blind(Sound):
        def reset(self, *, seed=None, options=None):
            return np.zeros_like(super().reset(seed=seed)[0]), {}

        def step(self, action):
            obs, *rest = super().step(action)
            return np.zeros_like(obs), *rest

    same = "all observations were the same"
    assert any(text.startswith(same) for text in warnings(Blind))
    assert not any(text.startswith(same) for text in warnings(Sound))


# --- repeating ----------------------------------------------------------------------------------------------


def test_a_seed_that_is_ignored_is_not_deterministic():
    class Unseeded(Sound):
        def reset(self, *, seed=None, options=None):
            return super().reset(seed=None)

    (text,) = warnings(Unseeded)
    assert text.startswith(
        "not deterministic: step 0: the observation differs between two environments with the same seed"
    )
    assert "exact: false" in text


def test_the_first_step_that_differs_and_its_agent_are_named():
    draws = np.random.default_rng(0)

    class Late(Pair):
        def step(self, actions):
            obs, rewards, *rest = super().step(actions)
            return obs, rewards | ({"b": draws.random()} if self.t == 2 else {}), *rest

    (text,) = warnings(Late)
    assert text.startswith("not deterministic: step 2, agent 'b': ")
    assert "the reward differs (" in text


def test_something_that_outlives_reset_is_told_apart():
    class Leaking(Sound):
        def __init__(self):
            super().__init__()
            self.total = 0.0

        def step(self, action):
            obs, *rest = super().step(action)
            self.total += 1
            return obs + np.float32(self.total), *rest

    (text,) = warnings(Leaking)
    assert text.startswith(
        "not deterministic: step 1: the observation differs when the same environment plays the same"
    )
    assert "survives reset(seed)" in text


@pytest.mark.parametrize("module", [np.random, random])
def test_global_random_state_is_noticed_and_named(module):
    class Careless(Sound):
        def step(self, action):
            module.random()
            return super().step(action)

    (text,) = warnings(Careless)
    assert f"step() changes the global state of {module.__name__}" in text
    assert "exact: false" in text


def test_copies_that_share_state_are_an_error():
    class Shared(Sound):
        board = [0.0]

        def reset(self, *, seed=None, options=None):
            self.board[0] = 0.0
            return super().reset(seed=seed)

        def step(self, action):
            self.board[0] += 1
            obs, *rest = super().step(action)
            return obs + np.float32(self.board[0]), *rest

    (text,) = errors(Shared)
    assert text.startswith("environments share state: step 2: the observation differs in one when another is stepped")


# --- many agents --------------------------------------------------------------------------------------------


class Pair:
    """Agents a and b act five times; what a subclass gives in `changes` stands in the place of the third step's."""

    possible_agents = ["a", "b"]
    observation_spaces = {"a": NUMBER, "b": NUMBER}
    action_spaces = {"a": TWO, "b": TWO}
    changes = {}

    def reset(self, seed=None, options=None):
        self.t = 0
        self.shift = np.random.default_rng(seed).random()
        return self.see("ab"), {}

    def see(self, agents):
        return {agent: np.array([self.t + self.shift], np.float32) for agent in agents}

    def step(self, actions):
        self.t += 1
        over = self.t == 5
        result = {
            "obs": self.see("ab"),
            "rewards": {"a": 1.0, "b": 2.0},
            "terminateds": {"a": over, "b": over, "__all__": over},
            "truncateds": {"a": False, "b": False, "__all__": False},
            "infos": {},
        }
        return tuple((result | (self.changes if self.t == 3 else {})).values())


def pair(**given):
    class Changed(Pair):
        changes = given

    return Changed


def test_a_sound_pair_is_sound():
    assert warnings(Pair) == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"terminateds": {"a": False, "b": False}}, 'terminateds has no "__all__"'),
        (
            {"rewards": {"a": 1.0, "c": 1.0}},
            "agent 'c': is in rewards but not among the agents announced (a, b), and its spaces",
        ),
        ({"rewards": {"a": 1.0, "b": "x"}}, "agent 'b': reward is 'x', expected a finite number"),
        ({"rewards": [1.0, 2.0]}, "step() returned rewards as list, expected a dict by agent"),
        ({"obs": {"a": np.zeros(2, np.float32)}}, "agent 'a': observation obs: shape (2,) where the space says (1,)"),
    ],
)
def test_wrong_dictionaries_are_errors_that_say_who(changes, message):
    wrong = errors(pair(**changes))
    assert any(text.startswith("episode 0, step 3") and message in text for text in wrong), wrong


def test_an_agent_that_acts_after_its_end_is_doubtful():
    class Zombie(Pair):
        def step(self, actions):
            obs, rewards, terminateds, *rest = super().step(actions)
            if self.t == 2:
                terminateds["b"] = True
            return obs, rewards, terminateds, *rest

    assert "episode 0, step 3, agent 'b': must act again although it ended in step 2" in " | ".join(warnings(Zombie))


def test_a_reward_after_the_end_is_doubtful():
    class Pension(Pair):
        def step(self, actions):
            obs, rewards, terminateds, *rest = super().step(actions)
            if self.t >= 2:
                terminateds["b"] = True
                obs = {"a": obs["a"]}
            return obs, rewards, terminateds, *rest

    text = " | ".join(warnings(Pension))
    assert "episode 0, step 3, agent 'b': gets a reward although it ended in step 2" in text


def test_an_announced_agent_that_never_acts_is_doubtful():
    class Lazy(Pair):
        possible_agents = ["a", "b", "ghost"]
        observation_spaces = Pair.observation_spaces | {"ghost": NUMBER}
        action_spaces = Pair.action_spaces | {"ghost": TWO}

    assert warnings(Lazy) == ["agent 'ghost': is announced but never had to act"]


def test_a_truncation_without_a_last_observation_is_doubtful():
    class Cut(Pair):
        def step(self, actions):
            obs, rewards, terminateds, truncateds, infos = super().step(actions)
            over = self.t == 5
            return ({} if over else obs), rewards, {"__all__": False}, {"__all__": over}, infos

    assert any("agent 'a': was truncated without a last observation" in text for text in warnings(Cut))


def test_an_episode_that_everyone_has_left_must_be_ended():
    class Deserted(Pair):
        def step(self, actions):
            obs, rewards, terminateds, *rest = super().step(actions)
            return (obs if self.t < 5 else {}), {}, terminateds | {"__all__": False}, *rest

    (text,) = errors(Deserted, max_steps=1000)
    assert "no agent had to act for 200 steps and the episode did not end" in text
    assert "terminateds['__all__'] = True" in text


def test_breaches_of_parallel_environments_are_named():
    class Vanishing(CountingParallel):
        def step(self, actions):
            obs, rewards, terminations, truncations, infos = super().step(actions)
            if self.t == 1:
                self.agents = ["y"]
                del obs["y"], rewards["x"]
            return obs, rewards, terminations, truncations, infos

    findings = check(Vanishing)
    wrong = " | ".join(told(findings, "error"))
    assert "episode 0, step 1, agent 'x': left env.agents, expected it to be terminated or truncated" in wrong
    assert (
        "episode 0, step 1, agent 'y': no observation for this agent, expected one because it is in env.agents" in wrong
    )
    assert "agent 'x': acted but got no reward, which counts as 0" in " | ".join(told(findings, "warning"))


def test_a_sound_parallel_environment_has_no_errors():
    assert errors(CountingParallel) == []


def test_a_batched_game_whose_groups_earn_by_chance_is_found_out():
    mood = random.Random(0)

    class Moody(Sacrifice):
        """Gives its group any reward."""

        def _play(self, actions):
            ended = super()._play(actions)
            self._group_reward[:] = mood.random()
            return ended

    findings = check_env(Moody, {}, (), episodes=1, max_steps=20, seed=0)
    assert any("not deterministic" in finding.text for finding in findings)
    assert {f.severity for f in check_env(Sacrifice, {}, (), episodes=1, max_steps=50, seed=0)} == {"note"}
