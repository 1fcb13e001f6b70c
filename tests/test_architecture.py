"""Rules of the design, checked in the source: unique lines, layers, defaults, names, sizes, the map."""

from __future__ import annotations

import ast
import inspect
import itertools
import re
import subprocess
import sys
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils._device import _device_constructors

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "scripts"))

from source_reading import Source, circles, functions, is_text, package_of  # noqa: E402
from trace_walks import FEATURES  # noqa: E402

SOURCE = ROOT / "src" / "rookery"

LAYERS = [
    {"core"},
    {"models", "envs", "report"},
    {"policies", "tasks", "tensor_envs", "search"},
    {"signals", "replay", "native", "cluster", "onnx"},
    {"algorithms", "rollout"},
    {"run"},
    {"tune", "serving", "ope", "doctor"},
    {"extend", "script"},
    {"cli"},
    {"face"},
    {"rookery_mlagents"},
    {"rookery_rllib"},
    {"compat"},
    {"__main__"},
]
"""Lowest first. A package imports from itself and from lower layers; siblings never import each other."""

LATE = {
    "pydantic": "takes a tenth of a second, and the first look at a setting needs none of it",
    "pydantic_core": "likewise",
    "ruamel": "takes a tenth of a second; needed by those who read or write YAML",
    "rookery.cluster.ray_hosts": "loads Ray, which is optional (the extra ray)",
    "rookery.cluster.ray_ranks": "likewise",
    "rookery_mlagents.link.base_env_copies": "loads the link to Unity's players; needed by those who play one",
    "rookery_mlagents.link.unity_env": "likewise",
    "PIL": "Pillow; needed by those who look at images",
    "rookery.tasks.drawing": "loads Pillow",
    "tensorboard": "needed by runs that write a directory",
    "matplotlib": "optional (the extra plot), and takes half a second",
    "av": "optional (the extra video)",
    "jinja2": "needed by those who write a page",
    "optuna": "optional (the extra tune), and takes half a second",
    "pandas": "optional (the extra tune), and takes half a second",
    "jax": "optional; needed by environments that are written in it",
    "gymnax": "likewise",
    "brax": "likewise",
    "mujoco": "optional (the extra mujoco); an environment of it has loaded it",
    "pyarrow": "optional (the extra offline)",
    "minari": "optional (the extra offline)",
    "h5py": "optional (the extra hdf5)",
    "onnx": "optional (the extra onnx)",
    "grpc": "optional (the extra unity)",
    "uvicorn": "optional (the extra serve)",
    "httptools": "optional (the extra serve)",
    "google": "likewise: protobuf",
    "onnxruntime": "likewise",
    "lz4": "optional; needed for columns that others have packed with it",
    "pygame": "optional; needed by those who play in a window",
    "termios": "not on every system; needed by those who play at a terminal",
    "tty": "likewise",
}
"""What may be imported inside a function, with the reason: it is heavy, and most runs start without it."""

ENVIRONMENTS = ("envs/", "tasks/", "tensor_envs/")
"""Packages in which an environment may be stepped: one passes the call on to another."""

FOREIGN = ("rookery_rllib/", "rookery_mlagents/")
"""Where names, signatures and the words for an end are those of other systems, whose wrappers step environments."""

MAX_FUNCTION = 70

