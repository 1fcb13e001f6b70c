"""The loss of PPO in one call: its closed form and autograd, on every build that this processor can run."""

import copy
import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
from gymnasium import spaces
from test_loss_gradients import PPO_SETTINGS, Learning, cases, replaced
from test_native_learning import learner, rollout

from rookery import MAPPOConfig, ModelConfig, PPOConfig
from rookery.algorithms.multi_agent.mappo import mappo_loss
from rookery.algorithms.on_policy.actor_critic import ActorCritic
from rookery.algorithms.on_policy.ppo import PPO, ppo_gradient, ppo_loss
from rookery.core.batch import PenaltyMinibatch
from rookery.core.flat import flatten
from rookery.core.native import kernel_threads
from rookery.core.optim import ClosedForm, RMSprop, gradient_steps
from rookery.core.spaces.arrays import MASK, obs_spec
from rookery.native.forward import attach
from rookery.native.ppo import PPOCall, ppo_kernel, ppo_steps
from rookery.policies.policy import Policy
from selection import slow_repeats

pytestmark = pytest.mark.usefixtures("kernels")


class Outputs32(Learning):
    """Outputs of networks, in single precision; the references may be in double precision."""

    def __init__(self, name, rows, **options):
        super().__init__(name, rows, dtype=torch.float32, **options)
        mask = {} if self.mask is None else {MASK: self.mask}
        self.batch = replaced(self.batch, obs={"obs": torch.eye(rows), **mask})

    def on_kernels(self, batch, cfg, shared_trunk=True):
        """Gradients and metrics: row i is a one-hot, and for that the networks, a layer each, put out their row i."""
        rows, model = len(self.batch), ModelConfig(hidden=(), shared_trunk=shared_trunk)
        layout = obs_spec(spaces.Box(-1.0, 1.0, (rows,), np.float32), self.spec.space), self.spec
        generator = torch.Generator().manual_seed(0)
        columns = self.leaves[-1].shape[1]
        net = ActorCritic(Policy(*layout, model, generator=generator), model, generator, columns)
        flatten(net.parts)
        head, value = net.policy.head, net.value_head.linear
        with torch.no_grad():
            head.linear.weight.copy_(self.leaves[0].T)
            value.weight.copy_(self.leaves[-1].T)
            if head.log_std is not None:
                head.log_std.copy_(self.leaves[1])
        metrics = ppo_kernel(attach(net).kernels, batch, cfg, vars(cfg).get("huber_delta"))
        spread = [] if head.log_std is None else [head.log_std.grad]
        return metrics and [head.linear.weight.grad.T, *spread, value.weight.grad.T], metrics

    def exact(self):
        """The same in double precision."""
        twin = copy.copy(self)
        twin.leaves = [leaf.double() for leaf in self.leaves]
        twin.batch = self.batch.map(lambda tensor: tensor.double() if tensor.is_floating_point() else tensor)
        return twin

    def check_kernel(self, cfg, loss=ppo_loss, **options):
        """Asserts that kernel, closed form of PPO and autograd agree; returns the kernel's gradients."""
        found, metrics = self.on_kernels(self.batch, cfg, **options)
        exact = self.exact()
        by_autograd, reference = exact.by_autograd(loss, exact.batch, cfg)
        closed = [self.closed_form(loss, self.batch, cfg)[0]] if loss is ppo_loss else []
        for wanted in (by_autograd, *closed):
            assert [each.shape for each in found] == [each.shape for each in wanted]
            largest = max(each.abs().max() for each in wanted)
            for mine, theirs in zip(found, wanted, strict=True):
                assert (mine - theirs).abs().max() <= 1e-5 * largest
        assert metrics.keys() == reference.keys()
        for name, value in metrics.items():
            assert value == pytest.approx(reference[name].double().mean().item(), rel=1e-5, abs=1e-5)
        return found


