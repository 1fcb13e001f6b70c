"""Curves of RLlib's tuned examples whose stop is far: ``TUNED=FOLDER rllib_tuned_curves.py [NAME ...]``.

FOLDER is as for ``rllib_tuned.py``. Each file runs once with ``seed: 1`` for ``--seconds`` of one core, and once as a
control with learning rates of 1e-12, for a fifth of the time, or until its first results. Returns are written to
``benchmarks/results/rllib-tuned-curves.json``, a table and a picture beside it; curves of files that did not run stay.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import matplotlib
import rllib_tuned
import yaml

from rookery.face import load_yaml

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.ticker import EngFormatter, MaxNLocator

PAGE = Path(__file__).parents[1] / "results" / "rllib-tuned-curves.md"
CONTROL = "control"
RATE = 1e-12
BEYOND = {
    "ddpg/halfcheetah-ddpg": {"actor_lr": RATE, "critic_lr": RATE},
    "ddpg/invertedpendulum-td3": {"actor_lr": RATE, "critic_lr": RATE},
    "ddpg/mujoco-td3": {"actor_lr": RATE, "critic_lr": RATE},
    "es/humanoid-es": {"stepsize": RATE},
    "ars/swimmer-ars": {"sgd_stepsize": RATE},
    "sac/halfcheetah-sac": {
        "optimization": dict.fromkeys(
            ("actor_learning_rate", "critic_learning_rate", "entropy_learning_rate"), RATE
        )
    },
}  # fmt: skip
"""Files whose stop cannot be reached within 15 minutes of one core, with the settings of a control."""

HEAD = """# RLlib's tuned examples of 2021 after 15 minutes

Made by `TUNED=FOLDER python benchmarks/studies/rllib_tuned_curves.py`, with FOLDER as on [the page of the tuned
examples](rllib-tuned.md): the files whose stop lies beyond 15 minutes of one core, or that have none. Each ran once,
with `seed: 1` in its `config`, for {seconds} CPU seconds; of several trials, the first. The control is the same file
with learning rates of 1e-12. A return is `episode_reward_mean`, that of the training episodes with their exploration.
Other processes used the machine.

![Return over env steps, each file beside its control](rllib-tuned-curves.svg)

| file | stop | env steps | return at a quarter | half | three quarters | end | control at its end |
|---|---|---|---|---|---|---|---|
"""


def curve(path: Path, changes: dict[str, Any], seconds: int, *, first: bool = False) -> list[tuple[int, float]]:
    """Runs a copy of a file with changes of its configuration; returns env steps and return of each iteration."""
    ((name, spec),) = load_yaml(path.read_text(encoding="utf-8"), str(path)).items()
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / path.name
        config = {**spec["config"], "seed": 1, **changes}
        copy.write_text(yaml.safe_dump({name: {**spec, "config": config}}), encoding="utf-8")
        rows, how, _ = rllib_tuned.ran(copy, seconds, to_stop=True)
        if not rows and first:
            rows, how, _ = rllib_tuned.ran(copy, 5 * seconds, to_stop=False)
    print(path.stem, changes and CONTROL, how, flush=True)
    known = [(row["timesteps_total"], row["episode_reward_mean"]) for row in rows]
    return [(steps, score) for steps, score in known if score is not None and score == score]


def at(points: list[tuple[int, float]], part: float) -> str:
    """Returns the last return before a part of the env steps, or a dash."""
    known = [score for steps, score in points if steps <= part * points[-1][0]]
    return f"{known[-1]:.4g}" if known else "–"


def page(figures: dict[str, dict[str, Any]], seconds: int) -> str:
    """Returns the page of the curves so far."""
    lines = []
    for name, known in sorted(figures.items()):
        points, control = known["points"], known[CONTROL]
        cells = [
            name,
            known["stop"],
            f"{points[-1][0]:,}",
            *(at(points, part) for part in (0.25, 0.5, 0.75, 1)),
            at(control, 1),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return HEAD.format(seconds=seconds) + "\n".join(lines) + "\n"


def draw(figures: dict[str, dict[str, Any]]) -> None:
    """Draws a panel for each file."""
    columns = 3
    rows = -(-len(figures) // columns)
    figure, axes = plt.subplots(rows, columns, figsize=(11, 2.8 * rows), squeeze=False)
    for panel in axes.flat[len(figures) :]:
        panel.set_visible(False)
    for panel, (name, known) in zip(axes.flat, sorted(figures.items()), strict=False):
        for label, points in (("file", known["points"]), (CONTROL, known[CONTROL])):
            if points:
                panel.plot(
                    *zip(*points, strict=True),
                    ".-",
                    ms=3,
                    lw=1.2,
                    label=label,
                    color="C7" if label == CONTROL else "C0",
                )
        panel.set_title(name, fontsize=9)
        panel.tick_params(labelsize=7)
        panel.xaxis.set_major_formatter(EngFormatter(sep=""))
        panel.xaxis.set_major_locator(MaxNLocator(5))
        panel.grid(alpha=0.3)
        panel.set_xlabel("env steps", fontsize=8)
        panel.set_ylabel("return", fontsize=8)
    axes.flat[0].legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(PAGE.with_suffix(".svg"), metadata={"Date": None})


def main() -> None:
    """Runs the files, and writes the figures, the page and the picture after each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=list(BEYOND), metavar="NAME")
    parser.add_argument("--seconds", type=int, default=900, help="limit of a run, in CPU seconds")
    given = parser.parse_args()
    folder = Path(os.environ["TUNED"])
    stored = PAGE.with_suffix(".json")
    for name in given.names:
        path = folder / f"{name}.yaml"
        (spec,) = load_yaml(path.read_text(encoding="utf-8"), str(path)).values()
        stop = ", ".join(f"`{key}` {value:,}" for key, value in spec.get("stop", {}).items()) or "none"
        points = curve(path, {}, given.seconds)
        control = curve(path, BEYOND[name], given.seconds // 5, first=True)
        known = json.loads(stored.read_text()) if stored.exists() else {}
        figures = {each: runs for each, runs in known.items() if each in BEYOND}
        figures[name] = {"stop": stop, "points": points, CONTROL: control}
        stored.write_text(json.dumps(figures, separators=(",", ":")) + "\n")
        PAGE.write_text(page(figures, given.seconds))
        draw(figures)


if __name__ == "__main__":
    main()
