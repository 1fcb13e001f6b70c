"""The rooms of the ML-Agents face, read from the source: imports point down, no circle, no folder too full."""

import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "scripts"))

from source_reading import MLAGENTS_ROOMS, Source, circles  # noqa: E402

FACE, ALL = Source(ROOT / "src", ("rookery_mlagents",)), Source(ROOT / "src")


def height(module):
    room = module.split(".")[1] if "." in module else ""
    return MLAGENTS_ROOMS.index(room) if room in MLAGENTS_ROOMS else len(MLAGENTS_ROOMS)


def test_imports_of_rooms_point_down_only_and_the_other_face_is_not_imported():
    up = [
        f"{module}:{found.line} imports {found.module}"
        for path in FACE.files()
        for module, found in ((FACE.module_of(path), found) for found in ALL.all_imports_of(path))
        if found.module.startswith("rookery_rllib")
        or (found.module in FACE.modules and height(found.module) > height(module))
    ]
    assert up == []
    assert {module.split(".")[1] for module in FACE.modules if "." in module} == {*MLAGENTS_ROOMS, "__main__"}


def test_no_modules_import_each_other_in_a_circle_and_no_folder_is_too_full():
    assert circles(FACE.graph(texts=True)) == []
    files = Counter(path.parent for path in FACE.files())
    assert max(files.values()) <= 20
