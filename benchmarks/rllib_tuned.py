"""RLlib's tuned examples of 2021, started unedited: ``TUNED=FOLDER rllib_tuned.py [--only NAME ...] [--write]``.

FOLDER is ``rllib/tuned_examples`` of a checkout of Ray 1.x; the files are not part of Rookery. Each runs in an empty
folder as ``rookery rllib train -f FILE --local-mode``, one trial after the other in one process. It starts if a trial
has reported an iteration within ``--seconds`` of a core; then the run ends. For others the row has the last line of the
error, and the reason of `REASONS`. With ``--to-stop`` the files of `REACHABLE` run until their trial stops, or for
``--seconds``, with each of `SEEDS`: a copy of the file, whose ``config`` has the seed and is otherwise the same.
``--write`` puts the rows into benchmarks/results/rllib-tuned.md; rows of files that did not run stay.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import yaml
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
    "impala/cartpole-impala", "impala/pendulum-impala", "dqn/cartpole-dqn", "dqn/cartpole-dqn-softq",
    "dqn/cartpole-dqn-param-noise", "dqn/cartpole-simpleq", "dqn/cartpole-apex", "dqn/cartpole-r2d2",
    "dqn/stateless-cartpole-r2d2", "sac/cartpole-sac", "sac/pendulum-sac", "sac/pendulum-transformed-actions-sac",
    "ddpg/pendulum-ddpg", "ddpg/pendulum-td3", "qmix/two-step-game-qmix", "qmix/two-step-game-qmix-vdn-mixer",
    "qmix/two-step-game-qmix-no-mixer", "es/cartpole-es", "ars/cartpole-ars", "ddpg/mountaincarcontinuous-ddpg",
    "ddpg/pendulum-apex-ddpg", "ppo/pendulum-ddppo", "ppo/cartpole-grid-search-example", "ppo/cartpole-ppo-hyperband",
    "marwil/cartpole-bc", "marwil/cartpole-marwil",
    "ddpg/mountaincarcontinuous-apex-ddpg",
)  # fmt: skip
"""Files whose stop may be reached within minutes on one core."""

SEEDS = (1, 2, 3)
WHY = {
    "a3c/cartpole-a2c-microbatch": "the budget is short: RLlib 1.4.0 itself, in torch with `seed: 1`, ends at 100.2 "
    "after 100,080 steps",
    "impala/pendulum-impala": "RLlib 1.4.0 itself, in torch with `seed: 1`, is at -1308 after 94,050 steps and ends in "
    "an error before 115,000, its actions being NaN",
    "ppo/pendulum-appo": "advantages are not normalized and all negative at first: RLlib 1.4.0 itself, in torch with "
    "`seed: 1` and `seed: 2`, ends in an error, its actions being NaN before 35,000 steps; ours, with "
    "`algorithm.normalize_advantage`, is at -833 after 45,000",
}
"""Why the median of the seeds does not reach the stop, by file."""


def ran(path: Path, seconds: int, *, to_stop: bool) -> tuple[list[dict], str, float]:
    """Runs a file; returns the results of its first trial, how the run ended, and CPU seconds."""
    environment = {**os.environ, "PYTHONPATH": str(BENCHMARKS.parent / "src"), "OMP_NUM_THREADS": "1"}
    before = cpu_seconds()
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+") as errors:
        command = [sys.executable, "-m", "rookery", "rllib", "train", "-f", str(path), "--local-mode"]
        running = subprocess.Popen(
            command, cwd=folder, env={**environment, "TUNE_RESULT_DIR": folder}, stdout=subprocess.DEVNULL,
            stderr=errors, start_new_session=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds)),
        )  # fmt: skip
        lines: list[str] = []
        trials, end = 0, None
        while end is None:
            end = running.poll()
            found = sorted(Path(folder).glob("*/*/result.json"), key=lambda each: each.stat().st_ctime)
            whole = [each.read_text(encoding="utf-8").rpartition("\n")[0] for each in found]
            lines, trials = next((text.splitlines() for text in whole if text), []), sum(map(bool, whole))
            if trials > 1 or (lines and not to_stop):
                break
            time.sleep(1)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGKILL)
        running.wait()
        spent = cpu_seconds() - before
        errors.seek(0)
        said = last_line(errors.read())
    rows = [json.loads(line) for line in lines]
    if end is None:
        return rows, "its first trial ends", spent
    late = end in (-signal.SIGXCPU, -signal.SIGKILL)
    return rows, "ends" if end == 0 else f"runs after {spent:.0f} s" if late else said or f"exit status {end}", spent


def cpu_seconds() -> float:
    """Returns the CPU seconds of all processes that were waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


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
    rows, how, spent = ran(path, seconds, to_stop=False)
    if not rows and how.startswith("runs after"):
        how = f"nothing reported in {spent:.0f} s"
    how = "" if rows else f"{reason(how)}: {how}".removeprefix(": ")
    return f"| {name} | {described(path)} | {'yes' if rows else 'no'} | {how} |"


def seeded(path: Path, seed: int, folder: str) -> Path:
    """Writes a copy of a file of one experiment, with a seed in its configuration; returns its path."""
    ((name, spec),) = load_yaml(path.read_text(encoding="utf-8"), str(path)).items()
    copy = Path(folder) / path.name
    seeded_spec = {**spec, "config": {**spec.get("config", {}), "seed": seed}}
    copy.write_text(yaml.safe_dump({name: seeded_spec}), encoding="utf-8")
    return copy


