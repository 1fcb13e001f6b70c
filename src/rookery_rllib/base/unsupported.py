"""Names that a script may import but not use; a use raises an error that names the replacement.

Scripts of 2021 import the names for both frameworks at their top, and use one of them: such an import must not fail.
"""

from __future__ import annotations

from typing import Any

from rookery.face import ConfigError

TENSORFLOW = "policies use torch here, not TensorFlow; "
PLAN = (
    "custom execution plans are not supported; Rookery's own loop runs (trainer.execution_plan lists its steps). Put "
    "your code into callbacks, into learn_on_batch of a policy, or into a rookery.extend.Algorithm"
)
HINTS: dict[str, str] = {
    "TFPolicy": TENSORFLOW + "derive from ray.rllib.policy.TorchPolicy",
    "make_tf_callable": TENSORFLOW + "call torch functions directly",
    "build_q_losses": "the loss of DQN is Rookery's own (algorithms/off_policy/q_values.py) and has no such function",
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
        "use trainer.local_replay_buffer, which has the replay buffers of a trainer",
    ),
    "LocalIterator": PLAN,
    "ParallelIterator": PLAN,
    "PrioritizedReplayBuffer": "set prioritized_replay = True (algorithm.replay.kind=prioritized)",
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
