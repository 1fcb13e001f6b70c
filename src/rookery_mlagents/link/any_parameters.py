"""What a Unity game says of its parameters: nothing, so that any name may be given a number, `ANY_NUMBER`."""

from __future__ import annotations

from typing import Any

from rookery.face import IntervalsSampler, NormalSampler, OpenParameters, Parameter, UniformSampler, is_number


class NumberParameter(Parameter):
    """A parameter that can be any number, and nothing else."""

    def objection(self, value: Any) -> str:
        """Says what is wrong with a value; empty if nothing is."""
        return "" if is_number(value) else f"{value!r} is no number, and Unity players take only numbers"


ANY_NUMBER = OpenParameters(NumberParameter(0.0), (UniformSampler, NormalSampler, IntervalsSampler))
"""Parameters of a game; it draws from the samplers that its side channel has by itself, whenever it asks for a value.
"""
