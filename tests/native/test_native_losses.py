"""Users' own losses, batches and networks, on kernels as in torch: the gradient is that of the written loss."""

import functools
import struct
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from gymnasium import spaces
from test_native_learning import learner, rollout

from rookery.algorithms.on_policy.ppo import PPO, ppo_gradient, ppo_loss
from rookery.core.batch import Minibatch
from rookery.core.errors import ConfigError
from rookery.core.flat import flatten
from rookery.core.native import FLOATS, InputLeaf, LinearLayer, Network, best_build
from rookery.core.optim import ClosedForm, compute_gradients, gradient_step
from rookery.core.spaces.arrays import action_spec, obs_spec
from rookery.rollout.storage import DecisionSlab

pytestmark = pytest.mark.skipif(best_build() is None, reason="no kernels here")


def two(**case):
    """A learner on kernels and its twin in torch, and a batch."""
    mine, theirs = learner("ppo", **case), learner("ppo", **case, native=False)
    assert mine.on_kernels
    assert not theirs.on_kernels
    return mine, theirs, theirs.targets(rollout(theirs, 1))


def gradient(algo, loss, batch, closed_form=PPO.closed_form):
    compute_gradients(algo.forward, loss, batch, algo.optimizer, algo.now(), closed_form)
    return algo.optimizer.flat.grad.clone()


def assert_alike(mine, theirs, loss, batch):
    expected = gradient(theirs, loss, batch)
    found = gradient(mine, loss, batch)
    assert (found - expected).norm() < 1e-5 * expected.norm()
    assert expected.norm() > 0


def test_what_is_asked_between_two_minibatches_does_not_move_the_second():
    mine, theirs, data = two()
    rows = torch.arange(30)
    first = gradient(mine, ppo_loss, data.at(rows))
    with torch.no_grad():
        mine.net.value({path: torch.randn(300, *leaf.shape[1:]) for path, leaf in data.obs.items()})
    assert torch.equal(gradient(mine, ppo_loss, data.at(rows)), first)
    assert_alike(mine, theirs, ppo_loss, data.at(rows.flip(0)))


def test_a_loss_that_wraps_another_is_a_loss_of_its_own():
    mine, theirs, data = two()

    @functools.wraps(ppo_loss)
    def wrapped(outputs, batch, cfg):
        loss, metrics = ppo_loss(outputs, batch, cfg)
        return loss + outputs.value.square().mean(), metrics | {"mine": loss.detach()}

    assert_alike(mine, theirs, wrapped, data)
    assert "mine" in compute_gradients(mine.forward, wrapped, data, mine.optimizer, mine.now())


def test_a_loss_may_reach_weights_by_other_ways_than_the_outputs():
    mine, theirs, data = two()
    for algo in (mine, theirs):

        def loss(outputs, batch, cfg, algo=algo):
            value, metrics = ppo_loss(outputs, batch, cfg)
            decay = sum(weight.square().sum() for weight in algo.policy.parameters())
            again = algo.net(batch).value.mean()
            return value + 0.1 * decay + again, metrics

        compute_gradients(algo.forward, loss, data, algo.optimizer, algo.now())
    found, expected = mine.optimizer.flat.grad, theirs.optimizer.flat.grad
    assert (found - expected).norm() < 1e-5 * expected.norm()


def test_a_loss_may_change_outputs_in_place():
    mine, theirs, data = two()

    def loss(outputs, batch, cfg):
        outputs.value.mul_(2)
        return ppo_loss(outputs, batch, cfg)

    assert_alike(mine, theirs, loss, data)


def test_a_closed_form_of_other_shapes_is_refused():
    mine, _, data = two()

    def narrow(outputs, batch, cfg):
        gradients, metrics = ppo_gradient(outputs, batch, cfg)
        return [gradients[0], gradients[-1].mean()], metrics

    def loss(outputs, batch, cfg):
        return ppo_loss(outputs, batch, cfg)

    with pytest.raises(ConfigError, match=r"closed form of loss returns gradients .*; needed are torch.float32"):
        gradient(mine, loss, data, ClosedForm(loss, narrow))


def test_a_closed_form_counts_for_its_own_loss_alone():
    mine, _, data = two()

    def other(outputs, batch, cfg):
        return ppo_loss(outputs, batch, cfg)

    def wrong(outputs, batch, cfg):
        raise AssertionError("this is the gradient of another loss")

    gradient(mine, other, data, ClosedForm(ppo_loss, wrong, wrong))


