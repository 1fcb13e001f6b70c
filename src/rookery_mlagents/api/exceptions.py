"""Exceptions of the low-level API, under ML-Agents' names; each is also an `EnvError`, so that its message is
printed.
"""

from __future__ import annotations

from rookery.face import EnvError


class UnityException(EnvError): ...


class UnityEnvironmentException(UnityException): ...


class UnityCommunicationException(UnityException): ...


class UnityCommunicatorStoppedException(UnityException): ...


class UnityObservationException(UnityException): ...


class UnityActionException(UnityException): ...


class UnityTimeOutException(UnityException): ...


class UnitySideChannelException(UnityException): ...


class UnityWorkerInUseException(UnityException):
    MESSAGE_TEMPLATE = (
        "the port of worker {} is taken: an environment that was opened before may still be there; close it, or use "
        "another worker_id or base_port"
    )

    def __init__(self, worker_id: int | str) -> None:
        super().__init__(self.MESSAGE_TEMPLATE.format(worker_id))


class UnityPolicyException(UnityException):
    """Error of a policy; kept for scripts that catch it."""
