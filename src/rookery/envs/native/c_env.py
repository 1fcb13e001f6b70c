"""`CEnv`: many instances of an environment written in C, as a `VectorEnv`.

A step is one call of the library, which also checks actions and results. Python only begins the next episodes of lanes
that have ended.
"""

from __future__ import annotations

import ctypes
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NoReturn

import numpy as np
from gymnasium import spaces

from rookery.core.errors import EnvError
from rookery.core.spaces.arrays import MASK
from rookery.envs.adapters.batched import BatchedEnv, check_least
from rookery.envs.base import SeedPlan, Step
from rookery.envs.native.guard import Guard
from rookery.envs.native.library import (
    ADDRESS,
    CHECKED,
    INT64,
    SHOW,
    SYMBOL,
    CLayout,
    CLibrary,
    FaultEntry,
    RowsEntry,
    StateEntry,
    library_of,
)
from rookery.envs.parameters import EpisodePlan, NotifyingPlan, Parameter, parameters_of

GUARD = 64
"""Bytes before and behind each field of the state that must stay unchanged."""

FRESH = 0xA5
"""Content of these bytes."""

LETTERS = 1 << 16
"""Largest length of a text in bytes."""


class _FromLibrary:
    """An attribute of a class that its library defines; the library is loaded on first access."""

    def __init__(self, ask: Callable[[type[CEnv]], Any]) -> None:
        self._ask = ask

    def __get__(self, instance: CEnv | None, owner: type[CEnv]) -> Any:
        return self._ask(owner)


