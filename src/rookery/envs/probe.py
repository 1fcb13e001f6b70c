"""One copy of an environment, driven without mercy: calls do not raise, and what is wrong is noted while play goes on.

The back ends stop at the first breach of the contract, as training must. `Probe` takes the same steps and goes on as
long as it can, so that `check.py` can report everything at once.
"""

from __future__ import annotations

import random
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from time import perf_counter
from typing import Any, Literal

import numpy as np

from rookery.core.spaces import MASK
from rookery.envs import dict_env, gym_env, lane, pettingzoo_env
from rookery.envs.dict_env import ALL, DictLane
from rookery.envs.gym_env import AGENT, GymLane
from rookery.envs.lane import NEW_API, Agent, Breach, LaneStep, info_masks, shape_of
from rookery.envs.pettingzoo_env import AECLane, ParallelLane

Severity = Literal["error", "warning", "note"]
ByAgent = Mapping[Agent, Any]

STYLES: dict[type, str] = {
    GymLane: "Gymnasium style",
    DictLane: "dictionaries by agent",
    ParallelLane: "PettingZoo, parallel",
    AECLane: "PettingZoo, turns (AEC)",
}

OURS = {__name__, gym_env.__name__, dict_env.__name__, pettingzoo_env.__name__, lane.__name__}
WATCHED = 1000
"""Calls of each copy in which global random state is watched."""

FAILED = object()
"""What a call gave that raised."""


@dataclass(frozen=True)
class Finding:
    """Something worth knowing about an environment.

    Attributes:
        severity: ``error``: it cannot be trained like this, or would be trained wrongly; ``warning``: it can, at a
            price; ``note``: a fact.
        where: Episode, step and agent of the first time.
        text: What was found, what was expected, and the way out.
        count: How often it was found.
    """

    severity: Severity
    where: str
    text: str
    count: int = 1


@dataclass
class Findings:
    """Collects findings, each kind once.

    Attributes:
        where: Episode and step of what is happening now.
    """

    where: str = ""
    found: dict[tuple[str, str], Finding] = field(default_factory=dict)

    def add(self, severity: Severity, text: str, agent: Agent | None = None, sort: str = "") -> None:
        """Notes a finding; `sort` is what equal ones of an agent share, where the text has changing numbers in it."""
        where = ", ".join(filter(None, (self.where, "" if agent is None else f"agent {str(agent)!r}")))
        key = (str(agent), sort or text)
        before = self.found.get(key)
        self.found[key] = Finding(severity, where, text) if before is None else replace(before, count=before.count + 1)


@dataclass
class Shown(LaneStep):
    """What a copy shows after a reset or a step; `stuck`: the episode cannot go on."""

    obs: dict[Agent, Any] = field(default_factory=dict)
    terminated: set[Agent] = field(default_factory=set)
    truncated: set[Agent] = field(default_factory=set)
    final: dict[Agent, Any] = field(default_factory=dict)
    stuck: bool = False


