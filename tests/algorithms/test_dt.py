"""The Decision Transformer: its loss and a batch worked out by hand, acting for a return, exact resume, refusals."""

from __future__ import annotations

import math

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces

from recorded import keep, poles
from rookery import BCConfig, DTConfig, ModelConfig, MultiAgentArena, PPOConfig, Trainer, load_policy
from rookery.algorithms.offline.dt import DecayedAdam, WindowBatch, dt_loss, scatter_rows
from rookery.core.flat import flatten
from rookery.core.optim import Adam
from rookery.models.distributions import Categorical
from rookery.models.squashed import NoisyAction

SIZES = {"context": 4, "layers": 1, "width": 16, "heads": 2}
QUICK = DTConfig(**SIZES, batch_size=16, lr=1e-3, warmup_steps=10, gradient_steps=30)
SEEN, PUSH = spaces.Box(-9, 9, (2,), np.float32), spaces.Box(-2, 2, (1,), np.float32)


def numbers(path, returns=(10.0, -40.0, 5.0), length=6):
    """Episodes of numbers that are cut off; each earns one of these returns, evenly."""
    rng = np.random.default_rng(0)
    episodes = [
        {"obs": rng.normal(3, 2, (length + 1, 2)), "action": rng.uniform(-1, 1, (length, 1)),
         "reward": np.full(length, value / length)}
        for value in returns
    ]  # fmt: skip
    return keep(path, SEEN, PUSH, episodes)


def weights(trainer):
    return torch.cat([value.detach().double().flatten() for value in trainer.policies["main"].state_dict().values()])


def moments(trainer):
    return torch.cat([value.flatten().double() for value in trainer.learners["main"].optimizer.state_dict().values()])


# --- loss and batch ---------------------------------------------------------------------------------------------------


def test_the_loss_of_numbers_is_their_square_error_and_of_choices_their_likelihood():
    batch = WindowBatch({}, torch.tensor([[0.5, 0.0], [-1.0, 0.0]]), torch.zeros(2), torch.zeros(2), torch.ones(1, 2))
    behavior = NoisyAction(torch.tensor([[0.1, 0.0], [0.0, 0.2]]), torch.tensor(0.0))
    assert float(dt_loss(behavior, batch, None)[0]) == pytest.approx((0.16 + 0.0 + 1.0 + 0.04) / 4)
    batch = WindowBatch({}, torch.tensor([0, 2]), torch.zeros(2), torch.zeros(2), torch.ones(1, 2))
    logits = Categorical(torch.tensor([[1.0, 0.0, -1.0], [0.0, 0.0, 0.0]]))
    loss, metrics = dt_loss(logits, batch, None)
    first, second = math.log(math.e + 1 + 1 / math.e) - 1, math.log(3)
    assert float(loss) == float(metrics["dt_loss"]) == pytest.approx((first + second) / 2)


def test_rows_are_spread_over_the_places_that_hold_one():
    there = torch.tensor([[False, True, True], [False, False, True]])
    assert scatter_rows(torch.tensor([1, 2, 3]), there).tolist() == [[0, 1, 2], [0, 0, 3]]
    rows = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    assert scatter_rows(rows, there).tolist() == [[[0, 0], [1, 2], [3, 4]], [[0, 0], [0, 0], [5, 6]]]


def test_a_batch_holds_returns_of_whole_episodes_in_the_unit_of_the_network(tmp_path):
    one = {"obs": np.arange(8.0).reshape(4, 2), "action": [[0.5], [-3.0], [1.0]], "reward": [1.0, 2.0, -7.0]}
    path = keep(tmp_path / "data", SEEN, PUSH, [one])
    cfg = QUICK.replace(context=2, dropout=0.0, model=ModelConfig(hidden=(), normalize_obs=False))
    with Trainer(None, cfg, replay=path, seed=0) as trainer:
        learner = trainer.learners["main"]
        batch = learner.draw(cfg)
        size = 7.0  # of -4, -5 and -7 the largest
        known = {0: (-4.0, 0.5), 1: (-5.0, -1.0), 2: (-7.0, 1.0)}  # by time; an action was cut off at its bound
        for n, time in enumerate(batch.timestep.tolist()):
            assert batch.obs["obs"][n].tolist() == [2.0 * time, 2.0 * time + 1]
            assert float(batch.return_to_go[n]) == pytest.approx(known[time][0] / size)
            assert float(batch.action[n]) == known[time][1]
        sizes = batch.is_there.sum(1)
        assert set(sizes.tolist()) == {1, 2} and len(batch) == int(sizes.sum())
        assert learner.best_return == -4.0 and float(learner.transformer.return_scale) == 7.0
        assert float(learner.transformer.target_return) == -4.0


