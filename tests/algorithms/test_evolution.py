"""Evolution strategies: who plays which episode with which weights, and the step that returns make."""

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces

from rookery import ARSConfig, ESConfig, MultiAgentArena, PPOConfig, Trainer
from rookery.algorithms.algorithm import BatchHook
from rookery.algorithms.evolution.ars import ARS
from rookery.algorithms.evolution.es import ES, centered_ranks, shape_returns
from rookery.algorithms.evolution.population import CandidateReturns, returns_of
from rookery.core.errors import ConfigError
from rookery.core.seeding import Streams
from rookery.core.spaces.arrays import action_spec, obs_spec
from rookery.envs.vector.shares import SharesEnv
from rookery.models.candidates import direction
from rookery.rollout.candidates import CandidatePolicy

NUMBER = spaces.Box(-np.inf, np.inf, (1,), np.float32)
LINEAR = {"hidden": (), "normalize_obs": False}


class Line(gymnasium.Env):
    """Rewards the action itself, in episodes of 1 to 5 steps."""

    observation_space, action_space = NUMBER, spaces.Box(-1.0, 1.0, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.left = int(self.np_random.integers(1, 6))
        self.length = self.left
        return np.ones(1, np.float32), {}

    def step(self, action):
        self.left -= 1
        return np.ones(1, np.float32), float(action[0]) / self.length, self.left == 0, False, {}


class Watched(BatchHook):
    """Keeps the returns of each generation."""

    def __init__(self):
        self.returns, self.rollouts = [], []

    def before_targets(self, learner, rollout, rollouts):
        self.rollouts.append(rollout.map(lambda _, tensor: tensor.clone()))
        return rollout

    def before_update(self, learner, batch):
        self.returns.append(batch.returns.clone())
        return batch


class Shuffled(BatchHook):
    """Gives each candidate the return of another."""

    def before_update(self, learner, batch):
        order = torch.from_numpy(np.random.default_rng(learner.updates).permutation(len(batch.returns)))
        return CandidateReturns(batch.returns[order])


def learner(kind, cfg):
    policy = cfg.build_policy(
        obs_spec(NUMBER, Line.action_space), action_spec(Line.action_space), "hero", torch.Generator().manual_seed(0)
    )
    return kind(policy, cfg, Streams(0), "hero")


def line(cfg, **more):
    trainer = Trainer(Line, cfg, seed=3, **{"num_envs": 3, **more})
    watched = Watched()
    trainer.learners["main"].hooks.append(watched)
    return trainer, watched


def test_ranks_are_centered_and_equal_for_equal_returns():
    torch.testing.assert_close(centered_ranks(torch.tensor([[3.0, -1.0], [10.0, 7.0]])),
                               torch.tensor([[-1 / 6, -0.5], [0.5, 1 / 6]]))  # fmt: skip
    torch.testing.assert_close(centered_ranks(torch.tensor([1.0, 1.0, 5.0])), torch.tensor([-0.25, -0.25, 0.5]))
    assert not centered_ranks(torch.full((4, 2), 500.0)).any()


def test_shaping_by_mean_and_deviation_or_not_at_all():
    returns = torch.tensor([[1.0, 3.0], [5.0, 7.0]])
    torch.testing.assert_close(shape_returns(returns, "normalize"), (returns - 4) / 5**0.5)
    assert shape_returns(returns, "none") is returns


def test_the_estimate_of_es_is_that_of_the_paper():
    subject = learner(ES, ESConfig(num_directions=2, noise_std=0.5, return_shaping="none", model=LINEAR))
    weights = subject.direction_weights(torch.tensor([[4.0, 1.0], [2.0, 8.0]]), subject.cfg)
    assert weights.tolist() == [3 / (4 * 0.5), -6 / (4 * 0.5)]  # 1 / (n sigma) times the sum over all 4 candidates
    seed = int(subject.policy.head.seed)
    drawn = [direction(seed, 0, number, torch.zeros(2)) for number in range(2)]
    torch.testing.assert_close(subject.estimate(weights), 1.5 * drawn[0] - 3.0 * drawn[1])


def test_the_step_of_ars_is_that_of_the_paper():
    cfg = ARSConfig(num_directions=3, top_directions=2, lr=0.1, model=LINEAR)
    subject = learner(ARS, cfg)
    returns = torch.tensor([[4.0, 1.0], [2.0, 0.0], [-9.0, 8.0]])  # the second direction has no good candidate
    deviation = np.std([4, 1, -9, 8])
    weights = subject.direction_weights(returns, cfg)
    torch.testing.assert_close(weights, torch.tensor([3.0, 0.0, -17.0]) / (2 * deviation), check_dtype=False)
    before, estimate = subject.optimizer.flat.data.clone(), subject.estimate(weights)
    subject.optimizer.flat.write_gradient(-estimate)
    subject.optimizer.move(cfg.lr, torch.zeros(()), None)
    torch.testing.assert_close(subject.optimizer.flat.data, before + 0.1 * estimate)


def test_weights_decay_towards_0():
    trainer, _ = line(ESConfig(num_directions=2, weight_decay=0.5, optimizer="sgd", lr=0.1, return_shaping="ranks",
                               model=LINEAR))  # fmt: skip
    subject = trainer.learners["main"]
    subject.optimizer.flat.data.copy_(torch.tensor([2.0, -4.0]))
    subject.direction_weights = lambda returns, cfg: torch.zeros(2)
    trainer.train_iteration()
    torch.testing.assert_close(subject.optimizer.flat.data, torch.tensor([2.0, -4.0]) * 0.95)


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize(("num_envs", "episodes"), [(1, 1), (3, 2), (8, 1), (13, 1)])
def test_every_candidate_plays_its_episodes_with_its_own_weights(native, num_envs, episodes):
    model = {**LINEAR, "native": native}
    cfg = ESConfig(num_directions=4, episodes_per_candidate=episodes, noise_std=0.1, model=model)
    trainer, watched = line(cfg, num_envs=num_envs)
    subject = trainer.learners["main"]
    for generation in range(3):
        before = subject.optimizer.flat.data.clone()
        while len(watched.returns) == generation:
            trainer.train_iteration()
        rollout, expected = watched.rollouts[-1], []
        for candidate in range(8):
            drawn = direction(int(subject.policy.head.seed), generation, candidate // 2, before)
            weights = before + 0.1 * (-1) ** candidate * drawn
            expected.append(weights.sum().clamp(-1, 1))  # the return of each of its episodes, whatever their length
            mine = rollout.valid & (rollout.logp == candidate)
            assert int((mine & (rollout.terminated | rollout.truncated)).sum()) == episodes
        torch.testing.assert_close(watched.returns[-1], torch.stack(expected), atol=1e-5, rtol=1e-5)
    assert subject.updates == 3


def test_a_generation_is_handed_over_when_its_last_episode_ends():
    trainer, watched = line(ESConfig(num_directions=4, model=LINEAR))
    for _ in range(8):
        trainer.train_iteration()
    for rollout in watched.rollouts:
        counts = rollout.valid & ~rollout.logp.isnan()
        moment = rollout.clock + torch.arange(len(rollout.logp)).unsqueeze(1)
        assert moment[counts].max() == moment[rollout.valid].max()  # no step after it


def test_both_ways_of_acting_learn_the_same():
    rows = []
    for native in (True, False):
        trainer, _ = line(ESConfig(num_directions=4, model={"hidden": (8,), "native": native}), num_envs=4)
        for _ in range(4):
            row = trainer.train_iteration().policies["main"].learning
        rows.append(row)
    assert rows[0]["candidate_return_mean"] == pytest.approx(rows[1]["candidate_return_mean"], abs=1e-4)


@pytest.mark.parametrize("cfg", [ESConfig(num_directions=4, lr=0.05, model=LINEAR), ARSConfig(num_directions=4)])
@pytest.mark.parametrize("shuffled", [False, True])
def test_returns_rise_unless_they_are_shuffled_among_candidates(cfg, shuffled):
    trainer, watched = line(cfg)
    if shuffled:
        trainer.learners["main"].hooks.append(Shuffled())
    while trainer.learners["main"].updates < 30:
        trainer.train_iteration()
    assert (watched.returns[-1].mean() > 0.7) is not shuffled


def test_the_policy_itself_acts_by_the_learned_weights():
    trainer, _ = line(ARSConfig(num_directions=2, noise_std=5.0, model=LINEAR))
    policy = trainer.policies["main"]
    assert policy.predict(np.ones(1, np.float32)) == pytest.approx(
        float(policy.head.linear.weight.detach().sum() + policy.head.linear.bias.detach().sum()), abs=1e-6
    )
    assert isinstance(trainer._pool.worker.policies["main"], CandidatePolicy)


def test_an_interrupted_episode_counts_as_ended():
    trainer, _ = line(ESConfig(num_directions=2, model=LINEAR))
    trainer._pool.sample(3)
    mine = trainer._pool.worker.policies["main"]
    ended, running = mine.ended, int((mine.task >= 0).sum())
    for slot in np.flatnonzero(mine.task >= 0).tolist():
        mine.interrupt(slot, trainer._pool.worker.now.rows[0].obs, slot)
    assert mine.ended == ended + running and (mine.task < 0).all() and mine.fresh.all()


def test_returns_are_of_decisions_that_count():
    trainer, watched = line(ESConfig(num_directions=2, model=LINEAR))
    trainer.train_iteration()
    rollout = watched.rollouts[0]
    rollout.reward[rollout.logp.isnan()] = 1e6
    torch.testing.assert_close(returns_of(rollout, 4, 1), watched.returns[0])


def test_refusals():
    with pytest.raises(ConfigError, match=r"top_directions = 9: there are 8 directions"):
        Trainer(Line, ARSConfig(top_directions=9))
    with pytest.raises(ConfigError, match=r"asynchronous = true: policy 'main' is trained by ES, which cannot learn"):
        Trainer(Line, ESConfig(), sampling={"workers": 2, "asynchronous": True}, cluster={"ray": "here"})


@pytest.mark.slow
def test_environment_processes_change_nothing():
    found = []
    for processes in (0, 2):
        with Trainer(Line, ESConfig(num_directions=4), seed=3, num_envs=4,
                     sampling={"env_processes": processes}) as trainer:  # fmt: skip
            assert isinstance(trainer.env, SharesEnv) is (processes > 0)
            trainer.train_iteration()
            found.append(trainer.learners["main"].optimizer.flat.data.clone())
    assert torch.equal(*found)


# --- workers ----------------------------------------------------------------------------------------------------------


def with_workers(workers, cfg, updates=4, env=Line, **more):
    """Trains; returns weights and returns of the generations."""
    sampling = {"workers": workers, "num_envs": 6}
    cluster = {"cluster": {"ray": "here"}} if workers else {}
    with Trainer(env, cfg, seed=3, sampling=sampling, **cluster, **more) as trainer:
        watched = Watched()
        trainer.learners["main"].hooks.append(watched)
        for _ in range(updates):
            result = trainer.train_iteration()
        assert trainer.learners["main"].updates == updates and result.exact is (workers < 2)
        return trainer.learners["main"].optimizer.flat.data.clone(), torch.stack(watched.returns), watched.rollouts


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("episodes", [1, 3])
def test_any_number_of_workers_finds_the_same_returns(workers, episodes):
    cfg = ESConfig(num_directions=5, episodes_per_candidate=episodes, noise_std=0.1, model=LINEAR)
    alone, workers_of = with_workers(0, cfg), with_workers(workers, cfg)
    for one, two in zip(alone[:2], workers_of[:2], strict=True):  # a return is that of the weights, in any episode
        torch.testing.assert_close(one, two, atol=1e-5, rtol=1e-5)
    for rollout in workers_of[2]:
        for candidate in range(10):
            mine = rollout.valid & (rollout.logp == candidate)
            assert int((mine & (rollout.terminated | rollout.truncated)).sum()) == episodes


def test_workers_without_a_candidate_of_their_own_wait_too():
    cfg = ESConfig(num_directions=1, model=LINEAR)
    alone, three = with_workers(0, cfg), with_workers(3, cfg)
    torch.testing.assert_close(alone[1], three[1], atol=1e-5, rtol=1e-5)


def test_workers_share_the_statistics_of_observations():
    cfg = ARSConfig(num_directions=4, lr=0.05)
    _, returns, _ = with_workers(2, cfg, updates=30)
    assert returns[-1].mean() > 0.7 > returns[0].mean()


def test_a_run_with_workers_resumes_within_a_generation(tmp_path):
    cfg, settings = ESConfig(num_directions=6, model=LINEAR), {"workers": 2, "num_envs": 4}

    def made():
        return Trainer(Line, cfg, seed=3, sampling={**settings, "iteration_steps": 5}, cluster={"ray": "here"})

    with made() as whole, made() as first:
        for _ in range(20):
            whole.train_iteration()
        for _ in range(7):
            first.train_iteration()
        assert any(first._pool.parts["main"]) or any(first._pool.standing[0].complete.values())
        first.save(tmp_path / "run")
    with Trainer.load(tmp_path / "run", cluster={"ray": "here"}) as second:
        for _ in range(13):
            second.train_iteration()
        assert second.learners["main"].updates == whole.learners["main"].updates > 2
        assert torch.equal(second.learners["main"].optimizer.flat.data, whole.learners["main"].optimizer.flat.data)


def test_lost_workers_play_their_part_again():
    cfg = ESConfig(num_directions=5, noise_std=0.1, model=LINEAR)
    alone, watched = with_workers(0, cfg)[1], Watched()
    sampling = {"workers": 2, "num_envs": 6, "iteration_steps": 6}
    with Trainer(Line, cfg, seed=3, sampling=sampling, cluster={"ray": "here"}) as trainer:
        trainer.learners["main"].hooks.append(watched)
        for number in range(40):
            trainer.train_iteration()
            if number in (1, 2, 5):
                trainer._pool.hosts.lose(number % 2)
        assert trainer._pool.counted["workers_lost"] == 3 and len(watched.returns) >= 4
    torch.testing.assert_close(alone, torch.stack(watched.returns[:4]), atol=1e-5, rtol=1e-5)


def test_with_workers_policies_of_both_kinds_learn_beside_each_other():
    policies = {
        "one": ESConfig(num_directions=2),
        "two": PPOConfig(fragment_length=20, minibatch_size=40, epochs=1),
    }
    more = {"policies": policies, "policy_mapping": {"agent1": "one", "agent2": "two"}}
    sampling = {"workers": 2, "num_envs": 4, "iteration_steps": 800}
    with Trainer(MultiAgentArena, seed=3, sampling=sampling, cluster={"ray": "here"}, **more) as trainer:
        trainer.train_iteration()
        assert trainer.learners["one"].updates >= 1 < trainer.learners["two"].updates
