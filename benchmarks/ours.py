"""One of Rookery's measurements, in this process: ``ours.py ENTRANT --seconds N`` prints a line of JSON.

``ours.py --list`` names them: trainings, limits of their parts (``limits/...``), and steps a second against copies
(``scaling/...``).
"""

from __future__ import annotations

import argparse
import json
import platform
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from importlib.metadata import version
from typing import Any

import numpy as np
from measure import Meter, seconds_since_start
from workloads import BEST, MATCHED, OFF_POLICY, PPO, TARGETS

from envs import NUM_AGENTS, Busy, Crowd, Single, loops_for
from rookery import DQNConfig, MAPPOConfig, MultiAgentArena, PPOConfig, SACConfig, TD3Config, Trainer, __version__
from rookery.envs.choice import random_rate
from rookery.run.plan.speed import describe, measure_limits, measure_pace

IMPORTED = seconds_since_start()

COPIES = (1, 4, 16, 64, 256, 1024)
"""Numbers of environments of the scaling measurements."""

LARGEST_BATCH = 16_384
"""There, fragments are shortened so that an iteration has no more decisions than this."""


def trainer(
    settings: PPO,
    seed: int,
    env: Any = None,
    paths: dict[str, Any] | None = None,
    kind: type[PPOConfig] = PPOConfig,
    **more: Any,
) -> Trainer:
    """A trainer with the settings of a workload.

    Args:
        settings: Those that peers have too.
        seed: Names all random numbers.
        env: The environment, if it is no name in `settings`.
        paths: Settings by path, over all others.
        kind: Class of the algorithm's settings.
        more: Arguments of `Trainer`.
    """
    algorithm = kind(
        lr=settings.lr,
        gamma=settings.gamma,
        gae_lambda=settings.gae_lambda,
        clip=settings.clip,
        epochs=settings.epochs,
        minibatch_size=settings.minibatch_size,
        fragment_length=settings.fragment_length,
        entropy_coef=settings.entropy_coef,
        scale_rewards=False,
        normalize_values=False,
    )
    network: dict[str, Any] = {
        "algorithm.model.hidden": settings.hidden,
        "algorithm.model.activation": settings.activation,
        "algorithm.model.normalize_obs": False,
    }
    if settings.lstm:
        network |= {
            "algorithm.model.memory.kind": "lstm",
            "algorithm.model.memory.size": settings.lstm,
            "algorithm.model.memory.sequence_length": settings.sequence_length,
        }
    return Trainer(
        env or settings.env,
        algorithm,
        num_envs=settings.num_envs,
        seed=seed,
        config=[network, paths or {}],
        **more,
    )


def on(implementation: str, **more: Any) -> dict[str, Any]:
    """The paths that choose a back end."""
    return {"env.implementation": implementation, **more}


def two_policies(seed: int) -> Trainer:
    """The arena with a policy for each agent."""
    mapping = {"agent1": "pol1", "agent2": "pol2"}
    return trainer(MATCHED["arena-two"], seed, policies=["pol1", "pol2"], policy_mapping=mapping)


def pong(seed: int, threads: int | None = None) -> Trainer:
    """Pong on the emulator's own vector env, with no sticky actions, as the peers' wrappers play it.

    The network is that of the preset for images: a shared Nature CNN. Threads are those of learning: as the rule for
    a machine that others use too says, or all of a machine that is ours alone.
    """
    settings = MATCHED["pong"]
    names = ("lr", "epochs", "minibatch_size", "fragment_length", "entropy_coef", "clip", "gamma", "gae_lambda")
    algorithm = PPOConfig(**{name: getattr(settings, name) for name in names})
    return Trainer(
        "Atari",
        algorithm,
        num_envs=settings.num_envs,
        seed=seed,
        env_config={"game": "pong"},
        config=[on("batched", **({} if threads is None else {"threads": threads}))],
    )


def synthetic(microseconds: int, seed: int, paths: dict[str, Any], settings: PPO = MATCHED["synthetic"]) -> Trainer:
    """An environment in Python whose step takes so long."""
    return trainer(settings, seed, Busy, paths, env_config={"loops": loops_for(microseconds)})


def crowd(together: bool, seed: int) -> Trainer:
    """Eight agents of one policy: in one environment, or each in its own."""
    settings = replace(MATCHED["cartpole-matched"], num_envs=1 if together else NUM_AGENTS)
    return trainer(settings, seed, Crowd if together else Single, on("serial"))


