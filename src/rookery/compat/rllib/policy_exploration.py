"""How policies of scripts try actions out: by drawing from their own distribution, or by a class of the script."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from rookery.compat.rllib.from_config import imported
from rookery.core.errors import ConfigError, nearest

BUILT_IN = "rookery.compat.rllib.explorations"
"""The module of the usual kinds of exploration."""


def own_exploration(config: Mapping[str, Any]) -> Callable[..., Any] | None:
    """Returns the class of a script that a configuration names to try actions out; None if it names none.

    Args:
        config: The configuration, with ``exploration_config``.

    Raises:
        ConfigError: If an import path leads to nothing.
    """
    kind = (config.get("exploration_config") or {}).get("type")
    if isinstance(kind, str) and "." in kind:
        module, _, name = kind.replace(":", ".").rpartition(".")
        if module.startswith("ray.rllib.utils.exploration"):
            return None
        found = imported(module, name)
        if found is None:
            raise ConfigError(f"rllib config: exploration_config.type = {kind!r}: there is no such class")
        kind = found
    return kind if callable(kind) and getattr(kind, "__module__", "") != BUILT_IN else None


class Sampling:
    """Draws actions from the policy's own distribution, or takes the most likely ones: the exploration of a policy that
    has no other.
    """

    def before_compute_actions(
        self, *, timestep: int | None = None, explore: bool | None = None, **kwargs: Any
    ) -> None:
        """Does nothing."""

    def get_exploration_action(self, *, action_distribution: Any, timestep: Any, explore: bool = True) -> Any:
        """Returns actions ``[N, ...]`` and their log-probabilities ``[N]``, which are 0 for those not drawn."""
        if explore:
            actions = action_distribution.sample()
            return actions, action_distribution.sampled_action_logp()
        actions = action_distribution.deterministic_sample()
        return actions, torch.zeros(len(action_distribution.inputs), dtype=torch.float32, device="cpu")

    def get_exploration_optimizer(self, optimizers: list[Any]) -> list[Any]:
        """Returns the optimizers as they are: nothing of the exploration learns."""
        return optimizers

    def get_info(self, sess: Any = None) -> dict[str, Any]:
        """Returns nothing: there are no numbers to tell."""
        return {}

    get_state = get_info


def exploration_of(policy: Any, model: Any) -> Any:
    """Makes the exploration that a policy's configuration names.

    Args:
        policy: The policy, with `config` and `action_space`.
        model: Its model, or None.

    Raises:
        ConfigError: If it is none that a policy with a way to act of its own can have.
    """
    from rookery.compat.rllib import explorations  # which needs the distributions, and these the policies

    options = dict(policy.config.get("exploration_config") or {})
    kind, own = options.pop("type", None), own_exploration(policy.config)
    if own is None:
        name = getattr(kind, "__name__", None) or str(kind or "StochasticSampling").replace(":", ".").rpartition(".")[2]
        if name == "StochasticSampling" and not options.get("random_timesteps"):
            return Sampling()
        own = explorations.BUILT_IN.get(name)
        if own is None:
            near = nearest(name, list(explorations.BUILT_IN))
            raise ConfigError(
                f"exploration_config.type = {kind!r}: a policy with a loss of its own tries actions out by one of "
                f"{', '.join(explorations.BUILT_IN)}{near}; or write action_sampler_fn, or give a class"
            )
    return own(
        action_space=policy.action_space, framework="torch", model=model, policy_config=policy.config,
        num_workers=int(policy.config.get("num_workers") or 0), worker_index=0, **options,
    )  # fmt: skip
