"""Judging a policy by data: `judge` is all of it, in the order in which it happens.

Episodes are split in two halves. Whatever is fitted (a clone of the behaviour, fitted Q) is fitted to one half and
judges the other, both ways, so that nothing is judged by what it has learned from.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from rookery.core.errors import ConfigError, RookeryError, nearest
from rookery.core.io.files import FOLDER
from rookery.core.process.torch_modes import own_torch
from rookery.core.settings.fields import Fraction, PositiveFloat, Settings
from rookery.core.settings.reach import Count, CountFromZero, Rows
from rookery.core.settings.trust import TrustCode
from rookery.ope.behavior import (
    USE_FITTED,
    ClonedBehavior,
    bound_obstacle,
    clone,
    cloned_obstacle,
    recorded_obstacle,
)
from rookery.ope.coverage import of_choices, of_numbers
from rookery.ope.critic_error import critics_of, td_errors
from rookery.ope.episodes import WholeEpisodes
from rookery.ope.estimators import (
    EpisodeSteps,
    Quotient,
    bca_interval,
    doubly_robust,
    effective_size,
    importance_sampling,
    last_weights,
    mean_of,
    per_decision_sampling,
    returns_of,
    weighted_sampling,
)
from rookery.ope.fitted import FittedInputs, FittedQ, PlannedActions
from rookery.ope.judged_policy import JudgedPolicy
from rookery.policies.policy import Policy
from rookery.replay.segments import Spaces, StoredReplay, check_spaces, find_replay
from rookery.report.judgement import Coverage, Judgement, ReturnEstimate
from rookery.run.settings import settings_of
from rookery.run.trainer import Trainer

Method = Literal["fqe", "is", "wis", "pdis", "dr"]
METHODS: tuple[str, ...] = get_args(Method)
WEIGHTED = ("is", "wis", "pdis", "dr")
"""Methods that need probabilities of what was played."""

FITTED = ("fqe", "dr")
"""Methods that need values of actions."""

FEW = 30
"""Whole episodes below which intervals are called rough."""

FITTED_INTERVAL = "the interval of fitted Q tells how first observations differ, and nothing of errors of its values"

UNEXPLAINED = 0.2
"""Part of a return that the errors of fitted Q may add up to along an episode before it is said."""

LEAST_LOGP = -50.0
"""Log-probability of each part of an action (a choice, a flag, a number) that was done; smaller sums count as that."""


@dataclass(frozen=True)
class JudgingConfig(Settings):
    """How a policy is judged by data."""

    methods: tuple[Method, ...] | None = None
    """Which estimates are made; none = all that can be."""
    probabilities: Literal["auto", "recorded", "cloned"] = "auto"
    """How likely the data's actions were: as recorded, or by a cloned policy; ``auto`` = as recorded if they are."""
    gamma: Fraction | None = None
    """Discount of a decision; 1 = undiscounted; none = that of the run, or 1 where it has none."""
    weights_below: PositiveFloat | None = None
    """Largest importance weight; larger ones are cut off there, which makes estimates steadier and biased."""
    fit_steps: Count = 10_000
    """Gradient steps of fitted Q, for each half of the episodes."""
    clone_steps: Count = 2_000
    """Gradient steps of a clone of the behaviour, for each half of the episodes."""
    rare_below: Fraction = 0.05
    """Probability in the data's behaviour below which a choice counts as not shown by them."""
    resamples: Rows = 2_000
    """Drawings of the bootstrap that intervals come from."""
    seed: CountFromZero = 0
    """Names all that is drawn: halves, first weights, batches, actions, the bootstrap."""


Progress = Callable[[str, int, int], None]
"""Is told of long work: what it is, how much of it is made, and how much there is."""


def quiet(work: str, so_far: int, total: int) -> None:
    """Says nothing."""


def judge(
    run: Trainer | str | Path,
    data: str | Path,
    *,
    policy: str | None = None,
    deterministic: bool | None = None,
    trust_code: TrustCode = False,
    progress: Progress = quiet,
    **settings: Any,
) -> Judgement:
    """Says what a policy would earn, by data alone: nothing is played, and the run stays as it is.

    Args:
        run: A trainer, a run (its last checkpoint) or a checkpoint.
        data: Replay: a run, a checkpoint or a replay directory; ``PATH:policy`` where it holds several.
        policy: Which policy of the run; not needed where there is one.
        deterministic: Judge the likeliest actions, which `Trainer.evaluate` plays; False = drawn ones; None = as
            `evaluation.deterministic` says.
        trust_code: As of `Trainer.load`.
        progress: Is told how far long work is.
        settings: Fields of `JudgingConfig`.

    Raises:
        ConfigError: If data and policy do not fit, or a method that is asked for cannot be used; says why, and what
            can.
        FileError: If there is no such run or replay.
        SpaceError: If the data's spaces are others than the policy's.
    """
    cfg = JudgingConfig(**settings)
    with own_torch(1), _loaded(run, trust_code) as (trainer, source):
        name = _named(trainer, policy, source)
        if deterministic is None:
            deterministic = trainer.config.evaluation.deterministic
        judged = JudgedPolicy(trainer.policies[name], deterministic)
        stored = find_replay(data, name)
        episodes = _fitting(judged.policy, stored, name)
        learner: Any = trainer.learners.get(name)
        gamma = _discount(trainer, name, learner) if cfg.gamma is None else cfg.gamma
        work = _Judging(judged, episodes, cfg, gamma, progress)
        found = work.judgement(source, name, str(stored), learner)
        notes = _notes(trainer, source, name, stored, episodes)
    return replace(found, notes=(*found.notes, *notes))


