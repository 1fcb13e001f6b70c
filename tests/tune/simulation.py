"""A runner for schedulers without trainings: trials whose scores a function gives, on places, in simulated time.

Carries out actions as `tune/runner.py`, and fails the test if that one could not continue: an action for a trial that
is unknown, over, or at work; a clone without a checkpoint to begin from; no trial at work, and none continued.
"""

from __future__ import annotations

import copy
import heapq
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rookery.tune.scheduler import Action, Actions, Exploit, Scheduler
from rookery.tune.trial import Status

Params = Mapping[str, Any]


@dataclass
class Simulated:
    """A trial.

    Attributes:
        name: ``00003``.
        params: What was chosen for it; changes when it becomes a clone.
        state: What it has learned; a clone begins with a copy of its donor's.
        status: Where it stands.
        age: What the scheduler's `time` is; a clone has its donor's.
        iteration: Iterations behind its state; a clone has its donor's.
        spent: Iterations done under this name, whatever became of them.
        reports: (age, score) of each of them, in order.
        saved: The last checkpoint: (iteration, age, state).
        parents: (its own iteration, donor) of each time it became a clone.
        reason: Why it is over.
    """

    name: str
    params: dict[str, Any]
    state: Any
    status: Status = Status.PENDING
    age: float = 0.0
    iteration: int = 0
    spent: int = 0
    reports: list[tuple[float, float]] = field(default_factory=list)
    saved: tuple[int, float, Any] | None = None
    parents: list[tuple[int, str]] = field(default_factory=list)
    reason: str = ""

    @property
    def score(self) -> float:
        """The last one."""
        return self.reports[-1][1]

    def save(self) -> None:
        """Makes a checkpoint."""
        self.saved = (self.iteration, self.age, copy.deepcopy(self.state))


def on_curve(curve: Callable[[Params, float], float]) -> Callable[[Any, Params, float], float]:
    """Returns a `learn` function of `Simulation` for stateless trials: the score is a function of params and age."""
    return lambda state, params, age: curve(params, age)


OPTIMUM = 0.3
"""The best ``x`` of `hill`."""


def hill(params: Params, age: float) -> float:
    """Learning curves that come to ``1 - |x - 0.3|``, each with a `delay` of its own, so that some of them cross."""
    return 1 - abs(params["x"] - OPTIMUM) - 0.2 * math.exp(-age / params["delay"])


def samples(number: int, seed: int) -> list[Params]:
    """Random suggestions for `hill`: x in [0, 1), delay in [1, 6)."""
    rng = np.random.default_rng(seed)
    return [{"x": rng.random(), "delay": 1 + 5 * rng.random()} for _ in range(number)]


