"""Checks the code of an environment in C: runs it in other processes, under sanitizers, whole and in parts."""

from __future__ import annotations

import os
import pickle
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from rookery.core.seeding import Role, Streams
from rookery.envs.adapters.probe import Findings
from rookery.envs.base import VectorEnv
from rookery.envs.native.c_env import CEnv
from rookery.envs.native.compiler import SANITIZERS, compiled, find_compiler
from rookery.envs.native.subprocess_check import Play, Played, digests_of

STEPS = 300
"""Vector steps of each run."""

UNDEFINED = re.compile(r"^(?P<where>\S+:\d+):\d+: runtime error: (?P<what>.*)$")
ADDRESS_ERROR = re.compile(r"ERROR: AddressSanitizer: (?P<what>[\w-]+)")
FRAME = re.compile(r"^\s+#\d+ \S+ in (?P<function>\S+) (?P<where>\S+?:\d+)")
ACCESS = re.compile(r"^(READ|WRITE) of size (\d+)")

WORDS = {
    "use-after-poison": "memory around a field of the state, whose number of elements comes from describe()",
    "heap-buffer-overflow": "memory behind an array: the numbers of rows and elements come from describe()",
    "SEGV": "memory that does not exist: the program crashes",
}
"""Descriptions of the sanitizer's names of accesses."""

OPTIONS = {
    "ASAN_OPTIONS": "detect_leaks=0:halt_on_error=0:verify_asan_link_order=0",
    "UBSAN_OPTIONS": "halt_on_error=0:print_stacktrace=0",
}


def check_soundness(pair: Sequence[VectorEnv], findings: Findings, seed: int) -> bool:
    """Notes faults of an environment in C; returns whether it can be played in this process.

    Environments that are not in C are not checked.

    Args:
        pair: Two instances of the environment, which have not been reset.
        findings: Target of the findings.
        seed: Seed of the episodes and the actions.
    """
    one, other = pair
    if not (isinstance(one, CEnv) and isinstance(other, CEnv)):
        return True
    sound = _under_sanitizers(one, findings, seed)
    whole = _played(one, Play(one.subprocess_arguments(), seed, seed, STEPS), {}, findings, "alone") if sound else None
    if whole is None or whole.breaches:
        findings.add("note", "it was not played further: fix that first")
        return False
    seeds = Streams(seed).episodes(Role.ENV)
    other.split(2)
    halves = list(digests_of(other, other.reset(seeds), STEPS, seed))
    other.split(1)
    if step := _first_difference(whole.digests, halves):
        text = (
            f"step {step} differs if environments are stepped in two calls, not one: each must touch its own elements"
        )
        findings.add("error", f"{text} alone, and no value may be kept outside of the state")
    early = list(digests_of(one, one.reset(seeds), STEPS // 2, seed))
    if step := _first_difference(whole.digests, early):
        text = f"step {step} differs in another process with the same seeds and actions"
        findings.add("error", f"{text}: the result depends on more than state, seeds and actions")
    state = CEnv.state_dict(one)  # fields of CEnv itself, even if a subclass overrides them
    here = list(digests_of(one, CEnv.load_state_dict(one, state, seeds)[0], STEPS // 2, seed + 1))
    play = Play(one.subprocess_arguments(), seed, seed + 1, STEPS // 2, state)
    moved = _played(one, play, {}, findings, "from a saved state")
    if moved is not None and (step := _first_difference(here, moved.digests)):
        text = f"step {step} differs where a saved state is resumed in another process"
        findings.add("error", f"{text}: a value that changes is not in a field of the state")
    return True


def _under_sanitizers(env: CEnv, findings: Findings, seed: int) -> bool:
    """Plays a build that reports undefined behaviour, and notes all reports; returns whether there were none."""
    runtime = _runtime()
    if env.source is None or runtime is None:
        why = "it came as a library: check its source, FILE.c" if runtime else "libasan is not installed"
        findings.add("note", f"not played under sanitizers: {why}")
        return True
    about = {**env.subprocess_arguments(), "library": compiled(env.source, SANITIZERS)}
    play, more = Play(about, seed, seed, STEPS, poison=True), {**OPTIONS, "LD_PRELOAD": str(runtime)}
    errors = len(findings.found)
    played = _played(env, play, more, findings, "under sanitizers")
    sound = played is not None and len(findings.found) == errors
    if played is not None:
        findings.add("note", "played under sanitizers of addresses and of undefined behaviour")
    return sound


def _runtime() -> Path | None:
    """Returns the library that a process under the sanitizer must preload; None if there is none."""
    compiler = find_compiler()
    if not compiler:
        return None
    command = [*compiler, "-print-file-name=libasan.so"]
    path = Path(subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout.strip())
    return Path(os.path.realpath(path)) if path.is_absolute() and path.exists() else None


def _played(env: CEnv, play: Play, more: dict[str, str], findings: Findings, how: str) -> Played | None:
    """Plays in another process; notes its reports, and returns its result; None if it failed."""
    command = [sys.executable, "-c", "from rookery.envs.native.subprocess_check import main; main()"]
    path = os.pathsep.join(sys.path)
    result = subprocess.run(
        command, input=pickle.dumps(play), capture_output=True, env={**os.environ, "PYTHONPATH": path, **more}
    )
    stderr = result.stderr.decode(errors="replace")
    reports = _reports(stderr)
    for text in reports:
        findings.add("error", text)
    if result.returncode == 0:
        played: Played = pickle.loads(result.stdout)
        for text in played.breaches:
            findings.add("error", text.replace(str(play.env["library"]), str(env.source or play.env["library"])))
        return played
    if not reports:
        number = -result.returncode
        ended = f"signal {signal.Signals(number).name}" if number > 0 else f"code {result.returncode}"
        lines = [line for line in stderr.splitlines() if line.strip()]
        findings.add("error", f"ends a process that plays it {how}, by {ended}{': ' + lines[-1] if lines else ''}")
    return None


def _reports(stderr: str) -> list[str]:
    """Reads the reports of sanitizers: a line for each place in the source."""
    found: dict[str, None] = {}
    what = ""
    access = ""
    for line in stderr.splitlines():
        if undefined := UNDEFINED.match(line):
            found[f"{undefined['where']}: {undefined['what']}"] = None
        elif error := ADDRESS_ERROR.search(line):
            what, access = error["what"], "touches"
        elif said_access := ACCESS.match(line):
            access = {"READ": "reads", "WRITE": "writes"}[said_access[1]]
        elif what and (frame := FRAME.match(line)) and frame["where"].startswith("/"):
            found[f"{frame['where']}: {frame['function']}() {access} {WORDS.get(what, what)}"] = None
            what = ""
    return list(found)


def _first_difference(first: Sequence[str], second: Sequence[str]) -> int:
    """Returns the number of the first step, from 1, in which two runs differ; 0 if there is none."""
    for number, (one, other) in enumerate(zip(first, second, strict=False), 1):
        if one != other:
            return number
    return 0
