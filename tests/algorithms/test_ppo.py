"""PPO: its targets, its loss, its updates."""

import math
from dataclasses import dataclass, replace

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

from rookery import ModelConfig, PPOConfig, Trainer
from rookery.algorithms.on_policy.ppo import PPO, Outputs, normalize_advantages, ppo_loss
from rookery.core.batch import Minibatch, Rollout
from rookery.core.errors import ConfigError, TrainingError
from rookery.core.schedules import Linear
from rookery.core.seeding import Streams
from rookery.core.spaces.arrays import action_spec, obs_spec
from rookery.models.distributions import Categorical, DiagonalGaussian
from rookery.models.squashed import Squashed
from rookery.policies.policy import Policy
from selection import slow

NUMBER, THREE = spaces.Box(-np.inf, np.inf, (1,), np.float32), spaces.Discrete(3)


def learner(cfg=None, obs=NUMBER, action=THREE, seed=0):
    cfg = cfg or PPOConfig(normalize_values=False)
    generator = torch.Generator().manual_seed(seed)
    policy = Policy(obs_spec(obs, action), action_spec(action), cfg.model, name="hero", generator=generator)
    return PPO(policy, cfg, Streams(seed), "hero")


def rollout(obs, reward, terminated=(), truncated=(), last=0.0, length=None, final=(), **header):
    """Fragments from lists ``[T][F]``; `terminated`, `truncated` and the keys of `final` are (t, f)."""
    obs, reward = torch.tensor(obs, dtype=torch.float32), torch.tensor(reward, dtype=torch.float32)
    T, F = reward.shape
    flags = torch.zeros(2, T, F, dtype=torch.bool)
    for flag, places in zip(flags, (terminated, truncated), strict=True):
        for place in places:
            flag[place] = True
    final = dict(final)
    numbers = {"slot": range(F), "clock": [0] * F, "length": [T] * F if length is None else length, "version": [0] * F}
    numbers |= header
    first = numbers.pop("first", [True] * F)
    return Rollout(
        obs={"obs": obs.unsqueeze(-1)},
        action=torch.zeros(T, F, dtype=torch.long),
        logp=torch.full((T, F), -math.log(3)),
        reward=reward,
        terminated=flags[0],
        truncated=flags[1],
        last_obs={"obs": torch.as_tensor(last, dtype=torch.float32).expand(F).unsqueeze(-1)},
        final_obs={"obs": torch.tensor(list(final.values()), dtype=torch.float32).view(-1, 1)},
        boot_index=torch.tensor(list(final), dtype=torch.long).view(-1, 2),
        first=torch.tensor(first),
        **{name: torch.tensor(list(values)) for name, values in numbers.items()},
    )


# --- targets --------------------------------------------------------------------------------------------------------

REWARD, VALUE = [1.0, -0.5, 2.0, 0.0, 1.0], [0.5, 0.2, -0.1, 0.4, 0.3]
GOLDEN = [1.619744, 1.3052, 2.91, 0.374, 0.7]  # truncated at 2 with value 0.9, terminated at 4
NAN = float("nan")


@pytest.fixture
def honest():
    """A PPO whose value of an observation is the observation."""
    ppo = learner(PPOConfig(gamma=0.9, gae_lambda=0.8, normalize_values=False))
    ppo.net.value = lambda obs: obs["obs"]
    return ppo


def columns(*lists):
    return [list(row) for row in zip(*lists, strict=True)]


def test_targets_bootstrap_a_truncated_decision_from_its_final_observation(honest):
    batch = honest.targets(
        rollout(columns(VALUE), columns(REWARD), terminated=[(4, 0)], truncated=[(2, 0)], final={(2, 0): 0.9}, last=77)
    )
    assert batch.advantage.tolist() == pytest.approx(GOLDEN, abs=1e-6)
    assert batch.value_target.flatten().tolist() == pytest.approx([2.119744, 1.5052, 2.81, 0.774, 1.0], abs=1e-6)
    assert batch.value.flatten().tolist() == pytest.approx(VALUE)


