"""The kernels against torch, on every build that this processor can run."""

import gc
import itertools
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional

from rookery.core.flat import Flat
from rookery.core.native import (
    ACTIVATIONS,
    BYTES,
    CATEGORIES,
    FLOATS,
    FOLDER,
    SWITCH,
    InputLeaf,
    LinearLayer,
    Network,
    Table,
    best_build,
    candidates,
)
from rookery.core.optim import Adam, Optimizer, RMSprop
from selection import slow_repeats

ROWS = (1, 15, 16, 17, 59, 60, 61, 250)
SHARP = [name for name in ACTIVATIONS if name != "linear"]
TORCH = {name: getattr(functional, name) for name in SHARP}


@pytest.fixture
def build(kernels):
    """The best build; for ``make test-all`` each in turn."""
    return kernels


def weight(*shape, generator, scale=1.0):
    """A parameter with a gradient, neither on the boundary of a vector, as in the flat memory of a learner."""
    memory = torch.zeros(2, 1 + torch.Size(shape).numel())
    made = nn.Parameter(memory[0, 1:].view(shape))
    made.grad = memory[1, 1:].view(shape).fill_(float("nan"))  # gradients are written over what was there
    made.data.normal_(generator=generator).mul_(scale)
    return made


class Layers:
    """A network on kernels, and the same in torch, in float64.

    Args:
        build: What runs it.
        leaves: What it reads.
        widths: Of the layers before the last.
        outputs: Of each part of the last.
        activation: After each layer but the last.
        sizes: Of all categories.
    """

    def __init__(self, build, leaves, widths, outputs, activation="tanh", sizes=(), seed=0):
        self.generator = generator = torch.Generator().manual_seed(seed)
        self.leaves, self.activation, self.sizes = leaves, activation, sizes
        inputs = self.numbers = sum(leaf.width for leaf in leaves if leaf.kind != CATEGORIES)
        self.layers = []
        for parts in [*([width] for width in widths), outputs]:
            scale = max(inputs, 1) ** -0.5
            self.layers.append(
                [
                    LinearLayer(*(weight(*s, generator=generator, scale=scale) for s in ((n, inputs), (n,))))
                    for n in parts
                ]
            )
            inputs = sum(parts)
        self.table = None
        if sizes:
            rows = weight(sum(sizes), len(self.layers[0][0].bias), generator=generator)
            self.table = Table(rows, torch.tensor([0, *sizes]).cumsum(0)[:-1])
        self.network = Network(build, leaves, self.layers, activation, self.table)

    @property
    def weights(self):
        linear = [each for layer in self.layers for part in layer for each in part]
        return linear if self.table is None else [*linear, self.table.rows]

    def seen(self, rows):
        """An array for each leaf."""
        arrays, sizes = [], list(self.sizes)
        for leaf in self.leaves:
            if leaf.kind == FLOATS:
                arrays.append(torch.randn(rows, leaf.width, generator=self.generator))
            elif leaf.kind == BYTES:
                shape, values = (rows, leaf.width), int(leaf.scale) + 1
                arrays.append(torch.randint(values, shape, generator=self.generator, dtype=torch.uint8))
            else:
                columns = [torch.randint(sizes.pop(0), (rows,), generator=self.generator) for _ in range(leaf.width)]
                arrays.append(torch.stack(columns, 1))
        return arrays

    def gradients(self, rows):
        """A gradient for each part of the last layer."""
        return [torch.randn(rows, len(part.bias), generator=self.generator) for part in self.layers[-1]]

    def inputs(self, arrays):
        """Returns the input of the first layer, float64 ``[N, numbers]``."""
        parts = [torch.empty(len(arrays[0]), 0, dtype=torch.float64)]
        for leaf, array in zip(self.leaves, arrays, strict=True):
            if leaf.kind == CATEGORIES:
                continue
            part = array.double() / leaf.scale
            if leaf.mean is not None:
                part = ((part - leaf.mean) * leaf.inverse_std).clamp(-leaf.clip, leaf.clip)
            parts.append(part)
        return torch.cat(parts, 1)

    def by_torch(self, arrays, gradients):
        """Outputs, the gradients of `weights`, and the gradient of the inputs."""
        numbers = self.inputs(arrays).requires_grad_()
        weights = [each.detach().double().requires_grad_() for each in self.weights]
        x, left = numbers, iter(weights)
        for number, layer in enumerate(self.layers):
            outputs = [functional.linear(x, next(left), next(left)) for _ in layer]
            if number == 0 and self.table is not None:
                chosen = torch.cat([a for f, a in zip(self.leaves, arrays, strict=True) if f.kind == CATEGORIES], 1)
                outputs[0] = outputs[0] + weights[-1][chosen + self.table.offsets].sum(1)
            x = TORCH[self.activation](torch.cat(outputs, 1)) if number < len(self.layers) - 1 else None
        total = sum((output * gradient).sum() for output, gradient in zip(outputs, gradients, strict=True))
        *found, of_numbers = torch.autograd.grad(total, [*weights, numbers], allow_unused=True)
        return outputs, found, of_numbers

    def check(self, rows):
        """Asserts that outputs and gradients are those of torch, whether inputs have gradients or not."""
        arrays, gradients = self.seen(rows), self.gradients(rows)
        outputs, expected, of_numbers = self.by_torch(arrays, gradients)
        near(self.network.forward(arrays, keep=False), outputs, at_least=1.0)  # of terms that size, which may cancel
        near(self.network.forward(arrays, keep=True), outputs, at_least=1.0)
        near([self.network.write_gradients(gradients, inputs=True)], [of_numbers])
        with_inputs = [each.grad.clone() for each in self.weights]
        near(with_inputs, expected)
        assert self.network.write_gradients(gradients) is None
        assert all(torch.equal(each.grad, wanted) for each, wanted in zip(self.weights, with_inputs, strict=True))


