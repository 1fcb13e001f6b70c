"""Old names lead to what they named: in texts, imports, pickles, ``python -m`` and stored runs."""

import json
import pickle
import runpy
import shutil
import sys
from hashlib import sha256
from importlib import import_module
from pathlib import Path

import pytest

import rookery
from rookery import PPOConfig, Trainer, tune
from rookery.algorithms.algorithm import AlgorithmConfig
from rookery.algorithms.on_policy import ppo
from rookery.core import moved, source
from rookery.core.errors import ConfigError, EnvError
from rookery.core.settings.foreign_arguments import is_ours as is_own_class
from rookery.core.settings.layers import import_object
from rookery.core.settings.trust import CodeKind, Named, Trust, is_ours
from rookery.envs.make import find_maker, make_env
from rookery.models.heads import DistributionHead
from rookery.rollout.hooks import EpisodeListener, names_of
from rookery.tasks.basic import Basic
from rookery.tune.identity import refuse_changes

STORED = Path(__file__).parents[1] / "golden" / "checkpoints"

ROWS = {
    "rookery.attic": "rookery.cellar",
    "rookery.attic.losses": "rookery.cellar.losses",
    "rookery.cellar": "rookery.tasks",
    "rookery.cellar.losses": "rookery.algorithms.on_policy.ppo",
    "rookery.launch": "rookery",
}

NAMES = {
    "rookery.attic.losses:OldConfig": "rookery.algorithms.on_policy.ppo:PPOConfig",
    "rookery.kept:Gone": "rookery.models.heads:DistributionHead",
}

REMOVED = {
    "rookery.attic.games": "use rookery.tasks",
    "rookery.cellar:OldGame": "use rookery.tasks.TicTacToe",
    "rookery.kept:Lost": "use rookery.kept.Kept",
    "rookery:OldTrainer": "use rookery.Trainer",
}

MADE_UP = ("attic", "cellar", "kept", "launch")

CONFIG = CodeKind("settings of an algorithm", lambda found: issubclass(found, AlgorithmConfig))


@pytest.fixture(autouse=True)
def tables(monkeypatch):
    """Gives the tables made-up rows, and forgets afterwards what was imported by them."""
    for table, rows in ((moved.MOVED, ROWS), (moved.MOVED_NAMES, NAMES), (moved.REMOVED, REMOVED)):
        for old, new in rows.items():
            monkeypatch.setitem(table, old, new)
    moved._have_rows.cache_clear()
    moved._left.cache_clear()
    yield
    moved._have_rows.cache_clear()
    moved._left.cache_clear()
    for name in [name for name in sys.modules if name.startswith("rookery.") and name.split(".")[1] in MADE_UP]:
        del sys.modules[name]
    for name in MADE_UP:
        vars(rookery).pop(name, None)


@pytest.mark.parametrize(
    ("name", "now"),
    [
        ("rookery.attic.losses", "rookery.algorithms.on_policy.ppo"),
        ("rookery.attic.losses:PPOConfig.replace", "rookery.algorithms.on_policy.ppo:PPOConfig.replace"),
        ("rookery.attic.losses:OldConfig.replace", "rookery.algorithms.on_policy.ppo:PPOConfig.replace"),
        ("rookery.attic:Basic", "rookery.tasks:Basic"),
        ("rookery.attic.grids:OneHotView", "rookery.tasks.grids:OneHotView"),
        ("rookery.cellar", "rookery.tasks"),
        ("rookery.atticus:Basic", "rookery.atticus:Basic"),
        ("attic:Basic", "attic:Basic"),
        ("runs/rookery.attic:main", "runs/rookery.attic:main"),
        ("", ""),
    ],
)
def test_a_name_has_a_present_one(name, now):
    assert moved.new_name(name) == now


def test_a_module_can_become_a_package_of_its_name(monkeypatch):
    monkeypatch.setitem(moved.MOVED, "rookery.kept", "rookery.kept.plain")
    assert moved.new_name("rookery.kept:Kept") == "rookery.kept.plain:Kept"
    assert moved.new_name("rookery.kept.plain:Kept") == "rookery.kept.plain:Kept"


def test_rows_in_a_circle_end(monkeypatch):
    monkeypatch.setitem(moved.MOVED, "rookery.tasks", "rookery.attic")
    assert moved.new_name("rookery.attic:Basic").endswith(":Basic")


