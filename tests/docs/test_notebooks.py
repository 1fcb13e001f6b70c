"""Notebooks of the tutorials, as ``make site`` makes them, run from their first cell to their last."""

import json
import os
import subprocess
import sys

import pytest
from pages import ROOT

NOTEBOOKS = sorted((ROOT / "build" / "site" / "site").glob("**/*.ipynb"))

RUN = """
import json, sys
from pathlib import Path

for number, cell in enumerate(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))["cells"]):
    text = "".join(cell["source"])
    if cell["cell_type"] != "code":
        continue
    if text.startswith("%%writefile "):
        name, _, body = text.removeprefix("%%writefile ").partition("\\n")
        Path(name).write_text(body, encoding="utf-8")
    else:
        exec(compile(text, f"cell {number}", "exec"), globals())
"""


@pytest.mark.slow
@pytest.mark.skipif(not NOTEBOOKS, reason="needs make site")
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_cell_of_a_notebook_runs(notebook, tmp_path):
    cells = [cell for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]
    assert cells and not any("".join(cell["source"]).startswith("%%sh") for cell in cells)
    command, environment = [sys.executable, "-c", RUN, notebook], {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr[-3000:]
