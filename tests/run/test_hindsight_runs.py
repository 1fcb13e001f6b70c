"""Runs with hindsight: learning, exact resume, rewards from environments elsewhere, and refusals."""

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces

from rookery import Trainer
from rookery.core.errors import ConfigError
from rookery.core.spaces.arrays import obs_spec
from rookery.envs.adapters.goals import GoalFunctions
from rookery.envs.make import lane_maker
from rookery.envs.vector.serial import SerialEnv
from rookery.policies.normalize import ObsNormalizer
from rookery.tasks.goal_tasks import BitFlip, PointReach
from selection import slow

STRATEGY = "algorithm.replay.hindsight.strategy"
SMALL = {
    "env.implementation": "serial",
    "sampling.num_envs": 2,
    "algorithm.learning_starts": 40,
    "algorithm.batch_size": 32,
    "algorithm.train_every": 20,
    "algorithm.model.hidden": (32,),
    "logging.console": "quiet",
}


def trainer_of(env=BitFlip, algorithm="dqn", strategy="future", **settings):
    config = {"algorithm.name": algorithm, STRATEGY: strategy, **SMALL, **settings}
    return Trainer(env, config=[config], seed=0)


def weights(trainer):
    return {name: tensor.clone() for name, tensor in trainer.policies["main"].state_dict().items()}


