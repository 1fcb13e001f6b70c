import copy
import pickle

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

from rookery.core.errors import SpaceError
from rookery.core.spaces.arrays import action_spec, obs_spec
from rookery.models.build import ModelConfig
from rookery.policies.policy import Policy

BOX = spaces.Box(-np.inf, np.inf, (4,), np.float32)
ASYMMETRIC = spaces.Box(np.array([-1, 0, -np.inf], np.float32), np.array([3, 1, 2], np.float32))


def policy(space=BOX, action=spaces.Discrete(3), seed=0, info_mask=False, **settings):
    generator = torch.Generator().manual_seed(seed)
    spec = obs_spec(space, action, info_mask=info_mask)
    return Policy(spec, action_spec(action), ModelConfig(**settings), generator=generator)


def favour(subject, output):
    """Makes the head put out `output` for every observation."""
    subject.head.linear.weight.data.zero_()
    subject.head.linear.bias.data.copy_(torch.tensor(output))
    return subject


class Doubler(nn.Module):
    """A user's model without weights, importable for pickling."""

    num_features = 4

    def __init__(self, obs_space):
        super().__init__()

    def forward(self, obs):
        return 2.0 * obs


PARTS = spaces.Dict({"keys": spaces.MultiBinary(2), "move": spaces.Tuple((spaces.Discrete(3, start=1), ASYMMETRIC))})


@pytest.mark.parametrize(
    "action", [spaces.Discrete(3), spaces.MultiDiscrete([2, 3]), ASYMMETRIC, spaces.MultiBinary(4), PARTS], ids=str
)
@pytest.mark.parametrize("normalize", [False, True])
def test_act_is_forward_and_log_prob(action, normalize):
    subject = policy(action=action, normalize_obs=normalize)
    tree, noise = {"obs": torch.randn(6, 4)}, torch.rand(6, subject.noise.width)
    if normalize:
        subject.normalizer.update({"obs": torch.randn(30, 4) * 2 + 1})
    chosen, logp = subject.act(tree, noise)
    dist = subject(tree)
    assert torch.equal(chosen, dist.sample(noise))
    assert torch.allclose(logp, dist.log_prob(chosen.clone()), atol=1e-5)
    assert chosen.shape == (6, *subject.action_spec.shape)
    best, logp = subject.act(tree, None, deterministic=True)
    assert torch.equal(best, dist.mode())
    assert torch.allclose(logp, dist.log_prob(best.clone()))


def test_a_row_acts_by_its_own_noise_whoever_else_is_in_the_batch():
    subject, tree = policy(), {"obs": torch.randn(6, 4)}
    noise = torch.rand(6, 1)
    together, _ = subject.act(tree, noise)
    alone = [subject.act({"obs": tree["obs"][i : i + 1]}, noise[i : i + 1])[0].item() for i in range(6)]
    assert together.tolist() == alone


def test_equal_seeds_give_equal_weights_and_the_global_generator_is_left_alone():
    before = torch.get_rng_state()
    a, b, c = (policy(seed=seed).state_dict() for seed in (1, 1, 2))
    assert all(torch.equal(a[name], b[name]) for name in a)
    assert not torch.equal(a["trunk.first.weight"], c["trunk.first.weight"])
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("module", [None, Doubler])
def test_copies_and_pickles_act_alike_and_apart(module):
    subject = policy(normalize_obs=True, module=module)
    subject.normalizer.update({"obs": torch.randn(9, 4)})
    tree, noise = {"obs": torch.randn(5, 4)}, torch.rand(5, 1)
    for twin in (copy.deepcopy(subject), pickle.loads(pickle.dumps(subject))):
        assert torch.equal(twin.act(tree, noise)[1], subject.act(tree, noise)[1])
        twin.head.linear.bias.data += torch.tensor([1.0, 0.0, 0.0])
        assert not torch.equal(twin.act(tree, noise)[1], subject.act(tree, noise)[1])


