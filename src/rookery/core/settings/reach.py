"""Effects of settings and arguments, declared in their types, and the check of values from foreign files.

A foreign file was written by another user: it has another signature, or none. It may set flags, words of a list,
numbers within bounds, and texts that are only compared, printed or looked up among known names. These are harmless. A
value that names a path, a program, an environment variable, an address or code, or a number that takes any amount of
memory, needs the user's trust:

    host: Annotated[str, Reaches("an address of this machine", default_will_do=True)] = "127.0.0.1"
    num_envs: Annotated[PositiveInt, Within(65_536)] = 8
    measure: Label = "return"

Most of this follows from the type. `silent_parts` finds the parts of a type that declare nothing; a value of such a
part is never taken from a foreign file.
"""

from __future__ import annotations

import inspect
import math
import operator
import types
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from annotated_types import Le, Lt

from rookery.core.schedules import Schedule
from rookery.core.settings.fields import (
    InPercent,
    NonNegativeInt,
    PositiveInt,
    Settings,
    alternatives,
    bare,
    fields_of,
    former_names,
    former_values,
    hints_of,
    is_scheduled,
    limits_of,
)

LONGEST = 10_000
"""Maximum number of entries of a list or mapping in a foreign file if its type declares no limit."""


@dataclass(frozen=True)
class Reaches:
    """Marks a value with effects beyond the training, which a foreign file may not set.

    Attributes:
        what: What a value reaches, for messages: "a path", "a program", "an environment variable".
        default_will_do: Whether a foreign value is left out, with a note, instead of being refused.
        but: Words that reach nothing.
        is_file: Whether the value is the path of a file that is more than a file, as a program is.
    """

    what: str
    default_will_do: bool = False
    but: tuple[str, ...] = ()
    is_file: bool = False

    @property
    def is_path(self) -> bool:
        """Whether values are paths, possibly relative."""
        return self.is_file or self.what == "a path"


@dataclass(frozen=True)
class Within:
    """Marks a number that determines memory use.

    Attributes:
        limit: The largest number in a foreign file. On a mapping or list it holds for all numbers in it.
    """

    limit: float


@dataclass(frozen=True)
class Items:
    """Marks a list that determines memory use.

    Attributes:
        limit: Most entries in a foreign file.
    """

    limit: int


@dataclass(frozen=True)
class Harmless:
    """Marks a type whose values have no effects beyond the training.

    Attributes:
        use: Its use.
    """

    use: str


NAME = Harmless("a name that is compared and printed")
COUNT = Harmless("a moment, a period or an amount of work, which sizes no memory")
CODE = Harmless("code, which is judged by its name (core/settings/trust.py)")
ARGUMENTS = Harmless(
    "arguments, which are judged by the signature of what they are given to (run/checks/trusted_code.py)"
)

Label = Annotated[str, NAME]
"""A text that is compared, printed or looked up among known names."""

Count = Annotated[PositiveInt, COUNT]
"""Positive number of steps, updates or moments, which does not determine memory use."""

CountFromZero = Annotated[NonNegativeInt, COUNT]
"""Non-negative number of steps, updates or moments, which does not determine memory use."""

Width = Annotated[PositiveInt, Within(8_192)]
"""Width of a layer, a memory or a value's distribution."""

Few = Annotated[PositiveInt, Within(1_000)]
"""Number of layers, heads, or other parts that each use memory."""

FewFromZero = Annotated[NonNegativeInt, Within(1_000)]
"""Number of layers, heads, or other parts that each use memory; may be 0."""

Processes = Annotated[PositiveInt, Within(256)]
"""Number of processes or threads."""

ProcessesFromZero = Annotated[NonNegativeInt, Within(256)]
"""Number of processes or threads; may be 0."""

Layers = Annotated[tuple[Width, ...], Items(32)]
"""Widths of consecutive layers."""

Length = Annotated[PositiveInt, Within(65_536)]
"""Number of steps kept in a row, or of copies kept side by side."""