def equal(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.slow  # a claim of benchmarks/learning.py, with this control
def test_bits_are_learned_with_goals_reached_and_not_without():
    found = {}
    for strategy in ("future", None):
        more = {"env.config": {"num_bits": 7}, "algorithm.learning_starts": 200, "algorithm.model.hidden": (64, 64)}
        with trainer_of(strategy=strategy, **more, **{"stop.env_steps": 4000}) as trainer:
            trainer.train()
            found[strategy] = trainer.evaluate(50).success_rate
    assert found["future"] > 0.9 and found[None] < 0.4


@pytest.mark.parametrize(
    ("env", "algorithm", "more"),
    [
        (BitFlip, "dqn", {}),
        slow(PointReach, "td3", {}),
        slow(PointReach, "ddpg", {}),
        (PointReach, "sac", {}),
        (BitFlip, "dqn", {"algorithm.replay.kind": "prioritized", "algorithm.n_step": 3}),
        (BitFlip, "dqn", {"algorithm.model.normalize_obs": True}),
        (BitFlip, "dqn", {"sampling.workers": 2, "cluster.ray": "here"}),
    ],
    ids=["dqn", "td3", "ddpg", "sac", "prioritized", "normalized", "workers"],
)
def test_a_resumed_run_learns_the_same_weights(tmp_path, env, algorithm, more):
    whole = trainer_of(env, algorithm, **more)
    whole.train(stop={"env_steps": 300})
    whole.save(tmp_path / "middle")
    with Trainer.load(tmp_path / "middle") as resumed:
        for trainer in (whole, resumed):
            trainer.train(stop={"env_steps": 500})
        assert equal(weights(whole), weights(resumed))
    whole.close()


def test_the_replay_of_another_run_is_drawn_with_other_goals_too(tmp_path):
    with trainer_of() as trainer:
        trainer.train(stop={"env_steps": 200})
        trainer.save(tmp_path / "one")
    mixed = trainer_of(**{"algorithm.replay.mix": {str(tmp_path / "one"): 0.5}})
    mixed.train(stop={"env_steps": 200})
    own, other = mixed.learners["main"].replay.buffer.buffers
    assert own.relabeling.goals is other.relabeling.goals
    for buffer in (own, other):
        paid = buffer.sample(500, n_step=1, gamma=0.9, beta=0.0).reward
        assert (paid == 0).float().mean() > 0.1  # random play of 15 bits never earns 0
    mixed.save(tmp_path / "mixed")
    with Trainer.load(tmp_path / "mixed") as resumed:
        for trainer in (mixed, resumed):
            trainer.train(stop={"env_steps": 300})
        assert equal(weights(mixed), weights(resumed))
    mixed.close()


def test_helper_processes_change_no_weight():
    found = []
    for more in ({}, {"env.implementation": "processes", "sampling.env_processes": 1}):
        with trainer_of(**more) as trainer:
            trainer.train(stop={"env_steps": 300})
            found.append(weights(trainer))
    assert equal(*found)


def test_the_rate_of_success_is_in_rows_and_evaluations():
    with trainer_of(**{"env.config": {"num_bits": 2}}) as trainer:
        result = trainer.train(stop={"env_steps": 600})
        least, mean, most = result.metrics["success_rate"]
        assert (least, most) == (0.0, 1.0) and 0.3 < mean < 1.0
        evaluation = trainer.evaluate(20)
        # an episode of two bits pays -2 if it never reaches its goal
        assert evaluation.success_rate == np.mean([total > -2 for total in evaluation.returns])
    with Trainer("CartPole-v1", config=[{"logging.console": "quiet"}], seed=0) as trainer:
        assert trainer.evaluate(2).success_rate is None


def test_a_run_that_only_learns_makes_its_environment_for_the_first_goals(tmp_path):
    with trainer_of() as trainer:
        trainer.train(stop={"env_steps": 100})
        trainer.save(tmp_path / "run")
    with Trainer.load(tmp_path / "run", play=False) as trainer:
        hindsight = trainer.learners["main"].replay.buffer.relabeling
        assert "goals" not in vars(hindsight)
        trainer.learn(gradient_steps=3)
        assert hindsight.goals.env.num_lanes == 1


# --- refusals ---------------------------------------------------------------------------------------------------------


class Scaled(gymnasium.RewardWrapper):
    def reward(self, reward):
        return 10 * reward


class Unnamed(BitFlip):
    compute_reward = None

    def step(self, action):
        obs, _, *rest = super().step(action)
        return obs, -1.0, *rest


class Single(BitFlip):
    """Judges one goal at a time."""

    def compute_reward(self, achieved_goal, desired_goal, info):
        return 0.0 if (achieved_goal == desired_goal).all() else -1.0


class NeedsInfo(BitFlip):
    def compute_reward(self, achieved_goal, desired_goal, info):
        return np.array([one["cost"] for one in info]) if isinstance(info, list) else -1.0


class EndsEarly(BitFlip):
    def compute_terminated(self, achieved_goal, desired_goal, info):
        return np.ones(len(achieved_goal), bool) if achieved_goal.ndim == 2 else False


def refusal(*given, **settings):
    with pytest.raises(ConfigError) as caught:
        trainer_of(*given, **settings)
    text = str(caught.value)
    assert text.startswith("policies.main.replay.hindsight.strategy = future: ")
    assert "null" in text
    return text


@pytest.mark.parametrize(
    ("env", "reason"),
    [
        (lambda: gymnasium.make("CartPole-v1"), "not a Dict with 'achieved_goal' and 'desired_goal'"),
        (Unnamed, "has no function compute_reward"),
        (Single, "compute_reward returns shape () for 20 goals"),
        (lambda: Scaled(BitFlip()), "compute_reward returns -1 for a decision of reward -10"),
        (NeedsInfo, "compute_reward raises KeyError: 'cost'"),
        (EndsEarly, "compute_terminated returns True for a decision that did not terminate"),
    ],
)
def test_environments_whose_goals_cannot_be_judged_are_refused(env, reason):
    text = refusal(env, **{"sampling.warmup_steps": 0})
    assert reason in text


def test_learners_that_need_what_was_played_are_refused():
    text = refusal(**{"algorithm.model.memory.kind": "lstm"})
    assert "leave model.memory out" in text
    text = refusal(**{"algorithm.signals.rnd": {}})
    assert "signals.rnd" in text
    text = refusal(PointReach, "td3bc")
    assert "TD3BC learns from recorded data, with the goals of these; use dqn, " in text


def test_a_function_for_ends_may_take_single_goals_only():
    class Maze(PointReach):
        def compute_terminated(self, achieved_goal, desired_goal, info):
            return bool(np.linalg.norm(achieved_goal - desired_goal) < 0.5)

    env = SerialEnv(lane_maker(Maze, {}, ()), 1, "Maze")
    goals = GoalFunctions(env, env.kinds[0].obs)
    achieved = np.array([[0, 0, 0], [0, 0, 0.4], [1, 1, 1]], np.float32)
    assert goals.terminated(achieved, np.zeros((3, 3), np.float32)).tolist() == [True, True, False]


def test_goals_are_normalized_alike():
    box = spaces.Box(-np.inf, np.inf, (2,), np.float32)
    names = ("observation", "achieved_goal", "desired_goal")
    normalizer = ObsNormalizer(obs_spec(spaces.Dict(dict.fromkeys(names, box)), spaces.Discrete(2)), 10.0)
    seen = {name: torch.full((4, 2), float(number)) for number, name in enumerate(names)}
    normalizer.update(seen)
    normalized = normalizer(seen)
    assert normalized["achieved_goal"].unique().tolist() == [pytest.approx(-1)]  # of 1 and 2: mean 1.5, deviation 0.5
    assert normalized["desired_goal"].unique().tolist() == [pytest.approx(1)]
    assert normalized["observation"].unique().tolist() == [0]
