"""Wrong configurations by the hundred, made from the schema: each is refused with path, reason and way out."""

from __future__ import annotations

import dataclasses
import json
import random
import re
import string
import sys
import types
from typing import Any, Literal, get_args, get_origin

import pytest
from annotated_types import Ge, Gt, Le, Lt
from killable import amount

from rookery import ConfigError, Trainer
from rookery.algorithms.algorithm import AlgorithmConfig
from rookery.algorithms.names import ALGORITHMS
from rookery.cli.main import main
from rookery.core.config import resolve
from rookery.core.settings.fields import alternatives, bare, hints_of, limits_of, settings_class
from rookery.core.settings.layers import Layer, flow, import_object
from rookery.run.settings import PolicyEntry, RunConfig

SEED = 20262
COUNT = amount(150, 2000)

FREE = {"env.name", "env.config", "env.wrappers", "policy_mapping", "stop", "policies", "module_config", "module"}
"""Settings that take anything, or keys of the user's own."""


# --- the schema ---------------------------------------------------------------------------------------------------


def leaves(cls, prefix=""):
    """Every setting below a class: path to type."""
    found = {}
    for name, hint in hints_of(cls).items():
        if name.startswith("_") or get_origin(hint) is types.GenericAlias or "ClassVar" in str(hint):
            continue
        inner = settings_class(hint)
        if inner is not None and inner is not AlgorithmConfig:  # whose class is chosen by name
            found |= leaves(inner, f"{prefix}{name}.")
        elif name != "algorithm" and name not in FREE and f"{prefix}{name}" not in FREE:
            found[f"{prefix}{name}"] = hint
    return found


def schema():
    """Every setting of a run: the path to the type, and what else must be given for the path to be there."""
    found = {path: (hint, {}) for path, hint in leaves(RunConfig).items()}
    for name, place in ALGORITHMS.items():
        for path, hint in leaves(import_object(place)).items():
            chosen = {} if name == "ppo" else {"algorithm.name": name}
            found.setdefault(f"algorithm.{path}", (hint, chosen))
            found.setdefault(f"policies.fox.{path}", (hint, {key.replace("algorithm", "policies.fox"): value
                                                             for key, value in chosen.items()}))  # fmt: skip
    for path, hint in leaves(PolicyEntry).items():
        found[f"policies.fox.{path}"] = (hint, {})
    return found


SCHEMA = schema()
SORTED = sorted(SCHEMA.items(), key=lambda item: item[0])


def test_the_schema_is_found_by_this_file():
    assert {"algorithm.lr", "algorithm.model.hidden", "policies.fox.frozen", "policies.fox.gamma", "sampling.num_envs",
            "checkpoint.keep_last", "evaluation.every", "logging.console", "seed"} <= SCHEMA.keys()  # fmt: skip
    assert len(SCHEMA) > 60


# --- mistakes -----------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Mistake:
    """One wrong thing to say.

    Attributes:
        kind: What sort of mistake.
        path: Where, as the user writes it.
        value: What is said there.
        meant: The path that was meant, for a typo.
        also: What else must be given.
    """

    kind: str
    path: str
    value: Any
    meant: str = ""
    also: dict[str, Any] = dataclasses.field(default_factory=dict)


def mistyped(word, rng):
    """The word with one or two slips of the finger."""
    for _ in range(rng.choice((1, 1, 2))):
        at = rng.randrange(len(word))
        slip = rng.randrange(4)
        if slip == 0:
            word = word[:at] + word[at + 1 :]
        elif slip == 1:
            word = word[:at] + rng.choice(string.ascii_lowercase) + word[at:]
        elif slip == 2:
            word = word[:at] + rng.choice(string.ascii_lowercase) + word[at + 1 :]
        elif at + 1 < len(word):
            word = word[:at] + word[at + 1] + word[at] + word[at + 2 :]
    return word


def typo(rng):
    """A name that is nearly one; names of at least four letters, since two slips leave nothing of a shorter one."""
    while True:
        path, (hint, also) = rng.choice(SORTED)
        above, _, name = path.rpartition(".")
        wrong = mistyped(name, rng)
        siblings = {known.rpartition(".")[2] for known in SCHEMA if known.rpartition(".")[0] == above}
        if len(name) < 4 or len(wrong) < 3 or wrong in siblings or not wrong.isidentifier():
            continue
        if wrong in {known.rpartition(".")[2] for known in SCHEMA} or wrong in ("name", "algorithm"):
            continue  # a real name of another section
        return Mistake("typo", f"{above}.{wrong}" if above else wrong, example(hint), path, also)


