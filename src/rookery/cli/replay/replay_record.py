"""``rookery replay record``: records episodes of a policy, a function or a person to a replay directory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rookery.cli.evaluate import MaxEpisodeSteps
from rookery.cli.replay.replay_places import check_free
from rookery.cli.runs import TrustedCode, find_saved
from rookery.core.errors import ConfigError
from rookery.core.settings.layers import import_object, override_layer

if TYPE_CHECKING:
    from rookery.run.evaluate.recording import RecordedReplay

KEYBOARD = "keyboard"


def record(
    source: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="RUN|MODULE:FUNCTION|keyboard",
            help="Player: a run, a function fn(obs) or fn(obs, info), or you.",
            show_default=False,
        ),
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="Directory to write.", show_default=False)],
    what: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="ENV [PATH=VALUE]...",
            help="The environment and its settings, as in config.size=8; default: the environment of the run.",
            show_default=False,
        ),
    ] = None,
    episodes: Annotated[int, typer.Option(min=1, help="Episodes to record.")] = 10,
    seed: Annotated[int, typer.Option(min=0, help="Random seed of episodes and actions.")] = 0,
    stochastic: Annotated[
        bool, typer.Option("--stochastic", help="Sample a run's actions instead of the most likely ones.")
    ] = False,
    checkpoint: Annotated[str, typer.Option(help="Checkpoint of a run: last, best or a number.")] = "last",
    min_return: Annotated[
        float | None, typer.Option(help="Keep only episodes with at least this return.", show_default=False)
    ] = None,
    max_episode_steps: MaxEpisodeSteps = None,
    key: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=ACTION", help="Action of a key, as JSON: left=0, or 'a=[-1, 0]'. Repeatable."),
    ] = None,
    idle: Annotated[
        str | None, typer.Option(metavar="ACTION", help="Action if no key is pressed; default: wait for a key.")
    ] = None,
    steps_per_second: Annotated[float, typer.Option(min=0.1, help="Speed with --idle.")] = 10.0,
    view: Annotated[str, typer.Option(help="Display for a person: auto, terminal or window.")] = "auto",
    force: Annotated[bool, typer.Option("--force", help="Replace an existing directory.")] = False,
    trust_code: TrustedCode = False,
) -> None:
    """Record episodes of a run, a function or yourself, for imitation or offline learning.

    rookery replay record CartPole-v1 --from runs/CartPole-v1-ppo-s3 --episodes 20 -o demos/pole
    """
    from rookery.core.config import resolve
    from rookery.run.evaluate.recording import EpisodeRecorder, RecordedReplay, prepared, record_episodes
    from rookery.run.settings import EnvConfig

    check_free(output, force)
    env, settings = split_words(what or [])
    layer = override_layer([text.removeprefix("env.") for text in settings], "command line")
    config = resolve(EnvConfig, [layer]).config.config
    player = player_of(source, checkpoint, env)
    by_hand = isinstance(player, DeferredKeyboard)
    with prepared(env, player, config, trust_code, render=by_hand) as (copy, policies, mapping, limit):
        limit = limit if max_episode_steps is None else max_episode_steps
        recorder = EpisodeRecorder(copy, policies, mapping, seed=seed, deterministic=not stochastic, limit=limit)
        kept = RecordedReplay(policies, ("logp",) if callable(player) else (), not stochastic)
        with keep_on_interrupt(kept, output, force):
            if isinstance(player, DeferredKeyboard):
                play_by_hand(player, recorder, kept, episodes, view, key or [], idle, 1 / steps_per_second)
            else:
                most = None if min_return is None else 100 * episodes
                record_episodes(recorder, kept, episodes, wanted=at_least(min_return), note=typer.echo, most=most)


@contextmanager
def keep_on_interrupt(kept: RecordedReplay, out: Path, force: bool) -> Iterator[None]:
    """Writes the recorded episodes at the end, and also after Ctrl-C, which then ends the command."""
    stopped = False
    try:
        yield
    except KeyboardInterrupt:
        stopped = True
    if kept.results or not stopped:
        kept.write(out, replace=force)
        decisions = sum(map(sum, kept.lengths().values()))
        typer.echo(f"{out}: {decisions:,} decisions in {len(kept.results):,} recorded episodes")
    if stopped:
        raise typer.Exit(130)


def player_of(source: str, checkpoint: str, env: str | None) -> Any:
    """Returns the player: a keyboard, a function, or the checkpoint of a run.

    Args:
        source: Value of ``--from``.
        checkpoint: Checkpoint of a run.
        env: The given environment, or None.

    Raises:
        ConfigError: If there is no such run or function, or a function or keyboard has no environment.
    """
    player = DeferredKeyboard() if source == KEYBOARD else function_of(source)
    if player is None:
        return find_saved(Path(source), checkpoint)
    if env is None:
        raise ConfigError(
            "command line: the environment is missing, as in rookery replay record CartPole-v1 --from ..."
        )
    return player


def at_least(min_return: float | None) -> Callable[[Any], bool]:
    """Returns a function that returns whether an episode has at least this return."""
    return lambda result: min_return is None or result.total >= min_return


def split_words(words: list[str]) -> tuple[str | None, list[str]]:
    """Returns the environment among the words of a command, and the settings.

    Raises:
        ConfigError: If there are two environments.
    """
    names = [word for word in words if "=" not in word]
    if len(names) > 1:
        raise ConfigError(
            f"command line: {names[0]!r} is the environment, and {names[1]!r} is not a setting PATH=VALUE"
        )
    return (names[0] if names else None), [word for word in words if "=" in word]


def function_of(source: str) -> Callable[..., Any] | None:
    """Returns the function of ``module:function``; None for a path or the name of a run.

    Raises:
        ConfigError: If there is no such function; names the nearest.
    """
    if ":" not in source or Path(source).exists():
        return None
    found = import_object(source)
    if isinstance(found, type):
        found = found()
    if not callable(found):
        raise ConfigError(f"--from {source}: this is {type(found).__name__}, not a function of an observation")
    made: Callable[..., Any] = found
    return made


class DeferredKeyboard:
    """Placeholder for a keyboard until the actions of its keys are known."""

    def __init__(self) -> None:
        self.keyboard: Any = None

    def __call__(self, obs: Any) -> Any:
        """Returns the action of the keyboard."""
        return self.keyboard(obs)


def play_by_hand(
    promised: DeferredKeyboard,
    recorder: Any,
    kept: Any,
    episodes: int,
    view: str,
    given: list[str],
    idle: str | None,
    seconds: float,
) -> None:
    """Records episodes that a person plays.

    Args:
        promised: Placeholder of the keyboard.
        recorder: Plays the episodes.
        kept: Stores the episodes.
        episodes: Number of episodes.
        view: Display.
        given: Values of ``--key``.
        idle: Action if no key is pressed, as JSON; None = wait for a key.
        seconds: Time to wait for a key, if there is an idle action.
    """
    from rookery.cli.games.keyboard import Keyboard, action_of, key_source, keys_to_actions
    from rookery.core.errors import SpaceError
    from rookery.run.evaluate.recording import record_episodes

    specs = [kind.action for kind in recorder.env.kinds]
    if any(spec != specs[0] for spec in specs):
        raise ConfigError(
            "--from keyboard: agents have different actions; write a function instead: --from MODULE:FUNCTION"
        )
    keys = keys_to_actions(specs[0], given)
    try:
        nothing = None if idle is None else action_of(specs[0], idle)
    except (ValueError, SpaceError, TypeError, KeyError) as error:
        raise ConfigError(f"--idle {idle}: this is not an action of {specs[0].space} ({error})") from None
    with closing(key_source(view)) as source:
        keyboard = promised.keyboard = Keyboard(source, keys, nothing, seconds)
        keyboard.recorder = recorder
        source.show(f"keys: {keyboard.legend()}", None)
        record_episodes(recorder, kept, episodes, wanted=keyboard.wanted)
