"""Names that a script may import but not use; a use raises an error that names the replacement.

Scripts of 2021 import the names for both frameworks at their top, and use one of them: such an import must not fail.
"""

from __future__ import annotations

from typing import Any

from rookery.face import ConfigError

TENSORFLOW = "policies use torch here, not TensorFlow; "
HINTS: dict[str, str] = {
    "TFPolicy": TENSORFLOW + "derive from ray.rllib.policy.TorchPolicy",
    "make_tf_callable": TENSORFLOW + "call torch functions directly",
    "LearnerThread": "plans learn in the thread that runs them: use TrainOneStep",
    "ParallelIterator": "streams of several processes do not exist here: use ParallelRollouts, or a LocalIterator",
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
