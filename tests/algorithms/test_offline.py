"""Offline algorithms that can continue by playing: IQL, CQL, TD3+BC, AWAC."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces

from recorded import keep, poles
from rookery import (
    AWACConfig,
    ConfigError,
    CQLConfig,
    DiscreteCQLConfig,
    IQLConfig,
    ModelConfig,
    MultiAgentArena,
    PPOConfig,
    TD3BCConfig,
    Trainer,
    record_replay,
)
from rookery.envs.placeholder_env import PlaceholderEnv
from selection import slow, slow_except

SMALL = ModelConfig(hidden=(16,), activation="relu", normalize_obs=True)
SHARED = {"model": SMALL, "batch_size": 32, "gradient_steps": 30, "updates_per_step": 0.25}
NUMBERS = {
    "iql": IQLConfig(**SHARED),
    "iql, squashed": IQLConfig(**SHARED, distribution="squashed"),
    "cql": CQLConfig(**SHARED, num_actions=2, lagrange_gap=5.0, cloning_steps=10),
    "td3bc": TD3BCConfig(**SHARED),
    "awac": AWACConfig(**SHARED),
}
CHOICES = {
    "iql, choices": IQLConfig(**SHARED, replay={"kind": "prioritized"}),
    "discrete_cql": DiscreteCQLConfig(**SHARED, n_step=3),
    "awac, choices": AWACConfig(**SHARED),
}
EVERY = {**NUMBERS, **CHOICES}


def weights(trainer):
    return torch.cat([value.detach().double().flatten() for policy in trainer.policies.values()
                      for value in policy.state_dict().values()])  # fmt: skip


def all_weights(trainer):
    """Those of critics and of what optimizers keep, too."""
    found = [weights(trainer)]
    for learner in trainer.learners.values():
        for name in ("critics", "value", "actor_optimizer", "optimizer", "target_net"):
            part = getattr(learner, name, None)
            state = {} if part is None else getattr(part, "optimizer", part).state_dict()
            found += [value.detach().double().flatten() for value in state.values() if isinstance(value, torch.Tensor)]
    return torch.cat(found)


def push(obs):
    """Plays Pendulum: against its speed."""
    return np.clip(-obs[2:3], -2, 2).astype(np.float32)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Paths of data: of Pendulum, whose episodes are cut off, and of CartPole."""
    folder = tmp_path_factory.mktemp("data")
    record_replay("Pendulum-v1", push, 2, folder / "swings", seed=1)
    return {"numbers": str(folder / "swings"), "choices": poles(folder / "poles", 3)}


def fitting(name, data):
    """The data and the environment that an entry of EVERY is for."""
    return (data["numbers"], "Pendulum-v1") if name in NUMBERS else (data["choices"], "CartPole-v1")


@pytest.mark.parametrize("name", slow_except(*(name for name in EVERY if name not in ("iql", "td3bc")), of=EVERY))
def test_a_run_on_data_goes_on_bit_for_bit(name, data, tmp_path):
    path, _ = fitting(name, data)
    with Trainer(None, EVERY[name], replay=path, seed=0) as trainer:
        assert isinstance(trainer.env, PlaceholderEnv)
        before = weights(trainer).clone()
        trainer.learn(8)
        trainer.learn(8)
        whole = all_weights(trainer)
        assert not torch.equal(before, weights(trainer))
    with Trainer(None, EVERY[name], replay=path, seed=0, run_dir=tmp_path / "parts") as trainer:
        trainer.learn(8)
    with Trainer.load(tmp_path / "parts", resume=True) as trainer:
        trainer.learn(8)
        assert torch.equal(whole, all_weights(trainer))


@pytest.mark.parametrize("name", slow_except("iql", "cql", "td3bc", "awac", "discrete_cql", of=EVERY))
def test_it_plays_on_and_goes_on_bit_for_bit(name, data, tmp_path):
    path, env = fitting(name, data)
    with Trainer(None, EVERY[name], replay=path, seed=0, run_dir=tmp_path / "run") as trainer:
        trainer.learn(10)
    shared = {"env": env, "num_envs": 2, "config": {"sampling.iteration_steps": 40}}
    with Trainer.load(tmp_path / "run", **shared) as trainer:
        learner = trainer.learners["main"]
        size, made = len(learner.replay.buffer), learner.replay.gradient_steps
        statistics = [value.clone() for value in learner.policy.normalizer.state_dict().values()]
        trainer.train({"env_steps": 40})
        half = trainer.save(tmp_path / "half")
        assert len(learner.replay.buffer) == size + 40, "what was played is kept beside the data"
        assert learner.replay.gradient_steps == made + 10
        for was, now in zip(statistics, learner.policy.normalizer.state_dict().values(), strict=True):
            assert torch.equal(was, now), "statistics are those of the data"
        trainer.train({"env_steps": 80})
        whole = all_weights(trainer)
    with Trainer.load(half) as trainer:
        assert trainer.env.num_lanes == 2
        trainer.train({"env_steps": 80})
        assert torch.equal(whole, all_weights(trainer))


