"""`EpisodeServer`: the episodes of all clients at one port, in the lanes of the environment that currently uses it."""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rookery.core.errors import EnvError, RookeryError, SpaceError
from rookery.core.process.internal_errors import InternalErrors
from rookery.core.settings.fields import show
from rookery.core.spaces.arrays import MASK, ActionSpec, Tree
from rookery.core.spaces.space_files import space_to_json
from rookery.envs.async_copies.step_message import Answer, Asking, Ended, StepMessage
from rookery.envs.base import SeedPlan
from rookery.envs.external.listener import ClientListener, ConnectionLimits
from rookery.envs.external.spaces import ExternalSpaces
from rookery.envs.external.wire import MessageError
from rookery.envs.parameters import lessons_of, parameters_of

ENDS = ("terminated", "truncated")


@dataclass(eq=False)
class ClientEpisode:
    """A running episode.

    Attributes:
        name: Name given by the client.
        session: The client.
        served: The environment whose lane it uses.
        lane: The lane.
        waiting: Number of the request that waits for actions; 0 if none does.
        own: Whether the client has acted by itself in that request, and waits until that is recorded.
        learned: Whether it is learned from and counted.
        rewards: By agent, reward since its last request.
        seen: By active agent, its last observation.
        ended: By agent that has ended since the last message: whether it was truncated, its last observation, its
            reward.
        info: Infos of the client, by agent.
    """

    name: str
    session: str
    served: ServedEnv
    lane: int
    waiting: int = 0
    own: bool = False
    learned: bool = True
    rewards: dict[str, float] = field(default_factory=dict)
    seen: dict[str, Tree] = field(default_factory=dict)
    ended: dict[str, tuple[bool, Tree, float]] = field(default_factory=dict)
    info: dict[str, Any] = field(default_factory=dict)


@dataclass(eq=False)
class ServedLane:
    """State of one lane of a `ServedEnv`.

    Attributes:
        number: Number of its current or next episode.
        episode: Its running episode.
        message: Next message.
        taken: Whether the last message was taken and is not answered yet.
        shown: Whether a message of the episode was taken.
        closing: Whether the last message ends the episode.
    """

    number: int = 0
    episode: ClientEpisode | None = None
    message: StepMessage | None = None
    taken: bool = False
    shown: bool = False
    closing: bool = False

    @property
    def is_free(self) -> bool:
        """Whether an episode may begin in this lane."""
        return self.episode is None and self.message is None and not self.taken


@dataclass(eq=False)
class ServedEnv:
    """The lanes of one environment at a port.

    Attributes:
        num_lanes: Number of lanes.
        evenly: Whether an episode begins in the lane with the fewest episodes, instead of the first free one.
        counters: Numbers of tolerated failures.
        lanes: Lanes that have begun, by number.
        plan: Seeds and parameters of its episodes.
        ready: Lanes with a message, in order of message.
        infos: By lane, infos of clients since the last messages.
        closed: Whether its environment is closed.
    """

    num_lanes: int
    evenly: bool = False
    counters: dict[str, int] = field(default_factory=dict)
    lanes: dict[int, ServedLane] = field(default_factory=dict)
    plan: SeedPlan | None = None
    ready: dict[int, None] = field(default_factory=dict)
    infos: dict[int, dict[str, Any]] = field(default_factory=dict)
    closed: bool = False

    def free_lane(self) -> int | None:
        """Returns the lane for the next episode; None if all are busy."""
        free = [number for number, lane in self.lanes.items() if lane.is_free]
        return min(free, key=lambda number: (self.lanes[number].number if self.evenly else 0, number), default=None)

    def count(self, what: str) -> None:
        """Counts a tolerated failure."""
        self.counters[what] = self.counters.get(what, 0) + 1


