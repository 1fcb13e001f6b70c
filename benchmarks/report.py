"""Writes the measurements to files: raw lines to `speed.json`, tables to `speed.md`, a figure to `scaling.png`.

New lines replace those of the same workload and entrant; all others stay.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from workloads import TARGETS

Line = dict[str, Any]


@dataclass(frozen=True)
class Goal:
    """A bound on a ratio or a number of a workload.

    Attributes:
        text: What is compared.
        workload: Name of the workload.
        key: Key in the raw lines; dots lead inward.
        ours: Entrants of Rookery, of which the best counts; empty = all.
        against: Entrants, or libraries, of which the best counts; empty = `bound` is a number, not a ratio.
        bound: The ratio, or the number; None = reported without a goal.
        smaller: Whether small values of `key` are good; the ratio is then the peer's to Rookery's.
        at_most: Whether `bound` must not be passed, instead of reached.
    """

    text: str
    workload: str
    bound: float | None
    key: str = "steps_per_second"
    ours: tuple[str, ...] = ()
    against: tuple[str, ...] = ()
    smaller: bool = False
    at_most: bool = False


AFTER_IMPORT = "reached.after_import"
GOALS = [
    Goal("CartPole, matched settings, Python envs: steps/s", "cartpole-matched", 6.2,
         ours=("serial",), against=("sb3",)),
    Goal("the same beside TorchRL: steps/s", "cartpole-matched", None,
         ours=("serial",), against=("torchrl, compiled",)),
    Goal("the same beside one compiled file of PyTorch: steps/s", "cartpole-matched", None,
         ours=("serial",), against=("compiled",)),
    Goal("Pendulum, matched settings, Python envs, beside rsl-rl: steps/s", "pendulum-matched", None,
         ours=("serial",), against=("rsl_rl",)),
    Goal("CartPole, matched settings, 64 copies in one: steps/s", "cartpole-64", 1.5, against=("jax",)),
    Goal("the same beside rejax: steps/s", "cartpole-64", 1.5, against=("rejax",)),
    Goal("CartPole, own best settings: steps/s", "cartpole-best", 12.0, against=("sb3", "rllib")),
    Goal("CartPole to 475, after import: s", "cartpole-best", 0.8, AFTER_IMPORT, smaller=True, at_most=True),
    Goal("arena, one policy: s an iteration", "arena-one", 20.0, "iteration_seconds",
         against=("rllib",), smaller=True),
    Goal("arena, two policies: s an iteration", "arena-two", 20.0, "iteration_seconds",
         against=("rllib",), smaller=True),
    Goal("arena to a return of 15, defaults, start-up included: s", "arena-15", 15.0, "reached.wall_seconds",
         against=("rllib",), smaller=True),
    Goal("Python env of 50 us, training: part of what both cores reach stepping alone", "synthetic-50", 0.7,
         ours=("processes",), against=("both cores, stepping alone",)),
    Goal("Python env of 10 us, stepping alone: x AsyncVectorEnv", "synthetic-10", 5.0,
         ours=("processes, stepping alone",), against=("AsyncVectorEnv, stepping alone",)),
    Goal("HalfCheetah-v5: steps/s", "halfcheetah", 2.2, ours=("auto",), against=("sb3",)),
    Goal("ALE/Pong-v5: steps/s", "pong", 3.0, against=("sb3",)),
    Goal("CartPole without velocities, PPO with an LSTM, matched settings, Python envs: steps/s", "memory", 20.0,
         ours=("serial",), against=("sb3",)),
    Goal("CartPole, DQN, matched settings: steps/s", "dqn", 7.0, against=("sb3",)),
    Goal("HalfCheetah-v5, SAC, matched settings, one core, float32: updates/s", "sac", 3.0,
         ours=("float32",), against=("sb3, 1 thread",)),
    Goal("the same in bfloat16: updates/s", "sac", 3.0, ours=("bfloat16",), against=("sb3, 1 thread",)),
    Goal("the same in float32, beside SBX (JAX): updates/s", "sac", 1.9, ours=("float32",), against=("sbx",)),
    Goal("HalfCheetah-v5, TD3, matched settings, one core, float32, beside SBX: updates/s", "td3", 1.5,
         ours=("float32",), against=("sbx",)),
    Goal("CartPole, DQN, beside SBX: steps/s", "dqn", 1.5, against=("sbx",)),
    Goal("connect four by self-play, the bundled game beside PettingZoo's in MaskablePPO: plies/s", "connect-four", 5.0,
         ours=("batched",), against=("sb3",)),
    Goal("the same, PettingZoo's game on both sides: plies/s", "connect-four", 5.0,
         ours=("pettingzoo",), against=("sb3",)),
    Goal("simple_spread, IPPO, 8 envs: steps/s", "spread-ippo", 5.0, ours=("serial",), against=("benchmarl",)),
    Goal("the same on both cores, RLlib on one: steps/s", "spread-ippo", 5.0, ours=("auto",), against=("rllib",)),
    Goal("simple_spread, MAPPO, 8 envs: steps/s", "spread-mappo", 5.0, ours=("serial",), against=("benchmarl",)),
    Goal("CartPole, start of the process to the first finished iteration: s", "cartpole-matched", 2.5,
         "first_iteration_seconds", ours=("serial",), smaller=True, at_most=True),
    Goal("memory of that run (PSS): MB", "cartpole-matched", 350.0, "pss_mb",
         ours=("serial",), smaller=True, at_most=True),
    Goal("8 agents in one env against 8 envs, playing: us a decision", "crowd", 1.3, "playing_us_per_decision",
         ours=("together",), against=("alone",), at_most=True),
]  # fmt: skip


# --- raw lines ------------------------------------------------------------------------------------------------------


def write(folder: Path, about: dict[str, Any], lines: Sequence[Line]) -> None:
    """Puts new lines in the place of older ones and writes all three files."""
    folder.mkdir(exist_ok=True)
    path = folder / "speed.json"
    kept = json.loads(path.read_text())["lines"] if path.exists() else []
    fresh = {(line["workload"], line["entrant"]) for line in lines}
    every = [line for line in kept if (line["workload"], line["entrant"]) not in fresh] + list(lines)
    order = list(dict.fromkeys([goal.workload for goal in GOALS] + [line["workload"] for line in every]))
    every.sort(key=lambda line: order.index(line["workload"]))
    texts = ",\n".join(json.dumps(line) for line in every)
    path.write_text(f'{{"about": {json.dumps(about)},\n"lines": [\n{texts}\n]}}\n')
    (folder / "speed.md").write_text(page(about, every))
    draw(folder / "scaling.png", [line for line in every if "steps_per_second_by_copies" in line])


def brief(line: Line) -> str:
    """A line in a few words, for those who watch."""
    what = f"{line['workload']:<18} {line['entrant']:<34} round {line['seed'] + 1}"
    if "failed" in line:
        return f"{what}  failed: {line['failed']}"
    rate = line.get("steps_per_second")
    said = "" if rate is None else f"  {rate:>10,.0f} steps/s"
    reached = f"  reached after {line['reached']['after_import']:.1f} s" if line.get("reached") else ""
    return f"{what}{said}{reached}{'  (contended)' if line['contended'] else ''}"


def value(line: Line, key: str) -> float | None:
    """Returns the value of a dotted key, or None."""
    found: Any = line
    for part in key.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    return None if found is None else float(found)


def middle(lines: Sequence[Line], key: str) -> float | None:
    """The median over the rounds; None unless every round has the value."""
    values = [value(line, key) for line in lines]
    return median(known) if values and len(known := [v for v in values if v is not None]) == len(values) else None


def by_entrant(lines: Sequence[Line], workload: str) -> dict[str, list[Line]]:
    """Lines of a workload by entrant."""
    found: dict[str, list[Line]] = {}
    for line in lines:
        if line["workload"] == workload:
            found.setdefault(line["entrant"], []).append(line)
    return found


# --- tables ---------------------------------------------------------------------------------------------------------


def page(about: dict[str, Any], lines: Sequence[Line]) -> str:
    """Everything, in Markdown."""
    versions = sorted({pair for line in lines for pair in line.get("versions", {}).items()})
    told = ", ".join(f"{name} {version}" for name, version in versions)
    contended = sum(bool(line.get("contended")) for line in lines)
    text = [
        "# Speed",
        "",
        f"Made by `make bench` on machines with 2 cores; the processor is given for each workload. {told}.",
        "",
        "Every figure is a median over fresh processes that ran in turn, with the range of the rounds; raw lines, with",
        "the command of each, are in `speed.json`. Steps are those of single environment copies (Pong: 4 frames each);",
        "steps/s is the slope over a run without its first iteration and then its first 2 seconds or tenth. Seconds to",
        "the first iteration count from the start of the process. PSS is memory with shared pages counted once; what",
        "other running programs share, torch's libraries say, counts in part only. Rows marked (one core) are of",
        "processes that the system let use no other; all others had the whole machine. jax is PPO compiled as one",
        "program, environment and all (`benchmarks/peers/jax_ppo.py`); compiling is part of its first iteration.",
        "sbx is Stable-Baselines3's sister in JAX. Workloads were measured on different days; where two versions of a",
        "library are named, `speed.json` has that of each row.",
        "In `memory`, sb3 is RecurrentPPO of SB3-contrib. A minibatch is 256 steps there: 8 sequences of 32 of",
        "Rookery's, as many steps in shorter sequences of RLlib's, and the episodes in 256 steps in a row of",
        "RecurrentPPO's.",
        "In `cartpole-matched`, torchrl is TorchRL's own parts on Gymnasium's vector environment, with acting and",
        "gradient steps plain, and compiled by `torch.compile`. Plain torch, compiled, is PPO in one file in the",
        "manner of CleanRL, written here, whose gradient step is one program made by `torch.compile`",
        "(`benchmarks/peers/compiled_ppo.py`). Compiling is part of the first iteration of both. rsl-rl comes with",
        "continuous actions only; it is measured in `pendulum-matched`, on Pendulum-v1.",
        "CleanRL, PufferLib and Sample Factory are left out: none of them installs with these versions of Python,",
        "Gymnasium and NumPy without changes to its source.",
        f"**c** marks rounds in which other processes used more than a quarter of a core: {contended} of {len(lines)}.",
        "",
        "## Goals",
        "",
        "The ratio is that of the medians; beside it stand the smallest and the largest ratio within one round, whose",
        "processes ran one after the other: they differ as the clock of the machine does.",
        "",
        "| | ours | against | ratio | of single rounds | goal | reached | processor |",
        "|---|---|---|---|---|---|---|---|",
        *(row for goal in GOALS if (row := goal_row(goal, lines))),
    ]
    for workload in dict.fromkeys(line["workload"] for line in lines):
        maker = TABLES.get(workload, training_table)
        text += [
            "",
            f"## {workload}",
            "",
            f"{cpu_of(lines, workload)}.",
            "",
            *maker(by_entrant(lines, workload), workload),
        ]
    return "\n".join(text) + "\n"


def cpu_of(lines: Sequence[Line], workload: str) -> str:
    """Returns the processors on which a workload was measured."""
    return "; ".join(dict.fromkeys(line["cpu"] for line in lines if line["workload"] == workload))


def goal_row(goal: Goal, lines: Sequence[Line]) -> str:
    """A goal's row; empty if ours was not measured."""
    entrants = by_entrant(lines, goal.workload)
    cpu = cpu_of(lines, goal.workload)
    mine = best(goal, {name: rows for name, rows in entrants.items()
                       if rows[0]["library"] == "rookery" and name in (goal.ours or (name,))})  # fmt: skip
    if mine is None:
        return ""
    if not goal.against:
        held = verdict(goal, mine[1])
        return f"| {goal.text} | {number(mine[1])} ({mine[0]}) | | | | <= {goal.bound:g} | {held} | {cpu} |"
    theirs = best(goal, {name: rows for name, rows in entrants.items()
                         if {name, rows[0]["library"]} & set(goal.against)})  # fmt: skip
    bound = "none" if goal.bound is None else f"{'<=' if goal.at_most else '>='} {goal.bound:g} x"
    if theirs is None:
        return f"| {goal.text} | {number(mine[1])} ({mine[0]}) | not measured | | | {bound} | | {cpu} |"
    ratio, each = ratio_of(goal, mine[1], theirs[1]), round_ratios(goal, entrants[mine[0]], entrants[theirs[0]])
    single = f"{min(each):.2f} to {max(each):.2f}" if len(each) > 1 else ""
    return (
        f"| {goal.text} | {number(mine[1])} ({mine[0]}) | {number(theirs[1])} ({theirs[0]}) | {ratio:.2f} | {single} | "
        f"{bound} | {verdict(goal, ratio)} | {cpu} |"
    )


