"""Common code of the tests of stopping and resuming: small runs, their environments, and comparison of runs."""

from __future__ import annotations

import hashlib
import json

from lived_in import Composite, Flags, Forks, Saying, Turns, Walk, Weary, Windy

from rookery import (
    A2CConfig,
    AlphaZeroConfig,
    APPOConfig,
    ARSConfig,
    AWACConfig,
    CQLConfig,
    DiscreteCQLConfig,
    DQNConfig,
    ESConfig,
    IMPALAConfig,
    IQLConfig,
    Linear,
    LinTSConfig,
    LinUCBConfig,
    MAPPOConfig,
    MultiAgentArena,
    NeuralLinearConfig,
    PPOConfig,
    PPOLagrangianConfig,
    ReinforceConfig,
    SACConfig,
    TD3BCConfig,
    Trainer,
    TRPOConfig,
)
from rookery.algorithms.multi_agent.maddpg import MADDPGConfig
from rookery.algorithms.multi_agent.qmix import QMIXConfig
from rookery.algorithms.off_policy.td3 import TD3Config
from rookery.core.io.encoding import encode
from team_envs import Squad

FAST = PPOConfig(fragment_length=24, epochs=2, minibatch_size=48)
BRIEF = PPOConfig(fragment_length=8, epochs=1, minibatch_size=32, rollout_size=64)
GROUPED = MAPPOConfig(fragment_length=24, epochs=2, minibatch_size=48)
SLOWER = PPOConfig(fragment_length=37, epochs=1, minibatch_size=48)

RECALLING = FAST.replace(
    model={
        "normalize_obs": True,
        "memory": {
            "kind": "lstm", "size": 8, "sequence_length": 7, "previous_action": True, "previous_reward": True,
            "frame_stack": 2,
        },
    }
)  # fmt: skip
ATTENDING = SLOWER.replace(model={"memory": {"kind": "attention", "size": 8, "sequence_length": 9, "context": 5}})

REPLAYING = DQNConfig(
    batch_size=16,
    learning_starts=60,
    train_every=4,
    updates_per_step=0.25,
    n_step=3,
    lr=5e-4,
    replay={"capacity": 300},
    target={"every": 7},
    exploration={"epsilon": Linear(1.0, 0.1, steps=400)},
    model={"hidden": (16,)},
)
PRIORITIZED = REPLAYING.replace(
    updates_per_step=0.3,
    train_every=7,
    replay={"kind": "prioritized", "beta": Linear(0.4, 1.0, steps=300)},
    model={"normalize_obs": True},
)
SOFT = {"batch_size": 16, "learning_starts": 60, "updates_per_step": 0.2, "replay": {"capacity": 300}}
LIVELY = SACConfig(**SOFT, model={"hidden": (16,)})
TWINS = TD3Config(**SOFT, model={"hidden": (16,)})
FROM_DATA = {**SOFT, "model": {"hidden": (16,), "normalize_obs": True}}


def either(agent, episode):
    """One of two policies, drawn for each agent and episode."""
    return "a" if (episode.rng.random() < 0.5) == (agent in ("agent1", "player_1")) else "b"


def make(env, run_dir=None, cfg=FAST, **arguments):
    """A trainer of a small run."""
    return Trainer(env, cfg, **{"seed": 5, "num_envs": 3, "run_dir": run_dir, "checkpoint_every": 0, **arguments})


def rows(folder):
    """`metrics.jsonl` without what depends on the clock."""
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [{k: v for k, v in json.loads(line).items() if not k.startswith("time/")} for line in lines]


def digest(trainer):
    """One hash over all that a trainer remembers but the time: weights, moments, statistics, open rows, streams."""
    state = trainer.state_dict()
    for name in ("timers", "seconds", "criteria"):
        del state[name]
    if state["progress"] is not None:
        del state["progress"]["seconds"]
    structure, arrays = encode(state)
    return hashlib.sha256(json.dumps(structure).encode() + arrays).hexdigest()


