"""``rookery tune`` on a configuration file of ML-Agents: `MLAGENTS_FILES`.

A domain takes the place of a value of the file: ``behaviors.Ball.hyperparameters.learning_rate={loguniform: [1e-4,
1e-2]}``. Each trial writes the file with its values, and trains as ``rookery mlagents learn`` does.
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from rookery.face import ConfigError, Trainable, nested, override_layer, read_layer
from rookery_mlagents.files.run_options import read_options
from rookery_mlagents.files.yaml_file import read_tree
from rookery_mlagents.learn.learn import Request, learning
from rookery_mlagents.verbs.mlagents import changes

RUN = "run"
"""Folder of the training in the folder of a trial, an ordinary run with ML-Agents' files."""

FILE = "configuration.json"
"""The configuration of a trial, in the folder of the trial."""

FINISHED = "finished"
"""Column that is 1 when all behaviors have reached `max_steps`, or another criterion of the file or of the settings."""

ENV = "env_settings.env_path"


class MLAgentsTrial(Trainable):
    """A training of a configuration of ML-Agents; an iteration is one of its trainer."""

    def setup(self, config: Mapping[str, Any]) -> None:
        """Keeps the configuration; the training starts with the first step, or from a checkpoint."""
        self.config = config
        self.stack = ExitStack()
        self.results: Any = None

    def _start(self, is_resumed: bool) -> None:
        path = self.folder / FILE
        path.write_text(json.dumps(self.config))
        flags = {"run_id": RUN, "results_dir": str(self.folder), "seed": self.seed, "resume": is_resumed}
        request = Request(str(path), {key: value for key, value in flags.items() if value}, "quiet", None, False, False)
        session = self.stack.enter_context(learning(request, changes))
        self.trainer = session.trainer
        self.results = self.trainer.results()
        self.stack.callback(self.results.close)

    def step(self) -> dict[str, Any]:
        """Runs an iteration; returns the numbers among its columns."""
        if self.results is None:
            self._start(is_resumed=False)
        result = next(self.results)
        if result.stop_reason:
            for _ in self.results:  # empty: it notifies callbacks that training has ended
                pass
        row = {key: value for key, value in result.row().items() if isinstance(value, int | float)}
        numbers = {key: value for key, value in row.items() if math.isfinite(value) and key != "iteration"}
        return {"return_mean": None, **numbers, FINISHED: int(bool(result.stop_reason))}

    def save_checkpoint(self, folder: Path) -> None:
        """Writes a checkpoint of the run, and copies the run."""
        if self.results is not None:
            self.trainer.save()
        shutil.copytree(self.folder / RUN, folder / RUN, ignore=shutil.ignore_patterns("run.lock"))

    def load_checkpoint(self, folder: Path) -> None:
        """Restores the run, and resumes it."""
        shutil.rmtree(self.folder / RUN, ignore_errors=True)
        shutil.copytree(folder / RUN, self.folder / RUN)
        self._start(is_resumed=True)

    def cleanup(self) -> None:
        """Ends the training."""
        self.stack.close()


class MLAgentsFiles:
    """Configuration files of ML-Agents as files for ``rookery tune``."""

    def arguments(self, words: Sequence[str]) -> dict[str, Any] | None:
        """Returns the arguments of `tune.run` for the words of a command line; None without a file of ML-Agents.

        Args:
            words: The file, ``path=value`` with keys of the file and settings of section ``tune``, and the name of an
                environment.

        Raises:
            ConfigError: If a word or a key is wrong.
        """
        files = [word for word in words if word.endswith((".yaml", ".yml")) and is_mlagents_file(Path(word))]
        if not files:
            return None
        overrides = [word for word in words if "=" in word and word not in files]
        names = [word for word in words if word not in files and word not in overrides]
        if len(files) > 1 or len(names) > 1:
            raise ConfigError(f"command line: give one file of ML-Agents and one environment, not {', '.join(words)}")
        given = read_layer(override_layer(overrides)).values
        tune = {path.removeprefix("tune."): value for path, value in given.items() if path.startswith("tune.")}
        read_options(files[0], {})  # which names mistakes by their lines
        document = absolute_demos(read_tree(files[0]).written(), Path(files[0]).parent)
        keys = {path: value for path, value in given.items() if not path.startswith("tune.")}
        config = nested({**document, **({ENV: names[0]} if names else {}), **keys})
        return {"metric": "return_mean", **nested(tune), "trainable": MLAgentsTrial, "config": config}

    def stop(self) -> dict[str, float]:
        """Returns the criterion that always ends a trial."""
        return {FINISHED: 1}


def is_mlagents_file(path: Path) -> bool:
    """Returns whether a file is a configuration of ML-Agents of today."""
    if not path.is_file():
        return False
    try:
        document = read_tree(path).written()
    except ConfigError:  # reported by the reader of Rookery's settings
        return False
    return isinstance(document, Mapping) and bool({"behaviors", "default_settings"} & document.keys())


def absolute_demos(document: Any, folder: Path) -> Any:
    """Returns a document with absolute paths of demonstrations, from the working directory or the file's folder."""
    if isinstance(document, list):
        return [absolute_demos(part, folder) for part in document]
    if not isinstance(document, Mapping):
        return document
    found = {key: absolute_demos(part, folder) for key, part in document.items()}
    demo = found.get("demo_path")
    if isinstance(demo, str):
        place = next((start / demo for start in (Path(), folder) if (start / demo).exists()), Path(demo))
        found["demo_path"] = str(place.absolute()) if place.exists() else demo
    return found


MLAGENTS_FILES = MLAgentsFiles()
