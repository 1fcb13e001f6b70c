"""``python -m rookery_mlagents.testing``: with ``ENV`` a simulated Unity player that hosts an environment, with
``record`` a proxy between a player and its trainer, with ``replay`` a player that repeats a recorded session.
"""

from __future__ import annotations

import sys

from rookery.face import RookeryError
from rookery_mlagents.testing.player import play
from rookery_mlagents.testing.recorder import record, replay

VERBS = {"record": record, "replay": replay}


def main(arguments: list[str]) -> int:
    """Runs a command line; returns the exit status."""
    try:
        if arguments and arguments[0] in VERBS:
            return VERBS[arguments[0]](arguments[1:])
        return play(arguments)
    except RookeryError as error:
        sys.stderr.write(f"{error}\n")
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
