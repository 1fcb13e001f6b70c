"""Has ML-Agents' own trainers write files, and computes what their policies put out: ``mlagents_files.py FOLDER``.

It runs in the environment that ``benchmarks/peers/install.sh mlagents`` makes. Each case of `CASES` is trained for a
few hundred steps on observations that mean nothing, in this process: ``FOLDER/CASE`` is then what ``mlagents-learn``
leaves under ``results``, TensorBoard included. ``FOLDER/their_answers.npz`` holds what
`tests/rookery_mlagents/test_their_files.py` reads: the names and shapes of the weights of each policy, and what their
network makes of `observations`, with the weights that it has learned and with those that `filled` gives by name, so
that no weight need be kept. ``--only CASE ...`` makes some of them, and no such file.
"""

# ruff: noqa: D102, E402

from __future__ import annotations

import argparse
import json
import os
import shutil
import zlib
from pathlib import Path

os.environ["PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION"] = "python"

import numpy as np

np.float = float  # mlagents_envs 1.1.0 asks numpy for names that it has no longer
np.bool = bool

import mlagents.trainers.poca.trainer as poca_trainer
import torch
from mlagents.plugins.trainer_type import register_trainer_plugins
from mlagents.trainers.directory_utils import setup_init_path
from mlagents.trainers.environment_parameter_manager import EnvironmentParameterManager
from mlagents.trainers.learn import write_run_options, write_timing_tree, write_training_status
from mlagents.trainers.settings import RunOptions
from mlagents.trainers.simple_env_manager import SimpleEnvManager
from mlagents.trainers.stats import GaugeWriter, StatsReporter, TensorboardWriter
from mlagents.trainers.trainer import TrainerFactory
from mlagents.trainers.trainer_controller import TrainerController
from mlagents.trainers.training_status import GlobalTrainingStatus
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
from mlagents_envs.timers import reset_timers

NAME = "Behavior"
LENGTH = 5  # decisions of an episode
ROWS = 6

VECTOR, PAIR, PICTURE = (5,), (3,), (1, 20, 24)
SHORT = {"time_horizon": 16, "summary_freq": 100, "checkpoint_interval": 100, "max_steps": 300}
ON_POLICY = {"batch_size": 16, "buffer_size": 64, "num_epoch": 1}
OFF_POLICY = {"batch_size": 8, "buffer_size": 200, "buffer_init_steps": 20, "steps_per_update": 10}
NETWORK = {"hidden_units": 8, "num_layers": 2}


def case(trainer: str, shapes: list[tuple[int, ...]], numbers: int = 0, branches: tuple[int, ...] = (), **network):
    """A behaviour's section and what its agents see and do."""
    hyper = OFF_POLICY if trainer == "sac" else ON_POLICY
    settings = {"trainer_type": trainer, "hyperparameters": hyper, "network_settings": {**NETWORK, **network}, **SHORT}
    return settings, shapes, numbers, branches


CASES = {
    "ppo-numbers": case("ppo", [VECTOR], 2, normalize=True),
    "ppo-choices": case("ppo", [VECTOR], 0, (3, 2)),
    "ppo-hybrid": case("ppo", [VECTOR, PAIR], 2, (3, 2), normalize=True),
    "ppo-one-layer": case("ppo", [VECTOR], 1, num_layers=1),
    "ppo-simple": case("ppo", [PICTURE, VECTOR], 0, (3,), vis_encode_type="simple", normalize=True),
    "ppo-nature": case("ppo", [(3, 36, 40)], 2, vis_encode_type="nature_cnn"),
    "ppo-resnet": case("ppo", [(3, 17, 20)], 2, vis_encode_type="resnet"),
    "ppo-match3": case("ppo", [(4, 6, 7)], 0, (5,), vis_encode_type="match3"),
    "ppo-flat": case("ppo", [(2, 6, 7), VECTOR], 0, (5,), vis_encode_type="fully_connected"),
    "ppo-lstm": case("ppo", [VECTOR], 2, (3,), normalize=True, memory={"sequence_length": 8, "memory_size": 12}),
    "ppo-goal": case("ppo", [VECTOR, PAIR], 2),
    "ppo-entities": case("ppo", [VECTOR, (4, 3)], 2),
    "sac-numbers": case("sac", [VECTOR], 2, normalize=True),
    "sac-choices": case("sac", [VECTOR], 0, (3, 2)),
    "sac-hybrid": case("sac", [VECTOR, PAIR], 2, (3, 2), normalize=True),
    "sac-lstm": case("sac", [VECTOR], 2, memory={"sequence_length": 8, "memory_size": 12}),
    "poca-numbers": case("poca", [VECTOR], 2, normalize=True),
    "poca-hybrid": case("poca", [VECTOR], 2, (3,)),
}
GOAL = "ppo-goal"


