"""Classes and functions of a script, found again by name in its file when its runs are read later.

A script cannot be imported as a module can: that would start its training. So of its top level only those statements
are run that define a name, and those that define the names used there. The body of ``if __name__ == "__main__":``
belongs to the top level. Of calls that stand alone only those are run that are methods of such a name, as in
``parser.add_argument(...)``, or register the environment of the run.
"""

from __future__ import annotations

import ast
import builtins
import dis
import hashlib
import os
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from rookery.core.errors import ConfigError, nearest
from rookery.core.process.tracebacks import described
from rookery.core.settings.fields import Settings, hints_of, object_name
from rookery.core.settings.layers import import_object
from rookery.core.settings.starting_folder import started_in, starting_folder

MAIN = "__main__"

PREFIX = f"{MAIN}:"
"""Begins import paths of classes and functions of a script."""

USES, BINDS = ("LOAD_GLOBAL", "LOAD_NAME"), ("STORE_GLOBAL", "STORE_NAME")
"""Instructions that read and that bind a global name."""

STAR = "*"
"""Stands for the names of ``from module import *``, which the text of a script does not have."""

REGISTER = ("register", "register_env")
"""Functions that register an environment."""

_DEFINING: ContextVar[str] = ContextVar("defining", default="")


@dataclass(frozen=True)
class ScriptRecord:
    """Record of a script, by which its definitions are found again.

    Attributes:
        file: Absolute path of the script.
        sha256: Hash of its text.
        arguments: Its arguments, without secrets.
        folder: Working directory in which it was started.
    """

    file: str
    sha256: str
    arguments: tuple[str, ...] = ()
    folder: str = ""

    @classmethod
    def of(cls, values: Iterable[Any], arguments: Iterable[str]) -> ScriptRecord | None:
        """Returns the record of the script that defines these classes and functions; None if no file defines them."""
        for value in values:
            for one in value if isinstance(value, list | tuple) else (value,):
                if (opened := _opened_with(one)) is not None:
                    return opened.record
        file = getattr(sys.modules.get(MAIN), "__file__", None)
        if not isinstance(file, str) or not os.path.isfile(file):
            return None
        return cls(os.path.abspath(file), _hash_of(file), tuple(arguments), starting_folder())

    @classmethod
    def read(cls, facts: Mapping[str, Any]) -> ScriptRecord:
        """Returns a record from what `facts` returned."""
        return cls(facts["file"], facts["sha256"], tuple(facts["arguments"]), facts["folder"])

    def facts(self) -> dict[str, Any]:
        """Returns the record for JSON."""
        return asdict(self)

    def find(self, text: str) -> Any:
        """Returns the class or function ``__main__:Name`` of the script, defined again if another program runs now.

        Raises:
            ConfigError: If the script or the name is gone, or a statement that is needed raises an exception.
        """
        name = text.removeprefix(PREFIX)
        running = sys.modules.get(MAIN)
        if getattr(running, "__file__", None) == self.file and (found := _inside(vars(running), name)) is not None:
            return found
        return _open(self).find(name)

    def register(self, env_id: str) -> None:
        """Registers an environment as the script does, unless it is the program that runs now.

        Raises:
            ConfigError: If the script is gone, or a statement that is needed raises an exception.
        """
        if getattr(sys.modules.get(MAIN), "__file__", None) != self.file:
            _open(self).register(env_id)

    @property
    def note(self) -> str:
        """A line if another program runs now and the script has changed since the checkpoint; else empty."""
        is_running = getattr(sys.modules.get(MAIN), "__file__", None) == self.file
        if is_running or not os.path.isfile(self.file) or _hash_of(self.file) == self.sha256:
            return ""
        return f"{self.file} has changed since this checkpoint: classes and functions of it are those of today"


@dataclass(frozen=True)
class Statement:
    """A statement at the top level of a script.

    Attributes:
        code: The compiled statement.
        binds: Global names that it binds or changes; `STAR` for those of a module that it imports whole.
        uses: Global names that it reads, when it runs or later in its functions.
        registers: Texts in it, if it is a call that registers an environment: the id is among them.
    """

    code: CodeType
    binds: frozenset[str]
    uses: frozenset[str]
    registers: frozenset[str]


