"""Writes a new project: an environment in Python, its test, settings with their schema, and a README."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from rookery.core.errors import ConfigError
from rookery.envs.templates import agent_names, class_name, filled, write_environment
from rookery.run.describe.schema import config_schema
from rookery.run.describe.schema_definitions import schema_text

SETTINGS = """\
# yaml-language-server: $schema=settings.schema.json
# rookery config show lists the settings there are; this file names those that differ from their defaults.
env:
  name: MODULE:CLASS
algorithm:
  name: ppo
  lr: 1.0e-3
  epochs: 4
POLICIESsampling:
  num_envs: 16
stop:
  env_steps: 60_000
"""

POLICIES = """\
policies:  # one for each agent; without this section all agents share one
ENTRIES"""

README = """\
# NAME

A project for Rookery: `MODULE.py` is the environment, `test_MODULE.py` its test, `settings.yaml` the settings of its
training. In this folder:

```sh
python -m pytest
rookery train settings.yaml --run-id first
rookery evaluate first --episodes 20
```

The first command tests the environment, the second trains for less than a minute, and the third plays with the
policies that were learned. `rookery config schema -o settings.schema.json` renews the schema of the settings, by which
an editor completes and checks them.
"""


def write_project(folder: Path, agents: int) -> list[Path]:
    """Writes a folder with an environment, its test, settings with their schema, and a README; returns the files.

    Args:
        folder: The folder, which is made.
        agents: Number of agents.

    Raises:
        ConfigError: If the folder exists, cannot be made, or its name is not valid for a module.
    """
    module = folder.name.replace("-", "_")
    if folder.exists():
        raise ConfigError(f"{folder} exists already; nothing was written: choose another name")
    if not class_name(module).isidentifier():
        raise ConfigError(f"{folder}: {module!r} is not a name of a module: use letters, digits, - and _")
    if find_spec(module) is not None:
        raise ConfigError(f"{folder}: there is already a module {module}; choose another name")
    entries = "".join(f"  {name}: {{}}\n" for name in agent_names(agents))
    policies = POLICIES.replace("ENTRIES", entries) if agents > 1 else ""
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise ConfigError(f"{folder}: the folder cannot be made: {error.strerror}") from None
    files = {
        "settings.yaml": filled(SETTINGS, module, agents).replace("POLICIES", policies),
        "settings.schema.json": f"{schema_text(config_schema())}\n",
        "README.md": filled(README, module, agents).replace("NAME", folder.name),
    }
    source, test = write_environment(folder / module, agents)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    return [source, test, *(folder / name for name in files)]
