"""Evaluations of a trainer of 2021: the key ``evaluation_...`` and ``trainer.evaluate()``."""

from __future__ import annotations

import functools
from contextlib import closing
from typing import Any

from rookery.face import BoundedEpisodes, bounded, is_only_one, make_copies
from rookery_rllib.base.notices import say_once
from rookery_rllib.env.agent_mapping import RecordedMapping
from rookery_rllib.env.making import with_settings
from rookery_rllib.policy.callbacks import EpisodeBook
from rookery_rllib.policy.explorations import copied_explorations
from rookery_rllib.trainer.cluster_workers import RemoteEvaluation, has_episode_hooks
from rookery_rllib.trainer.results import EndedEpisode, as_measured, performance, summarized


class TrainerEvaluation:
    """Runs episodes with the policies of a trainer, here or with workers on a cluster; nothing is learned.

    Args:
        trainer: The trainer, as of 2021.
    """

    def __init__(self, trainer: Any) -> None:
        self._trainer = trainer

    @functools.cached_property
    def _is_remote(self) -> bool:
        """Whether workers on a cluster evaluate."""
        evaluation = self._trainer.translation.evaluation
        if evaluation["workers"] and has_episode_hooks(self._trainer.callbacks):
            say_once(
                f"{self._trainer}: evaluation_num_workers: evaluated in this process, where callbacks get the episodes"
            )
            return False
        return bool(evaluation["workers"])

    @functools.cached_property
    def _remote(self) -> RemoteEvaluation:
        """The workers on a cluster; they start on first use."""
        return RemoteEvaluation(self._trainer)

    def runs_after(self, iteration: int) -> bool:
        """Returns whether an evaluation is configured after an iteration."""
        every = self._trainer.translation.evaluation["interval"]
        return bool(every) and iteration % every == 0

    def begin(self) -> None:
        """Starts an evaluation by workers on a cluster during learning, if configured."""
        if self._trainer.translation.evaluation["beside"] and self._is_remote:
            self._remote.ask()

    def result(self) -> dict[str, Any]:
        """Returns the result of an evaluation; actions explore unless ``evaluation_config`` turns it off."""
        trainer, evaluation = self._trainer, self._trainer.translation.evaluation
        if evaluation["custom_function"] is not None:
            found: dict[str, Any] = evaluation["custom_function"](trainer, trainer.evaluation_workers)
            return found
        if self._is_remote:
            episodes = [trainer._episode_of(each) for each in self._remote.answer()]
        else:
            episodes = self.play(int(evaluation["episodes"]), not evaluation["explore"])
        steps = sum(each.length for each in episodes)
        spent = performance({}, steps)["sampler_perf"]
        return {**summarized(episodes, len(episodes)), "sampler_perf": spent, "timesteps_this_iter": steps}

    def play(self, count: int, deterministic: bool) -> list[EndedEpisode]:
        """Runs a number of episodes in this process; returns them in their order."""
        book = EpisodeBook(self._trainer.callbacks, self._trainer)
        return self.episodes(self._played(book, count, deterministic), book)

    def episodes(self, played: BoundedEpisodes, book: EpisodeBook) -> list[EndedEpisode]:
        """Returns the episodes of an evaluation in their order, with the metrics of callbacks."""
        of_lane: dict[int, list[Any]] = {}
        for each in book.take():
            of_lane.setdefault(each.env_id, []).append(each)
        return [
            as_measured(each, of_lane.get(each.lane, []))
            for each in sorted(played.finished, key=lambda each: each.index * played.env.num_lanes + each.lane)
        ]

    def _played(self, book: EpisodeBook, count: int, deterministic: bool) -> BoundedEpisodes:
        """Runs a number of episodes in separate environments; callbacks are called as in training."""
        trainer, run = self._trainer, self._trainer.rookery
        env_config = trainer.translation.evaluation["config"].get("env_config")
        maker = trainer.env_maker.another(env_config) if trainer.makes_environments else None
        config = with_settings(run.config, maker, env_config)
        restore = RecordedMapping.record_separately(trainer.recorded_mapping)
        lanes = min(count, config.evaluation.num_envs)
        try:
            with (
                copied_explorations(run.policies),
                run._copies(lanes) if is_only_one(run.env) else closing(make_copies(config, lanes)) as env,
                trainer._played_in(maker or trainer.env_maker, env),
            ):
                played = bounded(run, env, count, deterministic, listeners=book.listeners())
                played.play()
        finally:
            restore()
        return played

    def close(self) -> None:
        """Ends the workers on a cluster, if they were started."""
        if "_remote" in self.__dict__:
            self._remote.close()