@dataclass
class ScriptDefinitions:
    """The definitions of a script.

    Attributes:
        record: The script and its arguments.
        statements: The statements of its top level, in order.
        module: Its global names so far.
    """

    record: ScriptRecord
    statements: list[Statement]
    module: ModuleType
    _ran: set[int] = field(default_factory=set)

    @classmethod
    def open(cls, record: ScriptRecord) -> ScriptDefinitions:
        """Reads a script without running any of it.

        Raises:
            ConfigError: If it is not Python.
        """
        try:
            tree = ast.parse(Path(record.file).read_bytes(), record.file)
        except (SyntaxError, ValueError) as error:
            raise ConfigError(f"{record.file}: this script cannot be read: {described(error)}") from None
        module = ModuleType(MAIN)
        vars(module).update(__file__=record.file, __cached__=None)
        nodes = list(_top_level(tree.body))
        imported = {(one.asname or one.name).partition(".")[0] for node in nodes
                    if isinstance(node, ast.Import | ast.ImportFrom) for one in node.names}  # fmt: skip
        flags = _flags_of(tree)
        return cls(record, [_statement(node, record.file, flags, imported) for node in nodes], module)

    def find(self, name: str) -> Any:
        """Returns a class or function, after running the statements that define it.

        Args:
            name: Its name, ``Name`` or ``Outer.Inner``.

        Raises:
            ConfigError: If there is none, or a statement raises an exception.
        """
        first, file = name.partition(".")[0], self.record.file
        defined = {bound for statement in self.statements for bound in statement.binds}
        if first not in defined:
            raise ConfigError(f"{file}: this script has no {first!r}{nearest(first, sorted(defined))}")
        self._run(self._needed([first]), name)
        if (found := _inside(vars(self.module), name)) is None:
            raise ConfigError(f"{file}: this script has no {name!r}")
        if isinstance(found, type) and issubclass(found, Settings):
            with self._as_started():  # types of its fields that are texts have names of the script
                for base in found.__mro__:
                    hints_of(base)
        return found

    def register(self, env_id: str) -> None:
        """Runs the statements that register an environment, if there are any.

        Raises:
            ConfigError: If a statement raises an exception.
        """
        calls = {number for number, one in enumerate(self.statements) if env_id in one.registers}
        self._run(calls | self._needed(used for number in calls for used in self.statements[number].uses), env_id)

    def _run(self, numbers: Iterable[int], name: str) -> None:
        """Runs statements that have not been run yet, in order."""
        with self._as_started():
            for number in sorted(set(numbers) - self._ran):
                try:
                    exec(self.statements[number].code, vars(self.module))
                except (Exception, SystemExit) as error:
                    raise ConfigError(
                        f"{self.record.file}: {name} cannot be defined again: {described(error)}"
                    ) from error
                self._ran.add(number)

    def _needed(self, names: Iterable[str]) -> set[int]:
        """Returns the numbers of the statements that define names and the names that these use."""
        needed, waiting, seen = set[int](), [*names], set[str]()
        defined = {bound for statement in self.statements for bound in statement.binds}
        while waiting:
            wanted = waiting.pop()
            if wanted not in defined and not hasattr(builtins, wanted):
                wanted = STAR
            if wanted not in seen:
                seen.add(wanted)
                binding = {number for number, one in enumerate(self.statements) if wanted in one.binds} - needed
                needed |= binding
                waiting += [used for number in binding for used in self.statements[number].uses]
        return needed

    @contextmanager
    def _as_started(self) -> Iterator[None]:
        """Context in which the script finds its arguments, its folder and the modules beside it."""
        before, beside = (sys.argv, sys.modules[MAIN]), os.path.dirname(self.record.file)
        sys.argv, sys.modules[MAIN] = [self.record.file, *self.record.arguments], self.module
        if beside not in sys.path:
            sys.path.insert(0, beside)
        token = _DEFINING.set(self.record.file)
        try:
            with started_in(self.record.folder):
                yield
        finally:
            _DEFINING.reset(token)
            sys.argv, sys.modules[MAIN] = before


def refuse_while_defining(what: str) -> None:
    """Refuses an action of a script of which only definitions are wanted.

    Args:
        what: The action, for the message.

    Raises:
        ConfigError: If such a script runs now.
    """
    if script := _DEFINING.get():
        raise ConfigError(
            f"{script}: a class or function that is needed from this script uses a name whose definition {what}; "
            "move the class or function to a module of its own"
        )


