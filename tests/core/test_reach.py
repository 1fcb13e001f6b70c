"""Types declare what settings can reach: no field and no argument is forgotten, and values are checked by them."""

import pkgutil
import sys
from importlib import import_module

import pytest

import rookery
from hostile import watch
from rookery.algorithms.names import ALGORITHMS
from rookery.core.errors import RookeryError
from rookery.core.settings.fields import Settings, fields_of, hints_of
from rookery.core.settings.layers import import_object
from rookery.core.settings.reach import argument_hints, objections, of_arguments, of_settings, silent_parts
from rookery.core.settings.trust import Named, Trust
from rookery.envs.adapters.bundled import OURS
from rookery.envs.adapters.import_paths import ENVIRONMENT
from rookery.envs.external.env import ExternalEnv
from rookery.envs.make import find_maker, make_env
from rookery.envs.samplers import SAMPLERS
from rookery.models.build import NETWORK, ModelConfig
from rookery.run.settings import RunConfig
from rookery.tune.names import SCHEDULERS, SEARCHES
from rookery.tune.settings import TuneConfig
from rookery_mlagents.files.foreign_options import SECTIONS

WALKED = {
    "run": RunConfig,
    "tune": TuneConfig,
    **{name: import_object(path) for name, path in {**ALGORITHMS, **SEARCHES, **SCHEDULERS}.items()},
    **{f"sampler {name}": cls for name, cls in SAMPLERS.items()},
    **{f"ML-Agents {name}": cls for name, cls in SECTIONS.items()},
}
SET_BY_ROOKERY = ("num_lanes", "num_envs", "render_mode")
"""Arguments that no file gives, and the one that is judged by its name."""


def silent_in(cls):
    return [part for name in fields_of(cls) for part in silent_parts(hints_of(cls)[name], name)]


@pytest.mark.regression(
    "foreign code", "Each settings field and each argument of what comes with Rookery says what it can reach"
)
@pytest.mark.parametrize("cls", WALKED.values(), ids=WALKED)
def test_every_setting_says_what_it_can_reach(cls):
    assert silent_in(cls) == []


@pytest.mark.slow
@pytest.mark.regression(
    "foreign code", "Each settings field and each argument of what comes with Rookery says what it can reach"
)
def test_no_settings_class_anywhere_is_forgotten():
    import_all()
    classes = [cls for cls in subclasses(Settings) if cls.__module__.startswith("rookery.")]
    assert len(classes) > 80
    silent = {cls.__name__: silent_in(cls) for cls in classes if "__dataclass_fields__" in vars(cls)}
    assert {name: parts for name, parts in silent.items() if parts} == {}


@pytest.mark.regression(
    "foreign code", "Each settings field and each argument of what comes with Rookery says what it can reach"
)
@pytest.mark.parametrize("name", [*OURS, "external:0", "unity:editor"])
def test_every_argument_of_our_environments_says_what_it_can_reach(name):
    maker = find_maker(name)
    hints = argument_hints(getattr(maker, "func", maker))
    silent = [part for argument, hint in hints.items() for part in silent_parts(hint, argument)]
    assert [part for part in silent if part not in SET_BY_ROOKERY] == []


@pytest.mark.slow
@pytest.mark.regression(
    "foreign code", "Each settings field and each argument of what comes with Rookery says what it can reach"
)
@pytest.mark.parametrize("kind", [ENVIRONMENT, NETWORK], ids=["environment", "network"])
def test_no_class_of_ours_takes_a_path_from_others(kind):
    import_all()
    classes = {cls for cls in ours() if kind.fits(cls)}
    assert len(classes) > 60
    for cls in classes:
        for name in argument_hints(cls):
            for value in ("../theirs/x", ["../theirs/x"], {"a": "../theirs/x"}, 10**15):
                judged = [one.why for one in of_arguments(cls, {name: value}, "")]
                assert judged or is_harmless(cls, name, value), (cls, name, value)


