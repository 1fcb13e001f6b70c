"""Population-based training: the worst trials become copies of the best, with parameters changed a little.

Jaderberg et al. 2017, Population Based Training of Neural Networks. Who becomes a copy of whom is decided in
`population.py`; here is how parameters change on the way (explore, section 4.1.2: perturb or resample).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

import numpy as np
from annotated_types import Len

from rookery.core.errors import ConfigError
from rookery.core.process.tracebacks import described
from rookery.core.seeding import Streams
from rookery.core.settings.fields import Fraction, PositiveFloat, show
from rookery.core.settings.layers import Layer
from rookery.core.settings.reach import ARGUMENTS, CODE, Label
from rookery.tune.schedulers.population import Population, PopulationConfig, to_change
from rookery.tune.space import Choices, Domain, Drawn, Float, Grid, Integer, Normal, choice
from rookery.tune.spec import read_layer

SETTING = "scheduler.mutations"


@dataclass(frozen=True)
class PBTConfig(PopulationConfig):
    """Exploit by copying, explore by perturbing. The defaults are those of Ray Tune, but for waiting."""

    scheduler: ClassVar[str] = "rookery.tune.schedulers.pbt:PBT"

    resample: Fraction = 0.25
    """Probability of drawing a parameter anew from its domain; else it is perturbed."""
    factors: Annotated[tuple[PositiveFloat, ...], Len(1)] = (1.2, 0.8)
    """What a number is multiplied with: one of these, all equally likely. It stays within its domain; whole numbers and
    others with a step move by one step at least. From a list of choices the one before or behind is taken.
    """
    mutations: dict[Label, Annotated[Any, ARGUMENTS]] | tuple[Label, ...] = ()
    """What changes: paths of the space, or a mapping from paths to other domains (or lists) that clones draw from; none
    = all that can change in a running trial. Everything else a clone has from its donor.
    """
    explore: Annotated[Callable[..., Any], CODE] | None = None
    """Has the last word: called with a copy's changed parameters, a dict by path, it gives those to use. It must give
    the same for the same.
    """


class PBT(Population[PBTConfig]):
    """Perturbs what a clone has from its donor."""

    def __init__(self, cfg: PBTConfig, space: Mapping[str, Any], streams: Streams) -> None:
        super().__init__(cfg, space, streams)
        given = cfg.mutations if isinstance(cfg.mutations, Mapping) else {}
        others = {path: choice(value) if isinstance(value, list | tuple) else value for path, value in given.items()}
        others = dict(read_layer(Layer(SETTING, others)).values)
        if wrong := [f"{path} = {show(value)}" for path, value in others.items() if not isinstance(value, Domain)]:
            raise ConfigError(
                f"{SETTING}: {'; '.join(wrong)}: must be a list of values or a domain, {{uniform: [0, 1]}}"
            )
        domains = {path: replace(others.get(path, domain), fixed=domain.fixed) for path, domain in space.items()}
        paths = to_change(SETTING, tuple(cfg.mutations), domains, (Drawn, Grid))
        self.mutations: dict[str, Any] = {path: domains[path] for path in paths}

    def explore(self, donor: str, going: Sequence[Mapping[str, Any]], rng: np.random.Generator) -> dict[str, Any]:
        """Returns the donor's parameters, each of those that may change either drawn anew or perturbed."""
        params = dict(self.members[donor].params)
        for path, domain in self.mutations.items():
            if rng.random() < self.cfg.resample or not domain.contains(params[path]):
                params[path] = domain.quantile(rng.random())
            else:
                params[path] = perturbed(domain, params[path], self.cfg.factors, rng)
        if self.cfg.explore is None:
            return params
        try:
            params = dict(self.cfg.explore(dict(params)))
        except Exception as error:  # whatever a function of the user does
            raise ConfigError(
                f"scheduler.explore = {show(self.cfg.explore)}: must give parameters by path, and raised "
                f"{described(error)}; it was given {show(params)}"
            ) from error
        if params.keys() != self.members[donor].params.keys():
            raise ConfigError(
                f"scheduler.explore = {show(self.cfg.explore)}: it must give a value for each of "
                f"{', '.join(self.members[donor].params)}, and gave {', '.join(map(str, params)) or 'none'}"
            )
        return params


def perturbed(domain: Drawn | Grid, value: Any, factors: Sequence[float], rng: np.random.Generator) -> Any:
    """Returns a value of the domain near `value`, or, at an end of the domain, perhaps `value` itself.

    Args:
        domain: Numbers or a list.
        value: Value of the domain.
        factors: Numbers, of which one is multiplied with.
        rng: Chooses the factor, or before or behind.
    """
    if isinstance(domain, Float | Integer | Normal):
        factor = factors[int(rng.integers(len(factors)))]
        move = value * (factor - 1)
        if domain.step and factor != 1:  # rounding must not hold a small number for ever where it is
            move = math.copysign(max(abs(move), domain.step), move or factor - 1)
        return domain.clip(value + move)
    assert isinstance(domain, Choices | Grid)
    place = domain.index(value) + (1 if rng.random() < 0.5 else -1)
    return domain.values[min(max(place, 0), len(domain.values) - 1)]
