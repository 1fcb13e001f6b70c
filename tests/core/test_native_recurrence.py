"""Recurrent cells on kernels against the same in torch, on every build that this processor can run."""

import gc
import itertools
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from torch import nn

from rookery.core.batch import Sequences
from rookery.core.native import ADDRESS, FLOATS, DrawingHead, HeadLayout, InputLeaf, LinearLayer, Network, address
from rookery.core.native_memory import NativeCell, Recurrence, cell_kind
from rookery.models.cells.table import ON_KERNELS
from rookery.models.memory import MemoryConfig, build_memory
from selection import slow_repeats

NAN, INF = float("nan"), float("inf")
KINDS = {cell.kernel: cell for cell in ON_KERNELS}
SIZES = (1, 5, 16, 64, 100)
GRIDS = ((1, 1), (1, 7), (9, 1), (6, 8), (32, 5), (4, 200))
"""Steps and sequences."""


def weight(*shape, generator, scale):
    """A parameter with a gradient that is written over, neither on the boundary of a vector."""
    memory = torch.zeros(2, 1 + torch.Size(shape).numel())
    made = nn.Parameter(memory[0, 1:].view(shape))
    made.grad = memory[1, 1:].view(shape).fill_(NAN)
    made.data.normal_(generator=generator).mul_(scale)
    return made


def unrolled(kind, size, pre, recurrent, first, length, memory):
    """Outputs ``[S, B, H]`` and the state after the last decision ``[B, state]``, step by step, of valid rows only."""
    outputs, ends = [], []
    for b in range(pre.shape[1]):
        h, c = (*memory[b].split(size), None)[:2]
        column = []
        for t in range(int(length[b])):
            if first[t, b]:
                h, c = torch.zeros_like(h), None if c is None else torch.zeros_like(c)
            gates, own = pre[t, b].split(size), () if recurrent is None else (recurrent @ h).split(size)
            if kind == "lstm":
                i, f, g, o = (x + y for x, y in zip(gates, own, strict=True))
                c = f.sigmoid() * c + i.sigmoid() * g.tanh()
                h = o.sigmoid() * c.tanh()
            elif kind == "gru":
                r, z = ((x + y).sigmoid() for x, y in zip(gates[:2], own[:2], strict=True))
                h = (1 - z) * (gates[2] + r * own[2]).tanh() + z * h
            else:
                z, n = gates[0].sigmoid(), gates[1]
                h = (1 - z) * h + z * n
            column.append(h.tanh() if kind == "scan" else h)
        outputs.append(torch.stack(column + [torch.zeros_like(h)] * (len(pre) - len(column))))
        ends.append(h if c is None else torch.cat((h, c)))
    return torch.stack(outputs, 1), torch.stack(ends)


class Case:
    """A cell on kernels, and sequences with resets and holes for it.

    Args:
        build: What runs it.
        kind: Of the cell.
        size: Its units.
        steps: Of the grid.
        rows: Sequences side by side.
    """

    def __init__(self, build, kind, size, steps, rows, seed=0):
        self.generator = generator = torch.Generator().manual_seed(seed)
        self.kind, row = kind, cell_kind(build, kind)
        shape = row.gates * size, size
        self.recurrent = weight(*shape, generator=generator, scale=size**-0.5) if row.looks_back else None
        self.cell = NativeCell(build, kind, size, self.recurrent)
        self.pre = torch.randn(steps, rows, shape[0], generator=generator)
        self.first = torch.rand(steps, rows, generator=generator) < 0.2
        self.length = torch.randint(1, steps + 1, (rows,), generator=generator)
        self.memory = torch.randn(rows, self.cell.state, generator=generator)
        self.gradient = torch.randn(steps, rows, size, generator=generator)

    @property
    def hole(self):
        """``[S, B]``, where no decision is."""
        return torch.arange(len(self.pre)).unsqueeze(1) >= self.length

    def run(self, backward=True):
        """By kernels: outputs, the state after, and the gradients of `pre` and of the weight."""
        before, after = self.memory.clone(), torch.full_like(self.memory, NAN)
        output = self.cell.forward(self.pre, self.first, self.length, self.memory, after, keep=backward)
        assert torch.equal(self.memory.nan_to_num(), before.nan_to_num())
        if not backward:
            return [output, after]
        found = [output, after, self.cell.write_gradients(self.gradient)]
        return found if self.recurrent is None else [*found, self.recurrent.grad.clone()]

    def expected(self):
        """The same by torch, in float64."""
        pre = self.pre.double().requires_grad_()
        recurrent = None if self.recurrent is None else self.recurrent.detach().double().requires_grad_()
        output, after = unrolled(
            self.kind, self.cell.size, pre, recurrent, self.first, self.length, self.memory.double()
        )
        weights = [pre] if recurrent is None else [pre, recurrent]
        return [output, after, *torch.autograd.grad((output * self.gradient).sum(), weights, materialize_grads=True)]

    def check(self):
        """Asserts that both are the same, with a backward pass to follow or none."""
        found, expected = self.run(), self.expected()
        for mine, theirs in zip(found, expected, strict=True):
            assert mine.shape == theirs.shape
            assert (mine - theirs).abs().max() <= 2e-6 * max(theirs.abs().amax().item(), 1.0)
        assert not found[0][self.hole].any()
        assert not found[2][self.hole].any()
        assert same(self.run(backward=False), found[:2])