Rows = Annotated[PositiveInt, Within(16_777_216)]
"""Number of decisions held in memory at once."""

MOST_WEIGHTS = 268_435_456
"""Maximum number of weights of all networks together, of 4 bytes each and as much again for each state of an optimizer.
"""

RENDER_MODES = ("rgb_array", "human", "ansi", "rgb_array_list", "ansi_list", "depth_array", "rgbd_tuple", "text")
"""Values of ``render_mode``, the only argument that every environment has."""


@dataclass(frozen=True)
class Objection:
    """Reason why a foreign value is refused.

    Attributes:
        path: Its path.
        value: The value.
        why: The reason, as a predicate: "reaches a path".
        default_will_do: Whether it can be left out instead.
    """

    path: str
    value: Any
    why: str
    default_will_do: bool = False


def silent_parts(hint: Any, path: str) -> Iterator[str]:
    """Yields the parts of a type that do not declare the effects of their values.

    Args:
        hint: The type, of a setting or an argument.
        path: Its name.

    Yields:
        The path of each such part: of a field of settings, or of the argument itself.
    """
    if _mark(hint, Reaches | Harmless):
        return
    parts = _parts(hint)
    if len(parts) > 1:
        scheduled = is_scheduled(hint)
        for part in parts:
            if not (part is Any and scheduled):
                yield from silent_parts(part, path)
        return
    inner = bare(hint)
    origin, args = get_origin(inner), get_args(inner)
    if isinstance(inner, type) and issubclass(inner, Settings):
        for name, one in hints_of(inner).items() if "__dataclass_fields__" in vars(inner) else ():
            if name in fields_of(inner):
                yield from silent_parts(one, f"{path}.{name}")
    elif inner is int:
        if not _is_bounded(hint):
            yield path
    elif origin in (tuple, list, dict) or (isinstance(origin, type) and issubclass(origin, Mapping | Collection)):
        for part in args:
            if part is not ...:
                yield from silent_parts(part, path)
    elif not (inner in (bool, float, types.NoneType) or origin is Literal):
        yield path


def objections(hint: Any, value: Any, path: str, *, foreign: bool = False) -> Iterator[Objection]:
    """Yields the objections to a foreign value.

    Args:
        hint: Type of the setting or argument; ``inspect.Parameter.empty`` where there is none.
        value: The value, as JSON or YAML has it.
        path: Its path.
        foreign: Whether the type belongs to code other than Rookery's, which cannot declare what it reaches: then
            numbers and flags are taken, as for arguments of Gymnasium's environments.
    """
    if value is None:
        return
    if (mark := _mark(hint, Reaches)) is not None:
        yield from _reached(mark, value, path)
        return
    if isinstance(value, Mapping | Schedule) and is_scheduled(hint):
        return  # a schedule is read strictly, and made of numbers
    fitting = [part for part in _parts(hint) if _takes(part, value)]
    if not fitting:
        if not (isinstance(value, str) and any(isinstance(item, InPercent) for item in limits_of(hint))):
            yield Objection(path, value, "is not a possible value here")
    elif _mark(hint, Harmless):
        yield from _beyond(hint, value, path)
    else:
        yield from min((list(_of_part(part, value, path, foreign=foreign)) for part in fitting), key=len)


