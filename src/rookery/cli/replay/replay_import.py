"""``rookery replay import``: converts data files of other programs to a replay directory."""

from __future__ import annotations

from contextlib import suppress
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rookery.cli.replay.replay_places import check_free, sources
from rookery.cli.replay.replay_report import report
from rookery.core.errors import ConfigError

if TYPE_CHECKING:
    from rookery.replay.segments import Spaces

TimeLimit = Annotated[
    int | None,
    typer.Option(min=1, help="Time limit: an episode of this length counts as truncated, not terminated."),
]
CutAtJumps = Annotated[
    bool, typer.Option("--cut-at-jumps", help="Truncate episodes at gaps in time; default: an error.")
]
ClipActions = Annotated[bool, typer.Option("--clip-actions", help="Clip actions to the bounds; default: an error.")]
ActionBounds = Annotated[
    str | None,
    typer.Option(metavar="LEAST,LARGEST", help="Bounds of continuous actions, if no other option gives their space."),
]
Best = Annotated[str | None, typer.Option(metavar="PART", help="Keep only the best episodes by return: 10% or 0.1.")]
MinReturn = Annotated[float | None, typer.Option(help="Keep only episodes with at least this return.")]
LastEpisodes = Annotated[int | None, typer.Option(min=1, help="Keep only this number of the newest episodes.")]
LastDecisions = Annotated[
    int | None, typer.Option(min=1, help="Keep only the newest episodes with this number of decisions in total.")
]
RewardFunction = Annotated[
    str | None,
    typer.Option(
        metavar="MODULE:FUNCTION", help="Computes rewards from arrays (obs, action, reward, next_obs, terminated)."
    ),
]
RewardScale = Annotated[float | None, typer.Option(help="Factor of rewards.")]
RewardShift = Annotated[float | None, typer.Option(help="Added to rewards after scaling.")]
RewardClip = Annotated[
    str | None, typer.Option(metavar="LEAST,LARGEST", help="Clip rewards after scaling and shifting.")
]
MaxUnpacked = Annotated[
    float | None,
    typer.Option(
        "--max-unpacked-gb",
        metavar="GB",
        help="Limit of a file's decompressed size; default: 1,000 times its size, at least 0.27.",
    ),
]
TrustPickle = Annotated[bool, typer.Option("--trust-pickle", help="Read pickled columns, which can run any code.")]
Column = Annotated[
    list[str] | None,
    typer.Option(
        metavar="ROLE=NAMES",
        help="Columns of a table: obs=x,theta* (also next_obs, action, reward, terminated, truncated, episode, step).",
    ),
]


def import_files(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE|FOLDER|minari:ID...",
            help="Files .hdf5 (D4RL), .demo (Unity), .npz, .csv, .parquet, .json (RLlib), folders, or a dataset id.",
            show_default=False,
        ),
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="Directory to write.", show_default=False)],
    env: Annotated[str | None, typer.Option(help="Environment with the spaces, if files do not have them.")] = None,
    like: Annotated[
        str | None,
        typer.Option(metavar="RUN|DIR[:POLICY]", help="Replay buffer with the same spaces, in place of --env."),
    ] = None,
    column: Column = None,
    format_: Annotated[
        str | None,
        typer.Option("--format", help="Format if not clear from names: hdf5, unity, npz, csv, parquet, rllib, minari."),
    ] = None,
    policy: Annotated[str, typer.Option(help="Name of the policy, if files do not have it.")] = "main",
    time_limit: TimeLimit = None,
    cut_at_jumps: CutAtJumps = False,
    clip_actions: ClipActions = False,
    action_bounds: ActionBounds = None,
    best: Best = None,
    min_return: MinReturn = None,
    last_episodes: LastEpisodes = None,
    last_decisions: LastDecisions = None,
    reward_function: RewardFunction = None,
    reward_scale: RewardScale = None,
    reward_shift: RewardShift = None,
    reward_clip: RewardClip = None,
    max_unpacked: MaxUnpacked = None,
    trust_pickle: TrustPickle = False,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing directory.")] = False,
) -> None:
    """Import data files of other programs as a replay directory.

    rookery replay import ExpertPyramid.demo -o demos/pyramid
    """
    from rookery.envs.adapters.gym_ids import time_limit_of
    from rookery.replay.episode_filter import SelectionConfig
    from rookery.replay.formats.columns import Wanted
    from rookery.replay.formats.growth import allowed_bytes
    from rookery.replay.formats.names import read_recordings
    from rookery.replay.recording import last_change, write_recordings
    from rookery.replay.relabel import RelabelConfig
    from rookery.replay.segments import stored_replays
    from rookery.replay.summary import summarize

    check_free(output, force)
    chosen: dict[str, Any] = {"min_return": min_return, "last_episodes": last_episodes}
    chosen |= {"last_decisions": last_decisions, "best": None if best is None else fraction(best)}
    anew: dict[str, Any] = {"function": reward_function, "scale": reward_scale, "shift": reward_shift}
    anew["bounds"] = None if reward_clip is None else bounds("--reward-clip", reward_clip)
    made_of = wanted_spaces(env, like)
    between = None if action_bounds is None else action_limits(action_bounds, made_of)
    wanted = Wanted(
        made_of, roles(column or []), trust_pickle, policy, time_limit, None if env is None else time_limit_of(env),
        cut_at_jumps, clip_actions, between, allowed_bytes("--max-unpacked-gb", max_unpacked),
    )  # fmt: skip
    select, relabel = SelectionConfig(**given_options(chosen)), RelabelConfig(**given_options(anew))
    recordings = read_recordings(files, wanted, format_, select=select, relabel=relabel)
    write_recordings(output, recordings, replace=force, written=last_change(map(Path, files)), imported=files)
    for name, recording in recordings.items():
        typer.echo(f"{output}:{name}: {len(recording):,} decisions in {len(recording.lengths):,} episodes")
    for stored in stored_replays(output).values():
        report(stored, summarize(stored))


