"""Slots with their own exploration rates, as the actors of Ape-X, at any worker."""

import numpy as np
import pytest
import torch
from test_exploring_rollouts import playing

from rookery import DQNConfig, TD3Config, Trainer
from rookery.models.q_head import QValues
from rookery.models.squashed import Deterministic
from selection import slow

POWERS = 1 + 7 * np.arange(8) / 7


def played(head, steps, native=True, shift=None, **settings):
    """Returns the actions of eight lanes in some steps after the learner has set the exploration."""
    worker, made = playing(head, lanes=8, T=steps, native=native, **settings)
    worker.sample(8)
    for name, value in (shift or {}).items():
        getattr(made["main"].head, name).fill_(value)
    worker.set_weights(made)
    assert (worker.policies["main"].actor is not None) == native
    return worker.sample()["main"], made["main"]


def explored(rollout, policy):
    """The share of its decisions in which each slot did not take the best action."""
    seen = {path: leaf[: len(rollout.action)].flatten(0, 1) for path, leaf in rollout.obs.items()}
    best = policy.act(seen, None, True)[0].reshape(rollout.action.shape)
    return (rollout.action != best)[1:].double().mean(0)


def test_each_slot_acts_at_random_as_often_as_its_own_epsilon_says():
    rollout, policy = played(QValues(per_env_epsilon=7.0), 2000, choices=4, shift={"epsilon": 0.4})
    expected = torch.from_numpy(0.75 * 0.4**POWERS)
    assert (explored(rollout, policy) - expected).abs().max() < 0.035  # four standard deviations
    assert rollout.logp[1:].isnan().all()  # unknown, rather than that of the common epsilon
    rollout, policy = played(QValues(per_env_epsilon=7.0), 500, choices=4, shift={"epsilon": 1.0})
    assert explored(rollout, policy).min() > 0.6


def test_kernels_and_torch_take_the_same_actions():
    found = [
        played(QValues(per_env_epsilon=3.0), 64, native, choices=4, shift={"epsilon": 0.5})[0]
        for native in (True, False)
    ]
    assert torch.equal(found[0].action, found[1].action)


def test_numbers_spread_by_slot_and_are_even_while_all_are_random():
    rollout, _ = played(Deterministic(per_env_epsilon=7.0), 1000)
    expected = torch.from_numpy(0.4**POWERS)[2:]  # of the first two, the bounds cut some off
    torch.testing.assert_close(rollout.action[1:].double().std((0, 2))[2:], expected, rtol=0.1, atol=0.0)
    rollout, _ = played(Deterministic(per_env_epsilon=7.0), 1000, shift={"random": 1.0})
    assert rollout.action[1:].std((0, 2)).min() > 0.5


SMALL = {"learning_starts": 50, "batch_size": 16, "model": {"hidden": (16,)}}
LADDERS = {
    "dqn": ("CartPole-v1", DQNConfig(**SMALL, exploration={"epsilon": 0.4, "per_env_epsilon": 7.0})),
    "td3": ("Pendulum-v1", TD3Config(**SMALL, exploration={"std": 0.4, "per_env_epsilon": 7.0})),
}


@pytest.mark.parametrize("name", ["dqn", slow("td3")])
def test_workers_elsewhere_and_a_checkpoint_come_to_the_same_weights(name, tmp_path):
    env, cfg = LADDERS[name]

    def weights(workers, stop_at=None):
        sampling = {"num_envs": 6, "workers": workers, "iteration_steps": 120}
        given = {"seed": 3, "sampling": sampling, **({"cluster": {"ray": "here"}} if workers else {})}
        trainer = Trainer(env, cfg, run_dir=tmp_path / f"{workers}{stop_at}", **given)
        for _ in range(stop_at or 3):
            trainer.train_iteration()
        if stop_at:
            trainer.save()
            trainer.close()
            trainer = Trainer.load(tmp_path / f"{workers}{stop_at}", resume=True)
            for _ in range(3 - stop_at):
                trainer.train_iteration()
        with trainer:
            return torch.cat([part.detach().flatten() for part in trainer.policies["main"].parameters()])

    alone = weights(0)
    assert torch.equal(alone, weights(2))
    assert torch.equal(alone, weights(0, stop_at=2))
    cfg = cfg.replace(exploration={"per_env_epsilon": 0.0})
    assert not torch.equal(alone, weights(3))
