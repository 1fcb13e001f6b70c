"""Ten thousand damaged files: each is read, or refused in words that name it, within bounds of memory and time.

A failing test prints the seeds. One is tried again, in this process, by ``ROOKERY_FUZZ=hdf5:123 pytest tests/fuzz -k
again``; ``KEPT`` are seeds that were once faults. ``ROOKERY_FUZZ_SECONDS`` changes how long a format may take, and
``ROOKERY_FUZZ_FROM`` the first seed.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from pathlib import Path

import pytest
from formats import GROUPS
from sandbox import tried

SECONDS = float(os.environ.get("ROOKERY_FUZZ_SECONDS", 120))
FIRST = int(os.environ.get("ROOKERY_FUZZ_FROM", 0))
FEW = 12

KEPT: dict[str, tuple[int, ...]] = {
    "hdf5": (0, 1, 43, 44, 49, 103, 116, 129, 162, 210, 260),
    "npz": (0, 4, 31, 49, 254, 280),
    "json": (142, 778),
    "csv": (633, 673),
    "yaml": (1974,),
    "checkpoint": (98, 137, 261),
    "replay": (1, 131),
}


def faults(name, seeds, until=float("inf")):
    """Tries seeds of a group; gives how many were tried, what became of them, and the faults in words."""
    group = GROUPS[name]
    group.require()
    group.bases()
    found = tried(group.attempt, seeds, until)
    kinds = dict(Counter(one.kind for one in found))
    return len(found), kinds, [
        f"ROOKERY_FUZZ={name}:{one.seed} ({one.kind}) {one.said}" for one in found if one.is_fault
    ]  # fmt: skip


@pytest.mark.regression("unclear error", "A damaged file ends in one line that names it, whatever the damage")
@pytest.mark.parametrize("name", GROUPS)
def test_some_damaged_files_are_refused_in_words(name):
    _, _, wrong = faults(name, [*KEPT.get(name, ()), *range(FEW)])
    assert not wrong, "\n".join(wrong[:5])


@pytest.mark.slow
@pytest.mark.timeout(SECONDS + 120)
@pytest.mark.regression("unclear error", "A damaged file ends in one line that names it, whatever the damage")
@pytest.mark.parametrize("name", GROUPS)
def test_ten_thousand_damaged_files_neither_hang_nor_end_in_a_traceback(name, capsys):
    began = time.monotonic()
    tried_, kinds, wrong = faults(name, range(FIRST, FIRST + GROUPS[name].count), began + SECONDS)
    with capsys.disabled():
        print(f"\n{name}: {tried_:,} of {GROUPS[name].count:,} in {time.monotonic() - began:.0f} s: {kinds}")
    assert not wrong, "\n".join(wrong[:5])


def test_ten_thousand_are_tried():
    assert sum(group.count for group in GROUPS.values()) >= 10_000


@pytest.mark.skipif("ROOKERY_FUZZ" not in os.environ, reason="for one seed: ROOKERY_FUZZ=hdf5:123")
def test_one_seed_again(tmp_path):
    name, _, seed = os.environ["ROOKERY_FUZZ"].partition(":")
    from rookery.core.errors import RookeryError

    file, content = GROUPS[name].input(int(seed))
    kept = Path(tmp_path) / file
    kept.write_bytes(content)
    print(f"\n{kept}")
    try:
        GROUPS[name].attempt(int(seed), tmp_path)
    except RookeryError as error:
        print(error)
