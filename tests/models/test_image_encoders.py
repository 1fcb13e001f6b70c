import itertools

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch.nn import functional

from rookery.core.errors import ConfigError
from rookery.core.flat import flatten
from rookery.core.optim import Adam, gradient_step
from rookery.core.spaces.arrays import obs_spec
from rookery.models.build import ModelConfig
from rookery.models.image_encoders import (
    NUM_CODES,
    ImageEncoder,
    image_layout,
    joined_bytes,
    joins,
    network_for,
    small_layers,
)
from selection import slow, slow_repeats


def leaf(*shape, dtype=np.uint8):
    space = spaces.Box(0, 255 if dtype == np.uint8 else 1, shape, dtype)
    return obs_spec(space, spaces.Discrete(2)).leaves[0]


def encoder(*shape, cnn="auto", width=1, features=None, precision="float32", seed=0, dtype=np.uint8, codes=False):
    generator = torch.Generator().manual_seed(seed)
    network = {"cnn": cnn, "cnn_width": width, "cnn_features": features, "precision": precision, "codes": codes}
    return ImageEncoder(leaf(*shape, dtype=dtype), **network, generator=generator)


def pictures(rows, *shape):
    return torch.randint(0, 256, (rows, *shape), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))


def sizes(module):
    """Shapes of the weights, in order."""
    return [tuple(weight.shape) for weight in module.parameters() if weight.dim() > 1]


def num_parameters(module):
    return sum(weight.numel() for weight in module.parameters())


def test_channels_are_the_shorter_of_first_and_last_axis():
    assert image_layout(leaf(84, 80, 4)) == (4, 84, 80, True)
    assert image_layout(leaf(4, 84, 80)) == (4, 84, 80, False)
    assert image_layout(leaf(3, 7, 3)) == (3, 3, 7, True)  # equal: the last
    assert image_layout(leaf(9, 9, 1, dtype=np.float32)) == (1, 9, 9, True)
    assert image_layout(leaf(2, 2, 2)) is None  # too small for a picture
    assert image_layout(leaf(84, 84)) is None
    categories = obs_spec(spaces.MultiDiscrete(np.full((5, 5, 3), 2)), spaces.Discrete(2))
    assert image_layout(categories.leaves[0]) is None


def test_nature_network_from_36_pixels_and_a_small_one_below():
    assert network_for("auto", leaf(36, 100, 3)) == "nature"
    assert network_for("auto", leaf(35, 100, 3)) == "small"
    assert network_for("impala", leaf(5, 5, 3)) == "impala"
    assert network_for("small", leaf(84, 84, 3)) == "small"


def test_the_small_network_ends_where_its_kernel_no_longer_fits():
    assert small_layers(7, 7) == ((16, 3, 1), (32, 3, 1), (64, 3, 1))  # 7 -> 5 -> 3 -> 1
    assert small_layers(5, 5) == ((16, 2, 1), (32, 2, 1), (64, 2, 1))  # 5 -> 4 -> 3 -> 2
    assert small_layers(3, 9) == ((16, 2, 1), (32, 2, 1))  # 3 -> 2 -> 1
    assert small_layers(35, 35) == ((16, 3, 2), (32, 3, 2), (64, 3, 1))  # 35 -> 17 -> 8 -> 6


@pytest.mark.parametrize(("cnn", "smallest"), [("simple", 20), ("nature", 36), ("resnet", 15), ("match3", 5)])
def test_a_network_begins_where_its_layers_leave_one_pixel(cnn, smallest):
    maps = encoder(smallest, smallest + 9, 3, cnn=cnn).convolutions(torch.zeros(1, 3, smallest, smallest + 9), 1.0)
    assert maps.shape[2] == 1
    told = f"the image 'obs' of {smallest - 1} x {smallest + 9} pixels"
    with pytest.raises(ConfigError, match=rf"model.cnn = '{cnn}': {told} .* at least {smallest}; use auto, .* or flat"):
        encoder(smallest - 1, smallest + 9, 3, cnn=cnn)


def test_what_a_message_names_for_a_small_picture_fits_it():
    with pytest.raises(ConfigError, match=r"'simple': .* use auto, impala, small or flat$"):
        encoder(4, 4, 3, cnn="simple")
    for cnn in ("impala", "small", "flat"):
        assert encoder(4, 4, 3, cnn=cnn)(pictures(2, 4, 4, 3)).shape[0] == 2