def weights(trainer):
    """One hash over what policies and learners hold."""
    held = {
        "policies": {name: dict(policy.state_dict()) for name, policy in trainer.policies.items()},
        "learners": {name: learner.state_dict() for name, learner in trainer.learners.items()},
    }
    structure, arrays = encode(held)
    return hashlib.sha256(json.dumps(structure).encode() + arrays).hexdigest()


WINDS = {
    "env.parameters": {"place": {"sampler": "normal", "mean": 0.0, "std": 3.0}},
    "curriculum.wind": {
        "lessons": [0.5, {"value": {"sampler": "uniform", "low": -1, "high": 1}, "back": -1e9}, -2],
        "threshold": -500.0,
        "min_episodes": 2,
    },
}
"""Lessons that follow each other within a few iterations, beside a parameter that is drawn."""

MIXING = QMIXConfig(
    batch_size=8,
    learning_starts=60,
    train_every=24,
    updates_per_step=0.1,
    replay={"capacity": 300},
    model={"hidden": (8,), "memory": {"kind": "gru", "size": 8, "sequence_length": 6, "previous_action": True}},
)
ACTING = MADDPGConfig(**SOFT, model={"hidden": (8,)})
WALKERS = {
    "env": Squad,
    "teams": {"blue": ("a", "b", "c")},
    "policy_mapping": {"blue": "blue", "guard": "guard"},
    "config": {"sampling.iteration_steps": 60},
}

LONG = {"config": {"sampling.iteration_steps": 60}}
"""Iterations as short as those of the others."""

AGAINST_ITSELF = {
    "self_play.main": {
        "snapshot_every": 150, "swap_every": 60, "window": 3, "anchors": {"random": "random"}, "rating_games": 2,
    },
}  # fmt: skip
"""Snapshots and swaps within a few iterations."""

LEAGUE = {"self_play.main": {**AGAINST_ITSELF["self_play.main"], "opponents": "league", "snapshot_every": 70}}

IN_TURN = {
    "self_play.red": {"snapshot_every": 60, "swap_every": 0, "window": 2, "team_change_every": 70},
    "self_play.blue": {"snapshot_every": 60, "swap_every": 50, "opponents": "prioritized", "rating_games": 0},
}
"""Two policies, each of which learns in turn."""

