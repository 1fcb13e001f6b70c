"""Callbacks of RLlib 2.x: classes (`RLlibCallback`, earlier ``DefaultCallbacks``) and functions (``on_...=``)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from rookery.face import ConfigError, nearest
from rookery_rllib.policy.callbacks import HOOKS, DefaultCallbacks
from rookery_rllib.rllib2.episode_views import view_of

LATER_HOOKS = (
    "on_algorithm_init", "on_train_result", "on_evaluate_start", "on_evaluate_end", "on_environment_created",
    "on_episode_created", "on_episode_start", "on_episode_step", "on_episode_end", "on_sample_end",
    "on_postprocess_trajectory", "on_learn_on_batch", "on_create_policy", "on_sub_environment_created",
    "on_checkpoint_loaded", "on_env_runners_recreated", "on_workers_recreated", "on_evaluate_offline_start",
    "on_evaluate_offline_end", "on_offline_eval_runners_recreated",
)  # fmt: skip
"""Hooks of all releases 2.x. The last five are never called: no worker is recreated, no data are evaluated."""


def _nothing(self: Any, **about: Any) -> None:
    """Does nothing."""


class RLlibCallback:
    """Callbacks with the hooks of all releases 2.x; each hook gets those arguments that it takes."""

    def __init__(self, legacy_callbacks_dict: Any = None) -> None: ...

    def __init_subclass__(cls) -> None:
        """Raises an error for methods with names similar to hooks."""
        super().__init_subclass__()
        for name in vars(cls):
            if name.startswith("on_") and name not in LATER_HOOKS:
                raise ConfigError(
                    f"callbacks {cls.__name__}.{name}: there is no such hook{nearest(name, LATER_HOOKS)}; there are "
                    f"{', '.join(LATER_HOOKS)}"
                )


for _name in LATER_HOOKS:
    setattr(RLlibCallback, _name, _nothing)


def make_multi_callbacks(callback_class_list: Sequence[type[RLlibCallback]]) -> Callable[[], list[RLlibCallback]]:
    """Returns a function that makes callbacks of several classes."""
    return lambda: [cls() for cls in callback_class_list]


def callbacks_of(given: Any, functions: Mapping[str, Any]) -> ScriptCallbacks:
    """Returns the callbacks of a configuration.

    Args:
        given: A class or a list of classes; None = none.
        functions: Functions, or lists of them, by hook.

    Raises:
        ConfigError: If one of them is something else.
    """
    made: list[Any] = []
    for each in given if isinstance(given, list | tuple) else [given] if given is not None else []:
        found = each() if callable(each) else each
        made += found if isinstance(found, list) else [found]
    for each in made:
        if not isinstance(each, RLlibCallback):
            raise ConfigError(f"callbacks = {each!r}: must be a class derived from RLlibCallback, or a list of these")
    hooks: dict[str, list[Callable[..., Any]]] = {}
    for name in LATER_HOOKS:
        own = functions.get(name)
        found = [getattr(each, name) for each in made if getattr(type(each), name) is not _nothing]
        found += own if isinstance(own, list | tuple) else [own] if own is not None else []
        if found:
            hooks[name] = found
    return ScriptCallbacks(hooks)


class ScriptCallbacks(DefaultCallbacks):
    """The hooks of a script as callbacks of 2021.

    Args:
        hooks: Functions by hook.

    Attributes:
        algorithm: The algorithm, which sets itself.
    """

    algorithm: Any = None

    def __init__(self, hooks: Mapping[str, Sequence[Callable[..., Any]]]) -> None:
        super().__init__()
        self.hooks = hooks
        follows = any(map(self._reads_episodes, ("on_episode_step", "on_episode_end")))
        own: dict[str, Any] = {
            name: partial(self._other, name) for name in set(HOOKS) & set(hooks) if not name.startswith("on_episode_")
        }
        if "on_episode_start" in hooks or "on_episode_created" in hooks or follows:
            own["on_episode_start"] = self._start
        if "on_episode_step" in hooks or follows:
            own["on_episode_step"] = self._step
        if "on_episode_end" in hooks:
            own["on_episode_end"] = self._end
        if "on_train_result" in hooks:
            own["on_train_result"] = self._result
        self.__dict__.update(own)

    def _reads_episodes(self, name: str) -> bool:
        """Returns whether a hook may read steps of episodes: one of the new stack, which takes no worker."""
        return any(
            not {"worker", "base_env", "policies"} & set(inspect.signature(hook).parameters)
            for hook in self.hooks.get(name, ())
        )

    @property
    def reaches_environments(self) -> bool:
        """Whether hooks get environments."""
        names = ("on_episode_start", "on_episode_step", "on_episode_end", "on_episode_created",
                 "on_environment_created", "on_sub_environment_created")  # fmt: skip
        return any(name in self.hooks for name in names)

    def call(self, name: str, **about: Any) -> None:
        """Calls the functions of a hook, each with those arguments that it takes."""
        for hook in self.hooks.get(name, ()):
            taken = _named(hook)
            hook(**(about if taken is None else {key: value for key, value in about.items() if key in taken}))

    def _episode(self, name: str, about: Mapping[str, Any], **more: Any) -> None:
        view = view_of(about["episode"])
        view.record()
        runner = self.algorithm.env_runner
        more |= {"env_runner": runner, "metrics_logger": runner.metrics, "env": runner.env, "rl_module": runner.module}
        self.call(name, **{**about, "episode": view, "policies": self.algorithm.policy_facades, **more})

    def _start(self, **about: Any) -> None:
        self._episode("on_episode_created", about)
        self._episode("on_episode_start", about)

    def _step(self, **about: Any) -> None:
        self._episode("on_episode_step", about)

    def _end(self, **about: Any) -> None:
        self._episode("on_episode_end", about, prev_episode_chunks=[])

    def _other(self, name: str, **about: Any) -> None:
        runner = self.algorithm.env_runner
        self.call(name, env_runner=runner, metrics_logger=runner.metrics, **about)

    def _result(self, *, algorithm: Any, result: dict[str, Any], **about: Any) -> None:
        self.call(
            "on_train_result", algorithm=algorithm, trainer=algorithm, result=result, metrics_logger=algorithm.metrics
        )


def _named(hook: Callable[..., Any]) -> Any:
    """Returns the names of the arguments that a hook takes; None = all."""
    parameters = inspect.signature(hook).parameters.values()
    if any(one.kind is one.VAR_KEYWORD for one in parameters):
        return None
    return [one.name for one in parameters]
