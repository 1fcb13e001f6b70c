"""Looks for faults of an environment, before anything is trained in it."""

from __future__ import annotations

from collections.abc import Sequence

from rookery.core.errors import ConfigError
from rookery.report.finding import Finding


def examine_env(env: str, settings: Sequence[str], time_limit: float) -> list[Finding]:
    """Returns the findings of an environment.

    Args:
        env: A Gymnasium id, ``my.module:MyEnv`` or another name that `rookery train` takes.
        settings: Settings below ``env`` as ``path=value``.
        time_limit: Longest time of play in seconds.
    """
    raise ConfigError(f"{env}: this is not the directory of a run; rookery envs check {env} examines an environment")
