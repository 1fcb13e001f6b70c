"""The two-step game of the QMIX paper (arXiv:1803.11485, section 5): two agents must coordinate.

In the first step agent a alone decides which game is played in the second. In one of them the team gets 7 for any
actions, in the other 8 if both choose their second action, 1 if one does, else 0. So 8 is the best score. Values that
are sums over agents cannot represent the second game: policies with them play for 7. Each agent gets half of the team's
reward, as its own.
"""

from __future__ import annotations

import numpy as np
from gymnasium import spaces

from rookery.core.spaces.arrays import CENTRAL
from rookery.envs.adapters.batched_agents import BatchedAgents

PAYOFFS = np.array([[[7.0, 7.0], [7.0, 7.0]], [[0.0, 1.0], [1.0, 8.0]]])
"""Reward of the team in the second step, by game, action of a and action of b."""

AGENTS = ("a", "b")


class MatrixGame(BatchedAgents):
    """Vectorized two-step games; one row per lane and agent.

    An observation has ``own`` ``[5]``, one of three states and which of the two agents it is, as flags; and, for
    critics only, ``central/state`` ``[3]``, the flags of the state.
    """

    render_fps = 2
    saved = (*BatchedAgents.saved, "_state")

    def __init__(self, num_lanes: int) -> None:
        """Creates the environments; raises a ValueError if `num_lanes` is not an integer of at least 1."""
        central = spaces.Dict(state=spaces.MultiBinary(3))
        space = spaces.Dict({"own": spaces.MultiBinary(5), CENTRAL: central})
        super().__init__(num_lanes, space, 2, "MatrixGame, batched", AGENTS, {"team": AGENTS})
        self._state = np.zeros(num_lanes, dtype=np.int64)
        self._own = self._rows.obs["own"].reshape(num_lanes, 2, 5)
        self._central = self._rows.obs[f"{CENTRAL}/state"].reshape(num_lanes, 2, 3)
        self._flags = np.eye(3, dtype=np.uint8)

    def _play(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        first, second = actions.T
        over = self._state > 0
        paid = np.where(over, PAYOFFS[self._state - 1, first, second], 0.0)
        self._reward[...] = paid[:, None] / 2
        np.copyto(self._state, 1 + first, where=~over)
        return over, np.zeros_like(over)

    def _start(self, lanes: np.ndarray) -> None:
        self._state[lanes] = 0

    def _observe(self) -> None:
        flags = self._flags[self._state][:, None]
        self._central[...] = flags
        self._own[:, :, :3] = flags
        self._own[:, :, 3:] = np.eye(2, dtype=np.uint8)

    def text(self, lane: int) -> str:
        """Describes the state of a lane's game."""
        state = int(self._state[lane])
        if not state:
            return "step 1: a chooses the game, 0 or 1"
        first, second = PAYOFFS[state - 1].astype(int).tolist()
        return f"step 2, game {state - 1}: the team gets, by the actions of a and b,\n{first}\n{second}"

    def render(self, lane: int) -> np.ndarray:
        """Returns an image ``[height, width, 3]`` uint8 of a lane."""
        from rookery.tasks import drawing

        return drawing.draw_payoffs(PAYOFFS, int(self._state[lane]) - 1, self._timestep(lane))
