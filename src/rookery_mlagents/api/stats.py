"""Statistics of a training as ML-Agents gives them to plug-ins of the group ``mlagents.stats_writer``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import Enum
from typing import Any, NamedTuple

import numpy as np

from rookery_mlagents.api.side_channels import StatsAggregationMethod as StatsAggregationMethod
from rookery_mlagents.files.run_options import RunOptions as RunOptions
from rookery_mlagents.files.sections import CheckpointOptions as CheckpointSettings
from rookery_mlagents.files.sections import EngineOptions as EngineSettings
from rookery_mlagents.files.sections import EnvOptions as EnvironmentSettings
from rookery_mlagents.files.sections import TorchOptions as TorchSettings

__all__ = [
    "CheckpointSettings", "EngineSettings", "EnvironmentSettings", "RunOptions", "StatsAggregationMethod",
    "StatsPropertyType", "StatsSummary", "StatsWriter", "TorchSettings",
]  # fmt: skip


class StatsSummary(NamedTuple):
    """The values of a statistic since the previous summary."""

    full_dist: list[float]
    aggregation_method: StatsAggregationMethod

    @staticmethod
    def empty() -> StatsSummary:
        return StatsSummary([], StatsAggregationMethod.AVERAGE)

    @property
    def aggregated_value(self) -> float:
        return self.sum if self.aggregation_method is StatsAggregationMethod.SUM else self.mean

    @property
    def mean(self) -> float:
        return float(np.mean(self.full_dist))

    @property
    def std(self) -> float:
        return float(np.std(self.full_dist))

    @property
    def num(self) -> int:
        return len(self.full_dist)

    @property
    def sum(self) -> float:
        return float(np.sum(self.full_dist))


class StatsPropertyType(Enum):
    HYPERPARAMETERS = "hyperparameters"
    SELF_PLAY = "selfplay"


class StatsWriter(ABC):
    """Receives the statistics of every summary of a behavior, and its settings once at the start."""

    def on_add_stat(  # noqa: B027 - a writer may leave it out
        self,
        category: str,
        key: str,
        value: float,
        aggregation: StatsAggregationMethod = StatsAggregationMethod.AVERAGE,
    ) -> None:
        """Is called for each single value, here just before the summary that contains it."""

    @abstractmethod
    def write_stats(self, category: str, values: dict[str, StatsSummary], step: int) -> None: ...

    def add_property(  # noqa: B027 - likewise
        self, category: str, property_type: StatsPropertyType, value: Any
    ) -> None: ...
