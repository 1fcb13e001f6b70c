"""Presets: settings that suit a kind of space or a known environment, as config layers like any other.

A space preset always applies, below everything a user says; it depends on whether the policy has a memory, too. An
environment preset applies on request (``preset="auto"`` or its name; on by default at the command line), and
belongs to one algorithm. They are tables of paths and values; `rookery` prints which one is used.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from fnmatch import fnmatchcase
from typing import Any

from rookery.core.errors import ConfigError, nearest
from rookery.core.schedules import Linear
from rookery.core.settings.layers import Layer
from rookery.core.spaces.arrays import ActionSpec, ObsSpec

PPO_SPACES: dict[str, dict[str, Any]] = {
    "continuous": {
        "fragment_length": 256,
        "minibatch_size": 64,
        "epochs": 10,
        "entropy_coef": 0.0,
        "scale_rewards": True,
        "model.normalize_obs": True,
    },
    "image": {"lr": 2.5e-4, "clip": 0.1, "model.shared_trunk": True},
}
"""Of PPO, by kind of space."""

SPACE_PRESETS: dict[str, dict[str, dict[str, Any]]] = {
    "ppo": PPO_SPACES,
    "ppo_lagrangian": PPO_SPACES,
    "a2c": {
        "continuous": {"scale_rewards": True, "model.normalize_obs": True},
        "image": {"entropy_coef": 0.01, "model.shared_trunk": True},
    },
    "impala": {
        "continuous": {"entropy_coef": 0.0, "scale_rewards": True, "model.normalize_obs": True},
        "image": {"model.shared_trunk": True},
    },
    "appo": {
        "continuous": {"clip": 0.2, "entropy_coef": 0.0, "scale_rewards": True, "model.normalize_obs": True},
        "image": {"clip": 0.2, "model.shared_trunk": True},
    },
    "reinforce": {"continuous": {"model.normalize_obs": True}},
    "trpo": {"continuous": {"fragment_length": 256, "scale_rewards": True, "model.normalize_obs": True}},
    "sac": {"image": {"replay.capacity": 100_000}},
    "td3": {"image": {"replay.capacity": 100_000}},
    "ddpg": {"image": {"replay.capacity": 100_000}},
    "dqn": {
        "image": {
            "lr": 1e-4,
            "n_step": 1,
            "batch_size": 32,
            "train_every": 4,
            "updates_per_step": 0.25,
            "target.every": 250,
            "model.hidden": (64, 64),
        },
    },
}
"""Settings below `algorithm` by algorithm name and kind of space; for others, the defaults apply."""

MEMORY_PRESETS: dict[str, dict[str, Any]] = {
    "ppo": {"scale_rewards": True},
    "ppo_lagrangian": {"scale_rewards": True},
    "a2c": {"scale_rewards": True},
    "impala": {"scale_rewards": True},
    "appo": {"scale_rewards": True, "clip": 0.2},
    "dqn": {
        "lr": 5e-4,
        "n_step": 1,
        "batch_size": 16,
        "train_every": 4,
        "updates_per_step": 0.0625,
        "target.every": 250,
        "replay.burn_in": 8,
        "model.hidden": (64, 64),
    },
}
"""Settings by algorithm name, where `model.memory.kind` is not none, in addition to those of the space. The critic then
shares the actor's memory, and with returns near 1 its gradient does not dominate the actor's; a batch of DQN holds
sequences of many decisions each.
"""

MUJOCO: dict[str, Any] = {
    "sampling.num_envs": 16,
    "algorithm.lr": Linear(1e-3, 0.0),
    "algorithm.fragment_length": 128,
    "algorithm.minibatch_size": 256,
    "stop.env_steps": 1_000_000,
}
"""Common settings of MuJoCo's robots: batches of 2048 as in publications, but in 8 minibatches instead of 32, with a
larger learning rate to match. HalfCheetah and Hopper exceed their published scores with a quarter of the gradient steps
(benchmarks/results/learning.md); this was not measured for the others.
"""

HOPPER: dict[str, Any] = {
    **MUJOCO,
    "algorithm.lr": Linear(6e-4, 0.0),
    "algorithm.gamma": 0.995,
    "algorithm.gae_lambda": 0.98,
}
"""Common settings of the presets of robots with legs in two dimensions."""

EXPLORING: dict[str, Any] = {
    "sampling.num_envs": 32,
    "algorithm.lr": Linear(1e-3, 0.0),
    "algorithm.fragment_length": 32,
    "algorithm.minibatch_size": 256,
    "algorithm.epochs": 8,
    "algorithm.entropy_coef": 0.01,
    "algorithm.signals.extrinsic.strength": 2.0,
    "algorithm.signals.rnd": {},
    "stop.env_steps": 150_000,
}
"""Settings of tasks that need exploration, measured by benchmarks/studies/exploration.py."""

RECURRENT: dict[str, Any] = {
    "sampling.num_envs": 16,
    "algorithm.lr": Linear(1e-3, 0.0),
    "algorithm.fragment_length": 128,
    "algorithm.minibatch_size": 256,
    "algorithm.epochs": 10,
    "algorithm.entropy_coef": 0.0,
    "algorithm.scale_rewards": True,
    "algorithm.model.hidden": (64,),
    "algorithm.model.memory.kind": "lstm",
}
"""Common settings of tasks that need memory: updates of 2048 decisions in 8 minibatches, and one layer before the cell.
The critic shares the actor's memory, so the scale of the returns must not dominate the actor's gradient. The learning
rate ends at 0, because a policy that has solved such a task can become worse again.
"""

BY_LSTM: dict[str, Any] = {"sampling.num_envs": 16, "algorithm.model.memory.kind": "lstm"}
"""Settings of IMPALA and APPO for tasks that need memory, in addition to their defaults."""

SMALL: dict[str, Any] = {
    "sampling.num_envs": 4,
    "algorithm.lr": 1e-3,
    "algorithm.model.hidden": (64, 64),
    "stop.env_steps": 20_000,
}
"""Common settings of the off-policy presets of Pendulum and other small tasks: a small network is enough, and three
times as fast.
"""

ROBOT: dict[str, Any] = {
    "sampling.num_envs": 1,
    "algorithm.learning_starts": 10_000,
    "stop.env_steps": 1_000_000,
}
"""Common settings of the off-policy presets of MuJoCo's robots, as in publications."""

