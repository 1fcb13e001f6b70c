"""SAC of policies that remember: sequences from the replay memory, critics with memories of their own."""

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from stepping import optimizers

from rookery import ConfigError, Trainer
from rookery.algorithms.off_policy.critics import StateAction, behavior_of
from rookery.algorithms.off_policy.sac import SACConfig
from selection import slow


class Cue(gymnasium.Env):
    """The first observation is the action to take in the three steps that follow, whose observations are empty."""

    observation_space = spaces.Box(-1, 1, (2,), np.float32)
    action_space = spaces.Box(-1, 1, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.clock, self.cue = 0, float(self.np_random.choice([-0.8, 0.8]))
        return np.array([self.cue, 1], np.float32), {}

    def step(self, action):
        cost = abs(float(action[0]) - self.cue) if self.clock else 0.0
        self.clock += 1
        return np.zeros(2, np.float32), -cost, False, self.clock == 4, {}


class Choice(Cue):
    """The same with two actions to choose from."""

    action_space = spaces.Discrete(2)

    def step(self, action):
        return super().step(np.array([0.8 if action else -0.8]))


def config(memory="gru", **settings):
    given = {
        "model": {"hidden": (16,), "memory": {"kind": memory, "size": 16, "sequence_length": 6}},
        "batch_size": 16, "learning_starts": 60, "lr": 1e-2, "tau": 0.05, "gamma": 0.5,
        "replay": {"capacity": 2000, "burn_in": 2},
    }  # fmt: skip
    return SACConfig(**{**given, **settings})


@pytest.fixture(scope="module")
def learner():
    """One that has played and hardly learned."""
    with Trainer(Cue, config(lr=1e-12, updates_per_step=0.1), num_envs=3, seed=0, iteration_steps=150) as trainer:
        trainer.train({"env_steps": 150})
        yield trainer.learners["main"]


def step_by_step(network, rows, memory):
    """Features of each observation of `rows`, by one decision of the memory at a time."""
    sequences = rows.recurrent.sequences
    place = torch.arange(len(rows.obs["obs"])) if sequences.place is None else sequences.place
    number = torch.full((sequences.first.numel(),), -1)
    number[place] = torch.arange(len(place))
    cell = network.memory
    seen, found = network.trunk(rows.obs), {}
    for t, first in enumerate(sequences.first):
        memory = torch.where(first.unsqueeze(1), 0.0, memory)
        at = number.view_as(sequences.first)[t]
        there = at >= 0
        features, after = cell.advance(seen[at.clamp(min=0)], memory)
        memory = torch.where(there.unsqueeze(1), after, memory)
        found |= {int(row): features[b] for b, row in enumerate(at) if row >= 0}
    return torch.stack([found[row] for row in range(len(place))])


def test_critics_go_through_observations_in_their_order_from_an_empty_memory(learner):
    rows = learner.experience(learner.cfg)
    with torch.no_grad():
        for along, action in ((rows.recurrent, rows.action), (rows.next_recurrent, -rows.action)):
            q = learner.critics.net(StateAction(rows.obs, action, recurrent=along))
            for critic, values in zip(learner.critics.net.networks, q, strict=True):
                empty = torch.zeros(len(along.sequences.length), critic.trunk.memory.size)
                features = step_by_step(critic.trunk, rows, empty)[along.rows]
                layer = critic.trunk.layer(torch.cat((features, action), 1))
                wanted = critic.linear(torch.relu(layer)).squeeze(1)
                assert torch.allclose(values, wanted, atol=1e-5)


def test_the_actor_goes_on_from_what_it_remembered_when_it_played(learner):
    rows, policy = learner.experience(learner.cfg), learner.policy
    with torch.no_grad():
        found = behavior_of(policy, rows.obs, recurrent=rows.recurrent)
        features = step_by_step(policy, rows, rows.recurrent.memory)[rows.recurrent.rows]
        assert torch.allclose(found.mean, policy.head(features).mean, atol=1e-5)
        assert float(rows.recurrent.memory.abs().max()) > 0


@pytest.mark.parametrize("burn_in", [0, 2, 5])
def test_a_burn_in_is_gone_through_and_not_learned_from(learner, burn_in):
    rows = learner.experience(learner.cfg.replace(replay=learner.cfg.replay.replace(burn_in=burn_in)))
    sequences = rows.recurrent.sequences
    place = torch.arange(len(rows.obs["obs"])) if sequences.place is None else sequences.place
    decisions = place[: sum(rows.recurrent.rows.max() >= torch.arange(len(place)))]
    time = decisions // sequences.first.shape[1]
    assert int(time.min()) == 0  # gone through from the start
    assert int(time[rows.recurrent.rows].min()) >= burn_in
    assert int(rows.fragment.bincount().max()) == 6


def test_what_comes_after_a_truncated_decision_is_its_final_observation(learner):
    rows = learner.experience(learner.cfg)
    assert float(rows.discount.min()) == float(rows.discount.max()) == 0.5  # a time limit is no end
    after = rows.obs["obs"][rows.next_recurrent.rows]
    assert float(after.abs().max()) == 0.0  # never the cue of the next episode


@pytest.mark.slow
@pytest.mark.parametrize(
    ("env", "cfg"),
    [
        (Cue, config()),
        slow(Cue, config("lstm", critic={"quantiles": 5, "norm": "layer", "number": 1}, n_step=2)),
        slow(Choice, config(discrete=True, entropy_share=0.1, replay={"kind": "prioritized", "capacity": 2000})),
    ],
    ids=["gru", "lstm, quantiles", "discrete, prioritized"],
)
def test_it_learns_to_remember(env, cfg):
    with Trainer(env, cfg, num_envs=4, seed=0, iteration_steps=300) as trainer:
        trainer.train({"env_steps": 300})
        assert trainer.evaluate(20).return_mean > -1.0


def test_without_a_memory_nothing_is_remembered():
    cfg = config("none")
    with Trainer(Cue, cfg.replace(replay={"capacity": 2000}), num_envs=4, seed=0, iteration_steps=300) as trainer:
        trainer.train({"env_steps": 300})
        assert trainer.evaluate(20).return_mean < -1.8  # three steps, 0.8 off in each at best


def test_a_policy_that_sees_its_last_frames_learns_them_from_sequences():
    model = {"hidden": (16,), "memory": {"frame_stack": 2, "previous_action": True, "sequence_length": 4}}
    cfg = config(model=model, replay={"capacity": 2000})
    with Trainer(Cue, cfg, num_envs=3, seed=0, iteration_steps=80) as trainer:
        trainer.train({"env_steps": 80})
        learner = trainer.learners["main"]
        rows = learner.experience(learner.cfg)
        assert rows.recurrent is None
        assert rows.obs["obs"].shape[0] == len(rows)
        assert learner.replay.gradient_steps > 0


def test_stopping_half_way_changes_nothing(tmp_path):
    settings = {"num_envs": 3, "seed": 4, "iteration_steps": 25}

    def weights(trainer):
        return [optimizer.flat.data.clone() for optimizer in optimizers(trainer.learners["main"])]

    with Trainer(Cue, config(), **settings) as through:
        through.train({"iterations": 3})
        wanted = weights(through)
    with Trainer(Cue, config(), **settings) as first:
        first.train({"iterations": 2})
        place = first.save(tmp_path / "half")
    with Trainer.load(place, env=Cue) as second:
        second.train({"iterations": 3})
        assert all(torch.equal(a, b) for a, b in zip(weights(second), wanted, strict=True))


def test_batch_renormalization_is_refused():
    with pytest.raises(ConfigError, match=r"critic.norm = batch: rows of a policy that remembers stand in sequences"):
        Trainer(Cue, config(critic={"norm": "batch"}), num_envs=1).train({"env_steps": 4})
