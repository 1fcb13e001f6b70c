"""``python -m rookery.envs.unity.testing ENV``: a pretended player of Unity."""

from __future__ import annotations

import sys

from rookery.envs.unity.testing.player import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
