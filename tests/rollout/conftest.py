import sys
from pathlib import Path

import torch

sys.path.append(str(Path(__file__).parents[1] / "envs"))  # counting.py, whose numbers can be worked out by hand

torch.set_num_threads(1)  # threads that wait for each other make small networks slow
