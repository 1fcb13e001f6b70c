"""The `threads` back end: shares of the lanes stepped by threads of this process.

For environments that step in native code without Python's lock (MuJoCo, ALE); others gain nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from copy import deepcopy
from queue import SimpleQueue
from typing import Any

from rookery.core.errors import EnvError
from rookery.core.process.thread_context import in_this_context
from rookery.envs.vector.burst import Burst
from rookery.envs.vector.faults import Tolerance
from rookery.envs.vector.layout import Layout
from rookery.envs.vector.serial import SerialEnv
from rookery.envs.vector.shares import SharesEnv, deal
from rookery.envs.vector.slab import Slab


def threads_env(
    factory: Callable[[], Any],
    num_lanes: int,
    name: str,
    tolerance: Tolerance,
    num_helpers: int,
    trial: Callable[[], SerialEnv] | None = None,
) -> SharesEnv:
    """Makes 1 to ``num_lanes - 1`` threads step lanes in addition to the caller; an environment that hangs cannot be
    ended.

    Args:
        factory: Builds one environment.
        num_lanes: Number of environments.
        name: Name of the environment for messages.
        tolerance: Tolerated failures of the environment.
        num_helpers: Number of threads.
        trial: Plays a throwaway environment and returns it; called in each thread before it builds its own, if given.

    Raises:
        EnvError: If the environment cannot be built or used.
    """
    own, *others = deal(num_lanes, num_helpers + 1)
    with ExitStack() as stack:
        first = stack.enter_context(closing(SerialEnv(factory, len(own), name, tolerance)))
        helpers = []
        for lanes in others:
            helpers.append(ThreadHelper(factory, lanes, name, tolerance, trial))
            stack.callback(helpers[-1].close)
        try:
            env = SharesEnv(first, helpers, num_lanes, tolerance, Slab.allocate)
        except EnvError as error:
            out = "the main thread built it; set env.implementation=serial or processes"
            raise EnvError(f"in a helper thread: {error}; {out}") from error.__cause__
        stack.pop_all()
        return env


class ThreadHelper:
    """A thread that steps a share."""

    can_be_lost = False

    def __init__(
        self,
        factory: Callable[[], Any],
        lanes: range,
        name: str,
        tolerance: Tolerance,
        trial: Callable[[], SerialEnv] | None,
    ) -> None:
        self.lanes = lanes
        self._tasks: SimpleQueue[Callable[[], Any] | None] = SimpleQueue()  # None ends the thread
        self._results: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()
        self._busy = False  # the end of a task has not been awaited yet
        self._share: SerialEnv
        self._thread = threading.Thread(target=self._run, name=f"rookery lanes {lanes.start}-{lanes[-1]}", daemon=True)
        self._thread.start()
        self.any_end = self.grown = False
        self.infos: Mapping[int, Mapping[str, Any]] = {}
        self._known = 0  # version of the layout that all shares have

        def build() -> None:
            if trial is not None:
                trial().close()
            self._share = SerialEnv(factory, len(lanes), name, tolerance, lanes.start, Layout(name))

        self._tell(in_this_context(build))

    def _run(self) -> None:
        while task := self._tasks.get():
            try:
                self._results.put((task(), None))
            except BaseException as error:  # raised again in the waiting thread, even an `exit()`
                self._results.put((None, error))

    def _tell(self, task: Callable[[], Any] | None) -> None:
        self._busy = True
        self._tasks.put(task)

    def begin(self, task: str, *arguments: Any) -> None:
        """Starts to call a method of the share."""
        self._tell(in_this_context(lambda: getattr(self._share, task)(*arguments)))

    def end(self) -> Any:
        """Waits for the result, and raises an exception of the call."""
        result, error = self._results.get()
        self._busy = False
        if error is not None:
            raise error
        share = self._share
        self.any_end, self.grown, self.infos = share.any_end, share.layout != self._known, share.infos
        return result

    def move(self, slab: Slab, agents: Layout) -> None:
        """Starts to use its part of `slab`."""
        self._known = agents.version
        own = deepcopy(agents)
        self._tell(lambda: self._share.attach(slab.part(self.lanes), own))

    def lend(self, burst: Burst) -> None:
        """Not supported: threads take turns in Python, so a burst would gain nothing."""
        raise AssertionError("a thread plays no bursts")

    def replace(self) -> None:
        """Not supported: a thread is lost only together with its caller."""
        raise AssertionError("a thread cannot be replaced")

    def close(self) -> None:
        """Closes the environments, if they are built, and ends the thread."""
        if self._thread.is_alive():
            if self._busy:  # an error elsewhere kept the caller from waiting
                self._results.get()
            try:
                if hasattr(self, "_share"):
                    self.begin("close")
                    self.end()
            finally:
                self._tell(None)
                self._thread.join()