SECOND_DEFAULTS = {
    "cli/bench/bench.py:bench.seconds": "of a measurement, not of an experiment",
    "cli/config.py:schema.tune": "which schema is written",
    "cli/games/elo.py:elo.checkpoint": "which one is read, not when they are written",
    "cli/games/elo.py:elo.deterministic": "how games are played, which are no evaluation",
    "cli/games/elo.py:elo.seed": "of games, not of a run",
    "cli/envs.py:check.episodes": "random episodes, which measure nothing",
    "cli/envs.py:check.seed": "of a check, not of a run",
    "cli/evaluate.py:evaluate.checkpoint": "which one is read, not when they are written",
    "cli/onnx/export.py:export.checkpoint": "which one is read, not when they are written",
    "cli/learn.py:learn.gradient_steps": "of one call, beside those of a training on data",
    "cli/games/match.py:match.checkpoint": "which one is read, not when they are written",
    "cli/games/match.py:match.deterministic": "how games are played, which are no evaluation",
    "cli/games/match.py:match.seed": "of games, not of a run",
    "cli/games/play.py:play.checkpoint": "which one is read, not when they are written",
    "cli/games/play.py:play.deterministic": "how games are played, which are no evaluation",
    "cli/plot.py:plot.metric": "what is drawn, not what trials are judged by",
    "cli/record.py:record.checkpoint": "which one is read, not when they are written",
    "cli/record.py:record.episodes": "of a film, which is no measurement",
    "cli/replay/replay_record.py:record.checkpoint": "which one is read, not when they are written",
    "cli/replay/replay_record.py:record.episodes": "how many are recorded, which is no measurement",
    "cli/replay/replay_record.py:record.seed": "of a recording, not of a run",
    "cli/serve.py:serve.checkpoint": "which one is read, not when they are written",
    "cli/serve.py:serve.deterministic": "how clients are answered, which is no evaluation",
    "cli/serve.py:serve.threads": "of a server, not of a run",
    "envs/native/c_env.py:CEnv.__init__.threads": "of a vector step, not of a learner",
    "envs/adapters/classic.py:BatchedCartPole.__init__.max_episode_steps": "the rule of a task, not evaluation's limit",
    "policies/policy.py:Policy.__init__.name": "what a policy is called, which is no env.name",
    "policies/policy.py:Policy.act.deterministic": "how one call acts; evaluation's setting is passed to it",
    "policies/policy.py:Policy.predict.deterministic": "a user's call outside any run, which has no evaluation section",
    "policies/scripted.py:ScriptedPolicy.__init__.name": "what a player is called, which is no env.name",
    "policies/scripted.py:ScriptedPolicy.__init__.seed": "of a player, not of a run",
    "policies/scripted.py:ScriptedPolicy.act.deterministic": "as of Policy.act, which it overrides",
    "rollout/worker.py:RolloutWorker.__init__.deterministic": "training draws actions; evaluation passes its setting",
    "signals/return_scale.py:ReturnScale.__init__.clip": "of scaled rewards, not of a policy's ratios",
    "tasks/games/arena.py:BatchedArena.__init__.width": "of a task, not of a network",
    "tasks/games/arena.py:MultiAgentArena.__init__.width": "of a task, not of a network",
    "tasks/deep_sea.py:BatchedDeepSea.__init__.size": "of a task, not of what a policy remembers",
    "tasks/deep_sea.py:DeepSea.__init__.size": "of a task, not of what a policy remembers",
    "tasks/goal_grid.py:GoalGrid.__init__.size": "of a task, not of what a policy remembers",
    "tasks/key_door.py:BatchedKeyDoor.__init__.size": "of a task, not of what a policy remembers",
    "tasks/key_door.py:KeyDoor.__init__.size": "of a task, not of what a policy remembers",
    "tasks/memory_tasks.py:RepeatAfterMe.__init__.max_episode_steps": "the rule of a task, not evaluation's limit",
    "tasks/memory_tasks.py:StatelessCartPole.__init__.max_episode_steps": "the rule of a task, not evaluation's limit",
    "tasks/push_block.py:PushBlock.__init__.size": "of a task, not of what a policy remembers",
    "run/evaluate/recording.py:FunctionPolicy.act.deterministic": "as of Policy.act, which it overrides",
    "run/evaluate/recording.py:record_replay.deterministic": "a recording outside runs: no evaluation section",
    "run/evaluate/recording.py:record_replay.seed": "of a recording, not of a run",
    "run/trainer.py:Trainer.__init__.config": "layers of all settings, which is no env.config",
    "run/trainer.py:Trainer.learn.gradient_steps": "of one call, beside those of a training on data",
    "run/trainer.py:Trainer.load.config": "layers of all settings, which is no env.config",
    "run/trainer.py:Trainer.record.episodes": "a film of one episode, which is no measurement",
    "tensor_envs/classic.py:TensorCartPole.__init__.max_episode_steps": "the rule of a task, not evaluation's limit",
    "tensor_envs/classic.py:TensorPendulum.__init__.max_episode_steps": "the rule of a task, not evaluation's limit",
    "tune/experiment.py:run.config": "layers of all settings, which is no env.config",
    "tune/space.py:randn.mean": "of a domain that is searched, not of a sampler",
    "tune/space.py:randn.std": "the standard normal distribution, which is no setting",
}
"""Parameters that are called like a setting and have a default of their own, with the reason."""