def test_targets_of_an_open_fragment_bootstrap_from_what_the_slot_saw_last(honest):
    batch = honest.targets(rollout(columns(VALUE), columns(REWARD), last=0.6))
    assert batch.advantage.tolist() == pytest.approx([1.671178, 1.376636, 3.009216, 0.7628, 1.24], abs=1e-6)
    assert batch.value_target.flatten().tolist() == pytest.approx(
        [2.171178, 1.576636, 2.909216, 1.1628, 1.54], abs=1e-6
    )


def test_a_decision_that_is_terminated_and_truncated_has_no_future(honest):
    both = rollout(columns(VALUE), columns(REWARD), terminated=[(2, 0), (4, 0)], truncated=[(2, 0)])
    assert honest.targets(both).advantage.tolist() == pytest.approx([1.19984, 0.722, 2.1, 0.374, 0.7], abs=1e-6)


@pytest.mark.parametrize("garbage", [0.0, 1e30, NAN])
def test_rows_beyond_the_length_of_a_fragment_leak_nowhere(honest, garbage):
    # the golden fragment three times: whole, with three rows of garbage behind it, and cut after row 2 and 0
    pad = [garbage] * 3
    obs = columns([*VALUE, *pad], [*VALUE[:3], garbage, garbage, *pad], [VALUE[0], *[garbage] * 7])
    reward = columns([*REWARD, *pad], [*REWARD[:3], garbage, garbage, *pad], [REWARD[0], *[garbage] * 7])
    data = rollout(
        obs, reward, terminated=[(4, 0)], truncated=[(2, 0), (2, 1)], final={(2, 1): 0.9, (2, 0): 0.9},
        last=[5.0, 5.0, 0.2], length=[5, 3, 1],
    )  # fmt: skip
    batch = honest.targets(data)
    # row by row over the fragments: t0 (three of them), t1 and t2 (two), t3 and t4 (one)
    expected = [GOLDEN[0], GOLDEN[0], 1 + 0.9 * 0.2 - 0.5, GOLDEN[1], GOLDEN[1], GOLDEN[2], GOLDEN[2], *GOLDEN[3:]]
    assert batch.advantage.tolist() == pytest.approx(expected, abs=1e-6)
    for tensor in (batch.obs["obs"], batch.value, batch.value_target, batch.logp):
        assert len(tensor) == 9
        assert tensor.isfinite().all()


def test_values_are_those_of_normalized_observations():
    ppo = learner(PPOConfig(model=ModelConfig(normalize_obs=True), normalize_values=False))
    ppo.policy.normalizer.update({"obs": torch.tensor([[1.0], [5.0]])})  # mean 3, deviation 2
    ppo.net.value = lambda obs: obs["obs"]
    data = rollout([[5.0], [3.0]], [[0.0], [0.0]], truncated=[(0, 0)], final={(0, 0): 7.0}, last=1.0)
    batch = ppo.targets(data)
    assert batch.value.flatten().tolist() == pytest.approx([1.0, 0.0])
    assert batch.obs["obs"].flatten().tolist() == pytest.approx([1.0, 0.0])
    assert batch.value_target.flatten().tolist() == pytest.approx([0.99 * 2, 0.99 * -1], abs=1e-5)


def test_advantages_of_a_batch_are_normalized_over_its_valid_rows_and_nothing_else_is(honest):
    data = rollout(np.arange(12.0).reshape(4, 3), np.random.default_rng(0).normal(size=(4, 3)), length=[4, 2, 4])
    plain = honest.targets(data)
    honest.cfg = honest.cfg.replace(normalize_advantage="batch")
    found = honest.targets(data)
    known = plain.advantage.numpy()
    assert known.shape == (10,)
    assert found.advantage.numpy() == pytest.approx((known - known.mean()) / known.std(), rel=1e-5)
    for name in ("action", "logp", "value_target", "value"):
        assert torch.equal(getattr(found, name), getattr(plain, name))


def test_advantages_of_a_batch_that_hardly_differ_are_not_blown_up():
    rows = torch.zeros(2)
    batch = Minibatch({}, rows, rows, torch.tensor([1.0, 1.0 + 1e-6]), rows, rows)
    assert normalize_advantages(batch).advantage.tolist() == pytest.approx(
        [-0.005, 0.005], rel=0.1
    )  # a float has 24 bits
    one = Minibatch({}, rows[:1], rows[:1], torch.tensor([3.0]), rows[:1], rows[:1])
    assert normalize_advantages(one).advantage.tolist() == [3.0]


