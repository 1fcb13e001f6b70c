"""Modules of RLlib 2.x: those of scripts are learned or act, those of Rookery's networks have the same methods."""

import gymnasium
import numpy as np
import pytest
import torch
from torch import nn

from rookery.core.errors import ConfigError
from rookery_rllib.base.imports import find
from rookery_rllib.env.envs import make_multi_agent
from rookery_rllib.rllib2.algorithm_classes import DQNConfig, PPOConfig, SACConfig
from rookery_rllib.rllib2.connectors import ConnectorV2, FlatObservations, NormalizedObservations, StackedFrames
from rookery_rllib.rllib2.modules.logit_distributions import distribution_class
from rookery_rllib.rllib2.modules.rl_modules import (
    Columns,
    DefaultModelConfig,
    MultiRLModuleSpec,
    RandomModule,
    RLModule,
    RLModuleSpec,
    TorchRLModule,
    ValueFunctionAPI,
)


@pytest.fixture(autouse=True)
def results(tmp_path, monkeypatch):
    monkeypatch.setenv("TUNE_RESULT_DIR", str(tmp_path / "results"))


class Guess(gymnasium.Env):
    """One step: the action must be the observed number; observations are a Dict with a useless image."""

    observation_space = gymnasium.spaces.Dict(
        {"wanted": gymnasium.spaces.Discrete(3), "image": gymnasium.spaces.Box(0.0, 1.0, (2, 2), np.float32)}
    )
    action_space = gymnasium.spaces.Discrete(3)

    def __init__(self, config=None):
        self.wanted = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.wanted = int(self.np_random.integers(3))
        return {"wanted": self.wanted, "image": np.zeros((2, 2), np.float32)}, {}

    def step(self, action):
        obs = {"wanted": self.wanted, "image": np.zeros((2, 2), np.float32)}
        return obs, float(action == self.wanted), True, False, {}


class Plain(TorchRLModule, ValueFunctionAPI):
    """Layers of a module's own, with the width of its settings."""

    def setup(self):
        width, size = self.model_config["width"], int(np.prod(self.observation_space.shape))
        self.body = nn.Sequential(nn.Linear(size, width), nn.Tanh())
        self.head, self.values = nn.Linear(width, self.action_space.n), nn.Linear(width, 1)

    def _forward(self, batch, **kwargs):
        return {Columns.ACTION_DIST_INPUTS: self.head(self.body(batch[Columns.OBS]))}

    def _forward_train(self, batch, **kwargs):
        embeddings = self.body(batch[Columns.OBS])
        return {Columns.ACTION_DIST_INPUTS: self.head(embeddings), Columns.EMBEDDINGS: embeddings}

    def compute_values(self, batch, embeddings=None):
        if embeddings is None:
            embeddings = self.body(batch[Columns.OBS])
        return self.values(embeddings).squeeze(-1)


def small(config, env="CartPole-v1"):
    config = config.environment(env).env_runners(num_env_runners=0).debugging(seed=1)
    return config.training(train_batch_size_per_learner=40, minibatch_size=20, num_epochs=1)


def test_a_module_of_a_script_is_learned():
    spec = RLModuleSpec(module_class=Plain, model_config={"width": 7})
    algo = small(PPOConfig()).rl_module(rl_module_spec=spec).training(lr=0.1).build_algo()
    module = algo.get_module()
    assert isinstance(module, Plain) and module.head.weight.shape == (2, 7)
    before = module.head.weight.detach().clone()
    algo.train()
    algo.train()
    assert not torch.equal(algo.get_module().head.weight, before)
    outputs = module.forward_inference({Columns.OBS: torch.zeros(1, 4)})
    assert outputs[Columns.ACTION_DIST_INPUTS].shape == (1, 2) and not outputs[Columns.ACTION_DIST_INPUTS].requires_grad


def test_a_module_learns_what_it_is_told_through_flat_observations():
    config = (
        PPOConfig()
        .environment(Guess)
        .env_runners(num_env_runners=0, env_to_module_connector=lambda env: FlatObservations())
    )
    config = config.training(train_batch_size_per_learner=256, minibatch_size=64, num_epochs=6, lr=0.02)
    algo = (
        config.rl_module(rl_module_spec=RLModuleSpec(Plain, model_config={"width": 16})).debugging(seed=1).build_algo()
    )
    first = algo.train()["env_runners"]["episode_return_mean"]
    for _ in range(5):
        last = algo.train()["env_runners"]["episode_return_mean"]
    assert first < 0.6 and last > 0.9


