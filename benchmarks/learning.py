"""Every learning claim, measured: several seeds each, deterministic evaluation, with controls that must fail.

The control of a claim about learning learns nothing; that of a claim about memory or entities learns as long, without.

Run it with ``make test-learning``; ``--list`` says how long each claim takes. It writes
`benchmarks/results/learning.md` and `.json`, and exits 1 if a claim does not hold. ``python benchmarks/learning.py
cartpole pendulum`` runs some and keeps the other rows as they were; ``--seeds 1`` runs fewer seeds. Settings were
chosen on seeds from 100 on; reported are seeds 0, 1 and 2.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy as np
import torch

import rookery
from rookery import Callback, DQNConfig, MultiAgentArena, PPOConfig, Trainer
from rookery.algorithms.algorithm import Algorithm, BatchHook
from rookery.algorithms.evolution.population import CandidateReturns
from rookery.core.schedules import Linear
from rookery.core.settings.layers import flow
from rookery.models.cells.table import CELLS
from rookery.rollout.hooks import Episode
from rookery.tasks.bandits.drawn_weights import LinearBandit, QuadraticBandit, SharedBandit
from rookery.tasks.goal_tasks import PointReach
from rookery.tasks.hazard_grid import HazardGrid

RESULTS = Path(__file__).parent / "results"
HAZARD_LIMIT, HAZARD_OPTIMUM = 2.25, 0.4375  # see tests/tasks/test_hazard_grid.py
CONTROL_STEPS = 100_000  # without learning more steps change nothing
NOTHING: dict[str, Any] = {}
FORGETFUL = {"algorithm.model.memory.kind": "none"}
UNREMEMBERED = {**FORGETFUL, "algorithm.replay.burn_in": 0, "algorithm.batch_size": 512}  # as many decisions a batch
HIDDEN = {"context": "hidden"}
SHUFFLED = {"returns": "shuffled among candidates"}
LATE: dict[str, Any] = {"sampling.staleness": 1}  # the weights that play are an update older than those that learn
ICE: dict[str, Any] = {**LATE, "sampling.num_envs": 16, "env.config": {"is_slippery": False}}
FLAT = {"algorithm.model.entities_as": "flat", "algorithm.model.hidden": (96, 64)}  # with more weights than the set's
ONE_STEP: dict[str, Any] = {  # learns with less data a step, and a target network that stands still
    "algorithm.lr": Linear(2.3e-3, 0.0),
    "algorithm.n_step": 1,
    "algorithm.batch_size": 64,
    "algorithm.train_every": 256,
    "algorithm.target.every": 128,
    "algorithm.exploration.epsilon": Linear(1.0, 0.04, 8_000),
    "algorithm.model.hidden": (256, 256),
}
QUANTILE = {**ONE_STEP, "algorithm.values.kind": "quantile", "algorithm.values.quantiles": 10}
IMPLICIT = {**ONE_STEP, "algorithm.values.kind": "implicit", "algorithm.values.quantiles": 16}
MUNCHAUSEN = {**ONE_STEP, "algorithm.munchausen.weight": 0.9}
CATEGORICAL = {
    "algorithm.values.kind": "categorical",
    "algorithm.values.low": 0.0,
    "algorithm.values.high": 100.0,
    "algorithm.updates_per_step": 0.25,
}
APEX: dict[str, Any] = {  # asynchronous workers in this process, each copy with an epsilon of its own
    "algorithm.exploration.epsilon": 0.4,
    "algorithm.exploration.per_env_epsilon": 7.0,
    "algorithm.replay.kind": "prioritized",
    "algorithm.n_step": 3,
    "algorithm.train_every": 16,
    "sampling.num_envs": 8,
    "sampling.workers": 4,
    "sampling.asynchronous": True,
    "cluster.ray": "here",
}
HINDSIGHT: dict[str, Any] = {"algorithm.replay.hindsight.strategy": "future", "env.implementation": "serial"}
NO_HINDSIGHT = {"algorithm.replay.hindsight.strategy": None}
IMAGES: dict[str, Any] = {"dimensions": 2, "pixels": 24, "dense": True}
DRQ: dict[str, Any] = {
    "algorithm.image_shift": 2,
    "algorithm.shared_encoder": True,
    "algorithm.model.cnn": "drq",
    "algorithm.model.hidden": (128, 128),
    "algorithm.n_step": 3,
    "algorithm.lr": 1e-3,
    "algorithm.gamma": 0.9,
    "algorithm.tau": 0.01,
    "algorithm.batch_size": 64,
    "algorithm.updates_per_step": 0.25,
    "algorithm.exploration.std": Linear(1.0, 0.1, 4_000),
    "algorithm.target_noise_clip": 0.3,
    "sampling.num_envs": 8,
    "env.config": IMAGES,
    "env.implementation": "serial",
}
UNSHIFTED = {**DRQ, "algorithm.image_shift": 0}
DUELING: dict[str, Any] = {"algorithm.dueling": True}
SHARED: dict[str, Any] = {"algorithm": PPOConfig()}
TWO: dict[str, Any] = {
    "policies": {"pol1": PPOConfig(lr=3e-4), "pol2": PPOConfig(lr=4e-4)},
    "policy_mapping": {"agent1": "pol1", "agent2": "pol2"},
}


PPO_AND_DQN: dict[str, Any] = {
    "policies": {"pol1": PPOConfig(lr=3e-4), "pol2": DQNConfig()},
    "policy_mapping": {"agent1": "pol1", "agent2": "pol2"},
}


@dataclass(frozen=True)
class Claim:
    """One row of the table.

    Attributes:
        name: How to call it.
        make: A trainer for a seed, with settings laid over those of the claim, and further arguments of `Trainer`.
        env_steps: Budget.
        score: What counts, from a trained trainer.
        threshold: The median over seeds must reach it.
        minutes: About how long one seed takes on one core.
        until: Stop at this training return, so that steps and seconds to it are measured too.
        control: Whether to play as long, 100,000 steps at most, with nothing learned (learning rate 1e-12): the score
            of that must stay below `control_below`.
        without: Settings of another control, which learns as long with as many seeds; it takes that one's place.
        control_below: What the score of the control must stay below; None = the threshold.
        times_control: The threshold counts in scores of the control.
        seeds: How many seeds, at most.
        package: What has to be installed beside the extras of the set-up.
    """

    name: str
    make: Callable[..., Trainer]
    env_steps: int
    score: Callable[[Trainer], float]
    threshold: float
    minutes: float
    until: float | None = None
    control: bool = True
    without: Mapping[str, Any] | None = None
    control_below: float | None = None
    times_control: bool = False
    seeds: int = 3
    package: str | None = None


def evaluation_return(trainer: Trainer) -> float:
    """Mean return of 20 deterministic evaluation episodes."""
    return trainer.evaluate(20).return_mean


def evaluation_return_of_100(trainer: Trainer) -> float:
    """Mean return of 100 deterministic evaluation episodes, for tasks in which an episode is won or lost."""
    return trainer.evaluate(100).return_mean


def success_rate_of_100(trainer: Trainer) -> float:
    """Share of 100 deterministic evaluation episodes that end at their goal."""
    success = trainer.evaluate(100).success_rate
    assert success is not None
    return success


def success_rate_of_100_from_images(trainer: Trainer) -> float:
    """The same in `PointReach` with images, whose observations have no goals by which an evaluation could count."""
    envs = [PointReach(**IMAGES) for _ in range(100)]
    seen = [env.reset(seed=seed)[0] for seed, env in enumerate(envs)]
    for _ in range(envs[0].max_steps):
        actions = trainer.policies["main"].predict(np.stack(seen))
        steps = [env.step(action) for env, action in zip(envs, actions, strict=True)]
        seen = [step[0] for step in steps]
    return fmean(step[4]["is_success"] for step in steps)


def training_return(trainer: Trainer) -> float:
    """Mean return of the last 100 training episodes."""
    return fmean(trainer._windows.totals)


def training_return_an_agent(trainer: Trainer) -> float:
    """The same, divided among the agents."""
    return training_return(trainer) / sum(len(kind.agents) for kind in trainer.env.kinds)


def return_of(policy: str) -> Callable[[Trainer], float]:
    """The mean return of one policy over the last 100 training episodes."""

    def training_return_of_policy(trainer: Trainer) -> float:
        return fmean(trainer._windows.policies[policy])

    training_return_of_policy.__name__ = f"training_return_of_{policy}"
    return training_return_of_policy


def preset(env: str, algorithm: str = "ppo", settings: Mapping[str, Any] = NOTHING) -> Callable[..., Trainer]:
    """A trainer with the preset of an algorithm for an environment, and settings laid over it."""
    config = {"algorithm.name": algorithm, **settings}
    return lambda seed, without, **more: Trainer(env, config=[config, without], preset="auto", seed=seed, **more)


class ShuffledReturns(BatchHook):
    """Gives each candidate of a generation the return of another, drawn anew for each."""

    def before_update(self, learner: Algorithm[Any], batch: CandidateReturns) -> CandidateReturns:
        """Returns the returns in random order."""
        generator = torch.Generator().manual_seed(learner.updates)
        return CandidateReturns(batch.returns[torch.randperm(len(batch.returns), generator=generator)])


def evolution(env: str, algorithm: str, settings: Mapping[str, Any] = NOTHING) -> Callable[..., Trainer]:
    """As `preset`, for evolution strategies; `without` "returns" shuffles those of candidates."""
    make = preset(env, algorithm, settings)

    def make_shuffled(seed: int, without: Mapping[str, Any], **more: Any) -> Trainer:
        trainer = make(seed, NOTHING, **more)
        if without:
            trainer.learners["main"].hooks.append(ShuffledReturns())
        return trainer

    return make_shuffled


class BlindLinearBandit(LinearBandit):
    """A bandit that shows zeros instead of the context."""

    def reset(self, **settings: Any) -> tuple[np.ndarray, dict[str, Any]]:
        """Draws the next context, and returns zeros."""
        obs, info = super().reset(**settings)
        return np.zeros_like(obs), info


class BlindSharedBandit(SharedBandit):
    """A bandit that shows zeros instead of the features of arms."""

    def reset(self, **settings: Any) -> tuple[np.ndarray, dict[str, Any]]:
        """Draws the next features, and returns zeros."""
        obs, info = super().reset(**settings)
        return np.zeros_like(obs), info


class Regrets(Callback):
    """Keeps the regret of each pull."""

    def __init__(self) -> None:
        self.regrets: list[float] = []

    def on_episode_end(self, episode: Episode) -> None:
        """Keeps the regret of a pull."""
        self.regrets += [info["regret"] for info in episode.info.values()]


def bandit(env: type, algorithm: str, settings: Mapping[str, Any], **task: Any) -> Callable[..., Trainer]:
    """A trainer of one bandit whose weights are drawn by the seed; `without` "context" hides the context."""

    def make(seed: int, without: Mapping[str, Any], **more: Any) -> Trainer:
        blind = {LinearBandit: BlindLinearBandit, SharedBandit: BlindSharedBandit}
        config = {
            "algorithm.name": algorithm,
            "sampling.num_envs": 1,
            **settings,
            "env.config": {**task, "task_seed": seed},
        }
        if without == HIDDEN:
            return Trainer(blind[env], config=config, seed=seed, callbacks=[Regrets()], **more)
        return Trainer(env, config=[config, without], seed=seed, callbacks=[Regrets()], **more)

    return make


def avoided_regret(trainer: Trainer) -> float:
    """Regret of uniform play that was avoided, as a part of it."""
    return 1.0 - trainer._windows.metrics["relative_regret"][-1]


def pulls_per_regret(trainer: Trainer) -> float:
    """Pulls over their regret; of a bandit whose weights are drawn again, of those since then."""
    regrets = trainer._callbacks[0].regrets
    regrets = regrets[trainer.config.env.config.get("redraw_every", 0) :]
    return len(regrets) / sum(regrets)


def arena(**settings: Any) -> Callable[..., Trainer]:
    """A trainer of the arena with 16 copies."""
    return lambda seed, without, **more: Trainer(
        MultiAgentArena, num_envs=16, seed=seed, config=without, **settings, **more
    )


def limited(seed: int, without: Mapping[str, Any], **more: Any) -> Trainer:
    """PPO-Lagrangian on the hazard grid with its preset, whose limit of 2 leaves a margin; PPO, `without`."""
    config = without or {"algorithm.name": "ppo_lagrangian"}
    return Trainer("HazardGrid", config=[{"sampling.num_envs": 16}, config], preset="auto", seed=seed, **more)


def share_of_limited_optimum(trainer: Trainer) -> float:
    """Exact return on the hazard grid as a part of the best one within the limit on costs; 0 where the exact cost
    exceeds it.
    """
    grid, learner = HazardGrid(), trainer.learners["main"]
    obs = learner.policy.normalize({"obs": torch.from_numpy(grid.rules.obs)})
    with torch.no_grad():
        probabilities = learner.net.behavior(obs).log_probs.double().exp().numpy()
    found, cost = grid.means(probabilities)
    print(f"return {found:.4f}, cost {cost:.4f}", flush=True)
    return found / HAZARD_OPTIMUM if cost <= HAZARD_LIMIT else 0.0


def remembering(kind: str, **settings: Any) -> dict[str, Any]:
    """Settings of a policy with a memory of a kind, and of its environment."""
    return {"algorithm.model.memory.kind": kind, **({"env.config": settings} if settings else {})}


def corridor(kind: str) -> Claim:
    """The corridor of 20 steps, solved by a kind of memory."""
    return Claim(
        f"cue-corridor-{kind}",
        preset("CueCorridor", settings=remembering(kind)),
        100_000,
        evaluation_return_of_100,
        0.95,
        1 if kind == "attention" else 0.2,
        without=FORGETFUL,
        control_below=0.5,
    )


CLAIMS = [
    Claim("cartpole", preset("CartPole-v1"), 100_000, evaluation_return, 475, 0.3),
    Claim("cartpole-a2c", preset("CartPole-v1", "a2c"), 200_000, evaluation_return, 450, 0.4),
    Claim("cartpole-impala", preset("CartPole-v1", "impala", LATE), 1_000_000, evaluation_return, 450, 0.2),
    Claim("cartpole-appo", preset("CartPole-v1", "appo", LATE), 200_000, evaluation_return, 450, 0.1),
    Claim("frozen-lake-impala", preset("FrozenLake-v1", "impala", ICE), 300_000, evaluation_return, 0.95, 0.2),
    Claim("frozen-lake-appo", preset("FrozenLake-v1", "appo", ICE), 300_000, evaluation_return, 0.95, 0.2),
    Claim(
        "cartpole-trpo",
        preset("CartPole-v1", "trpo"),
        100_000,
        evaluation_return,
        475,
        0.3,
        without={"algorithm.max_kl": 1e-10},  # the learning rate is that of the value function alone
        control_below=100,
    ),
    Claim(
        "pendulum-rpo",
        preset("Pendulum-v1", settings={"algorithm.rpo_alpha": 0.5}),
        200_000,
        evaluation_return,
        -250,
        0.1,
    ),
    Claim(
        "hazard-grid-ppo-lagrangian",
        limited,
        200_000,
        share_of_limited_optimum,
        0.9,
        0.6,
        without={"algorithm.name": "ppo"},
        control_below=0.5,
    ),
    Claim("pendulum-appo", preset("Pendulum-v1", "appo", LATE), 500_000, evaluation_return, -300, 0.3),
    *(
        Claim(
            f"stateless-cartpole-{algorithm}",
            preset("StatelessCartPole", algorithm, LATE),
            1_000_000,
            evaluation_return,
            300,
            0.6,
            without=FORGETFUL,
            control_below=100,
        )
        for algorithm in ("impala", "appo")
    ),
    *(
        Claim(
            f"cartpole-{algorithm}",
            evolution("CartPole-v1", algorithm),
            env_steps,
            evaluation_return,
            450,
            0.2,
            without=SHUFFLED,
            control_below=200,
        )
        for algorithm, env_steps in (("es", 200_000), ("ars", 100_000))
    ),
    Claim(
        "swimmer-ars",
        evolution("Swimmer-v5", "ars"),
        320_000,
        evaluation_return,
        300,
        3,
        without=SHUFFLED,
        control_below=100,
    ),
    *(
        Claim(
            f"{name}-{algorithm}",
            bandit(env, algorithm, settings, noise=noise),
            1_000,
            avoided_regret,
            threshold,
            0.1,
            without=HIDDEN,
            control_below=0.2,
        )
        for name, env, settings, noise, threshold in (
            ("linear-bandit", LinearBandit, NOTHING, 0.1, 0.9),
            ("shared-bandit", SharedBandit, {"algorithm.arm_features": "obs"}, 0.5, 0.95),
        )
        for algorithm in ("linucb", "lints")
    ),
    Claim(
        "drifting-bandit-linucb",
        bandit(LinearBandit, "linucb", {"algorithm.discount": 0.98}, redraw_every=1_000),
        2_000,
        pulls_per_regret,
        2,
        0.1,
        without={"algorithm.discount": 1.0},
        times_control=True,
    ),
    Claim(
        "quadratic-bandit-neural-linear",
        bandit(QuadraticBandit, "neural_linear", NOTHING),
        3_000,
        pulls_per_regret,
        2,
        0.2,
        without={"algorithm.name": "linucb"},
        times_control=True,
    ),
    Claim("cartpole-reinforce", preset("CartPole-v1", "reinforce"), 200_000, evaluation_return, 350, 0.2),
    Claim("pendulum", preset("Pendulum-v1"), 100_000, evaluation_return, -250, 0.5),
    Claim("minigrid-empty-5x5", preset("MiniGrid-Empty-5x5-v0"), 60_000, evaluation_return, 0.9, 1),
    Claim("minigrid-doorkey-5x5", preset("MiniGrid-DoorKey-5x5-v0"), 100_000, evaluation_return_of_100, 0.9, 1.5),
    Claim("lunar-lander", preset("LunarLander-v3"), 1_000_000, evaluation_return, 200, 2),
    Claim("inverted-pendulum", preset("InvertedPendulum-v5"), 300_000, evaluation_return, 900, 0.7),
    Claim("half-cheetah", preset("HalfCheetah-v5"), 1_000_000, evaluation_return, 1400, 2.5),
    Claim("hopper", preset("Hopper-v5"), 1_000_000, evaluation_return, 1800, 4),
    Claim("simple-spread", preset("mpe2.simple_spread_v3"), 400_000, training_return_an_agent, -22, 3),
    Claim(
        "knights-archers-zombies",
        preset("pettingzoo.butterfly.knights_archers_zombies_v11"),
        82_000,
        training_return,
        2,
        3,
        times_control=True,
    ),
    Claim("pong", preset("ALE/Pong-v5"), 1_000_000, training_return, -15, 25, seeds=1),
    Claim(
        "stateless-cartpole-lstm",
        preset("StatelessCartPole"),
        300_000,
        evaluation_return,
        350,
        0.4,
        without=FORGETFUL,
        control_below=100,
    ),
    Claim(
        "repeat-after-me-2",
        preset("RepeatAfterMe", settings=remembering("lstm", delay=2)),
        100_000,
        evaluation_return,
        50,
        0.2,
        without=FORGETFUL,
        control_below=15,
    ),
    Claim("repeat-previous", preset("RepeatPrevious"), 400_000, evaluation_return, 0.9, 0.4, without=FORGETFUL),
    *(corridor(kind) for kind in CELLS),
    Claim("two-cues", preset("TwoCues"), 100_000, evaluation_return_of_100, 1.9, 0.2, without=FORGETFUL),
    Claim(
        "minigrid-memory-s7",
        preset("MiniGrid-MemoryS7-v0"),
        1_000_000,
        evaluation_return_of_100,
        0.85,
        9,
        without=FORGETFUL,
        seeds=1,
    ),
    Claim("sorter", preset("Sorter"), 250_000, evaluation_return_of_100, 0.9, 1, without=FLAT, control_below=0.5),
    Claim("cartpole-dqn", preset("CartPole-v1", "dqn"), 50_000, evaluation_return, 475, 0.5),
    Claim("cartpole-dqn-dueling", preset("CartPole-v1", "dqn", DUELING), 50_000, evaluation_return, 475, 0.5),
    Claim("cartpole-dqn-quantile", preset("CartPole-v1", "dqn", QUANTILE), 50_000, evaluation_return, 475, 1),
    Claim("cartpole-dqn-implicit", preset("CartPole-v1", "dqn", IMPLICIT), 50_000, evaluation_return, 475, 1.5),
    Claim("cartpole-dqn-munchausen", preset("CartPole-v1", "dqn", MUNCHAUSEN), 50_000, evaluation_return, 475, 1),
    Claim("cartpole-dqn-c51", preset("CartPole-v1", "dqn", CATEGORICAL), 100_000, evaluation_return, 450, 2),
    Claim("cartpole-apex", preset("CartPole-v1", "dqn", APEX), 150_000, evaluation_return, 450, 1),
    Claim(
        "frozen-lake-dqn",
        preset("FrozenLake-v1", "dqn", {"env.config": {"is_slippery": False}}),
        30_000,
        evaluation_return,
        1,
        0.2,
    ),
    Claim("cliff-walking-dqn", preset("CliffWalking-v1", "dqn"), 50_000, evaluation_return, -15, 0.4),
    Claim("lunar-lander-dqn", preset("LunarLander-v3", "dqn"), 150_000, evaluation_return, 100, 2),
    Claim(
        "stateless-cartpole-r2d2",
        preset("StatelessCartPole", "dqn"),
        300_000,
        evaluation_return,
        200,
        1.5,
        without=UNREMEMBERED,
        control_below=100,
    ),
    Claim("cartpole-pqn", preset("CartPole-v1", "pqn"), 200_000, evaluation_return, 475, 0.4),
    Claim(
        "minatar-breakout-pqn",
        preset("MinAtar/Breakout-v1", "pqn"),
        1_000_000,
        evaluation_return,
        6,
        5,
        seeds=1,
        package="minatar",
    ),
    Claim("pendulum-sac", preset("Pendulum-v1", "sac"), 20_000, evaluation_return, -180, 2),
    Claim("pendulum-td3", preset("Pendulum-v1", "td3"), 20_000, evaluation_return, -180, 1),
    Claim("pendulum-ddpg", preset("Pendulum-v1", "ddpg"), 20_000, evaluation_return, -250, 1),
    Claim("mountain-car-sac", preset("MountainCarContinuous-v0", "sac"), 50_000, evaluation_return, 88, 2),
    Claim("cartpole-sac", preset("CartPole-v1", "sac"), 50_000, evaluation_return, 200, 3),
    Claim(
        "bit-flip-her",
        preset("BitFlip", "dqn", HINDSIGHT),
        40_000,
        success_rate_of_100,
        0.95,
        1.5,
        without=NO_HINDSIGHT,
        control_below=0.05,
    ),
    Claim(
        "point-reach-her",
        preset("PointReach", "td3", HINDSIGHT),
        8_000,
        success_rate_of_100,
        0.95,
        2.5,
        without=NO_HINDSIGHT,
        control_below=0.3,
    ),
    Claim(
        "point-reach-drq",
        preset("PointReach", "td3", DRQ),
        40_000,
        success_rate_of_100_from_images,
        0.9,
        10,
        control_below=0.2,
    ),
    Claim(  # has no threshold: it stands beside the claim above
        "point-reach-drq-unshifted",
        preset("PointReach", "td3", UNSHIFTED),
        40_000,
        success_rate_of_100_from_images,
        0.0,
        10,
        control=False,
    ),
    Claim(
        "fetch-reach-her",
        preset("gymnasium_robotics:FetchReach-v4", "td3", HINDSIGHT),
        15_000,
        success_rate_of_100,
        0.95,
        4,
        without=NO_HINDSIGHT,
        control_below=0.3,
        package="gymnasium_robotics",
    ),
    Claim("arena-shared", arena(**SHARED), 116_000, training_return, 15, 1.2),
    Claim("arena-two-policies", arena(**TWO), 80_000, training_return, 18, 0.4),
    Claim("arena-ppo-beside-dqn", arena(**PPO_AND_DQN), 80_000, return_of("pol1"), 15, 0.7),
    Claim("arena-dqn-beside-ppo", arena(**PPO_AND_DQN), 80_000, return_of("pol2"), -4, 0.7),
    Claim("arena-to-18", arena(**TWO), 80_000, training_return, 18, 0.2, until=18, control=False),
    Claim("cartpole-to-475", preset("CartPole-v1"), 100_000, training_return, 475, 0.3, until=475, control=False),
]


def measure(claim: Claim, seed: int, *, learning: bool = True, without: Mapping[str, Any] = NOTHING) -> dict[str, Any]:
    """Trains once and scores."""
    began = time.perf_counter()
    trainer = claim.make(seed, without)
    stop: dict[str, float] = {"env_steps": claim.env_steps}
    if not learning:
        for learner in trainer.learners.values():
            learner.cfg = learner.cfg.replace(lr=1e-12)
        stop["env_steps"] = min(claim.env_steps, CONTROL_STEPS)
    elif claim.until is not None:
        stop["return_mean"] = claim.until
    result = trainer.train(stop=stop)
    took = time.perf_counter() - began
    score = claim.score(trainer)
    trainer.close()
    return {
        "seed": seed,
        "score": round(score, 3),
        "env_steps": result.env_steps,
        "seconds": round(took, 1),
        "steps_per_second": round(result.env_steps / result.seconds),
    }


def control_of(claim: Claim, seeds: int) -> dict[str, Any]:
    """Measures the control, which must fail: a run without learning, or all seeds of `claim.without`."""
    if claim.without is None:
        return measure(claim, 0, learning=False)
    runs = [measure(claim, seed, without=claim.without) for seed in range(min(seeds, claim.seeds))]
    without = ", ".join(f"{path.rpartition('model.')[2]}={flow(value)}" for path, value in claim.without.items())
    return {"score": median(run["score"] for run in runs), "without": without, "runs": runs}


def row_of(claim: Claim, seeds: int) -> dict[str, Any]:
    """A claim measured: its row of the table."""
    runs = [measure(claim, seed) for seed in range(min(seeds, claim.seeds))]
    row: dict[str, Any] = {
        "claim": claim.name,
        "what": claim.score.__name__.replace("_", " "),
        "threshold": claim.threshold,
        "env_steps": claim.env_steps,
        "median": median(run["score"] for run in runs),
        "runs": runs,
    }
    beaten = True
    if claim.control:
        row["control"] = control_of(claim, seeds)
        if claim.times_control:
            row["threshold"] = round(claim.threshold * row["control"]["score"], 3)
        below = row["threshold"] if claim.control_below is None else claim.control_below
        row["control"]["below"] = below
        beaten = row["control"]["score"] < below
    return row | {"holds": beaten and row["median"] >= row["threshold"]}


def lacks_package(claim: Claim) -> bool:
    """Whether a claim's environment is of a package that is not here, which it says; its row stays as it was."""
    if claim.package is None or find_spec(claim.package):
        return False
    print(f"{claim.name} is left out: there is no {claim.package}", flush=True)
    return True


