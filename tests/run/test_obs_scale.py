"""Observations far from 1 are normalized, where no setting decides it."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from rookery import PPOConfig, Trainer


class Shows(gymnasium.Env):
    """Shows numbers of a size, in a box with given bounds."""

    def __init__(self, size=1.0, bound=np.inf, dtype=np.float32):
        self.observation_space = spaces.Dict(
            {"far": spaces.Box(-bound, bound, (2,), dtype), "near": spaces.Box(-1.0, 1.0, (1,), np.float32)}
        )
        self.action_space = spaces.Discrete(2)
        self.size = size

    def seen(self):
        return {"far": self.np_random.normal(0.0, self.size, 2).astype(np.float32), "near": np.zeros(1, np.float32)}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.seen(), {}

    def step(self, action):
        return self.seen(), 1.0, bool(self.np_random.random() < 0.1), False, {}


def decided(size, bound=np.inf, **settings):
    config = {"sampling.env_processes": 0, **settings}
    with Trainer(lambda: Shows(size, bound), "ppo", config=config, seed=0) as trainer:
        return trainer.policies["main"].normalizer is not None, trainer


@pytest.mark.parametrize(
    ("size", "bound", "expected"),
    [(1.0, np.inf, False), (100.0, np.inf, True), (1e-3, np.inf, True), (0.0, np.inf, False), (1e-3, 5.0, False),
     (200.0, 1e3, True), (1.0, 1e3, False)],
)  # fmt: skip
def test_numbers_far_from_1_are_normalized_unless_bounds_are_near(size, bound, expected):
    assert decided(size, bound)[0] is expected


def test_the_setting_has_its_source_and_is_said_once():
    _, trainer = decided(100.0)
    source, value = trainer.resolved.history["algorithm.model.normalize_obs"][-1][:2]
    assert (source, value) == ("random warm-up", True)
    (note,) = [line for line in trainer._notes if "normalizes" in line]
    assert "far (about 1e+02 in the random warm-up)" in note
    assert "model.normalize_obs=false" in note


@pytest.mark.parametrize("settings", [{"algorithm.model.normalize_obs": False}, {"sampling.warmup_steps": 0}])
def test_a_setting_or_no_warm_up_leaves_them_unchanged(settings):
    assert not decided(100.0, **settings)[0]


def test_a_run_is_resumed_with_its_decision(tmp_path):
    make = lambda: Shows(100.0)  # noqa: E731
    with Trainer(make, PPOConfig(), config={"sampling.env_processes": 0}, seed=0) as trainer:
        saved = trainer.save(tmp_path / "saved")
    with Trainer.load(saved, env=make, config={"sampling.warmup_steps": 512}) as again:
        assert again.policies["main"].normalizer is not None