def test_a_module_gets_observations_of_the_environments_form():
    seen = []

    class Reading(Plain):
        def setup(self):
            assert isinstance(self.observation_space, gymnasium.spaces.Dict)
            self.head, self.values = nn.Linear(3, 3), nn.Linear(3, 1)

        def body(self, obs):
            seen.append((obs["wanted"].shape[1:], obs["image"].shape[1:]))
            return obs["wanted"]

    spec = RLModuleSpec(module_class=Reading)
    small(PPOConfig(), Guess).rl_module(rl_module_spec=spec).build_algo().train()
    assert set(seen) == {((3,), (2, 2))}


def test_a_module_with_a_state_is_learned_in_sequences():
    class Remembering(TorchRLModule, ValueFunctionAPI):
        def setup(self):
            self.cell = nn.GRU(4, 5, batch_first=True)
            self.head, self.values = nn.Linear(5, 2), nn.Linear(5, 1)

        def get_initial_state(self):
            return {"h": np.zeros(5, np.float32)}

        def _forward(self, batch, **kwargs):
            out, state = self.cell(batch[Columns.OBS], batch[Columns.STATE_IN]["h"].unsqueeze(0).contiguous())
            return {
                Columns.ACTION_DIST_INPUTS: self.head(out),
                Columns.STATE_OUT: {"h": state.squeeze(0)},
                Columns.EMBEDDINGS: out,
            }

        def compute_values(self, batch, embeddings=None):
            return self.values(self._forward(batch)[Columns.EMBEDDINGS] if embeddings is None else embeddings).squeeze(
                -1
            )

    spec = RLModuleSpec(module_class=Remembering, model_config={"max_seq_len": 10})
    algo = small(PPOConfig()).rl_module(rl_module_spec=spec).training(lr=0.1).build_algo()
    before = algo.get_module().cell.weight_hh_l0.detach().clone()
    algo.train()
    assert not torch.equal(algo.get_module().cell.weight_hh_l0, before)


def test_settings_of_default_modules():
    config = PPOConfig().environment("CartPole-v1").env_runners(num_env_runners=0)
    config = config.rl_module(model_config=DefaultModelConfig(fcnet_hiddens=[8, 8], fcnet_activation="relu"))
    settings = config.build_algo().translation.settings
    assert settings["algorithm.model.hidden"] == (8, 8) and settings["algorithm.model.activation"] == "relu"
    assert settings["algorithm.model.shared_trunk"] is True  # of DefaultModelConfig; PPO's own default is False
    config = DQNConfig().environment("CartPole-v1").rl_module(model_config={"head_fcnet_hiddens": [9]})
    assert config.build_algo().translation.settings["algorithm.model.hidden"] == (256, 256, 9)
    config = SACConfig().environment("Pendulum-v1").rl_module(model_config=DefaultModelConfig(fcnet_hiddens=[8]))
    assert config.build_algo().translation.settings["algorithm.model.hidden"] == (8,)


@pytest.mark.parametrize(
    ("make", "path", "value"),
    [
        (lambda: NormalizedObservations(), "algorithm.model.normalize_obs", True),
        (lambda env, spaces, device: StackedFrames(num_frames=4), "algorithm.model.memory.frame_stack", 4),
        (lambda env: [FlatObservations(multi_agent=False)], "algorithm.model.normalize_obs", False),
    ],
)
def test_connectors_are_settings(make, path, value):
    config = PPOConfig().environment("CartPole-v1").env_runners(env_to_module_connector=make)
    assert config.build_algo().translation.settings[path] == value


@pytest.mark.parametrize(
    ("say", "text"),
    [
        (lambda: PPOConfig().env_runners(env_to_module_connector=lambda env: ConnectorV2()),
         r"env_runners\(env_to_module_connector\): the connector ConnectorV2.*wrap the environment"),
        (lambda: PPOConfig().env_runners(env_to_module_connector=lambda env: env.x), "failed without an environment"),
        (lambda: DQNConfig().environment("CartPole-v1").rl_module(rl_module_spec=RLModuleSpec(Plain)).build_algo(),
         "Plain: DQN makes its"),
        (lambda: small(PPOConfig()).rl_module(rl_module_spec=RLModuleSpec(TorchRLModule)).build_algo(),
         "has no compute_values"),
        (lambda: small(PPOConfig()).rl_module(model_config={"hiddens": [3]}).build_algo(), "model_config.hiddens"),
        (lambda: RLModuleSpec(catalog_class=dict), "there are no catalogs"),
    ],
)  # fmt: skip
def test_what_is_not_there_is_refused_with_the_seam(say, text):
    with pytest.raises(ConfigError, match=text):
        say()


