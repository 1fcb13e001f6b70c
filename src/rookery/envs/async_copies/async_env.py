"""`AsyncCopiesEnv`: asynchronously running environments ("copies"), presented as rows.

Games and simulators that run by themselves, and programs that request actions at their own times, do not wait for each
other. A step here answers the copies that have asked, and returns as soon as any copy has a new message; rows of the
others do not wait, and their lanes have not stepped (`Step.stepped`).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import numpy as np

from rookery.core.errors import EnvError
from rookery.core.spaces.arrays import Tree, action_spec, obs_spec
from rookery.core.spaces.space_files import space_from_json, space_to_json
from rookery.envs.async_copies.step_message import Answer, Asking, Copies, CopyBehavior, Ended, StepMessage
from rookery.envs.base import Kind, Rows, SeedPlan, Step, VectorBase

PATIENCE = 0.5
"""Seconds after which a step returns even without a message, so that a training can be interrupted."""

TEAM_MARK = "?"
"""Prefix of the team in the name of a behaviour, as in ``Striker?team=1``."""


SLOT_MARK = "#"
"""Separates the behaviour from the slot number in an agent's name."""


class AsyncCopiesEnv(VectorBase):
    """Asynchronously running environments ("copies"). Runs do not repeat bit for bit, and no episode can be resumed.

    An agent is named after its behaviour and its slot, ``Striker#2``, or ``Striker#2?team=1``, if its behaviour does
    not name its agents. There are no throwaway copies, since they take long to start; a subclass whose copies are the
    only ones sets `only_one`.
    """

    throwaway = False

    def __init__(self, copies: Copies, num_lanes: int) -> None:
        """Makes copies available as rows.

        Args:
            copies: Interface of the copies; closed with this environment.
            num_lanes: Number of copies.
        """
        self._copies = copies
        self._numbers: dict[str, int] = {}  # number of the kind, by behaviour
        self._slots: list[AgentSlots] = []
        self._rows: list[Rows] = []
        self._group_numbers: list[dict[Hashable, int]] = [{} for _ in range(num_lanes)]
        self._requests: list[dict[int, list[ActionRequest]]] = [{} for _ in range(num_lanes)]  # by kind
        self._unanswered = [False] * num_lanes
        """Lanes whose last message has been shown and not answered."""
        self._changed: set[tuple[int, int]] = set()
        """Kinds and lanes of which the last step showed rewards and ends."""
        self._got: dict[int, float] = {}
        """For the message being shown: reward by group, agents that received it, and new agents."""
        self._paid: set[tuple[int, int]] = set()
        self._new: set[tuple[int, int]] = set()
        self._own: dict[int, list[tuple[int, np.ndarray, np.ndarray]]] = {}
        """By kind, the agents that acted by themselves, and their actions: lane, slots, actions."""
        super().__init__((), num_lanes, copies.name, exact=False)
        self.own_episodes, self.parameters, self.counters = copies.own_episodes, copies.parameters, copies.counters
        self.notes = copies.notes
        self._plan: SeedPlan | None = None
        self._step = Step((), np.zeros(num_lanes, dtype=bool))
        self._behaviors: dict[str, CopyBehavior] = {}
        for name, behavior in copies.behaviors.items():
            self._add(name, behavior)
        self.layout = 0

    # -- kinds and agents ------------------------------------------------------------------------------------------

    def _add(self, name: str, behavior: CopyBehavior) -> None:
        """Adds a behaviour: a new kind, or further agents of an existing kind if it is another team's of the same
        behaviour.
        """
        self._behaviors[name] = behavior
        columns = [(name, group) for group in behavior.slots]
        for other, number in self._numbers.items():
            kind = self.kinds[number]
            if _base(other) == _base(name) and (kind.obs, kind.action) == (behavior.obs, behavior.action):
                self._numbers[name] = number
                self._slots[number].columns += columns
                self._widen(number)
                return
        self._numbers[name] = len(self._rows)
        self._slots.append(AgentSlots(self.num_lanes, columns, behavior.names))
        kind = Kind(_names(self._slots[-1]), behavior.obs, behavior.action)
        self._rows.append(Rows.allocate(kind, self.num_lanes))
        self._lay_out((*self.kinds, kind))

    def _lay_out(self, kinds: tuple[Kind, ...]) -> None:
        """Takes over changed kinds or agents."""
        self.kinds, self.layout = kinds, self.layout + 1
        members: dict[int, list[str]] = {}
        for kind, slots in zip(kinds, self._slots, strict=True):
            for agent, (_, group) in zip(kind.agents, slots.columns, strict=True):
                if group >= 0:
                    members.setdefault(group, []).append(agent)
        self.groups = {f"group {group}": tuple(agents) for group, agents in sorted(members.items())}
        if self.groups:
            for rows in self._rows:
                if rows.group_reward is None:
                    rows.group_reward = np.zeros(len(rows.reward))

    def _widen(self, number: int) -> None:
        """Makes room for more agents of a kind; existing rows keep their content."""
        kind, old = self.kinds[number], self._rows[number]
        width = len(self._slots[number].columns)
        wider = Kind(_names(self._slots[number]), kind.obs, kind.action)
        rows = self._rows[number] = Rows.allocate(wider, self.num_lanes)
        lane, column = np.divmod(np.arange(len(old.reward)), max(len(kind.agents), 1))
        place = lane * width + column
        for path, array in old.obs.items():
            rows.obs[path][place] = array
        for there, before in (
            (rows.reward, old.reward),
            (rows.terminated, old.terminated),
            (rows.truncated, old.truncated),
            (rows.waiting, old.waiting),
        ):
            there[place] = before
        rows.final_index, rows.final_obs = place[old.final_index], old.final_obs
        if old.group_reward is not None:
            rows.group_reward = np.zeros(len(rows.reward))
            rows.group_reward[place] = old.group_reward
        self._lay_out((*self.kinds[:number], wider, *self.kinds[number + 1 :]))

    # -- playing ---------------------------------------------------------------------------------------------------

    def reset(self, seeds: SeedPlan) -> Step:
        """Starts every copy; shows the agents that have requested an action by then. See `VectorEnv.reset`."""
        self.episode[:] = 0
        return self._begin(seeds)

    def _begin(self, seeds: SeedPlan) -> Step:
        """Starts the current `episode` in every copy."""
        self._plan = seeds
        for rows, slots in zip(self._rows, self._slots, strict=True):
            for flags in (rows.reward, rows.terminated, rows.truncated, rows.waiting):
                flags[:] = 0
            rows.own_index, rows.own_action = NO_ROWS, None
            rows.final_index, rows.final_obs = NO_ROWS, {path: array[:0] for path, array in rows.obs.items()}
            for lane in range(self.num_lanes):
                slots.clear(lane)
        self._changed.clear()
        self._own.clear()
        for lane in range(self.num_lanes):
            self._requests[lane], self._group_numbers[lane], self._unanswered[lane] = {}, {}, False
            self._copies.begin(lane, int(self.episode[lane]), seeds)
        return self._shown([], 0.0)

    def replan(self, seeds: SeedPlan) -> None:
        """Sets another plan for the seeds and parameters of later episodes."""
        self._plan = seeds
        self._copies.replan(seeds)

    def restart(self, seeds: SeedPlan) -> Step:
        """Gives up the running episode of every copy and starts the next; see `VectorBase.restart`."""
        self.episode += 1
        return self._begin(seeds)

    def step(self, actions: Sequence[np.ndarray]) -> Step:
        """Answers the copies that have requested actions, and waits until any copy has a message.

        See `VectorEnv.step`. After half a second without a message a step shows no agent.
        """
        if self._plan is None:
            raise EnvError(f"{self.name}: step() before reset(seeds)")
        self._answer(actions)
        for number, lane in self._changed:
            rows, width = self._rows[number], len(self.kinds[number].agents)
            mine = slice(lane * width, (lane + 1) * width)
            rows.reward[mine], rows.terminated[mine], rows.truncated[mine] = 0.0, False, False
            if rows.group_reward is not None:
                rows.group_reward[mine] = 0.0
        for rows in self._rows:
            if len(rows.final_index):
                rows.final_index, rows.final_obs = NO_ROWS, {path: array[:0] for path, array in rows.obs.items()}
        self._changed.clear()
        start = perf_counter()
        step_messages = self._copies.step_messages(PATIENCE)
        return self._shown(step_messages, perf_counter() - start)

    def _answer(self, actions: Sequence[np.ndarray]) -> None:
        """Answers every requesting copy with the actions of its agents, in the order of waiting rows."""
        used = [0] * len(self._rows)
        for number, (given, rows) in enumerate(zip(actions, self._rows, strict=True)):
            if len(given) != (wanted := int(np.count_nonzero(rows.waiting))):
                agents = ", ".join(self.kinds[number].agents)
                raise EnvError(f"{self.name}: {len(given)} actions for {wanted} waiting agents of kind {agents}")
            rows.waiting[:] = False
            if number in self._own:
                rows.own_index, rows.own_action = NO_ROWS, None
        self._own.clear()
        for lane, owing in enumerate(self._unanswered):
            if owing:
                answers: dict[str, Answer] = {}
                for number, requests in sorted(self._requests[lane].items()):
                    first = used[number]
                    used[number] = first + sum(len(one.ids) for one in requests)
                    answers |= _answers(requests, actions[number][first : used[number]])
                self._unanswered[lane], self._requests[lane] = False, {}
                self._copies.answer(lane, int(self.episode[lane]), answers)

    def _shown(self, step_messages: Sequence[StepMessage], waited: float) -> Step:
        """Writes the messages of copies into their rows."""
        stepped, ended = np.zeros((2, self.num_lanes), dtype=bool)
        lost: np.ndarray | None = None
        finals: dict[int, list[tuple[int, np.ndarray, Tree]]] = {}
        any_end = False
        for message in step_messages:
            lane = message.lane
            if self.groups:
                self._got, self._paid, self._new = {}, set(), set()
            stepped[lane] = self._unanswered[lane] = True
            for name in (*message.ended, *message.asking):
                if name not in self._numbers:
                    self._add(name, self._copies.behaviors[name])
            if message.lost:
                lost = np.zeros(self.num_lanes, dtype=bool) if lost is None else lost
                lost[lane] = any_end = True
                self._lose(lane, finals)
            elif message.ended:
                any_end = True
                for name, gone in message.ended.items():
                    self._end(lane, self._numbers[name], gone, finals)
            if message.over:
                ended[lane] = any_end = True
                for slots in self._slots:
                    slots.clear(lane)
            for name, asking in message.asking.items():
                self._ask(lane, name, asking)
            if self._got:
                self._share(lane)
            if message.over or message.lost or (self.own_episodes and message.ended):
                self.episode[lane] += 1
        for number, parts in finals.items():
            self._keep_finals(number, parts)
        for number in self._own:
            self._keep_own(number)
        step = self._step
        step.rows, step.ended, step.lost, step.any_end = tuple(self._rows), ended, lost, any_end
        step.stepped, step.waited = stepped, waited
        step.unlearned = _unlearned(step_messages, stepped)
        self.counters = self._copies.counters
        return step

    def _ask(self, lane: int, name: str, asking: Asking) -> None:
        """Shows agents of a copy that request an action."""
        number = self._numbers[name]
        if problem := self.kinds[number].obs.check(asking.obs, slice(None), self._sensors(number)):
            raise self._breach(lane, number, f"{problem}, in an observation")
        self._check_rewards(lane, number, asking)
        slots, ids = self._slots[number], asking.ids
        columns, new = slots.take(lane, name, ids, self._grouped(lane, name, slots, asking.groups))
        if len(slots.columns) > len(self.kinds[number].agents):
            self._widen(number)
        rows = self._rows[number]
        place: np.ndarray | slice = self._place(number, lane, columns)
        if len(columns) == len(slots.columns) and (columns[1:] > columns[:-1]).all():
            place = slice(lane * len(columns), (lane + 1) * len(columns))  # all rows in order
        for path, array in asking.obs.items():
            rows.obs[path][place] = array
        rows.waiting[place] = True
        came = new.any()
        if came or self.groups or asking.group_reward is not None:
            self._pay(number, lane, columns, asking, ~new)
        else:
            rows.reward[place] += asking.reward
            self._changed.add((number, lane))
        if came and self.groups:
            self._new |= {(number, column) for column in columns[new].tolist()}
        if asking.own is not None:
            self._own.setdefault(number, []).append((lane, columns, asking.own))
        self._requests[lane].setdefault(number, []).append(ActionRequest(name, ids, columns))

    def _end(self, lane: int, number: int, gone: Ended, finals: dict[int, list[tuple[int, np.ndarray, Tree]]]) -> None:
        """Shows agents of a copy whose episode has ended; new agents may take their slots."""
        self._check_rewards(lane, number, gone)
        slots, rows = self._slots[number], self._rows[number]
        columns = slots.find(lane, gone.ids)
        seated = columns >= 0  # others ended before they ever asked for an action
        place = self._place(number, lane, columns[seated])
        self._pay(number, lane, columns, gone, seated)
        cut = np.asarray(gone.truncated, dtype=bool)[seated]
        rows.terminated[place], rows.truncated[place] = ~cut, cut
        if cut.any():
            last = {path: array[seated][cut] for path, array in gone.obs.items()}
            if problem := self.kinds[number].obs.check(last, slice(None), self._sensors(number)):
                raise self._breach(lane, number, f"{problem}, in the last observation before a truncation")
            finals.setdefault(number, []).append((lane, columns[seated][cut], last))
        slots.leave(lane, gone.ids)

    def _lose(self, lane: int, finals: dict[int, list[tuple[int, np.ndarray, Tree]]]) -> None:
        """Truncates all agents of a failed copy with their last observations."""
        for number, (slots, rows) in enumerate(zip(self._slots, self._rows, strict=True)):
            columns = slots.clear(lane)
            if len(columns):
                place = self._place(number, lane, columns)
                rows.truncated[place] = True
                last = {path: array[place] for path, array in rows.obs.items()}
                finals.setdefault(number, []).append((lane, columns, last))
                self._changed.add((number, lane))
        self._group_numbers[lane] = {}

    def _keep_finals(self, number: int, parts: list[tuple[int, np.ndarray, Tree]]) -> None:
        """Stores the last observations of truncated agents of a kind, in order of their rows."""
        rows = self._rows[number]
        index = np.concatenate([self._place(number, lane, columns) for lane, columns, _ in parts])
        order = np.argsort(index)
        rows.final_index = index[order]
        rows.final_obs = {path: np.concatenate([tree[path] for *_, tree in parts])[order] for path in rows.obs}

    def _keep_own(self, number: int) -> None:
        """Shows the actions that agents of a kind have chosen themselves, in order of their rows."""
        rows, parts = self._rows[number], self._own[number]
        index = np.concatenate([self._place(number, lane, columns) for lane, columns, _ in parts])
        order = np.argsort(index)
        rows.own_index = index[order]
        rows.own_action = np.concatenate([actions for *_, actions in parts])[order]

    def _place(self, number: int, lane: int, columns: np.ndarray) -> np.ndarray:
        """Returns the rows of a kind for some slots of a lane."""
        return columns + lane * len(self.kinds[number].agents)

    def _pay(self, number: int, lane: int, columns: np.ndarray, part: Asking, which: np.ndarray) -> None:
        """Writes the rewards of agents; a reward before an agent's first action is dropped.

        Args:
            number: Number of their kind.
            lane: Lane of their copy.
            columns: ``[N]`` their slots.
            part: Their part of the message.
            which: ``[N]`` bool, agents whose rewards are written.
        """
        rows, place = self._rows[number], self._place(number, lane, columns[which])
        rows.reward[place] += part.reward[which]
        if part.group_reward is not None and rows.group_reward is not None:
            rows.group_reward[place] += part.group_reward[which]
            kept_for = self._slots[number].columns
            for column, got in zip(columns[which].tolist(), part.group_reward[which].tolist(), strict=True):
                self._got.setdefault(kept_for[column][1], got)
                self._paid.add((number, column))
        self._changed.add((number, lane))

    def _share(self, lane: int) -> None:
        """Writes the group reward of members that the message does not contain: those that ended before it, even if a
        new agent has taken their slot since.
        """
        for number, (slots, rows) in enumerate(zip(self._slots, self._rows, strict=True)):
            assert rows.group_reward is not None
            held, first = slots.held(lane), lane * len(slots.columns)
            for column, (_, group) in enumerate(slots.columns):
                got = self._got.get(group) if group >= 0 else None
                silent = column not in held or (number, column) in self._new
                if got and silent and (number, column) not in self._paid:
                    rows.group_reward[first + column] = got
                    self._changed.add((number, lane))

    def _grouped(self, lane: int, name: str, slots: AgentSlots, groups: Sequence[Hashable | None]) -> list[int]:
        """Returns the numbers of groups of a copy; -1 for none. An unknown group gets the lowest number that no other
        group uses, or whose group has no member left; a number with reserved slots of this behaviour is preferred.
        """
        numbers = self._group_numbers[lane]
        for group in dict.fromkeys(groups):
            if group is not None and group not in numbers:
                here = {numbers[other] for other in groups if other in numbers}
                here |= {slots.columns[slot][1] for slots in self._slots for slot in slots.held(lane)}
                fresh = next(number for number in range(len(numbers) + 1) if number not in {*numbers.values()})
                idle = [number for number in sorted(numbers.values()) if number not in here]
                known = len(self.groups)
                kept = {kept_for for behavior, kept_for in slots.columns if behavior == name and kept_for >= 0} - here
                number = fresh if fresh < known or not idle else idle[0]
                if kept:
                    number = min(kept, key=lambda one: (one in numbers.values(), one))
                self._group_numbers[lane] = numbers = {key: at for key, at in numbers.items() if at != number}
                numbers[group] = number
        return [-1 if group is None else numbers[group] for group in groups]

    def _check_rewards(self, lane: int, number: int, part: Asking) -> None:
        for rewards, what in ((part.reward, "reward"), (part.group_reward, "group reward")):
            if rewards is not None and not np.isfinite(rewards).all():
                bad = int(np.flatnonzero(~np.isfinite(rewards))[0])
                problem = f"non-finite {what} {rewards[bad]} of agent {part.ids[bad]}, expected a finite number"
                raise self._breach(lane, number, problem)

    def _sensors(self, number: int) -> Mapping[str, str]:
        """Returns the names of the leaves of a kind in the copies; see `CopyBehavior`."""
        return next(self._behaviors[name].sensors for name, at in self._numbers.items() if at == number)

    def _breach(self, lane: int, number: int, problem: str) -> EnvError:
        behavior = " and ".join(name for name, at in self._numbers.items() if at == number)
        return EnvError(
            f"{self.name}: environment {lane}, episode {self.episode[lane]}, behaviour {behavior}: {problem}"
        )

    # -- state -----------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Returns the observations and agents of all lanes; the internal state of copies cannot be saved."""
        kinds = [
            {
                "behaviors": [name for name, at in self._numbers.items() if at == number],
                "obs": space_to_json(kind.obs.space),
                "info_mask": _masked_beside(kind),
                "action": space_to_json(kind.action.space),
                "columns": [list(kept_for) for kept_for in slots.columns],
            }
            for number, (kind, slots) in enumerate(zip(self.kinds, self._slots, strict=True))
        ]
        rows = [
            {"obs": {path: array.copy() for path, array in rows.obs.items()}, "waiting": rows.waiting.copy()}
            for rows in self._rows
        ]
        return {"rows": rows, "kinds": kinds, "episode": self.episode.copy()}

    def load_state_dict(self, state: dict[str, Any], seeds: SeedPlan) -> tuple[Step, np.ndarray]:
        """Starts new episodes in every lane, with the kinds and agents of the state; see
        `VectorEnv.load_state_dict`.
        """
        if set(state) != {"rows", "kinds", "episode"} or len(state["episode"]) != self.num_lanes:
            raise EnvError(f"{self.name}: the saved state is of another environment, or of another number of copies")
        here, self._behaviors, self._numbers = self._behaviors, {}, {}
        self._slots, self._rows, self.kinds = [], [], ()
        for saved in state["kinds"]:
            obs, action = space_from_json(saved["obs"]), space_from_json(saved["action"])
            then = CopyBehavior(obs_spec(obs, action, info_mask=saved["info_mask"]), action_spec(action))
            number = len(self._slots)
            for name in saved["behaviors"]:
                now = here.pop(name, then)
                if now.obs != then.obs or now.action != then.action:
                    raise EnvError(
                        f"{self.name}: behaviour {name} has observations {now.obs.space} and actions "
                        f"{now.action.space}; in the run to be resumed they were {then.obs.space} and "
                        f"{then.action.space}"
                    )
                self._add(name, replace(now, slots=()))
            self._slots[number].columns = [(name, group) for name, group in saved["columns"]]
            self._widen(number)
        for name, behavior in here.items():
            self._add(name, behavior)
        self.episode[:] = state["episode"] + 1
        return self._begin(seeds), np.ones(self.num_lanes, dtype=bool)

    def close(self) -> None:
        """Closes the copies."""
        self._copies.close()


