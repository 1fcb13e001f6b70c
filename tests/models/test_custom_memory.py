"""A user's own model that remembers: one decision at a time and in sequences, initial memory, refusals."""

import pytest
import torch
from gymnasium import spaces
from torch import nn

from rookery import ConfigError, ModelConfig, PPOConfig, Trainer, load_policy
from rookery.core.batch import Sequences
from rookery.core.spaces.arrays import action_spec, obs_spec
from rookery.policies.policy import Policy

SPACE, ACTION = spaces.Box(-1, 1, (3,)), spaces.Discrete(2)


class Pair(nn.Module):
    """Remembers a vector and a number, from a start that is learned."""

    def __init__(self, obs_space, width=4):
        super().__init__()
        self.write = nn.Linear(obs_space.shape[0] + width, width)
        self.start = nn.Parameter(torch.randn(width))
        self.num_features = width + 1

    def initial_memory(self, n):
        return self.start.expand(n, -1), torch.full((n,), 7.0)

    def forward(self, obs, memory):
        kept, count = memory
        kept = torch.tanh(self.write(torch.cat((obs, kept), 1)))
        return torch.cat((kept, count.unsqueeze(1)), 1), (kept, count + 1)


def policy_of(module, **memory):
    generator = torch.Generator().manual_seed(0)
    model = ModelConfig(module=module, memory=memory)
    return Policy(obs_spec(SPACE, ACTION), action_spec(ACTION), model, generator=generator)


def test_sequences_equal_single_decisions_with_the_initial_memory_where_episodes_start():
    memory = policy_of(Pair).memory
    first = torch.zeros(5, 2, dtype=torch.bool)
    first[0, 0] = first[3, 1] = True
    sequences = Sequences(first, torch.tensor([5, 4]), torch.tensor([0, 1, 2, 3, 4, 5, 6, 7, 8]))
    obs, before = torch.randn(9, 3), torch.cat((torch.ones(2, 1), torch.randn(2, 5)), 1)
    features, after = memory({"obs": obs}, before, sequences)
    for b, rows in enumerate(([0, 2, 4, 6, 8], [1, 3, 5, 7])):
        kept = before[b : b + 1]
        for t, row in enumerate(rows):
            kept = torch.zeros_like(kept) if first[t, b] else kept
            seen, kept = memory.advance({"obs": obs[row : row + 1]}, kept)
            assert torch.allclose(seen[0], features[row], atol=1e-6)
        assert torch.allclose(kept[0], after[b], atol=1e-6)
    assert features[0, -1] == 7.0
    assert features[7, -1] == 7.0


def test_a_start_that_is_a_parameter_is_learned_and_comes_back_with_the_weights(tmp_path):
    cfg = PPOConfig(lr=1e-2, fragment_length=16, model={"module": Pair, "memory": {"sequence_length": 8}})
    with Trainer("StatelessCartPole", cfg, num_envs=4, seed=0, run_dir=tmp_path / "run") as trainer:
        start = trainer.policies["main"].memory.model.module.start
        before = start.detach().clone()
        trainer.train(stop={"iterations": 2})
        assert not torch.equal(before, start)
        action, memory = trainer.policies["main"].predict([0.01, 0.02])
        again, same = load_policy(tmp_path / "run").predict([0.01, 0.02])
    assert action == again
    assert torch.equal(memory, same)


class Wrong(Pair):
    def forward(self, obs, memory):
        features, (kept, count) = super().forward(obs, memory)
        return features, (kept, count.unsqueeze(1))


class Whole(Pair):
    def initial_memory(self, n):
        return torch.zeros(n, 2, dtype=torch.int64)

    def forward(self, obs, memory):
        return torch.zeros(len(obs), 5), memory


class Forgetful(Pair):
    def forward(self, obs, memory):
        return super().forward(obs, memory)[0]


@pytest.mark.parametrize(
    ("module", "memory", "told"),
    [
        (
            Wrong,
            {},
            r"memory \[\(2, 4\), \(2, 1\)\] after two rows, and initial_memory\(2\) returns \[\(2, 4\), \(2,\)\]",
        ),
        (Whole, {}, "not floats"),
        (Forgetful, {}, "returned a Tensor, not features and memory"),
        (Pair, {"kind": "lstm"}, "has its own memory"),
        (Pair, {"frame_stack": 2}, "receives only the observations of its space"),
        (Pair, {"previous_reward": True}, "receives only the observations of its space"),
    ],
)
def test_what_breaks_the_contract_is_refused_with_a_remedy(module, memory, told):
    with pytest.raises(ConfigError, match=told):
        policy_of(module, **memory)
