"""What the low-level API raises, under ML-Agents' names; each is an `EnvError` too, and so told in words."""

from __future__ import annotations

from rookery.core.errors import EnvError


class UnityException(EnvError):
    """Anything that goes wrong with an environment."""


class UnityEnvironmentException(UnityException):
    """An environment could not be started, or cannot go on."""


class UnityCommunicationException(UnityException):
    """Something was said that should not have been."""


class UnityCommunicatorStoppedException(UnityException):
    """The player has said goodbye."""


class UnityObservationException(UnityException):
    """Observations cannot be used."""


class UnityActionException(UnityException):
    """Actions cannot be sent."""


class UnityTimeOutException(UnityException):
    """A player did not answer in time."""


class UnitySideChannelException(UnityException):
    """A side channel cannot be used so."""


class UnityWorkerInUseException(UnityException):
    """The port of a worker is taken.

    Args:
        worker_id: Number of the worker.
    """

    MESSAGE_TEMPLATE = (
        "the port of worker {} is taken: an environment that was opened before may still be there; close it, or use "
        "another worker_id or base_port"
    )

    def __init__(self, worker_id: int | str) -> None:
        super().__init__(self.MESSAGE_TEMPLATE.format(worker_id))


class UnityPolicyException(UnityException):
    """Something is wrong with a policy; kept for scripts that catch it."""
