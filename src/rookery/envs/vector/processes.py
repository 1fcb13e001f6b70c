"""The `processes` back end: helper processes step shares of the lanes, through shared memory.

A helper is a fresh interpreter that runs `child.py`. It receives the environment's factory once, by cloudpickle; a step
moves no bytes except those in the slab and two words for the turn (`channel.py`). Nothing has a name in the file
system, so nothing stays behind, however a run ends.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from time import monotonic, sleep
from typing import Any

import cloudpickle

from rookery.core.errors import EnvError, RemoteError
from rookery.core.process.child_process import (
    NO_CHILDREN,
    STARTS_CHILDREN,
    ConnectionClosed,
    describe_end,
    receive_frame,
    send_frame,
    start_child,
)
from rookery.core.process.cpu import usable_cores
from rookery.core.process.waits import exit_code_of
from rookery.core.settings.starting_folder import module_paths, started_in, starting_folder
from rookery.envs.base import Kind
from rookery.envs.vector import channel
from rookery.envs.vector.burst import Burst
from rookery.envs.vector.channel import MADE, PAGE, RESETTING, STATUS, SharedMemory
from rookery.envs.vector.faults import Tolerance
from rookery.envs.vector.layout import Layout
from rookery.envs.vector.serial import SerialEnv
from rookery.envs.vector.shares import HelperLost, SharesEnv, deal
from rookery.envs.vector.slab import Slab
from rookery.envs.vector.specs import ONLY_HERE

CLOSE_SECONDS = 5.0
"""Timeout in seconds for a helper to close its environments before it is killed."""

TRACEBACK_SECONDS = 0.2
"""Timeout in seconds for a hanging helper to write its traceback."""

TRIAL_SECONDS = 30.0
"""Timeout in seconds for a new helper to play a throwaway environment, in addition to `TRIAL_TIMES` of the time in this
process.
"""

TRIAL_TIMES = 10

IN_HELPER = "in a helper process"


def processes_env(
    factory: Callable[[], Any],
    num_lanes: int,
    name: str,
    tolerance: Tolerance,
    num_helpers: int,
    trial: Callable[[], SerialEnv] | None = None,
) -> SharesEnv:
    """Makes 1 to ``num_lanes - 1`` processes step lanes in addition to the caller; `factory` must survive cloudpickle.

    Args:
        factory: Builds one environment.
        num_lanes: Number of environments.
        name: Name of the environment for messages.
        tolerance: Tolerated failures of the environment and of helpers.
        num_helpers: Number of processes.
        trial: Plays a throwaway environment and returns it; called in this process and, while that one is open, in each
            helper before it builds its own. None: helpers build at once, and those that die are replaced.

    Raises:
        EnvError: If the environment cannot be sent to another process, built or used.
    """
    if not STARTS_CHILDREN:
        raise EnvError(f"{name}: {NO_CHILDREN}: set env.implementation=threads, or sampling.env_processes=0")
    try:
        pickled = cloudpickle.dumps(factory)
    except Exception as error:
        raise EnvError(
            f"{name}: cannot be sent to a helper process, because pickling it raised {type(error).__name__}: {error}; "
            f"build what cannot be pickled inside the environment, or use env.implementation=serial"
        ) from error
    own, *others = deal(num_lanes, num_helpers + 1)
    with ExitStack() as stack:
        helpers = []
        for lanes in others:
            helpers.append(ProcessHelper(pickled, lanes, name, tolerance, spins=num_helpers < usable_cores()))
            stack.callback(helpers[-1].close)
        if trial is not None:
            _try_out(trial, helpers)
        for helper in helpers:
            helper.build()
        first = stack.enter_context(closing(SerialEnv(factory, len(own), name, tolerance)))
        try:
            env = SharesEnv(first, helpers, num_lanes, tolerance, Slab.shared)
        except EnvError as error:
            lost = isinstance(error.__cause__, HelperLost)
            raise (
                error if lost else EnvError(f"{IN_HELPER}: {error}; {ONLY_HERE}, or set env.implementation=serial")
            ) from error.__cause__
        stack.pop_all()
        return env


def _try_out(trial: Callable[[], SerialEnv], helpers: Sequence[ProcessHelper]) -> None:
    """Makes all helpers play a throwaway environment while one is open here.

    Raises:
        EnvError: If one of them cannot, or does not answer in time.
    """
    began = monotonic()
    with closing(trial()):
        seconds = TRIAL_SECONDS + TRIAL_TIMES * (monotonic() - began)
        pickled = cloudpickle.dumps(trial)
        for helper in helpers:
            helper.try_out(pickled, seconds)
        for helper in helpers:
            helper.end_trial(seconds)


class ProcessHelper:
    """Driver-side handle of one helper process."""

    can_be_lost = True

    def __init__(self, pickled: bytes, lanes: range, name: str, tolerance: Tolerance, spins: bool) -> None:
        """Starts the process, without building an environment.

        Args:
            pickled: Factory of one environment.
            lanes: Lanes that the process steps.
            name: Name of the environment in messages.
            tolerance: Time limits of the process.
            spins: Whether a core is free for it to spin on.
        """
        self.lanes = lanes
        self.any_end = self.grown = False
        self.infos: Mapping[int, Mapping[str, Any]] = {}
        self._pickled, self._name, self._tolerance, self._spins = pickled, name, tolerance, spins
        self._kinds: Sequence[Kind] = ()
        self._slab: Slab
        self._folder = starting_folder()
        self._start()

    def build(self) -> None:
        """Begins to build the environments; `end` waits for them."""
        self.begin("build", module_paths(sys.path), self._pickled, self.lanes, self._name, self._tolerance)

    def try_out(self, trial: bytes, seconds: float) -> None:
        """Begins to play a throwaway environment.

        Args:
            trial: Pickled function that plays and returns it.
            seconds: Time limit in seconds.
        """
        self.begin("try_out", module_paths(sys.path), trial)
        self._deadline = monotonic() + seconds

    def end_trial(self, seconds: float) -> None:
        """Waits for the end of `try_out`.

        Raises:
            EnvError: If the environment could not be played, the process has ended, or `seconds` have passed.
        """
        try:
            if not self._answers.wait(self._number, self._deadline):
                raise EnvError(f"{self._name}: no answer within {seconds:.0f} s")
        except ConnectionClosed:
            raise EnvError(f"{self._name}: {self._lost()}") from None
        try:
            self._receive()
        except HelperLost as loss:
            raise EnvError(f"{self._name}: {loss}") from None

    def _start(self) -> None:
        with started_in(self._folder, enter=False):
            self._start_process()

    def _start_process(self) -> None:
        bell, far_bell = socket.socketpair()
        line, far_line = socket.socketpair()
        control = SharedMemory(PAGE)
        self._words = control.words()
        self._words[STATUS] = int(self._spins)
        far = (far_bell.fileno(), far_line.fileno(), control.file.fileno())
        process = start_child("rookery.envs.vector.child", [*map(str, far)], far, 1, {})
        for end in (far_bell, far_line):
            end.close()
        self._process, self._line = process, line
        self._number = 0
        self._busy = False  # its answer has not been taken yet
        self._commands, self._answers = channel.signals(self._words, bell, self._spins)
        self._finalizer = weakref.finalize(self, _end_process, process, (bell, line), os.getpid())

    def begin(self, task: str, *arguments: Any) -> None:
        """Starts to call a method of the share; the actions of a step are passed through the slab, and a burst uses the
        lent memory.
        """
        if task == "play":
            self._slab.put_actions(self._kinds, arguments[0])
            self._command(channel.STEP, self._tolerance.step_timeout_seconds)
        elif task == "play_burst":
            (self._words[channel.STEPS],), self._words[MADE] = arguments, 0
            self._command(channel.BURST, self._tolerance.step_timeout_seconds)
        else:
            self._talk((task, arguments))

    def _command(self, kind: int, seconds: float) -> None:
        """Sends a command to the process, and sets its deadline."""
        self._words[channel.KIND] = self._kind = kind
        self._number += 1
        self._busy = True
        self._commands.send(self._number)
        self._deadline = monotonic() + seconds

    def _talk(self, message: Any, files: tuple[int, ...] = ()) -> None:
        self._command(channel.TALK, self._tolerance.reset_timeout_seconds)
        with suppress(ConnectionClosed):  # `end` will detect it
            send_frame(self._line, message, files)

    def end(self) -> Any:
        """Waits for the result; raises as `Helper.end` does."""
        self._wait()
        if self._kind == channel.TALK:
            result, self.any_end, self.grown = self._receive()
            return result
        status = self._words[STATUS]
        self.any_end, self.grown = bool(status & channel.ENDS), bool(status & channel.GROWN)
        self._busy = bool(status & channel.SPEAKS)
        self.infos = self._receive() if self._busy else {}
        return self._words[channel.MADE] if self._kind == channel.BURST else None

    def move(self, slab: Slab, agents: Layout) -> None:
        """Starts the switch to its part of another slab."""
        assert slab.memory is not None
        self._slab, self._kinds = slab.part(self.lanes), agents.kinds
        message = ("move", (slab.memory.size, slab.num_lanes, self.lanes, agents))
        self._talk(message, (slab.memory.file.fileno(),))

    def lend(self, burst: Burst) -> None:
        """Starts to pass memory for bursts to the helper."""
        self._talk(("lend", (burst.plan, self.lanes)), (burst.memory.file.fileno(),))

    def _receive(self) -> Any:
        try:
            what, value = receive_frame(self._line)[0]
        except ConnectionClosed:
            raise self._lost() from None
        self._busy = False
        if what == "error":
            message, text = value
            raise EnvError(message) from (RemoteError(text) if text else None)
        return value

    def _wait(self) -> None:
        step_seconds, seconds = self._tolerance.step_timeout_seconds, self._tolerance.reset_timeout_seconds
        what, setting, made = "a call", "sampling.reset_timeout_seconds", 0
        try:
            while not self._answers.wait(self._number, self._deadline):
                if self._kind == channel.BURST and self._words[MADE] != made:  # the time is that of a step
                    what, made, self._deadline = "a step", self._words[MADE], monotonic() + step_seconds
                elif self._kind != channel.TALK and self._words[RESETTING] and what != "a reset":
                    what, self._deadline = "a reset", self._deadline - step_seconds + seconds
                else:
                    break
            else:
                return
            if self._kind != channel.TALK and what != "a reset":
                what, setting, seconds = "a step", "sampling.step_timeout_seconds", step_seconds
        except ConnectionClosed:
            raise self._lost() from None
        with suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGUSR1)  # it writes its traceback
            sleep(TRACEBACK_SECONDS)
        self._finalizer()
        raise HelperLost(f"{self._who()} was ended because {what} took longer than {setting} = {seconds:g}")

    def _lost(self) -> HelperLost:
        """Releases the resources of the process, and returns how it ended."""
        how = describe_end(self._process)
        self._finalizer()
        return HelperLost(f"{self._who()} {how}")

    def _who(self) -> str:
        return f"the helper process {self._process.pid} of environments {self.lanes.start} to {self.lanes[-1]}"

    def replace(self) -> None:
        """Starts a new process, which begins to build its environments."""
        self._finalizer()
        self._start()
        self.build()

    def close(self) -> None:
        """Closes the environments and ends the process; kills it if it does not answer, or is busy. An exception of a
        `close` becomes a warning.
        """
        if self._busy or not self._finalizer.alive:
            self._finalizer()
            return
        self.begin("close_lanes")
        self._deadline = monotonic() + CLOSE_SECONDS
        try:
            for problem in self.end() or ():
                problem.warn()
        except HelperLost:
            return  # as intended
        finally:
            self._finalizer()


def _end_process(process: subprocess.Popen[bytes], ends: tuple[socket.socket, ...], owner: int) -> None:
    if os.getpid() != owner:  # a fork of the driver, which must not end it
        return
    for end in ends:
        end.close()
    process.kill()
    exit_code_of(process)