def filled(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers for a weight, drawn by its name, about as large as a network starts with."""
    name = name.replace("observation_encoder.", "")  # a sensor's weights have two names there
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    fan = int(np.prod(shape[1:])) if len(shape) > 1 else 4
    drawn = rng.standard_normal(shape) / np.sqrt(fan)
    return (np.abs(drawn) * 30 + 20 if name.endswith("running_variance") else drawn).astype(np.float32)


def observations(shapes: list[tuple[int, ...]]) -> list[np.ndarray]:
    """A few observations for each sensor; images have values from 0 to 1."""
    drawn = [filled(f"obs {place}", (ROWS, *shape)) for place, shape in enumerate(shapes)]
    return [np.abs(one) * 4 % 1 if one.ndim == 4 else one * 4 for one in drawn]


def spec_of(shapes: list[tuple[int, ...]], numbers: int, branches: tuple[int, ...], has_goal: bool) -> BehaviorSpec:
    """Returns observations and actions of a behavior."""
    kinds = {1: (DimensionProperty.NONE,), 2: (DimensionProperty.VARIABLE_SIZE, DimensionProperty.NONE),
             3: (DimensionProperty.UNSPECIFIED,) * 3}  # fmt: skip
    seen = [
        ObservationSpec(
            shape,
            kinds[len(shape)],
            ObservationType.GOAL_SIGNAL if has_goal and place else ObservationType.DEFAULT,
            f"sensor{place}",
        )
        for place, shape in enumerate(shapes)
    ]
    return BehaviorSpec(seen, ActionSpec(numbers, branches))


class Noise(BaseEnv):
    """Four agents that see noise, in two groups where there are some, and end together."""

    def __init__(self, spec: BehaviorSpec, grouped: bool) -> None:
        super().__init__()
        self.spec, self.rng = spec, np.random.default_rng(0)
        self.groups = np.array([1, 1, 2, 2] if grouped else [0] * 4, dtype=np.int32)
        self.reset()

    @property
    def behavior_specs(self) -> BehaviorMapping:
        return BehaviorMapping({f"{NAME}?team=0": self.spec})

    def reset(self) -> None:
        self.time, self.ids = 0, np.arange(4, dtype=np.int32)
        self.ended, self.asking = TerminalSteps.empty(self.spec), self._asking()

    def draw(self, rows: int) -> list[np.ndarray]:
        shapes = [one.shape for one in self.spec.observation_specs]
        return [
            (self.rng.random((rows, *shape)) if len(shape) == 3 else self.rng.standard_normal((rows, *shape)) * 2)
            .astype(np.float32)
            for shape in shapes
        ]  # fmt: skip

    def _asking(self) -> DecisionSteps:
        reward = self.rng.standard_normal(4).astype(np.float32)
        masks = [np.zeros((4, size), dtype=bool) for size in self.spec.action_spec.discrete_branches] or None
        return DecisionSteps(self.draw(4), reward, self.ids.copy(), masks, self.groups, reward * 0.5)

    def set_actions(self, behavior_name: str, action: object) -> None:
        pass

    def set_action_for_agent(self, behavior_name: str, agent_id: int, action: object) -> None:
        raise NotImplementedError

    def get_steps(self, behavior_name: str) -> tuple[DecisionSteps, TerminalSteps]:
        return self.asking, self.ended

    def step(self) -> None:
        self.time += 1
        self.ended = TerminalSteps.empty(self.spec)
        if self.time % LENGTH == 0:
            reward = self.rng.standard_normal(4).astype(np.float32)
            whole = np.zeros(4, dtype=bool)
            self.ended = TerminalSteps(self.draw(4), reward, whole, self.ids.copy(), self.groups, reward * 0.5)
            self.ids += 4  # an agent that begins anew has a new id
        self.asking = self._asking()

    def close(self) -> None:
        pass


def train(name: str, folder: Path) -> object:
    """Trains a case as ``mlagents-learn`` does, with all that it writes; gives the policy."""
    section, shapes, numbers, branches = CASES[name]
    options = RunOptions.from_dict(
        {"behaviors": {NAME: section}, "checkpoint_settings": {"run_id": name, "results_dir": str(folder)},
         "environment_parameters": {"size": 2.0}}
    )  # fmt: skip
    checkpoints = options.checkpoint_settings
    GlobalTrainingStatus.saved_state.clear()
    reset_timers()
    StatsReporter.writers.clear()
    StatsReporter.stats_dict.clear()
    StatsReporter.add_writer(TensorboardWriter(checkpoints.write_path, True))
    StatsReporter.add_writer(GaugeWriter())
    setup_init_path(options.behaviors, checkpoints.maybe_init_path) if checkpoints.maybe_init_path else None
    env = Noise(spec_of(shapes, numbers, branches, name == GOAL), section["trainer_type"] == "poca")
    manager = SimpleEnvManager(env, EnvironmentParametersChannel())
    parameters = EnvironmentParameterManager(options.environment_parameters, 0, False)
    factory = TrainerFactory(options.behaviors, checkpoints.write_path, True, False, 0, parameters, None, False)
    controller = TrainerController(factory, checkpoints.write_path, name, parameters, True, 0)
    try:
        controller.start_learning(manager)
    finally:
        write_run_options(checkpoints.write_path, options)
        os.makedirs(checkpoints.run_logs_dir, exist_ok=True)
        write_timing_tree(checkpoints.run_logs_dir)
        write_training_status(checkpoints.run_logs_dir)
    trainer = next(iter(controller.trainers.values()))
    return next(iter(trainer.policies.values()))


def answers(actor: torch.nn.Module, obs: list[np.ndarray], branches: tuple[int, ...]) -> dict[str, np.ndarray]:
    """Returns outputs of ML-Agents' network for observations: logits, means, log standard deviations, memory."""
    inputs = [torch.from_numpy(one) for one in obs]
    rows, found = len(obs[0]), {}
    with torch.no_grad():
        memory = None
        if actor.memory_size:
            memory = torch.from_numpy(filled("memory", (1, rows, actor.memory_size)))
            found["memory"] = memory[0].numpy()
        features, after = actor.network_body(inputs, memories=memory, sequence_length=1)
        if actor.memory_size:
            found["remembered"] = after[0].numpy()
        drawn = actor.action_model._get_dists(features, torch.ones(rows, sum(branches)))
        if drawn.discrete is not None:
            found["logits"] = torch.cat([one.logits for one in drawn.discrete], 1).numpy()
        if drawn.continuous is not None:
            found["mean"], found["log_std"] = drawn.continuous.mean.numpy(), drawn.continuous.std.log().numpy()
    return found


def answers_of(name: str, policy: object) -> dict[str, np.ndarray]:
    """Returns names and shapes of the weights, and outputs with learned weights and with filled ones, for a test."""
    section, shapes, numbers, branches = CASES[name]
    actor, obs = policy.actor, observations(shapes)
    state = actor.state_dict()
    kept = {f"{name}/learned/{key}": value for key, value in answers(actor, obs, branches).items()}
    drawn = [key for key, value in state.items() if value.dtype == torch.float32 and "version" not in key]
    new = {key: torch.from_numpy(filled(key, tuple(state[key].shape))) for key in drawn}
    actor.load_state_dict({**state, **new})
    kept |= {f"{name}/filled/{key}": value for key, value in answers(actor, obs, branches).items()}
    facts = {
        "section": section,
        "shapes": shapes,
        "branches": branches,
        "numbers": numbers,
        "weights": {key: list(state[key].shape) for key in drawn},
        "whole": {key: value.tolist() for key, value in state.items() if key not in drawn},
    }
    return {f"{name}/facts": np.array(json.dumps(facts)), **kept}


def main() -> None:
    """Trains the cases."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="+", choices=CASES, default=list(CASES))
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.onnx.export = legacy(torch.onnx.export)
    returns = poca_trainer.lambda_return
    poca_trainer.lambda_return = lambda *args, value_next=0.0, **kwargs: returns(
        *args,
        **kwargs,
        value_next=float(np.asarray(value_next).reshape(())),  # an array of one is no number any more
    )
    json.JSONEncoder.default = lambda _, one: float(one)  # numpy's numbers are no floats any more
    register_trainer_plugins()
    kept: dict[str, np.ndarray] = {}
    for name in args.only:
        np.random.seed(0)
        torch.manual_seed(0)
        shutil.rmtree(args.folder / name, ignore_errors=True)
        kept |= answers_of(name, train(name, args.folder))
        print(name, flush=True)
    if args.only == list(CASES):
        np.savez_compressed(args.folder / "their_answers.npz", **kept)


def legacy(export: object) -> object:
    """The exporter that mlagents 1.1.0 was written for."""
    return lambda *args, **kwargs: export(*args, **{**kwargs, "dynamo": False})


if __name__ == "__main__":
    main()