def same(some, others):
    """Bit for bit, so that NaN equals NaN."""
    return all(
        torch.equal(one.contiguous().view(torch.int32), two.contiguous().view(torch.int32))
        for one, two in zip(some, others, strict=True)
    )


each_kind = pytest.mark.parametrize("kind", KINDS)


# --- against torch ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "size"), slow_repeats(of=itertools.product(KINDS, SIZES)))
def test_outputs_memory_and_gradients_are_those_of_torch(kernels, kind, size):
    for seed, (steps, rows) in enumerate(GRIDS):
        Case(kernels, kind, size, steps, rows, seed).check()


@each_kind
@pytest.mark.parametrize("holes", [False, True])
def test_layers_of_cells_are_the_memory_of_a_policy(kernels, kind, holes):
    steps, rows, size, generator = 12, 6, 20, torch.Generator().manual_seed(0)
    module = build_memory(MemoryConfig(kind=kind, size=size, layers=2), 7, generator)
    for each in module.parameters():
        each.grad = torch.zeros_like(each)
    length = torch.randint(1, steps + 1, (rows,), generator=generator) if holes else torch.full((rows,), steps)
    place = (torch.arange(steps).unsqueeze(1) < length).flatten().nonzero().squeeze(1) if holes else None
    first = torch.rand(steps, rows, generator=generator) < 0.2
    sequences = Sequences(first, length, place)
    x = torch.randn(int(length.sum()), 7, generator=generator)
    gradient = torch.randn(len(x), size, generator=generator)
    memory = torch.randn(rows, module.size, generator=generator)
    with torch.enable_grad():
        expected, remembered = module(x, memory, sequences)
    weights = list(module.parameters())
    wanted = torch.autograd.grad((expected * gradient).sum(), weights)

    networks, cells, after = [], [], torch.empty_like(memory)
    for layer in module.layers:
        inputs = LinearLayer(layer.input.weight, layer.input.bias)
        networks.append(Network(kernels, [InputLeaf(FLOATS, inputs.weight.shape[1])], [[inputs]], "tanh"))
        cells.append(NativeCell(kernels, kind, size, getattr(layer, "recurrent", None)))
    for network, cell, *states in zip(networks, cells, memory.chunk(2, dim=1), after.chunk(2, dim=1), strict=True):
        (pre,) = network.forward([x], keep=True)
        x = sequences.rows(cell.forward(sequences.grid(pre), first, length, *states, keep=True))
    assert (x - expected).abs().max() <= 2e-6
    assert (after - remembered).abs().max() <= 2e-6
    for network, cell in zip(reversed(networks), reversed(cells), strict=True):
        of_pre = sequences.rows(cell.write_gradients(sequences.grid(gradient)))
        gradient = network.write_gradients([of_pre], inputs=True)
    for each, theirs in zip(weights, wanted, strict=True):
        assert (each.grad - theirs).abs().max() <= 1e-5 * theirs.abs().max().clamp(min=1.0)


