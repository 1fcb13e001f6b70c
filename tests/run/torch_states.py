"""Common code of the tests of torch's global state: five states that a program may have set, and a run in one."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext

import numpy as np
import torch
from lives import digest

from recorded import keep
from rookery import Trainer, load_policy
from rookery.algorithms.capabilities import algorithms_with, known_capabilities
from rookery.algorithms.names import ALGORITHMS
from rookery.models.cells.table import CELLS
from team_envs import TwoStepGame


@contextmanager
def float64():
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


STATES = {
    "float64": float64,
    "meta": lambda: torch.device("meta"),
    "no_grad": torch.no_grad,
    "inference_mode": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
}
"""Contexts by name: default type, default device, no gradients, inference mode, autocast of the CPU."""

MEMORIES = ("none", *CELLS)

SOFT = {"batch_size": 8, "learning_starts": 16, "updates_per_step": 0.25, "replay.capacity": 100}
PLAYED = {"fragment_length": 8}
MINIBATCHES = {**PLAYED, "epochs": 2, "minibatch_size": 16}
LEARNED = {"batch_size": 16}
SETTINGS = {
    "ppo": MINIBATCHES,
    "ppo_lagrangian": MINIBATCHES,
    "trpo": {**PLAYED, "value_epochs": 2, "minibatch_size": 16},
    "mappo": MINIBATCHES,
    "poca": MINIBATCHES,
    "a2c": PLAYED,
    "impala": {**PLAYED, "rollout_size": 24},
    "appo": {**MINIBATCHES, "rollout_size": 24},
    "reinforce": {},
    "es": {"num_directions": 2},
    "ars": {"num_directions": 2},
    "alphazero": {**PLAYED, "search.simulations": 2, "minibatch_size": 16},
    "linucb": {},
    "lints": {},
    "neural_linear": {"train_every": 8, "gradient_steps": 2, "batch_size": 8, "history_size": 64},
    "dqn": SOFT,
    "pqn": MINIBATCHES,
    "vdn": SOFT,
    "qmix": SOFT,
    "maddpg": SOFT,
    "sac": SOFT,
    "td3": SOFT,
    "ddpg": SOFT,
    **dict.fromkeys(algorithms_with(offline=True), LEARNED),
    "dt": {**LEARNED, "context": 4, "layers": 1, "width": 8, "heads": 2},
}
"""Settings of a small run of each algorithm, below `algorithm`."""

OF_NUMBERS = ("sac", "td3", "ddpg", "cql", "td3bc", "iql")
"""Those that play Pendulum; the others play CartPole."""

WITH_MEMORY = algorithms_with(supports_memory=True, offline=False)

CASES = [(name, memory) for name in ALGORITHMS for memory in MEMORIES if memory == "none" or name in WITH_MEMORY]
"""Algorithms and kinds of memory that go together."""


def arguments_of(algorithm, memory, data):
    """Arguments of `Trainer` for a small run.

    Args:
        algorithm: Its name.
        memory: Kind of memory.
        data: Replay directories to learn from: one of choices and one of numbers.
    """
    settings = {f"algorithm.{name}": value for name, value in SETTINGS[algorithm].items()}
    settings["algorithm.name"] = algorithm
    if algorithm != "dt":
        settings["algorithm.model.hidden"] = (8,)
    if memory != "none":
        settings["algorithm.model.memory"] = {"kind": memory, "size": 8, "sequence_length": 4, "context": 3}
    if known_capabilities()[algorithm].offline:
        settings["algorithm.gradient_steps"] = 8
        return {"env": None, "config": settings, "replay": data[algorithm in OF_NUMBERS]}
    settings |= {"sampling.num_envs": 2, "sampling.iteration_steps": 32, "env.implementation": "serial"}
    settings |= {"evaluation.episodes": 2, "evaluation.max_episode_steps": 6}
    if known_capabilities()[algorithm].needs_team:
        return {"env": TwoStepGame, "config": {**settings, "teams": {"team": ("a", "b")}}}
    if algorithm == "ppo_lagrangian":
        return {"env": "HazardGrid", "config": settings}
    return {"env": "Pendulum-v1" if algorithm in OF_NUMBERS else "CartPole-v1", "config": settings}


def outcome(arguments, folder, state=nullcontext):
    """All that comes of a run whose whole life is within a context: its training, what it is measured to be, answers of
    its policies, and the same after it was saved and loaded.
    """
    with state(), Trainer(**arguments, seed=3, console="quiet") as trainer:
        if arguments["env"] is None:
            results = [trainer.learn(8)]
        else:
            results = [trainer.train_iteration(), trainer.evaluate(), trainer.train_iteration()]
        name, policy = next(iter(trainer.policies.items()))
        space = policy.own_spec.space
        space.seed(7)
        obs = space.sample()
        saved = trainer.save(folder)
        answers = [one.predict(obs, deterministic=False, rng=np.random.default_rng(1)) for one in
                   (policy, load_policy(saved, name))]  # fmt: skip
    first = digest(trainer)
    with state(), Trainer.load(saved, env=arguments["env"], console="quiet") as trainer:
        if arguments["env"] is not None:
            results.append(trainer.train_iteration())
    seen = [{name: value for name, value in vars(one).items() if "second" not in name} for one in results]
    return first, digest(trainer), [_plain(answer) for answer in answers], seen


def _plain(answer):
    """An answer of `predict`, which is an action or an action and a memory, as text with every bit."""
    if isinstance(answer, torch.Tensor):
        answer = answer.detach().numpy()
    if isinstance(answer, np.ndarray) and answer.dtype != object:
        return answer.tobytes().hex()
    if isinstance(answer, dict):
        return {name: _plain(part) for name, part in answer.items()}
    return [_plain(part) for part in answer] if isinstance(answer, tuple | list) else str(answer)


def data_sets(folder):
    """Replay directories of a few episodes of CartPole's spaces, and of Pendulum's."""
    import gymnasium

    made = []
    for name in ("CartPole-v1", "Pendulum-v1"):
        env, rng = gymnasium.make(name), np.random.default_rng(0)
        episodes = []
        for _ in range(4):
            action = rng.integers(0, 2, 10) if name == "CartPole-v1" else rng.uniform(-1, 1, (10, 1))
            obs = rng.normal(0, 1, (11, *env.observation_space.shape))
            episodes.append({"obs": obs, "action": action, "reward": rng.normal(size=10), "terminated": True})
        made.append(keep(folder / name, env.observation_space, env.action_space, episodes))
    return made
