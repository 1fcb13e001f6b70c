"""The global random generators, one state for each copy of an environment: `Chance`.

Environments of 2021 drew from `random` and `numpy.random` and took no seed. While one of their methods runs, the
generators stand where that copy left them; copies, and whoever else draws, do not disturb each other.
"""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Callable, Iterator
from types import BuiltinMethodType, CodeType, FunctionType, MethodType, ModuleType, TracebackType
from typing import Any

import numpy as np

from rookery.core.packages import OWN, is_own
from rookery.script.importer import importer_of

_turn = threading.RLock()
"""The generators are those of the process: copies that are stepped in threads take turns."""

_numpy: Any = np.random
_bits, _set_bits = _numpy.get_bit_generator, _numpy.set_bit_generator
_everybody: Any = random.random.__self__  # type: ignore[attr-defined]
_drawing: random.Random = _everybody


class Chance:
    """The state of the global generators for one copy: ``with chance: env.step(action)``.

    Numpy's generator is exchanged; so is that of `random` as scripts see it. What libraries draw from `random` itself
    costs a copy of its state on the way in and out.

    Args:
        seed: Where the generators begin; None: somewhere.
        libraries: Whether code that is not of scripts may draw from `random`.
    """

    def __init__(self, seed: int | None = None, libraries: bool = True) -> None:
        self.libraries = libraries
        self._random = random.Random(seed)
        self._numpy: np.random.BitGenerator = np.random.MT19937(seed)
        self._outside: list[tuple[Any, ...]] = []

    def seed(self, seed: int) -> None:
        """Begins anew, as ``random.seed(seed)`` and ``numpy.random.seed(seed)`` do (seed taken modulo 2**32)."""
        self._random.seed(seed)
        with self:
            np.random.seed(seed % 2**32)

    def call(self, function: Callable[[Any], Any], argument: Any) -> Any:
        """Returns what a function gives that draws by this chance; as a ``with`` statement does, in less time."""
        global _drawing
        if self.libraries:
            with self:
                return function(argument)
        with _turn:
            drawing, bits = _drawing, _bits()
            _drawing = self._random
            _set_bits(self._numpy)
            try:
                return function(argument)
            finally:
                _drawing = drawing
                self._numpy = _bits()
                _set_bits(bits)

    def __enter__(self) -> Chance:
        global _drawing
        _turn.acquire()
        outside = None
        if self.libraries:
            outside = random.getstate()
            random.setstate(self._random.getstate())
        self._outside.append((_drawing, _bits(), outside))
        _drawing = _everybody if self.libraries else self._random
        _set_bits(self._numpy)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        global _drawing
        _drawing, bits, outside = self._outside.pop()
        self._numpy = _bits()
        _set_bits(bits)
        if outside is not None:
            self._random.setstate(random.getstate())
            random.setstate(outside)
        _turn.release()


def drawn_by_whose_turn_it_is() -> dict[str, Callable[..., Any]]:
    """Returns the functions of `random` as scripts see them: those of the generator of the copy whose turn it is."""

    def drawn(name: str) -> Callable[..., Any]:
        def draw(*arguments: Any, **named: Any) -> Any:
            return getattr(_drawing, name)(*arguments, **named)

        draw.__name__ = draw.__qualname__ = name
        draw.__module__ = "random"
        draw.__doc__ = getattr(random, name).__doc__
        return draw

    bound = (BuiltinMethodType, MethodType)
    names = [name for name, value in vars(random).items() if isinstance(value, bound) and _is_drawn(value)]
    return {name: drawn(name) for name in names}


# -- who draws from `random` itself ------------------------------------------------------------------------------------

CLEAN = {
    *sys.stdlib_module_names, "numpy", "gymnasium", *OWN, "torch", "PIL", "pettingzoo", "scipy", "pandas",
    "pygame", "Box2D", "cv2", "matplotlib", "mujoco", "ale_py", "keras",
}  # fmt: skip
"""Packages whose environments, and functions that environments call, leave `random` alone."""


def libraries_may_draw(env: Any) -> bool:
    """Says whether code that an environment may call, other than a script's own, may draw from `random`.

    What the methods of its class refer to is looked at, those of environments it wraps likewise, and so on through the
    modules that those refer to; a module draws if it knows `random` or anything of it.
    """
    waiting = [method.__globals__ for inner in inside(env) for method in _methods(type(inner))]
    seen: set[int] = set()
    while waiting:
        namespace = waiting.pop()
        if id(namespace) in seen or str(namespace.get("__name__")).partition(".")[0] in CLEAN:
            continue
        seen.add(id(namespace))
        if not _sees_names(namespace) and _knows_random(namespace):
            return True
        waiting += _referred(namespace)
    return False


def inside(env: Any) -> Iterator[Any]:
    """Goes through an environment and those it wraps, from the outside in."""
    seen: set[int] = set()
    while env is not None and id(env) not in seen:
        seen.add(id(env))
        yield env
        env = getattr(env, "__dict__", {}).get("env")


def _methods(cls: type) -> Iterator[FunctionType]:
    for base in cls.__mro__:
        yield from (value for value in list(vars(base).values()) if isinstance(value, FunctionType))


def _sees_names(namespace: dict[str, Any]) -> bool:
    return importer_of(namespace) is not None


def _is_drawn(value: Any) -> bool:
    return value is random or getattr(value, "__self__", None) is _everybody


def _knows_random(namespace: dict[str, Any]) -> bool:
    return any(_is_drawn(value) or "random" in _words(value) for value in list(namespace.values()))


def _words(value: Any) -> set[str]:
    """The names in the code of a function, or of the methods of a class."""
    codes = [value.__code__] if isinstance(value, FunctionType) else []
    codes += [method.__code__ for method in _methods(value)] if isinstance(value, type) else []
    words: set[str] = set()
    while codes:
        code = codes.pop()
        words.update(code.co_names)
        codes += [part for part in code.co_consts if isinstance(part, CodeType)]
    return words


def _referred(namespace: dict[str, Any]) -> list[dict[str, Any]]:
    """Globals of the modules that a module refers to, in its own globals or in imports inside its functions."""
    found = []
    for value in list(namespace.values()):
        if isinstance(value, ModuleType):
            if not is_own(type(value).__module__):  # of those, who draws is known
                found.append(vars(value))
            continue
        functions = [value] if isinstance(value, FunctionType) else []
        functions += list(_methods(value if isinstance(value, type) else type(value)))
        found += [function.__globals__ for function in functions]
        found += [vars(sys.modules[word]) for word in _words(value) if word in sys.modules]
    return found