@pytest.mark.parametrize(
    "order", [torch.arange(30, dtype=torch.int32), torch.arange(60)[::2], torch.arange(30).flip(0)]
)
def test_rows_may_be_numbered_as_torch_takes_it(order):
    mine, theirs, data = two()
    assert_alike(mine, theirs, ppo_loss, data.at(order))


def test_a_row_that_is_not_there_is_refused():
    _, _, data = two()
    for rows in ([0, len(data)], [-1, 0]):
        with pytest.raises(IndexError, match="of a batch of"):
            data.at(torch.tensor(rows))


@pytest.mark.parametrize("change", ["value_target", "action"])
def test_what_does_not_fit_is_left_to_torch_which_says_so(change):
    mine, _, data = two()
    wrong = data.action + 50 if change == "action" else data.value_target[:3]
    with pytest.raises((RuntimeError, IndexError)):
        gradient(mine, ppo_loss, replace(data, **{change: wrong}))


def test_hooks_are_called_whenever_they_are_set():
    mine, theirs, data = two()
    gradient(mine, ppo_loss, data)
    calls = []
    handle = mine.policy.trunk.register_forward_hook(lambda *_: calls.append(1))
    mine.targets(rollout(theirs, 1))  # an update looks once
    calls.clear()
    assert_alike(mine, theirs, ppo_loss, data)
    assert calls
    handle.remove()
    mine.targets(rollout(theirs, 1))
    assert mine.on_kernels


def test_weights_that_are_moved_are_followed():
    mine, theirs, data = two()
    gradient(mine, ppo_loss, data)
    mine.optimizer.flat = None  # whose vector is in use as long as it is there
    flatten([mine.policy.trunk])
    mine.optimizer.flat = flatten(mine.net.parts)
    assert_alike(mine, theirs, ppo_loss, data)


def test_what_runs_in_torch_is_stepped_in_torch():
    mine, theirs, data = two()
    for algo, path in ((mine, True), (theirs, False)):
        gradient_step(algo.forward, ppo_loss, data, algo.optimizer, algo.now())
        assert algo.optimizer.on_kernels == path


@dataclass(frozen=True, kw_only=True)
class Extended(Minibatch):
    extra: torch.Tensor | None = None
    beta: float = 1.0


def test_parts_of_a_batch_have_its_own_fields_and_not_the_defaults():
    _, _, data = two()
    whole = Extended(**{name: getattr(data, name) for name in data.__dataclass_fields__},
                     extra=torch.arange(len(data)), beta=2.0)  # fmt: skip
    part = whole.at(torch.tensor([3, 1]))
    assert part.extra.tolist() == [3, 1]
    assert part.beta == 2.0
    assert len(next(whole.shuffled(8, np.random.default_rng(0))).extra) <= 8


@pytest.mark.parametrize("category", [5, -1, 10**12])
def test_a_category_that_there_is_not_is_noticed(category):
    mine, _, data = two(obs=spaces.Discrete(5))
    path = next(iter(data.obs))
    wrong = data.obs[path].clone()
    wrong[7] = category
    gradient_step(mine.forward, ppo_loss, replace(data, obs={path: wrong}), mine.optimizer, mine.now())
    assert mine.optimizer.read_skipped() == (1, 1)


@pytest.mark.parametrize("bits", [0x7FC00000, 0x7FC00001, 0x7FFFFFFF, 0xFFFFFFFF])
@pytest.mark.parametrize("activation", ["tanh", "relu", "elu", "silu", "gelu", "linear"])
def test_what_is_no_number_stays_none_whatever_its_bits(bits, activation):
    nan = struct.unpack("<f", struct.pack("<I", bits))[0]
    first = LinearLayer(torch.randn(5, 3), torch.zeros(5))
    last = LinearLayer(torch.ones(1, 5), torch.zeros(1))
    network = Network(best_build(), [InputLeaf(FLOATS, 3)], [[first], [last]], activation)
    first.bias.view(torch.int32)[2] = struct.unpack("<i", struct.pack("<I", bits))[0]
    assert nan != nan
    assert torch.isnan(network.forward([torch.randn(4, 3)], keep=False)[0]).all()


def test_observations_of_another_type_are_converted_before_anybody_acts_on_them():
    seen = obs_spec(spaces.Box(-1, 1, (3,)), spaces.Discrete(2))
    decisions = DecisionSlab.on({"obs": np.ones((4, 3), dtype=np.float64)}, seen, action_spec(spaces.Discrete(2)))
    assert decisions.obs["obs"].dtype == np.float32