@contextmanager
def _loaded(run: Trainer | str | Path, trust_code: TrustCode) -> Iterator[tuple[Trainer, str]]:
    """The trainer, and what its policies are called after."""
    if isinstance(run, Trainer):
        yield run, "this trainer" if run.run_dir is None else str(run.run_dir.path)
        return
    with Trainer.load(run, play=False, trust_code=trust_code, console="quiet") as trainer:
        yield trainer, str(run)


def _named(trainer: Trainer, policy: str | None, source: str) -> str:
    """The name of the policy that is meant.

    Raises:
        ConfigError: If there is none of that name, or several and none is named, or it remembers.
    """
    names = list(trainer.policies)
    if policy is None and len(names) != 1:
        there = ", ".join(names) or "none so far"
        raise ConfigError(f"{source}: has several policies ({there}), and one is judged: say which, --policy NAME")
    name = names[0] if policy is None else policy
    if name not in names:
        raise ConfigError(
            f"--policy {name}: {source} has no such policy{nearest(name, names)}; it has {', '.join(names)}"
        )
    if trainer.policies[name].memory_size:
        raise ConfigError(
            f"policy {name!r} remembers, and data do not say what it would have remembered: it can be measured by "
            "playing alone (rookery evaluate without --replay)"
        )
    return name


def _fitting(policy: Policy, stored: StoredReplay, name: str) -> WholeEpisodes:
    """The data, if they are of the policy's spaces."""
    check_spaces(stored, Spaces(policy.obs_spec, policy.action_spec, 0), f"policy {name!r}")
    return WholeEpisodes(stored)


def _discount(trainer: Trainer, name: str, learner: Any) -> float:
    """The discount that the run's policy is learned with; 1 where it knows none."""
    cfg: Any = settings_of(trainer.config, name) if learner is None else learner.now()
    gamma = getattr(cfg, "gamma", None)
    return float(gamma) if isinstance(gamma, int | float) and gamma > 0 else 1.0


def _learned_from(trainer: Trainer, name: str) -> Iterator[str]:
    """The marks of replays that the policy has started from, now or before the run was loaded."""
    for path in (f"policies.{name}.replay.start_from", "algorithm.replay.start_from"):
        for _, value in trainer.resolved.history.get(path, ()):
            sources = re.findall(r"[^\s,\[\]'\"]+", value) if isinstance(value, str) else value
            for source in sources:
                with suppress(RookeryError):  # gone, or changed since
                    yield find_replay(source, name).mark


def _notes(trainer: Trainer, source: str, name: str, stored: StoredReplay, episodes: WholeEpisodes) -> Iterator[str]:
    """What is to be known of the data beside the policy."""
    place = stored.place.absolute()
    folder = Path(source).absolute()
    folder = folder.parent.parent if folder.parent.name == FOLDER else folder
    if folder in (place, *place.parents) or stored.mark in set(_learned_from(trainer, name)):
        yield "the run has learned from these data: they are held out of what is fitted here, not of the run"
    if episodes.number < FEW:
        yield f"{episodes.number} whole episodes are few: intervals are rough; record more (rookery replay record)"
    if len(trainer.policies) > 1:
        yield "all other policies count as part of the environment, as they played in the data"


