"""Which value of a setting wins, and who set it: `resolve`, the only merge, and Resolved, which explains the outcome.

Layers come lowest first: presets, a file, the command line or code, a trial. `resolve` checks all of them at once, and
keeps for each path the list of (source, value), of which the last wins.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field
from difflib import get_close_matches
from itertools import accumulate
from typing import Annotated, Any, Literal, get_args, get_origin

from rookery.core.errors import ConfigError
from rookery.core.layers import CLASS, Layer, flow, import_object, mapping_of, nested
from rookery.core.settings import (
    FEW,
    LIST,
    Fixed,
    Settings,
    advice,
    alternatives,
    bare,
    build,
    check,
    default_of,
    describe,
    fields_of,
    fixed_of,
    hints_of,
    is_undecided,
    object_name,
    optional,
    settings_class,
    show,
)

DEFAULT = "default"
"""The source of a value that nobody set."""


@dataclass(frozen=True)
class Polymorphic:
    """Marks a field whose settings class is chosen by their key ``name``: ``Annotated[Any, Polymorphic("ppo")]``.

    On a ``dict`` field it holds for each entry.

    Attributes:
        default: The name where none is given.
        inherits: Path of the section whose class and values an entry starts from, unless it names another class.
        entry: Config class of what stands around the settings of an entry: its field named like `inherits` takes the
            settings, its other fields are keys beside the settings' own.
    """

    default: str = ""
    inherits: str = ""
    entry: type[Settings] | None = None


@dataclass(frozen=True)
class Resolved:
    """The outcome of `resolve`.

    Attributes:
        config: The root settings.
        history: For each path, every (source, value), lowest first; the last one won.
        notes: Lines a user should read once: overrides without effect.
        fixed: The settings and sections that are marked as keeping their value, by path, with the reason.
        inherited: The settings of policies that come from the section all policies start from.
    """

    config: Any
    history: Mapping[str, list[tuple[str, Any]]]
    notes: tuple[str, ...] = ()
    fixed: Mapping[str, Fixed] = field(default_factory=dict)
    inherited: frozenset[str] = frozenset()

    def why_fixed(self, path: str) -> Fixed | None:
        """Gives the mark of a setting, or of the section it stands in; None if it may change."""
        way = accumulate(path.split("."), "{}.{}".format)
        return next((self.fixed[known] for known in way if known in self.fixed), None)

    def explain(self, path: str) -> str:
        """Who set `path`: the value that won, then those it beat. For a section, of each setting in it.

        Raises:
            ConfigError: If there is no such path.
        """
        inside = [known for known in self.history if known == path or known.startswith(f"{path}.")]
        if not inside:
            raise ConfigError(f"{path}: there is no such setting{_suggestion(path, self.history)}")
        lines: list[str] = []
        for known in inside:
            *beaten, (source, value) = self.history[known]
            lines.append(f"{known} = {flow(value)}  ({source})")
            lines += [f"    instead of {flow(value)}  ({source})" for source, value in reversed(beaten)]
        return "\n".join(lines)

    def given(self, path: str) -> bool:
        """Whether anything but a default set `path`, or anything in the section `path`."""
        inside = (values for known, values in self.history.items() if known == path or known.startswith(f"{path}."))
        return any(source != DEFAULT for values in inside for source, _ in values)

    def to_yaml(self) -> str:
        """The config as YAML that `yaml_layer` reads back, with the source of each value beside it.

        Classes and functions are written as ``module:Name``; other objects only as what they print.
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


def resolve(
    schema: type[Settings], layers: Sequence[Layer], classes: Callable[[str], type[Settings]] | None = None
) -> Resolved:
    """Merges layers into the settings of a run.

    Args:
        schema: The root config class.
        layers: Lowest first: presets, file, command line or code, trial. Defaults lie below all of them.
        classes: The config class of a short name such as ``ppo``, for `Polymorphic` fields; raises ConfigError or
            KeyError for unknown names. ``module:Name`` is read without it.

    Raises:
        ConfigError: With one line for each problem of any layer: ``source: path = value: what is allowed; a hint``.
    """
    merge = _Merge(tuple(layers), classes)
    config = merge.section(schema, "", [(i, nested(layer.values)) for i, layer in enumerate(layers)], None, "")
    problems = merge.problems + [merge.about_unknown(*item) for item in merge.unknown]
    if problems:
        raise ConfigError(*problems)
    inherited = frozenset(merge.inherited - merge.winner.keys())
    return Resolved(config, merge.history, tuple(merge.notes), merge.fixed, inherited)


