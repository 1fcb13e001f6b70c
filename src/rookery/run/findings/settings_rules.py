"""Rules about settings at which little can be learned: too few updates, values far out of range, targets that stay."""

from __future__ import annotations

from typing import NamedTuple

from rookery.core.schedules import DECISIONS, Piecewise, Schedule
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

STOPPING, USED_UP, WITHOUT, AT_ONCE = ("lr", "critic_lr", "actor_lr", "clip"), 0.01, 0.2, 0.01
"""Settings at whose 0 nothing is learned, share of the start that counts as 0, share of a run that may pass with it,
and share of a run before which other schedules should not be over.
"""

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


def schedule_short(run: History, policy: str) -> Finding | None:
    """Finds schedules that are over long before the run is.

    Learning rates and clip ranges near 0 end learning, so they may be used up at the end of a run only. Other settings
    usually reach their end early, as epsilon does, but not within the first steps.
    """
    now = run.now["env_steps"]
    total = max(run.budget or 0.0, now)
    if total < SERIOUS or now < HALF * total:
        return None
    found = []
    for path, schedule in run.settings.schedules(policy):
        decisions = schedule.by == DECISIONS
        share = (run.now["policies"].get(policy, {}).get("decisions") or 0.0) / max(now, 1)
        rate = share if decisions else 1.0  # of the schedule's steps in an env step
        start, end, over = _course(schedule)
        if over is None or not rate or start == end:
            continue
        part = over / (rate * total)
        stops = path.rsplit(".", 1)[-1] in STOPPING and abs(end) < USED_UP * abs(start)
        if part > (1.0 - WITHOUT if stops else AT_ONCE):
            continue
        unit = "decisions" if decisions else "env steps"
        found.append((part, path, start, end, over, rate * total, unit, stops))
    if not found:
        return None
    part, path, start, end, over, whole, unit, stops = min(found)
    own = run.setting(path, policy)
    shown = {key: value for key, value in own.items() if key != "steps"}
    values = ", ".join(f"{key}: {value:g}" if isinstance(value, float) else f"{key}: {value}" for key, value in
                       {**shown, "steps": f"{whole:.0f}"}.items() if key != "points")  # fmt: skip
    updates = run.column("updates", policy)
    each = f"; {over:,.0f} updates are {over * now / updates[-1]:,.0f} env steps" if updates and updates[-1] else ""
    remedy = f"'{{at}}.{path}={{{values}}}'" if "points" not in own else f"points of {{at}}.{path} up to {whole:.0f}"
    return finding(
        "schedule-short",
        f"the schedule of {path} is over after {over:,.0f} {unit}, {100 * part:.2g} % of the run's {whole:,.0f}: it is "
        f"{end:g} from then on, and {start:g} at the start",
        *(["nothing is learned with this value"] if stops else []),
        f"steps of a schedule are {unit}{each}",
        *course(run),
        policy=policy,
        iterations=(run.past[0]["iteration"], run.now["iteration"]),
        remedies=(remedy,),
    )


def _course(schedule: Schedule) -> tuple[float, float, float | None]:
    """Returns first and last value of a schedule, and the step from which on it stays; None if that is the end of the
    run.
    """
    if isinstance(schedule, Piecewise):
        last = schedule.points[-1]
        return max(schedule.values, key=abs), last[1], last[0]
    return schedule.start, schedule.end, None if schedule.steps is None else float(schedule.steps)


SETTINGS_RULES = (
    Rule("schedule-short", schedule_short),
    Rule("few-updates", few_updates),
    Rule("setting-out-of-range", settings_out_of_range),
    Rule("target-stays", target_stays, ("gradient_steps",)),
)
