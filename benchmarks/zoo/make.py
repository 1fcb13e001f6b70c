"""Makes entries of the zoo: trains each pair with seeds 0, 1 and 2 by ``rookery train`` and measures it.

``python benchmarks/zoo/make.py cartpole-ppo pendulum-td3`` makes some entries anew and keeps the others as they are;
without a name it makes all. ``--missing`` makes those that do not exist, ``--list`` shows all names and about how long
each takes, ``--page`` only writes the table of `docs/zoo.md`.

An entry is a folder beside this file: settings for ``rookery train``, learning curves, scores and the policies of the
training with the median score. Its settings are those of a claim of `benchmarks/learning.py` that are no defaults.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE.parent))

import learning  # noqa: E402
from rookery.cli.zoo.entries import (  # noqa: E402
    CURVE,
    HEAD,
    RESULT,
    SETTINGS,
    WEIGHTS,
    ZooEntry,
    entry_names,
    evaluate_weights,
    read_entry,
)
from rookery.core.io.files import list_checkpoints, read_checkpoint_files, write_directory  # noqa: E402
from rookery.core.settings.layers import flow, yaml_layer  # noqa: E402
from rookery.policies.export import ARRAYS, FILE  # noqa: E402
from rookery.report.statistics import mean_interval  # noqa: E402

PAGE = ROOT / "docs" / "zoo.md"
MARK = "<!-- table: benchmarks/zoo/make.py -->"
SEEDS = (0, 1, 2)
EPISODES = 100
CLAIMS = {claim.name: claim for claim in learning.CLAIMS}
GIVEN = ("default", "drawn", "measured")
"""Beginnings of the sources of values that stay out of the settings of an entry."""


def sb3(score: float, env: str) -> dict[str, Any]:
    """Returns a score of RL Baselines3 Zoo for an environment."""
    source = f"rl-baselines3-zoo, benchmark.md, {env}: one run, deterministic evaluation"
    return {"score": score, "by": "RL Baselines3 Zoo", "source": source}


def slm(score: float, env: str) -> dict[str, Any]:
    """Returns a score of SLM-Lab for an environment."""
    source = f"SLM-Lab, docs/BENCHMARKS.md, {env}: mean of 4 runs, last 100 training episodes"
    return {"score": score, "by": "SLM-Lab", "source": source}


@dataclass(frozen=True)
class Pair:
    """A pair of the zoo.

    Attributes:
        claim: Name of the claim in `learning.py`.
        published: Score that another project has published for as many environment steps.
    """

    claim: str
    published: dict[str, Any] | None = None


PAIRS = {
    "cartpole-ppo": Pair("cartpole", sb3(500.0, "CartPole-v1")),
    "cartpole-a2c": Pair("cartpole-a2c", slm(496.68, "CartPole-v1")),
    "cartpole-reinforce": Pair("cartpole-reinforce", slm(483.31, "CartPole-v1")),
    "cartpole-appo": Pair("cartpole-appo"),
    "cartpole-impala": Pair("cartpole-impala"),
    "cartpole-pqn": Pair("cartpole-pqn"),
    "pendulum-ppo": Pair("pendulum", sb3(-172.225, "Pendulum-v1")),
    "cliff-walking-dqn": Pair("cliff-walking-dqn"),
    "frozen-lake-dqn": Pair("frozen-lake-dqn"),
    "frozen-lake-impala": Pair("frozen-lake-impala"),
    "frozen-lake-appo": Pair("frozen-lake-appo"),
    "cue-corridor-ppo": Pair("cue-corridor-scan"),
    "two-cues-ppo": Pair("two-cues"),
    "repeat-previous-ppo": Pair("repeat-previous"),
    "arena-ppo": Pair("arena-two-policies"),
    "inverted-pendulum-ppo": Pair("inverted-pendulum"),
    "cartpole-dqn": Pair("cartpole-dqn", sb3(500.0, "CartPole-v1")),
    "pendulum-ddpg": Pair("pendulum-ddpg", sb3(-152.099, "Pendulum-v1")),
    "pendulum-td3": Pair("pendulum-td3", sb3(-151.855, "Pendulum-v1")),
    "lunar-lander-ppo": Pair("lunar-lander", sb3(242.119, "LunarLander-v2")),
    "mountain-car-sac": Pair("mountain-car-sac", sb3(94.679, "MountainCarContinuous-v0")),
    "sorter-ppo": Pair("sorter"),
    "pendulum-sac": Pair("pendulum-sac", sb3(-156.995, "Pendulum-v1")),
    "half-cheetah-ppo": Pair("half-cheetah", sb3(5819.099, "HalfCheetah-v3")),
}
"""The pairs by name, about the cheapest first."""


def run_command(*words: str | Path) -> None:
    """Runs a command in a process of its own, with one thread.

    Raises:
        subprocess.CalledProcessError: If it fails.
    """
    source = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    environ = {**os.environ, "PYTHONPATH": source, "OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, "-m", "rookery", *map(str, words)], check=True, env=environ)


def settings_of(claim: learning.Claim, scratch: Path) -> dict[str, Any]:
    """Returns the settings of a claim that are no defaults, as a tree.

    Where the claim is about returns in training, evaluation samples actions as training does.
    """
    claim.make(0, learning.NOTHING, run_dir=scratch).close()
    tree = yaml_layer(scratch / "config.yaml").values
    history: dict[str, list[list[str]]] = json.loads((scratch / "provenance.json").read_text(encoding="utf-8"))
    settings: dict[str, Any] = {}
    for path, given in history.items():
        source = given[-1][0]
        if path != "seed" and not source.startswith(GIVEN) and " as algorithm" not in source:
            value: Any = tree
            *above, last = path.split(".")
            section = settings
            for name in above:
                value, section = value[name], section.setdefault(name, {})
            section[last] = value[last]
    if claim.score is learning.training_return:
        settings["evaluation"] = {"deterministic": False}
    return settings | {"stop": {"env_steps": claim.env_steps}}


def lines_of(settings: Mapping[str, Any], indent: str = "") -> list[str]:
    """Returns a tree of settings as lines of YAML."""
    lines = []
    for name, value in settings.items():
        if isinstance(value, Mapping) and value and not {"start", "points"} & value.keys():
            lines += [f"{indent}{name}:", *lines_of(value, f"{indent}  ")]
        else:
            lines.append(f"{indent}{name}: {flow(value)}")
    return lines


def result_of(run: Path, seed: int) -> dict[str, Any]:
    """Returns the results of a training."""
    outcome = json.loads((run / "result.json").read_text(encoding="utf-8"))
    return {
        "seed": seed,
        "score": round(outcome["evaluation"]["return_mean"], 3),
        "env_steps": outcome["final"]["env_steps"],
        "seconds": round(outcome["final"]["time/seconds"], 1),
    }


def store_weights(run: Path, target: Path) -> None:
    """Stores the policies of the last checkpoint of a training, without the state of its learners."""
    _, files, manifest = read_checkpoint_files(list_checkpoints(run / "checkpoints")[-1])
    facts = {name: manifest[name] for name in ("format", "env_steps", "iteration", "versions")}
    write_directory(target, {name: files[name] for name in (FILE, ARRAYS)}, facts)


def make(name: str, pair: Pair, scratch: Path) -> None:
    """Makes an entry; an older one of the name is replaced when the new one is whole."""
    new, claim = scratch / name, CLAIMS[pair.claim]
    new.mkdir()
    settings = settings_of(claim, scratch / "settings")
    head = f"# Settings that are no defaults. rookery zoo train {name}, or rookery train {SETTINGS} --preset none"
    (new / SETTINGS).write_text("\n".join([head, *lines_of(settings)]) + "\n", encoding="utf-8")
    folders = []
    for seed in SEEDS:
        folders.append(scratch / "runs" / f"seed-{seed}")
        words = [
            "train",
            new / SETTINGS,
            "--preset",
            "none",
            "--seed",
            str(seed),
            "--evaluate",
            str(EPISODES),
            "--quiet",
        ]
        run_command(*words, "--run-dir", scratch / "runs", "--run-id", folders[-1].name)
    runs = [result_of(folder, seed) for folder, seed in zip(folders, SEEDS, strict=True)]
    run_command("plot", *folders, "-o", new / CURVE)
    median = sorted(runs, key=lambda run: run["score"])[len(runs) // 2]["seed"]
    store_weights(folders[SEEDS.index(median)], new / WEIGHTS)
    measured = evaluate_weights(new, median, EPISODES)
    scores = [run["score"] for run in runs]
    algorithm = settings.get("algorithm", next(iter(settings.get("policies", {"": {}}).values())))["name"]
    entry = ZooEntry(
        environment=settings["env"]["name"],
        algorithm=algorithm,
        env_steps=claim.env_steps,
        episodes=EPISODES,
        deterministic=measured.deterministic,
        score=round(fmean(scores), 3),
        interval=[round(end, 3) for end in mean_interval(scores)],
        seconds=round(fmean(run["seconds"] for run in runs), 1),
        runs=runs,
        weights={
            "seed": median,
            "score": measured.return_mean,
            "interval": list(measured.return_interval),
        },
        published=pair.published,
        machine=learning.machine(),
    )
    (new / RESULT).write_text(json.dumps(entry.as_json(), indent=1) + "\n", encoding="utf-8")
    if (HERE / name).exists():
        shutil.rmtree(HERE / name)
    shutil.move(new, HERE / name)


def with_table(page: str) -> str:
    """Returns the text of `docs/zoo.md` with the current table."""
    known = entry_names(HERE)
    rows = [("pair", *HEAD[1:]), ("---",) * len(HEAD)]
    for name in PAIRS:
        if name in known:
            rows.append((f"[{name}](../benchmarks/zoo/{name})", *read_entry(HERE / name).cells(name)[1:]))
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return f"{page.partition(MARK)[0]}{MARK}\n\n{table}\n"


def main(words: Sequence[str] | None = None) -> int:
    """Makes the chosen entries and writes the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pairs", nargs="*", help=f"some of: {', '.join(PAIRS)}")
    parser.add_argument("--missing", action="store_true", help="make those that do not exist")
    parser.add_argument("--list", action="store_true", help="show the names, and about how long each takes")
    parser.add_argument("--page", action="store_true", help="only write the table of docs/zoo.md")
    options = parser.parse_args(words)
    if unknown := set(options.pairs).difference(PAIRS):
        parser.error(f"no pair {', '.join(sorted(unknown))}; there are {', '.join(PAIRS)}")
    chosen = [name for name in PAIRS if not options.pairs or name in options.pairs]
    if options.missing:
        chosen = [name for name in chosen if name not in entry_names(HERE)]
    if options.list:
        for name in chosen:
            print(f"{name}: {len(SEEDS)} x {CLAIMS[PAIRS[name].claim].minutes:g} minutes")
        return 0
    for name in [] if options.page else chosen:
        with tempfile.TemporaryDirectory() as scratch:
            make(name, PAIRS[name], Path(scratch))
        print(" ".join(read_entry(HERE / name).cells(name)), flush=True)
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