def main() -> int:
    """Runs the chosen claims and writes the table."""
    names = [claim.name for claim in CLAIMS]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("claims", nargs="*", help=f"some of: {', '.join(names)}")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--list", action="store_true", help="say what there is and how long it takes")
    options = parser.parse_args()
    if unknown := set(options.claims).difference(names):
        parser.error(f"no claim {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    chosen = [claim for claim in CLAIMS if not options.claims or claim.name in options.claims]
    if options.list:
        for claim in chosen:
            print(f"{claim.name}: {min(options.seeds, claim.seeds)} x {claim.minutes:g} minutes")
        return 0
    lacking = [] if options.claims else list(filter(lacks_package, chosen))  # what was asked for is not left out
    chosen = [claim for claim in chosen if claim not in lacking]
    for claim in chosen:
        claim.make(0, NOTHING).close()  # a mistake is better met now than in an hour
    before = json.loads((RESULTS / "learning.json").read_text())["rows"]
    kept = set(names) if options.claims else {claim.name for claim in lacking}
    rows = {row["claim"]: row for row in before if row["claim"] in kept}
    failed = 0
    for claim in chosen:
        row = rows[claim.name] = row_of(claim, options.seeds)
        failed += not row["holds"]
        print(json.dumps(row), flush=True)
        write([rows[name] for name in names if name in rows])
    print(f"{len(chosen) - failed} passed, {failed} failed")
    return 1 if failed else 0


def machine() -> dict[str, Any]:
    """Returns the CPU and the versions that figures are of."""
    return {
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "rookery": rookery.__version__,
        **{name: version(name) for name in ("torch", "numpy", "gymnasium")},
    }


def write(rows: list[dict[str, Any]]) -> None:
    """Writes the table and the raw figures."""
    about = machine()
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "learning.json").write_text(json.dumps({"machine": about, "rows": rows}, indent=1) + "\n")
    lines = [
        "# Learning",
        "",
        "Made by `make test-learning` with seeds 0, 1 and 2, one torch thread; rows were made on several machines, the "
        "last ones on: " + ", ".join(f"{name} {value}" for name, value in about.items()) + ".",
        "",
        "A control learns nothing; where settings stand beside its score, it learns as long as the claim, with these",
        "in place of the claim's (the median of as many seeds).",
        "",
        "| claim | env steps | score | needed | median | each seed | control | seconds, each | holds |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        each = ", ".join(f"{run['score']:g}" for run in row["runs"])
        seconds = ", ".join(f"{run['seconds']:g}" for run in row["runs"])
        steps = (
            ", ".join(f"{run['env_steps']:,}" for run in row["runs"])
            if "-to-" in row["claim"]
            else f"{row['env_steps']:,}"
        )
        control = _control_cell(row["control"]) if "control" in row else "-"
        lines.append(
            f"| {row['claim']} | {steps} | {row['what']} | {row['threshold']:g} | {row['median']:g} | {each} "
            f"| {control} | {seconds} | {'yes' if row['holds'] else 'NO'} |"
        )
    (RESULTS / "learning.md").write_text("\n".join(lines) + "\n")


def _control_cell(control: dict[str, Any]) -> str:
    """Returns the control's score; where the claim has `without`, also the score's own bound and that setting."""
    score = f"{control['score']:g}"
    return f"{score} (below {control['below']:g}; `{control['without']}`)" if "without" in control else score


def _cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []:
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or "unknown"


if __name__ == "__main__":
    sys.exit(main())
