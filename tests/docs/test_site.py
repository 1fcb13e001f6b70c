"""The site's pages without the program that builds it: links lead to pages, and all are in its navigation."""

import re
import sys

import pytest
from pages import ROOT

sys.path.append(str(ROOT / "scripts"))

from iteration_picture import iteration_picture  # noqa: E402
from website.pages import LINK, Stage, navigation, outside_code, pages_of  # noqa: E402

SECTIONS = [
    "Start",
    "Tutorials",
    "How-to",
    "Environments",
    "Algorithms",
    "Coming from",
    "Troubleshooting",
    "Reference",
    "Explanation",
    "Results",
]


@pytest.fixture(scope="module")
def stage(tmp_path_factory):
    stage = Stage(tmp_path_factory.mktemp("site"))
    stage.add_all()
    return stage


def test_links_of_the_sites_pages_lead_to_pages_and_pictures_of_the_site(stage):
    broken, count = [], 0
    for page in stage.folder.rglob("*.md"):
        if "source" in page.relative_to(stage.folder).parts:
            continue  # files as blocks of code
        outside = re.sub(r"^ *(```+).*?^ *\1$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
        for found in LINK.finditer(outside):
            target = found[2] or found[6]
            count += 1
            if target and not (page.parent / target).exists():
                broken.append(f"{page.relative_to(stage.folder)}: {target}")
    assert not broken
    assert count > 1300


def test_a_link_to_a_file_that_is_not_there_is_refused(stage):
    with pytest.raises(FileNotFoundError, match="page.md: links to none.md, which is not there"):
        stage.link("none.md", "docs", "docs/page.md")


def test_the_navigation_has_its_sections_and_every_page_once(stage):
    stage.write("reference/api/x.md", "# API: x\n")
    nav = navigation(stage, {"x": "reference/api/x.md"})
    assert [name for entry in nav for name in entry] == SECTIONS
    pages = pages_of(nav)
    assert len(pages) == len(set(pages)) > 200


def test_items_of_lists_keep_their_paragraphs_and_code():
    text = "Text\n1. one\n\n   ```sh\n   a\n   ```\n2. two\n   - deep\n\nEnd\n<!-- run -->\n```sh\n- x\n```\n"
    expected = "Text\n\n1. one\n\n    ```sh\n    a\n    ```\n\n2. two\n    - deep\n\nEnd\n```sh\n- x\n```\n"
    assert outside_code(text, str) == expected


def test_a_block_that_is_a_file_has_its_name_as_title():
    page = "<!-- file: line.py -->\n```python\nx = 1\n```\n\n<!-- no test -->\n```python\ny = 2\n```\n"
    assert outside_code(page, str) == '```python title="line.py"\nx = 1\n```\n\n```python\ny = 2\n```\n'


def test_the_picture_of_an_iteration_is_that_of_the_traced_walk():
    assert (ROOT / "docs/images/iteration.svg").read_text(encoding="utf-8") == iteration_picture(), "run: make docs"
