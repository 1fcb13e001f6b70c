"""Merging of settings: `resolve` merges all layers, and `Resolved` has the result and the source of each value.

Layers are ordered lowest first: presets, a file, the command line or code, a trial. `resolve` checks all of them at
once, and keeps the list of (source, value) of each path; the last one wins.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, replace
from functools import cache
from itertools import accumulate, islice
from typing import Annotated, Any, Generic, Literal, NamedTuple, TypeVar, get_args, get_origin

from rookery.core.errors import ConfigError
from rookery.core.settings.class_names import ClassNames
from rookery.core.settings.fields import (
    Fixed,
    Settings,
    advice,
    alternatives,
    alternatives_in,
    bare,
    build,
    check,
    default_of,
    describe,
    fields_of,
    fixed_of,
    former_names,
    former_values,
    hints_of,
    is_undecided,
    one_of_each,
    optional,
    settings_class,
    show,
    unknown,
    with_current_names,
)
from rookery.core.settings.hints import suggestion
from rookery.core.settings.layers import CLASS, Layer, flow, import_object, mapping_of, nested
from rookery.core.settings.path_settings import locate, may_hold_paths
from rookery.core.settings.secrets import hidden

C = TypeVar("C")

DEFAULT = "default"
"""Source of a value that no layer sets."""

MAX_UNKNOWN = 50
"""Maximum number of unknown keys named in errors, each with the nearest known setting."""

MAX_KNOWN = 10_000
"""Maximum number of paths searched for the nearest setting: those of many policies are alike."""


@dataclass(frozen=True)
class Polymorphic:
    """Marks a field whose key ``name`` chooses its settings class: ``Annotated[Any, Polymorphic("ppo")]``.

    On a ``dict`` field it holds for each entry.

    Attributes:
        default: The name if none is given.
        inherits: Path of the section whose class and values an entry starts from, unless it names another class.
        entry: Config class of an entry: its field named like `inherits` has the settings, its other fields are keys at
            the same level as the settings' keys.
    """

    default: str = ""
    inherits: str = ""
    entry: type[Settings] | None = None
    advice: str = ""


@dataclass(frozen=True)
class Resolved(Generic[C]):
    """Result of `resolve`.

    Attributes:
        config: The root settings, an instance of the schema.
        history: For each path, every (source, value), lowest first; the last one won.
        notes: Notes for the user, such as overrides without effect.
        fixed: Settings and sections marked as fixed, by path, with the reason.
        inherited: Settings of policies that come from the common section of all policies.
        folders: Base folder of relative paths, by path of the setting. The history has the values as typed, `config`
            has absolute paths for settings with a path type.
    """

    config: C
    history: Mapping[str, list[tuple[str, Any]]]
    notes: tuple[str, ...] = ()
    fixed: Mapping[str, Fixed] = field(default_factory=dict)
    inherited: frozenset[str] = frozenset()
    folders: Mapping[str, str] = field(default_factory=dict)

    def why_fixed(self, path: str) -> Fixed | None:
        """Returns the reason why a setting, or its section, is fixed; None if it may change."""
        way = accumulate(path.split("."), "{}.{}".format)
        return next((self.fixed[known] for known in way if known in self.fixed), None)

    def explain(self, path: str) -> str:
        """Returns the sources of `path`, as text of `explain_history`."""
        return explain_history(self.history, path, flow)

    def given(self, path: str) -> bool:
        """Returns whether a layer sets `path`, or anything in the section `path`."""
        inside = (values for known, values in self.history.items() if known == path or known.startswith(f"{path}."))
        return any(source != DEFAULT for values in inside for source, _ in values)

    def to_yaml(self) -> str:
        """Returns the config as YAML that `yaml_layer` can read, with the source of each value in a comment.

        Classes and functions are written as ``module:Name``; other objects as their printed form.
        """
        rows: list[tuple[str, str]] = []

        def write(tree: Mapping[str, Any], depth: int) -> None:
            for key, node in tree.items():
                label = f"{'  ' * depth}{flow(key)}:"
                if isinstance(node, list):
                    source, value = node[-1]
                    rows.append((f"{label} {flow(value)}", source))
                else:
                    rows.append((label, ""))
                    write(node, depth + 1)

        write(nested(self.history), 0)
        width = min(max((len(text) for text, _ in rows), default=0), 60)
        return "".join(f"{text:<{width}}  # {source}\n" if source else f"{text}\n" for text, source in rows)


def explain_history(history: Mapping[str, Sequence[tuple[str, C]]], path: str, write: Callable[[C], str]) -> str:
    """Returns the sources of `path`: the value that won, then the overridden ones. For a section, those of each
    setting.

    Args:
        history: For each path, every (source, value), lowest first; the last one won.
        path: Path of a setting or section.
        write: Converts a value to text.

    Raises:
        ConfigError: If there is no such path.
    """
    inside = [known for known in history if known == path or known.startswith(f"{path}.")]
    if not inside:
        raise ConfigError(f"{path}: there is no such setting{suggestion(path, history)}")
    lines: list[str] = []
    for known in inside:
        *beaten, (source, value) = history[known]
        lines.append(f"{known} = {write(value)}  ({source})")
        lines += [f"    instead of {write(value)}  ({source})" for source, value in reversed(beaten)]
    return "\n".join(lines)


V = TypeVar("V")


def current_path(config: Settings, path: str) -> str:
    """Returns the present path of a setting for a path of a stored run (see `FormerName`)."""
    return current_setting(config, path, None)[0]


def current_history(
    config: Settings, history: Mapping[str, Sequence[tuple[str, V]]]
) -> dict[str, list[tuple[str, V | str]]]:
    """Returns the history of settings of a stored run, by path, with present paths and values."""
    return {
        current_path(config, path): [(source, current_setting(config, path, value)[1]) for source, value in given]
        for path, given in history.items()
    }


def current_setting(config: Settings, path: str, value: V) -> tuple[str, V | str]:
    """Returns the present path and value of a setting for those of a stored run (see `FormerName`, `FormerValue`)."""
    node: Any = config
    names: list[str] = []
    known: Mapping[str, str] = {}
    for name in path.split("."):
        if isinstance(node, Settings) and name not in fields_of(type(node)) and name not in former_names(type(node)):
            inside = [part for part in vars(node).values() if isinstance(part, Settings)]
            node = inside[0] if len(inside) == 1 else None  # the keys of an entry are at the level of its settings
        if isinstance(node, Settings):
            name = former_names(type(node)).get(name, (name,))[0] if name not in fields_of(type(node)) else name
            known = former_values(type(node)).get(name, {})
            node = getattr(node, name, None)
        else:
            node = node.get(name) if isinstance(node, Mapping) else None
            known = {}
        names.append(name)
    return ".".join(names), known.get(value, value) if isinstance(value, str) else value


def resolve(schema: type[C], layers: Sequence[Layer], names: Mapping[str, str] | None = None) -> Resolved[C]:
    """Merges layers into the settings of a run.

    Args:
        schema: The root config class.
        layers: Lowest first: presets, file, command line or code, trial. Defaults are below all of them.
        names: Import paths of config classes by short name such as ``ppo``, for `Polymorphic` fields; ``module:Name``
            is always accepted.

    Raises:
        ConfigError: With one line for each problem of any layer: ``source: path = value: what is allowed; a hint``.
    """
    merge = _Merge(names or {})
    trees = [_Node(layer, rank, "", hidden("", nested(layer.values))) for rank, layer in enumerate(layers)]
    config = merge.section(schema, "", trees, None)
    _refuse_unknown(merge)
    if merge.problems:
        raise ConfigError(*merge.problems)
    return Resolved(config, merge.history, tuple(merge.notes), merge.fixed, frozenset(merge.inherited), merge.folders)


@dataclass(frozen=True)
class _Node:
    """Value of one layer at one path.

    Attributes:
        layer: The layer.
        rank: Index of the layer; the highest wins.
        path: The path in the layer.
        value: The value there.
        inherited: Whether it belongs to the common section of policies, whose errors are reported there.
        former: Former names of keys that the layer uses in this mapping, by present name.
    """

    layer: Layer
    rank: int
    path: str
    value: Any
    inherited: bool = False
    former: Mapping[str, str] = field(default_factory=dict)

    def at(self, key: Any, value: Any) -> _Node:
        """Returns the layer's value at a key of this mapping."""
        key = self.former.get(key, key)
        path = f"{self.path}.{key}" if self.path else str(key)
        return _Node(self.layer, self.rank, path, hidden(key, value), self.inherited)

    def without(self, *keys: str) -> _Node:
        """Returns this mapping without some keys."""
        return replace(self, value={key: value for key, value in self.value.items() if key not in keys})

    @property
    def source(self) -> str:
        """The most exact source known, for the history."""
        return f"{self.layer.where(self.path)} as {self.path}" if self.inherited else self.layer.where(self.path)


