"""Actions that clients choose themselves: off-policy learners use them, others leave them out and count them."""

import numpy as np
import pytest
from gymnasium import spaces

from rookery import Trainer
from rookery.core.spaces.arrays import action_spec, obs_spec
from rookery.envs.async_copies.async_env import AsyncCopiesEnv
from rookery.envs.async_copies.step_message import Asking, CopyBehavior, Ended, StepMessage

SITUATIONS = 3
OBS = spaces.Box(0, 1, (SITUATIONS,), np.float32)


class Teachers:
    """Copies that never ask: in each situation they do anything, and say what it earned.

    The best action of situation n is number n, or the number n / 2 from 0 to 1; with `shuffled` what is earned has
    nothing to do with what was done. Two decisions are an episode, of which the second is as the first.
    """

    own_episodes, parameters, notes, name = True, {}, (), "teachers"

    def __init__(self, lanes, action, shuffled, seed=0):
        self.rng, self.action, self.shuffled = np.random.default_rng(seed), action_spec(action), shuffled
        self.behaviors, self.counters = {"A": CopyBehavior(obs_spec(OBS, action), self.action)}, {}
        self.running, self.ready = [None] * lanes, [True] * lanes
        self.number = 0

    def begin(self, lane, episode, plan):
        self.running[lane], self.ready[lane] = None, True

    def replan(self, plan):
        pass

    def act(self, lane, decisions):
        situation = int(self.rng.integers(SITUATIONS))
        if self.action.kind == "discrete":
            did = int(self.rng.integers(SITUATIONS))
            earned = float(did == situation)
        else:
            did = self.rng.uniform(-1, 1, 1)
            earned = 1 - abs(float(did[0]) - (situation - 1))
        if self.shuffled:
            earned = float(self.rng.random())
        self.running[lane] = self.number, decisions, earned
        obs = {"obs": np.eye(SITUATIONS, dtype=np.float32)[[situation]]}
        return obs, np.array([did], self.action.dtype)

    def step_messages(self, seconds):
        found = []
        for lane in [lane for lane, ready in enumerate(self.ready) if ready]:
            gone, earned, decisions = {}, 0.0, 0
            if self.running[lane] is not None:
                agent, decisions, earned = self.running[lane]
                if decisions == 2:
                    last = {"obs": np.zeros((1, SITUATIONS), np.float32)}
                    gone = {"A": Ended([agent], last, np.array([earned]), truncated=np.array([False]))}
                    decisions, earned = 0, 0.0
            if decisions == 0:
                self.number += 1
            obs, did = self.act(lane, decisions + 1)
            ask = Asking([self.running[lane][0]], obs, np.array([earned]), own=did)
            found.append(StepMessage(lane, {"A": ask}, gone))
            self.ready[lane] = False
        return found

    def answer(self, lane, episode, answers):
        self.ready[lane] = True

    def close(self):
        pass


class TaughtEnv(AsyncCopiesEnv):
    """Teachers as an environment that can be named."""

    def __init__(self, num_lanes, discrete=True, shuffled=False):
        action = spaces.Discrete(SITUATIONS) if discrete else spaces.Box(-1, 1, (1,), np.float32)
        super().__init__(Teachers(num_lanes, action, shuffled), num_lanes)


def learned(algorithm, discrete, shuffled=False, **settings):
    """Returns the actions of a policy in each situation after learning from the clients' actions."""
    config = {"algorithm.model.hidden": [32], "algorithm.learning_starts": 64, "algorithm.batch_size": 64,
              "algorithm.lr": 3e-3, "algorithm.gamma": 0.5, "env.config.discrete": discrete,
              "env.config.shuffled": shuffled, "sampling.iteration_steps": 400, **settings}  # fmt: skip
    with Trainer(TaughtEnv, algorithm, config=config, seed=1, num_envs=4, console="quiet") as trainer:
        row = trainer.train_iteration()
        for _ in range(2):
            row = trainer.train_iteration()
        assert "actions_not_learned" not in row.counters
        return trainer.policies["main"].predict(np.eye(SITUATIONS, dtype=np.float32))


def test_what_to_choose_is_learned_from_the_choices_of_others_and_not_from_noise():
    assert learned("dqn", True).tolist() == [0, 1, 2]
    assert learned("dqn", True, shuffled=True).tolist() != [0, 1, 2]


@pytest.mark.slow
def test_what_number_to_say_is_learned_from_the_numbers_of_others():
    assert np.ravel(learned("sac", False)) == pytest.approx([-1, 0, 1], abs=0.25)


@pytest.mark.parametrize("algorithm", ["ppo", "a2c"])
def test_learners_on_policy_learn_nothing_from_them_and_say_how_many_there_were(algorithm):
    config = {"algorithm.model.hidden": [8], "sampling.iteration_steps": 100}
    with Trainer(TaughtEnv, algorithm, config=config, seed=1, num_envs=4, console="quiet") as trainer:
        before = [weight.clone() for weight in trainer.policies["main"].parameters()]
        row = trainer.train_iteration()
        assert row.counters["actions_not_learned"] >= row.env_steps - 4 > 90
        assert all((now == then).all() for now, then in zip(trainer.policies["main"].parameters(), before, strict=True))
