"""Ranks started by ``torchrun``, or by a script with its environment variables: one per process, on any machines."""

from __future__ import annotations

import os
from typing import Any

import torch
from torch import distributed

from rookery.cluster.ranks import TIMEOUT, Gathered, Ranks, groups_of
from rookery.core.errors import ConfigError

VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
"""Environment variables with the rank of a process, the number of ranks, and the rendezvous address."""

RESTARTS = "TORCHELASTIC_RESTART_COUNT"

AGENT = "TORCHELASTIC_USE_AGENT_STORE"
"""Environment variable that is set if torchrun itself hosts the rendezvous store; otherwise rank 0 hosts it."""


def started() -> tuple[int, int]:
    """Returns the rank of this process, and the number of ranks; 0 and 1 if no ranks were started.

    Raises:
        ConfigError: If the variables are not numbers, or do not fit each other.
    """
    if not all(name in os.environ for name in VARIABLES):
        return 0, 1
    variables = {name: os.environ[name] for name in ("RANK", "WORLD_SIZE", "MASTER_PORT")}
    for name, text in variables.items():
        if not text.isdigit():
            raise ConfigError(f"environment variable {name} = {text!r}: must be a number; torchrun sets it")
    rank, size = int(variables["RANK"]), int(variables["WORLD_SIZE"])
    if rank >= size:
        raise ConfigError(f"environment variable RANK = {rank}: WORLD_SIZE = {size} ranks are numbered from 0")
    return rank, size


def meet_started() -> Ranks:
    """Joins the other ranks by gloo, at the rendezvous address of the environment variables."""
    rank, size = started()
    local = os.environ.get("LOCAL_RANK", str(rank))
    if torch.cuda.is_available():
        torch.cuda.set_device(int(local) % torch.cuda.device_count())
    there: Any = distributed
    host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    keeps = rank == 0 and os.environ.get(AGENT) != "True"
    store = there.TCPStore(host, port, size, keeps)
    name = f"rookery-{os.environ.get(RESTARTS, '0')}"
    alone = host in ("127.0.0.1", "localhost", "::1")
    groups = groups_of(there.PrefixStore(name, store), rank, size, TIMEOUT, "127.0.0.1" if alone else None)
    ranks = Gathered(groups)
    ranks.watch_others()
    ranks.description = f"{size} learners, as torchrun has started them"
    return ranks
