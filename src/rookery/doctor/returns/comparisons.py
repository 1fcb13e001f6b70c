"""Rules that compare what the trained policies earn with random play, with constant actions and with training."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import median

import numpy as np

from rookery.doctor.returns.cycles import reward_cycle
from rookery.doctor.returns.ends import early_end_pays
from rookery.doctor.returns.episode_returns import FEWEST, EpisodeReturns
from rookery.doctor.returns.plays import Constants, Plays, is_far_below
from rookery.doctor.returns.waiting import waiting_pays
from rookery.report.finding import Finding, Severity
from rookery.report.statistics import mean_interval
from rookery.run.findings.catalog import CHECK_ENV, MAIN, finding
from rookery.run.findings.history import History, is_negligible
from rookery.run.findings.policy_rules import COLLAPSED, LARGE_KL, course, entropy_stuck, lower_rate
from rookery.run.findings.rule import LATER

BELOW = "evaluation-below-training"

RARE = 0.5
"""Share of successful episodes below which success is rare."""

EARLY = 0.05
"""Share of a run after which exploration has ended early."""

LARGE_LR = 3e-3
"""Learning rate from which on it is a likely cause of a policy that is worse than random play."""

AS_GOOD = 0.01
"""Share of the best return within which another one is as good."""

STAYS = "to stay in the episode earns more than success"
LEAVES = "steps cost, and an end without success costs less, so the policy ends episodes early"
PAID = "the reward pays for something else"


def compare(plays: Plays, history: History | None, learns: bool, policy: str) -> list[Finding]:
    """Returns the findings of the returns of a run's policies.

    Args:
        plays: Returns of the policies, of random play and of constant actions.
        history: The rows of the run; None without rows.
        learns: Whether the return of the training has risen.
        policy: Name of the only policy; empty if there are several.
    """
    own, chance = plays.own, plays.chance
    if own is None or not plays.is_enough or (history is not None and not history.is_judged):
        return []
    found = [*compare_with_random(plays, history, learns), *evaluation_below(plays, history)]
    found += no_better_than_constant(plays, history, learns, policy)
    if plays.gamma is not None and plays.gamma < 1.0:
        rivals = [(f"always {text}", one) for text, one in plays.constants]
        rivals += [] if chance is None else [("random play", chance)]
        found += gamma_short(own, rivals, plays.gamma, policy)
    if chance is not None:
        found += return_without_success(own, chance)
    found += waiting_pays(plays)
    return [*found, *early_end_pays(plays, [] if history is None else _lengths(history)), *reward_cycle(plays)]


def settled(of_rows: Sequence[Finding], found: Sequence[Finding], plays: Plays) -> list[Finding]:
    """Returns the findings of rows that play does not contradict.

    Returns are not the same for all behaviours if random play or a constant action earns more than the policy for
    certain, and where play compares evaluation and training, it knows more than rows do.

    Args:
        of_rows: Findings of rows.
        found: Findings of the returns of play.
        plays: These returns.
    """
    settled_rules = {one.rule for one in found if one.rule == BELOW}
    rivals = [one for _, one in plays.constants] + ([] if plays.chance is None else [plays.chance])
    if plays.own is not None and plays.is_enough:
        high = plays.own.interval[1]
        if any(len(one.values) >= FEWEST and one.interval[0] > high for one in rivals):
            settled_rules |= {"reward-constant", "reward-missing"}
    return [one for one in of_rows if one.rule not in settled_rules]


def compare_with_random(plays: Plays, history: History | None, learns: bool) -> list[Finding]:
    """Finds policies that are no better, or worse, than random play.

    Args:
        plays: Returns of the policies and of random play.
        history: The rows of the run; None without rows.
        learns: Whether the return of the training has risen.
    """
    own, chance = plays.own, plays.chance
    if own is None or chance is None or len(chance.values) < FEWEST or not own.is_no_better(chance):
        return []
    returns = f"{own.mean:.4g} and {chance.mean:.4g}"
    if own.interval[1] >= chance.interval[0]:
        hardly = "hardly" if own.interval[0] > chance.interval[1] else "no"
        line = f"the policy is {hardly} better than random play: {returns}{_noise(own, chance)}"
        return [finding("no-better-than-random", line, *plays.texts, severity="note" if learns else None)]
    line, is_early = f"the policy is worse than random play: {returns}", history is None or _is_early(history)
    severity: Severity = "warning" if learns or is_early or _draws_are_better(plays) else "error"
    causes, remedies = _why_worse(plays, history)
    return [
        finding(
            "worse-than-random", line, *plays.texts, severity=severity, causes=causes or None, remedies=remedies or None
        )
    ]


def _noise(own: EpisodeReturns, other: EpisodeReturns) -> str:
    """Returns in words that a difference of returns is within the noise; an empty string where it is not."""
    low, high = own.interval
    if low > other.interval[1] or own.mean == other.mean:
        return ""
    return f", a difference within the noise (95 % intervals {low:.4g} to {high:.4g} and {other.interval[0]:.4g} to " \
           f"{other.interval[1]:.4g})"  # fmt: skip


def is_best(plays: Plays, history: History | None) -> bool:
    """Returns whether the policies earn as much as the best behaviour that was played, and as the best iteration."""
    own = plays.own
    if own is None:
        return False
    others = [one.mean for _, one in plays.constants] + ([] if plays.chance is None else [plays.chance.mean])
    best = max([*others, *([] if history is None else [value for _, value in history.returns])], default=own.mean)
    return own.mean >= best - AS_GOOD * abs(best)


def is_best_constant(plays: Plays) -> bool:
    """Returns whether the policies earn in each episode what the best constant action earns, and for certain more than
    random play: then the best behaviour that is known is a constant one.
    """
    own, chance = plays.own, plays.chance
    if own is None or chance is None or not plays.constants or own.is_no_better(chance):
        return False
    best = max((one for _, one in plays.constants), key=lambda one: one.mean)
    both = list(zip(own.values, best.values, strict=False))
    return len(both) >= FEWEST and all(math.isclose(one, other, rel_tol=1e-6) for one, other in both)


def _is_early(history: History) -> bool:
    """Returns whether a run has had few iterations so far."""
    return bool(history.now["iteration"] < LATER)


def _draws_are_better(plays: Plays) -> bool:
    """Returns whether the policies are better than random play with drawn actions."""
    return plays.drawn is not None and plays.chance is not None and not plays.drawn.is_no_better(plays.chance)


def _why_worse(plays: Plays, history: History | None) -> tuple[list[str], list[str]]:
    """Returns causes of returns below those of random play for which there is evidence, and what to try."""
    causes, remedies = [], []
    if _draws_are_better(plays):
        assert plays.drawn is not None
        causes = [f"the most likely actions run in circles or stay: drawn actions earn {plays.drawn.mean:.4g}"]
        return causes, ["evaluation.deterministic=false", "rookery evaluate RUN --stochastic"]
    if history is None or plays.chance is None or history.latest is None:
        return [], []
    high = plays.chance.interval[1]
    for policy in history.now["policies"]:
        if entropy_stuck(history, policy) is not None:
            continue  # updates that are too large do not leave the entropy as it was
        rate, divergences = history.number("lr", policy), history.column("kl", policy)
        signs = [f"lr = {rate:g}"] if rate is not None and rate >= LARGE_LR else []
        signs += [f"the KL divergence is {median(divergences):.2g}"] if divergences and median(
            divergences) > LARGE_KL else []  # fmt: skip
        signs += ["the return of training has fallen"] if history.has_fallen else []
        if signs:
            causes.append(f"updates are too large: {', '.join(signs)}")
            at = "algorithm" if policy == MAIN else f"policies.{policy}"
            remedies.append(lower_rate(history, policy).replace("{at}", at))
    if history.latest > high and not history.has_fallen:
        causes.append(f"training earns {history.latest:.4g}: evaluations have other observations or rewards")
        remedies += [CHECK_ENV, "look for wrappers with statistics, a buffer or a counter of their own"]
    elif not history.has_fallen:
        causes.append("training has never been better: the reward has the wrong sign, is paid late or in the next "
                      "episode, or observations do not show what it depends on")  # fmt: skip
        remedies.append(CHECK_ENV)
    if _is_early(history):
        causes.append(f"the training was short: {history.now['iteration']:,} iterations")
        remedies.append("rookery resume RUN --stop env_steps=N")
    return causes, remedies


def evaluation_below(plays: Plays, history: History | None) -> list[Finding]:
    """Finds evaluations far below training: a note where drawn actions earn as much as training.

    Args:
        plays: Returns of the policies, with drawn actions where an evaluation plays the most likely ones.
        history: The rows of the run; None without rows.
    """
    own, drawn = plays.own, plays.drawn
    if own is None or history is None or history.latest is None or not is_far_below(own, history):
        return []
    if drawn is not None and len(drawn.values) >= FEWEST and not is_far_below(drawn, history):
        return [
            finding(
                BELOW,
                f"the most likely actions earn {own.mean:.4g}, and drawn ones {drawn.mean:.4g}, as in training "
                f"({history.latest:.4g})",
                *plays.texts,
                severity="note",
                causes=("the policy needs its random actions: the most likely ones run in circles or stay",),
                remedies=(
                    "evaluation.deterministic=false",
                    "rookery evaluate RUN --stochastic",
                    "{at}.entropy_coef=0.0",
                ),
            )
        ]
    differs = "the environment of the evaluation differs: another wrapper, normalizer or parameter"
    needs = "the policy needs its random actions: most likely actions run in circles"
    line = f"the evaluation is {own.mean:.4g}, and training {history.latest:.4g}"
    causes = (needs, differs) if drawn is None else (differs,)
    return [finding(BELOW, line, *plays.texts, causes=causes)]


def no_better_than_constant(plays: Plays, history: History | None, learns: bool, policy: str) -> list[Finding]:
    """Finds policies that are no better than the best constant action.

    It is a warning where the policy has not learned, and where the constant action's lead over the policy is larger
    than the policy's lead over random play; else the best behaviour may be a constant one.

    Args:
        plays: Returns of the policies, of random play and of constant actions.
        history: The rows of the run; None without rows.
        learns: Whether the return of the training has risen.
        policy: Name of the only policy; empty if there are several.
    """
    own, chance, constants = plays.own, plays.chance, plays.constants
    if own is None or not constants or min(len(one.values) for one in (own, *(one for _, one in constants))) < FEWEST:
        return []
    text, best = max(constants, key=lambda pair: pair[1].mean)
    if not own.is_no_better(best):
        return []
    has_learned = learns or (chance is not None and not own.is_no_better(chance))
    lines = [f"evaluation {own.text()}", f"always {text} {best.text()}"]
    if own.interval[1] >= best.interval[0]:
        hardly = "hardly" if own.interval[0] > best.interval[1] else "no"
        line = f"the policy is {hardly} better than always {text}: {own.mean:.4g} and {best.mean:.4g}"
        line += _noise(own, best)
        if has_learned and (is_best(plays, history) or is_best_constant(plays)):
            return []
        return [finding("no-better-than-constant", line, *lines, severity="note" if has_learned else None)]
    lead = best.mean - own.mean
    gained = 0.0 if chance is None else max(own.mean - chance.mean, 0.0)
    is_far = not is_negligible(lead, own.mean, own.width) and lead > gained
    if history is not None and history.are_alike:
        lines.append(f"the last episodes of training all have the same return, {history.now['return_max']:.4g}")
    causes, remedies = _no_exploration(history, policy)
    return [
        finding(
            "no-better-than-constant",
            f"always {text} earns more than the policy: {best.mean:.4g} and {own.mean:.4g}",
            *lines,
            policy=policy,
            severity=None if is_far or not has_learned else "note",
            causes=(
                *causes,
                "learning has stopped early, at the first reward that was found",
                "the observation lacks what the task needs",
            ),
            remedies=(*remedies, "rookery resume RUN --stop env_steps=N", CHECK_ENV),
        )
    ]


def _no_exploration(history: History | None, policy: str) -> tuple[list[str], list[str]]:
    """Returns in words that exploration has ended early, and what to try; empty lists where it has not."""
    if history is None or not policy:
        return [], []
    now = history.now["env_steps"]
    rates = [(one["env_steps"], one["policies"].get(policy, {}).get("epsilon")) for one in history.past]
    known = [(steps, rate) for steps, rate in rates if rate is not None]
    if known and not history.number("exploration.per_env_epsilon", policy):
        end = min(rate for _, rate in known)
        since = next(steps for steps, rate in known if rate <= end)
        schedule = history.setting("exploration.epsilon", policy)
        if isinstance(schedule, Mapping) and isinstance(steps := schedule.get("steps"), int | float):
            since = min(since, int(steps))
        if since < EARLY * now:
            longer = f"{{at}}.exploration.epsilon={{start: 1.0, end: 0.05, steps: {now // 2}}}"
            return [f"exploration ended early: epsilon was {end:g} after {since:,} of {now:,} env steps"], [longer]
    entropies = history.column("entropy", policy, past=True)
    if entropies and entropies[0] > 0.0 and entropies[-1] < COLLAPSED * max(entropies[:3]):
        line = f"exploration has ended: the entropy has fallen from {max(entropies[:3]):.2g} to {entropies[-1]:.2g}"
        return [line], ["{at}.entropy_coef=0.01"]
    return [], []


def _lengths(history: History) -> list[str]:
    """Returns the course of lengths and returns of episodes in words."""
    lengths = history.column("length_mean", past=True)
    return [*([f"episodes of training had {lengths[0]:.3g} steps, and have {lengths[-1]:.3g}"] if lengths else []),
            *course(history)]  # fmt: skip


def gamma_short(own: EpisodeReturns, rivals: Constants, gamma: float, policy: str) -> list[Finding]:
    """Finds discounts with which another behaviour is worse than the policy, although it earns clearly more.

    Args:
        own: Returns of the policy.
        rivals: Returns of other behaviours, with their names.
        gamma: The discount.
        policy: Name of the policy; empty if there are several.
    """
    better = [
        (text, one)
        for text, one in rivals
        if min(len(own.discounted), len(one.discounted)) >= FEWEST
        and not one.is_no_better(own)
        and mean_interval(own.discounted)[0] > mean_interval(one.discounted)[1]
    ]
    if not better:
        return []
    text, best = max(better, key=lambda pair: pair[1].mean)
    length = median(own.lengths)
    discounted = [float(np.mean(one.discounted)) for one in (best, own)]
    more = f"{{at}}.gamma={max(1.0 - 1.0 / max(length, 2.0), gamma):.4g}"
    return [
        finding(
            "gamma-short",
            f"{text} earns more than the policy, {best.mean:.4g} and {own.mean:.4g}, but less of it counts with gamma "
            f"= {gamma:g}: {discounted[0]:.4g} and {discounted[1]:.4g}",
            f"gamma sees about {1.0 / (1.0 - gamma):,.0f} steps ahead, and episodes have {length:,.0f}",
            f"evaluation {own.text()}",
            f"{text} {best.text()}",
            policy=policy,
            remedies=(more, "{at}.gamma=0.99"),
        )
    ]


def return_without_success(own: EpisodeReturns, chance: EpisodeReturns) -> list[Finding]:
    """Finds returns that are clearly above those of random play, while success is rare and no more frequent.

    Args:
        own: Returns of the policy.
        chance: Returns of random play.
    """
    if min(len(own.successes), len(chance.successes)) < FEWEST or own.is_no_better(chance):
        return []
    mine, others = np.mean(own.successes), np.mean(chance.successes)
    if mine >= RARE or mean_interval(tuple(map(float, own.successes)))[0] > others:
        return []
    steps, of_chance = np.mean(own.lengths), np.mean(chance.lengths)
    by_success = [[value for value, one in zip(own.values, own.successes, strict=False) if one is is_success]
                  for is_success in (False, True)]  # fmt: skip
    failed, succeeded = (math.fsum(each) / len(each) if each else math.nan for each in by_success)
    stays = failed > succeeded or (not mine and steps > of_chance)
    more = f"episodes without success earn {failed:.4g} on average, and those with it {succeeded:.4g}"
    return [
        finding(
            "return-without-success",
            f"{100 * mine:.0f} % of the episodes of the policy are a success, and {100 * others:.0f} % of those of "
            "random play, although its return is far higher: "
            + (STAYS if stays else LEAVES if own.mean < 0.0 and steps < of_chance else PAID),
            *([more] if mine else []),
            f"evaluation {own.text()}, of {steps:,.0f} steps",
            f"random play {chance.text()}, of {of_chance:,.0f} steps",
        )
    ]
