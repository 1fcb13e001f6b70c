"""Numbers about learning."""

import pytest
import torch

from rookery.core.metrics import KEPT, Means, explained_variance


def test_means_are_taken_over_the_steps_that_had_the_metric():
    means = Means()
    means.add({"a": torch.tensor(1.0), "b": torch.tensor(5.0)})
    means.add({"a": torch.tensor(4.0)})
    assert means.result() == {"a": 2.5, "b": 5.0}


def test_without_steps_there_are_no_means():
    assert Means().result() == {}


def test_steps_that_were_not_finite_do_not_spoil_the_mean():
    means = Means()
    for value in (1.0, float("nan"), 3.0, float("inf")):
        means.add({"a": torch.tensor(value), "never": torch.tensor(float("nan"))})
    assert means.result() == {"a": 2.0, "never": None}


def test_what_is_summed_up_meanwhile_counts_as_much_as_the_rest():
    means, steps = Means(), 2 * KEPT + 7
    for number in range(steps):
        rows = torch.full((2, 3), float(number))
        rows[0, 0] = float("nan") if number == 5 else float(number)
        means.add({"rows": rows, "number": float(number), "scalar": torch.tensor(float(number)), "inf": float("inf")})
    mean = (steps - 1) / 2
    assert means.result() == {
        "rows": pytest.approx((mean * steps * 6 - 5) / (steps * 6 - 1), rel=1e-6),
        "number": mean,
        "scalar": mean,
        "inf": None,
    }
    assert sum(isinstance(value, torch.Tensor) for value in means._seen["rows"]) <= KEPT


def test_explained_variance_redone_by_hand():
    target = torch.tensor([1.0, 2.0, 3.0, 4.0])  # variance 1.25
    assert explained_variance(target, target) == 1.0
    assert explained_variance(torch.full((4,), 7.0), target) == 0.0
    assert explained_variance(target + 10, target) == 1.0  # a shift is no variance
    # errors -1, 1, -1, 1 (of the pairs 2, 1, 4, 3): variance 1, so 1 - 1 / 1.25
    assert explained_variance(torch.tensor([2.0, 1.0, 4.0, 3.0]), target) == pytest.approx(0.2)
    assert explained_variance(-target, target) == pytest.approx(-3.0)


def test_a_constant_target_has_no_explained_variance():
    assert explained_variance(torch.tensor([1.0, 2.0]), torch.tensor([3.0, 3.0])) is None
    assert explained_variance(torch.tensor([1.0]), torch.tensor([3.0])) is None
