"""Main program of a helper process: ``python -m rookery.envs.vector.child BELL LINE CONTROL DRIVER DEATH_SIGNAL``.

The first three are inherited file descriptors. It ends when its driver does, for any reason, and ignores Ctrl-C, which
only the driver handles. It imports no torch.
"""

from __future__ import annotations

import faulthandler
import math
import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from typing import Any

import cloudpickle

from rookery.core.errors import EnvError
from rookery.core.io.console_output import survive_lost_output, watched_output
from rookery.core.process.child_process import ConnectionClosed, die_with, receive_frame, send_frame
from rookery.core.process.tracebacks import described
from rookery.envs.base import SeedPlan
from rookery.envs.parameters import NotifyingPlan
from rookery.envs.vector import channel
from rookery.envs.vector.burst import Burst, BurstPlan, ShareLoop
from rookery.envs.vector.channel import MADE, PAGE, RESETTING, SPEAKS, STATUS, STEPS, SharedMemory
from rookery.envs.vector.faults import Tolerance
from rookery.envs.vector.layout import Layout
from rookery.envs.vector.serial import SerialEnv
from rookery.envs.vector.slab import Slab


class ShareServer:
    """Steps a share of the lanes in a helper process, on commands of the driver through a channel."""

    def __init__(self, bell: socket.socket, line: socket.socket, control: SharedMemory) -> None:
        self._line = line
        self._words = control.words()
        bell.setblocking(False)
        self._commands, self._answers = channel.signals(self._words, bell, bool(self._words[STATUS]))
        self._share: SerialEnv
        self._player: ShareLoop
        self._version = 0  # layout version known to all shares

    def run(self) -> None:
        """Runs commands until the driver is gone."""
        number = 0
        while True:
            number += 1
            self._commands.wait(number, math.inf)
            if self._words[channel.KIND] != channel.TALK:
                self._play(number, self._step if self._words[channel.KIND] == channel.STEP else self._burst)
            else:
                (task, arguments), files = receive_frame(self._line)
                reply = self._answer(task, arguments, files)
                self._words[STATUS] = SPEAKS
                self._answers.send(number)
                self._tell(reply)

    def _play(self, number: int, play: Callable[[], None]) -> None:
        share, status = self._share, 0
        reply: tuple[str, Any] | None = None
        self._words[RESETTING] = 0  # a call before this step may have left it set
        try:
            play()
            status = channel.ENDS * share.any_end + channel.GROWN * (share.layout != self._version)
            if share.infos:
                reply = "infos", share.infos
        except EnvError as error:
            reply = "error", error_texts(error)
        self._words[STATUS] = status | (SPEAKS if reply else 0)
        self._answers.send(number)
        if reply:
            self._tell(reply)

    def _step(self) -> None:
        waiting = self._share.waiting()
        self._share.play(self._share.slab.actions(self._share.kinds, waiting), waiting)

    def _burst(self) -> None:
        words = self._words

        def beat() -> None:
            words[MADE] += 1
            words[RESETTING] = 0

        words[MADE] = self._player.play(words[STEPS], beat)

    def _tell(self, reply: tuple[str, Any]) -> None:
        """Sends the result of a step or a call, or the reason why it cannot be sent."""
        try:
            send_frame(self._line, reply)
        except ConnectionClosed:
            raise
        except Exception as error:  # whatever an object does when it is pickled
            what = f"{self._share.name}: its infos or its state cannot be sent from a helper process"
            why = f"pickling them raised {type(error).__name__}: {error}; use env.implementation=threads or serial"
            send_frame(self._line, ("error", (f"{what}, because {why}", "")))

    def _answer(self, task: str, arguments: tuple[Any, ...], files: list[int]) -> tuple[str, Any]:
        """Calls a method of this object, or of the share, and returns its result or exception."""
        if task == "close_lanes" and not hasattr(
            self, "_share"
        ):  # building the environments has failed, which was reported
            return "value", (None, False, False)
        try:
            result = getattr(self if hasattr(self, task) else self._share, task)(*arguments, *files)
            if task == "try_out":
                return "value", (result, False, False)
            return "value", (result, self._share.any_end, self._share.layout != self._version)
        except EnvError as error:
            return "error", error_texts(error)
        except Exception as error:
            return "error", (described(error), traceback.format_exc())

    def try_out(self, path: list[str], trial: bytes) -> None:
        """Plays a throwaway environment and closes it."""
        sys.path[:] = path
        cloudpickle.loads(trial)().close()

    def build(self, path: list[str], pickled: bytes, lanes: range, name: str, tolerance: Tolerance) -> None:
        """Builds the environments of some lanes by a pickled factory, whose modules are found on the driver's
        `path`.
        """
        sys.path[:] = path
        self._share = SerialEnv(cloudpickle.loads(pickled), len(lanes), name, tolerance, lanes.start, Layout(name))

    def move(self, size: int, num_lanes: int, lanes: range, agents: Layout, file: int) -> None:
        """Switches to the share's part of another slab."""
        memory = SharedMemory(size, os.fdopen(file, "r+b", buffering=0))
        self._version = agents.version
        self._share.attach(Slab.over(memory, agents.kinds, num_lanes, bool(agents.groups)).part(lanes), agents)

    def lend(self, plan: BurstPlan, lanes: range, file: int) -> None:
        """Sets the memory for bursts."""
        burst = Burst(plan, os.fdopen(file, "r+b", buffering=0))
        self._player = plan.player(self._share, burst, lanes)

    def reset(self, seeds: SeedPlan) -> None:
        """Starts episode 0 in every lane."""
        self._share.reset(self._noting(seeds))

    def restore_episodes(self, state: dict[str, Any], seeds: SeedPlan, leave: bool) -> Any:
        """Resumes each lane in the middle of its episode."""
        return self._share.restore_episodes(state, self._noting(seeds), leave)

    def replan(self, seeds: SeedPlan) -> None:
        """Takes seeds and parameters of later episodes from another plan."""
        self._share.replan(self._noting(seeds))

    def _noting(self, seeds: SeedPlan) -> SeedPlan:
        """Returns a plan that reports a reset in progress to the driver, since it may take longer than a step."""

        def note() -> None:
            self._words[RESETTING] = 1

        return NotifyingPlan(seeds, note)


def error_texts(error: EnvError) -> tuple[str, str]:
    """Returns the message of an error, and the traceback of the environment's own exception beneath it, if there was
    one.
    """
    cause = error.__cause__
    return str(error), "" if cause is None else "".join(traceback.format_exception(cause))


def main() -> None:
    """Runs until the driver is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    bell, line = (socket.socket(fileno=int(number)) for number in sys.argv[1:3])
    die_with(int(sys.argv[4]), line, sys.argv[5] == "1")
    faulthandler.register(signal.SIGUSR1, all_threads=False)  # a driver that stops waiting requests the traceback
    control = SharedMemory(PAGE, os.fdopen(int(sys.argv[3]), "r+b", buffering=0))
    try:
        with watched_output():
            survive_lost_output(None)  # output of an environment must not end the training
            ShareServer(bell, line, control).run()
    except ConnectionClosed:
        os._exit(0)


if __name__ == "__main__":
    main()
