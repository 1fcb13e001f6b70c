"""``rookery algos``: the algorithms, and what each can do."""

from __future__ import annotations

from rookery.cli.envs import echo_table


def algos() -> None:
    """List the algorithms, what each learns from, and what it can do.

    rookery algos
    """
    from rookery.algorithms.capabilities import TABLE_HEAD, capability_table

    echo_table(TABLE_HEAD, capability_table())
