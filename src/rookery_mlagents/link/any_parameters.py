"""Parameters of a Unity game: it announces none, so any name may have a number, `ANY_NUMBER`."""

from __future__ import annotations

from typing import Any

from rookery.face import IntervalsSampler, NormalSampler, OpenParameters, Parameter, UniformSampler, is_number


class NumberParameter(Parameter):
    """A parameter that can be any number, and nothing else."""

    def objection(self, value: Any) -> str:
        """Returns the error of a value, or an empty string."""
        return "" if is_number(value) else f"{value!r} is not a number; Unity players take only numbers"


ANY_NUMBER = OpenParameters(NumberParameter(0.0), (UniformSampler, NormalSampler, IntervalsSampler))
"""Parameters of a game; it draws from the samplers that its side channel has by itself, whenever it asks for a value.
"""
