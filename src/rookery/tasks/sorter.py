"""Sorter: visit numbered tiles in ascending order; a single environment, or vectorized by arrays.

After the task of the same name of ML-Agents. An episode has 2 to `max_tiles` tiles with different numbers from 1 to
`numbers`, at places of a grid drawn at random, and shows them in random order. The explorer sees its own place, and of
each tile how far it is, whether it was visited, and its number as a one-hot; it moves by one place: 0 up, 1 right, 2
down, 3 left. Reaching the lowest unvisited tile visits it and pays 1 / tiles; other tiles have no effect. The return is
the share of tiles visited: 1 if the episode ends with the last one, less if `max_steps` pass before, which are few.
`BatchedSorter` gives the same numbers, bit for bit, as one `Sorter` per lane with the same seeds and actions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium import spaces

from rookery.core.errors import EnvError
from rookery.core.settings.reach import Count, FewFromZero
from rookery.core.spaces.entity_set import EntitySet
from rookery.envs.adapters.batched import BatchedEnv, check_least, check_render_mode
from rookery.envs.base import Step

MOVES = np.array([(-1, 0), (0, 1), (1, 0), (0, -1)])
"""Change of (row, column) for up, right, down, left."""

DISTANCE, VISITED, NUMBER = slice(0, 2), 2, 3
"""Columns of a tile: row and column distance, whether it was visited, and, from here on, its number."""


@dataclass(frozen=True)
class SorterSettings:
    """Settings of the sorter.

    Attributes:
        max_tiles: Largest number of tiles in an episode, at least 2.
        side: Number of rows and of columns of the grid, which must have room for the tiles and the explorer.
        numbers: Largest number on a tile, at least `max_tiles`.
        max_steps: Number of steps after which an episode is truncated.
    """

    max_tiles: int = 6
    side: int = 5
    numbers: int = 12
    max_steps: int = 30

    def __post_init__(self) -> None:
        least = {"max_tiles": 2, "side": 2, "numbers": self.max_tiles, "max_steps": 1}
        for name, low in least.items():
            check_least("Sorter", low, **{name: getattr(self, name)})
        if self.max_tiles >= self.side**2:
            few = f"has {self.side**2} places, too few for max_tiles {self.max_tiles} and the explorer"
            raise ValueError(f"Sorter: side {self.side} {few}; make it {int(self.max_tiles**0.5) + 1} or more")

    def observation_space(self) -> spaces.Dict:
        """Returns the space of observations: ``own`` ``[2]`` and the set ``tiles`` of vectors ``[3 + numbers]``."""
        tile = spaces.Box(-1, 1, (NUMBER + self.numbers,))
        return spaces.Dict(own=spaces.Box(-1, 1, (2,)), tiles=EntitySet(tile, self.max_tiles, stack=True))

    def lay_out(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Draws the positions of the explorer and the tiles, ``[1 + n, 2]``, and the numbers of the tiles, ``[n]`` from
        0.
        """
        num = int(rng.integers(2, self.max_tiles + 1))
        places = np.stack(np.divmod(rng.permutation(self.side**2)[: num + 1], self.side), 1)
        return places, rng.permutation(self.numbers)[:num]