@pytest.mark.parametrize(("settings", "case"), slow_repeats(of=itertools.product(PPO_SETTINGS, cases())))
def test_the_loss_of_ppo_in_one_call_is_its_closed_form_and_autograd(settings, case):
    cfg, (name, masked) = PPOConfig(**PPO_SETTINGS[settings]), case
    for rows in (1, 2, 17, 256):
        for importance in (False, True):
            for columns in (1, 3):
                learning = Outputs32(name, rows, masked=masked, importance=importance, seed=rows, columns=columns)
                learning.check_kernel(cfg, shared_trunk=importance)


@pytest.mark.parametrize("settings", PPO_SETTINGS)
def test_the_loss_of_mappo_in_one_call_is_that_of_autograd(settings):
    cfg = MAPPOConfig(huber_delta=0.3, **{"normalize_advantage": True, **PPO_SETTINGS[settings]})
    for rows, columns in ((1, 1), (17, 3), (64, 1)):
        learning = Outputs32("discrete", rows, importance=True, seed=rows, columns=columns)
        found = learning.check_kernel(cfg, mappo_loss)
        squared, _ = learning.on_kernels(learning.batch, replace(cfg, huber_delta=None))
        assert rows == 1 or cfg.value_coef == 0 or not torch.equal(found[-1], squared[-1])


@pytest.mark.parametrize(("name", "masked"), cases())
def test_the_first_epoch_where_the_ratio_is_1_has_the_whole_gradient(name, masked):
    learning = Outputs32(name, 64, masked=masked, moved=0.0)
    plain = PPOConfig(normalize_advantage=False, entropy_coef=0.0, clip=1e3)
    unclipped, _ = learning.on_kernels(learning.batch, plain)
    clipped, _ = learning.on_kernels(learning.batch, replace(plain, clip=1e-3))
    assert all(torch.equal(one, other) for one, other in zip(unclipped, clipped, strict=True))
    assert clipped[0].any()


@pytest.mark.parametrize("spread", [10.0, 30.0])
@pytest.mark.parametrize("name", ["discrete", "multi_discrete", "multi_binary"])
def test_sure_choices_have_no_noisy_gradients(name, spread):
    learning = Outputs32(name, 64)
    logits = sum(learning.spec.sizes) + learning.spec.num_flags
    learning.leaves[0][:, :logits] *= spread
    exact = learning.exact()
    outputs = exact.outputs(exact.leaves)[0]
    learning.batch = replaced(learning.batch, logp=outputs.log_prob(learning.batch.action).float())
    learning.check_kernel(PPOConfig())


def test_masked_choices_have_no_gradient():
    learning = Outputs32("multi_discrete", 64, masked=True)
    gradients, _ = learning.on_kernels(learning.batch, PPOConfig(entropy_coef=0.1))
    assert (gradients[0][~learning.mask] == 0).all()


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("name", ["discrete", "box", "composite"])
def test_a_step_that_overflows_is_not_finite(name, sign):
    # the optimizer skips it and counts it, as in torch; a kernel that hid it would let a broken run continue
    learning = Outputs32(name, 8)
    batch = replaced(learning.batch, logp=learning.batch.logp - 200.0, advantage=sign * learning.batch.advantage.abs())
    cfg = PPOConfig(normalize_advantage=False)
    (expected, *_), _ = learning.by_autograd(ppo_loss, batch, cfg)
    (found, *_), _ = learning.on_kernels(batch, cfg)
    assert not expected.isfinite().all()
    assert not found.isfinite().all()


@pytest.mark.parametrize("field", ["logp", "advantage", "value_target", "importance"])
def test_what_is_no_number_in_a_row_is_not_hidden(field):
    learning = Outputs32("discrete", 20, importance=True)
    broken = getattr(learning.batch, field).clone()
    broken[7] = float("nan")
    batch = replaced(learning.batch, **{field: broken})
    gradients, _ = learning.on_kernels(batch, PPOConfig(normalize_advantage=False))
    assert any(gradient.isnan().any() for gradient in gradients)


