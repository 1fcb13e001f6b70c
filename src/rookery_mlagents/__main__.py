"""``python -m rookery_mlagents run script.py`` runs a script of ML-Agents' low-level API."""

import sys

from rookery_mlagents.api.running import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
