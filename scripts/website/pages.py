"""The pages of the site, and where each file of the repository is among them.

A link may lead to any file: pages of docs/ keep their place, results of benchmarks move to ``results/``, and other
files (examples, modules, entries of the zoo) get a page that shows them.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from posixpath import normpath, relpath

ROOT = Path(__file__).resolve().parents[2]

MOVED = {
    "README.md": "index.md",
    "docs/README.md": "pages.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "docs/environments/README.md": "environments/index.md",
    "docs/troubleshooting/README.md": "troubleshooting/index.md",
}
"""Pages whose place on the site is not that of the repository."""

LANGUAGES = {".py": "python", ".yaml": "yaml", ".toml": "toml", ".md": "markdown", ".json": "json", ".c": "c"}

LINK = re.compile(r"(\]\()(?![a-z]+:)([^)\s#]*)(#[^)\s]*)?(\))|(<img [^>]*src=\")(?![a-z]+:)([^\"]+)(\")")
FENCE = re.compile(r"^( *)(```+)")
LIST = re.compile(r"^( *)([-*]|\d+\.) ")
HEADING = re.compile(r"^# (.*)$", re.M)


def place(path: str) -> str:
    """Returns the page of a file of the repository, both as paths with slashes."""
    if path in MOVED:
        return MOVED[path]
    if path.startswith("docs/") and path.endswith((".md", ".svg", ".png", ".webp")):
        return path.removeprefix("docs/")
    if path.startswith("benchmarks/results/") and not path.endswith(".json"):
        return path.removeprefix("benchmarks/")
    if path.startswith("benchmarks/zoo/") and "/" not in path.removeprefix("benchmarks/zoo/"):
        return f"zoo/{path.removeprefix('benchmarks/zoo/')}.md"
    return f"source/{path}.md"


def title(text: str) -> str:
    """Returns the first heading of a page, without marks."""
    found = HEADING.search(text)
    return re.sub(r"[`*]|\[|\]\([^)]*\)", "", found[1]) if found else ""


class Stage:
    """A folder with all pages of the site, their links rewritten.

    Args:
        folder: Where they are written.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.waiting: list[str] = []
        self.done: set[str] = set()
        self.titles: dict[str, str] = {}

    def add_all(self) -> None:
        """Adds README, CHANGELOG and the like, docs/, results, the zoo, and each file that one of these links to."""
        pages = [name for name in MOVED if "/" not in name]
        pages += [path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "docs").rglob("*.md"))]
        pages += [path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "benchmarks/results").glob("*.md"))]
        entries = sorted(path.parent for path in (ROOT / "benchmarks/zoo").glob("*/entry.json"))
        self.waiting = pages + [path.relative_to(ROOT).as_posix() for path in entries]
        while self.waiting:
            self.add(self.waiting.pop())

    def add(self, path: str) -> None:
        """Adds the page of one file or folder, and notes the files that it links to."""
        if path in self.done:
            return
        self.done.add(path)
        source = ROOT / path
        if source.is_dir():
            text = zoo_page(source) if path.startswith("benchmarks/zoo/") else folder_page(source)
        elif path.endswith((".md",)):
            text = source.read_text(encoding="utf-8")
        else:
            text = f"# {source.name}\n\n{code_block(source)}"
        self.write(place(path), self.adapted(text, path))

    def write(self, page: str, text: str) -> None:
        """Writes a page, and remembers its title."""
        target = self.folder / page
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
        self.titles[page] = title(text) or page

    def adapted(self, text: str, path: str) -> str:
        """Returns a page as the site's Markdown has it: links, folds, lists after a line, without comments."""
        base = path if (ROOT / path).is_dir() else path.rpartition("/")[0]

        def moved(found: re.Match[str]) -> str:
            before, target, anchor, after = (
                (found[1], found[2], found[3] or "", found[4]) if found[1] else (found[5], found[6], "", found[7])
            )
            return f"{before}{self.link(target, base, path) if target else ''}{anchor}{after}" if target else found[0]

        return outside_code(text, lambda line: LINK.sub(moved, line))

    def link(self, target: str, base: str, path: str) -> str:
        """Returns a link of a page on the site, and adds what it leads to.

        Raises:
            FileNotFoundError: It leads to no file.
        """
        repository = normpath(f"{base}/{target}" if base else target)
        source = ROOT / repository
        if not source.exists():
            raise FileNotFoundError(f"{path}: links to {target}, which is not there")
        here = place(path).rpartition("/")[0] or "."
        if source.is_file() and source.suffix in (".svg", ".png", ".webp", ".jpg"):
            asset = place(repository).removesuffix(".md").removeprefix("source/")
            (self.folder / asset).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, self.folder / asset)
            return relpath(asset, here)
        self.waiting.append(repository)
        return relpath(place(repository), here)


