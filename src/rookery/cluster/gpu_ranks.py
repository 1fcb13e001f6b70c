"""Gradient sums of ranks on GPUs: by NCCL if each rank has a separate GPU, else by gloo, which copies them."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Literal

import torch
from torch import distributed


def backend_of(gpus: Sequence[str | None]) -> Literal["nccl", "gloo"]:
    """Returns the backend for gradients between ranks.

    gpus: The GPU of each rank, by a globally unique name; None = none that NCCL can use.
        gpus: The GPU of each rank, by a name that no other has on any machine; None = none that NCCL can use.
    """
    return "nccl" if None not in gpus and len(set(gpus)) == len(gpus) else "gloo"


def name_of(device: torch.device) -> str | None:
    """Returns a globally unique name of a GPU; None if NCCL cannot use it."""
    if device.type != "cuda" or not distributed.is_nccl_available():
        return None
    return str(torch.cuda.get_device_properties(device).uuid)


def group_on(
    device: torch.device, rank: int, size: int, host: str, timeout: float, gather: Callable[[Any], list[Any]]
) -> Any:
    """Creates an NCCL group of the GPUs of all ranks; None if gloo must be used. All ranks must call it.

    Args:
        device: The GPU of this rank.
        rank: Number of this rank.
        size: Number of ranks.
        host: Address of this machine that the others can reach.
        timeout: Seconds that a rank waits for the others in a sum.
        gather: Returns the values that all ranks pass to it.
    """
    if backend_of(gather(name_of(device))) == "gloo":
        return None
    there: Any = distributed
    store = meeting = None
    if rank == 0:
        door = socket.create_server((host, 0))  # the store's own would be open on all addresses of this machine
        meeting = host, int(door.getsockname()[1])
        store = there.TCPStore(*meeting, size, True, wait_for_workers=False, master_listen_fd=door.detach())
    meeting = gather(meeting)[0]
    assert meeting is not None
    if store is None:
        store = there.TCPStore(*meeting, size, False)
    options = there.ProcessGroupNCCL.Options()
    options._timeout = timedelta(seconds=timeout)
    with torch.cuda.device(device):
        return there.ProcessGroupNCCL(store, rank, size, options)