@pytest.mark.parametrize(
    ("kind", "returns", "part", "ends"),
    [
        ("average", (10.0, -40.0, 5.0), 1 / 6, [-1.0, 0.25]),
        (None, (-10.0, -40.0, -20.0), 1 / 6, [-1.0, -0.25]),
        (None, (10.0, -40.0, 5.0), 0.0, [-np.inf, np.inf]),
        ("total", (-10.0, -40.0, -20.0), 0.0, [-np.inf, np.inf]),
    ],
)
def test_losses_become_averages_in_the_range_of_the_data(kind, returns, part, ends, tmp_path):
    data = numbers(tmp_path / "data", returns)
    with Trainer(None, QUICK.replace(return_input=kind), replay=data, seed=0) as trainer:
        trainer.learn(1)
        net = trainer.learners["main"].transformer
        assert float(net.decision_part) == pytest.approx(part)
        assert net.return_range.tolist() == pytest.approx(ends)  # each episode earns evenly, in units of 40


def test_a_gradient_step_is_adam_on_weights_that_fall_first(tmp_path):
    def stepped(kind, **more):
        layer = torch.nn.Linear(2, 1)
        torch.nn.init.constant_(layer.weight, 2.0)
        flat = flatten([layer])
        flat.grad.fill_(0.5)
        optimizer = kind(flat, betas=(0.9, 0.999), eps=1e-8, **more)
        optimizer.move(0.1, torch.tensor(0.0), None)
        return flat.data.clone()

    theirs = torch.nn.Linear(2, 1)
    torch.nn.init.constant_(theirs.weight, 2.0)
    with torch.no_grad():
        theirs.bias.fill_(0.25)
    plain, decayed = stepped(Adam), stepped(DecayedAdam, decay=0.3)
    torch.testing.assert_close(plain[:2] - decayed[:2], torch.full((2,), 2.0 * 0.1 * 0.3))
    wanted = torch.optim.AdamW(theirs.parameters(), lr=0.1, weight_decay=0.3)
    theirs.weight.grad = torch.full((1, 2), 0.5)
    wanted.step()
    torch.testing.assert_close(decayed[:2], theirs.weight.detach().flatten())


def test_the_learning_rate_warms_up(tmp_path):
    cfg = QUICK.replace(warmup_steps=4, lr=0.01)
    with Trainer(None, cfg, replay=numbers(tmp_path / "data"), seed=0) as trainer:
        rates = []
        for _ in range(6):
            trainer.learn(1)
            rates.append(trainer._last_learning["main"]["learning_rate"])
    assert rates == pytest.approx([0.0025, 0.005, 0.0075, 0.01, 0.01, 0.01])


# --- a run ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["numbers", "choices"])
def test_a_run_on_data_goes_on_bit_for_bit(kind, tmp_path):
    path = numbers(tmp_path / "data") if kind == "numbers" else poles(tmp_path / "data", 2)
    with Trainer(None, QUICK, replay=path, seed=0) as trainer:
        before = weights(trainer)
        trainer.learn(10)
        trainer.learn(10)
        whole, kept = weights(trainer), moments(trainer)
        assert not torch.equal(before, whole)
    with Trainer(None, QUICK, replay=path, seed=0, run_dir=tmp_path / "run") as trainer:
        trainer.learn(10)
    with Trainer.load(tmp_path / "run", resume=True) as trainer:
        trainer.learn(10)
        assert torch.equal(whole, weights(trainer)) and torch.equal(kept, moments(trainer))


def test_observations_are_normalized_by_the_data(tmp_path):
    with Trainer(None, QUICK, replay=numbers(tmp_path / "data"), seed=0) as trainer:
        trainer.learn(2)
        statistics = trainer.policies["main"].normalizer.statistics[0]
        assert float(statistics.count) == 18 and float(statistics.mean[0]) == pytest.approx(3, abs=1.5)
        trainer.learn(2)
        assert float(statistics.count) == 18


