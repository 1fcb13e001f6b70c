"""Pages of algorithms have one frame, and their generated parts are those of the code and of the measurements."""

import re
import sys

import pytest
from pages import ROOT

sys.path.append(str(ROOT / "scripts"))

from algorithm_pages import (
    CLAIMED,
    EXPECTED,
    OF_OTHER_NAME,
    PAGES,
    claims,
    claims_table,
    expected_line,
    settings_and_defaults,
    supported_actions,
    works_with,
)

from rookery.algorithms.capabilities import known_capabilities
from rookery.algorithms.names import ALGORITHMS

BY_PAGE = {page: [name for name in ALGORITHMS.own if OF_OTHER_NAME.get(name, name) == page] for page in ALGORITHMS.own}
BY_PAGE = {page: names for page, names in BY_PAGE.items() if names}
QUICK = ("ppo", "cql", "dqn")


def text(page):
    return (PAGES / f"{page}.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("page", BY_PAGE)
def test_a_page_has_the_sections_of_the_frame_in_their_order(page):
    headings = re.findall(r"^##+ (.*)$", text(page), re.M)
    frame = ["When to use it", "Settings", "Works with", "In equations", "Metrics", "Results"]
    found = [
        next((at for at, one in enumerate(headings) if one.endswith(name.lower()) or one == name), -1) for name in frame
    ]
    assert -1 not in found, headings
    assert found == sorted(found), headings


@pytest.mark.parametrize(
    "page", [page if page in QUICK else pytest.param(page, marks=pytest.mark.slow) for page in BY_PAGE]
)
def test_what_an_algorithm_works_with_is_what_the_code_declares(page):
    assert works_with(BY_PAGE[page]) in text(page), "run: make docs"


@pytest.mark.parametrize("page", BY_PAGE)
def test_the_defaults_of_a_page_are_those_of_the_settings(page):
    assert settings_and_defaults(BY_PAGE[page]) in text(page), "run: make docs"


@pytest.mark.parametrize("page", claims())
def test_the_claims_of_a_page_are_the_measured_ones(page):
    assert claims_table(claims()[page], page) in text(page), "run: make docs"


@pytest.mark.parametrize("page", EXPECTED)
def test_what_the_first_command_of_a_page_is_said_to_reach_was_measured(page):
    assert expected_line(claims()[page], EXPECTED[page]) in text(page), "run: make docs"


def test_actions_that_an_algorithm_refuses_are_left_out():
    assert supported_actions("dqn") == ("Discrete",)
    assert supported_actions("td3") == ("Box",)
    assert set(known_capabilities()) >= set(CLAIMED.values())
