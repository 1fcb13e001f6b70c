"""The picture docs/images/iteration.svg: one iteration of PPO, drawn from the traced walk in docs/walks.json.

Every name in it is one of the walk, or of the layers of docs/map.md: a name that is in neither is an error.
"""

from __future__ import annotations

import json
from html import escape
from pathlib import Path

from map_page import ROOMS

ROOT = Path(__file__).parent.parent
WALK = "PPO, whole iteration (torch)"

INK, PALE, PLAY, LEARN, KEY = "#1f2933", "#f5f7fa", "#d9ebff", "#ffe9d1", "#c0392b"
WIDTH, HEIGHT = 980, 690

PLAYING = (
    ("rollout/worker.py:RolloutWorker.sample", "one call steps the environments", True),
    ("rollout/loops/python.py:act", "one forward pass per policy, over all rows that wait", False),
    ("policies/policy.py:Policy.act", "observation to action; a policy has no loss", False),
    ("rollout/loops/python.py:PythonLoop.play", "env.step: one vector step", False),
    ("rollout/slots.py:SlotStore.write_outcomes", "rows become fragments of slots", False),
    ("rollout/slots.py:SlotStore.drain", "complete decisions leave, one rollout per policy", False),
)
LEARNING = (
    ("algorithms/on_policy/ppo.py:PPO.training_step", "one update of one policy", False),
    ("algorithms/on_policy/ppo.py:PPO.targets", "advantages and value targets", False),
    ("core/batch.py:Minibatch.shuffled", "epochs of minibatches", False),
    ("algorithms/on_policy/ppo.py:ppo_loss", "a function of outputs, batch and settings", False),
    ("core/optim.py:compute_gradients", "backwards, or in closed form", False),
    ("core/optim.py:gradient_step", "the one place where weights change", True),
)
"""Functions of both sides, what they do, and whether one answers a question."""

SETTINGS = "core/config.py:resolve"
TRAINER = "run/trainer.py:Trainer.train_iteration"
BACK = "rollout/worker.py:RolloutWorker.set_weights"


def iteration_picture() -> str:
    """Returns the picture as SVG.

    Raises:
        ValueError: A name is not in the walk.
    """
    walk = json.loads((ROOT / "docs/walks.json").read_text(encoding="utf-8"))[WALK]
    known = {f"{file}:{function}" for file, functions in walk.items() for function in functions}
    for name in (TRAINER, BACK, *(name for name, *_ in PLAYING + LEARNING)):
        if name not in known:
            raise ValueError(f"{name} is not in the walk {WALK!r} of docs/walks.json")
    parts = [
        box(20, 16, 940, 62, PALE, ""),
        answer(36, 40, "3"),
        text(60, 44, "Which setting wins?", bold=True),
        text(215, 44, f"{SETTINGS}   rookery explain RUN SETTING", mono=True),
        text(60, 66, "defaults  <  space preset  <  environment preset  <  file  <  command line or code"),
        arrow(490, 78, 490, 100),
        box(20, 102, 940, 44, PALE, ""),
        text(36, 129, TRAINER, mono=True),
        text(450, 129, "sample, learn for each policy, hand out weights: the only loop over policies"),
        *side(20, 170, "Playing: rollout", PLAY, PLAYING, "2", "Where is the environment stepped?"),
        *side(540, 170, "Learning: algorithms", LEARN, LEARNING, "1", "Where do weights change?"),
        arrow(440, 300, 538, 300),
        text(489, 276, "Rollout", bold=True, middle=True),
        text(489, 292, "[T, columns]", mono=True, middle=True),
        text(489, 318, "decisions of", middle=True),
        text(489, 333, "one policy", middle=True),
        arrow(538, 430, 442, 430),
        text(489, 404, "weights,", middle=True),
        text(489, 419, "statistics", middle=True),
        text(489, 450, "set_weights", mono=True, middle=True),
        text(20, 528, "Layers: imports point down only, and rooms of one line never import each other", bold=True),
        *layers(20, 540),
    ]
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="system-ui, sans-serif" '
        f'font-size="13" fill="{INK}"><title>One iteration of PPO</title><defs><marker id="head" viewBox="0 0 8 8" '
        f'refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto"><path d="M0 0L8 4L0 8z" fill="{INK}"/>'
        f'</marker></defs><rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>'
    )
    return "\n".join([head, *parts, "</svg>"]) + "\n"


def side(
    x: int, y: int, title: str, colour: str, steps: tuple[tuple[str, str, bool], ...], number: str, question: str
) -> list[str]:
    """Returns one side: its functions in the order of their calls, and the one that answers a question."""
    parts = [box(x, y, 420, 332, colour, ""), text(x + 16, y + 26, title, bold=True)]
    parts.append(text(x + 408, y + 26, question, end=True))
    for row, (name, what, key) in enumerate(steps):
        top = y + 38 + 48 * row
        parts.append(box(x + 12, top, 396, 42, "#fff", KEY if key else ""))
        parts.append(text(x + 22, top + 17, name, mono=True))
        parts.append(text(x + 22, top + 34, what))
        if key:
            parts.append(answer(x + 382, top + 21, number))
    return parts


def layers(x: int, y: int) -> list[str]:
    """Returns the layers of docs/map.md in two columns."""
    parts = []
    for row, (layer, rooms, _) in enumerate(ROOMS):
        left, top = x + 470 * (row // 5), y + 28 * (row % 5)
        parts.append(box(left, top, 456, 23, PALE, ""))
        parts.append(text(left + 12, top + 16, layer, bold=True))
        parts.append(text(left + 60, top + 16, rooms.replace("`", "").replace("\\|", "·"), mono=True))
    return parts


def box(x: int, y: int, width: int, height: int, fill: str, stroke: str) -> str:
    """Returns a rectangle with round corners."""
    line = f'stroke="{stroke}" stroke-width="2"' if stroke else 'stroke="#9aa5b1"'
    return f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="6" fill="{fill}" {line}/>'


def answer(x: int, y: int, number: str) -> str:
    """Returns the number of a question in a disc."""
    return (
        f'<circle cx="{x + 8}" cy="{y}" r="10" fill="{KEY}"/>'
        f'<text x="{x + 8}" y="{y + 5}" fill="#fff" font-weight="700" text-anchor="middle">{number}</text>'
    )


def text(
    x: int, y: int, words: str, *, bold: bool = False, mono: bool = False, middle: bool = False, end: bool = False
) -> str:
    """Returns a line of text."""
    style = ' font-weight="700"' if bold else ""
    style += ' font-family="ui-monospace, monospace" font-size="12"' if mono else ""
    style += ' text-anchor="middle"' if middle else ' text-anchor="end"' if end else ""
    return f'<text x="{x}" y="{y}" xml:space="preserve"{style}>{escape(words)}</text>'


def arrow(x: int, y: int, to_x: int, to_y: int) -> str:
    """Returns an arrow."""
    return f'<path d="M{x} {y}L{to_x} {to_y}" stroke="{INK}" stroke-width="1.5" fill="none" marker-end="url(#head)"/>'