def test_the_networks_of_ml_agents_have_their_layers():
    # encoders.py of ml-agents 1.1.0; features there are hidden_units
    simple = encoder(84, 84, 3, cnn="simple")
    assert sizes(simple) == [(16, 3, 8, 8), (32, 16, 4, 4), (128, 9 * 9 * 32)]  # 84 -> 20 -> 9
    assert num_parameters(simple) == 3088 + 8224 + 331904
    match3 = encoder(9, 8, 6, cnn="match3", features=256)
    assert sizes(match3) == [(35, 6, 3, 3), (144, 35, 3, 3), (256, 5 * 4 * 144)]  # 9 x 8 -> 7 x 6 -> 5 x 4
    assert sizes(encoder(10, 12, 3, cnn="flat", features=50)) == [(50, 360)]


def test_the_networks_of_ml_agents_end_in_leaky_units():
    for cnn in ("simple", "match3", "flat"):
        module = encoder(20, 20, 3, cnn=cnn)
        image = pictures(4, 20, 20, 3)
        x = image.permute(0, 3, 1, 2).float() / 255.0
        for layer in module.convolutions:
            x = functional.leaky_relu(functional.conv2d(x, layer.weight, layer.bias, layer.stride))
        expected = functional.leaky_relu(module.linear(x.flatten(1)))
        assert torch.allclose(module(image), expected, atol=1e-5)
        assert (expected < 0).any()


def test_features_are_set_for_every_network():
    for cnn in ("nature", "impala", "small", "simple", "match3", "flat"):
        module = encoder(36, 36, 1, cnn=cnn, features=20)
        assert module.num_features == 20
        assert module(pictures(2, 36, 36, 1)).shape == (2, 20)


def test_a_network_without_filters_has_none_to_multiply():
    with pytest.raises(ConfigError, match=r"model.cnn_width = 2 multiplies filters, and model.cnn = 'flat' has none"):
        encoder(8, 8, 3, cnn="flat", width=2)


def test_the_nature_network_has_the_layers_of_its_paper():
    module = encoder(84, 84, 4, cnn="nature")
    # 84 -> 20 -> 9 -> 7
    assert sizes(module) == [(32, 4, 8, 8), (64, 32, 4, 4), (64, 64, 3, 3), (512, 7 * 7 * 64)]
    # 8*8*4*32+32 = 8224; 4*4*32*64+64 = 32832; 3*3*64*64+64 = 36928; 3136*512+512 = 1606144
    assert num_parameters(module) == 8224 + 32832 + 36928 + 1606144
    assert module.num_features == 512


def test_the_impala_network_has_the_layers_of_its_paper():
    module = encoder(84, 84, 4, cnn="impala")
    assert sizes(module) == [
        *[(16, 4, 3, 3), *[(16, 16, 3, 3)] * 4],
        *[(32, 16, 3, 3), *[(32, 32, 3, 3)] * 4],
        *[(32, 32, 3, 3), *[(32, 32, 3, 3)] * 4],
        (256, 11 * 11 * 32),  # 84 -> 42 -> 21 -> 11
    ]
    # first section 592 + 4 * 2320, second 4640 + 4 * 9248, third 5 * 9248, linear 3872*256+256
    assert num_parameters(module) == 9872 + 41632 + 46240 + 991488
    assert module.num_features == 256


def test_a_section_is_convolution_maximum_and_two_residual_blocks():
    module = encoder(6, 5, 3, cnn="impala")
    picture = pictures(2, 6, 5, 3)
    x = picture.permute(0, 3, 1, 2).float() / 255.0
    for section in module.convolutions:
        conv = section.convolution
        x = functional.max_pool2d(functional.conv2d(x, conv.weight, conv.bias, padding=1), 3, 2, 1)
        for block in section.blocks:
            inner = functional.conv2d(x.relu(), block.first.weight, block.first.bias, padding=1)
            x = x + functional.conv2d(inner.relu(), block.second.weight, block.second.bias, padding=1)
    expected = module.linear(x.relu().flatten(1)).relu()
    assert torch.allclose(module(picture), expected, atol=1e-5)


def test_width_multiplies_the_filters_and_leaves_the_features():
    narrow, wide = encoder(40, 40, 3, cnn="impala"), encoder(40, 40, 3, cnn="impala", width=2)
    assert [shape[0] for shape in sizes(narrow)] == [16] * 5 + [32] * 10 + [256]
    assert [shape[0] for shape in sizes(wide)] == [32] * 5 + [64] * 10 + [256]
    assert [shape[0] for shape in sizes(encoder(36, 36, 1, width=3))] == [96, 192, 192, 512]


@pytest.mark.parametrize("cnn", ["nature", "impala", "small", "simple", "match3", "flat"])
def test_weights_start_orthogonal(cnn):
    sides = (40, 44) if cnn != "match3" else (9, 11)  # whose last layer sees most of them
    for weight in encoder(*sides, 3, cnn=cnn).parameters():
        if weight.dim() > 1:
            rows = weight.detach().flatten(1)
            square = rows @ rows.T if len(rows) <= rows.shape[1] else rows.T @ rows
            assert torch.allclose(square, 2.0 * torch.eye(len(square)), atol=1e-4)