NO_ROWS = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True)
class ActionRequest:
    """Agents of one behaviour that have requested actions: ``[N]`` agents, and their slots."""

    behavior: str
    ids: Sequence[Hashable]
    slots: np.ndarray


def _unlearned(step_messages: Sequence[StepMessage], stepped: np.ndarray) -> np.ndarray | None:
    """Returns ``[lanes]`` whose requesting agents are not learned from, and whose steps do not count; or None."""
    lanes = [message.lane for message in step_messages if message.unlearned]
    if not lanes:
        return None
    found = np.zeros(len(stepped), dtype=bool)
    found[lanes] = True
    stepped[lanes] = False
    return found


def _answers(requests: Sequence[ActionRequest], actions: np.ndarray) -> dict[str, Answer]:
    """Returns the actions ``[N, ...]`` of all requesting agents of a lane, in order of their slots, as answers by
    behaviour.
    """
    slots = requests[0].slots if len(requests) == 1 else np.concatenate([one.slots for one in requests])
    if not (slots[1:] > slots[:-1]).all():
        actions = actions[np.argsort(np.argsort(slots))]
    answers, used = {}, 0
    for one in requests:
        answers[one.behavior] = Answer(one.ids, actions[used : used + len(one.ids)])
        used += len(one.ids)
    return answers


