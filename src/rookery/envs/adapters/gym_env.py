"""Gymnasium environments: one agent, named ``agent``.

The back end calls `GymLane.env` directly, because with one agent no translation is needed; see `vector/serial.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from gymnasium import spaces
from gymnasium.wrappers import OrderEnforcing, TimeLimit

from rookery.envs.adapters.lane import (
    NEW_API,
    Agent,
    Breach,
    Lane,
    LaneStep,
    Spaces,
    info_masks,
    is_true,
    shape_of,
    takes_seed,
)
from rookery.envs.samplers import Value

AGENT = "agent"


class GymLane(Lane):
    """A Gymnasium environment as a lane."""

    def __init__(self, env: Any) -> None:
        super().__init__(env, (AGENT,))

    def spaces(self, agent: Agent) -> Spaces:
        """Returns observation and action space of the one agent.

        Raises:
            Breach: If the environment lacks them, or has those of another library.
        """
        found = []
        for name in ("observation_space", "action_space"):
            space = getattr(self.env, name, None)
            if not isinstance(space, spaces.Space):
                raise Breach(f"{name} is {type(space).__name__}, expected a gymnasium.spaces.Space; {NEW_API}", agent)
            found.append(space)
        return found[0], found[1]

    def reset(self, seed: int, parameters: Mapping[str, Value] | None = None) -> LaneStep:
        """Starts an episode; raises a Breach if `reset` follows the old Gym API."""
        try:
            result = self.begin(seed, parameters)
        except TypeError as error:
            if takes_seed(self.env):
                raise
            breach = Breach(f"reset() takes no seed, expected reset(seed=, options=); {NEW_API}", AGENT)
            breach.__cause__ = error
            self.report(breach)
            result = self.env.reset()
        pair = isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], dict)
        if not pair:
            self.report(Breach(f"reset() returned {shape_of(result)}, expected (obs, info); {NEW_API}", AGENT))
        obs, info = result if pair else (result, {})
        return LaneStep({AGENT: obs}, masks=info_masks({AGENT: info}), infos={AGENT: info})

    @property
    def call(self) -> Callable[[Any], Any]:
        """Returns the function that steps the environment in its current state.

        `OrderEnforcing`, which wraps every environment made by an id, is skipped where it is right below the time
        limit: it only checks that a reset came first, which is always so here.
        """
        limit: Any = self.env
        if [type(limit), type(getattr(limit, "env", None))] != [TimeLimit, OrderEnforcing]:
            return cast(Callable[[Any], Any], limit.step)
        if "step" in vars(limit) or "step" in vars(limit.env):  # a user's own
            return cast(Callable[[Any], Any], limit.step)
        inner = limit.env.env.step

        def step(action: Any) -> tuple[Any, Any, Any, Any, Any]:
            obs, reward, terminated, truncated, info = inner(action)
            limit._elapsed_steps += 1
            if limit._elapsed_steps >= limit._max_episode_steps:
                truncated = True
            return obs, reward, terminated, truncated, info

        return step

    def argument(self, actions: dict[Agent, Any]) -> Any:
        """Returns the action of the one agent."""
        return actions[AGENT]

    def read(self, given: Any) -> LaneStep:
        """Returns the content of a step from the environment's result; raises a Breach if it has neither the new form
        nor the old.
        """
        if not isinstance(given, tuple) or len(given) != 5:
            expected = "expected five: (obs, reward, terminated, truncated, info)"
            breach = Breach(f"step() returned {shape_of(given)}, {expected}; {NEW_API}", AGENT)
            if not isinstance(given, tuple) or len(given) != 4:
                raise breach
            self.report(breach)
            given = (*given[:3], False, given[3])
        obs, reward, terminated, truncated, info = given
        terminated = bool(terminated) and is_true(terminated, "terminated", AGENT)
        truncated = bool(truncated) and is_true(truncated, "truncated", AGENT)
        over = terminated or truncated
        return LaneStep(
            {} if over else {AGENT: obs},
            {AGENT: reward},
            (AGENT,) if terminated else (),
            (AGENT,) if truncated else (),
            {AGENT: obs} if over else {},
            info_masks({AGENT: info}),
            over,
            {AGENT: info},
        )
