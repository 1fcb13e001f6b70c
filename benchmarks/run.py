"""The speed benchmark: Rookery and its peers on the same workloads, in turn, each in a fresh process.

``make bench`` runs everything; ``python benchmarks/run.py --only cartpole-matched pong --repeats 1`` runs some and
keeps the other rows of `benchmarks/results/speed.json`. Peers live in environments of their own, made by
`benchmarks/peers/install.sh`; one that is missing or fails gets a row that says so. The order of a round is that of
the round before in reverse. Of a peer's variants (threads, say), those that were slower by more than a quarter in the
first round are not repeated. CartPole at settings shared with peers, with all it shows or without the velocities, and
Pendulum are races on one core: processes marked so may use no other, whatever threads they start.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from measure import cpu_seconds, machine_busy_seconds, process_tree
from workloads import TARGETS

import report
from envs import LOOPS, loops_per_microsecond

HERE = Path(__file__).parent
RESULTS = HERE / "results"
PYTHONS = {
    "rookery": Path(sys.executable),
    "baseline": Path(sys.executable),
    "sb3": HERE / "peers" / ".venv-sb3" / "bin" / "python",
    "sbx": HERE / "peers" / ".venv-sbx" / "bin" / "python",
    "rllib": HERE / "peers" / ".venv-rllib" / "bin" / "python",
    "jax": HERE / "peers" / ".venv-jax" / "bin" / "python",
    "rejax": HERE / "peers" / ".venv-rejax" / "bin" / "python",
    "benchmarl": HERE / "peers" / ".venv-benchmarl" / "bin" / "python",
    "torchrl": HERE / "peers" / ".venv-torchrl" / "bin" / "python",
    "compiled": HERE / "peers" / ".venv-sb3" / "bin" / "python",
    "rsl_rl": HERE / "peers" / ".venv-rsl_rl" / "bin" / "python",
}
SCRIPTS = {
    "rookery": "ours.py",
    "baseline": "baselines.py",
    "sb3": "peers/sb3_ppo.py",
    "rllib": "peers/rllib_ppo.py",
    "jax": "peers/jax_ppo.py",
    "rejax": "peers/rejax_ppo.py",
    "benchmarl": "peers/benchmarl_spread.py",
    "torchrl": "peers/torchrl_ppo.py",
    "compiled": "peers/compiled_ppo.py",
    "rsl_rl": "peers/rsl_rl_ppo.py",
}

OFF_POLICY = "peers/sb3_off_policy.py"
"""Script of SB3's entrants that learn from a replay memory."""

WIDEST = (("amx_tile", "AMX"), ("avx512f", "AVX-512"), ("avx2", "AVX2"))
"""Sets of vector instructions by their flag, the widest first."""

AVX2 = {
    "ROOKERY_NATIVE": "x86-64-v3",
    "ATEN_CPU_CAPABILITY": "avx2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    "XLA_FLAGS": "--xla_cpu_max_isa=AVX2",
    "NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL AVX512_SPR",
}
"""Variables that limit Rookery's kernels, torch, oneDNN, MKL (on processors by Intel), XLA and NumPy to AVX2."""

SAMPLE_SECONDS = 0.5
CONTENDED = 0.25
"""Cores that other processes may use on average before a run counts as contended."""
LAGGING = 0.75
"""A peer's variants below this part of its best in the first round are not repeated."""


@dataclass(frozen=True)
class Entrant:
    """One process of a workload.

    Attributes:
        name: What it is called in the tables.
        library: Whose Python and script.
        arguments: Of the script.
        seconds: Time to measure for, times that of the command line; with a target the longest wait, in seconds.
        rounds: Rounds it takes part in, at most.
        long: It runs only with ``--long``.
        one_core: It and the processes it starts may use one core only.
        script: Another one than the library's in `SCRIPTS`.
    """

    name: str
    library: str
    arguments: str
    seconds: float = 1.0
    rounds: int = 99
    long: bool = False
    one_core: bool = False
    script: str | None = None


def ours(workload: str, *names: str, **more: Any) -> list[Entrant]:
    """Entrants of Rookery."""
    return [Entrant(name, "rookery", f"{workload}/{name}", **more) for name in names]


def threads(name: str, library: str, arguments: str, counts: str = "12", **more: Any) -> list[Entrant]:
    """A peer with one torch thread, and with two."""
    plural = {"1": "1 thread", "2": "2 threads"}
    return [Entrant(f"{name}, {plural[count]}", library, f"{arguments} --threads {count}", **more) for count in counts]


PATIENCE = 25.0
"""Seconds a CartPole run may take to its target."""