def ratio_of(goal: Goal, mine: float, theirs: float) -> float:
    """Returns how many times better Rookery is; where a bound must not be passed, how many times larger."""
    return theirs / mine if goal.smaller else mine / theirs


def round_ratios(goal: Goal, mine: Sequence[Line], theirs: Sequence[Line]) -> list[float]:
    """The ratio within each round that both took part in."""
    ours, others = ({line["seed"]: value(line, goal.key) for line in lines} for lines in (mine, theirs))
    both = [(one, others.get(number)) for number, one in ours.items()]
    return [ratio_of(goal, one, other) for one, other in both if one and other]


def verdict(goal: Goal, found: float) -> str:
    """Returns "yes" if a ratio or number meets the bound, else "no" in bold; empty without a bound."""
    if goal.bound is None:
        return ""
    return "yes" if (found <= goal.bound if goal.at_most else found >= goal.bound) else "**no**"


def best(goal: Goal, entrants: dict[str, list[Line]]) -> tuple[str, float] | None:
    """The best of some entrants by median, and its value; where there is a target, of those that always reached it."""
    found = {name: middle(rows, goal.key) for name, rows in entrants.items()
             if goal.workload not in TARGETS or middle(rows, AFTER_IMPORT) is not None}  # fmt: skip
    known = {name: value for name, value in found.items() if value is not None}
    if not known:
        return None
    choose: Callable[..., str] = min if goal.smaller else max
    name = choose(known, key=lambda entrant: known[entrant])
    return name, known[name]


