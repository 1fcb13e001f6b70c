"""RLlib's example scripts of 2021, started unedited: ``rllib_examples.py FOLDER [--only NAME ...] [--write]``.

FOLDER is ``rllib/examples`` of the wheel ``ray==1.4.0``, unpacked; the scripts are not part of Rookery. Each runs in an
empty folder as ``rookery rllib run SCRIPT``, with ``--framework=torch`` and ``--stop-iters=1`` if it has these flags,
and the further arguments of `ARGUMENTS`, beside a program of `BESIDE`. It starts if it ends without an error, or has
reported an iteration when ``--seconds`` are over; for others the row has the last line of the error, and the reason of
`REASONS`. ``--write`` puts the rows into benchmarks/results/rllib-examples.md; rows of scripts that did not run stay.
Scripts with Keras models need the extra ``keras``, pettingzoo_env needs ``supersuit`` and ``pymunk``, serve_and_rllib
``requests`` and ``starlette``.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BENCHMARKS = Path(__file__).parents[1]
PAGE = BENCHMARKS / "results" / "rllib-examples.md"
TITLE = "## Scripts started by the study"

FLAGS = ("--framework=torch", "--stop-iters=1")
"""Arguments of every script that has the flag."""

ARGUMENTS = {
    "custom_keras_model": ["--run=PPO", "--stop=0"],
    "custom_loss": ["--input-files={recorded}"],
    "custom_experiment": ["--train-iterations=1"],
    "partial_gpus": ["--num-gpus=0"],
    "restore_1_of_n_agents_from_checkpoint": ["--pre-training-iters=1"],
    "rollout_worker_custom_workflow": ["--num-iters=1"],
    "serve_and_rllib": ["--train-iters=1", "--no-render"],
    "two_trainer_workflow": ["--torch"],
}
"""Further arguments by script; ``{recorded}`` is experience that ``saving_experiences`` has written."""

BESIDE = {
    "unity3d_env_local": "rookery.tasks:BallPlate --behavior agent=3DBall --unity-names --num-areas 12 "
    "--mlagents-port 5004 --wait 60",
}
"""Arguments of a simulated Unity player, ``python -m rookery_mlagents.testing``, that runs beside a script."""

REASONS = {
    "attention_net_supervised": "imports `rllib`, which only a checkout of RLlib has, and trains by TensorFlow",
    "dmlab_watermaze": "deepmind_lab is not on PyPI",
    "iterated_prisoners_dilemma_env": "reads `args.tf`, which it does not define: fails in RLlib, too",
    "mobilenet_v2_with_lstm": "its model is downloaded by torch.hub, and is none of the names here",
    "multi_agent_independent_learning": "PettingZoo has no waterworld any more",
    "multi_agent_parameter_sharing": "PettingZoo has no waterworld any more",
    "offline_rl": "reads /path/to/my/json_file.json, which is to be replaced, and the replay buffer of ray's module",
    "pettingzoo_env": "today's pistonball has another name and no local_ratio",
    "recsim_with_slateq": "SlateQ is not implemented",
    "sb2rllib_sb_example": "is for Stable Baselines 2 with TensorFlow 1, without RLlib",
    "serve_and_rllib": "Ray Serve is not implemented; rookery serve answers over HTTP",
    "sumo_env_local": "needs SUMO, and a module that is not in the wheel",
    "vizdoom_with_attention_net": "vizdoomgym is not on PyPI, and today's ViZDoom has other ids and observations",
}
"""Reasons of scripts that do not start."""

REPORTED = re.compile(r"training_iteration|TERMINATED|RUNNING|episode_reward_mean")
"""Words of a reported iteration in what a script prints."""


def arguments(path: Path) -> list[str]:
    """Returns the arguments of a script."""
    text = path.read_text(encoding="utf-8")
    flags = [flag for flag in FLAGS if f'"{flag.split("=")[0]}"' in text]
    return [*flags, *ARGUMENTS.get(path.stem, [])]


def started(path: Path, words: list[str], seconds: int) -> tuple[bool, str, float]:
    """Runs a script; returns whether it starts, the end of its error or of its output, and seconds."""
    environment = {**os.environ, "PYTHONPATH": str(BENCHMARKS.parent / "src"), "OMP_NUM_THREADS": "1"}
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        environment["TUNE_RESULT_DIR"] = folder
        command = [sys.executable, "-m", "rookery", "rllib", "run", str(path), "--", *words]
        player = None
        if path.stem in BESIDE:
            host = [sys.executable, "-m", "rookery_mlagents.testing", *BESIDE[path.stem].split()]
            player = subprocess.Popen(host, cwd=folder, env=environment, stderr=subprocess.DEVNULL)
        running = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        try:
            out, errors = running.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            running.kill()
            out, errors = running.communicate()
            fine = bool(REPORTED.search(out))
            return fine, f"still runs after {seconds} s" if fine else f"nothing reported in {seconds} s", seconds
        finally:
            if player is not None:
                player.kill()
                player.wait()
    spent = time.perf_counter() - began
    if running.returncode == 0:
        return True, "ends", spent
    return False, last_line(errors) or f"exit status {running.returncode}", spent


def last_line(errors: str) -> str:
    """Returns the last line of an error, without paths and fit for a cell of a table, or an empty string."""
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    return re.sub(r" ?\(?/\S+", "", lines[-1])[:160].replace("|", "/") if lines else ""


def recorded(folder: Path, seconds: int) -> str:
    """Returns the directory of the experience that the script saving_experiences writes."""
    place = Path(tempfile.gettempdir()) / "demo-out"
    if not place.exists():
        started(folder / "saving_experiences.py", [], seconds)
    return str(place)


def main() -> None:
    """Runs the scripts, prints the table, and writes it if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="names of scripts, without .py")
    parser.add_argument("--seconds", type=int, default=90, help="limit of a script")
    parser.add_argument("--write", action="store_true", help=f"write the rows into {PAGE.name}")
    args = parser.parse_args()
    head, _, section = PAGE.read_text(encoding="utf-8").partition(TITLE)
    rows = {line.split("|")[1].strip(): line for line in section.splitlines() if re.match(r"\| \w+ \| .*\|$", line)}
    rows.pop("script", None)
    for path in sorted(args.folder.glob("*.py")):
        if path.stem == "__init__" or (args.only and path.stem not in args.only):
            continue
        words = [word.format(recorded=recorded(args.folder, args.seconds)) for word in arguments(path)]
        fine, how, spent = started(path, words, args.seconds)
        how = how if fine else f"{REASONS.get(path.stem, '')}: {how}".removeprefix(": ")
        shown = " ".join(word for word in words if not word.startswith("--input-files"))
        rows[path.stem] = f"| {path.stem} | `{shown}` | {'yes' if fine else 'no'} | {how} | {spent:.0f} |"
        print(rows[path.stem], flush=True)
        if args.write:
            write(head, rows)


def write(head: str, rows: dict[str, str]) -> None:
    """Writes the page with the table of all rows."""
    good = sum("| yes |" in row for row in rows.values())
    text = f"""{TITLE}

Made by `python benchmarks/studies/rllib_examples.py FOLDER --write`: one iteration of each script, unedited, on a
machine that other work shared, with the extra keras. {good} of {len(rows)} scripts start; the others have a reason and
the last line of their error. unity3d_env_local plays with a simulated player. Rewards are in the table above.

| script | arguments | starts | how | seconds |
|---|---|---|---|---|
"""
    PAGE.write_text(
        head.rstrip() + "\n\n" + text + "\n".join(rows[name] for name in sorted(rows)) + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    main()