# --- the loss -------------------------------------------------------------------------------------------------------


@dataclass
class Cfg:
    clip: float = 0.2
    value_coef: float = 0.5
    entropy_coef: float = 0.01
    normalize_advantage: bool = False
    value_clip: float | None = None
    value_loss_clip: float | None = None


def drawn(n=40, seed=0):
    """Random logits, old log-probabilities near the new ones, advantages of both signs; float64."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(n, 3))
    logp = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    action = rng.integers(3, size=n)
    old = logp[np.arange(n), action] + rng.normal(size=n) * 0.3
    advantage, value_target, value_old = rng.normal(size=(3, n)) * 2
    return logits, action, old, advantage, value_target, value_old, value_old + rng.normal(size=n)


def slow_loss(cfg, logits, action, old, advantage, value_target, value_old, value):
    """Equation 9, row by row."""
    rows = range(len(action))
    if cfg.normalize_advantage and len(action) > 1:
        mean = sum(advantage) / len(advantage)
        deviation = math.sqrt(sum((a - mean) ** 2 for a in advantage) / (len(advantage) - 1))
        advantage = [(a - mean) / (deviation + 1e-8) for a in advantage]
    policy, values, entropy, kl, clipped = [], [], [], [], []
    for i in rows:
        logp = logits[i] - math.log(sum(math.exp(x) for x in logits[i]))
        log_ratio = logp[action[i]] - old[i]
        ratio = math.exp(log_ratio)
        limited = min(max(ratio, 1 - cfg.clip), 1 + cfg.clip)
        policy.append(-min(ratio * advantage[i], limited * advantage[i]))
        guess = value[i]
        if cfg.value_clip is not None:
            guess = value_old[i] + min(max(guess - value_old[i], -cfg.value_clip), cfg.value_clip)
        error = (guess - value_target[i]) ** 2
        values.append(error if cfg.value_loss_clip is None else min(error, cfg.value_loss_clip))
        entropy.append(-sum(math.exp(x) * x for x in logp))
        kl.append(ratio - 1 - log_ratio)
        clipped.append(abs(ratio - 1) > cfg.clip)
    parts = {"policy_loss": policy, "value_loss": values, "entropy": entropy, "kl": kl, "clip_fraction": clipped}
    means = {name: sum(part) / len(part) for name, part in parts.items()}
    return means["policy_loss"] + cfg.value_coef * means["value_loss"] - cfg.entropy_coef * means["entropy"], means


def fast_loss(cfg, logits, action, old, advantage, value_target, value_old, value):
    parts = [torch.as_tensor(x) for x in (action, old, advantage)]
    parts += [torch.as_tensor(x).unsqueeze(1) for x in (value_target, value_old)]
    outputs = Outputs(Categorical(torch.as_tensor(logits)), torch.as_tensor(value).unsqueeze(1))
    return ppo_loss(outputs, Minibatch({}, *parts), cfg)


@pytest.mark.parametrize(
    "cfg",
    [
        Cfg(),
        Cfg(normalize_advantage=True),
        Cfg(value_clip=0.4),
        Cfg(value_loss_clip=1.5),
        Cfg(clip=0.05, value_coef=2.0, entropy_coef=0.3, value_clip=0.1, normalize_advantage=True),
    ],
)
def test_the_loss_equals_equation_9_row_by_row(cfg):
    data = drawn()
    loss, metrics = fast_loss(cfg, *data)
    expected, means = slow_loss(cfg, *data)
    assert loss.item() == pytest.approx(expected, rel=1e-12)
    assert {name: value.double().mean().item() for name, value in metrics.items()} == pytest.approx(means, rel=1e-6)
    assert 0 < means["clip_fraction"] < 1
    assert not any(value.requires_grad for value in metrics.values())


@pytest.mark.parametrize(
    ("ratio", "advantage", "expected", "moves"),
    [
        (1.5, 1.0, -1.2, False),  # better than thought, and already likelier than allowed: stop
        (1.5, -1.0, 1.5, True),  # worse than thought: the full, pessimistic price, and the way back is open
        (0.5, 1.0, -0.5, True),
        (0.5, -1.0, 0.8, False),
        (1.1, 1.0, -1.1, True),
        (1.1, -1.0, 1.1, True),
    ],
)
def test_the_clipped_objective_is_pessimistic_for_both_signs(ratio, advantage, expected, moves):
    logits = torch.zeros(1, 2, dtype=torch.float64, requires_grad=True)  # either action has probability 1/2
    old = torch.tensor([math.log(0.5 / ratio)])
    one = torch.ones(1, 1)
    batch = Minibatch({}, torch.tensor([0]), old, torch.tensor([advantage]), one, one)
    loss, _ = ppo_loss(Outputs(Categorical(logits), one), batch, Cfg(value_coef=0, entropy_coef=0))
    loss.backward()
    assert loss.item() == pytest.approx(expected, rel=1e-6)
    # d loss / d logit of the action = -ratio * advantage * (1 - 1/2), where it moves at all
    assert logits.grad[0, 0].item() == pytest.approx(-ratio * advantage / 2 if moves else 0.0, rel=1e-6)


@pytest.mark.parametrize(
    "cfg",
    [Cfg(), Cfg(value_loss_clip=1.0), Cfg(value_clip=0.4, normalize_advantage=True, entropy_coef=0.2)],
)
def test_the_gradient_of_the_loss_equals_finite_differences(cfg):
    logits, *rest, value = (torch.as_tensor(x) for x in drawn(12))

    def loss(logits, value):
        return fast_loss(cfg, logits, *rest, value)[0]

    assert torch.autograd.gradcheck(loss, (logits.requires_grad_(), value.requires_grad_()), eps=1e-7, atol=1e-6)


def test_the_loss_of_continuous_actions_takes_the_same_path():
    mean = torch.tensor([[0.0, 0.0], [1.0, -1.0]], dtype=torch.float64)
    distribution = DiagonalGaussian(mean, torch.zeros(2, dtype=torch.float64))
    action = torch.tensor([[0.5, 0.0], [1.0, -1.0]], dtype=torch.float64)
    logp = distribution.log_prob(action)
    ones = torch.ones(2, 1, dtype=torch.float64)
    batch = Minibatch({}, action, logp, torch.tensor([3.0, -1.0], dtype=torch.float64), ones, ones)
    loss, metrics = ppo_loss(Outputs(distribution, ones), batch, Cfg(entropy_coef=0.1))
    entropy = 2 * 0.5 * math.log(2 * math.pi * math.e)
    assert loss.item() == pytest.approx(-1.0 - 0.1 * entropy)  # ratios are 1: minus the mean advantage
    assert metrics["kl"].sum() == metrics["clip_fraction"].sum() == 0


def test_one_row_keeps_its_advantage_because_it_has_no_deviation():
    one = [x[:1] for x in drawn()]
    loss, _ = fast_loss(Cfg(normalize_advantage=True), *one)
    assert loss.item() == pytest.approx(slow_loss(Cfg(), *one)[0])


def test_the_loss_takes_advantages_of_a_batch_as_they_are():
    logits, *rest = drawn()
    of_batch, plain = (
        fast_loss(PPOConfig(normalize_advantage=setting), logits, *rest)[0] for setting in ("batch", False)
    )
    assert torch.equal(of_batch, plain)


def test_equal_advantages_push_nothing():
    logits, action, old, _, *rest = drawn()
    _, metrics = fast_loss(Cfg(normalize_advantage=True), logits, action, old, np.full(40, 2.0), *rest)
    assert metrics["policy_loss"].item() == 0


# --- updates --------------------------------------------------------------------------------------------------------


def playable(ppo, T=16, F=4, poison=None):
    """A rollout of the learner's own actions on random observations, in episodes of 5."""
    rng = np.random.default_rng(3)
    places = [(t, f) for t in range(4, T, 5) for f in range(F)]
    data = rollout(rng.normal(size=(T, F)).tolist(), rng.normal(size=(T, F)).tolist(), terminated=places)
    noise = torch.from_numpy(rng.random((T * F, 1), dtype=np.float32))
    with torch.no_grad():
        action, logp = ppo.policy.act({"obs": data.obs["obs"].flatten(0, 1)}, noise)
    data.action[:], data.logp[:] = action.view(T, F), logp.view(T, F)
    if poison is not None:
        data.reward[poison] = NAN
    return data


