"""The base of every config class: Settings, the kinds of fields it may have, and the check of one value.

A config class is a frozen dataclass in the file of the class it steers. Its fields hold the only defaults; a docstring
stands under each field; the range stands in the type:

    @dataclass(frozen=True)
    class PPOConfig(Settings):
        lr: Scheduled[PositiveFloat] = 3e-4
        "Step size of the optimizer."

Checks are strict: 3.7 is no whole number, "no" is no truth value, "3e-4" is a text. Accepted without loss are ints for
floats, 3.0 for 3, lists for tuples, and "10%" for 0.1 where the type is `Part`.
"""

from __future__ import annotations

import dataclasses
import inspect
import types
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import MISSING, dataclass
from enum import Enum
from functools import cache, reduce
from numbers import Integral
from operator import or_
from typing import Annotated, Any, Literal, NamedTuple, Self, TypeVar, Union, get_args, get_origin, get_type_hints

from annotated_types import Ge, Gt, Interval, Le, Lt

from rookery.core.errors import ConfigError, nearest
from rookery.core.schedules import DECISIONS, Exponential, Linear, Schedule, read_schedule
from rookery.core.settings.hints import no_attribute, suggestion

T = TypeVar("T")

FEW = 12
"""Maximum number of known names listed in a message."""


class _Scheduled:
    """Marks a field that takes a schedule in place of its value."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Callable[[Any], Any]) -> Any:
        from pydantic_core import PydanticCustomError, core_schema

        plain = _union(part for part in get_args(source) if part is not Any)
        closed = _closed(plain)

        def read(value: Any) -> Schedule:
            try:
                schedule = read_schedule(value) if isinstance(value, Mapping) else value
            except ConfigError as error:
                # Braces in a message would be taken for placeholders, so the text comes in as one.
                raise PydanticCustomError("schedule", "{text}", {"text": str(error)}) from None
            for number in schedule.values:
                if check(closed, number)[1]:
                    text = f"the schedule reaches {number:g} but must stay {describe(closed)}"
                    raise PydanticCustomError("schedule", "{text}", {"text": text})
            return schedule

        return core_schema.tagged_union_schema(
            {"plain": handler(plain), "schedule": core_schema.no_info_plain_validator_function(read)},
            discriminator=lambda value: "schedule" if isinstance(value, Mapping | Schedule) else "plain",
        )


Scheduled = Annotated[T | Any, _Scheduled()]
"""A field that takes a value or a schedule: ``Scheduled[PositiveFloat]``. `Settings.at` turns it into a number."""


class Fixed(Enum):
    """Reason why a setting is fixed within a run; all others may change between two runs, and by PBT."""

    STRUCTURAL = "structural"
    """Determines the training data, or the shapes of weights, memories or incomplete experience."""
    AT_START = "at start"
    """Read only when a run begins; the result is in each checkpoint, and a resumed run has the default."""


Structural = Annotated[T, Fixed.STRUCTURAL]
"""Marks a field of kind `Fixed.STRUCTURAL`: ``Structural[PositiveInt]``. A section may be marked, with all of its
settings.
"""

AtStart = Annotated[T, Fixed.AT_START]
"""Marks a field of kind `Fixed.AT_START`: ``AtStart[str | None]``. With its default, nothing is read."""


@dataclass(frozen=True)
class InsteadOf:
    """Marks an optional field as an alternative form of another optional field.

    Setting one of them resets the other to None; both at once are an error:
    ``every_env_steps: Annotated[PositiveInt | None, InsteadOf("every")] = None``.

    Attributes:
        name: The other field.
    """

    name: str


@dataclass(frozen=True)
class FormerName:
    """Marks a field that was renamed: ``new: Annotated[int, FormerName("old")]``.

    The former name is read like the new one, with a note; both at once are an error. It holds in derived classes too.

    Attributes:
        name: The former name.
        beside: Another field that the former name may mean today. Where a class has that field, the former name is an
            error in new settings; stored runs may still use it.
        refused: The message of that error.
    """

    name: str
    beside: str = ""
    refused: str = ""


@dataclass(frozen=True)
class FormerValue:
    """Marks a field with a value that was renamed: ``FormerValue("old", "new")``.

    The former value is read as the new one, with a note. It holds in derived classes too.

    Attributes:
        former: The former name of the value.
        value: Its name of today.
    """

    former: str
    value: str


class InPercent:
    """Marks a number that may also be given in percent: ``10%`` is stored as 0.1."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Callable[[Any], Any]) -> Any:
        from pydantic_core import core_schema

        return core_schema.no_info_before_validator_function(_of_percent, handler(source))