CASES = {
    "one policy": {"env": "CartPole-v1", "num_envs": 4},
    "serial, by state": {"env": "CartPole-v1", "config": {"env.implementation": "serial"}},
    "normalizers, evaluation": {
        "env": "Pendulum-v1",
        "cfg": FAST.replace(scale_rewards=True, model={"normalize_obs": True}),
        "evaluation_every": 2,
        "evaluation_episodes": 2,
    },
    "acrobot": {"env": "Acrobot-v1"},
    "mountain car": {"env": "MountainCarContinuous-v0"},
    "frozen lake": {"env": "FrozenLake-v1"},
    "cliff": {"env": "CliffWalking-v1"},
    "taxi": {"env": "Taxi-v4"},
    "blackjack, by actions": {"env": "Blackjack-v1"},
    "random mapping, batched": {
        "env": MultiAgentArena,
        "policies": {"a": FAST, "b": SLOWER},
        "policy_mapping": either,
        "evaluation_every": 3,
        "evaluation_episodes": 2,
        "env_config": {"max_timesteps": 23},
    },
    "random mapping, serial": {
        "env": MultiAgentArena,
        "policies": {"a": FAST, "b": SLOWER},
        "policy_mapping": either,
        "config": {"env.implementation": "serial"},
        "env_config": {"max_timesteps": 23},
    },
    "a frozen policy": {
        "env": MultiAgentArena,
        "policies": {"a": FAST, "b": {"frozen": True}},
        "policy_mapping": {"agent1": "a", "agent2": "b"},
    },
    "iterations of fixed length": {"env": "CartPole-v1", "config": {"sampling.iteration_steps": 50}},
    "by actions": {"env": Walk},
    "drawn parameters": {
        "env": "Pendulum-v1",
        "config": {
            "env.parameters.mass": {"sampler": "loguniform", "low": 0.5, "high": 2.0},
            "env.parameters.gravity": {"sampler": "choice", "values": [5.0, 10.0]},
        },
    },
    "lessons, by actions": {"env": Windy, "config": WINDS},
    "lessons, with resets": {"env": Windy, "config": {**WINDS, "curriculum.wind.require_reset": True}},
    "lessons, played ahead": {"env": Windy, "config": {**WINDS, "sampling.staleness": 1}},
    "lessons, batched": {
        "env": "WallCurriculum",
        "env_config": {"max_steps": 13},
        "config": {
            "curriculum.wall_height": {"lessons": [0, 1.0, 3.0], "threshold": -0.2, "min_episodes": 3},
            "env.parameters.block_distance": {"sampler": "intervals", "intervals": [[0, 1], [3, 5]]},
        },
    },
    "by its own word": {"env": Saying},
    "composite actions": {"env": Composite},
    "flags as actions": {"env": Flags},
    "a2c": {"env": "CartPole-v1", "cfg": A2CConfig(scale_rewards=True), "config": {"sampling.iteration_steps": 100}},
    "impala and appo": {
        "env": MultiAgentArena,
        "policies": {
            "a": IMPALAConfig(fragment_length=8, rollout_size=70),
            "b": APPOConfig(fragment_length=12, rollout_size=70, minibatch_size=32, buffered_batches=3, batch_uses=3),
        },
        "policy_mapping": {"agent1": "a", "agent2": "b"},
        "env_config": {"max_timesteps": 23},
    },
    "mappo, who goes early": {"env": "rookery.tasks:Sacrifice", "cfg": GROUPED},
    "reinforce": {"env": "CartPole-v1", "cfg": ReinforceConfig(), "config": {"sampling.iteration_steps": 200}},
    "es": {
        "env": "CartPole-v1",
        "cfg": ESConfig(num_directions=4, noise_std=1.0, model={"normalize_obs": True}),
        "config": {"sampling.iteration_steps": 200},
    },
    "ppo-lagrangian": {
        "env": "HazardGrid",
        "cfg": PPOLagrangianConfig(fragment_length=40, epochs=2, cost_limit=2.0, multiplier_kp=0.1),
    },
    "trpo": {"env": "Pendulum-v1", "cfg": TRPOConfig(fragment_length=40, value_epochs=2, scale_rewards=True)},
    "ars": {"env": "CartPole-v1", "cfg": ARSConfig(num_directions=3), "config": {"sampling.iteration_steps": 200}},
    "alphazero": {
        "env": "TicTacToe",
        "cfg": AlphaZeroConfig(rollout_size=40, minibatch_size=16, window=100, search={"simulations": 3}),
    },
    "linucb": {
        "env": "LinearBandit",
        "cfg": LinUCBConfig(discount=0.9),
        "config": {"sampling.iteration_steps": 20, "env.config": {"redraw_every": 7}},
    },
    "lints": {
        "env": "SharedBandit",
        "cfg": LinTSConfig(arm_features="obs"),
        "config": {"sampling.iteration_steps": 20},
    },
    "neural-linear": {
        "env": "QuadraticBandit",
        "cfg": NeuralLinearConfig(train_every=15, gradient_steps=2, batch_size=8, history_size=50),
        "config": {"sampling.iteration_steps": 20},
    },
    "ppo with a penalty": {"env": "Pendulum-v1", "cfg": FAST.replace(kl_coef=0.3, lr=Linear(1e-3, 0.0, steps=500))},
    "turns, late agents": {
        "env": Turns,
        "warmup_steps": 0,
        "policies": {"a": FAST, "b": SLOWER},
        "policy_mapping": either,
    },
    "memory": {"env": "CartPole-v1", "cfg": RECALLING},
    "memories, late agents": {
        "env": Turns,
        "warmup_steps": 0,
        "policies": {"a": RECALLING, "b": ATTENDING},
        "policy_mapping": either,
    },
    "dqn": {"env": "CartPole-v1", "cfg": REPLAYING, **LONG},
    "dqn, prioritized, by actions": {"env": Forks, "cfg": PRIORITIZED, **LONG},
    "sac": {"env": "Pendulum-v1", "cfg": LIVELY, **LONG},
    "td3": {"env": "Pendulum-v1", "cfg": TWINS, **LONG},
    "iql": {"env": "Pendulum-v1", "cfg": IQLConfig(**FROM_DATA), **LONG},
    "cql": {"env": "Pendulum-v1", "cfg": CQLConfig(**FROM_DATA, num_actions=2, lagrange_gap=5.0), **LONG},
    "discrete_cql": {"env": "CartPole-v1", "cfg": DiscreteCQLConfig(**FROM_DATA), **LONG},
    "td3bc": {"env": "Pendulum-v1", "cfg": TD3BCConfig(**FROM_DATA), **LONG},
    "awac": {"env": "CartPole-v1", "cfg": AWACConfig(**FROM_DATA), **LONG},
    "ppo and dqn": {
        "env": MultiAgentArena,
        "policies": {"a": FAST, "b": REPLAYING},
        "policy_mapping": {"agent1": "a", "agent2": "b"},
        "env_config": {"max_timesteps": 23},
    },
    "dqn, late agents": {
        "env": Turns,
        "policies": {"a": REPLAYING, "b": FAST},
        "policy_mapping": either,
    },
    "qmix, members that fall": {**WALKERS, "policies": {"blue": MIXING, "guard": REPLAYING}},
    "maddpg, members that fall": {**WALKERS, "policies": {"blue": ACTING, "guard": REPLAYING}},
    "resting": {"env": Weary, "cfg": REPLAYING, **LONG},
    "resting, ppo": {"env": Weary},
    "mujoco": {"env": "InvertedPendulum-v5", "needs": "mujoco"},
    "mujoco, wrapped": {"env": "Hopper-v5", "num_envs": 2, "needs": "mujoco"},
    "box2d": {"env": "LunarLander-v3", "num_envs": 2, "needs": "Box2D"},
    "minigrid": {"env": "MiniGrid-DoorKey-5x5-v0", "num_envs": 2, "needs": "minigrid"},
    "tictactoe": {"env": "pettingzoo.classic.tictactoe_v3", "needs": "pettingzoo"},
    "connect four, two policies": {
        "env": "pettingzoo.classic.connect_four_v3",
        "needs": "pettingzoo",
        "num_envs": 2,
        "policies": {"a": FAST, "b": SLOWER},
        "policy_mapping": either,
    },
    "self-play": {"env": "rookery.tasks:TicTacToe", "cfg": BRIEF, "config": AGAINST_ITSELF},
    "self-play, played ahead": {
        "env": "rookery.tasks:TicTacToe",
        "cfg": BRIEF,
        "config": {**AGAINST_ITSELF, "sampling.staleness": 1},
    },
    "self-play, memory": {
        "env": "rookery.tasks:TicTacToe",
        "cfg": RECALLING,
        "config": {**AGAINST_ITSELF, "self_play.main.opponents": "prioritized"},
    },
    "self-play, replay": {
        "env": "rookery.tasks:TicTacToe",
        "cfg": REPLAYING,
        "config": {**AGAINST_ITSELF, **LONG["config"]},
    },
    "league": {"env": "rookery.tasks:TicTacToe", "cfg": BRIEF, "config": LEAGUE},
    "teams in turn": {
        "env": "rookery.tasks:LineSoccer",
        "cfg": BRIEF,
        "env_config": {"strikers": 2, "goalies": 1, "max_steps": 19},
        "policies": {"red": ["red_0"], "blue": ["blue_0", "blue_1"]},
        "config": IN_TURN,
    },
    "particles": {"env": "mpe2.simple_spread_v3", "needs": "mpe2", "num_envs": 2},
}
"""Arguments of `make` for a run of each kind, and the package it needs."""
