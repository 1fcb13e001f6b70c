"""Reads the built site: finishes its HTML, and finds links that lead nowhere and pages that are too large."""

from __future__ import annotations

import re
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from latex2mathml.converter import convert

LARGEST = 300_000
"""Bytes of the HTML of a page that is not generated reference."""

MATH = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.S)


def finish(site: Path) -> None:
    """Turns formulas into MathML, and names in each page the text that is beside it."""
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        text = MATH.sub(
            lambda found: convert(unescape(found[2]), display="block" if found[1] == "div" else "inline"), text
        )
        if page.with_suffix(".md").exists():
            link = f'<link rel="alternate" type="text/markdown" href="{page.with_suffix(".md").name}">'
            text = text.replace("</head>", f"{link}</head>", 1)
        page.write_text(text, encoding="utf-8")


class Links(HTMLParser):
    """Collects what a page links to, and its anchors."""

    def __init__(self) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Reads one tag."""
        for name, value in attrs:
            if name in ("href", "src") and value:
                self.targets.append(value)
            elif name in ("id", "name") and value:
                self.anchors.add(value)


def broken_links(site: Path) -> list[str]:
    """Returns each link inside the site that leads to no file or to no anchor of it."""
    read: dict[Path, Links] = {}
    for page in sorted(site.rglob("*.html")):
        read[page] = Links()
        read[page].feed(page.read_text(encoding="utf-8"))
    broken = []
    for page, links in read.items():
        for target in links.targets:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc or page.name == "404.html":
                continue
            place = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            place = place / "index.html" if place.is_dir() else place
            anchors = read[place].anchors if place in read else set()
            if not place.exists() or (place in read and parts.fragment and unquote(parts.fragment) not in anchors):
                broken.append(f"{page.relative_to(site)}: {target}")
    return broken


def loaded_from_elsewhere(site: Path) -> list[str]:
    """Returns each file that a page would load from another host."""
    pattern = re.compile(r'<(?:script|img|link)[^>]* (?:src|href)="?(https?://[^">\s]+)')
    return [
        f"{page.relative_to(site)}: {url}"
        for page in sorted(site.rglob("*.html"))
        for url in pattern.findall(page.read_text(encoding="utf-8"))
    ]


def large_pages(site: Path) -> list[str]:
    """Returns each page above `LARGEST` bytes that is not generated reference."""
    return [
        f"{page.relative_to(site)}: {page.stat().st_size:,} bytes"
        for page in sorted(site.rglob("*.html"))
        if page.stat().st_size > LARGEST and not page.relative_to(site).as_posix().startswith("reference/")
    ]
