"""Findings of broken and of healthy runs: ``python benchmarks/studies/doctor.py``; writes benchmarks/results/doctor.md.
With ``--scripts`` only the tables of the readers' scripts are made anew, and the page before them is kept.

Each of the 25 broken runs in `tests/doctor/broken/` is trained with its budget and examined as `rookery doctor RUN`
does, with at most ``--seconds`` of play. A run is explained if a rule that its script names is among the first two
findings, and a warning or an error. Two of them learn in spite of their fault with the present defaults of the
algorithms, replay_small and saturated_gaussian. Healthy runs are the stored metrics and settings in
`tests/doctor/healthy/`, which rules that play cannot examine; those in `aside/` played no part in writing the rules.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[2]))
sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "doctor"))

import broken_runs
from benchmarks.learning import machine
from healthy_runs import HealthyRun, healthy_runs

from rookery.doctor.examine_run import examine_run
from rookery.doctor.stored_run import settings_by_path
from rookery.report.finding import Finding
from rookery.run.findings.diagnose import findings_of_rows

PAGE = Path(__file__).parents[1] / "results" / "doctor.md"

STRANGER = """
## Broken runs of a stranger

Eight further runs, written by a reader of the documentation who had not seen the rules. When they were first examined,
counted strictly, by the first two findings of the run, none of the 8 was explained. The rules for their general kinds
of fault (actions-alike, actions-weak, episodes-shrink, few-updates, obs-clipped, obs-duplicated for blocks,
state-survives-reset) were written afterwards, with these scripts in view, so this table shows that they work and not
how often an unknown fault is explained. `python NAME.py broken` and `python NAME.py healthy` in
`tests/doctor/stranger/`, then `rookery doctor runs/NAME-broken`.

| run | fault | first two findings | findings that count without the fault |
|---|---|---|---|"""

SECOND_STRANGER = """
## Broken runs of a second stranger

Eight more, written after these rules by another reader of README, tutorial and how-to, who wrote down beforehand which
diagnosis counts: none of the 8 was explained by the first two findings. The rules for their general kinds of fault
(entropy-dominates, episodes-short, obs-reordered, policy-shared, rows-mixed, target-stays by env steps) were written
afterwards, with these scripts in view, so this table shows that they work and not how often an unknown fault is
explained. `python NAME.py broken` and `python NAME.py healthy` in `tests/doctor/second_stranger/`, then
`rookery doctor runs/NAME-broken`.

| run | fault | first two findings | findings that count without the fault |
|---|---|---|---|"""

THIRD_STRANGER = """
## Broken runs of a third reader

Eight more, written after all rules above by another reader, who wrote down beforehand which diagnosis counts
(`tests/doctor/third_stranger/PREDICTIONS.md`). When they were first examined, 1 of the 8 was explained by the first two
findings (coins_stay_collected, by state-survives-reset). The rules gamma-short, limit-before-reward, network-blind,
no-better-than-constant, return-without-success, reward-unexplained-by-obs and rewards-swapped were written afterwards,
with these scripts in view, so this table shows that they work and not how often an unknown fault is explained.

| run | fault | first two findings | findings that count without the fault |
|---|---|---|---|"""

THIRD_AFTER = """
With these rules the first two findings explain all 8, by the predictions that were written beforehand, and no run
without its fault has a warning or an error. For action_repeat_drops_end that is by the sentence "steps cost, and an end
without success costs less, so the policy ends episodes early"; no rule sees that the reward of the end is lost. Both it
and hovering_pays are found by the flag `is_success` in the last info, and not without it. Limits of time that an
environment counts itself cannot be left out, and are only a likely cause of missing rewards.

The tables of the other readers' runs were made again with the same command: of the second reader's, 7 of 8 are
explained, and restart ends with an error of the library."""

FOURTH_STRANGER = """
## Broken runs of a fourth reader

Eight more, written after all rules above by another reader, with what counts as a diagnosis written down beforehand
(`tests/doctor/fourth_stranger/PREDICTIONS.md`; before that two live findings had been seen by accident, which played no
part). When they were first examined, **3 of the 8 were explained** by the first two findings, strictly counted; 4 if a
second cause of a finding counts. Explained were one_policy_two_roles (worse-than-random, whose first cause was the
shared policy), hidden_goal (reward-unexplained-by-obs) and few_updates (few-updates). Not explained were
fresh_statistics (few-updates and evaluation-below-training), greedy_early (reward-constant and action-constant),
cheap_exit (a note), farm_progress (no-better-than-random) and integer_buffer (worse-than-random). Two runs without the
fault had a false few-updates; it is a note since, where half of the updates have been made and the return has improved.