def training_table(entrants: dict[str, list[Line]], workload: str) -> list[str]:
    """Trainings of a workload, one entrant a row."""
    target = TARGETS.get(workload)
    titles = ["", "steps/s", "range", "rounds", "s an iteration", "first iteration, s", "PSS MB", "threads"]
    titles += [] if target is None else [f"s to {target:g} after import", "steps to it"]
    rows = ["| " + " | ".join(titles) + " |", "|---" * len(titles) + "|"]
    for name, lines in entrants.items():
        label = f"**rookery**, {name}" if lines[0]["library"] == "rookery" else name
        label += " (one core)" if lines[0].get("one_core") else ""
        good = [line for line in lines if "failed" not in line]
        if not good:
            rows.append(
                f"| {label} | failed: {lines[0]['failed'].replace('|', '/')[:200]} |" + " |" * (len(titles) - 2)
            )
            continue
        cells = [label, number(middle(good, "steps_per_second")), spread(good, "steps_per_second"), rounds_of(lines)]
        cells += [number(middle(good, key)) for key in ("iteration_seconds", "first_iteration_seconds", "pss_mb")]
        cells.append(number(middle(good, "threads")))
        if target is not None:
            reached = [line for line in good if line.get("reached")]
            some = "" if len(reached) == len(good) else f" ({len(reached)} of {len(good)} rounds)"
            cells += [number(middle(reached, AFTER_IMPORT)) + some, number(middle(reached, "reached.env_steps"))]
        rows.append("| " + " | ".join(cells) + " |")
    return rows


