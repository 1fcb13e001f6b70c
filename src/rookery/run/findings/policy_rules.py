"""Rules about updates of a policy: entropy, divergence, clipping, gradients, learning rate, minibatches."""

from __future__ import annotations

from statistics import median

from rookery.report.finding import Finding
from rookery.run.findings.catalog import CHECK_ENV, finding
from rookery.run.findings.history import History, curve
from rookery.run.findings.rule import LATER, SOON, Rule

COLLAPSED = 0.05
"""Share of the first entropy below which it has collapsed."""

NO_ENTROPY = 0.01
"""Entropy in nats of a discrete policy that always acts alike."""

STUCK = 0.01
"""Relative change of the entropy that does not count."""

LARGE_BONUS, OUTWEIGHS, KEPT = 0.1, 10.0, 0.9
"""Coefficient of the entropy from which on it is examined, factor between the bonus and the rest of the policy's loss,
and share of the first entropy that is kept, by which the bonus dominates.
"""

LARGE_KL, HUGE_KL, NO_KL = 0.05, 0.1, 1e-6
"""Divergences of an update: worth a note, a warning, and a warning because nothing moves."""

LARGE_CLIP, HUGE_CLIP = 0.4, 0.5
"""Shares of clipped decisions: worth a note, and a warning."""

CLIPPED = 10.0
"""Factor between the length of a gradient and its limit."""

HIGH_LR, EXTREME_LR, LOW_LR = 0.02, 0.2, 5e-7
"""Learning rates: worth a warning, an error, and a warning because nothing moves."""

USUAL_LR = 3e-4

FEW_STEPS = 4
"""Factor between a minibatch and the batch from which on the number of gradient steps is the problem in any case."""

EXHAUSTED = 0.1
"""Share of the iterations that a run may spend without a learning rate."""


def entropy_collapsed(run: History, policy: str) -> Finding | None:
    """Finds a policy without entropy whose return has not improved."""
    values, past = run.column("entropy", policy), run.column("entropy", policy, past=True)
    if len(values) < SOON or not run.is_stuck:
        return None
    now, first = median(values), max(past[:3])
    low = now < COLLAPSED * first if first > NO_ENTROPY else 0.0 <= now < NO_ENTROPY
    if not low:
        return None
    return finding(
        "entropy-collapsed",
        f"the entropy has fallen from {first:.2g} to {now:.2g}, and the return has not improved",
        *course(run),
        policy=policy,
        iterations=run.span,
        curve=curve(past),
        remedies=(lower_rate(run, policy), "{at}.entropy_coef=0.01", "{at}.clip=0.1"),
        column="entropy",
    )


def entropy_stuck(run: History, policy: str) -> Finding | None:
    """Finds a policy that is as random as at its start."""
    past = run.column("entropy", policy, past=True)
    if run.now["iteration"] < LATER or len(past) < SOON or not run.is_stuck or not past[0] > 0:
        return None
    if max(past) > (1 + STUCK) * past[0] or min(past) < (1 - STUCK) * past[0]:
        return None
    return finding(
        "entropy-stuck",
        f"the entropy is {past[-1]:.3g}, as at the start, after {run.now['iteration']:,} iterations",
        *course(run),
        policy=policy,
        iterations=(run.past[0]["iteration"], run.now["iteration"]),
        curve=curve(past),
        remedies=(CHECK_ENV, higher_rate(run, policy), "{at}.entropy_coef=0.0"),
        column="entropy",
    )


def entropy_dominates(run: History, policy: str) -> Finding | None:
    """Finds an entropy bonus beside which the rewards hardly count, so that the policy stays random.

    Advantages are near 1 where they are normalized, so a coefficient above 0.1 is large; where they are not, the
    policy's loss shows their size.
    """
    coef, past = run.number("entropy_coef", policy), run.column("entropy", policy, past=True)
    entropies, losses = run.column("entropy", policy), run.column("policy_loss", policy)
    if coef is None or coef <= LARGE_BONUS or run.now["iteration"] < LATER or min(len(losses), len(past)) < SOON:
        return None
    now, first, loss = median(entropies), max(past[:3]), median(map(abs, losses))
    bonus = coef * abs(now)
    if now < first - (1.0 - KEPT) * abs(first) or bonus < OUTWEIGHS * loss or run.are_alike:
        return None
    return finding(
        "entropy-dominates",
        f"entropy_coef = {coef:g}: the entropy bonus is {bonus:.2g}, the rest of the policy's loss about {loss:.2g}",
        f"the entropy was {first:.3g} at the start, and is {now:.3g} after {run.now['iteration']:,} iterations",
        *course(run),
        policy=policy,
        iterations=(run.past[0]["iteration"], run.now["iteration"]),
        curve=curve(past),
        column="entropy",
    )


