"""Chooses a variant of an environment, in C or in Python, that steps many instances with identical results."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import gymnasium

from rookery.core.settings.layers import import_object
from rookery.envs.adapters.bundled import OURS
from rookery.envs.adapters.classic import BATCHED_VARIANTS, is_gymnasiums
from rookery.envs.native.variants import native_unavailable_reason, native_variant_of, variant_of_id
from rookery.envs.vector.makers import is_vector_class


def variants_of(found: Any, implementation: str, render: bool = False) -> list[Any]:
    """Returns the variants that step many instances with identical results (and render them if requested), the fastest
    first; variants of a parent class do not count, because its rules may differ. For ``batched`` a vector entry point
    is accepted, too.
    """
    is_id = isinstance(found, gymnasium.envs.registration.EnvSpec) and is_gymnasiums(found)
    batched = (
        BATCHED_VARIANTS.get(found.id) if is_id else vars(found).get("batched") if inspect.isclass(found) else None
    )
    batched = batched if is_vector_class(batched) else None
    if implementation == "batched":
        return [batched or _vector_entry(found)]
    compiled = native_variant_of(batched) or (variant_of_id(found.id) if is_id else None)
    if compiled is not None and render and not compiled.draws:
        compiled = None
    return [variant for variant in (compiled, batched if implementation == "auto" else None) if variant is not None]


def usable_variant(
    variants: Sequence[Any],
    implementation: str,
    wrappers: Sequence[Any],
    num_lanes: int,
    settings: Mapping[str, Any],
    parameters: Collection[str] | None,
) -> tuple[Any, str]:
    """Returns the first usable variant and an empty string; or None and the reason."""
    reason = native_unavailable_reason() if implementation == "c" else ""
    reason = reason or f"this environment has no variant in C{'' if implementation == 'c' else ' and no batched one'}"
    for variant in variants:
        reason = _why_unusable(variant, wrappers, num_lanes, settings, parameters)
        if not reason:
            return variant, ""
    return None, reason


def _vector_entry(found: Any) -> Any:
    """Returns the vector entry point of an environment, whose results may differ, or None."""
    if not isinstance(found, gymnasium.envs.registration.EnvSpec):
        return vars(found).get("vector_entry_point") if inspect.isclass(found) else None
    if found.vector_entry_point == "ale_py.vector_env:AtariVectorEnv":
        return functools.partial(import_object(OURS["Atari"]).vector_entry_point, **found.kwargs)
    if found.vector_entry_point is None:
        return None
    return functools.partial(gymnasium.make_vec, found, vectorization_mode="vector_entry_point")


def _why_unusable(
    variant: Any,
    wrappers: Sequence[Any],
    num_lanes: int,
    settings: Mapping[str, Any],
    parameters: Collection[str] | None,
) -> str:
    """Returns the reason why a variant cannot be used; an empty string if it can."""
    if variant is None:
        return "this environment has no batched variant and no vector entry point"
    if wrappers:
        return "env.wrappers wrap single environments"
    try:
        inspect.signature(variant).bind(num_lanes, **settings)
    except TypeError as error:
        return f"its batched variant does not take env.config: {error}"
    missing = [name for name in parameters or () if name not in getattr(variant, "parameters", ())]
    return f"its batched variant has no parameter {missing[0]}" if missing else ""
