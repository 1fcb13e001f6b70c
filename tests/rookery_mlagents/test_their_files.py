"""Files that ML-Agents 1.1.0 itself has written: its policies act the same here, and our files look like its own.

`benchmarks/peers/mlagents_files.py` made what lies in ``data``: answers of their networks, and two whole checkpoints.
"""

from __future__ import annotations

import json
import math
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from gymnasium import spaces

from rookery.algorithms.names import ALGORITHMS
from rookery.core.config import resolve
from rookery.core.errors import ConfigError
from rookery.core.spaces.arrays import action_spec, obs_spec
from rookery.run.settings import RunConfig, settings_of
from rookery_mlagents.files.behaviors import BehaviorSpaces
from rookery_mlagents.files.mlagents_checkpoint import read_weights, take_over
from rookery_mlagents.files.run_options import read_options
from rookery_mlagents.learn.translate import layers_of

DATA = Path(__file__).parent / "data"
NAME = "Behavior"
ROWS = 6
REFUSED = {"ppo-goal": "goals", "ppo-entities": "entities"}


def filled(name, shape):
    """The numbers of a weight, as the script that made the data draws them by its name."""
    name = name.replace("observation_encoder.", "")  # a sensor's weights have two names there
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    fan = int(np.prod(shape[1:])) if len(shape) > 1 else 4
    drawn = rng.standard_normal(shape) / np.sqrt(fan)
    return (np.abs(drawn) * 30 + 20 if name.endswith("running_variance") else drawn).astype(np.float32)


@pytest.fixture(scope="module")
def answers():
    with np.load(DATA / "their_answers.npz") as file:
        return dict(file)


def cases():
    with np.load(DATA / "their_answers.npz") as file:
        return sorted({name.partition("/")[0] for name in file})


def facts_of(answers, case):
    return json.loads(str(answers[f"{case}/facts"]))


def observations(facts):
    drawn = [filled(f"obs {place}", (ROWS, *shape)) for place, shape in enumerate(facts["shapes"])]
    drawn = [np.abs(one) * 4 % 1 if one.ndim == 4 else one * 4 for one in drawn]
    return drawn[0] if len(drawn) == 1 else tuple(drawn)


def policy_of(facts, folder):
    """A policy of ours for the same section, observations and actions, by the ordinary way of settings."""
    boxes = [spaces.Box(*((0, 1) if len(shape) == 3 else (-9, 9)), tuple(shape)) for shape in facts["shapes"]]
    numbers, branches = spaces.Box(-1, 1, (facts["numbers"],)), spaces.MultiDiscrete(facts["branches"] or [2])
    parts = ([numbers] if facts["numbers"] else []) + ([branches] if facts["branches"] else [])
    actions = parts[0] if len(parts) == 1 else spaces.Tuple(parts)
    obs = boxes[0] if len(boxes) == 1 else spaces.Tuple(boxes)
    path = folder / "behavior.yaml"
    path.write_text(yaml.safe_dump({"behaviors": {NAME: facts["section"]}}))
    action = action_spec(actions)
    seen = obs_spec(obs, action.space)
    layers = layers_of(read_options(path, {}), {NAME: BehaviorSpaces(seen, action, ("agent",))})
    cfg = settings_of(resolve(RunConfig, layers, ALGORITHMS).config, NAME)
    return cfg.build_policy(seen, action, NAME, torch.Generator().manual_seed(0))


def state_of(facts):
    """The weights that the script gave their network."""
    drawn = {name: torch.from_numpy(filled(name, tuple(shape))) for name, shape in facts["weights"].items()}
    return drawn | {name: torch.tensor(value) for name, value in facts["whole"].items()}


def check(policy, facts, theirs):
    """Compares the outputs of a policy with those of the policy of ML-Agents."""
    tree, _ = policy.own_spec.read(observations(facts))
    obs = {path: torch.as_tensor(value) for path, value in tree.items()}
    with torch.no_grad():
        memory = torch.from_numpy(theirs["memory"]) if "memory" in theirs else None
        features = policy.trunk(policy.normalize(obs))
        if memory is not None:
            features, after = policy.memory.advance(features, memory)
            np.testing.assert_allclose(after.numpy(), theirs["remembered"], atol=1e-5)
        outputs = policy.head.linear(features).numpy()
    choices, numbers = sum(facts["branches"]), facts["numbers"]
    if choices:
        np.testing.assert_allclose(outputs[:, :choices], theirs["logits"], atol=1e-5, rtol=1e-5)
    if not numbers:
        return
    mean, log_std = outputs[:, choices : choices + numbers], outputs[:, choices + numbers :]
    unit = 1.0
    if facts["section"]["trainer_type"] != "sac":
        unit, log_std = 3.0, np.broadcast_to(policy.head.log_std.detach().numpy(), mean.shape)
    np.testing.assert_allclose(mean, theirs["mean"] / unit, atol=1e-5, rtol=1e-5)
    np.testing.assert_allclose(log_std.clip(-20, 2), theirs["log_std"] - math.log(unit), atol=1e-5, rtol=1e-5)


