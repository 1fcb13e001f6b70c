"""`CLibrary`: a loaded and checked library of an environment in C; `CLayout`: its description with certain settings.

The structures here are those of ``rookery_env.h``, where each of their fields is explained.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces

from rookery.core.errors import EnvError, nearest
from rookery.core.spaces.arrays import MASK
from rookery.envs.adapters.gym_env import AGENT
from rookery.envs.native.compiler import compiled
from rookery.envs.parameters import Parameter
from rookery.envs.samplers import is_number

ABI_VERSION = 1
SYMBOL = "rookery_env"
MAX_RANK, MAX_FIELDS, MAX_LEAVES = 4, 32, 16
MOST_BYTES = 1 << 40
"""Largest number of bytes of a field for one lane: more is an error in `describe`."""

BOX, BYTES, CHOICES, FLAGS, MASKS = range(5)
RANDOM = 5
FIELD_TYPES = (np.float64, np.float32, np.int64, np.int32, np.uint8, np.uint64)
"""In the order of the header; a generator is five numbers of 64 bits."""
RANDOM_WORDS = 5

ADDRESS, UINT32, INT32, INT64, REAL = (
    ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int32, ctypes.c_int64, ctypes.c_double,
)  # fmt: skip
REALS, INTEGERS = ctypes.POINTER(REAL), ctypes.POINTER(INT64)


class NumberEntry(ctypes.Structure):
    """``RookeryNumber``."""

    _fields_ = [("name", ctypes.c_char_p), ("value", REAL), ("low", REAL), ("high", REAL), ("whole", INT32)]


class FieldEntry(ctypes.Structure):
    """``RookeryField``."""

    _fields_ = [("name", ctypes.c_char_p), ("type", INT32), ("count", INT64)]


class SpaceEntry(ctypes.Structure):
    """``RookerySpace``."""

    _fields_ = [
        ("name", ctypes.c_char_p), ("kind", INT32), ("rank", INT32), ("shape", INT64 * MAX_RANK), ("low", REAL),
        ("high", REAL), ("lows", REALS), ("highs", REALS), ("categories", INT64), ("sizes", INTEGERS),
    ]  # fmt: skip


class LayoutEntry(ctypes.Structure):
    """``RookeryLayout``."""

    _fields_ = [
        ("num_agents", INT32), ("waits", INT32), ("agents", ctypes.POINTER(ctypes.c_char_p)), ("num_fields", INT32),
        ("num_leaves", INT32), ("fields", FieldEntry * MAX_FIELDS), ("leaves", SpaceEntry * MAX_LEAVES),
        ("action", SpaceEntry), ("picture_height", INT32), ("picture_width", INT32),
    ]  # fmt: skip


class StateEntry(ctypes.Structure):
    """``RookeryState``."""

    _fields_ = [("lanes", INT64), ("settings", ADDRESS), ("fields", ADDRESS)]


class RowsEntry(ctypes.Structure):
    """``RookeryRows``."""

    _fields_ = [(name, ADDRESS) for name in ("obs", "reward", "terminated", "truncated", "waiting", "ended")]


class FaultEntry(ctypes.Structure):
    """``RookeryFault``."""

    _fields_ = [("what", INT32), ("leaf", INT32), ("row", INT64), ("element", INT64), ("value", REAL)]


SIZES = ("abi_version", "env_size", "layout_size", "state_size", "rows_size")
FUNCTIONS = ("describe", "reset", "step", "observe", "draw", "text", "checked_step", "checked_reset")


class TableEntry(ctypes.Structure):
    """``RookeryEnv``."""

    _fields_ = [
        *((name, UINT32) for name in (*SIZES, "num_settings", "num_parameters")), ("name", ctypes.c_char_p),
        ("settings", ctypes.POINTER(NumberEntry)), ("parameters", ctypes.POINTER(NumberEntry)), ("fps", REAL),
        *((name, ADDRESS) for name in FUNCTIONS),
    ]  # fmt: skip


HERE = dict(
    zip(SIZES, (ABI_VERSION, *map(ctypes.sizeof, (TableEntry, LayoutEntry, StateEntry, RowsEntry))), strict=True)
)
STRUCTURES = {
    "env_size": "RookeryEnv",
    "layout_size": "RookeryLayout",
    "state_size": "RookeryState",
    "rows_size": "RookeryRows",
}

DESCRIBE = ctypes.CFUNCTYPE(ctypes.c_char_p, ADDRESS, ADDRESS)
CHECKED = ctypes.CFUNCTYPE(INT64)  # of arguments that are ctypes objects already
SHOW = ctypes.CFUNCTYPE(None)


@dataclass(frozen=True)
class CField:
    """A field of the state: its name, its type, and its number of elements for each lane."""

    name: str
    dtype: np.dtype[Any]
    count: int


@dataclass(frozen=True)
class CLayout:
    """Description of an environment with certain settings.

    Attributes:
        entry: The structure that the library has filled in.
        agents: Names of the agents of a lane.
        fields: Fields of the state.
        leaves: Paths of observations, in the library's order.
        obs_space: Observation space of an agent.
        action_space: Action space of an agent.
    """

    entry: LayoutEntry
    agents: tuple[str, ...]
    fields: tuple[CField, ...]
    leaves: tuple[str, ...]
    obs_space: spaces.Space[Any]
    action_space: spaces.Space[Any]


def library_of(path: Path, symbol: str = SYMBOL) -> CLibrary:
    """Loads a library once; a source in C is compiled first, again where it has changed.

    Args:
        path: The library, or a file in C.
        symbol: Name of its ``ROOKERY_ENV_AS``.

    Raises:
        EnvError: If it does not exist, cannot be compiled or loaded, or is not of this version; with the reason.
    """
    return _loaded_once(path, compiled(path) if path.suffix == ".c" else path, symbol)


@cache
def _loaded_once(source: Path, path: Path, symbol: str) -> CLibrary:
    return CLibrary(source, path, symbol)


class CLibrary:
    """Loads an environment and checks that its structures match those here.

    Args:
        source: The file as the user named it.
        path: The library.
        symbol: Name of its table.

    Raises:
        EnvError: If it is missing or cannot be used here.
    """

    def __init__(self, source: Path, path: Path, symbol: str = SYMBOL) -> None:
        self.source, self.path = source, path
        if not path.is_file():
            there = [one.name for one in path.parent.glob("*")] if path.parent.is_dir() else []
            raise EnvError(f"{source}: there is no such file{nearest(path.name, there)}")
        try:
            self._loaded = ctypes.CDLL(str(path.absolute()))
        except OSError as error:
            raise EnvError(f"{source}: is not a shared library that can be loaded here: {error}") from error
        try:
            sizes = dict(zip(SIZES, (UINT32 * len(SIZES)).in_dll(self._loaded, symbol), strict=True))
        except ValueError:
            raise EnvError(f"{source}: has no symbol {symbol}: end the file with ROOKERY_ENV(...)") from None
        self._check_sizes(sizes)
        self.table = TableEntry.in_dll(self._loaded, symbol)
        self.name = self._text(self.table.name, "ROOKERY_ENV: .name")
        missing = [name for name in FUNCTIONS if name not in ("draw", "text") and not getattr(self.table, name)]
        if missing:
            raise EnvError(f"{source}: ROOKERY_ENV defines no {' and no '.join(missing)}")
        self.settings = self._numbers("settings", self.table.settings, self.table.num_settings)
        self.parameters = self._numbers("parameters", self.table.parameters, self.table.num_parameters)
        self.whole = {
            self.table.settings[k].name.decode() for k in range(len(self.settings)) if self.table.settings[k].whole
        }

    def _check_sizes(self, sizes: Mapping[str, int]) -> None:
        again = "compile it again with the rookery_env.h of this one (rookery envs build FILE.c)"
        if sizes["abi_version"] != ABI_VERSION:
            version = sizes["abi_version"]
            raise EnvError(
                f"{self.source}: is of version {version} of rookery_env.h, this Rookery of {ABI_VERSION}; {again}"
            )
        for name, structure in STRUCTURES.items():
            if sizes[name] != HERE[name]:
                raise EnvError(
                    f"{self.source}: {structure} has {sizes[name]} bytes there and {HERE[name]} here: it was compiled "
                    f"with another header, or for another machine; {again}"
                )

    def _text(self, text: bytes | None, what: str) -> str:
        try:
            found = (text or b"").decode()
        except UnicodeDecodeError:
            found = ""
        if not found:
            raise EnvError(f"{self.source}: {what} is {text!r}, expected a text")
        return found

    def _numbers(self, what: str, entries: Any, count: int) -> dict[str, Parameter]:
        """Reads settings or parameters by name."""
        if count and not entries:
            raise EnvError(f"{self.source}: .num_{what} is {count}, and .{what} is NULL")
        found: dict[str, Parameter] = {}
        for entry in (entries[k] for k in range(count)):
            name = self._text(entry.name, f"the name of one of .{what}")
            low, high = (None if math.isinf(bound) else bound for bound in (entry.low, entry.high))
            default = int(entry.value) if entry.whole and entry.value.is_integer() else entry.value
            one = Parameter(default, low, high)
            wrong = one.objection(default) or ("" if math.isfinite(default) else f"{default} is not finite")
            if wrong or name in found or not name.isidentifier():
                why = wrong or ("that name is there twice" if name in found else "that is not a valid name")
                raise EnvError(f"{self.source}: {what}: {name!r}: {why}")
            found[name] = one
        return found

    def values(self, given: Mapping[str, Any]) -> np.ndarray:
        """Returns the settings as the library reads them.

        Raises:
            EnvError: If one is unknown or out of its bounds.
        """
        for name in given:
            if name not in self.settings:
                takes = ", ".join(self.settings) or "no settings"
                hint = nearest(name, list(self.settings))
                raise EnvError(f"{self.name}: env.config has {name!r}, unknown to it{hint}; it takes {takes}")
        values = []
        for name, declared in self.settings.items():
            value = given.get(name, declared.default)
            is_whole = name in self.whole
            if not (is_number(value) or isinstance(value, bool)):
                wrong = f"{value!r} is not a number"
            elif not math.isfinite(value) or (is_whole and value != int(value)):
                wrong = f"{value!r} is not {'an integer' if is_whole else 'a finite number'}"
            else:
                wrong = declared.objection(value)
            if wrong:
                raise EnvError(f"{self.name}: env.config.{name}: {wrong}")
            values.append(float(value))
        return np.array(values)

    def layout(self, values: np.ndarray) -> CLayout:
        """Returns the description of the environment with some settings.

        Raises:
            EnvError: If the library rejects them, or describes an impossible environment.
        """
        entry = LayoutEntry()
        refused = DESCRIBE(self.table.describe)(values.ctypes.data, ctypes.addressof(entry))
        if refused is not None:
            raise EnvError(f"{self.name}: env.config: {refused.decode(errors='replace')}")
        for what, count, most in (("fields", entry.num_fields, MAX_FIELDS), ("leaves", entry.num_leaves, MAX_LEAVES)):
            if not 1 <= count <= most:
                raise EnvError(f"{self.source}: describe: {count} {what}, expected 1 to {most}")
        entry.num_agents = entry.num_agents or 1
        if entry.num_agents < 1:
            raise EnvError(f"{self.source}: describe: num_agents is {entry.num_agents}, expected at least 1")
        if entry.waits not in (0, 1):
            raise EnvError(f"{self.source}: describe: waits is {entry.waits}, expected 0 or 1")
        fields = [self._field(entry.fields[k]) for k in range(entry.num_fields)]
        action = self._space(entry.action, "the action")
        if entry.action.kind not in (BOX, CHOICES):
            raise EnvError(
                f"{self.source}: describe: the action is of kind {entry.action.kind}, expected a box or discrete"
            )
        parts = self._parts(entry, action)
        names = [one.name for one in fields]
        if len({*names}) < len(names):
            raise EnvError(f"{self.source}: describe: two fields have one name: {', '.join(names)}")
        plain = list(parts) == ["obs"]
        return CLayout(
            entry, self._agents(entry), tuple(fields), tuple(parts), parts["obs"] if plain else _nested(parts), action
        )

    def _agents(self, entry: LayoutEntry) -> tuple[str, ...]:
        number = entry.num_agents
        if not entry.agents:
            return (AGENT,) if number == 1 else tuple(f"{AGENT}{k}" for k in range(number))
        names = tuple(self._text(entry.agents[k], f"describe: the name of agent {k}") for k in range(number))
        if len({*names}) < number:
            raise EnvError(f"{self.source}: describe: two agents have one name: {', '.join(names)}")
        return names

    def _field(self, entry: FieldEntry) -> CField:
        name = self._text(entry.name, "describe: the name of a field")
        if not 0 <= entry.type < len(FIELD_TYPES):
            raise EnvError(f"{self.source}: describe: field {name!r} is of type {entry.type}, which does not exist")
        dtype, words = np.dtype(FIELD_TYPES[entry.type]), RANDOM_WORDS if entry.type == RANDOM else 1
        if not 1 <= entry.count <= MOST_BYTES // (dtype.itemsize * words):
            raise EnvError(f"{self.source}: describe: field {name!r} has {entry.count} elements for an environment")
        return CField(name, dtype, entry.count * words)

    def _parts(self, entry: LayoutEntry, action: spaces.Space[Any]) -> dict[str, spaces.Space[Any]]:
        """Reads the spaces of observations by path; a mask gets the shape required by the actions."""
        parts: dict[str, spaces.Space[Any]] = {}
        for leaf in (entry.leaves[k] for k in range(entry.num_leaves)):
            if leaf.kind == MASKS:
                sizes = np.atleast_1d(getattr(action, "nvec", getattr(action, "n", 0)))
                leaf.rank, leaf.shape[0], leaf.name = 1, int(sizes.sum()), MASK.encode()
                if not leaf.shape[0]:
                    raise EnvError(f"{self.source}: describe: a mask where actions are not discrete")
            name = self._text(leaf.name, "describe: the name of a leaf")
            if any(f"{name}/".startswith(f"{other}/") or other.startswith(f"{name}/") for other in parts):
                raise EnvError(
                    f"{self.source}: describe: a leaf {name!r} beside {', '.join(parts)}: names of parts differ"
                )
            parts[name] = self._space(leaf, f"leaf {name!r}")
        return parts

    def _space(self, entry: SpaceEntry, what: str) -> spaces.Space[Any]:
        what = f"{self.source}: describe: {what}"
        if not 0 <= entry.rank <= MAX_RANK:
            raise EnvError(f"{what}: rank {entry.rank}, expected 0 to {MAX_RANK}")
        shape = tuple(entry.shape[: entry.rank])
        if any(side < 1 for side in shape):
            raise EnvError(f"{what}: shape {shape}, expected sides of at least 1")
        elements = math.prod(shape)
        if entry.kind == BOX:
            low, high = (
                np.array(many[:elements] if many else [one] * elements).reshape(shape)
                for one, many in ((entry.low, entry.lows), (entry.high, entry.highs))
            )
            if not (low <= high).all():
                raise EnvError(f"{what}: low is not at most high: {low.ravel().tolist()}, {high.ravel().tolist()}")
            return spaces.Box(low.astype(np.float32), high.astype(np.float32), dtype=np.float32)
        if entry.kind == BYTES:
            if not 1 <= entry.high <= 255:
                raise EnvError(f"{what}: high is {entry.high:g}, expected 1 to 255")
            return spaces.Box(0, int(entry.high), shape, np.uint8)
        if entry.kind in (FLAGS, MASKS):
            if not shape:
                raise EnvError(f"{what}: flags without a rank, expected shape and rank")
            return spaces.MultiBinary(shape[0] if len(shape) == 1 else list(shape))
        if entry.kind != CHOICES:
            raise EnvError(f"{what}: is of kind {entry.kind}, which does not exist")
        sizes = entry.sizes[:elements] if entry.sizes else [entry.categories] * elements
        if any(size < 1 for size in sizes):
            raise EnvError(f"{what}: {sizes} categories, expected at least 1")
        return spaces.MultiDiscrete(np.array(sizes).reshape(shape)) if shape else spaces.Discrete(sizes[0])

    @cached_property
    def described(self) -> CLayout:
        """Description with default settings."""
        return self.layout(self.values({}))


def _nested(parts: Mapping[str, spaces.Space[Any]]) -> spaces.Dict:
    """Builds nested Dict spaces from paths."""
    tree: dict[str, Any] = {}
    for path, space in parts.items():
        *above, last = path.split("/")
        inner = tree
        for key in above:
            inner = inner.setdefault(key, {})
        inner[last] = space

    def space_of(node: Any) -> spaces.Space[Any]:
        return spaces.Dict({key: space_of(part) for key, part in node.items()}) if isinstance(node, dict) else node

    return spaces.Dict({key: space_of(part) for key, part in tree.items()})
