"""``rookery zoo``, and the entries in benchmarks/zoo."""

import json
import shutil
import sys
from pathlib import Path

import pytest

import rookery as package
from rookery.cli.zoo.entries import CURVE, HEAD, SETTINGS, WEIGHTS, entry_names, read_entry
from rookery.policies.export import policy_names

ROOT = Path(__file__).parents[2]
ZOO = ROOT / "benchmarks" / "zoo"
NAMES = entry_names(ZOO)
PAIR = "cartpole-ppo"


@pytest.fixture
def copied(tmp_path):
    """A zoo with one entry, which may be changed."""
    shutil.copytree(ZOO / PAIR, tmp_path / "zoo" / PAIR)
    return tmp_path / "zoo"


def change(zoo, **values):
    """Changes values of the stored score of an entry."""
    file = zoo / PAIR / "entry.json"
    content = json.loads(file.read_text())
    content["weights"] = content["weights"] | values
    file.write_text(json.dumps(content))


def test_the_list_has_a_line_for_each_pair(rookery):
    code, out, _ = rookery("zoo", "list")
    head, *lines = out.splitlines()
    assert code == 0 and head.split()[0] == HEAD[0]
    assert [line.split()[0] for line in lines] == NAMES
    entry = read_entry(ZOO / PAIR)
    assert lines[NAMES.index(PAIR)].split()[1:4] == ["CartPole-v1", "ppo", f"{entry.score:.2f}"]


def test_the_list_is_also_json(rookery):
    code, out, _ = rookery("zoo", "list", "--json")
    entries = json.loads(out)
    assert code == 0 and list(entries) == NAMES
    assert [run["seed"] for run in entries[PAIR]["runs"]] == [0, 1, 2]


def test_show_prints_the_settings_and_commands_of_a_pair(rookery):
    code, out, _ = rookery("zoo", "show", PAIR)
    assert code == 0
    assert (ZOO / PAIR / SETTINGS).read_text() in out
    assert f"rookery zoo train {PAIR} --seed 0" in out and f"rookery zoo verify {PAIR}" in out


def test_train_uses_the_settings_of_the_pair(rookery, tmp_path):
    code, out, error = rookery("zoo", "train", PAIR, "stop.env_steps=256", "--seed", 3, "--quiet")
    assert code == 0, error
    assert "written     runs/CartPole-v1-ppo-s3/" in out
    sources = json.loads((tmp_path / "runs" / "CartPole-v1-ppo-s3" / "provenance.json").read_text())
    assert sources["algorithm.epochs"][-1][0].rpartition(":")[0].endswith("settings.yaml")
    assert not [path for path, given in sources.items() if given[-1][0].startswith("preset")]
    result = json.loads((tmp_path / "runs" / "CartPole-v1-ppo-s3" / "result.json").read_text())
    assert result["evaluation"]["episodes"] == read_entry(ZOO / PAIR).episodes


def test_verify_plays_with_the_stored_weights(rookery):
    code, out, error = rookery("zoo", "verify", PAIR, "--json")
    assert code == 0, error
    found = json.loads(out)
    low, high = found["stored"]["interval"]
    assert found["holds"] and low <= found["return_mean"] <= high
    assert found["episodes"] == 100 and found["deterministic"] is read_entry(ZOO / PAIR).deterministic is True


def test_verify_exits_with_1_where_the_score_is_outside_of_the_interval(rookery, copied):
    change(copied, interval=[600.0, 700.0])
    code, out, _ = rookery("zoo", "verify", PAIR, "--zoo", copied)
    assert code == 1
    assert out.splitlines()[-1] == "result    outside of the stored interval"


def test_damaged_weights_are_refused(rookery, copied):
    file = copied / PAIR / WEIGHTS / "policies.safetensors"
    file.write_bytes(file.read_bytes()[:-4] + b"\0\0\0\0")
    code, out, error = rookery("zoo", "verify", PAIR, "--zoo", copied)
    assert code == 2 and not out
    assert "policies.safetensors" in error and error.count("\n") == 1


def test_an_unknown_pair_is_refused_with_the_nearest_name(rookery):
    code, _, error = rookery("zoo", "show", "cartpole-pp")
    assert code == 2
    assert "there is no pair 'cartpole-pp'; did you mean 'cartpole-ppo'?; rookery zoo list shows all" in error


def test_a_package_without_the_source_says_where_the_zoo_is(rookery, tmp_path, monkeypatch, copied):
    monkeypatch.setattr(package, "__path__", [str(tmp_path / "site-packages" / "rookery")])
    code, out, error = rookery("zoo", "list")
    assert code == 2 and not out
    assert error.count("\n") == 1 and "benchmarks/zoo of a checkout" in error and "--zoo DIR" in error
    assert rookery("zoo", "list", "--zoo", copied)[0] == 0
    code, _, error = rookery("zoo", "list", "--zoo", tmp_path)
    assert code == 2 and f"--zoo {tmp_path}: there is no entry in it" in error


@pytest.mark.parametrize("name", NAMES)
def test_an_entry_is_complete(name):
    entry = read_entry(ZOO / name)
    assert [run["seed"] for run in entry.runs] == [0, 1, 2]
    assert entry.interval[0] <= entry.score <= entry.interval[1]
    assert all(run["env_steps"] >= entry.env_steps for run in entry.runs)
    assert entry.weights["interval"][0] <= entry.weights["score"] <= entry.weights["interval"][1]
    (score,) = [run["score"] for run in entry.runs if run["seed"] == entry.weights["seed"]]
    assert entry.weights["score"] == pytest.approx(score, abs=1e-3)  # measured again after loading
    assert policy_names(ZOO / name / WEIGHTS)
    assert (ZOO / name / CURVE).read_text().lstrip().startswith("<?xml")


def test_all_weights_are_small():
    assert sum(path.stat().st_size for path in ZOO.rglob("*.safetensors")) < 5_000_000


def test_the_page_shows_the_entries_and_every_entry_can_be_made_again(monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path, str(ZOO), str(ZOO.parent)])
    import make

    for name in ("make", "learning"):
        monkeypatch.delitem(sys.modules, name)
    assert set(NAMES) <= make.PAIRS.keys()
    assert all(read_entry(ZOO / name).published == make.PAIRS[name].published for name in NAMES)
    page = (ROOT / "docs" / "zoo.md").read_text()
    assert make.with_table(page) == page
