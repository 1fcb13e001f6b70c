"""Learning uses the memory of the rollout: the same numbers row by row, step by step and at ends."""

import itertools

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces

from rookery import A2CConfig, PPOConfig, Trainer
from rookery.algorithms.on_policy.actor_critic import values_of
from rookery.core.spaces.arrays import MASK
from rookery.models.cells.table import CELLS
from selection import slow_repeats

MEMORIES = {
    **{kind: {"kind": kind, "size": 16} for kind in CELLS},
    "two layers": {"kind": "lstm", "size": 8, "layers": 2},
    "recall": {"previous_action": True, "previous_reward": True, "frame_stack": 3},
    "all": {"kind": "gru", "size": 8, "previous_action": True, "previous_reward": True, "frame_stack": 2},
}


def seen_by(policy, obs, memory):
    """Returns the inputs of a policy's trunk, and those to recall."""
    return (policy.normalize(obs), {}) if policy.recall is None else policy.recall.look(obs, memory, policy.normalize)


class Cut(gymnasium.Env):
    """Numbers that count up, cut off or over after a few of them, with a mask: ends of both sorts lie everywhere."""

    observation_space = spaces.Dict(
        {"number": spaces.Box(-9, 9, (2,), np.float32), "kind": spaces.Discrete(3), MASK: spaces.MultiBinary(4)}
    )
    action_space = spaces.Discrete(4)

    def reset(self, seed=None, options=None):
        self.rng = np.random.default_rng(seed)
        self.steps = 0
        return self.seen(), {}

    def seen(self):
        mask = np.ones(4, dtype=np.int8)
        mask[self.rng.integers(4)] = 0
        return {"number": self.rng.normal(size=2).astype(np.float32), "kind": int(self.rng.integers(3)), MASK: mask}

    def step(self, action):
        self.steps += 1
        end = self.rng.random()
        return self.seen(), float(self.rng.normal()), end < 0.1, 0.1 < end < 0.25, {}


ENVS = ["StatelessCartPole", "TwoCues", "Pendulum-v1", Cut]


def trainer_of(env, memory, algorithm=PPOConfig, lanes=3, seed=0, T=13, **settings):
    model = {"hidden": (16,), "normalize_obs": True, "memory": {"sequence_length": 5, **memory}}
    trainer = Trainer(
        env, algorithm(fragment_length=T, model=model, **settings), seed=seed, sampling={"num_envs": lanes}
    )
    with torch.no_grad():
        for learner in trainer.learners.values():
            for weight in learner.policy.head.parameters():
                weight.mul_(100.0)  # first heads are nearly blind to what they stand on
    trainer._pool.set_weights(trainer.policies)
    return trainer


def rollouts_of(trainer, number):
    found = []
    while len(found) < number:
        played = trainer._pool.sample(1000).rollouts.values()
        found += [rollout.map(lambda _, tensor: tensor.clone()) for rollout in played]
    return found


def logp_of(net, data, outputs):
    return outputs.distribution.log_prob(data.action)


@pytest.mark.parametrize(("memory", "env"), slow_repeats(of=itertools.product(list(MEMORIES), ENVS)))
def test_the_learner_gives_every_decision_the_probability_with_which_it_was_played(env, memory):
    trainer = trainer_of(env, MEMORIES[memory], normalize_advantage=False)
    learner = trainer.learners["main"]
    for rollout in rollouts_of(trainer, 4):
        data = learner.targets(rollout)
        with torch.no_grad():
            whole = logp_of(learner.net, data, learner.net(data))
            assert torch.allclose(whole, data.logp, atol=2e-5)
            rng = np.random.default_rng(0)
            for batch in data.shuffled(8, rng):
                assert torch.allclose(logp_of(learner.net, batch, learner.net(batch)), batch.logp, atol=2e-5)
        assert data.logp.std() > 0.004


@pytest.mark.parametrize("memory", list(MEMORIES))
def test_values_are_those_of_a_walk_step_by_step_also_where_episodes_are_cut_off(memory):
    trainer = trainer_of(Cut, MEMORIES[memory])
    learner = trainer.learners["main"]
    policy, net = learner.policy, learner.net
    cut = 0
    for rollout in rollouts_of(trainer, 3):
        seen = values_of(learner.forward, rollout)
        finals = {(t, f): number for number, (t, f) in enumerate(rollout.boot_index.tolist())}

        def value_at(obs, memory, net=net, policy=policy):
            sight, _ = seen_by(policy, {path: leaf.unsqueeze(0) for path, leaf in obs.items()}, memory)
            features = policy.trunk(sight)
            if policy.memory is not None:
                features, _ = policy.memory.advance(features, policy.learned(memory))
            elif net.critic_trunk is not None:
                features = net.critic_trunk(sight)
            return net.value_head(features)

        with torch.no_grad():
            for f in range(len(rollout.length)):
                memory_now = rollout.memory[0, f].clone().unsqueeze(0)
                for t in range(int(rollout.length[f])):
                    if rollout.begins[t, f]:
                        memory_now = policy.initial_memory(1)
                    obs = {path: leaf[t, f] for path, leaf in rollout.obs.items()}
                    assert torch.allclose(value_at(obs, memory_now)[0], seen.value[t, f], atol=1e-5)
                    before = memory_now.clone()
                    policy.act({path: leaf.unsqueeze(0) for path, leaf in obs.items()}, None, True, memory_now)
                    if policy.recall is not None:  # what was done, not what is most probable now
                        row = {path: leaf.unsqueeze(0) for path, leaf in obs.items()}
                        stacks = seen_by(policy, row, before)[1]
                        policy.recall.remember(memory_now, stacks, rollout.action[t, f].unsqueeze(0))
                    if policy.reward_column is not None:
                        memory_now[:, policy.reward_column] += rollout.reward[t, f]
                    if (t, f) in finals:
                        number = finals[t, f]
                        obs = {path: leaf[number] for path, leaf in rollout.final_obs.items()}
                        assert torch.allclose(value_at(obs, memory_now)[0], seen.next_value[t, f], atol=1e-5)
                        cut += 1
                if not bool((rollout.terminated | rollout.truncated)[t, f]):
                    obs = {path: leaf[f] for path, leaf in rollout.last_obs.items()}
                    assert torch.allclose(value_at(obs, memory_now)[0], seen.next_value[t, f], atol=1e-5)
    assert cut > 3


