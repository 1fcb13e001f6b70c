"""The runs of ``make golden``: short ones of every algorithm, in every way that Rookery samples and learns.

A run is defined by settings alone, so that another commit can make it, too. All runs are small: some hundred
environment steps, two layers of 16 units.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Run:
    """One training.

    Attributes:
        settings: Settings by path.
        iterations: Iterations of playing and learning; of a run without an environment calls of `Trainer.learn`.
        resumed: Whether the trainer is closed half way, and another one loads the run.
        data: A run whose replay is learned from.
        needs: A package without which the environment is not there.
    """

    settings: Mapping[str, Any]
    iterations: int = 3
    resumed: bool = False
    data: str = ""
    needs: str = ""


COMMON: dict[str, Any] = {
    "seed": 7,
    "threads": 1,
    "sampling.num_envs": 4,
    "sampling.env_processes": 0,
    "sampling.warmup_steps": 64,
    "algorithm.model.hidden": [16, 16],
    "checkpoint.every": 0,
    "logging.console": "quiet",
    "logging.tensorboard": False,
}

SCHEDULE = {"start": 1e-3, "end": 0.0, "steps": 600}
PPO = {"algorithm.name": "ppo", "algorithm.epochs": 2, "algorithm.minibatch_size": 64, "algorithm.fragment_length": 32}
RECALL = {**PPO, "env.name": "StatelessCartPole", "algorithm.model.memory.size": 8}
SHORT = {"sampling.iteration_steps": 160}
REPLAY = {
    "algorithm.learning_starts": 100,
    "algorithm.batch_size": 16,
    "algorithm.updates_per_step": 0.25,
    "algorithm.replay.capacity": 400,
    **SHORT,
}
DQN = {"algorithm.name": "dqn", "env.name": "CartPole-v1", **REPLAY}
SAC = {"algorithm.name": "sac", "env.name": "Pendulum-v1", **REPLAY}
TD3 = {"algorithm.name": "td3", "env.name": "Pendulum-v1", **REPLAY}
TEAM = {"env.name": "MatrixGame", "teams": {"blue": ["a", "b"]}, **REPLAY}
ARENA = {
    "env.name": "MultiAgentArena",
    "policies": {"a": {"lr": 3e-4}, "b": {"lr": 1e-3, "gamma": 0.95}},
    "policy_mapping": {"agent1": "a", "agent2": "b"},
}
ITSELF = {
    "env.name": "TicTacToe",
    "self_play.main": {"snapshot_every": 150, "swap_every": 60, "window": 3, "anchors": {"random": "random"}},
}
PULL = {"env.name": "LinearBandit", "algorithm.model.hidden": [], "sampling.iteration_steps": 80}
PENDULUM, POLE = {"env.name": "Pendulum-v1"}, {"env.name": "CartPole-v1"}


def of_data(name: str, **settings: Any) -> dict[str, Any]:
    """Returns the settings of an algorithm that learns from data alone."""
    more = {f"algorithm.{key}": value for key, value in settings.items()}
    return {"algorithm.name": name, "algorithm.batch_size": 16, **more}


RUNS: dict[str, Run] = {
    # one policy
    "ppo": Run({**PPO, **POLE}),
    "ppo, numbers": Run({**PPO, **PENDULUM, "algorithm.scale_rewards": True, "algorithm.model.normalize_obs": True}),
    "ppo, penalty": Run(
        {**PPO, **PENDULUM, "algorithm.kl_coef": 0.2, "algorithm.target_kl": 0.02, "algorithm.lr": SCHEDULE}
    ),
    "ppo, shared trunk": Run(
        {**PPO, **POLE, "algorithm.model.shared_trunk": True, "algorithm.model.layer_norm": True,
         "algorithm.model.activation": "relu", "algorithm.value_clip": 0.2}
    ),
    "ppo, evaluated": Run({**PPO, **POLE, "evaluation.every": 2, "evaluation.episodes": 3}),
    "ppo, parameters": Run(
        {**PPO, **PENDULUM, "env.parameters.mass": {"sampler": "loguniform", "low": 0.5, "high": 2.0}}
    ),
    "ppo, lessons": Run(
        {**PPO, "env.name": "WallCurriculum", "env.config": {"max_steps": 13},
         "curriculum.wall_height": {"lessons": [0, 1.0, 3.0], "threshold": -0.2, "min_episodes": 3}}
    ),
    "ppo, rnd": Run({**PPO, **POLE, "algorithm.signals.rnd": {}}),
    "ppo, curiosity": Run({**PPO, **POLE, "algorithm.signals.curiosity": {}}),
    "ppo, gail": Run({**PPO, **POLE, "algorithm.signals.gail.replay": ["{data}"]}, data="dqn"),
    "ppo, imitation": Run({**PPO, **POLE, "algorithm.imitation.replay": ["{data}"]}, data="dqn"),
    "ppo, played ahead": Run({**PPO, **POLE, "sampling.staleness": 1}),
    "ppo, resumed": Run({**PPO, **PENDULUM, "algorithm.scale_rewards": True}, iterations=4, resumed=True),
    "a2c": Run({**POLE, "algorithm.name": "a2c", **SHORT}),
    "a2c, numbers": Run({**PENDULUM, "algorithm.name": "a2c", "algorithm.scale_rewards": True, **SHORT}),
    "ppo, rpo": Run({**PPO, **PENDULUM, "algorithm.rpo_alpha": 0.5}),
    "ppo_lagrangian": Run(
        {**PPO, "env.name": "HazardGrid", "algorithm.name": "ppo_lagrangian", "algorithm.cost_limit": 2.0}
    ),
    "trpo": Run({**POLE, "algorithm.name": "trpo", "algorithm.fragment_length": 32}),
    "trpo, numbers": Run({**PENDULUM, "algorithm.name": "trpo", "algorithm.fragment_length": 32}),
    "reinforce": Run({**POLE, "algorithm.name": "reinforce", **SHORT}),
    "es": Run({**POLE, "algorithm.name": "es", "algorithm.num_directions": 4}),
    "ars": Run({**POLE, "algorithm.name": "ars", "algorithm.num_directions": 4}),
    "alphazero": Run(
        {
            "env.name": "TicTacToe",
            "algorithm.name": "alphazero",
            "algorithm.search.simulations": 4,
            "algorithm.fragment_length": 8,
            "algorithm.minibatch_size": 32,
        }
    ),
    "linucb": Run({**PULL, "algorithm.name": "linucb", "algorithm.discount": 0.9}),
    "lints": Run({**PULL, "algorithm.name": "lints"}),
    "neural_linear": Run({**PULL, "algorithm.name": "neural_linear", "algorithm.gradient_steps": 5,
         "algorithm.model.hidden": [16]}),
    "impala": Run({**POLE, "algorithm.name": "impala", "algorithm.rollout_size": 100, "sampling.staleness": 1}),
    "impala, rmsprop": Run(
        {**PENDULUM, "algorithm.name": "impala", "algorithm.rollout_size": 100, "algorithm.optimizer": "rmsprop"}
    ),
    "appo": Run(
        {**POLE, "algorithm.name": "appo", "algorithm.rollout_size": 100, "algorithm.fragment_length": 25,
         "algorithm.buffered_batches": 3, "algorithm.batch_uses": 2, "sampling.staleness": 1}
    ),
    "appo, lstm": Run(
        {**RECALL, "algorithm.name": "appo", "algorithm.model.memory.kind": "lstm", "algorithm.rollout_size": 128}
    ),
    "pqn": Run({**POLE, "algorithm.name": "pqn", "algorithm.fragment_length": 32}),
    # environments, and how they are stepped
    "serial": Run({**PPO, **POLE, "env.implementation": "serial"}),
    "batched": Run({**PPO, **POLE, "env.implementation": "batched"}),
    "helpers": Run({**PPO, **PENDULUM, "env.implementation": "processes", "sampling.env_processes": 2}),
    "helpers, sac": Run({**SAC, "env.implementation": "processes", "sampling.env_processes": 2}),
    "threads": Run({**PPO, **PENDULUM, "env.implementation": "threads", "sampling.env_processes": 2}),
    "workers": Run(
        {**PPO, **POLE, "sampling.workers": 2, "sampling.inference_batch_envs": 2, "cluster.ray": "here"},
    ),
    "workers on Ray": Run({**PPO, **POLE, "sampling.workers": 2, "cluster.ray": "local"}, needs="ray"),
    "learners": Run({**PPO, **POLE, "cluster.learners": 2}, iterations=2),
    "tensors": Run({**PPO, "env.name": "TensorCartPole"}),
    "frozen lake": Run({**DQN, "env.name": "FrozenLake-v1"}),
    "sets": Run({**PPO, "env.name": "Sorter"}),
    "goals": Run({**PPO, "env.name": "GoalGrid"}),
    "images": Run({**PPO, "env.name": "Match3", "env.config": {"observation": "visual"}}, iterations=2),
    "images, dqn": Run(
        {**DQN, "env.name": "OneDimension", "env.config": {"pictures": 1, "vector": 0, "numbers": 0, "choices": 1}}
    ),
    "images, sac": Run({**SAC, "env.name": "OneDimension", "env.config": {"pictures": 1, "vector": 0}}, iterations=2),
    "images of codes": Run({**PPO, "env.name": "MiniGrid-Empty-5x5-v0"}, iterations=2, needs="minigrid"),
    "mujoco": Run({**PPO, "env.name": "InvertedPendulum-v5"}, iterations=2, needs="mujoco"),
    "mujoco, sac": Run({**SAC, "env.name": "InvertedPendulum-v5"}, iterations=2, needs="mujoco"),
    "box2d": Run({**PPO, "env.name": "LunarLander-v3"}, iterations=2, needs="Box2D"),
    "atari": Run(
        {**PPO, "env.name": "ALE/Pong-v5", "sampling.num_envs": 1, "algorithm.fragment_length": 16,
         "sampling.warmup_steps": 8},
        iterations=1, needs="ale_py",
    ),
    # memory
    **{f"ppo, {kind}": Run({**RECALL, "algorithm.model.memory.kind": kind}) for kind in ("lstm", "gru", "scan")},
    "ppo, attention": Run(
        {**RECALL, "algorithm.model.memory.kind": "attention", "algorithm.model.memory.context": 6}, iterations=2
    ),
    "ppo, lstm, layers": Run(
        {**RECALL, "algorithm.model.memory.kind": "lstm", "algorithm.model.memory.layers": 2,
         "algorithm.model.memory.previous_action": True, "algorithm.model.memory.previous_reward": True,
         "algorithm.model.memory.sequence_length": 8}
    ),
    "ppo, lstm, resumed": Run({**RECALL, "algorithm.model.memory.kind": "lstm"}, iterations=4, resumed=True),
    # several agents
    "arena": Run({**PPO, **ARENA}),
    "arena, resumed": Run({**PPO, **ARENA}, iterations=4, resumed=True),
    "arena, ppo and dqn": Run(
        {**PPO, **ARENA, "policies": {"a": {}, "b": {"name": "dqn", "learning_starts": 60, "batch_size": 16}}}
    ),
    "arena, impala and appo": Run(
        {**ARENA,
         "policies": {"a": {"name": "impala", "rollout_size": 100}, "b": {"name": "appo", "rollout_size": 100}}}
    ),
    "turns": Run({**PPO, "env.name": "TwoCues"}),
    "turns, pettingzoo": Run({**PPO, "env.name": "pettingzoo.classic.tictactoe_v3"}, needs="pettingzoo"),
    "turns, dqn": Run({**DQN, "env.name": "ConnectFour"}),
    "self-play": Run({**PPO, **ITSELF}),
    "self-play, resumed": Run({**PPO, **ITSELF}, iterations=4, resumed=True),
    "self-play, league": Run(
        {**PPO, **ITSELF, "self_play.main": {**ITSELF["self_play.main"], "opponents": "league"}}
    ),
    "self-play, dqn": Run({**DQN, **ITSELF}),
    "teams in turn": Run(
        {**PPO, "env.name": "LineSoccer", "env.config": {"strikers": 2, "goalies": 1, "max_steps": 19},
         "policies": {"red": {}, "blue": {}}, "policy_mapping": {"red_0": "red", "blue_0": "blue", "blue_1": "blue"},
         "self_play.red": {"snapshot_every": 60, "swap_every": 0, "window": 2, "team_change_every": 70},
         "self_play.blue": {"snapshot_every": 60, "swap_every": 50, "opponents": "prioritized", "rating_games": 0}}
    ),
    "mappo": Run({**PPO, "algorithm.name": "mappo", "env.name": "Sacrifice"}),
    "mappo, gru": Run(
        {**PPO, "algorithm.name": "mappo", "env.name": "Sacrifice", "algorithm.model.memory.kind": "gru",
         "algorithm.model.memory.size": 8}
    ),
    "poca": Run({**PPO, "algorithm.name": "poca", "env.name": "PushBlock"}, iterations=2),
    "vdn": Run({**TEAM, "algorithm.name": "vdn"}),
    "qmix": Run({**TEAM, "algorithm.name": "qmix"}),
    "qmix, gru": Run(
        {**TEAM, "algorithm.name": "qmix", "algorithm.model.memory.kind": "gru", "algorithm.model.memory.size": 8,
         "algorithm.model.memory.sequence_length": 4}
    ),
    "qmix, resumed": Run({**TEAM, "algorithm.name": "qmix"}, iterations=4, resumed=True),
    "maddpg": Run({**TEAM, "algorithm.name": "maddpg"}),
    # replay
    "dqn": Run(DQN),
    "dqn, resumed": Run(DQN, iterations=4, resumed=True),
    "dqn, prioritized": Run(
        {**DQN, "algorithm.replay.kind": "prioritized", "algorithm.n_step": 3, "algorithm.dueling": True}
    ),
    "dqn, prioritized, resumed": Run({**DQN, "algorithm.replay.kind": "prioritized"}, iterations=4, resumed=True),
    "dqn, soft target": Run({**DQN, "algorithm.target.kind": "soft", "algorithm.model.normalize_obs": True}),
    "dqn, categorical": Run(
        {**DQN, "algorithm.values.kind": "categorical", "algorithm.values.low": 0, "algorithm.values.high": 50}
    ),
    "dqn, quantile": Run({**DQN, "algorithm.values.kind": "quantile", "algorithm.values.quantiles": 8}),
    **{
        f"dqn, {kind}": Run({**DQN, "algorithm.exploration.kind": kind})
        for kind in ("boltzmann", "noisy", "parameters")
    },
    "dqn, lstm": Run(
        {**DQN, "env.name": "StatelessCartPole", "algorithm.model.memory.kind": "lstm",
         "algorithm.model.memory.size": 8, "algorithm.model.memory.sequence_length": 8,
         "algorithm.replay.burn_in": 4, "algorithm.replay.kind": "prioritized", "algorithm.batch_size": 8}
    ),
    "dqn, data beside play": Run({**DQN, "algorithm.replay.mix": {"{data}": 0.25}}, data="dqn"),
    "sac": Run(SAC),
    "sac, resumed": Run(SAC, iterations=4, resumed=True),
    "sac, choices": Run({**SAC, **POLE}),
    "sac, gsde": Run({**SAC, "algorithm.exploration.kind": "gsde"}),
    "sac, quantiles": Run({**SAC, "algorithm.critic.quantiles": 8, "algorithm.critic.number": 3}),
    "sac, batch norm": Run({**SAC, "algorithm.critic.norm": "batch"}),
    "td3": Run(TD3),
    "td3, drifting noise": Run({**TD3, "algorithm.exploration.kind": "ou"}),
    "ddpg": Run({**TD3, "algorithm.name": "ddpg"}),
    # data
    "bc": Run(of_data("bc", validation=0.2), data="dqn"),
    "bc, numbers": Run(of_data("bc"), data="sac"),
    "marwil": Run(of_data("marwil"), data="dqn"),
    "iql": Run(of_data("iql"), data="sac"),
    "iql, choices": Run(of_data("iql"), data="dqn"),
    "iql, resumed": Run(of_data("iql"), data="sac", iterations=4, resumed=True),
    "awac": Run(of_data("awac"), data="dqn"),
    "td3bc": Run(of_data("td3bc"), data="sac"),
    "cql": Run(of_data("cql", num_actions=2), data="sac"),
    "discrete_cql": Run(of_data("discrete_cql"), data="dqn"),
    "dt": Run(of_data("dt", context=4, width=16, heads=2, layers=1, timesteps=1000, dropout=0.1), data="dqn"),
}  # fmt: skip
"""Runs by name. ``{data}`` in a setting stands for the path of the run in `data`."""
