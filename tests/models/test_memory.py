"""Learned memories: what is learned over whole sequences is what is played one decision at a time."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional

from rookery.core.batch import Sequences
from rookery.models.cells.table import CELLS
from rookery.models.layers import linear
from rookery.models.memory import MemoryConfig, build_memory
from rookery.models.sequence_split import SplitSequences
from selection import slow_except, slow_repeats

SHAPES = [(kind, layers) for kind in CELLS for layers in (1, 2)]
FEATURES = 5


def memory_of(kind, layers=1, *, seed=0, size=8, context=4, features=FEATURES, **settings):
    """A memory with weights that are all nonzero, so that none is left out of a comparison."""
    cfg = MemoryConfig(kind=kind, layers=layers, size=size, heads=2, context=context, **settings)
    memory = build_memory(cfg, features, torch.Generator().manual_seed(seed))
    gen = torch.Generator().manual_seed(seed + 1)
    with torch.no_grad():
        for parameter in memory.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=gen))
    return memory


def layout(steps, count, *, starts, seed, ragged=True, in_order=False):
    """Sequences of random lengths with episode starts of this probability, and the times and columns of their rows."""
    gen = torch.Generator().manual_seed(seed)
    first = torch.rand(steps, count, generator=gen) < starts
    length = torch.randint(1, steps + 1, (count,), generator=gen) if ragged else torch.full((count,), steps)
    cells = (torch.arange(steps).unsqueeze(1) < length).flatten().nonzero().squeeze(1)
    if in_order:
        return Sequences(first, length, None), cells
    place = cells[torch.randperm(len(cells), generator=gen)]
    return Sequences(first, length, place), place


def stored(memory, count, seed):
    """Returns a possible memory: that after an unroll of several decisions."""
    gen = torch.Generator().manual_seed(seed)
    kept = torch.zeros(count, memory.size)
    with torch.no_grad():
        for t in range(6):
            begins = torch.rand(count, 1, generator=gen) < 0.2
            kept = memory.advance(torch.randn(count, FEATURES, generator=gen), kept.masked_fill(begins, 0.0))[1]
    return kept


def unroll(memory, x, before, sequences, place):
    """Features of all rows and the memory after each sequence, from one decision at a time."""
    steps, count = sequences.first.shape
    row = {int(cell): n for n, cell in enumerate(place)}
    features, after = [None] * len(place), []
    for b in range(count):
        kept = before[b : b + 1]
        for t in range(int(sequences.length[b])):
            n = row[t * count + b]
            features[n], kept = memory.advance(x[n : n + 1], kept.masked_fill(sequences.first[t, b], 0.0))
        after.append(kept)
    return torch.cat(features), torch.cat(after)


def agree(found, expected):
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)


CASES = {
    "no reset": {"steps": 7, "count": 3, "starts": 0.0, "ragged": False, "in_order": True},
    "resets": {"steps": 9, "count": 4, "starts": 0.3, "ragged": False, "in_order": True},
    "rows missing": {"steps": 9, "count": 4, "starts": 0.3},
    "rows out of order, none missing": {"steps": 6, "count": 3, "starts": 0.0, "ragged": False},
    "episodes of one decision": {"steps": 5, "count": 3, "starts": 1.0},
    "one step": {"steps": 1, "count": 4, "starts": 0.5, "ragged": False, "in_order": True},
    "one sequence": {"steps": 12, "count": 1, "starts": 0.2, "ragged": False},
}


@pytest.mark.parametrize(("shape", "case"), slow_repeats(of=itertools.product(SHAPES, CASES)))
def test_a_pass_over_sequences_is_the_unroll_in_features_memory_and_gradients(shape, case):
    kind, layers = shape
    memory = memory_of(kind, layers)
    sequences, place = layout(**CASES[case], seed=3)
    x = torch.randn(len(place), FEATURES, generator=torch.Generator().manual_seed(4), requires_grad=True)
    before = stored(memory, len(sequences.length), 5).requires_grad_()
    weight = torch.randn(len(place), memory.num_features, generator=torch.Generator().manual_seed(6))
    leaves = [x, before, *memory.parameters()]
    found = memory(x, before, sequences)
    expected = unroll(memory, x, before, sequences, place)
    agree(found[0], expected[0])
    agree(found[1], expected[1])
    for by_pass, by_unroll in zip(
        *(
            torch.autograd.grad((weight * features).mean() + after.mean(), leaves)
            for features, after in (found, expected)
        )
    ):
        agree(by_pass, by_unroll)


@settings(derandomize=True)
@given(
    shape=st.sampled_from(SHAPES),
    steps=st.integers(1, 9),
    count=st.integers(1, 4),
    starts=st.sampled_from([0.0, 0.1, 0.4]),
    ragged=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_any_layout_of_rows_is_the_unroll(shape, steps, count, starts, ragged, seed):
    memory = memory_of(*shape)
    sequences, place = layout(steps, count, starts=starts, seed=seed, ragged=ragged)
    x = torch.randn(len(place), FEATURES, generator=torch.Generator().manual_seed(seed))
    before = stored(memory, count, seed)
    with torch.no_grad():
        found, expected = memory(x, before, sequences), unroll(memory, x, before, sequences, place)
    agree(found[0], expected[0])
    agree(found[1], expected[1])


@settings(derandomize=True)
@given(
    shape=st.sampled_from(SHAPES),
    steps=st.integers(1, 9),
    count=st.integers(1, 4),
    starts=st.sampled_from([0.1, 0.4]),
    ragged=st.booleans(),
    poison=st.sampled_from([float("nan"), float("inf"), -float("inf"), 1e30]),
    seed=st.integers(0, 1000),
)
def test_nothing_passes_a_reset_not_even_nan_neither_forward_nor_in_gradients(
    shape, steps, count, starts, ragged, poison, seed
):
    memory = memory_of(*shape)
    sequences, place = layout(steps, count, starts=starts, seed=seed, ragged=ragged)
    time, column = place // count, place % count
    begins = [
        max((t for t in range(int(n)) if sequences.first[t, b]), default=-1) for b, n in enumerate(sequences.length)
    ]
    past = time < torch.tensor(begins)[column]  # rows of episodes before the last one of their sequence
    forgotten = torch.tensor(begins) >= 0
    clean = (
        torch.randn(len(place), FEATURES, generator=torch.Generator().manual_seed(seed)),
        stored(memory, count, seed),
    )
    poisoned = torch.where(past.unsqueeze(1), poison, clean[0]), torch.where(forgotten.unsqueeze(1), poison, clean[1])
    results = []
    for x, before in (clean, poisoned):
        x, before = x.requires_grad_(), before.requires_grad_()
        features, after = memory(x, before, sequences)
        grads = torch.autograd.grad((features[~past] ** 2).sum() + (after**2).sum(), (x, before))
        results.append((features[~past], after, grads[0][~past], grads[1][~forgotten]))
    for of_clean, of_poisoned in zip(*results):
        assert of_clean.isfinite().all()
        agree(of_poisoned, of_clean)


@pytest.mark.parametrize(("kind", "layers"), SHAPES)
@pytest.mark.parametrize("poison", [float("nan"), float("inf")])
def test_what_means_nothing_leaves_no_trace_in_gradients_of_weights(kind, layers, poison):
    memory = memory_of(kind, layers)
    sequences, place = layout(6, 5, starts=0.4, seed=2)
    x = torch.randn(len(place), FEATURES, generator=torch.Generator().manual_seed(2))
    before, starts = stored(memory, 5, 2), sequences.first[0].unsqueeze(1)
    assert starts.any() and not starts.all()
    holes = torch.arange(6).unsqueeze(1) >= sequences.length
    other = Sequences(sequences.first ^ holes, sequences.length, sequences.place)
    gradients = []
    for kept, rows in ((before, sequences), (torch.where(starts, poison, before), other)):
        features, after = memory(x, kept, rows)
        gradients.append(torch.autograd.grad(features.sum() + after.sum(), [*memory.parameters()]))
    assert all(map(torch.equal, *gradients))


@pytest.mark.parametrize(("kind", "layers"), SHAPES)
def test_sequences_that_go_on_from_each_others_memory_are_one_long_sequence(kind, layers):
    memory = memory_of(kind, layers)
    steps, count = 16, 3
    x = torch.randn(steps, count, FEATURES, generator=torch.Generator().manual_seed(0))
    first = torch.rand(steps, count, generator=torch.Generator().manual_seed(1)) < 0.1
    whole, kept = [], torch.zeros(count, memory.size)
    for begin in range(0, steps, 4):
        part = Sequences(first[begin : begin + 4], torch.full((count,), 4), None)
        features, kept = memory(x[begin : begin + 4].flatten(0, 1), kept, part)
        whole.append(features)
    long = memory(x.flatten(0, 1), torch.zeros(count, memory.size), Sequences(first, torch.full((count,), steps), None))
    agree(torch.cat(whole), long[0])
    agree(kept, long[1])


@pytest.mark.parametrize(("kind", "layers"), SHAPES)
def test_a_step_is_of_each_slot_alone_and_leaves_what_was_remembered_as_it_is(kind, layers):
    memory = memory_of(kind, layers)
    x, before = torch.randn(6, FEATURES), stored(memory, 6, 0)
    copy = before.clone()
    features, after = memory.advance(x, before)
    assert features.shape == (6, memory.num_features) and after.shape == before.shape == (6, memory.size)
    assert torch.equal(before, copy) and after.untyped_storage().data_ptr() != before.untyped_storage().data_ptr()
    for n in range(6):
        agree(memory.advance(x[n : n + 1], before[n : n + 1])[0][0], features[n])


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize(("kind", "theirs"), [("lstm", nn.LSTM), ("gru", nn.GRU)])
def test_the_cells_are_those_of_torch(kind, theirs, layers):
    memory, torchs = memory_of(kind, layers), theirs(FEATURES, 8, layers)
    with torch.no_grad():
        for n, layer in enumerate(memory.layers):
            getattr(torchs, f"weight_ih_l{n}").copy_(layer.input.weight)
            getattr(torchs, f"weight_hh_l{n}").copy_(layer.recurrent)
            getattr(torchs, f"bias_ih_l{n}").copy_(layer.input.bias)
            getattr(torchs, f"bias_hh_l{n}").zero_()
    x = torch.randn(6, 3, FEATURES)
    sequences = Sequences(torch.zeros(6, 3, dtype=torch.bool), torch.full((3,), 6), None)
    features, after = memory(x.flatten(0, 1), torch.zeros(3, memory.size), sequences)
    expected, state = torchs(x)
    agree(features.view(6, 3, 8), expected)
    state = torch.stack(state, 2) if kind == "lstm" else state.unsqueeze(2)  # [layers, slots, states, size]
    agree(after, state.transpose(0, 1).flatten(1))


def test_the_forget_gates_of_an_lstm_start_open():
    memory = build_memory(MemoryConfig(kind="lstm", size=3), 4, torch.Generator().manual_seed(0))
    assert memory.layers[0].input.bias.tolist() == [0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0]


def test_a_scan_blends_candidates_by_gates_that_look_at_the_input_alone():
    memory = build_memory(MemoryConfig(kind="scan", size=1), 2, torch.Generator().manual_seed(0))
    with torch.no_grad():
        memory.layers[0].input.weight.copy_(torch.eye(2))  # the gate is sigmoid(x[0]), the candidate x[1]
        memory.layers[0].input.bias.zero_()
    sequences = Sequences(torch.zeros(3, 1, dtype=torch.bool), torch.tensor([3]), None)
    x = torch.stack((torch.tensor([0.5, 0.75, 0.25]).logit(), torch.tensor([4.0, -2.0, 8.0])), 1)
    features, after = memory(x, torch.tensor([[2.0]]), sequences)
    # 0.5 * 2 + 0.5 * 4 = 3; 0.25 * 3 + 0.75 * -2 = -0.75; 0.75 * -0.75 + 0.25 * 8 = 1.4375
    agree(features, torch.tensor([[3.0], [-0.75], [1.4375]]).tanh())
    agree(after, torch.tensor([[1.4375]]))


@pytest.mark.parametrize("kind", ["gru", "scan"])
def test_units_start_with_memories_from_short_to_a_sequence_long(kind):
    cfg = MemoryConfig(kind=kind, size=3, sequence_length=16)
    bias = build_memory(cfg, 4, torch.Generator().manual_seed(0)).layers[0].input.bias
    kept = bias[3:6].sigmoid() if kind == "gru" else 1 - bias[:3].sigmoid()
    agree(kept, torch.tensor([1 / 2, 4 / 5, 16 / 17]))  # geometric: what is kept is 1 - 1 / (1 + t) for t = 1, 4, 16


@pytest.mark.parametrize(("layers", "reach"), [(1, 3), (2, 6)])
def test_attention_sees_exactly_its_context(layers, reach):
    memory = memory_of("attention", layers, context=4)
    x = torch.randn(12, FEATURES, generator=torch.Generator().manual_seed(0), requires_grad=True)
    sequences = Sequences(torch.zeros(12, 1, dtype=torch.bool), torch.tensor([12]), None)
    features, _ = memory(x, torch.zeros(1, memory.size), sequences)
    for t in range(12):
        (grad,) = torch.autograd.grad(features[t].sum(), x, retain_graph=True)
        seen = grad.abs().sum(1).nonzero().squeeze(1).tolist()
        assert seen == list(range(max(0, t - reach), t + 1))


def test_attention_with_a_context_of_one_sees_the_present_alone():
    memory = memory_of("attention", context=1)
    x, sequences = torch.randn(5, FEATURES), Sequences(torch.zeros(5, 1, dtype=torch.bool), torch.tensor([5]), None)
    features, after = memory(x, torch.zeros(1, memory.size), sequences)
    agree(features, memory.advance(x, torch.zeros(5, memory.size))[0])
    assert after.tolist() == [[0.0]]


def test_attention_tells_decisions_apart_by_how_long_ago_they_were():
    memory = memory_of("attention")
    sequences = Sequences(torch.zeros(3, 1, dtype=torch.bool), torch.tensor([3]), None)
    a, b, now = torch.randn(3, FEATURES, generator=torch.Generator().manual_seed(0))
    one, other = (
        memory(torch.stack(order), torch.zeros(1, memory.size), sequences)[0][2] for order in ((a, b, now), (b, a, now))
    )
    assert (one - other).abs().max() > 1e-3


@pytest.mark.parametrize(("kind", "layers"), SHAPES)
def test_first_weights_depend_on_the_generator_alone(kind, layers):
    cfg = MemoryConfig(kind=kind, layers=layers, size=8, heads=2)
    torch.manual_seed(1)
    one = build_memory(cfg, 5, torch.Generator().manual_seed(7)).state_dict()
    torch.manual_seed(2)
    state = torch.get_rng_state()
    two = build_memory(cfg, 5, torch.Generator().manual_seed(7)).state_dict()
    assert torch.equal(torch.get_rng_state(), state)
    assert one and all(torch.equal(one[name], two[name]) for name in one)
    three = build_memory(cfg, 5, torch.Generator().manual_seed(8)).state_dict()
    assert not all(torch.equal(one[name], three[name]) for name in one)


def test_no_memory_is_none():
    assert build_memory(MemoryConfig(), 5, torch.Generator()) is None


def test_pieces_are_runs_of_one_episode_and_the_longest_come_first():
    # two sequences of 4 and 3 rows: a a b b and c d d; b and d start at a reset, c at one in row 0
    first = torch.tensor([[False, True], [False, True], [True, False], [False, True]])  # the last flag is of no row
    place = torch.tensor([0, 1, 2, 3, 4, 5, 6])
    pieces = SplitSequences.of(Sequences(first, torch.tensor([4, 3]), place))
    assert pieces.counts == [4, 3]
    assert pieces.origin.tolist() == [0, 1, 0, 1] and pieces.starts.tolist() == [False, True, True, True]  # a d b c
    assert pieces.pack(place).tolist() == [0, 3, 4, 1, 2, 5, 6]
    assert pieces.unpack(pieces.pack(place)).tolist() == place.tolist()
    assert pieces.last.tolist() == [2, 1] and pieces.last_packed.tolist() == [6, 5]


def accuracy_of_recall(memory, *, updates, seed):
    """Returns how often the last decision of new sequences names their first symbol, after some updates on others."""
    gen = torch.Generator().manual_seed(seed)
    head = linear(memory.num_features if memory else 5, 4, gain=1.0, generator=gen)
    optimizer = torch.optim.Adam([*head.parameters(), *(memory.parameters() if memory else ())], lr=5e-3)
    for update in range(updates + 1):
        symbol = torch.randint(4, (8, 32), generator=gen)
        x = torch.zeros(8, 32, 5)
        x[..., :4] = functional.one_hot(symbol, 4)
        x[0, :, 4] = 1.0  # marks what is asked for
        features = x.flatten(0, 1)
        if memory:
            sequences = Sequences(torch.zeros(8, 32, dtype=torch.bool), torch.full((32,), 8), None)
            features, _ = memory(features, torch.zeros(32, memory.size), sequences)
        said = head(features[-32:])
        if update < updates:
            optimizer.zero_grad()
            functional.cross_entropy(said, symbol[0]).backward()
            optimizer.step()
    return float((said.argmax(1) == symbol[0]).float().mean())


@pytest.mark.parametrize("kind", slow_except("lstm", of=CELLS))
def test_a_memory_learns_to_recall_at_the_end_what_stood_at_the_start(kind):
    cfg = MemoryConfig(kind=kind, size=32, sequence_length=8)
    memory = build_memory(cfg, 5, torch.Generator().manual_seed(0))
    assert accuracy_of_recall(memory, updates=150, seed=0) > 0.9


def test_without_memory_recall_is_chance():
    assert accuracy_of_recall(None, updates=150, seed=0) < 0.5


def test_long_sequences_pass_through_attention_in_stretches_to_the_same_numbers(monkeypatch):
    gen = torch.Generator().manual_seed(1)
    memory = build_memory(MemoryConfig(kind="attention", size=8, heads=2, context=3, layers=2), 5, gen)
    first = torch.rand(40, 3, generator=gen) < 0.1
    length = torch.tensor([40, 13, 27])
    place = (torch.arange(40).unsqueeze(1) < length).flatten().nonzero().squeeze(1)
    sequences = Sequences(first, length, place)
    x = torch.randn(len(place), 5, generator=gen, requires_grad=True)
    before = torch.zeros(3, memory.size)
    features, after = memory(x, before, sequences)
    (gradient,) = torch.autograd.grad(features.square().sum(), x)
    monkeypatch.setattr("rookery.models.cells.attention.STRETCH", 1000)
    whole, after_whole = memory(x, before, sequences)
    (gradient_whole,) = torch.autograd.grad(whole.square().sum(), x)
    assert torch.allclose(features, whole, atol=1e-6)
    assert torch.allclose(after, after_whole, atol=1e-6)
    assert torch.allclose(gradient, gradient_whole, atol=1e-5)
