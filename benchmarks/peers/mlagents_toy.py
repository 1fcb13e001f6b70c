"""ML-Agents' own trainer on the lines of its tests: ``mlagents_toy.py SECTION [--agents 1] [--numbers 1] [--choices 0]
[--step 0.2] [--last 20]``; prints JSON.

The environment is a line from -1 to 1 for each element of an action, on which an agent starts at 0 and moves by at most
so much; it sees at which end it is rewarded, and its episode is over when all ends are reached. It runs in the
trainer's process, as in ML-Agents' tests, so that no socket is measured. `benchmarks/studies/mlagents.py` and
``benchmarks/studies/toy_suite.py --mlagents`` start this in the environment that
``benchmarks/peers/install.sh mlagents`` makes.
"""

# ruff: noqa: D102, E402

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time

os.environ["PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION"] = "python"

import numpy as np

np.float = float  # mlagents_envs 1.1.0 asks numpy for names that it has no longer
np.bool = bool

import torch
from mlagents.plugins.trainer_type import register_trainer_plugins
from mlagents.trainers.environment_parameter_manager import EnvironmentParameterManager
from mlagents.trainers.model_saver.torch_model_saver import ModelSerializer
from mlagents.trainers.settings import RunOptions
from mlagents.trainers.simple_env_manager import SimpleEnvManager
from mlagents.trainers.stats import StatsReporter, StatsWriter
from mlagents.trainers.trainer import TrainerFactory
from mlagents.trainers.trainer_controller import TrainerController
from mlagents_envs.base_env import (
    ActionSpec,
    BaseEnv,
    BehaviorMapping,
    BehaviorSpec,
    DecisionSteps,
    DimensionProperty,
    ObservationSpec,
    ObservationType,
    TerminalSteps,
)
from mlagents_envs.side_channel.environment_parameters_channel import EnvironmentParametersChannel

NAME = "Line"
TIME_COST = 0.01
BEST = 1.0 + 6 * TIME_COST


class Lines(BaseEnv):
    """Lines of so many agents of one behaviour, all in step; each has one for each number and each choice of two."""

    def __init__(self, agents: int, seed: int, numbers: int = 1, choices: int = 0, step_size: float = 0.2) -> None:
        super().__init__()
        seen = ObservationSpec((1,), (DimensionProperty.UNSPECIFIED,), ObservationType.DEFAULT, "goal")
        self.spec = BehaviorSpec([seen], ActionSpec(numbers, (2,) * choices))
        self.rng = np.random.default_rng(seed)
        self.agents, self.lines, self.step_size = agents, numbers + choices, step_size
        self.returns: list[float] = []
        self.reset()

    @property
    def behavior_specs(self) -> BehaviorMapping:
        return BehaviorMapping({NAME: self.spec})

    def reset(self) -> None:
        self.place = np.zeros((self.agents, self.lines))
        self.goal = self.rng.choice([-1.0, 1.0], self.agents)
        self.ids = np.arange(self.agents, dtype=np.int32)
        self.earned = np.zeros(self.agents)
        self.ended = TerminalSteps.empty(self.spec)
        self.asking = self._asking(np.zeros(self.agents, dtype=np.float32))

    def _asking(self, reward: np.ndarray) -> DecisionSteps:
        none = np.zeros(self.agents, dtype=np.int32)
        seen = [self.goal[:, None].astype(np.float32)]
        sizes = self.spec.action_spec.discrete_branches
        forbidden = [np.zeros((self.agents, size), dtype=bool) for size in sizes] or None
        return DecisionSteps(seen, reward, self.ids.copy(), forbidden, none, none.astype(np.float32))

    def set_actions(self, behavior_name: str, action: object) -> None:
        chosen = 2.0 * action.discrete - 1.0 if self.spec.action_spec.discrete_size else np.zeros((self.agents, 0))
        self.actions = np.concatenate((action.continuous, chosen), axis=1)

    def set_action_for_agent(self, behavior_name: str, agent_id: int, action: object) -> None:
        raise NotImplementedError

    def get_steps(self, behavior_name: str) -> tuple[DecisionSteps, TerminalSteps]:
        return self.asking, self.ended

    def step(self) -> None:
        moved = self.place + np.clip(self.actions, -self.step_size, self.step_size)
        self.place = np.clip(moved, -1.0, 1.0)
        over = (np.abs(self.place) >= 1.0).all(axis=1)
        reward = np.where(over, BEST * self.place.mean(axis=1) * self.goal, -TIME_COST).astype(np.float32)
        self.earned += reward
        self.ended = TerminalSteps.empty(self.spec)
        which = np.flatnonzero(over)
        if which.size:
            none = np.zeros(which.size, dtype=np.int32)
            seen = [self.goal[which, None].astype(np.float32)]
            self.ended = TerminalSteps(
                seen, reward[which], np.zeros(which.size, dtype=bool), self.ids[which], none, none.astype(np.float32)
            )
            self.returns += self.earned[which].tolist()
            self.place[which], self.earned[which], reward[which] = 0.0, 0.0, 0.0
            self.goal[which] = self.rng.choice([-1.0, 1.0], which.size)
            self.ids[which] += self.agents  # an agent that begins anew has a new id
        self.asking = self._asking(reward)

    def close(self) -> None:
        pass


class Silent(StatsWriter):
    """Writes nothing."""

    def write_stats(self, category: str, values: object, step: int) -> None:
        pass


def main() -> None:
    """Trains and reports seconds, steps and the mean of the last episodes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("settings", help="a behaviour's section, as JSON")
    parser.add_argument("--agents", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--numbers", type=int, default=1)
    parser.add_argument("--choices", type=int, default=0)
    parser.add_argument("--step", type=float, default=0.2, help="the largest move")
    parser.add_argument("--last", type=int, default=20, help="episodes of which the return is the mean")
    args = parser.parse_args()
    torch.set_num_threads(1)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    register_trainer_plugins()
    ModelSerializer.export_policy_model = lambda *_: None  # neither library writes models here
    StatsReporter.writers.clear()
    StatsReporter.add_writer(Silent())
    options = RunOptions.from_dict({"behaviors": {NAME: json.loads(args.settings)}})
    env = Lines(args.agents, args.seed, args.numbers, args.choices, args.step)
    manager = SimpleEnvManager(env, EnvironmentParametersChannel())
    parameters = EnvironmentParameterManager({}, args.seed, False)
    with tempfile.TemporaryDirectory() as folder:
        factory = TrainerFactory(options.behaviors, folder, True, False, args.seed, parameters, None, False)
        controller = TrainerController(factory, folder, "toy", parameters, True, args.seed)
        began, processor = time.perf_counter(), time.process_time()
        controller.start_learning(manager)
        seconds, processor = time.perf_counter() - began, time.process_time() - processor
    steps = next(iter(controller.trainers.values())).get_step
    last = env.returns[-args.last :]
    print(json.dumps({"seconds": seconds, "processor": processor, "steps": steps, "return": float(np.mean(last))}))


if __name__ == "__main__":
    main()
