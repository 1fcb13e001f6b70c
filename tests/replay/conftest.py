import sys
from pathlib import Path

import torch

for folder in ("envs", "rollout"):  # counting.py, whose numbers can be worked out by hand, and playing.py, which plays
    sys.path.append(str(Path(__file__).parents[1] / folder))

torch.set_num_threads(1)  # threads that wait for each other make small networks slow
