"""Walks: how much a reader has to open to follow one thing through the code. They must not grow."""

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "scripts"))

from count_walks import Walk, measure  # noqa: E402
from trace_walks import WALKS as TRACED  # noqa: E402
from trace_walks import Entered, total, trace, unused  # noqa: E402

from rookery.core.native import best_build  # noqa: E402

MOST = {
    "PPO, learn side (torch)": Walk(7, 22, 282),
    "PPO, whole iteration (torch)": Walk(13, 44, 563),
    "PPO, whole iteration (kernels)": Walk(15, 44, 724),
    "DQN, whole iteration (torch)": Walk(17, 54, 581),  # with stops between its gradient steps
    "gamma, from the command line to gae": Walk(10, 15, 551),
}
"""The most that each may come to; docs/design.md says what was aimed at."""

MOST_ENTERED = {
    "PPO (torch)": Walk(39, 147, 1322),
    "PPO (kernels)": Walk(39, 154, 1219),
    "DQN (torch)": Walk(43, 180, 1471),
    "DQN (kernels)": Walk(41, 187, 1528),
}
"""The most that one iteration may enter; benchmarks/results/walks.md lists the functions."""

WALKS = json.loads((ROOT / "docs" / "walks.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", MOST)
def test_a_walk_does_not_grow(name):
    found = measure(WALKS[name], ROOT / "src" / "rookery")
    assert found.files <= MOST[name].files
    assert found.functions <= MOST[name].functions
    assert found.lines <= MOST[name].lines


def test_a_function_that_is_gone_is_missed():
    with pytest.raises(KeyError, match=r"core/ops\.py:gone"):
        measure({"core/ops.py": ["gone"]}, ROOT / "src" / "rookery")


@pytest.mark.parametrize("name", MOST_ENTERED)
def test_an_iteration_does_not_enter_more(name):
    if "kernels" in name and best_build() is None:
        pytest.skip("there are no kernels")
    entered = TRACED[name]()
    found, most = total(entered), MOST_ENTERED[name]
    listed = "\n".join(f"{each.file}: {each.function}, {each.lines} lines" for each in entered)
    assert not unused(entered), "features that the run does not use"
    assert found.files <= most.files, listed
    assert found.functions <= most.functions, listed
    assert found.lines <= most.lines, listed


def test_a_trace_counts_functions_with_what_is_inside_them(tmp_path):
    file = tmp_path / "traced.py"
    file.write_text(
        "import functools\n\n\n"
        "class Counter:\n"
        '    """Counts."""\n\n'
        "    @functools.lru_cache\n"
        "    def up(self, by):\n"
        '        """Counts up."""\n\n'
        "        def inner():\n"
        "            return by  # as it is\n\n"
        "        return inner() + sum(each for each in (1, 2))\n\n"
        "    def down(self):\n"
        "        return 1\n\n\n"
        "twice = lambda number: 2 * number\n"
    )
    module = {}
    exec(compile(file.read_text(), str(file), "exec"), module)
    entered = trace(lambda: module["twice"](module["Counter"]().up(3)), tmp_path)
    assert entered == [Entered("traced.py", "Counter.up", 4), Entered("traced.py", "lambda of line 20", 1)]
    assert total(entered) == Walk(1, 2, 5)
