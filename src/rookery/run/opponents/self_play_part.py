"""Part of a run with self-play."""

from __future__ import annotations

from dataclasses import replace

from rookery.report.results import IterationResult
from rookery.rollout.worker import Sample
from rookery.run.opponents.self_play import LATER
from rookery.run.parts import RunPart
from rookery.run.run import Run


class SelfPlayPart(RunPart):
    """Passes games and updates of a run to its self-play, and new opponents to its pool."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def after_sample(self, sample: Sample) -> None:
        """Rates finished games."""
        self._run._self_play.on_episodes(sample.finished, self._run._note)

    def after_update(self, name: str) -> None:
        """Takes a snapshot, draws opponents again or changes the learning team, if it is time."""
        run = self._run
        run._self_play.learned(name, run._decisions[name], run.learners[name], run._pool, run._match)

    def is_learning(self, name: str) -> bool:
        """Returns whether it is a policy's turn to learn."""
        return self._run._self_play.is_learning(name)

    def in_result(self, result: IterationResult) -> IterationResult:
        """Returns the result with the progress of each policy in self-play."""
        return replace(result, self_play=self._run._self_play.standing())

    def after_report(self, result: IterationResult) -> None:
        """Notes a game of which only one team has played in the first iteration."""
        teams, run = list(self._run._self_play.sides), self._run
        if result.iteration == 1 and LATER in teams and not run._self_play.games:
            run._note(
                f"self_play: {run.env.name} has shown one team, {teams[0]}, so there was no game and no opponent: "
                "agents of one behaviour that compete need different team ids; without opponents, leave self_play out"
            )