def from_memory(name: str, seed: int, paths: dict[str, Any] | None = None) -> Trainer:
    """A training from a replay memory, one copy."""
    settings = OFF_POLICY[name]
    network: dict[str, Any] = {
        "sampling.iteration_steps": settings.iteration_steps,
        "algorithm.learning_starts": settings.iteration_steps,
        "algorithm.train_every": settings.train_every,
        "algorithm.updates_per_step": 1 / settings.train_every,
        "algorithm.batch_size": settings.batch_size,
        "algorithm.lr": settings.lr,
        "algorithm.gamma": settings.gamma,
        "algorithm.n_step": 1,
        "algorithm.replay.capacity": settings.capacity,
        "algorithm.model.hidden": settings.hidden,
        "algorithm.model.activation": "relu",
        "algorithm.model.normalize_obs": False,
    }
    if name == "dqn":
        network |= {
            "algorithm.double": False,
            "algorithm.target.every": settings.target_every,
            "algorithm.exploration.epsilon": {"start": 1.0, "end": 0.05, "steps": settings.epsilon_steps},
        }
    if name == "td3":
        network["algorithm.exploration.std"] = 0.1
    if name == "tqc":
        network["algorithm.critic.quantiles"] = 25
    if name == "crossq":
        network["algorithm.critic.norm"] = "batch"
    algorithm = {"dqn": DQNConfig, "td3": TD3Config}.get(name, SACConfig)()
    return Trainer(settings.env, algorithm, num_envs=1, seed=seed, config=[on("serial"), network, paths or {}])


Make = Callable[..., Trainer]

TRAININGS: dict[str, Make] = {
    "cartpole-matched/serial": partial(trainer, MATCHED["cartpole-matched"], paths=on("serial")),
    "cartpole-matched/batched": partial(trainer, MATCHED["cartpole-matched"], paths=on("batched")),
    "cartpole-matched/c": partial(trainer, MATCHED["cartpole-matched"], paths=on("c")),
    "pendulum-matched/serial": partial(trainer, MATCHED["pendulum-matched"], paths=on("serial")),
    "cartpole-64/batched": partial(trainer, MATCHED["cartpole-64"], paths=on("batched")),
    "cartpole-64/c": partial(trainer, MATCHED["cartpole-64"], paths=on("c")),
    **{f"cartpole-best/{name.removeprefix('rookery-')}": partial(trainer, settings)
       for name, settings in BEST.items() if name.startswith("rookery-")},
    "arena-one/ours": partial(trainer, MATCHED["arena-one"]),
    "arena-two/ours": two_policies,
    "arena-15/ours": partial(Trainer, MultiAgentArena),
    **{f"synthetic-{us}/processes": partial(synthetic, us, paths=on("processes")) for us in (10, 50, 100)},
    **{f"halfcheetah/{name}": partial(trainer, MATCHED["halfcheetah"], paths=on(name))
       for name in ("auto", "serial", "processes", "threads")},
    "pong/ours": pong,
    "pong/ours, 2 threads": partial(pong, threads=2),
    "connect-four/batched": partial(
        trainer, MATCHED["connect-four"], env="rookery.tasks:ConnectFour", self_play={"main": {}}
    ),
    "connect-four/pettingzoo": partial(
        trainer, MATCHED["connect-four"], self_play={"main": {}},
        paths=on("serial", **{"algorithm.model.cnn": "flat", "algorithm.model.cnn_features": 64,
                              "algorithm.model.hidden": (64,)}),
    ),
    **{f"spread-ippo/{name}": partial(trainer, MATCHED["spread-ippo"], paths=on(name)) for name in ("serial", "auto")},
    **{f"spread-mappo/{name}": partial(trainer, MATCHED["spread-mappo"], paths=on(name), kind=MAPPOConfig)
       for name in ("serial", "auto")},
    "memory/serial": partial(trainer, MATCHED["memory"], paths=on("serial")),
    "memory/batched": partial(trainer, MATCHED["memory"], paths=on("batched")),
    "dqn/serial": partial(from_memory, "dqn"),
    "dqn/c": partial(from_memory, "dqn", paths={"env.implementation": "c"}),
    **{f"{name}/{number}": partial(from_memory, name, paths={"algorithm.model.precision": number, "threads": 1})
       for name in ("sac", "td3") for number in ("bfloat16", "float32")},
    **{f"{name}/float32": partial(from_memory, name, paths={"threads": 1}) for name in ("tqc", "crossq")},
    "sac/bfloat16, 2 threads": partial(
        from_memory, "sac", paths={"algorithm.model.precision": "bfloat16", "threads": 2}
    ),
    "crowd/together": partial(crowd, True),
    "crowd/alone": partial(crowd, False),
}  # fmt: skip
"""Function for each entrant of Rookery, by workload and entrant."""

