"""Off-policy evaluation of a policy on recorded episodes; `evaluate_offline` is the entry point.

Episodes are split in two halves. Each fitted model (a clone of the behaviour policy, fitted Q) is fitted to one half
and evaluated on the other, both ways, so that no estimate uses a model on its own training data.
"""

from __future__ import annotations

import re
import warnings
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
from rookery.ope.coverage import continuous_coverage, discrete_coverage
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
from rookery.ope.evaluated_policy import EvaluatedPolicy
from rookery.ope.fitted import FittedInputs, FittedQ, PlannedActions
from rookery.policies.policy import Policy
from rookery.replay.segments import Spaces, StoredReplay, check_spaces, find_replay
from rookery.report.offline_evaluation import Coverage, OfflineEvaluation, ReturnEstimate
from rookery.run.settings import settings_of
from rookery.run.trainer import Trainer

Method = Literal["fqe", "is", "wis", "pdis", "dr"]
METHODS: tuple[str, ...] = get_args(Method)
WEIGHTED = ("is", "wis", "pdis", "dr")
"""Methods that need probabilities of the recorded actions."""

FITTED = ("fqe", "dr")
"""Methods that need action values."""

FEW = 30
"""Number of whole episodes below which a note calls the intervals rough."""

FITTED_INTERVAL = "the interval of fitted Q shows how first observations differ, not the errors of its values"

UNEXPLAINED = 0.2
"""Share of a return that errors of fitted Q may add up to along an episode before a note reports it."""

LEAST_LOGP = -50.0
"""Lowest log-probability of each part of a recorded action (category, flag, continuous value); lower sums are raised to
it.
"""


@dataclass(frozen=True)
class OfflineEvaluationConfig(Settings):
    """Settings of off-policy evaluation."""

    methods: tuple[Method, ...] | None = None
    """Which estimates are computed; none = all that are possible."""
    probabilities: Literal["auto", "recorded", "cloned"] = "auto"
    """Source of the behaviour's action probabilities: recorded, or by a cloned policy; ``auto`` = recorded if
    available.
    """
    gamma: Fraction | None = None
    """Discount of a decision; 1 = undiscounted; none = the run's discount, or 1 if it has none."""
    weights_below: PositiveFloat | None = None
    """Importance weights are clipped at this value, which lowers the variance of estimates and biases them."""
    fit_steps: Count = 10_000
    """Gradient steps of fitted Q, for each half of the episodes."""
    clone_steps: Count = 2_000
    """Gradient steps of the cloned behaviour policy, for each half of the episodes."""
    rare_below: Fraction = 0.05
    """Probability under the behaviour policy below which a discrete action counts as not covered by the data."""
    resamples: Rows = 2_000
    """Number of bootstrap resamples for the intervals."""
    seed: CountFromZero = 0
    """Random seed of halves, initial weights, batches, actions and the bootstrap."""


Progress = Callable[[str, int, int], None]
"""Called during long work with its name, the steps done and the total steps."""


def no_progress(work: str, so_far: int, total: int) -> None:
    """Ignores progress."""


def evaluate_offline(
    run: Trainer | str | Path,
    data: str | Path,
    *,
    policy: str | None = None,
    deterministic: bool | None = None,
    trust_code: TrustCode = False,
    progress: Progress = no_progress,
    **settings: Any,
) -> OfflineEvaluation:
    """Estimates the return of a policy from recorded data alone: no environment is stepped, and the run does not
    change.

    Args:
        run: A trainer, a run (its last checkpoint) or a checkpoint.
        data: Replay: a run, a checkpoint or a replay directory; ``PATH:policy`` where it holds several.
        policy: Which policy of the run; not needed where there is one.
        deterministic: True = the most likely actions; False = sampled actions; None = as `evaluation.deterministic`.
        trust_code: As in `Trainer.load`.
        progress: Called during long work.
        settings: Fields of `OfflineEvaluationConfig`.

    Raises:
        ConfigError: If data and policy do not fit, or a requested method cannot be used; the message has the reason,
            and methods that work.
        FileError: If the run or replay does not exist.
        SpaceError: If the data's spaces differ from the policy's.
    """
    cfg = OfflineEvaluationConfig(**settings)
    with own_torch(1), _loaded(run, trust_code) as (trainer, source):
        name = _policy_name(trainer, policy, source)
        if deterministic is None:
            deterministic = trainer.config.evaluation.deterministic
        evaluated = EvaluatedPolicy(trainer.policies[name], deterministic)
        stored = find_replay(data, name)
        episodes = _whole_episodes(evaluated.policy, stored, name)
        learner: Any = trainer.learners.get(name)
        gamma = _discount(trainer, name, learner) if cfg.gamma is None else cfg.gamma
        work = _Evaluator(evaluated, episodes, cfg, gamma, progress)
        found = work.evaluation(source, name, str(stored), learner)
        notes = _notes(trainer, source, name, stored, episodes)
    return replace(found, notes=(*found.notes, *notes))


