"""Looks for reasons why a run does not learn: in its rows and files, and, where that is allowed, by playing.

`examine_run` reads a run, an experiment or a checkpoint. Code that a foreign run names is not run unless it is trusted
(docs/trust.md), and programs outside, such as players, clients and robots, are not stepped unless that is requested.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rookery.core.errors import ConfigError, EnvError, RookeryError
from rookery.core.process.torch_modes import own_torch
from rookery.core.seeding import Streams
from rookery.core.settings.starting_folder import started_in
from rookery.core.settings.trust import IMPORT_PATH, OBJECT, TrustCode
from rookery.doctor.decision_rules import decision_findings, with_shared
from rookery.doctor.env_play import play_env, single_env
from rookery.doctor.file_rules import file_findings
from rookery.doctor.inside.after_end import reward_after_end
from rookery.doctor.inside.attributes import with_attributes
from rookery.doctor.inside.entropy_range import target_entropy_unreachable
from rookery.doctor.inside.losses import loss_findings
from rookery.doctor.inside.masks import mask_findings, naming_masks
from rookery.doctor.inside.starts import starts_alike
from rookery.doctor.inside.value_range import values_bounded
from rookery.doctor.network import network_findings
from rookery.doctor.own_statistics import statistics_not_shared
from rookery.doctor.play_rules import OBS_RULES, Seen, reward_late, softened
from rookery.doctor.probe import STEPS, PlayMeasurements
from rookery.doctor.returns.comparisons import compare, is_best, is_best_constant, settled
from rookery.doctor.returns.plays import Plays, play_behaviours
from rookery.doctor.stored_run import CONFIG, JOURNAL, StoredRun, read_run, worst_trials
from rookery.doctor.time_limits import limit_before_reward
from rookery.doctor.wrappers.audit import wrapper_findings
from rookery.envs.base import VectorEnv, has_throwaways
from rookery.envs.schemes import scheme_of
from rookery.models.build import ModelConfig
from rookery.report.finding import Finding
from rookery.rollout.mapping import EpisodeInfo
from rookery.run.checkpoint.checkpoint import read_checkpoint
from rookery.run.checks.trusted_code import stored_config, without_foreign_code
from rookery.run.findings.catalog import causes_first, finding
from rookery.run.findings.diagnose import findings_of_rows
from rookery.run.findings.history import History
from rookery.run.findings.window import windows_of
from rookery.run.prepare import kinds_of, make_copies
from rookery.run.trainer import Trainer

SECONDS = 60.0
"""Longest time by default."""

BEYOND_SECONDS = 2.0
"""Shortest play without a time limit."""

FOR_WRAPPERS = 0.25
"""Share of the remaining time for a comparison of wrappers with what they wrap."""

AFTER_END = 0.1
"""Share of the remaining time for play beyond the ends of episodes."""

TRIALS = 3
"""Trials of an experiment that are examined: the worst ones."""

UNPLAYED = "nothing was played"
"""Begins a note on a run that was not played."""

REAL_PLAYER = "is a program outside, which is stepped with --play only"

WITHOUT_JUDGEMENT = ("obs-not-finite", "actions-without-effect", "actions-alike", "state-shared",
                     "state-survives-reset", "termination-as-truncation", "time-limit-as-termination",
                     "obs-reordered", "obs-unnormalized", "obs-clipped", "obs-duplicated", "rows-mixed",
                     "model-random", "network-blind", "rewards-swapped", "reward-unexplained-by-obs",
                     "limit-before-reward", "obs-rounded", "mask-inverted", "rewards-merged",
                     "rewards-reordered", "rewards-lost", "steps-after-end", "ends-changed", "obs-merged",
                     "mask-changed", "actions-changed", "starts-alike", "weights-without-gradient",
                     "policy-shared", "loss-mixes-rows", "loss-ignores-column",
                     "reward-after-end")  # fmt: skip
"""Rules whose findings count in a run that learns, too."""


@dataclass(frozen=True)
class Diagnosis:
    """Findings of a run.

    Attributes:
        run: The run.
        findings: The findings, the worst first.
        facts: Measured facts, such as the return of random play.
        notes: Parts that were left out, with the reason.
    """

    run: StoredRun
    findings: list[Finding]
    facts: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def is_unplayed(self) -> bool:
        """Whether nothing was played, so that most rules have seen nothing."""
        return any(one.startswith(UNPLAYED) for one in self.notes)


def examine(
    place: Path, *, time_limit: float = SECONDS, play: bool = False, trust_code: TrustCode = False
) -> list[Diagnosis]:
    """Returns the diagnosis of a run; of the worst trials of an experiment.

    Args:
        place: Directory of a run or an experiment, or a checkpoint.
        time_limit: Longest time of play in seconds, of all runs together; 0 = nothing is played.
        play: Whether programs outside, such as players, external clients and robots, may be stepped.
        trust_code: Code that a foreign run names and that may run.

    Raises:
        ConfigError: If the place is none of these.
    """
    if (place / JOURNAL).is_file():
        trials = worst_trials(place, TRIALS)
        return [
            examine_run(one, time_limit=time_limit / len(trials), play=play, trust_code=trust_code) for one in trials
        ]
    return [examine_run(place, time_limit=time_limit, play=play, trust_code=trust_code)]


def examine_run(
    place: Path, *, time_limit: float = SECONDS, play: bool = False, trust_code: TrustCode = False
) -> Diagnosis:
    """Returns the diagnosis of a run; arguments as of `examine`.

    Raises:
        ConfigError: If it has no rows and no checkpoint.
    """
    until = time.monotonic() + time_limit
    run = read_run(place)
    if not run.rows and run.checkpoint is None:
        raise ConfigError(f"{run.folder}: no iteration of this run is over yet, so there is nothing to examine")
    ignored = run.settings.get("doctor.ignore") or ()
    found = [*findings_of_rows(run.rows, run.settings), *file_findings(run)]
    facts: list[str] = []
    notes: list[str] = []
    if reason := _why_not_play(run, time_limit, play):
        notes.append(f"{UNPLAYED}: {reason}")
    else:
        try:
            if not play and (reason := _robot_in(run, trust_code)):
                raise ConfigError(reason)
            if run.checkpoint is None:
                notes.append("the run has no checkpoint: its environment was played at random only")
                found += _play_env(run, until, play, trust_code)
            else:
                found = _play(run, found, until, play, trust_code, facts, notes)
        except EnvError as error:
            found += [_env_failure(error)]
        except RookeryError as error:
            notes += [f"{UNPLAYED}: {line}" for line in str(error).splitlines()[:3]]
    kept = {(one.rule, one.subject): one for one in reversed(found) if one.rule not in ignored}
    return Diagnosis(run, causes_first(reversed(kept.values())), facts, notes)


def _why_not_play(run: StoredRun, time_limit: float, play: bool) -> str:
    """Returns the reason why a run is not played, or an empty string."""
    if time_limit <= 0:
        return "--seconds 0"
    if run.env and scheme_of(run.env).is_real and not play:
        return f"{run.env} {REAL_PLAYER}"
    return ""


def _robot_in(run: StoredRun, trust_code: TrustCode) -> str:
    """Returns the reason why the environment class of a run is not made, or an empty string: it declares that there
    are no throwaway environments of it.

    Raises:
        ConfigError: If the run is foreign and names code that is not trusted.
    """
    if run.checkpoint is None:
        return ""
    saved = without_foreign_code(read_checkpoint(run.checkpoint), (), trust_code)
    named = saved.env_name
    name = named.get(OBJECT) if isinstance(named, dict) else named
    if not isinstance(name, str) or not IMPORT_PATH.fullmatch(name):
        return ""
    made = saved.find(name)
    return f"{name} {REAL_PLAYER}" if getattr(made, "throwaway", True) is False else ""


def _env_failure(error: EnvError) -> Finding:
    """Returns the finding of an environment that raises or breaks the contract while it is played."""
    text = str(error).splitlines()[0]
    rule = "obs-not-finite" if "finite" in text else "env-fails"
    return finding(rule, text)


def _play(
    run: StoredRun,
    of_rows: list[Finding],
    until: float,
    play: bool,
    trust_code: TrustCode,
    facts: list[str],
    notes: list[str],
) -> list[Finding]:
    """Returns the findings of rows and files that play does not contradict, and those of the checkpoint by playing."""
    assert run.checkpoint is not None
    with own_torch(1), Trainer.load(run.checkpoint, trust_code=trust_code, console="quiet") as trainer:
        if not has_throwaways(trainer.env) and not play:
            notes.append(f"{UNPLAYED}: {trainer.env.name} {REAL_PLAYER}")
            return of_rows
        history = History(windows_of(run.rows), run.settings) if run.rows else None
        learns = history is not None and bool(history.returns) and not history.is_stuck
        learns = learns and history is not None and not history.has_hardly_improved
        names = list(trainer.policies)
        plays = play_behaviours(trainer, history, until)
        facts += plays.texts
        found = compare(plays, history, learns, names[0] if len(names) == 1 else "")
        of_rows = settled(of_rows, found, plays)
        if history is not None:
            actions = {name: policy.action_spec for name, policy in trainer.policies.items()}
            of_rows = [*target_entropy_unreachable(history, actions), *of_rows]
        if not has_throwaways(trainer.env):
            return [*of_rows, *found]
        make, only = _single_env(trainer), names[0] if len(names) == 1 else ""
        with started_in(trainer._folder):
            now = time.monotonic()
            by_wrapper = starts_alike(trainer._make_copies, make, now + FOR_WRAPPERS * (until - now))
            by_wrapper += wrapper_findings(make, now + FOR_WRAPPERS * (until - now), trainer.policies.get(only), only)
            by_wrapper += reward_after_end(make, time.monotonic() + AFTER_END * max(until - time.monotonic(), 0.0))
        played = play_env(trainer._make_copies, max(until - time.monotonic(), 0.0), STEPS)
        by_play = [
            *played.findings(),
            *_policy_findings(trainer, played.random, plays, is_best(plays, history) or is_best_constant(plays)),
        ]
        by_play += mask_findings(trainer._make_copies, played.random.kinds, played.effects, until)
        by_play = naming_masks(by_play, played.random.kinds)
        policy_of = _policy_of(trainer)
        by_decision, alike = decision_findings(trainer._make_copies, played, policy_of, until)
        found, by_play = with_shared(found, policy_of, alike), by_play + _without_memory(trainer, by_decision)
        with started_in(trainer._folder):
            if history is None or not history.returns or history.are_alike:
                beyond = max(until, time.monotonic() + BEYOND_SECONDS)
                by_play += limit_before_reward(make, played.random, beyond)
            if any(one.rule in ("no-better-than-random", "worse-than-random") for one in found):
                by_play += reward_late(played.random)
            by_play = [*by_wrapper, *by_play, *loss_findings(trainer, max(until, time.monotonic() + BEYOND_SECONDS))]
            counted = [one for one in by_play if one.rule in WITHOUT_JUDGEMENT]
            others = [one for one in by_play if one.rule not in WITHOUT_JUDGEMENT]
            found = [*of_rows, *found, *counted, *(softened(others) if learns else others)]
            return with_attributes(statistics_not_shared(found, make, names, trainer.env.num_lanes), make)


def _single_env(trainer: Trainer) -> Callable[[], Any] | None:
    """Returns a maker of a single throwaway environment of a run, wrapped; None if there are no single ones."""
    cfg = trainer.config.env
    return single_env(cfg.name, cfg.config, cfg.wrappers, cfg.implementation)


def _play_env(run: StoredRun, until: float, play: bool, trust_code: TrustCode) -> list[Finding]:
    """Returns the findings of the environment of a run without a checkpoint, by playing it at random.

    Raises:
        ConfigError: If the run is foreign and names code that is not trusted, or is no longer valid.
    """
    file = run.folder / CONFIG
    if not run.env or not file.is_file():
        return []
    config = stored_config(file, trust_code)
    if not play and getattr(config.env.name, "throwaway", True) is False:
        raise ConfigError(f"{run.env} {REAL_PLAYER}")

    def make(lanes: int) -> VectorEnv:
        return make_copies(config, lanes)

    played = play_env(make, until - time.monotonic(), STEPS)
    kinds = played.random.kinds
    found = naming_masks([*played.findings(), *mask_findings(make, kinds, played.effects, until)], kinds)
    found += decision_findings(make, played, {}, until)[0]
    for number in range(len(played.random.kinds)):
        found += [one for rule in OBS_RULES if (one := rule(Seen(played.random, number))) is not None]
    return found


def _policy_findings(trainer: Trainer, seen: PlayMeasurements, plays: Plays, is_best: bool) -> list[Finding]:
    """Returns the findings of the observations of random play, and of the policies on them.

    Args:
        trainer: The run.
        seen: Random play.
        plays: Returns of the policies and of others.
        is_best: Whether the policies earn the best return seen, for which a constant action may be enough.
    """
    found: list[Finding] = []
    names = kinds_of(trainer.env, trainer._mapping)
    policy_of = {kind.agents: name for name, kind in names.items()}
    for number, kind in enumerate(seen.kinds):
        name = policy_of.get(kind.agents, "")
        policy = trainer.policies.get(name)
        model = None if policy is None else policy.model
        learned = model if isinstance(model, ModelConfig) else None
        view = Seen(seen, number, name, learned, policy is None or policy.normalizer is not None)
        found += [one for rule in OBS_RULES if (one := rule(view)) is not None]
        if policy is not None:
            own = {leaf.path for leaf in policy.own_spec.leaves}
            shown = {path: leaf for path, leaf in seen.observed(number).items() if path in own}
            found += network_findings(name, policy, shown)
            values = getattr(getattr(trainer.learners.get(name), "cfg", None), "values", None)
            is_one = sum(len(one.agents) for one in seen.kinds) == 1 and not getattr(values, "rescale", False)
            found += values_bounded(name, policy, shown, plays if is_one else None)
    return [one for one in found if not (is_best and one.rule == "action-constant")]


def _without_memory(trainer: Trainer, findings: list[Finding]) -> list[Finding]:
    """Returns findings without those that a single observation does not explain, for policies that remember others."""
    remembering = [name for name, policy in trainer.policies.items() if policy.memory_size or policy.model.remembers]
    return [one for one in findings if one.rule != "reward-unexplained-by-obs" or one.subject not in remembering]


def _policy_of(trainer: Trainer) -> dict[str, str]:
    """Returns the policy of each agent; an empty dict for a mapping function, which may change it in each episode."""
    if not trainer._mapping.is_static:
        return {}
    info = EpisodeInfo(0, 0, Streams(0))
    return {agent: trainer._mapping(agent, info) for kind in trainer.env.kinds for agent in kind.agents}
