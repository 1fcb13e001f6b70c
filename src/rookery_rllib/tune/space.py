"""Search spaces of 2021: ``tune.uniform`` and others anywhere in a nested configuration, and ``{"grid_search": []}``.

Each has a domain of Rookery's (`rookery.tune.space`), which samples the values. Paths are written with slashes, as in
Tune: ``model/fcnet_hiddens``.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rookery.face import ConfigError
from rookery.face import space as own_space

GRID = "grid_search"
"""The only key of a dict with grid values."""


class Domain:
    """Domain of a parameter."""

    def __init__(self, domain: Any) -> None:
        self.domain = domain

    def sample(self, spec: Any = None, size: int = 1) -> Any:
        """Samples a value, or a list of `size`, with NumPy's global generator."""
        drawn = [self.domain.quantile(np.random.random_sample()) for _ in range(size)]
        return drawn[0] if size == 1 else drawn

    def is_valid(self, value: Any) -> bool:
        return bool(self.domain.contains(value))

    @property
    def domain_str(self) -> str:
        return repr(self.domain)

    def __repr__(self) -> str:
        return f"tune.{self.domain!r}"


class Float(Domain):
    """Numbers between two bounds, or of a normal distribution."""

    @property
    def lower(self) -> Any:
        return getattr(self.domain, "low", None)

    @property
    def upper(self) -> Any:
        return getattr(self.domain, "high", None)


class Integer(Float):
    """Whole numbers between two bounds; the upper one is excluded."""

    @property
    def upper(self) -> Any:
        return self.domain.high + 1


class Categorical(Domain):
    """Values of any kind, all equally likely."""

    @property
    def categories(self) -> list[Any]:
        return list(self.domain.values)


class Function(Domain):
    """A value computed by a function of the rest of the configuration."""

    def __init__(self, func: Callable[..., Any]) -> None:
        if not callable(func):
            raise ConfigError(f"tune.sample_from: takes a function, as in sample_from(lambda spec: ...), not {func!r}")
        super().__init__(None)
        self.func = func

    def sample(self, spec: Any = None, size: int = 1) -> Any:
        values = [call_with(self.func, spec) for _ in range(size)]
        return values[0] if size == 1 else values

    def is_valid(self, value: Any) -> bool:
        return True

    def __repr__(self) -> str:
        return f"tune.sample_from({getattr(self.func, '__name__', self.func)})"


def call_with(function: Callable[..., Any], spec: Any) -> Any:
    """Calls a function of ``spec``, or of nothing."""
    return function(spec) if own_space.accepts(function, spec) else function()


# --- the functions scripts call ---------------------------------------------------------------------------------------


def grid_search(values: Sequence[Any]) -> dict[str, Any]:
    return {GRID: values}


def choice(categories: Sequence[Any]) -> Categorical:
    return Categorical(own_space.choice(list(categories)))


def uniform(lower: float, upper: float) -> Float:
    return Float(own_space.uniform(lower, upper))


def quniform(lower: float, upper: float, q: float) -> Float:
    return Float(own_space.quniform(lower, upper, q))


def loguniform(lower: float, upper: float, base: float = 10) -> Float:
    return Float(own_space.loguniform(lower, upper))


def qloguniform(lower: float, upper: float, q: float, base: float = 10) -> Float:
    return Float(own_space.qloguniform(lower, upper, q))


def randint(lower: int, upper: int) -> Integer:
    return Integer(own_space.randint(lower, upper))


def qrandint(lower: int, upper: int, q: int = 1) -> Integer:
    return Integer(own_space.qrandint(lower, upper, q))


def lograndint(lower: int, upper: int, base: float = 10) -> Integer:
    return Integer(own_space.lograndint(lower, upper))


def qlograndint(lower: int, upper: int, q: int, base: float = 10) -> Integer:
    return Integer(own_space.qlograndint(lower, upper, q))


def randn(mean: float = 0.0, sd: float = 1.0) -> Float:
    return Float(own_space.randn(mean, sd))


def qrandn(mean: float, sd: float, q: float) -> Float:
    return Float(own_space.qrandn(mean, sd, q))


def sample_from(func: Callable[..., Any]) -> Function:
    return Function(func)


def function(func: Callable[..., Any]) -> Callable[..., Any]:
    """Returns `func`, as the deprecated ``tune.function`` did."""
    return func


# --- places in a configuration ----------------------------------------------------------------------------------------


def is_grid(node: Any) -> bool:
    """Returns whether a dict has grid values."""
    return isinstance(node, Mapping) and len(node) == 1 and GRID in node