def test_texts_find_what_they_named():
    assert import_object("rookery.attic.losses:OldConfig") is PPOConfig
    assert import_object("rookery.attic:Basic") is Basic
    assert source.find("rookery.attic.losses:PPO.training_step") == source.find(
        "rookery.algorithms.on_policy.ppo:PPO.training_step"
    )
    with Trainer(
        "rookery.attic:Basic", {"name": "rookery.attic.losses:OldConfig"}, num_envs=2, env_processes=0
    ) as trainer:
        assert type(trainer.config.algorithm) is PPOConfig
        assert trainer.train_iteration().env_steps


def test_imports_and_pickles_find_what_they_named():
    assert import_module("rookery.attic.losses") is ppo
    package = import_module("rookery.attic")
    assert package.Basic is Basic and package.losses is ppo
    from rookery.attic import board_games

    assert board_games is sys.modules["rookery.tasks.games.board_games"]
    written = pickle.dumps(PPOConfig(lr=0.5), protocol=0)
    old = written.replace(b"crookery.algorithms.on_policy.ppo\nPPOConfig", b"crookery.attic.losses\nPPOConfig")
    assert old != written and pickle.loads(old) == PPOConfig(lr=0.5)
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'rookery\.attic\.nothing'"):
        import_module("rookery.attic.nothing")


def test_a_module_that_stays_gives_what_has_left_it(tmp_path, monkeypatch):
    monkeypatch.setattr(rookery, "__path__", [*rookery.__path__, str(tmp_path)])
    (tmp_path / "kept.py").write_text("class Kept: pass\ndef __getattr__(name): return {'lazy': 3}[name]\n")
    kept = import_module("rookery.kept")
    assert kept.Gone is DistributionHead
    assert kept.Kept.__module__ == "rookery.kept"
    assert kept.lazy == 3
    assert pickle.loads(b"crookery.kept\nGone\n.") is DistributionHead


def test_a_folder_that_holds_no_source_hides_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(rookery, "__path__", [*rookery.__path__, str(tmp_path)])
    (tmp_path / "attic" / "__pycache__").mkdir(parents=True)
    assert import_module("rookery.attic").Basic is Basic


def test_python_runs_an_old_module(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["-m", "--version"])
    with pytest.raises(SystemExit) as end:
        runpy.run_module("rookery.launch", run_name="__main__", alter_sys=True)
    assert not end.value.code
    assert rookery.__version__ in capsys.readouterr().out


def test_what_was_removed_says_what_to_use(tmp_path, monkeypatch):
    for name in ("rookery.attic.games:Chess", "rookery.attic:OldGame"):
        with pytest.raises(ConfigError, match=r"was removed; use rookery\.tasks"):
            import_object(name)
        with pytest.raises(EnvError, match=r"was removed; use rookery\.tasks"):
            find_maker(name)
        with pytest.raises(EnvError, match=r"env\.wrappers: .* was removed; use rookery\.tasks"):
            make_env("CartPole-v1", None, [name], 1, "auto")
        with pytest.raises(ConfigError, match=r"was removed; use rookery\.tasks"):
            Trust().check(tmp_path, [Named("algorithm.name", name, CONFIG)])
    with pytest.raises(ModuleNotFoundError, match=r"'rookery\.attic\.games': use rookery\.tasks"):
        import_module("rookery.attic.games")
    with pytest.raises(AttributeError, match=r"'OldTrainer': use rookery\.Trainer"):
        _ = rookery.OldTrainer
    monkeypatch.setattr(rookery, "__path__", [*rookery.__path__, str(tmp_path)])
    (tmp_path / "kept.py").touch()
    with pytest.raises(AttributeError, match=r"'Lost': use rookery\.kept\.Kept"):
        _ = import_module("rookery.kept").Lost


def test_old_names_are_trusted_as_present_ones_are(tmp_path):
    own = Named("algorithm.name", "rookery.attic.losses:OldConfig", CONFIG)
    assert not Trust().objection(own)
    assert "not settings of an algorithm" in Trust().objection(Named("x", "rookery.attic:Basic", CONFIG))
    assert "any kind" in Trust().objection(Named("x", "rookery.attic:Basic", None))
    for said in ("rookery.attic:Basic", "rookery.tasks:Basic"):
        for name in ("rookery.attic:Basic", "rookery.tasks:Basic"):
            assert not Trust(names=frozenset([said])).objection(Named("x", name, None))
    assert Trust().objection(Named("x", "rookery.attic.losses:np.save", CONFIG))


