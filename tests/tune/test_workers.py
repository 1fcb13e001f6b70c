"""Workers in this process and in others: the cases they share, and what only processes have to bear."""

from __future__ import annotations

import pytest
from worker_cases import CASES

from rookery.tune.here import Here
from rookery.tune.processes import Processes


@pytest.fixture
def make(request):
    """Makes workers of the kind that the test is for."""
    made = []

    def workers(job, cpus=0.5):
        made.append(request.param(job, cpus, 0.0, None))
        return made[-1]

    yield workers
    for each in made:
        each.close()


@pytest.mark.parametrize("make", [Here, Processes], indirect=True, ids=["here", "processes"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_workers_agree(case, make, tmp_path):
    case(make, tmp_path)