@cache
def _is_leaf(cls: type, name: str) -> bool:
    """Returns whether values of a field are never merged, whatever they are; `_Merge.value` decides it for others."""
    hint = hints_of(cls)[name]
    return not (mapping_hint(hint) or polymorphic(hint) or settings_class(hint) or bare(hint) is Any)


def _inside(parts: list[_Node], key: Any) -> list[_Node]:
    """Returns the layers' values at a key, of those that have it."""
    return [node.at(key, node.value[key]) for node in parts if key in node.value]


class _Chosen(NamedTuple):
    """Section whose class was chosen by name; policies that choose no other class start from it."""

    cls: type[Settings]
    nodes: list[_Node]
    start: Any
    name: Any  # of the default class


class _Merge:
    """One call of `resolve`: walks the schema once, with all layers in parallel.

    Methods take the present path, the layers' values there (lowest first), and the default `start`. They return MISSING
    if a problem left no value.
    """

    def __init__(self, names: Mapping[str, str]) -> None:
        self.names = ClassNames(names)
        self.problems: list[str] = []
        self.unknown: list[_Node] = []
        self.notes: list[str] = []
        self.history: dict[str, list[tuple[str, Any]]] = {}
        self.fixed: dict[str, Fixed] = {}
        self.inherited: set[str] = set()
        self.apart: set[str] = set()  # paths in sections of another class than the common section
        self.folders: dict[str, str] = {}
        self.rank: dict[str, int] = {}  # of the layer that set a path itself, if any
        self.chosen: dict[str, _Chosen] = {}

    def section(self, cls: type, path: str, parts: list[_Node], start: Settings | None) -> Any:
        """Returns the settings of a known class; `start` is an instance to change, or None for a new one."""
        fields = fields_of(cls)
        parts = [self.renamed(cls, node) for node in parts] if former_names(cls) or former_values(cls) else parts
        own = [node for node in parts if not node.inherited]
        self.unknown += [node.at(key, node.value[key]) for node in own for key in node.value if key not in fields]
        parts, wrong = _taken_back(cls, parts, start) if alternatives_in(cls) else (parts, [])
        self.problems += wrong
        values: dict[str, Any] = {}
        given = set() if start is None else set(start.given)
        for name in _in_order(cls):
            found = _inside(parts, name)
            default = default_of(fields[name]) if start is None else getattr(start, name)
            values[name] = self.field(cls, name, f"{path}.{name}" if path else name, found, default)
            given |= {name} if found else set()
        if any(value is MISSING for value in values.values()):
            return MISSING
        try:
            return build(cls, values, frozenset(given))
        except (ConfigError, ValueError) as error:  # of a __post_init__
            lines = error.problems if isinstance(error, ConfigError) else (str(error),)
            sources = dict.fromkeys(node.layer.source for node in parts if node.value)
            self.problems += [f"{', '.join(sources) or DEFAULT}: {path or cls.__name__}: {line}" for line in lines]
            return MISSING

    def renamed(self, cls: type, node: _Node) -> _Node:
        """Returns a layer's values under present names, with a note for each former name and value."""
        now = with_current_names(cls, node.value, node.layer.stored)
        node = replace(node, value=now.values, former=now.former)
        if not node.inherited:
            self.problems += [f"{node.source}: {f'{node.path}: ' if node.path else ''}{line}" for line in now.problems]
            for name, note in () if now.problems or node.layer.stored else now.notes:
                self.notes.append(f"{node.at(name, None).source}: {node.at(name, None).path}{note}")
        return node

    def field(self, cls: type, name: str, path: str, parts: list[_Node], start: Any) -> Any:
        """Returns the value of a field of a class."""
        if mark := fixed_of(cls, name):
            self.fixed[path] = mark
        return (self.leaf if _is_leaf(cls, name) else self.value)(hints_of(cls)[name], path, parts, start)

    def value(self, hint: Any, path: str, parts: list[_Node], start: Any) -> Any:
        """Returns a value of a type of any kind."""
        if mapping_hint(hint) is not None:
            return self.mapping(hint, path, parts, start)
        if polymorphic(hint) or settings_class(hint):
            return self.subsection(hint, path, parts, None if start is MISSING else start)
        if bare(hint) is Any and parts and type(parts[-1].value) is dict:  # a mapping in a free mapping merges by key
            plain = max((at for at, node in enumerate(parts) if type(node.value) is not dict), default=-1)
            return self.mapping(hint, path, parts[plain + 1 :], start)
        return self.leaf(hint, path, parts, start)

    def leaf(self, hint: Any, path: str, parts: list[_Node], start: Any) -> Any:
        """Returns a value that is not merged."""
        self.begin(path, start)
        for node in parts:
            read, wrong = _read(hint, node.value)
            if wrong:
                self.refuse(node, wrong)
            else:
                self.set(node, path, read)
                start = self.located(hint, node, path, read)
        if start is MISSING and not parts:
            self.problems.append(f"{path} is missing: it must be {describe(hint)}")
        return start

    def mapping(self, hint: Any, path: str, parts: list[_Node], start: Any) -> Any:
        """Returns a dict, merged by key; a dict is replaced as a whole if its keys are not plain names."""
        key_hint, inner = mapping_hint(hint) or (str, Any)
        kept, start = self.switched(hint, path, parts, start if isinstance(start, Mapping | None) else {})
        if start is None and not kept:
            return None
        start = start or {}
        keys = list(dict.fromkeys([*start, *(key for node in kept for key in node.value)]))
        odd = [key for key in keys if not isinstance(key, str) or not key or "." in key]
        if marker := polymorphic(hint):
            inner = inner if polymorphic(inner) else Annotated[Any, marker]
            for node in (node for key in odd for node in _inside(kept, key)):
                self.refuse(node, "the name of an entry must be a text without dots")
        elif odd:
            return self.leaf(hint, path, parts, start)
        values: dict[str, Any] = {}
        for key in (key for key in keys if key not in odd):
            found = _inside(kept, key)
            if found and (wrong := check(key_hint, key)[1]):
                self.refuse(found[-1], f"the key {wrong}")
                continue
            value = self.value(inner, f"{path}.{key}", found, start.get(key, MISSING))
            if value is not MISSING:
                values[self.located(key_hint, found[-1], f"{path}.{key}", key) if found else key] = value
        if not keys:
            self.begin(path, MISSING if kept else {})
            for node in kept:
                self.set(node, path, {})
        return values

    def subsection(self, hint: Any, path: str, parts: list[_Node], start: Any) -> Any:
        """Returns a section of settings, whose class may depend on its values."""
        kept, start = self.switched(hint, path, parts, start)
        if start is None and not kept and optional(hint):
            self.begin(path, None)
            return None
        declared = settings_class(hint) or Settings
        if marker := polymorphic(hint):
            return self.entry(marker, path, kept) if marker.entry else self.choose(marker, declared, path, kept, start)
        cls = type(start) if isinstance(start, declared) else declared
        for node in kept:
            made = node.value.get(CLASS, cls)
            if not issubclass(made, declared):
                self.refuse(replace(node, value=made), f"must be {describe(hint)}")
                return MISSING
            cls = made
        return self.section(cls, path, [node.without(CLASS) for node in kept], start if type(start) is cls else None)

    def choose(self, marker: Polymorphic, declared: type[Settings], path: str, parts: list[_Node], start: Any) -> Any:
        """Returns the settings of a section whose key ``name`` chooses the class; notes values for another class."""
        here, common, before = f"{path}.name", self.chosen.get(marker.inherits), len(self.history)
        cls: type[Settings] | None = None
        name: Any = MISSING
        if common is not None:
            cls, name, start = common.cls, common.name, common.start
            parts = [*(replace(node, inherited=True) for node in common.nodes), *parts]
        elif isinstance(start, Settings):
            cls, name = type(start), self.names.of(type(start))
        elif marker.default:
            cls, name = self.names.find(marker.default)[0], marker.default
        self.begin(here, name)
        self.fixed[here] = Fixed.STRUCTURAL
        named: list[type[Settings] | None] = []
        last, failed, above = None, False, cls  # above: the class of the common section
        for node in parts:
            called, found, wrong = self.names.spelled(node.value.get("name")), node.value.get(CLASS), ""
            if found is None and called is not None:
                found, wrong = self.names.find(called)
            if found is not None and not issubclass(found, declared):
                wrong = f"must be settings that derive from {declared.__name__}"
            if wrong:
                failed = True
                self.refuse(node.at("name", found if called is None else called), wrong)
            elif found is not None:
                cls, last = found, node.at("name", called)
                self.set(last, here, called if isinstance(called, str) else self.names.of(found))
            named.append(found)
            above = cls if node.inherited else above
        if cls is None and not failed and not marker.inherits:
            self.problems.append(f"{here} is missing: it chooses what {path} is")
        if cls is None or failed:
            return MISSING
        same = cls is above
        kept = []
        for node, found in zip(parts, named, strict=True):
            if (found is None or issubclass(cls, found)) and (same or not node.inherited):
                kept.append(node.without("name", CLASS))
            elif not node.inherited and found is not None and last is not None:
                self.notes.append(
                    f"{node.source}: {path} is for {self.names.of(found)} and not used, because {last.source} chose "
                    f"{self.names.of(cls)}"
                )
        value = self.section(cls, path, kept, start if type(start) is cls and (same or common is None) else None)
        self.chosen[path] = _Chosen(cls, [] if value is MISSING else parts, start, name)
        new = islice(reversed(self.history), len(self.history) - before)
        inside = [known for known in reversed(list(new)) if known.startswith(f"{path}.")]
        self.apart |= set() if same else set(inside)
        if marker.inherits and value is not MISSING:
            _compare(self, inside, path, marker.inherits)
        return value

    def entry(self, marker: Polymorphic, path: str, parts: list[_Node]) -> Any:
        """Returns settings that start from another section; the keys of `Polymorphic.entry` are on the same level."""
        cls, inside = marker.entry, marker.inherits.rpartition(".")[2]
        assert cls is not None
        own = [name for name in fields_of(cls) if name != inside]
        kept = []
        for node in parts:
            if node.value.get(CLASS) is cls:  # of the entry's class: its settings move up a level
                held = node.value.get(inside) or {}
                if not isinstance(held, Mapping | Settings):
                    self.refuse(replace(node, value=held), "must be a section of settings")
                    return MISSING
                beside = {name: node.value[name] for name in own if name in node.value}
                node = replace(node, value=beside | mapping_of(held))
            kept.append(node)
        settings = [node.without(*own) for node in kept]
        declared = settings_class(hints_of(cls)[inside]) or Settings
        values = {inside: self.choose(marker, declared, path, settings, None)}
        given = {inside} if any(node.value for node in settings) else set()
        for name in own:
            found = _inside(kept, name)
            values[name] = self.field(cls, name, f"{path}.{name}", found, default_of(fields_of(cls)[name]))
            given |= {name} if found else set()
        return MISSING if any(value is MISSING for value in values.values()) else build(cls, values, frozenset(given))

    def switched(self, hint: Any, path: str, parts: list[_Node], start: Any) -> tuple[list[_Node], Any]:
        """Returns the mappings among `parts`: null switches an optional section off, and is empty otherwise. If a name
        chooses the class of a section, a text or a class alone chooses it.
        """
        kept: list[_Node] = []
        for node in parts:
            value = _long_form(hint, node.value)
            if value is None and optional(hint):
                kept, start = [], None
                self.begin(path, MISSING)
                self.set(node, path, None)
            elif value is None:
                kept.append(replace(node, value={}))
            elif isinstance(value, Mapping) or (isinstance(value, Settings) and mapping_hint(hint) is None):
                self.history.pop(path, None)
                kept.append(replace(node, value=mapping_of(value)))
            else:
                wanted = "a section of settings" if Any in map(bare, alternatives(hint)) else describe(hint)
                self.refuse(node, f"must be {wanted}{_remedy(hint, value)}")
        return kept, start

    def located(self, hint: Any, node: _Node, path: str, value: Any) -> Any:
        """Returns a value with absolute paths, if its type has paths."""
        if may_hold_paths(hint, value):
            value, self.folders[path], notes = locate(hint, value, node.layer.folders(node.path))
            self.notes += [f"{path} = {note}" for note in notes if not node.inherited]
        return value

    def begin(self, path: str, start: Any) -> None:
        """Begins the history of a path with its default, if there is one."""
        self.history.setdefault(path, [] if start is MISSING else [(DEFAULT, start)])

    def set(self, node: _Node, path: str, value: Any) -> None:
        """Adds a value to the history of a path, and records the rank of its layer."""
        self.history[path].append((node.source, value))
        if not node.inherited:
            self.rank[path] = node.rank

    def refuse(self, node: _Node, why: str) -> None:
        """Adds a problem; a problem of an inherited value is only reported for the common section."""
        if not node.inherited:
            self.problems.append(f"{node.source}: {node.path} = {show(node.value)}: {why}")


