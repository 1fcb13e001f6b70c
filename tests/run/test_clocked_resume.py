"""Resuming after a kill in asynchronous environments: our own state is restored, environments begin anew."""

import numpy as np
import pytest
import torch

from rookery import Trainer
from rookery.envs.async_copies.async_env import AsyncCopiesEnv
from rookery.envs.async_copies.step_message import Asking
from selection import slow
from walkers import Squads, Walkers


class LateWalkers(Walkers):
    """Walkers beside whom agents of another behaviour appear after some step_messages."""

    def __init__(self, lanes, seed=0, late=30):
        super().__init__(lanes, seed)
        self.left = late

    def step_messages(self, seconds):
        found = super().step_messages(seconds)
        self.left -= len(found)
        for arrival in found:
            if self.left <= 0:
                self.behaviors["B"] = self.behaviors["A"]
                seen = {"obs": np.array([[7.0, 7.0]], np.float32)}
                arrival.asking = {**arrival.asking, "B": Asking([f"b{arrival.lane}"], seen, np.ones(1))}
        return found

    def answer(self, lane, episode, answers):
        super().answer(lane, episode, {name: one for name, one in answers.items() if name == "A"})


class LateEnv(AsyncCopiesEnv):
    def __init__(self, num_lanes, late=30):
        super().__init__(LateWalkers(num_lanes, late=late), num_lanes)


class SquadsEnv(AsyncCopiesEnv):
    def __init__(self, num_lanes, more_after=10**9):
        super().__init__(Squads(num_lanes, more_after=more_after), num_lanes)


SMALL = {
    "algorithm.fragment_length": 8,
    "algorithm.minibatch_size": 32,
    "algorithm.epochs": 1,
    "algorithm.model.hidden": [8],
    "sampling.iteration_steps": 60,
}


def trainer(env, algorithm="ppo", run_dir=None, **settings):
    return Trainer(env, algorithm, config={**SMALL, **settings}, seed=0, num_envs=2, console="quiet", run_dir=run_dir)


def weights(one):
    return {f"{name}/{key}": value.clone() for name, policy in one.policies.items() for key, value in
            policy.state_dict().items()}  # fmt: skip


def test_a_run_goes_on_from_any_step_with_kinds_that_had_appeared_late(tmp_path):
    policies = {"policies": ["A", "B"]}
    with Trainer(LateEnv, "ppo", config=SMALL, seed=0, num_envs=2, console="quiet", run_dir=tmp_path / "run",
                 policies=policies["policies"]) as one:  # fmt: skip
        for _ in range(3):
            one.train_iteration()
        one._pool.sample(7)  # fragments are open
        before, worker = weights(one), one._pool.worker
        steps, stood, counts = worker.env_steps, worker.standstills, dict(one._decisions)
        kinds = [kind.agents for kind in one.env.kinds]
        assert len(kinds) == 2 and set(one.policies) == {"A", "B"}
        complete = {name: policy.store.complete for name, policy in worker.policies.items()}
        kept = one.save()
    with Trainer.load(kept, env=LateEnv, console="quiet") as again:
        worker = again._pool.worker
        assert not again.env.exact and list(again.policies) == ["A", "B"]
        assert [kind.agents for kind in again.env.kinds] == kinds
        assert all(torch.equal(value, before[key]) for key, value in weights(again).items())
        assert (worker.env_steps, worker.standstills, dict(again._decisions)) == (steps, stood, counts)
        for name, policy in worker.policies.items():
            assert policy.store.complete >= complete[name], "open decisions are cut off where they stood, none is lost"
        row = again.train_iteration()
        assert row.env_steps > steps and not any(name.endswith("?") for name in again.policies)


@pytest.mark.parametrize("algorithm", ["poca", slow("mappo")])
def test_groups_go_on_with_as_many_as_there_were(algorithm, tmp_path):
    with trainer(SquadsEnv, algorithm, run_dir=tmp_path / "run", **{"env.config": {"more_after": 40}}) as one:
        for _ in range(3):
            one.train_iteration()
        groups, widths = dict(one.env.groups), [len(kind.agents) for kind in one.env.kinds]
        assert len(groups) == 3
        kept = one.save()
    with Trainer.load(kept, env=SquadsEnv, console="quiet") as again:
        assert dict(again.env.groups) == groups and [len(kind.agents) for kind in again.env.kinds] == widths
        result = again.train_iteration()
        assert result.episodes and np.isfinite(result.return_mean)
