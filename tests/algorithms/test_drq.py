"""DrQ-v2: shifts of images by hand, convolutions that only the critics train, and resumed runs."""

import numpy as np
import pytest
import torch
from gymnasium import spaces

from rookery import Trainer
from rookery.algorithms.off_policy.ddpg import DDPG, DDPGConfig
from rookery.algorithms.off_policy.drq import shifted
from rookery.algorithms.off_policy.td3 import TD3, TD3Config
from rookery.core.batch import Transitions
from rookery.core.errors import ConfigError
from rookery.core.seeding import Streams
from rookery.core.spaces.arrays import action_spec, obs_spec
from rookery.models.image_encoders import Maps
from rookery.policies.policy import Policy
from selection import slow

MOVES = spaces.Box(-1, 1, (2,), np.float32)
SIDE, ROWS = 16, 6
SMALL = {"batch_size": ROWS, "learning_starts": 10, "replay": {"capacity": 500}}
MODEL = {"hidden": (16,), "cnn": "drq"}


def pictures(*shape, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8))


def by_hand(image, offset, shift):
    """Pads `[height, width, channels]` by the border and crops."""
    height, width = image.shape[:2]
    padded = np.pad(image.numpy(), ((shift, shift), (shift, shift), (0, 0)), mode="edge")
    row, column = (int(start) + shift for start in offset)
    return torch.from_numpy(padded[row : row + height, column : column + width])


def made(kind, config, shape=(SIDE, SIDE, 2), space=None, model=MODEL, **settings):
    space = spaces.Box(0, 255, shape, np.uint8) if space is None else space
    cfg = config(**{**SMALL, "model": model, **settings})
    generator = torch.Generator().manual_seed(0)
    policy = Policy(obs_spec(space, MOVES), action_spec(MOVES), cfg.model, generator=generator, head=cfg.head)
    return kind(policy, cfg, Streams(0), "hero")


def rows(shape=(SIDE, SIDE, 2), number=ROWS, same=False):
    rng = np.random.default_rng(1)
    obs = pictures(number, *shape)
    return Transitions(
        {"obs": obs},
        torch.from_numpy(rng.uniform(-1, 1, (number, 2)).astype(np.float32)),
        torch.from_numpy(rng.normal(size=number).astype(np.float32)),
        {"obs": obs if same else pictures(number, *shape, seed=2)},
        torch.full((number,), 0.9),
        None,
        torch.arange(number),
    )


def convolutions(module):
    return [weight for image in module.images for weight in image.convolutions.parameters()]


# --- the shift -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("channels_last", [True, False])
def test_a_shift_is_a_crop_of_the_image_padded_by_its_border(channels_last):
    images = pictures(5, 7, 9, 3)
    offset = torch.tensor([[0, 0], [-2, -2], [2, 1], [-1, 2], [2, 2]])
    wanted = torch.stack([by_hand(image, by, 2) for image, by in zip(images, offset, strict=True)])
    given = images if channels_last else images.movedim(-1, 1).contiguous()
    moved = shifted(given, offset, channels_last)
    assert moved.shape == given.shape and moved.dtype == torch.uint8 and moved.is_contiguous()
    assert torch.equal(moved if channels_last else moved.movedim(1, -1), wanted)
    assert torch.equal(moved[0], given[0])


def test_floats_are_shifted_like_bytes():
    images, offset = pictures(3, 5, 5, 1), torch.tensor([[1, -1], [0, 2], [-2, 0]])
    assert torch.equal(shifted(images.float(), offset, True), shifted(images, offset, True).float())


