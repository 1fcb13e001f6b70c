"""Settings, command line, keys, old names and public names are those of the stored texts.

A text is written anew, and its diff read, where a change was meant: python tests/golden/make_texts.py
"""

import difflib

import pytest
from make_texts import TEXTS, stored
from names_of_2021 import imports, is_here, tried

WRITE = "if that is meant: PYTHONPATH=src python tests/golden/make_texts.py"

SHOWN = 40
"""Lines of a difference that are printed."""


@pytest.mark.parametrize("name", TEXTS)
def test_what_a_user_can_name_is_what_was_stored(name):
    before, now = stored(name), TEXTS[name]()
    if before != now:
        changed = list(difflib.unified_diff(before, now, "stored", "now", lineterm="", n=0))
        more = f"\n... {len(changed) - SHOWN} lines more" if len(changed) > SHOWN else ""
        pytest.fail("\n".join(changed[:SHOWN]) + f"{more}\n{WRITE} {name}", pytrace=False)


def test_example_scripts_that_the_table_says_run_import_only_names_that_are_here():
    scripts = imports()
    for script, _, ran in tried():
        assert script in scripts, f"{script} is no example script of Ray 1.4"
        missing = [name for name in scripts[script] if not is_here(name)]
        assert ran == "no" or not missing, f"{script}: {', '.join(missing)}"
