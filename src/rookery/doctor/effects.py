"""`Effects`: what the actions of an agent change: environments play equal episodes, in which it acts differently from
some step on.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import combinations, count, islice

import numpy as np

from rookery.core.seeding import Role, Streams
from rookery.core.spaces.arrays import MASK, Tree
from rookery.doctor.probe import ConstantAction, MakeCopies, PlayMeasurements, constant_actions, reward_of
from rookery.doctor.repeats import Moment, moment_of
from rookery.envs.base import Kind, Step, VectorEnv
from rookery.envs.random_play import chosen_play, random_actions

AGENTS = 6
"""Largest number of agents whose actions are tried."""

MOST_COMPARED = 12
"""Largest number of discrete actions, and of elements of a box, that are compared."""

STATES, FEWEST_STATES = 40, 20
"""States from which actions are compared, and fewest for a conclusion on a pair of actions."""

COMMON_STEPS = 16
"""Largest number of equal steps before the actions differ; their number varies, so that states do."""

LONG_TURNS, LONG_STEPS, SHORT_STEPS = 2, 100, 3
"""States from which actions are held for long, and steps of these and of the others."""

MOST_STEPS = 300
"""Steps after which actions without any difference are given up."""

FEW_STEPS = 20
"""Fewest steps with another action before something is concluded."""


@dataclass
class Effects:
    """Differences that the actions of an agent make, from equal states and seeds.

    Attributes:
        agent: The agent.
        is_comparable: Whether equal actions gave equal steps; otherwise nothing can be said.
        repeats: Whether environments with different actions behind them began further episodes alike.
        is_image: Whether a part of its observation has three axes.
        states: Number of states from which actions were compared.
        steps: Largest number of steps for which actions were held.
        tried: Steps in which an action differed from the first one, over all environments.
        lag: Steps until the first difference; None without one.
        changed: Elements that differed, and their number, by leaf path.
        rewarded: Agents whose rewards differed.
        ends: Whether ends of episodes differed.
        idle_elements: Elements of a box that made no difference.
        alike: Pairs of discrete actions that always had the same effect, from `FEWEST_STATES` states or more, and
            changed something.
        step_reach: Largest difference of the lowest or highest action of a box from its middle after one step, in units
            of the usual spread of what differs: an element of the observation, or the reward; None for other actions.
        held_reach: The same while the action is held, up to the end of an episode.
    """

    agent: str
    is_comparable: bool = True
    repeats: bool = True
    is_image: bool = False
    states: int = 0
    steps: int = 0
    tried: int = 0
    lag: int | None = None
    changed: dict[str, tuple[int, int]] = field(default_factory=dict)
    rewarded: set[str] = field(default_factory=set)
    ends: bool = False
    idle_elements: tuple[int, ...] = ()
    alike: tuple[tuple[int, int], ...] = ()
    step_reach: float | None = None
    held_reach: float | None = None

    @property
    def reward(self) -> bool:
        """Whether rewards differed."""
        return bool(self.rewarded)


def all_effects(make: MakeCopies, play: PlayMeasurements, until: float) -> list[Effects]:
    """Returns the effects of the actions of up to `AGENTS` agents.

    Args:
        make: Makes a number of environments.
        play: Random play, for the usual spread of observations and rewards.
        until: Time of `time.monotonic` at which it ends.

    Raises:
        EnvError: If the environment raises or breaks the contract.
    """
    agents = [(number, column) for number, kind in enumerate(play.kinds) for column in range(len(kind.agents))]
    found: list[Effects] = []
    for place, (number, column) in enumerate(agents[:AGENTS]):
        left = (until - time.monotonic()) / (min(len(agents), AGENTS) - place)
        spec = play.kinds[number].action
        actions = constant_actions(spec, Streams(0).generator(Role.ACTION, "doctor"), elements=True, most=MOST_COMPARED)
        if left > 0 and len(actions) > 1:
            found.append(effects_of(make, number, column, actions, left, play))
            if not found[-1].is_comparable:
                break
    return found


def effects_of(
    make: MakeCopies,
    number: int,
    column: int,
    actions: Sequence[ConstantAction],
    seconds: float,
    play: PlayMeasurements | None = None,
) -> Effects:
    """Compares environments with equal seeds in which an agent acts differently after some equal steps.

    Args:
        make: Makes a number of environments.
        number: Number of the agent's kind.
        column: Place of the agent in it.
        actions: One action for each environment; a further one repeats the first, as a control.
        seconds: Time limit.
        play: Random play, for the usual spread of observations and rewards; None = these are not measured.
    """
    until = time.monotonic() + seconds
    with closing(make(len(actions) + 1)) as env:
        return _Comparison(env, number, column, [*actions, actions[0]], play).run(until)


class _Comparison:
    """Environments that play equal episodes."""

    def __init__(
        self, env: VectorEnv, number: int, column: int, actions: Sequence[ConstantAction], play: PlayMeasurements | None
    ) -> None:
        kind = env.kinds[number]
        self._env, self._number, self._column, self._actions = env, number, column, actions
        self._found = Effects(kind.agents[column], is_image=any(len(leaf.shape) == 3 for leaf in kind.obs.leaves))
        self._several = sum(len(one.agents) for one in env.kinds) > 1
        self._differs = np.zeros(len(actions), bool)
        """Lanes that have ever differed from the first one."""
        self._own = np.zeros(len(actions), bool)
        """Lanes whose agent plays the lane's action in this turn."""
        self._moves = np.zeros(len(actions), bool)
        """Lanes whose action has ever changed the observation."""
        self._pairs = {pair: 0 for pair in combinations(range(len(actions) - 1), 2) if kind.action.kind == "discrete"}
        """Number of states from which each pair of actions had equal effects."""
        self._changed: dict[str, np.ndarray] = {}
        self._reach: _Reach | None = None
        if play is not None and kind.action.kind == "box":
            self._reach = _Reach(play, number, column)

    def run(self, until: float) -> Effects:
        """Compares the actions from several states, and returns their effects."""
        found, rng = self._found, np.random.default_rng(0)
        for turn in range(STATES):
            common = 5 if turn < LONG_TURNS else int(rng.integers(0, COMMON_STEPS))
            if not self._turn(turn, common, until) or time.monotonic() > until:
                break
            if turn >= LONG_TURNS and not self._pairs:
                break
        found.idle_elements = tuple(
            one.element
            for one, differs in zip(self._actions, self._differs, strict=True)
            if one.element is not None and not differs
        )
        found.changed = {path: (int(one.sum()), one.size) for path, one in self._changed.items()}
        found.alike = tuple(
            pair for pair, count in self._pairs.items() if count >= FEWEST_STATES and self._moves[list(pair)].all()
        )
        if self._reach is not None and self._reach.steps:
            found.step_reach, found.held_reach = self._reach.step, self._reach.held
        return found

    def _turn(self, turn: int, common: int, until: float) -> bool:
        """Compares the actions from one state; returns whether further states can be compared."""
        env, found, lanes = self._env, self._found, self._env.num_lanes
        clock = count()
        play = chosen_play(
            env,
            lambda _, episode: 1_000 * turn + episode,
            lambda shown: self._answers(shown, turn, step := next(clock), differ=step >= common),
        )
        for shown in islice(play, 1 + common):
            if not self._are_equal(shown):
                return False
            if shown.ended.any():
                return True  # the episode was too short for this state
        before = [moment_of(shown, lane, lanes)[0] for lane in range(lanes)]
        parted: set[tuple[int, int]] = set()
        for step, shown in enumerate(islice(play, MOST_STEPS), 1):
            moments = [moment_of(shown, lane, lanes) for lane in range(lanes)]
            if moments[-1] != moments[0]:
                found.is_comparable = found.repeats = False
                return False
            self._compare(shown, moments, step)
            if step == 1:
                self._moves |= [one[0] != old for one, old in zip(moments, before, strict=True)]
                own = self._own.copy()
                found.states += 1
            parted |= {pair for pair in self._pairs if moments[pair[0]] != moments[pair[1]]}
            if self._reach is not None:
                self._reach.add(shown, lanes, step)
            found.steps = max(found.steps, step)
            if step >= self._enough(turn) or (self._reach is not None and self._differs.any() and shown.ended.any()):
                break
            if time.monotonic() > until:
                return False
        for pair in list(self._pairs):
            if pair in parted:
                del self._pairs[pair]
            elif own[list(pair)].all():
                self._pairs[pair] += 1
        return True

    def _enough(self, turn: int) -> int:
        """Returns the number of steps for which the actions are held in a turn."""
        if not turn and not self._differs[1:-1].all():
            return MOST_STEPS
        is_long = self._reach is not None or self._several
        return LONG_STEPS if turn < LONG_TURNS and is_long else SHORT_STEPS

    def _are_equal(self, shown: Step) -> bool:
        """Returns whether all lanes show the same; notes it if they do not."""
        first = moment_of(shown, 0, self._env.num_lanes)
        if all(moment_of(shown, lane, self._env.num_lanes) == first for lane in range(1, self._env.num_lanes)):
            return True
        self._found.repeats = False
        self._found.is_comparable = self._found.states > 0
        return False

    def _answers(self, shown: Step, turn: int, step: int, *, differ: bool) -> list[np.ndarray]:
        """Returns equal random actions for the agents of all lanes, and those of the lanes for the agent that is
        compared.
        """
        return [self._of_kind(number, kind, shown, (turn, step, number), differ and number == self._number)
                for number, kind in enumerate(self._env.kinds)]  # fmt: skip

    def _of_kind(self, number: int, kind: Kind, shown: Step, seed: tuple[int, ...], differ: bool) -> np.ndarray:
        """Returns the actions of a kind, of all lanes; `differ` is whether the agent that is compared is one of it."""
        rows, agents = shown.rows[number], len(kind.agents)
        masks = rows.obs[MASK].reshape(-1, agents, sum(kind.action.sizes)) if kind.obs.has_mask else None
        parts = []
        common = random_actions(kind.action, agents, None, np.random.default_rng(seed)) if masks is None else None
        for lane, waiting in enumerate(rows.waiting.reshape(-1, agents)):
            mask = None if masks is None else masks[lane]
            if common is None:
                drawn = random_actions(kind.action, agents, mask, np.random.default_rng(seed))
            else:
                drawn = common.copy()
            if differ:
                wanted, place = self._actions[lane].stored, self._column
                allowed = mask is None or (kind.action.kind == "discrete" and bool(mask[place, int(wanted)]))
                self._own[lane] = allowed and bool(waiting[place])
                if self._own[lane]:
                    drawn[place] = wanted
                    self._found.tried += bool((wanted != self._actions[0].stored).any())
            parts.append(drawn[waiting])
        return kind.action.to_env(np.concatenate(parts))

    def _compare(self, shown: Step, moments: Sequence[Moment], lag: int) -> None:
        """Compares a step of all lanes with the first one."""
        found, lanes = self._found, self._env.num_lanes
        different = np.array([one != moments[0] for one in moments])
        found.ends |= any(one[2] != moments[0][2] for one in moments)
        self._differs |= different
        if not different.any():
            return
        found.lag = lag if found.lag is None else min(found.lag, lag)
        for kind, rows in zip(self._env.kinds, shown.rows, strict=True):
            reward = reward_of(rows, lanes)
            found.rewarded |= {kind.agents[column] for column in np.flatnonzero((reward != reward[0]).any(axis=0))}
            both = rows.waiting.reshape(lanes, -1)
            both = both & both[0]
            for path, array in rows.obs.items():
                values = array.reshape(lanes, both.shape[1], -1)
                apart = ((values != values[0]) & both[:, :, None]).any(axis=(0, 1))
                changed = self._changed.setdefault(path, np.zeros(len(apart), bool))
                if len(changed) == len(apart):
                    changed |= apart


