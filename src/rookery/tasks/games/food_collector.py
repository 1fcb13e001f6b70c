"""FoodCollector: five agents collect food, avoid poison, and can freeze each other. Based on ML-Agents' FoodCollector.

The arena is a square from -40 to 40. Food pays 1 to the agent that touches it, poison costs 1; a piece that is eaten
comes back elsewhere at once. An agent moves forward and to the right, at up to `SPEED` in all, and turns to the left,
by up to 30 degrees a step. It has inertia: half of its speed stays. With the laser it freezes the nearest agent that
stands before it, at most 2 beside the beam: a frozen agent neither acts nor moves for `FROZEN` steps. Shooting halves
an agent's push. A step is 0.1 seconds. Agents do not stop each other. After `max_steps` an episode is truncated.

Two parameters can be drawn, with the bounds that ML-Agents recommends: ``laser_length``, 1 for a beam of 25, and
``agent_scale``, which sets how near food must be.

Returns of an agent in 1000 steps (`benchmarks/results/worlds.md`): random actions 0.0, the scripted player 32.1.
ML-Agents counts its own task as solved at 10.
"""

from __future__ import annotations

import numpy as np
from gymnasium import spaces

from rookery.core.settings.reach import Count, FewFromZero
from rookery.envs.adapters.batched import check_least
from rookery.envs.adapters.batched_agents import BatchedAgents
from rookery.envs.parameters import Parameter
from rookery.tasks.random_numbers import fraction, hashed, lane_key

AGENTS = tuple(f"collector_{number}" for number in range(5))

RANGE = 40.0
"""Half of the arena's width."""

SPEED, INERTIA, TURN = 0.5, 0.5, np.deg2rad(30.0)
"""Maximum distance of an agent per step; share of its velocity that remains after a step; and maximum turning angle."""

AGENT, MEAL = 1.0, 0.5
"""Radius of an agent of scale 1, and of food and poison."""

BEAM, BESIDE, FROZEN = 25.0, 2.0, 40
"""Length of a laser beam of scale 1, its half-width, and the number of steps for which a hit agent is frozen."""

SEEN = 20.0
"""View range of an agent: forward, back and to either side."""

FOOD, POISON, OTHER, OTHER_FROZEN, WALL = range(5)
"""Channels of a view."""

ACTION = spaces.Dict({"laser": spaces.Discrete(2), "move": spaces.Box(-1.0, 1.0, (3,))})
LASER, FORWARD, RIGHT, LEFT_TURN = range(4)
"""Elements of a stored action: first the discrete part, then the continuous ones."""

PARAMETERS = {"laser_length": Parameter(1.0, 0.2, 7.0), "agent_scale": Parameter(1.0, 0.5, 5.0)}
"""Environment parameters: length of the laser beam, and size of the agents."""