def test_learned_modules_compute_the_inputs_of_distributions():
    algo = small(PPOConfig().rl_module(model_config={"fcnet_hiddens": [8]})).build_algo()
    module = algo.get_module("default_policy")
    obs = torch.tensor([[0.1, 0.2, 0.3, 0.4], [0.0, 0.0, 0.0, 0.0]])
    logits = module.forward_inference({"obs": obs})["action_dist_inputs"]
    distribution = module.get_inference_action_dist_cls().from_logits(logits)
    policy = algo.rookery.policies["default_policy"]
    expected = policy({"obs": obs}).log_prob(torch.tensor([0, 1]))
    assert torch.allclose(distribution.logp(torch.tensor([0, 1])), expected, atol=1e-5)
    assert module.compute_values({"obs": obs}).shape == (2,)
    assert distribution.to_deterministic().sample().tolist() == [
        algo.compute_single_action(row, explore=False) for row in obs.numpy()
    ]
    assert algo.get_module("other") is None


def test_modules_of_dqn_and_sac():
    algo = DQNConfig().environment("CartPole-v1").build_algo()
    obs = torch.zeros(3, 4)
    actions = algo.get_module().forward_inference({"obs": obs})["actions"]
    assert actions.tolist() == [algo.compute_single_action(row, explore=False) for row in obs.numpy()]
    algo = SACConfig().environment("Pendulum-v1").build_algo()
    module = algo.get_module()
    found = module.get_inference_action_dist_cls().from_logits(
        module.forward_inference({"obs": torch.zeros(1, 3)})["action_dist_inputs"]
    )
    action = algo.compute_single_action(np.zeros(3, np.float32), explore=False)
    assert 2.0 * found.to_deterministic().sample()[0].numpy() == pytest.approx(action, abs=1e-4)  # bounds are -2, 2


def test_modules_of_several_policies_learn_or_act():
    class Zero(RLModule):
        def _forward(self, batch, **kwargs):
            return {Columns.ACTIONS: np.zeros(len(batch[Columns.OBS]), np.int64)}

    class Never(Plain): ...

    config = PPOConfig().environment(make_multi_agent("CartPole-v1"), env_config={"num_agents": 4})
    config = config.env_runners(num_env_runners=0).training(
        train_batch_size_per_learner=40, minibatch_size=20, num_epochs=1
    )
    names = ["plain", "zero", "random", "never"]
    config = config.multi_agent(
        policies=set(names),
        policy_mapping_fn=lambda agent_id, episode, **kwargs: names[agent_id],
        policies_to_train=["plain"],
    ).rl_module(
        rl_module_spec=MultiRLModuleSpec(
            rl_module_specs={
                "plain": RLModuleSpec(Plain, model_config={"width": 4}),
                "zero": RLModuleSpec(Zero),
                "random": RLModuleSpec(RandomModule),
                "never": RLModuleSpec(Never, model_config={"width": 4}),
            }
        )
    )
    algo = config.build_algo()
    result = algo.train()
    assert set(result["learners"]) == {"plain", "__all_modules__"}
    assert set(result["env_runners"]["module_episode_returns_mean"]) <= set(names)
    assert isinstance(algo.get_module("never"), Never) and isinstance(algo.get_module("zero"), Zero)


@pytest.mark.parametrize(
    ("space", "size", "lowest"),
    [
        (gymnasium.spaces.Discrete(3), 3, 0),
        (gymnasium.spaces.MultiDiscrete([2, 3]), 5, [0, 0]),
        (gymnasium.spaces.Box(-1.0, 1.0, (2,)), 4, [0.0, 0.0]),
    ],
)
def test_distributions_of_outputs(space, size, lowest):
    found = distribution_class(space).from_logits(torch.zeros(6, size))
    actions = found.sample()
    assert actions.shape[0] == 6 and found.logp(actions).shape == (6,) and found.entropy().shape == (6,)
    assert torch.allclose(found.kl(found), torch.zeros(6))
    assert found.to_deterministic().sample()[0].tolist() == lowest


def test_names_of_results_and_parts():
    metrics, core = find("ray.rllib.utils.metrics"), find("ray.rllib.core")
    assert (metrics.ENV_RUNNER_RESULTS, metrics.EPISODE_RETURN_MEAN) == ("env_runners", "episode_return_mean")
    assert metrics.NUM_ENV_STEPS_SAMPLED_LIFETIME == "num_env_steps_sampled_lifetime"
    assert (core.DEFAULT_MODULE_ID, core.COMPONENT_RL_MODULE) == ("default_policy", "rl_module")
    with pytest.raises(AttributeError, match="has no 'EPISODE_RETURN_MEANS'"):
        _ = metrics.EPISODE_RETURN_MEANS
