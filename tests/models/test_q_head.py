import copy
import itertools

import pytest
import torch
from gymnasium import spaces

from rookery.core.errors import SpaceError
from rookery.core.spaces.arrays import action_spec
from rookery.models.distributions import NoiseSpec
from rookery.models.heads import head_from_json, head_to_json
from rookery.models.q_head import Boltzmann, EpsilonGreedy, QValues

BELOW_ONE = 1.0 - 2.0**-24
"""The largest uniform number there is in float32."""


def head(num_actions=3, num_features=4, seed=0, **spec):
    generator = torch.Generator().manual_seed(seed)
    action = action_spec(spaces.Discrete(num_actions))
    return QValues(**spec).build(num_features, action, log_std_init=0.0, generator=generator)


def grid(size):
    """Pairs of uniform numbers ``[size^2, 2]`` that fill the square evenly."""
    steps = (torch.arange(size) + 0.5) / size
    return torch.cartesian_prod(steps, steps)


# --- ε-greedy ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("mask", [None, [True, False, True, True], [False, False, True, False]])
def test_actions_come_as_often_as_their_log_probability_says(epsilon, mask):
    allowed = None if mask is None else torch.tensor([mask])
    q = torch.tensor([[0.5, 3.0, -1.0, 2.0]])
    noise = grid(240)
    many = EpsilonGreedy(
        q.expand(len(noise), -1), torch.tensor(epsilon), None if mask is None else allowed.expand(len(noise), -1)
    )
    counts = torch.bincount(many.sample(noise), minlength=4) / len(noise)
    logs = [EpsilonGreedy(q, torch.tensor(epsilon), allowed).log_prob(torch.tensor([a])) for a in range(4)]
    probs = torch.cat(logs).exp()
    assert probs.sum() == pytest.approx(1.0)
    torch.testing.assert_close(counts, probs, atol=1e-6, rtol=0)


def test_probabilities_are_those_of_the_definition():
    subject = EpsilonGreedy(
        torch.tensor([[0.0, 2.0, 1.0, 9.0]]), torch.tensor(0.3), torch.tensor([[True, True, True, False]])
    )
    probs = [subject.log_prob(torch.tensor([a])).exp().item() for a in range(4)]
    assert probs == pytest.approx([0.1, 0.7 + 0.1, 0.1, 0.0])


def test_a_forbidden_action_is_never_chosen_however_high_its_value():
    mask = torch.tensor([[False, True, False, True]])
    subject = EpsilonGreedy(torch.tensor([[9.0, 1.0, 9.0, 0.0]]), torch.tensor(1.0), mask)
    assert {subject.sample(noise[None]).item() for noise in grid(16)} == {1, 3}
    assert subject.mode().item() == 1
    assert subject.log_prob(torch.tensor([0])).item() == -torch.inf


@pytest.mark.parametrize("masked", [False, True])
def test_the_largest_uniform_number_gives_the_last_action_and_none_beyond(masked):
    for n in itertools.chain(range(1, 400), (2**12, 2**12 + 1, 12_345)):
        mask = torch.ones(1, n, dtype=torch.bool) if masked else None
        subject = EpsilonGreedy(torch.zeros(1, n), torch.tensor(1.0), mask)
        assert subject.sample(torch.tensor([[0.0, BELOW_ONE]])).item() == n - 1
        assert subject.sample(torch.tensor([[0.0, 0.0]])).item() == 0


def test_sample_logp_is_sample_and_log_prob():
    q, noise = torch.randn(50, 5), torch.rand(50, 2)
    mask = torch.rand(50, 5) < 0.7
    mask[:, 2] = True
    subject = EpsilonGreedy(q, torch.tensor(0.5), mask)
    action, logp = subject.sample_logp(noise)
    assert torch.equal(action, subject.sample(noise))
    assert torch.equal(logp, subject.log_prob(action))
    assert mask.gather(1, action[:, None]).all()


def test_the_first_of_equal_values_is_the_greedy_one():
    assert EpsilonGreedy(torch.zeros(1, 4), torch.tensor(0.0)).mode().item() == 0


# --- Boltzmann --------------------------------------------------------------------------------------------------------


def test_boltzmann_is_the_softmax_of_values_over_the_temperature():
    q = torch.tensor([[1.0, 2.0, 4.0]])
    for temperature in (0.5, 1.0, 8.0):
        probs = Boltzmann(q, torch.tensor(temperature)).log_probs.exp()
        torch.testing.assert_close(probs, torch.softmax(q / temperature, -1))


def test_at_an_infinite_temperature_all_that_is_allowed_is_as_probable_and_the_best_is_still_known():
    mask = torch.tensor([[True, True, False]])
    subject = Boltzmann(torch.tensor([[1.0, 2.0, 4.0]]), torch.tensor(torch.inf), mask)
    assert subject.log_probs.exp().tolist() == [[0.5, 0.5, 0.0]]
    assert subject.mode().item() == 1


