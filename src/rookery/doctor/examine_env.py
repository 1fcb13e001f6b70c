"""`examine_env`: checks and probes an environment before anything is trained in it; ``rookery doctor ENV``.

`check_env` looks for violations of the contract. Before it, probes play for a few seconds, without learning: random
actions, every action alone, and different actions from equal states and seeds. They show problems that no single step
shows, such as a reward that no behaviour changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from statistics import fmean
from time import monotonic, perf_counter
from typing import Any

import numpy as np

from rookery.core.errors import EnvError
from rookery.core.seeding import Role, Streams
from rookery.core.spaces.arrays import CATEGORIES, Leaf, Tree
from rookery.doctor.decision_rules import decision_findings
from rookery.doctor.effects import Effects
from rookery.doctor.env_play import EnvPlay, play_env, single_env
from rookery.doctor.inside.masks import mask_findings, naming_masks
from rookery.doctor.inside.starts import starts_alike
from rookery.doctor.play_rules import Seen, obs_clipped, obs_duplicated, obs_late
from rookery.doctor.probe import COPIES, MakeCopies, PlayMeasurements, constant_actions, watch_constant
from rookery.doctor.wrappers.audit import wrapper_findings
from rookery.envs.adapters.gym_env import AGENT
from rookery.envs.adapters.probe import EnvFinding
from rookery.envs.base import Kind, VectorEnv, has_throwaways
from rookery.envs.check import check_env
from rookery.envs.make import env_name, make_env
from rookery.envs.schemes import scheme_of
from rookery.models.image_encoders import NUM_CODES
from rookery.report.finding import Finding, Severity
from rookery.run.checks.obs_scale import FAR
from rookery.run.findings.catalog import causes_first, finding
from rookery.run.findings.run_rules import DECISIONS

NOT_PLAYED = "nothing was played: this is a program outside, which is stepped with --play only"

CHECKED = {
    "constant obs": "obs-constant",
    "endless": "episodes-endless",
    "idle": "episodes-endless",
    "idle agent": "agent-idle",
    "no reward": "reward-missing",
    "not deterministic": "not-deterministic",
    "shared state": "state-shared",
    "time limit": "time-limit-as-termination",
}
"""Rules of `check_env`'s findings by their sort; those of others are ``obs-not-finite``, ``obs-out-of-space`` or
``env-check``.
"""

FOR_WRAPPERS = 0.2
"""Share of the time for a comparison of wrappers with what they wrap, after the other plays."""

SLOW, VERY_SLOW = 500.0, 50.0
"""Env steps per second below which an environment is slow: a note, and a warning."""

LARGE, SMALL = 1_000.0, 1e-3
"""Root mean square of rewards other than 0 beyond which their scale is noted."""

LATE = 50
"""Fewest steps of an episode whose only reward is that of its last step, for a note."""

MOST_ELEMENTS = 1_000
"""Number of elements of a box up to which constant ones are listed."""

ENOUGH = 200
"""Fewest steps for findings on observations that are always the same, and on actions without an effect."""

FEW = 5
"""Fewest ended episodes for findings on how episodes end."""

MOST_PLAYED = 50_000
"""Most vector steps of a play."""

SLOW_TO_CHECK = 20_000
"""Bytes of an observation above which checks of it take longer than a step."""

CHECKED_EPISODES, MOST_CHECKED_STEPS, CHECK_SECONDS = 5, 2_000, 10.0
"""Episodes of `check_env`, the steps after which one counts as endless, and the approximate time limit of all: in slow
environments episodes are cut earlier.
"""


@dataclass(frozen=True)
class EnvExamination:
    """Findings and measurements of an environment.

    Attributes:
        env: Name of the environment.
        findings: Problems, the worst first.
        facts: Measurements, one a line.
        seconds: Time that the examination took.
    """

    env: str
    findings: tuple[Finding, ...]
    facts: tuple[str, ...]
    seconds: float


def examine_env(
    env: Any,
    config: Mapping[str, Any] | None,
    wrappers: Sequence[Any],
    *,
    seconds: float,
    play: bool = False,
    max_entities: int | None = None,
) -> EnvExamination:
    """Checks an environment and plays it for some seconds.

    Args:
        env: Name or maker of the environment, as for `make_env`; so are the arguments not described here.
        config: Keyword arguments of the environment's constructor.
        wrappers: Wrappers of each environment.
        seconds: Approximate time of the probes; checks take a few seconds more.
        play: Whether to play environments of which there are no throwaway ones: players, editors, clients, robots.
        max_entities: Largest number of elements of a ``Sequence``.

    Raises:
        EnvError: If there is no such environment, or it cannot be built.
    """
    began, name, streams = perf_counter(), env_name(env), Streams(0)

    def make(copies: int) -> VectorEnv:
        return make_env(env, config, wrappers, copies, "serial", max_entities=max_entities)

    if not play and (scheme_of(env).is_real if isinstance(env, str) else not getattr(env, "throwaway", True)):
        return EnvExamination(name, (), (NOT_PLAYED,), perf_counter() - began)
    with closing(make(1)) as first:
        kinds, throwaway = first.kinds, has_throwaways(first)
    if not throwaway and not play:
        return EnvExamination(name, (), (NOT_PLAYED,), perf_counter() - began)
    seen = PlayMeasurements()
    findings: list[Finding] = []
    facts: list[str] = []
    try:
        played = play_env(make, 0.6 * seconds, MOST_PLAYED)
        seen = played.random
        findings, facts = _probe(make, kinds, played, seconds, streams)
        single = single_env(env, config, wrappers, "auto")
        until = monotonic() + FOR_WRAPPERS * seconds
        findings += map(_of_env, [*starts_alike(make, single, until), *wrapper_findings(single, until)])
    except EnvError as error:
        rule = "obs-not-finite" if "non-finite observation" in str(error) else "env-fails"
        findings = [_found(rule, "error", str(error))]
    size = max((sum(array.nbytes for array in kind.obs.allocate(1).values()) for kind in kinds), default=0)
    speed = seen.steps / seen.seconds / max(1.0, size / SLOW_TO_CHECK) if seen.steps else MOST_CHECKED_STEPS
    steps = int(np.clip(speed * CHECK_SECONDS / CHECKED_EPISODES, 200, MOST_CHECKED_STEPS))
    checked = check_env(
        env, config, wrappers, episodes=CHECKED_EPISODES, max_steps=steps, seed=0, max_entities=max_entities
    )
    facts += [f"{one.where}: {one.text}" if one.where else one.text for one in checked if one.severity == "note"]
    breaches = [_from_check(one) for one in checked if one.severity != "note"]
    breaches = [one for one in breaches if not _is_refuted(one, seen, steps)]
    found = causes_first(_without_repeats(breaches + findings))
    return EnvExamination(name, tuple(found), tuple(facts), perf_counter() - began)


def _probe(
    make: MakeCopies, kinds: Sequence[Kind], played: EnvPlay, seconds: float, streams: Streams
) -> tuple[list[Finding], list[str]]:
    """Returns the findings of short plays, and lines of measurements; plays constant actions, too.

    Args:
        make: Makes a number of environments.
        kinds: The kinds of agents.
        played: Plays of the environment.
        seconds: Time of all probes.
        streams: Random streams.
    """
    seen, began = played.random, monotonic()
    findings = [*_about_rewards(seen), *_about_ends(seen), *_about_speed(seen)]
    facts = _facts_of_play(seen)
    for number, kind in enumerate(kinds):
        findings += _about_obs(kind, seen, number)
        facts += _facts_of_obs(kind, seen.observed(number))
    constant = _watch_each(make, kinds, 0.4 * seconds, streams)
    by_decision, _ = decision_findings(make, played, {}, began + 0.5 * seconds)
    by_mask = mask_findings(make, kinds, played.effects, began + 0.6 * seconds)
    by_play = naming_masks([*played.findings(), *by_mask], kinds)
    findings += [*_about_constant(seen, constant), *map(_of_env, [*by_play, *by_decision])]
    facts += _facts_of_constant(constant)
    for effects in played.effects:
        facts += _facts_of_effects(effects)
    return findings, facts


def _of_env(found: Finding) -> Finding:
    """Returns a finding without the remedy that leads here, and without the subject of a single agent."""
    return replace(found, remedies=(), subject="" if found.subject == AGENT else found.subject)


def _found(rule: str, severity: Severity, message: str, *evidence: str, subject: str = "",
           causes: tuple[str, ...] = (), remedies: tuple[str, ...] = ()) -> Finding:  # fmt: skip
    """Returns a finding of an environment, by default with the causes of its rule and without remedies, which are for
    runs.
    """
    return finding(
        rule, message, *evidence, subject=subject, severity=severity, causes=causes or None, remedies=remedies
    )


def _from_check(found: EnvFinding) -> Finding:
    """Returns the finding of `check_env` as one of the doctor's."""
    if found.sort.startswith("value "):
        rule = "obs-not-finite" if "non-finite" in found.text else "obs-out-of-space"
    else:
        rule = CHECKED.get(found.sort, "obs-out-of-space" if found.sort.endswith(" value") else "env-check")
    again = f"{found.count:,} times" if found.count > 1 else ""
    severity: Severity = "note" if found.sort.startswith("left out ") else found.severity
    return _found(rule, severity, found.text, *filter(None, (found.where, again)))


