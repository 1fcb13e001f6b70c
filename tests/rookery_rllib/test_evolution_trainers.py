"""ES and ARS of 2021: the step that RLlib's keys make, whose returns results report, what has no effect."""

import numpy as np
import pytest
import torch
from restored import weights_of

from rookery.algorithms.algorithm import BatchHook
from rookery.core.errors import ConfigError
from rookery.models.candidates import direction
from rookery_rllib.base import machine
from rookery_rllib.config.translation import translated
from rookery_rllib.policy.callbacks import DefaultCallbacks
from rookery_rllib.trainer.trainers import ARSTrainer, ESTrainer
from rookery_rllib.tune import experiment

SMALL = {"env": "CartPole-v0", "num_workers": 2, "model": {"fcnet_hiddens": [4]}, "seed": 3}
FEW = {"episodes_per_batch": 6, "train_batch_size": 1}


@pytest.fixture(autouse=True)
def results(tmp_path, monkeypatch):
    monkeypatch.setenv("TUNE_RESULT_DIR", str(tmp_path / "results"))
    machine.use_machine(local_mode=True, num_cpus=None)
    yield tmp_path / "results"
    machine.use_machine(local_mode=False, num_cpus=None)


class Watched(BatchHook):
    """Keeps the returns of each generation."""

    def __init__(self):
        self.returns = []

    def before_update(self, learner, batch):
        self.returns.append(batch.returns.view(-1, 2).numpy())
        return batch


def one_step(trainer):
    """Makes one update; returns weights before and after, the returns, and the directions ``[n, W]``."""
    learner, watched = trainer.rookery.learners["default_policy"], Watched()
    learner.hooks.append(watched)
    before = learner.optimizer.flat.data.clone()
    generation, seed = int(learner.policy.head.generation), int(learner.policy.head.seed)
    trainer.train()
    (returns,) = watched.returns
    directions = np.stack([direction(seed, generation, n, before).numpy() for n in range(len(returns))])
    return before.numpy(), learner.optimizer.flat.data.numpy(), returns, directions


def test_the_step_of_es_is_that_of_rllib():
    trainer = ESTrainer({**SMALL, **FEW, "env": "Pendulum-v0", "l2_coeff": 0.1, "noise_stdev": 0.4, "stepsize": 0.03})
    before, after, returns, directions = one_step(trainer)
    assert returns.shape == (3, 2) and len(set(returns.flatten())) == 6  # without ties, ranks are RLlib's
    ranks = returns.flatten().argsort().argsort().reshape(3, 2) / 5 - 0.5
    gradient = -((ranks[:, 0] - ranks[:, 1]) @ directions) / 6 + 0.1 * before
    mean, square = 0.1 * gradient, 0.001 * gradient**2  # Adam's first step, as in ray/rllib/agents/es/optimizers.py
    step = 0.03 * np.sqrt(0.001) / 0.1 * mean / (np.sqrt(square) + 1e-8)
    np.testing.assert_allclose(after, before - step, atol=1e-5)


def test_the_step_of_ars_is_that_of_rllib():
    trainer = ARSTrainer({**SMALL, "num_rollouts": 10, "rollouts_used": 6, "noise_stdev": 0.4, "sgd_stepsize": 0.03})
    before, after, returns, directions = one_step(trainer)
    assert returns.shape == (5, 2)
    best = returns.max(1)
    used = best >= np.percentile(best, 100 * (1 - 6 / 10))
    assert 1 < used.sum() < 5
    step = (returns[used, 0] - returns[used, 1]) @ directions[used] / used.sum() / returns[used].std()
    np.testing.assert_allclose(after, before + 0.03 * step, atol=1e-5)