@each_kind
def test_a_row_of_the_kernels_has_the_numbers_of_the_module(kernels, kind):
    row, module = cell_kind(kernels, kind), KINDS[kind]
    assert (row.name.decode(), row.gates, row.states) == (kind, module.num_gates, module.num_states)
    assert row.looks_back == module.looks_back


def test_a_cell_that_no_kernel_computes_is_refused(kernels):
    with pytest.raises(ValueError, match="no kernel computes cells of kind 'attention'"):
        cell_kind(kernels, "attention")


def test_gates_are_exact_to_a_few_units_in_the_last_place(kernels):
    x = torch.cat((torch.linspace(-20, 20, 40_001), torch.tensor([1e-30, -1e-6, 0.0, -100.0, 100.0, -1e30, 1e30, INF])))
    cell = NativeCell(kernels, "scan", 1, None)
    sigmoid = torch.zeros(len(x), 1)
    cell.advance(torch.stack((x, torch.ones_like(x)), 1), sigmoid)
    assert (sigmoid.squeeze(1) - x.double().sigmoid()).abs().max() <= 2e-7
    closed, open_ = torch.full_like(x, -INF), torch.full_like(x, INF)
    cell = NativeCell(kernels, "lstm", 1, torch.zeros(4, 1))
    h = cell.advance(torch.stack((open_, closed, x, open_), 1), torch.zeros(len(x), 2))
    assert (h.squeeze(1) - x.double().tanh().tanh()).abs().max() <= 6e-7


@each_kind
def test_after_many_steps_nothing_has_drifted(kernels, kind):
    case = Case(kernels, kind, 16, 300, 2)
    case.first[:], case.length[:] = False, 300
    case.check()


@each_kind
def test_what_is_no_number_reaches_the_gradients_of_its_episode(kernels, kind):
    # so that the optimizer skips the step, as it does in torch
    case = Case(kernels, kind, 16, 8, 3)
    case.first[:], case.length[:] = False, 8
    case.pre[3, 1] = NAN
    h, after, *gradients = case.run()
    assert h[3:, 1].isnan().all()
    assert after[1].isnan().all()
    assert h[:, [0, 2]].isfinite().all()
    assert gradients[0][:, [0, 2]].isfinite().all()
    assert not any(each.isfinite().all() for each in gradients)


# --- holes and resets ------------------------------------------------------------------------------------------------


@each_kind
@pytest.mark.parametrize("size", [5, 64])
@pytest.mark.parametrize("bad", [NAN, INF, 1e30])
def test_whatever_stands_in_holes_changes_nothing(kernels, kind, size, bad):
    case = Case(kernels, kind, size, 9, 100)
    expected = case.run()
    case.pre[case.hole], case.gradient[case.hole], case.first[case.hole] = bad, bad, True
    assert same(case.run(), expected)
    other = Case(kernels, kind, size, 9, 100)
    other.pre[:] = other.gradient[:] = other.memory[:] = bad
    other.first[:], other.length[:], other.cell = False, 9, case.cell
    other.run()  # so that the cell holds such numbers from before
    assert same(case.run(), expected)
    other.run()
    case.first[case.hole] = False
    assert same(case.run(), expected)


@each_kind
@pytest.mark.parametrize("bad", [NAN, INF, 1e30])
def test_what_is_remembered_does_not_matter_where_an_episode_starts(kernels, kind, bad):
    case = Case(kernels, kind, 20, 9, 100)
    expected = case.run()
    case.memory[case.first[0]] = bad
    assert same(case.run(), expected)


@each_kind
@pytest.mark.parametrize("bad", [NAN, INF, 1e30])
def test_nothing_of_an_episode_leaks_into_the_next_or_back(kernels, kind, bad):
    case = Case(kernels, kind, 20, 9, 100)
    case.first[:], case.length[:] = False, 9
    case.first[4] = True
    h, after, of_pre, *_ = case.run()
    case.pre[3] = bad
    spoiled = case.run()
    assert same([spoiled[0][4:], spoiled[1], spoiled[2][4:]], [h[4:], after, of_pre[4:]])
    case.pre[3], case.gradient[6] = 0.0, bad
    spoiled, case.gradient[6:] = case.run()[2], 0.0
    assert torch.equal(spoiled[:4], case.run()[2][:4])