def given_options(values: dict[str, Any]) -> dict[str, Any]:
    """Returns the given options."""
    return {name: value for name, value in values.items() if value is not None}


def fraction(text: str) -> float:
    """Returns the fraction of episodes of ``--best``.

    Raises:
        ConfigError: If it is not a fraction.
    """
    from rookery.core.settings.fields import Part, check

    found: float | None = None
    with suppress(ValueError):
        found, _ = check(Part, text if text.endswith("%") else float(text))
    if found is None:
        raise ConfigError(f"--best {text}: the fraction must be above 0 and at most 1, as in 0.1 or 10%")
    return found


def action_limits(text: str, made_of: Spaces | None) -> tuple[float, float]:
    """Returns the bounds of actions from ``--action-bounds``.

    Args:
        text: Value of the option.
        made_of: Spaces from other options.

    Raises:
        ConfigError: If they are not bounds, or another option gives the spaces too.
    """
    low, high = bounds("--action-bounds", text)
    if not (isfinite(low) and isfinite(high) and low < high):
        raise ConfigError(f"--action-bounds {text}: the least comes first, and both are finite, as in -1,1")
    if made_of is not None:
        raise ConfigError("--action-bounds: --env and --like give the action space too: leave one of them out")
    return low, high


def bounds(option: str, text: str) -> tuple[float, float]:
    """Returns lower and upper bound from an option.

    Raises:
        ConfigError: If they are not two numbers.
    """
    try:
        low, high = map(float, text.split(","))
    except ValueError:
        raise ConfigError(f"{option} {text}: must be the least and the largest, as in -1,1") from None
    return low, high


def roles(words: list[str]) -> dict[str, list[str]]:
    """Returns the columns of each role, from ``--column``.

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
    """Returns the spaces of the rows, if an option gives them.

    Raises:
        ConfigError: If both options are given, or the environment has several kinds of agents.
    """
    if env is not None and like is not None:
        raise ConfigError("--env and --like both give the spaces: leave one of them out")
    if like is not None:
        found = sources([like])
        if len(found) > 1:
            raise ConfigError(f"--like {like}: there are several replay buffers; name one, as in {found[0]}")
        return found[0].spaces
    if env is None:
        return None
    from rookery.envs.make import make_env
    from rookery.replay.segments import Spaces

    made = make_env(env, {}, (), 1, "serial")
    made.close()
    if len(made.kinds) > 1:
        kinds = ", ".join(kind.agents[0] for kind in made.kinds)
        raise ConfigError(f"--env {env}: the agents have different spaces ({kinds}); use --like REPLAY:POLICY")
    return Spaces(made.kinds[0].obs, made.kinds[0].action, 0)