# --- the head ---------------------------------------------------------------------------------------------------------


def test_the_head_draws_from_its_values_and_obeys_its_buffers():
    subject, x, noise = head(), torch.randn(40, 4), torch.rand(40, 2)
    q = subject.values(x)
    assert torch.equal(q, subject.linear(x))
    assert subject.noise == NoiseSpec(uniform=2)
    action, _ = subject.draw(x, None, noise, None)
    assert torch.equal(action, (noise[:, 1] * 3).long())  # it starts out at random
    subject.epsilon.fill_(0.0)
    assert torch.equal(subject.draw(x, None, noise, None)[0], q.argmax(1))


def test_warm_up_actions_are_uniform_over_what_is_allowed():
    subject = head(num_actions=6)
    mask = torch.tensor([True, False, True, True, False, True]).expand(4000, -1)
    generator = torch.Generator().manual_seed(1)
    action, logp = subject.draw(torch.randn(4000, 4), mask, torch.rand(4000, 2, generator=generator), None)
    counts = torch.bincount(action, minlength=6)
    assert counts[[1, 4]].tolist() == [0, 0]
    chi_square = ((counts[[0, 2, 3, 5]] - 1000.0) ** 2 / 1000.0).sum()
    assert chi_square < 16.3  # 3 degrees of freedom: exceeded once in a thousand
    torch.testing.assert_close(logp.exp(), torch.full((4000,), 0.25))


def test_the_most_probable_action_depends_on_no_buffer():
    for explore in ("epsilon", "boltzmann"):
        subject, x = head(explore=explore), torch.randn(20, 4)
        best = subject.values(x).argmax(1)
        for value in (0.1, 1.0, torch.inf):
            subject.epsilon.fill_(min(value, 1.0))
            subject.temperature.fill_(value)
            assert torch.equal(subject(x).mode(), best)


@pytest.mark.parametrize("hidden", [(), (8,), (8, 5)])
@pytest.mark.parametrize("atoms", [1, 7])
def test_dueling_advantages_have_mean_zero_so_the_mean_of_values_is_the_states_value(hidden, atoms):
    kind = "mean" if atoms == 1 else "quantile"
    subject, x = head(values=kind, atoms=atoms, dueling=True, dueling_hidden=hidden), torch.randn(6, 4)
    values, value = subject.values(x), x
    for number, layer in enumerate(subject.value):
        value = layer(torch.relu(value) if number else value)
    assert values.shape == ((6, 3) if atoms == 1 else (6, 3, 7))
    torch.testing.assert_close(values.mean(1), value.squeeze(-1) if atoms == 1 else value)
    shifted = copy.deepcopy(subject)
    shifted.advantage[-1].bias.data += 5.0  # the same for all actions: changes nothing
    torch.testing.assert_close(shifted.values(x), values)


def test_the_mean_of_categorical_values_is_that_of_their_atoms():
    subject = head(num_actions=2, values="categorical", atoms=3, low=-1.0, high=3.0)
    assert subject.support.tolist() == [-1.0, 1.0, 3.0]
    logits = torch.log(torch.tensor([[[0.5, 0.25, 0.25], [0.0, 0.1, 0.9]]]))
    assert subject.q_from(logits).tolist()[0] == pytest.approx([-0.5 + 0.25 + 0.75, 0.1 + 2.7])


def test_the_mean_of_quantiles_is_their_mean():
    subject = head(num_actions=2, values="quantile", atoms=4)
    assert subject.q_from(torch.tensor([[[0.0, 1.0, 2.0, 5.0], [1.0, 1.0, 1.0, 1.0]]])).tolist() == [[2.0, 1.0]]


def test_a_copy_has_weights_of_its_own():
    subject, x = head(dueling=True), torch.randn(2, 4)
    plain = head()
    for one in (subject, plain):
        twin, before = copy.deepcopy(one), one.values(x)
        for weight in one.parameters():
            weight.data += 1.0
        assert torch.equal(twin.values(x), before)
        assert not torch.equal(one.values(x), before)


@pytest.mark.parametrize(
    ("space", "advice"),
    [
        (spaces.MultiDiscrete([2, 3]), "PPO"),
        (spaces.Box(-1, 1, (2,)), "SAC"),
        (spaces.MultiBinary(3), "PPO"),
        (spaces.Dict({"a": spaces.Discrete(2), "b": spaces.Box(-1, 1)}), "PPO"),
    ],
)
def test_actions_that_have_no_table_of_values_are_refused_with_a_way_out(space, advice):
    with pytest.raises(SpaceError, match=advice) as caught:
        QValues().build(4, action_spec(space), log_std_init=0.0, generator=torch.Generator())
    assert str(space) in str(caught.value)


def test_a_spec_survives_a_file():
    spec = QValues(values="categorical", atoms=51, low=-10, high=10, dueling=True, dueling_hidden=(64, 32), noisy=True)
    assert head_from_json(head_to_json(spec)) == spec