def _of_percent(value: Any) -> Any:
    """Converts a text in percent to a number; other values are returned unchanged."""
    if isinstance(value, str) and value.endswith("%"):
        with suppress(ValueError):
            return float(value.removesuffix("%")) / 100
    return value


PositiveFloat = Annotated[float, Gt(0)]
NonNegative = Annotated[float, Ge(0)]
Fraction = Annotated[float, Interval(ge=0, le=1)]
Part = Annotated[float, Gt(0), Le(1), InPercent()]
PositiveInt = Annotated[int, Ge(1)]
NonNegativeInt = Annotated[int, Ge(0)]


class Undecided:
    """Placeholder for a value that is still to be chosen, such as `tune.uniform(0, 1)`.

    Config classes take it for any field, and check none of their rules between fields then; `resolve` refuses it.
    """


_DECIDED = frozenset({bool, int, float, str, types.NoneType})


def is_undecided(value: Any) -> bool:
    """Returns whether a value is `Undecided`, or a list, mapping or settings object that contains such a value."""
    if type(value) in _DECIDED:  # most are
        return False
    if isinstance(value, Settings):
        return bool(value.__dict__["_undecided"])
    parts = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
    return isinstance(value, Undecided) or any(map(is_undecided, parts))


class _Checked(type):
    """Checks all arguments of a constructor before the dataclass receives them, so that one error reports all
    mistakes.
    """

    def __call__(cls, /, *args: Any, **values: Any) -> Any:
        fields = fields_of(cls)
        positional = [name for name, field in fields.items() if not field.kw_only]
        problems: list[str] = []
        if len(args) > len(positional):
            problems.append(f"code: {cls.__name__} takes at most {len(positional)} values, not {len(args)}")
        given = dict(zip(positional, args, strict=False))
        values = _renamed(cls, values, cls.__name__, problems)
        problems += [f"code: {cls.__name__}.{name} is given twice" for name in values.keys() & given.keys()]
        given |= values
        given, wrong = one_of_each(cls, given, {name: default_of(fields[name]) for name in alternatives_in(cls)})
        problems += [f"code: {cls.__name__}: {line}" for line in wrong]
        read = _read(cls, given, cls.__name__, problems)
        for name, field in fields.items():
            if name not in given and is_required(field):
                problems.append(f"code: {cls.__name__}.{name} is missing: it must be {describe(hints_of(cls)[name])}")
        return _built(cls, read, frozenset(read), problems)


