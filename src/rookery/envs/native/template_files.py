"""`write_template`: writes a template of an environment in C, and a test of it."""

from __future__ import annotations

from pathlib import Path

from rookery.core.errors import ConfigError
from rookery.envs.native.compiler import FOLDER

TEMPLATE = FOLDER / "template.c"

TEST = '''"""What NAME.c promises: episodes repeat, and end as they should."""

from pathlib import Path

import numpy as np

from rookery import c_env_of

NAME = c_env_of(Path(__file__).with_name("NAME.c"))
LANES = 4


def played(actions):
    """Plays actions in some copies; gives the observations, and all that was earned by then."""
    env = NAME(LANES)
    rows = env.reset(lambda lane, episode: 1000 * lane + episode).rows[0]
    earned, seen = 0.0, []
    for action in actions:
        env.step([action])
        earned += rows.reward.sum()
        seen.append(rows.obs["obs"].copy())
    return np.array(seen), earned, env.episode.copy()


def test_equal_seeds_and_actions_give_equal_episodes():
    actions = np.random.default_rng(0).integers(0, 2, (100, LANES))
    for one, other in zip(played(actions), played(actions)):
        assert np.array_equal(one, other)


def test_an_episode_ends_when_the_lander_falls():
    _, earned, episode = played(np.zeros((300, LANES), int))
    assert (episode >= 1).all() and earned < 0
'''
"""A test of the template, as a user would write it."""


def write_template(path: Path) -> tuple[Path, Path]:
    """Writes a small environment in C and a test of it; returns both files.

    Args:
        path: The environment, ``my_env`` or ``my_env.c``.

    Raises:
        ConfigError: If a file exists already, the name is not valid for a module, or the folder does not exist.
    """
    source = path if path.suffix == ".c" else path.with_name(f"{path.name}.c")
    test, name = source.with_name(f"test_{source.stem}.py"), source.stem
    check_new_files(source, test)
    source.write_text(TEMPLATE.read_text(encoding="utf-8").replace("ENVIRONMENT", name), encoding="utf-8")
    test.write_text(TEST.replace("NAME", name), encoding="utf-8")
    return source, test


def check_new_files(source: Path, test: Path) -> None:
    """Refuses to write an environment and its test where that is impossible, or would replace a file.

    Args:
        source: File of the environment.
        test: File of its test, in the same folder.

    Raises:
        ConfigError: If a file exists already, the name is not valid for a module, or the folder does not exist.
    """
    if not source.stem.isidentifier():
        raise ConfigError(f"{source}: {source.stem!r} is not a name of a module: use letters, digits and _")
    if there := [file for file in (source, test) if file.exists()]:
        raise ConfigError(f"{there[0]} exists already; nothing was written: choose another name")
    if not source.parent.is_dir():
        raise ConfigError(f"{source}: there is no folder {source.parent}")