def kl_out_of_range(run: History, policy: str) -> Finding | None:
    """Finds updates that move the policy too far, or not at all."""
    values = run.column("kl", policy)
    if len(values) < SOON:
        return None
    now, late = median(values), run.now["iteration"] >= LATER
    if now > LARGE_KL:
        bad = now > HUGE_KL and run.is_stuck
        return finding(
            "kl-out-of-range",
            f"each update moves the policy far: its KL divergence is {now:.2g}, where 0.001 to 0.03 is usual",
            *course(run),
            policy=policy,
            severity="warning" if bad else "note",
            iterations=run.span,
            curve=curve(values),
            causes=("the learning rate is too large", "too many epochs on the same batch"),
            remedies=(lower_rate(run, policy), "{at}.epochs=4", "{at}.target_kl=0.03"),
            column="kl",
        )
    if now < NO_KL and late and run.is_stuck and not (run.is_annealed(policy) or run.are_alike):
        return finding(
            "kl-out-of-range",
            f"updates do not move the policy: their KL divergence is {now:.2g}, where 0.001 to 0.03 is usual",
            *course(run),
            policy=policy,
            iterations=run.span,
            curve=curve(values),
            causes=("the learning rate is too small", "no action is better than another", "the policy has collapsed"),
            remedies=(higher_rate(run, policy), CHECK_ENV),
            column="kl",
        )
    return None


def clip_fraction_out_of_range(run: History, policy: str) -> Finding | None:
    """Finds updates in which most decisions leave the clip range."""
    values = run.column("clip_fraction", policy)
    if len(values) < SOON or median(values) <= LARGE_CLIP or run.is_annealed(policy):
        return None  # a narrow clip range at the end of its schedule is left more often
    return finding(
        "clip-fraction-out-of-range",
        f"{100 * median(values):.0f} % of the decisions leave the clip range in an update, where 2 to 30 % is usual",
        *course(run),
        policy=policy,
        severity="warning" if median(values) > HUGE_CLIP and run.is_stuck else "note",
        iterations=run.span,
        curve=curve(values),
        column="clip_fraction",
    )


def gradient_clipped(run: History, policy: str) -> Finding | None:
    """Finds gradients that are many times longer than their limit."""
    limit = run.number("max_grad_norm", policy)
    if not limit or not run.is_stuck or run.now["iteration"] < SOON:
        return None
    for metric, values in run.columns(("grad_norm", "critic_grad_norm", "actor_grad_norm"), policy):
        if min(values) > CLIPPED * limit:
            return finding(
                "gradient-clipped",
                f"every gradient is clipped: its norm is {median(values):.3g}, and max_grad_norm {limit:g}",
                *course(run),
                policy=policy,
                iterations=run.span,
                curve=curve(values),
                column=metric,
            )
    return None


def steps_skipped(run: History, policy: str) -> Finding | None:
    """Finds gradient steps that were skipped because a gradient was not finite."""
    skipped = run.column("skipped_steps", policy)
    if not skipped or not skipped[-1]:
        return None
    grew, total = skipped[-1] - skipped[0], skipped[-1]
    if len(run.past) == len(run.recent):  # the first row counts, too
        grew = total
    since = next(
        one["iteration"] for one in run.past if (one["policies"].get(policy, {}).get("skipped_steps") or 0) > 0
    )
    return finding(
        "steps-skipped",
        f"{total:,.0f} gradient steps were skipped so far, because a gradient was not finite",
        f"the first ones in iteration {since:,} or shortly before",
        *([f"{grew:,.0f} of them in the last {len(run.recent)} iterations"] if grew else []),
        policy=policy,
        severity="error" if grew else "note",
        iterations=(since, run.now["iteration"]),
        curve=curve(run.column("skipped_steps", policy, past=True)),
        column="skipped_steps",
    )


