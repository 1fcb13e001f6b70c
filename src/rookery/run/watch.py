"""Thread that requests a stop of the training at its time limit, and reports the progress of long iterations.

The training itself never reads a clock for this. It checks `Interrupt.number`, as for Ctrl-C, at places where a
checkpoint can be written.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from rookery.report.console import Reporter
from rookery.report.panel import span
from rookery.run.pace import ITERATION, remaining
from rookery.run.run import Progress, Run

LOOK_SECONDS = 0.5
"""Seconds between two checks."""

MEASURED_SECONDS = 1.0
"""Seconds of gradient steps before the length of an iteration is estimated from them."""


class Watch:
    """Watches a run in a separate thread while it trains or evaluates.

    Args:
        run: The run.
        reporter: Returns its reporter.
    """

    def __init__(self, run: Run, reporter: Callable[[], Reporter]) -> None:
        self._run, self._reporter = run, reporter
        self._ended: threading.Event | None = None
        self._under_way: Progress | None = None
        self._acted = 0
        self._first: tuple[float, int] | None = None
        """Seconds of training and gradient steps of the iteration at the first check after a gradient step."""

    @contextmanager
    def over(self, limit: tuple[str, float] | None = None) -> Iterator[None]:
        """Watches the run, as a context; does nothing inside another such context.

        Args:
            limit: The time criterion, as text, and the seconds of training at which a stop is requested; None = no
                limit.
        """
        if self._ended is not None or (limit is None and not self._reporter().shows_progress):
            yield
            return
        self._ended = ended = threading.Event()
        thread = threading.Thread(target=self._watch, args=(ended, limit), name="rookery-watch", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
            self._ended = None
            self._run._interrupt.forget_time()

    def _watch(self, ended: threading.Event, limit: tuple[str, float] | None) -> None:
        run, first_iteration, estimated = self._run, self._run.iteration, limit is None
        pause = LOOK_SECONDS
        while not ended.wait(pause):
            pause = LOOK_SECONDS
            if run._clock.is_held:
                continue
            now = run._seconds + run._clock.passed()
            if limit is not None and now >= limit[1]:
                run._interrupt.time_is_up()
                continue
            if limit is not None:
                pause = min(pause, limit[1] - now)
            with suppress(OSError, ValueError):  # the console is closed; the limit of time still holds
                self._reporter().progress(self.standing)
                if limit is not None and not estimated and run.iteration == first_iteration:
                    length, left = self._estimate(now)
                    if left is not None and now + left > limit[1]:
                        estimated = True
                        run._note(self._too_long(length + left, limit[0]))

    def _too_long(self, seconds: float, criterion: str) -> str:
        return (
            f"an iteration takes about {span(seconds)}, and --stop {criterion} ends within it: the run then stops "
            "between two gradient steps, and the row of the iteration is written when a resumed run completes it; "
            "sampling.iteration_steps=N makes iterations shorter"
        )

    # --- progress of an iteration -------------------------------------------------------------------------------------

    def standing(self) -> str:
        """Returns the progress of an iteration or an evaluation in one line."""
        run = self._run
        if run._measured is not None:
            return run._measured.standing()
        progress = self._progress()
        if progress is None:
            return f"after iteration {run.iteration}"
        now = run._seconds + run._clock.passed()
        parts = [f"iteration {run.iteration + 1}, {span(now - progress.seconds)} so far"]
        if not run._apart:
            parts.append(f"{max(run._pool.acted() - self._acted, 0):,} decisions")
        if run.replays:
            parts.append(f"{self._made(progress):,} gradient steps")
        if progress.round is not None and progress.round.left:
            parts.append(f"{progress.round.left:,} to make before sampling continues")
        _, left = self._estimate(now)
        if left is not None:
            parts.append(f"about {span(left)} left of it")
        return " | ".join(parts)

    def _progress(self) -> Progress | None:
        """Returns the current iteration; records the decisions at its beginning."""
        run = self._run
        progress = run._under_way
        if progress is not self._under_way:
            self._under_way, self._acted, self._first = progress, run._pool.acted(), None
        return progress

    def _made(self, progress: Progress) -> int:
        """Returns the gradient steps on replay of all policies in an iteration so far."""
        replays = list(self._run.replays.items())
        return sum(replay.gradient_steps - progress.gradient_steps.get(name, 0) for name, replay in replays)

    def _estimate(self, now: float) -> tuple[float, float | None]:
        """Returns the seconds that the current iteration has taken, and estimates those that are left; None if gradient
        steps do not show it yet, or do not decide it.
        """
        progress = self._progress()
        if progress is None:
            return 0.0, None
        made, passed = self._made(progress), now - progress.seconds
        if self._first is None:
            self._first = (now, made) if made else None
        if self._first is None or now - self._first[0] < MEASURED_SECONDS or made <= self._first[1]:
            return passed, None
        left = self._left(progress, made)
        return passed, None if left is None else left * (now - self._first[0]) / (made - self._first[1])

    def _left(self, progress: Progress, made: int) -> float | None:
        """Estimates the gradient steps that are left in an iteration; None if they do not decide its length."""
        run, replays = self._run, list(self._run.replays.values())
        if run._apart:
            return max(ITERATION - made, 0)
        if len(replays) < len(run.learners):
            return None
        ahead = max(remaining(run, progress), 0)
        left = float(0 if progress.round is None else progress.round.left or 0)
        for replay in replays:
            stored = not replay.cfg.replay.start_from and run.env_steps
            left += ahead * replay.cfg.updates_per_step * (replay.own.total / run.env_steps if stored else 1.0)
        return left
