"""How policies of scripts try actions out: by drawing from their own distribution, or by a class of the script."""

from __future__ import annotations

from typing import Any

import torch

from rookery.compat.rllib.from_config import from_config
from rookery.core.errors import ConfigError


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
        return actions, torch.zeros(len(action_distribution.inputs))

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
    options = dict(policy.config.get("exploration_config") or {})
    kind = options.pop("type", None)
    if kind is None or (isinstance(kind, str) and kind.rpartition(".")[2] == "StochasticSampling"):
        return Sampling()
    if isinstance(kind, str) and "." not in kind:
        raise ConfigError(
            f"exploration_config.type = {kind!r}: a policy with a loss of its own draws actions from its distribution "
            "(StochasticSampling); write action_sampler_fn, or give a class"
        )
    return from_config(
        None, {"type": kind, **options}, action_space=policy.action_space, framework="torch", model=model,
        policy_config=policy.config, num_workers=policy.config.get("num_workers", 0), worker_index=0,
    )  # fmt: skip