@pytest.mark.parametrize("name", [slow(name) for name in EVERY])
def test_a_run_with_its_environment_from_the_start_is_the_same(name, data, tmp_path):
    path, env = fitting(name, data)
    found = []
    with Trainer(env, EVERY[name], replay=path, seed=0, num_envs=2, iteration_steps=40) as trainer:
        trainer.learn(20)
        trainer.train({"env_steps": 80})
        found.append(all_weights(trainer))
    with Trainer(None, EVERY[name], replay=path, seed=0, run_dir=tmp_path / "run") as trainer:
        trainer.learn(20)
    later = {"sampling.iteration_steps": 40}
    with Trainer.load(tmp_path / "run", env=env, num_envs=2, config=later) as trainer:
        trainer.train({"env_steps": 80})
        found.append(all_weights(trainer))
    assert torch.equal(*found)


@pytest.mark.parametrize("name", ["iql, choices", "discrete_cql", "awac, choices"])
def test_it_also_learns_by_playing_alone(name):
    with Trainer("CartPole-v1", EVERY[name], seed=0, num_envs=2, iteration_steps=60) as trainer:
        trainer.train({"env_steps": 120})
        learner = trainer.learners["main"]
        assert learner.replay.gradient_steps > 20 and len(learner.replay.buffer) > 100


def test_actions_beyond_the_bounds_are_taken_for_those_at_them(tmp_path, monkeypatch):
    # replay holds actions as they were drawn, and the environment cuts them off
    box = spaces.Box(-2, 2, (1,), np.float32)
    rng = np.random.default_rng(0)
    one = {"obs": rng.normal(size=(41, 3)), "action": np.full((40, 1), 1.7), "reward": np.ones(40)}
    path = keep(tmp_path / "data", spaces.Box(-9, 9, (3,), np.float32), box, [one])
    for name, cfg in NUMBERS.items():
        with Trainer(None, cfg, replay=path, seed=0) as trainer:
            learner, seen = trainer.learners["main"], []
            improve = learner.critics.improve

            def noted(loss, batch, cfg, improve=improve, seen=seen):
                seen.append(batch.action.clone())
                return improve(loss, batch, cfg)

            monkeypatch.setattr(learner.critics, "improve", noted)
            if name == "cql":
                learn = learner.learn_critics
                monkeypatch.setattr(learner, "learn_critics", lambda *a: seen.append(a[0].action) or learn(*a))
            learner.learn(1)
            assert [set(action.flatten().tolist()) for action in seen] == [{1.0}], name


@pytest.mark.parametrize("config", [IQLConfig, AWACConfig])
def test_a_gaussian_learns_from_what_was_drawn_and_not_from_what_was_cut_off(config, tmp_path):
    # an environment that cuts off at 1 what is drawn with mean 0.8 and standard deviation 1: what it did has mean 0.51
    rng = np.random.default_rng(0)
    drawn = rng.normal(0.8, 1.0, (2000, 1))
    one = {"obs": np.zeros((2001, 1)), "action": drawn, "reward": np.ones(2000)}
    box = spaces.Box(-1, 1, (1,), np.float32)
    path = keep(tmp_path / "data", spaces.Box(-1, 1, (1,), np.float32), box, [one])
    same = {"max_weight": 1.0, **({"beta": 0.0} if config is IQLConfig else {"advantage_lambda": 1e9})}
    cfg = config(model=ModelConfig(hidden=(16,), activation="relu"), lr=5e-3, batch_size=256, **same)
    with Trainer(None, cfg, replay=path, seed=0) as trainer:
        trainer.learn(400)
        with torch.no_grad():
            behavior = trainer.policies["main"]({"obs": torch.zeros(1, 1)})
    assert float(behavior.mode()) == pytest.approx(0.8, abs=0.1)
    assert float(behavior.log_std.detach()) == pytest.approx(0.0, abs=0.1)


