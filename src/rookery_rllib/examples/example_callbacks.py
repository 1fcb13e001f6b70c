"""Callbacks of RLlib's examples of 2021."""

from __future__ import annotations

from typing import Any

import numpy as np

from rookery_rllib.base.notices import say
from rookery_rllib.policy.callbacks import DefaultCallbacks


class MyCallbacks(DefaultCallbacks):
    """Reports the mean angle of the pole of CartPole by episode, and prints what it is called for."""

    def on_episode_start(self, *, episode: Any, env_index: int | None = None, **kwargs: Any) -> None:
        say(f"episode {episode.episode_id} (environment {env_index}): started")
        episode.user_data["pole_angles"] = []

    def on_episode_step(self, *, episode: Any, **kwargs: Any) -> None:
        episode.user_data["pole_angles"].append(abs(float(episode.last_observation_for()[2])))

    def on_episode_end(self, *, episode: Any, env_index: int | None = None, **kwargs: Any) -> None:
        angles = episode.user_data["pole_angles"]
        episode.custom_metrics["pole_angle"] = mean = float(np.mean(angles))
        episode.hist_data["pole_angles"] = angles
        say(f"episode {episode.episode_id} (environment {env_index}): {episode.length} steps, mean angle {mean:.3f}")

    def on_train_result(self, *, trainer: Any, result: dict[str, Any], **kwargs: Any) -> None:
        say(f"{trainer}: {result['episodes_this_iter']} episodes")
        result["callback_ok"] = True
