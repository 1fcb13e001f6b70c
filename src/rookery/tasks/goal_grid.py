"""GoalGrid: a grid with a green plus and a red cross, and an observed signal that selects one of them as the goal.
ML-Agents' GridWorld.

The agent, the plus and the cross begin in different cells, drawn at random, and which of both is the goal is drawn too.
The agent stays, or moves by a cell; the mask forbids moves into walls. A step costs 0.01; reaching the goal pays 1
instead and ends the episode, reaching the other one costs 1 instead and ends it too. After `max_steps` an episode is
truncated. The rules and the numbers are those of ML-Agents.

The best way is as long as the distance in rows and columns, or two steps longer where the other one lies between on a
straight line. On the grid of 5 x 5 that gives 0.976 on average (exact: `best_return`); random actions give -0.28.
ML-Agents counts the task as solved at 0.8.
"""

from __future__ import annotations

import inspect
from itertools import permutations
from typing import Any, ClassVar, Literal, get_args

import numpy as np
from gymnasium import spaces

from rookery.core.errors import nearest
from rookery.core.settings.reach import Count, FewFromZero
from rookery.core.spaces.arrays import MASK
from rookery.envs.adapters.batched import check_least
from rookery.envs.adapters.batched_agents import BatchedAgents
from rookery.envs.adapters.gym_env import AGENT
from rookery.envs.native.variants import BatchedCVariant

STAY, UP, DOWN, LEFT, RIGHT = range(5)
WAY = np.array([(0, 0), (-1, 0), (1, 0), (0, -1), (0, 1)])
"""Change of (row, column) for each action."""

STEP, RIGHT_GOAL, WRONG_GOAL = -0.01, 1.0, -1.0
"""Rewards of a step that does not end the episode, of the right goal, and of the wrong goal."""

EMPTY, PLUS, CROSS, SELF = range(4)
"""Content of a cell. `PLUS` - 1 and `CROSS` - 1 are the numbers of the goals."""

PIXELS = 8
"""Height and width of a cell in an observed image."""

Observation = Literal["picture", "one_hot"]


