"""Builds the documentation site in build/site/site: ``make site``.

1. Copies docs/, the README, results of benchmarks and whatever these link to into build/site/docs, with links between
   them, and a page for each package of the API.
2. Writes build/site/mkdocs.yml: mkdocs.yml with the lists of docs/README.md as its navigation.
3. Runs zensical with ``--strict``, which fails at a warning.
4. Puts the Markdown of each page beside it, notebooks of the tutorials, and ``llms.txt``.
5. Fails at a link that leads nowhere, a file from another host, or a page above 300 kB that is not reference.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from website.api import PAGES, api_pages
from website.checks import broken_links, finish, large_pages, loaded_from_elsewhere
from website.notebooks import TUTORIALS, notebook
from website.pages import ROOT, Nav, Stage, nav_lines, navigation, place

BUILD = ROOT / "build" / "site"
DOCS, SITE = BUILD / "docs", BUILD / "site"

WHAT = "Trains one or many agents by reinforcement learning: a Python library and a command-line tool."


def llms_text(nav: Nav, stage: Stage, depth: int = 2) -> str:
    """Returns ``llms.txt``: each page of the navigation with the address of its Markdown."""
    lines = ["# Rookery", "", f"> {WHAT}", ""] if depth == 2 else []
    for entry in nav:
        for name, target in entry.items():
            if isinstance(target, str):
                lines.append(f"- [{name}]({target}): {stage.titles[target]}")
            else:
                lines += ["", f"{'#' * depth} {name}", "", llms_text(target, stage, depth + 1)]
    return "\n".join(lines)


def main() -> int:
    """Builds the site; returns 1 if it has a fault."""
    shutil.rmtree(BUILD, ignore_errors=True)
    stage = Stage(DOCS)
    stage.add_all()
    api = {package: f"reference/api/{package}.md" for package in PAGES}
    for package, text in api_pages().items():
        stage.write(api[package], text)
    shutil.copyfile(Path(__file__).parent / "website" / "site.css", DOCS / "site.css")
    nav = navigation(stage, api)
    config = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    address = [f"site_url: {os.environ['SITE_URL']}"] if os.environ.get("SITE_URL") else []
    (BUILD / "mkdocs.yml").write_text("\n".join([config, *address, "nav:", *nav_lines(nav), ""]), encoding="utf-8")
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean", "-f", str(BUILD / "mkdocs.yml")]
    if done := subprocess.run(command).returncode:
        return done
    for page in DOCS.rglob("*.md"):
        shutil.copyfile(page, SITE / page.relative_to(DOCS))
    for tutorial in TUTORIALS:
        (SITE / place(tutorial)).with_suffix(".ipynb").write_text(notebook(tutorial), encoding="utf-8")
    (SITE / "llms.txt").write_text(llms_text(nav, stage) + "\n", encoding="utf-8")
    finish(SITE)
    faults = {
        "links that lead nowhere": broken_links(SITE),
        "files from another host": loaded_from_elsewhere(SITE),
        "large pages": large_pages(SITE),
    }
    for what, found in faults.items():
        sys.stderr.write("".join(f"{what}: {one}\n" for one in found))
    if not any(faults.values()):
        sys.stderr.write(f"{len(list(SITE.rglob('*.html')))} pages in {SITE.relative_to(ROOT)}\n")
    return 1 if any(faults.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
