"""`statistics_not_shared`: names wrappers that normalize by running statistics of their own.

Each environment has its own copy of such a wrapper, a new one begins without statistics, as in evaluations, and they
are no part of a checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rookery.report.finding import Finding
from rookery.run.findings.catalog import finding

MOST_LEVELS = 64
"""Largest number of wrappers that are looked at."""

REWARDS = ("return_rms", "reward_rms", "ret_rms")
"""Attributes of wrappers that hold statistics of rewards."""

OF_STATE, OF_EVALUATION = "state-survives-reset", "evaluation-below-training"

POOR = (OF_EVALUATION, "worse-than-random", "no-better-than-random")
"""Rules of policies that play poorly in new environments."""

INSTEAD = {
    "observations": ("{at}.model.normalize_obs=true",),
    "rewards": ("{at}.normalize_values=true", "{at}.scale_rewards=true"),
}
"""Settings that normalize in place of a wrapper, whose statistics all environments share and a checkpoint has."""


@dataclass(frozen=True)
class OwnStatistics:
    """Running statistics of a wrapper, or of an environment.

    Attributes:
        owner: Name of its class.
        attribute: Name of the attribute that holds them.
        of: What they are of: ``observations`` or ``rewards``.
        count: Number of values so far.
    """

    owner: str
    attribute: str
    of: str
    count: float


def own_statistics(env: Any) -> list[OwnStatistics]:
    """Returns the running statistics of an environment and of its wrappers, from the outermost one on.

    They are attributes with a mean, a variance and a count, such as ``obs_rms`` of gymnasium's NormalizeObservation.

    Args:
        env: An environment of Gymnasium or of its style; wrappers have the one below as ``env``.
    """
    found: list[OwnStatistics] = []
    for _ in range(MOST_LEVELS):
        attributes = vars(env) if hasattr(env, "__dict__") else {}
        for name, value in attributes.items():
            if _is_statistics(value):
                of = "rewards" if name in REWARDS else "observations"
                found.append(OwnStatistics(type(env).__name__, name, of, float(value.count)))
        env = attributes.get("env")
        if env is None:
            break
    return found


def _is_statistics(value: Any) -> bool:
    """Returns whether an object has a mean, a variance and a count as numbers."""
    parts = [getattr(value, name, None) for name in ("mean", "var", "count")]
    return all(isinstance(part, int | float | np.ndarray | np.number) for part in parts)


def statistics_not_shared(
    findings: Sequence[Finding], make: Callable[[], Any] | None, policies: Sequence[str], envs: float | None
) -> list[Finding]:
    """Returns findings, of which those that a wrapper's own statistics explain are joined into one that names it.

    It is a warning where the policy plays poorly in new environments, else a note.

    Args:
        findings: Findings of rows and of play.
        make: Makes a single throwaway environment, wrapped; None if there are no single ones.
        policies: Names of the policies.
        envs: Number of environments of the run; None if unknown.
    """
    if make is None:
        return [*findings]
    env = make()
    known = own_statistics(env)
    if hasattr(env, "close"):
        env.close()
    if not known:
        return [*findings]
    found, policy = known[0], policies[0] if len(policies) == 1 else ""
    joined = [one for one in findings if one.rule == OF_EVALUATION or (one.rule == OF_STATE and _is_of(one, known))]
    copies = f"each of {envs:,.0f} environments of training" if envs else "each environment of training"
    poor = any(one.rule in POOR and one.counts for one in findings)
    made = finding(
        "statistics-not-shared",
        f"{found.owner} normalizes {found.of} by statistics of its own ({found.attribute}), which environments do not "
        "share, and which begin anew in evaluations",
        f"{copies} has its own, a new environment has {found.count:,.0f} values, and checkpoints have none",
        *(f"so do {one.owner} and its {one.attribute}, of {one.of}" for one in known[1:]),
        *(line for one in joined for line in (one.message, *one.evidence)),
        policy=policy,
        severity=None if poor else "note",
        remedies=(f"remove the wrapper {found.owner}, and normalize by the policy:",
                  *(setting for of in dict.fromkeys(one.of for one in known) for setting in INSTEAD[of])),
    )  # fmt: skip
    return [made, *(one for one in findings if one not in joined)]


def _is_of(survives: Finding, known: Sequence[OwnStatistics]) -> bool:
    """Returns whether statistics explain what differs first in an environment that has played before."""
    kinds = {one.of for one in known}
    return bool(survives.evidence) and all(
        part in kinds for part in ("observations", "rewards", "ends") if part in survives.evidence[0]
    )