@pytest.mark.parametrize("package", ["rookery", "rookery_rllib", "rookery_mlagents"])
def test_packages_of_this_distribution_are_ours_by_their_whole_names(package):
    listener = type("Counter", (EpisodeListener,), {"__module__": f"{package}.counters"})
    assert is_ours(f"{package}.counters:Counter") and is_ours(package) and is_own_class(listener)
    assert names_of([listener()]) == ["rookery:Counter"], "as it was before it moved"
    for other in (f"{package}_evil", f"{package}evil", f"evil_{package}"):
        stranger = type("Counter", (EpisodeListener,), {"__module__": f"{other}.counters"})
        assert not is_ours(f"{other}:Counter") and not is_ours(other) and not is_own_class(stranger)
        assert names_of([stranger()]) == [f"{other}.counters:Counter"]
        assert "no code of Rookery" in Trust().objection(Named("x", f"{other}.counters:Counter", CONFIG))


def test_an_experiment_resumes_under_present_names(tmp_path):
    record = {"space": {"env": {"choice": ["rookery.attic:Basic", "other:Basic"]}}, "job": {}, "tune": {}}
    refuse_changes(tmp_path, record, moved.new_names(record))
    assert moved.new_names(record)["space"]["env"]["choice"] == ["rookery.tasks:Basic", "other:Basic"]
    assert tune.choice([PPOConfig, Basic]).index("rookery.attic.losses:OldConfig") == 0
    assert tune.choice(["rookery.attic:Basic", "other"]).index("rookery.attic:Basic") == 0


# --- a stored run -----------------------------------------------------------------------------------------------------

OLD = {
    b"rookery.models.heads:DistributionHead": b"rookery.attic.tops:OldHead",
    b"rookery.signals.count:CountConfig": b"rookery.attic.novelty:CountConfig",
}
"""Made-up older names of what the stored run names."""


def as_older(folder):
    """Rewrites a stored run as if it had been written when its classes had older names."""
    for path in folder.rglob("*"):
        if path.suffix in (".json", ".yaml"):
            content = path.read_bytes()
            for now, old in OLD.items():
                content = content.replace(now, old)
            path.write_bytes(content)
    assert b"rookery.attic.tops" in (folder / "checkpoints" / "000004" / "policies.json").read_bytes()
    assert b"rookery.attic.novelty" in (folder / "checkpoints" / "000004" / "config.json").read_bytes()
    for file in folder.rglob("manifest.json"):
        manifest = json.loads(file.read_bytes())
        del manifest["sha256"]
        for name in manifest["files"]:
            content = (file.parent / name).read_bytes()
            manifest["files"][name] = {"bytes": len(content), "sha256": sha256(content).hexdigest()}
        manifest["sha256"] = sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()
        file.write_bytes(json.dumps(manifest, indent=1, sort_keys=True).encode())


def test_a_stored_run_with_older_names_resumes(tmp_path, monkeypatch):
    monkeypatch.setitem(moved.MOVED, "rookery.attic.novelty", "rookery.signals.count")
    monkeypatch.setitem(moved.MOVED, "rookery.attic.tops", "rookery.models.heads")
    monkeypatch.setitem(moved.MOVED_NAMES, "rookery.attic.tops:OldHead", "rookery.models.heads:DistributionHead")
    weights = []
    for name in ("today", "older"):
        folder = tmp_path / name
        shutil.copytree(STORED / "own-signal", folder)
        if name == "older":
            as_older(folder)
        with Trainer.load(folder, resume=True) as trainer:
            trainer.train({"iterations": 5})
            weights.append({key: value.tolist() for key, value in trainer.policies["main"].state_dict().items()})
    assert weights[0] == weights[1]


@pytest.mark.parametrize("face", ["rllib", "mlagents"])
def test_the_old_name_of_a_face_is_noted_at_the_line_that_imports_it(face, monkeypatch):
    monkeypatch.delitem(sys.modules, f"rookery.compat.{face}", raising=False)
    with pytest.warns(DeprecationWarning, match=f"is now rookery_{face}") as seen:
        exec(compile(f"import rookery.compat.{face}", "script.py", "exec"), {"__name__": "__main__"})
    assert {note.filename for note in seen} == {"script.py"}
