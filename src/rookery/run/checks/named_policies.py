"""Check of policy names: settings of a policy that does not exist are an error, and do not create it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from rookery.core.errors import nearest, refuse
from rookery.core.settings.fields import show
from rookery.core.settings.layers import Layer


def check_named(layers: Sequence[Layer], agents: Collection[str], policy_mapping: Any) -> None:
    """Refuses single settings of policies that do not exist, such as ``policies.nobody.lr``.

    A policy exists if a layer creates it (``policies: {a: ...}``, ``policies.a={}``, or its ``name``), if a mapping
    names it, or if it is named like an agent; ``main`` exists if no other policy does.

    Args:
        layers: Settings of the user.
        agents: Names of the agents that are known.
        policy_mapping: A dict from agent to policy, a function or None.

    Raises:
        ConfigError: With a line for each of these settings, the nearest policy name, and how to create a policy.
    """
    made = _made(layers)
    if isinstance(policy_mapping, Mapping):
        made |= dict.fromkeys(map(str, policy_mapping.values()))
    elif policy_mapping is not None and not made:  # a function may name any
        return
    there = list(made) or ["main"]
    known = {*there, *agents}
    problems = []
    for layer, path, name, value in _settings(layers):
        if name not in known:
            problems.append(
                f"{layer.where(path)}: {path} = {show(value)}: there is no policy {name!r}; there are "
                f"{', '.join(there)}{nearest(name, sorted(known))}; policies.{name}={{}} makes one"
            )
    refuse(problems)


def _made(layers: Iterable[Layer]) -> dict[str, None]:
    """Returns the policies that layers create."""
    found: dict[str, None] = {}
    for layer in layers:
        for path, value in layer.values.items():
            section, _, rest = path.partition(".")
            name, _, setting = rest.partition(".")
            if section != "policies":
                continue
            if not rest and isinstance(value, Mapping):
                found |= dict.fromkeys(map(str, value))
            elif name and setting in ("", "name"):
                found[name] = None
    return found


def _settings(layers: Iterable[Layer]) -> Iterable[tuple[Layer, str, str, Any]]:
    """Yields the single settings of policies: the layer, the path, the policy and the value."""
    for layer in layers:
        for path, value in layer.values.items():
            section, _, rest = path.partition(".")
            name, _, setting = rest.partition(".")
            if section == "policies" and setting:
                yield layer, path, name, value