def near(found, expected, at_least=0.0):
    """Equal up to 1e-5 of the largest element of all, or of `at_least`."""
    assert [each.shape for each in found] == [each.shape for each in expected]
    found, expected = (torch.cat([each.flatten() for each in tensors]) for tensors in (found, expected))
    largest = expected.abs().amax().item() if len(expected) else 0.0
    assert not len(found) or (found - expected).abs().max() <= 1e-5 * max(largest, at_least)


def normalized(width, clip=1.5):
    generator = torch.Generator().manual_seed(7)
    mean, inverse = torch.randn(width, generator=generator), torch.rand(width, generator=generator) + 0.5
    return InputLeaf(FLOATS, width, mean=mean, inverse_std=inverse, clip=clip)


# --- networks --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("widths", "activation"),
    slow_repeats(of=itertools.product([(), (5,), (64, 64), (33, 16, 7), (16, 31, 48, 3)], SHARP)),
)
def test_any_layers_are_those_of_torch(build, widths, activation):
    for outputs in ([1], [4], [5], [3, 1]):
        layers = Layers(build, [InputLeaf(FLOATS, 6)], widths, outputs, activation)
        for rows in ROWS:
            layers.check(rows)


@pytest.mark.parametrize("inputs", [1, 3, 4, 8, 15, 16, 17, 32, 47, 64, 100, 376])
def test_any_number_of_inputs_and_units(build, inputs):
    for width in (1, 4, 8, 15, 16, 17, 48, 63, 65, 128):
        Layers(build, [InputLeaf(FLOATS, inputs)], (width, width), [3]).check(17)


@pytest.mark.parametrize(
    "outputs", [[2, 1], [4, 1], [16, 1], [17, 1], [1, 1, 1, 1], [16, 16], [5, 32, 3], [40]], ids=str
)
def test_the_last_layer_may_have_several_parts_narrow_or_wide(build, outputs):
    for widths in ((), (9,), (32, 16)):
        for inputs in (5, 16):
            for rows in (1, 60, 61):
                Layers(build, [InputLeaf(FLOATS, inputs)], widths, outputs).check(rows)


LEAVES = {
    "bytes": ([InputLeaf(BYTES, 9, 255.0)], ()),
    "bytes as they are": ([InputLeaf(BYTES, 16)], ()),
    "normalized": ([normalized(7)], ()),
    "sixteen normalized": ([normalized(16, 0.3)], ()),
    "several": (
        [
            InputLeaf(FLOATS, 3),
            InputLeaf(BYTES, 4, 7.0),
            normalized(2),
            InputLeaf(FLOATS, 1),
            InputLeaf(BYTES, 6, 255.0),
        ],
        (),
    ),
    "a category": ([InputLeaf(CATEGORIES, 1)], (5,)),
    "categories": ([InputLeaf(CATEGORIES, 2), InputLeaf(CATEGORIES, 1)], (5, 3, 40)),
    "numbers and a category": ([InputLeaf(FLOATS, 3), InputLeaf(CATEGORIES, 1)], (6,)),
    "all": (
        [normalized(3), InputLeaf(BYTES, 4, 7.0), InputLeaf(CATEGORIES, 3), InputLeaf(CATEGORIES, 1)],
        (2, 7, 3, 4),
    ),
}


