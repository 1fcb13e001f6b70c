"""Population-based training (PBT): the worst trials become clones of the best, with perturbed parameters.

Jaderberg et al. 2017, Population Based Training of Neural Networks. The choice of clones and donors is in
`population.py`; this module changes the parameters (explore, section 4.1.2: perturb or resample).
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
from rookery.tune.schedulers.population import Population, PopulationConfig, changeable_paths
from rookery.tune.space import Choices, Domain, Drawn, Float, Grid, Integer, Normal, choice
from rookery.tune.spec import read_layer

SETTING = "scheduler.mutations"


@dataclass(frozen=True)
class PBTConfig(PopulationConfig):
    """Exploits by copying, explores by perturbing. The defaults are those of Ray Tune, except `synchronous`."""

    scheduler: ClassVar[str] = "rookery.tune.schedulers.pbt:PBT"

    resample: Fraction = 0.25
    """Probability of drawing a parameter anew from its domain; else it is perturbed."""
    factors: Annotated[tuple[PositiveFloat, ...], Len(1)] = (1.2, 0.8)
    """Factors for numeric parameters; one is drawn with equal probability. Values stay within their domains; whole
    numbers and others with a step move by one step at least. In a list, the value before or after is taken.
    """
    mutations: dict[Label, Annotated[Any, ARGUMENTS]] | tuple[Label, ...] = ()
    """Parameters to change: paths of the space, or a mapping from paths to other domains (or lists) that clones draw
    from; none = all that can change in a running trial. A clone has all others from its donor.
    """
    explore: Annotated[Callable[..., Any], CODE] | None = None
    """Function that is called with a clone's changed parameters, a dict by path, and returns the final ones. It must be
    deterministic.
    """


class PBT(Population[PBTConfig]):
    """Perturbs the parameters that a clone has from its donor."""

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
        paths = changeable_paths(SETTING, tuple(cfg.mutations), domains, (Drawn, Grid))
        self.mutations: dict[str, Any] = {path: domains[path] for path in paths}

    def explore(self, donor: str, going: Sequence[Mapping[str, Any]], rng: np.random.Generator) -> dict[str, Any]:
        """Returns the donor's parameters, each changeable one either drawn anew or perturbed."""
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
        except Exception as error:  # user code can raise any exception
            raise ConfigError(
                f"scheduler.explore = {show(self.cfg.explore)}: the function must return parameters by path, but "
                f"raised {described(error)}; its argument was {show(params)}"
            ) from error
        if params.keys() != self.members[donor].params.keys():
            raise ConfigError(
                f"scheduler.explore = {show(self.cfg.explore)}: the function must return a value for each of "
                f"{', '.join(self.members[donor].params)}, but returned {', '.join(map(str, params)) or 'none'}"
            )
        return params


def perturbed(domain: Drawn | Grid, value: Any, factors: Sequence[float], rng: np.random.Generator) -> Any:
    """Returns a value of the domain near `value`, or, at an end of the domain, perhaps `value` itself.

    Args:
        domain: Numbers or a list.
        value: Value of the domain.
        factors: Factors, of which one is drawn.
        rng: Draws the factor, or the direction in a list.
    """
    if isinstance(domain, Float | Integer | Normal):
        factor = factors[int(rng.integers(len(factors)))]
        move = value * (factor - 1)
        if domain.step and factor != 1:  # rounding must not keep a small number constant
            move = math.copysign(max(abs(move), domain.step), move or factor - 1)
        return domain.clip(value + move)
    assert isinstance(domain, Choices | Grid)
    place = domain.index(value) + (1 if rng.random() < 0.5 else -1)
    return domain.values[min(max(place, 0), len(domain.values) - 1)]
