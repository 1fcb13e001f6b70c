"""The rooms of the RLlib face: their imports point down only, nothing is imported by a text, no room is too full."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "scripts"))

from source_reading import RLLIB_ROOMS, Source, circles  # noqa: E402

VERBS = ("verbs", "train_verbs")
"""Modules at the root with verbs of the command line, which import what they run when it runs."""

MOST_FILES = 20

LATE = {
    "torch": "heavy; results and batches of trials that do without it are read without it",
    "numpy": "heavy; the package itself is imported without it",
    "rookery_rllib.base.per_env_rng": "likewise: it loads numpy",
    "rookery_rllib.keras.layers": "loads Keras, which is optional (the extra keras)",
    "rookery.face": "loads TensorBoard with the name; needed by trials that write its events",
    "PIL": "needed by those who look at images",
    "pandas": "optional (the extra tune), and takes half a second",
    "ruamel": "takes a tenth of a second; needed by those who print a result as YAML",
}
"""What may be imported inside a function, with the reason."""

FACE = Source(ROOT / "src", ("rookery_rllib",))
ALL = Source(ROOT / "src")


def room_of(module: str) -> str:
    """The room of a module; an empty text for what stands at the root of the package."""
    _, _, inside = module.partition(".")
    return "" if inside in ("", "__main__", *VERBS) else inside.partition(".")[0]


def height(module: str) -> int:
    return RLLIB_ROOMS.index(room) if (room := room_of(module)) else len(RLLIB_ROOMS)


def imports():
    """Every import of the face: the importing module and what is imported, statements for types and texts included."""
    for path in FACE.files():
        for found in ALL.all_imports_of(path):
            yield FACE.module_of(path), found


def test_every_file_stands_in_a_room():
    assert {room_of(module) for module in FACE.modules} == {*RLLIB_ROOMS, ""}


def test_no_folder_is_too_full():
    files = Counter(path.parent.relative_to(ROOT).as_posix() for path in FACE.files())
    assert {folder: count for folder, count in files.items() if count > MOST_FILES} == {}


def test_imports_of_rooms_point_down_only():
    up = {
        f"{module}:{found.line} imports {found.module}"
        for module, found in imports()
        if found.module in FACE.modules and height(found.module) > height(module)
    }
    assert up == set()


def test_no_modules_import_each_other_in_a_circle():
    assert circles({module: within for module, within in FACE.graph(texts=True).items() if module != "rookery"}) == []


def test_nothing_of_ours_is_imported_by_a_text():
    # Names of 2021 are looked up in the tables of base/names, which are texts of their own.
    assert [f"{module}:{found.line} imports {found.module}" for module, found in imports() if found.text] == []


def test_imports_stand_at_the_top_except_heavy_ones():
    wrong = [
        f"{module}:{found.line} imports {found.module}"
        for module, found in imports()
        if found.inside
        and not {found.module, found.module.partition(".")[0]} & LATE.keys()
        and module.rpartition(".")[2] not in VERBS
    ]
    assert wrong == []


def test_of_the_other_face_the_api_alone_is_imported():
    others = {found.module for _, found in imports() if found.module.startswith("rookery_mlagents")}
    assert {name for name in others if not name.startswith("rookery_mlagents.api")} == set()


def test_modules_are_imported_by_from():
    # rookery_rllib.gym and rookery_rllib.tune are attributes of the package that give the modules of 2021, so
    # ``import rookery_rllib.gym.registry as registry`` would look for the registry in that of 2021.
    dotted = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in FACE.files()
        for line in FACE.text_of(path).splitlines()
        if line.strip().startswith("import rookery_rllib.")
    ]
    assert dotted == []


@pytest.mark.parametrize("name", ["gym", "ray", "rllib", "tune"])
def test_a_room_does_not_hide_the_module_of_2021(name):
    import rookery_rllib
    from rookery_rllib.base.imports import module
    from rookery_rllib.gym import core  # noqa: F401
    from rookery_rllib.tune import space  # noqa: F401

    path = {"tune": "ray.tune", "rllib": "ray.rllib"}.get(name, name)
    assert getattr(rookery_rllib, name) is module(path)


def test_no_two_modules_have_one_name():
    names = Counter(path.stem for path in FACE.files() if path.stem != "__init__")
    assert {name: count for name, count in names.items() if count > 1} == {}