def _compare(merge: _Merge, inside: list[str], path: str, inherits: str) -> None:
    """Finds the values of an entry that come from the common section; notes each value that overrides a higher layer
    there.

    Args:
        merge: The merge, whose history has both.
        inside: Paths in the entry.
        path: The path of the entry.
        inherits: The path of the common section.
    """
    for here in inside:
        if (above := f"{inherits}{here[len(path) :]}") not in merge.history:
            continue
        (own, value), (common, other) = merge.history[here][-1], merge.history[above][-1]
        if here not in merge.rank and here != f"{path}.name" and (own != DEFAULT or flow(value) == flow(other)):
            merge.inherited |= {here} - merge.apart
        elif here in merge.rank and merge.rank.get(above, -1) > merge.rank[here]:
            merge.notes.append(f"{here} = {flow(value)} ({own}) wins over {above} = {flow(other)} ({common})")


def _refuse_unknown(merge: _Merge) -> None:
    """Adds a problem for each of the first unknown keys, with the nearest known path, and one for the rest."""
    known = list(islice(merge.history, MAX_KNOWN))
    for node in merge.unknown[:MAX_UNKNOWN]:
        section = node.path.rpartition(".")[0]
        dot = f"{section}." if section else ""
        near = dict.fromkeys(one[len(dot) :].split(".")[0] for one in known if one.startswith(dot))
        merge.refuse(node, unknown(suggestion(node.path, known), near))
    for node in merge.unknown[MAX_UNKNOWN : MAX_UNKNOWN + 1]:
        more = len(merge.unknown) - MAX_UNKNOWN
        merge.problems.append(f"{node.source}: {node.path}: from here on {more:,} more keys are not settings either")