def test_the_target_is_the_best_return_unless_settings_say_another(tmp_path):
    path = numbers(tmp_path / "data")

    def target(trainer):
        return float(trainer.learners["main"].transformer.target_return)

    with Trainer(None, QUICK, replay=path, seed=0, run_dir=tmp_path / "run") as trainer:
        trainer.learn(3)
        assert target(trainer) == pytest.approx(10.0)
        assert trainer._last_learning["main"]["return_scale"] == pytest.approx(40.0)
    with Trainer.load(tmp_path / "run", config={"algorithm.target_return": -25.0}) as trainer:
        assert target(trainer) == -25.0
        trainer.learn(1)
        assert target(trainer) == -25.0
        trainer.save(tmp_path / "other")
    with Trainer.load(tmp_path / "other", config={"algorithm.target_return": None}) as trainer:
        assert target(trainer) == pytest.approx(10.0)
    assert float(load_policy(tmp_path / "other").memory.target_return) == -25.0
    with Trainer(None, QUICK.replace(target_return=3.0, return_scale=2.0), replay=path, seed=0) as trainer:
        assert target(trainer) == 3.0
        trainer.learn(1)
        assert target(trainer) == 3.0 and trainer._last_learning["main"]["return_scale"] == 2.0


def test_a_policy_that_is_saved_acts_as_it_did_and_is_told_its_rewards(tmp_path):
    path = poles(tmp_path / "data", 2)
    with Trainer("CartPole-v1", QUICK, replay=path, seed=0, run_dir=tmp_path / "run") as trainer:
        trainer.learn(20)
        mine = trainer.policies["main"]
        wanted = trainer.evaluate(2).returns
    policy, env = load_policy(tmp_path / "run"), gymnasium.make("CartPole-v1")
    assert policy.reward_column == 1 and policy.memory_size == 2 + 2 + 3 * (4 + 1 + 1)
    obs, _ = env.reset(seed=3)
    memory = other = reward = None
    for step in range(9):
        action, memory = policy.predict(obs, memory, reward=reward)
        again, other = mine.predict(obs, other, reward=reward)
        assert action == again and torch.equal(memory, other)
        assert float(memory[0, 2]) == step + 1
        assert float(memory[0, 3]) == pytest.approx((500.0 - step) / 500.0), "returns-to-go fall by what was earned"
        obs, reward, over, _, _ = env.step(action)
        if over:
            break
    with Trainer.load(tmp_path / "run") as trainer:
        assert trainer.evaluate(2).returns == wanted
    with pytest.raises(Exception, match=r"predict\(obs, memory, reward=...\)"):
        policy.predict(obs, memory)


