"""Code in C that ends the process ends it with a line: which environment, which lane, which step, which signal."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from sources import SMALL, needs_compiler

from rookery.envs.native.guard import functions
from selection import slow_except

NAMED = pytest.mark.regression(
    "unclear error", "A C environment that faults ends in a line with its name, number and step"
)

FAULTS = {
    "SIGSEGV": "*(volatile int *)0 = 1;",
    "SIGABRT": "abort();",
    "SIGFPE": "raise(SIGFPE);",
    "SIGILL": "__builtin_trap();",
    "a deep stack": "deeper(1 << 30);",
}
DEEPER = """
#include <stdlib.h>
#include <signal.h>
static int deeper(int n) {
    volatile char room[4096];
    room[n % 4096] = 1;
    return n ? deeper(n - 1) + room[7] : 0;
}
"""

BY_STEP = """
import numpy as np
from rookery import c_env_of
env = c_env_of({source!r})(4, limit=90, threads={threads})
env.reset(lambda lane, episode: lane)
while True:
    env.step([np.zeros(4, dtype=np.int64)])
"""

IN_FRAGMENTS = """
from rookery import PPOConfig, Trainer
trainer = Trainer({source!r}, PPOConfig(fragment_length=32, epochs=1), num_envs=4, seed=1, env_config={{"limit": 90}})
trainer.train({{"env_steps": 10_000}})
"""


def ended(folder, fault, script, step=70, **values):
    """Returns the standard error of a process whose lane 2 faults in a step of its first episode."""
    assert functions(), "twins.so is of an older source: python setup.py build_ext --inplace"
    text = SMALL.read_text(encoding="utf-8")
    crash = "if (now && breach == CRASH) *(volatile int *)0 = 1;"
    assert crash in text
    source = folder / "faulty.c"
    source.write_text(DEEPER + text.replace(crash, f"if (lane == 2 && place[lane] == {step}) {{ {FAULTS[fault]} }}"))
    script = script.format(source=str(source), **values)
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=100)
    assert run.returncode < 0, run.stderr
    return run.stderr


def line(fault, step):
    return (
        rf"^error: small, in C \(.*faulty\.c\): environment 2, step {step} of its episode: step\(\) ended the process "
        rf"by {fault}; rookery envs check says in which line$"
    )


@NAMED
@needs_compiler
@pytest.mark.parametrize("fault", slow_except("SIGSEGV", of=FAULTS))
def test_a_fault_in_a_step_is_named_with_its_lane_and_step(fault, tmp_path):
    said = ended(tmp_path, fault, BY_STEP, threads=1)
    name = "SIGSEGV" if fault == "a deep stack" else fault
    assert len(re.findall(line(name, 70), said, re.MULTILINE)) == 1, said


@NAMED
@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize("step", [1, 64, 65])
def test_a_fault_is_named_wherever_the_log_of_calls_ends(step, tmp_path):
    assert re.search(line("SIGSEGV", step), ended(tmp_path, "SIGSEGV", BY_STEP, step, threads=1), re.MULTILINE)


@NAMED
@needs_compiler
@pytest.mark.slow
def test_a_fault_in_a_thread_is_named(tmp_path):
    said = ended(tmp_path, "SIGSEGV", BY_STEP, threads=2)
    assert re.search(line("SIGSEGV", 70), said, re.MULTILINE), said


@NAMED
@needs_compiler
@pytest.mark.slow
def test_a_fault_in_a_call_of_many_steps_is_named(tmp_path):
    said = ended(tmp_path, "SIGSEGV", IN_FRAGMENTS)
    assert re.search(line("SIGSEGV", 70), said, re.MULTILINE), said
