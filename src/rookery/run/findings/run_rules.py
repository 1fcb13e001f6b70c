"""Rules about rewards, episodes, replay, exploration, evaluations and agents."""

from __future__ import annotations

from statistics import median

from rookery.envs.adapters.gym_ids import time_limit_of
from rookery.report.finding import Finding
from rookery.run.findings.catalog import finding
from rookery.run.findings.history import History, curve
from rookery.run.findings.policy_rules import course
from rookery.run.findings.rule import LATER, SOON, Rule
from rookery.run.findings.window import Entry

EPISODES, STEPS = 100, 5_000
"""Episodes and env steps after which a reward should have been found."""

HALF = 0.5
"""Share of a run after which exploration should have fallen, and a reward been found."""

SHORT, SHORTER = 3.0, 5.0
"""Length of very short episodes, and factor by which earlier ones were longer."""

DECISIONS, LIMIT = 3.0, 20.0
"""Decisions of an episode that are suspiciously few, and factor between them and a time limit that contradicts them."""

ENDLESS = 5_000
"""Steps of an episode without end."""

LATE = 0.25
"""Share of a run without any gradient step."""

OLD = 5.0
"""Factor between the decisions of a run and the capacity of its replay."""

TINY, TINY_OLD = 1_000, 20.0
"""Capacity of a replay, and such a factor, that are too small in any case."""

RANDOM, GREEDY = 0.3, 0.01
"""Shares of random actions that are too large late in a run, and too small at its start."""

FIXED_STEPS = 20_000
"""Env steps after which exploration should have fallen, in a run without a known end."""

SEVERAL = 3
"""Evaluations in a row."""

FAR_BELOW = 0.3
"""Distance between evaluation and training, in units of the usual range of returns."""


def rewards_alike(run: History, policy: str) -> Finding | None:
    """Finds returns that are all the same, and not at their best after learning."""
    now = run.now
    is_late = now["env_steps"] >= STEPS or (run.part or 0.0) >= HALF
    if now["episodes"] < EPISODES or not is_late or not run.is_judged:
        return None
    ended = [one for one in run.past if one["return_min"] is not None]
    ways = {(one["return_min"], one["return_max"], *one["agents"].values()) for one in ended}
    if len(ways) != 1 or not run.are_alike or any(value != now["return_min"] for _, value in run.returns):
        return None
    value, count = now["return_min"], f"{now['episodes']:,} episodes, {now['env_steps']:,} env steps"
    signals = [
        path for path in run.settings if ".signals." in path and path.endswith((".rnd.strength", ".count.strength"))
    ]
    if value == 0.0 and not any(now["agents"].values()):
        line, rule = "no episode has had any reward", "reward-missing"
    else:
        line, rule = f"all episodes have the same return, {value:g}", "reward-constant"
    return finding(rule, line, count, severity="note" if signals else None, iterations=(1, now["iteration"]))


def return_falling(run: History, policy: str) -> Finding | None:
    """Finds a return far below its best or its beginning."""
    if not run.is_judged or not run.has_fallen:
        return None
    values = [value for _, value in run.typical]
    best = max(values)
    fell = f"from {best:.4g} to {values[-1]:.4g}" if best > values[0] else f"below its beginning, to {values[-1]:.4g}"
    return finding(
        "return-falling",
        f"the return has fallen {fell}, and stays there",
        *course(run),
        iterations=(run.typical[0][0], run.typical[-1][0]),
        curve=curve(values),
    )


def episodes_endless(run: History, policy: str) -> Finding | None:
    """Finds environments in which no episode ends."""
    now = run.now
    if now["episodes"] or now["running_length"] < ENDLESS:
        return None
    line = f"no episode has ended after {now['running_length']:,.0f} steps of each environment"
    return finding("episodes-endless", line, iterations=(1, now["iteration"]))


def episodes_shrink(run: History, policy: str) -> Finding | None:
    """Finds episodes that have become very short without any gain."""
    lengths, past = run.column("length_mean"), run.column("length_mean", past=True)
    if len(lengths) < SOON or not run.is_stuck or median(lengths) > SHORT or max(past) < SHORTER * median(lengths):
        return None
    return finding(
        "episodes-shrink",
        f"episodes have {median(lengths):.3g} steps, and had up to {max(past):.3g} before",
        *course(run),
        iterations=run.span,
        curve=curve(past),
    )


def episodes_short(run: History, policy: str) -> Finding | None:
    """Finds episodes of a few decisions that are no such task: the return hardly improves, or a time limit is long."""
    lengths, name = run.column("length_mean", past=True), run.setting("env.name")
    if run.now["episodes"] < EPISODES or run.now["iteration"] < LATER or not lengths or not run.is_judged:
        return None
    if max(lengths) > DECISIONS:
        return None
    limit = time_limit_of(name) if isinstance(name, str) else None
    is_cut = limit is not None and limit >= LIMIT * max(lengths)
    if not is_cut and not run.is_stuck and not run.has_hardly_improved:
        return None
    return finding(
        "episodes-short",
        f"episodes were over after {max(lengths):.3g} decision{'s' * (max(lengths) > 1.0)} on average, all the time",
        f"{run.now['episodes']:,} episodes",
        *([f"the time limit of {name} is {limit:,} steps"] if is_cut else []),
        *course(run),
        iterations=(run.past[0]["iteration"], run.now["iteration"]),
    )


def replay_young(run: History, policy: str) -> Finding | None:
    """Finds a run that has not begun to learn from its replay."""
    starts, made = run.number("learning_starts", policy), run.column("gradient_steps", policy)
    if starts is None or (made and made[-1] > 0):
        return None
    now = run.now["env_steps"]
    if not (run.budget and starts >= run.budget) and now < max(LATE * (run.budget or 4 * FIXED_STEPS), STEPS):
        return None
    of = f" of {run.budget:,.0f}" if run.budget else ""
    line = f"no gradient step after {now:,}{of} env steps: learning_starts = {starts:,.0f}"
    return finding("replay-young", line, policy=policy, iterations=run.span)


