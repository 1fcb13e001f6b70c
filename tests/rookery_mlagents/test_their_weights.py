"""A checkpoint.pt of ML-Agents: its policy acts the same here, and what cannot be read is refused by name."""

import math

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch.nn import functional

from rookery.core.errors import ConfigError
from rookery.core.spaces.arrays import action_spec, obs_spec
from rookery.models.build import ModelConfig
from rookery.models.squashed import Squashed
from rookery.policies.policy import Policy
from rookery_mlagents.files.mlagents_checkpoint import check_kind, read_weights, take_over

BOX = spaces.Box(-10, 10, (5,), np.float32)
ARM = spaces.Box(-1, 1, (2,), np.float32)
BRANCHES = spaces.MultiDiscrete([3, 2])
BOTH = spaces.Tuple((ARM, BRANCHES))
BODY = "network_body._body_endoder.seq_layers"
SIZES = (5, 16, 8)


def policy_for(actions, head=None, **model):
    settings = ModelConfig(hidden=SIZES[1:], activation="silu", normalize_obs=True, obs_clip=5.0, **model)
    generator = torch.Generator().manual_seed(0)
    return Policy(obs_spec(BOX, actions), action_spec(actions), settings, "Ball", generator=generator, head=head)


def their_policy(numbers=0, branches=(), squashed=False):
    """A state dict as ML-Agents 1.1.0 gives it: numbers of two hidden layers, normalized, and an action model."""
    draw = torch.Generator().manual_seed(3)

    def layer(name, inputs, outputs):
        weight, bias = (torch.randn(*shape, generator=draw) * 0.4 for shape in ((outputs, inputs), (outputs,)))
        return {f"{name}.weight": weight, f"{name}.bias": bias}

    vector = "network_body.observation_encoder.processors.0.normalizer"
    state = {
        "version_number": torch.tensor([3.0]),
        "memory_size_vector": torch.tensor([0.0]),
        f"{vector}.normalization_steps": torch.tensor(41),
        f"{vector}.running_mean": torch.randn(5, generator=draw),
        f"{vector}.running_variance": torch.rand(5, generator=draw) * 40 + 10,
        **layer(f"{BODY}.0", SIZES[0], SIZES[1]),
        **layer(f"{BODY}.2", SIZES[1], SIZES[2]),
    }
    state |= {name.replace("observation_encoder.", ""): value for name, value in state.items() if vector in name}
    for place, size in enumerate(branches):
        state |= layer(f"action_model._discrete_distribution.branches.{place}", SIZES[2], size)
    if numbers:
        state |= layer("action_model._continuous_distribution.mu", SIZES[2], numbers)
        if squashed:
            state |= layer("action_model._continuous_distribution.log_sigma", SIZES[2], numbers)
        else:
            state["action_model._continuous_distribution.log_sigma"] = torch.tensor([[0.2, -0.4]])
    return state


def their_features(state, obs):
    """Returns the outputs of ML-Agents' network for observations, by its own arithmetic."""
    vector = "network_body.observation_encoder.processors.0.normalizer"
    variance = state[f"{vector}.running_variance"] / state[f"{vector}.normalization_steps"]
    x = ((obs - state[f"{vector}.running_mean"]) / variance.sqrt()).clamp(-5, 5)
    for place in (0, 2):
        x = functional.silu(functional.linear(x, state[f"{BODY}.{place}.weight"], state[f"{BODY}.{place}.bias"]))
    return x


def linear(state, name, x):
    return functional.linear(x, state[f"{name}.weight"], state[f"{name}.bias"])


def saved(path, state):
    """Writes it as their trainer does: one pickle of all modules."""
    steps = {"_GlobalSteps__global_step": torch.tensor([4000])}
    adam = torch.optim.Adam([torch.nn.Parameter(torch.zeros(2))]).state_dict()
    torch.save({"Policy": state, "Optimizer:value_optimizer": adam, "global_step": steps}, path)
    return path


def outputs(policy, obs):
    with torch.no_grad():
        return policy.head.linear(policy.trunk(policy.normalize({"obs": obs})))


@pytest.fixture
def obs():
    return torch.randn(50, 5, generator=torch.Generator().manual_seed(1)) * 4


def test_choices_have_the_same_logits(tmp_path, obs):
    state, policy = their_policy(branches=(3, 2)), policy_for(BRANCHES)
    take_over(policy, read_weights(saved(tmp_path / "checkpoint.pt", state), trust_pickle=True), tmp_path)
    features = their_features(state, obs)
    theirs = [linear(state, f"action_model._discrete_distribution.branches.{place}", features) for place in (0, 1)]
    torch.testing.assert_close(outputs(policy, obs), torch.cat(theirs, 1), atol=1e-5, rtol=1e-5)


def test_numbers_are_drawn_from_the_same_distribution(tmp_path, obs):
    state, policy = their_policy(numbers=2), policy_for(ARM)
    take_over(policy, read_weights(saved(tmp_path / "checkpoint.pt", state), trust_pickle=True), tmp_path)
    drawn = linear(state, "action_model._continuous_distribution.mu", their_features(state, obs))
    acted = np.stack([policy.predict(row.numpy(), deterministic=True) for row in obs])
    np.testing.assert_allclose(acted, (drawn.clamp(-3, 3) / 3).numpy(), atol=1e-5)  # as their environment gets them
    spread = torch.tensor([0.2, -0.4]).exp() / 3
    torch.testing.assert_close(policy.head.log_std.detach().exp(), spread)


