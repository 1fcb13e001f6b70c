"""Domains in settings: reads them from files, extracts them, and replaces them by values.

The path of a domain is the path of its setting, ``algorithm.model.hidden``; in a list it ends with the index,
``algorithm.model.hidden.0``.

Layers of settings do not merge lists or schedules. So if a domain is inside of one (``hidden: [{choice: [32, 64]},
64]``), the whole list is undecided, although the parameter is its element.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, replace
from difflib import get_close_matches
from typing import Any

from rookery.core.errors import ConfigError, nearest, refuse
from rookery.core.settings.fields import Settings, is_undecided, show
from rookery.core.settings.layers import CLASS, Layer, mapping_of, nested
from rookery.core.settings.trust import CodeKind
from rookery.report.experiment import is_number
from rookery.tune.space import FUNCTIONS, Domain

LISTS = {"choice", "grid_search"}
"""Functions whose one argument is a list."""


FUNCTION = CodeKind("a function", lambda found: False, functions=True, compiled=True)


def read_layer(layer: Layer) -> Layer:
    """Returns the layer with domains in place of mappings with one key that describe them.

    Examples are ``{loguniform: [1e-4, 1e-2]}``, ``{uniform: {low: 0, high: 1}}``,
    ``{sample_from: my.module:function}``.

    Raises:
        ConfigError: With a line for each wrong name or argument, with its place.
    """
    problems: list[str] = []

    def read(node: Any, path: str) -> Any:
        if isinstance(node, list | tuple):
            return type(node)(read(part, f"{path}.{i}") for i, part in enumerate(node))
        if not isinstance(node, Mapping):
            return node
        if len(node) == 1:
            ((name, arguments),) = node.items()
            try:
                if name in FUNCTIONS:
                    return _call_domain(name, arguments)
                if meant := _suggest_domain(str(name), arguments):
                    raise ConfigError(f"there is no domain {name!r}; did you mean {meant!r}?")
            except ConfigError as error:
                problems.extend(f"{layer.where(path)}: {path} = {show(dict(node))}: {why}" for why in error.problems)
        return {key: read(part, f"{path}.{key}") for key, part in node.items()}

    values = {key: read(part, str(key)) for key, part in layer.values.items()}
    refuse(problems)
    return replace(layer, values=values)


def domains_in(values: Any, path: str = "") -> dict[str, Domain]:
    """Returns all domains in mappings, lists and settings objects, at any depth, by path, in order.

    Raises:
        ConfigError: If two have the same path.
    """
    if isinstance(values, Domain):
        return {path: values}
    found: dict[str, Domain] = {}
    for _, at, part in _items(values, path):
        for inner, domain in domains_in(part, at).items():
            if inner in found:
                raise ConfigError(f"code: {inner} has two domains, {found[inner]} and {domain}; leave one out")
            found[inner] = domain
    return found


def fill(values: Any, params: Mapping[str, Any], path: str = "") -> Any:
    """Replaces each domain by a value; objects without a domain are returned unchanged.

    Args:
        values: A mapping, list or settings object, or an item of one.
        params: Values by path, one for each domain.
        path: Path of `values`.

    Raises:
        ConfigError: If a settings object refuses a value.
    """
    if isinstance(values, Domain):
        return params[path]
    if not is_undecided(values):
        return values
    parts = [(key, fill(part, params, at)) for key, at, part in _items(values, path)]
    if isinstance(values, Settings):
        return values.replace(**dict(parts))
    return dict(parts) if isinstance(values, Mapping) else type(values)(part for _, part in parts)


def split(values: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Separates fixed values from domains.

    A settings object with a domain in it becomes a mapping that names its class, as in a layer.

    Args:
        values: Values by path, as in a layer, or a nested configuration.

    Returns:
        The values without domains, and by path each domain, or list or schedule with domains in it. `domains_in` of the
        second is the search space; `fill` of the second are the values that a trial adds to the first.
    """
    undecided: dict[str, Any] = {}

    def decided(node: Any, path: str) -> Any:
        if not is_undecided(node):
            return node
        if isinstance(node, Settings) or (isinstance(node, Mapping) and not _is_unmergeable(node)):
            parts = {key: decided(part, f"{path}.{key}") for key, part in mapping_of(node).items()}
            return {key: part for key, part in parts.items() if part is not MISSING}
        undecided[path] = node
        return MISSING

    parts = {key: decided(part, str(key)) for key, part in values.items()}
    return {key: part for key, part in parts.items() if part is not MISSING}, undecided