def part_of(answers, before):
    return {name.removeprefix(before): value for name, value in answers.items() if name.startswith(before)}


@pytest.mark.parametrize("case", [case for case in cases() if case not in REFUSED])
def test_a_policy_of_theirs_puts_out_the_same(answers, tmp_path, case):
    facts = facts_of(answers, case)
    policy = policy_of(facts, tmp_path)
    take_over(policy, state_of(facts), tmp_path / "checkpoint.pt")
    check(policy, facts, part_of(answers, f"{case}/filled/"))


@pytest.mark.parametrize("case", ["ppo-hybrid", "sac-numbers"])
def test_a_checkpoint_that_they_wrote(answers, tmp_path, case):
    facts = facts_of(answers, case)
    policy = policy_of(facts, tmp_path)
    take_over(policy, read_weights(DATA / f"{case}.pt", trust_pickle=True), DATA / f"{case}.pt")
    check(policy, facts, part_of(answers, f"{case}/learned/"))


@pytest.mark.parametrize("case", REFUSED)
def test_what_has_another_network_here_is_refused(answers, tmp_path, case):
    facts = facts_of(answers, case)
    facts["section"]["network_settings"]["goal_conditioning_type"] = "none"
    with pytest.raises(ConfigError, match=f"that policy has {REFUSED[case]}"):
        take_over(policy_of(facts, tmp_path), state_of(facts), tmp_path / "checkpoint.pt")


@pytest.mark.parametrize(
    ("case", "change", "told"),
    [("ppo-simple", {"vis_encode_type": "match3"}, "trunk.images.0.convolutions.0.weight"),
     ("ppo-nature", {"hidden_units": 16}, r"trunk.first.bias of \(8,\), behaviour 'Behavior' has \(16,\)"),
     ("ppo-lstm", {"memory": None}, r"memory.layers.0.input.weight .* has none")],
)  # fmt: skip
def test_other_settings_are_refused_by_what_differs(answers, tmp_path, case, change, told):
    facts = facts_of(answers, case)
    state = state_of(facts)
    facts["section"]["network_settings"] |= change
    policy = policy_of(facts, tmp_path)
    with pytest.raises(ConfigError, match=told):
        take_over(policy, state, tmp_path / "checkpoint.pt")


def test_sensors_of_other_sizes_are_refused(answers, tmp_path):
    facts = facts_of(answers, "ppo-hybrid")
    state = state_of(facts)
    facts["shapes"] = [[5], [4]]
    with pytest.raises(ConfigError, match=r"trunk.first.weight of \(8, 8\), behaviour 'Behavior' has \(8, 9\)"):
        take_over(policy_of(facts, tmp_path), state, tmp_path / "checkpoint.pt")


def test_choices_are_their_one_hots(answers, tmp_path):
    facts = facts_of(answers, "ppo-choices")
    state, width = state_of(facts), facts["shapes"][0][0]
    action = action_spec(spaces.MultiDiscrete(facts["branches"]))
    seen = obs_spec(spaces.Discrete(width), action.space)
    path = tmp_path / "behavior.yaml"
    path.write_text(yaml.safe_dump({"behaviors": {NAME: facts["section"]}}))
    layers = layers_of(read_options(path, {}), {NAME: BehaviorSpaces(seen, action, ("agent",))})
    cfg = settings_of(resolve(RunConfig, layers, ALGORITHMS).config, NAME)
    policy, plain = cfg.build_policy(seen, action, NAME, torch.Generator()), policy_of(facts, tmp_path)
    for one in (policy, plain):
        take_over(one, state, path)
    with torch.no_grad():
        same = [one.trunk({"obs": obs}) for one, obs in ((policy, torch.arange(width)[:, None]), (plain, torch.eye(5)))]
    torch.testing.assert_close(*same)
