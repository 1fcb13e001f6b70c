"""The retelling of RLlib's tutorial, examples/rllib_tutorial.py, runs as a script, an iteration where it trains."""

import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "rllib_tutorial.py"

SHORT = {
    "STEPS = 60_000": "STEPS = 1_000",
    "evaluate(episodes=20": "evaluate(episodes=2",
    "[2000, 3000]": "[200, 300]",
    "force=True": "force=True, max_concurrent=1",
}
"""What is made small, and how."""


def test_the_tutorial_retold_runs_as_a_script(tmp_path):
    code = EXAMPLE.read_text(encoding="utf-8")
    for text, other in SHORT.items():
        assert text in code
        code = code.replace(text, other)
    (tmp_path / "short.py").write_text(code, encoding="utf-8")
    done = subprocess.run([sys.executable, "short.py"], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    for said in ("by chance: [", "chances of up", "quickest to 15: {", "new_tiles: ", "pol2 earns "):
        assert said in done.stdout
