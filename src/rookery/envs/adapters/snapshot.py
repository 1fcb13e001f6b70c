"""Saving and restoring the internal state of one environment, where it supports this.

The environment (unwrapped) has `get_state() -> value` and `set_state(value)`, where the value is made of numbers,
texts, arrays, lists and dicts; or it is one of Gymnasium's classic environments, whose state is a few attributes, one
of its MuJoCo environments, or an Atari game of ALE. Every wrapper around it must be one whose state is known here.
Otherwise the back end repeats the episode's actions.
"""

from __future__ import annotations

import copy
from operator import attrgetter
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
    "RecordEpisodeStatistics": (
        "episode_count", "episode_returns", "episode_lengths", "time_queue", "return_queue", "length_queue",
    ),
    "RescaleAction": (),
    "ClipAction": (),
    "FlattenObservation": (),
    "DtypeObservation": (),
    "GrayscaleObservation": (),
    "ResizeObservation": (),
    "ReshapeObservation": (),
    "RescaleObservation": (),
    "MaxAndSkipObservation": (),
    "TimeAwareObservation": ("timesteps",),
    "FrameStackObservation": ("obs_queue",),
    "NormalizeObservation": ("obs_rms.mean", "obs_rms.var", "obs_rms.count", "_update_running_mean"),
    "NormalizeReward": (
        "return_rms.mean", "return_rms.var", "return_rms.count", "discounted_reward", "_update_running_mean",
    ),
}  # fmt: skip
"""Gymnasium's wrappers by class, with the attributes that change within an episode; all of them may be wrapped by
others.
"""

LAGGING = ("xpos", "xipos")
"""Arrays of MuJoCo that Gymnasium's environments read before they step: positions of bodies at the start of the last
sub-step. They follow from that sub-step, not from the state after it, and so are saved separately.
"""


def capture(env: Any) -> dict[str, Any] | None:
    """Returns the state of a Gymnasium environment, or None if it is not supported."""
    chain = _chain(env)
    if chain is None:
        return None
    *wrappers, inner = chain
    state: dict[str, Any] = {
        "wrappers": [_attributes(wrapper, WRAPPERS[type(wrapper).__name__]) for wrapper in wrappers]
    }
    if _speaks(inner):
        return {**state, "own": inner.get_state()}
    state["rng"] = copy.deepcopy(inner.np_random.bit_generator.state)
    if _is_mujoco(inner):
        state["mujoco"] = _physics(inner)
    elif _is_ale(inner):
        state["ale"] = np.frombuffer(inner.ale.cloneState(include_rng=True).serialize(), np.uint8).copy()
    else:
        state["inner"] = _attributes(inner, ENVS[type(inner).__name__])
    return state


def restore(env: Any, state: dict[str, Any]) -> None:
    """Restores a state from `capture`; the environment must have been reset since it was made."""
    chain = _chain(env)
    assert chain is not None, "capture() returned a state, so restore() supports the environment"
    *wrappers, inner = chain
    for wrapper, values in zip(wrappers, state["wrappers"], strict=True):
        _put_back(wrapper, values)
    if "own" in state:
        inner.set_state(state["own"])
        return
    inner.np_random.bit_generator.state = copy.deepcopy(state["rng"])
    if "mujoco" in state:
        _put_back_physics(inner, state["mujoco"])
    elif "ale" in state:
        kept = type(inner.ale.cloneState())
        inner.ale.restoreState(kept(state["ale"].tobytes()))
    else:
        _put_back(inner, state["inner"])


def can_capture(env: Any) -> bool:
    """Whether `capture` would return a state."""
    return _chain(env) is not None


def _chain(env: Any) -> list[Any] | None:
    """Returns the wrappers from the outside in, then the environment; None if the state of any is unknown."""
    chain = []
    while hasattr(env, "env"):
        if type(env).__name__ not in WRAPPERS or not _is_gymnasium(env):
            return None
        chain.append(env)
        env = env.env
    listed = type(env).__name__ in ENVS and _is_gymnasium(env)
    known = (listed or _is_mujoco(env) or _is_ale(env)) and isinstance(env.np_random, np.random.Generator)
    return [*chain, env] if known or _speaks(env) else None


def _is_gymnasium(env: Any) -> bool:
    return type(env).__module__.startswith("gymnasium.")


def _is_mujoco(env: Any) -> bool:
    """Whether this is one of Gymnasium's MuJoCo environments itself: a derived class may have more state."""
    return type(env).__module__.startswith("gymnasium.envs.mujoco.") and hasattr(env, "data")


def _is_ale(env: Any) -> bool:
    return type(env).__module__ == "ale_py.env" and type(env).__name__ == "AtariEnv"


def _speaks(env: Any) -> bool:
    return callable(getattr(env, "get_state", None)) and callable(getattr(env, "set_state", None))


def _attributes(holder: Any, names: tuple[str, ...]) -> dict[str, Any]:
    """Returns copies of the attributes of `holder`, by name; ``a.b`` is attribute b of its a."""
    found = {}
    for name in names:
        try:
            found[name] = copy.deepcopy(attrgetter(name)(holder))
        except AttributeError:  # made only by the first reset or step
            continue
    return found


def _put_back(holder: Any, values: dict[str, Any]) -> None:
    for name, value in values.items():
        path, _, attribute = name.rpartition(".")
        setattr(attrgetter(path)(holder) if path else holder, attribute, copy.deepcopy(value))


def _physics(env: Any) -> dict[str, np.ndarray]:
    """Returns all arrays that MuJoCo's next step depends on, and those that the environment compares with them."""
    import mujoco

    what = mujoco.mjtState.mjSTATE_INTEGRATION
    numbers = np.zeros(mujoco.mj_stateSize(env.model, what))
    mujoco.mj_getState(env.model, env.data, numbers, what)
    return {"state": numbers, **{name: getattr(env.data, name).copy() for name in LAGGING}}


def _put_back_physics(env: Any, physics: dict[str, np.ndarray]) -> None:
    import mujoco

    what = mujoco.mjtState.mjSTATE_INTEGRATION
    mujoco.mj_setState(env.model, env.data, physics["state"], what)
    mujoco.mj_forward(env.model, env.data)  # the rest follows from the state: images need it
    mujoco.mj_setState(env.model, env.data, physics["state"], what)  # because that changed the solver's initial guess
    for name in LAGGING:
        getattr(env.data, name)[:] = physics[name]