def outside_code(text: str, change: Callable[[str], str]) -> str:
    """Returns a page with each line outside of blocks of code changed, and with what Python's Markdown needs beyond
    GitHub's: an empty line before a list, four blanks before what belongs to an item, ``markdown`` in folds. A block
    under ``<!-- file: NAME -->`` has the name as its title.
    """
    lines: list[str] = []
    fence, file, depths = "", "", list[int]()  # of the lists that are open: where the text of their items begins
    loose = False  # whether the item that is open has paragraphs
    for line in text.splitlines():
        indent = len(line) - len(line.lstrip(" "))
        item = None if fence else LIST.match(line)
        while depths and line.strip() and indent < depths[-1] and not fence and (item or not lines[-1].strip()):
            depths.pop()
        before = " " * (4 * len(depths) - depths[-1]) if depths and indent >= depths[-1] and line.strip() else ""
        if item:
            depths.append(item.end())
        found = FENCE.match(line)
        if found and (not fence or line.strip() == fence):
            fence = "" if fence else found[2]
            line, file = line + f' title="{file}"' * bool(file), ""
        elif not fence and re.fullmatch(r"<!-- .* -->", line):
            file = line[5:-4].removeprefix("file: ") if line.startswith("<!-- file: ") else ""
            continue
        elif not fence:
            if (
                item
                and lines
                and lines[-1].strip()
                and (loose or (len(depths) == 1 and lines[-1][0] not in " -*123456789"))
            ):
                lines.append("")
            loose = not item and (loose or not line.strip()) and bool(depths)
            line = change(line.replace("<details>", '<details markdown="1">'))
        lines.append(before + line)
    return "\n".join(lines) + "\n"


def code_block(path: Path) -> str:
    """Returns a file as a block of code."""
    return f"````{LANGUAGES.get(path.suffix, 'text')}\n{path.read_text(encoding='utf-8').rstrip()}\n````\n"