@pytest.mark.parametrize(("read", "width"), slow_repeats(of=itertools.product(LEAVES, [5, 16, 40])))
def test_whatever_is_read_arrives_as_in_torch(build, width, read):
    leaves, sizes = LEAVES[read]
    for widths in ((width,), (width, 16)):
        for outputs in ([2], [6, 1]):
            layers = Layers(build, leaves, widths, outputs, sizes=sizes)
            for rows in ROWS:
                layers.check(rows)


@pytest.mark.parametrize("leaves", [leaves for leaves, sizes in LEAVES.values() if not sizes])
def test_without_layers_heads_stand_on_the_inputs(build, leaves):
    for rows in (1, 61):
        Layers(build, leaves, (), [2, 1]).check(rows)
        Layers(build, leaves, (), [18]).check(rows)


@pytest.mark.parametrize("activation", SHARP)
def test_activations_are_exact_to_a_few_units_in_the_last_place(build, activation):
    one = [LinearLayer(torch.ones(1, 1), torch.zeros(1))]
    network = Network(build, [InputLeaf(FLOATS, 1)], [one, one], activation)
    x = torch.cat((torch.linspace(-20, 20, 40_001), torch.tensor([1e-30, -1e-6, 0.0, -100.0, 100.0, -1e30, 1e30])))
    (found,) = network.forward([x.unsqueeze(1)], keep=False)
    error = found.squeeze(1) - TORCH[activation](x.double())
    assert (error.abs() <= 4e-7 * x.double().abs().clamp(min=1.0)).all()
    if activation == "tanh":
        assert (found.abs() <= 1).all()


@pytest.mark.parametrize("activation", SHARP)
def test_numbers_far_from_zero_are_those_of_torch(build, activation):
    layers = Layers(build, [InputLeaf(FLOATS, 8)], (32, 32), [3], activation)
    arrays, gradients = [array * 1000 for array in layers.seen(50)], layers.gradients(50)
    near(layers.network.forward(arrays, keep=True), layers.by_torch(arrays, gradients)[0])
    layers.network.write_gradients(gradients)
    assert all(each.grad.isfinite().all() for each in layers.weights)


@pytest.mark.parametrize("activation", SHARP)
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_what_is_not_finite_leaves_gradients_that_are_not(build, activation, bad):
    # so that the optimizer skips the step, as it does in torch
    layers = Layers(build, [InputLeaf(FLOATS, 8)], (32, 32), [3], activation)
    arrays, gradients = layers.seen(20), layers.gradients(20)
    arrays[0][7, 3] = bad
    _, expected, _ = layers.by_torch(arrays, gradients)
    layers.network.forward(arrays, keep=True)
    layers.network.write_gradients(gradients)
    assert any(not each.isfinite().all() for each in expected)
    assert any(not each.grad.isfinite().all() for each in layers.weights)


@pytest.mark.parametrize("activation", SHARP)
def test_what_is_no_number_stays_none_in_the_outputs_and_in_its_own_row(build, activation):
    layers = Layers(build, [InputLeaf(FLOATS, 8)], (32, 32), [3], activation)
    arrays = layers.seen(20)
    (before,) = layers.network.forward(arrays, keep=False)
    arrays[0][7, 3] = float("nan")
    (after,) = layers.network.forward(arrays, keep=False)
    assert after[7].isnan().all()
    others = torch.arange(20) != 7
    assert torch.equal(after[others], before[others])


@pytest.mark.parametrize(("leaves", "sizes"), [([InputLeaf(FLOATS, 6)], ()), LEAVES["all"]], ids=["numbers", "all"])
@pytest.mark.parametrize("outputs", [[2, 1], [20, 1]], ids=["narrow", "wide"])
def test_the_outputs_of_a_row_do_not_depend_on_the_rows_beside_it(build, leaves, sizes, outputs):
    layers = Layers(build, leaves, (33, 16), outputs, sizes=sizes)
    arrays = layers.seen(200)
    whole = layers.network.forward(arrays, keep=True)
    for rows in (slice(0, 1), slice(5, 6), slice(59, 61), slice(7, 23), slice(13, 74), slice(60, 120), slice(199, 200)):
        for keep in (False, True):
            some = layers.network.forward([array[rows].contiguous() for array in arrays], keep)
            assert all(torch.equal(mine, all_of[rows]) for mine, all_of in zip(some, whole, strict=True))


