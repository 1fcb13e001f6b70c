"""Hosts of the workers of shares, as a `RemotePool` sees them; and the simplest host, this process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import cloudpickle

from rookery.core.errors import WorkerLostError
from rookery.core.settings.starting_folder import started_in, starting_folder


class Hosts(Protocol):
    """Processes, perhaps on other machines, that run the workers of shares.

    Calls of one share run one after the other, in the order in which they were made; those of shares on different hosts
    run at the same time.
    """

    def begin(self, share: int, make: bytes) -> None:
        """Creates the worker of a share, in place of the previous one, on a host with room for it.

        Args:
            share: Number of the share.
            make: A pickled function without arguments that creates it.

        Raises:
            WorkerLostError: If no host is available, or the run has to stop before there is one.
        """
        ...

    def vacancies(self) -> list[int]:
        """Returns, now and then, the shares for which a better host has become free: `begin` would create their workers
        there.
        """
        ...

    def publish(self, value: Any) -> Any:
        """Sends a value to hosts, once per machine; returns a reference for it as an argument of `call`."""
        ...

    def call(self, share: int, method: str, *arguments: Any) -> Any:
        """Calls a method of the worker of a share; returns at once a ticket for its result. Arguments from `publish`
        come last.
        """
        ...

    def ready(self, tickets: Sequence[Any], seconds: float) -> list[Any]:
        """Waits until at least one of the calls is over, at most `seconds`; returns tickets of finished calls."""
        ...

    def result(self, ticket: Any) -> Any:
        """Returns the result of a call that is over.

        Raises:
            WorkerLostError: If the worker is gone, or was ended because it hung.
            Exception: The exception of the method.
        """
        ...

    def hurry(self, is_stopping: bool) -> None:
        """Begins or ends a period in which the run has to stop: all workers stop playing after the current vector step,
        and a worker that does not answer counts as hung sooner.
        """
        ...

    def close(self, at_once: bool = False) -> None:
        """Ends all workers; `at_once` without waiting until each has freed its environments."""
        ...


@dataclass
class LocalCall:
    """A call in this process, waiting or finished.

    Attributes:
        share: Share of the worker.
        method: Name of the method.
        arguments: Pickled, as they would be sent.
        answer: Its pickled result; None before.
        error: Its exception.
    """

    share: int
    method: str
    arguments: bytes
    answer: bytes | None = None
    error: BaseException | None = None


class LocalHosts:
    """Runs the workers of all shares in this process; a call runs when its result is waited for.

    Nothing is shared with the caller: arguments and answers are pickled as if they were sent.
    """

    def __init__(self) -> None:
        self._folder = starting_folder()
        self._workers: dict[int, Any] = {}
        self._calls: list[LocalCall] = []

    def begin(self, share: int, make: bytes) -> None:
        """Creates the worker of a share."""
        builder: Callable[[], Any] = cloudpickle.loads(make)
        with started_in(self._folder):
            self._workers[share] = builder()

    def vacancies(self) -> list[int]:
        """Returns an empty result: there is no host but this process."""
        return []

    def publish(self, value: Any) -> Any:
        """Returns the value itself."""
        return value

    def call(self, share: int, method: str, *arguments: Any) -> LocalCall:
        """Notes a call."""
        call = LocalCall(share, method, cloudpickle.dumps(arguments))
        self._calls.append(call)
        return call

    def ready(self, tickets: Sequence[LocalCall], seconds: float) -> list[LocalCall]:
        """Runs calls until one of these is over; returns those that are."""
        while self._calls and not any(_is_over(ticket) for ticket in tickets):
            self._do(self._calls[0])
        return [ticket for ticket in tickets if _is_over(ticket)]

    def result(self, ticket: LocalCall) -> Any:
        """Runs the calls up to this one; returns its result."""
        while not _is_over(ticket):
            self._do(self._calls[0])
        if ticket.error is not None:
            raise ticket.error
        assert ticket.answer is not None
        return cloudpickle.loads(ticket.answer)

    def hurry(self, is_stopping: bool) -> None:
        """Does nothing: a call is over before anything else happens in this process."""

    def lose(self, share: int) -> bool:
        """Removes the worker of a share, as if its machine were gone; returns whether it existed."""
        return self._workers.pop(share, None) is not None

    def close(self, at_once: bool = False) -> None:
        """Ends all workers."""
        for worker in self._workers.values():
            worker.close()
        self._workers.clear()
        self._calls.clear()

    def _do(self, call: LocalCall) -> None:
        self._calls.remove(call)
        worker = self._workers.get(call.share)
        if worker is None:
            call.error = WorkerLostError(f"the worker of share {call.share} is gone")
            return
        try:
            call.answer = cloudpickle.dumps(getattr(worker, call.method)(*cloudpickle.loads(call.arguments)))
        except BaseException as error:  # raised where the result is read
            call.error = error


def _is_over(call: LocalCall) -> bool:
    return call.answer is not None or call.error is not None
