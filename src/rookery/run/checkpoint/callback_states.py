"""States of callbacks in checkpoints, each under the name of its class, so that callbacks load only their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rookery.core.errors import ConfigError
from rookery.core.process.torch_modes import users_modes
from rookery.core.process.tracebacks import described
from rookery.core.state import StateError
from rookery.report.results import IterationResult
from rookery.rollout.hooks import UNNAMED, EpisodeListener, names_of
from rookery.run.parts import RunPart
from rookery.run.run import Windows


def notify(callbacks: Sequence[EpisodeListener], moment: str, *about: Any) -> None:
    """Calls one method of every callback, in the user's modes of torch (such as its gradient mode).

    Raises:
        ConfigError: If a method returns False, which ends a training in Stable-Baselines3.
    """
    with users_modes():
        for callback in callbacks:
            if getattr(callback, moment)(*about) is False:
                raise ConfigError(
                    f"callback {type(callback).__name__}.{moment} returned False, which ends nothing; "
                    "train(stop=lambda result: ...) ends a training by your own rule"
                )


class CallbacksPart(RunPart):
    """Calls the callbacks of a trainer after each iteration.

    Args:
        notify: Calls one method of every callback.
    """

    def __init__(self, notify: Callable[[str, IterationResult], None]) -> None:
        self._notify = notify

    def after_report(self, result: IterationResult) -> None:
        """Calls ``on_iteration``, unless the time limit ended the training within the iteration."""
        if result.whole:
            self._notify("on_iteration", result)


class CallbackStates:
    """States of callbacks by name, including absent callbacks, which a loaded run had before and does not have now.

    States of absent callbacks are written into later checkpoints, and their metrics are left out of results.

    Args:
        callbacks: The callbacks of the trainer.
        windows: Holds the metrics that callbacks measured.
        note: Shows a line at once.
        notes: Lines that are shown when a training begins.
        plays: Whether the run samples, so that metrics of an absent callback become outdated.
    """

    def __init__(
        self,
        callbacks: Sequence[EpisodeListener],
        windows: Windows,
        note: Callable[[str], None],
        notes: list[str],
        plays: bool,
    ) -> None:
        self.callbacks: dict[str, Any] = dict(zip(names_of(callbacks), callbacks, strict=True))
        self.windows = windows
        self.note = note
        self.notes = notes
        self.plays = plays
        self.absent: dict[str, Any] = {}

    def state_dict(self) -> dict[str, Any]:
        """Returns the state of each callback by name; None for one without a state."""
        own = {
            name: callback.state_dict() if hasattr(callback, "state_dict") else None
            for name, callback in self.callbacks.items()
        }
        return {**self.absent, **own}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Gives each callback the state that is stored under its name.

        Raises:
            StateError: If a callback refuses its state, or states without names do not fit the callbacks.
        """
        stored = dict(state)
        sources = {name: name for name in stored}
        if (listed := stored.pop(UNNAMED, None)) is not None:
            free = [name for name in self.callbacks if name not in stored]
            sources |= {name: f"number {number} in the checkpoint" for number, name in enumerate(free, 1)}
            stored |= self._by_position(listed, free)
        fresh = []
        for name, callback in self.callbacks.items():
            own = stored.pop(name, None)
            if own is not None and hasattr(callback, "load_state_dict"):
                _give(name, callback, own, sources[name])
            elif hasattr(callback, "load_state_dict"):
                fresh.append(name)
        if fresh:
            self.note(f"the checkpoint has no state of {', '.join(fresh)}: starts fresh")
        self.absent, self.windows.absent = stored, frozenset(stored if self.plays else ())
        if stored:
            names = ", ".join(name or "callbacks without names" for name in stored)
            self.notes.append(
                f"this run had {names}, which is missing now: its state is kept in checkpoints"
                f"{', and its metrics are left out of results' * self.plays}; pass it again with callbacks=[...]"
            )

    def _by_position(self, listed: Sequence[Any], free: Sequence[str]) -> dict[str, Any]:
        """Returns states that an older version of Rookery wrote without names, by the names of the callbacks.

        Args:
            listed: The states, in the order of the former callbacks; None for each without a state.
            free: Names of the current callbacks that have no state by name.

        Raises:
            StateError: If there are states, and another number of callbacks.
        """
        if not free:
            return {UNNAMED: listed}
        has_states = any(state is not None for state in listed)
        if len(free) == len(listed):
            if has_states:
                self.note(
                    "the checkpoint of an older version does not name its callbacks: their states are assigned in "
                    f"this order: {', '.join(free)}"
                )
            return dict(zip(free, listed, strict=True))
        if has_states:
            raise StateError(
                f"callbacks: the checkpoint of an older version holds the states of {len(listed)} callbacks without "
                f"their names, and {len(free)} are given ({', '.join(free)}): give the same callbacks in the same order"
            )
        return {}


def _give(name: str, callback: Any, state: Any, source: str) -> None:
    """Loads the state of a callback.

    Args:
        name: Name of the callback.
        callback: The callback.
        state: The state.
        source: Its name in the checkpoint.

    Raises:
        StateError: If the callback refuses the state, whatever it raises.
    """
    try:
        callback.load_state_dict(state)
    except Exception as error:
        raise StateError(
            f"callbacks: {name}.load_state_dict refuses the state of {source}: {described(error)}; leave "
            "the callback out to keep its state, or make the method accept the state as it was written"
        ) from error
