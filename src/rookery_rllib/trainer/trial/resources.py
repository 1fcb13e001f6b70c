"""Resource requests of trials, under the names of 2021. Trials share the cores of this machine."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rookery.face import ConfigError, nearest

KEYS = ("cpu", "gpu", "memory", "object_store_memory", "extra_cpu", "extra_gpu", "extra_memory",
        "extra_object_store_memory", "custom_resources", "extra_custom_resources")  # fmt: skip


@dataclass(frozen=True)
class Resources:
    cpu: float = 0
    gpu: float = 0
    memory: float = 0
    object_store_memory: float = 0
    extra_cpu: float = 0
    extra_gpu: float = 0
    extra_memory: float = 0
    extra_object_store_memory: float = 0
    custom_resources: Mapping[str, float] = field(default_factory=dict)
    extra_custom_resources: Mapping[str, float] = field(default_factory=dict)
    has_placement_group: bool = False

    def cpu_total(self) -> float:
        return self.cpu + self.extra_cpu

    def gpu_total(self) -> float:
        return self.gpu + self.extra_gpu

    def summary_string(self) -> str:
        return f"{self.cpu_total():g} CPUs, {self.gpu_total():g} GPUs"


class PlacementGroupFactory:
    """Resource bundles of a trial: the first is its own, the others its workers'.

    `strategy` and further arguments have no meaning on one machine.
    """

    def __init__(self, bundles: list[dict[str, float]], strategy: str = "PACK", *args: Any, **kwargs: Any) -> None:
        self._bundles, self.strategy = [dict(bundle) for bundle in bundles], strategy
        if not self._bundles:
            raise ConfigError("PlacementGroupFactory: takes at least one bundle, such as [{'CPU': 1}]")

    @property
    def bundles(self) -> list[dict[str, float]]:
        return self._bundles

    @property
    def required_resources(self) -> dict[str, float]:
        total: dict[str, float] = {}
        for bundle in self._bundles:
            for name, amount in bundle.items():
                total[name] = total.get(name, 0) + amount
        return total

    def to_json(self) -> dict[str, float]:
        """Returns the resources in the form of ``resources_per_trial``."""
        return {name.lower(): amount for name, amount in self.required_resources.items()}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PlacementGroupFactory) and (self._bundles, self.strategy) == (
            other._bundles,
            other.strategy,
        )

    def __hash__(self) -> int:
        return hash(json.dumps(self._bundles, sort_keys=True))

    def __repr__(self) -> str:
        return f"PlacementGroupFactory({self._bundles}, strategy={self.strategy!r})"


@dataclass
class SyncConfig:
    """Destination of results: this machine, so `upload_dir` must be None, and other arguments have no meaning."""

    upload_dir: str | None = None
    sync_to_cloud: Any = None
    sync_to_driver: Any = None
    sync_on_checkpoint: bool = True
    node_sync_period: int = -1
    cloud_sync_period: int = -1


def cpus_and_gpus(requested: Any) -> tuple[float | None, float]:
    """Returns the given cores and GPUs of a trial; raises a ConfigError for an unknown key."""
    if requested is None:
        return None, 0.0
    if isinstance(requested, PlacementGroupFactory):
        total = requested.required_resources
        return total.get("CPU") or None, total.get("GPU", 0.0)
    if isinstance(requested, Resources):
        return requested.cpu_total() or None, requested.gpu_total()
    if not isinstance(requested, Mapping):
        return cpus_and_gpus(requested(None)) if callable(requested) else (None, 0.0)
    lowered = {str(key).lower(): value for key, value in requested.items()}
    for key in lowered.keys() - set(KEYS):
        raise ConfigError(f"resources_per_trial: {key}: there is no such resource{nearest(key, KEYS)}")
    numbers = {key: float(value) for key, value in lowered.items() if isinstance(value, int | float)}
    cpus = numbers.get("cpu", 0.0) + numbers.get("extra_cpu", 0.0)
    return cpus or None, numbers.get("gpu", 0.0) + numbers.get("extra_gpu", 0.0)