DQN_PRESETS: dict[str, dict[str, Any]] = {
    "CartPole-v1": {"sampling.num_envs": 8, "stop.env_steps": 50_000},
    "LunarLander-v3": {
        "sampling.num_envs": 8,
        "algorithm.exploration.epsilon": Linear(1.0, 0.02, 30_000),
        "stop.env_steps": 150_000,
    },
    "FrozenLake-v1": {
        "sampling.num_envs": 4,
        "algorithm.gamma": 0.95,
        "algorithm.n_step": 1,  # where the ice decides, longer returns blame the actions
        "algorithm.target.every": 100,
        "stop.env_steps": 30_000,
    },
    "CliffWalking-v1": {
        "sampling.num_envs": 4,
        "env.config": {"max_episode_steps": 200},
        "stop.env_steps": 50_000,
    },
    "StatelessCartPole": {
        "sampling.num_envs": 8,
        "algorithm.lr": Linear(1e-3, 0.0),
        "algorithm.gamma": 0.98,
        "algorithm.batch_size": 32,
        "algorithm.train_every": 256,
        "algorithm.updates_per_step": 0.0625,
        "algorithm.target.every": 100,
        "algorithm.n_step": 3,
        "algorithm.dueling": True,
        "algorithm.values.rescale": True,  # values of 50 would saturate the cell before it distinguishes states
        "algorithm.exploration.epsilon": Linear(1.0, 0.02, 40_000),
        "algorithm.replay.burn_in": 4,
        "algorithm.replay.capacity": 300_000,  # with balanced episodes only, the policy forgets how to recover
        "algorithm.model.hidden": (64,),
        "algorithm.model.normalize_obs": True,  # velocity is visible in small differences of the angle
        "algorithm.model.memory.kind": "lstm",
        "algorithm.model.memory.size": 32,
        "algorithm.model.memory.sequence_length": 16,
        "stop.env_steps": 300_000,
    },
    "MinAtar/*": {
        "sampling.num_envs": 8,
        "algorithm.lr": 2.5e-4,
        "algorithm.n_step": 1,
        "algorithm.batch_size": 32,
        "algorithm.learning_starts": 5_000,
        "algorithm.train_every": 32,
        "algorithm.updates_per_step": 0.25,
        "algorithm.target.every": 250,
        "algorithm.exploration.epsilon": Linear(1.0, 0.1, 100_000),
        "algorithm.model.hidden": (128,),
        "stop.env_steps": 1_000_000,
    },
    "ALE/*": {
        "env.implementation": "batched",
        "sampling.num_envs": 8,
        "algorithm.lr": 6.25e-5,
        "algorithm.adam_eps": 1.5e-4,
        "algorithm.batch_size": 32,
        "algorithm.learning_starts": 20_000,
        "algorithm.train_every": 32,
        "algorithm.target.every": 2_000,
        "algorithm.exploration.epsilon": Linear(1.0, 0.01, 250_000),
        "algorithm.replay.capacity": 1_000_000,
        "algorithm.model.hidden": (),
        "stop.env_steps": 10_000_000,
    },
}
"""By environment."""

