import numpy as np
import torch
from gymnasium import spaces

from rookery.core.spaces.arrays import obs_spec
from rookery.policies.normalize import ObsNormalizer, RunningMeanStd


def test_statistics_equal_numpy_over_the_whole_stream():
    rng = np.random.default_rng(0)
    parts = [rng.normal(5, 3, (n, 2, 3)).astype(np.float32) for n in (1, 7, 1, 0, 200, 33)]
    statistics = RunningMeanStd((2, 3))
    for part in parts:
        statistics.update(torch.from_numpy(part))
    whole = np.concatenate(parts).astype(np.float64)
    np.testing.assert_allclose(statistics.mean.numpy(), whole.mean(0), rtol=1e-12)
    np.testing.assert_allclose(statistics.var.numpy(), whole.var(0), rtol=1e-12)
    assert statistics.count.item() == len(whole)


def test_statistics_stay_exact_at_large_counts_and_means():
    # 1e9 rows of mean 1e6, variance 4, then two rows 1e6 +- 2 (same mean, same variance): nothing changes but the count
    statistics = RunningMeanStd(())
    statistics.mean.fill_(1e6), statistics.var.fill_(4.0), statistics.count.fill_(1e9)
    statistics.update(torch.tensor([1e6 - 2, 1e6 + 2], dtype=torch.float64))
    assert statistics.mean.item() == 1e6
    assert abs(statistics.var.item() - 4.0) < 1e-9
    assert statistics.count.item() == 1e9 + 2


def test_two_updates_redone_by_hand():
    # {1, 3}: mean 2, var 1; with {8}: mean 4, var ((1-4)^2 + (3-4)^2 + (8-4)^2) / 3 = 26/3
    statistics = RunningMeanStd(())
    statistics.update(torch.tensor([1.0, 3.0]))
    statistics.update(torch.tensor([8.0]))
    assert statistics.mean.item() == 4.0
    np.testing.assert_allclose(statistics.var.item(), 26 / 3)
    np.testing.assert_allclose(statistics(torch.tensor([7.0])).item(), 3 / np.sqrt(26 / 3), rtol=1e-6)


def test_before_any_row_nothing_changes():
    value = torch.randn(4, 2)
    assert torch.equal(RunningMeanStd((2,))(value), value)


MIXED = spaces.Dict(
    {
        "a": spaces.Box(-np.inf, np.inf, (2,), np.float32),
        "b": spaces.Box(0, 255, (3,), np.uint8),
        "c": spaces.Discrete(4),
        "d": spaces.Box(-9, 9, (2, 2), np.float64),
        "action_mask": spaces.MultiBinary(2),
    }
)


def test_boxes_are_normalized_and_the_given_tree_is_left_alone():
    spec = obs_spec(MIXED, spaces.Discrete(2))
    normalizer = ObsNormalizer(spec, clip=10.0)
    assert normalizer.paths == ("a", "b", "d")
    assert ObsNormalizer(spec, clip=10.0, raw=("b",)).paths == ("a", "d")
    assert [str(leaf.dtype) for leaf in normalizer.spec.leaves] == ["float32", "float32", "int64", "float32", "bool"]
    assert [leaf.scale for leaf in normalizer.spec.leaves] == [1.0] * 5  # nothing is divided a second time
    tree = {path: torch.from_numpy(array) for path, array in spec.allocate(50).items()}
    tree["a"] = torch.randn(50, 2) * 3 + 7
    tree["b"] = torch.randint(0, 11, (50, 3), dtype=torch.uint8)
    tree["d"] = torch.randn(50, 2, 2)
    given = {path: value.clone() for path, value in tree.items()}
    normalizer.update(tree)
    out = normalizer(tree)
    assert all(torch.equal(tree[path], given[path]) for path in tree)
    assert list(out) == list(tree)
    assert all(out[path] is tree[path] for path in ("c", "action_mask"))
    for path, size in (("a", 2), ("b", 3)):
        assert torch.allclose(out[path].mean(0), torch.zeros(size), atol=1e-5)
        assert torch.allclose(out[path].std(0, unbiased=False), torch.ones(size), atol=1e-5)


def test_numbers_are_clipped_and_constants_do_not_blow_up():
    normalizer = ObsNormalizer(obs_spec(spaces.Box(-np.inf, np.inf, (2,)), spaces.Discrete(2)), clip=5.0)
    normalizer.update({"obs": torch.tensor([[0.0, 3.0], [2.0, 3.0]])})  # mean (1, 3), std (1, 0)
    out = normalizer({"obs": torch.tensor([[100.0, 3.0], [-1.0, 4.0]])})["obs"]
    # (100 - 1) / 1 -> 5; (3 - 3) -> 0; (-1 - 1) / 1 = -2; (4 - 3) / 1e-4 -> 5
    assert torch.allclose(out, torch.tensor([[5.0, 0.0], [-2.0, 5.0]]), atol=1e-5)


def test_state_dict_carries_the_statistics():
    spec = obs_spec(MIXED, spaces.Discrete(2))
    one, two = ObsNormalizer(spec, clip=10.0), ObsNormalizer(spec, clip=10.0)
    tree = {"a": torch.randn(20, 2), "b": torch.randn(20, 3), "d": torch.randn(20, 2, 2)}
    one.update(tree)
    two.load_state_dict(one.state_dict())
    assert torch.equal(one(tree)["a"], two(tree)["a"])
    one.update(tree), two.update(tree)
    assert all(torch.equal(a, b) for a, b in zip(one.buffers(), two.buffers(), strict=True))
