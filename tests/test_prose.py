"""The project's texts use the field's words: `scripts/prose.py` has the list, docs/glossary.md the replacements."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "scripts"))

from prose import files_of, findings, soft_findings  # noqa: E402

ROOMS = sorted(
    {
        *(path for top in ("rookery", "rookery_rllib", "rookery_mlagents") for path in (ROOT / "src" / top).iterdir()),
        *(path for path in (ROOT / "docs").iterdir() if path.name != "images"),
        *(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")),
        *(ROOT / name for name in ("scripts", "examples", "benchmarks", "tests")),
    }
)
"""Folders and files that are read."""


def name(path):
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("room", ROOMS, ids=name)
def test_texts_have_no_word_of_the_list(room):
    found = [f"{one.path}:{one.line}: {one.word}: {one.text}" for file in files_of([room]) for one in findings(file)]
    assert not found, "\n".join(found)


SEEN_FIRST = [
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "tests/golden/texts/help.txt")),
    *(path for path in sorted((ROOT / "docs").rglob("*.md")) if path.name != "glossary.md"),
]


@pytest.mark.parametrize("path", SEEN_FIRST, ids=name)
def test_headings_first_paragraphs_and_help_have_the_terms_of_the_field(path):
    found = [f"{one.path}:{one.line}: {one.word}: {one.text}" for one in soft_findings(path)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("# Pictures\n\nA text.\n\nOf films.\n", ["pictures"]),
        ("# Images\n\nOf films,\nand of random numbers.\n\n## Choices\n", ["films", "choices"]),
        ("# Images\n\n![](picture.png)\n\nWith `copies` of each.\n", []),
    ],
)
def test_findings_of_a_page(tmp_path, text, words):
    (tmp_path / "page.md").write_text(text)
    assert [one.word for one in soft_findings(tmp_path / "page.md")] == words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('"""What is there."""\n', ["what is there", "What ..."]),
        ('"""Returns the value."""\n# it goes\n# on\n', ["goes on"]),
        ('x = "nobody `told` you"\n', ["nobody"]),
        ('"""The result is due to a bug."""\n', []),
        ('"""The checkpoint is due."""\n', ["is due"]),
        ('def f() -> bool:\n    """Whether it holds."""\n', []),
        ('def f() -> str:\n    """Whether it holds."""\n', ["Whether ..."]),
        ("told = theirs(1)\n", []),
        ('x = f"it is {told}, {theirs}"\n', []),
        ('kind = "told"\n', []),
    ],
)
def test_findings_of_a_text(tmp_path, text, words):
    (tmp_path / "one.py").write_text(text)
    assert [one.word for one in findings(tmp_path / "one.py")] == words