OURS = Source(ROOT / "src")
files, text_of, tree_of, nodes_of, files_with = OURS.files, OURS.text_of, OURS.tree_of, OURS.nodes_of, OURS.files_with
code_of, name_of, module_of, imports_of = OURS.code_of, OURS.name_of, OURS.module_of, OURS.imports_of
modules = OURS.modules


@cache
def settings_fields() -> dict[str, list[tuple[str, ast.AnnAssign, ast.stmt | None]]]:
    """Every field of every class below `Settings`: by name, the classes with it, and the text under it, which may be
    that of a class above it whose field has another default here.
    """
    own = [path for path in files() if not name_of(path).startswith(FOREIGN)]
    classes = {node.name: node for path in own for node in nodes_of(path) if isinstance(node, ast.ClassDef)}

    def is_settings(name: str) -> bool:
        if name == "Settings":
            return True
        bases = classes[name].bases if name in classes else []
        return any(is_settings(ast.unparse(base).split("[")[0]) for base in bases)

    def text_under(node: ast.ClassDef, field: str) -> ast.stmt | None:
        for line, following in itertools.pairwise(node.body):
            if isinstance(line, ast.AnnAssign) and ast.unparse(line.target) == field and is_text(following):
                return following
        above = [classes[ast.unparse(base)] for base in node.bases if ast.unparse(base) in classes]
        return next(filter(None, (text_under(base, field) for base in above)), None)

    fields: dict[str, list[tuple[str, ast.AnnAssign, ast.stmt | None]]] = {}
    for name, node in classes.items():
        if not is_settings(name) or not any("dataclass" in ast.unparse(decorator) for decorator in node.decorator_list):
            continue
        for line in node.body:
            if isinstance(line, ast.AnnAssign) and "ClassVar" not in ast.unparse(line.annotation):
                field = ast.unparse(line.target)
                fields.setdefault(field, []).append((name, line, text_under(node, field)))
    return fields


# --- unique lines -------------------------------------------------------------------------------------------


def test_weights_change_in_one_place():
    assert set(files_with(r"\.backward\(")) == {"core/optim.py"}
    assert files_with("_fused_adam_") == ["core/flat.py"]
    assert set(files_with("adam_by_parts")) == {"core/flat.py"}  # what stands in for it
    assert files_with(r"fused_adam\(") == ["core/optim.py"]
    assert set(files_with(r"torch\.optim")) <= {"core/optim.py"}
    assert set(files_with(r"\.grad\b")) == {"core/flat.py", "core/optim.py", "core/native.py"}
    assert set(files_with(r"'(adam|rmsprop)_flat'")) == {"core/optim.py", "core/native.py"}  # kernels that move weights
    assert files_with(r"def gradient_step\(") == ["core/optim.py"]


def torch_factories() -> set[str]:
    """Functions of torch whose result has torch's default device where none is given."""
    return {function.__name__ for function in _device_constructors() if getattr(torch, function.__name__, None)}


def torch_layers() -> set[str]:
    """Modules of torch that make weights of its default type where none is given."""
    made = {name: each for name, each in vars(nn).items() if isinstance(each, type) and issubclass(each, nn.Module)}
    takes = {
        name: [inspect.signature(base.__init__).parameters for base in each.__mro__] for name, each in made.items()
    }
    return {name for name, each in takes.items() if any("dtype" in parameters for parameters in each)}


