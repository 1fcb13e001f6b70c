import torch
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.apis.value_function_api import ValueFunctionAPI
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.core.rl_module.torch.torch_rl_module import TorchRLModule
from ray.rllib.utils.annotations import override
from torch import nn


class MyModule(TorchRLModule, ValueFunctionAPI):
    @override(TorchRLModule)
    def setup(self):
        width = self.model_config["hidden_dim"]
        self._encoder = nn.Sequential(nn.Linear(self.observation_space.shape[0], width), nn.ReLU())
        self._pi = nn.Linear(width, self.action_space.n)
        self._vf = nn.Linear(width, 1)

    @override(TorchRLModule)
    def _forward(self, batch, **kwargs):
        embeddings = self._encoder(batch[Columns.OBS])
        return {Columns.ACTION_DIST_INPUTS: self._pi(embeddings)}

    @override(TorchRLModule)
    def _forward_train(self, batch, **kwargs):
        embeddings = self._encoder(batch[Columns.OBS])
        return {Columns.ACTION_DIST_INPUTS: self._pi(embeddings), Columns.EMBEDDINGS: embeddings}

    @override(ValueFunctionAPI)
    def compute_values(self, batch, embeddings=None):
        if embeddings is None:
            embeddings = self._encoder(batch[Columns.OBS])
        return self._vf(embeddings).squeeze(-1)


algo = (
    PPOConfig()
    .environment("CartPole-v1")
    .env_runners(num_env_runners=0)
    .training(train_batch_size_per_learner=100, minibatch_size=50, num_epochs=1)
    .rl_module(rl_module_spec=RLModuleSpec(module_class=MyModule, model_config={"hidden_dim": 24}))
    .build_algo()
)
algo.train()
module = algo.get_module()
assert isinstance(module, MyModule)
logits = module.forward_exploration({Columns.OBS: torch.zeros(5, 4)})[Columns.ACTION_DIST_INPUTS]
actions = module.get_exploration_action_dist_cls().from_logits(logits).sample()
assert actions.shape == (5,)
