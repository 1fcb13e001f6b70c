"""The catalog of optional environments: every extra that brings some is in it, and it agrees with what is installed."""

import tomllib
from pathlib import Path

from rookery.core.errors import RookeryError
from rookery.envs.adapters.gym_ids import PROVIDERS
from rookery.envs.catalog import FAMILIES, family_of
from rookery.envs.make import make_env
from rookery.run.presets import ENV_PRESETS

PROJECT = Path(__file__).parents[2] / "pyproject.toml"


def test_every_extra_that_is_named_exists():
    extras = tomllib.loads(PROJECT.read_text())["project"]["optional-dependencies"]
    for family in FAMILIES:
        package, _, extra = family.install.rstrip("]").partition("[")
        assert package == "pettingzoo" or extra in extras, family.install


def test_every_prefix_of_a_provider_has_a_family():
    assert all(family_of(f"{prefix}Something-v0") is not None for prefix in PROVIDERS)


def test_an_environment_with_a_preset_that_cannot_be_made_here_belongs_to_a_family_that_is_missing():
    names = {name for by_env in ENV_PRESETS.values() for name in by_env if "*" not in name}
    for name in sorted(names):
        family = family_of(name)
        try:
            make_env(name, {}, (), 1, "serial").close()
        except RookeryError:
            assert family is not None and not family.is_here, name
