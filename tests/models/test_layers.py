import torch

import warm_children
from rookery.models.layers import convolution, linear, orthogonal


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def test_orthogonal_rows_have_length_gain_and_right_angles():
    weight = orthogonal(3, 8, gain=2.0, generator=generator())
    assert torch.allclose(weight @ weight.T, 4.0 * torch.eye(3), atol=1e-5)  # gain^2 on the diagonal


def test_layers_come_from_the_generator_and_leave_the_global_one_alone():
    before = torch.get_rng_state()
    a, b, c = (linear(5, 4, gain=1.0, generator=generator(seed)) for seed in (0, 0, 1))
    conv = convolution(3, 4, 2, 1, gain=1.0, generator=generator())
    assert torch.equal(a.weight, b.weight)
    assert not torch.equal(a.weight, c.weight)
    assert (a.bias == 0).all() and (conv.bias == 0).all()
    assert torch.equal(before, torch.get_rng_state())


def test_convolution_filters_are_orthogonal_as_vectors():
    flat = convolution(3, 4, 2, 1, gain=1.0, generator=generator()).weight.flatten(1)
    assert torch.allclose(flat @ flat.T, torch.eye(4), atol=1e-5)


def test_layers_are_torchs_own():
    made = linear(3, 2, gain=1.0, generator=generator()), convolution(3, 2, 3, 1, gain=1.0, generator=generator())
    assert [type(layer) for layer in made] == [torch.nn.Linear, torch.nn.Conv2d]


def test_nothing_that_takes_a_second_to_load_is_loaded_for_a_network(tmp_path):
    code = "import sys; from rookery.models.layers import linear; import torch; "
    code += "linear(3, 2, gain=1.0, generator=torch.Generator()); print('sympy' in sys.modules)"
    (tmp_path / "a_layer.py").write_text(code)
    with warm_children.script(
        tmp_path / "a_layer.py"
    ) as child:  # what it has imported before is less than a run imports
        assert child.stdout.read() == "False\n", child.stderr.read()
