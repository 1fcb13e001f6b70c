"""Writes the runs of tests/golden/checkpoints/, which later versions of Rookery must load and train on.

They are written by the Rookery that Python finds, and not again when something changes: what they are good for is that
an older version wrote them. So check the commit out beside this tree, build or copy its kernels, and run::

    PYTHONPATH=OLD/src python tests/golden/make_checkpoints.py [NAME ...]

``written.json`` says by which commit each was written. Runs are small, stopped in the middle of episodes, and hold no
absolute path, no name of a machine or user, and no signature that is valid anywhere else.
"""

from __future__ import annotations

import argparse
import getpass
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import rookery
from rookery import DQNConfig, IQLConfig, PPOConfig, QMIXConfig, SACConfig, Trainer, tune
from rookery.cli.main import program
from rookery.core.process.interrupt import Interrupted

PLACE = Path(__file__).parent / "checkpoints"

NOT_KEPT = ("events.out.tfevents.*", "run.lock", "timers.json", "log.txt", "run_logs")
"""What a run needs nothing of to resume, and what names machines."""

BODY = {"hidden": (16,)}
PPO = PPOConfig(fragment_length=24, epochs=2, minibatch_size=32, model=BODY)
REPLAY: dict[str, Any] = {"batch_size": 16, "learning_starts": 60, "updates_per_step": 0.2, "model": BODY}
SHORT = {"sampling.iteration_steps": 50}

RUNS: dict[str, dict[str, Any]] = {
    "ppo": {"env": "CartPole-v1", "algorithm": PPO.replace(scale_rewards=True, model={**BODY, "normalize_obs": True})},
    "lstm": {
        "env": "StatelessCartPole",
        "algorithm": PPO.replace(model={**BODY, "memory": {"kind": "lstm", "size": 8, "sequence_length": 8}}),
    },
    "dqn": {
        "env": "CartPole-v1",
        "algorithm": DQNConfig(**REPLAY, n_step=3, replay={"capacity": 300, "kind": "prioritized"}),
        "config": SHORT,
    },
    "sac": {"env": "Pendulum-v1", "algorithm": SACConfig(**REPLAY, replay={"capacity": 300}), "config": SHORT},
    "self-play": {
        "env": "TicTacToe",
        "algorithm": PPO,
        "config": {
            "self_play.main": {
                "snapshot_every": 150, "swap_every": 60, "window": 2, "anchors": {"random": "random"}, "rating_games": 2
            }
        },
    },
    "curriculum": {
        "env": "WallCurriculum",
        "env_config": {"max_steps": 13},
        "algorithm": PPO,
        "config": {
            "curriculum.wall_height": {"lessons": [0, 1.0, 3.0], "threshold": -0.2, "min_episodes": 3},
            "env.parameters.block_distance": {"sampler": "intervals", "intervals": [[0, 1], [3, 5]]},
        },
    },
    "qmix": {
        "env": "MatrixGame",
        "algorithm": QMIXConfig(**REPLAY, replay={"capacity": 300}),
        "teams": {"blue": ["a", "b"]},
        "config": SHORT,
    },
    # written before policies took the settings of own signals from the section `algorithm`
    "own-signal": {
        "env": "CartPole-v1",
        "algorithm": PPO,
        "config": {
            "algorithm.signals.own.seen": {"name": "rookery.signals.count:CountConfig", "gamma": 0.5, "strength": 2.0},
            "policies.main.signals.rnd": {},
        },
    },
}  # fmt: skip
"""Arguments of `Trainer` for runs that play; each is stopped after 4 iterations."""

BASIC = """behaviors:
  Basic:
    trainer_type: ppo
    hyperparameters: {batch_size: 16, buffer_size: 64, num_epoch: 2}
    network_settings: {hidden_units: 16, num_layers: 1}
    time_horizon: 16
    summary_freq: 100
    max_steps: 1000
    checkpoint_interval: 200
"""


def play(name: str, arguments: dict[str, Any]) -> None:
    """Writes a run that plays."""
    with Trainer(**arguments, num_envs=3, env_processes=0, seed=5, run_dir=name, checkpoint_every=2) as trainer:
        trainer.train({"iterations": 4})


def learn_from_data() -> None:
    """Writes a run that learns from the replay of another, which lies beside it."""
    dqn = RUNS["dqn"]["algorithm"].replace(replay={"capacity": 300})
    with Trainer("CartPole-v1", dqn, num_envs=3, env_processes=0, seed=6, config=SHORT) as trainer:
        trainer.train({"iterations": 4})
        trainer.save("iql-data")
    iql = IQLConfig(batch_size=16, replay={"capacity": 600}, model=BODY)
    with Trainer(None, iql, replay="iql-data", seed=5, run_dir="iql") as trainer:
        trainer.learn(40)


