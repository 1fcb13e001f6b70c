"""An algorithm: PPO in small steps."""

from dataclasses import dataclass
from typing import ClassVar

from rookery import PPO, PPOConfig


class Timid(PPO):
    """The algorithm, which is PPO."""


@dataclass(frozen=True)
class TimidConfig(PPOConfig):
    """Settings of Timid, with another default."""

    algorithm: ClassVar[str] = "rookery_corridors.timid:Timid"

    clip: float = 0.05
    """Largest change of a probability ratio."""
