"""Tasks of `Trainer.learn` and `Trainer.collect`: learning without sampling, and sampling without learning.

Several learners use the same task: rank 0 sends its own to the others in each iteration.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rookery.core.batch import Rollout
from rookery.core.errors import ConfigError, refuse
from rookery.run.gradient_steps import make_in_parts
from rookery.run.pace import ITERATION, with_replay
from rookery.run.run import Progress, Run
from rookery.run.stopping import Stop, time_limits


@dataclass
class LearnOnly:
    """Task that makes gradient steps on replay only.

    Attributes:
        names: The learning policies.
        wanted: Number of gradient steps of each policy.
        left: Number of steps that are left.
        rule: Stop rule that ends it earlier.
    """

    names: Sequence[str]
    wanted: int
    left: int
    rule: Stop

    def __call__(self, run: Run, progress: Progress) -> None:
        """Makes the steps of an iteration, or the rest of an interrupted one.

        Raises:
            Interrupted: If the run is to stop.
        """
        for name in self.names:
            run.learners[name].horizon = run._horizon
        first = self.names[0]
        made = run.replays[first].gradient_steps - progress.gradient_steps.get(first, 0)
        number = min(max(ITERATION - made, 0), self.left)

        def make(part: int) -> None:
            for name in self.names:
                learner = run.learners[name]
                with run.timers["learn"], run._threads_of(name):
                    learner.learn(part)
                progress.learned.setdefault(name, [])
            self.left -= part

        if number:
            make_in_parts(run, number, make)
        for name in self.names:
            run.learners[name].explore()
        run._pool.set_weights({name: run.learners[name].behaviour for name in self.names})

    def criteria(self, run: Run) -> dict[str, float]:
        """Returns the criteria that end the task, for reporters."""
        goal = max(run.replays[name].gradient_steps for name in self.names) + self.left
        return {"gradient_steps": goal, **self.rule.criteria}

    def reason(self, run: Run) -> str:
        """Returns the reason for ending the task, with all steps so far; an empty string if it continues."""
        if self.left:
            return ""
        made = max(run.replays[name].gradient_steps for name in self.names)
        new = f", {self.wanted:,} of them new" if made > self.wanted else ""
        return f"{made:,} gradient steps are made{new}"


@dataclass
class CollectOnly:
    """Task that samples into replay only.

    Attributes:
        wanted: Fewest env steps.
        until: Env steps of the run at which it ends.
        rule: Empty stop rule.
    """

    wanted: int
    until: int
    rule: Stop

    def __call__(self, run: Run, progress: Progress) -> None:
        """Makes the env steps of an iteration, or the rest of an interrupted one.

        Raises:
            Interrupted: If the run is to stop.
        """
        end = min(progress.env_steps + ITERATION, self.until)
        env_steps, lane_steps = run.env_steps, run._lane_steps
        try:
            while run.env_steps < end:
                with run.timers["sample"]:
                    sample = run._pool.sample(end - run.env_steps)
                run._count_played(sample)
                for name in run.replays:
                    if name in sample.rollouts:
                        _store(run, name, sample.rollouts[name], progress)
                run._pool.set_weights({name: run.learners[name].behaviour for name in sample.rollouts})
                if run.env_steps < end:
                    run._check_request()
        finally:
            if run._progress is not None:  # does not count for an interrupted iteration of `train`
                run._progress.pass_over(run.env_steps - env_steps, run._lane_steps - lane_steps)

    def criteria(self, run: Run) -> dict[str, float]:
        """Returns the criteria that end the task, for reporters."""
        return {"env_steps": self.until}

    def reason(self, run: Run) -> str:
        """Returns the reason for ending the task; an empty string if it continues."""
        return "" if run.env_steps < self.until else f"{self.wanted:,} env steps are played"


def _store(run: Run, name: str, rollout: Rollout, progress: Progress) -> None:
    """Stores a rollout in replay, without learning from it."""
    learner = run.learners[name]
    rollout = rollout if run._staging is None else run._staging.send_rollout(rollout)
    run._set_clock(name, rollout)
    run.replays[name].store(rollout)
    learner.explore()
    run._count_learned(name, rollout)
    progress.note(name, {}, rollout)


def learn_task(run: Run, gradient_steps: int, policies: Sequence[str] | None, stop: Mapping[str, float]) -> LearnOnly:
    """Returns the task of learning only.

    Raises:
        ConfigError: If a policy does not learn from replay, its replay is empty, or `stop` has other criteria than
            times.
    """
    names = with_replay(run, "learn", policies)
    refuse(
        f"learn: stop.{name}: learn ends after its gradient steps, or by seconds or minutes; leave {name} out"
        for name in stop
        if name not in time_limits(stop)
    )
    if gradient_steps < 1:
        raise ConfigError(f"learn: gradient_steps = {gradient_steps}: must be at least 1")
    for name in names:
        run.replays[name].check_not_empty()
    return LearnOnly(names, gradient_steps, gradient_steps, Stop(stop))


def collect_task(run: Run, env_steps: int) -> CollectOnly:
    """Returns the task of collecting only.

    Raises:
        ConfigError: If no policy learns from replay.
    """
    names = with_replay(run, "collect", None)
    if env_steps < 1:
        raise ConfigError(f"collect: env_steps = {env_steps}: must be at least 1")
    for name in run.learners:
        if name not in names:
            run._note(f"policy {name} has no replay: its experience while collecting is not kept")
    return CollectOnly(env_steps, run.env_steps + env_steps, Stop({}))
