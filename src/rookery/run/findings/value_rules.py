"""Rules about values: their fit, their scale, divergence, and the discount."""

from __future__ import annotations

from itertools import pairwise
from statistics import median

from rookery.report.finding import Finding
from rookery.run.findings.catalog import finding
from rookery.run.findings.history import History, curve
from rookery.run.findings.policy_rules import course
from rookery.run.findings.rule import LATER, SOON, Rule

LARGE_VALUE, SMALL_VALUE = 1e3, 1e-3
"""Returns that networks do not learn without a scale."""

LARGE_LOSS = 1e4
"""Square of a value error, in the unit of the values, at which a network hardly moves towards its target."""

DIVERGED = 5.0
"""Factor between action values and the largest return that the rewards suggest."""

USUAL = 3.0
"""Largest usual reward in the unit in which values are learned."""

SHORT_GAMMA = 0.5
UNDISCOUNTED = 200
"""Steps of an episode from which on a discount of 1 is a likely problem."""

FAR = 20.0
"""Length of episodes in units of 1/(1 - gamma)."""

HOT = 10.0
"""Factor by which a temperature has grown without end."""

RISEN = 1.5
"""Factor by which a temperature has clearly risen."""


def critic_explains_nothing(run: History, policy: str) -> Finding | None:
    """Finds values that explain no variance of their targets while the return does not improve."""
    values = run.column("explained_variance", policy)
    if len(values) < SOON or run.now["iteration"] < LATER or run.are_alike or not run.is_stuck:
        return None
    if median(values) > 0.0:
        return None
    return finding(
        "critic-explains-nothing",
        f"the critic is no better than a constant: explained variance {median(values):.2g}",
        *course(run),
        policy=policy,
        iterations=run.span,
        curve=curve(values),
        column="explained_variance",
    )


def reward_scale(run: History, policy: str) -> Finding | None:
    """Finds values far from the range that networks learn."""
    size = run.value_size(policy)
    if size is None or not size or not run.is_stuck or run.now["iteration"] < SOON:
        return None
    low, high = run.number("values.low", policy), run.number("values.high", policy)
    if run.setting("values.kind", policy) == "categorical" and low is not None and high is not None:
        if size <= 1.5 * max(abs(low), abs(high)):
            return None
        return finding(
            "reward-scale",
            f"discounted returns of about {size:.2g} are outside the range of values, {low:g} to {high:g}",
            *course(run),
            policy=policy,
            iterations=run.span,
            remedies=("{at}.values.kind=mean", f"{{at}}.values.high={size:.0f}"),
        )
    scaled = run.setting("normalize_values", policy) or run.setting("scale_rewards", policy)
    plain = run.setting("normalize_values", policy) is False and not scaled
    if plain and not SMALL_VALUE <= size <= LARGE_VALUE:
        return finding(
            "reward-scale",
            f"discounted returns of about {size:.2g} are learned as they are: their scaling is off",
            *course(run),
            policy=policy,
            iterations=run.span,
            remedies=("{at}.normalize_values=true",),
        )
    for metric, losses in run.columns(("value_loss", "critic_loss"), policy):
        if median(losses) > LARGE_LOSS:
            return finding(
                "reward-scale",
                f"value errors are very large: {metric} is {median(losses):.2g}",
                *course(run),
                policy=policy,
                iterations=run.span,
                curve=curve(losses),
                column=metric,
            )
    return None


def q_diverging(run: History, policy: str) -> Finding | None:
    """Finds action values beyond any return that the rewards allow."""
    values, gamma = run.column("q_mean", policy, past=True), run.number("gamma", policy)
    size = run.value_size(policy)
    if len(values) < SOON or size is None or gamma is None:
        return None
    bound = DIVERGED * max(size, USUAL / max(1.0 - gamma, 1e-3))
    tail = [abs(value) for value in values[-SOON:]]
    if min(tail) < bound or not tail[-1] > tail[0] or not run.is_stuck:
        return None
    return finding(
        "q-diverging",
        f"action values have grown to {values[-1]:.3g}; returns so far allow about {size:.2g}",
        *course(run),
        policy=policy,
        iterations=(run.past[0]["iteration"], run.now["iteration"]),
        curve=curve(values),
        column="q_mean",
    )


