"""Scripted policies: the same for any batch, uniform over what is allowed, and mistakes of players in words."""

import copy

import numpy as np
import pytest
import torch
from gymnasium import spaces

from rookery.core.errors import ConfigError, SpaceError
from rookery.core.spaces.arrays import action_spec, obs_spec
from rookery.policies.scripted import ScriptedPolicy, find_player

BOARD = spaces.Dict({"observation": spaces.Box(0, 1, (9,), np.float32), "action_mask": spaces.MultiBinary(9)})


def scripted(player=None, obs=BOARD, action=None, name="mine", seed=0):
    action = spaces.Discrete(9) if action is None else action
    return ScriptedPolicy(obs_spec(obs, action), action_spec(action), player, name, seed)


def rows(policy, num, seed=0, allowed=None):
    """Observations of noise, and random numbers for them."""
    rng = np.random.default_rng(seed)
    obs = {path: torch.from_numpy(array) for path, array in policy.obs_spec.allocate(num).items()}
    for path, tensor in obs.items():
        if path == "action_mask":
            mask = rng.random(tensor.shape) < 0.4
            mask[:, 2] |= ~mask.any(axis=1)
            tensor[...] = torch.from_numpy(mask if allowed is None else np.broadcast_to(allowed, mask.shape).copy())
    return obs, torch.from_numpy(rng.random((num, policy.noise.width), dtype=np.float32))


def first_allowed(obs, rng):
    return obs["action_mask"].argmax(axis=1)


def any_allowed(obs, rng):
    return np.array([rng.choice(np.flatnonzero(mask)) for mask in obs["action_mask"]])


@pytest.mark.parametrize("player", [None, first_allowed, any_allowed])
def test_a_row_is_answered_alike_in_any_batch(player):
    policy = scripted(player)
    obs, noise = rows(policy, 40)
    whole, logp = policy.act(obs, noise)
    assert (logp == 0).all()
    assert obs["action_mask"][torch.arange(40), whole].all()
    for part in (slice(0, 1), slice(7, 19), slice(39, 40)):
        piece, _ = policy.act({path: tensor[part] for path, tensor in obs.items()}, noise[part])
        assert torch.equal(piece, whole[part])
    assert len(set(whole.tolist())) > 3
    if player is any_allowed:  # control: with other numbers it does something else
        assert not torch.equal(policy.act(obs, noise.flip(0))[0], whole)


def test_chance_is_uniform_over_what_is_allowed():
    policy = scripted()
    allowed = np.array([1, 0, 0, 1, 1, 0, 0, 0, 1], dtype=bool)
    action, _ = policy.act(*rows(policy, 8000, allowed=allowed))
    counts = np.bincount(action.numpy(), minlength=9)
    assert (counts[~allowed] == 0).all()
    assert np.abs(counts[allowed] / 8000 - 0.25).max() < 0.025  # 5 standard errors


def test_chance_draws_every_sort_of_action_within_its_space():
    space = spaces.Dict(
        {
            "go": spaces.Discrete(3, start=2),
            "flags": spaces.MultiBinary(2),
            "move": spaces.Box(np.array([-2.0, 0.0, -np.inf, -np.inf]), np.array([6.0, np.inf, 1.0, np.inf])),
        }
    )
    policy = scripted(None, spaces.Box(-1, 1, (2,)), space)
    action, _ = policy.act(*rows(policy, 500))
    given = policy.action_spec.to_env(action.numpy())
    assert all(space.contains({**one, "move": one["move"].astype(np.float32)}) for one in given)
    moves = np.array([one["move"] for one in given])
    assert moves[:, 0].mean() == pytest.approx(2.0, abs=0.5)
    assert {int(one["go"]) for one in given} == {2, 3, 4}
    box = scripted(None, spaces.Box(-1, 1, (2,)), spaces.Box(-3, 5, (2,)))
    moves = box.action_spec.to_env(box.act(*rows(box, 500))[0].numpy())
    assert moves.min() < -2.5 and moves.max() > 4.5


def test_without_numbers_it_draws_its_own_which_a_copy_repeats():
    policy = scripted(seed=3)
    obs, _ = rows(policy, 200, allowed=np.ones(9, dtype=bool))
    first, _ = policy.act(obs, None, True)
    second, _ = policy.act(obs, None, True)
    assert not torch.equal(first, second)
    twin = copy.deepcopy(policy)
    assert torch.equal(twin.act(obs, None, True)[0], first)
    other = scripted(seed=4)
    assert not torch.equal(other.act(obs, None, True)[0], first)
    assert len(set(first.tolist())) == 9


def test_a_scripted_policy_predicts():
    policy = scripted(first_allowed)
    seen = {"observation": np.zeros(9, np.float32), "action_mask": np.array([0, 0, 1, 1, 0, 0, 0, 0, 0], np.int8)}
    assert policy.predict(seen) == 2


def raising(obs, rng):
    raise KeyError("board")


@pytest.mark.parametrize(
    ("player", "told"),
    [
        (lambda obs, rng: np.array([4]), r"player 'mine', row 0.*4 is not allowed: the mask allows 1, 3 of 9"),
        (lambda obs, rng: 1, r"shape is \(\) where one row of Discrete\(9\) has \(1,\)"),
        (lambda obs, rng: np.array([9]), r"returned array\(\[9\]\), which is not an action of Discrete\(9\)"),
        (lambda obs, rng: np.array(["x"]), "which is not an action of"),
        (lambda obs, rng: None, "returned None, which is not an action of"),
        (raising, "it raised KeyError: 'board'"),
    ],
)
def test_mistakes_of_a_player_are_named(player, told):
    policy = scripted(player)
    with pytest.raises(SpaceError, match=told):
        policy.act(*rows(policy, 2, allowed=np.isin(np.arange(9), [1, 3])))


def test_a_mask_of_several_choices_names_the_choice():
    space = spaces.MultiDiscrete([2, 3])
    obs = spaces.Dict({"see": spaces.Box(0, 1, (1,)), "action_mask": spaces.MultiBinary(5)})
    policy = scripted(lambda obs, rng: np.array([[0, 2]]), obs, space)
    with pytest.raises(SpaceError, match="choice 1: 2 is not allowed: the mask allows 0, 1 of 3"):
        policy.act(*rows(policy, 1, allowed=np.array([1, 1, 1, 1, 0], dtype=bool)))


def test_players_are_found_by_their_names():
    assert find_player("random") is None
    assert find_player(f"{__name__}:first_allowed").__name__ == "first_allowed"
    with pytest.raises(ConfigError, match="write my.module:function"):
        find_player("perfekt")
    with pytest.raises(ConfigError, match="has no 'first_alowed'; did you mean 'first_allowed'"):
        find_player(f"{__name__}:first_alowed")
    with pytest.raises(ConfigError, match="is a Dict; it must be a function"):
        find_player(f"{__name__}:BOARD")