def test_state_dict_carries_weights_and_normalizer():
    one, two = policy(seed=0, normalize_obs=True), policy(seed=1, normalize_obs=True)
    one.normalizer.update({"obs": torch.randn(9, 4) + 3})
    two.load_state_dict(one.state_dict())
    tree = {"obs": torch.randn(5, 4)}
    assert torch.equal(one(tree).log_probs, two(tree).log_probs)


def test_a_normalizer_exists_only_where_there_is_something_to_normalize():
    assert policy().normalizer is None
    assert policy(spaces.Discrete(4), normalize_obs=True).normalizer is None
    assert policy(normalize_obs=True, obs_clip=3.0).normalizer.clip == 3.0


BYTES = spaces.Dict(
    {
        "camera": spaces.Box(0, 255, (6, 5, 3), np.uint8),
        "plane": spaces.Box(0, 255, (4, 5), np.uint8),
        "vector": spaces.Box(0, 255, (3,), np.uint8),
    }
)


def test_bytes_are_normalized_unless_they_are_pictures_or_become_some():
    assert policy(BYTES, normalize_obs=True).normalizer.paths == ("plane", "vector")
    assert policy(BYTES, normalize_obs=True, memory={"frame_stack": 3}).normalizer.paths == ("vector",)


@pytest.mark.parametrize("shape", [(3,), (2, 3)])
@pytest.mark.parametrize("model", [{}, {"memory": {"frame_stack": 2}, "entities": ()}])
def test_normalized_bytes_reach_the_network_in_standard_deviations(shape, model):
    subject = policy(spaces.Box(0, 255, shape, np.uint8), normalize_obs=True, **model)
    rows = torch.randint(0, 11, (400, *shape), dtype=torch.uint8)
    subject.normalizer.update({"obs": rows})
    if not model:
        assert subject.normalize({"obs": rows})["obs"].std() == pytest.approx(1.0, abs=0.01)
    low, high = (subject.features({"obs": torch.full_like(rows[:1], number)}) for number in (0, 10))
    assert (low - high).norm() > 1.0  # 0.1 at most where 10 is read as 10 / 255


def test_predict_gives_one_action_for_one_observation_and_a_batch_for_a_batch():
    subject = favour(policy(), [0.0, 0.0, 1.0])
    one, many = subject.predict(np.zeros(4, np.float32)), subject.predict(np.zeros((5, 4), np.float32))
    assert one == 2 and isinstance(one, np.int64)
    assert many.tolist() == [2] * 5
    assert subject.predict([0.0, 0.0, 0.0, 0.0]) == 2


def test_predict_adds_the_start_of_discrete_actions_and_takes_it_off_observations():
    subject = favour(policy(action=spaces.Discrete(3, start=10)), [0.0, 1.0, 0.0])
    assert subject.predict(np.zeros(4, np.float32)) == 11
    # features = one-hot of the category, so the head's weights say: category i -> action i
    subject = policy(spaces.Discrete(3, start=5), hidden=())
    subject.head.linear.weight.data.copy_(torch.eye(3))
    assert [subject.predict(obs) for obs in (5, 6, 7)] == [0, 1, 2]
    assert subject.predict(np.array([7, 5])).tolist() == [2, 0]


def test_predict_rescales_and_clips_box_actions():
    # center + half * clip(mean): in [-1, 3] 1 + 2 * .5 = 2, in [0, 1] .5 + .5 * -1 = 0; in (-inf, 2] min(5, 2) = 2
    subject = favour(policy(action=ASYMMETRIC), [0.5, -4.0, 5.0])
    action = subject.predict(np.zeros(4, np.float32))
    assert action.tolist() == [2.0, 0.0, 2.0]
    assert action.dtype == np.float32 and ASYMMETRIC.contains(action)
    assert subject.predict(np.zeros((2, 4), np.float32)).shape == (2, 3)


