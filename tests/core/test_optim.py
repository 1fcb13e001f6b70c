"""The one place where weights change."""

import copy
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from rookery.core.flat import adam_by_parts, flatten, fused_adam
from rookery.core.optim import Adam, RMSprop, apply_gradients, compute_gradients, gradient_step


@dataclass
class Cfg:
    lr: float = 0.02
    max_grad_norm: float | None = 0.5
    model = SimpleNamespace(compile=False)


def net(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2))


def batches(n=20):
    rng = np.random.default_rng(0)
    return [torch.tensor(rng.normal(size=(7, 3)) * 10 ** rng.uniform(-2, 1), dtype=torch.float32) for _ in range(n)]


def loss(outputs, batch, cfg):
    value = (outputs - batch[:, :2]).square().mean()
    return value, {"loss": value.detach()}


def adam(model, eps=1e-5):
    return Adam(flatten([model]), betas=(0.9, 0.999), eps=eps)


@pytest.mark.parametrize("max_grad_norm", [0.5, 1e6, None])
def test_twenty_steps_equal_torch_adam_with_clipping(max_grad_norm):
    mine, theirs = net(), net()
    optimizer, reference = adam(mine), torch.optim.Adam(theirs.parameters(), lr=0.02, eps=1e-5)
    cfg = Cfg(max_grad_norm=max_grad_norm)
    for batch in batches():
        metrics = gradient_step(mine, loss, batch, optimizer, cfg)
        reference.zero_grad()
        value = loss(theirs(batch), batch, None)[0]
        value.backward()
        norm = nn.utils.clip_grad_norm_(theirs.parameters(), max_grad_norm or float("inf"))
        reference.step()
        assert torch.allclose(torch.as_tensor(metrics["grad_norm"]), norm, rtol=1e-5)
        assert torch.allclose(metrics["loss"], value, rtol=1e-5)
        for a, b in zip(mine.parameters(), theirs.parameters(), strict=True):
            assert torch.allclose(a, b, atol=1e-6, rtol=0)
    assert optimizer.steps == 20


def test_the_learning_rate_of_each_step_is_that_of_its_settings():
    mine, theirs = net(), net()
    optimizer, reference = adam(mine), torch.optim.Adam(theirs.parameters(), eps=1e-5)
    for lr, batch in zip((0.1, 0.01, 0.001), batches(), strict=False):
        gradient_step(mine, loss, batch, optimizer, Cfg(lr, None))
        reference.param_groups[0]["lr"] = lr
        reference.zero_grad()
        loss(theirs(batch), batch, None)[0].backward()
        reference.step()
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(mine.parameters(), theirs.parameters(), strict=True))


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("max_grad_norm", [0.5, None])
def test_a_step_that_is_not_finite_is_skipped_and_counted(bad, max_grad_norm):
    model = net()
    optimizer, cfg = adam(model), Cfg(max_grad_norm=max_grad_norm)
    good, poisoned = batches()[0], batches()[0].clone()
    poisoned[0, 0] = bad
    gradient_step(model, loss, good, optimizer, cfg)
    weights, state = optimizer.flat.data.clone(), optimizer.state_dict()
    for _ in range(3):
        gradient_step(model, loss, poisoned, optimizer, cfg)
    assert torch.equal(optimizer.flat.data, weights)
    assert all(torch.equal(optimizer.state_dict()[name], state[name]) for name in ("mean", "square", "steps"))
    assert optimizer.read_skipped() == (3, 3)
    gradient_step(model, loss, good, optimizer, cfg)
    assert optimizer.read_skipped() == (3, 0)
    gradient_step(model, loss, poisoned, optimizer, cfg)
    assert optimizer.read_skipped() == (4, 1)
    assert optimizer.steps == 2
    assert not torch.equal(optimizer.flat.data, weights)


def test_a_skipped_step_leaves_no_trace_in_the_steps_after_it():
    clean, dirty = net(), net()
    one, other = adam(clean), adam(dirty)
    poisoned = torch.full((7, 3), float("nan"))
    for batch in batches(6):
        gradient_step(clean, loss, batch, one, Cfg())
        gradient_step(dirty, loss, poisoned, other, Cfg())
        gradient_step(dirty, loss, batch, other, Cfg())
    assert torch.equal(one.flat.data, other.flat.data)


def test_the_two_halves_of_a_step_are_the_step():
    whole, halves = net(), net()
    one, other = adam(whole), adam(halves)
    for batch in batches(4):
        metrics = gradient_step(whole, loss, batch, one, Cfg())
        before = other.flat.data.clone()
        assert set(compute_gradients(halves, loss, batch, other, Cfg())) == {"loss"}
        assert torch.equal(other.flat.data, before)
        norm = apply_gradients(other, lr=0.02, max_grad_norm=0.5)
        assert float(norm) == float(metrics["grad_norm"])
    assert torch.equal(one.flat.data, other.flat.data)


def test_gradients_start_from_zero_in_every_step():
    model = net()
    optimizer = adam(model)
    batch = batches()[0]
    compute_gradients(model, loss, batch, optimizer, Cfg())
    once = optimizer.flat.grad.clone()
    compute_gradients(model, loss, batch, optimizer, Cfg())
    assert torch.equal(optimizer.flat.grad, once)


def test_an_optimizer_goes_on_from_its_saved_state():
    model = net()
    optimizer = adam(model)
    for batch in batches(5):
        gradient_step(model, loss, batch, optimizer, Cfg())
    state, other = optimizer.state_dict(), copy.deepcopy(model)
    gradient_step(model, loss, batches()[6], optimizer, Cfg())
    assert state["steps"] == 5  # a copy
    resumed = adam(other)
    resumed.load_state_dict(state)
    gradient_step(other, loss, batches()[6], resumed, Cfg())
    assert torch.equal(resumed.flat.data, optimizer.flat.data)


