"""Rules about random play, decision by decision: agents that share a policy, features that change places, and ranges of
actions that are not used.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from rookery.core.seeding import Streams
from rookery.doctor.decisions import AgentDecisions, watch_decisions
from rookery.doctor.effects import FEW_STEPS, Effects, effects_of
from rookery.doctor.env_play import EnvPlay
from rookery.doctor.play_rules import DISTINCT, MANY_EPISODES, WIDE
from rookery.doctor.probe import ConstantAction, MakeCopies
from rookery.doctor.reward_fit import reward_unexplained
from rookery.envs.base import Kind
from rookery.report.finding import Finding
from rookery.run.findings.catalog import finding

FEW_PAIRS, OPPOSED = 50, 0.75
"""Fewest pairs of rewards that are judged, and share of them with opposite signs."""

ALIKE = 0.9
"""Share of moments at which agents observe the same, from which on these are no difference between them."""

SHORTEST, FEATURES = 12, 4
"""AgentDecisions of an episode, and elements of an observation, that are enough for a profile of the elements."""

MOVES = 0.6
"""Share of the halves of episodes in which an element of the profile has to change."""

SAME_EPISODE, OTHER_EPISODE = 0.8, 0.1
"""Correlation of profiles within an episode, and between episodes, by which elements change places at a reset."""

OF_RANDOM = ("no-better-than-random", "worse-than-random")

TENTH = 0.1
"""Share of the range of an action that is compared with the whole."""


def decision_findings(
    make: MakeCopies, played: EnvPlay, policy_of: Mapping[str, str], until: float
) -> tuple[list[Finding], list[str]]:
    """Returns the findings of random play, and the agents that share a policy and observe the same, in words.

    Args:
        make: Makes a number of environments.
        played: Earlier plays, for the effects of actions.
        policy_of: Policies by agent; empty if unknown.
        until: Time of `time.monotonic` at which it ends.

    Raises:
        EnvError: If the environment raises or breaks the contract.
    """
    if time.monotonic() > until:
        return [], []
    found, alike = [], []
    for one in watch_decisions(make, (time.monotonic() + until) / 2, Streams(0)):
        name = next((policy_of[agent] for agent in one.kind.agents if agent in policy_of), "")
        found += [*obs_reordered(one, name), *reward_unexplained(one, name)]
        for policy, columns in shared_columns(one, policy_of).items():
            found += policy_shared(one, policy, columns)
            alike += _observe_alike(one, policy, columns)
    return [*found, *actions_wide(make, played.effects, played.random.kinds, until)], alike


def with_shared(findings: Sequence[Finding], policy_of: Mapping[str, str], alike: Sequence[str]) -> list[Finding]:
    """Returns findings in which returns like those of random play have a policy of several agents as a cause, if there
    is one: the first cause if the agents observe the same, else the last one.

    Args:
        findings: The findings.
        policy_of: Policies by agent.
        alike: Agents that share a policy and observe the same, in words.
    """
    policies = list(policy_of.values())
    shared = [
        f"policy {name} plays {policies.count(name)} agents: their tasks may differ" for name in policy_of.values()
    ]
    last = () if alike or len(set(policies)) == len(policies) else (max(shared, key=shared.count),)
    return [replace(one, causes=(*alike, *one.causes, *last)) if one.rule in OF_RANDOM else one for one in findings]


def shared_columns(seen: AgentDecisions, policy_of: Mapping[str, str]) -> dict[str, list[int]]:
    """Returns the places of the agents of each policy that plays several agents of a kind."""
    found: dict[str, list[int]] = {}
    for column, agent in enumerate(seen.kind.agents):
        if agent in policy_of:
            found.setdefault(policy_of[agent], []).append(column)
    return {policy: columns for policy, columns in found.items() if len(columns) > 1}


def policy_shared(seen: AgentDecisions, policy: str, columns: Sequence[int]) -> list[Finding]:
    """Finds agents of one policy whose rewards have opposite signs after equal observations and actions.

    Rewards after an equal observation and action are compared in pairs, in the order of time, of one agent and the
    other; those that are both 0 are left out. Rewards that chance decides have equal signs in about half of the pairs.

    Args:
        seen: The decisions.
        policy: Name of the policy.
        columns: Places of its agents.
    """
    leaves = [leaf.reshape(len(leaf), -1) for leaf in (*seen.obs.values(), seen.action)]
    rewards: list[dict[bytes, list[float]]] = []
    for column in columns:
        mine = np.flatnonzero(seen.agent == column)
        of_agent: dict[bytes, list[float]] = {}
        for row in mine.tolist():
            of_agent.setdefault(b"".join(leaf[row].tobytes() for leaf in leaves), []).append(float(seen.reward[row]))
        rewards.append(of_agent)
    for (one, first), (other, second) in combinations(zip(columns, rewards, strict=True), 2):
        pairs = [
            pair
            for key in first.keys() & second.keys()
            for pair in zip(first[key], second[key], strict=False)
            if any(pair)
        ]
        opposed = sum(a * b < 0.0 for a, b in pairs)
        if len(pairs) >= FEW_PAIRS and opposed >= OPPOSED * len(pairs):
            agents = f"{seen.kind.agents[one]} and {seen.kind.agents[other]}"
            return [
                finding(
                    "policy-shared",
                    f"the policy plays {agents}, whose rewards for equal observations and actions have opposite signs",
                    f"in {100 * opposed / len(pairs):.0f} % of {len(pairs):,} pairs of decisions of random play",
                    policy=policy,
                )
            ]
    return []


def _observe_alike(seen: AgentDecisions, policy: str, columns: Sequence[int]) -> list[str]:
    """Returns in words that agents of a policy observe the same at the same moments, or an empty list."""
    first, second = (seen.of(seen.agent == column) for column in columns[:2])
    if not len(first) or not np.array_equal(first.episode, second.episode):
        return []
    pairs = [
        (leaf.reshape(len(first), -1), second.obs[path].reshape(len(first), -1)) for path, leaf in first.obs.items()
    ]
    equal = np.all([(one == other).all(axis=1) for one, other in pairs], axis=0)
    if equal.mean() < ALIKE:
        return []
    agents = " and ".join(seen.kind.agents[column] for column in columns[:2])
    return [f"policy {policy} plays {agents}, which observe the same: it cannot tell them apart"]


def obs_reordered(seen: AgentDecisions, policy: str) -> list[Finding]:
    """Finds vectors whose elements change places at each reset.

    An element's profile is how much it changes in half of an episode. In usual environments the profile of all elements
    is similar in all episodes. Where elements change places, the two halves of an episode have the same profile, and
    other episodes have others.

    Args:
        seen: The decisions.
        policy: Name of the policy of the agents; empty if unknown.
    """
    for leaf in seen.kind.obs.leaves:
        values = seen.obs.get(leaf.path)
        if leaf.kind != "box" or values is None or values.ndim != 2 or not FEATURES <= values.shape[1] <= WIDE:
            continue
        halves = _halves(values.astype(np.float64), seen.episode * len(seen.kind.agents) + seen.agent)
        if len(halves) < MANY_EPISODES:
            continue
        distinct = [len(np.unique(column)) >= DISTINCT for column in values.T]
        moving = np.flatnonzero(((halves > 0.0).mean(axis=(0, 1)) >= MOVES) & distinct)
        if len(moving) < FEATURES:
            continue
        first, second = np.moveaxis(_units(np.log(halves[:, :, moving] + 1e-6 * halves.max())), 1, 0)
        count = len(first)
        same = float((first * second).sum(axis=1).mean())
        other = float((np.square(first.sum(axis=0)).sum() - count) / (count * (count - 1)))
        if same >= SAME_EPISODE and other <= OTHER_EPISODE:
            return [
                finding(
                    "obs-reordered",
                    f"elements of the observation{f' {leaf.path}' if len(seen.kind.obs.leaves) > 1 else ''} change "
                    "places at each reset",
                    f"how much each element changes has a correlation of {same:.2f} between the halves of an episode, "
                    f"and of {other:.2f} between {count} episodes of random play",
                    policy=policy,
                )
            ]
    return []


def _halves(values: np.ndarray, episode: np.ndarray) -> np.ndarray:
    """Returns the standard deviation of each element in the halves of each long enough episode.

    Args:
        values: ``[N, elements]``.
        episode: ``[N]`` number of the episode of an agent.

    Returns:
        ``[episodes, 2, elements]``.
    """
    found = []
    for number in np.unique(episode):
        mine = values[episode == number]
        if len(mine) >= SHORTEST:
            middle = len(mine) // 2
            found.append([mine[:middle].std(axis=0), mine[middle:].std(axis=0)])
    return np.array(found).reshape(-1, 2, values.shape[1])


def _units(profiles: np.ndarray) -> np.ndarray:
    """Returns profiles along the last axis with mean 0 and length 1, so that their products are correlations."""
    centered = profiles - profiles.mean(axis=-1, keepdims=True)
    unit: np.ndarray = centered / np.maximum(np.linalg.norm(centered, axis=-1, keepdims=True), 1e-12)
    return unit


def actions_wide(make: MakeCopies, effects: Sequence[Effects], kinds: Sequence[Kind], until: float) -> list[Finding]:
    """Finds continuous actions of which a tenth of the range has the same effect as the whole.

    Args:
        make: Makes a number of environments.
        effects: Effects of the agents' actions; agents whose actions change nothing are left out.
        kinds: The kinds of agents.
        until: Time of `time.monotonic` at which it ends.
    """
    places = {agent: (number, column) for number, kind in enumerate(kinds) for column, agent in enumerate(kind.agents)}
    found: list[Finding] = []
    for one in effects:
        number, column = places[one.agent]
        spec = kinds[number].action
        if spec.kind != "box" or not one.is_comparable or one.lag is None:
            continue
        ends = []
        for end in (1.0, -1.0):
            if (left := (until - time.monotonic()) / 2) <= 0.0:
                return found
            both = [ConstantAction("", np.full(spec.shape, end * share, spec.dtype)) for share in (TENTH, 1.0)]
            ends.append(effects_of(make, number, column, both, left))
        if all(end.is_comparable and end.lag is None and end.tried >= FEW_STEPS for end in ends):
            found.append(
                finding(
                    "actions-wide",
                    f"a tenth of the range of the actions of {one.agent} has the same effect as the whole range",
                    f"equal observations, rewards and ends in {sum(end.tried for end in ends):,} steps, in both "
                    "directions from the middle",
                    subject=one.agent,
                )
            )
    return found
