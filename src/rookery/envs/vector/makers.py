"""Makers of vectorized environments: classes of `VectorEnv`s, and foreign vector environments.

The latter are Gymnasium's vector environments and tensor environments, recognized by an argument ``num_envs``.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import gymnasium

from rookery.core.errors import EnvError, nearest
from rookery.core.process.tracebacks import described
from rookery.envs.base import VectorEnv
from rookery.envs.schemes import EnvScheme, scheme
from rookery.envs.vector.foreign import ForeignEnv


class VectorClass(EnvScheme):
    """Classes of `VectorEnv`s."""

    def plays_many(self, maker: Any) -> bool:
        """See `EnvScheme.plays_many`."""
        return is_vector_class(maker)

    def build(
        self,
        maker: Any,
        num_lanes: int,
        settings: Mapping[str, Any],
        name: str,
        *,
        render: bool = False,
        max_entities: int | None = None,
        first: Any = None,
    ) -> VectorEnv:
        """See `EnvScheme.build`."""
        with build_errors(maker, settings, name):
            built: VectorEnv = maker(num_lanes, **settings)
        return built


class Foreign(EnvScheme):
    """Makers of foreign vector environments, and of tensor environments."""

    def plays_many(self, maker: Any) -> bool:
        """See `EnvScheme.plays_many`."""
        return is_foreign(maker)

    def build(
        self,
        maker: Any,
        num_lanes: int,
        settings: Mapping[str, Any],
        name: str,
        *,
        render: bool = False,
        max_entities: int | None = None,
        first: Any = None,
    ) -> VectorEnv:
        """See `EnvScheme.build`."""
        render_options = {"render_mode": "rgb_array"} if render and "render_mode" in parameters_of_maker(maker) else {}
        with build_errors(maker, settings, name):
            made = maker(num_envs=num_lanes, **render_options, **settings)
            if plays_tensors(made):
                return scheme("tensors").build(maker, num_lanes, settings, name, first=made)
            built: VectorEnv = ForeignEnv(lambda: made, num_lanes, name, max_entities)
        return built


VECTOR_CLASS, FOREIGN = VectorClass(), Foreign()


def plays_tensors(env: Any) -> bool:
    """Returns whether a class or an object is that of a `TensorEnv`, without loading torch."""
    return bool(getattr(env, "plays_tensors", False))


def is_vector_class(found: Any) -> bool:
    """Returns whether `found` is a class of `VectorEnv`s, by its constructor's `num_lanes`, or one with arguments."""
    if isinstance(found, functools.partial):
        found = found.func
    return inspect.isclass(found) and hasattr(found, "step") and "num_lanes" in parameters_of_maker(found)


def is_foreign(found: Any) -> bool:
    """Returns whether `found` makes Gymnasium's kind of vector environment, or a tensor environment, by its class or a
    function's `num_envs`.
    """
    if inspect.isclass(found):
        return issubclass(found, gymnasium.vector.VectorEnv) or plays_tensors(found)
    return callable(found) and "num_envs" in parameters_of_maker(found)


def parameters_of_maker(maker: Any) -> Mapping[str, inspect.Parameter]:
    """Returns the parameters of a maker by name; none where they are not known."""
    try:
        return inspect.signature(maker).parameters
    except (TypeError, ValueError):  # some built-in callables have none
        return {}


@contextmanager
def build_errors(found: Any, settings: Mapping[str, Any], name: str) -> Iterator[None]:
    """Raises an EnvError for any other exception of a maker; see `_build_error`."""
    try:
        yield
    except EnvError:
        raise
    except Exception as error:
        raise _build_error(found, settings, name, error) from error


def _build_error(found: Any, settings: Mapping[str, Any], name: str, error: Exception) -> EnvError:
    """Returns the error for an exception of a maker: names a missing package, or the valid keys of `env.config`."""
    if isinstance(error, gymnasium.error.DependencyNotInstalled | ImportError):
        return EnvError(f"{name}: a package it needs is missing: {error}")
    if isinstance(error, TypeError) and (unknown := re.search(r"unexpected keyword argument '(\w+)'", str(error))):
        known = [known for known in parameters_of_maker(found) if known not in ("self", "num_lanes", "num_envs")]
        allowed = f"; it takes {', '.join(known)}" if known else ""
        return EnvError(f"{name}: env.config has {unknown[1]!r}, unknown to it{nearest(unknown[1], known)}{allowed}")
    return EnvError(f"{name}: building it with env.config {dict(settings)} raised {described(error)}")