def test_type_and_device_are_named_wherever_a_tensor_is_made():
    # A program around ours may have set others as torch's defaults.
    factories, layers = torch_factories(), torch_layers()
    assert {"zeros", "tensor", "as_tensor", "arange"} <= factories and {"Linear", "LSTM"} <= layers
    of_layer = {
        node.name
        for path in files()
        for node in nodes_of(path)
        if isinstance(node, ast.ClassDef) and {ast.unparse(base) for base in node.bases} & {f"nn.{x}" for x in layers}
    }
    made = (
        {("torch", name) for name in factories} | {("nn", name) for name in layers} | {("", name) for name in of_layer}
    )
    wrong = []
    for path in files():
        for node in nodes_of(path):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute | ast.Name):
                room = getattr(node.func, "value", None)
                name = getattr(node.func, "attr", None) or getattr(node.func, "id", "")
                call = (getattr(room, "id", ""), name)
                old = call[0] == "torch" and (name.endswith("Tensor") or name.startswith("set_default"))
                if old or (call in made and not {"dtype", "device"} <= {word.arg for word in node.keywords}):
                    wrong.append(f"{name_of(path)}:{node.lineno}: {ast.unparse(node.func)}")
            if isinstance(node, ast.ImportFrom) and node.module in ("torch", "torch.nn"):
                bare = {each.name for each in node.names} & (factories | layers)
                wrong += [f"{name_of(path)}:{node.lineno}: import {name}" for name in bare]
    assert wrong == []


def test_environments_are_stepped_from_one_call_by_four_loops():
    assert files_with(r"\benv\.step\(", ignoring=(*ENVIRONMENTS, *FOREIGN)) == ["rollout/loops/python.py"]
    steps_of_trials = "(?<!work)(?<!trial_worker)(?<!trainable)"  # of tune, which does an iteration at a time
    assert files_with(steps_of_trials + r"\.step\(", ignoring=(*ENVIRONMENTS, *FOREIGN)) == ["rollout/loops/python.py"]
    assert code_of(SOURCE / "rollout" / "loops" / "python.py").count("state.now = env.step(actions)") == 1
    assert files_with(r"\brookery_play_steps\b") == ["envs/native/c_playing.py"]  # many steps in a call
    assert files_with(r"\bPlaying\(") == ["rollout/loops/native.py"]
    assert files_with(r"\.play_burst\(") == ["rollout/loops/helper_process.py"]  # likewise, in helper processes
    assert files_with(r"\.step_tensors\(", ignoring=ENVIRONMENTS) == ["rollout/loops/device.py"]  # and on a device
    worker = code_of(SOURCE / "rollout" / "worker.py")
    for call in ("self.fast_loop.play(self, most)", "self.python_loop.play(self, most)"):
        assert worker.count(call) == 1 and files_with(re.escape(call)) == ["rollout/worker.py"]


def test_layers_are_merged_in_one_place():
    assert files_with(r"def resolve\(") == ["core/config.py"]
    assert {name.split("/")[0] for name in files_with(r"(?<!def )\bresolve\(")} <= {
        "run",
        "tune",
        "cli",
        "rookery_mlagents",
    }


def test_one_loop_runs_over_the_learners():
    assert files_with(r"\.training_step\(") == ["run/trainer.py"]


# --- layers -------------------------------------------------------------------------------------------------


def test_every_package_has_a_layer():
    assert {package_of(module) for module in modules if module.count(".") > 1} <= set().union(*LAYERS)


def test_imports_point_down_only():
    level = {package: number for number, packages in enumerate(LAYERS) for package in packages}
    wrong = []
    for path in files():
        here = package_of(module_of(path))
        if path in (SOURCE / "__init__.py", SOURCE / "extend.py"):
            continue  # lazy tables, whose imports are for type checkers
        for found in OURS.all_imports_of(path):  # `import_module("rookery...")` too
            there = (found.module in modules and package_of(found.module)) or here
            if there != here and level[there] >= level[here]:
                wrong.append(f"{name_of(path)}:{found.line} imports {found.module}")
    assert not wrong