WORKLOADS: dict[str, list[Entrant]] = {
    "cartpole-matched": [
        *ours("cartpole-matched", "serial", "batched", "c", one_core=True),
        *threads("sb3", "sb3", "cartpole-matched", "1", one_core=True),
        *threads("sb3", "sb3", "cartpole-matched", "2"),
        Entrant("sbx", "sbx", "cartpole-matched --library sbx", one_core=True, script=SCRIPTS["sb3"]),
        Entrant("torchrl", "torchrl", "cartpole-matched", one_core=True),
        Entrant("torchrl, compiled", "torchrl", "cartpole-matched --compile", one_core=True),
        Entrant("plain torch, compiled", "compiled", "cartpole-matched", one_core=True),
        *threads("rllib", "rllib", "cartpole-matched", rounds=2),  # Ray's own processes need the other core
    ],
    "pendulum-matched": [
        *ours("pendulum-matched", "serial", one_core=True),
        Entrant("rsl-rl", "rsl_rl", "pendulum-matched", one_core=True),
    ],
    "cartpole-64": [
        *ours("cartpole-64", "batched", "c", one_core=True),
        Entrant("jax", "jax", "cartpole-64", one_core=True),
        Entrant("rejax", "rejax", "cartpole-64", one_core=True),
        *threads("sb3", "sb3", "cartpole-64", "1", one_core=True),
    ],
    "cartpole-best": [
        *ours("cartpole-best", "128", "256", seconds=PATIENCE),
        *threads("sb3, 256 copies", "sb3", "cartpole-best --settings sb3-256", seconds=PATIENCE),
        *threads(
            "sb3, 256 copies, large minibatches",
            "sb3",
            "cartpole-best --settings sb3-256-large",
            "2",
            seconds=PATIENCE,
            rounds=1,
        ),
        *threads("sb3, 128 copies", "sb3", "cartpole-best --settings sb3-128", seconds=PATIENCE),
        *threads("sb3, 64 copies", "sb3", "cartpole-best --settings sb3-64", "1", seconds=PATIENCE, rounds=1),
        *threads("rllib, 256 copies", "rllib", "cartpole-best --settings rllib-256", seconds=0.6 * PATIENCE, rounds=1),
    ],
    "arena-one": [*ours("arena-one", "ours"), *threads("rllib", "rllib", "arena-one", rounds=2)],
    "arena-two": [*ours("arena-two", "ours"), *threads("rllib", "rllib", "arena-two", "1", rounds=2)],
    "arena-15": [
        *ours("arena-15", "ours", seconds=90.0),
        *threads("rllib", "rllib", "arena-15", "1", seconds=600.0, rounds=1, long=True),
    ],
    **{
        f"synthetic-{us}": [
            *ours(f"synthetic-{us}", "processes"),
            *ours(f"synthetic-{us}", "processes, stepping alone", seconds=0.5),
            Entrant("both cores, stepping alone", "baseline", f"both-cores {us}", 0.5),
            Entrant("AsyncVectorEnv, stepping alone", "baseline", f"async {us}", 0.5),
        ]
        for us in (10, 50, 100)
    },
    "halfcheetah": [
        *ours("halfcheetah", "auto"),
        *ours("halfcheetah", "serial", "processes", "threads", rounds=1),
        *threads("sb3, DummyVecEnv", "sb3", "halfcheetah"),
        Entrant("sbx, DummyVecEnv", "sbx", "halfcheetah --library sbx", script=SCRIPTS["sb3"]),
        *threads("sb3, SubprocVecEnv", "sb3", "halfcheetah --vector subproc", "1"),
    ],
    "pong": [
        *ours("pong", "ours", "ours, 2 threads", seconds=1.5),
        *threads("sb3, DummyVecEnv", "sb3", "pong", seconds=1.5),
        *threads("sb3, SubprocVecEnv", "sb3", "pong --vector subproc", "2", seconds=1.5),
    ],
    "memory": [
        *ours("memory", "serial", "batched", one_core=True),
        *threads("sb3, one LSTM", "sb3", "memory", "1", one_core=True),
        *threads("sb3, one LSTM", "sb3", "memory", "2"),
        *threads("sb3, an LSTM for the critic too", "sb3", "memory --critic-lstm", "1", one_core=True, rounds=1),
        *threads("rllib", "rllib", "memory", rounds=2),
    ],
    "dqn": [
        *ours("dqn", "serial", "c", one_core=True),
        *threads("sb3", "sb3", "dqn", "1", one_core=True, script=OFF_POLICY),
        Entrant("sbx", "sbx", "dqn --library sbx", one_core=True, script=OFF_POLICY),
    ],
    "sac": [
        *ours("sac", "bfloat16", "float32", seconds=4.0, one_core=True),
        *ours("sac", "bfloat16, 2 threads", seconds=4.0, rounds=1),
        *threads("sb3", "sb3", "sac", "1", seconds=4.0, one_core=True, script=OFF_POLICY),
        Entrant("sbx", "sbx", "sac --library sbx", 4.0, one_core=True, script=OFF_POLICY),
        *threads("sb3", "sb3", "sac", "2", seconds=4.0, rounds=1, script=OFF_POLICY),
    ],
    "td3": [
        *ours("td3", "bfloat16", "float32", seconds=4.0, one_core=True),
        *threads("sb3", "sb3", "td3", "1", seconds=4.0, one_core=True, script=OFF_POLICY),
        Entrant("sbx", "sbx", "td3 --library sbx", 4.0, one_core=True, script=OFF_POLICY),
    ],
    **{
        name: [
            *ours(name, "float32", seconds=4.0, one_core=True),
            *threads("sb3", "sb3", name, "1", seconds=4.0, one_core=True, script=OFF_POLICY),
            Entrant("sbx", "sbx", f"{name} --library sbx", 4.0, one_core=True, script=OFF_POLICY),
        ]
        for name in ("tqc", "crossq")
    },
    "connect-four": [
        *ours("connect-four", "batched", "pettingzoo", one_core=True),
        *threads("sb3", "sb3", "", "1", one_core=True, script="peers/sb3_connect_four.py"),
    ],
    **{
        name: [
            *ours(name, "serial", one_core=True),
            *ours(name, "auto"),
            *threads("benchmarl", "benchmarl", name, "1", one_core=True),
            *(threads("rllib", "rllib", name, "1", rounds=2) if name == "spread-ippo" else ()),
        ]
        for name in ("spread-ippo", "spread-mappo")
    },
    "crowd": ours("crowd", "together", "alone", seconds=0.5),
    "limits": ours(
        "limits",
        *("cartpole-matched", "cartpole-64", "cartpole-best", "arena-one", "synthetic-50", "halfcheetah", "pong"),
        "memory",
        rounds=1,
    ),
    "scaling": [
        Entrant(name, "rookery", f"scaling/{name}", 0.3, 1)
        for name in (
            "CartPole, batched",
            "CartPole, serial",
            "CartPole, 1 helper",
            "CartPole, 2 helpers",
            "50 us, 0 helpers",
            "50 us, 1 helper",
            "50 us, 2 helpers",
        )
    ],
}
"""Everything that can be run."""