def unknown(rng):
    """A name that is like none."""
    sections = sorted({path.rpartition(".")[0] for path, (_, also) in SCHEMA.items() if not also})
    word = "".join(rng.choice("qxzjkvw") for _ in range(8))
    above = rng.choice(sections)
    return Mistake("unknown", f"{above}.{word}" if above else word, rng.choice((1, "a", None, [1])))


def example(hint):
    """A value that the type takes, or nearly."""
    kind = get_origin(bare(alternatives(hint)[0])) or bare(alternatives(hint)[0])
    return {int: 3, float: 0.5, bool: True, str: "text", tuple: [3]}.get(kind, "text")


def wrong_type(rng):
    """A value of another type."""
    path, (hint, also) = rng.choice(SORTED)
    kinds = {get_origin(bare(part)) or bare(part) for part in alternatives(hint)}
    candidates: list[Any] = [
        "sideways",
        [[None]],
        {"deep": {"er": 1}},
        3.75,
        True,
        -1.5,
        "3",
        [],
        None,
        [1, "a"],
        "1e-3",
    ]
    rng.shuffle(candidates)
    for value in candidates:
        if value is None and type(None) in kinds:
            continue  # if that is refused, then because of another setting
        if not accepts(path, value, also):
            return Mistake("type", path, value, also=also)
    raise AssertionError(f"{path} takes everything: {kinds}")


def out_of_range(rng):
    """A number beyond a limit."""
    while True:
        path, (hint, also) = rng.choice(SORTED)
        bounds = [limit for part in alternatives(hint) for limit in limits_of(part)]
        if not bounds:
            continue
        bound = rng.choice(bounds)
        whole = any(bare(part) is int for part in alternatives(hint))
        far = rng.choice((1, 3, 1000)) if whole else rng.choice((1e-3, 0.5, 3.0, 1e6))
        if isinstance(bound, Ge):
            value = bound.ge - far
        elif isinstance(bound, Gt):
            value = bound.gt - rng.choice((0, far))
        elif isinstance(bound, Le):
            value = bound.le + far
        elif isinstance(bound, Lt):
            value = bound.lt + rng.choice((0, far))
        else:
            continue
        if not accepts(path, value, also):
            return Mistake("range", path, value, also=also)


def wrong_word(rng):
    """A word that is none of those to choose from."""
    literals = [
        (path, hint, also)
        for path, (hint, also) in SORTED
        if any(
            isinstance(word, str)
            for part in alternatives(hint)
            if get_origin(bare(part)) is Literal
            for word in get_args(bare(part))
        )
    ]
    while True:
        path, hint, also = rng.choice(literals)
        words = [
            word for part in alternatives(hint) if get_origin(bare(part)) is Literal for word in get_args(bare(part))
        ]
        value = mistyped(rng.choice([word for word in words if isinstance(word, str)]), rng)
        if value not in words and value.isidentifier():
            return Mistake("word", path, value, also=also)


def wrong_schedule(rng):
    """A schedule that lacks something, has too much, or leaves its range."""
    moving = [path for path, (hint, also) in SCHEMA.items() if "_Scheduled" in repr(hint) and not also]
    value = rng.choice(
        [
            {"start": 0.1}, {"end": 0.1}, {"start": 0.1, "ende": 0}, {"start": 0.1, "end": 0, "shape": "cubic"},
            {"start": "a", "end": 0}, {"start": 0.1, "end": -5}, {"points": []}, {"points": [[5, 0.1], [1, 0.1]]},
            {"points": [[0, 0.1]], "start": 1}, {"start": 0.1, "end": 0, "steps": 0}, {},
        ]
    )  # fmt: skip
    return Mistake("schedule", rng.choice(sorted(moving)), value)


def wrong_section(rng):
    """Something else where a section should be."""
    sections = sorted({path.rpartition(".")[0] for path in SCHEMA} - {""} - {"policies.fox"})
    section, others = rng.choice(sections), (3, "ppo", [1, 2], True)
    if section == "algorithm":  # whose name alone is enough
        others = (3, [1, 2], True)
    also = next(also for path, (_, also) in SCHEMA.items() if path.rpartition(".")[0] == section)
    return Mistake("section", section, rng.choice(others), also=also if section.count(".") > 1 else {})


def accepts(path, value, also):
    """Returns whether the schema accepts the value, by the library itself: such a value is no mistake."""
    try:
        resolve(RunConfig, [Layer("x", {"env.name": "CartPole-v1", **also, path: value})], ALGORITHMS)
    except ConfigError:
        return False
    return True


KINDS = [
    typo,
    typo,
    unknown,
    wrong_type,
    wrong_type,
    out_of_range,
    out_of_range,
    wrong_word,
    wrong_schedule,
    wrong_section,
]