def test_predict_gives_actions_of_parts_as_the_environment_takes_them():
    # logits of the choice, logits of the flags, means: choice 1 is the environment's 2; 1 + 2 * .5 = 2
    subject = favour(policy(action=PARTS), [0.0, 1.0, 0.0, 1.0, -1.0, 0.5, -4.0, 5.0])
    one, many = subject.predict(np.zeros(4, np.float32)), subject.predict(np.zeros((3, 4), np.float32))
    assert PARTS.contains(one)
    assert one["keys"].tolist() == [1, 0]
    assert (one["move"][0], one["move"][1].tolist()) == (2, [2.0, 0.0, 2.0])
    assert many.shape == (3,)
    assert all(PARTS.contains(action) for action in many)
    drawn = subject.predict(np.zeros((50, 4), np.float32), deterministic=False, rng=np.random.default_rng(0))
    assert all(PARTS.contains(action) for action in drawn)
    assert {int(action["move"][0]) for action in drawn} == {1, 2, 3}


def test_predict_obeys_the_mask_of_a_choice_among_parts():
    subject = favour(policy(action=PARTS, info_mask=True), [0.0, 1.0, 2.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    assert subject.predict(np.zeros(4, np.float32), action_mask=np.array([1, 1, 0]))["move"][0] == 2


def test_predict_takes_nested_observations():
    space = spaces.Dict({"a": spaces.Tuple((BOX, spaces.Discrete(3))), "b": spaces.Box(0, 255, (8, 8, 3), np.uint8)})
    space.seed(0)
    subject = policy(space, spaces.MultiDiscrete([2, 3], start=[1, 1]))
    samples = [space.sample() for _ in range(3)]
    for sample in samples:
        sample["a"] = (np.clip(sample["a"][0], -1, 1), sample["a"][1])
    batch = {
        "a": (np.stack([s["a"][0] for s in samples]), np.array([s["a"][1] for s in samples])),
        "b": np.stack([s["b"] for s in samples]),
    }
    single = [subject.predict(sample).tolist() for sample in samples]
    assert subject.predict(batch).tolist() == single
    assert all(subject.action_spec.space.contains(np.array(action)) for action in single)


def test_predict_draws_from_the_given_generator():
    subject, obs = policy(), np.zeros((200, 4), np.float32)
    one, two = (subject.predict(obs, deterministic=False, rng=np.random.default_rng(3)) for _ in range(2))
    assert np.array_equal(one, two)
    assert set(one) == {0, 1, 2}


def test_predict_obeys_masks_of_the_observation_and_of_info():
    space = spaces.Dict({"obs": BOX, "action_mask": spaces.MultiBinary(3)})
    obs = {"obs": np.zeros(4, np.float32), "action_mask": np.array([1, 0, 0], np.int8)}
    assert favour(policy(space), [0.0, 1.0, 2.0]).predict(obs) == 0
    subject = favour(policy(info_mask=True), [0.0, 1.0, 2.0])
    assert subject.predict(obs["obs"], action_mask=np.array([1, 1, 0])) == 1
    masks = np.array([[1, 1, 0], [1, 0, 1]])
    assert subject.predict(np.zeros((2, 4), np.float32), action_mask=masks).tolist() == [1, 2]
    with pytest.raises(SpaceError, match="has action masks in info; pass action_mask="):
        subject.predict(obs["obs"])


@pytest.mark.parametrize(
    ("space", "obs", "words"),
    [
        (
            BOX,
            np.zeros(3, np.float32),
            r"policy 'main': obs: shape \(3,\) \(expected \(4,\), or \(N, 4\) for a batch\)",
        ),
        (BOX, np.zeros((2, 2, 4), np.float32), r"shape \(2, 2, 4\)"),
        (BOX, np.array([0, np.nan, 0, 0], np.float32), "non-finite observation nan"),
        (spaces.Discrete(3, start=5), 4, "category 4 is outside the space"),
        (spaces.Discrete(3), np.zeros((2, 1, 1), np.int64), "expected"),
        (spaces.Dict({"a": BOX}), {"b": np.zeros(4)}, "a: missing from the observation"),
        (
            spaces.Dict({"a": BOX, "b": BOX}),
            {"a": np.zeros((2, 4), np.float32), "b": np.zeros((3, 4), np.float32)},
            r"b: shape \(3, 4\) \(expected \(2, 4\)",
        ),
    ],
    ids=str,
)
def test_predict_tells_what_observation_it_expected(space, obs, words):
    with pytest.raises(SpaceError, match=words):
        policy(space).predict(obs)
