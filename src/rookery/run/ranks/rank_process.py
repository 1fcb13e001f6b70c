"""Program of a rank that rank 0 starts on its machine: ``python -m rookery.run.ranks.rank_process LINE DRIVER
DEATH_SIGNAL``.

LINE is an inherited file descriptor. The rank makes the same calls as rank 0, and ends when rank 0 does.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import torch

from rookery.cluster.local_ranks import joined, send_error
from rookery.cluster.ranks import Gathered
from rookery.core.process.child_process import ConnectionClosed, die_with
from rookery.core.process.interrupt import Interrupted
from rookery.core.process.signals import OF_TERMINAL
from rookery.core.settings.layers import Layer
from rookery.core.settings.starting_folder import starting_folder
from rookery.run.checkpoint.rank_shards import load_shard
from rookery.run.ranks.learners import RankTask
from rookery.run.trainer import Trainer


def serve(ranks: Gathered, task: RankTask) -> None:
    """Makes the same trainer as rank 0, and the same calls, until rank 0 is gone."""
    if torch.cuda.is_available():
        torch.cuda.set_device(ranks.rank % torch.cuda.device_count())
    own = Layer(f"rank {ranks.rank}", {"logging.console": "quiet", "logging.loggers": ()})
    layers = [layer.sent_to(starting_folder()) for layer in task.layers]
    with Trainer(
        config=[*layers, own], preset=task.preset, callbacks=task.callbacks, ranks=ranks
    ) as trainer:  # fmt: skip
        calls: dict[str, Callable[[], Any]] = {
            "train_iteration": trainer.train_iteration,
            "learn": partial(trainer._iterate_task, "learn", None),
            "collect": partial(trainer._iterate_task, "collect", None),
            "save": trainer.save,
            "load": lambda: load_shard(trainer, trainer._saved_replays),
            "end": lambda: ranks.broadcast_call("end"),
        }
        while True:
            call = calls[ranks.receive_call()]
            with suppress(Interrupted):  # rank 0 makes the next call
                call()


if __name__ == "__main__":
    for number in OF_TERMINAL:
        signal.signal(number, signal.SIG_IGN)  # rank 0 handles signals for all
    line = socket.socket(fileno=int(sys.argv[1]))
    die_with(int(sys.argv[2]), line, bool(int(sys.argv[3])))
    try:
        serve(*joined(line))
    except ConnectionClosed:
        pass
    except BaseException as error:
        send_error(line, error, traceback.format_exc())
    os._exit(1)
