"""MinAtar's five small games (Young and Tian 2019, arXiv:1903.03176) with binary image observations. Needs `minatar`.

Importing this registers MinAtar's own ids, ``MinAtar/Breakout-v1``: ``-v1`` has the actions that have an effect in the
game, ``-v0`` all six. They differ from MinAtar's own in two points: flags are bytes, which are stored as such and
treated as an image; and the last action is reset with each episode, so that an episode depends only on its seed and its
actions and runs resume to the last bit.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from minatar import Environment

GAMES = {
    "Asterix": "asterix",
    "Breakout": "breakout",
    "Freeway": "freeway",
    "Seaquest": "seaquest",
    "SpaceInvaders": "space_invaders",
}
"""Module of MinAtar by the name in the id."""

CELL = 16
"""Pixels of a cell's side in a video."""


class MinAtar(gymnasium.Env[np.ndarray, np.int64]):
    """One game on 10 x 10 cells: flags ``[10, 10, channels]`` uint8, one for each kind of object.

    Args:
        game: Name of the game, ``breakout``.
        minimal_actions: Only the actions that have an effect in this game, instead of all six.
        sticky_action_prob: Probability of repeating the action of the frame before.
        difficulty_ramping: Whether the game becomes harder with time.
        render_mode: ``"rgb_array"`` for colour images, or None.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 15}

    def __init__(
        self,
        game: str,
        minimal_actions: bool,
        sticky_action_prob: float = 0.1,
        difficulty_ramping: bool = True,
        render_mode: str | None = None,
    ) -> None:
        self.render_mode = render_mode
        self._game = Environment(game, sticky_action_prob, difficulty_ramping)
        every = list(range(self._game.num_actions()))
        self._actions = self._game.minimal_action_set() if minimal_actions else every
        self.action_space = spaces.Discrete(len(self._actions))
        self.observation_space = spaces.Box(0, 1, tuple(self._game.state_shape()), np.uint8)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Starts a game."""
        super().reset(seed=seed)
        self._game.seed(int(self.np_random.integers(2**32)))
        self._game.last_action = 0
        self._game.reset()
        return self._flags(), {}

    def step(self, action: int | np.int64) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Plays one frame; a game ends when it is lost, or by its own time limit."""
        reward, ended = self._game.act(self._actions[int(action)])
        return self._flags(), float(reward), bool(ended), False, {}

    def render(self) -> np.ndarray | None:
        """Returns the cells in colour, ``[160, 160, 3]``; None without a render mode."""
        if self.render_mode is None:
            return None
        flags = self._flags()
        shown = (flags * np.arange(1, flags.shape[2] + 1)).max(2)  # of several objects in a cell the last kind
        picture: np.ndarray = _colours(flags.shape[2])[shown]
        return picture.repeat(CELL, 0).repeat(CELL, 1)

    def _flags(self) -> np.ndarray:
        flags: np.ndarray = self._game.state().view(np.uint8)
        return flags


def _colours(kinds: int) -> np.ndarray:
    """Returns black, then a colour for each kind of object, round the colour wheel: ``[kinds + 1, 3]`` uint8."""
    angle = np.arange(kinds)[:, None] / kinds + np.array((0.0, 1 / 3, 2 / 3))
    wheel = 255 * (0.6 + 0.4 * np.cos(2 * np.pi * angle))
    return np.concatenate((np.zeros((1, 3)), wheel)).astype(np.uint8)


def _register() -> None:
    for name, game in GAMES.items():
        for version, minimal in (("v0", False), ("v1", True)):
            settings = {"game": game, "minimal_actions": minimal}
            gymnasium.register(f"MinAtar/{name}-{version}", entry_point=f"{__name__}:MinAtar", kwargs=settings)


_register()