def replay_small(run: History, policy: str) -> Finding | None:
    """Finds a replay buffer that forgets too soon."""
    capacity, batch = run.number("replay.capacity", policy), run.number("batch_size", policy)
    decisions = run.column("decisions", policy)
    if capacity is None or batch is None or not decisions or decisions[-1] < OLD * capacity:
        return None
    length = run.now["length_mean"] or 0.0
    tiny = capacity <= TINY and decisions[-1] >= TINY_OLD * capacity
    if capacity >= max(20 * batch, 5 * length, TINY + 1) or not (tiny or run.is_stuck):
        return None
    return finding(
        "replay-small",
        f"the replay holds {capacity:,.0f} decisions, of {decisions[-1]:,.0f} made: about "
        f"{capacity / max(length, 1.0):.2g} episodes",
        *course(run),
        policy=policy,
        iterations=run.span,
        column="replay_size",
    )


def epsilon_stuck(run: History, policy: str) -> Finding | None:
    """Finds exploration that does not fall, or never was."""
    values = run.column("epsilon", policy)
    if not values or run.number("exploration.per_env_epsilon", policy) or run.now["iteration"] < SOON:
        return None
    now = run.now
    late = now["env_steps"] >= (HALF * run.budget if run.budget else FIXED_STEPS)
    first = run.column("epsilon", policy, past=True)[0]
    if late and min(values) >= RANDOM:
        line = f"{100 * values[-1]:.0f} % of the actions are random after {now['env_steps']:,} env steps"
        if run.budget:
            line += f" of {run.budget:,.0f}"
    elif first < GREEDY and now["env_steps"] >= STEPS and run.is_stuck:
        line = f"actions were never random: epsilon = {first:g} from the start"
    else:
        return None
    return finding("epsilon-stuck", line, *course(run), policy=policy, iterations=run.span,
                   curve=curve(run.column("epsilon", policy, past=True)), column="epsilon")  # fmt: skip


def evaluation_below(run: History, policy: str) -> Finding | None:
    """Finds evaluations far below training, again and again."""
    last = list(run.evaluations)[-SEVERAL:]
    if len(last) < SEVERAL or not run.is_judged:
        return None
    if not all(one["return_mean"] is not None and is_below(one, run.scatter) for one in last):
        return None
    (mean, low, high), training = last[-1]["evaluation"], last[-1]["return_mean"]
    return finding(
        "evaluation-below-training",
        f"the evaluation is {mean:.4g}, and training {training:.4g}: the last {SEVERAL} evaluations were far below",
        f"95 % interval of the last evaluation {low:.4g} to {high:.4g}",
        iterations=(last[0]["iteration"], last[-1]["iteration"]),
        curve=curve([one["evaluation"][0] for one in run.evaluations]),
    )


def is_below(entry: Entry, scatter: float) -> bool:
    """Returns whether the interval of an evaluation is far below the return of training."""
    mean: float = entry["return_mean"]
    high: float = entry["evaluation"][2]
    spread = max(scatter, 0.1 * abs(mean))
    return high < mean - FAR_BELOW * spread


def evaluation_above(run: History, policy: str) -> Finding | None:
    """Finds evaluations above the best episodes of training, again and again, while training stays the same."""
    last = list(run.evaluations)[-SEVERAL:]
    if len(last) < SEVERAL or not run.is_judged or any(one["return_max"] is None for one in last):
        return None
    means = [one["return_mean"] for one in last]
    if max(means) - min(means) > 0.2 * run.scatter or not all(one["evaluation"][1] > one["return_max"] for one in last):
        return None
    mean, low, high = last[-1]["evaluation"]
    return finding(
        "evaluation-above-training",
        f"the evaluation is {mean:.4g}, and the best of the last training episodes {last[-1]['return_max']:.4g}",
        f"95 % interval of the last evaluation {low:.4g} to {high:.4g}",
        iterations=(last[0]["iteration"], last[-1]["iteration"]),
    )


def policy_unmapped(run: History, policy: str) -> Finding | None:
    """Finds policies that have never made a decision."""
    now = run.now
    if now["iteration"] < SOON or now["episodes"] < SOON or now.get("self_play"):
        return None
    known, named = now["policies"], run.settings.trained
    idle = [name for name in {**named, **known} if not known.get(name, {}).get("decisions") and named.get(name, True)]
    if not idle or len(idle) == len({**named, **known}):
        return None
    return finding(
        "policy-unmapped",
        f"no agent has played policy {', '.join(idle)} in {now['episodes']:,} episodes",
        f"agents that have played: {', '.join(now['agents']) or 'none'}",
        subject=idle[0],
        iterations=(1, now["iteration"]),
    )


RUN_RULES = (
    Rule("reward-constant", rewards_alike, of_run=True),
    Rule("episodes-endless", episodes_endless, of_run=True),
    Rule("episodes-shrink", episodes_shrink, of_run=True),
    Rule("episodes-short", episodes_short, of_run=True),
    Rule("policy-unmapped", policy_unmapped, of_run=True),
    Rule("replay-young", replay_young),
    Rule("replay-small", replay_small),
    Rule("epsilon-stuck", epsilon_stuck, ("epsilon",)),
    Rule("return-falling", return_falling, of_run=True),
    Rule("evaluation-below-training", evaluation_below, of_run=True),
    Rule("evaluation-above-training", evaluation_above, of_run=True),
)