def gamma_zero(run: History, policy: str) -> Finding | None:
    """Finds a discount that leaves out the future."""
    gamma, length = run.number("gamma", policy), run.column("length_mean")
    if gamma is None or gamma >= SHORT_GAMMA or len(length) < SOON or median(length) < 3:
        return None
    return finding(
        "gamma-zero",
        f"gamma = {gamma:g}: rewards after {1 / (1 - gamma):.2g} steps hardly count, and episodes have "
        f"{median(length):.0f}",
        *course(run),
        policy=policy,
        severity="warning" if run.is_stuck or gamma < SHORT_GAMMA / 5 else "note",
        iterations=run.span,
    )


def horizon_beyond_gamma(run: History, policy: str) -> Finding | None:
    """Finds episodes far longer than the horizon of the discount."""
    gamma, length = run.number("gamma", policy), run.column("length_mean")
    if gamma is None or not SHORT_GAMMA <= gamma < 1.0 or len(length) < SOON or not run.is_stuck:
        return None
    if median(length) * (1.0 - gamma) < FAR or run.now["iteration"] < LATER:
        return None
    better = min(1.0 - 1.0 / median(length), 0.9999)
    return finding(
        "horizon-beyond-gamma",
        f"episodes have {median(length):,.0f} steps, and gamma = {gamma:g} sees about {1 / (1 - gamma):,.0f} ahead",
        *course(run),
        policy=policy,
        iterations=run.span,
        remedies=(f"{{at}}.gamma={better:.4g}",),
    )


def gamma_one(run: History, policy: str) -> Finding | None:
    """Finds long episodes without a discount."""
    gamma, length = run.number("gamma", policy), run.column("length_mean")
    if gamma is None or gamma < 1.0 or not length or run.now["iteration"] < LATER or not run.is_stuck:
        return None
    if median(length) < UNDISCOUNTED:
        return None
    return finding(
        "gamma-one",
        f"gamma = {gamma:g}: values are sums of up to {median(length):,.0f} rewards, the steps of an episode",
        *course(run),
        policy=policy,
        iterations=run.span,
    )


def temperature_growing(run: History, policy: str) -> Finding | None:
    """Finds a temperature that grows without end."""
    values = run.column("alpha", policy, past=True)
    if len(values) < LATER or not run.is_stuck or not values[0] > 0:
        return None
    if values[-1] < HOT * max(values[0], 1.0) or values[-1] < max(values):
        return None
    return finding(
        "temperature-growing",
        f"the temperature has grown from {values[0]:.2g} to {values[-1]:.2g}",
        *course(run),
        policy=policy,
        iterations=(run.past[0]["iteration"], run.now["iteration"]),
        curve=curve(values),
        column="alpha",
    )


def target_entropy_unreached(run: History, policy: str) -> Finding | None:
    """Finds a temperature that has only risen, by half or more, while the entropy has always been below its target."""
    target, values = run.number("target_entropy", policy), run.column("alpha", policy, past=True)
    entropies = run.column("entropy", policy, past=True)
    if target is None or run.setting("alpha", policy) is not None or len(values) < 2 or not values[0] > 0:
        return None
    rises = all(one <= other for one, other in pairwise(values)) and values[-1] > RISEN * values[0]
    if not rises or max(entropies) >= target:
        return None
    return finding(
        "target-entropy-unreachable",
        f"target_entropy = {target:g} has never been reached: the entropy was {max(entropies):.3g} at most, and the "
        f"temperature has only risen, from {values[0]:.3g} to {values[-1]:.3g}",
        *course(run),
        policy=policy,
        iterations=(run.past[0]["iteration"], run.now["iteration"]),
        curve=curve(values),
        column="alpha",
    )


VALUE_RULES = (
    Rule("q-diverging", q_diverging, ("q_mean",)),
    Rule("gamma-zero", gamma_zero),
    Rule("gamma-one", gamma_one),
    Rule("reward-scale", reward_scale),
    Rule("critic-explains-nothing", critic_explains_nothing, ("explained_variance",)),
    Rule("horizon-beyond-gamma", horizon_beyond_gamma),
    Rule("temperature-growing", temperature_growing, ("alpha",)),
    Rule("target-entropy-unreachable", target_entropy_unreached, ("alpha", "entropy")),
)