NAMED_PRESETS: dict[str, dict[str, dict[str, Any]]] = {
    "dqn": {
        "simpleq": {
            "sampling.num_envs": 8,
            "algorithm.double": False,
            "algorithm.dueling": False,
            "algorithm.n_step": 1,
            "algorithm.values.kind": "mean",
            "algorithm.exploration.kind": "epsilon",
            "algorithm.replay.kind": "uniform",
            "stop.env_steps": 1_000_000,
        },
        "rainbow": {
            "sampling.num_envs": 8,
            "algorithm.double": True,
            "algorithm.dueling": True,
            "algorithm.n_step": 3,
            "algorithm.values.kind": "categorical",
            "algorithm.exploration.kind": "noisy",
            "algorithm.replay.kind": "prioritized",
            "algorithm.replay.alpha": 0.5,
            "algorithm.replay.beta": Linear(0.4, 1.0),
            "stop.env_steps": 1_000_000,
        },
        "apex": {
            "sampling.num_envs": 64,
            "algorithm.double": True,
            "algorithm.dueling": True,
            "algorithm.n_step": 3,
            "algorithm.exploration.epsilon": 0.4,
            "algorithm.exploration.per_env_epsilon": 7.0,
            "algorithm.replay.kind": "prioritized",
            "algorithm.replay.capacity": 1_000_000,
            "algorithm.batch_size": 512,
            "algorithm.train_every": 256,
            "algorithm.updates_per_step": 0.0625,
            "algorithm.target.every": 2_500,
            "stop.env_steps": 10_000_000,
        },
    },
}
"""By algorithm name and name (``--preset rainbow``), for any environment: the plain algorithm, all improvements at once
(Hessel et al. 2018, whose atoms must hold the returns of the task: ``values.low`` and ``values.high``), and many copies
that fill a prioritized memory (Horgan et al. 2018).
"""

PQN_PRESETS: dict[str, dict[str, Any]] = {
    "CartPole-v1": {
        "sampling.num_envs": 8,
        "algorithm.lr": Linear(2e-3, 0.0),
        "algorithm.epsilon": Linear(1.0, 0.05, 20_000),
        "stop.env_steps": 200_000,
    },
    "MinAtar/*": {
        "sampling.num_envs": 64,
        "algorithm.lr": Linear(5e-4, 0.0),
        "algorithm.epsilon": Linear(1.0, 0.05, 200_000),
        "algorithm.epochs": 2,
        "algorithm.model.hidden": (128,),
        "stop.env_steps": 1_000_000,
    },
}
"""By environment."""

PULLS: dict[str, Any] = {"sampling.num_envs": 1, "sampling.iteration_steps": 100, "stop.env_steps": 1_000}
SHARED_PULLS = {**PULLS, "algorithm.arm_features": "obs"}
PULLS_BY_CONTEXT = dict.fromkeys(("LinearBandit", "QuadraticBandit", "WheelBandit"), PULLS)