def test_several_policies_learn_each_from_data_of_its_own(tmp_path):
    env = MultiAgentArena()
    found = {}
    for number, agent in enumerate(env.possible_agents):
        seen, act = env.observation_spaces[agent], env.action_spaces[agent]
        rng = np.random.default_rng(number)
        obs = np.stack([seen.sample() for _ in range(61)])
        action = rng.integers(0, act.n, 60)
        found[agent] = keep(tmp_path / agent, seen, act, [{"obs": obs, "action": action, "reward": np.ones(60)}])
    first, second = env.possible_agents[:2]
    policies = {
        first: CHOICES["iql, choices"].replace(replay={"start_from": (found[first],)}),
        second: CHOICES["discrete_cql"].replace(replay={"start_from": (found[second],)}),
    }
    with Trainer(None, policies=policies, seed=0, run_dir=tmp_path / "run") as trainer:
        trainer.learn(10)
        assert [len(learner.replay.buffer) for learner in trainer.learners.values()] == [60, 60]
    with Trainer.load(
        tmp_path / "run", env=MultiAgentArena, num_envs=2, policy_mapping={one: one for one in (first, second)}
    ) as trainer:
        trainer.train({"env_steps": 30})
        assert [learner.replay.gradient_steps > 10 for learner in trainer.learners.values()] == [True, True]


def test_what_it_cannot_learn_is_refused_in_words(data, tmp_path):
    numbers, choices = data["numbers"], data["choices"]
    refused = [
        (
            CQLConfig(),
            choices,
            r"CQL takes .* between two bounds .* not Discrete\(2\): discrete_cql takes Discrete",
        ),
        (TD3BCConfig(), choices, r"TD3\+BC takes .* not Discrete\(2\): IQL and AWAC take Discrete"),
        (DiscreteCQLConfig(), numbers, r"CQL for choices takes .* one of several .* not Box\(.*: cql takes numbers"),
    ]
    for cfg, path, told in refused:
        with pytest.raises(ConfigError, match=told):
            Trainer(None, cfg, replay=path)
    endless = spaces.Box(-np.inf, np.inf, (1,), np.float32)
    several = spaces.MultiDiscrete([2, 3])
    for number, space in enumerate((endless, several)):
        one = {"obs": np.zeros((3, 3)), "action": np.zeros((2, *space.shape)), "reward": np.ones(2)}
        path = keep(tmp_path / str(number), spaces.Box(-1, 1, (3,), np.float32), space, [one])
        for cfg in (IQLConfig(), AWACConfig()):
            with pytest.raises(
                ConfigError, match=r"takes actions that are numbers between .* or one of several"
            ) as wrong:
                Trainer(None, cfg, replay=path)
            told = "import data that do not say their bounds again with --action-bounds=LEAST,LARGEST, --env ENV"
            assert (told in str(wrong.value)) == (space is endless)
    with pytest.raises(ConfigError, match="does not support memory"):
        Trainer(None, CQLConfig(model=ModelConfig(memory={"kind": "gru"})), replay=numbers)
    with pytest.raises(ConfigError, match=r"leave out quantiles and norm = batch"):
        Trainer(None, AWACConfig(critic={"quantiles": 5}), replay=numbers)
    with pytest.raises(ConfigError, match=r"leave values.kind = mean"):
        Trainer(None, DiscreteCQLConfig(values={"kind": "quantile"}), replay=choices)
    with pytest.raises(ConfigError, match="policies.main learns from data, but none is given"):
        Trainer(None, IQLConfig())
    with Trainer("CartPole-v1", IQLConfig()) as trainer, pytest.raises(ConfigError, match="nothing to learn"):
        trainer.learn(1)


def test_beside_one_that_plays_it_learns_from_what_it_plays_too(tmp_path):
    env = MultiAgentArena()
    first, second = env.possible_agents[:2]
    seen, act = env.observation_spaces[second], env.action_spaces[second]
    obs = np.stack([seen.sample() for _ in range(41)])
    path = keep(tmp_path / "data", seen, act, [{"obs": obs, "action": [0] * 40, "reward": np.ones(40)}])
    policies = {
        first: PPOConfig(fragment_length=8, epochs=1, model=ModelConfig(hidden=(8,))),
        second: CHOICES["awac, choices"].replace(replay={"start_from": (path,)}),
    }
    mapping = {one: one for one in (first, second)}
    with Trainer(MultiAgentArena, policies=policies, policy_mapping=mapping, seed=0, num_envs=2) as trainer:
        trainer.train_iteration()
        assert len(trainer.learners[second].replay.buffer) > 40