class Probe:
    """Drives a lane, and notes what is wrong in `findings`."""

    def __init__(self, lane: Any, findings: Findings) -> None:
        self.lane = lane
        self.env = lane.env
        self.style = STYLES[type(lane)]
        self.findings = findings
        self._error, self._warn = partial(findings.add, "error"), partial(findings.add, "warning")
        self.seconds, self.steps = 0.0, 0  # in `step` so far
        self._spent, self._calls = 0.0, 0
        self._alive: dict[Agent, None] = {}
        self._ended: dict[Agent, str] = {}

    def reset(self, seed: int) -> Shown:
        """Starts an episode."""
        self._alive, self._ended = {}, {}
        if isinstance(self.lane, AECLane):
            return self._turn(self._call("reset()", self.lane.reset, seed))
        result = self._call("reset()", self._reset_seeded, seed)
        if result is FAILED:
            return Shown(stuck=True)
        pair = isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], Mapping)
        if not pair:
            expected = "(obs, info)" if self._single else "(observations, infos), dicts by agent"
            self._error(f"reset() returned {shape_of(result)}, expected {expected}; {NEW_API}")
        obs, infos = result if pair else (result, {})
        if self._single:
            return Shown({AGENT: obs}, masks={AGENT: infos[MASK]} if MASK in infos else {})
        if not isinstance(obs, Mapping):
            self._error(f"reset() returned observations as {shape_of(obs)}, expected a dict by agent")
            return Shown(stuck=True)
        self._know(obs, "the observations of reset()")
        expected_agents = list(self.env.agents) if isinstance(self.lane, ParallelLane) else list(obs)
        for agent in expected_agents:
            if agent not in obs:
                self._error("is in env.agents after reset() but has no observation", agent)
        self._alive = dict.fromkeys(expected_agents)
        return Shown({agent: obs[agent] for agent in self._alive if agent in obs}, masks=info_masks(infos))

    def step(self, actions: dict[Agent, Any]) -> Shown:
        """Steps once."""
        before = self._spent
        if isinstance(self.lane, AECLane):
            given: Any = self._call("step()", self.lane.step, actions)
        else:
            given = self._call("step()", self.env.step, actions[AGENT] if self._single else actions)
        self.seconds += self._spent - before
        self.steps += 1
        if given is FAILED:
            return Shown(stuck=True)
        if isinstance(self.lane, AECLane):
            return self._turn(given)
        return self._single_step(given) if self._single else self._agents_step(given)

    @property
    def _single(self) -> bool:
        return isinstance(self.lane, GymLane)

    # --- one agent ----------------------------------------------------------------------------------------------------

    def _reset_seeded(self, seed: int) -> Any:
        try:
            return self.env.reset(seed=seed)
        except TypeError as error:
            if "seed" not in str(error):
                raise
            self._error(f"reset() takes no seed, expected reset(seed=, options=); {NEW_API}")
            return self.env.reset()

    def _single_step(self, given: Any) -> Shown:
        if not isinstance(given, tuple) or len(given) != 5:
            expected = "expected five: (obs, reward, terminated, truncated, info)"
            self._error(f"step() returned {shape_of(given)}, {expected}; {NEW_API}")
            if not isinstance(given, tuple) or len(given) != 4:
                return Shown(stuck=True)
            given = (*given[:3], False, given[3])
        obs, reward, terminated, truncated, info = given
        if not isinstance(info, Mapping):
            self._error(f"info is {shape_of(info)}, expected a dict", sort="info")
            info = {}
        over, cut = self._flag("terminated", terminated), self._flag("truncated", truncated)
        shown = Shown(reward={AGENT: reward}, masks={AGENT: info[MASK]} if MASK in info else {}, ended=over or cut)
        shown.terminated, shown.truncated = {AGENT} if over else set(), {AGENT} if cut else set()
        (shown.final if shown.ended else shown.obs)[AGENT] = obs
        return shown

    def _flag(self, name: str, value: Any, agent: Agent | None = None) -> bool:
        if not isinstance(value, bool | np.bool_):
            text = f"{name} is {value!r} ({type(value).__name__}), expected True or False"
            self._warn(text, agent, sort=f"flag {name}")
        try:
            return bool(value)
        except ValueError:
            return False

    # --- many agents --------------------------------------------------------------------------------------------------

    def _agents_step(self, given: Any) -> Shown:
        names = ("observations", "rewards", "terminateds", "truncateds", "infos")
        if not isinstance(given, tuple) or len(given) != 5:
            expected = f"expected five dicts by agent ({', '.join(names)})"
            self._error(f"step() returned {shape_of(given)}, {expected}; {NEW_API}")
            return Shown(stuck=True)
        parts: list[ByAgent] = []
        for name, part in zip(names, given, strict=True):
            if not isinstance(part, Mapping):
                self._error(f"step() returned {name} as {shape_of(part)}, expected a dict by agent")
            parts.append(part if isinstance(part, Mapping) else {})
            if name != "infos":
                self._know(parts[-1], name)
        obs, reward, terminateds, truncateds, infos = parts
        shown = Shown(reward=dict(reward), masks=info_masks(infos))
        flagged = [
            {agent for agent, value in part.items() if agent != ALL and self._flag(name, value, agent)}
            for name, part in (("terminated", terminateds), ("truncated", truncateds))
        ]
        shown.terminated, shown.truncated = ({a for a in self._alive if a in flags} for flags in flagged)
        if isinstance(self.lane, ParallelLane):
            self._parallel_rest(shown, obs, reward, terminateds, truncateds)
        else:
            self._dict_rest(shown, obs, terminateds, truncateds, set().union(*flagged))
        for agent in reward:
            if agent in self._ended and agent not in self._alive and np.any(reward[agent]):
                after = f"although it {self._ended[agent]}; it counts in its return, nothing learns from it"
                self._warn(f"gets a reward {after}", agent, sort="reward after the end")
        now = self.findings.where.rpartition(", ")[2]
        left = shown.terminated | shown.truncated
        self._ended |= dict.fromkeys(left, f"ended in {now}")
        self._alive = dict.fromkeys([*(agent for agent in self._alive if agent not in left), *shown.obs])
        return shown

    def _dict_rest(
        self, shown: Shown, obs: ByAgent, terminateds: ByAgent, truncateds: ByAgent, flagged: set[Agent]
    ) -> None:
        """What is special where agents come, go and take turns."""
        if ALL not in terminateds:
            self._error(f'terminateds has no "{ALL}", expected it to say whether the episode is over for everyone')
        over, cut = bool(terminateds.get(ALL)), bool(truncateds.get(ALL))
        rest = {agent for agent in self._alive if agent not in flagged}
        shown.terminated |= rest if over else set()
        shown.truncated |= rest if cut else set()
        shown.ended = over or cut
        left = shown.terminated | shown.truncated
        shown.final = {agent: obs[agent] for agent in obs if agent in left}
        if not shown.ended:
            shown.obs = {agent: obs[agent] for agent in obs if agent not in flagged}
        for agent in shown.obs:
            if agent in self._ended and agent not in self._alive:
                again = f"must act again although it {self._ended[agent]}: it is taken as coming back"
                text = f"{again}; if that is not meant, give no observation of agents that have ended"
                self._warn(text, agent, sort="acts after the end")
        for agent in shown.truncated - shown.terminated:
            if agent not in obs:
                text = "was truncated without a last observation: its value is taken from what it saw before"
                self._warn(text, agent)

    def _parallel_rest(
        self, shown: Shown, obs: ByAgent, reward: ByAgent, terminateds: ByAgent, truncateds: ByAgent
    ) -> None:
        """What is special where all agents act at once."""
        left, now = shown.terminated | shown.truncated, list(self.env.agents)
        for agent in list(self._alive):
            if agent not in left and agent not in now:
                self._error("left env.agents, expected it to be terminated or truncated with that step", agent)
                del self._alive[agent]
            if agent in left and agent in now:
                self._warn("has ended but is still in env.agents after that step", agent)
            for name, part in (("reward", reward), ("termination", terminateds), ("truncation", truncateds)):
                if agent not in part:
                    counts = "0" if name == "reward" else "False"
                    self._warn(f"acted but got no {name}, which counts as {counts}", agent)
        staying = [agent for agent in now if agent not in left]
        for agent in staying:
            if agent not in obs:
                self._error("is in env.agents but has no observation", agent)
        shown.final = {agent: obs[agent] for agent in obs if agent in left}
        shown.obs = {agent: obs[agent] for agent in staying if agent in obs}
        shown.ended = not staying

    def _turn(self, given: Any) -> Shown:
        """A lane's own step as a `Shown`."""
        return Shown(stuck=True) if given is FAILED else Shown(**vars(given))

    def _know(self, part: Mapping[Agent, Any], name: str) -> None:
        """Notes agents that nobody announced."""
        announced = self.lane.agents
        for agent in part:
            if agent == ALL or not announced or agent in announced:
                continue
            text = f"is in {name} but not among the agents announced ({', '.join(map(str, announced))})"
            try:
                self.lane.spaces(agent)
                self._warn(text, agent, sort="unknown")
            except Breach:
                self._error(f"{text}, and its spaces are not known", agent, sort="unknown")

    def close(self) -> None:
        """Frees what the copy holds."""
        if callable(close := getattr(self.env, "close", None)):
            self._call("close()", close)

    # --- calls --------------------------------------------------------------------------------------------------------

    def _call(self, what: str, function: Callable[..., Any], *arguments: Any) -> Any:
        """Calls the environment; notes an exception, and whether global random state was touched."""
        self._calls += 1
        watched = self._calls <= WATCHED  # looking at the state takes longer than many a step
        before = _random_states() if watched else ()
        began = perf_counter()
        try:
            result = function(*arguments)
        except Breach as breach:
            self._error(breach.problem, breach.agent)
            return FAILED
        except Exception as error:
            kind, line = type(error).__name__, _line_of(error)
            self._error(f"{what} raised {kind}: {error}{line}", sort=f"{what} {kind}{line}")
            return FAILED
        finally:
            self._spent += perf_counter() - began
        after = _random_states() if watched else ()
        for module, old, new in zip(("numpy.random", "random"), before, after, strict=False):
            if old != new:
                text = f"{what} changes the global state of {module}, so that runs cannot repeat exactly (exact: false)"
                self._warn(f"{text}; draw from self.np_random, or from a generator that reset(seed) makes")
        return result


def _random_states() -> tuple[Any, Any]:
    """The global random state of NumPy and of Python, to compare."""
    state: Any = np.random.get_state()
    return (state[1].tobytes(), *state[2:]), random.getstate()


def _line_of(error: Exception) -> str:
    """Where in the environment an exception was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    names = [frame.f_globals.get("__name__") for frame, _ in traceback.walk_tb(error.__traceback__)]
    own = [frame for frame, name in zip(frames, names, strict=True) if name not in OURS]
    return f" ({own[-1].filename}:{own[-1].lineno})" if own else ""
