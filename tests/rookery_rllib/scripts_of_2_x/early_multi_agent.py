import gymnasium as gym
import numpy as np
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.algorithms.ppo.ppo_torch_policy import PPOTorchPolicy
from ray.rllib.env.multi_agent_env import MultiAgentEnv
from ray.rllib.examples.policy.random_policy import RandomPolicy
from ray.rllib.policy.policy import PolicySpec
from ray.tune.registry import register_env


class Matching(MultiAgentEnv):
    def __init__(self, config):
        super().__init__()
        self._agent_ids = {"one", "two"}
        self.observation_space = gym.spaces.Box(0.0, 1.0, (2,), np.float32)
        self.action_space = gym.spaces.Discrete(2)
        self.steps = 0

    def reset(self, *, seed=None, options=None):
        self.steps = 0
        return {agent: np.zeros(2, np.float32) for agent in self._agent_ids}, {}

    def step(self, action_dict):
        self.steps += 1
        same = float(action_dict["one"] == action_dict["two"])
        obs = {agent: np.zeros(2, np.float32) for agent in self._agent_ids}
        rewards = {"one": same, "two": 1.0 - same}
        terminateds = {"__all__": self.steps >= 10}
        truncateds = {"__all__": False}
        return obs, rewards, terminateds, truncateds, {}


register_env("matching_of_a_script", lambda config: Matching(config))
env = Matching({})
algo = (
    PPOConfig()
    .environment("matching_of_a_script")
    .rollouts(num_rollout_workers=0)
    .training(train_batch_size=100, sgd_minibatch_size=50, num_sgd_iter=1)
    .multi_agent(
        policies={
            "learned": (PPOTorchPolicy, env.observation_space, env.action_space, {"gamma": 0.5}),
            "random": PolicySpec(policy_class=RandomPolicy),
        },
        policy_mapping_fn=lambda agent_id, episode, worker, **kwargs: "learned" if agent_id == "one" else "random",
        policies_to_train=["learned"],
    )
    .build()
)
result = algo.train()
assert set(result["policy_reward_mean"]) == {"learned", "random"}
assert abs(sum(result["policy_reward_mean"].values()) - 10) < 1e-6
action = algo.compute_single_action(np.zeros(2, np.float32), policy_id="learned")
assert action in (0, 1)
