"""DQN's options: each does what it says, and they go together, also across a stop."""

import math

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from q_learners import MASKED, fragments, learner

from rookery import DQNConfig, Trainer
from rookery.core.spaces.arrays import MASK
from rookery.models.distributions import Categorical
from selection import slow, slow_except


def flat(net):
    return torch.cat([weight.detach().flatten() for weight in net.parameters()])


# --- what is learned --------------------------------------------------------------------------------------------------

KINDS = {
    "mean": {},
    "rescaled": {"values": {"rescale": True}},
    "categorical": {"values": {"kind": "categorical", "low": -5.0, "high": 5.0}},
    "quantile": {"values": {"kind": "quantile", "quantiles": 21}},
    "dueling": {"dueling": True, "dueling_hidden": (16,)},
    "dueling categorical": {"dueling": True, "values": {"kind": "categorical", "low": -5.0, "high": 5.0}},
    "noisy": {"exploration": {"kind": "noisy"}},
}


@pytest.mark.parametrize("prioritized", [False, slow(True)])
@pytest.mark.parametrize("kind", list(KINDS))
def test_every_sort_of_value_learns_what_a_table_would(kind, prioritized):
    # one decision an episode, worth its number with a chance of one half of 2 more
    replay = {"kind": "prioritized"} if prioritized else {}
    dqn = learner(lr=0.01, learning_starts=0, batch_size=64, replay=replay, **KINDS[kind])
    rollout = fragments(60, 4, ends=1.1)
    luck = 2.0 * (rollout.logp.new_tensor(np.random.default_rng(1).random((60, 4))) < 0.5)
    dqn.replay.store(type(rollout)(**{**vars(rollout), "reward": rollout.action - 1.0 + luck}))
    dqn.learn(400)
    with torch.no_grad():
        q = dqn.net.head.q_from(dqn.net.value({"obs": rollout.obs["obs"].flatten(0, 1)})).mean(0)
    if kind == "rescaled":
        expected = torch.tensor([module_h(x) / 2 + module_h(x + 2) / 2 for x in (-1.0, 0.0, 1.0)])
    else:
        expected = torch.tensor([0.0, 1.0, 2.0])
    assert torch.allclose(q, expected, atol=0.3)


def module_h(x):
    return math.copysign(math.sqrt(abs(x) + 1) - 1, x) + 1e-3 * x