@dataclass(frozen=True)
class Settings(metaclass=_Checked):
    """Base of config classes: records the fields that were given, and validates them immediately.

    Raises:
        ConfigError: From every constructor, with one line for each wrong, unknown or missing value.
    """

    @property
    def given(self) -> frozenset[str]:
        """Names of the fields given to the constructor (or to `replace`), whatever their values."""
        return self.__dict__["_given"]  # type: ignore[no-any-return]

    def replace(self, /, **changes: Any) -> Self:
        """Returns a copy with other values; `given` grows by their names (``dataclasses.replace`` would add all
        fields).

        Raises:
            ConfigError: If a change is wrong.
        """
        cls = type(self)
        rest = {name: getattr(self, name) for name in fields_of(cls) if name not in changes}
        problems: list[str] = []
        changes = _renamed(cls, changes, cls.__name__, problems)
        changes, wrong = one_of_each(cls, changes, vars(self))
        problems += [f"code: {cls.__name__}: {line}" for line in wrong]
        read = _read(cls, changes, cls.__name__, problems)
        return _built(cls, rest | read, self.given | changes.keys(), problems)  # type: ignore[no-any-return]

    def __getattr__(self, name: str) -> Any:
        """Returns the value of a field by its former name; only called for missing attributes."""
        if name in former_names(type(self)):
            return getattr(self, former_names(type(self))[name][0])
        raise no_attribute(self, name)

    def at(self, step: int, horizon: float | None, decisions: int = 0) -> Self:
        """Returns these settings with each schedule, in nested settings too, replaced by its value.

        Args:
            step: The env step.
            horizon: The last env step of the run, for schedules without a length of their own; None if there is none,
                which leaves them at their start.
            decisions: Decisions of the policy so far, for schedules that go by these.
        """
        moving: tuple[str, ...] = self.__dict__["_moving"]
        if not moving:
            return self
        settled = object.__new__(type(self))
        values = settled.__dict__
        values.update(self.__dict__)
        for name in moving:
            value = values[name]
            if isinstance(value, Settings):
                values[name] = value.at(step, horizon, decisions)
            else:
                values[name] = value.at(decisions if value.by == DECISIONS else step, horizon)
        values["_moving"] = ()
        return settled

    def open_schedules(self) -> tuple[str, ...]:
        """Returns paths of the schedules that need a horizon: linear and exponential ones without `steps`."""
        found: list[str] = []
        for name in self.__dict__["_moving"]:
            value = getattr(self, name)
            if isinstance(value, Settings):
                found += [f"{name}.{inner}" for inner in value.open_schedules()]
            elif isinstance(value, Linear | Exponential) and value.steps is None:
                found.append(name)
        return tuple(found)


def build(cls: type, values: Mapping[str, Any], given: frozenset[str]) -> Any:
    """Returns an instance of a config class from values already checked."""
    made: Any
    undecided = any(map(is_undecided, values.values()))
    if undecided:
        made = object.__new__(cls)
        vars(made).update({name: default_of(field) for name, field in fields_of(cls).items()} | dict(values))
    else:
        made = type.__call__(cls, **values)
    parts = vars(made)
    moving = (
        n for n, v in parts.items() if isinstance(v, Schedule) or (isinstance(v, Settings) and v.__dict__["_moving"])
    )
    parts.update(_moving=tuple(moving), _given=given, _undecided=undecided)
    return made


@cache
def fields_of(cls: type) -> dict[str, dataclasses.Field[Any]]:
    """Returns the fields of a config class by name, in the order of positional values: that of the dataclass, or of
    `field_order` where the class has this text of names.

    Raises:
        ConfigError: If the class changes a field in a way that a dataclass would silently pass over.
    """
    fields = {field.name: field for field in dataclasses.fields(cls) if field.init}
    own = inspect.get_annotations(cls)
    if own and "__dataclass_fields__" not in cls.__dict__:
        raise ConfigError(f"code: {cls.__name__} declares settings; put @dataclass(frozen=True) above it")
    if bare := [name for name in fields if name in cls.__dict__ and name not in own]:
        raise ConfigError(f"code: {cls.__name__}.{bare[0]} has no type, so its new default would be ignored; write one")
    if former := [name for name in own if name in fields and name in former_names(cls)]:
        raise ConfigError(f"code: {cls.__name__}.{former[0]} is now called {former_names(cls)[former[0]][0]}")
    order = dict.fromkeys((*getattr(cls, "field_order", "").split(), *fields))
    return {name: fields[name] for name in order if name in fields}


@cache
def hints_of(cls: type) -> dict[str, Any]:
    """Returns the types of a config class's fields, with their ranges."""
    return get_type_hints(cls, include_extras=True)


