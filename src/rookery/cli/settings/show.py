"""``rookery config show``: what settings exist, and those of a run that differ from their defaults."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from difflib import get_close_matches
from textwrap import wrap

from rookery.algorithms.names import ALGORITHMS
from rookery.cli.runs import Provenance
from rookery.cli.settings.listing import REQUIRED, Setting, all_settings, settings_below
from rookery.core.config import DEFAULT
from rookery.core.errors import ConfigError, nearest
from rookery.core.settings.hints import suggestion
from rookery.core.settings.layers import import_object
from rookery.core.settings.short_paths import full_path

WIDTH = 80
"""Columns of the output."""

USUAL = "ppo"
"""Algorithm whose settings are listed if none is named."""

NEAREST = 4
"""Maximum number of settings named for a path that does not exist."""

Settings = Mapping[str, tuple[Setting, ...]]
"""Settings by path; several for a path that depends on an algorithm."""


def settings_of(algorithm: str) -> Settings:
    """Returns the settings of runs with an algorithm, by path.

    Raises:
        ConfigError: If there is no such algorithm.
    """
    if algorithm not in ALGORITHMS and ":" not in algorithm:
        raise ConfigError(f"--algo {algorithm}: there is no such algorithm{nearest(algorithm, list(ALGORITHMS))}")
    path = ALGORITHMS.get(algorithm, algorithm)
    own = settings_below(import_object(path), "algorithm.", algorithm)
    common = {path: found for path, found in all_settings().items() if not found[0].only or path[:4] == "tune"}
    return {**common, **{setting.path: (setting,) for setting in own}}


def describe(path: str | None, algorithm: str | None) -> Iterator[str]:
    """Yields the lines about a setting, a section, or all settings with a part of a name; of all sections for None.

    Args:
        path: The path or part of a name.
        algorithm: Name of the algorithm, or None.

    Raises:
        ConfigError: If there is no such setting or algorithm; names the nearest ones.
    """
    settings = all_settings() if algorithm is None else settings_of(algorithm)
    if path is None:
        yield from overview(settings_of(algorithm or USUAL), algorithm or USUAL)
        return
    found = matching(path.strip("."), settings)
    elsewhere = matching(path.strip("."), all_settings())
    if len(elsewhere) == 1 and found != elsewhere:
        names = ", ".join(variant.only for variant in all_settings()[elsewhere[0]])
        raise ConfigError(f"{elsewhere[0]}: {algorithm} has no such setting; it is one of {names}")
    if not found:
        raise ConfigError(f"{path}: there is no such setting{near(path, settings)}")
    if len(found) > 1:
        yield from (line for one in found for line in brief(settings[one]))
    elif settings[found[0]][0].is_section:
        known = settings_of(USUAL) if found == ["algorithm"] and algorithm is None else settings
        yield from section(found[0], known)
    else:
        yield from full(settings[found[0]])


def matching(path: str, settings: Settings) -> list[str]:
    """Returns the path of a setting, by its full or short path; else those that end with it, or else contain it."""
    with suppress(ConfigError):  # several settings end so
        for exact in (path, unnamed(path), unnamed(path, "algorithm."), full_path(path)):
            if exact in settings:
                return [exact]
    ending = [known for known in settings if known.endswith(f".{path}")]
    return ending or [known for known in settings if path.lower() in known]


def unnamed(path: str, instead: str = "") -> str:
    """Returns the path in the list of settings for one with a name of the user, as ``policies.main.frozen``.

    Args:
        path: The path.
        instead: What stands for the section and the name: the settings of an algorithm are also those of a policy.
    """
    section, _, rest = path.partition(".")
    if section not in ("policies", "curriculum", "self_play") or "." not in rest:
        return path
    setting = rest.partition(".")[2]
    return f"{instead}{setting}" if instead else f"{section}.NAME.{setting}"


def near(path: str, settings: Settings) -> str:
    """Returns a hint that names the settings nearest to a path; an empty text if there are none."""
    hint = suggestion(path, settings)
    name = path.rpartition(".")[2]
    by_name = {known.rpartition(".")[2]: known for known in reversed(list(settings))}
    others = [by_name[one] for one in get_close_matches(name, by_name, n=NEAREST, cutoff=0.6)]
    others = [one for one in others if repr(one) not in hint]
    if hint:
        return hint + (f"; near it are {', '.join(others)}" if others else "")
    return f"; near it are {', '.join(others)}" if others else "; rookery config show lists the sections"


def usual(variants: Sequence[Setting]) -> Setting:
    """Returns the setting of PPO among those of a path, or the first."""
    return next((one for one in variants if one.only == USUAL), variants[0])


def overview(settings: Settings, algorithm: str) -> Iterator[str]:
    """Yields a line for each section, with its number of settings, and for each setting outside of sections."""
    top = [found[0] for path, found in settings.items() if "." not in path]
    width = max(len(one.path) for one in top)
    yield f"Settings of a run of {algorithm} (--algo NAME for another), and of experiments:"
    for one in top:
        count = sum(path.startswith(f"{one.path}.") for path in settings)
        label = f"{count:>4} " if one.is_section else "     "
        yield cut(f"{one.path:<{width}}{label} {one.text}")
    yield "rookery config show PATH shows a section or setting, or finds a part of a name."


def section(path: str, settings: Settings) -> Iterator[str]:
    """Yields the lines of a section: those of its settings, and the names of the sections inside."""
    yield from wrap(f"{path}: {settings[path][0].text}" if settings[path][0].text else path, WIDTH)
    inner: list[str] = []
    for known, variants in settings.items():
        below = known.removeprefix(f"{path}.").removeprefix("NAME.")
        if known.startswith(f"{path}.") and "." not in below:
            if variants[0].is_section:
                inner.append(known)
            else:
                yield from brief(variants)
    if inner:
        yield from wrap(f"sections inside: {', '.join(inner)}", WIDTH, subsequent_indent="    ")


def brief(variants: Sequence[Setting]) -> Iterator[str]:
    """Yields two lines: path, default and type; help."""
    one = usual(variants)
    default = one.default if one.default == REQUIRED else f"= {one.default}"
    of = f" [{', '.join(found.only for found in variants)}]" if one.only not in ("", USUAL) and variants[1:] else ""
    yield cut(f"{one.path}: a section" if one.is_section else f"{one.path} {default}  ({one.kind}){of}")
    yield cut(f"    {one.text}")


def full(variants: Sequence[Setting]) -> Iterator[str]:
    """Yields all that is known about a setting; its defaults by algorithm, search or scheduler."""
    one = usual(variants)
    defaults: dict[str, list[str]] = {}
    for found in variants:
        defaults.setdefault(found.default, []).append(found.only)
    shown = next(iter(defaults)) if len(defaults) == 1 else "; ".join(
        f"{default} ({', '.join(names)})" for default, names in defaults.items()
    )  # fmt: skip
    rows = {"value": one.kind, "default": shown, "help": one.text}
    if one.only and len(defaults) == 1:
        rows["of"] = ", ".join(found.only for found in variants)
    yield one.path
    for label, text in rows.items():
        yield from wrap(f"{label:<9}{text}", WIDTH, initial_indent="  ", subsequent_indent=" " * 11,
                        break_on_hyphens=False)  # fmt: skip


def changed(provenance: Provenance, path: str | None) -> Iterator[str]:
    """Yields the settings of a run, or of a section, that differ from their defaults: value, source, default."""
    count = 0
    for known, given in provenance.items():
        (first, default), (source, value) = given[0], given[-1]
        if source == DEFAULT or (first == DEFAULT and value == default) or " as algorithm." in source:
            continue  # a policy that inherits a setting is no change of its own
        if path is None or f"{known}.".startswith(f"{path.strip('.')}."):
            count += 1
            usually = f"default {default}" if first == DEFAULT else "no default"
            yield from wrap(f"{known} = {value}", WIDTH, subsequent_indent="    ")
            yield from wrap(f"{source}; {usually}", WIDTH, initial_indent="    ", subsequent_indent="    ")
    if not count:
        yield f"no setting{f' in {path}' if path else ''} differs from its default"


def cut(text: str) -> str:
    """Returns a text shortened to a line."""
    return text if len(text) <= WIDTH else f"{text[: WIDTH - 3].rstrip()}..."
