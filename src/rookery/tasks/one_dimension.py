"""One dimension: walk to the end of a line that a signal indicates. The smallest sanity check for a trainer.

An agent starts in the middle of a line from -1 to 1 and sees a sign, -1 or 1, drawn anew for each episode; it does not
see its place. In each step it moves by at most `step_size`. At an end of the line its episode is over: the end that the
sign names earns 1.06, the other one -1.06, and each step before costs 0.01. With several elements in an action there is
a line for each, all with the same sign, and the episode is over when all ends are reached; each line counts its share.
The best return is 1.06 less 0.01 for each step but the last.

The rules are those of the environment by which ML-Agents tests that its trainers learn (`simple_test_envs.py` there),
with its variants: a sign that is shown at the beginning only, so that it must be remembered; images instead of the
number; groups; sides.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from gymnasium import spaces

from rookery.core.errors import EnvError
from rookery.core.settings.reach import Count, Few, FewFromZero
from rookery.envs.adapters.batched import check_least
from rookery.envs.adapters.batched_agents import BatchedAgents

SUCCESS = 1.06
"""Reward for the correct ends; the negative value for the wrong ones."""

COST = 0.01
"""Cost of each step except the last."""

SHOWN_STEPS = 2
"""With `remember`: number of action elements so far up to which the signal is shown; afterwards it is 0."""

VECTOR, PICTURE = "vector", "picture_{}"
TILES, TILE = 21, 16
GROUND, MARK, WALKER = (224, 224, 224), (96, 168, 96), (48, 48, 160)


class OneDimension(BatchedAgents):
    """Vectorized one-dimensional environments; one row per lane and agent.

    Continuous elements of an action are clipped to `step_size`; of discrete ones, 0 moves by `-step_size` and 1 by
    `step_size`. Actions are a Box ``[numbers]``; a Discrete, or a MultiDiscrete for several discrete elements; or a
    Dict of ``choices`` and ``numbers``. An observation is the sign as a vector ``[1]`` of float32; with images it is a
    Dict of ``vector`` and ``picture_0``, ..., each filled with it, or, without a vector and with one image, that image.
    """

    render_fps = 6
    saved = (*BatchedAgents.saved, "_place", "_sign", "_moves")

    def __init__(
        self,
        num_lanes: int,
        numbers: FewFromZero = 1,
        choices: FewFromZero = 0,
        step_size: float = 0.2,
        pictures: FewFromZero = 0,
        picture_shape: Sequence[Few] = (20, 20, 3),
        vector: bool = True,
        remember: bool = False,
        agents: FewFromZero = 1,
        play: Literal["alone", "group", "sides"] = "alone",
        max_steps: Count = 1000,
    ) -> None:
        """Creates the environments.

        Args:
            num_lanes: Number of environments.
            numbers: Continuous elements of an action.
            choices: Binary discrete elements of an action.
            step_size: Largest step, above 0 and at most 1.
            pictures: Number of images that an agent sees.
            picture_shape: Shape of an image, floats.
            vector: Whether the sign is seen as a number, too.
            remember: Whether the sign is shown at the beginning of an episode only.
            agents: Number of agents, each with lines and a sign of its own.
            play: Relation of several agents: ``group``, in which the last one to end earns its reward for all, and
                those before pay only for failure; ``sides``, which are independent.
            max_steps: Number of steps after which an episode is truncated.

        Raises:
            ValueError: If a setting is out of range.
        """
        check_least("OneDimension", 1, agents=agents, max_steps=max_steps)
        check_least("OneDimension", 0, numbers=numbers, choices=choices, pictures=pictures)
        if not numbers + choices:
            raise ValueError("OneDimension: numbers and choices are both 0, so there is nothing to do")
        if not (vector or pictures):
            raise ValueError("OneDimension: vector is False and pictures is 0, so there is nothing to see")
        if not 0.0 < step_size <= 1.0:
            raise ValueError(f"OneDimension: step_size is {step_size!r}, it must be above 0 and at most 1")
        if play not in ("alone", "group", "sides") or (play == "alone") != (agents == 1):
            raise ValueError(
                f"OneDimension: play is {play!r} with {agents} agents; one agent plays 'alone', several 'group' or "
                "'sides'"
            )
        self.numbers, self.choices, self.step_size = int(numbers), int(choices), float(step_size)
        self.remember, self.max_steps = bool(remember), int(max_steps)
        names = ("agent",) if agents == 1 else tuple(f"agent_{number}" for number in range(agents))
        self._in_group = play == "group"
        super().__init__(
            num_lanes,
            _seen(pictures, tuple(picture_shape), vector),
            _acted(self.numbers, self.choices),
            "OneDimension, batched",
            names,
            {"group": names} if self._in_group else None,
            group_rewards=self._in_group,
        )
        shape = (num_lanes, agents)
        self._moves = np.zeros((*shape, self.choices + self.numbers))
        self._place = np.zeros_like(self._moves)
        self._sign = np.ones(shape)

    def _checked(self, actions: Sequence[np.ndarray]) -> np.ndarray:
        if self._seeds is None:
            raise EnvError(f"{self.name}: step() before reset()")
        given = actions[0]
        waiting = int(np.count_nonzero(self._rows.waiting))
        if len(given) != waiting:
            raise EnvError(f"{self.name}: {len(given)} actions; expected {waiting}, for the agents that must act")
        chosen = numbers = np.zeros((waiting, 0))
        if self.choices and self.numbers:
            chosen = np.array([one["choices"] for one in given]).reshape(waiting, -1)
            numbers = np.array([one["numbers"] for one in given]).reshape(waiting, -1)
        elif self.choices:
            chosen = given.reshape(waiting, -1)
        else:
            numbers = given.reshape(waiting, -1)
        if chosen.shape[1] != self.choices or numbers.shape[1] != self.numbers:
            raise EnvError(f"{self.name}: actions of shape {given.shape}; expected one of {self.kinds[0].action.space}")
        if self.choices and (wrong := ((chosen != 0) & (chosen != 1)).any(axis=1)).any():
            where, agent = self._who(wrong)
            raise EnvError(f"{where}: action {chosen[wrong][0].tolist()} of {agent} is not of 0 and 1")
        if self.numbers:
            self._check_finite(numbers)
        moves = np.concatenate((2.0 * chosen - 1.0, numbers), axis=1) if self.choices else numbers
        if waiting < self._waiting.size:
            self._moves.fill(0.0)
            self._moves[self._waiting] = moves
        else:
            self._moves[...] = moves.reshape(self._moves.shape)
        _cut_off(self._moves, self.step_size)
        return self._moves

    def _play(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        self._place += actions
        _cut_off(self._place, 1.0)
        there = self._alive & (np.minimum.reduce(np.abs(self._place), axis=2) >= 1.0)
        self._reward[self._alive] = -COST
        if True not in there.tobytes():
            return np.logical_not(self._alive.any(axis=1)), self._steps >= self.max_steps
        earned = SUCCESS * self._place.mean(axis=2) * self._sign
        self._reward[there] = earned[there]
        self._ends |= there
        over = np.logical_not((self._alive & ~there).any(axis=1))
        if self._in_group:
            before = there & ~over[:, None]
            self._reward[before] = np.minimum(earned, -COST)[before]
            last = there & over[:, None]
            self._reward[last] = 0.0
            self._group_reward[over] = np.where(last, earned, 0.0)[over].mean(axis=1, where=last[over])[:, None]
        return over, self._steps >= self.max_steps

    def _start(self, lanes: np.ndarray) -> None:
        self._place[lanes] = 0.0
        for lane in lanes.tolist():
            self._sign[lane] = 2.0 * self._rng(lane).integers(0, 2, self._sign.shape[1]) - 1.0

    def _observe(self) -> None:
        shown = self._sign
        if self.remember:
            shown = shown * (self._steps * self._moves.shape[2] <= SHOWN_STEPS)[:, None]
        for array in self._rows.obs.values():
            array[...] = shown.reshape(-1, *[1] * (array.ndim - 1))

    def text(self, lane: int) -> str:
        """Returns the lines of a lane as text: ``<`` or ``>`` is the goal, ``o`` the agent."""
        shown = []
        for places, sign in zip(self._place[lane], self._sign[lane], strict=True):
            for place in places:
                cells = ["."] * TILES
                cells[0 if sign < 0 else -1] = "<" if sign < 0 else ">"
                cells[_tile(place)] = "o"
                shown.append("".join(cells))
        return "\n".join(shown)

    def render(self, lane: int) -> np.ndarray:
        """Returns an image ``[height, width, 3]`` uint8 of a lane."""
        lines = self._place.shape[1] * self._place.shape[2]
        picture = np.full((2 * lines + 1, TILES + 2, 3), 255, dtype=np.uint8)
        pairs = [(place, sign) for row, sign in zip(self._place[lane], self._sign[lane], strict=True) for place in row]
        for number, (place, sign) in enumerate(pairs):
            line = picture[2 * number + 1, 1:-1]
            line[:] = GROUND
            line[0 if sign < 0 else -1] = MARK
            line[_tile(place)] = WALKER
        return picture.repeat(TILE, axis=0).repeat(TILE, axis=1)


def _cut_off(numbers: np.ndarray, size: float) -> None:
    """Clips in place to plus and minus `size`: for a few values, `np.clip` takes longer."""
    np.maximum(numbers, -size, out=numbers)
    np.minimum(numbers, size, out=numbers)


def _tile(place: float) -> int:
    return math.floor((place + 1.0) / 2.0 * (TILES - 1) + 0.5)


def _seen(pictures: int, shape: tuple[int, ...], vector: bool) -> spaces.Space[Any]:
    """Returns the observation space."""
    parts: dict[str, spaces.Space[Any]] = {VECTOR: spaces.Box(-1.0, 1.0, (1,))} if vector else {}
    parts |= {PICTURE.format(number): spaces.Box(-1.0, 1.0, shape) for number in range(pictures)}
    return spaces.Dict(parts) if len(parts) > 1 else next(iter(parts.values()))


def _acted(numbers: int, choices: int) -> spaces.Space[Any]:
    """Returns the action space."""
    box = spaces.Box(-1.0, 1.0, (numbers,))
    several = spaces.Discrete(2) if choices == 1 else spaces.MultiDiscrete([2] * max(choices, 1))
    if not (numbers and choices):
        return several if choices else box
    return spaces.Dict({"choices": spaces.MultiDiscrete([2] * choices), "numbers": box})
