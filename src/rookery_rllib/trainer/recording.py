"""The key ``output``: writes the training experience in the format of RLlib of 2021."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rookery.face import Algorithm, BatchHook, ConfigError, Rollout
from rookery_rllib.batch.offline import IOContext, JsonWriter, OutputWriter
from rookery_rllib.batch.sample_batch import MultiAgentBatch, SampleBatch
from rookery_rllib.batch.trajectories import Reading, Slots, trajectories


def writer_of(config: Mapping[str, Any], folder: str) -> OutputWriter | None:
    """Returns the writer of the key ``output``: of files in a directory, or a script's own; None without one.

    Args:
        config: The configuration.
        folder: Directory of results, for ``logdir``.

    Raises:
        ConfigError: If it is neither a directory nor a function.
    """
    output, context = config["output"], IOContext(folder, config)
    if output is None:
        return None
    if callable(output):
        made: OutputWriter = output(context)
        return made
    if not isinstance(output, str):
        raise ConfigError(f"rllib config: output = {output!r}: must be a directory, 'logdir', or a function of its use")
    path = folder if output == "logdir" else output
    return JsonWriter(path, context, int(config["output_max_file_size"]), tuple(config["output_compress_columns"]))


class Recorder(BatchHook):
    """Writes the trajectories of a policy with their targets."""

    def __init__(self, trainer: Any, name: str, writer: OutputWriter) -> None:
        self._trainer, self._name, self._writer = trainer, name, writer
        self._slots: Slots = {}

    def before_targets(self, learner: Algorithm[Any], rollout: Rollout, rollouts: Mapping[str, Rollout]) -> Rollout:
        face, every = self._trainer.policy_facades[self._name], int(self._trainer.config["rollout_fragment_length"])
        if hasattr(learner, "look_at"):
            reading = learner.policy.reading()  # type: ignore[operator]
        else:
            reading = Reading(face.preprocess, extras=face.with_extras)
        pieces = trajectories(rollout, reading, max(every, 1), self._slots)
        for piece in pieces:
            batch: SampleBatch = face.postprocess_trajectory(piece.own)
            several = len(self._trainer.policy_facades) > 1
            self._writer.write(MultiAgentBatch({self._name: batch}, batch.count) if several else batch)
        return rollout