def command(entrant: Entrant, seconds: float, seed: int) -> list[str]:
    """Returns the command line of an entrant."""
    script = str(HERE / (entrant.script or SCRIPTS[entrant.library]))
    arguments = [entrant.arguments] if entrant.library == "rookery" else entrant.arguments.split()
    return [str(PYTHONS[entrant.library]), script, *arguments, "--seconds", f"{seconds:g}", "--seed", str(seed)]


def execute(
    words: list[str], limit: float, environment: dict[str, str], cores: set[int]
) -> tuple[dict[str, Any], float]:
    """Runs a process to its end and reads its last line.

    Args:
        words: The command.
        limit: Seconds after which it is ended.
        environment: Its environment variables.
        cores: Those that it and all it starts may use.

    Returns:
        Its measurements, or ``failed`` with the reason; and the cores that all other processes used meanwhile.
    """
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        began = time.monotonic()
        process = subprocess.Popen(
            words,
            stdout=out,
            stderr=err,
            env=environment,
            start_new_session=True,
            preexec_fn=partial(os.sched_setaffinity, 0, cores),
        )
        try:
            others = list(watch_others(process, began + limit))
        finally:
            late = process.poll() is None
            if late:
                end(process)
        load = sum(others) / len(others) if others else 0.0
        out.seek(0)
        err.seek(0)
        lines, errors = out.read().splitlines(), err.read().strip().splitlines()
    if late:
        return {"failed": f"took longer than {limit:.0f} s"}, load
    try:
        found: dict[str, Any] = json.loads(lines[-1])
    except (IndexError, ValueError):
        return {"failed": errors[-1][-300:] if errors else f"exit code {process.returncode} and no word"}, load
    return found, load


def watch_others(process: subprocess.Popen[bytes], deadline: float) -> Iterator[float]:
    """Cores used by processes that are not ours, twice a second until the process ends or the time is over."""
    before = None
    while process.poll() is None and time.monotonic() < deadline:
        mine = cpu_seconds(process_tree(os.getpid()))
        now = time.monotonic(), machine_busy_seconds(), mine
        if before is not None:
            passed, busy, own = (after - was for after, was in zip(now, before, strict=True))
            yield max(0.0, busy - max(0.0, own)) / passed
        before = now
        try:
            process.wait(SAMPLE_SECONDS)
        except subprocess.TimeoutExpired:
            continue


