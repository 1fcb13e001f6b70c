"""The grid of examples/tune_arena.py runs as a script, four trials of an iteration each, and writes its report."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "tune_arena.py"


@pytest.mark.slow
def test_the_grid_in_the_arena_runs_as_a_script(tmp_path):
    pytest.importorskip("matplotlib")
    code = EXAMPLE.read_text(encoding="utf-8")
    assert '"iterations": 100' in code
    (tmp_path / "short.py").write_text(code.replace('"iterations": 100', '"iterations": 1'), encoding="utf-8")
    done = subprocess.run([sys.executable, "short.py"], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "4 TERMINATED" in done.stdout
    assert (tmp_path / "runs" / "tune-arena" / "report.html").stat().st_size > 10_000
