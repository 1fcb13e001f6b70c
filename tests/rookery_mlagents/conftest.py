"""What tests of the verbs share is beside those of the command line."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "cli"))  # commands.py
