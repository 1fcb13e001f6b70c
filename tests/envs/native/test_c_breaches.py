"""Faults of an environment in C are named: the file, what was found, what was expected, and how to fix it."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sources import RACE, SMALL, breach, needs_compiler

from messages import check_error
from rookery import c_env_of
from rookery.core.errors import EnvError
from rookery.envs.make import make_env
from rookery.envs.native import compiler
from rookery.envs.native.library import CLibrary
from rookery.envs.random_play import random_answers

HEAD = '#include "rookery_env.h"\n'


def message(call, *arguments, **keywords):
    with pytest.raises(EnvError) as error:
        call(*arguments, **keywords)
    return str(error.value)


def library(folder, text, name="odd"):
    source = folder / f"{name}.c"
    source.write_text(text)
    target = folder / f"{name}.so"
    subprocess.run(compiler.command_of(source, target, ["-O0", "-w"]), check=True)
    return target


def played(name, steps=6):
    env = c_env_of(SMALL)(2, breach=breach(name))
    step, rng = env.reset(lambda lane, episode: lane), np.random.default_rng(0)
    for _ in range(steps):
        step = env.step(random_answers(env, step, rng))


@needs_compiler
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("NO_LEAVES", "describe: 0 leaves, expected 1 to 16"),
        ("MANY_FIELDS", "describe: 42 fields, expected 1 to 32"),
        ("EMPTY_FIELD", "describe: field 'place' has 0 elements for an environment"),
        ("ODD_FIELD", "describe: field 'place' is of type 17, which does not exist"),
        ("TWICE", "describe: two fields have one name: place, place"),
        ("BOX_UPSIDE_DOWN", "describe: leaf 'far': low is not at most high: [200.0, 200.0], [100.0, 100.0]"),
        ("ODD_KIND", "describe: leaf 'far': is of kind 9, which does not exist"),
        ("ODD_SHAPE", "describe: leaf 'far': shape (0,), expected sides of at least 1"),
        ("NO_CHOICES", "describe: the action: [0] categories, expected at least 1"),
        ("MASK_OF_BOX", "describe: a mask where actions are not discrete"),
        ("FLAG_ACTION", "describe: the action is of kind 3, expected a box or discrete"),
        ("INSIDE_ITSELF", "describe: a leaf 'far/tile' beside far: names of parts differ"),
    ],
)
def test_a_description_of_what_cannot_be_is_refused(name, said):
    text = message(c_env_of(SMALL), 2, breach=breach(name))
    assert text == f"{SMALL}: {said}"


@needs_compiler
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("FIRST_NAN", "environment 0, seed 0, episode 0, step 0: reset: observation far, element 1, of agent: nan, "
         "expected a finite number"),
        ("NAN_SEEN", "environment 0, seed 0, episode 0, step 3: step: observation far, element 1, of agent: nan, "
         "expected a finite number"),
        ("INFINITE_REWARD", "step 3: step: the reward of agent is inf, expected a finite number"),
        ("CATEGORY_BEYOND", "step 3: step: observation tile, element 0, of agent: category 6, expected 0 to 5"),
        ("FLAG_OF_TWO", "step 3: step: observation lamps, element 1, of agent: flag 2, expected 0 or 1"),
        ("NOTHING_ALLOWED", "step: observation action_mask of agent allows no action, expected at least one option"),
        ("END_OF_TWO", "step: terminated, truncated, ended or waiting is 2 at agent, expected 0 or 1"),
    ],
)  # fmt: skip
def test_what_a_step_may_not_show_is_refused_with_file_lane_seed_episode_and_step(name, said):
    text = message(played, name)
    assert text.startswith(f"{SMALL}: small, in C: environment 0, seed 0, episode 0, step ") and said in text


@needs_compiler
def test_what_is_written_behind_a_field_is_noticed():
    text = message(played, "BEHIND_FIELD")
    assert text.startswith(f"{SMALL}: writes behind the field 'place', whose number of elements comes from describe()")


@needs_compiler
@pytest.mark.parametrize(
    ("file", "settings", "said"),
    [
        (SMALL, {"limt": 3}, "env.config has 'limt', unknown to it; did you mean 'limit'?; it takes limit, breach"),
        (SMALL, {"limit": 0}, "small: env.config.limit: 0 is not from 1 to 100"),
        (SMALL, {"limit": 2.5}, "small: env.config.limit: 2.5 is not an integer"),
        (SMALL, {"limit": "many"}, "small: env.config.limit: 'many' is not a number"),
        (SMALL, {"limit": float("nan")}, "small: env.config.limit: nan"),
        (RACE, {"length": 20}, "race: env.config: length is more than limit"),  # as the file itself says it
    ],
)
def test_wrong_settings_are_named(file, settings, said):
    assert said in message(make_env, str(file), settings, (), 2, "auto")


def exporting(values):
    return f"{HEAD}ROOKERY_EXPORT const RookeryEnv rookery_env = {{{values}}};"


def declaring(entry):
    """The text of SMALL with another table of settings."""
    text = SMALL.read_text()
    begin, end = text.index("SETTINGS[] = {") + len("SETTINGS[] = {"), text.index("};\nstatic int64_t")
    return text[:begin] + entry + text[end:]


@needs_compiler
@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            exporting("7"),
            "is of version 7 of rookery_env.h, this Rookery of 1; compile it again with the rookery_env.h",
        ),
        (
            exporting("1, sizeof(RookeryEnv), 10, sizeof(RookeryState), sizeof(RookeryRows)"),
            "RookeryLayout has 10 bytes there and ... another header, or for another machine; compile it again",
        ),
        ("int nothing;", "has no symbol rookery_env: end the file with ROOKERY_ENV(...)"),
        (
            f'{HEAD}ROOKERY_ENV(.name = "half");',
            "ROOKERY_ENV defines no describe and no reset and no step and no observe",
        ),
        (declaring('{"x", 5, 0, 1, 0}'), "settings: 'x': 5 is not from 0 to 1"),
        (declaring('{"x", NAN, 0, 1, 0}'), "settings: 'x': nan is not finite"),
        (declaring('{"x y", 0, 0, 1, 0}'), "settings: 'x y': that is not a valid name"),
        (declaring('{"x", 0, 0, 1, 0}, {"x", 0, 0, 1, 0}'), "settings: 'x': that name is there twice"),
    ],
)
def test_a_library_that_cannot_be_is_refused(tmp_path, text, said):
    file = library(tmp_path, text)
    check_error(f"EnvError: {file}: {said}", CLibrary, file, file)


def test_a_file_that_is_no_library_or_not_there_is_refused(tmp_path):
    file = tmp_path / "text.so"
    file.write_text("no library")
    assert message(CLibrary, file, file).startswith(f"{file}: is not a shared library that can be loaded here: ")
    text = message(make_env, str(tmp_path / "txt.so"), None, (), 1, "auto")
    assert text == f"{tmp_path / 'txt.so'}: there is no such file; did you mean 'text.so'?"


# --- compiling --------------------------------------------------------------------------------------------------------


@needs_compiler
def test_what_the_compiler_says_is_shown_as_it_is(tmp_path):
    source = tmp_path / "wrong.c"
    source.write_text(f"{HEAD}int answer = forty_two;\n")
    text = message(make_env, str(source), None, (), 1, "auto")
    assert text.startswith(f"{source}: the compiler refuses it:\n{source}:2:14: error: ")
    assert "forty_two" in text and "fix these errors first; the command was " in text
    assert not list(compiler.cache_folder().glob(".tmp-*wrong*"))


def test_without_a_compiler_the_remedy_is_told(monkeypatch, tmp_path):
    (tmp_path / "my_env.c").write_text(HEAD)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    text = message(make_env, str(tmp_path / "my_env.c"), None, (), 1, "auto")
    assert text.startswith(f"{tmp_path / 'my_env.c'}: no C compiler was found: install one (apt install gcc, ")
    assert "rookery envs build FILE.c" in text
    monkeypatch.setenv("CC", "nowhere-cc")
    assert "CC='nowhere-cc' is not a program" in message(make_env, str(tmp_path / "my_env.c"), None, (), 1, "auto")


def test_a_source_that_is_not_there_is_named_with_the_nearest(tmp_path):
    (tmp_path / "walker.c").write_text(HEAD)
    text = message(make_env, str(tmp_path / "walkr.c"), None, (), 1, "auto")
    assert text == f"{tmp_path / 'walkr.c'}: there is no such file; did you mean 'walker.c'?"


@needs_compiler
def test_a_source_is_compiled_once_and_again_where_it_its_includes_or_the_options_changed(tmp_path, monkeypatch):
    (tmp_path / "rules.h").write_text("#define RULE 1\n")
    source = tmp_path / "once.c"
    source.write_text('#include "rules.h"\nint rule = RULE;\n')
    first = compiler.compiled(source)
    written = first.stat().st_mtime_ns
    assert compiler.compiled(source) == first and first.stat().st_mtime_ns == written
    source.write_text('#include "rules.h"\nint rule = RULE + 1;\n')
    second = compiler.compiled(source)
    (tmp_path / "rules.h").write_text("#define RULE 2\n")
    third = compiler.compiled(source)
    monkeypatch.setenv(compiler.MORE_OPTIONS, "-O1")
    assert len({first, second, third, compiler.compiled(source), compiler.compiled(source, ["-O0"])}) == 5


@needs_compiler
def test_two_processes_do_not_compile_at_once(tmp_path):
    log = tmp_path / "log"
    slow_compiler = tmp_path / "slow-cc"
    slow_compiler.write_text(
        f'#!/bin/sh\ncase "$*" in *--version*) echo slow; exit;; esac\necho x >> {log}\nsleep 0.4\n'
        f'exec {compiler.find_compiler()[0]} "$@"\n'
    )
    slow_compiler.chmod(0o755)
    source = tmp_path / "both.c"
    source.write_text("int both;\n")
    script = (
        f"from pathlib import Path; from rookery.envs.native.compiler import compiled; compiled(Path({str(source)!r}))"
    )
    environment = {"CC": str(slow_compiler), "XDG_CACHE_HOME": str(tmp_path / "cache"), "PATH": "/usr/bin:/bin"}
    environment["PYTHONPATH"] = ":".join(sys.path)
    both = [subprocess.Popen([sys.executable, "-c", script], env=environment) for _ in range(2)]
    assert [process.wait(60) for process in both] == [0, 0]
    assert log.read_text() == "x\n"


@needs_compiler
def test_contraction_and_fast_math_are_off():
    command = compiler.command_of(SMALL, Path("small.so"))
    assert "-O2" in command and "-ffp-contract=off" in command and not any("fast-math" in word for word in command)
