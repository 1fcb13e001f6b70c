"""Multi-agent arena: an explorer covers a grid while a blocker obstructs it; single with dicts, or vectorized with
arrays.

Both agents see ``[own tile, other tile]``, tiles numbered row by row from 0, and move one tile: 0 up, 1 right, 2 down,
3 left. A wall or the other agent stops a move. A coin flip decides which agent moves first in a step. The rewards of a
step:

=====================================  ======  ======
what happened                          agent1  agent2
=====================================  ======  ======
either agent ran into the other          -1.0    +1.0
else agent1 came to a tile new to it     +1.0    -0.1
else                                     -0.5    -0.1
=====================================  ======  ======

`agent1` starts in the upper left corner, which does not count as visited until a step ends there, `agent2` in the lower
right corner. The episode is truncated after `max_timesteps`. `BatchedArena`, and `ArenaInC` if it is compiled, give the
same numbers, bit for bit, as one `MultiAgentArena` per lane with the same seeds and actions.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar

import numpy as np
from gymnasium import spaces

from rookery.core.errors import EnvError, nearest
from rookery.core.settings.reach import Count, FewFromZero, Label
from rookery.envs.adapters.batched import BatchedEnv, check_least, check_render_mode
from rookery.envs.base import Step
from rookery.envs.native.variants import BatchedCVariant

AGENTS = ("agent1", "agent2")
MOVES = ((-1, 0), (0, 1), (1, 0), (0, -1))  # (row, column) of up, right, down, left
REWARDS = ((-1.0, 1.0), (-1.0, 1.0), (-0.5, -0.1), (1.0, -0.1))  # of both agents, by `new tile + 2 * no collision`


@dataclass(frozen=True)
class ArenaSettings:
    """Settings of the arena.

    Attributes:
        width: Number of columns, at least 1.
        height: Number of rows, at least 1; there must be two tiles, one for each agent.
        max_timesteps: Number of steps after which an episode is truncated, at least 1.
        render_mode: ``"rgb_array"`` or None; for callers that ask, images are drawn either way.
    """

    width: int = 10
    height: int = 10
    max_timesteps: int = 100
    render_mode: str | None = None

    def __post_init__(self) -> None:
        for name in ("width", "height", "max_timesteps"):
            check_least("MultiAgentArena", 1, **{name: getattr(self, name)})
            object.__setattr__(self, name, int(getattr(self, name)))
        if self.width * self.height < 2:
            raise ValueError("MultiAgentArena: width 1 and height 1 leave one tile for two agents; make one of them 2")
        check_render_mode("MultiAgentArena", self.render_mode)

    def updated(self, config: Mapping[str, Any] | None) -> ArenaSettings:
        """Returns these settings with those in `config` replaced; raises a ValueError for an unknown key."""
        known = [field.name for field in fields(self)]
        for key in config or {}:
            if key not in known:
                hint = nearest(str(key), known)
                raise ValueError(f"MultiAgentArena: config has {key!r}{hint}; it may have {', '.join(known)}")
        return ArenaSettings(**{**asdict(self), **(config or {})})

    @property
    def num_tiles(self) -> int:
        """Number of tiles of the grid."""
        return self.width * self.height

    def observation_space(self) -> spaces.MultiDiscrete:
        """Returns the observation space of either agent: its own tile and the tile of the other agent."""
        return spaces.MultiDiscrete([self.num_tiles, self.num_tiles])

    def coins(self, rng: np.random.Generator) -> np.ndarray:
        """Draws in one block whether agent1 moves first in each step of an episode, ``[max_timesteps]`` bool."""
        return rng.random(self.max_timesteps) > 0.5

    def draw(self, tiles: np.ndarray, visited: np.ndarray, timestep: int, returns: Sequence[float]) -> np.ndarray:
        """Draws an image ``[height, width, 3]`` uint8 of an arena; see `drawing.draw_arena`."""
        from rookery.tasks import drawing

        board = visited.reshape(self.height, self.width)
        cells = [divmod(int(tile), self.width) for tile in tiles]
        return drawing.draw_arena(board, cells, returns, timestep, self.max_timesteps)

    def letters(self, tiles: np.ndarray, visited: np.ndarray) -> str:
        """Returns an arena as text: agent1 ``1``, agent2 ``2``, tiles that agent1 has visited ``+``."""
        cells = np.where(visited, "+", ".")
        cells[tiles] = "1", "2"
        return "\n".join(" ".join(row) for row in cells.reshape(-1, self.width))


class MultiAgentArena:
    """Arena as a dict-style environment of two agents.

    ``reset() -> obs, infos`` and ``step(actions) -> obs, rewards, terminateds, truncateds, infos`` give and take dicts.

    Attributes:
        possible_agents: ``["agent1", "agent2"]``.
        agents: Agents in the running episode: both, or none after it ended.
        observation_spaces: Space of each agent's observation, a MultiDiscrete ``[own tile, other tile]``.
        action_spaces: Space of each agent's action, Discrete(4).
        batched: Vectorized environment with the same numbers, or None. A subclass may have other rules, so
            that of its parent is not used for it.
    """

    metadata: ClassVar[dict[str, Any]] = {"name": "multi_agent_arena", "render_modes": ["rgb_array"], "render_fps": 10}
    batched: ClassVar[type[BatchedArena] | None] = None

    def __init__(
        self,
        width: FewFromZero | Mapping[Label, FewFromZero] = ArenaSettings.width,
        height: FewFromZero = ArenaSettings.height,
        max_timesteps: Count = ArenaSettings.max_timesteps,
        render_mode: str | None = ArenaSettings.render_mode,
        *,
        config: Mapping[Label, FewFromZero] | None = None,
    ) -> None:
        """Creates the environment, ready to be stepped, with the settings of `ArenaSettings`.

        Args:
            config: Settings by name, which replace the arguments; also taken as the only positional argument.

        Raises:
            ValueError: If a setting is out of range or unknown.
        """
        if isinstance(width, Mapping):
            config, width = width, ArenaSettings.width
        self.settings = ArenaSettings(width, height, max_timesteps, render_mode).updated(config)
        self.width, self.height = self.settings.width, self.settings.height
        self.max_timesteps, self.render_mode = self.settings.max_timesteps, self.settings.render_mode
        self.possible_agents = list(AGENTS)
        self.observation_spaces: dict[str, spaces.Space[Any]] = {a: self.settings.observation_space() for a in AGENTS}
        self.action_spaces: dict[str, spaces.Space[Any]] = {agent: spaces.Discrete(4) for agent in AGENTS}
        self._rng = np.random.default_rng()
        self.reset()

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, np.ndarray], dict[str, dict[str, Any]]]:
        """Starts an episode; its coin flips are drawn from a seed or from the environment's random generator.

        Returns:
            Observations ``[2]`` int64 and empty infos, by agent.
        """
        if seed is not None:
            self._rng = np.random.default_rng(seed)
        self.agents = list(AGENTS)
        self.timestep = 0
        self._coins = self.settings.coins(self._rng)
        self._position = {"agent1": (0, 0), "agent2": (self.height - 1, self.width - 1)}
        self._visited = np.zeros((self.height, self.width), dtype=bool)
        self._returns = dict.fromkeys(AGENTS, 0.0)
        return self._observe(), {agent: {} for agent in AGENTS}

    def step(
        self, action_dict: Mapping[str, Any]
    ) -> tuple[dict[str, np.ndarray], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]]:
        """Moves both agents (0 up, 1 right, 2 down or 3 left), in the order of this step's coin flip.

        Returns:
            obs, rewards, terminateds, truncateds and infos by agent; the ends have an ``"__all__"`` too.

        Raises:
            EnvError: If an action is missing or not one of the four, or the episode is over.
        """
        if not self.agents:
            raise EnvError(f"MultiAgentArena: the episode ended after {self.max_timesteps} steps; call reset() first")
        for agent in AGENTS:
            if agent not in action_dict:
                raise EnvError(f"MultiAgentArena: step {self.timestep}: no action for {agent}; got {list(action_dict)}")
            if not self.action_spaces[agent].contains(action_dict[agent]):
                action = repr(action_dict[agent])
                raise EnvError(f"MultiAgentArena: step {self.timestep}: action {action} of {agent} is not 0, 1, 2 or 3")
        order = AGENTS if self._coins[self.timestep] else AGENTS[::-1]
        events = {self._move(agent, int(action_dict[agent])) for agent in order}
        outcome = REWARDS[("new_field" in events) + 2 * ("collision" not in events)]
        rewards = dict(zip(AGENTS, outcome, strict=True))
        for agent in AGENTS:
            self._returns[agent] += rewards[agent]
        self.timestep += 1
        over = self.timestep >= self.max_timesteps
        if over:
            self.agents = []
        ends = (*AGENTS, "__all__")
        infos: dict[str, dict[str, Any]] = {agent: {} for agent in AGENTS}
        return self._observe(), rewards, dict.fromkeys(ends, False), dict.fromkeys(ends, over), infos

    def _move(self, agent: str, action: int) -> str:
        """Moves an agent and returns the event: ``"collision"``, ``"new_field"`` or ``""``."""
        row, column = self._position[agent]
        row, column = row + MOVES[action][0], column + MOVES[action][1]
        if (row, column) == self._position["agent2" if agent == "agent1" else "agent1"]:
            return "collision"
        row, column = min(max(row, 0), self.height - 1), min(max(column, 0), self.width - 1)
        self._position[agent] = (row, column)
        if agent == "agent1" and not self._visited[row, column]:
            self._visited[row, column] = True
            return "new_field"
        return ""

    def _observe(self) -> dict[str, np.ndarray]:
        own, other = (row * self.width + column for row, column in self._position.values())
        return {"agent1": np.array([own, other]), "agent2": np.array([other, own])}

    def render(self) -> np.ndarray:
        """Returns an image ``[height, width, 3]`` uint8 of the arena."""
        tiles = self._observe()["agent1"]
        return self.settings.draw(tiles, self._visited.ravel(), self.timestep, list(self._returns.values()))

    def close(self) -> None:
        """Does nothing: there are no resources to release."""


class BatchedArena(BatchedEnv):
    """Vectorized arena: a `VectorEnv` of one kind, rows ``lane * 2 + agent``.

    An episode ends only at its time limit, so the episodes of all lanes begin and end together and one clock serves
    all.
    """

    render_fps = MultiAgentArena.metadata["render_fps"]
    native_variant: ClassVar[type[ArenaInC]]
    saved = ("_place", "_visited", "_leads", "_returns", "timestep")

    def __init__(
        self,
        num_lanes: int,
        width: FewFromZero = ArenaSettings.width,
        height: FewFromZero = ArenaSettings.height,
        max_timesteps: Count = ArenaSettings.max_timesteps,
        render_mode: str | None = ArenaSettings.render_mode,
        *,
        config: Mapping[Label, FewFromZero] | None = None,
    ) -> None:
        """Creates `num_lanes` environments; the other arguments are those of `MultiAgentArena`."""
        self.settings = ArenaSettings(width, height, max_timesteps, render_mode).updated(config)
        name = f"MultiAgentArena {self.settings.width}x{self.settings.height}, batched"
        super().__init__(num_lanes, self.settings.observation_space(), len(MOVES), name, AGENTS)
        self.timestep = 0

        self._moves = _move_table(self.settings.width, self.settings.height)
        self._rewards = np.array(REWARDS)
        self._lane_start = np.arange(num_lanes) * self.settings.num_tiles  # in `_visited`
        self._visited = np.zeros(num_lanes * self.settings.num_tiles, dtype=bool)
        self._leads = np.zeros((self.settings.max_timesteps, 2, num_lanes), dtype=bool)  # which agent moves first
        self._returns = np.zeros((num_lanes, 2))

        # Work space, [agent, lane], with the views of it that a step needs: making a view costs as much as a sum.
        pair = (2, num_lanes)
        self._place = np.zeros(pair, dtype=np.int64)  # 4 * tile, so that adding an action gives an index of `_moves`
        self._index, self._target = np.zeros(pair, dtype=np.int64), np.zeros(pair, dtype=np.int64)
        self._target1, self._target2 = self._target
        self._free, self._trails = np.zeros(pair, dtype=bool), np.zeros(pair, dtype=bool)
        self._free1, self._free2 = self._free
        self._other_place, self._other_free = self._place[::-1], self._free[::-1]
        self._apart, self._quiet, self._new, self._seen = np.zeros((4, num_lanes), dtype=bool)
        self._event, self._visit = np.zeros(num_lanes, dtype=np.uint8), np.zeros(num_lanes, dtype=np.int64)
        self._quiet_number, self._new_number = self._quiet.view(np.uint8), self._new.view(np.uint8)
        slab = self._rows.obs["obs"].reshape(num_lanes, 2, 2)
        self._own_tile, self._other_tile = slab[:, :, 0].T, slab[:, ::-1, 1].T
        self._tile1 = slab[:, 0, 0]
        self._reward = self._rows.reward.reshape(num_lanes, 2)

    def step(self, actions: Sequence[np.ndarray]) -> Step:
        """Steps every lane once, with actions ``[lanes * 2]`` from 0 to 3; see `VectorEnv.step`."""
        action = self._checked(actions)
        if self._step.any_end:
            self._clear_ends()
        place, target, free, seen, event = self._place, self._target, self._free, self._seen, self._event

        # Is the way free? First as if the other agent stood still. For an agent that moves second, after one that did
        # move, it is free unless both go to the same tile.
        np.add(place, action.reshape(self.num_lanes, 2).T, out=self._index)
        self._moves.take(self._index, out=target, mode="clip")
        np.not_equal(target, self._other_place, out=free)
        np.greater(self._other_free, self._leads[self.timestep], out=self._trails)  # the other moved, and moved first
        np.not_equal(self._target1, self._target2, out=self._apart)
        np.copyto(free, self._apart, where=self._trails)

        np.copyto(place, target, where=free)
        np.right_shift(place, 2, out=self._own_tile)
        np.right_shift(place, 2, out=self._other_tile)

        np.add(self._lane_start, self._tile1, out=self._visit)
        self._visited.take(self._visit, out=seen, mode="clip")
        np.greater(self._free1, seen, out=self._new)  # a move, to a tile not seen
        np.logical_or(seen, self._free1, out=seen)
        self._visited[self._visit] = seen

        np.logical_and(self._free1, self._free2, out=self._quiet)
        np.add(self._quiet_number, self._quiet_number, out=event)
        np.add(event, self._new_number, out=event)
        self._rewards.take(event, axis=0, out=self._reward, mode="clip")
        np.add(self._returns, self._reward, out=self._returns)

        self.timestep += 1
        if self.timestep == self.settings.max_timesteps:
            self._rows.truncated[:] = True
            self._begin_next()
        return self._step

    def _begin(self, lanes: np.ndarray) -> None:
        coins = np.stack([self.settings.coins(np.random.default_rng(self._seed(lane))) for lane in lanes], axis=1)
        self._leads[:, 0], self._leads[:, 1] = coins, ~coins
        self.timestep = 0
        self._visited[:] = False
        self._returns[:] = 0.0
        self._place[0], self._place[1] = 0, 4 * (self.settings.num_tiles - 1)

    def _show(self) -> None:
        self._own_tile[:] = self._other_tile[:] = self._place >> 2

    def _timestep(self, lane: int) -> int:
        return self.timestep

    def render(self, lane: int) -> np.ndarray:
        """Returns an image ``[height, width, 3]`` uint8 of a lane."""
        tiles = self.settings.num_tiles
        visited = self._visited[lane * tiles : (lane + 1) * tiles]
        return self.settings.draw(self._own_tile[:, lane], visited, self.timestep, self._returns[lane].tolist())

    def text(self, lane: int) -> str:
        """Returns a lane as text; see `ArenaSettings.letters`."""
        tiles = self.settings.num_tiles
        return self.settings.letters(self._own_tile[:, lane], self._visited[lane * tiles : (lane + 1) * tiles])


class ArenaInC(BatchedCVariant):
    """`BatchedArena` in C, with the same arguments."""

    symbol = "arena"
    __signature__ = inspect.signature(BatchedArena)

    def __init__(
        self, num_lanes: int, *given: Any, config: Mapping[Label, FewFromZero] | None = None, **by_name: Any
    ) -> None:
        """Creates `num_lanes` environments; the other arguments are those of `MultiAgentArena`."""
        self.settings = settings = ArenaSettings(*given, **by_name).updated(config)
        width, height = settings.width, settings.height
        super().__init__(num_lanes, width=width, height=height, max_timesteps=settings.max_timesteps)

    def as_batched(self, state: dict[str, Any]) -> dict[str, Any]:
        """Converts the state to that of the batched environment: lanes last, tiles in units of four, and one clock."""
        fields = state["fields"]
        coins = fields["coins"].reshape(self.num_lanes, -1).T.astype(bool)
        return {
            "episode": state["episode"],
            "place": 4 * fields["tiles"].T,
            "visited": fields["visited"].astype(bool).ravel(),
            "leads": np.stack([coins, ~coins], axis=1),
            "returns": fields["returns"],
            "timestep": int(fields["timestep"][0]),
        }

    def from_batched(self, state: dict[str, Any]) -> dict[str, Any]:
        """Converts the state of the batched environment."""
        lanes, timestep, shapes = self.num_lanes, int(state["timestep"]), self.fields
        fields = {
            "tiles": state["place"].T // 4,
            "visited": state["visited"].astype(np.uint8).reshape(shapes["visited"].shape),
            "coins": state["leads"][:, 0].T.astype(np.uint8).reshape(shapes["coins"].shape),
            "returns": state["returns"],
            "timestep": np.full(lanes, timestep),
        }
        return {"clock": timestep, "began": np.zeros(lanes, dtype=np.int64), "fields": fields}

    def render(self, lane: int) -> np.ndarray:
        """Returns an image ``[height, width, 3]`` uint8 of a lane."""
        tiles, visited, returns = (self.fields[name][lane] for name in ("tiles", "visited", "returns"))
        return self.settings.draw(tiles, visited.astype(bool), self._timestep(lane), returns.tolist())

    def text(self, lane: int) -> str:
        """Returns a lane as text; see `ArenaSettings.letters`."""
        return self.settings.letters(self.fields["tiles"][lane], self.fields["visited"][lane])


def _move_table(width: int, height: int) -> np.ndarray:
    """Returns the table of moves on an empty grid: ``4 * tile`` of the new tile, by ``4 * tile + action``."""
    tile = np.arange(width * height)
    row, column = tile // width, tile % width
    moved = [
        np.clip(row + down, 0, height - 1) * width + np.clip(column + right, 0, width - 1) for down, right in MOVES
    ]
    return np.asarray(4 * np.stack(moved, axis=1).ravel())


MultiAgentArena.batched, BatchedArena.native_variant = (
    BatchedArena,
    ArenaInC,
)  # here, because it needs the classes