@pytest.mark.parametrize(
    ("height", "width", "channels", "cnn"),
    [(84, 84, 4, "auto"), (40, 50, 3, "auto"), (10, 12, 3, "auto"), (7, 7, 3, "auto"), (3, 9, 2, "impala"),
     (17, 30, 3, "impala"), (17, 30, 3, "resnet"), (36, 61, 1, "small"), (20, 24, 3, "simple"), (5, 9, 4, "match3"),
     (3, 4, 2, "flat")],
)  # fmt: skip
def test_channels_first_and_last_give_equal_features(height, width, channels, cnn):
    last, first = encoder(height, width, channels, cnn=cnn), encoder(channels, height, width, cnn=cnn)
    images = pictures(5, height, width, channels)
    features = last(images)
    assert features.shape == (5, last.num_features)
    assert (features.std(0) > 0).any()
    assert torch.allclose(features, first(images.permute(0, 3, 1, 2).contiguous()), atol=1e-5)


@pytest.mark.parametrize(
    ("precision", "cnn"),
    slow_repeats(
        of=itertools.product(["float32", "bfloat16"], ["nature", "impala", "small", "simple", "match3", "flat"])
    ),
)
def test_gradients_reach_every_parameter(cnn, precision):
    side = 40 if cnn != "match3" else 10
    module = encoder(side, side, 3, cnn=cnn, precision=precision)
    module(pictures(16, side, side, 3)).square().sum().backward()
    assert all(weight.grad.dtype == torch.float32 for weight in module.parameters())
    assert all(weight.grad.abs().sum() > 0 for weight in module.parameters())


def test_bfloat16_is_for_learning_only():
    exact, short = encoder(40, 40, 3), encoder(40, 40, 3, precision="bfloat16")
    images = pictures(4, 40, 40, 3)
    learning = short(images)
    assert learning.dtype == torch.float32  # features, whatever they were computed in
    assert not torch.equal(learning, exact(images))
    with torch.no_grad():  # targets
        assert torch.equal(short(images), exact(images))
    short.requires_grad_(False)  # a worker's copy
    assert torch.equal(short(images), exact(images))


def test_bytes_are_divided_by_their_upper_bound_exactly_once():
    images = pictures(5, 40, 40, 3)
    floats = encoder(40, 40, 3, dtype=np.float32)
    assert torch.allclose(encoder(40, 40, 3)(images), floats(images.float() / 255.0), atol=1e-5)


@pytest.mark.parametrize("shape", [(4, 84, 80), (84, 80, 4), (3, 40, 44), (40, 44, 3), (4, 42, 45), (42, 45, 4)])
@pytest.mark.parametrize("cnn", ["nature", "simple"])
def test_joined_columns_give_what_a_plain_convolution_does(shape, cnn):
    module = encoder(*shape, cnn=cnn)
    image, head = pictures(6, *shape), torch.randn(6, module.num_features, generator=torch.Generator().manual_seed(3))
    features = module(image)
    features.backward(head)
    found = [weight.grad.clone() for weight in module.parameters()]
    module.zero_grad()
    x = (image.permute(0, 3, 1, 2) if shape[2] < shape[0] else image).double() / 255.0
    for layer in module.convolutions:
        x = functional.conv2d(x, layer.weight.double(), layer.bias.double(), layer.stride)
        x = functional.leaky_relu(x, module.slope)
    last = module.linear
    plain = functional.leaky_relu(x.flatten(1) @ last.weight.double().T + last.bias.double(), module.slope)
    plain.backward(head.double())
    assert torch.allclose(features.double(), plain, atol=1e-4)
    for mine, weight in zip(found, module.parameters(), strict=True):
        assert torch.allclose(mine, weight.grad, atol=1e-4 * float(weight.grad.abs().max()))


@pytest.mark.parametrize(("size", "width"), [(2, 10), (4, 12), (8, 16)])
def test_bytes_of_neighbouring_columns_become_channels(size, width):
    image = pictures(3, 2, 5, width)
    joined = joined_bytes(image, size)
    assert joined.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(joined, image.unflatten(3, (-1, size)).permute(0, 1, 4, 2, 3).flatten(1, 2))
    assert torch.equal(joined_bytes(image[1:], size), joined[1:])  # of pictures that begin elsewhere in memory


def test_columns_are_joined_where_that_comes_out_even():
    nature = encoder(84, 84, 4).convolutions
    assert joins(nature[0], 84) and joins(nature[1], 20)
    assert not joins(nature[0], 86)  # the last pixels would be left over
    assert not joins(nature[2], 9)  # moves by one
    assert not joins(encoder(35, 35, 3, cnn="small").convolutions[0], 36)  # three columns, moves by two