_Parts = list[tuple[int, Any]]
"""What the layers say about one path: (number of the layer, value), lowest first."""


class _Merge:
    """One call of `resolve`: walks the schema once, with all layers side by side.

    Methods take the path they stand at, what the layers say there, the value to `start` from, and the path it is
    inherited from (empty where defaults are the schema's own). They return MISSING where a problem left no value.
    """

    def __init__(self, layers: tuple[Layer, ...], classes: Callable[[str], type[Settings]] | None) -> None:
        self.layers = layers
        self.classes = classes
        self.problems: list[str] = []
        self.unknown: list[tuple[int, str, Any]] = []
        self.notes: list[str] = []
        self.history: dict[str, list[tuple[str, Any]]] = {}
        self.winner: dict[str, int] = {}  # the number of the layer that set a path, where one did
        self.chosen: dict[str, type[Settings]] = {}  # the class of each polymorphic section
        self.built: dict[str, Any] = {}
        self.fixed: dict[str, Fixed] = {}
        self.inherited: set[str] = set()

    def section(self, cls: type[Settings], path: str, parts: _Parts, start: Any, inherits: str) -> Any:
        """The settings of a known class; `start` is an instance to change, or None for a new one."""
        fields, hints = fields_of(cls), hints_of(cls)
        dot = f"{path}." if path else ""
        self.unknown += [(i, f"{dot}{key}", part[key]) for i, part in parts for key in part if key not in fields]
        values: dict[str, Any] = {} if start is None else {name: getattr(start, name) for name in fields}
        given: set[str] = set() if start is None else set(start.given)
        complete = True
        last = {
            name for name in fields if (marker := polymorphic(hints[name])) and marker.inherits
        }  # after what they need
        for name in [*(name for name in fields if name not in last), *(name for name in fields if name in last)]:
            found = [(i, part[name]) for i, part in parts if name in part]
            default = values[name] if start is not None else default_of(fields[name])
            source = f"{inherits}.{name}" if inherits else ""
            if mark := fixed_of(cls, name):
                self.fixed[f"{dot}{name}"] = mark
            value = self.value(hints[name], f"{dot}{name}", found, default, source)
            if value is MISSING:
                complete = False
                continue
            values[name] = value
            if found:
                given.add(name)
        if not complete:
            return MISSING
        try:
            return build(cls, values, frozenset(given))
        except (ConfigError, ValueError) as error:  # of a __post_init__
            lines = error.problems if isinstance(error, ConfigError) else (str(error),)
            sources = dict.fromkeys(self.layers[i].source for i, part in parts if part)
            self.problems += [f"{', '.join(sources) or DEFAULT}: {path or cls.__name__}: {line}" for line in lines]
            return MISSING

    def value(self, hint: Any, path: str, parts: _Parts, start: Any, inherits: str) -> Any:
        """The value of a field, whatever its kind."""
        marker = polymorphic(hint)
        if mapping_hint(hint) is not None:
            return self.mapping(hint, path, parts, start, inherits, marker)
        if marker or settings_class(hint):
            return self.subsection(hint, path, parts, None if start is MISSING else start, inherits, marker)
        if bare(hint) is Any and parts and type(parts[-1][1]) is dict:  # a mapping inside a free mapping merges by key
            plain = max((at for at, (_, part) in enumerate(parts) if type(part) is not dict), default=-1)
            return self.mapping(hint, path, parts[plain + 1 :], start, inherits, None)
        return self.leaf(hint, path, parts, start, inherits)

    def leaf(self, hint: Any, path: str, parts: _Parts, start: Any, inherits: str) -> Any:
        """A value that is taken whole."""
        self.begin(path, start, inherits)
        value = start
        for i, raw in parts:
            read, wrong = _read(hint, raw)
            if wrong:
                self.refuse(i, path, raw, wrong)
            else:
                value = read
                self.set(i, path, read)
        if value is MISSING and not parts:
            self.problems.append(f"{path} is missing: it must be {describe(hint)}")
        return value

    def mapping(
        self, hint: Any, path: str, parts: _Parts, start: Any, inherits: str, marker: Polymorphic | None
    ) -> Any:
        """A dict, merged by key; a dict whose keys are not plain names is taken whole."""
        key_hint, inner = mapping_hint(hint) or (str, Any)
        start = {} if start is MISSING or not isinstance(start, Mapping | None) else start
        kept, start = self.switched(hint, path, parts, start)
        if start is None and not kept:
            return None
        keys = list(dict.fromkeys([*(start or {}), *(key for _, part in kept for key in part)]))
        plain = [key for key in keys if isinstance(key, str) and key and "." not in key]
        if marker:
            inner = Annotated[Any, marker]
            for i, part in kept:
                for key in part.keys() - set(plain):
                    self.refuse(i, f"{path}.{key}", part[key], "the name of an entry must be a text without dots")
        elif len(plain) < len(keys):
            return self.leaf(hint, path, parts, start, inherits)
        values: dict[str, Any] = {}
        for key in plain:
            here = f"{path}.{key}"
            found = [(i, part[key]) for i, part in kept if key in part]
            if found and (wrong := check(key_hint, key)[1]):
                self.refuse(found[-1][0], here, found[-1][1], f"the key {wrong}")
                continue
            source = f"{inherits}.{key}" if inherits else ""
            value = self.value(inner, here, found, (start or {}).get(key, MISSING), source)
            if value is not MISSING:
                values[key] = value
        if not keys:
            self.begin(path, MISSING if kept else {}, inherits)
            for i, _ in kept:
                self.set(i, path, {})
        return values

    def subsection(
        self, hint: Any, path: str, parts: _Parts, start: Any, inherits: str, marker: Polymorphic | None
    ) -> Any:
        """A section of settings, whose class may depend on what it says."""
        kept, start = self.switched(hint, path, parts, start)
        if start is None and not kept and optional(hint):
            self.begin(path, None, inherits)
            return None
        if marker and marker.entry:
            return self.entry(marker, marker.entry, path, kept, start)
        if marker:
            if marker.inherits:
                inherits, start = marker.inherits, None
            cls = self.choose(path, kept, start, inherits, marker)
            if cls is None:
                return MISSING
            if inherits == marker.inherits and inherits:
                inherits = inherits if cls is self.chosen.get(inherits) else ""
                start = self.built.get(inherits)
        else:
            declared = settings_class(hint)
            assert declared is not None
            cls = type(start) if isinstance(start, declared) else declared
            for i, part in kept:
                made = part.get(CLASS, declared)
                if not issubclass(made, declared):
                    self.refuse(i, path, made, f"must be {describe(hint)}")
                    return MISSING
                cls = made if CLASS in part else cls
        parts = [(i, {key: value for key, value in part.items() if key != CLASS}) for i, part in kept]
        value = self.section(cls, path, parts, start if type(start) is cls else None, inherits)
        self.built[path] = None if value is MISSING else value
        if marker and marker.inherits:
            self.note_shadowed(path, marker.inherits)
        return value

    def choose(self, path: str, kept: _Parts, start: Any, inherits: str, marker: Polymorphic) -> type[Settings] | None:
        """The class of a polymorphic section; leaves in `kept` only what was meant for it, without the name."""
        here, default = f"{path}.name", ""
        if inherits:
            cls = self.chosen.get(inherits)
        elif isinstance(start, Settings):
            cls = type(start)
        else:
            cls, default = (self.lookup(marker.default)[0] if marker.default else None), marker.default
        start_name = MISSING if cls is None else default or self.name_of(cls)
        self.begin(here, start_name, f"{inherits}.name" if inherits else "")
        self.inherited.discard(here)
        self.fixed[here] = Fixed.STRUCTURAL
        meant: list[type[Settings] | None] = []
        by, failed = -1, False
        for i, part in kept:
            named, wrong = part.get(CLASS), ""
            if named is None and part.get("name") is not None:
                named, wrong = self.lookup(part["name"])
            if wrong:
                failed = True
                self.refuse(i, here, part["name"], wrong)
            elif named is not None:
                cls, by = named, i
                self.set(i, here, part["name"] if isinstance(part.get("name"), str) else self.name_of(named))
            meant.append(named)
        if cls is None and not failed and not (inherits and inherits not in self.chosen):
            self.problems.append(f"{here} is missing: it chooses what {path} is")
        if cls is None or failed:
            return None
        self.chosen[path] = cls
        for at in reversed(range(len(kept))):
            i, part = kept[at]
            named = meant[at]
            if named is not None and not issubclass(cls, named):
                self.notes.append(
                    f"{self.layers[i].where(path)}: {path} is for {self.name_of(named)} and not used, because "
                    f"{self.layers[by].where(here)} chose {self.name_of(cls)}"
                )
                del kept[at]
            else:
                kept[at] = (i, {key: value for key, value in part.items() if key != "name"})
        return cls

    def entry(self, marker: Polymorphic, cls: type[Settings], path: str, kept: _Parts, start: Any) -> Any:
        """Settings that inherit, with the keys of `cls` beside them."""
        inside = marker.inherits.rpartition(".")[2]
        own = [name for name in fields_of(cls) if name != inside]
        around: _Parts = []
        settings: _Parts = []
        for i, part in kept:
            if part.get(CLASS) is cls:  # an object of the entry's class: its settings move up, beside its other fields
                held = part.get(inside) or {}
                if not isinstance(held, Mapping | Settings):
                    self.refuse(i, path, held, "must be a section of settings")
                    return MISSING
                part = {name: part[name] for name in own if name in part} | mapping_of(held)
            around.append((i, {name: part[name] for name in own if name in part}))
            settings.append((i, {key: value for key, value in part.items() if key not in own}))
        value = self.subsection(Any, path, settings, None, "", Polymorphic(marker.default, marker.inherits))
        values: dict[str, Any] = {inside: value}
        given = {inside} if any(part for _, part in settings) else set()
        for name in own:
            found = [(i, part[name]) for i, part in around if name in part]
            if mark := fixed_of(cls, name):
                self.fixed[f"{path}.{name}"] = mark
            default = default_of(fields_of(cls)[name]) if start is None else getattr(start, name)
            values[name] = self.value(hints_of(cls)[name], f"{path}.{name}", found, default, "")
            given |= {name} if found else set()
        return MISSING if MISSING in values.values() else build(cls, values, frozenset(given))

    def switched(self, hint: Any, path: str, parts: _Parts, start: Any) -> tuple[_Parts, Any]:
        """The mappings among `parts`: null switches an optional section off, and is an empty one elsewhere."""
        kept: _Parts = []
        for i, part in parts:
            if part is None and optional(hint):
                kept, start = [], None
                self.begin(path, MISSING, "")
                self.set(i, path, None)
            elif part is None:
                kept.append((i, {}))
            elif isinstance(part, Mapping) or (isinstance(part, Settings) and mapping_hint(hint) is None):
                self.history.pop(path, None)
                kept.append((i, mapping_of(part)))
            else:
                wanted = "a section of settings" if bare(hint) is Any else describe(hint)
                self.refuse(i, path, part, f"must be {wanted}{advice(hint, part)}")
        return kept, start

    def begin(self, path: str, start: Any, inherits: str) -> None:
        """Begins the history of a path: with its default, or with the history of the path it inherits from."""
        if inherits in self.history:
            before = self.history[inherits]
            self.history[path] = [(s if s == DEFAULT else f"{s} as {inherits}", value) for s, value in before]
            self.inherited.add(path)
        elif path not in self.history:
            self.history[path] = [] if start is MISSING else [(DEFAULT, start)]

    def set(self, i: int, path: str, value: Any) -> None:
        self.history[path].append((self.layers[i].where(path), value))
        self.winner[path] = i

    def refuse(self, i: int, path: str, value: Any, why: str) -> None:
        self.problems.append(f"{self.layers[i].where(path)}: {path} = {show(value)}: {why}")

    def lookup(self, name: Any) -> tuple[type[Settings] | None, str]:
        """The config class of a name, and what is wrong with the name."""
        if isinstance(name, type) and issubclass(name, Settings):
            return name, ""
        if not isinstance(name, str) or not name:
            return None, "must be a name"
        if ":" not in name and self.classes is None:
            return None, "must be module:Name"
        try:
            found = import_object(name) if ":" in name or self.classes is None else self.classes(name)
        except ConfigError as error:
            return None, "; ".join(error.problems)
        except KeyError as error:
            return None, str(error.args[0]) if error.args else "there is no such name"
        if not (isinstance(found, type) and issubclass(found, Settings)):
            return None, "names no settings class"
        return found, ""

    def name_of(self, cls: type[Settings]) -> str:
        """The short name of a class (``ppo`` of PPOConfig) if it is one, else ``module:Name``."""
        short = cls.__name__.removesuffix("Config").lower()
        return short if self.lookup(short)[0] is cls else object_name(cls)

    def note_shadowed(self, path: str, inherits: str) -> None:
        """Notes each value of an entry that beats a value of the common section from a higher layer."""
        for here, i in self.winner.items():
            above = f"{inherits}{here[len(path) :]}"
            if here.startswith(f"{path}.") and self.winner.get(above, -1) > i:
                (own, value), (common, beaten) = self.history[here][-1], self.history[above][-1]
                self.notes.append(f"{here} = {flow(value)} ({own}) wins over {above} = {flow(beaten)} ({common})")

    def about_unknown(self, i: int, path: str, value: Any) -> str:
        """The line for a key that is no setting."""
        section = path.rpartition(".")[0]
        dot = f"{section}." if section else ""
        near = dict.fromkeys(known[len(dot) :].split(".")[0] for known in self.history if known.startswith(dot))
        listed = f"; known here: {', '.join(near)}" if len(near) <= FEW else ""
        hint = f"{_suggestion(path, self.history)}{listed}" or LIST
        return f"{self.layers[i].where(path)}: {path} = {show(value)}: there is no such setting{hint}"


