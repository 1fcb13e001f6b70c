"""Packages outside that add a part of each kind: found by their entry points, imported when asked for."""

import sys
import tomllib
import warnings
from pathlib import Path

import pytest

import warm_children
from rookery import PPOConfig, Trainer
from rookery.algorithms.names import ALGORITHMS
from rookery.core import plugins
from rookery.core.errors import ConfigError
from rookery.core.io.files import FOLDER, list_checkpoints
from rookery.core.plugins import ENV_SCHEMES, EXPORTERS, LOGGERS, REPLAY_FORMATS, VERBS, PluginTable, PluginWarning

EXAMPLE = Path(__file__).parents[2] / "examples" / "plugin"

TABLES = [ENV_SCHEMES, EXPORTERS, LOGGERS, REPLAY_FORMATS, VERBS, ALGORITHMS]


installed_plugins = plugins.installed_plugins


def forget():
    installed_plugins.cache_clear()
    for table in TABLES:
        table.__dict__.pop("added", None)


def install(folder, name, entry_points):
    """Writes the metadata that pip would write."""
    text = "".join(
        f"[{group}]\n" + "".join(f"{key} = {path}\n" for key, path in rows.items())
        for group, rows in entry_points.items()
    )
    (folder / f"{name}-0.1.dist-info").mkdir(parents=True)
    (folder / f"{name}-0.1.dist-info" / "entry_points.txt").write_text(text)
    return folder


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder with the metadata of packages; the example's modules are on the path too."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.setattr(sys, "path", [*sys.path, str(folder), str(EXAMPLE)])
    forget()
    yield folder
    forget()


@pytest.fixture
def example(site):
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    install(site, "rookery_corridors", project["entry-points"])
    forget()


def test_a_package_outside_adds_one_part_of_each_kind(example, rookery, tmp_path):
    def printed(*words):
        code, out, error = rookery(*words)
        assert not code, error
        return out

    assert "corridor:N has N fields" in printed("corridors")
    assert "Command of the package" in printed("--help")
    assert "rookery-corridors" in printed("envs")
    printed(
        "train", "corridor:3", "algorithm.name=timid", "algorithm.fragment_length=16", "sampling.num_envs=2",
        "logging.loggers=[returns]", "--stop", "env_steps=64", "--evaluate", "0", "--run-id", "one", "--seed", "1",
    )  # fmt: skip
    assert len((tmp_path / "runs" / "one" / "returns.txt").read_text().splitlines()) == 2
    printed("export", "runs/one", "--format", "weights")
    assert (tmp_path / "runs/one/main.npz").is_file()
    (tmp_path / "two.lines").write_text(
        '{"obs": [[0.0], [0.5]], "action": [1, 1], "reward": [0, 1], "terminated": true}\n' * 2
    )
    printed("replay", "import", "two.lines", "--env", "corridor:2", "-o", "replay")
    printed("replay", "export", "replay", "-o", "again.lines")
    assert (tmp_path / "again.lines").read_text().count('"terminated": true') == 2


def test_a_foreign_run_imports_no_plug_in_unless_its_code_is_trusted(example, tmp_path, monkeypatch):
    for name in [name for name in sys.modules if name.startswith("rookery_corridors")]:
        del sys.modules[name]
    path = tmp_path / "run"
    with Trainer("corridor:2", PPOConfig(fragment_length=8), config={"sampling.num_envs": 1}, run_dir=path) as trainer:
        trainer.train(stop={"env_steps": 8})
    for name in [name for name in sys.modules if name.startswith("rookery_corridors")]:
        del sys.modules[name]
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "another-machine"))
    saved = list_checkpoints(path / FOLDER)[-1]
    with pytest.raises(ConfigError, match=r"rookery_corridors.parts:CORRIDOR.*not written by you"):
        Trainer.load(saved)
    assert not [name for name in sys.modules if name.startswith("rookery_corridors")]


def test_a_plug_in_cannot_replace_a_built_in_part(site):
    install(site, "thief", {"rookery.algorithms": {"ppo": "thief:Config", "own": "thief:Config"}})
    install(site, "late", {"rookery.algorithms": {"own": "late:Config"}})
    forget()
    table = PluginTable("rookery.algorithms", {"ppo": "rookery.algorithms.on_policy.ppo:PPOConfig"})
    with pytest.warns(PluginWarning) as told:
        assert dict(table) == {"ppo": "rookery.algorithms.on_policy.ppo:PPOConfig", "own": "late:Config"}
    assert [str(one.message) for one in told] == [
        "rookery.algorithms: plug-in 'ppo' of the package thief is left out: 'ppo' is built in",
        "rookery.algorithms: plug-in 'own' of the package thief is left out: the package late has one of this name",
    ]


def test_a_broken_plug_in_is_one_warning_and_an_error_where_it_is_named(site):
    install(site, "broken_parts", {"rookery.replay_formats": {"odd": "not_there_at_all:ODD"}})
    forget()
    with pytest.warns(PluginWarning, match="'odd' of the package broken-parts is left out: .*not_there_at_all"):
        assert REPLAY_FORMATS.load_added() == {}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ConfigError, match="odd of the package broken-parts: .*there is no module"):
            REPLAY_FORMATS.load("odd")


def test_a_built_in_name_reads_no_metadata(site, monkeypatch):
    monkeypatch.setattr(plugins, "installed_plugins", lambda: pytest.fail("metadata was read"))
    forget_only = [table.__dict__.pop("added", None) for table in TABLES]
    assert len(forget_only) == len(TABLES)
    assert EXPORTERS.load("onnx").suffix == ".generic.onnx"
    with Trainer("CartPole-v1", PPOConfig(fragment_length=8), config={"sampling.num_envs": 1}) as trainer:
        trainer.train(stop={"env_steps": 8})


def test_metadata_in_the_working_directory_alone_is_not_read(tmp_path, monkeypatch):
    install(tmp_path, "stranger", {"rookery.verbs": {"surprise": "stranger:main"}})
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", str(tmp_path), *sys.path])
    forget()
    assert "surprise" not in VERBS.added
    forget()


def test_no_face_is_imported_by_a_training(tmp_path):
    (tmp_path / "training.py").write_text(
        "import sys; from rookery import Trainer, PPOConfig\n"
        "with Trainer('CartPole-v1', PPOConfig(fragment_length=8), config={'sampling.num_envs': 1}) as t:\n"
        "    t.train(stop={'env_steps': 8})\n"
        "print([name for name in sys.modules if 'unity' in name or name.startswith(('rookery_', 'rookery.compat'))])"
    )
    with warm_children.script(tmp_path / "training.py") as child:
        assert child.stdout.read().splitlines()[-1:] == ["[]"], child.stderr.read()
