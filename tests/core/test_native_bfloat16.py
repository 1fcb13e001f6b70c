"""Products of bfloat16 numbers on kernels, against the same roundings in torch, and of three that make a float, against
float64; and networks that share their rows.
"""

from pathlib import Path

import pytest
import torch
from torch import nn

from rookery.core.native import FLOATS, InputLeaf, LinearLayer, Network, Networks, kernel_threads

# 0.4 percent is the step of bfloat16; where the last bit of a float decides which way it rounds, one step is lost
CLOSE = 2e-3


def has_instruction(build):
    """Returns whether this build multiplies bfloat16 numbers here."""
    return build.name == "x86-64-v4" and processor_has("avx512_bf16")


def has_matrix_unit(build):
    """Returns whether this build uses a matrix unit here, which the CPU must support too."""
    assert build.has_matrix_unit == (build.name == "x86-64-v4" and processor_has("amx_bf16"))
    return build.has_matrix_unit


def processor_has(flag):
    info = Path("/proc/cpuinfo")
    return info.exists() and flag in info.read_text().split()


class Rounded(torch.autograd.Function):
    """A product whose factors are rounded, on the way back as well."""

    @staticmethod
    def forward(ctx, x, weight):
        x, weight = x.bfloat16().double(), weight.bfloat16().double()
        ctx.save_for_backward(x, weight)
        return x @ weight.T

    @staticmethod
    def backward(ctx, gradient):
        x, weight = ctx.saved_tensors
        gradient = gradient.bfloat16().double()
        return gradient @ weight, gradient.T @ x


def layers(widths, parts, generator):
    """LinearLayer layers, the last of several parts."""
    made = []
    for inputs, outputs in zip(widths, [*([width] for width in widths[1:]), parts], strict=True):
        layer = []
        for number in outputs:
            weight = nn.Parameter(torch.randn(number, inputs, generator=generator) * inputs**-0.5)
            bias = nn.Parameter(torch.randn(number, generator=generator))
            weight.grad, bias.grad = torch.full_like(weight, torch.nan), torch.full_like(bias, torch.nan)
            layer.append(LinearLayer(weight, bias))
        made.append(layer)
    return made


def by_torch(made, x, gradients, product=Rounded.apply):
    """Outputs, gradients of weights and of inputs, in float64, with rounded factors or another product."""
    x = x.double().requires_grad_()
    copies = [[[each.detach().double().requires_grad_() for each in part] for part in layer] for layer in made]
    weights = [[LinearLayer(*part) for part in layer] for layer in copies]
    h = x
    for layer in weights[:-1]:
        h = torch.tanh(product(h, layer[0].weight) + layer[0].bias)
    together = torch.cat([part.weight for part in weights[-1]]), torch.cat([part.bias for part in weights[-1]])
    outputs = product(h, together[0]) + together[1]
    (outputs * torch.cat(gradients, 1)).sum().backward()
    return outputs.detach(), [each.grad for layer in weights for part in layer for each in part], x.grad


def near(mine, wanted):
    torch.testing.assert_close(mine.double(), wanted, rtol=0, atol=CLOSE * float(wanted.abs().max()))


@pytest.mark.parametrize("widths", [(23, 33), (16, 64, 48), (5, 17, 31), (7,)])
@pytest.mark.parametrize("parts", [[6], [3, 4, 2]])
def test_products_are_those_of_rounded_factors(kernels, widths, parts):
    generator = torch.Generator().manual_seed(0)
    made = layers(widths, parts, generator)
    network = Network(kernels, [InputLeaf(FLOATS, widths[0])], made, "tanh", parts=1)
    plain = Network(kernels, [InputLeaf(FLOATS, widths[0])], made, "tanh")
    for rows in (1, 2, 15, 97, 250):
        x = torch.randn(rows, widths[0], generator=generator)
        gradients = [torch.randn(rows, part, generator=generator) for part in parts]
        outputs = torch.cat(network.forward([x], keep=True), 1)
        if not has_instruction(kernels):
            assert torch.equal(outputs, torch.cat(plain.forward([x], keep=False), 1))
            continue
        inputs = network.write_gradients(gradients, inputs=True)
        wanted, expected, wanted_inputs = by_torch(made, x, gradients)
        near(outputs, wanted)
        near(inputs, wanted_inputs)
        written = [each.grad for layer in made for part in layer for each in part]
        for mine, theirs in zip(written, expected, strict=True):
            near(mine, theirs)


def test_what_is_not_a_number_stays_none(kernels):
    generator = torch.Generator().manual_seed(0)
    network = Network(kernels, [InputLeaf(FLOATS, 9)], layers((9, 33), [6], generator), "tanh", parts=1)
    x = torch.randn(4, 9, generator=generator)
    x.view(torch.int32)[2, 5] = 0x7FFFFFFF
    (outputs,) = network.forward([x], keep=False)
    assert outputs.isnan().any(1).tolist() == [False, False, True, False]


# --- three numbers that make a float ----------------------------------------------------------------------------------


def by_kernels(network, made, x, gradients):
    """The same by a network: outputs, gradients of weights and of inputs, one tensor after the other."""
    outputs = torch.cat(network.forward([x], keep=True), 1)
    inputs = network.write_gradients(gradients, inputs=True)
    return [outputs, *[each.grad.clone() for layer in made for part in layer for each in part], inputs]


def errors(found, wanted):
    return [float((mine.double() - true).norm() / true.norm()) for mine, true in zip(found, wanted, strict=True)]


