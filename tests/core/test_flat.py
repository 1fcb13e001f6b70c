"""Flat memory: views of one vector, parts of it, and no vector that is cut off in silence."""

import copy

import pytest
import torch
from torch import nn

from rookery import PPO, PPOConfig, RookeryError, Trainer
from rookery.core.flat import copy_all, flatten
from rookery.core.metrics import Means
from rookery.core.optim import Adam, gradient_step


def net(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2))


def adam(flat):
    return Adam(flat, betas=(0.9, 0.999), eps=1e-5)


def test_flatten_makes_parameters_and_gradients_views_in_the_given_order():
    first, second = net(1), nn.Linear(2, 1)
    before = [p.detach().clone() for part in (second, first) for p in part.parameters()]
    flat = flatten([second, first])
    parameters = [p for part in (second, first) for p in part.parameters()]
    offset = 0
    for parameter, was in zip(parameters, before, strict=True):
        size = parameter.numel()
        assert torch.equal(parameter, was)
        assert parameter.data_ptr() == flat.data[offset:].data_ptr()
        assert parameter.grad is not None
        assert parameter.grad.data_ptr() == flat.grad[offset:].data_ptr()
        flat.data[offset : offset + size] = offset
        assert (parameter == offset).all()
        offset += size
    assert offset == len(flat.data) == len(flat.grad)


def test_a_loaded_module_keeps_its_views():
    model = net()
    flat = flatten([model])
    model.load_state_dict(net(5).state_dict())
    assert torch.equal(flat.data, torch.cat([p.flatten() for p in net(5).parameters()]))


def test_weights_that_an_optimizer_moves_are_not_flattened_again():
    model = net()
    optimizer = adam(flatten([model]))
    with pytest.raises(RookeryError, match=r"Linear.weight.*flat\.part"):
        flatten([nn.Linear(2, 2), model[2]])
    model[0].weight.grad.fill_(1.0)
    before = model[0].weight.detach().clone()
    optimizer.move(0.1, torch.zeros(()), None)
    assert not torch.equal(model[0].weight, before)


def test_a_vector_whose_weights_only_a_target_follows_is_in_use_too():
    model = net()
    data = flatten([model]).data
    with pytest.raises(RookeryError, match="flatten"):
        flatten([model])
    assert len(data)


def test_a_copy_a_double_and_what_nobody_moves_any_longer_are_flattened():
    model = net()
    flat = flatten([model])
    assert len(flatten([copy.deepcopy(model)]).data) == len(flat.data)
    model.double()
    assert flatten([model]).data.dtype == torch.float64
    other = net(1)
    flatten([other])
    assert len(flatten([other]).data)


def test_a_part_is_a_stretch_of_both_vectors():
    first, second, third = nn.Linear(2, 3), nn.Linear(3, 3), nn.Linear(3, 1)
    flat = flatten([first, second, third])
    part = flat.part([third, second])
    part.data.fill_(7.0)
    assert (second.weight == 7).all()
    assert (third.bias == 7).all()
    assert not (first.weight == 7).any()
    third.weight.grad.fill_(3.0)
    assert part.grad.sum() == 9
    assert torch.equal(part.part([third]).data, torch.full((4,), 7.0))


def test_a_part_with_a_gap_or_of_another_vector_is_refused():
    first, second, third = nn.Linear(2, 3), nn.Linear(3, 3), nn.Linear(3, 1)
    flat = flatten([first, second, third])
    for modules in ([first, third], [nn.Linear(2, 2)], []):
        with pytest.raises(RookeryError, match="Flat.part"):
            flat.part(modules)
    with pytest.raises(RookeryError, match="Flat.part"):
        flat.part([first, second]).part([third])


def test_a_part_keeps_its_vector_in_use():
    first, second = nn.Linear(2, 3), nn.Linear(3, 3)
    part = flatten([first, second]).part([second])
    with pytest.raises(RookeryError, match="flatten"):
        flatten([first])
    assert len(part.data) == 12


class Cloning(PPO):
    """PPO whose value head learns a second time after each update, by an optimizer of its own."""

    saved = ("value_optimizer",)

    def __init__(self, policy, cfg, streams, name):
        super().__init__(policy, cfg, streams, name)
        self.value_optimizer = adam(self.optimizer.flat.part([self.net.value_head]))

    def training_step(self, rollout):
        row, data, cfg, means = super().training_step(rollout), self.targets(rollout), self.now(), Means()
        for batch in data.shuffled(64, self.rng):
            means.add(gradient_step(self.forward, value_error, batch, self.value_optimizer, cfg))
        return {**row, "value_error": means.result()["value_error"]}


class CloningConfig(PPOConfig):
    algorithm = f"{__name__}:Cloning"


def value_error(outputs, batch, cfg):
    error = (outputs.value - batch.value_target).square().mean()
    return error, {"value_error": error.detach()}


@pytest.mark.parametrize("native", [True, False])
def test_a_second_optimizer_learns_a_part_and_is_resumed_exactly(tmp_path, native):
    def train(run, *until):
        config = {"algorithm.model.native": native}
        cfg = CloningConfig(fragment_length=32, epochs=1, minibatch_size=64)
        with Trainer("CartPole-v1", cfg, num_envs=4, seed=3, run_dir=tmp_path / run, config=config) as trainer:
            trainer.train(stop={"iterations": until[0]})
        for iterations in until[1:]:
            with Trainer.load(tmp_path / run, resume=True) as trainer:
                trainer.train(stop={"iterations": iterations})
        return trainer.learners["main"]

    whole, halved = train("whole", 4), train("halved", 2, 4)
    assert torch.equal(whole.optimizer.flat.data, halved.optimizer.flat.data)
    for name in ("mean", "square", "steps"):
        assert torch.equal(getattr(whole.value_optimizer, name), getattr(halved.value_optimizer, name))
    assert whole.value_optimizer.steps > 0
    assert len(whole.value_optimizer.flat.data) < len(whole.optimizer.flat.data)


def test_tensors_are_copied_with_or_without_the_private_name_in_torch(monkeypatch):
    values = [torch.arange(3.0), torch.ones(2, 2)]
    for _ in range(2):
        to = [torch.zeros(3), torch.zeros(2, 2)]
        copy_all(to, values)
        assert all(map(torch.equal, to, values))
        monkeypatch.delattr(torch, "_foreach_copy_", raising=False)