def test_faces_import_public_names_of_the_engine_alone():
    public = {"rookery", "rookery.face", "rookery.extend", "rookery.core.packages"}
    inner = [
        f"{name_of(path)}:{found.line} imports {found.module}"
        for path in files()
        if name_of(path).startswith(FOREIGN)
        for found in OURS.all_imports_of(path)
        if found.module.partition(".")[0] == "rookery"
        and found.module not in public
        and not found.module.startswith("rookery.script")
    ]
    assert inner == []


def test_names_for_the_faces_are_there_and_needed():
    texts = (text_of(path) for path in files() if name_of(path).startswith(FOREIGN))
    used = {word for text in texts for word in re.findall(r"\w+", text)}
    face = import_module("rookery.face")
    assert [name for name in face.__all__ if not hasattr(face, name) or name not in used] == []


def test_learning_and_playing_meet_only_in_the_run():
    both = []
    for path in files():
        packages = {
            package_of(found.module) for found in imports_of(path) if found.module.startswith("rookery.rollout.worker")
        }
        packages |= {
            package_of(found.module) for found in imports_of(path) if found.module.endswith("algorithms.algorithm")
        }
        if packages == {"rollout", "algorithms"}:
            both.append(name_of(path))
    assert both == ["run/run.py"]


def test_imports_form_no_cycle_types_and_texts_included():
    assert not circles(OURS.graph(texts=True))


def test_modules_of_ours_are_imported_by_a_text_at_known_places_alone():
    by_text = re.compile(r"\b_?import(?:_module)?\(\s*f?\"(?:rookery(?:_rllib|_mlagents)?\.|\{__(?:package|name)__\})")
    assert {name_of(path) for path in files() if by_text.search(path.read_text(encoding="utf-8"))} == {
        "rookery_mlagents/__init__.py",
        "rookery_mlagents/api/__init__.py",
    }


def test_imports_stand_at_the_top_except_heavy_ones():
    # A verb of the command line imports what it runs when it runs, so that --help does not load torch.
    wrong = []
    for path in files():
        verb = name_of(path).startswith("cli/")
        for found in imports_of(path):
            allowed = {found.module, found.module.split(".")[0]} & LATE.keys() or (
                verb and found.module.split(".")[0] in OURS.packages
            )
            if found.inside and not allowed and not name_of(path).startswith(FOREIGN):
                wrong.append(f"{name_of(path)}:{found.line} imports {found.module}")
    assert not wrong


def test_core_is_empty_at_its_root():
    assert (SOURCE / "core" / "__init__.py").read_text() == ""


def loaded_after(statements: str) -> set[str]:
    """Top-level modules that a fresh interpreter has after running `statements`."""
    script = f"{statements}\nimport sys\nprint(' '.join({{name.split('.')[0] for name in sys.modules}}))"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(run.stdout.split())


def test_environments_never_load_torch():
    needs = {  # modules of an optional package
        "rookery.envs.adapters.atari": "ale_py",
        "rookery.envs.adapters.minatar": "minatar",
        "rookery.envs.vector.envpool": "envpool",
    }
    names = [module_of(path) for room in ("envs", "tasks") for path in files(room)]
    names = [name for name in names if name not in needs or find_spec(needs[name])]
    names.append("rookery.rollout.loops.helper_side")  # helper processes of environments import it
    loaded = loaded_after("\n".join(f"import {name}" for name in names))
    assert "gymnasium" in loaded
    assert "torch" not in loaded


def test_importing_rookery_costs_nothing():
    assert not loaded_after("import rookery") & {"torch", "numpy", "gymnasium", "pydantic", "typer"}


