"""Notes on the iterations of a run, each shown once."""

from __future__ import annotations

from rookery.report.results import IterationResult
from rookery.rollout.worker import Sample
from rookery.run.checks.first_look import FirstLook
from rookery.run.evaluate.episode_limit import EndlessNote
from rookery.run.evaluate.evaluation import limit_of
from rookery.run.parts import RunPart
from rookery.run.run import Run


class Remarks(RunPart):
    """Shows notes after an iteration: episodes without end, observations that are all the same, no reward,
    advice of algorithms on settings.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._endless = EndlessNote()
        self._first = FirstLook()
        self._advised: set[str] = set()
        """Policies whose algorithms have given advice."""

    def after_sample(self, sample: Sample) -> None:
        """Looks at the first samples of a run; afterwards it is not called any more."""
        first, parts = self._first, self._run._parts
        if not first.over and (first.begun or not self._run.iteration):
            first.take(sample)
        else:
            parts.after_sample = [take for take in parts.after_sample if take != self.after_sample]

    def after_report(self, result: IterationResult) -> None:
        """Shows each note once."""
        run = self._run
        if line := self._endless.line(result, limit_of(run)):
            run._note(line)
        for line in self._first.lines(run):
            run._note(line)
        for name, learner in run.learners.items():
            if name not in self._advised and (line := learner.advice()):
                self._advised.add(name)
                run._note(line)