# --- one step --------------------------------------------------------------------------------------------------------


@each_kind
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("rows", [1, 6, 97, 200])
def test_steps_of_playing_are_those_of_learning_bit_for_bit(kernels, kind, size, rows):
    case = Case(kernels, kind, size, 7, rows)
    case.length[:] = 7
    expected, after = case.run(backward=False)
    wide = torch.randn(rows, case.cell.state + 5, generator=case.generator)
    kept, memory = wide.clone(), wide[:, 2:-3]
    memory.copy_(case.memory)
    for t in range(7):
        memory[case.first[t]] = 0.0
        assert torch.equal(case.cell.advance(case.pre[t], memory), expected[t])
    assert torch.equal(memory, after)
    assert torch.equal(wide[:, :2], kept[:, :2])
    assert torch.equal(wide[:, -3:], kept[:, -3:])


@each_kind
def test_memory_may_be_part_of_longer_rows_and_change_in_place(kernels, kind):
    case = Case(kernels, kind, 20, 9, 100)
    expected = case.run(backward=False)
    wide = torch.full((100, case.cell.state + 3), 7.0)
    memory = wide[:, 1:-2]
    memory.copy_(case.memory)
    h = case.cell.forward(case.pre, case.first, case.length, memory, memory, keep=False)
    assert same([h, memory], expected)
    assert (wide[:, 0] == 7).all()
    assert (wide[:, -2:] == 7).all()


@each_kind
def test_a_changed_weight_counts_after_pack_and_in_every_pass(kernels, kind):
    case = Case(kernels, kind, 20, 6, 5)
    for _ in range(3):
        case.check()
        if case.recurrent is not None:
            case.recurrent.data.mul_(-0.9)
        case.cell.pack()
        case.length[:] = 6
        memory = case.memory * ~case.first[0].unsqueeze(1)
        assert torch.equal(case.cell.advance(case.pre[0], memory), case.run()[0][0])


# --- repetition ------------------------------------------------------------------------------------------------------


@each_kind
def test_the_same_again_is_the_same_bit_for_bit(kernels, kind):
    case, other = (Case(kernels, kind, 33, 8, 130) for _ in range(2))
    expected = case.run()
    assert same(case.run(), expected)
    assert same(other.run(), expected)
    assert torch.equal(case.cell.write_gradients(case.gradient), expected[2])


@each_kind
def test_a_sequence_does_not_depend_on_those_beside_it(kernels, kind):
    case = Case(kernels, kind, 33, 8, 200)
    h, after, of_pre, *_ = case.run()
    whole = case.pre, case.first, case.length, case.memory, case.gradient
    for rows in (slice(0, 1), slice(5, 7), slice(95, 97), slice(13, 120), slice(199, 200)):
        case.pre, case.first, case.gradient = (each[:, rows].contiguous() for each in (whole[0], whole[1], whole[4]))
        case.length, case.memory = whole[2][rows], whole[3][rows]
        assert same(case.run()[:3], [h[:, rows], after[rows], of_pre[:, rows]])


@each_kind
def test_grids_grow_and_shrink(kernels, kind):
    case = Case(kernels, kind, 20, 1, 1)
    for seed, (steps, rows) in enumerate([(1, 1), (1, 200), (39, 10), (3, 2), (9, 100), (120, 8), (2, 50)]):
        other = Case(kernels, kind, 20, steps, rows, seed)
        case.pre, case.first, case.length = other.pre, other.first, other.length
        case.memory, case.gradient = other.memory, other.gradient
        case.check()


@each_kind
def test_no_backward_pass_without_a_forward_pass_that_kept(kernels, kind):
    case = Case(kernels, kind, 20, 6, 5)
    case.run(backward=False)
    with pytest.raises(RuntimeError, match="kept"):
        case.cell.write_gradients(case.gradient)


