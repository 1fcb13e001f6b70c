"""Reward signals: what each rewards, redone by hand; and that a run with them learns, resumes and repeats."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
import torch
from gymnasium import spaces

from rookery import (
    A2CConfig,
    APPOConfig,
    ConfigError,
    DQNConfig,
    IMPALAConfig,
    PPOConfig,
    PQNConfig,
    ReinforceConfig,
    SACConfig,
    Trainer,
)
from rookery.algorithms.on_policy.actor_critic import across_episodes
from rookery.core.batch import Decisions, Rollout
from rookery.core.errors import SpaceError
from rookery.core.io.files import FileError
from rookery.core.ops import gae
from rookery.core.seeding import Streams
from rookery.core.spaces.arrays import action_spec, obs_spec
from rookery.extend import RewardSignal, SignalConfig
from rookery.models.build import ModelConfig
from rookery.policies.policy import Policy
from rookery.signals.count import Count, CountConfig
from rookery.signals.curiosity import Curiosity, CuriosityConfig
from rookery.signals.gail import GAIL, DiscriminatorBatch, GAILConfig, discriminator_loss, gail_reward
from rookery.signals.rewards import RewardSignals, SignalsConfig
from rookery.signals.rnd import RND, RNDConfig
from rookery.signals.signal import ValueColumn, action_features, decisions_of
from selection import slow_except

BOX, TWO = spaces.Box(-10, 10, (3,), np.float32), spaces.Discrete(2)


def a_policy(obs_space=BOX, action_space=TWO, **model):
    action = action_spec(action_space)
    obs = obs_spec(obs_space, action)
    return Policy(obs, action, ModelConfig(**model), generator=torch.Generator().manual_seed(0))


def some_decisions(n=5, seed=0):
    g = torch.Generator().manual_seed(seed)
    obs, after = torch.randn(n, 3, generator=g), torch.randn(n, 3, generator=g)
    action = torch.randint(2, (n,), generator=g)
    terminated = torch.zeros(n, dtype=torch.bool)
    terminated[-1] = True
    return Decisions({"obs": obs}, action, {"obs": after}, terminated)


def layers(x, *pairs, activation=lambda x: np.maximum(x, 0)):
    for number, (weight, bias) in enumerate(pairs):
        x = x @ weight.detach().numpy().T + bias.detach().numpy()
        x = x if number == len(pairs) - 1 else activation(x)
    return x


def parts(module):
    """Weights and biases of the linear layers of a network of vectors, in order."""
    trunk = module.trunk
    return [(trunk.first.weight, trunk.first.bias), *[(one.weight, one.bias) for one in trunk.layers],
            (module.last.weight, module.last.bias)]  # fmt: skip


# --- numbers ----------------------------------------------------------------------------------------------------------


def test_gail_rewards_are_the_golden_numbers():
    assert gail_reward(torch.tensor([0.5, 0.99], dtype=torch.float64)).tolist() == pytest.approx(
        [0.693147, 4.605160], abs=1e-6
    )
    assert torch.isfinite(gail_reward(torch.tensor([1.0], dtype=torch.float64))).all()


def test_rnd_rewards_the_error_of_the_next_observation():
    rnd, seen = RND(a_policy(), RNDConfig(), Streams(0), "main/rnd"), some_decisions()
    rnd.observe(some_decisions(50, seed=1))
    statistics = rnd.normalizer.statistics[0]
    x = ((seen.next_obs["obs"] - statistics.mean32) * statistics.inverse_std32).clamp(-5, 5).numpy()
    expected = ((layers(x, *parts(rnd.target)) - layers(x, *parts(rnd.predictor))) ** 2).mean(1)
    expected[-1] = 0.0  # the next observation is unknown
    assert np.allclose(rnd.reward(seen).numpy(), expected, atol=1e-6)


def test_rnd_gets_used_to_what_it_sees_and_not_to_what_it_does_not():
    rnd = RND(a_policy(), RNDConfig(lr=1e-3, share=1.0, epochs=50), Streams(0), "main/rnd")
    known, other = some_decisions(64, seed=1), some_decisions(64, seed=2)
    for decisions in (known, other):
        for tree in (decisions.obs, decisions.next_obs):
            tree["obs"] += 3.0 if decisions is other else -3.0
    rnd.observe(known)
    rnd.observe(other)
    same = Decisions(known.obs, known.action, known.obs, known.terminated)
    before = rnd.reward(same)[:-1].mean(), rnd.reward(other)[:-1].mean()
    rnd.learn(known)
    after = rnd.reward(same)[:-1].mean(), rnd.reward(other)[:-1].mean()
    assert after[0] < 0.2 * before[0]
    assert after[1] > 0.5 * before[1]


def test_curiosity_rewards_half_the_squared_error_of_the_expected_features():
    curiosity, seen = Curiosity(a_policy(), CuriosityConfig(), Streams(0), "main/curiosity"), some_decisions()
    assert not curiosity.reward(seen).any()  # before it has learned
    curiosity.learn(seen)
    net = curiosity.net
    features, after = (layers(tree["obs"].numpy(), *parts(net)) for tree in (seen.obs, seen.next_obs))
    both = np.concatenate((features, np.eye(2)[seen.action.numpy()]), 1)
    ahead = [(layer.weight, layer.bias) for layer in net.ahead if hasattr(layer, "weight")]
    expected = 0.5 * ((layers(both, *ahead) - after) ** 2).sum(1)
    expected[-1] = 0.0
    assert np.allclose(curiosity.reward(seen).numpy(), expected, rtol=1e-4, atol=1e-6)
    capped = Curiosity(a_policy(), CuriosityConfig(largest=1e-3), Streams(0), "main/curiosity")
    capped.has_learned = True
    assert capped.reward(seen)[:-1].tolist() == pytest.approx([1e-3] * 4)


def test_a_count_is_one_over_the_root():
    count, seen = Count(a_policy(), CountConfig(), Streams(0), "main/count"), some_decisions(4)
    for _ in range(4):
        count.observe(seen)
    assert count.reward(seen).tolist() == pytest.approx([0.5, 0.5, 0.5, 0.0])
    assert count.summary() == {"seen": 3}
    assert count.reward(some_decisions(3, seed=9))[0] == 1.0


def test_the_slope_between_demonstrations_and_play_is_that_of_finite_differences():
    gail = GAIL(a_policy(), GAILConfig(), Streams(0), "main/gail")
    net = gail.net.double()
    expert, played, between = torch.randn(3, 4, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    outputs = net(DiscriminatorBatch(expert, played, between))
    eps = 1e-6
    by_hand = torch.zeros(4, 5, dtype=torch.float64)
    with torch.no_grad():
        for column in range(5):
            shift = torch.zeros(5, dtype=torch.float64)
            shift[column] = eps
            by_hand[:, column] = (net.logit(between + shift) - net.logit(between - shift)) / (2 * eps)
    assert torch.allclose(outputs.slope, by_hand.norm(dim=1), atol=1e-6)
    # and the gradient of the penalty with respect to a weight, through the gradient
    weight = net.layers[0].weight
    cfg = GAILConfig()

    def loss():
        return discriminator_loss(net(DiscriminatorBatch(expert, played, between)), None, cfg)[0]

    loss().backward()
    with torch.no_grad():
        weight[1, 2] += eps
        above = loss().item()
        weight[1, 2] -= 2 * eps
        below = loss().item()
        weight[1, 2] += eps
    assert weight.grad[1, 2].item() == pytest.approx((above - below) / (2 * eps), rel=1e-3, abs=1e-6)


class ShownDecisions:
    """Shows the same decisions again and again."""

    def decisions(self, number):
        return some_decisions(number, seed=7)


def with_bottleneck(**settings):
    gail = GAIL(a_policy(), GAILConfig(bottleneck=6, **settings), Streams(0), "main/gail")
    gail.imitate(ShownDecisions(), "these")
    return gail


def test_what_passes_a_bottleneck_is_a_divergence_from_noise():
    net = with_bottleneck().net
    with torch.no_grad():
        net.log_std.copy_(torch.linspace(-1, 1, 6))
    mean = torch.randn(5, 6, generator=torch.Generator().manual_seed(0))
    normal = torch.distributions.Normal
    told = torch.distributions.kl_divergence(normal(mean, net.log_std.exp()), normal(0.0, 1.0)).sum(1)
    assert torch.allclose(net.information(mean), told, atol=1e-5)


def test_a_bottleneck_disturbs_what_is_learned_and_not_what_is_rewarded():
    gail, seen = with_bottleneck(), some_decisions()
    assert torch.equal(gail.reward(seen), gail.reward(seen))
    inputs = gail.inputs(seen)
    noise = torch.randn(2, 5, 6, generator=torch.Generator().manual_seed(0))
    assert not torch.allclose(gail.net.logit(inputs, noise[0]), gail.net.logit(inputs, noise[1]))
    assert torch.allclose(gail.net.logit(inputs, torch.zeros(5, 6)), gail.net.logit(inputs))


def test_the_weight_of_the_limit_follows_what_passes():
    passed = {}
    for limit in (0.0, 50.0):
        gail = with_bottleneck(information=limit, information_lr=1.0, penalty=0.0, lr=1e-2)
        passed[limit] = [float(gail.fit(some_decisions(32, seed=k))["information"]) for k in range(30)][-1]
        assert (float(gail.net.weight) > 0) == (limit == 0.0)
        other = with_bottleneck()
        other.load_state_dict(gail.state_dict())
        assert float(other.net.weight) == float(gail.net.weight)
    assert passed[0.0] < 0.5 * passed[50.0]


def test_actions_of_all_kinds_are_numbers():
    space = spaces.Dict({"a": spaces.Discrete(3), "b": spaces.Box(-1, 1, (2,)), "c": spaces.MultiBinary(2)})
    spec = action_spec(space)
    stored = torch.tensor([[2.0, 1.0, 0.0, 0.5, -3.0]])
    assert action_features(stored, spec).tolist() == [[0.0, 0.0, 1.0, 1.0, 0.0, 0.5, -1.0]]
    multi = action_spec(spaces.MultiDiscrete([2, 3]))
    assert action_features(torch.tensor([[1, 0]]), multi).tolist() == [[0.0, 1.0, 1.0, 0.0, 0.0]]


def a_rollout(T=6, F=2):
    g = torch.Generator().manual_seed(0)
    terminated, truncated = torch.zeros(T, F, dtype=torch.bool), torch.zeros(T, F, dtype=torch.bool)
    terminated[2, 0] = truncated[3, 1] = terminated[5, 1] = True
    return Rollout(
        obs={"obs": torch.randn(T, F, 3, generator=g)},
        action=torch.zeros(T, F, dtype=torch.int64),
        logp=torch.zeros(T, F),
        reward=torch.randn(T, F, generator=g),
        terminated=terminated,
        truncated=truncated,
        last_obs={"obs": torch.randn(F, 3, generator=g)},
        final_obs={"obs": torch.randn(1, 3, generator=g)},
        boot_index=torch.tensor([[3, 1]]),
        slot=torch.arange(F),
        clock=torch.zeros(F, dtype=torch.int64),
        length=torch.tensor([5, 6]),
        first=torch.ones(F, dtype=torch.bool),
        version=torch.zeros(F, dtype=torch.int64),
    )


def test_decisions_see_what_came_next():
    rollout = a_rollout()
    seen = decisions_of(rollout)
    obs, after = rollout.obs["obs"], seen.next_obs["obs"]
    rows = [(t, f) for t in range(6) for f in range(2) if t < rollout.length[f]]
    assert len(seen) == len(rows)
    for number, (t, f) in enumerate(rows):
        if rollout.terminated[t, f]:
            assert seen.terminated[number]
        elif (t, f) == (3, 1):
            assert torch.equal(after[number], rollout.final_obs["obs"][0])
        elif t == rollout.length[f] - 1:
            assert torch.equal(after[number], rollout.last_obs["obs"][f])
        else:
            assert torch.equal(after[number], obs[t + 1, f])


def test_returns_that_are_not_episodic_go_on_through_ends():
    rollout = a_rollout()
    g = torch.Generator().manual_seed(1)
    value, last_value, final = (
        torch.randn(6, 2, 2, generator=g),
        torch.randn(2, 2, generator=g),
        torch.randn(2, generator=g),
    )
    next_value = torch.cat((value[1:], last_value[None]))
    next_value[4, 0] = last_value[0]
    next_value[3, 1] = final
    next_value[rollout.terminated] = 0.0
    ended = (rollout.terminated | rollout.truncated | rollout.last).unsqueeze(-1)
    columns = [ValueColumn(0.9), ValueColumn(0.8, episodic=False)]
    found, ends = across_episodes(rollout, value, next_value, ended, columns)
    reward = torch.randn(6, 2, 2, generator=g)
    advantage = gae(reward, value, found, ends, gamma=torch.tensor([0.9, 0.8]), gae_lambda=0.7)
    for f, length in enumerate(rollout.length.tolist()):
        for s, gamma in enumerate((0.9, 0.8)):
            later = 0.0
            for t in reversed(range(length)):
                over = bool(rollout.terminated[t, f] | rollout.truncated[t, f])
                if s == 0:
                    after = next_value[t, f, 0]
                    later = 0.0 if over else later
                elif t == length - 1:
                    after = value[t, f, 1] if over else last_value[f, 1]
                else:
                    after = value[t + 1, f, 1]
                later = reward[t, f, s] + gamma * after - value[t, f, s] + gamma * 0.7 * later
                assert advantage[t, f, s].item() == pytest.approx(float(later), abs=1e-5)


# --- in runs ----------------------------------------------------------------------------------------------------------

ALL = {"rnd": {"strength": 0.5}, "curiosity": {"strength": 0.1}, "count": {"strength": 0.2}}
LSTM = {"memory": {"kind": "lstm", "sequence_length": 8}}
ON_BOX = {"sampling.iteration_steps": 96}
LEARNERS = {
    "ppo": ("CartPole-v1", PPOConfig(fragment_length=32, signals=ALL), {}),
    "ppo-numbers": ("Pendulum-v1", PPOConfig(fragment_length=32, signals=ALL), {}),
    "ppo-lstm": ("CartPole-v1", PPOConfig(fragment_length=32, signals=ALL, model={"memory": {"kind": "lstm"}}), {}),
    "a2c": ("CartPole-v1", A2CConfig(signals=ALL), {}),
    "impala": ("CartPole-v1", IMPALAConfig(rollout_size=64, signals=ALL), {}),
    "appo": ("CartPole-v1", APPOConfig(fragment_length=16, rollout_size=64, signals=ALL), {}),
    "reinforce": ("CartPole-v1", ReinforceConfig(rollout_size=128, signals=ALL), {}),
    "pqn": ("CartPole-v1", PQNConfig(signals=ALL), {}),
    "dqn": ("CartPole-v1", DQNConfig(learning_starts=64, n_step=3, signals=ALL), {"sampling.iteration_steps": 112}),
    "r2d2": (
        "CartPole-v1",
        DQNConfig(learning_starts=64, signals=ALL, model=LSTM, batch_size=8),
        {"sampling.iteration_steps": 128},
    ),
    "sac": ("Pendulum-v1", SACConfig(learning_starts=64, batch_size=32, signals=ALL), ON_BOX),
    "sac-lstm": (
        "Pendulum-v1",
        SACConfig(learning_starts=64, batch_size=8, signals=ALL, model=LSTM),
        {"sampling.iteration_steps": 96},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", slow_except("ppo-lstm", "appo", "pqn", "dqn", "sac", of=LEARNERS))
def test_a_run_goes_on_as_if_it_had_not_stopped(name, tmp_path):
    env, cfg, settings = LEARNERS[name]
    with Trainer(env, cfg, num_envs=4, seed=0, config=settings) as trainer:
        trainer.train_iteration()
        checkpoint = trainer.save(tmp_path / "here")
        row = trainer.train_iteration().policies["main"].learning
        reported = {key for key in row if key.split("_")[0] in ALL}
        assert reported >= {"rnd_reward", "rnd_loss", "curiosity_reward", "count_reward", "count_seen"}
    with Trainer.load(checkpoint) as again:
        assert again.train_iteration().policies["main"].learning == row


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """Some play of CartPole, as replay."""
    folder = tmp_path_factory.mktemp("shown") / "run"
    with Trainer("CartPole-v1", DQNConfig(), num_envs=4, seed=0, run_dir=folder) as trainer:
        trainer.collect(env_steps=400)
        trainer.save()
    return str(folder)


def test_a_gail_run_goes_on_as_if_it_had_not_stopped(shown, tmp_path):
    cfg = PPOConfig(fragment_length=32, signals={"gail": {"replay": [shown]}, "extrinsic": {"strength": 0.0}})
    with Trainer("CartPole-v1", cfg, num_envs=4, seed=0) as trainer:
        trainer.train_iteration()
        checkpoint = trainer.save(tmp_path / "here")
        row = trainer.train_iteration().policies["main"].learning
        assert row["gail_expert_estimate"] is not None
    with Trainer.load(checkpoint) as again:
        assert again.train_iteration().policies["main"].learning == row


def test_demonstrations_of_other_spaces_are_refused(shown):
    with pytest.raises(SpaceError, match="it holds observations"):
        Trainer("Pendulum-v1", PPOConfig(signals={"gail": {"replay": [shown]}}), seed=0)
    with pytest.raises(FileError, match="nowhere"):
        Trainer("CartPole-v1", PPOConfig(signals={"gail": {"replay": ["nowhere"]}}), seed=0)


def test_kernels_go_on_working():
    with Trainer("CartPole-v1", PPOConfig(signals=ALL, fragment_length=32), num_envs=4, seed=0) as trainer:
        learner = trainer.learners["main"]
        trainer.train_iteration()
        assert learner.on_kernels
        assert learner.net.value_head.linear.out_features == 4
        assert learner.signals.others["rnd"].forward.kernels is not None


def test_kernels_learn_what_torch_learns():
    def learned(native):
        cfg = PPOConfig(
            signals={"rnd": {"model": {"native": native}}}, fragment_length=32, epochs=2, model={"native": native}
        )
        with Trainer("CartPole-v1", cfg, num_envs=4, seed=0) as trainer:
            trainer.train_iteration()
            return torch.cat([p.detach().flatten() for p in trainer.learners["main"].net.parameters()])

    assert torch.allclose(learned(True), learned(False), atol=1e-4)


def test_helpers_change_nothing():
    def learned(helpers):
        settings = {"sampling.env_processes": helpers, "env.implementation": "processes" if helpers else "serial"}
        with Trainer(
            "CartPole-v1", PPOConfig(signals=ALL, fragment_length=16), num_envs=4, seed=0, config=settings
        ) as trainer:
            return trainer.train_iteration().policies["main"].learning

    assert learned(0) == learned(2)


def test_the_rewards_of_windows_are_those_of_their_decisions():
    cfg = DQNConfig(learning_starts=64, n_step=3, gamma=0.9, signals={"count": {"strength": 0.5}}, batch_size=64)
    with Trainer("CartPole-v1", cfg, num_envs=4, seed=0, config={"sampling.iteration_steps": 256}) as trainer:
        trainer.train_iteration()
        learner = trainer.learners["main"]
        plain = learner.replay.sample(64, n_step=3, gamma=0.9, beta=0.0)
        seen = learner.before_update(plain)
        buffer, signal = learner.replay.own, learner.signals.others["count"]
        for number, serial in enumerate(plain.row.tolist()):
            row, total = serial % buffer.capacity, 0.0
            for power in range(3):
                after = int(buffer.after[row])
                if after == row:
                    break  # the episode terminated: nothing is known of what was seen then
                obs = {
                    path: torch.from_numpy(leaf) for path, leaf in buffer.observations.gather(np.array([after])).items()
                }
                total += 0.9**power * signal.counts[np.searchsorted(signal.codes, signal.code(obs)[0])] ** -0.5
                if after >= buffer.capacity:
                    break
                row = after
            assert seen.reward[number].item() == pytest.approx(plain.reward[number].item() + 0.5 * total, abs=1e-5)


@pytest.mark.parametrize(("pace", "steps"), [(1.0, 8), (0.25, 2), (2.0, 16)])
def test_signals_learn_from_replay_at_a_pace_of_their_own(pace, steps):
    cfg = DQNConfig(learning_starts=64, batch_size=8, signals={"rnd": {"updates_per_step": pace}})
    with Trainer("CartPole-v1", cfg, num_envs=4, seed=0, config={"sampling.iteration_steps": 128}) as trainer:
        trainer.train_iteration()
        learner = trainer.learners["main"]
        before = float(learner.signals.others["rnd"].optimizer.steps)
        learner.learn(8)
        assert float(learner.signals.others["rnd"].optimizer.steps) - before == steps


def test_the_environments_reward_alone_has_a_strength_too():
    cfg = DQNConfig(learning_starts=64, signals={"extrinsic": {"strength": 0.5}})
    with Trainer("CartPole-v1", cfg, num_envs=4, seed=0, config={"sampling.iteration_steps": 128}) as trainer:
        trainer.train_iteration()
        learner = trainer.learners["main"]
        drawn = learner.replay.sample(8, n_step=1, gamma=0.9, beta=0.0)
        assert learner.before_update(drawn).reward.tolist() == [0.5] * 8


def test_strengths_are_summed_or_their_mean_is_taken():
    def columns(**settings):
        signals = RewardSignals(
            SignalsConfig(rnd={"strength": 0.5, "gamma": 0.9}, **settings), a_policy(), Streams(0), "main"
        )
        return [(column.gamma, column.strength, column.episodic) for column in signals.columns(0.99)]

    assert columns() == [(0.99, 1.0, True), (0.9, 0.5, False)]
    assert columns(combine="mean") == [(0.99, 0.5, True), (0.9, 0.25, False)]
    assert columns(extrinsic={"strength": 0.0})[0] == (0.99, 0.0, True)


@dataclass(frozen=True)
class CautionConfig(SignalConfig):
    signal: ClassVar[str] = f"{__name__}:Caution"


class Caution(RewardSignal[CautionConfig]):
    """Rewards small numbers."""

    def reward(self, seen):
        return -seen.next_obs["obs"].abs().sum(1)


def test_a_signal_of_ones_own():
    cfg = PPOConfig(fragment_length=32, signals={"own": {"caution": CautionConfig(strength=0.1)}})
    with Trainer("CartPole-v1", cfg, num_envs=4, seed=0) as trainer:
        row = trainer.train_iteration().policies["main"].learning
        assert row["caution_reward"] < 0


# --- mistakes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"algorithm.signals.rnd.strength": -1}, "of at least 0"),
        ({"algorithm.signals.rmd.strength": 1}, "did you mean 'algorithm.signals.rnd"),
        ({"algorithm.signals.gail.strength": 1}, "needs demonstrations"),
        ({"algorithm.signals.own.mine.strength": 1}, "name is missing"),
    ],
)
def test_what_is_wrong_is_said(settings, said):
    with pytest.raises(ConfigError, match=said):
        Trainer("CartPole-v1", PPOConfig(), config=settings, seed=0).close()


def test_no_strength_is_reported_and_not_learned_from():
    with Trainer(
        "CartPole-v1", ReinforceConfig(rollout_size=256, signals={"rnd": {"strength": 0.0}}), num_envs=4, seed=0
    ) as trainer:
        row = trainer.train_iteration().policies["main"].learning
    with Trainer("CartPole-v1", ReinforceConfig(rollout_size=256), num_envs=4, seed=0) as plain:
        other = plain.train_iteration().policies["main"].learning
    assert row["rnd_reward"] > 0
    assert row["grad_norm"] == other["grad_norm"]