def import_beside(value: Any, text: str) -> Any:
    """Returns the class or function of an import path that an object has, as settings have that of their algorithm.

    Args:
        value: The object: ``__main__:Name`` is of the script that defines it.
        text: The import path.

    Raises:
        ConfigError: If there is none.
    """
    opened = _opened_with(value) if text.startswith(PREFIX) else None
    return import_object(text) if opened is None else opened.find(text.removeprefix(PREFIX))


_scripts: dict[ScriptRecord, ScriptDefinitions] = {}
"""Scripts whose definitions this process has read."""


def _open(record: ScriptRecord) -> ScriptDefinitions:
    """Returns a script as it is now, read once.

    Raises:
        ConfigError: If it cannot be read.
    """
    try:
        now = replace(record, sha256=_hash_of(record.file))
    except OSError as error:
        raise ConfigError(f"{record.file}: this script cannot be read: {described(error)}") from None
    if now not in _scripts:
        _scripts[now] = ScriptDefinitions.open(now)
    return _scripts[now]


def _opened_with(value: Any) -> ScriptDefinitions | None:
    """Returns the opened script that defines a class or function; None if none does."""
    name = object_name(value)
    if not name.startswith(PREFIX):
        return None
    inside = name.removeprefix(PREFIX)
    return next((one for one in _scripts.values() if _inside(vars(one.module), inside) is value), None)


def _inside(names: Mapping[str, Any], name: str) -> Any:
    """Returns ``Name`` or ``Outer.Inner`` of a module; None if there is none."""
    first, *inner = name.split(".")
    found = names.get(first)
    for part in inner:
        found = getattr(found, part, None)
    return found


def _hash_of(file: str) -> str:
    """Returns the hash of the text of a file."""
    return hashlib.sha256(Path(file).read_bytes()).hexdigest()


def _top_level(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Yields the statements of a script, with those under ``if __name__ == "__main__":``."""
    for node in body:
        if isinstance(node, ast.If) and ast.unparse(node.test) in ("__name__ == '__main__'", "'__main__' == __name__"):
            yield from _top_level(node.body)
        else:
            yield node


def _flags_of(tree: ast.Module) -> int:
    """Returns the compiler flag of ``from __future__ import annotations``, or 0 if a script does not have it."""
    froms = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module == "__future__"]
    has_annotations = any(one.name == "annotations" for node in froms for one in node.names)
    return int(annotations.compiler_flag) if has_annotations else 0


def _statement(node: ast.stmt, file: str, flags: int, imported: Collection[str]) -> Statement:
    """Compiles a statement.

    Args:
        node: The statement.
        file: The script.
        flags: Flags of the compiler.
        imported: Names that the script imports: calls of their functions change no name of the script.
    """
    code = compile(ast.Module([node], []), file, "exec", flags, dont_inherit=True)
    found: dict[str, set[str]] = {}
    waiting = [code]
    while waiting:
        block = waiting.pop()
        for step in dis.get_instructions(block):
            is_inner = step.opname == "STORE_NAME" and block is not code  # a name in the body of a class
            if step.opname in (*USES, *BINDS) and not is_inner:
                found.setdefault(step.opname, set()).add(step.argval)
        waiting += [one for one in block.co_consts if isinstance(one, CodeType)]
    called = node.value.func if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) else None
    changed = {_base_of(target) for target in getattr(node, "targets", ())} | {_base_of(called)} - {*imported}
    last = called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""
    texts = [one.value for one in ast.walk(node) if isinstance(one, ast.Constant) and isinstance(one.value, str)]
    binds = (changed - {""}).union(*(found.get(name, set()) for name in BINDS))
    if isinstance(node, ast.ImportFrom) and node.names[0].name == STAR:
        binds.add(STAR)
    types = [one.annotation for one in ast.walk(node) if isinstance(one, ast.AnnAssign)]  # may be texts when it runs
    uses = {one.id for kind in types for one in ast.walk(kind) if isinstance(one, ast.Name)}
    uses = uses.union(*(found.get(name, set()) for name in USES))
    return Statement(code, frozenset(binds), frozenset(uses), frozenset(texts if last in REGISTER else ()))


def _base_of(target: ast.expr | None) -> str:
    """Returns the name whose attribute or item an assignment changes or a call uses, or an empty string."""
    while isinstance(target, ast.Attribute | ast.Subscript):
        target = target.value
        if isinstance(target, ast.Name):
            return target.id
    return ""