@each_kind
def test_a_pass_that_keeps_nothing_and_steps_leave_what_another_kept(kernels, kind):
    case, other = Case(kernels, kind, 20, 6, 5), Case(kernels, kind, 20, 30, 100, seed=1)
    expected = case.run()
    other.cell = case.cell
    other.run(backward=False)
    case.cell.advance(case.pre[0], case.memory.clone())
    assert torch.equal(case.cell.write_gradients(case.gradient), expected[2])
    assert same([] if case.recurrent is None else [case.recurrent.grad], expected[3:])


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_a_weight_that_no_one_learns_lets_gradients_through(kernels, kind):
    case = Case(kernels, kind, 20, 6, 5)
    expected = case.run()
    case.cell, case.recurrent = NativeCell(kernels, kind, 20, case.recurrent.detach()), None
    assert same(case.run(), expected[:3])


@each_kind
def test_two_threads_with_a_cell_each_do_as_one_after_the_other(kernels, kind):
    def learn(seed):
        case = Case(kernels, kind, 64, 16, 33, seed)
        for _ in range(20):
            _, _, of_pre, *of_weight = case.run()
            case.pre -= of_pre
            for gradient in of_weight:
                case.recurrent.data -= 1e-3 * gradient
        return case.pre

    alone = [learn(seed) for seed in range(4)]
    with ThreadPoolExecutor(2) as pool:
        together = list(pool.map(learn, range(4)))
    assert same(alone, together)


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the size of a process is read from /proc")
def test_cells_that_are_gone_leave_no_memory_behind(kernels):
    case = Case(kernels, "gru", 64, 8, 8)

    def build_and_drop(count):
        for _ in range(count):
            case.cell = NativeCell(kernels, "gru", 64, case.recurrent)
            case.run()
        gc.collect()
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20

    before = build_and_drop(100)
    assert build_and_drop(200) - before < 4  # MiB; each holds about a quarter of one


# --- whole policies --------------------------------------------------------------------------------------------------

ACTIONS = {
    "choices": ([3, 4], 0, 0, True),
    "numbers": ([], 0, 3, False),
    "all": ([5], 2, 3, False),
}
"""Sizes of choices, flags, numbers, and whether actions are integers."""


class Remembering:
    """A policy with cells between its networks, a value beside its head, and more in its memory than the cells' states.

    Args:
        build: What runs it.
        kinds: Of the cells, from the first to the last.
        sizes: Their units.
        layout: One of `ACTIONS`.
    """

    def __init__(self, build, kinds, sizes, layout):
        self.generator = torch.Generator().manual_seed(0)
        self.build, (self.choices, flags, numbers, integers) = build, layout
        self.networks, self.cells, self.offsets, self.recurrents = [], [], [], []
        self.width, inputs, hidden = 3, 6, [33]
        for kind, size in zip(kinds, sizes, strict=True):
            row = cell_kind(build, kind)
            gates = row.gates * size
            self.networks.append(self.network(inputs, [*hidden, gates]))
            self.recurrents.append(self.weight(gates, size) if row.looks_back else None)
            self.cells.append(NativeCell(build, kind, size, self.recurrents[-1]))
            self.offsets.append(self.width)
            self.width += self.cells[-1].state + 1
            inputs, hidden = size, []
        self.networks.append(self.network(inputs, [], [sum(self.choices) + flags + numbers, 1]))
        self.elements, self.dtype = len(self.choices) + flags + numbers, torch.int64 if integers else torch.float32
        self.head = DrawingHead(build, HeadLayout(self.choices, flags, numbers, integers))
        self.log_std = torch.full((numbers,), -0.5)
        self.recurrence = Recurrence(build, self.networks, self.cells, self.offsets)
        self.recurrence.pack()

    def weight(self, *shape):
        return weight(*shape, generator=self.generator, scale=shape[-1] ** -0.5)

    def network(self, inputs, widths, last=()):
        """Layers of these widths, and one of several parts."""
        layers, below = [], inputs
        for parts in [*([width] for width in widths), *([last] if last else [])]:
            layers.append([LinearLayer(self.weight(width, below), self.weight(width)) for width in parts])
            below = sum(parts)
        return Network(self.build, [InputLeaf(FLOATS, inputs)], layers, "tanh")

    def inputs(self, rows):
        """Observations, memory, a mask and noise; some slots start an episode."""
        obs = torch.randn(rows, 6, generator=self.generator)
        memory = torch.randn(rows, self.width, generator=self.generator)
        memory[torch.rand(rows, generator=self.generator) < 0.3] = 0.0
        mask = torch.rand(rows, sum(self.choices), generator=self.generator) < 0.7
        mask[:, [sum(self.choices[:at]) for at in range(len(self.choices))]] = True
        return obs, memory, mask, torch.rand(rows, self.elements, generator=self.generator)

    def drawn(self, rows, mask, noise):
        """Room for actions and log-probabilities, and all addresses of how they are drawn."""
        actions, logp = torch.empty(rows, self.elements, dtype=self.dtype), torch.empty(rows)
        return actions, logp, [address(each) for each in (self.log_std, mask, noise, actions, logp)]

    def at_once(self, obs, memory, mask, noise):
        """Actions, log-probabilities, and the memory after, by one call."""
        actions, logp, addresses = self.drawn(len(obs), mask, noise)
        memory, leaves = memory.clone(), (ADDRESS * 1)(obs.data_ptr())
        self.recurrence.policy_step(self.head, leaves, len(obs), memory.data_ptr(), self.width, *addresses)
        return actions, logp, memory

    def by_parts(self, obs, memory, mask, noise):
        """The same, one after the other: the last network is a policy without memory, on what the last cell shows."""
        actions, logp, addresses = self.drawn(len(obs), mask, noise)
        memory, x = memory.clone(), obs
        for network, cell, offset in zip(self.networks, self.cells, self.offsets, strict=False):
            (pre,) = network.forward([x], keep=False)
            x = cell.advance(pre, memory[:, offset : offset + cell.state])
        leaves = (ADDRESS * 1)(x.data_ptr())
        handles = self.networks[-1].handle, self.head.handle
        self.build.call["policy_step"](*handles, leaves, len(obs), *addresses)
        return actions, logp, memory


