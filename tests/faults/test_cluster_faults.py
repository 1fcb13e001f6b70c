"""Something on a cluster of two nodes hangs, is frozen or is killed: the cases of `cluster_faults.py`."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest

pytest.importorskip("ray")
pytestmark = pytest.mark.slow

from cluster_faults import CASES, one_case  # noqa: E402

CHOSEN = list(CASES) if "ROOKERY_FAULTS" in os.environ else ["kill head", "freeze learner"]


@pytest.mark.regression("no end", "a lost head of a cluster was silence for a minute, and then Ray ended the run")
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("case", CHOSEN)
def test_a_run_outlives_a_fault_or_ends_with_a_line_and_is_resumed(case, measured):
    folder = Path(tempfile.mkdtemp(prefix="rookery-faults-"))  # short: Ray makes sockets there
    try:
        outcome = one_case(*CASES[case], folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    assert not outcome.problems
    measured(f"{case} on two nodes of `ray start`", 1, outcome.said)