def test_numbers_of_sac(tmp_path, obs):
    state, policy = their_policy(numbers=2, squashed=True), policy_for(ARM, Squashed())
    take_over(policy, read_weights(saved(tmp_path / "checkpoint.pt", state), trust_pickle=True), tmp_path)
    drawn = linear(state, "action_model._continuous_distribution.mu", their_features(state, obs))
    acted = np.stack([policy.predict(row.numpy(), deterministic=True) for row in obs])
    np.testing.assert_allclose(acted, torch.tanh(drawn).numpy(), atol=1e-5)


def test_choices_and_numbers_at_once(tmp_path, obs):
    state, policy = their_policy(numbers=2, branches=(3, 2)), policy_for(BOTH)
    take_over(policy, read_weights(saved(tmp_path / "checkpoint.pt", state), trust_pickle=True), tmp_path)
    features = their_features(state, obs)
    theirs = [linear(state, f"action_model._discrete_distribution.branches.{place}", features) for place in (0, 1)]
    theirs.append(linear(state, "action_model._continuous_distribution.mu", features) / 3)
    torch.testing.assert_close(outputs(policy, obs), torch.cat(theirs, 1), atol=1e-5, rtol=1e-5)
    assert policy.head.log_std.detach().tolist() == pytest.approx([0.2 - math.log(3), -0.4 - math.log(3)])


def test_a_pickle_is_read_only_by_who_trusts_it(tmp_path):
    path = saved(tmp_path / "checkpoint.pt", their_policy(branches=(3,)))
    with pytest.raises(ConfigError, match="--trust-pickle"):
        read_weights(path, trust_pickle=False)


@pytest.mark.parametrize(
    ("name", "why"),
    [("Ball.nn", "exported for Unity"), ("Ball.onnx", "exported for Unity"), ("model-5.ckpt", "TensorFlow"),
     ("notes.txt", "neither a run of Rookery")],
)  # fmt: skip
def test_other_files_are_refused_by_what_they_are(tmp_path, name, why):
    (tmp_path / name).write_bytes(b"x")
    with pytest.raises(ConfigError, match=f"{name}.*{why}"):
        check_kind(tmp_path / name, trust_pickle=True)


def test_what_is_missing_or_unreadable(tmp_path):
    with pytest.raises(ConfigError, match="there is no such file"):
        check_kind(tmp_path / "checkpoint.pt", trust_pickle=True)
    broken = tmp_path / "checkpoint.pt"
    broken.write_bytes(b"not a pickle")
    with pytest.raises(ConfigError, match=r"checkpoint.pt: cannot be read"):
        read_weights(broken, trust_pickle=True)
    torch.save({"weights": torch.zeros(2)}, broken)
    with pytest.raises(ConfigError, match="no module 'Policy'"):
        read_weights(broken, trust_pickle=True)


def test_code_in_a_pickle_is_not_run_even_by_who_trusts_it(tmp_path):
    class Harm:
        def __reduce__(self):
            return (open, (str(tmp_path / "harm"), "w"))

    torch.save({"Policy": Harm()}, tmp_path / "checkpoint.pt")
    with pytest.raises(ConfigError, match="cannot be read"):
        read_weights(tmp_path / "checkpoint.pt", trust_pickle=True)
    assert not (tmp_path / "harm").exists()


def test_policies_of_another_size_or_kind_are_refused_by_name(tmp_path):
    with pytest.raises(ConfigError, match=r"head.linear.weight of \(3, 8\), behaviour 'Ball' has \(5, 8\)"):
        take_over(policy_for(BRANCHES), their_policy(branches=(3,)), tmp_path)
    state = their_policy(branches=(3, 2))
    lstm = {f"network_body.lstm.lstm.{name}_l0": torch.zeros(4, 1) for name in ("weight_ih", "weight_hh")}
    lstm |= {f"network_body.lstm.lstm.{name}_l0": torch.zeros(4) for name in ("bias_ih", "bias_hh")}
    with pytest.raises(ConfigError, match=r"has memory.layers.0.input.weight of .* has none"):
        take_over(policy_for(BRANCHES), {**state, **lstm}, tmp_path)
    visual = "network_body.observation_encoder.processors.1.conv_layers.0.weight"
    with pytest.raises(ConfigError, match=r"has image of sensor 1.convolutions.0.weight of .* has none"):
        take_over(policy_for(BRANCHES), {**state, visual: torch.zeros(1)}, tmp_path)
    plain = {name: value for name, value in state.items() if "normalizer" not in name}
    with pytest.raises(ConfigError, match="that policy has no normalizer"):
        take_over(policy_for(BRANCHES), plain, tmp_path)
    with pytest.raises(ConfigError, match="its policy has no actions"):
        take_over(policy_for(BRANCHES), {"version_number": torch.tensor([3.0])}, tmp_path)
