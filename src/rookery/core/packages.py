"""The packages of this distribution: the engine, and the two faces that speak the names of other systems."""

from __future__ import annotations

OWN = ("rookery", "rookery_rllib", "rookery_mlagents")


def is_own(module: str) -> bool:
    """Returns whether a dotted module name is that of one of `OWN` or lies inside one."""
    return module.partition(".")[0] in OWN
