"""Parameters of a Unity game: it does not declare them, so that any name with a numeric value is allowed,
`ANY_NUMBER`.
"""

from __future__ import annotations

from typing import Any

from rookery.face import IntervalsSampler, NormalSampler, OpenParameters, Parameter, UniformSampler, is_number


class NumberParameter(Parameter):
    """Parameter with any numeric value."""

    def objection(self, value: Any) -> str:
        """Returns the error of a value, or an empty string."""
        return "" if is_number(value) else f"{value!r} is not a number; Unity players take only numbers"


ANY_NUMBER = OpenParameters(NumberParameter(0.0), (UniformSampler, NormalSampler, IntervalsSampler))
"""Parameters of a game, which can use the samplers of its side channel and draws on each access."""
