import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "envs"))  # counting.py, whose numbers can be worked out by hand
