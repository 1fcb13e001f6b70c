"""Every algorithm resumes from a checkpoint in the middle of episodes as if it had not stopped."""

import hashlib

import gymnasium as gym
import numpy as np
import pytest

from rookery import A2CConfig, APPOConfig, IMPALAConfig, PPOConfig, ReinforceConfig, Trainer
from selection import slow, slow_except


class Mixed(gym.Env):
    """Actions of every kind at once; ends by chance, or after 30 steps."""

    observation_space = gym.spaces.Box(-1, 1, (3,))
    action_space = gym.spaces.Dict(
        {
            "a": gym.spaces.Discrete(3, start=1),
            "b": gym.spaces.Tuple((gym.spaces.MultiBinary(2), gym.spaces.Box(-2, 2, (2,)))),
        }
    )

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.clock = 0
        return self._see(), {}

    def step(self, action):
        self.clock += 1
        assert self.action_space.contains(action)
        reward = float(action["a"] == 2) + float(action["b"][0].sum()) - float(np.abs(action["b"][1]).sum())
        return self._see(), reward, bool(self.np_random.random() < 0.05), self.clock == 30, {}

    def _see(self):
        return self.np_random.uniform(-1, 1, 3).astype(np.float32)


def weights(trainer):
    parts = hashlib.sha256()
    for policy in trainer.policies.values():
        for value in policy.state_dict().values():
            parts.update(value.numpy().tobytes())
    return parts.hexdigest()


SMALL = {
    "ppo with the penalty": PPOConfig(kl_coef=0.2, fragment_length=50, epochs=2),
    "a2c": A2CConfig(),
    "impala": IMPALAConfig(rollout_size=90),
    "appo with the penalty": APPOConfig(kl_coef=0.2, rollout_size=90, buffered_batches=3),
    "reinforce": ReinforceConfig(),
}


@pytest.mark.parametrize("env", [slow("CartPole-v1"), Mixed])
@pytest.mark.parametrize("name", slow_except("ppo with the penalty", "appo with the penalty", of=SMALL))
def test_four_iterations_equal_two_and_two_more(name, env, tmp_path):
    settings = {"num_envs": 3, "iteration_steps": 300 if name == "reinforce" else 150, "seed": 4}
    with Trainer(env, SMALL[name], **settings) as through:
        through.train({"iterations": 4})
        wanted = weights(through)
    with Trainer(env, SMALL[name], **settings) as first:
        first.train({"iterations": 2})
        place = first.save(tmp_path / "half")
    with Trainer.load(place, env=env) as second:
        assert weights(second) != wanted
        second.train({"iterations": 4})
        assert weights(second) == wanted
