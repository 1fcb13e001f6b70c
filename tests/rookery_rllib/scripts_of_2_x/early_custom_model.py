import torch.nn as nn
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.models import ModelCatalog
from ray.rllib.models.torch.torch_modelv2 import TorchModelV2


class MyModel(TorchModelV2, nn.Module):
    def __init__(self, obs_space, action_space, num_outputs, model_config, name):
        TorchModelV2.__init__(self, obs_space, action_space, num_outputs, model_config, name)
        nn.Module.__init__(self)
        width = model_config["custom_model_config"]["width"]
        self.body = nn.Sequential(nn.Linear(obs_space.shape[0], width), nn.ReLU())
        self.policy_head = nn.Linear(width, num_outputs)
        self.value_head = nn.Linear(width, 1)
        self._features = None

    def forward(self, input_dict, state, seq_lens):
        self._features = self.body(input_dict["obs"].float())
        return self.policy_head(self._features), state

    def value_function(self):
        return self.value_head(self._features).squeeze(1)


ModelCatalog.register_custom_model("my_model_of_a_script", MyModel)
algo = (
    PPOConfig()
    .environment("CartPole-v1")
    .framework("torch")
    .rollouts(num_rollout_workers=0)
    .training(
        model={"custom_model": "my_model_of_a_script", "custom_model_config": {"width": 12}},
        train_batch_size=100,
        sgd_minibatch_size=50,
        num_sgd_iter=1,
    )
    .build()
)
algo.train()
assert isinstance(algo.get_policy().model, MyModel)
weights = algo.get_policy().get_weights()
assert weights["policy_head.weight"].shape == (2, 12)