@pytest.mark.parametrize("layout", ACTIONS.values(), ids=ACTIONS.keys())
@pytest.mark.parametrize("kinds", [("lstm",), ("gru",), ("scan",), ("lstm", "gru"), ("scan", "scan", "lstm")], ids=str)
def test_a_whole_policy_in_one_call_is_its_parts_one_after_the_other(kernels, kinds, layout):
    for sizes in ((64, 20, 5), (5, 64, 33)):
        policy = Remembering(kernels, kinds, sizes[: len(kinds)], layout)
        for rows in (1, 8, 17, 97, 200):
            obs, memory, mask, noise = policy.inputs(rows)
            for allowed in (None, mask) if policy.choices else (None,):
                for drawn in (None, noise):
                    found = policy.at_once(obs, memory, allowed, drawn)
                    assert all(map(torch.equal, found, policy.by_parts(obs, memory, allowed, drawn)))


def test_a_policy_remembers_what_is_its_own_and_nothing_else(kernels):
    policy = Remembering(kernels, ("lstm", "gru"), (20, 5), ACTIONS["all"])
    obs, memory, _, noise = policy.inputs(50)
    after = policy.at_once(obs, memory, None, noise)[2]
    own = torch.zeros(policy.width, dtype=torch.bool)
    for cell, offset in zip(policy.cells, policy.offsets, strict=True):
        own[offset : offset + cell.state] = True
    assert torch.equal(after[:, ~own], memory[:, ~own])
    assert not torch.isclose(after[:, own], memory[:, own]).all(0).any()


def test_changed_weights_of_a_policy_count_after_pack(kernels):
    policy = Remembering(kernels, ("lstm", "gru"), (20, 5), ACTIONS["choices"])
    seen = policy.inputs(20)
    before = policy.at_once(*seen)
    for recurrent in policy.recurrents:
        recurrent.data.mul_(0.5)
    assert all(map(torch.equal, policy.at_once(*seen), before))
    policy.recurrence.pack()
    assert not torch.equal(policy.at_once(*seen)[2], before[2])
    assert all(map(torch.equal, policy.at_once(*seen), policy.by_parts(*seen)))