def two_ways(path, episodes=40, length=8):
    """Half of the episodes push up at every step and earn 1 each, half push down and earn -1 each."""
    rng = np.random.default_rng(0)
    found = [
        {"obs": rng.normal(size=(length + 1, 2)), "action": np.full((length, 1), 0.8 * way), "reward": [way] * length}
        for way in [1.0, -1.0] * (episodes // 2)
    ]
    return keep(path, SEEN, PUSH, found)


def test_it_does_what_earned_as_much_as_it_is_told_to_earn(tmp_path):
    path = two_ways(tmp_path / "data")
    cfg = QUICK.replace(lr=3e-3, warmup_steps=20, batch_size=32, dropout=0.0)
    seen = np.random.default_rng(1).normal(size=(50, 2)).astype(np.float32)

    def first_action(target):
        policy.memory.target_return.fill_(target)
        return float(policy.predict(seen)[0].mean())

    with Trainer(None, cfg, replay=path, seed=0) as trainer:
        trainer.learn(180)
        policy = trainer.policies["main"]
        assert first_action(8.0) == pytest.approx(1.6, abs=0.3)
        assert first_action(-8.0) == pytest.approx(-1.6, abs=0.3)
    with Trainer(None, BCConfig(model=ModelConfig(hidden=(16,)), lr=3e-3), replay=path, seed=0) as trainer:
        trainer.learn(180)  # the control: without returns the two halves cannot be distinguished
        assert abs(float(trainer.policies["main"].predict(seen).mean())) < 0.5


def of_signs(number, equal, rng):
    """Observations of two numbers of the same sign or of opposite ones."""
    sign = rng.choice([-1.0, 1.0], number)
    size = rng.uniform(0.5, 2.0, (number, 2))
    return (size * np.stack([sign, np.where(equal, sign, -sign)], 1)).astype(np.float32)


def test_an_observation_late_in_an_episode_has_the_action_that_it_had_early(tmp_path):
    """In the data, as in those of a good policy, one kind of observation is met at the first steps alone."""
    rng, length, early = np.random.default_rng(0), 20, 6
    first = np.arange(length + 1) < early
    action = np.where(first, 0.8, -0.8)[:length, None]
    episodes = [
        {"obs": of_signs(length + 1, first, rng), "action": action, "reward": np.zeros(length)} for _ in range(40)
    ]
    path = keep(tmp_path / "data", SEEN, PUSH, episodes)
    sizes = {"context": 2, "layers": 1, "width": 16, "lr": 3e-3, "warmup_steps": 20}

    def late_action(**more):
        with Trainer(None, DTConfig(**sizes, **more), replay=path, seed=0) as trainer:
            trainer.learn(400)
            policy, memory, rng = trainer.policies["main"], None, np.random.default_rng(1)
            for step in range(16):
                reward = np.zeros(50, np.float32) if step else None
                action, memory = policy.predict(of_signs(50, step == 15, rng), memory, reward=reward)
            return float(np.mean(action))

    assert late_action() > 0.8
    assert late_action(timesteps=1000, dropout=0.1) < -0.8  # the control: the time step is all that it learns


def test_the_end_of_a_bad_episode_is_no_example_for_a_good_one(tmp_path):
    """Rewards are losses: the last decisions of a bad episode have as little left to lose as a good episode's first."""
    rng, length = np.random.default_rng(0), 20
    episodes = [
        {"obs": rng.normal(size=(length + 1, 2)).astype(np.float32), "action": np.full((length, 1), action),
         "reward": np.full(length, reward)}
        for action, reward in [(0.8, -0.05), *[(-0.8, -1.0)] * 4] * 8
    ]  # fmt: skip
    path = keep(tmp_path / "data", SEEN, PUSH, episodes)
    sizes = {"context": 1, "layers": 1, "width": 16, "lr": 3e-3, "warmup_steps": 20}

    def first_action(**more):
        with Trainer(None, DTConfig(**sizes, **more), replay=path, seed=0) as trainer:
            trainer.learn(200)
            return float(trainer.policies["main"].predict(rng.normal(size=(50, 2)).astype(np.float32))[0].mean())

    assert first_action() > 1.2  # in units of the environment, whose bound is 2
    assert first_action(return_input="total") < 1.2  # the control


def test_pictures_and_masks_go_in(tmp_path):
    rng = np.random.default_rng(0)
    seen = spaces.Dict({
        "observation": spaces.Box(0, 255, (12, 12, 3), np.uint8),
        "action_mask": spaces.Box(0, 1, (3,), np.int8),
    })  # fmt: skip
    mask = np.array([[1, 1, 0]] * 9, np.int8)
    one = {"obs": {"observation": rng.integers(0, 256, (9, 12, 12, 3)), "action_mask": mask},
           "action": rng.integers(0, 2, 8), "reward": np.ones(8), "terminated": True}  # fmt: skip
    path = keep(tmp_path / "data", seen, spaces.Discrete(3), [one, one])
    with Trainer(None, QUICK, replay=path, seed=0) as trainer:
        trainer.learn(3)
        policy = trainer.policies["main"]
        obs = {
            "observation": one["obs"]["observation"][0].astype(np.uint8),
            "action_mask": np.array([0, 0, 1], np.int8),
        }
        action, memory = policy.predict(obs)
        assert action == 2 and policy.predict(obs, memory, reward=1.0)[0] == 2


def test_beside_one_that_plays_it_learns_its_data_alone(tmp_path):
    env = MultiAgentArena()
    first, second = env.possible_agents[:2]
    seen, act = env.observation_spaces[second], env.action_spaces[second]
    obs = np.stack([seen.sample() for _ in range(41)])
    path = keep(tmp_path / "data", seen, act, [{"obs": obs, "action": [0] * 40, "reward": np.ones(40)}])
    policies = {
        first: PPOConfig(fragment_length=8, epochs=1, model=ModelConfig(hidden=(8,))),
        second: QUICK.replace(replay={"start_from": (path,)}, updates_per_step=0.25),
    }
    mapping = {one: one for one in (first, second)}
    with Trainer(MultiAgentArena, policies=policies, policy_mapping=mapping, seed=0, num_envs=2) as trainer:
        trainer.train_iteration()
        learner = trainer.learners[second]
        assert len(learner.replay.buffer) == 40 and learner.replay.gradient_steps > 0
