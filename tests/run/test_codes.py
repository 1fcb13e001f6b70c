"""Categorical images are distinguished from images of pixels by random play, and runs keep the decision."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from lives import weights

from rookery import ModelConfig, PPOConfig, Trainer
from rookery.native.actor import load_policy

SMALL = PPOConfig(fragment_length=16, epochs=1, minibatch_size=32)
VIEW = (5, 5, 2)


class Grid(gymnasium.Env):
    """Shows numbers below `end`, in a space that is bounded by `high`; episodes of nine steps."""

    metadata = {"made": 0}  # noqa: RUF012

    def __init__(self, end=11, high=255):
        self.metadata["made"] += 1
        self.end = end
        self.observation_space = spaces.Dict(
            {"view": spaces.Box(0, high, VIEW, np.uint8), "speed": spaces.Box(-1, 1, (2,), np.float32)}
        )
        self.action_space = spaces.Discrete(3)

    def look(self):
        view = self.np_random.integers(0, self.end, VIEW).astype(np.uint8)
        return {"view": view, "speed": np.zeros(2, np.float32)}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return self.look(), {}

    def step(self, action):
        self.time += 1
        return self.look(), float(action == 0), False, self.time == 9, {}


def make(end=11, high=255, model=None, run_dir=None, **config):
    values = {"env.config": {"end": end, "high": high}, "sampling.env_processes": 0, "checkpoint.every": 0, **config}
    cfg = SMALL if model is None else SMALL.replace(model=model)
    return Trainer(Grid, cfg, seed=3, num_envs=2, run_dir=run_dir, config=values)


def codes(trainer, policy="main"):
    return trainer.config.policies[policy].algorithm.model.categorical_images


@pytest.mark.parametrize(
    ("end", "high", "found"),
    [(11, 255, ("view",)), (2, 255, ("view",)), (32, 40, ("view",)), (33, 255, ()), (256, 255, ()), (1, 255, ())],
)
def test_small_numbers_are_codes(end, high, found):
    with make(end, high) as trainer:
        assert codes(trainer) == found
        assert trainer.resolved.history["algorithm.model.categorical_images"][-1][0] == "random warm-up"
        told = [note for note in trainer._notes if "categories" in note]
        assert told == (
            [
                f"policy main reads numbers as categories, not as brightness, in view (up to {end - 1} in the random "
                "warm-up); model.categorical_images=[] reads brightness"
            ]
            if found
            else []
        )


def test_flags_by_their_space_are_no_codes_and_nobody_looks():
    before = Grid.metadata["made"]
    with make(2, 1) as trainer:
        assert codes(trainer) is None
        assert Grid.metadata["made"] == before + 2


@pytest.mark.parametrize("said", [(), ("view",)])
def test_what_is_said_counts_and_nobody_looks(said):
    before = Grid.metadata["made"]
    with make(model=ModelConfig(categorical_images=said)) as trainer:
        assert codes(trainer) == said
        assert (trainer.policies["main"].trunk.images[0].embedding is not None) == bool(said)
        assert Grid.metadata["made"] == before + 2


def test_without_a_warm_up_numbers_are_brightness():
    with make(**{"sampling.warmup_steps": 0}) as trainer:
        assert codes(trainer) is None
        assert trainer.policies["main"].trunk.images[0].embedding is None


def test_null_leaves_it_open():
    with make(**{"algorithm.model.categorical_images": None}) as trainer:
        assert codes(trainer) == ("view",)


def test_all_seeds_decide_alike_and_codes_take_no_settings_of_pictures():
    with Trainer(Grid, num_envs=2, seed=1) as one, Trainer(Grid, num_envs=2, seed=2) as other:
        assert codes(one) == codes(other) == ("view",)
        assert not any("space preset image" in source for given in one.resolved.history.values() for source, _ in given)
        assert one.config.algorithm.model.precision == "float32"


def test_each_policy_reads_pictures_as_its_settings_say():
    policies = {"a": {"model": {"categorical_images": []}}, "b": None}
    with Trainer(Grid, SMALL, policies=policies, policy_mapping=lambda agent, episode: "a", num_envs=2) as trainer:
        assert codes(trainer, "a") == ()
        assert codes(trainer, "b") == ("view",)


def test_a_run_goes_on_to_the_same_bit_and_its_policy_reads_codes(tmp_path):
    with make() as whole:
        whole.train(stop={"iterations": 4})
        expected = weights(whole)
    with make(run_dir=tmp_path / "run") as begun:
        begun.train(stop={"iterations": 2})
    before = Grid.metadata["made"]
    with Trainer.load(tmp_path / "run") as resumed:
        assert Grid.metadata["made"] == before + 2  # no second random play
        assert not any("brightness" in note for note in resumed._notes)
        resumed.train(stop={"iterations": 4})
        assert weights(resumed) == expected
        policy = load_policy(tmp_path / "run")
        assert policy.model.categorical_images == ("view",)
        assert policy.trunk.images[0].embedding is not None