def _base(behavior: str) -> str:
    """Returns the name of a behaviour without its team."""
    return behavior.partition(TEAM_MARK)[0]


def _names(slots: AgentSlots) -> tuple[str, ...]:
    """Returns the names of the agents in some slots: their own, or numbers that count the slots of a behaviour."""
    counts: dict[str, int] = {}
    names = []
    for behavior, _ in slots.columns:
        base, mark, team = behavior.partition(TEAM_MARK)
        counts[behavior] = number = counts.get(behavior, -1) + 1
        names.append(f"{base}{SLOT_MARK}{number}{mark}{team}")
    return (*slots.names[: len(names)], *names[len(slots.names) :])


def behaviors_of(agent: str) -> tuple[str, ...]:
    """Returns the behaviour in an agent's name, with its team and without: ``Striker?team=1`` and ``Striker`` of
    ``Striker#2?team=1``; empty for an agent that is not named after its slot.
    """
    whole, mark, team = agent.partition(TEAM_MARK)
    base, slot, number = whole.rpartition(SLOT_MARK)
    if not slot or not number.isdecimal():
        return ()
    return tuple(dict.fromkeys((f"{base}{mark}{team}", base)))


def team_of(agent: str) -> str:
    """Returns the team in an agent's name, ``team=1`` of ``Striker#2?team=1``; empty for one not named after
    its slot.
    """
    return agent.partition(TEAM_MARK)[2] if behaviors_of(agent) else ""


