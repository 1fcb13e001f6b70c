"""RLlib's tuned examples of 2021: the page of the study is whole, and some files start where they are given."""

import json
import os
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "benchmarks"))

import rllib_tuned as study  # noqa: E402
import studies.rllib_tuned_curves as curves  # noqa: E402

FOLDER = os.environ.get("TUNED")
"""Folder ``rllib/tuned_examples`` of a checkout of Ray 1.x."""

SOME = ("ppo/cartpole-ppo", "sac/pendulum-transformed-actions-sac", "qmix/two-step-game-qmix")


def cells(rows):
    return {name: [cell.strip() for cell in line.strip("|").split("|")] for name, line in rows.items()}


def test_the_page_has_a_reason_for_each_file_that_does_not_start():
    _, starts, _ = study.of_page()
    found = cells(starts)
    gpu = {name for name, row in found.items() if row[2] == "GPU"}
    good = {name for name, row in found.items() if row[3] == "yes"}
    others = len(found) - len(gpu)
    assert gpu and not good & gpu  # the study ran without a GPU
    assert f"Of the {others} others,\n{len(good)} start" in study.PAGE.read_text(encoding="utf-8")
    said = re.sub(r"\s+", " ", (ROOT / "docs" / "from-rllib.md").read_text(encoding="utf-8"))
    assert f"Of the {others} tuned examples that ask for no GPU, {len(good)} start" in said
    for name in found.keys() - good:
        why, _, error = found[name][4].partition(": ")
        assert why in study.REASONS.values() and error, name
        assert study.reason(error) == why, name


def test_files_that_ran_to_their_stop_have_a_return_and_have_started():
    _, starts, stops = study.of_page()
    found = cells(stops)
    assert found.keys() <= set(study.REACHABLE)
    for name, row in found.items():
        assert "| yes |" in starts[name], name
        scores = [float(score) for score in row[5].split("; ")]
        reached, _, runs = row[2].partition(" of ")
        assert len(scores) == int(runs) == 3, name
        assert row[1] == "none" or sum(score >= float(row[1]) for score in scores) == int(reached), name
        assert row[3].startswith("–") == (2 * int(reached) < int(runs)), name
        assert bool(row[7]) == row[3].startswith("–"), name
    reaching = sum(not row[3].startswith("–") for row in found.values())
    assert f"{reaching} of {len(found)} files reach" in study.PAGE.read_text(encoding="utf-8")


def test_each_file_that_starts_ran_to_its_stop_or_has_a_curve():
    _, starts, stops = study.of_page()
    good = {name for name, row in starts.items() if "| yes |" in row and not name.endswith("-fake-gpus")}
    assert good == {*stops, *curves.BEYOND}
    stored = json.loads(curves.PAGE.with_suffix(".json").read_text(encoding="utf-8"))
    assert stored.keys() == curves.BEYOND.keys()
    assert curves.PAGE.read_text(encoding="utf-8") == curves.page(stored, 900)
    for name, known in stored.items():
        assert known["points"][-1][1] > known["control"][-1][1], name


@pytest.mark.skipif(FOLDER is None, reason="TUNED names no folder with RLlib's tuned examples")
@pytest.mark.parametrize("name", SOME)
def test_some_files_start_unedited(name):
    rows, how, _ = study.ran(Path(str(FOLDER)) / f"{name}.yaml", 120, to_stop=False)
    assert rows, how