def generated():
    """Lists of mistakes: most of one, some of several on different paths."""
    rng = random.Random(SEED)
    cases = []
    while len(cases) < COUNT:
        several = rng.choice((1, 1, 1, 1, 2, 3, 4))
        mistakes = {}
        for _ in range(several):
            mistake = rng.choice(KINDS)(rng)
            clash = any(mistake.path.startswith(path) or path.startswith(mistake.path) for path in mistakes)
            chosen = any(one.also for one in mistakes.values())  # then settings of another class are not there
            clash = clash or (chosen and mistake.path.startswith(("algorithm.", "policies.fox.")))
            if not clash and not (mistakes and mistake.also):
                mistakes[mistake.path] = mistake
        cases.append(list(mistakes.values()))
    return cases


# --- what is said -------------------------------------------------------------------------------------------------


@pytest.fixture
def rookery(tmp_path, monkeypatch, capsys):
    """Runs a command in an empty folder; gives its exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["rookery", *words])
        monkeypatch.setattr(sys, "path", list(sys.path))
        try:
            main()
            code = 0
        except SystemExit as error:
            code = error.code
        return code, *capsys.readouterr()

    return run


def values_of(mistakes):
    values = {key: value for mistake in mistakes for key, value in mistake.also.items()}
    return values | {mistake.path: mistake.value for mistake in mistakes}


def in_code(mistakes):
    """Returns exit code, output and errors of a trainer's problems as the command line would print them."""
    try:
        Trainer("CartPole-v1", config=values_of(mistakes), seed=1).close()
    except ConfigError as error:
        return error.exit_code, "", "".join(f"error: {problem}\n" for problem in error.problems)
    return 0, "", ""


def as_overrides(mistakes):
    return [f"{path}={flow(value)}" for path, value in values_of(mistakes).items()]


def as_file(mistakes, path):
    """A YAML file with a line for each setting; gives the line of each mistake."""
    values = values_of(mistakes)
    path.write_text("".join(f"{json.dumps(key)}: {flow(value)}\n" for key, value in values.items()))
    return {key: number for number, key in enumerate(values, 1)}


REASON = re.compile(
    r"must be |there is no such setting|is missing|the schedule |a schedule has |schedule: |schedule shape "
)
WAY_OUT = re.compile(
    r"did you mean |known here: |lists all settings|must be |must stay |for example|it has start|start and end|"
    r"must ascend|either points|is missing"
)


def test_wrong_configurations_are_refused_in_words(rookery, tmp_path, measured):
    cases = generated()
    suggested, typos, kinds = 0, 0, {}
    for number, mistakes in enumerate(cases):
        about = f"case {number} of seed {SEED}: {mistakes}"
        lines, source = {}, "command line: "
        if number % 3 == 0:
            lines = as_file(mistakes, tmp_path / "wrong.yaml")
            code, out, err = rookery("train", "CartPole-v1", "wrong.yaml", "--seed", "1")
        elif number % 3 == 1:
            code, out, err = rookery("train", "CartPole-v1", "--seed", "1", *as_overrides(mistakes))
        else:
            code, out, err = in_code(mistakes)
            source = "code: "
        assert code == 2, f"{about}\n{out}{err}"
        assert out == "", about
        said = err.splitlines()
        assert all(line.startswith("error: ") for line in said), f"{about}\n{err}"
        for mistake in mistakes:
            kinds[mistake.kind] = kinds.get(mistake.kind, 0) + 1
            own = [line for line in said if f": {mistake.path} = " in line or f": {mistake.path}." in line]
            assert own, f"{about}: nothing is said of {mistake.path}\n{err}"
            start = f"error: wrong.yaml:{lines[mistake.path]}: " if lines else f"error: {source}"
            for line in own:
                assert line.startswith(start), f"{about}\n{line}"
                assert REASON.search(line), f"{about}\n{line}"
                assert WAY_OUT.search(line), f"{about}\n{line}"
            if mistake.kind == "typo":
                typos += 1
                suggested += f"did you mean {mistake.meant!r}?" in own[0]
        assert {path.name for path in tmp_path.iterdir()} <= {"wrong.yaml"}, f"{about}: something was begun"
    print(f"{len(cases)} configurations, {sum(kinds.values())} mistakes {kinds}; {suggested} of {typos} typos guessed")
    assert typos > COUNT // 8
    assert suggested >= 0.95 * typos
    measured(
        "wrong configurations, made from the schema", len(cases),
        f"each refused with path, reason and way out; {100 * suggested / typos:.1f} % of {typos} typos guessed",
    )  # fmt: skip
