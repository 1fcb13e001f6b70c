import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

from rookery.core.errors import ConfigError
from rookery.core.spaces.arrays import obs_spec
from rookery.models.build import ModelConfig, build_trunk

BOX = spaces.Box(-1, 1, (4,), np.float32)


def build(space=BOX, seed=0, **settings):
    generator = torch.Generator().manual_seed(seed)
    return build_trunk(obs_spec(space, spaces.Discrete(2)), ModelConfig(**settings), generator=generator)


class Net(nn.Module):
    """A user's model for a plain box."""

    def __init__(self, obs_space, width=6):
        super().__init__()
        self.layer = nn.Linear(obs_space.shape[0], width)
        self.num_features = width

    def forward(self, obs):
        return self.layer(obs)


class Recorder(nn.Module):
    """Keeps what it was given."""

    num_features = 1

    def __init__(self, obs_space):
        super().__init__()
        self.space = obs_space

    def forward(self, obs):
        self.seen = obs
        leaf = obs
        while not isinstance(leaf, torch.Tensor):
            leaf = next(iter(leaf.values() if isinstance(leaf, dict) else leaf))
        return leaf.reshape(len(leaf), -1)[:, :1].float()


class WithoutWidth(Net):
    def __init__(self, obs_space):
        super().__init__(obs_space)
        del self.num_features


class WrongWidth(Net):
    def __init__(self, obs_space):
        super().__init__(obs_space)
        self.num_features = 7


class TwoOutputs(Net):
    def forward(self, obs):
        return self.layer(obs), None


class Integers(Net):
    def forward(self, obs):
        return self.layer(obs).long()


class Broken(Net):
    def forward(self, obs):
        raise ValueError("the user's own words")


def not_a_module(obs_space):
    return 3


def test_a_default_trunk_has_two_layers_of_64():
    trunk = build()
    assert trunk.num_features == 64
    assert trunk({"obs": torch.zeros(3, 4)}).shape == (3, 64)


@pytest.mark.parametrize("module", [Net, f"{__name__}:Net", lambda obs_space, width: Net(obs_space, width)])
def test_a_class_an_import_path_and_a_function_are_equal(module):
    trunk, own = build(module=module, module_config={"width": 5}), build(module=Net, module_config={"width": 5})
    assert trunk.num_features == 5
    assert trunk({"obs": torch.ones(3, 4)}).equal(own({"obs": torch.ones(3, 4)}))


def test_a_custom_model_comes_from_the_generator_and_leaves_the_global_one_alone():
    torch.manual_seed(7)
    before = torch.get_rng_state()
    a, b, c = (build(module=Net, seed=seed).module.layer.weight for seed in (0, 0, 1))
    assert torch.equal(before, torch.get_rng_state())
    assert torch.equal(a, b)
    assert not torch.equal(a, c)


@pytest.mark.parametrize(
    ("module", "words"),
    [
        (WithoutWidth, "has no num_features"),
        (WrongWidth, r"returned torch.float32 \(2, 6\) for 2 rows, not floats \(2, 7\)"),
        (TwoOutputs, "returned a tuple, not a tensor"),
        (Integers, r"returned torch.int64 \(2, 6\)"),
        (Broken, r"failed on two rows of zeros: ValueError: the user's own words \(.*test_build.py:\d+\)"),
        (not_a_module, "makes a int, not a torch.nn.Module"),
        (nn.Linear, "cannot be built: TypeError"),
    ],
)
def test_a_broken_contract_is_told_with_the_contract(module, words):
    with pytest.raises(ConfigError, match=words) as error:
        build(module=module)
    assert "MyModel(obs_space, **module_config) with forward(obs) -> float features [N, F]" in str(error.value)