def test_help_needs_neither_torch_nor_gymnasium():
    loaded = loaded_after("from rookery.cli.main import app")
    assert "typer" in loaded
    assert not loaded & {"torch", "numpy", "gymnasium", "pydantic", "ruamel"}


# --- settings -----------------------------------------------------------------------------------------------


def test_settings_are_found_by_this_file():
    assert {"lr", "gamma", "num_envs", "every", "implementation", "normalize_obs"} <= settings_fields().keys()


def test_every_setting_says_below_it_what_it_means():
    silent = [
        f"{owner}.{name}" for name, places in settings_fields().items() for owner, _, text in places if text is None
    ]
    assert not silent


def test_a_setting_has_no_second_default():
    # None does not count: it means that the setting decides.
    second = {}
    for path in files():
        for name, function in () if name_of(path).startswith(FOREIGN) else functions(tree_of(path)):
            arguments = function.args
            positional = [*arguments.posonlyargs, *arguments.args]
            pairs = list(zip(positional[::-1], arguments.defaults[::-1], strict=False))
            pairs += list(zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True))
            for argument, default in pairs:
                if default is None or (isinstance(default, ast.Constant) and default.value is None):
                    continue
                if argument.arg in settings_fields():
                    second[f"{name_of(path)}:{name}.{argument.arg}"] = ast.unparse(default)
    assert {where: value for where, value in second.items() if where not in SECOND_DEFAULTS} == {}
    assert SECOND_DEFAULTS.keys() <= second.keys()  # none that is no longer needed


# --- the public surface -------------------------------------------------------------------------------------