def test_the_first_gradient_step_sees_ratio_1():
    ppo = learner(PPOConfig(epochs=1, minibatch_size=1000))
    row = ppo.training_step(playable(ppo))
    assert row["kl"] == pytest.approx(0, abs=1e-6)
    assert row["clip_fraction"] == 0
    assert row["policy_loss"] == pytest.approx(0, abs=1e-6)  # the mean of normalized advantages


def test_an_update_makes_good_actions_likelier_and_values_better():
    ppo = learner(PPOConfig(epochs=20, lr=1e-2, entropy_coef=0.0))
    data = playable(ppo)
    data.reward[:] = (data.action == 1).float()
    data.terminated[:] = True  # every decision by itself: action 1 earns 1, others nothing
    before = ppo.policy({"obs": data.obs["obs"].flatten(0, 1)}).log_probs.exp().mean(0)
    first = ppo.training_step(data)
    after = ppo.policy({"obs": data.obs["obs"].flatten(0, 1)}).log_probs.exp().mean(0)
    assert after[1] > before[1] + 0.1
    assert ppo.training_step(data)["value_loss"] < first["value_loss"]


def test_an_update_is_epochs_times_minibatches_gradient_steps():
    ppo = learner(PPOConfig(epochs=3, minibatch_size=30))
    row = ppo.training_step(playable(ppo))  # 64 rows in parts of 21, 21, 22
    assert ppo.optimizer.steps == 9
    assert (row["epochs"], row["updates"], row["skipped_steps"]) == (3, 1, 0)


