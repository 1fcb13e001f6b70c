"""``rookery explain``: the value of a setting and its history; and the places in the code where a run changes weights,
steps the environment, and stores transitions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rookery.algorithms.names import ALGORITHMS
from rookery.cli.runs import ROOT, Provenance, RunFolder, TrustedCode, find_run, read_json, read_provenance
from rookery.cli.timers import place_of, update_functions
from rookery.core.errors import ConfigError
from rookery.core.settings.short_paths import full_path

if TYPE_CHECKING:
    from rookery.run.describe.call_path import Call

DRAWN_SEED = "drawn when the run began: no seed was given"
"""The source of a seed that was not given."""

UPDATE = "the algorithm's own training_step"

TO_WEIGHTS = (
    "rookery.run.trainer:Trainer.train_iteration self._learn",
    "rookery.run.trainer:Trainer._learn",
    UPDATE,
    "rookery.core.optim:gradient_step apply_gradients",
)
TO_STEP = (
    "rookery.run.trainer:Trainer.train_iteration self.pool.sample",
    "rookery.rollout.pool:LocalPool.sample self.worker.sample",
    "rookery.rollout.worker:RolloutWorker.sample self.python_loop.play",
    "rookery.rollout.loops.python:PythonLoop.play env.step",
)
TO_STORING = (
    "rookery.run.trainer:Trainer.train_iteration self._learn",
    "rookery.run.trainer:Trainer._learn learner.training_step",
    f"{UPDATE} self.replay.store",
    "rookery.replay.replay:Replay.store self.buffer.add",
)
TO_DRAWING = (*TO_STORING[:2], f"{UPDATE} self.learn")
"""Call paths of docs/map.md, for runs whose environment cannot be run here."""


def explain(
    run: RunFolder,
    what: Annotated[
        str | None,
        typer.Argument(metavar="[PATH|weights|env.step|replay]", help="A setting or section, or a place in the code.",
                       show_default=False),
    ] = None,
    trust_code: TrustedCode = False,
) -> None:  # fmt: skip
    """Show where the value of a setting comes from, or where in the code weights change, the environment is stepped,
    and transitions are stored.

    rookery explain runs/CartPole-v1-ppo-s3 algorithm.gamma
    """
    if str(run) in ALGORITHMS and not any(place.exists() for place in (run, ROOT / run)):
        raise ConfigError(
            f"{run}: this is an algorithm, but explain takes a run; rookery train --help and docs/algorithms/{run}.md "
            "describe its settings"
        )
    folder = find_run(run)
    places = {
        "weights": weights,
        "env.step": env_step,
        "replay": replay,
        "memory": replay,
    }  # memory: the old name of replay
    if what in places:
        lines: Iterable[str] = places[what](folder, trust_code)
    elif what is not None:
        lines = [explain_setting(folder, what, trust_code)]
    else:
        lines = changed_settings(read_provenance(folder))
    for line in lines:
        typer.echo(line)


def explain_setting(run: Path, path: str, trust_code: bool) -> str:
    """Returns the sources of a setting or section, by the name that the run is stored with, or a former or later one.

    Raises:
        ConfigError: If there is no such setting.
    """
    from rookery.core.config import current_history, current_path, explain_history

    history = with_drawn_seed(run, read_provenance(run))
    path = path if path in history else full_path(path)
    if not any(f"{known}.".startswith(f"{path}.") for known in history):
        from rookery.cli.resume import resolved_settings

        with suppress(ConfigError):  # settings of another user's code: names stay as they are
            config = resolved_settings(run, read_provenance(run), [], trust_code).config
            history, path = current_history(config, history), current_path(config, path)
    return explain_history(history, path, str)


def with_drawn_seed(run: Path, provenance: Provenance) -> Provenance:
    """Returns the provenance with the source of a seed that was not given: it is drawn at the start of the run and
    stored in checkpoints.
    """
    from rookery.core.config import DEFAULT
    from rookery.core.io.files import FOLDER, list_checkpoints

    given = provenance.get("seed", [])
    if not given or given[-1][0] != DEFAULT:
        return provenance
    seed, saved = given[-1][1], list_checkpoints(run / FOLDER)
    if seed == "null" and saved:
        seed = str(read_json(saved[-1] / "config.json").get("seed"))
    return {**provenance, "seed": [(DRAWN_SEED, seed)]}


def changed_settings(provenance: Provenance) -> Iterable[str]:
    """Returns explanations of all settings that were set."""
    from rookery.core.config import DEFAULT, explain_history

    known = {path: given for path, given in provenance.items() if any(source != DEFAULT for source, _ in given)}
    own = {path: given for path, given in known.items() if " as algorithm." not in given[-1][0]}
    if not own:
        return ["every setting has its default"]
    lines = [explain_history({path: given}, path, str) for path, given in own.items()]
    if len(own) < len(known):
        lines.append(f"({len(known) - len(own)} more settings of policies are those of the section algorithm)")
    return lines


def weights(run: Path, trust_code: bool) -> Iterator[str]:
    """Yields where weights change, and the calls of this run that lead there."""
    from rookery.core.source import find
    from rookery.run.describe.call_path import paths_to

    yield f"weights change in {find('rookery.core.optim:gradient_step')} gradient_step"
    watch = partial(paths_to, what="weights", trust_code=trust_code)
    yield from call_path(run, watch, TO_WEIGHTS, "no policy of this run learns")


def env_step(run: Path, trust_code: bool) -> Iterator[str]:
    """Yields where the environment is stepped, and the calls of this run that lead there."""
    from rookery.core.source import find
    from rookery.run.describe.call_path import path_to_step

    yield f"the environment is stepped by a loop of rollout/loops, from {find(TO_STEP[-2])} RolloutWorker.sample"
    yield from call_path(run, lambda run: {"and on to the environment": path_to_step(run, trust_code)}, TO_STEP, "")


def replay(run: Path, trust_code: bool) -> Iterator[str]:
    """Yields where transitions are stored and sampled, and the calls of this run that lead there."""
    from rookery.core.source import find
    from rookery.run.describe.call_path import paths_to

    for event, what, function, path in (
        ("transitions are stored", "storing", "ReplayBuffer.add", TO_STORING),
        ("they are sampled", "drawing", "ReplayBuffer.sample", TO_DRAWING),
    ):
        yield f"{event} in {find(f'rookery.replay.buffer:{function}')} {function}"
        watch, none = partial(paths_to, what=what, trust_code=trust_code), "no policy of this run has a replay buffer"
        lines = list(call_path(run, watch, path, none))
        yield from lines
        if lines == [none]:
            return
    yield f"checkpoints hold the replay buffer as files; their content: rookery replay show {run}"


def call_path(
    run: Path, watch: Callable[[Path], dict[str, list[Call]]], path: Sequence[str], none: str
) -> Iterator[str]:
    """Yields the calls of a run that lead to a place, or the functions in the source if the run cannot be played.

    Args:
        run: Directory of the run.
        watch: Function that plays a tiny copy of the run and returns its calls, by algorithm.
        path: Functions of the call path in docs/map.md.
        none: Text for a run whose policies do not get there.
    """
    try:
        found = watch(run)
    except Exception as error:  # user code can raise any exception
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        yield f"call path from the source, because this run cannot be played here ({reason}):"
        updates = update_functions(read_provenance(run)) if any(UPDATE in step for step in path) else [UPDATE]
        for update in updates:
            yield from function_lines(step.replace(UPDATE, update) for step in path)
        return
    if not found:
        yield none
    for whose, calls in found.items():
        yield f"call path in this run, {whose}:"
        yield from call_lines(calls)


def call_lines(calls: Iterable[Call]) -> Iterator[str]:
    """Yields calls as lines: place, function, source text."""
    rows = [(str(call.place), call.function, call.text) for call in calls]
    widths = [max((len(row[column]) for row in rows), default=0) for column in (0, 1)]
    for place, function, text in rows:
        yield f"  {place:<{widths[0]}}  {function:<{widths[1]}}  {text}"


def function_lines(names: Iterable[str]) -> Iterator[str]:
    """Yields functions, in the form of `core/source.py:find`, as lines: place and name."""
    for name in names:
        place = place_of(name)
        yield f"  {place}" if place == name else f"  {place}  {name.partition(':')[2].partition(' ')[0]}"
