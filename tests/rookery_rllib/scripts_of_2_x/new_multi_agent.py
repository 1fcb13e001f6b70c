import gymnasium as gym
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.core.rl_module.multi_rl_module import MultiRLModuleSpec
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.env.multi_agent_env import MultiAgentEnv
from ray.rllib.examples.rl_modules.classes.random_rlm import RandomRLModule
from ray.rllib.utils.test_utils import add_rllib_example_script_args, run_rllib_example_script_experiment

parser = add_rllib_example_script_args(default_reward=0.9, default_iters=2, default_timesteps=400)
parser.set_defaults(num_agents=2, num_env_runners=0, verbose=0)


class RockPaperScissors(MultiAgentEnv):
    WINS = {(1, 0), (2, 1), (0, 2)}

    def __init__(self, config=None):
        super().__init__()
        self.agents = self.possible_agents = ["player1", "player2"]
        self.observation_spaces = self.action_spaces = {
            "player1": gym.spaces.Discrete(3),
            "player2": gym.spaces.Discrete(3),
        }
        self.num_moves = 0

    def reset(self, *, seed=None, options=None):
        self.num_moves = 0
        return {"player1": 0, "player2": 0}, {}

    def step(self, action_dict):
        self.num_moves += 1
        one, two = int(action_dict["player1"]), int(action_dict["player2"])
        won = int((one, two) in self.WINS) - int((two, one) in self.WINS)
        return (
            {"player1": two, "player2": one},
            {"player1": won, "player2": -won},
            {"__all__": self.num_moves >= 10},
            {},
            {},
        )


config = (
    PPOConfig()
    .environment(RockPaperScissors)
    .training(train_batch_size_per_learner=200, minibatch_size=100, num_epochs=1)
    .multi_agent(
        policies={"learned", "random"},
        policy_mapping_fn=lambda aid, episode, **kw: "learned" if aid == "player1" else "random",
        policies_to_train=["learned"],
    )
    .rl_module(
        rl_module_spec=MultiRLModuleSpec(
            rl_module_specs={
                "learned": RLModuleSpec(model_config=DefaultModelConfig(fcnet_hiddens=[8])),
                "random": RLModuleSpec(module_class=RandomRLModule),
            }
        )
    )
)
results = run_rllib_example_script_experiment(config, parser.parse_args([]))
metrics = results[0].metrics
assert abs(sum(metrics["env_runners"]["module_episode_returns_mean"].values())) < 1e-9
assert list(metrics["learners"]) == ["learned", "__all_modules__"]
