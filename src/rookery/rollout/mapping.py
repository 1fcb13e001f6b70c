"""Which policy plays which agent."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from gymnasium import Space

from rookery.core.errors import ConfigError, nearest
from rookery.core.seeding import Role, Streams


@dataclass(frozen=True)
class EpisodeInfo:
    """What a mapping function may look at.

    Attributes:
        lane: Which copy of the environment.
        index: Number of the episode in that lane, from 0.
        parameters: Environment parameters drawn for the episode.
        rng: A generator of the episode's own, for mappings that draw (opponents, say). It starts afresh for each
            agent, so that all agents of an episode see the same numbers and can agree on who plays what.
    """

    lane: int
    index: int
    streams: Streams = field(repr=False)
    parameters: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def rng(self) -> np.random.Generator:
        """Made when first used."""
        return self.streams.generator(Role.MAPPING, self.lane, self.index)


MappingFunction = Callable[[str, EpisodeInfo], str]


class PolicyMapping:
    """Asked once for each agent when it first appears in an episode.

    Args:
        rule: A dict from agent to policy, a function ``(agent, episode) -> policy`` or ``(agent) -> policy``, or None:
            the only policy plays everyone, or, where agents and policies have the same names, each agent its own. A
            function may have an attribute `spaces`, observation and action space by policy: it says what policies are
            made for whose agents may all appear later.
        policies: Names of the policies there are.

    Raises:
        ConfigError: If the rule is neither, names a policy that there is not, or takes other arguments.
    """

    def __init__(self, rule: Mapping[str, str] | MappingFunction | None, policies: list[str]) -> None:
        self.rule = _two_arguments(rule) if callable(rule) else rule
        self.spaces: Mapping[str, tuple[Space[Any], Space[Any]]] = dict(getattr(rule, "spaces", ()))
        self.policies = policies
        self.is_static = not callable(rule)
        if rule is not None and not callable(rule) and not isinstance(rule, Mapping):
            raise ConfigError(
                f"policy_mapping = {rule!r}: must be a dict from agent to policy, or (in code) a function "
                f"(agent, episode) -> policy"
            )
        if isinstance(rule, Mapping):
            wrong = [
                f"policy_mapping.{agent} = {policy!r}: no such policy; there are {', '.join(policies)}"
                f"{nearest(str(policy), policies)}"
                for agent, policy in rule.items()
                if policy not in policies
            ]
            if wrong:
                raise ConfigError(*wrong)

    def __call__(self, agent: str, episode: EpisodeInfo) -> str:
        """The policy of `agent` in `episode`.

        Raises:
            ConfigError: If the agent has no policy, or one that does not exist.
        """
        if callable(self.rule):
            policy = self.rule(agent, episode)
            if policy not in self.policies:
                raise ConfigError(
                    f"policy_mapping returned {policy!r} for agent {agent!r}: no such policy; there are "
                    f"{', '.join(self.policies)}{nearest(str(policy), self.policies)}"
                )
            return policy
        if self.rule is not None:
            found = self.rule.get(agent)
            if found is None:
                raise ConfigError(
                    f"policy_mapping: agent {agent!r} has no policy; mapped agents are {', '.join(self.rule)}"
                    f"{nearest(agent, list(self.rule))}; add {agent!r} to policy_mapping"
                )
            return found
        if agent in self.policies:
            return agent
        if len(self.policies) == 1:
            return self.policies[0]
        raise ConfigError(
            f"policy_mapping is missing: agent {agent!r} could play any of {', '.join(self.policies)}; "
            f"pass policy_mapping={{{agent!r}: {self.policies[0]!r}, ...}} or a function (agent, episode) -> policy"
        )


def _two_arguments(rule: Callable[..., str]) -> MappingFunction:
    """Gives a mapping function that is called with the agent and the episode.

    Raises:
        ConfigError: If the rule can be called neither with both nor with the agent alone.
    """
    try:
        signature = inspect.signature(rule)
    except (TypeError, ValueError):  # some built-in callables have none
        return rule
    for arguments in (("agent", "episode"), ("agent",)):
        try:
            signature.bind(*arguments)
        except TypeError:
            continue
        return rule if len(arguments) == 2 else lambda agent, episode: rule(agent)
    name = getattr(rule, "__name__", type(rule).__name__)
    raise ConfigError(
        f"policy_mapping = {name}{signature}: it is called with the agent's name and the episode; write "
        "(agent, episode) -> policy, or (agent) -> policy"
    )