class FoodCollector(BatchedAgents):
    """Vectorized FoodCollector environments; one row per lane and agent.

    An action has ``laser``, 0 or 1, and ``move`` ``[3]``: forward, to the right, and turn to the left, from -1 to 1. An
    observation has ``own`` ``[4]``: speed forward and to the right, in parts of the highest, whether the agent is
    frozen, and whether it has just shot; and ``view`` ``[view, view, 5]``, flags of what lies in the cells around it:
    food, poison, other agents, frozen agents, walls. The agent looks up in the view, from its middle.
    """

    render_fps = 10
    parameters = PARAMETERS
    saved = (
        *BatchedAgents.saved, "_place", "_speed", "_heading", "_frozen", "_shoots", "_meals", "_key", "_drawn_meals",
        "_beam", "_scale",
    )  # fmt: skip

    def __init__(
        self,
        num_lanes: int,
        food: FewFromZero = 25,
        poison: FewFromZero = 25,
        view: FewFromZero = 20,
        max_steps: Count = 1000,
    ) -> None:
        """Creates the environments.

        Args:
            num_lanes: Number of arenas.
            food: Number of pieces of food.
            poison: Number of pieces of poison.
            view: Number of rows and of columns of an agent's view, at least 6.
            max_steps: Number of steps after which an episode is truncated.

        Raises:
            ValueError: If a setting is out of range.
        """
        check_least("FoodCollector", 1, food=food, max_steps=max_steps)
        check_least("FoodCollector", 0, poison=poison)
        check_least("FoodCollector", 6, view=view)
        self.food, self.view, self.max_steps = int(food), int(view), int(max_steps)
        space = spaces.Dict(own=spaces.Box(-1.0, 1.0, (4,)), view=spaces.Box(0, 1, (self.view, self.view, 5), np.uint8))
        super().__init__(num_lanes, space, ACTION, "FoodCollector, batched", AGENTS)
        shape, num = (num_lanes, len(AGENTS)), int(food) + int(poison)
        self._place, self._speed = np.zeros((2, *shape, 2))  # the speed in the world, not as the agent looks
        self._heading = np.zeros(shape)  # angle from the x axis, counterclockwise
        self._frozen = np.zeros(shape, dtype=np.int64)  # steps left
        self._shoots = np.zeros(shape, dtype=bool)
        self._meals = np.zeros((num_lanes, num, 2))  # food first, then poison
        self._key = np.zeros(num_lanes, dtype=np.uint64)
        self._drawn_meals = np.zeros(num_lanes, dtype=np.int64)  # how many were replaced
        self._beam, self._scale = np.zeros((2, num_lanes))
        self._worth = np.where(np.arange(num) < self.food, 1.0, -1.0)
        self._others = ~np.eye(len(AGENTS), dtype=bool)
        cell = 2 * SEEN / self.view
        middle = (np.arange(self.view) + 0.5) * cell - SEEN
        self._ahead, self._aside = -middle, middle  # of each row's and each column's middle

    def _play(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        acts = self._frozen == 0
        np.copyto(self._shoots, acts & (actions[:, :, LASER] > 0.5))
        move = actions.astype(np.float64) * acts[:, :, None]
        self._heading += TURN * move[:, :, LEFT_TURN]
        forward, right = self._axes()
        push = move[:, :, FORWARD, None] * forward + move[:, :, RIGHT, None] * right
        length = np.sqrt(push[:, :, 0] * push[:, :, 0] + push[:, :, 1] * push[:, :, 1])
        push *= np.where(self._shoots, 0.5, 1.0)[:, :, None] / np.maximum(length, 1.0)[:, :, None]
        self._speed *= INERTIA
        self._speed += (1.0 - INERTIA) * SPEED * push
        np.copyto(self._speed, 0.0, where=~acts[:, :, None])
        self._place += self._speed
        np.clip(self._place, -RANGE, RANGE, out=self._place)
        self._eat()
        self._frozen -= ~acts
        if self._shoots.any():
            self._shoot(forward, right)
        return np.zeros(self.num_lanes, dtype=bool), self._steps >= self.max_steps

    def _axes(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns the forward and right directions of each agent, ``[lanes, agents, 2]`` each."""
        cosine, sine = np.cos(self._heading), np.sin(self._heading)
        return np.stack([cosine, sine], axis=2), np.stack([sine, -cosine], axis=2)

    def _eat(self) -> None:
        """Assigns the rewards of touched food and poison, each to the nearest agent, and places new pieces."""
        way = self._meals[:, None] - self._place[:, :, None]
        far = way[..., 0] * way[..., 0] + way[..., 1] * way[..., 1]  # [lanes, agents, meals]
        reach = AGENT * self._scale + MEAL
        eaten = far.min(axis=1) < (reach * reach)[:, None]
        lane, meal = np.nonzero(eaten)
        if not len(lane):
            return
        eater = far[lane, :, meal].argmin(axis=1)
        np.add.at(self._reward, (lane, eater), self._worth[meal])
        order = np.cumsum(eaten, axis=1)[lane, meal] - 1
        self._meals[lane, meal] = self._drawn_place(lane, self._drawn_meals[lane] + order)
        self._drawn_meals += eaten.sum(axis=1)

    def _drawn_place(self, lane: np.ndarray, number: np.ndarray) -> np.ndarray:
        """Returns random positions ``[N, 2]`` in lanes ``[N]``, by their counts ``[N]`` in the lane."""
        bits = hashed(self._key[lane, None], 2 * number[:, None] + np.arange(2))
        return np.asarray(RANGE * (2.0 * fraction(bits) - 1.0))

    def _shoot(self, forward: np.ndarray, right: np.ndarray) -> None:
        """Freezes the first agent that each laser hits."""
        way = self._place[:, None] - self._place[:, :, None]  # from a shooter to an other: [lanes, agents, agents, 2]
        ahead, aside = self._within(way, forward, right)
        beam = (BEAM * self._beam)[:, None, None]
        hit = (ahead > 0.0) & (ahead <= beam) & (np.abs(aside) <= BESIDE) & self._others & self._shoots[:, :, None]
        nearest = np.where(hit, ahead, np.inf).argmin(axis=2)
        met = (np.arange(len(AGENTS)) == nearest[:, :, None]) & hit
        np.copyto(self._frozen, FROZEN, where=met.any(axis=1) & (self._frozen == 0))

    def _within(self, way: np.ndarray, forward: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns the forward and right components of offsets ``[lanes, agents, N, 2]``, ``[lanes, agents, N]``
        each.
        """
        x, y = way[..., 0], way[..., 1]
        ahead = x * forward[:, :, None, 0] + y * forward[:, :, None, 1]
        return ahead, x * right[:, :, None, 0] + y * right[:, :, None, 1]

    def _start(self, lanes: np.ndarray) -> None:
        num = self._meals.shape[1]
        for lane in lanes.tolist():
            self._key[lane] = lane_key(self._seed(lane))
            values = self._drawn(lane)
            for name, kept in (("laser_length", self._beam), ("agent_scale", self._scale)):
                kept[lane] = values.get(name, PARAMETERS[name].default)
        count = len(AGENTS) + num
        where = self._drawn_place(np.repeat(lanes, count), np.tile(np.arange(count), len(lanes)))
        where = where.reshape(len(lanes), count, 2)
        self._place[lanes], self._meals[lanes] = where[:, : len(AGENTS)], where[:, len(AGENTS) :]
        bits = hashed(self._key[lanes, None], 2 * count + np.arange(len(AGENTS)))
        self._heading[lanes] = 2 * np.pi * fraction(bits)
        self._drawn_meals[lanes] = count + len(AGENTS)
        self._speed[lanes], self._frozen[lanes], self._shoots[lanes] = 0.0, 0, False

    def _observe(self) -> None:
        forward, right = self._axes()
        agents = len(AGENTS)
        own = self._rows.obs["own"].reshape(self.num_lanes, agents, 4)
        ahead, aside = self._within(self._speed[:, :, None], forward, right)
        own[:, :, 0], own[:, :, 1] = ahead[:, :, 0] / SPEED, aside[:, :, 0] / SPEED
        own[:, :, 2], own[:, :, 3] = self._frozen > 0, self._shoots

        view = self._rows.obs["view"].reshape(self.num_lanes * agents, -1)
        view.fill(0)
        kinds = np.where(self._worth > 0, FOOD, POISON)
        self._mark(view, self._meals[:, None] - self._place[:, :, None], forward, right, kinds)
        kinds = np.where(self._frozen > 0, OTHER_FROZEN, OTHER)[:, None]
        way = np.where(self._others[:, :, None], self._place[:, None] - self._place[:, :, None], np.inf)
        self._mark(view, way, forward, right, kinds)

        # offsets to the east and north of the rows and columns of a view; beyond the edge, cells are walls
        beyond = np.zeros((self.num_lanes, agents, self.view, self.view), dtype=bool)
        for k in range(2):
            rows = self._place[:, :, k, None] + self._ahead * forward[:, :, k, None]
            columns = self._aside * right[:, :, k, None]
            reach = (rows[:, :, :, None] + columns[:, :, None, :]).astype(np.float32)
            beyond |= np.abs(reach, out=reach) > RANGE
        view.reshape(*beyond.shape, 5)[..., WALL] = beyond

    def _mark(
        self, view: np.ndarray, way: np.ndarray, forward: np.ndarray, right: np.ndarray, kinds: np.ndarray
    ) -> None:
        """Sets the flags of objects in the views of agents.

        Args:
            view: Views ``[lanes * agents, cells * channels]``.
            way: Ways from agents to things, ``[lanes, agents, things, 2]``.
            forward: Direction forward of each agent, ``[lanes, agents, 2]``.
            right: Its direction to the right.
            kinds: Channel of each thing, to be broadcast to ``[lanes, agents, things]``.
        """
        there = np.isfinite(way[..., 0])
        ahead, aside = self._within(np.where(there[..., None], way, 2 * SEEN), forward, right)
        inside = there & (np.abs(ahead) < SEEN) & (np.abs(aside) < SEEN)
        scale = self.view / (2 * SEEN)
        row = ((SEEN - ahead[inside]) * scale).astype(np.int64)
        column = ((SEEN + aside[inside]) * scale).astype(np.int64)
        np.minimum(row, self.view - 1, out=row)  # values rounded up to the edge
        np.minimum(column, self.view - 1, out=column)
        lane, agent, _ = np.nonzero(inside)
        kind = np.broadcast_to(kinds, inside.shape)[inside]
        view[lane * len(AGENTS) + agent, (row * self.view + column) * 5 + kind] = 1

    def text(self, lane: int) -> str:
        """Returns the arena of a lane as text: agents as numbers, ``*`` if frozen, food ``o``, poison ``x``."""
        width, height = 60, 24
        cells = [["."] * width for _ in range(height)]

        def put(place: np.ndarray, letter: str) -> None:
            """Writes a letter at a position."""
            column, row = ((place / RANGE + 1.0) / 2 * (width - 1, height - 1)).round().astype(int)
            cells[height - 1 - row][column] = letter

        for place, worth in zip(self._meals[lane], self._worth, strict=True):
            put(place, "o" if worth > 0 else "x")
        for number, (place, frozen) in enumerate(zip(self._place[lane], self._frozen[lane], strict=True)):
            put(place, "*" if frozen else str(number))
        return "\n".join("".join(row) for row in cells)

    def render(self, lane: int) -> np.ndarray:
        """Returns an image ``[height, width, 3]`` uint8 of a lane."""
        from rookery.tasks import drawing

        agents = [
            (float(x), float(y), float(heading), int(frozen) > 0, bool(shoots))
            for (x, y), heading, frozen, shoots in zip(
                self._place[lane], self._heading[lane], self._frozen[lane], self._shoots[lane], strict=True
            )
        ]
        meals = [(float(x), float(y), worth > 0) for (x, y), worth in zip(self._meals[lane], self._worth, strict=True)]
        sizes = RANGE, AGENT * float(self._scale[lane]), MEAL, BEAM * float(self._beam[lane])
        return drawing.draw_food(agents, meals, sizes, self._timestep(lane), self.max_steps)