def end(process: subprocess.Popen[bytes]) -> None:
    """Kills a process and everything below it."""
    for pid in reversed(process_tree(process.pid)):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    process.wait()


def measure(workload: str, entrant: Entrant, seed: int, seconds: float, environment: dict[str, str]) -> dict[str, Any]:
    """One row of raw results."""
    measured = entrant.seconds if workload in TARGETS else entrant.seconds * seconds
    words = command(entrant, measured, seed)
    line: dict[str, Any] = {"workload": workload, "entrant": entrant.name, "library": entrant.library, "seed": seed}
    if not Path(words[0]).exists():
        where = Path(words[0]).parents[1].relative_to(HERE.parent)
        peer = where.name.removeprefix(".venv-")
        return {**line, "failed": f"{where} is missing: benchmarks/peers/install.sh {peer}"}
    every = os.sched_getaffinity(0)
    cores = {max(every)} if entrant.one_core else every
    began = time.monotonic()
    found, load = execute(words, (1 if workload in TARGETS else 8) * measured + 120, environment, cores)
    shown = " ".join([Path(words[1]).relative_to(HERE.parent).as_posix(), *words[2:]])
    took = round(time.monotonic() - began, 1)
    line |= {"command": shown, "one_core": entrant.one_core, "took": took, "cpu": machine(environment)["cpu"]}
    return {**line, "others": round(load, 2), "contended": load > CONTENDED, **found}


def rounds(
    workload: str, entrants: list[Entrant], repeats: int, seconds: float, environment: dict[str, str]
) -> list[dict[str, Any]]:
    """All rows of a workload, entrants in turn."""
    lines: list[dict[str, Any]] = []
    for number in range(repeats):
        playing = [entrant for entrant in entrants if number < entrant.rounds and not out_of_it(entrant, lines)]
        for entrant in playing if number % 2 == 0 else playing[::-1]:
            line = measure(workload, entrant, number, seconds, environment)
            lines.append(line)
            print(report.brief(line), flush=True)
    return lines


def out_of_it(entrant: Entrant, lines: list[dict[str, Any]]) -> bool:
    """Whether an entrant failed in the first round, or fell behind a variant of the same library."""
    first = {line["entrant"]: line for line in lines if line["seed"] == 0}
    if entrant.name not in first:
        return False
    mine = first[entrant.name]
    rivals = [line.get("steps_per_second", 0.0) for line in first.values() if line["library"] == entrant.library]
    behind = mine.get("steps_per_second", 0.0) < LAGGING * max(rivals) and not mine.get("contended")
    return "failed" in mine or (behind and entrant.library in ("sb3", "rllib"))


def machine(environment: Mapping[str, str]) -> dict[str, Any]:
    """Returns CPU, number of cores and system of this machine; `environment` may limit libraries to AVX2."""
    text = Path("/proc/cpuinfo").read_text()
    model = next((line.partition(":")[2].strip() for line in text.splitlines() if line.startswith("model name")), "?")
    widest = next((name for flag, name in WIDEST if flag in text.split()), "")
    widest = "limited to AVX2" if AVX2.items() <= environment.items() else widest
    return {
        "cpu": ", ".join(filter(None, (model, widest))),
        "cores": os.cpu_count(),
        "system": platform.platform(terse=True),
    }


def main() -> None:
    """Runs what is asked for and writes the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=WORKLOADS, default=list(WORKLOADS), metavar="WORKLOAD")
    parser.add_argument("--library", nargs="+", choices=PYTHONS, default=list(PYTHONS), help="run these alone")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5.0, help="time to measure for in each process")
    parser.add_argument("--long", action="store_true", help="RLlib in the arena up to a return of 15, too (5 minutes)")
    parser.add_argument("--avx2", action="store_true", help="limit all libraries to AVX2")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder to write to")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the process under way is ended, too
    paths = os.pathsep.join([str(HERE), str(HERE.parent / "src")])
    limits = AVX2 if args.avx2 else {}
    environment = {**os.environ, **limits, "PYTHONPATH": paths, LOOPS: f"{loops_per_microsecond():.3f}"}
    for workload in args.only:
        entrants = [entrant for entrant in WORKLOADS[workload] if entrant.library in args.library]
        entrants = [entrant for entrant in entrants if args.long or not entrant.long]
        lines = rounds(workload, entrants, args.repeats, args.seconds, environment)
        about = {"machine": machine(environment), "repeats": args.repeats, "seconds": args.seconds}
        report.write(args.results, about, lines)
    print((args.results / "speed.md").read_text())


if __name__ == "__main__":
    main()
