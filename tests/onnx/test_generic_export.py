"""Generic files: inputs named by the observation, the environment's units, the normalizer inside; custom modules."""

import builtins
import itertools

import numpy as np
import pytest
import torch
from exported import observed, outputs, policy_of
from gymnasium import spaces
from torch import nn

from rookery.algorithms.model_based.alphazero import AlphaZeroConfig
from rookery.algorithms.multi_agent.maddpg import MADDPGConfig
from rookery.algorithms.multi_agent.poca import POCAConfig
from rookery.algorithms.multi_agent.vdn import VDNConfig
from rookery.algorithms.on_policy.ppo import PPOConfig
from rookery.core.errors import ConfigError
from rookery.models.cells.table import CELLS
from rookery.models.decision_transformer import ReturnConditioned
from rookery.models.heads import GivenHead
from rookery.models.memory import MemoryConfig
from rookery.models.q_head import QValues
from rookery.models.team_heads import TeamQValues
from rookery.onnx import ExportError, check_file, write_generic, write_unity
from rookery.policies.policy import Policy
from rookery.run.trainer import Trainer
from selection import slow_except, slow_repeats

NUMBERS = spaces.Box(-1, 1, (5,))
MIXED = spaces.Dict(
    camera=spaces.Box(0, 255, (8, 8, 3), np.uint8),
    keys=spaces.Discrete(3, start=5),
    parts=spaces.Tuple((spaces.MultiDiscrete([2, 4]), spaces.MultiBinary(3))),
    v=spaces.Box(-1, 1, (2, 3)),
)
ACTIONS = {
    "discrete": spaces.Discrete(4, start=-1),
    "multi discrete": spaces.MultiDiscrete([[2, 3], [4, 2]]),
    "flags": spaces.MultiBinary((2, 2)),
    "numbers": spaces.Box(np.array([-2, 0, -np.inf], np.float32), np.array([2, 8, 1], np.float32)),
    "whole numbers": spaces.Box(0, 9, (2,), np.int64),
    "nested": spaces.Dict(
        arm=spaces.Tuple((spaces.Box(-3, 3, (2,)), spaces.Discrete(3, start=1))),
        legs=spaces.MultiDiscrete([2, 3]),
        lights=spaces.MultiBinary(2),
    ),
}


def as_given(space, tree):
    """A batch in the structure that `predict` takes."""
    return {
        "camera": tree["camera"],
        "keys": tree["keys"] + 5,
        "parts": (tree["parts/0"], tree["parts/1"]),
        "v": tree["v"],
    }


def flat(action):
    """The parts of a composite action by path, or the action."""
    if not isinstance(action[0], dict):
        return {"action": np.asarray(action)}
    return {
        "action/arm/0": np.stack([one["arm"][0] for one in action]),
        "action/arm/1": np.stack([one["arm"][1] for one in action]),
        "action/legs": np.stack([one["legs"] for one in action]),
        "action/lights": np.stack([one["lights"] for one in action]),
    }


@pytest.mark.parametrize(("kind", "opset"), slow_repeats(of=itertools.product(ACTIONS, [9, 15])))
def test_a_file_takes_what_the_environment_gives_and_gives_what_it_takes(kind, opset, tmp_path):
    policy = policy_of(MIXED, ACTIONS[kind], normalize_obs=True)
    path = write_generic(policy, tmp_path / "x.onnx", opset=opset).path
    assert check_file(path) == []
    tree, _ = observed(policy, 30)
    given = outputs(path, **{**tree, "keys": tree["keys"] + 5})
    wanted = flat(policy.predict(as_given(MIXED, tree)))
    for name, action in wanted.items():
        assert given[name].shape == action.shape
        assert np.allclose(given[name], action, atol=1e-5)
        assert given[name.replace("action", "action_sampled")].shape == action.shape


def test_what_actions_are_drawn_from_is_an_output(tmp_path):
    policy = policy_of(spaces.Dict(action_mask=spaces.MultiBinary(4), observation=NUMBERS), spaces.Discrete(4))
    tree, rows = observed(policy)
    given = outputs(write_generic(policy, tmp_path / "x.onnx").path, **tree)
    with torch.no_grad():
        assert np.allclose(given["log_probs"], policy(rows).log_probs, atol=1e-5)
    q = policy_of(NUMBERS, spaces.Discrete(4), QValues(dueling=True))
    tree, rows = observed(q)
    given = outputs(write_generic(q, tmp_path / "q.onnx").path, **tree)
    assert np.allclose(given["values"], q(rows).q.detach(), atol=1e-5)
    assert "action_sampled" not in given  # values are no distribution


