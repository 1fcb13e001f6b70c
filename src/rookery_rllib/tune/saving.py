"""A check of a Trainable's checkpoints, under the name of ``ray.tune.utils``."""

from __future__ import annotations

from typing import Any

from rookery.face import ConfigError
from rookery_rllib.tune.trainables import trainable_class

ITERATIONS = 3


def validate_save_restore(
    trainable_cls: Any, config: dict[str, Any] | None = None, num_gpus: float = 0, use_object_store: bool = False
) -> bool:
    """Trains, saves, and restores in another object; says yes if it goes on as before. `num_gpus` has no meaning here.

    Raises:
        ConfigError: If the other object counts otherwise.
    """
    made = trainable_class(trainable_cls)
    first, second = made(dict(config or {})), made(dict(config or {}))
    try:
        for _ in range(ITERATIONS):
            first.train()
        if use_object_store:
            second.restore_from_object(first.save_to_object())
        else:
            second.restore(first.save())
        result = second.train()
        if result["training_iteration"] != ITERATIONS + 1:
            raise ConfigError(
                f"{made.__name__}: after a restore at iteration {ITERATIONS} the next one is "
                f"{result['training_iteration']}"
            )
    finally:
        first.stop()
        second.stop()
    return True
