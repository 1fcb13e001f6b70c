"""`Probe`: one environment under test. Calls do not raise; errors are noted and the episode continues.

The back ends stop at the first breach of the contract, as training must. `Probe` takes the same steps and continues as
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

from rookery.envs.adapters import dict_env, gym_env, lane, pettingzoo_env
from rookery.envs.adapters.dict_env import ALL, DictLane
from rookery.envs.adapters.gym_env import GymLane
from rookery.envs.adapters.lane import STEP_PARTS, Agent, Breach, Lane, LaneStep, shape_of
from rookery.envs.adapters.pettingzoo_env import AECLane, ParallelLane

Severity = Literal["error", "warning", "note"]

STYLES: dict[type, str] = {
    GymLane: "Gymnasium style",
    DictLane: "dictionaries by agent",
    ParallelLane: "PettingZoo, parallel",
    AECLane: "PettingZoo, turns (AEC)",
}

OURS = {__name__, gym_env.__name__, dict_env.__name__, pettingzoo_env.__name__, lane.__name__}
WATCHED = 1000
"""Number of calls of each environment during which global random state is checked."""


@dataclass(frozen=True)
class EnvFinding:
    """Problem or remark about an environment.

    Attributes:
        severity: ``error``: it cannot be trained like this, or would be trained wrongly; ``warning``: it can, at a
            cost; ``note``: a fact.
        where: Episode, step and agent of the first occurrence.
        text: The found and the expected value, and how to fix it.
        count: Number of occurrences.
        sort: Kind of problem, such as ``endless``; empty for one without a name.
    """

    severity: Severity
    where: str
    text: str
    count: int = 1
    sort: str = ""


@dataclass
class Findings:
    """Collects findings, each kind once.

    Attributes:
        where: Current episode and step.
    """

    where: str = ""
    found: dict[tuple[str, str], EnvFinding] = field(default_factory=dict)

    def add(self, severity: Severity, text: str, agent: Agent | None = None, sort: str = "") -> None:
        """Notes a finding; `sort` is the key for findings of an agent that differ only in numbers."""
        where = ", ".join(filter(None, (self.where, "" if agent is None else f"agent {str(agent)!r}")))
        key = (str(agent), sort or text)
        before = self.found.get(key)
        self.found[key] = (
            EnvFinding(severity, where, text, sort=sort) if before is None else replace(before, count=before.count + 1)
        )


class Probe:
    """Drives a lane, and notes errors in `findings`.

    Attributes:
        stuck: Whether the episode cannot continue.
        seconds: Time spent in the environment's own `step` so far.
        steps: Number of those calls.
    """

    def __init__(self, lane: Lane, findings: Findings) -> None:
        self.lane = lane
        self.env = lane.env
        self.style = STYLES[type(lane)]
        self.findings = findings
        self.stuck, self.seconds, self.steps = False, 0.0, 0
        self._error, self._warn = partial(findings.add, "error"), partial(findings.add, "warning")
        self._calls = 0
        self._alive: set[Agent] = set()
        self._ended: dict[Agent, str] = {}
        lane.report = lambda breach: self._error(breach.problem, breach.agent)

    def reset(self, seed: int) -> LaneStep:
        """Starts an episode."""
        self.stuck, self._ended = False, {}
        shown: LaneStep = self._call("reset()", self.lane.reset, seed)
        if isinstance(self.lane, DictLane | ParallelLane):
            self._know(shown.obs, "the observations of reset()")
        self._alive = set(shown.obs)
        return shown

    def step(self, actions: dict[Agent, Any]) -> LaneStep:
        """Steps once."""
        shown: LaneStep = self._call("step()", self._step, actions)
        return shown

    def _step(self, actions: dict[Agent, Any]) -> LaneStep:
        argument = self.lane.argument(actions)
        began = perf_counter()
        given = self.lane.inner.step(argument)
        self.seconds += perf_counter() - began
        self.steps += 1
        if isinstance(given, tuple) and len(given) == 5:
            self._look_at_one(given) if isinstance(self.lane, GymLane) else self._look_at_dicts(given)
        shown = self.lane.read(given)
        if isinstance(self.lane, DictLane):
            self._look_at_turns(shown)
        if isinstance(self.lane, ParallelLane):
            self._look_at_acting(shown, given, actions)
        now = self.findings.where.rpartition(", ")[2]
        left = {*shown.terminated, *shown.truncated}
        self._ended |= dict.fromkeys(left, f"ended in {now}")
        self._alive = (self._alive - left) | set(shown.obs)
        return shown

    # --- results of a step --------------------------------------------------------------------------------------------

    def _look_at_one(self, given: tuple[Any, ...]) -> None:
        *_, terminated, truncated, info = given
        self._look_at_flag("terminated", terminated)
        self._look_at_flag("truncated", truncated)
        if not isinstance(info, Mapping):
            self._error(f"info is {shape_of(info)}, expected a dict", sort="info")

    def _look_at_dicts(self, given: tuple[Any, ...]) -> None:
        parts = {name: part for name, part in zip(STEP_PARTS, given, strict=True) if isinstance(part, Mapping)}
        for name, part in parts.items():
            if name != "infos":
                self._know(part, name)
        for name in ("terminated", "truncated"):
            for agent, value in parts.get(f"{name}s", {}).items():
                if agent != ALL:
                    self._look_at_flag(name, value, agent)
        for agent, reward in parts.get("rewards", {}).items():
            if agent in self._ended and agent not in self._alive and np.any(reward):
                after = f"although it {self._ended[agent]}; it counts in its return, nothing learns from it"
                self._warn(f"gets a reward {after}", agent, sort="reward after the end")

    def _look_at_flag(self, name: str, value: Any, agent: Agent | None = None) -> None:
        if not isinstance(value, bool | np.bool_):
            text = f"{name} is {value!r} ({type(value).__name__}), expected True or False"
            self._warn(text, agent, sort=f"flag {name}")

    def _look_at_turns(self, shown: LaneStep) -> None:
        """Checks a step of an environment whose agents appear, leave and take turns."""
        self._look_at_returns(shown, "give no observation to agents that have ended")
        for agent in shown.truncated:
            if agent not in shown.final and agent not in shown.terminated:
                text = "was truncated without a last observation: its value is computed from its previous one"
                self._warn(text, agent)

    def _look_at_returns(self, shown: LaneStep, way_out: str) -> None:
        """Notes agents that act again after their end."""
        for agent in shown.obs:
            if agent in self._ended and agent not in self._alive:
                again = f"must act again although it {self._ended[agent]}: it counts as coming back"
                self._warn(f"{again}; if that is not meant, {way_out}", agent, sort="acts after the end")

    def _look_at_acting(self, shown: LaneStep, given: tuple[Any, ...], actions: Mapping[Agent, Any]) -> None:
        """Checks a step of an environment whose agents all act at once."""
        self._look_at_returns(shown, "remove it from env.agents, or keep one of its flags true")
        for agent in {*shown.terminated, *shown.truncated}:
            if agent in self.env.agents:
                kept = "has ended but is still in env.agents after that step"
                text = f"{kept}; it acts again only after a step that shows it with both flags false, as a respawn"
                self._warn(text, agent)
        for agent in actions:
            for name, part in zip(("reward", "termination", "truncation"), given[1:4], strict=True):
                if not isinstance(part, Mapping) or agent not in part:
                    counts = "0" if name == "reward" else "False"
                    self._warn(f"acted but got no {name}, which counts as {counts}", agent)

    def _know(self, part: Mapping[Agent, Any], name: str) -> None:
        """Notes agents that were not announced."""
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
        """Releases the resources of the environment."""
        if callable(close := getattr(self.env, "close", None)):
            self._call("close()", close)

    # --- calls --------------------------------------------------------------------------------------------------------

    def _call(self, what: str, function: Callable[..., Any], *arguments: Any) -> Any:
        """Calls the environment; notes changes of global random state, and an exception, which results in an empty
        step.
        """
        self._calls += 1
        watched = self._calls <= WATCHED  # reading the state takes longer than many a step
        before = _random_states() if watched else ()
        result: Any = LaneStep({})
        try:
            result = function(*arguments)
        except Breach as breach:
            self.stuck = True
            self._error(breach.problem, breach.agent)
        except Exception as error:
            self.stuck = True
            kind, line = type(error).__name__, _line_of(error)
            self._error(f"{what} raised {kind}: {error}{line}", sort=f"{what} {kind}{line}")
        after = _random_states() if watched else ()
        for module, old, new in zip(("numpy.random", "random"), before, after, strict=False):
            if old != new:
                text = f"{what} changes the global state of {module}, so that runs cannot repeat exactly (exact: false)"
                self._warn(f"{text}; draw from self.np_random, or from a generator that reset(seed) makes")
        return result


def _random_states() -> tuple[Any, Any]:
    """Returns the global random state of NumPy and of Python, for comparison."""
    state: Any = np.random.get_state()
    return (state[1].tobytes(), *state[2:]), random.getstate()


def _line_of(error: Exception) -> str:
    """Returns the place in the environment where an exception was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    names = [frame.f_globals.get("__name__") for frame, _ in traceback.walk_tb(error.__traceback__)]
    own = [frame for frame, name in zip(frames, names, strict=True) if name not in OURS]
    return f" ({own[-1].filename}:{own[-1].lineno})" if own else ""