@pytest.mark.parametrize("kind", slow_except("none", "lstm", "scan", of=["none", *CELLS]))
def test_a_policy_that_recalls_goes_on_from_either_action(kind, tmp_path):
    memory = MemoryConfig(
        kind=kind, size=8, heads=2, context=3, frame_stack=2, previous_action=True, previous_reward=True
    )
    policy = policy_of(NUMBERS, ACTIONS["nested"], memory=memory, normalize_obs=True)
    path = write_generic(policy, tmp_path / "x.onnx").path
    tree, _ = observed(policy, 6 * 4)
    own, theirs = None, np.zeros((6, policy.memory_size), np.float32)
    for step in range(4):
        now = tree["obs"][6 * step : 6 * step + 6]
        reward = np.full(6, 0.5 * step, np.float32)
        action, own = policy.predict(now, own, reward=reward if step else None)
        given = outputs(path, obs=now, memory_in=theirs, previous_reward=reward)
        theirs = given["memory_out"]
        assert np.allclose(theirs, own, atol=1e-5)
        assert np.allclose(given["action/arm/0"], flat(action)["action/arm/0"], atol=1e-5)
    columns = slice(1 + 5, 1 + 5 + 7)  # a beginning, a frame, then the action: choices from 1, flags, numbers
    drawn = given["memory_out_sampled"][:, columns]
    assert (drawn[:, 0] == given["action_sampled/arm/1"]).all()
    assert (drawn[:, 1:3] - 1 == given["action_sampled/legs"]).all()
    assert np.allclose(np.clip(drawn[:, 5:], -1, 1) * 3, given["action_sampled/arm/0"], atol=1e-5)


# --- modules of a user's own ------------------------------------------------------------------------------------------


class Own(nn.Module):
    """A network without graph operators."""

    def __init__(self, obs_space):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(9))
        self.inner = nn.Linear(5, 9)
        self.num_features = 9

    def forward(self, obs):
        return torch.sin(self.inner(obs)) * torch.sigmoid(self.bias)


class Remembering(Own):
    def initial_memory(self, n):
        return torch.ones(n, 9)

    def forward(self, obs, memory):
        memory = 0.5 * memory + super().forward(obs)
        return torch.tanh(memory), memory


class OfADict(nn.Module):
    def __init__(self, obs_space):
        super().__init__()
        self.table = nn.Embedding(3, 4)
        self.num_features = 4 + 6 + 3

    def forward(self, obs):
        camera = obs["camera"].mean((1, 2))
        return torch.cat((self.table(obs["keys"]), obs["v"].flatten(1), camera), 1)


class Rare(Own):
    def forward(self, obs):
        return torch.special.bessel_j0(super().forward(obs))


@pytest.mark.parametrize("write", [write_unity, write_generic])
def test_a_module_of_a_users_own_goes_through_torchs_exporter(write, tmp_path, capfd):
    policy = policy_of(NUMBERS, spaces.Discrete(4), module=Own, normalize_obs=True)
    written = write(policy, tmp_path / "x.onnx", opset=15)
    assert check_file(written.path) == []
    tree, rows = observed(policy)
    given = outputs(written.path, obs=tree["obs"], obs_0=tree["obs"], action_masks=np.ones((24, 4), np.float32))
    action = given["action"] if write is write_generic else given["deterministic_discrete_actions"][:, 0]
    with torch.no_grad():
        assert (action == policy.act(rows, None, True)[0].numpy()).all()
    assert capfd.readouterr().out == ""


def test_a_module_that_remembers_or_takes_a_dict_does_too(tmp_path):
    policy = policy_of(NUMBERS, spaces.Discrete(4), module=Remembering)
    path = write_unity(policy, tmp_path / "x.onnx", opset=15).path
    own, theirs = policy.initial_memory(5), np.zeros((5, 1, policy.memory_size), np.float32)
    tree, rows = observed(policy, 15)
    for step in range(3):
        part = slice(5 * step, 5 * step + 5)
        with torch.no_grad():
            policy.act({"obs": rows["obs"][part]}, None, True, own)
        masks = np.ones((5, 4), np.float32)
        theirs = outputs(path, obs_0=tree["obs"][part], action_masks=masks, recurrent_in=theirs)["recurrent_out"]
        assert np.allclose(theirs[:, 0], own, atol=1e-5)
    policy = policy_of(MIXED, spaces.Discrete(4), module=OfADict)
    for write in (write_generic, write_unity):
        assert write(policy, tmp_path / "y.onnx", opset=15).difference <= 1e-5


def test_what_torchs_exporter_cannot_do_is_refused_by_the_modules_name(tmp_path, capfd):
    policy = policy_of(NUMBERS, spaces.Discrete(4), module=Rare)
    with pytest.raises(ExportError, match="policy 'main': model.module Rare cannot be exported in opset 9"):
        write_unity(policy, tmp_path / "x.onnx")
    assert not (tmp_path / "x.onnx").exists()
    assert "graph(" not in capfd.readouterr().out


def test_a_policy_that_acts_by_code_is_refused_by_its_class(tmp_path):
    policy = policy_of(NUMBERS, spaces.Discrete(4))

    class Rash(Policy):
        def act(self, *args, **kwargs):
            return super().act(*args, **kwargs)

    policy.__class__ = Rash
    with pytest.raises(ExportError, match="policy 'main' acts by code of Rash"):
        write_generic(policy, tmp_path / "x.onnx")