@pytest.mark.parametrize("memory", list(MEMORIES))
def test_what_stands_in_rows_that_hold_no_decision_changes_nothing(memory):
    trainer = trainer_of("TwoCues", MEMORIES[memory], lanes=2, rollout_size=37)
    learner = trainer.learners["main"]
    learner.value_scale.is_fixed = True  # else the first targets move the values before the second are made
    rollout = next(r for r in rollouts_of(trainer, 3) if r.num_cut)
    data = learner.targets(rollout)
    garbage = rollout.map(lambda _, tensor: tensor)
    hole = ~rollout.valid
    for tensor in (garbage.logp, garbage.reward):
        tensor[hole] = torch.nan
    for leaf in garbage.obs.values():
        if leaf.is_floating_point():
            leaf[hole] = torch.nan
    again = learner.targets(garbage)
    for name in ("logp", "advantage", "value_target", "value"):
        assert torch.equal(getattr(data, name), getattr(again, name)), name
    with torch.no_grad():
        assert torch.equal(learner.net(data).value, learner.net(again).value)


@pytest.mark.parametrize("algorithm", [PPOConfig, A2CConfig])
@pytest.mark.parametrize("kind", CELLS)
def test_an_update_changes_the_memory_and_the_critic_stands_on_it(algorithm, kind):
    trainer = trainer_of("StatelessCartPole", MEMORIES[kind], algorithm)
    learner = trainer.learners["main"]
    before = [weight.detach().clone() for weight in learner.policy.memory.parameters()]
    trainer.train_iteration()
    assert any(not torch.equal(a, b) for a, b in zip(before, learner.policy.memory.parameters(), strict=True))
    assert learner.net.critic_trunk is None
    assert learner.net.value_head.linear.in_features == learner.policy.memory.num_features


def test_minibatches_hold_whole_sequences_each_once_an_epoch():
    trainer = trainer_of(Cut, MEMORIES["lstm"], lanes=5)
    learner = trainer.learners["main"]
    data = learner.targets(rollouts_of(trainer, 2)[1])
    data.__dict__["value"] = torch.arange(len(data), dtype=torch.float32)
    whole = data.sequences.grid(data.value)
    seen = []
    for batch in data.shuffled(20, np.random.default_rng(3)):
        assert 5 <= len(batch) <= 30
        grid = batch.sequences.grid(batch.value)
        for column, length in zip(grid.T, batch.sequences.length.tolist(), strict=True):
            (place,) = (whole[0] == column[0]).nonzero().squeeze(1).tolist() if column[0] else [0]
            assert torch.equal(whole[:length, place], column[:length])
            seen.append(place)
    assert sorted(seen) == list(range(len(data.sequences.length)))


class Bright(gymnasium.Env):
    """A small grey picture; the order of two frames decides the action."""

    observation_space = spaces.Box(0, 255, (8, 8), np.uint8)
    action_space = spaces.Discrete(2)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self.observation_space.sample(), {}

    def step(self, action):
        self.steps += 1
        return self.observation_space.sample(), 1.0, False, self.steps == 9, {}


WAYS = [(PPOConfig, {}), (PPOConfig, {"kl_coef": 0.2}), (A2CConfig, {}), (A2CConfig, {"rollout_size": 11})]


@pytest.mark.parametrize(("kind", "way"), slow_repeats(of=itertools.product(["none", "gru"], range(len(WAYS)))))
def test_stacked_pictures_are_learned_from_by_every_way(kind, way):
    algorithm, settings = WAYS[way]
    model = {"hidden": (8,), "memory": {"kind": kind, "size": 8, "frame_stack": 3}}
    trainer = Trainer(Bright, algorithm(fragment_length=16, model=model, **settings), num_envs=2, seed=0)
    before = [weight.detach().clone() for weight in trainer.policies["main"].trunk.parameters()]
    trainer.train(stop={"iterations": 2})
    assert trainer.policies["main"].trunk.image_paths
    after = trainer.policies["main"].trunk.parameters()
    assert all(not torch.equal(a, b) for a, b in zip(before, after, strict=True))