def _taken_back(cls: type, parts: list[_Node], start: Settings | None) -> tuple[list[_Node], list[str]]:
    """Returns the layers' values for a class with alternative settings, without those a higher layer overrides by the
    alternative (see `one_of_each`), and a line for each mistake.
    """
    now = {name: default_of(field) for name, field in fields_of(cls).items()} if start is None else vars(start)
    kept: list[_Node] = []
    lines: list[str] = []
    for node in parts:
        values, problems = one_of_each(cls, node.value, now)
        lines += [f"{node.source}: {node.path}: {problem}" for problem in problems if not node.inherited]
        kept.append(replace(node, value=values))
        now = {**now, **values}
    return kept, lines


def _long_form(hint: Any, value: Any) -> Any:
    """Returns a section as a mapping; a text or a class is expanded to a mapping that chooses the class."""
    chosen = isinstance(value, str | type) and mapping_hint(hint) is None and polymorphic(hint) is not None
    return {"name": value} if chosen else value


def _remedy(hint: Any, value: Any) -> str:
    """Returns a remedy for a value in place of a section."""
    marker = polymorphic(hint) if isinstance(value, list | tuple) and mapping_hint(hint) is None else None
    return f"; {marker.advice}" if marker and marker.advice else advice(hint, value)


def _read(hint: Any, raw: Any) -> tuple[Any, str]:
    """Returns a value as stored in the field, and its problem; ``module:Name`` is imported for an object."""
    if is_undecided(raw):
        return None, "only tune.run (rookery tune) tries values; a single training needs one of them"
    if isinstance(raw, str) and _is_named(hint):
        try:
            raw = import_object(raw)
        except ConfigError as error:
            return None, str(error)
    return check(hint, raw)


