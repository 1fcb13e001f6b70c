"""`mask_findings`: tries actions that a mask forbids, from equal states, beside those that it allows."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from itertools import count, islice

import numpy as np

from rookery.core.errors import EnvError
from rookery.core.spaces.arrays import MASK
from rookery.doctor.effects import AGENTS, COMMON_STEPS, MOST_COMPARED, Effects
from rookery.doctor.probe import MakeCopies, reward_of
from rookery.doctor.repeats import moment_of
from rookery.envs.base import Kind, Step, VectorEnv
from rookery.envs.random_play import chosen_play, random_actions
from rookery.report.finding import Finding
from rookery.run.findings.catalog import finding

STATES, FEWEST, TRIES = 60, 20, 240
"""States from which actions are tried, fewest for a conclusion, and most attempts to reach one."""

OFTEN, CLEAR = 0.75, 0.1
"""Share of the states in which forbidden actions are better, and lead in units of the range of rewards."""


@dataclass
class MaskTrials:
    """Single steps with allowed and with forbidden actions, from equal states and seeds.

    Attributes:
        agent: The agent that acts.
        allowed: Rewards of the allowed actions, one array for each state.
        forbidden: Rewards of the forbidden actions, likewise.
        moving: Whether a forbidden action changed the observation in another way than the allowed ones, without an end,
            for each state.
    """

    agent: str
    allowed: list[np.ndarray] = field(default_factory=list)
    forbidden: list[np.ndarray] = field(default_factory=list)
    moving: list[bool] = field(default_factory=list)

    @property
    def lead(self) -> np.ndarray:
        """Distance between the mean forbidden action and the best allowed one, for each state."""
        return np.array([no.mean() - yes.max() for yes, no in zip(self.allowed, self.forbidden, strict=True)])


def mask_findings(make: MakeCopies, kinds: Sequence[Kind], effects: Sequence[Effects], until: float) -> list[Finding]:
    """Returns the findings of masks of single discrete actions.

    Args:
        make: Makes a number of environments.
        kinds: The kinds of agents.
        effects: What allowed actions change.
        until: Time of `time.monotonic` at which it ends.
    """
    found: list[Finding] = []
    without = {one.agent for one in effects if one.is_comparable and one.lag is None}
    places = [(number, column) for number, kind in enumerate(kinds) for column in range(len(kind.agents))]
    for number, column in places[:AGENTS]:
        kind = kinds[number]
        if kind.obs.has_mask and kind.action.kind == "discrete" and time.monotonic() < until:
            trials = MaskTrials(kind.agents[column])
            with suppress(EnvError):  # an environment may refuse a forbidden action
                try_actions(make, number, column, trials, until)
            found += mask_inverted(trials, trials.agent in without)
    return found


def mask_inverted(trials: MaskTrials, is_without_effect: bool) -> list[Finding]:
    """Finds masks that forbid the better actions, or the only ones that have an effect.

    Args:
        trials: The steps.
        is_without_effect: Whether allowed actions have had no effect.
    """
    states = len(trials.allowed)
    if states < FEWEST:
        return []
    rewards = np.concatenate([*trials.allowed, *trials.forbidden])
    clear = trials.lead > CLEAR * max(float(np.ptp(rewards)), 1e-9)
    if clear.mean() >= OFTEN:
        line = "actions that the mask forbids earn more than every action that it allows"
    elif is_without_effect and np.mean(trials.moving) >= OFTEN:
        line = "actions that the mask allows have no effect, and actions that it forbids have one"
    else:
        return []
    means = [float(np.mean([one.mean() for one in each])) for each in (trials.forbidden, trials.allowed)]
    return [
        finding(
            "mask-inverted",
            f"{line}: the mask of {trials.agent} is probably inverted",
            f"forbidden actions earned {means[0]:.3g} and allowed ones {means[1]:.3g} on average, in a step from each "
            f"of {states} states",
            f"forbidden actions earned clearly more than the best allowed one in {100 * clear.mean():.0f} % of them",
            subject=trials.agent,
        )
    ]


def try_actions(make: MakeCopies, number: int, column: int, trials: MaskTrials, until: float) -> None:
    """Tries the actions of an agent in environments that are in equal states.

    Args:
        make: Makes a number of environments.
        number: Number of the agent's kind.
        column: Place of the agent in it.
        trials: The steps, to which those of each state are added.
        until: Time of `time.monotonic` at which it ends.

    Raises:
        EnvError: If the environment refuses an action.
    """
    with closing(make(1)) as one:
        size = min(one.kinds[number].action.sizes[0], MOST_COMPARED)
    rng = np.random.default_rng(0)
    with closing(make(size)) as env:
        for turn in range(TRIES):
            common = int(rng.integers(COMMON_STEPS))
            if time.monotonic() > until or not _try_state(env, number, column, trials, turn, common):
                break
            if len(trials.allowed) == STATES:
                break


def _try_state(env: VectorEnv, number: int, column: int, trials: MaskTrials, turn: int, common: int) -> bool:
    """Tries the actions from one state; returns whether environments with equal seeds and actions were equal."""
    lanes, actions = env.num_lanes, np.arange(env.num_lanes)
    clock = count()

    def answers(shown: Step) -> list[np.ndarray]:
        step = next(clock)
        return _answers(env, shown, turn, step, (number, column) if step == common else None)

    play = chosen_play(env, lambda _, episode: 1_000 * turn + episode, answers)
    for step, shown in enumerate(islice(play, common + 1)):
        moments = [moment_of(shown, lane, lanes) for lane in range(lanes)]
        if any(one != moments[0] for one in moments):
            return False
        if step and shown.ended.any():
            return True
    rows, agents = shown.rows[number], len(env.kinds[number].agents)
    if not rows.waiting.reshape(lanes, agents)[0, column]:
        return True
    allowed = rows.obs[MASK].reshape(lanes, agents, -1)[0, column][: len(actions)].astype(bool).copy()
    if allowed.all() or not allowed.any():
        return True
    shown = next(play)
    rewards = reward_of(shown.rows[number], lanes)[:, column].astype(np.float64)
    views = [moment_of(shown, lane, lanes)[0] for lane in range(lanes)]
    usual = {view for view, is_allowed in zip(views, allowed, strict=True) if is_allowed}
    moves = [view not in usual and not ended for view, ended in zip(views, shown.ended, strict=True)]
    trials.allowed.append(rewards[allowed])
    trials.forbidden.append(rewards[~allowed])
    trials.moving.append(any(moves))
    return True


def _answers(env: VectorEnv, shown: Step, turn: int, step: int, tried: tuple[int, int] | None) -> list[np.ndarray]:
    """Returns equal random allowed actions in all lanes; where an agent is tried, its action is the lane's number."""
    answers = []
    for number, (kind, rows) in enumerate(zip(env.kinds, shown.rows, strict=True)):
        agents, parts = len(kind.agents), []
        masks = rows.obs[MASK].reshape(env.num_lanes, agents, -1) if kind.obs.has_mask else None
        for lane, waiting in enumerate(rows.waiting.reshape(env.num_lanes, agents)):
            mask = None if masks is None else masks[lane]
            drawn = random_actions(kind.action, agents, mask, np.random.default_rng((turn, step, number)))
            if tried is not None and tried[0] == number:
                drawn[tried[1]] = lane
            parts.append(drawn[waiting])
        answers.append(kind.action.to_env(np.concatenate(parts)))
    return answers


def naming_masks(findings: Sequence[Finding], kinds: Sequence[Kind]) -> list[Finding]:
    """Returns findings; those of actions without effect say that only allowed actions were compared, and leave the
    matter to an inverted mask where one is found.

    Args:
        findings: The findings.
        kinds: The kinds of agents.
    """
    masked = {agent for kind in kinds if kind.obs.has_mask for agent in kind.agents}
    inverted = {one.subject for one in findings if one.rule == "mask-inverted"}
    kept = []
    for one in findings:
        if one.rule == "actions-without-effect" and one.subject in masked:
            if one.subject in inverted:
                continue
            one = replace(
                one,
                severity="note" if one.severity == "note" else "warning",
                message=f"{one.message}; only actions that the mask allows were compared",
                causes=(
                    "the mask forbids the actions that have an effect: it is inverted, or late by a step",
                    *one.causes,
                ),
            )
        kept.append(one)
    return kept
