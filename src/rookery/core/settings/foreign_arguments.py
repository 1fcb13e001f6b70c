"""Arguments of classes and functions in files of other users (docs/trust.md).

The signatures of Rookery declare what their arguments reach (`core/settings/reach.py`). Those of Gymnasium, PettingZoo
and other suites of environments do not: numbers within bounds and flags are taken, and texts that `WORDS` or
`LOOKED_UP` allows.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rookery.core.packages import is_own
from rookery.core.settings.reach import RENDER_MODES, Objection, of_arguments

LARGEST = 4_096
"""Largest integer for an argument that may size a map, an image or a list."""

DEEPEST = 4
"""Maximum nesting depth of lists and mappings in arguments."""

MOMENTS = frozenset(
    ("max_episode_steps", "max_steps", "max_cycles", "max_frames", "max_moves", "max_num_frames_per_episode",
     "max_timesteps", "episode_length", "seed")
)  # fmt: skip
"""Arguments that count steps or name random streams and do not size memory."""

COLORS = ("red", "green", "blue", "purple", "yellow", "grey")

WORDS: Mapping[str, tuple[str, ...]] = {
    "render_mode": RENDER_MODES,
    # Gymnasium's toy texts
    "map_name": ("4x4", "8x8"),
    # ALE, and PettingZoo's Atari games
    "obs_type": ("rgb", "grayscale", "ram", "rgb_image", "grayscale_image"),
    # MiniGrid and BabyAI
    "obstacle_type": ("wall", "lava"),
    "obj_type": ("ball", "box", "key", "door"),
    "first_color": COLORS,
    "second_color": COLORS,
    "select_by": ("color", "type", "loc"),
    "wfc_config": (
        "MazeSimple", "DungeonMazeScaled", "RoomsFabric", "ObstaclesBlackdots", "ObstaclesAngular",
        "ObstaclesHogs3", "MazeKnot", "MazeWall", "RoomsOffice", "ObstaclesHogs2", "Skew2", "Maze", "MazeSpirals",
        "MazePaths", "Mazelike", "Dungeon", "DungeonRooms", "DungeonLessRooms", "DungeonSpirals", "RoomsMagicOffice",
        "SkewCave", "SkewLake",
    ),
    # PettingZoo
    "obs_method": ("vector", "image", "vector-sequence", "vector-masked"),
    "observation_type": ("card_knowledge", "seer", "minimal"),
}  # fmt: skip
"""Allowed texts by argument."""


def objections_to_arguments(maker: Any, config: Mapping[str, Any], path: str) -> Iterator[Objection]:
    """Yields the objections to arguments of a class or function in a foreign file.

    Args:
        maker: The class or function; None where there is none.
        config: The arguments.
        path: Their path.
    """
    if is_ours(maker):
        yield from of_arguments(maker, config, path)
        return
    for name, value in config.items():
        if why := why_not(name, value):
            yield Objection(f"{path}.{name}", value, why)


def why_not(name: str, value: Any, deep: int = 0) -> str:
    """Returns the reason why an argument from a foreign file is refused for an environment of Gymnasium, PettingZoo or
    another suite.

    Args:
        name: The argument.
        value: The value.
        deep: Number of lists and mappings around it.

    Returns:
        The reason; empty if it is taken.
    """
    if name in LOOKED_UP and value is not None:
        return "" if LOOKED_UP[name](value) else f"is no {name} that comes with the package, and could be a path"
    if isinstance(value, str):
        return "" if value in WORDS.get(name, ()) else "is a text, which could be a path, a program or an address"
    if isinstance(value, bool | float) or value is None:
        return ""
    if isinstance(value, int):
        large = abs(value) > (1_000_000_000 if name in MOMENTS else LARGEST)
        return f"is above {LARGEST:,} and could fill the memory" if large else ""
    if isinstance(value, Mapping | list | tuple) and deep < DEEPEST and len(value) <= LARGEST:
        inner = value.values() if isinstance(value, Mapping) else value
        return next((why for one in inner if (why := why_not(name, one, deep + 1))), "")
    return "is neither a number nor a flag"


def is_ours(maker: Any) -> bool:
    """Returns whether a class or function belongs to Rookery."""
    return is_own(str(getattr(maker, "__module__", "")))


@functools.cache
def _models() -> frozenset[str]:
    """Returns the names of the robots included in Gymnasium."""
    spec = find_spec("gymnasium.envs.mujoco")
    folders = [Path(place, "assets") for place in (spec.submodule_search_locations or ()) if spec] if spec else []
    return frozenset(file.name for folder in folders for file in folder.glob("*.xml"))


def _is_map(value: Any) -> bool:
    """Returns whether a value is a map of FrozenLake: rows of letters."""
    rows = [value] if isinstance(value, str) else value
    return (
        isinstance(rows, list | tuple)
        and len(rows) <= 64
        and all(isinstance(row, str) and re.fullmatch("[SFHG]{1,64}", row) is not None for row in rows)
    )


LOOKED_UP: Mapping[str, Callable[[Any], bool]] = {
    "xml_file": lambda value: isinstance(value, str) and value in _models(),
    "desc": _is_map,
    "main_body": lambda value: isinstance(value, int) or (isinstance(value, str) and value.isidentifier()),
    "camera_name": lambda value: isinstance(value, str) and value.isidentifier(),
}
"""Functions that check whether a value is known to a package, by argument."""