@cache
def fixed_of(cls: type, name: str) -> Fixed | None:
    """Returns the `Fixed` mark of a config class's field, or of a parent class's field of that name; None without
    one.
    """
    marks = (item for base in cls.__mro__ for item in get_args(hints_of(base).get(name))[1:])
    return next((item for item in marks if isinstance(item, Fixed)), None)


def paths_of(cls: type) -> list[str]:
    """Returns the paths of a config class's fields, including those of nested settings with a known class; of optional
    sections only their own path.
    """
    found: list[str] = []
    for name in fields_of(cls):
        inner = settings_class(hints_of(cls)[name])
        found.append(name)
        if inner is not None and "__dataclass_fields__" in vars(inner) and not optional(hints_of(cls)[name]):
            found += [f"{name}.{path}" for path in paths_of(inner)]
    return found


@cache
def alternatives_in(cls: type) -> dict[str, str]:
    """Returns the fields of a config class that are alternatives (`InsteadOf`), each with the other field."""
    found: dict[str, str] = {}
    for name, hint in hints_of(cls).items():
        for mark in get_args(hint)[1:]:
            if isinstance(mark, InsteadOf):
                found |= {name: mark.name, mark.name: name}
    return found


def one_of_each(cls: type, given: Mapping[str, Any], before: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Returns the given values, with None for each alternative that they override.

    Args:
        cls: The config class.
        given: Values by field.
        before: Values that hold where none is given.

    Returns:
        The values, and a line for each two of which only one may be given.
    """
    values, problems = dict(given), []
    for name, other in alternatives_in(cls).items():
        if given.get(name) is None:
            continue
        if other not in given and before.get(other) is not None:
            values[other] = None
        elif given.get(other) is not None and name < other:
            problems.append(f"{name} = {show(given[name])} and {other} = {show(given[other])}: give one of them")
    return values, problems


@cache
def former_names(cls: type) -> dict[str, tuple[str, FormerName]]:
    """Returns the former names of a config class's fields, each with the present name and its mark."""
    return {mark.name: (name, mark) for name, mark in _marks(cls) if isinstance(mark, FormerName)}


@cache
def former_values(cls: type) -> dict[str, dict[str, str]]:
    """Returns the former values of a config class's fields, each with the present value, by field."""
    found: dict[str, dict[str, str]] = {}
    for name, mark in _marks(cls):
        if isinstance(mark, FormerValue):
            found.setdefault(name, {})[mark.former] = mark.value
    return found


def _marks(cls: type) -> list[tuple[str, object]]:
    """Returns the marks of the fields of a config class and of its parents, each with the field's name."""
    bases = [base for base in cls.__mro__ if dataclasses.is_dataclass(base)]
    return [(name, mark) for base in bases for name, hint in hints_of(base).items() for mark in get_args(hint)[1:]]


class Current(NamedTuple):
    """Result of `with_current_names`.

    Attributes:
        values: Values of today by names of today.
        former: Former names that were given, by the name of today.
        notes: For each former name and value, the field, and what a note says after the path that was given.
        problems: A line for each former name that cannot be read.
    """

    values: dict[str, Any]
    former: dict[str, str]
    notes: list[tuple[str, str]]
    problems: list[str]


def with_current_names(cls: type, given: Mapping[str, Any], stored: bool = False) -> Current:
    """Returns the given values under the present names.

    Args:
        cls: The config class.
        given: Values by name.
        stored: Whether a stored run gives them, in which every former name may stand.
    """
    former = former_names(cls)
    found = {former[name][0]: name for name in given if name in former and name not in fields_of(cls)}
    problems = []
    for name, old in found.items():
        if name in given:
            problems.append(f"{old} is the former name of {name}: give {name} alone")
        elif former[old][1].beside in fields_of(cls) and not stored:
            problems.append(f"{old} = {show(given[old])}: {former[old][1].refused}")
    today = {old: name for name, old in found.items()}
    values = {today.get(name, name): value for name, value in given.items()}
    notes = [(name, f" is now called {name}") for name in found]
    for name, known in former_values(cls).items():
        if isinstance(value := values.get(name), str) and value in known:
            values[name] = known[value]
            notes.append((name, f" = {value} is now called {known[value]}"))
    return Current(values, found, notes, problems)


def from_stored(cls: type[T], values: Mapping[str, Any]) -> T:
    """Returns settings from the values of a stored run, which may use any former name."""
    known: type = cls
    today = with_current_names(known, values, stored=True).values
    sections = {name: settings_class(hints_of(known).get(name)) for name in today}
    return cls(
        **{
            name: from_stored(section, value) if (section := sections[name]) and isinstance(value, Mapping) else value
            for name, value in today.items()
        }
    )


def _renamed(cls: type, given: Mapping[str, Any], path: str, problems: list[str]) -> dict[str, Any]:
    """Returns the values of a constructor call under present names; warns of former ones, and adds to `problems`."""
    today = with_current_names(cls, given)
    problems += [f"code: {path}: {line}" for line in today.problems]
    for name, note in () if today.problems else today.notes:
        warnings.warn(f"{path}.{today.former.get(name, name)}{note}", FutureWarning, stacklevel=3)
    return today.values


def default_of(field: dataclasses.Field[Any]) -> Any:
    """Returns the default of a field; ``dataclasses.MISSING`` if a value must be given."""
    return field.default if field.default_factory is MISSING else field.default_factory()


def is_required(field: dataclasses.Field[Any]) -> bool:
    """Returns whether a value is required."""
    return field.default is MISSING and field.default_factory is MISSING


def _read(cls: type, given: Mapping[str, Any], path: str, problems: list[str]) -> dict[str, Any]:
    """Returns the checked values of a constructor call; adds a line to `problems` for each mistake."""
    fields, hints = fields_of(cls), hints_of(cls)
    read: dict[str, Any] = {}
    for name, value in given.items():
        here = f"{path}.{name}"
        if name not in fields:
            problems.append(f"code: {here} = {show(value)}: {unknown(suggestion(name, paths_of(cls)), fields)}")
            continue
        inner = settings_class(hints[name])
        if inner is not None and isinstance(value, Mapping):
            before = len(problems)
            parts = _renamed(inner, {str(key): part for key, part in value.items()}, here, problems)
            parts = _read(inner, parts, here, problems)
            if len(problems) == before:
                read[name] = inner(**parts)
            continue
        read[name], wrong = check(hints[name], value)
        if wrong:
            problems.append(f"code: {here} = {show(value)}: {wrong}")
    return read


def _built(cls: type, values: Mapping[str, Any], given: frozenset[str], problems: list[str]) -> Any:
    """Returns the instance of a constructor call, or the error with all of its problems."""
    if problems:
        raise ConfigError(*problems)
    try:
        return build(cls, values, given)
    except ValueError as error:  # of a __post_init__
        raise ConfigError(f"code: {cls.__name__}: {error}") from error


def unknown(hint: str, known: Collection[str]) -> str:
    """Returns the message for an unknown setting: a hint to a similar one, and the `known` names."""
    listed = f"; known here: {', '.join(known)}" if len(known) <= FEW else ""
    return f"there is no such setting{f'{hint}{listed}' or '; rookery config schema lists all settings'}"


def check(hint: Any, value: Any) -> tuple[Any, str]:
    """Returns the value as a field of type `hint` stores it, and the problem (an empty string if valid)."""
    from pydantic_core import ValidationError

    if not isinstance(value, Settings) and is_undecided(value):
        return value, ""
    try:
        return _validator(hint).validate_python(value), ""
    except ValidationError as error:
        details = error.errors(include_url=False, include_context=False, include_input=False)
    for detail in details:
        if detail["type"] == "schedule":
            return None, detail["msg"]
    own = [detail["msg"] for detail in details if detail["type"] in ("value_error", "assertion_error")]
    return None, f"must be {describe(hint)}{''.join(f'; {text}' for text in own)}{advice(hint, value)}"


def advice(hint: Any, value: Any) -> str:
    """Returns a remedy if the mistake is a common one."""
    schedule = ", such as {'start': 0.001, 'end': 0}" if is_scheduled(hint) else ""
    kinds = {bare(part) for part in alternatives(hint)}
    words = [
        choice for part in alternatives(hint) if get_origin(bare(part)) is Literal for choice in get_args(bare(part))
    ]
    if isinstance(value, type) and (word := value.__name__.lower()) in words:
        return f"; write {word!r}"
    if isinstance(value, Mapping) and {"pi", "vf", "qf"} & value.keys():
        return "; actor and critic have the same"
    if not isinstance(value, str):
        return schedule if callable(value) or isinstance(value, list | tuple) else ""
    if value == "auto" and types.NoneType in kinds and value not in words:
        return "; write null (in code None)"
    if value == "stack" and "lstm" in get_args(bare(hint)):
        return "; frame_stack = 4 beside it stacks observations"
    for section in kinds:
        if isinstance(section, type) and issubclass(section, Settings):
            for name, inside in hints_of(section).items():
                if any(value in get_args(bare(part)) for part in alternatives(inside)):
                    return f"; write its {name} = {show(value)}"
    if kinds & {int, float}:
        try:
            float(value)
            return "; write it without quotes"
        except ValueError:
            if schedule:
                return schedule
    return nearest(value, [word for word in words if isinstance(word, str)])


@cache
def _validator(hint: Any) -> Any:
    from pydantic import ConfigDict, TypeAdapter

    config = ConfigDict(strict=True, arbitrary_types_allowed=True, allow_inf_nan=False)
    return TypeAdapter(_lossless(hint), config=config)


def _lossless(hint: Any) -> Any:
    """Returns the type with lossless conversions: 3.0 to int, and a list to a tuple."""
    from pydantic import BeforeValidator, GetPydanticSchema
    from pydantic_core import core_schema

    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _annotated(_lossless(args[0]), args[1:])
    if origin in (Union, types.UnionType):
        return _union(_lossless(arg) for arg in args)
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        instance = core_schema.is_instance_schema(hint)  # whose values were checked when it was made
        return _annotated(Any, [GetPydanticSchema(lambda source, handler: instance)])
    if hint is int:
        return _annotated(int, [BeforeValidator(_whole)])
    if origin is tuple or hint is tuple:
        inner = (
            types.GenericAlias(tuple, tuple(arg if arg is ... else _lossless(arg) for arg in args)) if args else tuple
        )
        return _annotated(inner, [BeforeValidator(lambda value: tuple(value) if isinstance(value, list) else value)])
    if origin in (list, dict):
        return origin[tuple(_lossless(arg) for arg in args)]
    return hint


def _whole(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return int(value) if isinstance(value, Integral) and not isinstance(value, bool) else value


def _closed(hint: Any) -> Any:
    """Returns the type with closed bounds: a schedule may end at 0 where a constant must be above 0."""
    if get_origin(hint) is Annotated:
        limits = [
            Ge(limit.gt) if isinstance(limit, Gt) else Le(limit.lt) if isinstance(limit, Lt) else limit  # type: ignore[arg-type]
            for limit in limits_of(hint)
        ]
        return _annotated(get_args(hint)[0], limits)
    return _union(_closed(part) for part in alternatives(hint)) if len(alternatives(hint)) > 1 else hint


def _annotated(hint: Any, metadata: Iterable[Any]) -> Any:
    form: Any = Annotated
    return form[(hint, *metadata)]


def _union(hints: Iterable[Any]) -> Any:
    return reduce(or_, hints)


def limits_of(hint: Any) -> list[Any]:
    """Returns the limits of an annotated type, given alone, in an Interval or in pydantic's Field."""
    found: list[Any] = []
    for item in get_args(hint)[1:] if get_origin(hint) is Annotated else ():
        is_group = getattr(item, "__is_annotated_types_grouped_metadata__", False)  # 30 times as fast as isinstance
        found += item if is_group else getattr(item, "metadata", [item])
    return found


def bare(hint: Any) -> Any:
    """Returns the type without its metadata."""
    return get_args(hint)[0] if get_origin(hint) is Annotated else hint


def alternatives(hint: Any) -> tuple[Any, ...]:
    """Returns the types of a union, flat; a tuple of one for other types."""
    inner = bare(hint)
    if get_origin(inner) in (Union, types.UnionType):
        return tuple(part for arg in get_args(inner) for part in alternatives(arg))
    return (hint,)


@cache
def optional(hint: Any) -> bool:
    """Returns whether the type allows None."""
    return types.NoneType in alternatives(hint)


def is_scheduled(hint: Any) -> bool:
    """Returns whether a field accepts a schedule in place of its value."""
    parts = [part for part in (hint, *get_args(bare(hint))) if get_origin(part) is Annotated]
    return any(isinstance(item, _Scheduled) for part in parts for item in get_args(part)[1:])


def plain_parts(hint: Any) -> tuple[Any, ...]:
    """Returns the types of a union without schedules; a tuple of one for other types."""
    scheduled = is_scheduled(hint)
    return tuple(part for part in alternatives(hint) if not (scheduled and part is Any))


@cache
def settings_class(hint: Any) -> type[Settings] | None:
    """Returns the config class of a field with nested settings, which may be optional."""
    kinds = [bare(part) for part in alternatives(hint) if part is not types.NoneType]
    return kinds[0] if len(kinds) == 1 and isinstance(kinds[0], type) and issubclass(kinds[0], Settings) else None


_WORDS = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "a text",
    types.NoneType: "null",
    Any: "anything",
    tuple: "a list",
    list: "a list",
    dict: "a mapping",
    type: "a class",
    Callable: "a function or class",
}


def describe(hint: Any) -> str:
    """Describes the values of a field of this type: "a number above 0 and at most 1"."""
    if len(alternatives(hint)) > 1:
        return " or ".join([*map(describe, plain_parts(hint)), *["a schedule of it"] * is_scheduled(hint)])
    inner = bare(hint)
    origin, args = get_origin(inner), get_args(inner)
    if origin is Literal:
        return " or ".join(show(arg) for arg in args)
    if origin is tuple and args:
        if args[-1] is ...:
            return f"a list, each {describe(args[0])}"
        return f"a list of {len(args)}: {', '.join(describe(arg) for arg in args)}"
    if inner in _WORDS:
        in_percent = any(isinstance(item, InPercent) for item in limits_of(hint))
        return f"{_WORDS[inner]}{_range(limits_of(hint))}{', or in percent, as in 10%' * in_percent}"
    if isinstance(inner, type) and origin is None:
        return f"a section of settings ({inner.__name__})" if issubclass(inner, Settings) else f"a {inner.__name__}"
    return _WORDS.get(origin, str(inner))


def _range(limits: list[Any]) -> str:
    """Returns the limits as text, with a space before them; empty if there are none."""
    low, high = [x for x in limits if isinstance(x, Ge | Gt)], [x for x in limits if isinstance(x, Le | Lt)]
    if len(low) == len(high) == 1 and isinstance(low[0], Ge) and isinstance(high[0], Le):
        return f" from {low[0].ge} to {high[0].le}"
    words = [f"of at least {x.ge}" if isinstance(x, Ge) else f"above {x.gt}" for x in low]
    words += [f"at most {x.le}" if isinstance(x, Le) else f"below {x.lt}" for x in high]
    return f" {' and '.join(words)}" if words else ""


def object_name(value: Any) -> str:
    """Returns ``module:Name`` of a class or function, which `import_object` reads back; empty for other things."""
    named = isinstance(value, type | types.FunctionType | types.BuiltinFunctionType)
    return f"{value.__module__}:{value.__qualname__}" if named else ""


def show(value: Any) -> str:
    """Returns a value for a message, on one line of at most 80 characters."""
    text = object_name(value) or " ".join(repr(value).split())
    return text if len(text) <= 80 else f"{text[:77]}..."
