"""Whether this process is the kernel of a notebook."""

from __future__ import annotations

import sys


def in_notebook() -> bool:
    """Returns whether code runs in a kernel of Jupyter; imports nothing, as a kernel has imported its packages."""
    get_ipython = getattr(sys.modules.get("IPython"), "get_ipython", None)
    return "ipykernel" in sys.modules and hasattr(get_ipython and get_ipython(), "kernel")
