"""Rules about settings at which little can be learned: too few updates, values far out of range, targets that stay."""

from __future__ import annotations

from typing import NamedTuple

from rookery.report.finding import Finding
from rookery.run.findings.catalog import finding
from rookery.run.findings.history import History
from rookery.run.findings.policy_rules import LARGE_BONUS, course
from rookery.run.findings.rule import SOON, Rule
from rookery.run.findings.run_rules import FIXED_STEPS, HALF

FEWEST_UPDATES, FEWEST_STEPS = 10, 100
"""Updates, and gradient steps on replayed experience, below which a run has too few."""

SOME = 0.5
"""Share of the updates that may do, if the return has clearly improved."""

SERIOUS = 10_000
"""Env steps below which a run is a trial of its settings."""

ENOUGH_UPDATES = 50
"""Updates that the remedy aims at."""

NARROW = 4
"""Units of a layer that hold too little."""


class UsualRange(NamedTuple):
    """Usual limits of a setting.

    Attributes:
        path: Its path below the algorithm.
        low: Value below which little is learned; None without one.
        high: The same above.
        usual: A usual value.
        why: What happens beyond.
    """

    path: str
    low: float | None
    high: float | None
    usual: str
    why: str

    def contains(self, value: float) -> bool:
        """Returns whether a value is usual."""
        return (self.low is None or value >= self.low) and (self.high is None or value <= self.high)


LIMITS = (
    UsualRange("gae_lambda", 0.2, None, "0.95", "advantages look a step ahead only"),
    UsualRange("value_coef", 1e-3, None, "0.5", "the critic hardly learns"),
    UsualRange("entropy_coef", None, LARGE_BONUS, "0.01", "the entropy bonus outweighs the rewards"),
    UsualRange("max_grad_norm", 0.01, None, "0.5", "gradients are shortened to nearly nothing"),
    UsualRange("clip", 0.02, None, "0.2", "an update hardly may change the policy"),
    UsualRange("adam_eps", None, 0.01, "1e-5", "it outweighs the gradients in the denominator of Adam"),
    UsualRange("minibatch_size", 8, None, "64", "gradients of so few decisions are mostly noise"),
    UsualRange("batch_size", 8, None, "64", "gradients of so few decisions are mostly noise"),
)  # fmt: skip
"""Ranges that contain the values of presets and benchmarks with room; a run that learns may leave them."""


def few_updates(run: History, policy: str) -> Finding | None:
    """Finds runs whose budget is enough for a few updates only."""
    now = run.now["env_steps"]
    total, starts = max(run.budget or 0.0, now), run.number("learning_starts", policy)
    updates = run.column("updates" if starts is None else "gradient_steps", policy)
    if not updates or updates[-1] < 1 or total < SERIOUS:
        return None
    begun = starts or 0.0
    if starts is not None and now < begun + HALF * (total - begun):
        return None  # the rate is not known yet
    expected = updates[-1] * (total - begun) / max(now - begun, 1.0)
    if expected >= (FEWEST_UPDATES if starts is None else FEWEST_STEPS):
        return None
    will_do = starts is None and expected >= SOME * FEWEST_UPDATES and run.has_improved
    what, remedies = "updates of the policy", _shorter(run, policy, total)
    if starts is not None:
        what, remedies = "gradient steps", ("{at}.train_every=64", "{at}.updates_per_step=0.5")
    return finding(
        "few-updates",
        f"{total:,.0f} env steps are enough for {expected:,.0f} {what} only",
        f"{updates[-1]:,.0f} so far, in {now:,} env steps",
        policy=policy,
        severity="note" if will_do else None,
        iterations=run.span,
        remedies=remedies,
    )


def _shorter(run: History, policy: str, total: float) -> tuple[str, ...]:
    """Returns smaller rollouts as remedies: for `ENOUGH_UPDATES` updates in some env steps."""
    envs, longer = run.number("sampling.num_envs") or 1.0, "rookery resume RUN --stop env_steps=N"
    length = run.number("fragment_length", policy)
    wanted = max(int(total / ENOUGH_UPDATES / envs), 16)
    return (f"{{at}}.fragment_length={wanted}", longer) if length and wanted < length else (longer,)


def settings_out_of_range(run: History, policy: str) -> Finding | None:
    """Finds settings beyond the limits within which these algorithms learn, while the return does not improve."""
    if run.now["iteration"] < SOON or not run.is_stuck:
        return None
    found = []
    for one in LIMITS:
        value = run.number(one.path, policy)
        if value is None or not (
            (one.low is not None and value < one.low) or (one.high is not None and value > one.high)
        ):
            continue
        found.append((f"{one.path} = {value:g}: {one.why}", f"{{at}}.{one.path}={one.usual}"))
    hidden = run.setting("model.hidden", policy)
    if isinstance(hidden, list | tuple) and hidden and min(hidden) <= NARROW:
        found.append((f"model.hidden = {list(hidden)}: a layer of {min(hidden)} units holds very little",
                      "'{at}.model.hidden=[64, 64]'"))  # fmt: skip
    if not found:
        return None
    lines, remedies = zip(*found, strict=True)
    return finding(
        "setting-out-of-range",
        lines[0],
        *lines[1:],
        *course(run),
        policy=policy,
        iterations=run.span,
        remedies=remedies,
    )


def target_stays(run: History, policy: str) -> Finding | None:
    """Finds target networks that are never, or hardly, updated."""
    steps, now = run.column("gradient_steps", policy), run.now["env_steps"]
    late = now >= (HALF * run.budget if run.budget else FIXED_STEPS)
    if not steps or not late or not run.is_stuck:
        return None
    every, kind = run.number("target.every", policy), run.setting("target.kind", policy)
    every_env_steps = run.number("target.every_env_steps", policy)
    is_soft = kind == "soft" or (kind is None and every is None and every_env_steps is None)
    tau_path = "tau" if run.number("tau", policy) is not None else "target.tau"
    tau = run.number(tau_path, policy)
    if every is not None and not is_soft and every >= steps[-1]:
        line, remedy = (
            f"target.every = {every:,.0f}, and {steps[-1]:,.0f} gradient steps were made",
            "{at}.target.every=250",
        )
    elif every_env_steps is not None and not is_soft and every_env_steps >= now:
        line = f"target.every_env_steps = {every_env_steps:,.0f}, and {now:,.0f} env steps were made"
        remedy = "{at}.target.every_env_steps=1000"
    elif tau is not None and (is_soft or tau_path == "tau") and tau * steps[-1] < 1.0:
        line = (
            f"{tau_path} = {tau:g}: {steps[-1]:,.0f} gradient steps moved the target by {100 * tau * steps[-1]:.2g} %"
        )
        remedy = f"{{at}}.{tau_path}=0.005"
    else:
        return None
    return finding("target-stays", f"the target network is as at the start: {line}", *course(run), policy=policy,
                   iterations=run.span, remedies=(remedy,))  # fmt: skip


SETTINGS_RULES = (
    Rule("few-updates", few_updates),
    Rule("setting-out-of-range", settings_out_of_range),
    Rule("target-stays", target_stays, ("gradient_steps",)),
)
