"""Connectors of RLlib 2.x that are settings here: filters, stacked frames, previous actions, flat observations."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from rookery.face import ConfigError

INSTEAD = (
    "there are no connector pipelines; wrap the environment, or change batches in on_postprocess_trajectory and "
    "on_learn_on_batch"
)


class Connector:
    """A connector as a description.

    Args:
        args: As in RLlib; spaces come first there, and have no meaning here.
        how: As in RLlib.
    """

    def __init__(self, *args: Any, **how: Any) -> None:
        self.args, self.how = args, how

    def keys(self) -> Mapping[str, Any]:
        """Returns keys of 2021; raises a ConfigError if it has none."""
        raise ConfigError(f"rllib config: the connector {type(self).__name__}: {INSTEAD}")


class ConnectorV2(Connector):
    """Base of connectors of scripts, which are refused when they are used."""


class FlatObservations(Connector):
    """Observations as one vector. Rookery's networks flatten them anyway; modules of scripts get vectors."""

    def keys(self) -> Mapping[str, Any]:
        for name in ("keys_to_remove",):
            if self.how.get(name):
                raise ConfigError(
                    f"rllib config: the connector FlattenObservations: {name}: wrap the environment instead"
                )
        return {"flatten_observations": True}


class NormalizedObservations(Connector):
    """Observations less their running mean, over their standard deviation."""

    def keys(self) -> Mapping[str, Any]:
        return {"observation_filter": "MeanStdFilter"}


class StackedFrames(Connector):
    """The last observations as one."""

    def keys(self) -> Mapping[str, Any]:
        return {"model": {"num_framestacks": int(self.how.get("num_frames", 1))}}


class PreviousSteps(Connector):
    """The last action and reward as inputs of a memory."""

    def keys(self) -> Mapping[str, Any]:
        actions, rewards = self.how.get("n_prev_actions", 1), self.how.get("n_prev_rewards", 1)
        if max(actions, rewards) > 1:
            raise ConfigError("rllib config: the connector PrevActionsPrevRewards: only the last action and reward")
        return {"model": {"lstm_use_prev_action": actions > 0, "lstm_use_prev_reward": rewards > 0}}


class BuiltIn(Connector):
    """A connector of the default pipelines, whose work Rookery's loops do."""

    def keys(self) -> Mapping[str, Any]:
        return {}


def connector_keys(given: Mapping[str, Any], value: Any) -> Mapping[str, Any]:
    """Returns the keys for connectors: one, a list, or a function that makes them.

    Raises:
        ConfigError: For connectors without a setting, or if the function needs an environment.
    """
    if value is None:
        return {}
    made = value
    if callable(value) and not isinstance(value, Connector):
        parameters = [one for one in inspect.signature(value).parameters.values() if one.default is one.empty]
        places = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
        try:
            made = value(*[None for _ in places])
        except ConfigError:
            raise
        except Exception as error:  # the function is the script's
            raise ConfigError(
                f"rllib config: the connector's function failed without an environment ({error}); {INSTEAD}"
            ) from error
    keys: dict[str, Any] = {}
    for each in made if isinstance(made, list | tuple) else [made]:
        if not isinstance(each, Connector):
            raise ConfigError(f"rllib config: the connector {type(each).__name__}: {INSTEAD}")
        for name, part in each.keys().items():
            keys[name] = {**keys.get(name, {}), **part} if isinstance(part, Mapping) else part
    return keys
