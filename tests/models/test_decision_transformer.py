"""The Decision Transformer's network: numbers against a plain NumPy computation, causality, and what is left out."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from gymnasium import spaces

from rookery.core.batch import Sequences
from rookery.core.errors import ConfigError, RookeryError
from rookery.core.spaces.arrays import action_spec
from rookery.models.decision_transformer import (
    DecisionTransformer,
    Dropout,
    ReturnConditioned,
    Steps,
    hidden_tokens,
)

NUMBERS = action_spec(spaces.Box(-1, 1, (2,), np.float32))
CHOICES = action_spec(spaces.Discrete(3))
SEEN = 4


def network_of(action=NUMBERS, *, context=5, layers=2, heads=2, width=8, timesteps=50, seed=0):
    """A network whose weights are all nonzero, so that none is left out of a comparison."""
    spec = ReturnConditioned(context, layers, heads, width, timesteps)
    network = DecisionTransformer(SEEN, action, spec, generator=torch.Generator().manual_seed(seed))
    gen = torch.Generator().manual_seed(seed + 1)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.2 * torch.randn(parameter.shape, generator=gen))
    return network


def steps_of(action=NUMBERS, windows=3, length=5, *, first=None, seed=0):
    """Random windows; `first` is the place of the first step that is there, in each."""
    rng = np.random.default_rng(seed)
    there = np.arange(length) >= np.array([0] * windows if first is None else first)[:, None]
    done = rng.integers(1, 4, (windows, length, 1)) if action.sizes else rng.uniform(-1, 1, (windows, length, 2))
    timestep = rng.integers(0, 30, (windows, 1)) + np.arange(length)
    return Steps(
        torch.from_numpy(rng.normal(size=(windows, length, SEEN)).astype(np.float32)),
        torch.from_numpy(done.astype(np.float32)),
        torch.from_numpy(rng.normal(size=(windows, length)).astype(np.float32)),
        torch.from_numpy(timestep),
        torch.from_numpy(there),
    )


def by_numpy(network, steps, window):
    """Features of a window's steps, token by token and head by head, as the paper has them; those that are not there
    are not in it at all.
    """
    weights = {name: value.detach().double().numpy() for name, value in network.state_dict().items()}
    spec = network.spec

    def norm(x, name):
        return (x - x.mean()) / np.sqrt(x.var() + 1e-5) * weights[f"{name}.weight"] + weights[f"{name}.bias"]

    def layer(x, name):
        return weights[f"{name}.weight"] @ x + weights[f"{name}.bias"]

    there = np.flatnonzero(steps.is_there[window].numpy())
    tokens = []
    for place in there:
        when = weights["time_embedding"][min(int(steps.timestep[window, place]), spec.timesteps - 1)]
        done = steps.action[window, place].double().numpy()
        ahead = steps.return_to_go[window, place : place + 1].double().numpy()
        if network.choice_embedding is None:
            acted = layer(done, "number_embedding")
        else:
            acted = weights["choice_embedding"][int(done[0])]
        seen = layer(steps.seen[window, place].double().numpy(), "seen_embedding")
        tokens += [part + when for part in (layer(ahead, "return_embedding"), seen, acted)]
    stream = [norm(token, "norm") for token in tokens]
    part = spec.width // spec.heads
    for number in range(spec.layers):
        name = f"blocks.{number}"
        looks = [layer(norm(x, f"{name}.first_norm"), f"{name}.attention.looks") for x in stream]
        after = []
        for now, x in enumerate(stream):
            heads = []
            for head in range(spec.heads):
                query, key, value = (slice(k * spec.width + head * part, k * spec.width + (head + 1) * part)
                                     for k in range(3))  # fmt: skip
                scores = np.array([looks[now][query] @ looks[then][key] for then in range(now + 1)]) / math.sqrt(part)
                share = np.exp(scores - scores.max())
                share /= share.sum()
                heads.append(sum(share[then] * looks[then][value] for then in range(now + 1)))
            x = x + layer(np.concatenate(heads), f"{name}.attention.output")
            inner = np.maximum(layer(norm(x, f"{name}.second_norm"), f"{name}.wide"), 0.0)
            after.append(x + layer(inner, f"{name}.narrow"))
        stream = after
    return there, np.stack([norm(x, "last_norm") for x in stream[1::3]])


@pytest.mark.parametrize("action", [NUMBERS, CHOICES])
def test_it_computes_what_the_paper_says(action):
    network = network_of(action)
    steps = steps_of(action, first=[0, 2, 4])
    with torch.no_grad():
        found = network.read(steps).numpy()
    for window in range(3):
        there, wanted = by_numpy(network, steps, window)
        np.testing.assert_allclose(found[window, there], wanted, rtol=2e-4, atol=2e-5)


def test_nothing_that_comes_later_changes_what_a_step_says():
    network, steps = network_of(), steps_of()
    with torch.no_grad():
        before = network.read(steps)
        for name in ("seen", "action", "return_to_go"):
            for place in range(5):
                changed = {**vars(steps), name: getattr(steps, name).clone()}
                changed[name][:, place] += 1.0
                after = network.read(Steps(**changed))
                differs = (after != before).any(2).any(0)
                first = place + (name == "action")  # an action is known only after it was passed
                assert not differs[:first].any() and differs[first:].all(), (name, place)


def test_what_is_not_there_changes_nothing():
    network = network_of()
    steps = steps_of(first=[1, 3, 4])
    hole = ~steps.is_there
    other = steps_of(first=[1, 3, 4], seed=9)
    filled = {}
    for name in ("seen", "action", "return_to_go", "timestep"):
        kept, news = getattr(steps, name), getattr(other, name)
        filled[name] = torch.where(hole.view(*hole.shape, *[1] * (kept.dim() - 2)), news, kept)
    with torch.no_grad():
        before, after = network.read(steps), network.read(Steps(**filled, is_there=steps.is_there))
        assert torch.equal(before[steps.is_there], after[steps.is_there])
        longer = {name: torch.nn.functional.pad(value, (*[0, 0] * (value.dim() - 2), 3, 0))
                  for name, value in vars(steps).items()}  # fmt: skip
        wide = network.read(Steps(**longer))[:, 3:]
        torch.testing.assert_close(wide[steps.is_there], before[steps.is_there], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("action", "context", "part"), [(NUMBERS, 1, 0.0), (NUMBERS, 5, 0.1), (CHOICES, 2, 0.2), (CHOICES, 5, 0.0)]
)
def test_decision_by_decision_is_the_same_as_a_window(action, context, part):
    network = network_of(action, context=context)
    network.decision_part.fill_(part)
    network.return_range.copy_(torch.tensor([-8.0, 0.0]) if part else network.return_range)
    network.target_return.fill_(-300.0)
    network.return_scale.fill_(50.0)
    rng = np.random.default_rng(0)
    length, rows = 8, 3
    seen = torch.from_numpy(rng.normal(size=(length, rows, SEEN)).astype(np.float32))
    reward = torch.from_numpy(rng.normal(size=(length, rows)).astype(np.float32) * 10)
    done = steps_of(action, rows, length).action.transpose(0, 1)
    ahead = [torch.full((rows,), -300.0)]
    for earned in reward:
        ahead.append(ahead[-1] - earned)
    memory = torch.zeros(rows, network.size)
    with torch.no_grad():
        for now in range(length):
            last = torch.zeros_like(done[0]) if not now else done[now - 1]
            earned = torch.zeros(rows, 1) if not now else reward[now - 1].unsqueeze(1)
            found, memory = network.advance(torch.cat((seen[now], last, earned), 1), memory)
            begin = max(now + 1 - context, 0)
            span = slice(begin, now + 1)
            window = Steps(
                seen[span].transpose(0, 1),
                done[span].transpose(0, 1),
                torch.stack(ahead[span], 1) / 50.0,
                torch.arange(begin, now + 1).expand(rows, -1),
                torch.ones(rows, now + 1 - begin, dtype=torch.bool),
            )
            torch.testing.assert_close(found, network.read(window)[:, -1], rtol=1e-4, atol=1e-5)


def test_a_return_to_go_is_an_average_over_the_decisions_that_are_left():
    network = network_of()
    ahead, when = torch.tensor([[-1.0, -0.5, -0.5, 0.3, -0.1]]), torch.tensor([[0, 5, 9, 0, 12]])
    assert torch.equal(network.return_input(ahead, when), ahead)  # before data are read: unchanged
    network.decision_part.fill_(0.1)
    torch.testing.assert_close(network.return_input(ahead, when), torch.tensor([[-1.0, -1.0, -5.0, 0.3, -1.0]]))
    network.return_range.copy_(torch.tensor([-2.0, 0.0]))
    torch.testing.assert_close(network.return_input(ahead, when), torch.tensor([[-1.0, -1.0, -2.0, 0.0, -1.0]]))


def test_weights_of_earlier_versions_keep_returns_to_go_as_inputs():
    old, network = network_of().state_dict(), network_of(seed=3)
    del old["decision_part"], old["return_range"]
    network.load_state_dict(old)
    assert float(network.decision_part) == 0.0 and network.return_range.tolist() == [-math.inf, math.inf]


def test_decisions_after_the_last_place_count_as_the_last():
    network = network_of(timesteps=4)
    steps = steps_of()
    with torch.no_grad():
        late = {**vars(steps), "timestep": torch.arange(10, 15).expand(3, -1)}
        last = {**vars(steps), "timestep": torch.full((3, 5), 3)}
        assert torch.equal(network.read(Steps(**late)), network.read(Steps(**last)))


def test_what_is_hidden_is_what_comes_later_or_is_not_there():
    hidden = hidden_tokens(torch.tensor([[False, True]]))[0, 0]
    wanted = [[place > now or (place < 3 and place != now) for place in range(6)] for now in range(6)]
    assert hidden.tolist() == wanted


def test_dropout_keeps_the_mean_and_repeats_by_its_seed():
    x = torch.ones(20_000)
    found = [Dropout(0.3, torch.Generator().manual_seed(seed))(x) for seed in (0, 0, 1)]
    assert torch.equal(found[0], found[1]) and not torch.equal(found[0], found[2])
    assert float((found[0] == 0).float().mean()) == pytest.approx(0.3, abs=0.02)
    assert float(found[0].max()) == pytest.approx(1 / 0.7)


def test_what_cannot_be_is_refused():
    with pytest.raises(ConfigError, match="3 heads cannot share a width of 8 evenly; take a width such as 9"):
        network_of(heads=3)
    network, none = network_of(), torch.zeros(1, dtype=torch.long)
    with pytest.raises(RookeryError, match="learns from windows of data"):
        network(torch.zeros(1, 7), torch.zeros(1, network.size), Sequences(torch.ones(1, 1).bool(), none + 1, None))
