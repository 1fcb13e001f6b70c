"""Settings that cannot change when a run is resumed, and the errors if they do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rookery.core.config import DEFAULT, Resolved, current_setting
from rookery.core.errors import ConfigError, SpaceError
from rookery.core.settings.fields import Fixed
from rookery.core.settings.layers import flow
from rookery.core.state import StateError
from rookery.envs.base import VectorEnv
from rookery.envs.make import run_arguments
from rookery.envs.placeholder_env import PlaceholderEnv
from rookery.run.checkpoint.checkpoint import Saved
from rookery.run.settings import RunConfig

REASONS = {Fixed.STRUCTURAL: "keeps its value", Fixed.AT_START: "is read at the start only, and keeps its value"}

PLAYING = ("env.", "sampling.")
"""Sections that a run which has learned from data only can still change when it begins to sample."""


def texts(history: Mapping[str, list[tuple[str, Any]]]) -> dict[str, str]:
    """Returns the value of each setting as text, by path."""
    return {path: flow(given[-1][1]) for path, given in history.items()}


def check_changes(resolved: Resolved[RunConfig], before: Mapping[str, str]) -> None:
    """Refuses changes of settings that are fixed during a run.

    Args:
        resolved: The settings of the resumed run.
        before: Its values until now, as text, by path.

    Raises:
        ConfigError: If such settings are changed; names all of them and their sources.
    """
    problems = []
    before = dict(current_setting(resolved.config, path, value) for path, value in before.items())
    is_new = before.get("env.name", flow(None)) == flow(None)
    for path, given in resolved.history.items():
        (source, value), why = given[-1], resolved.why_fixed(path)
        was = before.get(path, flow(None))
        if why is None or path in resolved.inherited or flow(value) == was:
            continue
        if source == DEFAULT or (is_new and path.startswith(PLAYING)):
            continue
        if path == "env.name" and isinstance(value, str) and flow(value.rpartition(":")[2]) == was:
            continue  # the same id, named with the module that registers it
        argument = path.removeprefix("env.config.")
        if argument == path or argument not in run_arguments(resolved.config.env.name):
            problems.append(
                f"{source}: {path} = {flow(value)}: {REASONS[why]} in the middle of a run ({was}); leave it out, or "
                "train a new run with it"
            )
    if problems:
        raise ConfigError(*problems)


@contextmanager
def explain_mismatch(
    resolved: Resolved[RunConfig], saved: Saved, env: VectorEnv, other_env: bool = False
) -> Iterator[None]:
    """Context in which the state of a checkpoint is loaded; explains errors.

    Args:
        resolved: The settings of the resumed run.
        saved: The checkpoint.
        env: The environment.
        other_env: Whether its settings may differ from those of the checkpoint.

    Raises:
        ConfigError: If settings are changed that cannot change.
        SpaceError: If observations or actions differ from those of the checkpoint.
        StateError: If another version of Rookery wrote the state; names the checkpoint.
    """
    try:
        yield
    except Exception as error:
        check_fit(resolved, texts(resolved.history if other_env else saved.history), env, saved.facts.get("env"))
        if isinstance(error, StateError):
            raise StateError(f"{saved.path}: {error}") from None
        raise


def check_fit(resolved: Resolved[RunConfig], before: Mapping[str, str], env: VectorEnv, described: Any) -> None:
    """Raises the reason why a saved state does not fit the objects of a run, if it is known.

    Args:
        resolved: The settings of the resumed run.
        before: Its values until now, as text, by path.
        env: The environment.
        described: The checkpoint's description of its environment; None if it has none.

    Raises:
        ConfigError: If settings are changed that cannot change.
        SpaceError: If observations or actions differ from those of the checkpoint.
    """
    check_changes(resolved, before)
    if described is None:
        return
    was, now = ([(kind.obs.space, kind.action.space) for kind in one.kinds] for one in (PlaceholderEnv(described), env))
    if was != now:
        spaces = ["; ".join(f"see {obs} and act in {action}" for obs, action in kinds) for kinds in (was, now)]
        raise SpaceError(f"this run has learned from agents that {spaces[0]}; those of {env.name} {spaces[1]}")