class GoalGrid(BatchedAgents):
    """Vectorized GoalGrid environments; one row per lane.

    Actions are 0 stay, 1 up, 2 down, 3 left, 4 right. An observation has ``goal`` ``[2]``, a flag for the plus and one
    for the cross, the mask, and the grid: as ``picture`` ``[8 * size, 8 * size, 3]`` uint8, or as ``grid``
    ``[size * size * 3]``, for each cell a flag for the plus, for the cross and for the agent.
    """

    render_fps = 4
    native_replacement: ClassVar[type[GoalGridInC]]
    saved = (*BatchedAgents.saved, "_place", "_things", "_goal")

    def __init__(
        self, num_lanes: int, size: FewFromZero = 5, observation: Observation = "picture", max_steps: Count = 100
    ) -> None:
        """Creates the environments.

        Args:
            num_lanes: Number of grids.
            size: Number of rows and of columns, at least 2.
            observation: Form of the observed grid: ``picture`` or ``one_hot``.
            max_steps: Number of steps after which an episode is truncated.

        Raises:
            ValueError: If a setting is out of range.
        """
        _check(size, observation, max_steps)
        self.size, self.max_steps, self.observation = int(size), int(max_steps), observation
        side = self.size * PIXELS
        grid: dict[str, spaces.Space[np.ndarray]] = (
            {"picture": spaces.Box(0, 255, (side, side, 3), np.uint8)}
            if observation == "picture"
            else {"grid": spaces.MultiBinary(self.size * self.size * 3)}
        )
        space = spaces.Dict({"goal": spaces.MultiBinary(2), **grid, MASK: spaces.MultiBinary(len(WAY))})
        super().__init__(num_lanes, space, len(WAY), f"GoalGrid {size}x{size}, batched", (AGENT,))
        self._place = np.zeros((num_lanes, 2), dtype=np.int64)
        self._things = np.zeros((num_lanes, 2, 2), dtype=np.int64)  # row and column of the plus and of the cross
        self._goal = np.zeros(num_lanes, dtype=np.int64)
        self._goal_flags, self._icons = np.eye(2, dtype=np.uint8), icons()
        self._cell_flags = np.concatenate([np.zeros((1, 3), np.uint8), np.eye(3, dtype=np.uint8)])

    def _play(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        self._place += WAY[actions[:, 0]]  # which the mask allowed
        reached = (self._things == self._place[:, None]).all(axis=2)
        right = reached[self._lanes, self._goal]
        over = reached.any(axis=1)
        self._reward[:, 0] = np.where(right, RIGHT_GOAL, np.where(over, WRONG_GOAL, STEP))
        return over, self._steps >= self.max_steps

    def _start(self, lanes: np.ndarray) -> None:
        for lane in lanes.tolist():
            rng = self._rng(lane)
            cells = np.stack(np.divmod(rng.permutation(self.size * self.size)[:3], self.size), axis=1)
            self._place[lane], self._things[lane], self._goal[lane] = cells[0], cells[1:], rng.integers(2)

    def cells(self) -> np.ndarray:
        """Returns the content of each cell, ``[lanes, size, size]``: empty, plus, cross or agent."""
        return _cells(self.size, self._place, self._things)

    def _observe(self) -> None:
        obs, size, cells = self._rows.obs, self.size, self.cells()
        obs["goal"][...] = self._goal_flags[self._goal]
        moved = self._place[:, None] + WAY
        obs[MASK][...] = ((moved >= 0) & (moved < size)).all(axis=2)
        if self.observation == "one_hot":
            obs["grid"].reshape(-1, size, size, 3)[...] = self._cell_flags[cells]
        else:
            picture = obs["picture"].reshape(-1, size, PIXELS, size, PIXELS, 3)
            picture[...] = self._icons[cells].swapaxes(2, 3)

    def text(self, lane: int) -> str:
        """Returns the grid of a lane as text: ``@`` the agent, ``+`` and ``x``, and the goal."""
        return _letters(self.cells()[lane], int(self._goal[lane]))

    def render(self, lane: int) -> np.ndarray:
        """Returns an image ``[height, width, 3]`` uint8 of a lane."""
        from rookery.tasks import drawing

        goal, steps = int(self._goal[lane]), self._timestep(lane)
        return drawing.draw_goal_grid(self.cells()[lane], goal, steps, self.max_steps)


class GoalGridInC(BatchedCVariant):
    """`GoalGrid` in C, with the same arguments."""

    symbol = "goal_grid"
    __signature__ = inspect.signature(GoalGrid)

    def __init__(self, num_lanes: int, *given: Any, **by_name: Any) -> None:
        """Creates the environments; the arguments are those of `GoalGrid`."""
        bound = self.__signature__.bind(num_lanes, *given, **by_name)
        bound.apply_defaults()
        _, size, observation, max_steps = bound.args
        _check(size, observation, max_steps)
        self.size, self.max_steps, self.observation = int(size), int(max_steps), observation
        super().__init__(num_lanes, size=size, max_steps=max_steps, picture=observation == "picture")

    def cells(self) -> np.ndarray:
        """Returns the content of each cell; see `GoalGrid.cells`."""
        return _cells(self.size, self.fields["place"], self.fields["things"].reshape(-1, 2, 2))

    def as_batched(self, state: dict[str, Any]) -> dict[str, Any]:
        """Converts the state to that of the batched environment, with positions in pairs; the only agent is alive."""
        fields, names = state["fields"], ("steps", "place", "goal")
        things, alive = fields["things"].reshape(-1, 2, 2), np.ones((self.num_lanes, 1), dtype=bool)
        return {
            "episode": state["episode"],
            "alive": alive,
            "things": things,
            **{name: fields[name] for name in names},
        }

    def from_batched(self, state: dict[str, Any]) -> dict[str, Any]:
        """Converts the state of the batched environment; the order in which cells were drawn is dropped, as it has no
        effect.
        """
        fields = {name: state[name] for name in ("steps", "place", "goal")}
        fields |= {"things": state["things"].reshape(-1, 4), "order": np.zeros_like(self.fields["order"])}
        return {"clock": 0, "began": -state["steps"], "fields": fields}

    def text(self, lane: int) -> str:
        """Returns the grid of a lane as text; see `GoalGrid.text`."""
        return _letters(self.cells()[lane], int(self.fields["goal"][lane]))

    def render(self, lane: int) -> np.ndarray:
        """Returns an image ``[height, width, 3]`` uint8 of a lane."""
        from rookery.tasks import drawing

        goal, steps = int(self.fields["goal"][lane]), self._timestep(lane)
        return drawing.draw_goal_grid(self.cells()[lane], goal, steps, self.max_steps)


GoalGrid.native_replacement = GoalGridInC  # here, because it needs the class above


def _check(size: int, observation: str, max_steps: int) -> None:
    """Raises a ValueError for a setting that is out of range."""
    check_least("GoalGrid", 2, size=size)
    check_least("GoalGrid", 1, max_steps=max_steps)
    check_observation("GoalGrid", observation, get_args(Observation))


def _cells(size: int, place: np.ndarray, things: np.ndarray) -> np.ndarray:
    """Returns the content of each cell of grids, from the positions of the agents, the plus and the cross."""
    lanes = np.arange(len(place))
    found = np.zeros((len(place), size, size), dtype=np.int64)
    for thing, at in ((PLUS, things[:, 0]), (CROSS, things[:, 1]), (SELF, place)):
        found[lanes, at[:, 0], at[:, 1]] = thing
    return found


def _letters(cells: np.ndarray, goal: int) -> str:
    """Returns a grid as text, with the goal below."""
    rows = [" ".join(".+x@"[cell] for cell in row) for row in cells]
    return "\n".join([*rows, f"the goal is {'+x'[goal]}"])


def icons() -> np.ndarray:
    """Returns the image of each kind of cell, ``[4, 8, 8, 3]`` uint8: empty, green plus, red cross, blue agent."""
    row, column = np.indices((PIXELS, PIXELS)) - (PIXELS - 1) / 2
    inside = (np.abs(row) < 3) & (np.abs(column) < 3)
    plus = inside & ((np.abs(row) < 1) | (np.abs(column) < 1))
    cross = inside & (np.abs(np.abs(row) - np.abs(column)) < 1)
    images = np.full((4, PIXELS, PIXELS, 3), 255, dtype=np.uint8)
    for thing, shape, color in (
        (PLUS, plus, (0, 160, 60)),
        (CROSS, cross, (210, 30, 40)),
        (SELF, inside, (40, 90, 220)),
    ):
        images[thing][shape] = color
    return images


def best_return(size: int) -> float:
    """Returns the mean return of the optimal policy over all starts, on a grid of `size` x `size` without a step
    limit.
    """
    cells = [divmod(cell, size) for cell in range(size * size)]
    total = number = 0
    for start, goal, other in permutations(cells, 3):
        steps = abs(start[0] - goal[0]) + abs(start[1] - goal[1])
        for k in (0, 1):
            between = min(start[k], goal[k]) < other[k] < max(start[k], goal[k])
            if start[1 - k] == goal[1 - k] == other[1 - k] and between:
                steps += 2
        total, number = total + steps, number + 1
    return RIGHT_GOAL + STEP * (total / number - 1)


def check_observation(owner: str, given: object, known: tuple[str, ...]) -> None:
    """Raises a ValueError for an observation type that `owner` does not support."""
    if given not in known:
        raise ValueError(
            f"{owner}: observation is {given!r}{nearest(str(given), known)}; it must be one of {', '.join(known)}"
        )
