"""The names of 2021 are visible to the script and the modules of its folder only."""

import pickle
import subprocess
import sys
from types import ModuleType

import cloudpickle
import pytest

from rookery.script import importer
from rookery.script.importer import script_builtins, show_names_in
from rookery_rllib.base import imports
from rookery_rllib.base.imports import find, module
from rookery_rllib.script.finder import IMPORTER, install


@pytest.fixture
def table(monkeypatch):
    """The tables of names, with a few that stand for whole areas."""
    targets, gone = imports.known()
    targets = {
        **targets,
        "ray": {},
        "ray.rllib": {},
        "ray.rllib.agents": {},
        "ray.rllib.agents.ppo": {"PPOTrainer": "=collections:OrderedDict", "DEFAULT_CONFIG": "=string:digits"},
        "ray.tune": {"run": "=math:sqrt"},
    }
    gone = {**gone, "ray.rllib.agents.slateq": "slates; use DQN", "ray.tune.track": "use tune.report"}
    monkeypatch.setattr(imports, "known", lambda: (targets, gone))
    imports.module.cache_clear()
    imports.top_packages.cache_clear()
    yield
    monkeypatch.undo()
    imports.module.cache_clear()
    imports.top_packages.cache_clear()


def run(source: str) -> dict:
    """The globals of code that runs as a script's."""
    namespace = {"__name__": "__main__", "__builtins__": script_builtins(IMPORTER)}
    exec(compile(source, "script.py", "exec"), namespace)
    return namespace


def test_every_form_of_import_finds_the_names(table):
    seen = run(
        "import ray\n"
        "import ray.rllib.agents.ppo as ppo\n"
        "import ray.tune\n"
        "from ray import tune\n"
        "from ray.rllib.agents.ppo import PPOTrainer, DEFAULT_CONFIG as D\n"
        "from ray.rllib.agents import ppo as again\n"
        "def inside():\n"
        "    from ray.tune import run\n"
        "    return run\n"
        "class C:\n"
        "    import gym.spaces\n"
        "import importlib\n"
        "from importlib import import_module\n"
        "by_name = importlib.import_module('ray.tune'), import_module('gym.spaces.box'), import_module('math')\n"
    )
    assert seen["ppo"] is seen["again"] is seen["ray"].rllib.agents.ppo
    assert seen["tune"] is seen["ray"].tune is seen["by_name"][0]
    assert seen["PPOTrainer"].__name__ == "OrderedDict" and seen["D"] == "0123456789"
    assert seen["inside"]()(4) == 2
    assert seen["C"].gym.spaces.Discrete(3).n == 3
    assert seen["by_name"][1].__name__ == "gym.spaces.box" and seen["by_name"][2].sqrt(4) == 2
    assert isinstance(seen["ppo"], ModuleType) and seen["ppo"].__name__ == "ray.rllib.agents.ppo"


def test_a_star_gives_what_the_table_lists(table):
    seen = run("from ray.rllib.agents.ppo import *\nfrom random import *\n")
    assert {"PPOTrainer", "DEFAULT_CONFIG", "randint"} <= seen.keys()
    assert 1 <= seen["randint"](1, 3) <= 3


def test_nothing_is_left_in_sys_modules_and_libraries_see_the_truth(table):
    before = {name for name in sys.modules if name.partition(".")[0] in ("gym", "tensorflow")}
    seen = run("import gym\nfrom ray.tune import run\nimport json\n")
    assert {name for name in sys.modules if name.partition(".")[0] in ("gym", "tensorflow")} == before
    assert seen["json"] is sys.modules["json"]
    with pytest.raises(ImportError):
        import gym  # noqa: F401


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("from ray.rllib.agents.ppo import PPOTrainr", "did you mean 'PPOTrainer'"),
        ("from ray.rllib.agents import PPOTrainer", "'PPOTrainer' is in ray.rllib.agents.ppo"),
        ("import ray.rllib.agents.pppo", "ray.rllib.agents has no 'pppo' in Rookery; did you mean 'ppo'"),
        (
            "from ray.rllib.agents.slateq import SlateQTrainer",
            "ray.rllib.agents.slateq is not supported: slates; use DQN",
        ),
        ("from ray.rllib.utils.exploration import PerWorkerEpsilonGreedy", "use EpsilonGreedy"),
        ("from ray.tune import track", "ray.tune.track is not supported: use tune.report"),
        ("import ray; ray.tune.rum", "did you mean 'run'"),
        ("import gym.vector", "gym.vector is not supported"),
        ("from gym.error import Eror", "gym.error has no 'Eror'"),
    ],
)
def test_a_name_that_is_not_there_says_what_to_use(table, line, told):
    with pytest.raises((ImportError, AttributeError)) as caught:
        run(line)
    assert told in str(caught.value)


def test_a_missing_name_is_caught_like_any_missing_import(table):
    seen = run("try:\n    import ray.rllib.agents.slateq\nexcept ModuleNotFoundError as e:\n    name = e.name\n")
    assert seen["name"] == "ray.rllib.agents.slateq"
    assert not run("import gym\nok = hasattr(gym, 'nothing')")["ok"]