def _of_part(hint: Any, value: Any, path: str, *, foreign: bool) -> Iterator[Objection]:
    """Yields the objections to a value of a type that is not a union."""
    if (mark := _mark(hint, Reaches)) is not None:
        yield from _reached(mark, value, path)
        return
    if _mark(hint, Harmless):
        yield from _beyond(hint, value, path)
        return
    inner = bare(hint)
    origin, args = get_origin(inner), get_args(inner)
    if isinstance(inner, type) and issubclass(inner, Settings):
        yield from of_settings(inner, value, path, foreign=foreign)
    elif isinstance(value, Mapping) and origin is not None and len(args) == 2:
        yield from _too_long(hint, value, path)
        for key, part in value.items():
            yield from objections(args[0], key, f"{path}.{key}", foreign=foreign)
            yield from objections(args[1], part, f"{path}.{key}", foreign=foreign)
    elif isinstance(value, list | tuple) and origin is not None:
        yield from _too_long(hint, value, path)
        kinds = args if origin is tuple and args[-1:] != (...,) else (args[0],) * len(value)
        for kind, part in zip(kinds, value, strict=False):
            yield from objections(kind, part, path, foreign=foreign)
    elif inner is int and _mark(hint, Within):
        yield from _beyond(hint, value, path)
    elif next(silent_parts(hint, path), None) is not None and not (foreign and is_number(value)):
        yield Objection(path, value, "has a type that does not declare what it can reach")


def of_settings(cls: type, values: Any, path: str, *, foreign: bool = False) -> Iterator[Objection]:
    """Yields the objections to values of a config class.

    Args:
        cls: The class.
        values: Its fields as a mapping, by names of today or former ones; unknown names are left to the reader of the
            settings.
        path: Their path; empty for a whole run.
        foreign: As of `objections`.
    """
    hints = hints_of(cls)
    former = former_names(cls)
    for name, value in values.items():
        today = former[name][0] if name in former and name not in fields_of(cls) else name
        value = former_values(cls).get(today, {}).get(value, value) if isinstance(value, str) else value
        if today in fields_of(cls):
            yield from objections(hints[today], value, f"{path}.{name}" if path else name, foreign=foreign)


def of_arguments(maker: Any, values: Mapping[str, Any], path: str) -> Iterator[Objection]:
    """Yields the objections to arguments of a class or function of Rookery.

    Args:
        maker: The class or function, whose signature declares what its arguments reach.
        values: Arguments by name.
        path: Their path.
    """
    hints = argument_hints(maker)
    for name, value in values.items():
        where = f"{path}.{name}"
        if name == "render_mode" and value in RENDER_MODES:
            continue
        if name in hints:
            yield from objections(hints[name], value, where)
        elif value is not None:
            yield Objection(where, value, "has a type that does not declare what it can reach")


def of_numbers(hint: Any, value: Any, path: str) -> Iterator[Objection]:
    """Yields the objections to the numbers in a value that is passed to an argument or drawn for it.

    Args:
        hint: Type of the argument.
        value: A number, or lists and mappings of numbers.
        path: Its path.
    """
    if any(_takes(part, 2) for part in _parts(hint)):
        largest = largest_number(value)
        yield from objections(hint, int(largest) if largest % 1 == 0 else largest, path)


@cache
def argument_hints(maker: Any) -> dict[str, Any]:
    """Returns the types of the arguments of a class or function by name.

    Parents of a class count where its constructor takes more arguments, and so does a dataclass that the class names
    under ``argument_types``.
    """
    found: dict[str, Any] = get_type_hints(getattr(maker, "argument_types", object), include_extras=True)
    makers = (
        [vars(cls)["__init__"] for cls in maker.__mro__ if "__init__" in vars(cls)]
        if inspect.isclass(maker)
        else [maker]
    )
    for one in makers:
        if not callable(one):
            break
        hints: dict[str, Any] = {}
        with suppress(NameError, TypeError):  # a type imported only for type checkers has no mark
            hints = get_type_hints(one, include_extras=True)
        try:
            parameters = inspect.signature(one).parameters
        except (TypeError, ValueError):
            break
        named = (p for p in parameters.values() if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY))
        found = {p.name: hints.get(p.name, inspect.Parameter.empty) for p in named if p.name != "self"} | found
        if not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
            break
    return found


def is_number(value: Any) -> bool:
    """Returns whether a value is a flag or a finite number; integers must be at most a million."""
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, bool) or (isinstance(value, int) and abs(value) <= 1_000_000)


