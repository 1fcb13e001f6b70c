"""Every kind of action is learned: PPO, A2C and REINFORCE on a game whose right answer has parts of all kinds."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from rookery import A2CConfig, PPOConfig, ReinforceConfig, Trainer
from selection import slow

CONTEXTS = np.eye(3, dtype=np.float32)
KEYS = [(0, 0), (1, 0), (1, 1)]
DIAL = [-1.5, 0.0, 1.5]


class Locks(gymnasium.Env):
    """One step: in context i choose i, set flags as `KEYS` says, and turn the dial to `DIAL`; a third of 1 each."""

    observation_space = spaces.Box(0, 1, (3,), np.float32)
    action_space = spaces.Dict(
        {
            "keys": spaces.MultiBinary(2),
            "move": spaces.Tuple((spaces.Discrete(3, start=5), spaces.Box(-2, 2, (1,), np.float32))),
        }
    )

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.context = int(self.np_random.integers(3))
        return CONTEXTS[self.context], {}

    def step(self, action):
        assert self.action_space.contains(action)
        choice, dial = action["move"]
        flags = np.mean(action["keys"] == np.array(KEYS[self.context]))
        near = max(0.0, 1 - abs(float(dial[0]) - DIAL[self.context]))
        return CONTEXTS[self.context], (float(choice == self.context + 5) + flags + near) / 3, True, False, {}


class Flags(gymnasium.Env):
    """One step: flag i is to be set if observation i is."""

    observation_space = spaces.MultiBinary(3)
    action_space = spaces.MultiBinary(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.wanted = self.np_random.integers(0, 2, 3, dtype=np.int8)
        return self.wanted, {}

    def step(self, action):
        assert self.action_space.contains(action)
        return self.wanted, float(np.mean(action == self.wanted)), True, False, {}


@pytest.mark.parametrize(
    ("env", "cfg", "env_steps", "needed"),
    [
        (Locks, PPOConfig(lr=3e-3, fragment_length=32, kl_coef=0.2), 4_000, 0.8),
        slow(Locks, A2CConfig(lr=1e-2), 4_000, 0.75),
        slow(Locks, ReinforceConfig(lr=1e-2, rollout_size=256), 4_000, 0.75),
        (Flags, PPOConfig(lr=3e-3, fragment_length=32), 3_000, 0.95),
    ],
    ids=lambda value: getattr(type(value), "__name__", str(value)),
)
def test_actions_of_parts_are_learned_part_by_part(env, cfg, env_steps, needed):
    # guessing gives 1/2 for flags, 1/3 for a choice, about 1/3 for the dial; two right parts of three, at most 0.67
    with Trainer(env, cfg, num_envs=8, seed=0, iteration_steps=1000) as trainer:
        before = trainer.evaluate(50).return_mean
        trainer.train(stop={"env_steps": env_steps})
        assert before < 0.67 < needed < trainer.evaluate(50).return_mean