ENV_PRESETS: dict[str, dict[str, dict[str, Any]]] = {
    "ppo": {
        "CartPole-v1": {
            "sampling.num_envs": 8,
            "algorithm.lr": Linear(1e-3, 0.0),
            "algorithm.clip": Linear(0.2, 0.0),
            "algorithm.gamma": 0.98,
            "algorithm.gae_lambda": 0.8,
            "algorithm.fragment_length": 32,
            "algorithm.minibatch_size": 256,
            "algorithm.epochs": 20,
            "algorithm.entropy_coef": 0.0,
            "stop.env_steps": 100_000,
        },
        "Acrobot-v1": {
            "sampling.num_envs": 16,
            "algorithm.gae_lambda": 0.94,
            "algorithm.fragment_length": 256,
            "algorithm.minibatch_size": 64,
            "algorithm.epochs": 4,
            "algorithm.entropy_coef": 0.0,
            "algorithm.model.normalize_obs": True,
            "stop.env_steps": 1_000_000,
        },
        "MountainCar-v0": {
            "sampling.num_envs": 16,
            "algorithm.lr": Linear(2e-3, 0.0),
            "algorithm.gae_lambda": 0.98,
            "algorithm.fragment_length": 16,
            "algorithm.minibatch_size": 64,
            "algorithm.epochs": 4,
            "algorithm.entropy_coef": 0.0,
            "algorithm.model.normalize_obs": True,
            "algorithm.scale_rewards": True,
            "stop.env_steps": 1_000_000,
        },
        "Pendulum-v1": {
            "sampling.num_envs": 4,
            "algorithm.lr": 1e-3,
            "algorithm.gamma": 0.9,
            "algorithm.gae_lambda": 0.95,
            "algorithm.fragment_length": 1024,
            "algorithm.minibatch_size": 64,
            "algorithm.epochs": 10,
            "algorithm.entropy_coef": 0.0,
            "algorithm.scale_rewards": False,
            "algorithm.model.normalize_obs": False,
            "stop.env_steps": 100_000,
        },
        "LunarLander-v3": {
            "sampling.num_envs": 16,
            "algorithm.lr": Linear(1e-3, 0.0),
            "algorithm.gamma": 0.995,
            "algorithm.gae_lambda": 0.98,
            "algorithm.fragment_length": 256,
            "algorithm.minibatch_size": 256,
            "algorithm.epochs": 4,
            "algorithm.scale_rewards": True,
            "stop.env_steps": 1_000_000,
        },
        "MiniGrid-Memory*": {
            **RECURRENT,
            "env.wrappers": ("rookery.tasks.grids:OneHotView",),
            "algorithm.epochs": 4,
            "algorithm.entropy_coef": 0.01,
            "stop.env_steps": 1_000_000,
        },
        "MiniGrid-*": {
            "sampling.num_envs": 8,
            "algorithm.lr": Linear(1e-3, 0.0),
            "algorithm.clip": 0.2,
            "algorithm.minibatch_size": 256,
            "algorithm.epochs": 4,
            "algorithm.model.shared_trunk": False,
            "stop.env_steps": 100_000,
        },
        "Swimmer-v5": {
            "sampling.num_envs": 4,
            "algorithm.lr": 6e-4,
            "algorithm.gamma": 0.9999,
            "algorithm.gae_lambda": 0.98,
            "algorithm.fragment_length": 1024,
            "algorithm.minibatch_size": 256,
            "algorithm.epochs": 10,
            "stop.env_steps": 1_000_000,
        },
        "InvertedPendulum-v5": {**MUJOCO, "algorithm.model.log_std_init": -1.0, "stop.env_steps": 300_000},
        "InvertedDoublePendulum-v5": {**MUJOCO, "algorithm.model.log_std_init": -1.0},
        "HalfCheetah-v5": {
            **MUJOCO,
            "algorithm.gamma": 0.98,
            "algorithm.gae_lambda": 0.92,
            "algorithm.model.log_std_init": -1.0,
        },
        "Hopper-v5": HOPPER,
        "Walker2d-v5": HOPPER,
        "Ant-v5": {**MUJOCO, "algorithm.lr": Linear(6e-4, 0.0), "algorithm.model.log_std_init": -1.0},
        "ALE/*": {
            "env.implementation": "batched",
            "sampling.num_envs": 8,
            "algorithm.lr": Linear(2.5e-4, 0.0),
            "algorithm.clip": 0.1,
            "algorithm.fragment_length": 128,
            "algorithm.minibatch_size": 256,
            "algorithm.epochs": 4,
            "algorithm.entropy_coef": 0.01,
            "algorithm.model.hidden": (),
            "stop.env_steps": 10_000_000,
        },
        "StatelessCartPole": {
            **RECURRENT,
            "algorithm.gamma": 0.98,
            "algorithm.gae_lambda": 0.9,
            "stop.env_steps": 300_000,
        },
        "RepeatAfterMe": {**RECURRENT, "stop.env_steps": 100_000},
        "RepeatPrevious": {**RECURRENT, "stop.env_steps": 400_000},
        "CueCorridor": {**RECURRENT, "stop.env_steps": 100_000},
        "TwoCues": {**RECURRENT, "stop.env_steps": 100_000},
        "DeepSea": EXPLORING,
        "KeyDoor": EXPLORING,
        "ConnectFour": {"sampling.num_envs": 32, "algorithm.gae_lambda": 1.0, "stop.env_steps": 1_000_000},
        "Sorter": {
            "sampling.num_envs": 32,
            "algorithm.lr": 1e-3,
            "algorithm.gamma": 0.95,
            "algorithm.fragment_length": 64,
            "algorithm.minibatch_size": 512,
            "algorithm.epochs": 4,
            "algorithm.entropy_coef": 0.003,
            "algorithm.model.shared_trunk": True,
            "algorithm.model.entity_size": 32,
            "stop.env_steps": 250_000,
        },
        "simple_spread_*": {
            "sampling.num_envs": 32,
            "algorithm.lr": Linear(1e-3, 0.0),
            "algorithm.gamma": 0.95,
            "algorithm.fragment_length": 100,
            "algorithm.minibatch_size": 1200,
            "algorithm.epochs": 8,
            "algorithm.scale_rewards": True,
            "stop.env_steps": 400_000,
        },
        "knights_archers_zombies_*": {
            "sampling.num_envs": 8,
            "algorithm.lr": Linear(1e-3, 0.0),
            "algorithm.gamma": 0.98,
            "algorithm.fragment_length": 128,
            "algorithm.minibatch_size": 512,
            "algorithm.epochs": 8,
            "stop.env_steps": 200_000,
        },
    },
    "a2c": {
        "CartPole-v1": {"sampling.num_envs": 8, "sampling.iteration_steps": 2_000, "stop.env_steps": 200_000},
    },
    "impala": {
        "CartPole-v1": {"sampling.num_envs": 16, "stop.env_steps": 1_000_000},
        "StatelessCartPole": {**BY_LSTM, "stop.env_steps": 1_000_000},
    },
    "appo": {
        "CartPole-v1": {"sampling.num_envs": 16, "stop.env_steps": 200_000},
        "StatelessCartPole": {**BY_LSTM, "stop.env_steps": 1_000_000},
        "Pendulum-v1": {
            "sampling.num_envs": 16,
            "algorithm.lr": Linear(1e-3, 1e-4),
            "algorithm.gamma": 0.9,
            "algorithm.minibatch_size": 64,
            "algorithm.scale_rewards": False,
            "algorithm.model.normalize_obs": False,
            "stop.env_steps": 500_000,
        },
    },
    "ppo_lagrangian": {
        "HazardGrid": {
            "sampling.num_envs": 16,
            "algorithm.cost_limit": 2.0,
            "algorithm.multiplier_lr": 5e-4,
            "algorithm.multiplier_kp": 0.03,
            "algorithm.multiplier_max": 0.2,
            "stop.env_steps": 200_000,
        },
    },
    "trpo": {
        "CartPole-v1": {"sampling.num_envs": 8, "stop.env_steps": 100_000},
        "Pendulum-v1": {
            "sampling.num_envs": 4,
            "algorithm.gamma": 0.9,
            "algorithm.max_kl": 0.02,
            "algorithm.fragment_length": 512,
            "algorithm.scale_rewards": False,
            "algorithm.model.normalize_obs": False,
            "stop.env_steps": 200_000,
        },
        "HalfCheetah-v5": {
            "sampling.num_envs": 16,
            "algorithm.gamma": 0.98,
            "algorithm.gae_lambda": 0.92,
            "algorithm.max_kl": 0.04,
            "algorithm.fragment_length": 128,
            "algorithm.model.log_std_init": -1.0,
            "stop.env_steps": 1_000_000,
        },
    },
    "reinforce": {
        "CartPole-v1": {"sampling.num_envs": 8, "stop.env_steps": 200_000},
    },
    "linucb": {"SharedBandit": SHARED_PULLS, **PULLS_BY_CONTEXT},
    "lints": {"SharedBandit": SHARED_PULLS, **PULLS_BY_CONTEXT},
    "neural_linear": {**PULLS_BY_CONTEXT, "QuadraticBandit": {**PULLS, "stop.env_steps": 3_000}},
    "es": {
        "CartPole-v1": {"sampling.num_envs": 8, "stop.env_steps": 200_000},
    },
    "ars": {
        "CartPole-v1": {"sampling.num_envs": 8, "stop.env_steps": 100_000},
        "Swimmer-v5": {
            "sampling.num_envs": 8,
            "algorithm.num_directions": 4,
            "algorithm.lr": 0.03,
            "stop.env_steps": 320_000,
        },
    },
    "alphazero": {
        "TicTacToe": {
            "sampling.num_envs": 64,
            "algorithm.search.simulations": 16,
            "algorithm.rollout_size": 2048,
            "algorithm.minibatch_size": 128,
            "stop.env_steps": 80_000,
        },
        "ConnectFour": {
            "sampling.num_envs": 256,
            "algorithm.search.simulations": 24,
            "algorithm.rollout_size": 8192,
            "algorithm.window": 200_000,
            "stop.env_steps": 1_000_000,
        },
    },
    "sac": {
        "Pendulum-v1": SMALL,
        "MountainCarContinuous-v0": {
            **SMALL,
            "algorithm.gamma": 0.999,
            "algorithm.tau": 0.02,
            "algorithm.learning_starts": 100,
            "algorithm.updates_per_step": 0.25,
            "algorithm.exploration.kind": "ou",
            "algorithm.exploration.theta": 0.1,
            "stop.env_steps": 100_000,
        },
        "CartPole-v1": {**SMALL, "stop.env_steps": 50_000},
        "LunarLanderContinuous-v3": {
            "sampling.num_envs": 4,
            "algorithm.lr": Linear(7.3e-4, 0.0),
            "algorithm.tau": 0.01,
            "algorithm.learning_starts": 10_000,
            "stop.env_steps": 500_000,
        },
        **dict.fromkeys(("HalfCheetah-v5", "Hopper-v5", "Walker2d-v5", "Ant-v5"), ROBOT),
        "Swimmer-v5": {**ROBOT, "algorithm.gamma": 0.999},
    },
    "td3": {
        "Pendulum-v1": SMALL,
        "LunarLanderContinuous-v3": {
            "sampling.num_envs": 4,
            "algorithm.lr": 1e-3,
            "algorithm.learning_starts": 10_000,
            "stop.env_steps": 300_000,
        },
        **dict.fromkeys(("HalfCheetah-v5", "Hopper-v5", "Walker2d-v5", "Ant-v5"), ROBOT),
    },
    "ddpg": {
        "Pendulum-v1": SMALL,
        "HalfCheetah-v5": ROBOT,
    },
    "dqn": DQN_PRESETS,
    "pqn": PQN_PRESETS,
}
"""By algorithm name and environment name (``*`` matches anything): settings by full path."""


