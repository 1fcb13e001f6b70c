"""Measures the speed of an environment, and chooses the number of helpers (threads or processes) that step it if not
set.

The choice affects speed only: rows, weights and checkpoints are the same.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from threading import Event, Thread
from time import perf_counter, thread_time
from typing import Any

import cloudpickle
import numpy as np

from rookery.core.errors import EnvError
from rookery.core.process.child_process import NO_CHILDREN, STARTS_CHILDREN
from rookery.core.process.cpu import usable_cores
from rookery.core.process.thread_context import in_this_context
from rookery.envs.base import SeedPlan, VectorEnv
from rookery.envs.random_play import FEW_STEPS, random_answers
from rookery.envs.schemes import NotSingleEnv
from rookery.envs.vector.closing import close_env
from rookery.envs.vector.serial import SerialEnv

if sys.platform != "win32":
    import resource

MEASURED = "measured"
"""Source of settings that were measured; stored with them."""

WORTHWHILE_SECONDS = 100e-6
"""Duration of a vector step above which one helper pays off: communication with it costs about a tenth of this."""

SLOW_BUILD_SECONDS = 0.1
"""Build time above which an environment is not built for measuring, nor in helpers unless requested."""

STEP_SECONDS = 0.03
"""Seconds for which one lane is stepped to measure the cost of a step; at least a few steps."""

WARM_UP = 0.1
"""Fraction of the time of `random_rate` that is not counted, as warm-up."""

LONE_SECONDS = 10e-6
"""Cost of a vector step in addition to that of its lanes."""

SCALES = 1.7
"""Speed-up of two threads from which they count as running in parallel."""

IN_THIS_ONE = (
    "stepped in this process, as with sampling.env_processes=0; environment processes know a registered id if it is "
    "named with its module, 'my_module:MyEnv-v0'"
)

HANGS_SECONDS = 10.0
"""Time limit of a measurement in two threads; beyond it, the environment counts as hung and is stepped by one thread
only.
"""

REPEATS = 3
"""Repetitions of the alternating measurements of one thread and of two."""

SCALE_SECONDS = 0.02
"""Duration of each of these measurements; at least a few steps."""


@dataclass(frozen=True)
class HelperChoice:
    """Choice of the processes or threads that step an environment.

    Attributes:
        implementation: Name of the back end: ``serial``, ``threads`` or ``processes``.
        helpers: Number of helpers beside the caller.
        reason: Reason of the choice in a line; empty if there is nothing to report.
        measured: Settings that resulted from measurement, by path; empty if they were given.
        demanded: Whether the user's settings ask for these helpers; otherwise this process steps if helpers fail.
    """

    implementation: str
    helpers: int
    reason: str = ""
    measured: Mapping[str, Any] = field(default_factory=dict)
    demanded: bool = True

    def without_helpers(self, name: str, error: EnvError) -> HelperChoice:
        """Returns the choice without helpers, because they could not be used.

        Args:
            name: Name of the environment for messages.
            error: The error of the helpers.
        """
        reason = self.reason.removeprefix(f"{name}: ") or f"{self.helpers} {self.implementation} were measured"
        why = " ".join(str(error).removeprefix(f"{name}: ").split())
        return _measured("serial", 0, f"{name}: {reason}, but it cannot be played there ({why}): {IN_THIS_ONE}")


def _measured(implementation: str, helpers: int, reason: str = "") -> HelperChoice:
    values = {"env.implementation": implementation} if helpers else {}
    return HelperChoice(implementation, helpers, reason, {**values, "sampling.env_processes": helpers}, demanded=False)


def choose(factory: Callable[[], Any], num_lanes: int, name: str, only_here: str = "") -> HelperChoice:
    """Measures throwaway environments, for about 0.2 seconds beyond building one.

    Args:
        factory: Builds one environment.
        num_lanes: Number of environments that will be stepped.
        name: Name of the environment for messages.
        only_here: Reason why only this process can step it; then nothing is measured.

    Raises:
        EnvError: If the environment cannot be built.
    """
    most = min(usable_cores(), num_lanes) - 1
    if most < 1:
        return _measured("serial", 0)
    instead = "stepped in this process; env.implementation=processes or threads asks for helpers"
    if only_here:
        return _measured("serial", 0, f"{name}: {only_here}: {instead}")
    began = perf_counter()
    try:
        one = SerialEnv(factory, 1, name)  # its imports are needed anyway
    except NotSingleEnv as made:
        close_env(made.made, name)
        return _measured("serial", 0)
    seconds = perf_counter() - began
    with closing(one):
        if seconds > SLOW_BUILD_SECONDS:
            began = perf_counter()
            factory()
            seconds = perf_counter() - began
        if seconds > SLOW_BUILD_SECONDS:
            return _measured("serial", 0, f"{name}: an environment takes {seconds:.1f} s to build: {instead}")
        try:
            cost = _cost(one)
            helpers = min(most, int(num_lanes * cost / WORTHWHILE_SECONDS) - 1)
            if helpers < 1:
                return _measured("serial", 0)
            with closing(SerialEnv(factory, 1, name)) as other:
                scales = _scales(one, other)
        except EnvError as error:  # the run will meet it and report more, or tolerate it
            return _measured("serial", 0, f"{name}: measuring stopped, because it failed ({error}): {instead}")
    measured = f"{name}: {num_lanes} environments of {cost * 1e6:.0f} us a step"
    one_or_more = ("thread", "helper process") if helpers == 1 else ("threads", "helper processes")
    threads, processes = (f"{helpers} {what} beside this one" for what in one_or_more)
    if scales:
        return _measured("threads", helpers, f"{measured}: {threads}, because it releases Python's lock")
    if not STARTS_CHILDREN:
        return _measured("serial", 0, f"{measured} are worth {processes}, but {NO_CHILDREN}: stepped in this one")
    try:
        cloudpickle.dumps(factory)
    except Exception as error:  # whatever an object does when it is pickled
        why = f"it cannot be pickled ({type(error).__name__}: {error})"
        return _measured("serial", 0, f"{measured} are worth {processes}, but {why}: stepped in this one")
    return _measured("processes", helpers, f"{measured}: {processes}")


class _Player:
    """Plays random actions in a throwaway environment."""

    def __init__(self, env: VectorEnv, seeds: SeedPlan, rng: np.random.Generator) -> None:
        self.env, self.rng = env, rng
        self.shown = env.reset(seeds)
        self.steps = 0

    def play(self, seconds: float) -> list[float]:
        """Plays for some seconds, or a few steps if these take longer; returns the seconds of each step."""
        taken: list[float] = []
        until = perf_counter() + seconds
        while len(taken) < FEW_STEPS or perf_counter() < until:
            actions = random_answers(self.env, self.shown, self.rng)
            began = perf_counter()
            self.shown = self.env.step(actions)
            taken.append(perf_counter() - began)
        self.steps += len(taken)
        return taken


def random_rate(env: VectorEnv, seeds: SeedPlan, seconds: float, rng: np.random.Generator) -> float:
    """Returns env steps per second of random play; only time in `env.step` counts, drawing actions does not.

    Args:
        env: Throwaway environments; they are reset first.
        seeds: Seeds of their episodes.
        seconds: Duration of the play, of which the first part is a warm-up and not counted.
        rng: Generator of the actions.
    """
    player = _Player(env, seeds, rng)
    player.play(WARM_UP * seconds)
    taken = player.play((1 - WARM_UP) * seconds)
    return env.num_lanes * len(taken) / sum(taken)


def _own(env: VectorEnv) -> _Player:
    return _Player(env, lambda lane, episode: episode, np.random.default_rng(0))


def _cost(env: SerialEnv) -> float:
    """Returns the seconds that a step of one lane takes, without the fixed cost of a vector step."""
    player = _own(env)
    player.play(0.0)  # the first steps are slower
    median = float(np.median(player.play(STEP_SECONDS)))  # on a busy machine the mean is unreliable
    return max(median - LONE_SECONDS, 0.0)


def _voluntary_switches() -> int:
    """Returns how often this thread has released the CPU by itself, to wait for something; 0 if the system does not
    count it.
    """
    if sys.platform == "win32":
        return 0
    who = getattr(resource, "RUSAGE_THREAD", resource.RUSAGE_SELF)
    return resource.getrusage(who).ru_nvcsw


def _scales(one: SerialEnv, other: SerialEnv) -> bool:
    """Returns whether two threads with a lane each do nearly twice the work of one.

    Other load on the machine may affect one measurement and not the next, so each is repeated. One thread is measured
    by its CPU time, which other load does not lengthen: code that holds Python's lock never does more than that in two
    threads, however long the one thread had to wait. Only an environment that releases the CPU in every step, because
    it waits for something outside, is measured by the clock.
    """
    alone, *together = map(_own, (one, one, other))
    rates, both, failed = [], [], Event()

    def play(player: _Player) -> None:
        try:
            player.play(SCALE_SECONDS)
        except EnvError:  # it can be stepped by one thread only, for example
            failed.set()

    for _ in range(REPEATS):
        before, busy, let_go, began = alone.steps, thread_time(), _voluntary_switches(), perf_counter()
        alone.play(SCALE_SECONDS)
        steps, busy, passed = alone.steps - before, thread_time() - busy, perf_counter() - began
        waits = busy < passed / 2 and _voluntary_switches() - let_go >= steps
        rates.append(steps / (passed if waits else busy))
        before = sum(player.steps for player in together)
        threads = [Thread(target=in_this_context(partial(play, player)), daemon=True) for player in together]
        began = perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(max(began + HANGS_SECONDS - perf_counter(), 0.0))
        if failed.is_set() or any(thread.is_alive() for thread in threads):
            return False
        both.append((sum(player.steps for player in together) - before) / (perf_counter() - began))
    return float(np.median(both)) >= SCALES * max(rates)