def test_examples_and_docs_import_from_the_public_surface_alone():
    inner = []
    for page in [*(ROOT / "examples").glob("*.py"), *(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]:
        for line in page.read_text(encoding="utf-8").splitlines():
            if re.match(r"\s*(from|import) rookery(_rllib|_mlagents)?\.(?!extend\b)", line):
                inner.append(f"{page.relative_to(ROOT)}: {line.strip()}")
    assert not inner


def test_what_benchmarks_and_scripts_import_is_there():
    lost = []
    for path in [*(ROOT / "benchmarks").rglob("*.py"), *(ROOT / "scripts").rglob("*.py")]:
        if any(part.startswith(".") for part in path.parts):
            continue  # environments of peers
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("rookery."):
                module = import_module(node.module)
                for alias in node.names:
                    if not hasattr(module, alias.name) and f"{node.module}.{alias.name}" not in modules:
                        lost.append(f"{path.name}: {node.module}.{alias.name}")
    assert not lost


def test_what_stands_in_extend_is_said_to_be_public():
    named = {
        alias.asname or alias.name
        for node in ast.walk(tree_of(SOURCE / "extend.py"))
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("rookery")
        for alias in node.names
    }
    (listed,) = [
        ast.literal_eval(node.value)
        for node in tree_of(SOURCE / "extend.py").body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    ]
    assert named == set(listed)


# --- names, sizes, docstrings -------------------------------------------------------------------------------


def test_no_file_is_a_drawer_for_everything():
    vague = {"utils", "util", "common", "helpers", "helper", "misc", "base_utils"}
    assert not [name_of(path) for path in files() if path.stem in vague or path.parent.name in vague]


def test_functions_stay_readable():
    long = {
        f"{name_of(path)}:{name}": length
        for path in files()
        for name, node in functions(tree_of(path))
        if (length := node.end_lineno - node.lineno + 1) > MAX_FUNCTION
    }
    assert long == {}


def test_features_that_a_plain_run_does_not_use_are_functions_that_exist():
    names = [name for path in files() for name, _ in functions(tree_of(path))]
    lost = [
        one for pattern in FEATURES.values() for one in pattern.split("|") if not any(re.search(one, n) for n in names)
    ]
    assert not lost


def test_no_two_classes_have_one_name():
    homes: dict[str, list[str]] = {}
    for path in files():
        if not name_of(path).startswith(FOREIGN):
            for node in nodes_of(path):
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    homes.setdefault(node.name, []).append(name_of(path))
    assert {name: places for name, places in homes.items() if len(places) > 1} == {}


BARE = re.compile(r"^\s+\w+: (They|It|Them|The one|Theirs|Of which one|Which one|Whose|Of whom)\b[^\n]{0,2}$")
"""An argument of which a docstring says nothing but a pronoun."""


def test_arguments_are_told_by_what_they_are_and_not_by_a_pronoun():
    bare = [
        f"{name_of(path)}:{number}: {line.strip()}"
        for path in files()
        for number, line in enumerate(text_of(path).splitlines(), 1)
        if BARE.match(line)
    ]
    assert not bare


def test_every_file_says_what_is_in_it():
    silent = [name_of(path) for path in files() if path.stat().st_size and not ast.get_docstring(tree_of(path))]
    assert not silent


def test_every_public_function_and_class_has_a_docstring():
    # Names of RLlib, Gym and mlagents_envs are documented there: docstrings of these rooms state what differs.
    silent = []
    for path in files():
        if name_of(path).startswith(("rookery_rllib/", "rookery_mlagents/api/")):
            continue
        public = [(name, node) for name, node in functions(tree_of(path))]
        public += [(node.name, node) for node in nodes_of(path) if isinstance(node, ast.ClassDef)]
        for name, node in public:
            if not any(part.startswith("_") for part in name.split(".")) and not ast.get_docstring(node):
                silent.append(f"{name_of(path)}:{name}")
    assert not silent


def test_an_algorithm_does_not_know_what_an_agent_is():
    # It sees rows of one policy; how many play, and where, is decided above it.
    lines = [
        f"{name_of(path)}:{number}: {line.strip()}"
        for path in files("algorithms")
        for number, line in enumerate(text_of(path).splitlines(), 1)
        if re.search("agent", line.replace("algorithms.multi_agent.", ""), re.IGNORECASE)
    ]
    assert not lines


def test_kernels_are_asked_for_in_native_alone():
    # Elsewhere a `Forward` is asked for outputs, values and log-probabilities, whatever computes them.
    asked = [
        f"{name_of(path)}:{node.lineno}"
        for path in files()
        for node in nodes_of(path)
        if isinstance(node, ast.Attribute) and node.attr == "kernels"
    ]
    assert asked
    assert [place for place in asked if not place.startswith(("native/", "core/"))] == []


def test_an_algorithm_does_not_know_how_frames_are_recalled():
    # Rollouts and minibatches hold them as leaves (`core/batch.py:Stacked`); a policy makes these (`Policy.sights`).
    assert [name_of(path) for path in files("algorithms") if "models.recall" in text_of(path)] == []


def test_an_end_is_terminated_or_truncated_and_never_done():
    wrong = []
    for path in files():
        for node in () if name_of(path).startswith(FOREIGN) else nodes_of(path):
            names = [getattr(node, field, None) for field in ("id", "attr", "arg", "name")]
            if "done" in names or "dones" in names:
                wrong.append(f"{name_of(path)}:{getattr(node, 'lineno', '?')}")
    assert not wrong


# --- the map ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["map.md", "from-rllib.md"])
def test_the_map_names_things_that_exist(name):
    page = ROOT / "docs" / name
    assert page.is_file(), f"docs/{name} is missing"
    entries = re.findall(r"([\w/]+\.py):([A-Za-z_][\w.]*\w)", page.read_text(encoding="utf-8"))
    assert len(entries) >= 8, "the page names the main path as file.py:function"
    lost = []
    for file, target in entries:
        file = file.removeprefix("src/rookery/")
        path = (SOURCE.parent if file.startswith("rookery_") else SOURCE) / file
        tree = tree_of(path) if path.is_file() else ast.Module([], [])
        known = {name for name, _ in functions(tree)} | {n.name for n in ast.walk(tree) if isinstance(n, ast.ClassDef)}
        if target not in known:
            lost.append(f"{file}:{target}")
    assert not lost