The rules early-end-pays, reward-cycle, obs-rounded and statistics-not-shared, the warning of no-better-than-constant
for a constant action that earns far more, and the causes of worse-than-random were written afterwards, with these
scripts in view. So this table shows that they work, and not how often an unknown fault is explained.

| run | fault | first two findings | findings that count without the fault |
|---|---|---|---|"""

STRANGE_FAULTS = {
    "a_counter": "a time limit does not clear its counter in `reset`",
    "b_frames": "a frame stack holds the same buffer twice",
    "c_late": "the reward is paid one step late, in the next episode",
    "d_degrees": "actions are converted from degrees twice",
    "e_clip": "observations are clipped to a range from 0 to 1",
    "f_moves": "two actions move in the same direction, none in one of the directions",
    "h_goal": "the observation shows the goal of the previous episode",
    "k_long": "an update needs 4,096 steps of each environment, so a run has two",
}

SECOND_FAULTS = {
    "entropy": "`entropy_coef=1.0` (deterministic play solves the task all the same)",
    "target": "the target network is copied every million env steps, in a run of 25,000",
    "frameskip": "a wrapper repeats each action of CartPole 25 times, so that an episode is one decision",
    "timelimit": "a time limit of 15 steps, the goal 19 steps away",
    "reshape": "a custom model mixes the rows of a batch",
    "roles": "one policy for two agents with opposite tasks and equal observations",
    "shuffle": "a wrapper orders the features anew in each episode",
    "restart": "a new trainer in each pass of a loop",
}

THIRD_FAULTS = {
    "action_repeat_drops_end": "a wrapper that repeats actions loses the reward of the last step",
    "goal_not_observed": "the target of the episode decides the reward and is not observed",
    "coins_stay_collected": "`reset` does not lay the coins out again",
    "hovering_pays": "to hover beside the dock pays more than to dock, which ends the episode",
    "limit_from_debugging": "a time limit of 15 steps, the only reward 16 moves away",
    "pooled_away": "a custom network averages over the board",
    "rewards_in_other_order": "each of two agents gets the reward of the other one",
    "short_sighted": "gamma 0.9, a cost now and its gain 30 to 50 steps later",
}

FOURTH_FAULTS = {
    "one_policy_two_roles": "two agents with opposite roles and equal observations share a policy",
    "fresh_statistics": "a wrapper that normalizes observations begins anew in evaluations",
    "greedy_early": "epsilon is at its end after 100 steps; the policy stays with a small reward",
    "cheap_exit": "a step costs as much as an end without success",
    "farm_progress": "progress is paid, and steps back are free",
    "hidden_goal": "the waypoint of the episode is not observed",
    "integer_buffer": "observations are written into an array of integers",
    "few_updates": "2,048 steps of 8 environments an update: two updates",
}

FIRST = 2
"""Findings that are explained in full, and count."""


class Examined(NamedTuple):
    """A broken run that was examined.

    Attributes:
        name: Its name.
        fault: Its fault.
        findings: Its findings, in their order.
        is_explained: Whether a rule that counts is among the first ones.
        seconds: Time of the examination.
    """

    name: str
    fault: str
    findings: list[Finding]
    is_explained: bool
    seconds: float


def examined(name: str, seconds: float) -> Examined:
    """Trains a broken run and examines it.

    Args:
        name: Its name.
        seconds: Longest time of play.
    """
    run = broken_runs.broken_run(name)
    with tempfile.TemporaryDirectory() as folder:
        trained = broken_runs.train(name, Path(folder, name))
        began = time.monotonic()
        found = examine_run(trained.folder, time_limit=seconds).findings
    counted = [one.rule for one in found[:FIRST] if one.counts]
    return Examined(name, run.fault, found, bool(set(counted) & set(run.counted)), time.monotonic() - began)


def named(findings: list[Finding]) -> str:
    """Returns findings as the cell of a table."""
    return ", ".join(f"{one.rule} ({one.severity})" for one in findings) or "none"


def broken_table(rows: list[Examined]) -> Iterator[str]:
    """Yields the lines of the table of broken runs."""
    yield "## Broken runs\n"
    yield f"{sum(row.is_explained for row in rows)} of {len(rows)} are explained.\n"
    yield "| run | fault | first two findings | further ones | explained | seconds |\n|---|---|---|---|---|---|"
    for row in rows:
        first, rest = row.findings[:FIRST], len(row.findings) - FIRST
        explained = "yes" if row.is_explained else "NO"
        cells = (row.name, row.fault, named(first), str(max(0, rest)), explained, f"{row.seconds:.1f}")
        yield f"| {' | '.join(cells)} |"


def strangers(seconds: float) -> Iterator[str]:
    """Trains the scripts of the readers, with their faults and without; yields their tables.

    Args:
        seconds: Longest time of play.
    """
    folder = Path(broken_runs.__file__).parent
    for text, name, faults in (
        (STRANGER, "stranger", STRANGE_FAULTS),
        (SECOND_STRANGER, "second_stranger", SECOND_FAULTS),
        (THIRD_STRANGER, "third_stranger", THIRD_FAULTS),
        (FOURTH_STRANGER, "fourth_stranger", FOURTH_FAULTS),
    ):
        yield text
        yield from scripts(folder / name, faults, seconds)
        if name == "third_stranger":
            yield THIRD_AFTER


def scripts(place: Path, faults: dict[str, str], seconds: float) -> Iterator[str]:
    """Runs scripts with their faults and without, and `rookery doctor RUN` on each; yields the lines of their table.

    Args:
        place: Their folder.
        faults: The fault of each by its name.
        seconds: Longest time of play.
    """
    for name, fault in faults.items():
        cells = []
        for variant in ("broken", "healthy"):
            with tempfile.TemporaryDirectory() as folder:
                words = [sys.executable, str(place / f"{name}.py"), variant]
                ended = subprocess.run(words, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                if ended.returncode:
                    cells.append("none; the script ends with an error of the library")
                    continue
                found = diagnosed(Path(folder, "runs", f"{name}-{variant}"), place, seconds)
            cells.append(named(found[:FIRST] if variant == "broken" else [one for one in found if one.counts]))
        print(name, *cells, sep=": ", flush=True)
        yield f"| {name} | {fault} | {cells[0]} | {cells[1]} |"


def diagnosed(run: Path, scripts: Path, seconds: float) -> list[Finding]:
    """Returns the findings that the command prints of a run.

    Args:
        run: Directory of the run.
        scripts: Folder of its script, for environments that are named by their module.
        seconds: Longest time of play.
    """
    words = [sys.executable, "-m", "rookery", "doctor", str(run), f"--seconds={seconds:g}", "--json"]
    path = os.pathsep.join([str(scripts), *filter(None, [os.environ.get("PYTHONPATH")])])
    printed = subprocess.run(words, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path})
    return [Finding.from_row(one) for one in json.loads(printed.stdout)[0]["findings"]]


def healthy_table(title: str, runs: list[HealthyRun]) -> Iterator[str]:
    """Yields the lines of the table of healthy runs with findings that count."""
    found = {run.name: findings_of_rows(run.rows, settings_by_path(run.settings)) for run in runs}
    counted = {name: [one for one in each if one.counts] for name, each in found.items()}
    errors = sum(one.severity == "error" for each in counted.values() for one in each)
    with_any = sum(map(bool, counted.values()))
    yield f"\n## {title}\n"
    yield f"{len(runs)} runs: {with_any} with a warning or an error, {errors} errors.\n"
    yield "| run | findings |\n|---|---|"
    for name, each in found.items():
        yield f"| {name} | {named(each)} |"


def main() -> None:
    """Makes the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=broken_runs.NAMES, help="broken runs; all by default")
    parser.add_argument("--seconds", type=float, default=60.0, help="longest time of play")
    parser.add_argument("--scripts", action="store_true", help="the readers' scripts only")
    parser.add_argument("--runs", action="store_true", help="everything but the readers' scripts")
    given = parser.parse_args()
    assert __doc__
    runs, heading, readers = PAGE.read_text(encoding="utf-8").partition(STRANGER.partition("\n\n")[0])
    if given.scripts:
        PAGE.write_text(runs + "\n".join([*strangers(given.seconds), ""]), encoding="utf-8")
        return
    about = __doc__.partition("\n\n")[2]
    head = [
        f"# Findings of rookery doctor\n\nMade by `python benchmarks/studies/doctor.py --seconds {given.seconds:g}`."
    ]
    head += [f"{', '.join(f'{key} {value}' for key, value in machine().items())}.\n\n{about}"]
    healthy = [*healthy_table("Healthy runs", healthy_runs(aside=False))]
    healthy += healthy_table("Healthy runs that were kept aside", healthy_runs(aside=True))
    whole = given.names == broken_runs.NAMES
    strange = [heading + readers.rstrip("\n")] if given.runs else [*strangers(given.seconds)] if whole else []
    rows: list[Examined] = []
    for name in given.names:
        rows.append(examined(name, given.seconds))
        print(name, rows[-1].is_explained, named(rows[-1].findings), f"{rows[-1].seconds:.1f} s", flush=True)
        if whole:
            PAGE.write_text("\n".join([*head, *broken_table(rows), *healthy, *strange, ""]), encoding="utf-8")


if __name__ == "__main__":
    main()