@contextmanager
def interrupted_at(owner: type, method: str, number: int) -> Iterator[None]:
    """Sends this process Ctrl-C before a method is called for so many times; the run has to end by it."""
    original, calls = getattr(owner, method), 0

    def counted(*arguments: Any, **keywords: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == number:
            signal.raise_signal(signal.SIGINT)
        return original(*arguments, **keywords)

    with mock.patch.object(owner, method, counted):
        try:
            yield
        except Interrupted:
            return
        except SystemExit as end:
            if end.code == 130:
                return
    raise SystemExit(f"{owner.__name__}.{method} was not interrupted")


def tune_rates() -> None:
    """Writes an experiment of three trials, interrupted in the second."""
    cfg = PPO.replace(lr=tune.loguniform(1e-4, 1e-2))
    with interrupted_at(Trainer, "train_iteration", 6):
        tune.run("CartPole-v1", cfg, num_samples=3, num_envs=2, stop={"iterations": 4}, seed=5, place="here",
                 console="quiet", folder="tune")  # fmt: skip


def learn_as_mlagents() -> None:
    """Writes ``results/basic`` by ML-Agents' command, in the middle of its training."""
    Path("Basic.yaml").write_text(BASIC, encoding="utf-8")
    words = "mlagents learn Basic.yaml --env rookery.tasks:Basic --run-id basic --seed 5 --num-areas 2 --console quiet"
    with mock.patch("sys.argv", ["rookery", *words.split()]), interrupted_at(Trainer, "train_iteration", 7):
        program()


def kept_files(place: Path) -> Iterator[Path]:
    """Gives the files of a folder."""
    return (path for path in sorted(place.rglob("*")) if path.is_file())


def check_says_nothing_of_here(place: Path) -> None:
    """Refuses files that name this machine, its folders or its user."""
    said = {str(Path.cwd()), str(Path.home()), sys.prefix, str(Path(rookery.__file__).parent), socket.gethostname(),
            "/tmp/", "/home/", f"/{getpass.getuser()}"}  # fmt: skip
    for path in kept_files(place):
        content = path.read_bytes()
        for word in said:
            if len(word) > 3 and word.encode() in content or word in path.name:
                raise SystemExit(f"{path.relative_to(place)} names {word!r}")


def main() -> None:
    """Writes all runs, or those that are named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--to", type=Path, default=PLACE, help="folder in which they are replaced")
    parser.add_argument("names", nargs="*", help="runs that are written; none = all")
    chosen = parser.parse_args()
    to = chosen.to.absolute()
    source = Path(rookery.__file__).parent
    commit = subprocess.run(
        ["git", "-C", source, "rev-parse", "HEAD"], check=True, capture_output=True, text=True
    ).stdout
    makers: dict[str, Callable[[], None]] = {
        **{name: lambda name=name, one=one: play(name, one) for name, one in RUNS.items()},
        "iql": learn_from_data,
        "tune": tune_rates,
        "mlagents": learn_as_mlagents,
    }
    sys.argv = ["make_checkpoints.py"]  # which runs keep
    nameless = os.uname_result(("Linux", "", "", "", os.uname().machine))  # runs note the release of the system
    with tempfile.TemporaryDirectory() as folder, mock.patch("os.uname", return_value=nameless):
        os.environ["XDG_CONFIG_HOME"] = os.path.join(folder, "config")
        place = Path(folder, "runs")
        place.mkdir()
        os.chdir(place)
        for name in chosen.names or makers:
            print(name, flush=True)
            makers[name]()
        for pattern in NOT_KEPT:
            for path in place.rglob(pattern):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        written = to / "written.json"
        said = json.loads(written.read_text(encoding="utf-8")) if chosen.names else {}
        said |= dict.fromkeys(chosen.names or makers, {"commit": commit.strip(), "rookery": rookery.__version__})
        (place / "written.json").write_text(json.dumps(said, indent=1) + "\n", encoding="utf-8")
        check_says_nothing_of_here(place)
        for path in place.iterdir():
            shutil.rmtree(to / path.name, ignore_errors=True)
        shutil.copytree(place, to, dirs_exist_ok=True)
    print(f"{sum(path.stat().st_size for path in kept_files(to)) / 1e6:.2f} MB in {to}")


if __name__ == "__main__":
    main()
