"""The list of verbs, their lazy import, versions, completion."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from rookery.cli.main import app
from rookery.cli.verbs import HELP, VerbGroup, load_verb
from rookery.core.plugins import VERBS

ROOT = Path(__file__).parents[2]
LISTED = [name for lines in HELP.values() for name in lines]


def python(code, **environ):
    environ = {**os.environ, "PYTHONPATH": str(ROOT / "src"), **environ}
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environ)


def run(*words, **environ):
    """Runs the command as a program."""
    code = f"import sys; sys.argv = ['rookery', *{words!r}]\nfrom rookery.cli.main import program; program()"
    return python(code, **environ)


def loaded_after(*words):
    """The modules that a command line imports, whatever it exits with."""
    done = python(
        f"import sys; sys.argv = ['rookery', *{words!r}]\nfrom rookery.cli.main import main\n"
        "try:\n    main()\nexcept SystemExit:\n    sys.stderr.write('MODULES ' + ' '.join(sys.modules))"
    )
    return set(done.stderr.rpartition("MODULES ")[2].split())


def test_the_help_lists_every_built_in_verb_with_one_line_each():
    assert set(LISTED) | {"memory"} == set(VERBS.own)
    assert max(len(line) for lines in HELP.values() for line in lines.values()) <= 60
    shown = run("--help").stdout
    assert all(f"\n  {name} " in shown for name in LISTED)
    assert [line[:-1] for line in shown.splitlines() if line.endswith(":") and line[0] != " "] == ["Options", *HELP]


@pytest.mark.parametrize("name", VERBS.own)
def test_a_verb_is_imported_by_its_name(name):
    assert load_verb(name).name == name


def test_the_help_imports_no_verb_and_no_large_package():
    loaded = loaded_after("--help")
    verbs = {path.partition(":")[0] for path in VERBS.own.values()}
    assert not loaded & verbs
    assert not {name.partition(".")[0] for name in loaded} & {"torch", "numpy", "gymnasium", "pydantic", "rich"}


def test_a_verb_imports_no_other_verb_and_a_mistyped_option_no_torch():
    loaded = loaded_after("train", "CartPole-v1", "--algoo", "ppo")
    verbs = {path.partition(":")[0] for path in VERBS.own.values()}
    assert loaded & verbs == {"rookery.cli.train"}
    assert "torch" not in loaded


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--algo", "dqn"], ["CartPole-v1, dqn: loading PyTorch ..."]),
        (["--plain"], ["CartPole-v1: loading PyTorch ..."]),
        (["--quiet"], []),
        (["--json"], []),
        (["logging.console=quiet"], []),
    ],
)
def test_a_training_prints_its_first_line_before_it_imports_torch(words, expected, tmp_path):
    (tmp_path / "torch.py").write_text("import sys\nsys.stdout.flush()\nraise SystemExit('torch is imported now')")
    path = os.pathsep.join([str(tmp_path), str(ROOT / "src")])
    done = run("train", "CartPole-v1", *words, PYTHONPATH=path)
    assert "torch is imported now" in done.stderr
    assert done.stdout.splitlines() == expected


def test_names_of_mistakes_are_completed_and_the_program_alone_prints_its_help():
    wrong = run("trian")
    assert wrong.returncode == 2
    assert "No such command 'trian'. Did you mean 'train'?" in wrong.stderr
    alone = run()
    assert alone.returncode == 0
    assert alone.stdout.strip() == run("--help").stdout.strip()


def test_versions_name_python_torch_and_kernels():
    lines = CliRunner().invoke(app, ["--version"]).output.splitlines()
    assert [line.split()[0] for line in lines] == ["rookery", "python", "torch", "kernels"]
    assert all(len(line.split()) > 1 for line in lines)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("rookery tra", ["train"]),
        ("rookery train CartP", ["CartPole-v1"]),
        ("rookery train --algo discrete", ["discrete_cql"]),
        ("rookery evaluate my-", ["my-run"]),
        ("rookery explain my-", ["my-run"]),
        ("rookery zoo verify cartpole-pp", ["cartpole-ppo"]),
    ],
)
def test_a_shell_completes_verbs_environments_algorithms_and_runs(words, expected, tmp_path, monkeypatch):
    (tmp_path / "runs" / "my-run").mkdir(parents=True)
    (tmp_path / "runs" / "my-run" / "config.yaml").touch()
    (tmp_path / "runs" / "my-folder").mkdir()
    monkeypatch.chdir(tmp_path)
    done = run(_ROOKERY_COMPLETE="complete_bash", COMP_WORDS=words, COMP_CWORD=str(len(words.split()) - 1))
    assert done.stdout.split() == expected


def test_the_group_finds_hidden_names_too():
    group = get_command(app)
    assert isinstance(group, VerbGroup)
    context = group.make_context("rookery", [], resilient_parsing=True)
    assert group.get_command(context, "memory").hidden
    assert group.get_command(context, "nothing") is None
