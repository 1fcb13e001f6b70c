"""``rookery algos``: table of the algorithms and their capabilities."""

from __future__ import annotations

from rookery.cli.envs import echo_table


def algos() -> None:
    """List the algorithms, with their data source and capabilities.

    rookery algos
    """
    from rookery.algorithms.capabilities import TABLE_HEAD, capability_table

    echo_table(TABLE_HEAD, capability_table())