LIMITED = {
    "cartpole-matched": TRAININGS["cartpole-matched/serial"],
    "cartpole-64": TRAININGS["cartpole-64/batched"],
    "cartpole-best": TRAININGS["cartpole-best/256"],
    "arena-one": TRAININGS["arena-one/ours"],
    "synthetic-50": TRAININGS["synthetic-50/processes"],
    "halfcheetah": TRAININGS["halfcheetah/auto"],
    "pong": TRAININGS["pong/ours"],
    "memory": TRAININGS["memory/serial"],
}
"""Trainings whose parts are measured alone."""

SCALED: dict[str, Make] = {
    "CartPole, batched": partial(trainer, paths=on("batched")),
    "CartPole, serial": partial(trainer, paths=on("serial")),
    **{f"CartPole, {n} helper{'s' * (n > 1)}": partial(trainer, paths=on("processes", **{"sampling.env_processes": n}))
       for n in (1, 2)},
    **{f"50 us, {n} helper{'s' * (n != 1)}": partial(
           synthetic, 50, paths=on("processes", **{"sampling.env_processes": n}))
       for n in (0, 1, 2)},
}  # fmt: skip
"""Lines of the figure: trainings that take the settings with another number of environments."""


def train(make: Make, seed: int, seconds: float, target: float | None) -> None:
    """Trains for a while, or until the target is reached, and reports."""
    meter = Meter(IMPORTED, seconds, target)
    with make(seed=seed) as made:
        enough = False
        while not enough:
            result = made.train_iteration()
            enough = meter.iteration(result.env_steps, result.return_mean)
        decisions = sum(made._decisions.values())
        playing = sum(row.seconds for row in made.timers.rows() if row.label == "sample")
        meter.report(**about(made), playing_us_per_decision=round(1e6 * playing / decisions, 2))


def limits(make: Make, seed: int, seconds: float) -> None:
    """Measures the whole and its parts, and reports."""
    with make(seed=seed) as made:
        pace = measure_pace(made, seconds / 2)
    with make(seed=seed) as made:
        parts = measure_limits(made, pace, seconds / 2)
        line = {**asdict(pace), **asdict(parts), "together": parts.together, **about(made)}
    print(json.dumps(line), flush=True)


def scaling(make: Make, seed: int, seconds: float) -> None:
    """Measures with more and more copies, and reports."""
    rates = {}
    for copies in COPIES:
        length = max(8, min(128, LARGEST_BATCH // copies))
        settings = replace(MATCHED["cartpole-matched"], num_envs=copies, fragment_length=length,
                           minibatch_size=max(32, copies * length // 4))  # fmt: skip
        with make(settings=settings, seed=seed) as made:
            rates[copies] = round(measure_pace(made, seconds / 2).steps_per_second, 1)
            line = about(made)
    print(json.dumps({"steps_per_second_by_copies": rates, **line}), flush=True)


def stepping(make: Make, seed: int, seconds: float) -> None:
    """Measures the environment alone, through our back end, and reports."""
    with make(seed=seed) as made:
        rate = random_rate(made.env, lambda lane, episode: episode, seconds, np.random.default_rng(seed))
        print(json.dumps({"steps_per_second": rate, **about(made)}), flush=True)


def about(made: Trainer) -> dict[str, Any]:
    """Returns threads, number of environments, notes and versions of a training."""
    return {
        "threads": describe(made)["torch_threads"],
        "num_envs": made.env.num_lanes,
        "notes": list(made._notes),
        "versions": {"python": platform.python_version(), "rookery": __version__, "torch": version("torch")},
    }


def main() -> None:
    """Runs what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("entrant", nargs="?")
    parser.add_argument("--seconds", type=float, default=6.0, help="time to measure for; with a target, the longest")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--list", action="store_true", help="what can be measured")
    args = parser.parse_args()
    other = {f"limits/{name}": partial(limits, make) for name, make in LIMITED.items()}
    other |= {f"scaling/{name}": partial(scaling, make) for name, make in SCALED.items()}
    other |= {
        f"{name}, stepping alone": partial(stepping, make)
        for name, make in TRAININGS.items()
        if name.startswith("synthetic")
    }
    if args.list or args.entrant not in {*TRAININGS, *other}:
        print("\n".join([*TRAININGS, *other]))
        raise SystemExit(0 if args.list else f"no such measurement: {args.entrant}")
    if args.entrant in other:
        other[args.entrant](args.seed, args.seconds)
    else:
        train(TRAININGS[args.entrant], args.seed, args.seconds, TARGETS.get(args.entrant.partition("/")[0]))


if __name__ == "__main__":
    main()
