"""Kinds of environments: each `EnvScheme` recognizes names and makers of its kind and builds them; `scheme_of`.

Each kind is defined next to its environments. The table is `ENV_SCHEMES` of `core/plugins.py`, to which packages add
kinds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from gymnasium.envs.registration import EnvSpec

from rookery.core.errors import ConfigError, EnvError
from rookery.core.plugins import ENV_SCHEMES, missing_package
from rookery.envs.base import VectorEnv

MODULE_NAME = r"\w+(\.\w+)+"
"""Pattern of an environment name that is a module, ``pettingzoo.mpe.simple_v3``."""

NAMED = ("c", "bundled", "registered", "unity", "external")
"""Built-in kinds with specific names, in the order in which they are tried."""

PREFIXED = ("envpool",)
"""Built-in kinds whose names are ``NAME:REST``, like those of plug-ins; they are imported on first use."""

GENERAL = ("code", "gymnasium")
"""Kinds for all other names: the import path of code, and the id of a package that is not imported yet."""

MADE = ("unity", "vector", "foreign")
"""Kinds whose makers create vectorized environments."""


class EnvScheme:
    """One kind of environment. A subclass overrides the methods that its kind needs; the table contains an instance of
    it.

    A plug-in overrides `find`; its names are ``NAME:REST``, where NAME is that of its entry point.
    """

    is_real = False
    """Whether its environments are programs outside, such as players and clients, which nothing should step unasked."""

    # -- names, as typed by users ---------------------------------------------------------------------

    def matches(self, name: str) -> bool:
        """Returns whether a name is of this kind; nothing is imported or run for that."""
        return False

    def find(self, name: str) -> Any:
        """Returns the environment that a name of this kind refers to: any argument of `make_env` except a name.

        Raises:
            EnvError: If there is no such environment.
        """
        raise NotImplementedError

    def short_name(self, name: str) -> str:
        """Returns the name in messages and run ids."""
        module, _, attribute = name.rpartition(":")
        if not module:
            return name.rpartition(".")[2] if re.fullmatch(MODULE_NAME, name) else name
        return module.rpartition(".")[2] if attribute in ("env", "parallel_env", "raw_env") else attribute

    def code_of(self, name: str) -> str:
        """Returns the code that a name refers to (``module:Name``, a module, a program), or an empty string if it names
        only code of Rookery or of packages that Rookery itself imports.
        """
        return ""

    def file_in(self, name: str) -> str:
        """Returns the path that is part of a name, or an empty string."""
        return ""

    def has_file(self, name: str) -> bool:
        """Returns whether the file of `file_in` exists, from the working directory."""
        return False

    def explain_missing(self, name: str) -> None:
        """Raises an EnvError with the reason if a name that does not exist looks like one of this kind."""

    # -- makers: objects named by users, or passed by a program ---------------------------------------

    def plays_many(self, maker: Any) -> bool:
        """Returns whether this kind has a maker, which makes vectorized environments."""
        return False

    def build(
        self,
        maker: Any,
        num_lanes: int,
        settings: Mapping[str, Any],
        name: str,
        *,
        render: bool = False,
        max_entities: int | None = None,
        first: Any = None,
    ) -> VectorEnv:
        """Builds the instances of an environment.

        Args:
            maker: One for which `plays_many` is true, or whose first environment belongs to this kind (`takes_over`).
            num_lanes: Number of environments.
            settings: Keyword arguments of the maker.
            name: Name in messages.
            render: Whether images are requested.
            max_entities: Largest number of elements of a ``Sequence`` in an observation.
            first: An environment that the maker has made already; None = none.

        Raises:
            EnvError: If it cannot be built.
        """
        raise NotImplementedError

    def takes_over(self, made: Any) -> bool:
        """Returns whether a maker has returned an object of this kind instead of a single environment."""
        return False


class NotSingleEnv(EnvError):
    """Raised when a maker that was called for one environment has returned a vectorized one.

    Args:
        name: Name in messages.
        made: Its product, which the caller must play (`EnvScheme.build`) or close.
        scheme: The kind that plays it.
    """

    def __init__(self, name: str, made: Any, scheme: EnvScheme) -> None:
        super().__init__(f"{name} makes {type(made).__name__}, which keeps its own clock: there is no single copy")
        self.made, self.scheme = made, scheme


class _Prefixed(EnvScheme):
    """A kind whose names are ``NAME:REST``; it is imported on first use."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix

    def find(self, name: str) -> Any:
        """See `EnvScheme.find`."""
        try:
            return scheme(self.prefix).find(name)
        except ConfigError as error:
            if package := missing_package(error):
                raise EnvError(f"env {name!r} needs the package {package}: pip install {package}") from error
            raise EnvError(f"env {name!r}: {error}") from error

    def code_of(self, name: str) -> str:
        """See `EnvScheme.code_of`."""
        return "" if self.prefix in ENV_SCHEMES.own else ENV_SCHEMES[self.prefix]


def scheme(kind: str) -> EnvScheme:
    """Returns a kind by its name in the table.

    Raises:
        ConfigError: If it cannot be imported.
    """
    found: EnvScheme = ENV_SCHEMES.load(kind)
    return found


def scheme_of(name: str) -> EnvScheme:
    """Returns the kind of an environment's name, without importing plug-ins."""
    for kind in NAMED:
        if (found := scheme(kind)).matches(name):
            return found
    prefix, colon, _ = name.partition(":")
    if colon and (prefix in PREFIXED or (prefix.isidentifier() and prefix in ENV_SCHEMES.added)):
        return _Prefixed(prefix)
    return next(found for kind in GENERAL if (found := scheme(kind)).matches(name))


def code_of(name: str) -> str:
    """Returns the code that an environment's name refers to; see `EnvScheme.code_of`."""
    return scheme_of(name).code_of(name)


def scheme_of_maker(maker: Any) -> EnvScheme | None:
    """Returns the kind of a maker of vectorized environments; None if it makes single environments."""
    if isinstance(maker, EnvSpec):
        return None
    return next((found for kind in MADE if (found := scheme(kind)).plays_many(maker)), None)


def scheme_of_product(maker: Any, made: Any) -> EnvScheme | None:
    """Returns the kind of a maker's result that is not a single environment; None if it is a single environment."""
    if isinstance(maker, EnvSpec):
        return None
    return next((found for kind in MADE if (found := scheme(kind)).takes_over(made)), None)
