"""Recognizes environments of ML-Agents' low-level API (`BaseEnv`) by their methods."""

from __future__ import annotations

import inspect
from typing import Any

METHODS = ("get_steps", "set_actions", "step", "reset")
"""Methods of such an environment, beside its attribute `behavior_specs`."""

WORKER = "worker_id"
"""Argument of a function that receives the index of the environment, from 0."""


def is_base_env(found: Any) -> bool:
    """Returns whether an object is such an environment, or a class of them."""
    return all(callable(getattr(found, method, None)) for method in METHODS)


def makes_base_envs(found: Any) -> bool:
    """Returns whether an object is such an environment or creates them, without calling it: a class of them, or a
    function whose annotated result is one, or that requires the argument `WORKER`.
    """
    if is_base_env(found):
        return True
    if not inspect.isfunction(found):
        return False
    try:
        signature = inspect.signature(found, eval_str=True)
    except (TypeError, ValueError, NameError, AttributeError, SyntaxError):
        return False
    worker, annotation = signature.parameters.get(WORKER), signature.return_annotation
    return (inspect.isclass(annotation) and is_base_env(annotation)) or (
        worker is not None and worker.default is worker.empty
    )
