"""`target_entropy_unreachable`: target entropies beside the largest entropy that the actions of a policy can have."""

from __future__ import annotations

import math
from collections.abc import Mapping

from rookery.core.spaces.arrays import ActionSpec
from rookery.report.finding import Finding
from rookery.run.findings.catalog import finding
from rookery.run.findings.history import History

NEAR, NEAR_OF_NUMBERS = 0.99, 0.9
"""Shares of the largest entropy from which on a target leaves nothing but uniform actions: of discrete ones, and of
continuous ones. Soft actor-critic for discrete actions has been published with a share of 0.98.
"""


def largest_entropy(action: ActionSpec) -> float | None:
    """Returns the entropy in nats of uniform actions: n ln 2 of n numbers on [-1, 1], ln A of A discrete actions; None
    for actions of several parts.
    """
    if action.sizes and not action.num_numbers:
        return math.log(action.sizes[0]) if len(action.sizes) == 1 else None
    return action.num_numbers * math.log(2.0) if action.num_numbers and not action.sizes else None


def target_entropy_unreachable(run: History, actions: Mapping[str, ActionSpec]) -> list[Finding]:
    """Finds target entropies that no policy, or uniform actions alone, can have.

    Args:
        run: Rows and settings of the run.
        actions: Layout of the actions of each policy.
    """
    found = []
    for policy, action in actions.items():
        top, target = largest_entropy(action), run.number("target_entropy", policy)
        if top is None or not top or run.setting("alpha", policy) is not None:
            continue
        numbers, path = bool(action.num_numbers), "target_entropy"
        if target is None:
            share = None if numbers else run.number("entropy_share", policy)
            if share is None:
                continue
            target, path = share * top, "entropy_share"
        if target <= top * (NEAR_OF_NUMBERS if numbers else NEAR):
            continue
        usual = f"{{at}}.target_entropy={-float(action.num_numbers):g}" if numbers else "{at}.entropy_share=0.5"
        what = f"{action.num_numbers} continuous actions" if numbers else f"{action.sizes[0]} discrete actions"
        line = f"{path} aims at an entropy of {target:.3g} nats, and {what} have {top:.3g} at most, if they are uniform"
        alphas = run.column("alpha", policy, past=True)
        found.append(
            finding(
                "target-entropy-unreachable",
                line,
                *([f"the temperature has gone from {alphas[0]:.3g} to {alphas[-1]:.3g}"] if len(alphas) > 1 else []),
                policy=policy,
                severity="error" if target > top else "warning",
                remedies=(usual, *(["{at}.target_entropy=null"] if path == "target_entropy" else [])),
            )
        )
    return found