class EpisodeServer:
    """Handles the requests of clients at one port, which all environments of a process with that port share.

    The environment that was begun or stepped last is active: an evaluation takes over the clients of a training, and
    the training takes them back. Episodes that run at that moment are given up, and their clients start others.
    """

    def __init__(
        self,
        name: str,
        spaces: ExternalSpaces,
        host: str,
        port: int,
        token: str,
        limits: ConnectionLimits,
        given_token: str = "",
    ) -> None:
        """Begins to listen; see `ClientListener`.

        Args:
            name: Name of the environment for messages.
            spaces: Observations and actions of the agents.
            host: Address to listen at.
            port: Port to listen at.
            token: Token that clients must know.
            limits: Limits of connections.
            given_token: The user's own token; environments with the same one may share a port of 0.
        """
        self.host, self.port, self.given_token = host, port, given_token
        self.name, self.spaces, self.token, self.limits = name, spaces, token, limits
        self.changed = threading.Condition()
        self.error: Exception | None = None
        self.internal_errors = InternalErrors()
        self._served: list[ServedEnv] = []
        """Environments that have been active; the last one is active now."""
        self._queue: deque[tuple[str, int, str, bool]] = deque()
        """Episodes that wait for a lane: their client, its request, their name, whether they are learned from."""
        self._episodes: dict[str, ClientEpisode] = {}
        agents = {
            agent: {part: space_to_json(getattr(behavior, part).space) for part in ("obs", "action")}
            for agent, behavior in spaces.described.items()
        }
        welcome = {"name": name, "agents": agents, "several": spaces.several}
        with self.changed:  # a client may connect before the constructor ends
            self.listener = ClientListener(self, host, port, token, limits, welcome)

    # -- for environments ----------------------------------------------------------------------------------------------

    def begin(self, served: ServedEnv, number: int, episode: int, plan: SeedPlan) -> None:
        """Restarts a lane, see `Copies.begin`."""
        with self.changed:
            self._activate(served)
            lane = served.lanes.setdefault(number, ServedLane())
            if lane.episode is not None:
                self._leave(lane.episode, "the training starts again", "episodes_interrupted")
            served.lanes[number] = ServedLane(episode)
            served.ready.pop(number, None)
            served.plan = plan
            self._start_waiting()

    def step_messages(self, served: ServedEnv, seconds: float) -> tuple[list[StepMessage], list[int]]:
        """Waits for messages of lanes, see `Copies.step_messages`.

        Returns:
            The messages; and the lanes in which an episode begins with them.

        Raises:
            EnvError: If the listener has failed.
        """
        with self.changed:
            self._activate(served)
            self._start_waiting()
            self.changed.wait_for(lambda: served.ready or self.error, seconds)
            if self.error is not None:
                raise (
                    self.error
                    if isinstance(self.error, RookeryError)
                    else EnvError(f"{self.name}: the listener failed: {type(self.error).__name__}: {self.error}")
                ) from self.error
            found, began = [], []
            served.infos = {}
            for number in served.ready:
                lane = served.lanes[number]
                assert lane.message is not None
                found.append(lane.message)
                if not lane.shown:
                    began.append(number)
                if lane.episode is not None and lane.episode.info:
                    served.infos[number], lane.episode.info = lane.episode.info, {}
                lane.message, lane.taken, lane.shown = None, True, True
            served.ready = {}
            if self.listener.refused:
                served.counters["connections_refused"] = self.listener.refused
            return found, began

    def answer(self, served: ServedEnv, number: int, answers: Mapping[str, Answer]) -> None:
        """Sends the actions requested by a lane, see `Copies.answer`."""
        with self.changed:
            lane = served.lanes[number]
            lane.taken = False
            if lane.closing:
                served.lanes[number] = ServedLane(lane.number + 1)
                self._start_waiting()
            elif lane.episode is None:  # given up since it asked
                self._queue_message(served, StepMessage(number, lost=True), closing=True)
            else:
                request, lane.episode.waiting = lane.episode.waiting, 0
                answer = {} if lane.episode.own else {"action": self._actions(answers)}
                self.listener.answer(lane.episode.session, request, {"ok": answer})

    def _actions(self, answers: Mapping[str, Answer]) -> Any:
        """Returns the next action of a client; with several agents, by agent."""
        given = [(one.ids, one.actions) for one in answers.values()]
        actions = {agent: _unshared(action) for ids, row in given for agent, action in zip(ids, row, strict=True)}
        return actions if self.spaces.several else actions[self.spaces.only]

    def replan(self, served: ServedEnv, plan: SeedPlan) -> None:
        """Sets other seeds and parameters for later episodes, see `Copies.replan`."""
        with self.changed:
            served.plan = plan

    def close(self, served: ServedEnv) -> None:
        """Closes a `ServedEnv`; its episodes are given up."""
        with self.changed:
            if served in self._served:
                self._interrupt(served, "the training or evaluation of this episode is over")
                self._served.remove(served)
                self._start_waiting()

    # -- environments and lanes ------------------------------------------------------------------------------------

    def _activate(self, served: ServedEnv) -> None:
        """Makes a `ServedEnv` the active one."""
        if self._served and self._served[-1] is served:
            return
        if self._served:
            self._interrupt(
                self._served[-1], ("the training plays other episodes now, for an evaluation or the next ones")
            )
        if served in self._served:
            self._served.remove(served)
        self._served.append(served)

    def _interrupt(self, served: ServedEnv, reason: str) -> None:
        for lane in list(served.lanes.values()):
            if lane.episode is not None:
                self._leave(lane.episode, reason, "episodes_interrupted")

    def _queue_message(self, served: ServedEnv, message: StepMessage, closing: bool) -> None:
        """Queues a message of a lane."""
        lane = served.lanes[message.lane]
        lane.message, lane.closing = message, closing
        if closing:
            lane.episode = None
        served.ready[message.lane] = None
        self.changed.notify_all()

    def _leave(self, episode: ClientEpisode, reason: str, counter: str) -> None:
        """Gives up an episode; its client is informed at its next request."""
        served, lane = episode.served, episode.served.lanes[episode.lane]
        self._episodes.pop(episode.name, None)
        served.count(counter)
        if episode.waiting:
            self.listener.answer(episode.session, episode.waiting, {"lost": f"episode {episode.name}: {reason}"})
        lane.episode = None
        if lane.taken:
            return  # sent with its answer
        if lane.shown:
            self._queue_message(served, StepMessage(episode.lane, lost=True), closing=True)
        else:  # it was never shown
            served.ready.pop(episode.lane, None)
            served.lanes[episode.lane] = ServedLane(lane.number)

    def _start_waiting(self) -> None:
        """Starts waiting episodes in free lanes."""
        while self._queue and self._served:
            served = self._served[-1]
            number = served.free_lane()
            if number is None or served.plan is None:
                return
            session, request, name, learned = self._queue.popleft()
            lane = served.lanes[number]
            try:
                seed = int(served.plan(number, lane.number))
                drawn = dict(parameters_of(served.plan, number, lane.number))
                plan = {"seed": seed, "parameters": drawn, "lessons": lessons_of(served.plan, number, lane.number)}
            except Exception as error:  # a user's sampler raises
                self.failed(error)
                return
            lane.episode = self._episodes[name] = ClientEpisode(name, session, served, number, learned=learned)
            self.listener.answer(session, request, {"ok": plan})

    # -- for the listener ----------------------------------------------------------------------------------------------

    def requested(self, session: str, number: int, request: Mapping[str, Any]) -> None:
        """Handles a request; see `RequestHandler.requested`."""
        ops = {"get_action": self._get_action, "log_action": self._log_action, "end_episode": self._end_episode}
        op, name = request.get("op"), request.get("episode")
        if not isinstance(name, str) or not 0 < len(name) <= 200:
            raise MessageError("episode: expected a name of 1 to 200 characters")
        with self.changed:
            if op == "start_episode":
                self._start(session, number, name, request.get("learned", True))
                return
            if op not in ops:
                raise MessageError(f"op {str(op)[:40]!r} is unknown; use start_episode, {', '.join(ops)}")
            episode = self._episodes.get(name)
            if episode is None or episode.session != session:
                lost = f"episode {name} is not running here: it was given up, or has ended"
                self.listener.answer(session, number, {"lost": lost})
                return
            if episode.waiting:  # its client did not wait for the action
                self._leave(episode, "its client continued without the action that it had asked for", "episodes_lost")
                self.listener.answer(session, number, {"lost": f"episode {name} was given up: it waited for an action"})
                return
            try:
                ops[op](episode, number, request)
            except (MessageError, SpaceError) as error:
                raise MessageError(f"episode {name}: {error}") from None
            except Exception as error:  # an internal error; the training continues
                raise MessageError(f"episode {name}: {self.internal_errors.report(error)}") from None

    def gone(self, session: str) -> None:
        """Gives up the episodes of a client that does not reconnect."""
        with self.changed:
            self._queue = deque(entry for entry in self._queue if entry[0] != session)
            for episode in [one for one in self._episodes.values() if one.session == session]:
                episode.waiting = 0
                self._leave(episode, "its client did not come back", "episodes_lost")
            self._start_waiting()

    def failed(self, error: Exception) -> None:
        """Makes environments that wait for clients raise an error."""
        with self.changed:
            self.error = error
            self.changed.notify_all()

    def _start(self, session: str, number: int, name: str, learned: Any) -> None:
        if not isinstance(learned, bool):
            raise MessageError(f"learned: {show(learned)[:40]}, expected true or false")
        if name in self._episodes or any(name == waiting for _, _, waiting, _ in self._queue):
            raise MessageError(f"episode {name} is running; give each episode a name of its own, or none")
        self._queue.append((session, number, name, learned))
        self._start_waiting()
        if name not in self._episodes:
            lanes, before = self._served[-1].num_lanes if self._served else 0, len(self._queue) - 1
            why = f"all {lanes} places for episodes (num_envs) are taken" if lanes else "the training has not begun"
            self.listener.notify(session, number, {"queued": f"{why}, and {before} others wait before it"})

    def _get_action(self, episode: ClientEpisode, number: int, request: Mapping[str, Any]) -> None:
        self._decide(episode, number, request, self._observed(request.get("obs")), None)

    def _log_action(self, episode: ClientEpisode, number: int, request: Mapping[str, Any]) -> None:
        """Records actions that agents have chosen by themselves."""
        seen = self._observed(request.get("obs"))
        self._decide(episode, number, request, seen, self._done(seen, request))

    def _decide(
        self,
        episode: ClientEpisode,
        number: int,
        request: Mapping[str, Any],
        seen: Mapping[str, Tree],
        own: Mapping[str, np.ndarray] | None,
    ) -> None:
        """Handles agents that must act, or have acted.

        Args:
            episode: Their episode.
            number: Number of the request.
            request: The request.
            seen: By agent, its observation.
            own: By agent, its own action, ``[1, ...]`` as it is stored; None if the policy decides.
        """
        rewards, ended = self._earned(request), self._ended(request)
        if not seen:
            raise MessageError(f"{request['op']}: no agent {'asks for an action' if own is None else 'has acted'}")
        for agent in ended & seen.keys():
            raise MessageError(f"agent {agent} has ended and {'asks for an action' if own is None else 'acts'}")
        self._pay(episode, rewards, request)
        asking = {}
        for behavior, agents in self._by_behavior(seen).items():
            trees, got = _stacked([seen[agent] for agent in agents]), _taken(episode.rewards, agents)
            actions = None if own is None else np.concatenate([own[agent] for agent in agents])
            asking[behavior] = Asking(agents, trees, got, own=actions)
        message = StepMessage(episode.lane, asking, self._leaving(episode), unlearned=not episode.learned)
        episode.seen |= seen
        episode.waiting, episode.own = number, own is not None
        self._queue_message(episode.served, message, closing=False)

    def _end_episode(self, episode: ClientEpisode, number: int, request: Mapping[str, Any]) -> None:
        truncated, obs = request.get("truncated", False), request.get("obs")
        if not isinstance(truncated, bool | int | None):
            raise MessageError(f"truncated: {show(truncated)[:40]}, expected true or false")
        cut = bool(truncated)
        seen = self._observed(obs) if cut and obs is not None else {}
        missing = episode.seen.keys() - seen.keys()
        if cut and obs is None and missing:
            raise MessageError("end_episode(truncated=True) needs the last observation: pass observation")
        rewards = self._earned(request)
        self._ended(request)
        self._pay(episode, rewards, request)
        for agent, last in list(episode.seen.items()):
            self._end(episode, agent, cut, seen.get(agent, last))
        served, lane = episode.served, episode.served.lanes[episode.lane]
        self._episodes.pop(episode.name)
        if lane.shown:
            self._queue_message(served, self._last(episode), closing=True)
        else:
            served.count("episodes_without_decisions")
            served.lanes[episode.lane] = ServedLane(lane.number)
            self._start_waiting()
        self.listener.answer(episode.session, number, {"ok": {}})

    # -- reading requests ----------------------------------------------------------------------------------------------

    def _observed(self, obs: Any) -> dict[str, Tree]:
        """Returns the observations of agents, checked; one row each."""
        if not self.spaces.several:
            obs = {self.spaces.only: obs}
        elif not isinstance(obs, Mapping):
            raise MessageError("obs: expected an object by agent")
        found = {}
        for agent, value in obs.items():
            spec = self.spaces.behavior_of(agent)[1].obs
            tree = spec.allocate(1)
            try:
                spec.write(value, tree, 0)
            except (SpaceError, ValueError, TypeError, OverflowError, LookupError, AttributeError) as error:
                raise MessageError(f"agent {agent}, observation: {error}") from None
            if problem := spec.check(tree, slice(None)):
                raise MessageError(f"agent {agent}, observation: {problem}")
            found[agent] = tree
        return found

    def _done(self, seen: Mapping[str, Tree], request: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """Returns the actions of agents, checked and in stored form, ``[1, ...]``."""
        actions: Any = request.get("action")
        if not self.spaces.several:
            actions = {self.spaces.only: actions}
        elif not isinstance(actions, Mapping) or actions.keys() != seen.keys():
            there = ", ".join(map(str, actions)) if isinstance(actions, Mapping) else show(actions)
            raise MessageError(f"log_action: expected an action for each of {', '.join(seen)} and found {there[:200]}")
        found = {}
        for agent, tree in seen.items():
            spec, action = self.spaces.behavior_of(agent)[1].action, actions[agent]
            try:
                stored = spec.from_env(np.asarray(action)[None] if spec.kind != "composite" else [action])
            except (SpaceError, ValueError, TypeError, OverflowError, LookupError, AttributeError) as error:
                problem = str(error).removeprefix("action 0 is ")
                raise MessageError(f"agent {agent}, action: {problem}") from None
            if MASK in tree and (forbidden := _forbidden(spec, stored[0], tree[MASK][0])):
                raise MessageError(f"agent {agent}, action: {forbidden}, which its mask forbids")
            found[agent] = stored
        return found

    def _earned(self, request: Mapping[str, Any]) -> dict[str, float]:
        """Returns the rewards of agents, checked."""
        rewards = request.get("reward")
        if isinstance(rewards, np.ndarray):
            raise MessageError("reward: expected a number, or an object by agent")
        rewards = rewards or {}
        if not isinstance(rewards, Mapping):
            rewards = {"": rewards}
        found = {}
        for agent, value in rewards.items():
            if self.spaces.several == (not agent):
                raise MessageError("reward: expected an object by agent" if not agent else "reward: expected a number")
            if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= sys.float_info.max:
                raise MessageError(
                    f"reward {str(value)[:40]}{f' of agent {agent}' * bool(agent)}: expected a finite number"
                )
            if agent:
                self.spaces.behavior_of(agent)
            found[agent or self.spaces.only] = float(value)
        return found

    def _ended(self, request: Mapping[str, Any]) -> set[str]:
        """Returns the agents that have ended, checked."""
        ended = request.get("ended")
        ended = {} if ended is None else ended
        if not isinstance(ended, Mapping) or not all(isinstance(end, str) and end in ENDS for end in ended.values()):
            raise MessageError("ended: expected an object by agent of terminated or truncated")
        if ended and not self.spaces.several:
            raise MessageError("ended: there is one agent; end_episode ends its episode")
        for agent in ended:
            self.spaces.behavior_of(agent)
        return {*ended}

    def _pay(self, episode: ClientEpisode, rewards: Mapping[str, float], request: Mapping[str, Any]) -> None:
        """Records the other parts of a valid request: rewards, ends, infos."""
        for agent, value in rewards.items():
            episode.rewards[agent] = episode.rewards.get(agent, 0.0) + value
        for agent, end in (request.get("ended") or {}).items():
            if agent in episode.seen:
                self._end(episode, agent, end == "truncated", episode.seen[agent])
        info = request.get("info")
        if isinstance(info, Mapping):
            episode.info |= info if self.spaces.several else {self.spaces.only: info}

    def _end(self, episode: ClientEpisode, agent: str, cut: bool, last: Tree) -> None:
        """Ends an agent with its rewards so far."""
        del episode.seen[agent]
        episode.ended[agent] = cut, last, episode.rewards.pop(agent, 0.0)

    def _last(self, episode: ClientEpisode) -> StepMessage:
        """Returns the last message of an episode; an unlearned episode is not counted."""
        if episode.learned:
            return StepMessage(episode.lane, {}, self._leaving(episode), over=True)
        episode.served.count("episodes_not_learned")
        return StepMessage(episode.lane, lost=True, unlearned=True)

    def _leaving(self, episode: ClientEpisode) -> dict[str, Ended]:
        """Returns and removes the agents that have ended since the last message."""
        gone = {}
        for behavior, agents in self._by_behavior(episode.ended).items():
            cut, trees, rewards = zip(*(episode.ended[agent] for agent in agents), strict=True)
            gone[behavior] = Ended(agents, _stacked(trees), np.array(rewards), truncated=np.array(cut))
        episode.ended.clear()
        return gone

    def _by_behavior(self, agents: Mapping[str, Any]) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for agent in agents:
            found.setdefault(self.spaces.behavior_of(agent)[0], []).append(agent)
        return found


def _taken(rewards: dict[str, float], agents: list[str]) -> np.ndarray:
    """Returns and resets ``[N]`` rewards of agents."""
    return np.array([rewards.pop(agent, 0.0) for agent in agents])


def _stacked(trees: Sequence[Tree]) -> Tree:
    """Stacks the rows of agents of one behaviour."""
    return {path: np.concatenate([tree[path] for tree in trees]) for path in trees[0]}


def _forbidden(spec: ActionSpec, stored: np.ndarray, mask: np.ndarray) -> str:
    """Returns the part of a stored action that its mask forbids; an empty string if the mask allows all."""
    first = 0
    for number, (size, chosen) in enumerate(zip(spec.sizes, np.atleast_1d(stored), strict=False)):
        if not mask[first + int(chosen)]:
            return f"it takes {int(chosen)} of {size}" + f" in branch {number}" * (len(spec.sizes) > 1)
        first += size
    return ""


def _unshared(action: Any) -> Any:
    """Returns a copy of an action."""
    return np.array(action) if isinstance(action, np.ndarray) else action
