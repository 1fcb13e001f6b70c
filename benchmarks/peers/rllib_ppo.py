"""RLlib trains one workload of the benchmark: ``rllib_ppo.py WORKLOAD --seconds N``; prints a line of JSON.

Run it with the Python that `install.sh` made and with `benchmarks` and `src` on PYTHONPATH, as `benchmarks/run.py`
does. It uses the new API stack, as RLlib does by default. The arena is Rookery's own `MultiAgentArena`
behind RLlib's `MultiAgentEnv`, and CartPole without velocities its `StatelessCartPole`, so that the rules are the same.
"""

from __future__ import annotations

import argparse
import logging
import os
from collections import deque
from importlib.metadata import version
from typing import Any

import ray
import torch
from measure import Meter, seconds_since_start
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.connectors.env_to_module import FlattenObservations
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.env.multi_agent_env import MultiAgentEnv
from ray.rllib.env.wrappers.pettingzoo_env import ParallelPettingZooEnv
from ray.tune import register_env
from workloads import BEST, MATCHED, TARGETS
from workloads import PPO as Settings

from rookery.tasks.games.arena import MultiAgentArena
from rookery.tasks.memory_tasks import StatelessCartPole

IMPORTED = seconds_since_start()

EPISODES: deque[float] = deque(maxlen=100)
"""Returns of the last episodes that the runner in this process finished."""

POLICIES = {"agent1": "pol1", "agent2": "pol2"}


class Arena(MultiAgentEnv):
    """The arena, in the style of RLlib."""

    def __init__(self, config: Any = None) -> None:
        super().__init__()
        self.arena = MultiAgentArena()
        self.possible_agents = self.agents = self.arena.possible_agents
        self.observation_spaces = self.arena.observation_spaces
        self.action_spaces = self.arena.action_spaces

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        """Begins an episode."""
        return self.arena.reset(seed, options)

    def step(self, action_dict: Any) -> Any:
        """Moves both agents."""
        return self.arena.step(action_dict)


def note_episode(*, episode: Any, **_: Any) -> None:
    """Keeps the return of a finished CartPole episode, which is its length.

    `episode.get_return` would count the last chunk of it only.
    """
    EPISODES.append(float(episode.t))


def common(settings: Settings, seed: int) -> PPOConfig:
    """Returns the settings that all workloads share: all those that decide how much work an iteration is.

    With an LSTM, policy and value share it and the layers before it. Sequences end with their episode; a minibatch is
    then the part of them that holds `minibatch_size` steps on average.
    """
    network = DefaultModelConfig(
        fcnet_hiddens=list(settings.hidden),
        fcnet_activation=settings.activation,
        vf_share_layers=bool(settings.lstm),
        use_lstm=bool(settings.lstm),
        lstm_cell_size=settings.lstm or DefaultModelConfig.lstm_cell_size,
        max_seq_len=settings.sequence_length,
    )
    return (
        PPOConfig()
        .training(
            num_epochs=settings.epochs,
            minibatch_size=settings.minibatch_size,
            train_batch_size_per_learner=settings.num_envs * settings.fragment_length,
        )
        .rl_module(model_config=network)
        .debugging(seed=seed, log_level="ERROR")
    )


def cartpole(settings: Settings, seed: int, vectorize: str) -> PPOConfig:
    """CartPole, or what `settings` name, with a runner in this process, which is faster here than runners in others."""
    register_env("StatelessCartPole", lambda _: StatelessCartPole())
    return (
        common(settings, seed)
        .environment(settings.env)
        .env_runners(
            num_env_runners=0,
            num_envs_per_env_runner=settings.num_envs,
            rollout_fragment_length=settings.fragment_length,
            gym_env_vectorize_mode=vectorize,
        )
        .training(
            lr=settings.lr,
            gamma=settings.gamma,
            lambda_=settings.gae_lambda,
            clip_param=settings.clip,
            entropy_coeff=settings.entropy_coef,
        )
        .callbacks(on_episode_end=note_episode)
    )


def arena(settings: Settings, seed: int, two: bool) -> PPOConfig:
    """The arena with two runners, learning rate and the like as RLlib has them.

    A shared policy must not be called `default_policy`, which means a single agent.
    """
    return (
        common(settings, seed)
        .environment(Arena)
        .env_runners(num_env_runners=2, env_to_module_connector=flatten)
        .multi_agent(
            policies=set(POLICIES.values()) if two else {"shared"},
            policy_mapping_fn=own_policy if two else shared_policy,
        )
    )


def spread(settings: Settings, seed: int) -> PPOConfig:
    """simple_spread with a runner in this process; a minibatch has rows of agents, as in Rookery."""
    from mpe2 import simple_spread_v3

    register_env("spread", lambda _: ParallelPettingZooEnv(simple_spread_v3.parallel_env()))
    return (
        common(settings, seed)
        .environment("spread")
        .env_runners(
            num_env_runners=0,
            num_envs_per_env_runner=settings.num_envs,
            rollout_fragment_length=settings.fragment_length,
        )
        .training(lr=settings.lr, gamma=settings.gamma, lambda_=settings.gae_lambda, clip_param=settings.clip)
        .multi_agent(policies={"shared"}, policy_mapping_fn=shared_policy)
    )


def flatten(env: Any = None, spaces: Any = None, device: Any = None) -> FlattenObservations:
    """Tiles as one-hot vectors, which the new stack does only when asked."""
    return FlattenObservations(multi_agent=True)


def own_policy(agent_id: str, episode: Any, **_: Any) -> str:
    """A policy for each agent."""
    return POLICIES[agent_id]


def shared_policy(agent_id: str, episode: Any, **_: Any) -> str:
    """One policy for both."""
    return "shared"


def configured(args: argparse.Namespace) -> PPOConfig:
    """The configuration of a workload."""
    if args.workload.startswith("arena"):
        return arena(MATCHED["arena-one"], args.seed, two=args.workload == "arena-two")
    if args.workload == "spread-ippo":
        return spread(MATCHED[args.workload], args.seed)
    if args.settings:
        return cartpole(BEST[args.settings], args.seed, "vector_entry_point")
    return cartpole(MATCHED[args.workload], args.seed, "sync")


def train(algorithm: Algorithm, meter: Meter) -> None:
    """Iterations until the meter has seen enough."""
    enough, steps = False, 0
    while not enough:
        result = algorithm.train()
        runners = result["env_runners"]
        steps = int(runners["num_env_steps_sampled_lifetime"])
        mean = sum(EPISODES) / len(EPISODES) if EPISODES else runners.get("episode_return_mean")
        enough = meter.iteration(steps, mean)


def main() -> None:
    """Trains and reports."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workload")
    parser.add_argument("--settings", help="settings of cartpole-best, rllib-256 say")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = str(args.threads)
    torch.set_num_threads(args.threads)
    meter = Meter(IMPORTED, args.seconds, TARGETS.get(args.workload))
    ray.init(num_cpus=os.cpu_count() + 1, include_dashboard=False, logging_level=logging.ERROR, log_to_driver=False)
    algorithm = configured(args).build_algo()
    train(algorithm, meter)
    names = ("ray", "gymnasium", "torch")
    meter.report(threads=torch.get_num_threads(), versions={name: version(name) for name in names})
    algorithm.stop()
    ray.shutdown()


if __name__ == "__main__":
    main()