def lr_exhausted(run: History, policy: str) -> Finding | None:
    """Finds a run that continues after its learning rate has reached 0."""
    past = run.column("lr", policy, past=True)
    if run.now["iteration"] < LATER or not past or not (high := max(past)) > 0:
        return None
    without = sum(value < 1e-3 * high for value in past)
    if without < max(EXHAUSTED * len(past), 3):
        return None
    return finding(
        "lr-exhausted",
        f"the learning rate has been {past[-1]:.2g} for {100 * without / len(past):.0f} % of the iterations",
        policy=policy,
        iterations=(run.past[-without]["iteration"], run.now["iteration"]),
        curve=curve(past),
        column="lr",
    )


def lr_out_of_range(run: History, policy: str) -> Finding | None:
    """Finds a learning rate at which nothing is learned."""
    if run.now["iteration"] < SOON or not run.is_stuck:
        return None
    for name in ("lr", "critic_lr", "actor_lr"):
        rate = run.number(name, policy)
        if rate is None or LOW_LR <= rate <= HIGH_LR:
            continue
        size = "large" if rate > HIGH_LR else "small"
        return finding(
            "lr-out-of-range",
            f"{name} = {rate:g} is very {size}: 1e-5 to 1e-2 is usual",
            *course(run),
            policy=policy,
            severity="error" if rate > EXTREME_LR else "warning",
            iterations=run.span,
            remedies=(f"{{at}}.{name}=3e-4",),
            column="lr",
        )
    return None


def minibatch_misfit(run: History, policy: str) -> Finding | None:
    """Finds minibatches that are larger than the batch."""
    size, rows = run.number("minibatch_size", policy), run.column("valid_rows", policy)
    if size is None or len(rows) < SOON or not max(rows) or size <= 1.5 * max(rows):
        return None
    return finding(
        "minibatch-misfit",
        f"minibatch_size = {size:,.0f}, but an update has {max(rows):,.0f} decisions at most",
        *course(run),
        policy=policy,
        severity="warning" if run.is_stuck or size >= FEW_STEPS * max(rows) else "note",
        iterations=run.span,
    )


def lower_rate(run: History, policy: str) -> str:
    """Returns a smaller learning rate as a remedy."""
    rate = run.number("lr", policy) or USUAL_LR
    return f"{{at}}.lr={min(rate / 3, USUAL_LR):.2g}"


def higher_rate(run: History, policy: str) -> str:
    """Returns a larger learning rate as a remedy."""
    rate = run.number("lr", policy) or USUAL_LR
    return f"{{at}}.lr={max(3 * rate, USUAL_LR):.2g}"


def course(run: History) -> list[str]:
    """Returns the course of the return as evidence."""
    if not run.returns or run.latest is None:
        return []
    (since, first), best = run.returns[0], max(run.returns, key=lambda one: one[1])
    return [
        f"return {first:.4g} in iteration {since:,}, best {best[1]:.4g} in iteration {best[0]:,}, "
        f"now {run.returns[-1][1]:.4g} in iteration {run.now['iteration']:,}"
    ]


POLICY_RULES = (
    Rule("steps-skipped", steps_skipped, ("skipped_steps",)),
    Rule("lr-out-of-range", lr_out_of_range),
    Rule("entropy-collapsed", entropy_collapsed, ("entropy", "policy_loss")),
    Rule("entropy-stuck", entropy_stuck, ("entropy", "policy_loss")),
    Rule("entropy-dominates", entropy_dominates, ("entropy", "policy_loss")),
    Rule("kl-out-of-range", kl_out_of_range, ("kl",)),
    Rule("clip-fraction-out-of-range", clip_fraction_out_of_range, ("clip_fraction",)),
    Rule("minibatch-misfit", minibatch_misfit, ("policy_loss",)),
    Rule("lr-exhausted", lr_exhausted, ("lr",)),
    Rule("gradient-clipped", gradient_clipped),
)