@cache
def _is_named(hint: Any) -> bool:
    """Returns whether a field takes a class or function but no text, so that a text is a name."""
    kinds = {get_origin(bare(part)) or bare(part) for part in alternatives(hint)}
    return bool(kinds & {type, Callable}) and not kinds & {str, Any, Literal}


@cache
def _in_order(cls: type) -> list[str]:
    """Returns the fields of a config class; those that start from another section come last."""
    markers = {name: polymorphic(hint) for name, hint in hints_of(cls).items()}
    return sorted(fields_of(cls), key=lambda name: bool((marker := markers[name]) and marker.inherits))


@cache
def polymorphic(hint: Any) -> Polymorphic | None:
    """Returns the marker of a field whose class is chosen by name; None for other fields."""
    parts = [part for part in (hint, *alternatives(hint)) if get_origin(part) is Annotated]
    return next((item for part in parts for item in get_args(part)[1:] if isinstance(item, Polymorphic)), None)


@cache
def mapping_hint(hint: Any) -> tuple[Any, Any] | None:
    """Returns the key and value types of a dict field, or of a dict or None; None for other fields."""
    kinds = [bare(part) for part in alternatives(hint) if part is not types.NoneType]
    if len(kinds) != 1 or (get_origin(kinds[0]) or kinds[0]) not in (dict, Mapping):
        return None
    key, inner = get_args(kinds[0]) or (Any, Any)
    return key, inner