def largest_number(value: Any) -> float:
    """Returns the largest absolute number in nested lists and mappings; 0 if there is none."""
    if isinstance(value, Mapping):
        return max(map(largest_number, value.values()), default=0)
    if isinstance(value, list | tuple):
        return max(map(largest_number, value), default=0)
    return abs(value) if isinstance(value, int | float) else 0


def _reached(mark: Reaches, value: Any, path: str) -> Iterator[Objection]:
    is_empty = isinstance(value, Mapping | list | tuple) and not value
    if not is_empty and value not in mark.but:
        yield Objection(path, value, f"reaches {mark.what}", mark.default_will_do)


def _beyond(hint: Any, value: Any, path: str) -> Iterator[Objection]:
    """Yields an objection if the largest number in a value is above the limit of its type."""
    mark = _mark(hint, Within)
    if mark is not None and (largest := largest_number(value)) > mark.limit:
        yield Objection(path, largest, f"is above {mark.limit:,.0f} and could fill the memory")


def _too_long(hint: Any, value: Collection[Any], path: str) -> Iterator[Objection]:
    mark = _mark(hint, Items)
    limit = LONGEST if mark is None else mark.limit
    if len(value) > limit:
        yield Objection(path, value, f"has {len(value):,} entries, more than {limit:,}, and could fill the memory")


def _is_bounded(hint: Any) -> bool:
    return any(isinstance(item, Le | Lt | Within) for item in limits_of(hint))


def _mark(hint: Any, kind: Any) -> Any:
    """Returns the first mark of a kind in an ``Annotated`` type; None if there is none."""
    marks = (item for item in get_args(hint)[1:] if isinstance(item, kind)) if get_origin(hint) is Annotated else ()
    return next(iter(marks), None)


def _parts(hint: Any) -> tuple[Any, ...]:
    """Returns the types of a union, flat, except for a union with a mark; a tuple of one for other types."""
    inner = bare(hint)
    if get_origin(inner) not in (Union, types.UnionType) or _mark(hint, Reaches | Harmless):
        return (hint,)
    return tuple(part for arg in get_args(inner) for part in _parts(arg))


def _takes(hint: Any, value: Any) -> bool:
    """Returns whether a type from `_parts` accepts a value in its form in JSON or YAML."""
    if len(alternatives(hint)) > 1:
        return any(_takes(part, value) for part in alternatives(hint))
    inner = bare(hint)
    origin, args = get_origin(inner), get_args(inner)
    if origin is Literal:
        return any(value == arg and type(value) is type(arg) for arg in args)
    if inner is bool:
        return isinstance(value, bool)
    if inner is int:
        return (isinstance(value, int) and not isinstance(value, bool)) or (
            isinstance(value, float) and value.is_integer()
        )
    if inner is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if inner is str:
        return isinstance(value, str)
    if isinstance(inner, type) and issubclass(inner, Settings):
        return isinstance(value, Mapping)
    if origin is not None and isinstance(origin, type) and issubclass(origin, Mapping):
        return isinstance(value, Mapping)
    if origin is not None and isinstance(origin, type) and origin is not type and issubclass(origin, Collection):
        return isinstance(value, list | tuple)
    return inner is not types.NoneType


def weights_in(values: Any) -> int:
    """Estimates the number of weights of all networks and memories that settings describe.

    Args:
        values: Settings as a tree, whose numbers may be of any type.
    """
    if not isinstance(values, Mapping):
        return 0
    hidden, memory, critic = (values.get(name) for name in ("hidden", "memory", "critic"))
    widths = [width for width in hidden if isinstance(width, int)] if isinstance(hidden, list | tuple) else []
    found: int = sum(map(operator.mul, widths, widths[1:])) + sum(map(weights_in, values.values()))
    if isinstance(memory, Mapping):
        size, layers = (memory.get(name, 1) for name in ("size", "layers"))
        found += 8 * size * size * layers if isinstance(size, int) and isinstance(layers, int) else 0
    number = critic.get("number", 1) if isinstance(critic, Mapping) else 1
    return found * max(number, 1) if isinstance(number, int) else found