def test_the_same_again_is_the_same_bit_for_bit(build):
    leaves, sizes = LEAVES["all"]
    layers, other = (Layers(build, leaves, (33, 16), [6, 1], sizes=sizes) for _ in range(2))
    arrays, gradients = layers.seen(250), layers.gradients(250)
    results = []
    for network in (layers, layers, other):
        outputs = network.network.forward(arrays, keep=True)
        of_numbers = network.network.write_gradients(gradients, inputs=True)
        results.append([*outputs, of_numbers, *(each.grad.clone() for each in network.weights)])
    for again in results[1:]:
        assert all(torch.equal(one, two) for one, two in zip(results[0], again, strict=True))


def test_batches_grow_and_shrink(build):
    leaves, sizes = LEAVES["all"]
    layers = Layers(build, leaves, (33, 16), [6, 1], "gelu", sizes)
    for rows in (1, 250, 17, 61, 1000, 3, 60, 2000, 1):
        layers.check(rows)


def test_new_weights_count_in_the_next_pass(build):
    layers = Layers(build, [InputLeaf(FLOATS, 6)], (33,), [3])
    for _ in range(3):
        layers.check(20)
        with torch.no_grad():
            for each in layers.weights:
                each.mul_(-0.9)


def test_networks_whose_panels_are_lent_in_turn_see_new_weights_and_not_each_others(build):
    wide = [InputLeaf(FLOATS, 128)]
    nets = [Layers(build, wide, widths, [3], seed=seed) for seed, widths in enumerate([(128,), (256, 128), (128, 128)])]
    for _ in range(2):
        given = [(layers.seen(70), layers.gradients(70)) for layers in nets]
        told = [layers.network.forward(arrays, keep=True) for layers, (arrays, _) in zip(nets, given, strict=True)]
        for layers, (arrays, gradients), outputs in zip(nets, given, told, strict=True):
            expected, of_weights, of_numbers = layers.by_torch(arrays, gradients)
            near(outputs, expected, at_least=1.0)
            near([layers.network.write_gradients(gradients, inputs=True)], [of_numbers])
            near([each.grad for each in layers.weights], of_weights)
            with torch.no_grad():
                for each in layers.weights:
                    each.mul_(-0.9)


@pytest.mark.parametrize("width", [33, 128])
def test_a_backward_pass_may_be_of_the_first_rows_of_the_forward_pass_alone(build, width):
    layers = Layers(build, [InputLeaf(FLOATS, width)], (width,), [3, 1])
    arrays = layers.seen(150)
    first = [array[:70] for array in arrays]
    gradients = layers.gradients(70)
    _, expected, of_numbers = layers.by_torch(first, gradients)
    found = []
    for given in (arrays, first):
        layers.network.forward(given, keep=True)
        found.append([layers.network.write_gradients(gradients, inputs=True)])
        found[-1] += [each.grad.clone() for each in layers.weights]
        near(found[-1], [of_numbers, *expected])
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))


def test_no_backward_pass_without_a_forward_pass_that_kept(build):
    layers = Layers(build, [InputLeaf(FLOATS, 6)], (33,), [3])
    arrays, gradients = layers.seen(20), layers.gradients(20)
    with pytest.raises(RuntimeError, match="kept"):
        layers.network.write_gradients(gradients)
    layers.network.forward(arrays, keep=False)
    with pytest.raises(RuntimeError, match="kept"):
        layers.network.write_gradients(gradients)


def test_a_pass_that_keeps_nothing_leaves_what_another_kept(build):
    layers = Layers(build, [InputLeaf(FLOATS, 6)], (33,), [3])
    arrays, gradients = layers.seen(20), layers.gradients(20)
    layers.network.forward(arrays, keep=True)
    layers.network.write_gradients(gradients)
    expected = [part.weight.grad.clone() for layer in layers.layers for part in layer]
    layers.network.forward(arrays, keep=True)
    layers.network.forward(layers.seen(50), keep=False)
    layers.network.write_gradients(gradients)
    found = [part.weight.grad for layer in layers.layers for part in layer]
    assert all(torch.equal(mine, theirs) for mine, theirs in zip(found, expected, strict=True))