@pytest.mark.parametrize("part", [0, -1])
def test_outputs_that_are_no_numbers_are_not_hidden(part):
    for name in ("discrete", "multi_binary", "box", "composite"):
        learning = Outputs32(name, 20)
        learning.leaves[part].view(20, -1)[7, 0] = float("nan")
        gradients, _ = learning.on_kernels(learning.batch, PPOConfig(normalize_advantage=False))
        assert gradients[part].view(20, -1)[7].isnan().any()


@pytest.mark.parametrize(
    "change",
    [
        lambda tensor: torch.stack((tensor, tensor), 1).select(1, 0),
        lambda tensor: tensor.double() if tensor.is_floating_point() else tensor,
    ],
    ids=["every other", "double precision"],
)
def test_rows_may_lie_in_memory_as_they_like(change):
    learning = Outputs32("multi_discrete", 20, masked=True, importance=True)
    batch = learning.batch.map(change)
    found, _ = learning.on_kernels(batch, PPOConfig())
    if found is None:  # left to torch
        return
    expected = learning.closed_form(ppo_loss, learning.batch, PPOConfig())[0]
    for mine, theirs in zip(found, expected, strict=True):
        assert torch.allclose(mine, theirs, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("settings", [{}, {"normalize_advantage": "batch", "entropy_coef": 0.0}])
@pytest.mark.parametrize(("name", "masked"), cases())
def test_the_penalty_is_part_of_the_one_call(name, masked, settings):
    cfg = PPOConfig(kl_coef=0.2, **settings)
    for rows in (1, 2, 17, 256):
        for importance in (False, True):
            learning = Outputs32(name, rows, masked=masked, importance=importance, seed=rows)
            learning.penalize().check_kernel(cfg, shared_trunk=importance)


@pytest.mark.parametrize(("name", "masked"), cases())
def test_the_penalty_of_an_unchanged_policy_has_no_gradient(name, masked):
    learning = Outputs32(name, 40, masked=masked, moved=0.0)
    plain, _ = learning.on_kernels(learning.batch, PPOConfig())
    batch = PenaltyMinibatch(**vars(learning.batch), old=learning.old, kl_coef=torch.full((40,), 9.0))
    found, metrics = learning.on_kernels(batch, PPOConfig(kl_coef=0.2))
    assert metrics["full_kl"] == pytest.approx(0.0, abs=1e-6)
    for mine, theirs in zip(found, plain, strict=True):
        assert (mine - theirs).abs().max() <= 1e-5 * max(each.abs().max() for each in plain)


@pytest.mark.parametrize("spread", [10.0, 30.0])
@pytest.mark.parametrize("name", ["discrete", "multi_discrete", "multi_binary", "box"])
def test_the_penalty_of_a_policy_that_has_gone_far_is_exact(name, spread):
    learning = Outputs32(name, 64).penalize()
    learning.leaves[0] *= spread
    outputs = learning.outputs(learning.leaves)[0]
    still = {
        "advantage": torch.zeros(64),
        "logp": outputs.log_prob(learning.batch.action),
    }  # so that nothing else pulls
    learning.batch = replaced(learning.batch, **still)
    learning.check_kernel(PPOConfig(kl_coef=0.2))


@pytest.mark.parametrize("field", ["old", "kl_coef"])
@pytest.mark.parametrize("name", ["discrete", "multi_binary", "box"])
def test_what_is_no_number_in_the_penalty_is_not_hidden(field, name):
    learning = Outputs32(name, 20).penalize()
    broken = getattr(learning.batch, field).clone()
    broken[7] = float("nan")
    gradients, _ = learning.on_kernels(replaced(learning.batch, **{field: broken}), PPOConfig(kl_coef=0.2))
    assert any(gradient.isnan().any() for gradient in gradients)


@pytest.mark.parametrize("change", [{"old": lambda old: old[:, 1:]}, {"kl_coef": lambda coef: coef.double()}])
def test_a_penalty_that_the_kernel_cannot_read_is_left_to_torch(change):
    learning = Outputs32("composite", 16).penalize()
    batch = replaced(learning.batch, **{name: make(getattr(learning.batch, name)) for name, make in change.items()})
    assert learning.on_kernels(batch, PPOConfig(kl_coef=0.2)) == (None, None)


def steps_of(algo, batch, sizes, *, together):
    """Weights, optimizer and metrics after a step for parts of a batch of so many rows each."""
    closed = algo.closed_form if together else replace(algo.closed_form, steps=None)
    parts = map(batch._part, torch.randperm(len(batch), generator=torch.Generator().manual_seed(3)).split(sizes))
    made = list(gradient_steps(algo.forward, algo.loss, parts, algo.optimizer, algo.cfg, closed))
    return made, [algo.optimizer.flat.data, *algo.optimizer.state_dict().values()]


@pytest.mark.parametrize("settings", [{}, {"kl_coef": 0.2}, {"max_grad_norm": None, "normalize_advantage": "batch"}])
@pytest.mark.parametrize("broken", [False, True])
def test_several_steps_in_one_call_are_so_many_steps_bit_for_bit(settings, broken, monkeypatch):
    called, real = [], PPOCall.steps
    monkeypatch.setattr(PPOCall, "steps", lambda *given: called.append(1) or real(*given))
    found = []
    for together in (True, False):
        algo = learner("ppo", settings=settings)
        batch = algo.targets(rollout(algo, 0))
        if broken:
            batch.advantage[5] = float("nan")  # the step of that row is skipped, and counted
        sizes = [len(batch) // 3, 1, len(batch) - len(batch) // 3 - 1]
        found.append(steps_of(algo, batch, sizes, together=together))
    assert called == [1]
    (together, mine), (apart, theirs) = found
    assert [list(metrics) for metrics in together] == [list(metrics) for metrics in apart]
    for name in together[0]:
        values = [[metrics[name] for metrics in each] for each in (together, apart)]
        assert np.array_equal(*values, equal_nan=True)
    assert all(torch.equal(one, other) for one, other in zip(mine, theirs, strict=True))
    assert algo.optimizer.read_skipped()[0] == broken


def test_two_threads_change_no_bit_of_large_networks():
    """Adam takes their weights in pieces, however many threads there are."""
    found = []
    for threads in (1, 2):
        with kernel_threads(threads):
            algo = learner("ppo", hidden=(150, 120))
            batch = algo.targets(rollout(algo, 0))
            found.append(steps_of(algo, batch, [len(batch) // 4, len(batch) - len(batch) // 4], together=True))
    (alone, mine), (helped, theirs) = found
    assert alone == helped and len(algo.optimizer.flat.data) > 1 << 14
    assert all(torch.equal(one, other) for one, other in zip(mine, theirs, strict=True))


@pytest.mark.parametrize("why", ["another optimizer", "rows of two batches", "ranks that agree"])
def test_what_one_call_cannot_do_is_done_step_by_step(why, monkeypatch):
    monkeypatch.setattr(PPOCall, "steps", lambda *_: pytest.fail("it cannot"))
    algo = learner("ppo")
    parts = [algo.targets(rollout(algo, number))._part(torch.arange(8)) for number in (0, 0)]
    if why == "another optimizer":
        algo.optimizer = RMSprop(algo.optimizer.flat, alpha=0.9, eps=1e-5)
    if why == "ranks that agree":
        algo.optimizer.agree = lambda gradient, batch, metrics: metrics
    parts = parts if why == "rows of two batches" else parts[:1]
    before = algo.optimizer.flat.data.clone()
    made = list(gradient_steps(algo.forward, algo.loss, parts, algo.optimizer, algo.cfg, algo.closed_form))
    assert len(made) == len(parts)
    assert not torch.equal(before, algo.optimizer.flat.data)


def test_the_loss_knows_its_kernel_and_its_closed_form():
    assert PPO.closed_form == ClosedForm(ppo_loss, ppo_gradient, ppo_kernel, ppo_steps)