def space_kind(obs: ObsSpec, action: ActionSpec, codes: Collection[str]) -> str:
    """Returns the space preset of an agent: ``image`` (of pixels), else ``continuous`` (with continuous actions), else
    ``discrete``; `codes` are the paths of categorical images.
    """
    if any(leaf.is_image and leaf.path not in codes for leaf in obs.leaves):
        return "image"
    return "continuous" if action.num_numbers else "discrete"


def space_layer(
    algorithm: str,
    obs: ObsSpec,
    action: ActionSpec,
    prefix: str,
    *,
    remembers: bool,
    codes: Collection[str],
) -> Layer:
    """Returns the space preset of an algorithm as a layer of paths below `prefix` (``algorithm`` or ``policies.<id>``).

    Args:
        algorithm: Short name of the algorithm.
        obs: The observations of the agents.
        action: The actions of the agents.
        prefix: The path of the settings of the algorithm.
        remembers: Whether the policy has a learned memory, for which there is a preset too.
        codes: Paths of categorical images.
    """
    kind = space_kind(obs, action, codes)
    values = dict(SPACE_PRESETS.get(algorithm, {}).get(kind, {}))
    if remembers:
        values |= MEMORY_PRESETS.get(algorithm, {})
    source = f"space preset {kind} with memory" if remembers else f"space preset {kind}"
    return Layer(source, {f"{prefix}.{path}": value for path, value in values.items()})


def find_preset(preset: str, env_name: str, algorithm: str) -> tuple[str, Mapping[str, Any]] | None:
    """Returns the environment preset.

    Args:
        preset: ``none``, ``auto`` (the one for `env_name`, if there is one), or the name of one.
        env_name: The name of the environment.
        algorithm: Short name of the algorithm of the presets; empty for one without any.

    Raises:
        ConfigError: If the algorithm has no preset of that name.
    """
    if preset == "none":
        return None
    by_env = ENV_PRESETS.get(algorithm, {})
    if preset != "auto":
        known = by_env | NAMED_PRESETS.get(algorithm, {})
        if preset not in known:
            others = f", none or one of {', '.join(known)} (for {algorithm})" if known else " or none"
            raise ConfigError(
                f"preset = {preset!r}: there is none of that name; use auto{others}{nearest(preset, list(known))}"
            )
        return preset, known[preset]
    return next(((pattern, values) for pattern, values in by_env.items() if fnmatchcase(env_name, pattern)), None)