def split_layers(layers: Sequence[Layer]) -> tuple[list[Layer], dict[str, Any]]:
    """Returns layers of settings, lowest first, without their domains; and the undecided values, as `split`.

    Domains are read by `read_layer`. A value for the same path in a higher layer replaces a domain, so that
    ``algorithm.lr=1e-3`` on the command line replaces the domain of a file.

    Raises:
        ConfigError: If a domain is wrong.
    """
    fixed: list[Layer] = []
    undecided: dict[str, Any] = {}
    for layer in map(read_layer, layers):
        tree = nested(layer.values)
        undecided = {path: node for path, node in undecided.items() if not _has_value(tree, path)}
        decided, found = split(tree)
        fixed.append(replace(layer, values=decided) if found else layer)
        undecided |= found
    return fixed, undecided


def merged_values(parts: Iterable[Mapping[str, Any]], keep_classes: bool = False) -> dict[str, Any]:
    """Returns values of several layers, lowest first, as one nested dict, the argument of functions of `sample_from`.

    Settings objects become dicts of their given values; domains stay.

    Args:
        parts: Values by path, of each layer.
        keep_classes: Whether the dicts of settings objects hold their class, under the key `CLASS`.
    """
    tree: dict[str, Any] = {}

    def lay(node: dict[str, Any], values: Mapping[Any, Any]) -> None:
        for key, part in values.items():
            if isinstance(part, Mapping | Settings):
                inside = node[key] = dict(node[key]) if isinstance(node.get(key), dict) else {}
                lay(inside, mapping_of(part))
            elif keep_classes or key != CLASS:
                node[key] = part

    for values in parts:
        lay(tree, nested(values))
    return tree


def chosen_values(config: Mapping[str, Any], params: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a nested dict with the values chosen so far; other domains are left out, or None in a list."""

    def clean(node: Any, path: str) -> Any:
        if isinstance(node, Domain):
            return params.get(path, MISSING)
        parts = [(key, clean(part, at)) for key, at, part in _items(node, path)]
        if isinstance(node, Mapping | Settings):
            return {key: part for key, part in parts if part is not MISSING}
        if isinstance(node, list | tuple):
            return [None if part is MISSING else part for _, part in parts]
        return node

    tree: dict[str, Any] = clean(config, "")
    return tree


def _items(values: Any, path: str) -> list[tuple[Any, str, Any]]:
    """Returns the items of a mapping, list or settings object at a path: key, index or name; path; value."""
    listed = enumerate(values) if isinstance(values, list | tuple) else ()
    parts = mapping_of(values).items() if isinstance(values, Settings | Mapping) else listed
    return [(key, f"{path}.{key}" if path else str(key), part) for key, part in parts if key != CLASS]


def _is_unmergeable(node: Mapping[Any, Any]) -> bool:
    """Returns whether layers do not merge a mapping: a schedule, or a mapping whose keys are not plain names."""
    plain = all(isinstance(key, str) and key and "." not in key for key in node)
    return not plain or {"start", "end"} <= node.keys() or "points" in node


def _has_value(tree: Mapping[str, Any], path: str) -> bool:
    """Returns whether a layer has a value for a path, or for a section above it."""
    node: Any = tree
    for key in path.split("."):
        if not isinstance(node, Mapping | Settings):
            return True
        inside = mapping_of(node)
        if key not in inside:
            return False
        node = inside[key]
    return True


def _call_domain(name: str, arguments: Any) -> Domain:
    """Calls a function of `space` with arguments from a file, and returns the domain."""
    function: Callable[..., Domain] = FUNCTIONS[name]
    if name == "sample_from" and isinstance(arguments, str):
        return function(FUNCTION.find(arguments))
    if name in LISTS and not isinstance(arguments, Mapping):
        return function(arguments)
    signature = inspect.signature(function)
    keywords = {str(key): value for key, value in arguments.items()} if isinstance(arguments, Mapping) else {}
    args = [] if isinstance(arguments, Mapping) else arguments if isinstance(arguments, list) else [arguments]
    for key in keywords.keys() - signature.parameters.keys():
        raise ConfigError(f"{name} has no argument {key!r}{nearest(key, list(signature.parameters))}")
    try:
        signature.bind(*args, **keywords)
    except TypeError:
        takes = ", ".join(signature.parameters)
        raise ConfigError(f"{name} takes {takes}; write {{{name}: [{takes}]}}") from None
    return function(*args, **keywords)


def _suggest_domain(name: str, arguments: Any) -> str:
    """Returns the function that a misspelled mapping with one key probably means; empty if there is none."""
    bare = {function.replace("_", ""): function for function in FUNCTIONS}
    word = name.lower().replace("_", "").replace("-", "")
    inside = list(arguments.values()) if isinstance(arguments, Mapping) else arguments
    numbers = isinstance(inside, list) and len(inside) in (2, 3) and all(map(is_number, inside))
    close = get_close_matches(word, [key for key in bare if bare[key] not in LISTS], 1, 0.8) if numbers else []
    return bare.get(close[0] if close else word, "")