def _masked_beside(behavior: Kind) -> bool:
    """Whether masks are returned in addition to observations, instead of being part of their space."""
    return behavior.obs.has_mask and obs_spec(behavior.obs.space, behavior.action.space) != behavior.obs


# --- slots ------------------------------------------------------------------------------------------------------------


class AgentSlots:
    """Slots of one kind: which agent of a copy has which row.

    Agents have ids of the copy's own, end and never come back. A slot is a column of the kind's rows; a new agent takes
    the lowest free one of its group. So an agent's successor keeps its slot.

    Args:
        num_lanes: Number of copies.
        columns: For each slot of a copy, the agents it is reserved for: a behaviour and the number of a group, or -1.
        names: Ids of agents with a slot of their own, in the order of `columns`.

    Attributes:
        columns: The same; may grow.
        names: The same.
    """

    def __init__(self, num_lanes: int, columns: Sequence[tuple[str, int]], names: Sequence[str] = ()) -> None:
        self.columns = list(columns)
        self.names = tuple(names)
        self._own: dict[Hashable, int] = {name: slot for slot, name in enumerate(names)}
        self._seat_of: list[dict[Hashable, int]] = [{} for _ in range(num_lanes)]
        self._taken: list[set[int]] = [set() for _ in range(num_lanes)]
        self._latest: list[tuple[Sequence[Hashable], np.ndarray]] = [((), NO_SLOTS)] * num_lanes

    def find(self, lane: int, ids: Sequence[Hashable]) -> np.ndarray:
        """Returns ``[N]`` the slots of agents; -1 for those without one."""
        known, found = self._latest[lane]
        if known == ids:
            return found
        seat_of = self._seat_of[lane]
        return np.array([seat_of.get(agent, -1) for agent in ids], dtype=np.int64)

    def take(
        self, lane: int, behavior: str, ids: Sequence[Hashable], groups: Sequence[int]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Assigns slots to agents without one; adds slots if none is free.

        Args:
            lane: Lane of the copy.
            behavior: Behaviour of the agents.
            ids: ``[N]`` ids of the agents.
            groups: ``[N]`` the numbers of their groups, -1 for none; empty if there are no groups.

        Returns:
            ``[N]`` their slots; and ``[N]`` bool, which agents are new.
        """
        slots = self.find(lane, ids)
        new = slots < 0
        if new.any():
            taken = self._taken[lane]
            for place in np.flatnonzero(new).tolist():
                wanted = behavior, groups[place] if len(groups) else -1
                free = (slot for slot, kept_for in enumerate(self.columns) if kept_for == wanted and slot not in taken)
                slot = self._own[ids[place]] if ids[place] in self._own else next(free, len(self.columns))
                if slot == len(self.columns):
                    self.columns.append(wanted)
                taken.add(slot)
                self._seat_of[lane][ids[place]] = slots[place] = slot
            self._latest[lane] = list(ids), slots
        return slots, new

    def leave(self, lane: int, ids: Sequence[Hashable]) -> None:
        """Frees the slots of agents."""
        for agent in ids:
            slot = self._seat_of[lane].pop(agent, None)
            if slot is not None:
                self._taken[lane].discard(slot)
        self._latest[lane] = (), NO_SLOTS

    def held(self, lane: int) -> set[int]:
        """Returns the occupied slots of a lane."""
        return self._taken[lane]

    def clear(self, lane: int) -> np.ndarray:
        """Frees all slots of a lane; returns those that were occupied, ascending."""
        slots = np.array(sorted(self._taken[lane]), dtype=np.int64)
        self._seat_of[lane], self._taken[lane] = {}, set()
        self._latest[lane] = (), NO_SLOTS
        return slots


NO_SLOTS = np.zeros(0, dtype=np.int64)
