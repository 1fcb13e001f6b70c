"""Basic: a line with a small reward nearby and a large one further away. The first environment of ML-Agents, with the
same positions and rewards.

The agent begins in place 10 of the places 0 to 19, and moves to the left, to the right, or stays. Each step costs 0.01.
Place 7 pays 0.1 and place 17 pays 1; both end the episode. So the best return is 1 - 7 x 0.01 = 0.93, and an agent that
takes the nearer prize gets 0.07. ML-Agents' task never truncates an episode; here one is truncated after `max_steps`,
so that the episode of an agent that does not move ends too.

The return of random actions is 0.046 (exact: `tests/tasks/test_basic.py`).
"""

from __future__ import annotations

import numpy as np
from gymnasium import spaces

from rookery.core.settings.reach import Count
from rookery.envs.adapters.batched import check_least
from rookery.envs.adapters.batched_agents import BatchedAgents
from rookery.envs.adapters.gym_env import AGENT

PLACES, START, SMALL, LARGE = 20, 10, 7, 17
"""Number of positions, and the positions of the start and of the small and the large reward."""

STAY, LEFT, RIGHT = range(3)
WAY = np.array([0, -1, 1])
"""Change of position for each action."""

STEP_COST, SMALL_PRIZE, LARGE_PRIZE = 0.01, 0.1, 1.0


class Basic(BatchedAgents):
    """Vectorized Basic environments; one row per lane.

    Actions are 0 stay, 1 left, 2 right. An observation ``[20]`` has a flag for each place, 1 where the agent is.
    """

    render_fps = 6
    saved = (*BatchedAgents.saved, "_place")

    def __init__(self, num_lanes: int, max_steps: Count = 100) -> None:
        """Creates the environments.

        Args:
            num_lanes: Number of lines.
            max_steps: Number of steps after which an episode is truncated.

        Raises:
            ValueError: If a setting is out of range.
        """
        check_least("Basic", 1, max_steps=max_steps)
        super().__init__(num_lanes, spaces.MultiBinary(PLACES), len(WAY), "Basic, batched", (AGENT,))
        self.max_steps = int(max_steps)
        self._place = np.full(num_lanes, START)
        self._flags = np.eye(PLACES, dtype=np.uint8)

    def _play(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        self._place += WAY[actions[:, 0]]
        np.clip(self._place, 0, PLACES - 1, out=self._place)
        small, large = self._place == SMALL, self._place == LARGE
        self._reward[:, 0] = SMALL_PRIZE * small + LARGE_PRIZE * large - STEP_COST
        return small | large, self._steps >= self.max_steps

    def _start(self, lanes: np.ndarray) -> None:
        self._place[lanes] = START

    def _observe(self) -> None:
        self._rows.obs["obs"][...] = self._flags[self._place]

    def text(self, lane: int) -> str:
        """Returns the line of a lane as text: ``@`` the agent, ``s`` and ``L`` the small and the large reward."""
        cells = ["."] * PLACES
        cells[SMALL], cells[LARGE] = "s", "L"
        cells[int(self._place[lane])] = "@"
        return " ".join(cells)

    def render(self, lane: int) -> np.ndarray:
        """Returns an image ``[height, width, 3]`` uint8 of a lane."""
        from rookery.tasks import drawing

        place, steps = int(self._place[lane]), self._timestep(lane)
        return drawing.draw_line(PLACES, (SMALL, LARGE), place, steps, self.max_steps)