class Sorter(gymnasium.Env[Any, Any]):
    """Sorter as a Gymnasium environment.

    Attributes:
        settings: Settings of the sorter.
        batched: Vectorized environment with the same numbers, or None. A subclass may have other rules, so
            that of its parent is not used for it.
    """

    metadata: dict[str, Any] = {"name": "sorter", "render_modes": ["rgb_array"], "render_fps": 6}  # as gymnasium.Env
    batched: ClassVar[type[BatchedSorter] | None] = None

    def __init__(
        self,
        max_tiles: FewFromZero = SorterSettings.max_tiles,
        side: FewFromZero = SorterSettings.side,
        numbers: FewFromZero = SorterSettings.numbers,
        max_steps: Count = SorterSettings.max_steps,
        render_mode: str | None = None,
    ) -> None:
        """Creates the environment; `render_mode` is ``"rgb_array"`` or None. Raises a ValueError for a setting out of
        range.
        """
        check_render_mode("Sorter", render_mode)
        self.render_mode = render_mode
        self.settings = SorterSettings(max_tiles, side, numbers, max_steps)
        self.observation_space = self.settings.observation_space()
        self.action_space = spaces.Discrete(len(MOVES))
        self._span = np.float32(side - 1)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Starts an episode, from a seed or from the environment's random generator."""
        super().reset(seed=seed)
        places, numbers = self.settings.lay_out(self.np_random)
        self._place: tuple[int, int] = (int(places[0, 0]), int(places[0, 1]))
        self._places = places[1:].astype(np.float32)
        self._at = {(int(row), int(column)): k for k, (row, column) in enumerate(places[1:])}
        self._rank = np.argsort(np.argsort(numbers)).tolist()
        self._tiles = np.zeros((len(numbers), NUMBER + self.settings.numbers), np.float32)
        self._tiles[np.arange(len(numbers)), NUMBER + numbers] = 1.0
        self._visited = self._steps = 0
        return self._observe(), {}

    def step(self, action: int) -> tuple[dict[str, np.ndarray], float, bool, bool, dict[str, Any]]:
        """Moves the explorer by one cell; walls stop it.

        Args:
            action: Direction of the move: 0 up, 1 right, 2 down or 3 left.

        Raises:
            EnvError: If the action is invalid.
        """
        if not 0 <= action < len(MOVES):
            raise EnvError(f"Sorter: step {self._steps}: action {action!r} is not 0, 1, 2 or 3")
        last = self.settings.side - 1
        down, right = MOVES[action].tolist()
        row, column = self._place
        self._place = (min(max(row + down, 0), last), min(max(column + right, 0), last))
        self._steps += 1
        reward, terminated = 0.0, False
        tile = self._at.get(self._place)
        if tile is not None and self._rank[tile] == self._visited:
            self._tiles[tile, VISITED] = 1.0
            self._visited += 1
            reward, terminated = 1.0 / len(self._tiles), self._visited == len(self._tiles)
        return self._observe(), reward, terminated, self._steps >= self.settings.max_steps, {}

    def _observe(self) -> dict[str, np.ndarray]:
        here = np.array(self._place, np.float32)
        tiles = self._tiles.copy()
        tiles[:, DISTANCE] = (self._places - here) / self._span
        return {"own": here / self._span * np.float32(2) - np.float32(1), "tiles": tiles}

    def render(self) -> Any:
        """Returns an image ``[height, width, 3]`` uint8, or None before the first episode."""
        if not hasattr(self, "_tiles"):
            return None
        return _picture(self.settings, self._place, self._places, self._tiles, self._steps)

    def get_state(self) -> dict[str, Any]:
        """Returns the state of the episode."""
        return {
            "place": list(self._place),
            "places": self._places.copy(),
            "rank": list(self._rank),
            "tiles": self._tiles.copy(),
            "visited": self._visited,
            "steps": self._steps,
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restores a state from `get_state`."""
        self._place = (int(state["place"][0]), int(state["place"][1]))
        self._places, self._tiles = state["places"].copy(), state["tiles"].copy()
        self._at = {(int(row), int(column)): k for k, (row, column) in enumerate(self._places)}
        self._rank, self._visited, self._steps = list(state["rank"]), state["visited"], state["steps"]


class BatchedSorter(BatchedEnv):
    """Vectorized sorter: a `VectorEnv` of one agent, one row per lane."""

    render_fps = Sorter.metadata["render_fps"]
    saved = ("_place", "_places", "_rank", "_shown", "_count", "_visited", "_steps", "_entities")

    def __init__(
        self,
        num_lanes: int,
        max_tiles: FewFromZero = SorterSettings.max_tiles,
        side: FewFromZero = SorterSettings.side,
        numbers: FewFromZero = SorterSettings.numbers,
        max_steps: Count = SorterSettings.max_steps,
    ) -> None:
        """Creates `num_lanes` environments; the other arguments are those of `Sorter`."""
        self.settings = SorterSettings(max_tiles, side, numbers, max_steps)
        name = f"Sorter with up to {max_tiles} tiles, batched"
        super().__init__(num_lanes, self.settings.observation_space(), len(MOVES), name)

        self._lanes = np.arange(num_lanes)
        self._span = np.float32(side - 1)
        self._place = np.zeros((num_lanes, 2), dtype=np.int64)
        self._places = np.zeros((num_lanes, max_tiles, 2), dtype=np.float32)
        self._rank = np.zeros((num_lanes, side, side), dtype=np.int64)  # of the tile at each place, -1 where none is
        self._shown = np.zeros((num_lanes, side, side), dtype=np.int64)  # index of the tile in the observation
        self._count, self._visited, self._steps = np.zeros((3, num_lanes), dtype=np.int64)
        self._entities = self._rows.obs["tiles"]
        self._present, self._tiles = self._entities[:, :, 0], self._entities[:, :, 1:]

    def step(self, actions: Sequence[np.ndarray]) -> Step:
        """Steps every lane once, with actions from 0 to 3; see `VectorEnv.step`."""
        action = self._checked(actions)
        if self._step.any_end:
            self._clear_ends()
        rows, lanes = self._rows, self._lanes
        self._place += MOVES[action]
        np.clip(self._place, 0, self.settings.side - 1, out=self._place)
        self._steps += 1
        row, column = self._place.T
        rank = self._rank[lanes, row, column]
        right = (rank == self._visited).nonzero()[0]
        self._tiles[right, self._shown[right, row[right], column[right]], VISITED] = 1.0
        rows.reward.fill(0.0)
        rows.reward[right] = 1.0 / self._count[right]
        self._visited[right] += 1
        np.equal(self._visited, self._count, out=rows.terminated)
        np.greater_equal(self._steps, self.settings.max_steps, out=rows.truncated)
        self._show()
        if rows.terminated.any() or rows.truncated.any():
            self._begin_next()
        return self._step

    def _begin(self, lanes: np.ndarray) -> None:
        for lane in lanes.tolist():
            places, numbers = self.settings.lay_out(np.random.default_rng(self._seed(lane)))
            num, (row, column) = len(numbers), places[1:].T
            self._place[lane] = places[0]
            self._places[lane, :num] = places[1:]
            self._rank[lane] = -1
            self._rank[lane, row, column] = np.argsort(np.argsort(numbers))
            self._shown[lane, row, column] = np.arange(num)
            self._count[lane], self._visited[lane], self._steps[lane] = num, 0, 0
            self._present[lane] = np.arange(self.settings.max_tiles) < num
            self._tiles[lane] = 0.0
            self._tiles[lane, np.arange(num), NUMBER + numbers] = 1.0

    def _show(self) -> None:
        here = self._place.astype(np.float32)
        self._rows.obs["own"][...] = here / self._span * np.float32(2) - np.float32(1)
        distance = (self._places - here[:, None]) / self._span
        np.copyto(self._tiles[:, :, DISTANCE], distance, where=self._present[:, :, None] > 0)

    def _timestep(self, lane: int) -> int:
        return int(self._steps[lane])

    def render(self, lane: int) -> np.ndarray:
        """Returns an image ``[height, width, 3]`` uint8 of a lane."""
        there = np.flatnonzero(self._present[lane])
        place = int(self._place[lane, 0]), int(self._place[lane, 1])
        places, tiles = self._places[lane, there], self._tiles[lane, there]
        return _picture(self.settings, place, places, tiles, self._timestep(lane))


def _picture(
    settings: SorterSettings, explorer: tuple[int, int], places: np.ndarray, tiles: np.ndarray, steps: int
) -> np.ndarray:
    """Draws a sorter with observed tiles ``[n, 3 + numbers]`` at `places` ``[n, 2]``."""
    from rookery.tasks import drawing

    shown = [
        (int(row), int(column), int(tile[NUMBER:].argmax()) + 1, bool(tile[VISITED]))
        for (row, column), tile in zip(places, tiles, strict=True)
    ]
    return drawing.draw_sorter(settings.side, explorer, shown, steps, settings.max_steps)


Sorter.batched = BatchedSorter  # here, because it needs the class above
