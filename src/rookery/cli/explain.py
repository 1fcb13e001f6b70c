"""``rookery explain``: which value of a setting won and what it beat; and where, in the code, a run changes weights,
steps the environment, and stores what is played.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rookery.algorithms.names import ALGORITHMS
from rookery.cli.runs import ROOT, Provenance, TrustedCode, find_run, read_json, read_provenance
from rookery.cli.timers import place_of, update_functions
from rookery.core.errors import ConfigError

if TYPE_CHECKING:
    from rookery.run.describe.call_path import Call

DRAWN = "drawn when the run began: nobody gave a seed"
"""The source of a seed that nobody gave."""

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
"""The way as docs/map.md has it, for runs whose environment is not here to be played."""


def explain(
    run: Annotated[Path, typer.Argument(help="Directory of the run, or its name in runs/.", show_default=False)],
    what: Annotated[
        str | None,
        typer.Argument(metavar="[PATH|weights|env.step|replay]", help="A setting or section; or one of three places.",
                       show_default=False),
    ] = None,
    trust_code: TrustedCode = False,
) -> None:  # fmt: skip
    """Say where the value of a setting comes from, or where in the code weights change, the environment is stepped, and
    what is played is stored.

    rookery explain runs/CartPole-v1-ppo-s3 algorithm.gamma
    """
    from rookery.core.config import explain_history

    if str(run) in ALGORITHMS and not any(place.exists() for place in (run, ROOT / run)):
        raise ConfigError(
            f"{run}: is an algorithm, and explain takes a run; rookery train --help and docs/algorithms/{run}.md "
            "describe its settings"
        )
    folder = find_run(run)
    places = {"weights": weights, "env.step": env_step, "replay": replay, "memory": replay}  # the last as once called
    if what in places:
        lines: Iterable[str] = places[what](folder, trust_code)
    elif what is not None:
        lines = [explain_history(with_drawn_seed(folder, read_provenance(folder)), what, str)]
    else:
        lines = changed(read_provenance(folder))
    for line in lines:
        typer.echo(line)


def with_drawn_seed(run: Path, provenance: Provenance) -> Provenance:
    """The same, where a seed that nobody gave says so: a run draws it when it begins, and its checkpoints hold it."""
    from rookery.core.config import DEFAULT
    from rookery.core.io.files import FOLDER, list_checkpoints

    given = provenance.get("seed", [])
    if not given or given[-1][0] != DEFAULT:
        return provenance
    seed, saved = given[-1][1], list_checkpoints(run / FOLDER)
    if seed == "null" and saved:
        seed = str(read_json(saved[-1] / "config.json").get("seed"))
    return {**provenance, "seed": [(DRAWN, seed)]}


def changed(provenance: Provenance) -> Iterable[str]:
    """Explanations of all settings that somebody set."""
    from rookery.core.config import DEFAULT, explain_history

    known = {path: given for path, given in provenance.items() if any(source != DEFAULT for source, _ in given)}
    own = {path: given for path, given in known.items() if " as algorithm." not in given[-1][0]}
    if not own:
        return ["every setting has its default"]
    lines = [explain_history({path: given}, path, str) for path, given in own.items()]
    if len(own) < len(known):
        lines.append(f"({len(known) - len(own)} more of the policies are as in the section algorithm)")
    return lines


def weights(run: Path, trust_code: bool) -> Iterator[str]:
    """Where weights change, and how this run gets there."""
    from rookery.core.source import find
    from rookery.run.describe.call_path import paths_to

    yield f"weights change in {find('rookery.core.optim:gradient_step')} gradient_step, and nowhere else"
    watch = partial(paths_to, what="weights", trust_code=trust_code)
    yield from way_there(run, watch, TO_WEIGHTS, "no policy of this run learns")


def env_step(run: Path, trust_code: bool) -> Iterator[str]:
    """Where the environment is stepped, and how this run gets there and on to the environment."""
    from rookery.core.source import find
    from rookery.run.describe.call_path import path_to_step

    yield f"the environment is stepped in {find(TO_STEP[-2])} RolloutWorker.sample, and nowhere else"
    yield from way_there(run, lambda run: {"and on to the environment": path_to_step(run, trust_code)}, TO_STEP, "")


def replay(run: Path, trust_code: bool) -> Iterator[str]:
    """Where what a run plays is stored and drawn again, and how it gets there."""
    from rookery.core.source import find
    from rookery.run.describe.call_path import paths_to

    for told, what, function, way in (
        ("what is played is stored", "storing", "ReplayBuffer.add", TO_STORING),
        ("it is drawn again", "drawing", "ReplayBuffer.sample", TO_DRAWING),
    ):
        yield f"{told} in {find(f'rookery.replay.buffer:{function}')} {function}"
        watch, nobody = partial(paths_to, what=what, trust_code=trust_code), "no policy of this run has a replay buffer"
        lines = list(way_there(run, watch, way, nobody))
        yield from lines
        if lines == [nobody]:
            return
    yield f"checkpoints hold it as files; what is in them: rookery replay show {run}"


def way_there(
    run: Path, watch: Callable[[Path], dict[str, list[Call]]], way: Sequence[str], nobody: str
) -> Iterator[str]:
    """Shows the calls by which a run gets somewhere, or the functions in the source where it cannot be played.

    Args:
        run: Directory of the run.
        watch: Function that plays a tiny twin of the run and returns its calls, by algorithm.
        way: Functions on the way, as docs/map.md has it.
        nobody: Text for a run of which no policy gets there.
    """
    try:
        found = watch(run)
    except Exception as error:  # whatever the user's environment, model or algorithm may raise
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        yield f"the way there, from the source, because this run cannot be played here ({reason}):"
        updates = update_functions(read_provenance(run)) if any(UPDATE in step for step in way) else [UPDATE]
        for update in updates:
            yield from written(step.replace(UPDATE, update) for step in way)
        return
    if not found:
        yield nobody
    for whose, calls in found.items():
        yield f"the way there in this run, {whose}:"
        yield from seen(calls)


def seen(calls: Iterable[Call]) -> Iterator[str]:
    """Calls as lines: place, function, what stands there."""
    rows = [(str(call.place), call.function, call.text) for call in calls]
    widths = [max((len(row[column]) for row in rows), default=0) for column in (0, 1)]
    for place, function, text in rows:
        yield f"  {place:<{widths[0]}}  {function:<{widths[1]}}  {text}"


def written(names: Iterable[str]) -> Iterator[str]:
    """Functions as lines, for `core/source.py:find`: place and name."""
    for name in names:
        place = place_of(name)
        yield f"  {place}" if place == name else f"  {place}  {name.partition(':')[2].partition(' ')[0]}"
