"""Wall curriculum: jump over a wall; for a high wall, a block must be fetched first. Single or vectorized.

After the task WallJump of ML-Agents, seen from the side and in columns. The explorer starts in any column left of the
wall and wants to get to the last one. It moves by a column (0 left, 1 right), jumps (2), and picks up or sets down the
block in its column (3). A jump carries it two columns to the right. Right before the wall it gets over a wall of
height `JUMP`, and from on top of the block, which has to stand there, over one `BLOCK` higher; an explorer that carries
the block cannot jump. A step costs `STEP_COST`, the goal pays 1 and terminates; after `max_steps` an episode is
truncated.

Two parameters define the difficulty: ``wall_height``, and ``block_distance``, the columns between the block and where
it is needed. With the default values a random explorer never reaches the goal, so there is no reward to learn from;
with a low wall any jump is enough. `BatchedWallCurriculum` gives the same numbers, bit for bit, as one `WallCurriculum`
per lane with the same seeds, parameters and actions.

Known scores with the default parameters: random actions -0.4 (no goal in 40,960 episodes), best 0.884 on average.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium import spaces

from rookery.core.errors import EnvError
from rookery.core.settings.reach import Count
from rookery.envs.adapters.batched import BatchedEnv, check_least, check_render_mode
from rookery.envs.base import Step
from rookery.envs.parameters import OPTION, Parameter

COLUMNS = 22
WALL = 17
"""Column of the wall."""
GOAL = COLUMNS - 1
PLACE = WALL - 1
"""Column from which the wall can be jumped over, where the block is needed."""

JUMP = 2.0
"""Height of a wall that a jump clears."""
BLOCK = 2.0
"""Height of the block."""
STEP_COST = 0.004
MAX_STEPS = 100

LEFT, RIGHT, LEAP, HANDLE = range(4)

PARAMETERS = {
    "wall_height": Parameter(JUMP + BLOCK, 0.0, JUMP + BLOCK),
    "block_distance": Parameter(float(PLACE), 0.0, float(PLACE)),
}
"""Environment parameters: height of the wall, and columns between the block and the place where it is needed."""

OBSERVATION = spaces.Box(-1, 1, (6,))
"""Column of the explorer; columns to the block and to the wall; whether the block is carried; whether it is in the
explorer's column; height of the wall. Each is divided by its largest value.
"""


def given(values: Mapping[str, Any]) -> tuple[float, int]:
    """Returns the height of the wall and the column of the block for parameters, with defaults for missing ones.

    Raises:
        EnvError: If there is no such parameter, or a value is outside of its bounds.
    """
    for name, value in values.items():
        wrong = PARAMETERS[name].objection(value) if name in PARAMETERS else "there is no such parameter"
        if wrong:
            raise EnvError(f"WallCurriculum: parameter {name} = {value!r}: {wrong}")
    height, distance = (values.get(name, PARAMETERS[name].default) for name in ("wall_height", "block_distance"))
    return float(height), PLACE - round(distance)


class WallCurriculum(gymnasium.Env[np.ndarray, Any]):
    """Wall curriculum as a Gymnasium environment.

    Attributes:
        parameters: Parameters that `reset` takes in ``options={"parameters": {...}}``.
        batched: Vectorized environment with the same numbers, or None. A subclass may have other rules, so
            that of its parent is not used for it.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 8}  # as gymnasium.Env
    parameters: ClassVar[Mapping[str, Parameter]] = PARAMETERS
    batched: ClassVar[type[BatchedWallCurriculum] | None] = None

    def __init__(self, max_steps: Count = MAX_STEPS, render_mode: str | None = None) -> None:
        """Creates the environment; `render_mode` is ``"rgb_array"`` or None. Raises a ValueError for a setting out of
        range.
        """
        check_least("WallCurriculum", 1, max_steps=max_steps)
        check_render_mode("WallCurriculum", render_mode)
        self.max_steps, self.render_mode = int(max_steps), render_mode
        self.observation_space = OBSERVATION
        self.action_space = spaces.Discrete(4)
        self._column = -1

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Starts an episode, with the parameters in `options` or the default ones.

        Raises:
            EnvError: If there is no such parameter, or a value is outside of its bounds.
        """
        super().reset(seed=seed)
        self._height, self._block = given((options or {}).get(OPTION, {}))
        self._column = int(self.np_random.integers(0, WALL))
        self._carries, self._steps = False, 0
        return self._observe(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Moves by one column, jumps, or handles the block.

        Args:
            action: 0 left, 1 right, 2 jump, 3 pick up or set down the block.

        Raises:
            EnvError: If the action is invalid.
        """
        if not 0 <= action < 4:
            raise EnvError(f"WallCurriculum: step {self._steps}: action {action!r} is not 0, 1, 2 or 3")
        column, here = self._column, self._column == self._block
        if action in (LEFT, RIGHT):
            to = min(max(column + (1 if action == RIGHT else -1), 0), GOAL)
            is_free = to != WALL or self._height <= 0.0
            self._column = to if is_free else column
        elif action == LEAP and not self._carries:
            reach = JUMP + (BLOCK if here else 0.0)
            to = min(column + 2, GOAL)
            if column < WALL <= to:
                to = WALL + 1 if column == PLACE and reach >= self._height else PLACE
            self._column = to
        elif action == HANDLE and here:
            self._carries = not self._carries
        if self._carries:
            self._block = self._column
        self._steps += 1
        is_there = self._column == GOAL
        return self._observe(), (1.0 if is_there else 0.0) - STEP_COST, is_there, self._steps >= self.max_steps, {}

    def _observe(self) -> np.ndarray:
        here = self._column == self._block and not self._carries
        return np.array(
            [
                self._column / GOAL,
                (self._block - self._column) / GOAL,
                (WALL - self._column) / GOAL,
                float(self._carries),
                float(here),
                self._height / (JUMP + BLOCK),
            ],
            np.float32,
        )

    def render(self) -> Any:
        """Returns an image ``[height, width, 3]`` uint8, or None before the first episode."""
        if self._column < 0:
            return None
        return _picture(self._column, self._block, self._carries, self._height, self._steps, self.max_steps)

    def get_state(self) -> dict[str, Any]:
        """Returns the state of the episode."""
        return {
            "column": self._column,
            "block": self._block,
            "carries": self._carries,
            "height": self._height,
            "steps": self._steps,
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restores a state from `get_state`."""
        self._column, self._block, self._carries = state["column"], state["block"], state["carries"]
        self._height, self._steps = state["height"], state["steps"]


class BatchedWallCurriculum(BatchedEnv):
    """Vectorized wall curriculum: a `VectorEnv` of one agent, one row per lane."""

    render_fps = WallCurriculum.metadata["render_fps"]
    parameters = PARAMETERS
    saved = ("_column", "_block", "_carries", "_height", "_steps")

    def __init__(self, num_lanes: int, max_steps: Count = MAX_STEPS) -> None:
        """Creates `num_lanes` environments; an episode is truncated after `max_steps`."""
        check_least("WallCurriculum", 1, max_steps=max_steps)
        super().__init__(num_lanes, OBSERVATION, 4, "WallCurriculum, batched")
        self.max_steps = int(max_steps)
        self._column, self._block, self._steps = np.zeros((3, num_lanes), dtype=np.int64)
        self._carries = np.zeros(num_lanes, dtype=bool)
        self._height = np.zeros(num_lanes)

    def step(self, actions: Sequence[np.ndarray]) -> Step:
        """Steps every lane once, with actions from 0 to 3; see `VectorEnv.step`."""
        action = self._checked(actions)
        if self._step.any_end:
            self._clear_ends()
        rows, column, here = self._rows, self._column, self._column == self._block
        walks = np.clip(column + np.where(action == RIGHT, 1, -1), 0, GOAL)
        walks = np.where((walks != WALL) | (self._height <= 0.0), walks, column)
        reach = JUMP + np.where(here, BLOCK, 0.0)
        jumps = np.minimum(column + 2, GOAL)
        over = np.where((column == PLACE) & (reach >= self._height), WALL + 1, PLACE)
        jumps = np.where((column < WALL) & (jumps >= WALL), over, jumps)
        moved = np.where((action == LEAP) & ~self._carries, jumps, column)
        self._column[...] = np.where(action <= RIGHT, walks, moved)
        self._carries ^= (action == HANDLE) & here
        np.copyto(self._block, self._column, where=self._carries)
        self._steps += 1
        np.equal(self._column, GOAL, out=rows.terminated)
        np.greater_equal(self._steps, self.max_steps, out=rows.truncated)
        rows.reward[...] = np.where(rows.terminated, 1.0, 0.0) - STEP_COST
        self._show()
        if rows.terminated.any() or rows.truncated.any():
            self._begin_next()
        return self._step

    def _begin(self, lanes: np.ndarray) -> None:
        for lane in lanes.tolist():
            rng = np.random.default_rng(self._seed(lane))
            self._height[lane], self._block[lane] = given(self._drawn(lane))
            self._column[lane] = int(rng.integers(0, WALL))
            self._carries[lane], self._steps[lane] = False, 0

    def _show(self) -> None:
        obs, column, block = self._rows.obs["obs"], self._column, self._block
        obs[:, 0] = column / GOAL
        obs[:, 1] = (block - column) / GOAL
        obs[:, 2] = (WALL - column) / GOAL
        obs[:, 3] = self._carries
        obs[:, 4] = (column == block) & ~self._carries
        obs[:, 5] = self._height / (JUMP + BLOCK)

    def _timestep(self, lane: int) -> int:
        return int(self._steps[lane])

    def render(self, lane: int) -> np.ndarray:
        """Returns an image ``[height, width, 3]`` uint8 of a lane."""
        column, block, carries = int(self._column[lane]), int(self._block[lane]), bool(self._carries[lane])
        return _picture(column, block, carries, float(self._height[lane]), self._timestep(lane), self.max_steps)


def _picture(column: int, block: int, carries: bool, height: float, steps: int, max_steps: int) -> np.ndarray:
    """Draws a wall, the block and the explorer."""
    from rookery.tasks import drawing

    return drawing.draw_wall((COLUMNS, WALL, GOAL), column, block, carries, height, BLOCK, steps, max_steps)


WallCurriculum.batched = BatchedWallCurriculum  # here, because it needs the class above