@pytest.mark.parametrize("rollouts", [1, 2, 7, 32, 50])
def test_as_many_directions_count_as_reach_the_quantile(rollouts):
    for used in (1, rollouts // 3 + 1, rollouts, rollouts + 5):
        settings = translated("ARS", {"num_rollouts": rollouts, "rollouts_used": used}).settings
        directions = settings["algorithm.num_directions"]
        best = np.arange(directions)
        percentile = 100 * (1 - min(used, rollouts) / rollouts)
        assert directions == -(-rollouts // 2)
        assert settings["algorithm.top_directions"] == (best >= np.percentile(best, percentile) - 1e-9).sum()


def test_results_report_the_learned_weights():
    trainer = ARSTrainer({**SMALL, "num_rollouts": 20, "eval_prob": 0.5, "noise_stdev": 50.0, "sgd_stepsize": 1e-9})
    result = trainer.train()
    candidates, learned = result["hist_stats"]["episode_reward"], result["episode_reward_mean"]
    assert np.std(candidates) > 20 and np.mean(candidates) > 1.5 * learned
    assert learned == pytest.approx(trainer.rookery.evaluate(episodes=20).return_mean, rel=0.2)
    plain = ARSTrainer({**SMALL, "num_rollouts": 20, "eval_prob": 0})
    result = plain.train()
    assert result["episode_reward_mean"] == np.mean(result["hist_stats"]["episode_reward"])


def test_reported_means_are_of_the_latest_iterations_with_evaluations():
    trainer = ESTrainer({**SMALL, **FEW, "eval_prob": 0.3, "report_length": 2})
    played = []
    play = trainer._evaluation.play

    def noted(count, deterministic):
        played.append(play(count, deterministic))
        return played[-1]

    trainer._evaluation.play = noted
    results = [trainer.train() for _ in range(5)]
    pairs = sum(result["episodes_this_iter"] for result in results) / 2
    assert sum(map(len, played)) == int(1 + pairs * 0.3 / 0.7) and len(played) == 5
    means = [np.mean([episode.reward for episode in each]) for each in played]
    reported = [result["episode_reward_mean"] for result in results]
    assert reported == [np.mean(means[max(end - 2, 0) : end]) for end in range(1, 6)]


def test_actions_are_the_most_probable_ones():
    trainer = ESTrainer({**SMALL, **FEW})
    assert len({trainer.compute_action([0.01, 0.02, 0.03, 0.04]) for _ in range(30)}) == 1
    policy = trainer.get_policy()
    assert len({int(policy.compute_actions(np.full((1, 4), 0.01, np.float32))[0][0]) for _ in range(30)}) == 1


def test_offset_lowers_rewards_before_learning():
    trainer = ARSTrainer({**SMALL, "num_rollouts": 4, "offset": 1})  # of each reward of 1 nothing remains
    before, after, returns, _ = one_step(trainer)
    assert not returns.any() and (before == after).all()


def test_a_restored_trainer_continues_the_run():
    config = {**SMALL, **FEW}
    whole, first, second = ESTrainer(config), ESTrainer(config), ESTrainer(config)
    for _ in range(3):
        whole.train()
    first.train()
    second.restore(first.save())
    for _ in range(2):
        second.train()
    for one, two in zip(weights_of(whole), weights_of(second), strict=True):
        assert torch.equal(torch.as_tensor(one), torch.as_tensor(two))


def test_callbacks_get_candidates_episodes():
    ended = []

    class Ends(DefaultCallbacks):
        def on_episode_end(self, *, episode, **kwargs):
            ended.append(episode.length)

    trainer = ESTrainer({**SMALL, **FEW, "eval_prob": 0, "callbacks": Ends})
    assert len(ended) == 0
    result = trainer.train()
    assert result["episodes_this_iter"] == len(ended) == result["info"]["episodes_so_far"] >= 6


def test_on_a_cluster_workers_divide_the_candidates():
    config = {"num_workers": 3, "num_envs_per_worker": 2, "sample_async": True}
    settings = translated("ARS", config, cluster="auto").settings
    assert (settings["sampling.workers"], settings["sampling.num_envs"]) == (3, 6)
    assert not settings["sampling.asynchronous"]  # an update needs all its episodes


@pytest.mark.parametrize(("name", "goal", "config"), [
    ("ES", 100, {"episodes_per_batch": 50}),
    ("ARS", 150, {"num_rollouts": 50, "rollouts_used": 25, "eval_prob": 0.5}),
])  # fmt: skip
def test_by_name_they_reach_a_stop(name, goal, config):
    config = {"env": "CartPole-v0", "num_workers": 2, "noise_size": 25_000_000, "seed": 1, **config}
    stop = {"episode_reward_mean": goal, "timesteps_total": 100_000}
    (trial,) = experiment.run(name, config=config, stop=stop, verbose=0).trials
    assert trial.last_result["episode_reward_mean"] >= goal


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ({"eval_prob": 1.0}, "eval_prob = 1.0: must be a number from 0 to below 1"),
        ({"noise_stdev": 0}, "noise_stdev = 0: must be above 0"),
        ({"model": {"use_lstm": True}}, "model.use_lstm = True: ES does not train policies with memory; use PPO"),
        ({"return_proc_mode": "none"}, "return_proc_mode = 'none': RLlib has no other mode"),
        ({"exploration_config": {"type": "EpsilonGreedy"}}, "ES does not support it: use StochasticSampling"),
        ({"num_rollouts": 3}, "it is a key of ARS, not of ES"),
    ],
)
def test_what_cannot_be_is_refused(config, text):
    with pytest.raises(ConfigError, match=text):
        ESTrainer({**SMALL, **config})