class _Judging:
    """Judges one policy by the whole episodes of one replay."""

    def __init__(
        self, judged: JudgedPolicy, episodes: WholeEpisodes, cfg: JudgingConfig, gamma: float, progress: Progress
    ) -> None:
        self.judged, self.episodes, self.cfg, self.gamma = judged, episodes, cfg, gamma
        self.progress = progress
        self.halves = np.arange(episodes.number) % 2
        np.random.default_rng(cfg.seed).shuffle(self.halves)
        self.valued = judged.takes_choices or judged.takes_numbers
        self._cloned: ClonedBehavior | None = None

    def judgement(self, source: str, name: str, data: str, learner: Any) -> Judgement:
        """All of it."""
        cfg, episodes = self.cfg, self.episodes
        wanted = METHODS if cfg.methods is None else cfg.methods
        probabilities, behaved, reason = self._behavior(wanted)
        reasons = self._reasons(reason)
        if cfg.methods is not None and (refused := [(one, reasons[one]) for one in cfg.methods if reasons[one]]):
            raise ConfigError(f"--method {refused[0][0]}: {refused[0][1]}")
        made = [one for one in wanted if not reasons[one]]
        value, q = self._fitted() if self.valued and set(made) & {*FITTED} else (None, None)
        steps = self._steps(behaved)
        estimates = [self._estimate("data", mean_of(returns_of(steps, self.gamma)))]
        for one in METHODS:
            if one in made:
                estimates.append(self._estimate(one, self._quotient(one, steps, value, q)))
            elif one in wanted:
                estimates.append(ReturnEstimate(one, None, None, reasons[one]))
        weighted = behaved is not None
        ratio = np.exp(np.minimum(steps.log_ratio[steps.valid], 600.0)) if weighted else None
        td_error, td_source = self._td_error(learner, value, q)
        return Judgement(
            source=source,
            policy=name,
            data=data,
            deterministic=self.judged.deterministic,
            gamma=self.gamma,
            episodes=episodes.number,
            left_out=episodes.left_out,
            decisions=len(episodes),
            probabilities=probabilities,
            estimates=tuple(estimates),
            effective_size=effective_size(last_weights(steps, cfg.weights_below)) if weighted else None,
            mean_ratio=None if ratio is None else float(ratio.mean()),
            log_likelihood=self._log_likelihood(),
            td_error=td_error,
            td_source=td_source,
            coverage=self._coverage(),
            resamples=cfg.resamples,
            max_weight=cfg.weights_below,
            seed=cfg.seed,
            notes=self._fitted_notes(made, estimates[0].value, value, q),
        )

    def _fitted_notes(
        self, made: list[str], returned: float | None, value: np.ndarray | None, q: np.ndarray | None
    ) -> tuple[str, ...]:
        """What is to be known of fitted Q: that its interval is not all, and whether its values add up."""
        notes = (FITTED_INTERVAL,) * ("fqe" in made)
        if value is None or q is None:
            return notes
        episodes = self.episodes
        missing = self._fitted_errors(value, q) * self.gamma**episodes.time
        drift = float(missing.sum()) / episodes.number
        scale = max(abs(returned or 0.0), float(np.abs(value[episodes.first]).mean()))
        if abs(drift) <= UNEXPLAINED * scale:
            return notes
        told = (
            f"the values of fitted Q leave {drift:.4g} of an episode's return unexplained, so that it and doubly robust"
        )
        return (*notes, f"{told} are far off; more gradient steps may help: --set fit_steps={10 * self.cfg.fit_steps}")

    def _told(self, work: str) -> Callable[[int, int], None]:
        return lambda so_far, total: self.progress(work, so_far, total)

    def _reasons(self, reason: str) -> dict[str, str]:
        """Why each method cannot be used; empty where it can."""
        found = {one: reason if one in WEIGHTED else "" for one in METHODS}
        if not self.valued:
            space = self.judged.policy.action_spec.space
            told = f"fitted Q takes actions that are one of several (Discrete) or numbers (Box), and not {space}"
            found |= {one: found[one] or f"{told}; use is, wis or pdis" for one in FITTED}
        return found

    # --- behaviour ----------------------------------------------------------------------------------------------------

    @property
    def cloned(self) -> ClonedBehavior:
        """Clones of the behaviour, each from a half; made when they are first needed."""
        if self._cloned is None:
            made = [
                clone(
                    self.episodes,
                    self.halves != half,
                    self.cfg.clone_steps,
                    self.cfg.seed,
                    self._told(f"cloning the behaviour, half {half + 1} of 2"),
                )
                for half in (0, 1)
            ]
            self._cloned = ClonedBehavior(self.halves, (made[0], made[1]))
        return self._cloned

    def _behavior(self, wanted: Sequence[str]) -> tuple[str, np.ndarray | None, str]:
        """Where probabilities of the data's actions come from, their logarithms ``[N]``, and why there are none."""
        episodes, asked = self.episodes, self.cfg.probabilities
        if not {*wanted} & {*WEIGHTED}:
            return "none", None, "it was not asked for"
        if reason := self.judged.obstacle(episodes):
            return "none", None, reason
        if asked == "recorded" and episodes.logp is None:
            raise ConfigError(
                "probabilities = recorded: the data have no probability of each action; leave it out, and they are "
                "estimated by cloning"
            )
        if episodes.logp is not None and asked != "cloned":
            reason = recorded_obstacle(episodes, self.judged.squashes)
            return ("none", None, reason) if reason else ("recorded", episodes.logp, "")
        reason = cloned_obstacle(episodes, self.cloned, self.judged.squashes)
        return ("none", None, reason) if reason else ("cloned", self.cloned.log_probs(episodes), "")

    def _steps(self, behaved: np.ndarray | None) -> EpisodeSteps:
        """The decisions of all episodes, with how much likelier each was under the policy."""
        episodes = self.episodes
        ratio = np.zeros(len(episodes))
        if behaved is not None:
            action = episodes.spaces.action
            parts = max(len(action.sizes) + action.num_flags + action.num_numbers, 1)
            ratio = self.judged.log_probs(episodes) - np.maximum(behaved, LEAST_LOGP * parts)
        reward = episodes.table(episodes.reward)
        log_ratio = np.zeros_like(reward)
        log_ratio[episodes.episode, episodes.time] = ratio
        return EpisodeSteps(log_ratio, reward, episodes.length)

    # --- estimates ----------------------------------------------------------------------------------------------------

    def _fitted(self) -> tuple[np.ndarray, np.ndarray]:
        """Values of observations and of what was played, ``[N]`` each, of each half by what was fitted to the other."""
        episodes, seed = self.episodes, self.cfg.seed
        seen = FittedInputs(episodes, next(self.judged.policy.parameters()).device)
        planned = PlannedActions(self.judged, episodes, np.random.default_rng([seed, 1]))
        value, q = np.empty(len(episodes)), np.empty(len(episodes))
        for half in (0, 1):
            fitted = FittedQ(seen, planned, self.gamma, seed + half)
            told = self._told(f"fitting Q, half {half + 1} of 2")
            fitted.fit(episodes.rows_of(self.halves != half), self.cfg.fit_steps, told)
            rows = episodes.rows_of(self.halves == half)
            value[rows], q[rows] = fitted.values(rows)
        return value, q

    def _quotient(self, method: str, steps: EpisodeSteps, value: np.ndarray | None, q: np.ndarray | None) -> Quotient:
        """The estimate of a method."""
        gamma, most = self.gamma, self.cfg.weights_below
        if method in FITTED:
            assert value is not None and q is not None
            if method == "fqe":
                return mean_of(value[self.episodes.first])
            return doubly_robust(steps, self.episodes.table(value), self.episodes.table(q), gamma, most)
        sampling = {"is": importance_sampling, "wis": weighted_sampling, "pdis": per_decision_sampling}[method]
        return sampling(steps, gamma, most)

    def _estimate(self, method: str, quotient: Quotient) -> ReturnEstimate:
        """The estimate with its interval."""
        rng = np.random.default_rng([self.cfg.seed, 2])
        interval = bca_interval(quotient, self.cfg.resamples, rng)
        reason = "" if interval is not None else f"the policy would have done none of the episodes; {USE_FITTED}"
        return ReturnEstimate(method, quotient.value, interval, reason)

    # --- what else is to be known -------------------------------------------------------------------------------------

    def _log_likelihood(self) -> float | None:
        """Mean log-probability of the data's actions under the policy, drawn; None where that means nothing."""
        drawn = JudgedPolicy(self.judged.policy, False)
        if drawn.obstacle(self.episodes):
            return None
        if drawn.squashes and bound_obstacle(self.episodes, drawn.squashes, cloned=False):
            return None
        mean = float(drawn.log_probs(self.episodes).mean())
        return mean if np.isfinite(mean) else None

    def _td_error(self, learner: Any, value: np.ndarray | None, q: np.ndarray | None) -> tuple[float | None, str]:
        """Root of the mean squared error of the run's critics, else of fitted Q; and whose it is."""
        episodes = self.episodes
        valued = critics_of(learner, self.judged)
        if valued is not None:
            errors = td_errors(valued, self.judged, episodes, self.gamma, np.random.default_rng([self.cfg.seed, 3]))
            return float(np.sqrt(np.square(errors).mean())), "critics"
        if value is None or q is None:
            return None, ""
        return float(np.sqrt(np.square(self._fitted_errors(value, q)).mean())), "fitted"

    def _fitted_errors(self, value: np.ndarray, q: np.ndarray) -> np.ndarray:
        """What each decision earned and fitted Q expects after it, less what fitted Q says of the decision, ``[N]``."""
        after = np.where(self.episodes.is_last, 0.0, np.append(value[1:], 0.0))
        errors: np.ndarray = self.episodes.reward + self.gamma * after - q
        return errors

    def _coverage(self) -> Coverage | None:
        """How far the data show what the policy does; None of actions that are neither a choice nor numbers."""
        if self.judged.takes_choices:
            return of_choices(self.judged, self.episodes, self.cloned, self.cfg.rare_below)
        if self.judged.takes_numbers:
            return of_numbers(self.judged, self.episodes, self.halves, np.random.default_rng([self.cfg.seed, 4]))
        return None