def test_a_team_that_acts_as_one_is_refused_by_its_head(tmp_path):
    team = spaces.Dict({"0": NUMBERS, "1": NUMBERS, "alive": spaces.MultiBinary(2)})
    actions = spaces.Dict({"0": spaces.Discrete(3), "1": spaces.Discrete(3)})
    policy = policy_of(team, actions, TeamQValues())
    for write in (write_generic, write_unity):
        with pytest.raises(ExportError, match=r"policy 'main' has the head TeamQHead \(a team that acts as one\)"):
            write(policy, tmp_path / "x.onnx")


@pytest.mark.parametrize("write", [write_unity, write_generic])
def test_members_of_groups_that_learn_by_poca_are_exported(write, tmp_path):
    with Trainer("rookery.tasks:CarryTogether", POCAConfig(model={"hidden": (16,)}), num_envs=2, seed=0) as trainer:
        (policy,) = trainer.policies.values()
        assert write(policy, tmp_path / "x.onnx").difference <= 1e-5


@pytest.mark.parametrize("config", [VDNConfig, MADDPGConfig])
def test_teams_are_refused_by_what_their_policies_end_in(config, tmp_path):
    policy = policy_of_team(config(model={"hidden": (16,)}))
    for write in (write_unity, write_generic):
        with pytest.raises(ExportError, match=r"policy 'main' has the head Team\w+ \(a team that acts as one\)"):
            write(policy, tmp_path / "x.onnx")


def test_a_team_of_ppo_is_one_agent_of_all_its_members(tmp_path):
    policy = policy_of_team(PPOConfig(model={"hidden": (16,)}))
    for write in (write_unity, write_generic):
        assert write(policy, tmp_path / "x.onnx").difference <= 1e-5


def policy_of_team(cfg):
    """A policy of two agents that act as one."""
    with Trainer("rookery.tasks:MatrixGame", cfg, teams={"blue": ["a", "b"]}, num_envs=2, seed=0) as trainer:
        return trainer.policies["main"]


def test_hooks_that_change_what_is_computed_are_refused(tmp_path):
    policy = policy_of(NUMBERS, spaces.Discrete(4))
    policy.trunk.register_forward_hook(lambda module, given, features: features + 1)
    with pytest.raises(ExportError, match="Encoder has a forward hook"):
        write_generic(policy, tmp_path / "x.onnx")


def test_a_missing_extra_is_named(tmp_path, monkeypatch):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name == "onnxruntime":
            raise ModuleNotFoundError("No module named 'onnxruntime'", name=name)
        return real(name, *args, **kwargs)

    policy = policy_of(NUMBERS, spaces.Discrete(4))
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ConfigError, match=r"onnxruntime, which is not installed: pip install 'rookery-rl\[onnx\]'"):
        write_generic(policy, tmp_path / "x.onnx")


class GivingAll(nn.Module):
    """A model that puts out the parameters of a distribution, and a value, itself."""

    def __init__(self, obs_space, action_space, num_outputs):
        super().__init__()
        self.outputs = nn.Linear(5, num_outputs)
        self.value = nn.Linear(5, 1)

    def forward(self, obs):
        return self.outputs(obs), self.value(obs)[:, 0]


@pytest.mark.parametrize("action", [spaces.Discrete(4), ACTIONS["nested"]], ids=["discrete", "nested"])
def test_a_model_that_gives_outputs_itself_is_exported(action, tmp_path):
    policy = policy_of(NUMBERS, action, GivenHead(), module=GivingAll, output="action_params")
    for write in (write_generic, write_unity):
        assert write(policy, tmp_path / "x.onnx").difference <= 1e-5


def test_a_policy_that_searches_is_exported_by_its_logits(tmp_path):
    policy = policy_of(NUMBERS, spaces.Discrete(4), AlphaZeroConfig().head)
    for write in (write_generic, write_unity):
        assert write(policy, tmp_path / "x.onnx").difference <= 1e-5


@pytest.mark.parametrize("action", [spaces.Discrete(3), spaces.Box(-2, 2, (2,), np.float32)])
def test_a_decision_transformer_is_exported_with_its_rewards_and_refused_for_unity(action, tmp_path):
    head = ReturnConditioned(context=3, layers=2, heads=2, width=8, timesteps=5)
    policy = policy_of(NUMBERS, action, head=head, normalize_obs=True, hidden=())
    policy.memory.target_return.fill_(7.0)
    path = write_generic(policy, tmp_path / "x.onnx").path
    assert check_file(path) == []
    tree, _ = observed(policy, 6 * 4)
    own, theirs = None, np.zeros((6, policy.memory_size), np.float32)
    for step in range(4):
        now, reward = tree["obs"][6 * step : 6 * step + 6], np.full(6, 0.5 * step, np.float32)
        wanted, own = policy.predict(now, own, reward=reward if step else None)
        given = outputs(path, obs=now, memory_in=theirs, previous_reward=reward)
        theirs = given["memory_out"]
        assert np.allclose(theirs, own, atol=1e-5) and np.allclose(given["action"], wanted, atol=1e-5)
    with pytest.raises(ExportError, match="Unity passes no rewards to a model"):
        write_unity(policy, tmp_path / "y.onnx")
