"""RLlib's tuned examples of 2021, started unedited: ``TUNED=FOLDER rllib_tuned.py [--only NAME ...] [--write]``.

FOLDER is ``rllib/tuned_examples`` of a checkout of Ray 1.x; the files are not part of Rookery. Each runs in an empty
folder as ``rookery rllib train -f FILE --local-mode``, one trial after the other in one process. It starts if a trial
has reported an iteration within ``--seconds``; then the run ends. For others the row has the last line of the error,
and the reason of `REASONS`. With ``--to-stop`` the files of `REACHABLE` run until their first trial stops, or for
``--seconds``. ``--write`` puts the rows into benchmarks/results/rllib-tuned.md; rows of files that did not run stay.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from studies.rllib_examples import last_line

from rookery.face import load_yaml

BENCHMARKS = Path(__file__).parent
PAGE = BENCHMARKS / "results" / "rllib-tuned.md"
STARTS, STOPS = "## Files started by the study", "## Files run to their stop"

REASONS = {
    "torch finds no GPU": "asks for a GPU",
    "is not implemented": "its algorithm is not implemented",
    "are not implemented": "its algorithm is not implemented",
    "d4rl_env is not supported": "learns from D4RL's data",
    "BulletEnv": "needs PyBullet, whose environments are of the old gym",
    "pass_criteria": "has a key of RLlib's tests, which `rllib train` refuses in RLlib, too; needs PyBullet",
    "preprocessor_pref": "preprocesses Atari by RLlib's own functions of 2018",
    "decisions take": "its replay buffer of a million Atari images needs more memory than this machine has",
    "gpu = True": "has a key that RLlib 1.4 refuses, too",
    "actions_in_input_normalized": "has a key of RLlib 1.6, and reads an archive of RLlib's tests",
    "_tf_policy_handles": "has a key of RLlib 1.6, for two optimizers",
    "Q_model.hidden_activation": "has keys of RLlib 0.8, and asks for a GPU",
    "player": "needs a compiled game at /home/ubuntu",
    "nothing reported": "steps 160 to 640 Atari games with an untuned network on one core",
}
"""Reasons of files that do not start, by a part of the last line of the error."""

REACHABLE = (
    "ppo/cartpole-ppo", "a3c/cartpole-a2c", "a3c/cartpole-a2c-microbatch", "a3c/cartpole-a3c", "pg/cartpole-pg",
    "ppo/cartpole-ddppo", "ppo/pendulum-ppo", "ppo/pendulum-transformed-actions-ppo", "ppo/repeatafterme-ppo-lstm",
    "ppo/cartpole-appo", "ppo/cartpole-appo-vtrace", "ppo/frozenlake-appo-vtrace", "ppo/pendulum-appo",
    "impala/cartpole-impala", "dqn/cartpole-dqn", "dqn/cartpole-dqn-softq", "dqn/cartpole-dqn-param-noise",
    "dqn/cartpole-simpleq", "dqn/cartpole-apex", "sac/cartpole-sac", "sac/pendulum-sac",
    "sac/pendulum-transformed-actions-sac", "ddpg/pendulum-ddpg", "ddpg/pendulum-td3",
    "qmix/two-step-game-qmix", "qmix/two-step-game-qmix-vdn-mixer", "qmix/two-step-game-qmix-no-mixer",
)  # fmt: skip
"""Files whose stop may be reached within minutes on one core."""


def ran(path: Path, seconds: int, *, to_stop: bool) -> tuple[dict | None, str, float]:
    """Runs a file; returns the last result of its first trial or None, how the run ended, and seconds."""
    environment = {**os.environ, "PYTHONPATH": str(BENCHMARKS.parent / "src"), "OMP_NUM_THREADS": "1"}
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+") as errors:
        command = [sys.executable, "-m", "rookery", "rllib", "train", "-f", str(path), "--local-mode"]
        running = subprocess.Popen(
            command, cwd=folder, env={**environment, "TUNE_RESULT_DIR": folder}, stdout=subprocess.DEVNULL,
            stderr=errors, start_new_session=True,
        )  # fmt: skip
        row, trials, end = None, 0, None
        while end is None:
            end = running.poll()
            found = sorted(Path(folder).glob("*/*/result.json"), key=lambda each: each.stat().st_ctime)
            lines = [line for each in found for line in each.read_text(encoding="utf-8").splitlines()[-1:]]
            row, trials = json.loads(lines[0]) if lines else None, len(lines)
            late = time.perf_counter() - began > seconds
            if late or trials > 1 or (row is not None and not to_stop):
                break
            time.sleep(0.2)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGKILL)
        running.wait()
        spent = time.perf_counter() - began
        errors.seek(0)
        said = last_line(errors.read())
    if end is None:
        return row, "its first trial ends" if trials > 1 else f"runs after {spent:.0f} s", spent
    return row, "ends" if end == 0 else said or f"exit status {end}", spent


def reason(said: str) -> str:
    """Returns the reason of a file that does not start, from the last line of its error, or an empty string."""
    return next((why for part, why in REASONS.items() if part in said), "")


def of_page() -> tuple[str, dict[str, str], dict[str, str]]:
    """Returns the text above the tables of the page, and the rows of both tables by file."""
    text = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    head, _, rest = text.partition(STARTS)
    starts, _, stops = rest.partition(STOPS)
    return head, rows_of(starts), rows_of(stops)


def rows_of(section: str) -> dict[str, str]:
    """Returns the rows of a table by the name of the file."""
    found = {line.split("|")[1].strip(): line for line in section.splitlines() if line.startswith("| ")}
    return {name: line for name, line in found.items() if name != "file"}


def described(path: Path) -> str:
    """Returns the names of the trainers of a file, and whether it asks for a GPU, as cells."""
    specs = load_yaml(path.read_text(encoding="utf-8"), str(path)).values()
    configs = [spec.get("config", {}) for spec in specs]
    asked = any(
        (config.get("num_gpus") or config.get("num_gpus_per_worker")) and not config.get("_fake_gpus")
        for config in configs
    )
    return f"{', '.join(dict.fromkeys(str(spec['run']) for spec in specs))} | {'GPU' if asked else ''}"


def start_row(name: str, path: Path, seconds: int) -> str:
    """Runs a file to its first iteration; returns its row."""
    row, how, spent = ran(path, seconds, to_stop=False)
    if row is None and how.startswith("runs after"):
        how = f"nothing reported in {spent:.0f} s"
    how = "" if row is not None else f"{reason(how)}: {how}".removeprefix(": ")
    return f"| {name} | {described(path)} | {'yes' if row is not None else 'no'} | {how} |"


def stop_row(name: str, path: Path, seconds: int) -> str:
    """Runs a file to its stop; returns its row."""
    (spec,) = load_yaml(path.read_text(encoding="utf-8"), str(path)).values()
    stop = spec["stop"]
    row, how, spent = ran(path, seconds, to_stop=True)
    if row is None:
        return f"| {name} | | no result: {how} | | | {spent:.0f} |"
    wanted = {key: value for key, value in stop.items() if key.endswith("episode_reward_mean")}
    asked = ", ".join(f"{value:g}" for value in wanted.values())
    reached = any(row.get(key.rpartition("/")[2], float("-inf")) >= value for key, value in wanted.items())
    end = "reached" if reached else "not reached" if how == "ends" else how
    score, steps = row["episode_reward_mean"], row["timesteps_total"]
    return f"| {name} | {asked} | {end} | {score:.1f} | {steps:,} of {stop['timesteps_total']:,} | {spent:.0f} |"


def write(head: str, starts: dict[str, str], stops: dict[str, str]) -> None:
    """Writes the page with the tables of all rows."""
    gpu = sum("| GPU |" in row for row in starts.values())
    good = sum("| yes |" in row and "| GPU |" not in row for row in starts.values())
    reached = sum("| reached |" in row for row in stops.values())
    text = f"""{STARTS}