def test_a_divergence_past_its_target_ends_the_update_after_that_epoch():
    ppo = learner(PPOConfig(epochs=10, minibatch_size=16, lr=0.05, target_kl=1e-3))
    row = ppo.training_step(playable(ppo))
    assert row["epochs"] < 10
    assert ppo.optimizer.steps == 4 * row["epochs"]  # the epoch is finished
    endless = learner(PPOConfig(epochs=10, minibatch_size=16, lr=0.05))
    assert endless.training_step(playable(endless))["epochs"] == 10


@pytest.mark.parametrize(("start", "expected"), [(-9.0, -4.0), (1.9, 1.0), (-3.5, -3.5)])
def test_an_update_ends_with_the_log_standard_deviation_between_its_bounds(start, expected):
    box = spaces.Box(-1.0, 1.0, (2,), np.float32)
    subject = learner(PPOConfig(lr=1e-9), action=box)
    subject.policy.head.log_std.data.fill_(start)
    batch = rollout([[0.0], [1.0]], [[0.0], [1.0]])
    subject.training_step(replace(batch, action=torch.zeros(2, 1, 2)))
    assert torch.allclose(subject.policy.head.log_std, torch.full((2,), expected), atol=1e-6)


def test_a_first_log_standard_deviation_outside_of_its_bounds_is_refused():
    with pytest.raises(ConfigError, match=r"model.log_std_init = -5 is not between log_std_min = -4"):
        PPOConfig(model={"log_std_init": -5.0})


def test_schedules_go_by_the_env_steps_of_the_run():
    ppo = learner(PPOConfig(lr=Linear(1e-3, 0.0), clip=Linear(0.2, 0.1, steps=1000), epochs=1))
    ppo.env_steps, ppo.horizon = 500, 2000
    row = ppo.training_step(playable(ppo))
    assert (row["lr"], row["clip"]) == (pytest.approx(7.5e-4), pytest.approx(0.15))


def test_poisoned_minibatches_are_skipped_and_counted():
    ppo = learner(PPOConfig(epochs=1, minibatch_size=8, gae_lambda=0.0, scale_rewards=False))
    row = ppo.training_step(playable(ppo, poison=(0, 0)))  # one of 64 rows is not a number: one of 8 minibatches
    assert row["skipped_steps"] == 1
    assert ppo.optimizer.steps == 7
    assert all(p.isfinite().all() for p in ppo.net.parameters())
    assert all(value is None or math.isfinite(value) for name, value in row.items() if name != "explained_variance")


def test_ten_steps_in_a_row_that_are_not_finite_stop_the_run_and_name_policy_and_observation():
    ppo = learner(PPOConfig(epochs=3, minibatch_size=16))
    data = playable(ppo)
    data.reward.fill_(NAN)
    weights = ppo.optimizer.flat.data.clone()
    with pytest.raises(TrainingError, match=r"policy 'hero': 12 gradient steps in a row.*observations Box\(") as error:
        ppo.training_step(data)
    assert "policies.hero.lr" in str(error.value)
    assert torch.equal(ppo.optimizer.flat.data, weights)