def folder_page(folder: Path) -> str:
    """Returns the page of a folder: each of its files."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix in LANGUAGES)
    blocks = [f"## {path.relative_to(folder).as_posix()}\n\n{code_block(path)}" for path in files]
    return f"# {folder.relative_to(ROOT).as_posix()}\n\n" + "\n".join(blocks)


def zoo_page(folder: Path) -> str:
    """Returns the page of an entry of the zoo: scores, curve, settings."""
    entry = json.loads((folder / "entry.json").read_text(encoding="utf-8"))
    machine = entry["machine"]
    rows = [
        f"| {run['seed']} | {run['score']:g} | {run['env_steps']:,} | {run['seconds']:g} |" for run in entry["runs"]
    ]
    low, high = entry["interval"]
    versions = ", ".join(f"{name} {version}" for name, version in machine.items() if name not in ("cpu", "cores"))
    return "\n".join(
        [
            f"# Zoo: {folder.name}",
            "",
            f"A trained policy of {entry['algorithm']} for {entry['environment']}, with its settings and curve",
            "([what the zoo is](../../../docs/zoo.md)).",
            f"Mean return {entry['score']:g}, 95 % interval {low:g} to {high:g}, {entry['episodes']} episodes a seed.",
            "",
            "```sh",
            f"rookery zoo show {folder.name}",
            f"rookery zoo train {folder.name} --seed 3",
            f"rookery zoo verify {folder.name}",
            "```",
            "",
            f"![Mean return in training over environment steps, {folder.name}](curve.svg)",
            "",
            "| seed | mean return | env steps | seconds |",
            "|---|---|---|---|",
            *rows,
            "",
            f"{machine['cpu']}, {machine['cores']} cores; {versions}.",
            "",
            "## Settings",
            "",
            code_block(folder / "settings.yaml"),
        ]
    )


# --- navigation -------------------------------------------------------------------------------------------------------

Nav = list[dict[str, "str | Nav"]]
ITEM = re.compile(r"\[([^\]]+)\]\(([^)#]+)[^)]*\)")


def navigation(stage: Stage, api: dict[str, str]) -> Nav:
    """Returns the navigation: the lists of docs/README.md, with the pages that are made for the site."""
    nav: Nav = [{"Start": [{"Rookery": "index.md"}]}]
    sections: dict[str, Nav] = {"Start": nav[0]["Start"]}  # type: ignore[dict-item]
    section = part = group = sections["Start"]
    for line in (ROOT / "docs/README.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            if line[3:] not in sections:
                sections[line[3:]] = []
                nav.append({line[3:]: sections[line[3:]]})
            section = part = group = sections[line[3:]]
        elif line.startswith("### "):
            part = group = []
            section.append({line[4:]: part})
        elif line.startswith(("- ", "  ")):
            label = re.match(r"- ([^:\[]+): \[", line)
            if label:
                group = []
                part.append({label[1]: group})
            elif line.startswith("- "):
                group = part
            for name, target in ITEM.findall(line):
                group.append({name[0].upper() + name[1:]: place(normpath(f"docs/{target}"))})
    return finished(stage, nav, sections, api)


def finished(stage: Stage, nav: Nav, sections: dict[str, Nav], api: dict[str, str]) -> Nav:
    """Returns the navigation with the findings, the reference of the API, all results and the zoo."""
    listed = set(pages_of(nav))

    def rest(prefix: str) -> Nav:
        pages = sorted(page for page in stage.titles if page.startswith(prefix) and page not in listed)
        return [{short(stage.titles[page]): page} for page in pages]

    sections["Troubleshooting"].append({"Findings": rest("troubleshooting/")})
    sections["Reference"].append({"API": [{name: page} for name, page in api.items()]})
    sections["Results"] += [{"All measurements": rest("results/")}, {"Zoo": rest("zoo/")}]
    sections["Start"].append({"All pages": "pages.md"})
    sections["Start"] += [{"Contributing": "contributing.md"}, {"Security": "security.md"}]
    left = sorted(page for page in stage.titles if not page.startswith("source/") and page not in set(pages_of(nav)))
    if left:
        raise ValueError(f"docs/README.md does not list {', '.join(left)}")
    return nav


def short(text: str) -> str:
    """Returns the title of a page as it is in the navigation."""
    return text.removeprefix("Finding: ").removeprefix("Zoo: ")


def pages_of(nav: Nav) -> list[str]:
    """Returns the pages of a navigation, in its order."""
    found = []
    for entry in nav:
        for target in entry.values():
            found += [target] if isinstance(target, str) else pages_of(target)
    return found


@cache
def as_yaml(text: str) -> str:
    """Returns a text as a YAML scalar."""
    return json.dumps(text, ensure_ascii=False)


def nav_lines(nav: Nav, depth: int = 1) -> list[str]:
    """Returns a navigation as lines of YAML."""
    lines = []
    for entry in nav:
        for name, target in entry.items():
            start = f"{'  ' * depth}- {as_yaml(name)}:"
            lines += (
                [f"{start} {as_yaml(target)}"] if isinstance(target, str) else [start, *nav_lines(target, depth + 1)]
            )
    return lines