def _signature(owner: type[CEnv]) -> inspect.Signature | None:
    """Returns the arguments of a class: the settings of its library, unless the class defines a constructor."""
    if not hasattr(owner, "library") or "__init__" in vars(owner):
        return None
    known = {**owner.arguments, **{name: one.default for name, one in owner.loaded().settings.items()}}
    lanes = inspect.Parameter("num_lanes", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    keyword = inspect.Parameter.KEYWORD_ONLY
    return inspect.Signature([lanes, *(inspect.Parameter(name, keyword, default=known[name]) for name in known)])


class CEnv(BatchedEnv):
    """Many instances of an environment in C; a subclass names the library.

        class MyEnv(CEnv):
            library = Path(__file__).with_name("my_env.so")

    Attributes:
        library: The compiled library, or the file in C, which is compiled when it is first used.
        symbol: Name of the environment's ``ROOKERY_ENV_AS`` in it.
        arguments: Arguments of the constructor beside the library's settings, with their defaults.
        parameters: Parameters of episodes.
        fields: The state by field name, ``[lanes, ...]`` each.
        plans: Counts changes of the plan of later episodes.
        is_noted: Whether calls are noted, for a message if one kills the process (`guard.py`).
    """

    library: ClassVar[str | Path]
    symbol: ClassVar[str] = SYMBOL
    arguments: ClassVar[Mapping[str, Any]] = {"threads": 1}
    run_arguments: ClassVar[tuple[str, ...]] = ("threads",)
    takes_any_argument = True  # the settings of its library, which are numbers (core/settings/foreign_arguments.py)
    plans = 0
    is_noted: ClassVar[bool] = True
    parameters: Mapping[str, Parameter] = _FromLibrary(  # type: ignore[assignment]
        lambda owner: owner.loaded().parameters if hasattr(owner, "library") else {}
    )
    __signature__ = _FromLibrary(_signature)

    def __init__(self, num_lanes: int, *, threads: int = 1, **settings: Any) -> None:
        """Creates the environments.

        Args:
            num_lanes: Number of environments.
            threads: Threads that step shares of them; the numbers are the same for any.
            settings: Settings that the library defines.

        Raises:
            EnvError: If the library cannot be used, or not with these settings.
        """
        check_least(type(self).__name__, 1, threads=threads)
        self._library = self.loaded()
        self._settings = self._library.values(settings)
        self._layout = layout = self._library.layout(self._settings)
        super().__init__(num_lanes, layout.obs_space, layout.action_space, f"{self._library.name}, in C", layout.agents)
        self.render_fps = self._library.table.fps or None
        self._waits = bool(layout.entry.waits)
        self._clock = 0
        self._began = np.zeros(num_lanes, dtype=np.int64)  # the clock when a lane's episode began
        self._allocate(layout)
        self._point(layout)
        self._pool = ThreadPoolExecutor(threads - 1) if threads > 1 else None
        self.split(threads)

    @property
    def _seeds(self) -> SeedPlan | None:
        return self._plan

    @_seeds.setter
    def _seeds(self, seeds: SeedPlan | None) -> None:
        self._plan, self.plans = seeds, self.plans + 1

    @classmethod
    def loaded(cls) -> CLibrary:
        """Loads the library, once per process."""
        return library_of(Path(cls.library).expanduser().absolute(), cls.symbol)

    def _allocate(self, layout: CLayout) -> None:
        """Allocates one block for the state, with guards around its fields, and the arrays of a call."""
        lanes, places, size = self.num_lanes, [], GUARD
        for field in layout.fields:
            places.append(size)
            length = lanes * field.count * field.dtype.itemsize
            size += -(-length // GUARD) * GUARD + GUARD
        room = np.full(size + GUARD, FRESH, dtype=np.uint8)
        begin = -room.ctypes.data % GUARD
        self._block = block = room[begin : begin + size]
        self.fields: dict[str, np.ndarray] = {}
        is_guard = np.ones(size, dtype=bool)
        for field, place in zip(layout.fields, places, strict=True):
            part = slice(place, place + lanes * field.count * field.dtype.itemsize)
            block[part], is_guard[part] = 0, False
            shape = (lanes, field.count) if field.count > 1 else (lanes,)
            self.fields[field.name] = block[part].view(field.dtype).reshape(shape)
        self._guards = np.flatnonzero(is_guard)
        kind = self.kinds[0]
        rows = lanes * len(kind.agents)
        self._is_box = isinstance(kind.action.space, spaces.Box)
        self._shape = tuple(kind.action.space.shape or ())
        self._actions = np.zeros((rows, *self._shape), np.float32 if self._is_box else np.int64)
        self._lanes, self._begin_seeds = np.zeros(lanes, dtype=np.int64), np.zeros(lanes, dtype=np.uint64)
        self._defaults = np.array([float(one.default) for one in self._library.parameters.values()])
        self._values = np.zeros((lanes, len(self._defaults)))

    def _point(self, layout: CLayout) -> None:
        """Stores the addresses of all arrays that calls read and write."""
        rows, entry = self._rows, RowsEntry()
        self._fields_at = np.array([array.ctypes.data for array in self.fields.values()], dtype=np.uintp)
        self._obs_at = np.array([rows.obs[path].ctypes.data for path in layout.leaves], dtype=np.uintp)
        self._state = StateEntry(self.num_lanes, self._settings.ctypes.data, self._fields_at.ctypes.data)
        entry.obs = self._obs_at.ctypes.data
        for name in ("reward", "terminated", "truncated", "waiting"):
            setattr(entry, name, getattr(rows, name).ctypes.data)
        entry.ended = self._step.ended.ctypes.data
        self._entry, self._fault = entry, FaultEntry()
        name = f"{self.name} ({self._library.source})"
        self._guard = Guard(self._library.table, name, self._block, self._actions, self.num_lanes, self.is_noted)
        table = self._guard.table
        self._at = {
            "env": ADDRESS(ctypes.addressof(table)),
            "layout": ADDRESS(ctypes.addressof(layout.entry)),
            "state": ADDRESS(ctypes.addressof(self._state)),
            "actions": ADDRESS(self._actions.ctypes.data),
            "rows": ADDRESS(ctypes.addressof(entry)),
            "fault": ADDRESS(ctypes.addressof(self._fault)),
        }
        at = self._at
        self._observed = partial(SHOW(table.observe), at["state"], INT64(0), INT64(self.num_lanes), at["rows"])
        self._begin_count = INT64(0)
        places = [ADDRESS(array.ctypes.data) for array in (self._lanes, self._begin_seeds, self._values)]
        self._begin_call = partial(
            CHECKED(table.checked_reset), at["env"], at["layout"], at["state"], places[0], self._begin_count,
            *places[1:], at["rows"], at["fault"],
        )  # fmt: skip

    def split(self, shares: int) -> None:
        """Makes a step use several calls, one for each share of the lanes; at most as many as there are lanes."""
        shares = min(shares, self.num_lanes)
        ends = [self.num_lanes * k // shares for k in range(shares + 1)]
        self._guard.split(ends[:-1], ends[1:])
        self._faults = [FaultEntry() for _ in range(shares)]
        self._calls = [
            self._call_of(first, end - first, fault)
            for first, end, fault in zip(ends[:-1], ends[1:], self._faults, strict=True)
        ]

    def _call_of(self, first: int, count: int, fault: FaultEntry) -> Callable[[], int]:
        """Returns the call that steps a share of the lanes."""
        at, step = self._at, CHECKED(self._guard.table.checked_step)
        return partial(
            step, at["env"], at["layout"], at["state"], INT64(first), INT64(count), at["actions"], at["rows"],
            ADDRESS(ctypes.addressof(fault)),
        )  # fmt: skip

    def _show(self) -> None:
        self._observed()

    def reset(self, seeds: SeedPlan) -> Step:
        """Starts episode 0 in every lane; see `VectorEnv.reset`."""
        self._clock = 0
        shown = super().reset(seeds)
        self.check_guards()
        return shown

    def step(self, actions: Sequence[np.ndarray]) -> Step:
        """Steps every lane once; see `VectorEnv.step`."""
        if self._plan is None:
            raise EnvError(f"{self.name}: step() before reset()")
        self._take(actions)
        step = self._step
        if step.any_end:
            self._rows.final_index, self._rows.final_obs = self._no_rows, self._no_obs
            step.any_end = False
        found = self._calls[0]() if len(self._calls) == 1 else self._step_shares()
        if found < 0:
            self._refuse_step()
        self._clock += 1
        if found:
            self._begin_after_end()
        if self._clock == 1:
            self.check_guards()
        return step

    def _step_shares(self) -> int:
        """Steps all shares, at the same time where there are threads, else the last one first."""
        if self._pool is None:
            found = [call() for call in reversed(self._calls)]
        else:
            others = [self._pool.submit(call) for call in self._calls[1:]]
            found = [self._calls[0](), *(other.result() for other in others)]
        return min(found) if min(found) < 0 else max(found)

    def _take(self, actions: Sequence[np.ndarray]) -> None:
        """Copies the actions of waiting rows to where the library reads them, if they have the right form."""
        if len(actions) != 1:
            raise EnvError(f"{self.name}: {len(actions)} arrays of actions where there is one kind of agents")
        given, mine = actions[0], self._actions
        waiting = self._rows.waiting if self._waits else None
        expected = mine.shape if waiting is None else (int(np.count_nonzero(waiting)), *self._shape)
        if given.shape != expected or given.dtype.kind not in ("fiu" if self._is_box else "iu"):
            self._refuse_actions(given, expected)
        if waiting is None:
            mine[...] = given
        else:
            mine[waiting] = given

    def _refuse_actions(self, given: np.ndarray, expected: tuple[int, ...]) -> NoReturn:
        """Raises an error about actions of the wrong form."""
        sort = "numbers" if self._is_box else "integers"
        who = "for the agents that must act" if self._waits else "one for each agent of each environment"
        raise EnvError(
            f"{self.name}: actions of shape {given.shape} and type {given.dtype}; expected {expected} {sort}, {who}"
        )

    def _begin(self, lanes: np.ndarray) -> None:
        """Starts the current episodes of some lanes, and shows them."""
        count = len(lanes)
        if not count:
            return
        seeds, numbers, episodes = self._plan, lanes.tolist(), self.episode[lanes].tolist()
        assert seeds is not None, "set by reset() or load_state_dict()"
        drawn = [seeds(lane, episode) for lane, episode in zip(numbers, episodes, strict=True)]
        try:
            self._begin_seeds[:count] = np.array(drawn, dtype=np.uint64)
        except OverflowError as error:
            raise EnvError(f"{self.name}: a seed is not from 0 to 2^64 - 1: {error}") from None
        if isinstance(seeds, EpisodePlan | NotifyingPlan):
            for row, (lane, episode) in enumerate(zip(numbers, episodes, strict=True)):
                self._values[row] = self._parameters(lane, episode)
        else:
            self._values[:count] = self._defaults
        self._lanes[:count] = lanes
        self._began[lanes] = self._clock
        self._begin_count.value = count
        if self._begin_call() < 0:
            raise EnvError(self._fault_message(self._fault, "reset"))

    def _parameters(self, lane: int, episode: int) -> np.ndarray:
        """Returns the parameters drawn for an episode, as the library reads them."""
        values, names = self._defaults.copy(), list(self._library.parameters)
        for name, value in parameters_of(self._plan, lane, episode).items():
            if name in names:
                try:
                    values[names.index(name)] = value
                except (TypeError, ValueError):
                    raise EnvError(f"{self._where(lane)}: parameter {name} is {value!r}, expected a number") from None
        return values

    _begin_and_show = _begin  # which shows them

    def _timestep(self, lane: int) -> int:
        return int(self._clock - self._began[lane])

    # --- many steps in one call, see `c_playing.py` -------------------------------------------------------------------

    @property
    def steps_at_once(self) -> bool:
        """Whether no work in Python is needed between two steps."""
        alone = len(self._calls) == 1 and not self._waits
        return alone and self._plan is not None and self.keep_infos == "none" and not self.keep_last_pictures

    @property
    def leaf_paths(self) -> tuple[str, ...]:
        """Returns the leaves of observations, in the library's order."""
        return self._layout.leaves

    def places(self) -> dict[str, int | None]:
        """Returns the addresses that a call reads and writes, by name."""
        return {name: place.value for name, place in self._at.items()}

    def plan_of(self, lane: int, episode: int) -> tuple[int, np.ndarray]:
        """Returns the seed of an episode, and its parameters as the library reads them."""
        assert self._plan is not None, "set by reset() or load_state_dict()"
        draws = isinstance(self._plan, EpisodePlan | NotifyingPlan)
        return self._plan(lane, episode), self._parameters(lane, episode) if draws else self._defaults

    def count_played(self, steps: int, ended: np.ndarray) -> None:
        """Takes over the steps of a call, and the episodes that have begun in them: ``[ended, 2]`` lanes and steps."""
        for lane, step in ended.tolist():
            self.episode[lane] += 1
            self._began[lane] = self._clock + step + 1
        self._clock += steps
        self._rows.final_index, self._rows.final_obs = self._no_rows, self._no_obs
        self._step.any_end = False

    def shown_ends(self) -> np.ndarray | None:
        """Returns ``[rows]`` whether the agent ended in the last step; None if none did."""
        ends = self._rows.terminated | self._rows.truncated
        return ends if ends.any() else None

    def refuse(self, function: str) -> None:
        """Raises an EnvError for a fault that a call has found in ``step`` or ``reset``."""
        text = self._fault_message(self._fault, function)
        self._fault.what = 0
        raise EnvError(text)

    # --- faults -------------------------------------------------------------------------------------------------------

    def guards(self) -> Iterator[tuple[int, int]]:
        """Yields address and size of each piece of memory around the fields of the state."""
        begin, at = self._block.ctypes.data, 0
        for array in (*self.fields.values(), None):
            end = self._block.nbytes if array is None else array.ctypes.data - begin
            yield begin + at, end - at
            at = end + (0 if array is None else array.nbytes)

    @property
    def source(self) -> Path | None:
        """Returns the C file from which the environment was compiled; None if it was loaded as a library."""
        return self._library.source if self._library.source.suffix == ".c" else None

    def subprocess_arguments(self) -> dict[str, Any]:
        """Returns the arguments for the same environment in another process: library, symbol, lanes and settings."""
        settings = dict(zip(self._library.settings, self._settings.tolist(), strict=True))
        return {"library": self._library.path, "symbol": self.symbol, "lanes": self.num_lanes, "settings": settings}

    def check_guards(self) -> None:
        """Raises an EnvError if memory outside of the fields of the state was written."""
        wrong = self._guards[self._block[self._guards] != FRESH]
        if wrong.size:
            begins = {array.ctypes.data - self._block.ctypes.data: name for name, array in self.fields.items()}
            before = [name for begin, name in begins.items() if begin <= wrong[0]]
            beside = f"behind the field {before[-1]!r}" if before else "before the first field"
            raise EnvError(
                f"{self._library.source}: writes {beside}, whose number of elements comes from describe(): "
                f"{wrong.size} bytes outside of the state are changed; rookery envs check names the line"
            )

    def _refuse_step(self) -> None:
        """Raises an EnvError for the first fault in a step."""
        fault = next(fault for fault in self._faults if fault.what)
        text = self._fault_message(fault, "step")
        fault.what = 0
        raise EnvError(text)

    def _fault_message(self, fault: FaultEntry, function: str) -> str:
        """Describes a fault: where, which agent, the value and the expected range."""
        kind, layout = self.kinds[0], self._layout
        lane, number = divmod(fault.row, len(kind.agents))
        agent, value = kind.agents[number], int(fault.value) if float(fault.value).is_integer() else fault.value
        if fault.what in (1, 2):
            element = f" (element {fault.element})" if self._shape else ""
            text = f"action {value} of {agent}{element}"
            if fault.what == 2:
                return f"{self._where(lane)}: {text} is not allowed by its {MASK}"
            if self._is_box:
                return f"{self._where(lane)}: {text} is not finite"
            most = kind.action.sizes[fault.element] - 1
            return f"{self._where(lane)}: {text} is not from 0 to {most}"
        path = layout.leaves[fault.leaf]
        leaf = next(one for one in kind.obs.leaves if one.path == path)
        what = f"observation {path}, element {fault.element}, of {agent}"
        options = int(np.ravel(leaf.sizes)[fault.element]) - 1 if fault.what == 5 else 0
        found = {
            3: f"the reward of {agent} is {value}, expected a finite number",
            4: f"{what}: {value}, expected a finite number",
            5: f"{what}: category {value}, expected 0 to {options}",
            6: f"{what}: flag {value}, expected 0 or 1",
            7: f"observation {path} of {agent} allows no action, expected at least one option of each choice",
            8: f"terminated, truncated, ended or waiting is {value} at {agent}, expected 0 or 1",
        }[fault.what]
        return f"{self._library.source}: {self._where(lane, after=function == 'step')}: {function}: {found}"

    def _where(self, lane: int, after: bool = False) -> str:
        """Returns the first part of a message about a lane, between two steps or during an uncounted one."""
        episode, step = int(self.episode[lane]), self._timestep(lane) + after
        return f"{self.name}: environment {lane}, seed {self._seed(lane)}, episode {episode}, step {step}"

    # --- state --------------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Returns a copy of the state of every lane, by field name."""
        self.check_guards()
        return {
            "episode": self.episode.copy(),
            "began": self._began.copy(),
            "clock": self._clock,
            "settings": self._settings.copy(),
            "fields": {name: array.copy() for name, array in self.fields.items()},
        }

    def load_state_dict(self, state: dict[str, Any], seeds: SeedPlan) -> tuple[Step, np.ndarray]:
        """Resumes from a state instead of `reset`; see `VectorEnv.load_state_dict`.

        A state of another implementation of the same environment cannot be resumed: the next episodes begin.
        """
        if "fields" not in state:
            return self._begin_beyond(state, seeds)
        shapes = {name: (array.shape, array.dtype) for name, array in self.fields.items()}
        fits = {name: (np.shape(array), np.asarray(array).dtype) for name, array in state["fields"].items()} == shapes
        if not fits or not np.array_equal(state["settings"], self._settings):
            raise EnvError(f"{self.name}: the saved state is of another environment, or of other settings")
        self._seeds = seeds
        self.episode[...], self._began[...], self._clock = state["episode"], state["began"], int(state["clock"])
        for name, array in self.fields.items():
            array[...] = state["fields"][name]
        self._guard.begin_from(self._clock - self._began)
        return self._show_start(), np.zeros(self.num_lanes, dtype=bool)

    def _begin_beyond(self, state: dict[str, Any], seeds: SeedPlan) -> tuple[Step, np.ndarray]:
        """Begins the episodes that follow those in the state of another implementation."""
        if np.shape(state.get("episode", ())) != self.episode.shape:
            raise EnvError(f"{self.name}: the saved state is of another environment, or of other settings")
        self._clock, self.episode[...] = 0, state["episode"]
        self.exact = False
        return self.restart(seeds), np.ones(self.num_lanes, dtype=bool)

    # --- rendering ----------------------------------------------------------------------------------------------------

    def render(self, lane: int) -> np.ndarray | None:  # type: ignore[override]
        """Returns an image ``[height, width, 3]`` uint8 of a lane, or None if the library cannot render."""
        entry, draw = self._layout.entry, self._library.table.draw
        if not draw or min(entry.picture_height, entry.picture_width) < 1:
            return None
        picture = np.zeros((entry.picture_height, entry.picture_width, 3), dtype=np.uint8)
        SHOW(draw)(self._at["state"], INT64(lane), ADDRESS(picture.ctypes.data))
        return picture

    def text(self, lane: int) -> str | None:
        """Returns a lane as text, or None if the library has no text."""
        if not self._library.table.text:
            return None
        letters = ctypes.create_string_buffer(LETTERS)
        SHOW(self._library.table.text)(self._at["state"], INT64(lane), letters, INT64(LETTERS))
        return letters.value.decode(errors="replace")

    def close(self) -> None:
        """Ends the threads."""
        if self._pool is not None:
            self._pool.shutdown()


def c_env_of(path: str | Path) -> type[CEnv]:
    """Returns the class of an environment in C from its file.

    Args:
        path: A library, or a file in C, which is compiled when it is first used.
    """
    file = Path(path).expanduser().absolute()
    about = f"Many instances of the environment of {file.name}."
    # without a module: a resumed run gets the class again, or its path
    return type(file.stem, (CEnv,), {"library": file, "__doc__": about, "__module__": "__main__"})


def is_c_file(name: str) -> bool:
    """Returns whether the name of an environment is the path of a C file or of a library."""
    return name.endswith((".c", ".so", ".dylib"))


def c_name(name: str) -> str:
    """Returns the name of such an environment for messages and folders: ``my_env`` of ``envs/my_env.c``."""
    return Path(name).stem
