"""The inside of one environment copy, saved and put back: for environments that can say where they are.

Either the environment (unwrapped) has `get_state() -> value` and `set_state(value)`, where the value is made of
numbers, texts, arrays, lists and dicts; or it is one of Gymnasium's classics, whose state is a few attributes. Every
wrapper around it must be one whose state is known here. Otherwise the back end replays the episode's actions.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

ENVS = {
    "CartPoleEnv": ("state", "steps_beyond_terminated"),
    "PendulumEnv": ("state", "last_u"),
    "AcrobotEnv": ("state",),
    "MountainCarEnv": ("state",),
    "Continuous_MountainCarEnv": ("state",),
    "FrozenLakeEnv": ("s", "lastaction"),
    "CliffWalkingEnv": ("s", "lastaction"),
    "TaxiEnv": ("s", "lastaction", "taxi_orientation", "fickle_step"),
}
"""Gymnasium's own environments by class, with the attributes that change within an episode."""

WRAPPERS = {
    "TimeLimit": ("_elapsed_steps",),
    "OrderEnforcing": ("_has_reset", "_disable_render_order_enforcing"),
    "PassiveEnvChecker": ("checked_reset", "checked_step", "checked_render", "close_called"),
    "RescaleAction": (),
    "ClipAction": (),
    "FlattenObservation": (),
    "DtypeObservation": (),
}
"""Gymnasium's wrappers likewise; all of them may have others outside them."""


def capture(env: Any) -> dict[str, Any] | None:
    """Where a Gymnasium environment is, or None if it cannot say."""
    chain = _chain(env)
    if chain is None:
        return None
    *wrappers, inner = chain
    state: dict[str, Any] = {
        "wrappers": [
            {name: getattr(w, name) for name in WRAPPERS[type(w).__name__] if hasattr(w, name)} for w in wrappers
        ]
    }
    if _speaks(inner):
        state["own"] = inner.get_state()
    else:
        names = ENVS[type(inner).__name__]
        state["inner"] = {name: copy.deepcopy(getattr(inner, name)) for name in names if hasattr(inner, name)}
        state["rng"] = copy.deepcopy(inner.np_random.bit_generator.state)
    return state


def restore(env: Any, state: dict[str, Any]) -> None:
    """Puts back what `capture` gave; the environment must have been reset since it was made."""
    chain = _chain(env)
    assert chain is not None, "capture() gave a state, so restore() knows the environment"
    *wrappers, inner = chain
    for wrapper, values in zip(wrappers, state["wrappers"], strict=True):
        for name, value in values.items():
            setattr(wrapper, name, value)
    if "own" in state:
        inner.set_state(state["own"])
        return
    for name, value in state["inner"].items():
        setattr(inner, name, copy.deepcopy(value))
    inner.np_random.bit_generator.state = copy.deepcopy(state["rng"])


def can_capture(env: Any) -> bool:
    """Whether `capture` would give a state."""
    return _chain(env) is not None


def _chain(env: Any) -> list[Any] | None:
    """The wrappers from the outside in, then the environment; None if the state of any is unknown."""
    chain = []
    while hasattr(env, "env"):
        if type(env).__name__ not in WRAPPERS or not _is_gymnasium(env):
            return None
        chain.append(env)
        env = env.env
    known = type(env).__name__ in ENVS and _is_gymnasium(env) and isinstance(env.np_random, np.random.Generator)
    return [*chain, env] if known or _speaks(env) else None


def _is_gymnasium(env: Any) -> bool:
    return type(env).__module__.startswith("gymnasium.")


def _speaks(env: Any) -> bool:
    return callable(getattr(env, "get_state", None)) and callable(getattr(env, "set_state", None))
