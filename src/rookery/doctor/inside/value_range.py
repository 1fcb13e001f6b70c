"""`values_bounded`: finds own networks whose action values cannot be those of the task, whatever their weights are.

Action values are returns: after a last layer without an activation they take any number. Behind a softmax, a sigmoid or
a tanh they stay in a range, and behind a softmax they also sum to 1. Both are seen in outputs of random weights, small
and large ones.
"""

from __future__ import annotations

from copy import deepcopy

import numpy as np
import torch
from torch import Tensor

from rookery.core.batch import TensorTree
from rookery.core.spaces.arrays import Tree
from rookery.doctor.returns.episode_returns import FEWEST
from rookery.doctor.returns.plays import Plays
from rookery.models.q_head import GivenQHead
from rookery.policies.policy import Policy
from rookery.report.finding import Finding
from rookery.report.statistics import mean_interval
from rookery.run.findings.catalog import finding

ROWS, DRAWS = 64, 4
"""Observations that are passed through the network, and random weights of each size."""

SMALL, LARGE = 10.0, 1_000.0
"""Standard deviations of random weights; values without a limit grow as these do."""

SAME = 0.02
"""Difference between limits, in units of the range of values, that does not count."""

BEYOND = 0.1
"""Distance of returns from the range of values, in units of the range, from which on they are outside."""


def drawn_values(policy: Policy, obs: TensorTree, scale: float) -> Tensor:
    """Returns action values ``[DRAWS, N, actions]`` for random weights.

    Args:
        policy: The policy; it is not changed.
        obs: Observations ``[N, ...]`` by path.
        scale: Standard deviation of the weights.
    """
    policy, chance, each = deepcopy(policy), torch.Generator("cpu").manual_seed(0), []
    assert isinstance(policy.head, GivenQHead)
    with torch.no_grad():
        for _ in range(DRAWS):
            for one in policy.trunk.parameters():
                if one.requires_grad:
                    drawn = torch.randn(one.shape, dtype=torch.float32, device="cpu", generator=chance)
                    one.copy_(scale * drawn)
            each.append(policy.head.values(policy.features(obs)))
    return torch.stack(each).double().cpu()


def limits_of(small: Tensor, large: Tensor) -> tuple[float, float]:
    """Returns the lowest and highest value, infinite where the values of large weights exceed those of small ones.

    Args:
        small: Values ``[draws, N, actions]`` for small weights.
        large: Values for large weights.
    """
    low, high = float(large.min()), float(large.max())
    room = SAME * float(small.max() - small.min())
    return (
        low if low >= float(small.min()) - room else -np.inf,
        high if high <= float(small.max()) + room else np.inf,
    )


def values_bounded(name: str, policy: Policy, seen: Tree, plays: Plays | None) -> list[Finding]:
    """Returns the finding of a network whose action values do not reach the returns, or sum to the same number.

    Args:
        name: Name of the policy.
        policy: The policy; it is not changed.
        seen: Observations ``[N, ...]`` by path.
        plays: Returns of the policy, of random play and of constant actions; None where these are not those of it.
    """
    head = policy.head
    rows = len(next(iter(seen.values()), ()))
    if not isinstance(head, GivenQHead) or head.spec.values != "mean" or policy.model.remembers or rows < ROWS:
        return []
    device = next(policy.parameters()).device
    picked = np.linspace(0, rows - 1, ROWS).astype(int)
    obs = {path: torch.from_numpy(leaf[picked]).to(device) for path, leaf in seen.items()}
    small, large = (drawn_values(policy, obs, scale) for scale in (SMALL, LARGE))
    width = float(small.max() - small.min())
    if not (small.isfinite().all() and large.isfinite().all() and width > 0.0):
        return []
    sums = torch.cat((small.sum(-1) / width, large.sum(-1) / float(large.max() - large.min())))
    is_sum = small.shape[-1] > 1 and float(sums.max() - sums.min()) < 1e-4
    low, high = limits_of(small, large)
    outside = _outside(plays, low, high)
    if not outside and not is_sum:
        return []
    lines = [f"{2 * DRAWS} draws of random weights, small and large, in {ROWS} observations of random play"]
    if is_sum:
        lines.append(f"the values of the {small.shape[-1]} actions sum to {float(small.sum(-1).mean()):.3g} for each "
                     "observation")  # fmt: skip
    what = f"action values are between {low:.3g} and {high:.3g} for all weights, and {outside}"
    if not outside:
        what = "the values of all actions sum to the same number for all weights and observations"
    return [finding("values-bounded", what, *lines, policy=name, severity=None if outside else "warning")]


def _outside(plays: Plays | None, low: float, high: float) -> str:
    """Returns in words which returns, discounted, are outside a range; empty if they are inside.

    A behaviour with larger returns is enough, as the best policy earns no less; lower ones have to be those of all.
    """
    if plays is None or plays.own is None:
        return ""
    named = [
        ("the policy", plays.own),
        ("random play", plays.chance),
        *((f"always {n}", r) for n, r in plays.constants),
    ]
    each = {n: r.discounted for n, r in named if r is not None and len(r.discounted) >= FEWEST}
    if "the policy" not in each:
        return ""
    span = high - low if np.isfinite(high - low) else 0.0
    best = max(each, key=lambda one: mean_interval(each[one])[0])
    if mean_interval(each[best])[0] > high + BEYOND * span or all(
        mean_interval(one)[1] < low - BEYOND * span for one in each.values()
    ):
        return f"the discounted return of {best} is {np.mean(each[best]):.4g}"
    return ""