def crowd_table(entrants: dict[str, list[Line]], workload: str) -> list[str]:
    """Returns the table of the cost of a decision."""
    rows = ["| | us a decision, playing | range | rounds |", "|---|---|---|---|"]
    key = "playing_us_per_decision"
    for name, lines in entrants.items():
        rows.append(f"| 8 agents {name} | {number(middle(lines, key))} | {spread(lines, key)} | {rounds_of(lines)} |")
    return rows


def limits_table(entrants: dict[str, list[Line]], workload: str) -> list[str]:
    """Returns the table of the speed that the parts of a training allow, and the share that the training reaches."""
    rows = [
        "Steps/s of each part alone: random actions; acting and updates by the time they take in training.",
        "In turn they allow 1 / (1/env + 1/inference + 1/learner); the last column is the part of that which training",
        "reaches.",
        "",
        "| | env | inference | learner | in turn | training | of env | of all |",
        "|---|---|---|---|---|---|---|---|",
    ]
    keys = ("environment", "inference", "learner", "together", "steps_per_second")
    for name, lines in entrants.items():
        found = {key: middle(lines, key) for key in keys}
        if "failed" in lines[0] or None in found.values():
            rows.append(f"| {name} | failed: {lines[0].get('failed', '?')[:200]} | | | | | | |")
            continue
        parts = [found["steps_per_second"] / found[key] for key in ("environment", "together")]  # type: ignore[operator]
        cells = [number(found[key]) for key in keys] + [f"{part:.2f}" for part in parts]
        rows.append(f"| {name}{' c' if lines[0]['contended'] else ''} | {' | '.join(cells)} |")
    return rows


