import sys
from pathlib import Path

import pytest
import torch

sys.path.append(str(Path(__file__).parents[1] / "algorithms"))  # whose learners and stories these tests share


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)