def _is_refuted(found: Finding, seen: PlayMeasurements, steps: int) -> bool:
    """Whether a finding of `check_env`, from few episodes, does not hold in the longer random play.

    Episodes of equal length that are paid at their end only are tasks of that length, and have no time limit.

    Args:
        found: The finding.
        seen: Measurements of random play.
        steps: Steps after which `check_env` has called an episode endless.
    """
    if found.rule == "reward-missing":
        return any(seen.sizes)
    if found.rule == "episodes-endless":
        return bool(seen.lengths) or max(steps, seen.steps // COPIES) < MOST_CHECKED_STEPS
    paid_at_end = any(seen.sizes) and bool(np.count_nonzero(seen.sizes) <= np.count_nonzero(seen.last_rewards))
    return found.rule == "time-limit-as-termination" and (len(set(seen.lengths)) > 1 or paid_at_end)


def _without_repeats(findings: list[Finding]) -> list[Finding]:
    """Returns the findings, the first of each rule and subject; of violations of the contract, all."""
    kept: dict[Any, Finding] = {}
    for number, one in enumerate(findings):
        kept.setdefault(number if one.rule == "env-check" else (one.rule, one.subject), one)
    return list(kept.values())


# --- rewards and ends -------------------------------------------------------------------------------------------------


def _about_rewards(seen: PlayMeasurements) -> Iterator[Finding]:
    """Yields findings on the rewards of random play."""
    rewards = np.asarray(seen.sizes)
    earned = rewards[rewards != 0.0]
    if len(rewards) and not len(earned):
        yield _found(
            "reward-missing",
            "warning",
            "random play finds no reward, so a policy that begins at random may not either",
            f"{len(rewards):,} rewards were 0",
            causes=("the goal is too far away to be found by chance", "the reward is returned in another place"),
            remedies=("'algorithm.signals.rnd={}'",),
        )
    if not len(earned):
        return
    size = float(np.sqrt(np.mean(np.square(earned))))
    if not SMALL <= size <= LARGE:
        yield _found(
            "reward-scale",
            "note",
            f"rewards other than 0 have a size of about {size:.3g}",
            f"sizes from {earned.min():.3g} to {earned.max():.3g}",
            causes=("most algorithms learn them in another unit (docs/how-to/scale.md); offline ones do not",),
        )
    long = [length for length in seen.lengths if length >= LATE]
    if len(long) >= FEW and len(earned) <= np.count_nonzero(seen.last_rewards):
        yield _found(
            "reward-late",
            "note",
            "only the last step of an episode has a reward, and episodes are long",
            f"episodes of {fmean(seen.lengths):.0f} steps on average",
            remedies=("algorithm.gamma=0.999", "algorithm.gae_lambda=0.98"),
        )


def _about_ends(seen: PlayMeasurements) -> Iterator[Finding]:
    """Yields findings on how the episodes of random play end."""
    if not seen.lengths and seen.steps >= COPIES * MOST_CHECKED_STEPS:
        yield _found(
            "episodes-endless",
            "warning",
            f"no episode ended within {seen.steps // COPIES:,} steps of random play",
            causes=("the environment reports no end",),
            remedies=("env.config.max_episode_steps=1000",),
        )
    if len(seen.lengths) >= ENOUGH and max(seen.lengths) <= DECISIONS:
        yield _found(
            "episodes-short",
            "note",
            f"all {len(seen.lengths):,} episodes of random play were over after {max(seen.lengths)} steps or fewer",
        )


def _about_speed(seen: PlayMeasurements) -> Iterator[Finding]:
    """Yields a finding on a slow environment."""
    speed = seen.steps / max(seen.seconds, 1e-9)
    if seen.steps and speed < SLOW:
        yield _found(
            "env-slow",
            "warning" if speed < VERY_SLOW else "note",
            f"{speed:,.0f} steps a second in one process",
            f"1,000,000 steps take {1e6 / speed / 3600:,.1f} hours",
            remedies=("sampling.env_processes=4", "sampling.num_envs=32"),
        )


def _watch_each(
    make: MakeCopies, kinds: Sequence[Kind], seconds: float, streams: Streams
) -> dict[str, PlayMeasurements]:
    """Returns the measurements of each constant action, by its name."""
    found = {}
    for number, kind in enumerate(kinds):
        actions = constant_actions(kind.action, streams.generator(Role.ACTION, "constant"), elements=False)
        limit = seconds / len(kinds) / len(actions)
        for action in actions:
            who = f" of {_who(kind.agents) or kind.agents[0]}" if len(kinds) > 1 else ""
            found[f"{action.text}{who}"] = watch_constant(make, number, action, limit, 10, streams, MOST_PLAYED)
    return found


def _about_constant(seen: PlayMeasurements, constant: Mapping[str, PlayMeasurements]) -> Iterator[Finding]:
    """Yields a finding if no behaviour that was tried has another return than the others."""
    plays = [seen, *constant.values()]
    returns = [value for play in plays for value in play.returns]
    by_agent = [values for play in plays for values in play.by_agent]
    rewards = {reward for play in plays for reward in play.rewards}
    same = len(returns) >= FEW and bool(np.allclose(by_agent, by_agent[0], rtol=1e-9, atol=1e-9))
    if constant and any(seen.sizes) and (same or (not returns and len(rewards) == 1)):
        yield _found(
            "reward-constant",
            "warning",
            "no behaviour that was tried earns more than another",
            f"all {len(returns):,} episodes had a return of {returns[0]:.5g}" if returns else "all rewards were equal",
            causes=("the reward does not depend on the actions", "its differences are further away than these plays"),
        )


# --- observations -----------------------------------------------------------------------------------------------------


def _about_obs(kind: Kind, seen: PlayMeasurements, number: int) -> list[Finding]:
    """Returns findings on the observations of a kind of agents.

    Args:
        kind: The agents.
        seen: Random play.
        number: Number of the kind.
    """
    tree = seen.observed(number)
    leaves = [leaf for leaf in kind.obs.own.leaves if leaf.kind not in ("mask", "entities") and leaf.path in tree]
    findings: list[Finding] = []
    varied = False
    for leaf in leaves:
        values = tree[leaf.path].reshape(len(tree[leaf.path]), -1)
        if len(values) < 2:
            return []
        constant = (values == values[0]).all(axis=0)
        varied |= not constant.all()
        if leaf.kind == "box":
            findings += _about_box(leaf, values, constant)
    if leaves and not varied and len(tree[leaves[0].path]) >= ENOUGH:
        text = "the observation is always the same: it does not show what actions change"
        count = f"{len(tree[leaves[0].path]):,} equal observations"
        return [_found("obs-constant", "warning", text, count, subject=_who(kind.agents))]
    shown = Seen(seen, number)
    return findings + [_of_env(one) for rule in (obs_late, obs_clipped, obs_duplicated) if (one := rule(shown))]


def _about_box(leaf: Leaf, values: np.ndarray, constant: np.ndarray) -> Iterator[Finding]:
    """Yields findings on a box of an observation.

    Args:
        leaf: Its layout.
        values: ``[N, elements]``, of random play.
        constant: ``[elements]`` bool, which elements never change.
    """
    if leaf.is_image:
        if leaf.scale > 1 and 0 < values.max() < NUM_CODES:
            yield _found(
                "images-are-categories",
                "note",
                "bytes of an image are small numbers, as of objects or states",
                f"values from {values.min()} to {values.max()}",
                subject=leaf.path,
                causes=("an embedding is learned for each, unless this setting is an empty list",),
                remedies=(f"'algorithm.model.categorical_images=[{leaf.path}]'",),
            )
        return
    size = float(np.sqrt(np.mean(np.square(values, dtype=np.float64), axis=0)).max())
    if leaf.dtype != np.uint8 and (size > FAR or 0.0 < size < 1.0 / FAR):
        yield _found(
            "obs-unnormalized",
            "note",
            "observations are far from 1",
            f"largest root mean square of an element: {size:.3g}",
            subject=leaf.path,
            causes=("they are normalized, unless this setting is false",),
            remedies=("algorithm.model.normalize_obs=true",),
        )
    if len(constant) >= MOST_ELEMENTS:
        return
    if 0 < constant.sum() < len(constant):
        which = ", ".join(map(str, np.flatnonzero(constant)[:10]))
        text = f"{constant.sum()} of {len(constant)} elements never change"
        more = ", ..." if constant.sum() > 10 else ""
        yield _found("obs-constant", "note", text, f"elements {which}{more}", subject=leaf.path)


def _who(agents: Sequence[str]) -> str:
    """Returns agents as subject; empty for a single one."""
    return "" if len(agents) == 1 else ", ".join(agents)


# --- facts ------------------------------------------------------------------------------------------------------------


def _facts_of_play(seen: PlayMeasurements) -> list[str]:
    """Returns lines on random play."""
    lines = [f"random play: {seen.steps:,} steps, {seen.steps / max(seen.seconds, 1e-9):,.0f} a second"]
    if seen.returns:
        low, high = min(seen.lengths), max(seen.lengths)
        length = f"{low:,}" if low == high else f"{low:,} to {high:,}"
        cut = sum(seen.truncated)
        lines.append(
            f"  {len(seen.returns):,} episodes of {length} steps, {cut:,} truncated; return {_spread(seen.returns)}"
        )
    return lines


def _facts_of_constant(constant: Mapping[str, PlayMeasurements]) -> list[str]:
    """Returns a line on each constant action."""
    lines = []
    for action, play in constant.items():
        by_step = f"{fmean(play.rewards):.4g} a step" if play.rewards else "not played"
        lines.append(f"always {action}: {f'return {_spread(play.returns)}' if play.returns else by_step}")
    return lines


def _facts_of_obs(kind: Kind, tree: Tree) -> list[str]:
    """Returns a line on each part of an observation: the part of its space that random play uses."""
    lines = []
    for leaf in kind.obs.own.leaves:
        values = tree.get(leaf.path)
        if values is None or not len(values) or leaf.kind in ("mask", "entities"):
            continue
        if leaf.kind in CATEGORIES:
            columns = values.reshape(len(values), -1)
            used = sum(len(np.unique(column)) for column in columns.T)
            what = f"{used:,} of {sum(leaf.sizes):,} categories seen"
        else:
            what = f"values from {values.min():.4g} to {values.max():.4g}"
        lines.append(f"observation {leaf.path}: {what}")
    return lines


def _facts_of_effects(effects: Effects) -> list[str]:
    """Returns a line on what the actions of an agent change."""
    who = "" if effects.agent == AGENT else f" of {effects.agent}"
    if not effects.is_comparable:
        return [f"effects of actions{who} are unknown: equal seeds and actions gave different steps"]
    if effects.lag is None:
        return [f"actions{who} change nothing within {effects.steps} steps"]
    parts = [f"{count:,} of {size:,} elements of {path}" for path, (count, size) in effects.changed.items() if count]
    parts += ["rewards"] * effects.reward + ["ends"] * effects.ends
    return [f"actions{who} change {', '.join(parts)}; the first difference is after {effects.lag} steps"]


def _spread(values: Sequence[float]) -> str:
    """Returns mean and range: ``22.1 (9 to 57)``."""
    low, high = min(values), max(values)
    return f"{low:.4g}" if low == high else f"{fmean(values):.4g} ({low:.4g} to {high:.4g})"