def test_gradients_stay_views_through_backward_and_steps():
    model = net()
    optimizer = adam(model)
    for batch in batches(3):
        gradient_step(model, loss, batch, optimizer, Cfg())
    offset = 0
    for parameter in model.parameters():
        assert parameter.grad is not None
        assert parameter.grad.data_ptr() == optimizer.flat.grad[offset:].data_ptr()
        assert parameter.data_ptr() == optimizer.flat.data[offset:].data_ptr()
        offset += parameter.numel()


def test_a_part_that_no_gradient_reaches_stays_and_its_gradient_is_zero_not_none():
    model, idle = net(), nn.Linear(2, 2)
    optimizer = Adam(flatten([model, idle]), betas=(0.9, 0.999), eps=1e-5)
    before = idle.weight.detach().clone()
    gradient_step(model, loss, batches()[0], optimizer, Cfg())
    assert torch.equal(idle.weight, before)
    assert not idle.weight.grad.any()


def test_frozen_and_shared_parameters_count_not_at_all_and_once():
    model = net()
    model[0].requires_grad_(False)
    flat = flatten([model, model[2]])
    assert len(flat.data) == 5 * 2 + 2
    assert model[0].weight.grad is None
    frozen = model[0].weight.clone()
    gradient_step(model, loss, batches()[0], Adam(flat, betas=(0.9, 0.999), eps=1e-5), Cfg())
    assert torch.equal(model[0].weight, frozen)


def rmsprop(model):
    return RMSprop(flatten([model]), alpha=0.99, eps=1e-5)


@pytest.mark.parametrize("max_grad_norm", [0.5, None])
def test_rmsprop_has_eps_inside_the_root_and_starts_from_a_mean_square_of_1(max_grad_norm):
    model = net()
    optimizer = rmsprop(model)
    weights, square = optimizer.flat.data.double().numpy().copy(), 1.0
    for batch in batches():
        metrics = gradient_step(model, loss, batch, optimizer, Cfg(max_grad_norm=max_grad_norm))
        gradient = optimizer.flat.grad.double().numpy()
        assert float(metrics["grad_norm"]) == pytest.approx(np.linalg.norm(gradient), rel=1e-5)
        gradient = gradient * min(1.0, (max_grad_norm or np.inf) / np.linalg.norm(gradient))
        square = 0.99 * square + 0.01 * gradient**2
        weights -= 0.02 * gradient / np.sqrt(square + 1e-5)
        assert np.allclose(optimizer.flat.data.numpy(), weights, atol=2e-6, rtol=0)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("max_grad_norm", [0.5, None])
def test_rmsprop_skips_and_counts_a_step_that_is_not_finite_without_a_trace(bad, max_grad_norm):
    one, other = net(), net()
    optimizer, reference = rmsprop(one), rmsprop(other)
    good = batches(4)
    poisoned = good[0].clone()
    poisoned[0, 0] = bad
    for batch in (good[0], poisoned, poisoned, *good[1:]):
        gradient_step(one, loss, batch, optimizer, Cfg(max_grad_norm=max_grad_norm))
    for batch in good:
        gradient_step(other, loss, batch, reference, Cfg(max_grad_norm=max_grad_norm))
    assert optimizer.read_skipped() == (2, 0)
    assert torch.equal(optimizer.flat.data, reference.flat.data)
    assert torch.equal(optimizer.square, reference.square)


def test_rmsprop_goes_on_from_its_saved_state():
    one, other = net(), net()
    optimizer = rmsprop(one)
    for batch in batches(3):
        gradient_step(one, loss, batch, optimizer, Cfg())
    state = copy.deepcopy(optimizer.state_dict())
    other.load_state_dict(one.state_dict())
    resumed = rmsprop(other)
    resumed.load_state_dict(state)
    assert set(state) == {"square", "skipped", "skipped_in_a_row"}
    for model, each in ((one, optimizer), (other, resumed)):
        gradient_step(model, loss, batches(4)[3], each, Cfg())
    assert torch.equal(optimizer.flat.data, resumed.flat.data)


@pytest.mark.regression("data lost", "An optimizer refuses the state of another kind of optimizer")
def test_the_state_of_another_optimizer_is_refused():
    for one, other in ((adam(net()), rmsprop(net())), (rmsprop(net()), adam(net()))):
        with pytest.raises((KeyError, AttributeError)):
            one.load_state_dict(other.state_dict())


@pytest.mark.parametrize("scale", [None, 8.0])
def test_without_the_private_name_in_torch_adam_makes_the_same_steps_by_parts(scale):
    def run(step):
        generator = torch.Generator().manual_seed(3)
        vectors = [torch.randn(50, generator=generator), torch.zeros(50), torch.zeros(50)]
        count, options = torch.zeros(()), {"lr": 0.01, "beta1": 0.9, "beta2": 0.999, "eps": 1e-5}
        for number in range(6):
            bad = torch.tensor(float(number in (0, 3)))  # the first step is skipped too
            gradient = torch.randn(50, generator=generator) * (torch.nan if bad else scale or 1.0)
            count += 1 - bad
            scaled = {} if scale is None else {"grad_scale": torch.tensor(scale)}
            data, mean, square = vectors
            step(
                [data], [gradient], [mean], [square], [], [count], found_inf=bad, **options, **scaled,
                amsgrad=False, weight_decay=0.0, maximize=False,
            )  # fmt: skip
        return torch.stack(vectors)

    assert torch.allclose(run(adam_by_parts), run(fused_adam), rtol=1e-5, atol=1e-7)
    assert hasattr(torch, "_fused_adam_") == (fused_adam is not adam_by_parts)
