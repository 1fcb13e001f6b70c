"""``rookery replay import``: files that others have recorded, as a replay directory."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rookery.cli.replay_places import check_free, sources
from rookery.core.errors import ConfigError

if TYPE_CHECKING:
    from rookery.replay.segments import Spaces


def import_files(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE|FOLDER|minari:ID...",
            help="Files .demo (Unity), .npz, .csv, .parquet, .json (RLlib), folders of one sort, or a data set's id.",
            show_default=False,
        ),
    ],
    out: Annotated[Path, typer.Option("-o", "--out", help="Directory to write.", show_default=False)],
    env: Annotated[
        str | None, typer.Option(help="The environment whose spaces the rows are of, where files do not say it.")
    ] = None,
    like: Annotated[
        str | None, typer.Option(metavar="RUN|DIR[:POLICY]", help="Likewise, a replay of the same spaces.")
    ] = None,
    column: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ROLE=NAMES",
            help="Columns of a table: obs=x,theta* (also next_obs, action, reward, terminated, truncated, episode).",
        ),
    ] = None,
    format_: Annotated[
        str | None, typer.Option("--format", help="unity, npz, csv, parquet, rllib or minari, if names do not tell.")
    ] = None,
    policy: Annotated[str, typer.Option(help="Name of the policy, where files do not say it.")] = "main",
    trust_pickle: Annotated[
        bool, typer.Option("--trust-pickle", help="Read columns that are pickles, which can run any code.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace what is there.")] = False,
) -> None:
    """Make a replay directory of files that others have recorded.

    rookery replay import ExpertPyramid.demo -o demos/pyramid
    """
    from rookery.replay.formats.columns import Wanted
    from rookery.replay.formats.names import read_recordings
    from rookery.replay.recording import MISSING, last_change, write_recordings

    check_free(out, force)
    wanted = Wanted(wanted_spaces(env, like), roles(column or []), trust_pickle, policy)
    recordings = read_recordings(files, wanted, format_)
    write_recordings(out, recordings, replace=force, written=last_change(map(Path, files)))
    for name, recording in recordings.items():
        typer.echo(f"{out}:{name}: {len(recording):,} decisions in {len(recording.episodes):,} episodes")
        typer.echo(f"  {recording.spaces}")
        for lack in recording.missing:
            typer.echo(f"  {MISSING[lack]}")


def roles(words: list[str]) -> dict[str, list[str]]:
    """The columns of each role, as ``--column`` says them.

    Raises:
        ConfigError: If one is not ``ROLE=NAMES``.
    """
    found: dict[str, list[str]] = {}
    for word in words:
        role, equals, names = word.partition("=")
        if not equals or not role or not names:
            raise ConfigError(f"--column {word}: must be ROLE=NAMES, as in obs=x,theta*")
        found.setdefault(role, []).extend(name.strip() for name in names.split(","))
    return found


def wanted_spaces(env: str | None, like: str | None) -> Spaces | None:
    """The spaces that rows are to be of, if the user says it.

    Raises:
        ConfigError: If both are said, or the environment has several kinds of agents.
    """
    if env is not None and like is not None:
        raise ConfigError("--env and --like both say what the spaces are: leave one of them out")
    if like is not None:
        found = sources([like])
        if len(found) > 1:
            raise ConfigError(f"--like {like}: has several replay buffers; say which, as in {found[0]}")
        return found[0].spaces
    if env is None:
        return None
    from rookery.envs.make import make_env
    from rookery.replay.segments import Spaces

    made = make_env(env, {}, (), 1, "serial")
    made.close()
    if len(made.kinds) > 1:
        kinds = ", ".join(kind.agents[0] for kind in made.kinds)
        raise ConfigError(f"--env {env}: its agents have different spaces ({kinds}); use --like REPLAY:POLICY")
    return Spaces(made.kinds[0].obs, made.kinds[0].action, 0)