def _suggestion(path: str, known: Iterable[str]) -> str:
    """A hint to the path that was meant: the same name elsewhere, a similar one here, a similar one elsewhere."""
    section, _, name = path.rpartition(".")
    paths = dict.fromkeys(".".join(p.split(".")[:n]) for p in known for n in range(1, p.count(".") + 2))

    def closeness(other: str) -> tuple[int, int, int]:
        shared = 0
        for a, b in zip(section.split("."), other.split("."), strict=False):
            if a != b:
                break
            shared += 1
        return (-shared, other.count("."), len(other))

    def best(names: Iterable[str], among: Iterable[str]) -> str:
        found = sorted((p for p in among if p.rpartition(".")[2] in names), key=closeness)
        return f"; did you mean {found[0]!r}?" if found else ""

    def close(among: Iterable[str]) -> list[str]:
        return get_close_matches(name, {p.rpartition(".")[2] for p in among}, n=1)

    here = [p for p in paths if p.rpartition(".")[0] == section]
    return best([name], paths) or best(close(here), here) or best(close(paths), paths)


def _read(hint: Any, raw: Any) -> tuple[Any, str]:
    """A value as the field keeps it, and what is wrong with it; imports ``module:Name`` where an object is wanted."""
    if is_undecided(raw):
        return None, "only tune.run (rookery tune) tries values; a single training needs one of them"
    kinds = [get_origin(bare(part)) or bare(part) for part in alternatives(hint)]
    objects = type in kinds or Callable in kinds
    if isinstance(raw, str) and objects and not {str, Any, Literal} & set(kinds):
        try:
            raw = import_object(raw)
        except ConfigError as error:
            return None, str(error)
    return check(hint, raw)


def polymorphic(hint: Any) -> Polymorphic | None:
    """Gives the marker of a field whose class is chosen by name; None for other fields."""
    parts = [part for part in (hint, *alternatives(hint)) if get_origin(part) is Annotated]
    return next((item for part in parts for item in get_args(part)[1:] if isinstance(item, Polymorphic)), None)


def mapping_hint(hint: Any) -> tuple[Any, Any] | None:
    """The key and value types of a dict field, or of a dict or None; None for other fields."""
    kinds = [bare(part) for part in alternatives(hint) if part is not types.NoneType]
    if len(kinds) != 1 or (get_origin(kinds[0]) or kinds[0]) not in (dict, Mapping):
        return None
    key, inner = get_args(kinds[0]) or (Any, Any)
    return key, inner