class Simulation:
    """Runs trials under a scheduler, when asked to by `run`. Everything is deterministic.

    Args:
        scheduler: Decides.
        suggestions: Parameters of the trials, which begin in this order as places become free.
        learn: One iteration: (state, params, age after it) -> score. It may change the state in place.
        places: Trials at the same time.
        start: The state a trial begins with.
        stride: How much older a trial gets in an iteration.
        duration: How long an iteration takes; decides who reports first.
        ends: Whether a trial is over by its own criteria after the iteration it has just done. As in the runner,
            what the scheduler then says of it does not count.
        fails: Whether the iteration that a trial has just done raises instead of reporting.

    Attributes:
        trials: All trials by name, in the order they began.
        calls: Calls of the scheduler and its answers: (method, arguments, answer). For `replay`.
    """

    def __init__(
        self,
        scheduler: Scheduler[Any],
        suggestions: Iterable[Params],
        learn: Callable[[Any, Params, float], float],
        *,
        places: int = 4,
        start: Callable[[Params], Any] = lambda params: None,
        stride: Callable[[Params], float] = lambda params: 1.0,
        duration: Callable[[Params], float] = lambda params: 1.0,
        ends: Callable[[Simulated], bool] = lambda trial: False,
        fails: Callable[[Simulated], bool] = lambda trial: False,
    ) -> None:
        self.scheduler = scheduler
        self.suggestions = iter(suggestions)
        self.learn = learn
        self.places = places
        self.start = start
        self.stride = stride
        self.duration = duration
        self.ends = ends
        self.fails = fails
        self.trials: dict[str, Simulated] = {}
        self.queue: list[str] = []
        self.stopping: list[str] = []
        self.at_work: list[tuple[float, int, str]] = []
        """A heap: when who reports; of two at the same time, the one that began first."""
        self.orders = 0
        self.clock = 0.0
        self.milestones: dict[str, float | None] = {}
        self.calls: list[tuple[str, tuple[Any, ...], Actions | None]] = []

    @property
    def spent(self) -> int:
        """Iterations of all trials together."""
        return sum(trial.spent for trial in self.trials.values())

    def best(self, age: float = 0.0) -> Simulated:
        """The trial with the highest last score of those that came to `age`; of equals the first."""
        return max((trial for trial in self.trials.values() if trial.age >= age), key=lambda trial: trial.score)

    def run(self, limit: int = 100_000) -> Simulation:
        """Runs until all trials are over; fails if that takes more than `limit` iterations."""
        while self.spent < limit:
            while len(self.at_work) < self.places and (name := self.next_trial()):
                self.queue.remove(name)
                trial = self.trials[name]
                trial.status = Status.RUNNING
                self.order(trial)
            if self.at_work:
                self.clock, _, name = heapq.heappop(self.at_work)
                self.iterate(self.trials[name])
                continue
            paused = [trial.name for trial in self.trials.values() if trial.status is Status.PAUSED]
            if not paused:
                assert all(trial.status.is_over for trial in self.trials.values())
                return self
            actions = self.ask("drained", paused)
            assert actions, f"deadlock: nobody runs, and drained({paused}) names nobody"
            self.act(actions)
        raise AssertionError(f"not over after {limit} iterations: {self.trials}")

    def next_trial(self) -> str:
        """Returns the trial that begins next; if trials yield, new ones go before those that have yielded."""
        waiting = list(self.queue)
        first = [name for name in waiting if not self.trials[name].reports] if self.scheduler.yields else waiting
        if not first and self.suggest():
            return self.queue[-1]
        return next(iter(first or waiting), "")

    def suggest(self) -> bool:
        """Makes the next trial; says whether there is one."""
        params = next(self.suggestions, None)
        if params is None:
            return False
        trial = Simulated(f"{len(self.trials):05d}", dict(params), self.start(params))
        self.trials[trial.name] = trial
        self.queue.append(trial.name)
        self.calls.append(("add", (trial.name, dict(params)), None))
        self.scheduler.add(trial.name, dict(params))
        return True

    def order(self, trial: Simulated) -> None:
        """Runs an iteration of a trial."""
        self.orders += 1
        self.milestones[trial.name] = self.scheduler.milestone(trial.name)
        heapq.heappush(self.at_work, (self.clock + self.duration(trial.params), self.orders, trial.name))

    def iterate(self, trial: Simulated) -> None:
        """A trial has done an iteration."""
        trial.iteration += 1
        trial.spent += 1
        trial.age += self.stride(trial.params)
        score = self.learn(trial.state, trial.params, trial.age)
        if self.fails(trial):
            self.finish(trial, Status.ERROR, "failed")
            return
        trial.reports.append((trial.age, score))
        milestone = self.milestones[trial.name]
        if milestone is not None and trial.age >= milestone:
            trial.save()
        is_due = self.scheduler.yields and milestone is not None and trial.age >= milestone
        awaited = is_due and (bool(self.queue) or self.suggest())
        actions = self.ask("on_result", trial.name, trial.age, score)
        if self.ends(trial):
            trial.save()
            self.act({name: action for name, action in actions.items() if name != trial.name})
            self.finish(trial, Status.TERMINATED, "own end")
            return
        mine = actions.get(trial.name, Action.CONTINUE)
        if mine is Action.CONTINUE and awaited:
            trial.save()
            self.wait_for_a_place(trial)
        elif mine is Action.CONTINUE:
            self.order(trial)
        elif not isinstance(mine, Exploit):
            trial.save()
        self.act(actions, trial)

    def act(self, actions: Actions, reporter: Simulated | None = None) -> None:
        """Does what the scheduler said: first all that changes who waits, then clones and ends, as the runner."""
        clones = [name for name, action in actions.items() if isinstance(action, Exploit)]
        for name, action in actions.items():
            assert name in self.trials, f"{action} for {name}, which nobody knows"
            trial = self.trials[name]
            assert trial.status is Status.PAUSED or trial is reporter, f"{action} for {name}, which is {trial.status}"
            assert name not in self.stopping, f"{action} for {name}, which is being stopped"
            if isinstance(action, Exploit):
                assert action.donor not in set(clones) - {name}, f"{name} copies {action.donor}, a clone itself"
                self.wait_for_a_place(trial)
            elif action is Action.PAUSE:
                trial.status = Status.PAUSED
            elif action is Action.STOP:
                self.stopping.append(name)
            elif trial.status is Status.PAUSED:
                self.wait_for_a_place(trial)
        for name, action in actions.items():
            if isinstance(action, Exploit):
                self.adopt(self.trials[name], action)
            elif action is Action.STOP:
                self.stopping.remove(name)
                self.finish(self.trials[name], Status.TERMINATED, "stopped by the scheduler")

    def wait_for_a_place(self, trial: Simulated) -> None:
        trial.status = Status.PENDING
        self.queue.append(trial.name)

    def adopt(self, clone: Simulated, action: Exploit) -> None:
        """A trial becomes a copy of another's last checkpoint."""
        assert action.donor in self.trials, f"{clone.name} copies {action.donor}, which nobody knows"
        saved = self.trials[action.donor].saved
        assert saved is not None, f"{clone.name} copies {action.donor}, which has no checkpoint"
        clone.parents.append((clone.iteration, action.donor))
        clone.iteration, clone.age, clone.state = copy.deepcopy(saved)
        clone.params = dict(action.params)
        clone.save()

    def finish(self, trial: Simulated, status: Status, reason: str) -> None:
        """A trial is over."""
        trial.status, trial.reason = status, reason
        self.act(self.ask("on_end", trial.name))

    def ask(self, method: str, *arguments: Any) -> Actions:
        """A call of the scheduler."""
        actions: Actions = getattr(self.scheduler, method)(*arguments)
        self.calls.append((method, copy.deepcopy(arguments), dict(actions)))
        return actions


def replay(simulation: Simulation, fresh: Scheduler[Any]) -> None:
    """Repeats the calls of the simulation with another scheduler, as after a kill; fails if its answers differ."""
    for method, arguments, answer in simulation.calls:
        said = getattr(fresh, method)(*copy.deepcopy(arguments))
        assert said == answer and (answer is None or list(said) == list(answer)), f"{method}{arguments}: {said}"
    for name, trial in simulation.trials.items():
        if not trial.status.is_over:
            assert fresh.milestone(name) == simulation.scheduler.milestone(name)