class Steady(gymnasium.Env):
    """One unit of reward a step, for ever; cut off after some steps."""

    observation_space = spaces.Box(-1, 1, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        self.clock = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.clock += 1
        return np.zeros(1, np.float32), 1.0, False, self.clock % 20 == 0, {}


@pytest.mark.parametrize(("n_step", "every", "steps"), [(1, 4, 1000), (10, 20, 1000)])
def test_a_time_limit_is_no_end_so_a_steady_reward_is_worth_its_geometric_sum(n_step, every, steps):
    settings = {"target": {"every": every}, "n_step": n_step, "updates_per_step": 1.0, "learning_starts": 100}
    cfg = DQNConfig(lr=0.03, gamma=0.99, max_grad_norm=None, model={"hidden": (8,)}, batch_size=16, **settings)
    trainer = Trainer(Steady, cfg, num_envs=2, seed=0)
    learner = trainer.learners["main"]
    with torch.no_grad():  # not far off, because an error shrinks by 1 % a copy; were limits ends, it would be below 20
        for net in (learner.net, learner.target_net):
            net.head.linear.bias.fill_(80.0)
    trainer.train({"env_steps": steps})
    with torch.no_grad():
        values = learner.net.value({"obs": torch.zeros(1, 1)})
    assert values.max().item() == pytest.approx(100, abs=5)


# --- replay -----------------------------------------------------------------------------------------------------------


def test_priorities_are_the_errors_of_the_gradient_step_and_weights_reach_the_loss(monkeypatch):
    replay = {"kind": "prioritized", "beta": 1.0}
    dqn = learner(learning_starts=0, batch_size=8, replay=replay, model={"native": False})
    dqn.replay.store(fragments(20, 2))
    seen = {}
    monkeypatch.setattr(
        dqn.replay.buffer, "update_priorities", lambda row, priority: seen.update(row=row, priority=priority)
    )
    drawn = []
    sample = dqn.replay.sample
    monkeypatch.setattr(dqn.replay, "sample", lambda *args, **kw: drawn.append(sample(*args, **kw)) or drawn[-1])
    weights = []

    def loss(values, batch, cfg):
        weights.append(batch.weight)
        return dqn.estimate.__class__.loss(values, batch, cfg)

    monkeypatch.setattr(dqn.estimate, "loss", loss)
    dqn.learn(1)
    assert torch.equal(seen["row"], drawn[0].row)
    assert weights[0] is drawn[0].weight
    assert drawn[0].weight.max() == 1
    assert seen["priority"].shape == (8,)
    assert "priority" not in dqn.summary()


def test_beta_follows_its_schedule(monkeypatch):
    dqn = learner(
        learning_starts=0,
        batch_size=4,
        replay={"kind": "prioritized", "beta": {"start": 0.4, "end": 1.0, "steps": 100}},
    )
    dqn.replay.store(fragments(5, 2))
    betas = []
    sample = dqn.replay.buffer.sample
    monkeypatch.setattr(
        dqn.replay.buffer, "sample", lambda *args, **kw: betas.append(kw["beta"]) or sample(*args, **kw)
    )
    for steps in (0, 50, 1000):
        dqn.env_steps = steps
        dqn.learn(1)
    assert betas == pytest.approx([0.4, 0.7, 1.0])


# --- exploration ------------------------------------------------------------------------------------------------------


def test_noisy_layers_get_fresh_noise_for_each_network_in_each_gradient_step(monkeypatch):
    dqn = learner(learning_starts=0, batch_size=8, exploration={"kind": "noisy"})
    dqn.replay.store(fragments(20, 2))
    heard = []
    for net in (dqn.net, dqn.target_net):
        values = net.head.values
        monkeypatch.setattr(
            net.head, "values", lambda x, noise, values=values, net=net: heard.append((net, noise)) or values(x, noise)
        )
    dqn.learn(2)
    assert [net is dqn.net for net, _ in heard] == [False, True, True] * 2
    numbers = [tuple(noise[0, :4].tolist()) for _, noise in heard]
    assert len(set(numbers)) == 6


def test_noisy_layers_play_with_noise_and_without_epsilon_and_evaluate_by_their_means():
    dqn = learner(learning_starts=10, exploration={"kind": "noisy", "noisy_std": 3.0})
    assert dqn.policy.head.epsilon == 1
    dqn.training_step(fragments(10, 2))
    assert dqn.policy.head.epsilon == 0
    obs = {"obs": torch.ones(200, 2)}
    rng = torch.Generator().manual_seed(0)
    with torch.no_grad():
        width = dqn.policy.noise
        noise = torch.cat(
            (torch.rand(200, width.uniform, generator=rng), torch.randn(200, width.normal, generator=rng)), 1
        )
        assert len(dqn.policy.act(obs, noise)[0].unique()) > 1
        assert len(dqn.policy.act(obs, None, True)[0].unique()) == 1


def test_a_temperature_follows_its_schedule():
    dqn = learner(
        learning_starts=10,
        exploration={"kind": "boltzmann", "temperature": {"start": 2.0, "end": 0.5, "steps": 100}},
    )
    assert dqn.policy.head.temperature == math.inf
    for steps, expected in ((0, 2.0), (50, 1.25), (100, 0.5)):
        dqn.env_steps = steps
        dqn.training_step(fragments(10, 2))
        assert dqn.policy.head.temperature == expected


def disturbed(**settings):
    exploration = {"kind": "parameters", "epsilon": 0.2, "perturb_every": 40}
    return learner(learning_starts=20, batch_size=16, exploration=exploration, **settings)


def test_disturbed_weights_play_and_the_policy_itself_stays_as_it_is_learned():
    dqn = disturbed(updates_per_step=0.0)
    assert dqn.behaviour is not dqn.policy
    assert dqn.behaviour.head.epsilon == 1
    own = flat(dqn.policy)
    dqn.training_step(fragments(10, 2))
    assert torch.equal(flat(dqn.policy), own)
    assert dqn.behaviour.head.epsilon == 0
    difference = flat(dqn.behaviour) - own
    assert difference.std().item() == pytest.approx(0.01, rel=0.3)
    dqn.training_step(fragments(10, 2))
    assert torch.equal(flat(dqn.behaviour) - own, difference)  # the same for many decisions
    dqn.training_step(fragments(10, 2))
    assert not torch.equal(flat(dqn.behaviour) - own, difference)


def test_parameter_noise_follows_what_is_learned():
    dqn = disturbed(lr=0.1)
    dqn.training_step(fragments(10, 2))
    noise = dqn.exploration.noise.clone()
    before = flat(dqn.policy)
    dqn.training_step(fragments(10, 2))
    assert not torch.equal(flat(dqn.policy), before)
    assert torch.equal(dqn.exploration.noise, noise)
    expected = dqn.optimizer.flat.data + dqn.exploration.sigma * noise
    assert torch.allclose(dqn.exploration.disturbed, expected)


@pytest.mark.parametrize("masked", [False, True])
def test_parameter_noise_adapts_until_actions_differ_as_those_of_epsilon(masked):
    dqn = disturbed(**({"obs": MASKED} if masked else {}))
    dqn.replay.store(fragments(40, 4, masked=masked))
    found = []
    for decisions in range(0, 40 * 800, 40):
        dqn.exploration.advance(dqn.now().exploration, decisions, dqn.observations)
        found.append(dqn.exploration.metrics.get("noise_kl"))
    wanted = -math.log(1 - 0.2 + 0.2 / 3)
    assert np.mean(found[-100:]) == pytest.approx(wanted, rel=0.5)
    assert dqn.exploration.sigma > 0.05


def test_parameter_noise_becomes_weaker_where_it_changes_too_much():
    dqn = disturbed()
    dqn.replay.store(fragments(40, 4))
    dqn.exploration.sigma = 100.0
    for decisions in (0, 40):
        dqn.exploration.advance(dqn.now().exploration, decisions, dqn.observations)
    assert dqn.exploration.sigma == pytest.approx(100 / 1.01)


def test_values_are_compared_by_their_softmax():
    dqn = disturbed()
    dqn.replay.store(fragments(40, 4))
    dqn.exploration.advance(dqn.now().exploration, 0, dqn.observations)
    obs = dqn.observations(32)
    dqn.exploration.adapt(obs, 0.2)
    with torch.no_grad():
        mine, its = (Categorical(policy.head.values(policy.trunk(obs))) for policy in (dqn.policy, dqn.behaviour))
    assert dqn.exploration.metrics["noise_kl"] == pytest.approx(float(mine.kl(its).mean()), rel=1e-4)


# --- observations -----------------------------------------------------------------------------------------------------


def test_observations_are_normalized_once_on_either_path():
    weights = {}
    for native in (True, False):
        dqn = learner(learning_starts=0, batch_size=16, model={"normalize_obs": True, "native": native}, lr=0.01)
        rollout = fragments(20, 2)
        dqn.policy.normalizer.update({"obs": 5 + 3 * rollout.obs["obs"].flatten(0, 1)})
        dqn.replay.store(rollout)
        dqn.learn(10)
        weights[native] = dqn.optimizer.flat.data
    assert torch.allclose(weights[True], weights[False], atol=1e-4)


# --- refusals ---------------------------------------------------------------------------------------------------------


# --- all of it together -----------------------------------------------------------------------------------------------


class Choosy(gymnasium.Env):
    """Numbers with a mask, actions counted from 2; ends by chance or after a while."""

    observation_space = spaces.Dict({"number": spaces.Box(-9, 9, (2,), np.float32), MASK: spaces.MultiBinary(3)})
    action_space = spaces.Discrete(3, start=2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.clock = 0
        return self._see(), {}

    def _see(self):
        self.mask = np.ones(3, np.int8)
        self.mask[self.np_random.integers(3)] = 0
        return {"number": self.np_random.normal(size=2).astype(np.float32), MASK: self.mask}

    def step(self, action):
        assert action in (2, 3, 4)
        assert self.mask[action - 2] == 1
        self.clock += 1
        over = self.np_random.random() < 0.1
        return self._see(), float(action), over, self.clock == 15 and not over, {}


OPTIONS = {
    "plain": {"double": False},
    "double dueling": {"dueling": True, "model": {"normalize_obs": True}},
    "rainbow": {
        "dueling": True,
        "n_step": 3,
        "values": {"kind": "categorical", "low": -5.0, "high": 50.0},
        "replay": {"kind": "prioritized"},
        "exploration": {"kind": "noisy"},
    },
    "quantile soft": {"values": {"kind": "quantile"}, "target": {"kind": "soft"}, "n_step": 2},
    "boltzmann": {"exploration": {"kind": "boltzmann"}, "replay": {"kind": "prioritized"}},
    "parameters": {"exploration": {"kind": "parameters", "perturb_every": 30}},
    "recurrent": {"model": {"memory": {"kind": "gru", "size": 8, "sequence_length": 8}}, "replay": {"burn_in": 4}},
    "frames": {"model": {"memory": {"frame_stack": 2, "previous_action": True, "sequence_length": 8}}},
}


def everything(trainer):
    state = trainer.learners["main"].state_dict()
    found = {}

    def walk(path, value):
        if isinstance(value, dict):
            for key, inner in value.items():
                walk(f"{path}/{key}", inner)
        elif isinstance(value, torch.Tensor):
            found[path] = value.clone()
        elif isinstance(value, int | float | str):
            found[path] = value

    walk("", state)
    return found


@pytest.mark.parametrize("name", slow_except("rainbow", "frames", "recurrent", "plain", "boltzmann", of=list(OPTIONS)))
def test_a_run_that_stopped_in_the_middle_goes_on_to_the_last_bit(name, tmp_path):
    settings = {"model": {"hidden": (8,)}} | OPTIONS[name]
    settings["model"] = {"hidden": (8,), **settings["model"]}
    cfg = DQNConfig(learning_starts=60, train_every=7, updates_per_step=0.3, batch_size=8, **settings)
    keywords = {"num_envs": 3, "seed": 4, "sampling": {"iteration_steps": 60}}
    with Trainer(Choosy, cfg, **keywords) as through:
        through.train({"iterations": 3})
        wanted, batch = everything(through), drawn_next(through)
    with Trainer(Choosy, cfg, **keywords) as first:
        first.train({"iterations": 2})
        place = first.save(tmp_path / "half")
    with Trainer.load(place, env=Choosy) as second:
        second.train({"iterations": 3})
        found = everything(second)
        assert found.keys() == wanted.keys()
        for path, value in wanted.items():
            same = torch.equal(value, found[path]) if isinstance(value, torch.Tensor) else value == found[path]
            assert same, path
        for mine, its in zip(drawn_next(second), batch, strict=True):
            assert torch.equal(mine, its)


def drawn_next(trainer):
    learner = trainer.learners["main"]
    if learner.policy.memory_size:
        drawn = learner.replay.buffer.sample_sequences(4, length=8, beta=0.5)
        return drawn.row, drawn.rollout.reward, drawn.rollout.action
    drawn = learner.replay.buffer.sample(8, n_step=3, gamma=0.9, beta=0.5)
    return drawn.row, drawn.reward, drawn.action


def test_cartpole_is_learned_and_a_learner_that_takes_no_steps_learns_nothing():
    def trained(lr, steps):
        cfg = DQNConfig(
            lr=lr,
            learning_starts=500,
            updates_per_step=0.5,
            train_every=16,
            target={"every": 100},
            exploration={"epsilon": {"start": 1.0, "end": 0.04, "steps": 3000}},
            model={"activation": "relu"},
        )
        with Trainer("CartPole-v1", cfg, num_envs=4, seed=1) as trainer:
            trainer.train({"env_steps": steps})
            return trainer.evaluate(10).return_mean

    assert trained(1e-3, 8000) > 120
    assert trained(1e-12, 1000) < 60


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("simpleq", (False, False, 1, "mean", "uniform", "epsilon")),
        ("rainbow", (True, True, 3, "categorical", "prioritized", "noisy")),
        ("apex", (True, True, 3, "mean", "prioritized", "epsilon")),
    ],
)
def test_presets_by_name_put_options_together(name, expected):
    with Trainer("CartPole-v1", config={"algorithm.name": "dqn"}, preset=name) as trainer:
        cfg = trainer.learners["main"].cfg
    found = (cfg.double, cfg.dueling, cfg.n_step, cfg.values.kind, cfg.replay.kind, cfg.exploration.kind)
    assert found == expected
