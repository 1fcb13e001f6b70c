"""Where the time goes: a tree of timers whose labels are the names of the functions on the main path (docs/map.md)."""

from __future__ import annotations

from time import perf_counter
from types import TracebackType
from typing import Any


class Timer:
    """One node of the tree; entering it while another runs makes it that one's child.

    ``with timers["sample"]:`` costs about half a microsecond.
    """

    __slots__ = ("_parent", "_start", "_tree", "children", "count", "seconds")

    def __init__(self, tree: Timers, parent: Timer | None) -> None:
        self._tree = tree
        self._parent = parent
        self._start = 0.0
        self.seconds = 0.0
        self.count = 0
        self.children: dict[str, Timer] = {}

    def __enter__(self) -> Timer:
        self._tree.current = self
        self._start = perf_counter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.seconds += perf_counter() - self._start
        self.count += 1
        assert self._parent is not None
        self._tree.current = self._parent

    def as_dict(self) -> dict[str, Any]:
        """Seconds, calls and children, ready for JSON."""
        inner = {name: child.as_dict() for name, child in self.children.items()}
        return {"seconds": round(self.seconds, 6), "count": self.count, **({"children": inner} if inner else {})}

    def load(self, state: dict[str, Any]) -> None:
        """Takes over what `as_dict` gave."""
        self.seconds, self.count = state["seconds"], state["count"]
        for name, inner in state.get("children", {}).items():
            child = self.children[name] = Timer(self._tree, self)
            child.load(inner)


class Timers:
    """The tree; ``timers[label]`` is the child of whatever runs now."""

    def __init__(self) -> None:
        self.root = Timer(self, None)
        self.current = self.root

    def __getitem__(self, label: str) -> Timer:
        here = self.current
        node = here.children.get(label)
        if node is None:
            node = here.children[label] = Timer(self, here)
        return node

    def tree(self) -> str:
        """The tree in lines: label, seconds, share of its parent, calls."""
        lines: list[str] = []

        def walk(node: Timer, depth: int) -> None:
            total = node.seconds or sum(child.seconds for child in node.children.values())
            for name, child in sorted(node.children.items(), key=lambda item: -item[1].seconds):
                share = 100 * child.seconds / total if total else 0.0
                label = "  " * depth + name
                lines.append(f"{label:<32}{child.seconds:>10.2f} s{share:>6.1f} %{child.count:>10} x")
                walk(child, depth + 1)

        walk(self.root, 0)
        return "\n".join(lines)

    def state_dict(self) -> dict[str, Any]:
        """The whole tree."""
        return self.root.as_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues counting from `state`."""
        self.root.children.clear()
        self.root.load(state)
        self.current = self.root
