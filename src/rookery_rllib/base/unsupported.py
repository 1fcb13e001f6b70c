"""Names that a script may import but not use; a use raises an error that explains what to use instead.

Scripts of 2021 import the names for both frameworks at their top, and use one of them: such an import must not fail.
"""

from __future__ import annotations

from typing import Any

from rookery.face import ConfigError

TENSORFLOW = "there is no TensorFlow here; "
PLAN = (
    "an operation of execution plans; the loop is Rookery's (trainer.execution_plan lists its steps): what you add "
    "goes into callbacks, into a policy's learn_on_batch, or into a rookery.extend.Algorithm"
)
HINTS: dict[str, str] = {
    "TFPolicy": TENSORFLOW + "derive from ray.rllib.policy.TorchPolicy",
    "make_tf_callable": TENSORFLOW + "torch functions are called as they are",
    "build_q_losses": "the loss of DQN is Rookery's (off_policy/q_values.py), and cannot be called by itself",
    **dict.fromkeys(
        (
            "ParallelRollouts", "SelectExperiences", "ConcatBatches", "CollectMetrics", "StandardizeFields",
            "TrainOneStep", "TrainTFMultiGPU", "UpdateTargetNetwork", "ComputeGradients", "ApplyGradients",
            "AverageGradients", "StandardMetricsReporting", "StoreToReplayBuffer", "Replay", "MixInReplay",
            "SimpleReplayBuffer", "WaitUntilTimestepsElapsed", "Concurrently", "Enqueue", "Dequeue", "LearnerThread",
            "AsyncGradients", "_get_shared_metrics", "_get_global_vars",
        ),
        PLAN,
    ),
    **dict.fromkeys(
        ("LocalReplayBuffer", "ReplayBuffer"),
        "replay memories are Rookery's: trainer.local_replay_buffer has those of a trainer",
    ),
    "LocalIterator": PLAN,
    "ParallelIterator": PLAN,
    "PrioritizedReplayBuffer": "replay memories are Rookery's: algorithm.replay.kind=prioritized",
}  # fmt: skip
"""Hints by name: the purpose in 2021, and the replacement."""


def __getattr__(name: str) -> Any:
    """Returns a class of that name, which raises an error when it is used."""
    if name.startswith("__"):
        raise AttributeError(name)
    hint = HINTS.get(name, "it does not exist here")

    def refuse(cls: type, *args: Any, **kwargs: Any) -> Any:
        raise ConfigError(f"{name}: {hint}")

    members = {
        "__new__": refuse,
        "__class_getitem__": classmethod(lambda cls, parameters: cls),  # annotations with parameters may be written
        "__module__": __name__,
        "__doc__": f"Does not exist here: {hint}.",
    }
    made = type(name, (), members)
    globals()[name] = made
    return made
