"""``python -m rookery_rllib run script.py`` runs a script of 2021."""

import sys

from rookery_rllib.script.run_script import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