def test_a_custom_model_sees_the_structure_of_the_space():
    space = spaces.Dict(
        {
            "camera": spaces.Box(0, 255, (6, 5, 3), np.uint8),
            "rest": spaces.Tuple((spaces.Discrete(3, start=1), spaces.Text(4), spaces.MultiBinary(2))),
            "text": spaces.Text(4),
            "action_mask": spaces.MultiBinary(2),
        }
    )
    trunk = build(space, module=Recorder)
    tree = {
        "camera": torch.full((2, 6, 5, 3), 51, dtype=torch.uint8),
        "rest/0": torch.tensor([0, 2]),
        "rest/2": torch.ones(2, 2, dtype=torch.uint8),
        "action_mask": torch.ones(2, 2, dtype=torch.bool),
    }
    trunk(tree)
    seen = trunk.module.seen
    assert trunk.module.space == space
    assert list(seen) == ["camera", "rest"]
    assert seen["camera"].shape == (2, 6, 5, 3) and seen["camera"].unique().item() == pytest.approx(0.2)  # 51 / 255
    category, text, flags = seen["rest"]
    assert category.tolist() == [0, 2] and category.dtype == torch.int64
    assert text is None
    assert flags.tolist() == [[1.0, 1.0], [1.0, 1.0]] and flags.dtype == torch.float32


def test_trying_a_model_out_leaves_its_mode_and_statistics_alone():
    class Normed(Net):
        def __init__(self, obs_space):
            super().__init__(obs_space)
            self.norm = nn.BatchNorm1d(6)

        def forward(self, obs):
            return self.norm(self.layer(obs))

    module = build(module=Normed).module
    assert module.training and module.norm.training
    assert module.norm.num_batches_tracked.item() == 0


def test_batch_norm_and_dropout_of_a_custom_model_are_in_training_mode_for_gradients_alone():
    class Normed(Net):
        def __init__(self, obs_space):
            super().__init__(obs_space)
            self.between = nn.Sequential(nn.BatchNorm1d(6), nn.Dropout(0.5))

        def forward(self, obs):
            return self.between(self.layer(obs))

    trunk = build(module=Normed)
    rows = {"obs": torch.randn(8, 4)}
    with torch.no_grad():
        acted = trunk(rows)
        torch.testing.assert_close(acted[:1], trunk({"obs": rows["obs"][:1]}))  # neither other rows nor chance decide
    assert trunk.module.between[0].num_batches_tracked.item() == 0
    learned = trunk(rows)
    assert (learned == 0).any(), "dropout"
    assert trunk.module.between[0].num_batches_tracked.item() == 1
    with torch.no_grad():
        assert not torch.equal(trunk(rows), acted), "the statistics have moved"


GRID = spaces.Dict({"view": spaces.Box(0, 255, (5, 5, 2), np.uint8), "speed": BOX})


def test_codes_name_pictures_of_bytes():
    assert build(GRID, categorical_images=("view",)).images[0].embedding is not None
    assert build(GRID).images[0].embedding is None
    with pytest.raises(
        ConfigError, match=r"model\.categorical_images: the observation has no uint8 image 'vew'; did you mean 'view'"
    ):
        build(GRID, categorical_images=("vew",))
    with pytest.raises(ConfigError, match=r"no uint8 image 'speed'; there are view"):
        build(GRID, categorical_images=("speed",))
    with pytest.raises(ConfigError, match=r"no uint8 image 'obs'; there is none: leave model\.categorical_images out"):
        build(BOX, categorical_images=("obs",))


def test_a_custom_model_is_given_codes_as_they_are():
    rows = {"view": torch.full((2, 5, 5, 2), 7, dtype=torch.uint8), "speed": torch.zeros(2, 4)}
    for codes, number in ((("view",), 7.0), (None, 7.0 / 255)):
        trunk = build(GRID, module=Recorder, categorical_images=codes)
        trunk(rows)
        assert torch.equal(trunk.module.seen["view"], torch.full((2, 5, 5, 2), number))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"module": "Net"}, "model.module 'Net' must be module:Name"),
        ({"module": "no_such_package:Net"}, "model.module no_such_package:Net: there is no module 'no_such_package'"),
        ({"module": f"{__name__}:Nett"}, "did you mean 'Net'"),
        ({"module": 3}, "ModelConfig.module"),
        ({"module_config": {"width": 5}}, "model.module is not set"),
        ({"hidden": (64, 0)}, "ModelConfig.hidden"),
        ({"hiden": (64,)}, "did you mean 'hidden'"),
        ({"activation": "thanh"}, "did you mean 'tanh'"),
        ({"obs_clip": 0.0}, "above 0"),
        ({"log_std_init": 3.0}, "from -20 to 2"),
    ],
)
def test_wrong_settings_are_told(settings, words):
    with pytest.raises(ConfigError, match=words):
        build(**settings)