def test_nine_steps_in_a_row_do_not():
    ppo = learner(PPOConfig(epochs=3, minibatch_size=22))
    data = playable(ppo)
    data.reward.fill_(NAN)
    assert ppo.training_step(data)["skipped_steps"] == 9
    assert ppo.training_step(playable(ppo))["skipped_steps"] == 9
    assert ppo.optimizer.steps == 9


def test_the_policy_is_the_first_slice_of_the_flat_parameters():
    for shared in (False, True):
        ppo = learner(PPOConfig(model=ModelConfig(shared_trunk=shared)))
        parts = [ppo.policy.head, ppo.policy.trunk, ppo.net.critic_trunk, ppo.net.value_head]
        inside = [p for part in parts if part is not None for p in part.parameters()]
        assert torch.equal(ppo.optimizer.flat.data, torch.cat([p.flatten() for p in inside]))
        assert {id(p) for p in inside} == {id(p) for p in ppo.net.parameters()}


def test_a_learner_goes_on_from_its_saved_state_bit_by_bit():
    cfg = PPOConfig(epochs=2, minibatch_size=16, scale_rewards=True)
    ppo, other = learner(cfg), learner(cfg, seed=9)
    ppo.training_step(playable(ppo))
    other.load_state_dict(ppo.state_dict())
    data = playable(ppo)
    assert ppo.training_step(data) == other.training_step(data)
    assert torch.equal(ppo.optimizer.flat.data, other.optimizer.flat.data)


# --- time limits ----------------------------------------------------------------------------------------------------


class Salary(gymnasium.Env):
    """Pays 1 for ever: worth 1 / (1 - 0.99) = 100. Ended after 20 steps, it were worth 18 at first, 10 on average."""

    observation_space, action_space = NUMBER, spaces.Discrete(2)

    def __init__(self, limit):
        self.limit = limit

    def reset(self, *, seed=None, options=None):
        self.t = 0
        return np.ones(1, np.float32), {}

    def step(self, action):
        self.t += 1
        over = self.t % 20 == 0
        ends = {"truncated": (False, over), "terminated": (over, False)}[self.limit]
        return np.ones(1, np.float32), 1.0, *ends, {}


class Constant(nn.Module):
    """Features that are 1: the value is one number."""

    num_features = 1

    def __init__(self, obs_space):
        super().__init__()

    def forward(self, obs):
        return torch.ones(len(obs), 1)


@pytest.mark.parametrize("limit", ["truncated", slow("terminated")])
def test_a_time_limit_does_not_lower_the_value_and_an_end_does(limit):
    cfg = PPOConfig(
        lr=0.15, gamma=0.99, gae_lambda=0.95, epochs=25, minibatch_size=128, fragment_length=32, max_grad_norm=None,
        value_coef=5.0, model=ModelConfig(module=Constant),
    )  # fmt: skip
    trainer = Trainer(lambda: Salary(limit), cfg, num_envs=4, seed=0)
    for _ in range(50):
        trainer.train_iteration()
    with torch.no_grad():
        learner = trainer.learners["main"]
        value = learner.net.value({"obs": torch.ones(1, 1)}).item() * learner.value_scale.unit
    if limit == "truncated":
        assert value == pytest.approx(100, abs=5)
    else:
        assert value < 20, value


@dataclass(frozen=True)
class SquashedPPO(PPOConfig):
    """PPO with the head of SAC."""

    @property
    def head(self):
        return Squashed()


@pytest.mark.regression("unclear error", "A squashed head under an on-policy algorithm is refused in one line")
@pytest.mark.parametrize("native", [True, False])
def test_a_squashed_head_is_refused_whose_actions_do_not_say_how_likely_they_were(native):
    settings = SquashedPPO(model={"hidden": (8,), "native": native})
    with pytest.raises(
        ConfigError, match=r"policy 'main': its head \(SquashedHead\) is for algorithms that learn from replay"
    ):
        Trainer("Pendulum-v1", settings, seed=0, console="quiet")
