import pytest
import torch
from gymnasium import spaces
from torch.nn import functional

from rookery.core.spaces.arrays import action_spec
from rookery.models.q_head import NoisyLinear, QValues


def layer(num_inputs=5, num_outputs=3, std=0.5):
    return NoisyLinear(num_inputs, num_outputs, std, generator=torch.Generator().manual_seed(0))


def shaped(e):
    return e.sign() * e.abs().sqrt()


def by_hand(subject, x, noise):
    """Row by row with weights written out, as in equations 9 to 11 of the paper."""
    rows = []
    for row, numbers in zip(x, noise.expand(len(x), -1), strict=True):
        of_input, of_output = shaped(numbers[:5]), shaped(numbers[5:])
        weight = subject.weight + subject.weight_sigma * torch.outer(of_output, of_input)
        rows.append(functional.linear(row, weight, subject.bias + subject.bias_sigma * of_output))
    return torch.stack(rows)


@pytest.mark.parametrize("rows_of_noise", [1, 7])
def test_each_row_has_weights_of_its_own(rows_of_noise):
    subject, x, noise = layer(), torch.randn(7, 5), torch.randn(rows_of_noise, 8)
    assert subject.width == 8
    torch.testing.assert_close(subject(x, noise), by_hand(subject, x, noise))


def test_gradients_reach_means_and_sizes_of_the_noise():
    subject, x, noise, wanted = layer(), torch.randn(7, 5), torch.randn(7, 8), torch.randn(7, 3)
    weights = list(subject.parameters())
    assert len(weights) == 4
    mine = torch.autograd.grad((subject(x, noise) - wanted).square().sum(), weights)
    theirs = torch.autograd.grad((by_hand(subject, x, noise) - wanted).square().sum(), weights)
    for ours, expected in zip(mine, theirs, strict=True):
        torch.testing.assert_close(ours, expected)
        assert ours.abs().max() > 0


def test_without_noise_the_means_act():
    subject, x = layer(), torch.randn(7, 5)
    torch.testing.assert_close(subject(x), functional.linear(x, subject.weight, subject.bias))


def test_first_weights_are_those_of_the_paper():
    subject = layer(16, 200, std=0.4)
    assert subject.weight.abs().max() <= 0.25
    assert subject.weight.std().item() == pytest.approx(0.25 / 3**0.5, rel=0.05)
    assert subject.weight_sigma.unique().tolist() == pytest.approx([0.1])
    assert subject.bias_sigma.unique().tolist() == pytest.approx([0.1])


def head(**spec):
    generator = torch.Generator().manual_seed(0)
    return QValues(noisy=True, **spec).build(5, action_spec(spaces.Discrete(3)), log_std_init=0.0, generator=generator)


@pytest.mark.parametrize(
    ("spec", "width"), [({}, 5 + 3), ({"dueling": True, "dueling_hidden": (4,)}, (5 + 4) + (4 + 1) + (5 + 4) + (4 + 3))]
)
def test_a_noisy_head_acts_by_the_noise_of_each_row(spec, width):
    subject, x = head(**spec), torch.randn(6, 5)
    noise = torch.cat((torch.rand(6, 2), torch.randn(6, width)), 1)
    subject.epsilon.fill_(0.0)
    assert subject.layer_noise == width
    assert subject.noise.width == 2 + width
    together, _ = subject.draw(x, None, noise, None)
    alone = [subject.draw(x[i : i + 1], None, noise[i : i + 1], None)[0].item() for i in range(6)]
    assert together.tolist() == alone
    assert torch.equal(together, subject.values(x, noise[:, 2:]).argmax(1))
    assert not torch.equal(subject.values(x, noise[:, 2:]), subject.values(x))


def test_each_noisy_layer_of_a_dueling_head_has_its_own_part_of_the_noise():
    subject, x = head(dueling=True, dueling_hidden=(4,)), torch.randn(1, 5)
    noise = torch.zeros(1, subject.layer_noise)
    means = subject.values(x)
    starts = [0, 9, 14, 23]  # hidden and last layer of the value, then of the advantages
    for start, width in zip(starts, (9, 5, 9, 7), strict=True):
        own = noise.clone()
        own[:, start : start + width] = torch.randn(width)
        assert not torch.allclose(subject.values(x, own), means)
    assert starts[-1] + 7 == subject.layer_noise


def test_evaluation_takes_the_means():
    subject, x = head(), torch.randn(4, 5)
    assert torch.equal(subject(x).mode(), functional.linear(x, subject.linear.weight, subject.linear.bias).argmax(1))