def scaling_table(entrants: dict[str, list[Line]], workload: str) -> list[str]:
    """Steps/s against copies, a back end a row."""
    measured = {name: lines[-1] for name, lines in entrants.items() if "failed" not in lines[-1]}
    failed = [
        f"{name}: failed: {lines[-1]['failed'][:200]}" for name, lines in entrants.items() if name not in measured
    ]
    if not measured:
        return failed
    copies = list(next(iter(measured.values()))["steps_per_second_by_copies"])
    rows = ["PPO, 4 epochs of 4 minibatches, steps/s by number of copies; drawn in `scaling.png`.", ""]
    rows += ["| | " + " | ".join(copies) + " |", "|---" * (len(copies) + 1) + "|"]
    for name, line in measured.items():
        cells = [number(rate) for rate in line["steps_per_second_by_copies"].values()]
        rows.append(f"| {name}{' c' if line['contended'] else ''} | {' | '.join(cells)} |")
    return [*rows, *failed]


TABLES = {"crowd": crowd_table, "limits": limits_table, "scaling": scaling_table}


def number(found: float | None) -> str:
    """Three digits, or thousands with commas."""
    if found is None:
        return "-"
    return f"{found:,.0f}" if abs(found) >= 1000 else f"{found:.3g}"


def spread(lines: Sequence[Line], key: str) -> str:
    """Smallest and largest value."""
    known = [found for line in lines if (found := value(line, key)) is not None]
    return f"{number(min(known))} to {number(max(known))}" if known else "-"


def rounds_of(lines: Sequence[Line]) -> str:
    """Returns the number of rounds, and how many of them failed or were contended."""
    failed = sum("failed" in line for line in lines)
    contended = sum(bool(line.get("contended")) for line in lines)
    return str(len(lines)) + (f", {failed} failed" if failed else "") + (f", {contended} c" if contended else "")


# --- the figure -----------------------------------------------------------------------------------------------------


def draw(path: Path, lines: Sequence[Line]) -> None:
    """Steps/s against copies: CartPole on the left, the synthetic environment on the right."""
    if not lines:
        return
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for axis, title in zip(axes, ("CartPole", "50 us"), strict=True):
        for line in lines:
            if line["entrant"].startswith(title):
                rates = line["steps_per_second_by_copies"]
                axis.plot([int(copies) for copies in rates], list(rates.values()), marker="o",
                          label=line["entrant"].partition(", ")[2])  # fmt: skip
        axis.set(xscale="log", yscale="log", xlabel="copies", ylabel="steps/s while training",
                 title="CartPole-v1" if title == "CartPole" else "Python env of 50 us")  # fmt: skip
        axis.xaxis.set_major_formatter("{x:g}")
        axis.legend()
    figure.savefig(path, dpi=110)
