"""rookery init and envs new in Python: they write, check, and learn from, working environments."""

import json
import os
import subprocess
import sys

import pytest
from ruamel.yaml import YAML

FILES = ["README.md", "settings.schema.json", "settings.yaml"]


def run_tests(folder):
    path = os.pathsep.join(map(os.path.abspath, sys.path))  # of this Rookery, wherever it lies
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path})


@pytest.mark.parametrize("agents", [1, 3])
def test_a_project_has_an_environment_its_test_settings_and_a_readme(rookery, tmp_path, agents):
    code, out, err = rookery("init", "my-game", "--agents", agents)
    assert (code, err) == (0, "")
    assert out.splitlines()[-1] == "next: cd my-game; rookery train settings.yaml"
    folder = tmp_path / "my-game"
    assert sorted(file.name for file in folder.iterdir()) == sorted([*FILES, "my_game.py", "test_my_game.py"])
    text = (folder / "settings.yaml").read_text()
    assert text.startswith("# yaml-language-server: $schema=settings.schema.json\n")
    values = YAML(typ="safe", pure=True).load(text)
    assert values["env"] == {"name": "my_game:MyGame"}
    assert len(values.get("policies", {})) == (0 if agents == 1 else 3)
    assert "policies" in json.loads((folder / "settings.schema.json").read_text())["properties"]
    assert not {"MODULE", "CLASS", "AGENTS", "NAME", "POLICIES"} & set(
        " ".join(file.read_text() for file in folder.iterdir() if file.suffix != ".json").split()
    )
    done = run_tests(folder)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("there", "there exists already; nothing was written: choose another name"),
        ("2games", "'2games' is not a name of a module"),
        ("random", "there is already a module random; choose another name"),
    ],
)
def test_an_existing_folder_and_names_of_no_module_are_refused(rookery, tmp_path, name, problem):
    (tmp_path / "there").mkdir()
    code, _, err = rookery("init", name)
    assert code == 2
    assert problem in err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["there"]


@pytest.mark.parametrize("agents", [1, 2])
def test_an_environment_alone_is_written_and_checks_without_a_warning(rookery, tmp_path, agents):
    name = f"walkers{agents}"
    code, out, err = rookery("envs", "new", name, "--agents", agents)
    assert (code, err) == (0, "")
    assert f"train:     rookery train {name}:Walkers{agents}" in out
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"test_{name}.py", f"{name}.py"]
    code, out, err = rookery("envs", "check", f"{name}:Walkers{agents}")
    assert code == 0, err
    assert out.splitlines()[-1] == "no errors, no warnings"
    code, _, err = rookery("envs", "new", name)
    assert code == 2
    assert "exists already" in err


def test_an_environment_in_c_has_one_agent(rookery):
    code, _, err = rookery("envs", "new", "--c", "my_env", "--agents", 2)
    assert code == 2
    assert "--c and --agents exclude each other" in err


@pytest.mark.slow
@pytest.mark.parametrize("agents", [1, 2])
def test_the_commands_of_the_readme_work_and_the_training_learns(rookery, tmp_path, monkeypatch, agents):
    rookery("init", f"learned{agents}", "--agents", agents)
    folder = tmp_path / f"learned{agents}"
    commands = (folder / "README.md").read_text().partition("```sh\n")[2].partition("```")[0].splitlines()
    assert len(commands) == 3
    path = os.pathsep.join(map(os.path.abspath, sys.path))
    program = "import sys; sys.argv[0] = 'rookery'\nfrom rookery.cli.main import program; program()"
    for command in commands:
        first, *words = command.split()
        start = [sys.executable] if first == "python" else [sys.executable, "-c", program]
        done = subprocess.run([*start, *words], cwd=folder, capture_output=True, text=True,
                              env={**os.environ, "PYTHONPATH": path}, timeout=180)  # fmt: skip
        assert done.returncode == 0, done.stderr
    result = json.loads((folder / "runs" / "first" / "result.json").read_text())
    assert result["evaluation"]["return_mean"] > 0.3 * agents  # random actions earn about -2 for each agent