class End(NamedTuple):
    """End of a run: return, env steps, CPU seconds, and its reason."""

    score: float
    steps: int
    seconds: float
    how: str


def stopped(path: Path, seed: int, seconds: int) -> End:
    """Runs a file to its stop with a seed."""
    with tempfile.TemporaryDirectory() as folder:
        rows, how, spent = ran(seeded(path, seed, folder), seconds, to_stop=True)
    if not rows:
        return End(math.nan, 0, spent, how)
    row = rows[-1]
    scored = row.get("evaluation", row) if "input" in row["config"] else row
    return End(scored["episode_reward_mean"], row["timesteps_total"], spent, how)


def stop_row(name: str, path: Path, ends: list[End]) -> str:
    """Returns the row of a file whose runs ended so, one with each seed."""
    (spec,) = load_yaml(path.read_text(encoding="utf-8"), str(path)).values()
    budget = spec["stop"].get("timesteps_total")
    asked = next((value for key, value in spec["stop"].items() if key.endswith("episode_reward_mean")), None)
    good = [end.how == "ends" if asked is None else end.score >= asked for end in ends]
    steps = [end.steps if reached else math.inf for end, reached in zip(ends, good, strict=True)]
    median = statistics.median(steps)
    cells = [
        name, "none" if asked is None else f"{asked:g}", f"{sum(good)} of {len(ends)}",
        f"{counted(median)} of {budget:,}" if budget else counted(median), "; ".join(map(counted, steps)),
        "; ".join(f"{end.score:.1f}" for end in ends), f"{statistics.median(end.seconds for end in ends):.0f}",
        WHY.get(name, "") if median == math.inf else "",
    ]  # fmt: skip
    return f"| {' | '.join(cells)} |"


def counted(steps: float) -> str:
    """Returns a number of env steps, or a dash for a stop that was not reached."""
    return "–" if steps == math.inf else f"{steps:,.0f}"


def write(head: str, starts: dict[str, str], stops: dict[str, str]) -> None:
    """Writes the page with the tables of all rows."""
    gpu = sum("| GPU |" in row for row in starts.values())
    good = sum("| yes |" in row and "| GPU |" not in row for row in starts.values())
    missed = ", ".join(name for name, row in sorted(stops.items()) if row.split("|")[4].strip().startswith("–"))
    left = len(REACHABLE) - len(stops)
    others = f" {left} others of the list have not been run." if left else ""
    text = f"""{STARTS}

Made by `TUNED=FOLDER python benchmarks/rllib_tuned.py --write`: one iteration of each file, unedited, on a machine
without a GPU that other work shared. {gpu} of {len(starts)} files ask for a GPU. Of the {len(starts) - gpu} others,
{good} start; the rest have a reason and the last line of their error.

| file | trainer | asks for | starts | how |
|---|---|---|---|---|
{chr(10).join(starts[name] for name in sorted(starts))}

{STOPS}

Made by `TUNED=FOLDER python benchmarks/rllib_tuned.py --to-stop --seconds 900 --write`: three seeds of each file, one
run at a time, on one core of a machine that other work shared. RLlib's files have no seed; each run is of a copy with
`seed: 1`, `2` or `3` in its `config`. A run ends at the return of the file, at its number of env steps, or after 900
seconds. {len(stops) - missed.count("/")} of {len(stops)} files reach their return by the median of the seeds\
{f"; not {missed}" if missed else ""}.{others} Files whose stop names no return end at their env steps;
their return is that of the last evaluation. Of several trials of a file, the first runs.

| file | stop at return | reached by seeds | env steps, median | by seed | return at end, by seed | seconds | why not |
|---|---|---|---|---|---|---|---|
{chr(10).join(stops[name] for name in sorted(stops))}
"""
    PAGE.write_text(f"{head.rstrip()}\n\n{text}", encoding="utf-8")


def main() -> None:
    """Runs the files, prints their rows, and writes the page if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=os.environ.get("TUNED"), help="default: TUNED")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="names of files, such as ppo/cartpole-ppo")
    parser.add_argument("--seconds", type=int, default=60, help="limit of a run, in CPU seconds")
    parser.add_argument("--to-stop", action="store_true", help="run files of REACHABLE to their stop")
    parser.add_argument("--write", action="store_true", help=f"write the rows into {PAGE.name}")
    args = parser.parse_args()
    if args.folder is None:
        parser.error("give the folder rllib/tuned_examples, or set TUNED")
    paths = {str(path.relative_to(args.folder).with_suffix("")): path for path in args.folder.rglob("*.yaml")}
    names = args.only or (REACHABLE if args.to_stop else sorted(paths))
    head, starts, stops = of_page()
    for name in names:
        path = paths[name]
        if args.to_stop:
            stops[name] = row = stop_row(name, path, [stopped(path, seed, args.seconds) for seed in SEEDS])
        else:
            starts[name] = row = start_row(name, path, args.seconds)
        print(row, flush=True)
        if args.write:
            write(head, starts, stops)


if __name__ == "__main__":
    main()
