"""Search spaces: the possible values of a parameter (Domain), and how the values of a suggestion are drawn.

A domain takes the place of a setting's value, at any depth (`tune/spec.py` extracts it):

    PPOConfig(lr=tune.loguniform(1e-4, 1e-2), model=ModelConfig(hidden=tune.choice([[64, 64], [128, 128]])))

Names and meaning are those of Ray Tune: `randint` excludes its upper end, the variants with a q include it. One thing
is stricter: the bounds of a variant with a q must be multiples of it, and then all its values are equally likely (in
the logarithm where it has one), the two ends too.
"""

from __future__ import annotations

import inspect
import math
import re
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from numbers import Real
from statistics import NormalDist
from types import CodeType, FunctionType
from typing import Any, ClassVar

import numpy as np

from rookery.core.errors import ConfigError
from rookery.core.moved import new_names
from rookery.core.schedules import Schedule, write_schedule
from rookery.core.seeding import Role, Streams
from rookery.core.settings.fields import Settings, Undecided, is_undecided, object_name, show
from rookery.core.settings.layers import mapping_of

Rng = np.random.Generator


@dataclass(frozen=True, repr=False, kw_only=True)
class Domain(Undecided, ABC):
    """Possible values of a parameter. The functions below make domains and check their arguments.

    Attributes:
        fixed: Whether a trial keeps its value to the end, because its checkpoints depend on it (`Job.fixed`).
    """

    fixed: bool = field(default=False, compare=False)

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Returns the domain in the JSON form of files: ``{"loguniform": [0.0001, 0.01]}``."""

    @abstractmethod
    def adopt(self, value: Any) -> Any:
        """Returns the value of this domain equal to `value`, which is from a point or from JSON.

        Raises:
            ConfigError: If `value` is not in the domain.
        """

    def contains(self, value: Any) -> bool:
        """Returns whether `value` is in the domain."""
        try:
            self.adopt(value)
        except ConfigError:
            return False
        return True

    def __repr__(self) -> str:
        """Returns the domain as written in code: ``loguniform(0.0001, 0.01)``."""
        ((kind, arguments),) = self.describe().items()
        inside = arguments if kind in ("choice", "grid_search", "sample_from") else str(arguments)[1:-1]
        return f"{kind}({inside})"


class Drawn(Domain):
    """A domain with a distribution."""

    @abstractmethod
    def quantile(self, u: float) -> Any:
        """Returns the quantile at probability `u` in [0, 1)."""

    def draw(self, rng: Rng) -> Any:
        """Draws a random value; takes one number from `rng`, whatever the domain."""
        return self.quantile(rng.random())


class Numeric(Drawn):
    """A distribution of real or whole numbers.

    Attributes:
        step: All values are multiples of it; None for any number.
    """

    step: float | None

    @abstractmethod
    def clip(self, value: float) -> Any:
        """Returns the nearest value of the domain."""

    def adopt(self, value: Any) -> Any:
        """Returns `value`, exactly on its step."""
        if _is_finite(value):
            near = self.clip(value)
            if near == value or (self.step and math.isclose(near, value, rel_tol=1e-9, abs_tol=self.step * 1e-9)):
                return near
        raise ConfigError(f"{show(value)} is not in {self}")


@dataclass(frozen=True, repr=False)
class Float(Numeric):
    """Numbers from `low` to `high`.

    Attributes:
        low: The smallest number.
        high: The largest number.
        log: Whether the logarithm is uniform.
        step: All values are multiples of it; None for any number.
    """

    low: float
    high: float
    log: bool = False
    step: float | None = None

    def describe(self) -> dict[str, Any]:
        """Returns its function and arguments."""
        kind = f"{'q' if self.step else ''}{'log' if self.log else ''}uniform"
        return {kind: [self.low, self.high] + ([self.step] if self.step else [])}

    def quantile(self, u: float) -> Any:
        """Returns the value at `u`; with a step, each value owns half a step on both its sides."""
        half = self.step / 2 if self.step else 0.0
        low, high = self.low - half, self.high + half
        if self.log:
            return self.clip(math.exp(math.log(low) * (1 - u) + math.log(high) * u))
        return self.clip(low * (1 - u) + high * u)

    def clip(self, value: float) -> Any:
        """Returns the nearest value of the domain."""
        inside = min(max(float(value), self.low), self.high)
        return _multiple(inside, self.step) if self.step else inside


@dataclass(frozen=True, repr=False)
class Integer(Float):
    """Whole numbers from `low` to `high`, both included (`randint(0, 3)` is ``Integer(0, 2)``).

    Attributes:
        low: The smallest number.
        high: The largest number.
        log: Whether the logarithm is uniform.
        step: All values are multiples of it, if it is not 1.
    """

    low: int
    high: int
    step: int = 1

    def describe(self) -> dict[str, Any]:
        """Returns its function and arguments."""
        kind = f"{'log' if self.log else ''}randint"
        return {kind: [self.low, self.high + 1]} if self.step == 1 else {f"q{kind}": [self.low, self.high, self.step]}

    def clip(self, value: float) -> Any:
        """Returns the nearest value of the domain; exact for whole numbers of any size."""
        inside = min(max(value, self.low), self.high)
        return round(inside if self.step == 1 else inside / self.step) * self.step


@dataclass(frozen=True, repr=False)
class Normal(Numeric):
    """Numbers of a normal distribution.

    Attributes:
        mean: Middle of the distribution.
        std: Standard deviation.
        step: All values are multiples of it; None for any number.
    """

    mean: float
    std: float
    step: float | None = None

    def describe(self) -> dict[str, Any]:
        """Returns its function and arguments."""
        arguments = [self.mean, self.std]
        return {"qrandn": [*arguments, self.step]} if self.step else {"randn": arguments}

    def quantile(self, u: float) -> float:
        """Returns the value at `u`; the ends have none, so the numbers next to them stand for 0 and 1."""
        return self.clip(NormalDist(self.mean, self.std).inv_cdf(min(max(u, 2.0**-54), 1 - 2.0**-53)))

    def share(self, value: float) -> float:
        """Returns the cumulative probability of `value`, the inverse of `quantile`."""
        return NormalDist(self.mean, self.std).cdf(value)

    def clip(self, value: float) -> float:
        """Returns the nearest value of the domain."""
        return _multiple(float(value), self.step) if self.step else float(value)


class Listed(Domain):
    """Values of any kind.

    Attributes:
        values: Values to choose from.
    """

    values: tuple[Any, ...]
    function: ClassVar[str]
    """Name of the function that makes the domain."""

    def quantile(self, u: float) -> Any:
        """Returns the value at a share `u` in [0, 1) of the list, in the order given."""
        return self.values[int(u * len(self.values))]

    def describe(self) -> dict[str, Any]:
        """Returns its function and values in JSON form."""
        return {self.function: to_json(self.values)}

    def adopt(self, value: Any) -> Any:
        """Returns the value of the list equal to `value`."""
        return self.values[self.index(value)]

    def index(self, value: Any) -> int:
        """Returns the index of `value` itself, or of the value with the same JSON form.

        Raises:
            ConfigError: If there is none.
        """
        for i, known in enumerate(self.values):
            if known is value:
                return i
        form = new_names(to_json(value))
        for i, known in enumerate(self.values):
            if new_names(to_json(known)) == form and isinstance(known, bool) == isinstance(value, bool):
                return i
        raise ConfigError(f"{show(value)} is not one of the values of {self}")


@dataclass(frozen=True, repr=False)
class Choices(Listed, Drawn):
    """One of several values, all equally likely."""

    values: tuple[Any, ...]
    function: ClassVar[str] = "choice"


@dataclass(frozen=True, repr=False)
class Grid(Listed):
    """Values that are all tried, in combination with all values of other grids."""

    values: tuple[Any, ...]
    function: ClassVar[str] = "grid_search"


@dataclass(frozen=True, repr=False)
class Computed(Domain):
    """Value that a function computes from the parameters chosen before.

    Attributes:
        function: Takes the configuration so far, a nested dict, and, if it has a second parameter, a NumPy generator.
    """

    function: Callable[..., Any]

    def describe(self) -> dict[str, Any]:
        """Returns its function."""
        return {"sample_from": to_json(self.function)}

    def adopt(self, value: Any) -> Any:
        """Returns `value`: a function may return any value."""
        return value

    def compute(self, config: Mapping[str, Any], rng: Rng) -> Any:
        """Returns its value, given the other parameters."""
        return self.function(config) if accepts(self.function, config) else self.function(config, rng)


# --- public functions -----------------------------------------------------------------------------------------------
# They return Any, because a domain takes the place of a number or a list.


def grid_search(values: Sequence[Any]) -> Any:
    """Tries every one of `values`, with every combination of other grids."""
    return Grid(_values("grid_search", values))


def choice(values: Sequence[Any]) -> Any:
    """Draws one of `values`, all equally likely."""
    return Choices(_values("choice", values))


def uniform(low: float, high: float) -> Any:
    """Draws a number from `low` to `high`."""
    return _range("uniform", low, high)


def quniform(low: float, high: float, q: float) -> Any:
    """Draws a multiple of `q` from `low` to `high`, both included."""
    return _range("quniform", low, high, q)


def loguniform(low: float, high: float) -> Any:
    """Draws a number from `low` to `high`, uniform in its logarithm."""
    return _range("loguniform", low, high)


def qloguniform(low: float, high: float, q: float) -> Any:
    """Draws a multiple of `q` from `low` to `high`, both included, uniform in its logarithm."""
    return _range("qloguniform", low, high, q)


def randint(low: int, high: int) -> Any:
    """Draws a whole number from `low` to `high` - 1."""
    return _range("randint", low, high)


def qrandint(low: int, high: int, q: int) -> Any:
    """Draws a whole multiple of `q` from `low` to `high`, both included."""
    return _range("qrandint", low, high, q)


def lograndint(low: int, high: int) -> Any:
    """Draws a whole number from `low` to `high` - 1, uniform in its logarithm."""
    return _range("lograndint", low, high)


def qlograndint(low: int, high: int, q: int) -> Any:
    """Draws a whole multiple of `q` from `low` to `high`, both included, uniform in its logarithm."""
    return _range("qlograndint", low, high, q)


def randn(mean: float = 0.0, std: float = 1.0) -> Any:
    """Draws a number of a normal distribution."""
    return Normal(_number("randn", "mean", mean), _positive("randn", "std", std))


def qrandn(mean: float, std: float, q: float) -> Any:
    """Draws a multiple of `q`: a number of a normal distribution, rounded."""
    return Normal(_number("qrandn", "mean", mean), _positive("qrandn", "std", std), _positive("qrandn", "q", q))


def sample_from(function: Callable[..., Any]) -> Any:
    """Computes a value from the configuration chosen so far.

    Args:
        function: Takes a nested dict, ``lambda config: config["algorithm"]["lr"] / 2``, and, if it has a second
            parameter, a NumPy generator of its own. It is called after all other domains are drawn; several functions
            are called in the order of the space, and each receives the values of those before it.
    """
    if not callable(function):
        raise ConfigError(f"sample_from: must be a function of the configuration so far, not {show(function)}")
    if not (accepts(function, {}) or accepts(function, {}, None)):
        raise ConfigError(f"sample_from: {show(function)} must take the configuration so far as its first argument")
    return Computed(function)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (grid_search, choice, uniform, quniform, loguniform, qloguniform, randint, qrandint, lograndint,
                     qlograndint, randn, qrandn, sample_from)
}  # fmt: skip
"""The functions by name, as in files."""


# --- suggestions ----------------------------------------------------------------------------------------------------


def drawn(space: Mapping[str, Domain], streams: Streams, number: int) -> dict[str, Any]:
    """Draws the values of suggestion `number` for all parameters with a distribution.

    Each parameter has its own random stream, which depends on the experiment's seed, `number` and its path: another
    parameter in the space does not change the values of those already in it.
    """
    return {
        path: domain.draw(stream(streams, number, path)) for path, domain in space.items() if isinstance(domain, Drawn)
    }


def stream(streams: Streams, number: int, path: str) -> Rng:
    """Returns the random generator of one parameter in suggestion `number`."""
    return streams.generator(Role.TUNE, "search", number, path)


def grid_size(space: Mapping[str, Domain]) -> int:
    """Returns the number of combinations of all grids; 1 if there is no grid."""
    return math.prod(len(domain.values) for domain in space.values() if isinstance(domain, Grid))


def cell(space: Mapping[str, Domain], number: int) -> dict[str, Any]:
    """Returns a combination of the values of all grids, in the order of nested loops over the space.

    The last grid changes fastest; after the last combination the first comes again.
    """
    values: dict[str, Any] = {}
    for path, domain in reversed(list(space.items())):
        if isinstance(domain, Grid):
            number, at = divmod(number, len(domain.values))
            values[path] = domain.values[at]
    return values


def to_json(value: Any) -> Any:
    """Returns a value in JSON form, for files and comparisons.

    Classes and functions become ``module:Name``, a lambda with a checksum of its code; domains the result of
    `Domain.describe`; other objects their `repr`, without the address.
    """
    if isinstance(value, Domain):
        return value.describe()
    if isinstance(value, Settings):
        return {str(key): to_json(part) for key, part in mapping_of(value).items()}
    if isinstance(value, Schedule):
        return write_schedule(value)
    if isinstance(value, Mapping):
        return {str(key): to_json(part) for key, part in value.items()}
    if isinstance(value, tuple | list):
        return [to_json(part) for part in value]
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, FunctionType) and value.__name__ == "<lambda>":
        code = value.__code__
        constants = [part for part in code.co_consts if not isinstance(part, CodeType)]
        return f"{object_name(value)}#{zlib.crc32(code.co_code + repr((constants, code.co_names)).encode()):08x}"
    return object_name(value) or re.sub(r" at 0x[0-9a-fA-F]+", "", " ".join(repr(value).split()))


# --- arguments ------------------------------------------------------------------------------------------------------


def _is_finite(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)


def _number(kind: str, name: str, value: Any) -> float:
    if not _is_finite(value):
        raise ConfigError(f"{kind}: {name} must be a finite number, not {show(value)}")
    return float(value)


def _whole(kind: str, name: str, value: Any) -> int:
    if not (_is_finite(value) and value == int(value)) or abs(value) > 2**63:
        raise ConfigError(f"{kind}: {name} must be a whole number of at most 64 bits, not {show(value)}")
    return int(value)


def _positive(kind: str, name: str, value: Any) -> float:
    if _number(kind, name, value) <= 0:
        raise ConfigError(f"{kind}: {name} must be above 0, not {show(value)}")
    return float(value)


def _range(kind: str, low: Any, high: Any, q: Any = None) -> Domain:
    """Checks the arguments of the function `kind` and returns its domain; bounds are put exactly on the step `q`."""
    whole, log = "randint" in kind, "log" in kind
    read = _whole if whole else _number
    low, high = read(kind, "low", low), read(kind, "high", high)
    if low >= high:
        excluded = ", which is excluded" if whole and q is None else ""
        raise ConfigError(f"{kind}: low must be below high{excluded}, not {low:g} and {high:g}")
    if log and low <= 0:
        raise ConfigError(
            f"{kind}: low must be above 0, where the logarithm begins, not {low:g}; "
            f"write a small number, or {kind.replace('log', '')}"
        )
    if q is not None:
        q = read(kind, "q", _positive(kind, "q", q))
        for name, bound in (("low", low), ("high", high)):
            exact = (
                bound % q == 0 if whole else math.isclose(bound, _multiple(bound, q), rel_tol=1e-9, abs_tol=q * 1e-9)
            )
            if not exact:
                below = _multiple(math.floor(bound / q) * q, q)
                raise ConfigError(
                    f"{kind}: {name} must be a multiple of q = {q:g}, not {bound:g}; write {below:g} or {below + q:g}"
                )
    if whole:
        return Integer(low, high - (q is None), log, 1 if q is None else q)
    return Float(low, high, log) if q is None else Float(_multiple(low, q), _multiple(high, q), log, q)


def _values(kind: str, values: Any) -> tuple[Any, ...]:
    """Checks the argument of the function `kind` and returns it as a tuple."""
    if isinstance(values, str | bytes | Mapping | set | frozenset) or not hasattr(values, "__iter__"):
        order = " (a set has no order)" if isinstance(values, set | frozenset) else ""
        raise ConfigError(f"{kind}: the argument must be a list of values, not {show(values)}{order}")
    found = tuple(values)
    if not found:
        raise ConfigError(f"{kind}: at least one value is required")
    named: dict[str, Any] = {}
    for value in found:
        if is_undecided(value):
            raise ConfigError(f"{kind}: values must not be domains, like {show(value)}; give each parameter one domain")
        form = to_json(value)
        if isinstance(form, str) and not isinstance(value, str) and named.setdefault(form, value) is not value:
            raise ConfigError(f"{kind}: two values have the same name {form!r}; give them different names")
    return found


def accepts(function: Any, *arguments: Any) -> bool:
    """Returns whether an object can be called with these arguments, according to its signature."""
    try:
        inspect.signature(function).bind(*arguments)
    except TypeError:
        return False
    except ValueError:  # a builtin without a signature
        return True
    return True


def _multiple(value: float, step: float) -> float:
    """Returns the multiple of `step` nearest to `value`, in decimal arithmetic: three times 0.1 is 0.3."""
    return float(round(value / step) * Decimal(repr(step)))