def bright(rows, generator):
    """Dim noise with a bright square on the left or on the right, and which it is."""
    images = torch.randint(0, 120, (rows, 36, 36, 1), dtype=torch.uint8, generator=generator)
    right = torch.randint(0, 2, (rows,), generator=generator)
    for image, side in zip(images, right.tolist(), strict=True):
        top = int(torch.randint(4, 24, (), generator=generator))
        image[top : top + 6, 22 * side + 4 : 22 * side + 10] += 130
    return images, right


def gradient(cnn, precision, seed):
    """The gradient of a classifier of 256 bright pictures drawn with `seed`, one vector."""
    module = encoder(36, 36, 1, cnn=cnn, precision=precision)
    head = 0.1 * torch.randn(2, module.num_features, generator=torch.Generator().manual_seed(7))
    images, right = bright(256, torch.Generator().manual_seed(seed))
    functional.cross_entropy(module(images) @ head.T, right).backward()
    return torch.cat([weight.grad.flatten() for weight in module.parameters()])


@pytest.mark.parametrize(
    ("cnn", "least"),
    [
        ("nature", 0.999),
        ("small", 0.999),
        ("simple", 0.999),
        ("flat", 0.999),
        ("impala", 0.998),
    ],  # which rounds in 15 layers instead of 3
)
def test_gradients_in_bfloat16_point_where_those_in_float32_do(cnn, least):
    exact, rounded = gradient(cnn, "float32", 0), gradient(cnn, "bfloat16", 0)
    assert not torch.equal(exact, rounded)
    similarity = functional.cosine_similarity(exact, rounded, dim=0)
    assert similarity > least
    assert 0.98 < rounded.norm() / exact.norm() < 1.02
    # another draw of as many pictures turns the gradient at least ten times as far as rounding does
    assert 1 - similarity < 0.1 * (1 - functional.cosine_similarity(exact, gradient(cnn, "float32", 1), dim=0))


@pytest.mark.parametrize("cnn", ["nature", slow("impala"), "simple", "flat"])
def test_a_network_learns_in_bfloat16_what_it_sees(cnn):
    class Settings:
        lr = 1e-3
        max_grad_norm = 0.5
        model = ModelConfig()

    def loss(logits, batch, cfg):
        return functional.cross_entropy(logits, batch[1]), {}

    generator = torch.Generator().manual_seed(0)
    module = encoder(36, 36, 1, cnn=cnn, precision="bfloat16")
    head = torch.nn.Linear(module.num_features, 2)
    optimizer = Adam(flatten([module, head]), betas=(0.9, 0.999), eps=1e-5)
    seen = bright(64, generator)
    with torch.no_grad():
        before = (head(module(seen[0])).argmax(1) == seen[1]).float().mean()
    for _ in range(40):
        gradient_step(lambda batch: head(module(batch[0])), loss, bright(32, generator), optimizer, Settings())
    with torch.no_grad():
        after = (head(module(seen[0])).argmax(1) == seen[1]).float().mean()
    assert before < 0.8
    assert after > 0.95


@pytest.mark.parametrize("shape", [(7, 7, 3), (2, 6, 5)])
def test_codes_are_looked_up_as_a_convolution_on_one_hots_would(shape):
    subject = encoder(*shape, codes=True)
    image = torch.randint(0, NUM_CODES, (4, *shape), dtype=torch.uint8)
    channels_last = image if subject.channels_last else image.permute(0, 2, 3, 1)
    hot = functional.one_hot(channels_last.long(), NUM_CODES).flatten(3).permute(0, 3, 1, 2).float()
    maps = functional.conv2d(hot, subject.embedding.table.T[:, :, None, None])
    expected = torch.relu(subject.linear(subject.convolutions(maps, 1.0).flatten(1)))
    assert torch.allclose(subject(image), expected, atol=1e-5)


def test_numbers_that_are_no_codes_are_read_as_the_greatest_code():
    subject = encoder(7, 7, 3, codes=True)
    image = torch.full((1, 7, 7, 3), NUM_CODES - 1, dtype=torch.uint8)
    assert torch.equal(subject(image), subject(torch.full_like(image, 255)))
    assert not torch.equal(subject(image), subject(torch.zeros_like(image)))


def test_codes_differ_for_a_network_whose_pixels_would_nearly_vanish():
    one, other = torch.full((1, 7, 7, 3), 4, dtype=torch.uint8), torch.full((1, 7, 7, 3), 5, dtype=torch.uint8)

    def contrast(subject):
        return float((subject(one) - subject(other)).detach().norm())

    assert contrast(encoder(7, 7, 3, codes=True)) > 20 * contrast(encoder(7, 7, 3))