def test_modules_can_be_looked_up_and_pickled(table):
    assert find("ray.rllib.agents.ppo.PPOTrainer").__name__ == "OrderedDict"
    assert find("gym.spaces") is module("gym.spaces")
    assert pickle.loads(pickle.dumps(module("gym.spaces"))) is module("gym.spaces")
    assert "Box" in dir(module("gym.spaces")) and "rllib" in dir(module("ray"))
    with pytest.raises(ImportError, match="no module 'nonsense"):
        find("nonsense.really")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    before = set(sys.modules)
    show_names_in(IMPORTER, tmp_path)
    yield tmp_path
    importer._folder_finder.folders.pop(str(tmp_path.resolve()), None)
    for name in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def test_modules_of_the_folder_see_the_names_and_those_elsewhere_do_not(folder, tmp_path_factory, monkeypatch):
    (folder / "beside_it.py").write_text("import gym\nclass Env(gym.Env):\n    pass\n")
    (folder / "package_of_it").mkdir()
    (folder / "package_of_it" / "__init__.py").write_text("from .inner import SPACE\n")
    (folder / "package_of_it" / "inner.py").write_text("from gym.spaces import Discrete\nSPACE = Discrete(3)\n")
    (folder / "without_init").mkdir()
    (folder / "without_init" / "part.py").write_text("from gym.spaces import Box\n")
    elsewhere = tmp_path_factory.mktemp("library")
    (elsewhere / "library_that_probes.py").write_text("try:\n    import gym\nexcept ImportError:\n    gym = None\n")
    monkeypatch.setattr(sys, "path", [*sys.path, str(elsewhere)])
    seen = run(
        "import beside_it, package_of_it, library_that_probes\nfrom without_init.part import Box\n"
        "from package_of_it import inner\n"
    )
    assert issubclass(seen["beside_it"].Env, module("gym").Env)
    assert seen["package_of_it"].SPACE.n == 3 and seen["inner"].SPACE.n == 3
    assert seen["Box"] is module("gym.spaces").Box
    assert seen["library_that_probes"].gym is None


CARRIED = """
import pickle, sys
made = pickle.loads(sys.stdin.buffer.read())
print(made())
assert "gym" not in sys.modules
try:
    import gym
except ImportError:
    print("truth")
"""


def carried(what) -> str:
    """Returns the output of a fresh interpreter that loads a callable by cloudpickle."""
    body = cloudpickle.dumps(what)
    done = subprocess.run([sys.executable, "-c", CARRIED], input=body, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def test_functions_see_the_names_in_other_processes(folder):
    (folder / "also_here.py").write_text(
        "import gym, random\n"
        "class Env(gym.Env):\n"
        "    def reset(self):\n"
        "        from gym.envs.classic_control import rendering\n"
        "        def nested():\n"
        "            import gym.spaces as spaces\n"
        "            from not_yet_imported import WORD\n"
        "            seen = spaces.Discrete(2), rendering.Viewer(3, 2).width, gym.__version__, WORD\n"
        "            return *seen, random.random() < 1\n"
        "        return nested()\n"
    )
    (folder / "not_yet_imported.py").write_text("import gym\nWORD = gym.Env.__name__\n")
    seen = run("import also_here\ndef make():\n    env = also_here.Env()\n    return env.reset()\n")
    assert carried(seen["make"]).split("\n")[:2] == ["(Discrete(2), 3, '0.18.3', 'Env', True)", "truth"]
    again = run("class E:\n    def __call__(self):\n        import gym\n        return gym.__name__\nmade = E()\n")
    assert carried(again["made"]).split("\n")[:2] == ["gym", "truth"]
    assert len(cloudpickle.dumps(again["made"])) < 3000  # no builtins dragged along


def test_functions_of_others_are_carried_as_they_were():
    namespace = {"__name__": "__main__"}
    exec("def probe():\n    try:\n        import gym\n    except ImportError:\n        return 'no gym'\n", namespace)
    assert carried(namespace["probe"]).startswith("no gym")


INSTALLED = """
import rookery_rllib, sys
assert "torch" not in sys.modules and "numpy" not in sys.modules
rookery_rllib.install()
import gym
from gym.spaces import Discrete
def inside():
    import gym.spaces
    return gym.spaces.Discrete(2)
assert inside().n == 2 and gym.Env and "gym" not in sys.modules
import notebook_part
assert notebook_part.Env is gym.Env
exec("try:\\n    import gym\\nexcept ImportError:\\n    print('truth')", {})
print("fine")
"""


def test_install_serves_code_that_runs_already(tmp_path):
    (tmp_path / "notebook_part.py").write_text("from gym import Env\n")
    (tmp_path / "plain.py").write_text(INSTALLED)
    done = subprocess.run([sys.executable, "plain.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout == "truth\nfine\n", done.stderr


def test_install_takes_a_namespace():
    namespace = {"__name__": "cell"}
    install(namespace)
    exec("import gym", namespace)
    assert namespace["gym"] is module("gym")


def test_one_import_line_gives_the_modules():
    script = "from rookery_rllib import gym\nassert gym.spaces.Discrete(2).n == 2\nimport rookery_rllib as r\n"
    script += (
        "assert {'ray', 'tune', 'install'} <= set(dir(r))\ntry:\n    r.nothing\nexcept AttributeError:\n    print('ok')"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout == "ok\n", done.stderr
