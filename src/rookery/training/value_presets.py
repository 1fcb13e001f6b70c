"""Presets of what learns values of actions: DQN and PQN (see `training/presets.py`)."""

from __future__ import annotations

from typing import Any

from rookery.core.schedules import Linear

CARTPOLE: dict[str, Any] = {
    "sampling.num_envs": 8,
    "algorithm.lr": Linear(2.3e-3, 0.0),
    "algorithm.train_every": 256,
    "algorithm.updates_per_step": 0.5,
    "algorithm.target.every": 128,
    "algorithm.exploration.epsilon": Linear(1.0, 0.04, 8_000),
    "algorithm.model.hidden": (256, 256),
    "stop.env_steps": 50_000,
}

TABLE: dict[str, Any] = {
    "sampling.num_envs": 4,
    "algorithm.lr": Linear(1e-3, 0.0),
    "algorithm.target.every": 100,
    "algorithm.exploration.epsilon": Linear(1.0, 0.05, 10_000),
}
"""What tasks of a few states and actions share."""

DQN_PRESETS: dict[str, dict[str, Any]] = {
    "CartPole-v1": CARTPOLE,
    "LunarLander-v3": {
        "sampling.num_envs": 8,
        "algorithm.lr": Linear(1e-3, 0.0),
        "algorithm.n_step": 3,
        "algorithm.batch_size": 128,
        "algorithm.train_every": 64,
        "algorithm.updates_per_step": 0.5,
        "algorithm.target.kind": "soft",
        "algorithm.exploration.epsilon": Linear(1.0, 0.02, 30_000),
        "algorithm.model.hidden": (128, 128),
        "stop.env_steps": 150_000,
    },
    "FrozenLake-v1": {**TABLE, "algorithm.gamma": 0.95, "stop.env_steps": 30_000},
    "CliffWalking-v1": {
        **TABLE,
        "env.config": {"max_episode_steps": 200},
        "algorithm.updates_per_step": 0.5,  # with half of them one seed of two went round far from the edge
        "algorithm.target.every": 200,
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
        "algorithm.values.rescale": True,  # values of 50 would saturate the cell before it tells states apart
        "algorithm.exploration.epsilon": Linear(1.0, 0.02, 40_000),
        "algorithm.replay.burn_in": 4,
        "algorithm.replay.capacity": 300_000,  # where only balance is left, it forgets what falling looks like
        "algorithm.model.hidden": (64,),
        "algorithm.model.normalize_obs": True,  # speed shows in small differences of the angle
        "algorithm.model.memory.kind": "lstm",
        "algorithm.model.memory.size": 32,
        "algorithm.model.memory.sequence_length": 16,
        "stop.env_steps": 300_000,
    },
    "MinAtar/*": {
        "sampling.num_envs": 8,
        "algorithm.lr": 2.5e-4,
        "algorithm.batch_size": 32,
        "algorithm.learning_starts": 5_000,
        "algorithm.train_every": 32,
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
        "algorithm.replay.kind": "prioritized",
        "algorithm.replay.capacity": 1_000_000,
        "algorithm.batch_size": 512,
        "algorithm.train_every": 256,
        "algorithm.updates_per_step": 0.0625,
        "algorithm.target.every": 2_500,
        "stop.env_steps": 10_000_000,
    },
}
"""By environment, and three by name (``--preset rainbow``): the plain algorithm, all improvements together (Hessel et
al. 2018, whose atoms must hold the returns of the task: ``values.low`` and ``values.high``), and many copies that fill
a prioritized memory (Horgan et al. 2018).
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