@pytest.mark.slow
@pytest.mark.regression(
    "foreign code", "No class that runs of others may name as an environment writes files or starts programs"
)
def test_no_environment_of_ours_reaches_anything_when_it_is_made(tmp_path, monkeypatch):
    import_all()
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    made = []
    for cls in {cls for cls in ours() if ENVIRONMENT.fits(cls)}:
        name = f"{cls.__module__}:{cls.__qualname__}"
        if "unity" in name.lower() or Trust().objection(Named("env.name", name, ENVIRONMENT)):
            continue  # which wait for the Editor, at loopback
        seen = watch(tmp_path)
        try:
            make_env(name, {}, (), 1, "auto").close()
            made.append(name)
        except RookeryError:
            pass
        assert seen == [], name
    watch(None)
    assert len(made) > 30


def is_harmless(cls, name, value):
    """Returns whether an argument takes a value because its type declares a compared text or a count of steps."""
    hint = argument_hints(cls)[name]
    return not list(silent_parts(hint, name)) and not list(objections(hint, value, name))


def import_all():
    for module in pkgutil.walk_packages(rookery.__path__, "rookery."):
        if not module.name.endswith("__main__"):
            try:
                import_module(module.name)
            except ImportError:  # of a package that is not installed
                pass


def subclasses(cls):
    for inner in cls.__subclasses__():
        yield inner
        yield from subclasses(inner)


def ours():

    for name, module in list(sys.modules.items()):
        if name.startswith("rookery."):
            yield from (cls for cls in vars(module).values() if isinstance(cls, type) and cls.__module__ == name)


@pytest.mark.parametrize(
    ("annotation", "value", "why"),
    [
        ("str", "theirs/x", "has a type that does not declare"),
        ("int", 3, "has a type that does not declare"),
        ("Any", 3, "has a type that does not declare"),
        ("tuple[str, ...]", ["theirs/x"], "has a type that does not declare"),
        ("dict[str, float]", {"theirs/x": 1.0}, "has a type that does not declare"),
        ("Few", 1001, "is above 1,000"),
        ("Few", "theirs/x", "is not a possible value here"),
        ("tuple[Few, ...]", [1] * 10_001, "has 10,001 entries"),
        ("bool", True, ""),
        ("float", 1e300, ""),
        ("Few", 1000, ""),
        ("Count", 10**18, ""),
        ("Label", "return", ""),
        ("Literal['a', 'b'] | None", "a", ""),
        ("Literal['a', 'b'] | None", "theirs/x", "is not a possible value here"),
        ("Annotated[str, Reaches('a path', but=('here',))] | None", "theirs/x", "reaches a path"),
        ("Annotated[str, Reaches('a path', but=('here',))] | None", "here", ""),
    ],
)
def test_a_value_is_judged_by_the_type_of_its_field(annotation, value, why):
    from typing import Annotated, Any, Literal

    from rookery.core.settings.reach import Count, Few, Label, Reaches

    names = {"Annotated": Annotated, "Any": Any, "Literal": Literal, "Count": Count, "Few": Few, "Label": Label,
             "Reaches": Reaches}  # fmt: skip
    hint = eval(annotation, names)
    found = [one.why for one in objections(hint, value, "here")]
    assert bool(found) == bool(why) and all(one.startswith(why) for one in found)
    assert bool(list(silent_parts(hint, "here"))) == (why == "has a type that does not declare")


def test_a_schedule_and_a_part_in_percent_are_numbers():
    ppo = import_object(ALGORITHMS["ppo"])
    said = {"lr": {"schedule": "linear", "start": 1e-3, "end": 0}, "minibatch_size": 32}
    assert list(of_settings(ppo, said, "algorithm")) == []
    assert (
        list(of_settings(import_object(ALGORITHMS["bc"]), {"replay": {"select": {"best": "10%"}}}, "algorithm")) == []
    )


def test_what_stands_inside_sections_is_judged_with_its_path():
    model = {"hidden": [64, 10**9], "memory": {"size": 10**9}}
    found = {one.path: one.value for one in of_settings(ModelConfig, model, "model")}
    assert found == {"model.hidden": 10**9, "model.memory.size": 10**9}


def test_an_argument_that_is_unknown_is_refused_and_one_of_a_parent_known():
    assert [one.path for one in of_arguments(ExternalEnv, {"helper": "x", "patience": 3.0}, "env.config")] == [
        "env.config.helper"
    ]
    assert "log_folder" in argument_hints(find_maker("unity:editor"))
