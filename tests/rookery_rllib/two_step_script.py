"""The two-step game as RLlib's example of 2021 ran it."""

import argparse

import ray
from gym.spaces import Dict, Discrete, MultiDiscrete, Tuple
from ray import tune
from ray.rllib.env.multi_agent_env import ENV_STATE
from ray.rllib.examples.env.two_step_game import TwoStepGame
from ray.rllib.utils.test_utils import check_learning_achieved
from ray.tune import register_env

parser = argparse.ArgumentParser()
parser.add_argument("--run", type=str, default="PPO")
parser.add_argument("--mixer", type=str, default="qmix")
parser.add_argument("--stop-iters", type=int, default=200)
parser.add_argument("--stop-reward", type=float, default=7.0)
parser.add_argument("--stop-timesteps", type=int, default=50000)
parser.add_argument("--as-test", action="store_true")

if __name__ == "__main__":
    args = parser.parse_args()
    ray.init()
    grouping = {"group_1": [0, 1]}
    seen = Dict({"obs": MultiDiscrete([2, 2, 2, 3]), ENV_STATE: MultiDiscrete([2, 2, 2])})
    obs_space = Tuple([seen, seen])
    act_space = Tuple([TwoStepGame.action_space, TwoStepGame.action_space])
    register_env(
        "grouped_twostep",
        lambda config: TwoStepGame(config).with_agent_groups(grouping, obs_space=obs_space, act_space=act_space),
    )
    if args.run == "contrib/MADDPG":
        config = {
            "learning_starts": 100,
            "env_config": {"actions_are_logits": True},
            "multiagent": {
                "policies": {
                    "pol1": (None, Discrete(6), TwoStepGame.action_space, {"agent_id": 0}),
                    "pol2": (None, Discrete(6), TwoStepGame.action_space, {"agent_id": 1}),
                },
                "policy_mapping_fn": lambda agent: "pol1" if agent == 0 else "pol2",
            },
            "env": TwoStepGame,
        }
    elif args.run == "QMIX":
        config = {
            "rollout_fragment_length": 4,
            "train_batch_size": 32,
            "exploration_config": {"epsilon_timesteps": 5000, "final_epsilon": 0.05},
            "num_workers": 0,
            "mixer": args.mixer,
            "env_config": {"separate_state_space": True, "one_hot_state_encoding": True},
            "env": "grouped_twostep",
        }
    else:
        config = {"env": TwoStepGame, "num_workers": 0}
    stop = {
        "episode_reward_mean": args.stop_reward,
        "timesteps_total": args.stop_timesteps,
        "training_iteration": args.stop_iters,
    }
    results = tune.run(args.run, stop=stop, config={**config, "framework": "torch", "seed": 3}, verbose=1)
    if args.as_test:
        check_learning_achieved(results, args.stop_reward)
    ray.shutdown()
