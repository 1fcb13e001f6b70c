"""rookery diff: settings that differ, versions and last metrics of two runs."""

import json

import pytest


@pytest.fixture
def two(runs, trained):
    """The run cart, and another with a learning rate and seed of its own."""
    code, _, err = trained("--run-id", "other", "--quiet", "algorithm.gamma=0.9", "lr=2e-3", "stop.env_steps=640")
    assert code == 0, err
    return runs


def test_settings_versions_and_metrics_are_compared(rookery, two):
    code, out, err = rookery("diff", "cart", "runs/other")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    at = lines.index("  algorithm.lr")
    assert lines[at + 1] == "    cart   {start: 0.0003, end: 0.0001}  (default)"
    assert lines[at + 2] == "    other  0.002  (command line)"
    assert "  algorithm.gamma" not in lines
    assert "  policies.main.lr" not in lines  # inherited
    assert not any(line.startswith("* ") for line in lines[: next(i for i, x in enumerate(lines) if "metrics" in x)])
    assert any(line.startswith("  torch") for line in lines)
    assert any(line.split()[:3] == ["env_steps", "640", "640"] for line in lines)
    assert any(line.startswith("* policies/main/lr") for line in lines)


def test_a_json_object_has_the_same(rookery, two):
    code, out, _ = rookery("diff", "cart", "other", "--json")
    assert code == 0
    found = json.loads(out)
    assert list(found) == ["runs", "settings", "versions", "metrics"]
    assert found["settings"]["algorithm.lr"][1] == {"value": "0.002", "source": "command line"}
    assert found["metrics"]["env_steps"] == [640, 640]
    assert found["versions"]["rookery"][0] == found["versions"]["rookery"][1]


def test_a_run_does_not_differ_from_itself(rookery, two):
    code, out, _ = rookery("diff", "cart", "cart")
    assert code == 0
    assert out.startswith("settings: none differ\n")
    assert "\n*" not in out


def test_settings_of_one_run_alone_are_listed_and_a_missing_run_is_named(rookery, two):
    code, out, _ = rookery("diff", "cart", "arena")
    assert code == 0
    assert "only in arena: policies.pol1" in out or "only in arena: " in out
    code, _, err = rookery("diff", "cart", "cary")
    assert code == 2
    assert "cary: there is no such run; did you mean 'cart'?" in err