class _Reach:
    """The largest difference that the ends of a box make, in units of the usual spread of what differs.

    Args:
        play: Random play.
        number: Number of the kind.
        column: Place of the agent in it.
    """

    def __init__(self, play: PlayMeasurements, number: int, column: int) -> None:
        self._number, self._column = number, column
        self._spread: Tree = {
            path: values.reshape(len(values), -1).std(axis=0, dtype=np.float64)
            for path, values in play.observed(number).items()
            if len(values) and values.dtype.kind == "f"
        }
        self._reward = float(np.std(play.rewards)) if play.rewards else 0.0
        self.step = self.held = 0.0
        self.steps = 0

    def add(self, shown: Step, lanes: int, step: int) -> None:
        """Compares the lowest and the highest action, in lanes 1 and 2, with the middle in lane 0."""
        rows = shown.rows[self._number]
        size = 0.0
        if shown.ended[:3].any():
            size = np.inf if len(set(shown.ended[:3].tolist())) > 1 else 0.0
        elif rows.waiting.reshape(lanes, -1)[:3, self._column].all():
            for path, spread in self._spread.items():
                values = rows.obs[path].reshape(lanes, -1, len(spread))[:3, self._column].astype(np.float64)
                size = max(size, _relative(np.abs(values[1:] - values[0]).max(axis=0), spread))
        rewards = np.concatenate([reward_of(one, lanes) for one in shown.rows], axis=1).sum(axis=1)[:3]
        size = max(size, _relative(np.abs(rewards[1:] - rewards[0]).max(keepdims=True), np.array([self._reward])))
        self.steps += 1
        self.held = max(self.held, size)
        if step == 1:
            self.step = max(self.step, size)


def _relative(differences: np.ndarray, spread: np.ndarray) -> float:
    """Returns the largest of some differences in units of their spread; infinite for one that never varies."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(
            np.nan_to_num(np.where(differences > 0.0, differences / spread, 0.0), posinf=np.inf).max(initial=0.0)
        )