def test_weights_that_no_one_learns_need_no_gradient_to_go_forward(build):
    layers = Layers(build, [InputLeaf(FLOATS, 6)], (33,), [3])
    frozen = [[LinearLayer(part.weight.detach(), part.bias.detach()) for part in layer] for layer in layers.layers]
    arrays = layers.seen(20)
    network = Network(build, layers.leaves, frozen, "tanh")
    assert torch.equal(network.forward(arrays, keep=False)[0], layers.network.forward(arrays, keep=False)[0])


def test_two_threads_with_a_network_each_do_as_one_after_the_other(build):
    def learn(seed):
        layers = Layers(build, [InputLeaf(FLOATS, 6)], (64, 64), [3, 1], seed=seed)
        for rows in (61, 250, 17) * 10:
            layers.network.forward(layers.seen(rows), keep=True)
            layers.network.write_gradients(layers.gradients(rows))
            with torch.no_grad():
                for each in layers.weights:
                    each.sub_(each.grad, alpha=1e-3)
        return [each.detach().clone() for each in layers.weights]

    alone = [learn(seed) for seed in range(4)]
    with ThreadPoolExecutor(2) as pool:
        together = list(pool.map(learn, range(4)))
    for one, other in zip(alone, together, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the size of a process is read from /proc")
def test_networks_that_are_gone_leave_no_memory_behind(build):
    layers = Layers(build, [InputLeaf(FLOATS, 6)], (64, 64), [3, 1])
    arrays = layers.seen(100)

    def build_and_drop(count):
        for _ in range(count):
            Network(build, layers.leaves, layers.layers, "silu").forward(arrays, keep=True)
        gc.collect()
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20

    before = build_and_drop(100)
    assert build_and_drop(200) - before < 4  # MiB; each holds about a quarter of one


# --- which build -----------------------------------------------------------------------------------------------------


@pytest.fixture
def _asked_again(monkeypatch):
    best_build.cache_clear()
    yield
    monkeypatch.undo()
    best_build.cache_clear()


@pytest.mark.usefixtures("_asked_again")
def test_the_switch_names_the_build_or_hides_all(build, monkeypatch):
    monkeypatch.setenv(SWITCH, build.name)
    assert best_build().name == build.name
    best_build.cache_clear()
    monkeypatch.setenv(SWITCH, "0")
    assert best_build() is None


@pytest.mark.usefixtures("_asked_again")
def test_a_build_of_other_sources_is_passed_over(monkeypatch):
    if not any((FOLDER / f"{name}.so").exists() for name in candidates()):
        pytest.skip("no kernels here")
    monkeypatch.delenv(SWITCH, raising=False)
    monkeypatch.setattr("rookery.core.native.INTERFACE_VERSION", -1)
    with pytest.warns(RuntimeWarning, match="not of this version of Rookery, and is not used; rebuild"):
        assert best_build() is None


# --- optimizers ------------------------------------------------------------------------------------------------------

SIZES = (1, 15, 16, 17, 1000)
NO_LIMIT = float("inf")


def vectors(size):
    """Numbers and gradients, neither on the boundary of a vector; zeros, so that no step is lost in what was there."""
    return Flat(torch.zeros(size + 1)[1:], torch.zeros(size + 1)[1:])


def gradients_of(size, count, seed=1):
    """Short ones and long ones."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(size, generator=generator) * 10.0 ** (step % 4 - 2) for step in range(count)]


def adam(flat):
    return Adam(flat, betas=(0.9, 0.999), eps=1e-5)


def rmsprop(flat):
    return RMSprop(flat, alpha=0.99, eps=1e-5)


@pytest.mark.parametrize("max_norm", [0.5, 1e6, NO_LIMIT])
@pytest.mark.parametrize("size", SIZES)
def test_twenty_steps_of_adam_are_those_of_torch(build, size, max_norm):
    flat = vectors(size)
    optimizer, theirs = adam(flat), nn.Parameter(flat.data.double())
    reference = torch.optim.Adam([theirs], lr=0.02, eps=1e-5)
    for gradient in gradients_of(size, 20):
        flat.grad.copy_(gradient)
        theirs.grad = gradient.double()
        norm = nn.utils.clip_grad_norm_([theirs], max_norm)
        reference.step()
        assert optimizer.move_on(build, 0.02, max_norm) == pytest.approx(norm.item(), rel=1e-5)
        assert torch.equal(flat.grad, gradient)
        near([flat.data], [theirs.detach()])
    assert optimizer.steps == 20
    assert optimizer.read_skipped() == (0, 0)


@pytest.mark.parametrize("max_norm", [0.5, NO_LIMIT])
def test_adam_corrects_its_moments_after_many_steps_as_torch_does(build, max_norm):
    flat, steps = vectors(100), 100_000
    optimizer, theirs = adam(flat), nn.Parameter(flat.data.double())
    reference = torch.optim.Adam([theirs], lr=0.02, eps=1e-5)
    mean, square = gradients_of(100, 2, seed=2)
    optimizer.mean.copy_(mean)
    optimizer.square.copy_(square.square())
    optimizer.steps.fill_(steps)
    reference.state[theirs] = {
        "step": torch.tensor(float(steps)),
        "exp_avg": mean.double(),
        "exp_avg_sq": square.double().square(),
    }
    for gradient in gradients_of(100, 3):
        flat.grad.copy_(gradient)
        theirs.grad = gradient.double()
        nn.utils.clip_grad_norm_([theirs], max_norm)
        reference.step()
        optimizer.move_on(build, 0.02, max_norm)
        near([flat.data], [theirs.detach()])
    assert optimizer.steps == steps + 3


@pytest.mark.parametrize("max_norm", [0.5, 1e6, NO_LIMIT])
@pytest.mark.parametrize("size", SIZES)
def test_twenty_steps_of_rmsprop_are_those_of_its_torch_operations(build, size, max_norm):
    flat = vectors(size)
    optimizer, reference = rmsprop(flat), rmsprop(Flat(flat.data.double(), flat.grad.double()))
    good = torch.zeros((), dtype=torch.float64)
    for gradient in gradients_of(size, 20):
        flat.grad.copy_(gradient)
        reference.flat.grad.copy_(gradient)
        norm = gradient.double().norm()
        reference.move(0.02, good, ((norm + 1e-6) / max_norm).clamp(min=1.0))
        assert optimizer.move_on(build, 0.02, max_norm) == pytest.approx(norm.item(), rel=1e-5)
        near([flat.data], [reference.flat.data])
        near([optimizer.square], [reference.square])


@pytest.mark.parametrize("make", [adam, rmsprop])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_a_step_that_is_not_finite_is_skipped_and_counted(build, make, size, bad):
    flat = vectors(size)
    optimizer: Optimizer = make(flat)
    good, other = gradients_of(size, 2)
    flat.grad.copy_(good)
    optimizer.move_on(build, 0.02, 0.5)
    before = [flat.data.clone(), optimizer.state_dict()]
    for place in (0, size // 2, size - 1):
        flat.grad.copy_(good)
        flat.grad[place] = bad
        norm = optimizer.move_on(build, 0.02, 0.5)
        assert not torch.tensor(norm).isfinite()
    assert torch.equal(flat.data, before[0])
    state = optimizer.state_dict()
    assert all(torch.equal(state[name], before[1][name]) for name in state if not name.startswith("skipped"))
    assert optimizer.read_skipped() == (3, 3)
    flat.grad.copy_(other)
    optimizer.move_on(build, 0.02, 0.5)
    assert optimizer.read_skipped() == (3, 0)
    assert not torch.equal(flat.data, before[0])


@pytest.mark.parametrize("make", [adam, rmsprop])
def test_a_gradient_of_zero_moves_nothing_without_momentum(build, make):
    flat = vectors(17)
    before = flat.data.clone()
    assert make(flat).move_on(build, 0.02, 0.5) == 0.0
    assert torch.equal(flat.data, before)


@pytest.mark.parametrize("make", [adam, rmsprop])
def test_averages_of_gradients_that_have_become_zero_do_so_too(build, make):
    """Subnormal numbers would slow every step down from then on, and never move a weight."""
    flat, tiny = vectors(40), torch.finfo(torch.float32).tiny
    optimizer = make(flat)
    flat.grad.copy_(gradients_of(40, 1)[0])
    flat.grad[:8] = 1e-16  # as small as they are from the beginning on
    kept = [getattr(optimizer, name) for name in ("mean", "square") if hasattr(optimizer, name)]
    for average in kept:
        average.zero_()
    optimizer.move_on(build, 1e-3, NO_LIMIT)
    flat.grad[20:] = 0.0
    for _ in range(12_000 if make is rmsprop else 1_500):
        optimizer.move_on(build, 1e-3, NO_LIMIT)
        assert not any(((average != 0) & (average.abs() < tiny)).any() for average in kept)
    assert not kept[0][20:].any()
    assert kept[0][8:20].all()
