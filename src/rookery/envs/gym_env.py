"""Gymnasium environments: one agent, called ``agent``.

The back end steps `GymLane.env` directly, because with one agent there is nothing to translate; see `vector/serial.py`.
"""

from __future__ import annotations

import inspect
from typing import Any

from gymnasium import spaces

from rookery.core.spaces import MASK
from rookery.envs.lane import NEW_API, Agent, Breach, LaneStep, Spaces, shape_of

AGENT = "agent"


class GymLane:
    """A Gymnasium environment as a lane."""

    def __init__(self, env: Any) -> None:
        self.env = env
        self.agents: tuple[Agent, ...] = (AGENT,)
        self.max_entities: int | None = None

    def spaces(self, agent: Agent) -> Spaces:
        """Observation and action space of the one agent.

        Raises:
            Breach: If the environment lacks them, or has another library's.
        """
        found = []
        for name in ("observation_space", "action_space"):
            space = getattr(self.env, name, None)
            if not isinstance(space, spaces.Space):
                raise Breach(f"{name} is {type(space).__name__}, expected a gymnasium.spaces.Space; {NEW_API}", agent)
            found.append(space)
        return found[0], found[1]

    def reset(self, seed: int) -> LaneStep:
        """Starts an episode; raises a Breach if `reset` follows the old Gym API."""
        try:
            result = self.env.reset(seed=seed)
        except TypeError as error:
            if _takes_seed(self.env):
                raise
            raise Breach(f"reset() takes no seed, expected reset(seed=, options=); {NEW_API}", AGENT) from error
        if not isinstance(result, tuple) or len(result) != 2 or not isinstance(result[1], dict):
            raise Breach(f"reset() returned {shape_of(result)}, expected (obs, info); {NEW_API}", AGENT)
        obs, info = result
        return LaneStep({AGENT: obs}, masks={AGENT: info[MASK]} if MASK in info else {}, infos={AGENT: info})


def _takes_seed(env: Any) -> bool:
    parameters = inspect.signature(getattr(env, "unwrapped", env).reset).parameters
    return "seed" in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())