def judge(*arguments: Any, **settings: Any) -> OfflineEvaluation:
    """Old name of `evaluate_offline`, deprecated."""
    warnings.warn("rookery.judge is now rookery.evaluate_offline", DeprecationWarning, stacklevel=2)
    return evaluate_offline(*arguments, **settings)


@contextmanager
def _loaded(run: Trainer | str | Path, trust_code: TrustCode) -> Iterator[tuple[Trainer, str]]:
    """Yields the trainer and the name of its source."""
    if isinstance(run, Trainer):
        yield run, "this trainer" if run.run_dir is None else str(run.run_dir.path)
        return
    with Trainer.load(run, play=False, trust_code=trust_code, console="quiet") as trainer:
        yield trainer, str(run)


def _policy_name(trainer: Trainer, policy: str | None, source: str) -> str:
    """Returns the name of the policy to evaluate.

    Raises:
        ConfigError: If no policy has that name, several exist and none is named, or the policy has memory.
    """
    names = list(trainer.policies)
    if policy is None and len(names) != 1:
        there = ", ".join(names) or "none so far"
        raise ConfigError(f"{source}: has several policies ({there}), and one is evaluated: name it with --policy NAME")
    name = names[0] if policy is None else policy
    if name not in names:
        raise ConfigError(
            f"--policy {name}: {source} has no such policy{nearest(name, names)}; it has {', '.join(names)}"
        )
    if trainer.policies[name].memory_size:
        raise ConfigError(
            f"policy {name!r} has memory, and the data do not hold its memory: it can be evaluated by "
            "playing episodes only (rookery evaluate without --replay)"
        )
    return name


def _whole_episodes(policy: Policy, stored: StoredReplay, name: str) -> WholeEpisodes:
    """Returns the whole episodes of the data, after a check of their spaces."""
    check_spaces(stored, Spaces(policy.obs_spec, policy.action_spec, 0), f"policy {name!r}")
    return WholeEpisodes(stored)


def _discount(trainer: Trainer, name: str, learner: Any) -> float:
    """Returns the discount of the policy's algorithm; 1 if it has none."""
    cfg: Any = settings_of(trainer.config, name) if learner is None else learner.now()
    gamma = getattr(cfg, "gamma", None)
    return float(gamma) if isinstance(gamma, int | float) and gamma > 0 else 1.0


def _learned_from(trainer: Trainer, name: str) -> Iterator[str]:
    """Yields the marks of replays that the policy has started from, now or before the run was loaded."""
    for path in (f"policies.{name}.replay.start_from", "algorithm.replay.start_from"):
        for _, value in trainer.resolved.history.get(path, ()):
            sources = re.findall(r"[^\s,\[\]'\"]+", value) if isinstance(value, str) else value
            for source in sources:
                with suppress(RookeryError):  # gone, or changed since
                    yield find_replay(source, name).mark


def _notes(trainer: Trainer, source: str, name: str, stored: StoredReplay, episodes: WholeEpisodes) -> Iterator[str]:
    """Yields notes on the data and the policy."""
    place = stored.place.absolute()
    folder = Path(source).absolute()
    folder = folder.parent.parent if folder.parent.name == FOLDER else folder
    if folder in (place, *place.parents) or stored.mark in set(_learned_from(trainer, name)):
        yield "the run was trained on these data: models fitted here hold half of them out, the run did not"
    if episodes.number < FEW:
        yield f"{episodes.number} whole episodes are few: intervals are rough; record more (rookery replay record)"
    if len(trainer.policies) > 1:
        yield "all other policies count as part of the environment, with their recorded actions"