@pytest.mark.parametrize("shape", [(SIDE, SIDE, 4), (4, SIDE, SIDE)], ids=["frames last", "frames first"])
def test_each_observation_has_a_shift_of_its_own_and_its_frames_have_the_same(shape):
    number, shift = 200, 2
    learner = made(TD3, TD3Config, shape=shape, image_shift=shift)
    one = pictures(1, SIDE, SIDE, 1, seed=3).expand(number, SIDE, SIDE, 4)  # four equal frames
    given = one if shape[-1] == 4 else one.movedim(-1, 1)
    batch = rows(shape, number)
    drawn = learner.drq.augmented(
        Transitions({"obs": given.contiguous()}, *(getattr(batch, name) for name in ("action", "reward")),
                    {"obs": given.contiguous()}, batch.discount, None, batch.row),
        np.random.default_rng(0),
    )  # fmt: skip
    found = {}
    every = {
        by_hand(one[0], (row, column), shift).numpy().tobytes(): (row, column)
        for row in range(-shift, shift + 1)
        for column in range(-shift, shift + 1)
    }
    for name in ("obs", "next_obs"):
        images = getattr(drawn, name)["obs"]
        images = images if shape[-1] == 4 else images.movedim(1, -1)
        assert (images == images[..., :1]).all()  # the frames of one stack move together
        found[name] = [every[image.contiguous().numpy().tobytes()] for image in images]
    counts = {offset: found["obs"].count(offset) for offset in every.values()}
    assert len(every) == 25 and min(counts.values()) > 0 and max(counts.values()) < 25  # 8 are expected
    assert np.mean([a == b for a, b in zip(found["obs"], found["next_obs"], strict=True)]) < 0.15  # 1 / 25 by chance
    assert torch.equal(drawn.action, batch.action)


def test_without_a_shift_rows_are_the_same_object_and_nothing_is_drawn():
    learner, batch = made(TD3, TD3Config), rows()
    before = learner.rng.bit_generator.state
    assert learner.drq.augmented(batch, learner.rng) is batch and learner.rng.bit_generator.state == before
    assert learner.drq.with_maps(batch) is batch and learner.drq.with_next_maps(batch) is batch


def test_critics_and_actor_learn_from_the_shifted_images(monkeypatch):
    learner, seen = made(DDPG, DDPGConfig, image_shift=3), []
    batch = rows(same=True)
    monkeypatch.setattr(learner, "learn_critics", lambda given, cfg: seen.append(given) or {})
    monkeypatch.setattr(learner, "learn_actor", lambda given, cfg: seen.append(given) or {})
    learner.learn_rows(batch, learner.now())
    critics, actor = seen
    assert critics is actor and not torch.equal(critics.obs["obs"], batch.obs["obs"])
    assert not torch.equal(critics.obs["obs"], critics.next_obs["obs"])  # one image, two shifts


# --- the shared encoder ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "config"), [(TD3, TD3Config), (DDPG, DDPGConfig)])
def test_actor_and_critics_share_convolutions_that_the_actor_does_not_train(kind, config):
    learner = made(kind, config, shared_encoder=True, **({"policy_delay": 1} if kind is TD3 else {}))
    own, networks = convolutions(learner.policy.trunk), learner.critics.net.networks
    shared = convolutions(networks[0].trunk)
    assert len(own) == 8 and all(a.data_ptr() == b.data_ptr() for a, b in zip(own, shared, strict=True))
    assert all(convolutions(network.trunk)[0] is shared[0] for network in networks)
    assert networks[-1].trunk.images[0].linear is not learner.policy.trunk.images[0].linear
    size = sum(weight.numel() for weight in shared)
    others = sum(weight.numel() for weight in learner.policy.parameters()) - size
    assert len(learner.actor_optimizer.flat.data) == others
    before, batch = [weight.clone() for weight in shared], rows()
    learner.learn_actor(learner.drq.augmented(batch, learner.rng), learner.now())
    assert all(torch.equal(a, b) for a, b in zip(before, shared, strict=True))
    learner.learn_critics(batch, learner.now())
    assert not any(torch.equal(a, b) for a, b in zip(before, shared, strict=True))
    assert all(torch.equal(a, b) for a, b in zip(own, shared, strict=True))