@pytest.mark.parametrize("widths", [(130, 141), (128, 160, 144), (256,)])
@pytest.mark.parametrize("parts", [[6], [3, 140, 150]])
def test_three_numbers_are_as_precise_as_floats(kernels, widths, parts):
    generator = torch.Generator().manual_seed(0)
    made = layers(widths, parts, generator)
    thirds, plain = (Network(kernels, [InputLeaf(FLOATS, widths[0])], made, "tanh", parts=number) for number in (3, 0))
    for rows in (1, 2, 15, 97, 250):
        x = torch.randn(rows, widths[0], generator=generator)
        gradients = [torch.randn(rows, part, generator=generator) for part in parts]
        mine, floats = by_kernels(thirds, made, x, gradients), by_kernels(plain, made, x, gradients)
        unit = has_matrix_unit(kernels) and (len(widths) > 1 or sum(parts) >= 128)
        assert all(torch.equal(a, b) for a, b in zip(mine, floats, strict=True)) != unit
        outputs, weights, inputs = by_torch(made, x, gradients, lambda x, weight: x @ weight.T)
        wanted = [outputs, *weights, inputs]
        for error, usual in zip(errors(mine, wanted), errors(floats, wanted), strict=True):
            assert error < 1.5 * usual + 3e-8


def test_three_numbers_show_each_digit_of_a_float(kernels):
    generator = torch.Generator().manual_seed(0)
    weight, bias = nn.Parameter(torch.eye(128)), nn.Parameter(torch.zeros(128))
    weight.grad, bias.grad = torch.zeros_like(weight), torch.zeros_like(bias)
    network = Network(kernels, [InputLeaf(FLOATS, 128)], [[LinearLayer(weight, bias)]], "tanh", parts=3)
    x = torch.randn(40, 128, generator=generator) * 10.0 ** torch.randint(-25, 25, (40, 128), generator=generator)
    assert torch.equal(network.forward([x], keep=False)[0], x)  # times one, plus zeros


def test_a_row_does_not_depend_on_those_beside_it(kernels):
    generator = torch.Generator().manual_seed(0)
    network = Network(kernels, [InputLeaf(FLOATS, 128)], layers((128, 160), [6], generator), "tanh", parts=3)
    x = torch.randn(250, 128, generator=generator)
    (together,) = network.forward([x], keep=False)
    for row in (0, 17, 249):
        assert torch.equal(network.forward([x[row : row + 1]], keep=False)[0], together[row : row + 1])


@pytest.mark.parametrize("bits", [0x7FFFFFFF, 0x7F800000, 0x7F800001])
def test_what_is_no_finite_number_stays_none_in_three(kernels, bits):
    generator = torch.Generator().manual_seed(0)
    made = layers((128, 160), [6], generator)
    network = Network(kernels, [InputLeaf(FLOATS, 128)], made, "linear", parts=3)
    x = torch.randn(4, 128, generator=generator)
    x.view(torch.int32)[2, 5] = bits
    (outputs,) = network.forward([x], keep=True)
    assert outputs.isfinite().all(1).tolist() == [True, True, False, True]
    network.write_gradients([torch.ones(4, 6)])
    assert not made[0][0].weight.grad[:, 5].isfinite().any()
    assert made[0][0].weight.grad[:, :5].isfinite().all()


# --- several networks -------------------------------------------------------------------------------------------------


def several(build, count, width=1):
    generator = torch.Generator().manual_seed(0)
    made = [layers((8, 40, 24), [width], generator) for _ in range(count)]
    return made, [Network(build, [InputLeaf(FLOATS, 8)], each, "relu") for each in made]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_several_networks_do_together_what_each_does_alone(kernels, count, threads):
    made, networks = several(kernels, count, width=2)
    _, alone = several(kernels, count, width=2)
    together, generator = Networks(kernels, networks), torch.Generator().manual_seed(1)
    x, gradients = torch.randn(130, 8, generator=generator), torch.randn(count, 130, 2, generator=generator)
    with kernel_threads(threads):
        outputs = together.forward([x], keep=True)
        inputs = together.write_gradients(gradients, inputs=True)
    for number, network in enumerate(alone):
        assert torch.equal(outputs[number], network.forward([x], keep=True)[0])
        assert torch.equal(inputs[number], network.write_gradients([gradients[number]], inputs=True))
    assert all(each.grad.isfinite().all() for layers in made for layer in layers for part in layer for each in part)


def test_the_gradient_of_inputs_alone_leaves_weights_alone(kernels):
    made, networks = several(kernels, 2)
    together, generator = Networks(kernels, networks), torch.Generator().manual_seed(1)
    x, gradients = torch.randn(250, 8, generator=generator), torch.randn(2, 250, 1, generator=generator)
    gradients[0, ::3], gradients[1, 1:] = 0.0, 0.0  # of rows without a gradient nothing is computed
    together.forward([x], keep=True)
    inputs = together.write_gradients(gradients, inputs=True, weights=False)
    assert all(each.grad.isnan().all() for layers in made for layer in layers for part in layer for each in part)
    expected = together.write_gradients(gradients, inputs=True)
    torch.testing.assert_close(inputs, expected, rtol=0, atol=1e-6)
    assert not inputs[0, ::3].any() and not inputs[1, 1:].any() and inputs[1, 0].any()


def test_a_way_back_without_a_way_there_is_an_error(kernels):
    _, networks = several(kernels, 2)
    with pytest.raises(RuntimeError, match="without a kept forward pass"):
        Networks(kernels, networks).write_gradients(torch.zeros(2, 3, 1))
