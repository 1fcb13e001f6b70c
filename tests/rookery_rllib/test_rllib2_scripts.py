"""Twenty scripts of RLlib 2.x in the forms of public ones: of 2.0 to 2.9, of the old stack later, of the new stack."""

from pathlib import Path

import pytest

from rookery_rllib.base import machine, release
from rookery_rllib.base.registrations import ENVIRONMENTS
from rookery_rllib.script.run_script import run

SCRIPTS = sorted((Path(__file__).parent / "scripts_of_2_x").glob("*.py"))


@pytest.fixture(autouse=True)
def as_a_process_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("TUNE_RESULT_DIR", str(tmp_path / "results"))
    monkeypatch.chdir(tmp_path)
    machine.use_machine(local_mode=True, num_cpus=None)
    before = dict(ENVIRONMENTS)
    yield
    ENVIRONMENTS.clear()
    ENVIRONMENTS.update(before)
    machine.use_machine(local_mode=False, num_cpus=None)


def test_there_are_twenty_and_five_of_each_dialect():
    kinds = [path.stem.partition("_")[0] for path in SCRIPTS]
    assert len(kinds) >= 20 and min(kinds.count(kind) for kind in ("early", "old", "new")) >= 5


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_runs(path, capsys):
    code = run(path)
    assert code in (None, 0), capsys.readouterr().err
    assert release.is_2_x()