class _Evaluator:
    """Evaluates one policy on the whole episodes of one replay."""

    def __init__(
        self,
        evaluated: EvaluatedPolicy,
        episodes: WholeEpisodes,
        cfg: OfflineEvaluationConfig,
        gamma: float,
        progress: Progress,
    ) -> None:
        self.evaluated, self.episodes, self.cfg, self.gamma = evaluated, episodes, cfg, gamma
        self.progress = progress
        self.halves = np.arange(episodes.number) % 2
        np.random.default_rng(cfg.seed).shuffle(self.halves)
        self.valued = evaluated.is_discrete or evaluated.is_continuous
        self._cloned: ClonedBehavior | None = None

    def evaluation(self, source: str, name: str, data: str, learner: Any) -> OfflineEvaluation:
        """Runs every estimator and returns the evaluation."""
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
        return OfflineEvaluation(
            source=source,
            policy=name,
            data=data,
            deterministic=self.evaluated.deterministic,
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
            data_return=float(returns_of(steps, 1.0).mean()),
        )

    def _fitted_notes(
        self, made: list[str], returned: float | None, value: np.ndarray | None, q: np.ndarray | None
    ) -> tuple[str, ...]:
        """Returns notes on fitted Q: limits of its interval, and whether its values add up."""
        notes = (FITTED_INTERVAL,) * ("fqe" in made)
        if value is None or q is None:
            return notes
        episodes = self.episodes
        missing = self._fitted_errors(value, q) * self.gamma**episodes.time
        drift = float(missing.sum()) / episodes.number
        scale = max(abs(returned or 0.0), float(np.abs(value[episodes.first]).mean()))
        if abs(drift) <= UNEXPLAINED * scale:
            return notes
        problem = (
            f"the values of fitted Q leave {drift:.4g} of an episode's return unexplained, so that it and doubly robust"
        )
        return (
            *notes,
            f"{problem} are far off; more gradient steps may help: --set fit_steps={10 * self.cfg.fit_steps}",
        )

    def _progress_of(self, work: str) -> Callable[[int, int], None]:
        return lambda so_far, total: self.progress(work, so_far, total)

    def _reasons(self, reason: str) -> dict[str, str]:
        """Returns the reason why each method cannot be used, or an empty string."""
        found = {one: reason if one in WEIGHTED else "" for one in METHODS}
        if not self.valued:
            space = self.evaluated.policy.action_spec.space
            limit = f"fitted Q takes discrete (Discrete) or continuous (Box) actions, not {space}"
            found |= {one: found[one] or f"{limit}; use is, wis or pdis" for one in FITTED}
        return found

    # --- behaviour ----------------------------------------------------------------------------------------------------

    @property
    def cloned(self) -> ClonedBehavior:
        """Clones of the behaviour policy, one for each half; created at first use."""
        if self._cloned is None:
            made = [
                clone(
                    self.episodes,
                    self.halves != half,
                    self.cfg.clone_steps,
                    self.cfg.seed,
                    self._progress_of(f"cloning the behaviour, half {half + 1} of 2"),
                )
                for half in (0, 1)
            ]
            self._cloned = ClonedBehavior(self.halves, (made[0], made[1]))
        return self._cloned

    def _behavior(self, wanted: Sequence[str]) -> tuple[str, np.ndarray | None, str]:
        """Returns the source of the behaviour's probabilities, their logarithms ``[N]``, and the reason if there are
        none.
        """
        episodes, requested = self.episodes, self.cfg.probabilities
        if not {*wanted} & {*WEIGHTED}:
            return "none", None, "it was not requested"
        if reason := self.evaluated.obstacle(episodes):
            return "none", None, reason
        if requested == "recorded" and episodes.logp is None:
            raise ConfigError(
                "probabilities = recorded: the data have no probability of each action; leave it out, and they are "
                "estimated by cloning"
            )
        if episodes.logp is not None and requested != "cloned":
            reason = recorded_obstacle(episodes, self.evaluated.squashes)
            return ("none", None, reason) if reason else ("recorded", episodes.logp, "")
        reason = cloned_obstacle(episodes, self.cloned, self.evaluated.squashes)
        return ("none", None, reason) if reason else ("cloned", self.cloned.log_probs(episodes), "")

    def _steps(self, behaved: np.ndarray | None) -> EpisodeSteps:
        """Returns the decisions of all episodes with their log-ratios of policy to behaviour."""
        episodes = self.episodes
        ratio = np.zeros(len(episodes))
        if behaved is not None:
            action = episodes.spaces.action
            parts = max(len(action.sizes) + action.num_flags + action.num_numbers, 1)
            ratio = self.evaluated.log_probs(episodes) - np.maximum(behaved, LEAST_LOGP * parts)
        reward = episodes.table(episodes.reward)
        log_ratio = np.zeros_like(reward)
        log_ratio[episodes.episode, episodes.time] = ratio
        return EpisodeSteps(log_ratio, reward, episodes.length)

    # --- estimates ----------------------------------------------------------------------------------------------------

    def _fitted(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns state values and values of recorded actions, ``[N]`` each; each half by the model fitted to the
        other.
        """
        episodes, seed = self.episodes, self.cfg.seed
        seen = FittedInputs(episodes, next(self.evaluated.policy.parameters()).device)
        planned = PlannedActions(self.evaluated, episodes, np.random.default_rng([seed, 1]))
        value, q = np.empty(len(episodes)), np.empty(len(episodes))
        for half in (0, 1):
            fitted = FittedQ(seen, planned, self.gamma, seed + half)
            progress = self._progress_of(f"fitting Q, half {half + 1} of 2")
            fitted.fit(episodes.rows_of(self.halves != half), self.cfg.fit_steps, progress)
            rows = episodes.rows_of(self.halves == half)
            value[rows], q[rows] = fitted.values(rows)
        return value, q

    def _quotient(self, method: str, steps: EpisodeSteps, value: np.ndarray | None, q: np.ndarray | None) -> Quotient:
        """Returns the estimate of a method."""
        gamma, most = self.gamma, self.cfg.weights_below
        if method in FITTED:
            assert value is not None and q is not None
            if method == "fqe":
                return mean_of(value[self.episodes.first])
            return doubly_robust(steps, self.episodes.table(value), self.episodes.table(q), gamma, most)
        sampling = {"is": importance_sampling, "wis": weighted_sampling, "pdis": per_decision_sampling}[method]
        return sampling(steps, gamma, most)

    def _estimate(self, method: str, quotient: Quotient) -> ReturnEstimate:
        """Returns the estimate with its interval."""
        rng = np.random.default_rng([self.cfg.seed, 2])
        interval = bca_interval(quotient, self.cfg.resamples, rng)
        reason = "" if interval is not None else f"the policy has probability 0 for every episode; {USE_FITTED}"
        return ReturnEstimate(method, quotient.value, interval, reason)

    # --- diagnostics --------------------------------------------------------------------------------------------------

    def _log_likelihood(self) -> float | None:
        """Returns the mean log-probability of the data's actions under the stochastic policy; None if it has no
        meaning.
        """
        drawn = EvaluatedPolicy(self.evaluated.policy, False)
        if drawn.obstacle(self.episodes):
            return None
        if drawn.squashes and bound_obstacle(self.episodes, drawn.squashes, cloned=False):
            return None
        mean = float(drawn.log_probs(self.episodes).mean())
        return mean if np.isfinite(mean) else None

    def _td_error(self, learner: Any, value: np.ndarray | None, q: np.ndarray | None) -> tuple[float | None, str]:
        """Returns the root mean squared TD error of the run's critics, else of fitted Q, and the source of the
        error.
        """
        episodes = self.episodes
        valued = critics_of(learner, self.evaluated)
        if valued is not None:
            errors = td_errors(valued, self.evaluated, episodes, self.gamma, np.random.default_rng([self.cfg.seed, 3]))
            return float(np.sqrt(np.square(errors).mean())), "critics"
        if value is None or q is None:
            return None, ""
        return float(np.sqrt(np.square(self._fitted_errors(value, q)).mean())), "fitted"

    def _fitted_errors(self, value: np.ndarray, q: np.ndarray) -> np.ndarray:
        """Returns the TD errors of fitted Q, ``[N]``."""
        after = np.where(self.episodes.is_last, 0.0, np.append(value[1:], 0.0))
        errors: np.ndarray = self.episodes.reward + self.gamma * after - q
        return errors

    def _coverage(self) -> Coverage | None:
        """Returns the coverage of the policy's actions; None if they are neither discrete nor continuous."""
        if self.evaluated.is_discrete:
            return discrete_coverage(self.evaluated, self.episodes, self.cloned, self.cfg.rare_below)
        if self.evaluated.is_continuous:
            return continuous_coverage(
                self.evaluated, self.episodes, self.halves, np.random.default_rng([self.cfg.seed, 4])
            )
        return None