Made by `TUNED=FOLDER python benchmarks/rllib_tuned.py --write`: one iteration of each file, unedited, on a machine
without a GPU that other work shared. {gpu} of {len(starts)} files ask for a GPU. Of the {len(starts) - gpu} others,
{good} start; the rest have a reason and the last line of their error.

| file | trainer | asks for | starts | how |
|---|---|---|---|---|
{chr(10).join(starts[name] for name in sorted(starts))}

{STOPS}

Made by `TUNED=FOLDER python benchmarks/rllib_tuned.py --to-stop --seconds 120 --write`: one seed of each file, on one
core of a shared machine, which says what to expect and no more. {reached} of {len(stops)} files reach the return at
which they stop; {len(REACHABLE) - len(stops)} others of the list have not been run.

| file | stop at return | end | return | env steps | seconds |
|---|---|---|---|---|---|
{chr(10).join(stops[name] for name in sorted(stops))}
"""
    PAGE.write_text(f"{head.rstrip()}\n\n{text}", encoding="utf-8")


def main() -> None:
    """Runs the files, prints their rows, and writes the page if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=os.environ.get("TUNED"), help="default: TUNED")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="names of files, such as ppo/cartpole-ppo")
    parser.add_argument("--seconds", type=int, default=60, help="limit of a file")
    parser.add_argument("--to-stop", action="store_true", help="run files of REACHABLE to their stop")
    parser.add_argument("--write", action="store_true", help=f"write the rows into {PAGE.name}")
    args = parser.parse_args()
    if args.folder is None:
        parser.error("give the folder rllib/tuned_examples, or set TUNED")
    paths = {str(path.relative_to(args.folder).with_suffix("")): path for path in args.folder.rglob("*.yaml")}
    names = args.only or (REACHABLE if args.to_stop else sorted(paths))
    head, starts, stops = of_page()
    for name in names:
        row = (stop_row if args.to_stop else start_row)(name, paths[name], args.seconds)
        (stops if args.to_stop else starts)[name] = row
        print(row, flush=True)
        if args.write:
            write(head, starts, stops)


if __name__ == "__main__":
    main()
