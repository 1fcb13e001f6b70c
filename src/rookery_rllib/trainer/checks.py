"""Checks for scripts and their tests: equal structures, a reached return, actions within bounds."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch

from rookery.face import ConfigError
from rookery_rllib.gym.rllib_spaces import holds


def framework_iterator(
    config: dict[str, Any] | None = None, frameworks: Any = ("tf2", "tf", "tfe", "torch"), session: bool = False
) -> Iterator[Any]:
    """Yields ``torch`` if it is among the frameworks; skips those of TensorFlow, with a note."""
    wanted = [frameworks] if isinstance(frameworks, str) else list(frameworks)
    others = [name for name in wanted if name != "torch"]
    if others:
        print(f"framework_iterator: {', '.join(map(str, others))} left out, models are torch's here")  # noqa: T201
    if "torch" in wanted:
        if config is not None:
            config["framework"] = "torch"
        yield ("torch", None) if session else "torch"


def _plain(value: Any) -> Any:
    return value.detach().cpu().numpy() if isinstance(value, torch.Tensor) else value


def _differ(x: Any, y: Any) -> AssertionError:
    return AssertionError(f"{x!r} is not {y!r}")


def check(
    x: Any,
    y: Any,
    decimals: int = 5,
    atol: float | None = None,
    rtol: float | None = None,
    false: bool = False,
) -> None:
    x, y = _plain(x), _plain(y)
    if isinstance(x, Mapping):
        if not isinstance(y, Mapping) or set(x) != set(y):
            raise AssertionError(f"keys differ: {list(x)} and {list(y) if isinstance(y, Mapping) else y!r}")
        for key in x:
            check(x[key], y[key], decimals, atol, rtol, false)
        return
    if isinstance(x, list | tuple):
        if not isinstance(y, list | tuple | np.ndarray) or len(x) != len(y):
            raise AssertionError(f"lengths differ: {x!r} and {y!r}")
        for one, other in zip(x, y, strict=True):
            check(one, other, decimals, atol, rtol, false)
        return
    if _same(x, y, decimals, atol, rtol) == false:
        raise AssertionError(f"{x!r} is the same as {y!r}") if false else _differ(x, y)


def _same(x: Any, y: Any, decimals: int, atol: float | None, rtol: float | None) -> bool:
    if isinstance(x, bool | np.bool_):
        return bool(x) is bool(y)
    if x is None or y is None or isinstance(x, str | int):
        return bool(np.all(x == y))
    first, second = np.asarray(x), np.asarray(y)
    if first.dtype == object or first.dtype.kind in "US":
        return bool(np.array_equal(first, second))
    try:
        if atol is None and rtol is None:
            np.testing.assert_almost_equal(first, second, decimal=decimals)
        else:
            np.testing.assert_allclose(first, second, atol=atol or 0, rtol=1e-7 if rtol is None else rtol)
    except AssertionError:
        return False
    return True


def check_learning_achieved(tune_results: Any, min_reward: float, evaluation: bool = False) -> None:
    last = tune_results.trials[0].last_result
    reached = (last["evaluation"] if evaluation else last)["episode_reward_mean"]
    if not reached >= min_reward:
        raise ValueError(f"`stop-reward` of {min_reward} not reached: {reached}")
    print("ok")  # noqa: T201


def check_compute_single_action(
    trainer: Any, include_state: bool = False, include_prev_action_reward: bool = False
) -> None:
    policy = trainer.get_policy()
    state = [np.asarray(_plain(part)) for part in policy.model.get_initial_state()] if include_state else None
    last = {}
    if include_prev_action_reward:
        last = {"prev_action": policy.action_space.sample(), "prev_reward": 1.0}
    seen = policy.observation_space
    for target, explore in itertools.product((policy, trainer), (True, False)):
        whole = target is trainer
        space = getattr(seen, "original_space", seen) if whole else seen
        for full in (False, True) if whole else (False,):
            extra: dict[str, Any] = {"full_fetch": full} if whole else {"clip_actions": True}
            method = target.compute_action if whole else target.compute_single_action
            action = method(space.sample(), state, explore=explore, **last, **extra)
            if state or full or not whole:
                action, after, _ = action
                for one, other in zip(state or (), after or (), strict=bool(after)):
                    check(list(np.shape(one)), list(np.shape(other)))
            if not holds(policy.action_space, action):
                raise ValueError(f"action {action} of {target} is outside of {policy.action_space}")


def check_train_results(train_results: Mapping[str, Any]) -> Mapping[str, Any]:
    expected = (
        "config", "custom_metrics", "episode_len_mean", "episode_reward_max", "episode_reward_mean",
        "episode_reward_min", "episodes_total", "hist_stats", "info", "iterations_since_restore",
        "num_healthy_workers", "perf", "policy_reward_max", "policy_reward_mean", "policy_reward_min",
        "sampler_perf", "time_since_restore", "time_this_iter_s", "timers", "timesteps_since_restore",
        "timesteps_total", "training_iteration",
    )  # fmt: skip
    missing = [key for key in expected if key not in train_results]
    if missing:
        raise AssertionError(f"the result has no {', '.join(missing)}")
    if "learner" not in train_results["info"]:
        raise AssertionError("the result's info has no learner")
    return train_results


def run_learning_tests_from_yaml(*args: Any, **kwargs: Any) -> None:
    """Refuses RLlib's own suite of learning tests."""
    raise ConfigError(
        "run_learning_tests_from_yaml is not supported: it runs RLlib's own test suite; run a file of experiments with "
        "`rookery rllib train -f FILE.yaml`"
    )
