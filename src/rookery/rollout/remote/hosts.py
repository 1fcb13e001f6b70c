"""Where the workers of shares live, as a `RemotePool` sees it; and the simplest place, this process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import cloudpickle

from rookery.core.errors import WorkerLostError
from rookery.core.settings.starting_folder import started_in, starting_folder


class Hosts(Protocol):
    """Processes, perhaps on other machines, that each keep the workers of some shares.

    Calls of one share are done one after the other, in the order in which they were made; those of shares on different
    hosts at the same time.
    """

    def begin(self, share: int, make: bytes) -> None:
        """Makes the worker of a share, in place of the one that it had, on a host that has room for it.

        Args:
            share: Number of the share.
            make: A pickled function without arguments that makes it.

        Raises:
            WorkerLostError: If no host can be had, or the run is to stop before there is one.
        """
        ...

    def vacancies(self) -> list[int]:
        """Says, now and then, which shares have a better host by now, because room has come: if one of them is begun
        anew, it is there.
        """
        ...

    def publish(self, value: Any) -> Any:
        """Sends a value to hosts, once to each machine; returns what stands for it as an argument of `call`."""
        ...

    def call(self, share: int, method: str, *arguments: Any) -> Any:
        """Calls a method of the worker of a share; returns at once a ticket for what it will return. Arguments that
        `publish` gave come last.
        """
        ...

    def ready(self, tickets: Sequence[Any], seconds: float) -> list[Any]:
        """Waits until at least one of the calls is over, or so many seconds; returns the tickets of those that are."""
        ...

    def result(self, ticket: Any) -> Any:
        """Returns what a call returned, once it is over.

        Raises:
            WorkerLostError: If the worker is gone, or was ended because it hangs.
            Exception: What the method raised.
        """
        ...

    def hurry(self, is_stopping: bool) -> None:
        """Begins or ends a time in which the run is to stop: all workers end what they play after the vector step
        under way, and a worker that does not answer counts as hung sooner.
        """
        ...

    def close(self, at_once: bool = False) -> None:
        """Ends all workers; `at_once` without waiting until each has freed its environments."""
        ...


@dataclass
class CallHere:
    """A call that waits to be done in this process, or is over.

    Attributes:
        share: Of which share's worker.
        method: What is called.
        arguments: Pickled, as they would be sent.
        answer: What it returned, pickled; None before.
        error: What it raised.
    """

    share: int
    method: str
    arguments: bytes
    answer: bytes | None = None
    error: BaseException | None = None


class HostsHere:
    """Keeps the workers of all shares in this process, and does a call when somebody waits for it.

    Nothing is shared with the caller: arguments and answers are pickled as if they were sent.
    """

    def __init__(self) -> None:
        self._folder = starting_folder()
        self._workers: dict[int, Any] = {}
        self._calls: list[CallHere] = []

    def begin(self, share: int, make: bytes) -> None:
        """Makes the worker of a share."""
        builder: Callable[[], Any] = cloudpickle.loads(make)
        with started_in(self._folder):
            self._workers[share] = builder()

    def vacancies(self) -> list[int]:
        """Names none: there is no room but this process."""
        return []

    def publish(self, value: Any) -> Any:
        """Returns the value itself."""
        return value

    def call(self, share: int, method: str, *arguments: Any) -> CallHere:
        """Notes a call."""
        call = CallHere(share, method, cloudpickle.dumps(arguments))
        self._calls.append(call)
        return call

    def ready(self, tickets: Sequence[CallHere], seconds: float) -> list[CallHere]:
        """Does the calls up to the first of these, and says which are over."""
        while self._calls and not any(_is_over(ticket) for ticket in tickets):
            self._do(self._calls[0])
        return [ticket for ticket in tickets if _is_over(ticket)]

    def result(self, ticket: CallHere) -> Any:
        """Does the calls up to this one, and returns its answer."""
        while not _is_over(ticket):
            self._do(self._calls[0])
        if ticket.error is not None:
            raise ticket.error
        assert ticket.answer is not None
        return cloudpickle.loads(ticket.answer)

    def hurry(self, is_stopping: bool) -> None:
        """Does nothing: a call is over before anything else happens in this process."""

    def lose(self, share: int) -> bool:
        """Forgets the worker of a share, as if its machine were gone; returns whether it was there."""
        return self._workers.pop(share, None) is not None

    def close(self, at_once: bool = False) -> None:
        """Ends all workers."""
        for worker in self._workers.values():
            worker.close()
        self._workers.clear()
        self._calls.clear()

    def _do(self, call: CallHere) -> None:
        self._calls.remove(call)
        worker = self._workers.get(call.share)
        if worker is None:
            call.error = WorkerLostError(f"the worker of share {call.share} is gone")
            return
        try:
            call.answer = cloudpickle.dumps(getattr(worker, call.method)(*cloudpickle.loads(call.arguments)))
        except BaseException as error:  # it belongs to who waits for the answer
            call.error = error


def _is_over(call: CallHere) -> bool:
    return call.answer is not None or call.error is not None