def test_maps_computed_once_give_the_outputs_of_whole_images():
    learner, batch = made(TD3, TD3Config, shared_encoder=True), rows()
    seen = learner.drq.with_maps(batch)
    assert isinstance(seen.obs["obs"], Maps) and len(seen.obs["obs"]) == ROWS
    with torch.no_grad():
        assert torch.equal(learner.actor(seen), learner.actor(batch))
        whole = learner.policy.trunk(batch.obs)
        assert torch.equal(learner.policy.trunk(seen.obs), whole)


def test_targets_use_the_convolutions_that_learn():
    learner, batch = made(TD3, TD3Config, shared_encoder=True), rows()
    ahead = learner.drq.with_next_maps(batch).next_obs
    for weight in convolutions(learner.critics.net.networks[0].trunk):
        weight.data.zero_()
    zeroed = learner.drq.with_next_maps(batch).next_obs
    assert ahead["obs"].values.abs().sum() > 0 and zeroed["obs"].values.abs().sum() == 0


def test_features_are_normalized_and_between_minus_one_and_one():
    image = made(TD3, TD3Config).policy.trunk.images[0]
    features = image(pictures(4, SIDE, SIDE, 2))
    by_layers = torch.layer_norm(image.linear(image.maps(pictures(4, SIDE, SIDE, 2)).values), (50,))
    assert features.shape == (4, 50)
    torch.testing.assert_close(features, torch.tanh(by_layers))


VECTOR = spaces.Box(-1, 1, (3,), np.float32)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"space": VECTOR, "image_shift": 4}, r"image_shift = 4 is for images, and Box.* has none"),
        ({"space": VECTOR, "shared_encoder": True}, r"shared_encoder = True needs images"),
        ({"image_shift": SIDE}, r"image_shift = 16 moves images of 16 pixels out of sight"),
        ({"shared_encoder": True, "critic": {"norm": "batch"}}, r"leave out .*critic.norm = batch"),
        ({"shared_encoder": True, "critic": {"dropout": 0.1}}, r"leave out .*critic.dropout"),
    ],
)
def test_settings_that_do_not_fit_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        made(TD3, TD3Config, **settings)


# --- runs ------------------------------------------------------------------------------------------------------------


def weights(trainer):
    learner = trainer.learners["main"]
    state = {**learner.policy.state_dict(), **{f"critics.{n}": v for n, v in learner.critics.net.state_dict().items()}}
    return {name: value.clone() for name, value in state.items()}


@pytest.mark.parametrize("algorithm", ["td3", slow("ddpg")])
def test_a_run_resumes_exactly(algorithm, tmp_path):
    settings = {
        "algorithm.name": algorithm,
        **{f"algorithm.{name}": value for name, value in SMALL.items() if name != "replay"},
        "algorithm.replay": {"capacity": 500, "save": True},
        "algorithm.model": MODEL,
        "algorithm.image_shift": 2,
        "algorithm.shared_encoder": True,
        "algorithm.n_step": 3,
        "env.config": {"dimensions": 2, "pixels": SIDE, "max_steps": 7},
        "sampling.num_envs": 2,
        "sampling.iteration_steps": 20,
        "logging.console": "quiet",
    }
    with Trainer("PointReach", config=settings, seed=5) as through:
        through.train({"iterations": 4})
        wanted = weights(through)
    with Trainer("PointReach", config=settings, seed=5) as first:
        first.train({"iterations": 2})
        place = first.save(tmp_path / "half")
    with Trainer.load(place) as second:
        assert not all(torch.equal(value, wanted[name]) for name, value in weights(second).items())
        second.train({"iterations": 4})
        found = weights(second)
        own, shared = (
            convolutions(net)
            for net in (second.learners["main"].policy.trunk, second.learners["main"].critics.net.encoder)
        )
        assert all(a.data_ptr() == b.data_ptr() for a, b in zip(own, shared, strict=True))
    assert found.keys() == wanted.keys() and all(torch.equal(found[name], wanted[name]) for name in wanted)
