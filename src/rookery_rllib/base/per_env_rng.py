"""State of the global random generators for each environment: `PerEnvRandomState`.

Environments of 2021 drew from `random` and `numpy.random` and took no seed. While one of their methods runs, the
generators have the state in which that environment left them, so environments and other code do not affect each other.
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
"""Lock of the process's generators: environments that are stepped in threads take turns."""

_numpy: Any = np.random
_bits, _set_bits = _numpy.get_bit_generator, _numpy.set_bit_generator
_global_random: Any = random.random.__self__  # type: ignore[attr-defined]
_current_random: random.Random = _global_random


class PerEnvRandomState:
    """State of the global generators for one environment: ``with random_state: env.step(action)``.

    NumPy's generator is exchanged, and so is `random` as scripts see it. Libraries that draw from `random` itself
    cost a copy of its state at both ends of the block.

    Args:
        seed: Seed of the generators; None = drawn from the system.
        libraries: Whether code of libraries may draw from `random` itself.
    """

    def __init__(self, seed: int | None = None, libraries: bool = True) -> None:
        self.libraries = libraries
        self._random = random.Random(seed)
        self._numpy: np.random.BitGenerator = np.random.MT19937(seed)
        self._outside: list[tuple[Any, ...]] = []

    def seed(self, seed: int) -> None:
        """Seeds both generators, as ``random.seed(seed)`` and ``numpy.random.seed(seed % 2**32)`` do."""
        self._random.seed(seed)
        with self:
            np.random.seed(seed % 2**32)

    def call(self, function: Callable[[Any], Any], argument: Any) -> Any:
        """Calls a function with this random state and returns its result; faster than a ``with`` statement."""
        global _current_random
        if self.libraries:
            with self:
                return function(argument)
        with _turn:
            drawing, bits = _current_random, _bits()
            _current_random = self._random
            _set_bits(self._numpy)
            try:
                return function(argument)
            finally:
                _current_random = drawing
                self._numpy = _bits()
                _set_bits(bits)

    def __enter__(self) -> PerEnvRandomState:
        global _current_random
        _turn.acquire()
        outside = None
        if self.libraries:
            outside = random.getstate()
            random.setstate(self._random.getstate())
        self._outside.append((_current_random, _bits(), outside))
        _current_random = _global_random if self.libraries else self._random
        _set_bits(self._numpy)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        global _current_random
        _current_random, bits, outside = self._outside.pop()
        self._numpy = _bits()
        _set_bits(bits)
        if outside is not None:
            self._random.setstate(random.getstate())
            random.setstate(outside)
        _turn.release()


def patched_random_functions() -> dict[str, Callable[..., Any]]:
    """Returns the functions of `random` as scripts see them: they draw from the environment that holds the lock."""

    def drawn(name: str) -> Callable[..., Any]:
        def draw(*arguments: Any, **named: Any) -> Any:
            return getattr(_current_random, name)(*arguments, **named)

        draw.__name__ = draw.__qualname__ = name
        draw.__module__ = "random"
        draw.__doc__ = getattr(random, name).__doc__
        return draw

    bound = (BuiltinMethodType, MethodType)
    names = [name for name, value in vars(random).items() if isinstance(value, bound) and _is_drawn(value)]
    return {name: drawn(name) for name in names}


# -- code that draws from `random` itself ------------------------------------------------------------------------------

CLEAN = {
    *sys.stdlib_module_names, "numpy", "gymnasium", *OWN, "torch", "PIL", "pettingzoo", "scipy", "pandas",
    "pygame", "Box2D", "cv2", "matplotlib", "mujoco", "ale_py", "keras",
}  # fmt: skip
"""Packages whose environments, and functions that environments call, leave `random` alone."""


def libraries_may_draw(env: Any) -> bool:
    """Returns whether library code that an environment may call may draw from `random`.

    Searches the modules that the methods of its class, and of environments it wraps, refer to, directly or through
    other modules. A module may draw if it refers to `random` or to a function of it.
    """
    waiting = [method.__globals__ for inner in env_and_inner(env) for method in _methods(type(inner))]
    seen: set[int] = set()
    while waiting:
        namespace = waiting.pop()
        if id(namespace) in seen or str(namespace.get("__name__")).partition(".")[0] in CLEAN:
            continue
        seen.add(id(namespace))
        if not _sees_names(namespace) and _knows_random(namespace):
            return True
        waiting += _referenced_globals(namespace)
    return False


def env_and_inner(env: Any) -> Iterator[Any]:
    """Yields an environment and those it wraps, outermost first."""
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
    return value is random or getattr(value, "__self__", None) is _global_random


def _knows_random(namespace: dict[str, Any]) -> bool:
    return any(_is_drawn(value) or "random" in _code_names(value) for value in list(namespace.values()))


def _code_names(value: Any) -> set[str]:
    """Returns the names in the code of a function, or of the methods of a class."""
    codes = [value.__code__] if isinstance(value, FunctionType) else []
    codes += [method.__code__ for method in _methods(value)] if isinstance(value, type) else []
    words: set[str] = set()
    while codes:
        code = codes.pop()
        words.update(code.co_names)
        codes += [part for part in code.co_consts if isinstance(part, CodeType)]
    return words


def _referenced_globals(namespace: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns the globals of modules that a module refers to, in its globals or in imports inside its functions."""
    found = []
    for value in list(namespace.values()):
        if isinstance(value, ModuleType):
            if not is_own(type(value).__module__):  # our own modules are known not to draw
                found.append(vars(value))
            continue
        functions = [value] if isinstance(value, FunctionType) else []
        functions += list(_methods(value if isinstance(value, type) else type(value)))
        found += [function.__globals__ for function in functions]
        found += [vars(sys.modules[word]) for word in _code_names(value) if word in sys.modules]
    return found
