"""Errors in the words of a traceback's last line, for tables of what must be refused and how.

``"ConfigError: algorithm.gama ... did you mean 'gamma'"`` is a ConfigError whose message has both parts, in this order.
"""

import re

import pytest


def check_error(expected, make, *arguments, **settings):
    """Calls `make`, which must raise what `expected` describes.

    Args:
        expected: The error's class, a colon, and what its message holds; ``...`` between spaces stands for any text.
        make: What is called with all the rest.
    """
    name, _, parts = expected.partition(": ")
    with pytest.raises(Exception) as caught:
        make(*arguments, **settings)
    words = ".*".join(map(re.escape, parts.split(" ... ")))
    found = f"{caught.type.__name__}: {caught.value}"
    assert re.match(f"{name}: .*{words}", found, re.DOTALL), found