def parts_of(node: Any) -> list[tuple[Any, Any]]:
    """Returns the items of a dict or list; nothing for other values."""
    if isinstance(node, Mapping) and not is_grid(node):
        return list(node.items())
    return list(enumerate(node)) if isinstance(node, list | tuple) else []


def undecided(node: Any, path: tuple[Any, ...] = ()) -> dict[tuple[Any, ...], Any]:
    """Returns all domains and functions in a nested configuration, by their keys.

    Raises:
        ConfigError: If a value has a form that is not evaluated here.
    """
    if isinstance(node, Domain) or is_grid(node):
        return {path: node}
    if isinstance(node, Mapping) and len(node) == 1 and "eval" in node:
        raise ConfigError(
            f"{written_path(path)} = {dict(node)}: text is not run as code; write tune.sample_from(lambda spec: ...)"
        )
    found: dict[tuple[Any, ...], Any] = {}
    for key, part in parts_of(node):
        found |= undecided(part, (*path, key))
    return found


def written_path(path: Sequence[Any]) -> str:
    """Returns keys as Tune writes them, ``model/fcnet_hiddens``."""
    return "/".join(map(str, path))


def filled(node: Any, values: Mapping[str, Any], path: tuple[Any, ...] = (), missing: Any = None) -> Any:
    """Returns a copy of nested dicts and lists with domains replaced by values; other objects stay the same.

    Args:
        node: The configuration.
        values: Values by path, written with slashes.
        path: Keys that lead to `node`.
        missing: Value for places without a known value.
    """
    if isinstance(node, Domain) or is_grid(node):
        return values.get(written_path(path), missing)
    plain = type(node) in (dict, list, tuple)
    if not plain and not (isinstance(node, Mapping | list | tuple) and undecided(node)):
        return node  # a space, say, which is a mapping too
    if isinstance(node, Mapping):
        made = {key: filled(part, values, (*path, key), missing) for key, part in node.items()}
        return made if type(node) is dict else _like(node, made)
    parts = [filled(part, values, (*path, place), missing) for place, part in enumerate(node)]
    return type(node)(*parts) if hasattr(node, "_fields") else type(node)(parts)


def _like(node: Any, made: dict[Any, Any]) -> Any:
    """Returns a mapping of the class of another, if that can be made from a dict."""
    try:
        return type(node)(made)
    except TypeError:
        return made


class Unknown:
    """A value that has not been chosen yet."""

    def __repr__(self) -> str:
        return "<not chosen yet>"


UNKNOWN = Unknown()


class Spec(dict[str, Any]):
    """A nested configuration whose keys are attributes too; access to a value not chosen yet raises an error."""

    def __getitem__(self, key: Any) -> Any:
        value = super().__getitem__(key)
        if value is UNKNOWN:
            raise ConfigError(f"sample_from: {key} is not chosen yet: several sample_from are evaluated in order")
        return Spec(value) if type(value) is dict else value

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"the configuration has no {name!r}; it has {', '.join(map(str, self))}") from None


@dataclass(frozen=True)
class SpecFunction:
    """A function of ``spec`` as a function of the values chosen so far.

    Attributes:
        func: The function of the script.
        config: The whole configuration, with open places.
        spec: Further entries beside the configuration.
    """

    func: Callable[..., Any]
    config: Mapping[str, Any]
    spec: Mapping[str, Any]

    def __call__(self, known: Mapping[str, Any]) -> Any:
        """Returns the value, given the others by path."""
        spec = Spec({**self.spec, "config": filled(self.config, known, missing=UNKNOWN)})
        return call_with(self.func, spec)

    def __repr__(self) -> str:
        return f"sample_from({getattr(self.func, '__qualname__', self.func)})"


def space_of(config: Mapping[str, Any], spec: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Returns Rookery's domains by path, in Tune's order of grids: the first path varies fastest."""
    found = undecided(config)
    space: dict[str, Any] = {}
    grids: dict[str, Any] = {}
    for path, node in found.items():
        name = written_path(path)
        if isinstance(node, Function):
            space[name] = own_space.Computed(SpecFunction(node.func, config, dict(spec or {})))
        elif isinstance(node, Domain):
            space[name] = node.domain
        else:
            if not isinstance(node[GRID], list | tuple):
                raise ConfigError(f"{name}: grid_search takes a list of values, not {node[GRID]!r}")
            grids[name] = own_space.grid_search(node[GRID])
    return {**{name: grids[name] for name in sorted(grids, reverse=True)}, **space}


def seed_of_numpy() -> int:
    """Draws a seed from the script's own generator, so that a script that seeds it repeats its search."""
    return int(np.random.randint(2**31 - 1)) ^ random.getrandbits(16)
