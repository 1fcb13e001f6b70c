"""Every page of docs/ that shows code shows code that runs; test_as_read.py runs the tutorial."""

import ast
import re
import shlex
import sys

import pytest
from pages import ROOT, blocks, run
from typer.main import get_command

from rookery import PPOConfig, Trainer
from rookery.cli.main import app
from rookery.cli.verbs import load_verb
from rookery.envs.native.compiler import find_compiler
from rookery.run.findings.catalog import RULES
from selection import slow_except

PAGES = [
    ROOT / "docs" / "tutorial.md",
    *sorted((ROOT / "docs" / "how-to").glob("*.md")),
    ROOT / "docs" / "reference" / "search-spaces.md",
    ROOT / "docs" / "from-rllib.md",
    ROOT / "docs" / "from-rllib2.md",
    ROOT / "docs" / "from-sb3.md",
    ROOT / "docs" / "algorithms" / "her.md",
    ROOT / "docs" / "troubleshooting.md",
    ROOT / "docs" / "from-mlagents.md",
    ROOT / "docs" / "environments" / "pettingzoo.md",
]


QUICK = [
    page
    for page in PAGES
    if page.stem
    in (
        "from-mlagents",
        "demonstrations",
        "own-callback",
        "replay-memory",
        "stop-and-resume",
        "vector-envs",
    )
]
"""Pages that run in half a second."""


NEEDS_COMPILER = ("c-environments",)
"""Pages whose code is compiled."""


@pytest.mark.parametrize("page", slow_except(*QUICK, of=PAGES[1:]), ids=lambda page: page.stem)
def test_the_code_of_a_page_runs_from_top_to_bottom_and_prints_what_the_page_says(page, tmp_path, monkeypatch, capsys):
    if page.stem in NEEDS_COMPILER and not find_compiler():
        pytest.skip("no C compiler")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("TUNE_RESULT_DIR", str(tmp_path / "ray_results"))
    before = set(sys.modules)
    run(page, lambda: capsys.readouterr().out)
    for name in {block.file.removesuffix(".py") for block in blocks(page)} & (set(sys.modules) - before):
        del sys.modules[name]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_code_of_a_page_is_python_and_what_it_imports_from_rookery_exists(page):
    for block in blocks(page):
        if block.language != "python" or block.mark == "no test":
            continue
        for line in ast.walk(ast.parse("\n" * (block.line - 1) + block.code, str(page))):
            if isinstance(line, ast.ImportFrom) and line.module.split(".")[0] == "rookery":
                exec(compile(ast.Module([line], []), str(page), "exec"), {})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_files_that_a_page_shows_are_those_of_examples(page):
    for block in blocks(page):
        example = ROOT / "examples" / block.file
        if block.file and example.exists():
            assert block.code == example.read_text(encoding="utf-8")


def test_scripts_that_a_page_names_exist():
    benchmarks = ROOT / "benchmarks"
    pages = [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "Makefile", *(ROOT / "docs").rglob("*.md")]
    pages += [*(benchmarks / "results").glob("*.md"), *benchmarks.glob("*.py"), *benchmarks.glob("[a-z]*/*.py")]
    for page in pages:
        for script in re.findall(r"\b(?:benchmarks|scripts)/[\w/-]+\.(?:py|sh)\b", page.read_text(encoding="utf-8")):
            assert (ROOT / script).is_file(), f"{page.name}: {script}"


def test_few_blocks_of_python_are_not_run():
    skipped = [f"{page.name}:{b.line}" for page in PAGES for b in blocks(page) if b.mark == "no test"]
    assert len(skipped) <= 3, skipped


EVERY_PAGE = [
    *(ROOT / f"{name}.md" for name in ("README", "CHANGELOG", "CONTRIBUTING", "SECURITY")),
    *sorted((ROOT / "docs").rglob("*.md")),
]


@pytest.mark.parametrize("page", EVERY_PAGE, ids=lambda page: page.stem)
def test_links_of_a_page_lead_somewhere(page):
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#]*)#?([^)]*)\)", page.read_text(encoding="utf-8")):
        place = (page.parent / target).resolve() if target else page
        assert place.exists(), f"{page.name}: {target}"
        if anchor:
            headings = re.findall(r"^#+ (.*)$", place.read_text(encoding="utf-8"), re.M)
            assert anchor in {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}, anchor


@pytest.mark.parametrize("page", EVERY_PAGE, ids=lambda page: page.stem)
def test_shell_lines_of_a_page_are_commands_with_their_options(page):
    whole = get_command(app)
    for block in blocks(page):
        for line in block.code.replace("\\\n", " ").splitlines() if block.language in ("sh", "bash") else ():
            program, *words = shlex.split(line, comments=True) or [""]
            if program.rpartition("/")[2] != "rookery":
                continue
            command, words = whole, [word for word in words if word != "..."]
            while hasattr(command, "commands") and words:
                if "run" in command.commands and words[0] not in command.commands:
                    words = ["run", *words]  # rookery tune X is rookery tune run X
                found = load_verb(words[0]) if command is whole else command.commands[words[0]]
                command, words = found, words[1:]
            ends = [words.index(end) for end in ("|", "&&", "&", ">") if end in words]
            context = command.make_context("rookery", [], resilient_parsing=True)
            command.make_parser(context).parse_args(words[: min(ends, default=len(words))])  # raises if it does not fit


RULE_PAGES = [page for page in (ROOT / "docs" / "troubleshooting").glob("*.md") if page.stem != "README"]

SEARCHED = {
    "README": "reinforcement learning",
    "algorithms/a2c": "actor-critic",
    "algorithms/appo": "clipped surrogate",
    "algorithms/alphazero": "alphazero",
    "algorithms/ars": "random search",
    "algorithms/awac": "advantage-weighted",
    "algorithms/bc": "behavioural cloning",
    "algorithms/cql": "conservative q-learning",
    "algorithms/ddpg": "deterministic policy gradient",
    "algorithms/dqn": "deep q-network",
    "algorithms/dt": "transformer",
    "algorithms/es": "evolution strategies",
    "algorithms/her": "hindsight experience replay",
    "algorithms/impala": "actor-critic",
    "algorithms/iql": "implicit q-learning",
    "algorithms/lints": "thompson sampling",
    "algorithms/linucb": "contextual bandit",
    "algorithms/maddpg": "multi-agent",
    "algorithms/mappo": "multi-agent ppo",
    "algorithms/marwil": "imitation",
    "algorithms/neural_linear": "contextual bandit",
    "algorithms/poca": "credit assignment",
    "algorithms/ppo": "proximal policy optimization",
    "algorithms/ppo_lagrangian": "limit on costs",
    "algorithms/pqn": "q-learning",
    "algorithms/qmix": "qmix",
    "algorithms/reinforce": "policy gradient",
    "algorithms/sac": "soft actor-critic",
    "algorithms/signals": "reward signal",
    "algorithms/td3": "twin delayed",
    "algorithms/td3bc": "td3",
    "algorithms/trpo": "trust region",
    "algorithms/vdn": "value decomposition",
    "comparison": "stable-baselines3",
    "design": "design",
    "environments/README": "environments",
    "environments/bundled": "environments",
    "environments/envpool": "envpool",
    "environments/gymnasium": "gymnasium",
    "environments/minatar": "atari",
    "environments/minigrid": "minigrid",
    "environments/mujoco": "mujoco",
    "environments/pettingzoo": "multi-agent",
    "from-mlagents": "ml-agents",
    "from-others": "cleanrl",
    "from-rllib": "rllib",
    "from-rllib2": "rllib 2",
    "from-sb3": "stable-baselines3",
    "glossary": "glossary",
    "how-to/asynchronous-sampling": "asynchronous sampling",
    "how-to/atari": "atari",
    "how-to/choose-an-algorithm": "dqn",
    "how-to/c-environments": "environments in c",
    "how-to/central-critics": "critic",
    "how-to/cookbook": "reinforcement learning",
    "how-to/command-line": "command line",
    "how-to/curriculum": "curriculum",
    "how-to/demonstrations": "demonstrations",
    "how-to/entities": "attention",
    "how-to/explore": "intrinsic",
    "how-to/export": "onnx",
    "how-to/diagnose-environment": "environment",
    "how-to/external": "external simulator",
    "how-to/games": "multi-agent",
    "how-to/groups": "cooperative",
    "how-to/import-data": "d4rl",
    "how-to/install": "install",
    "how-to/learn-from-data": "offline rl",
    "how-to/learn-from-demonstrations": "imitation learning",
    "how-to/log-without-simulator": "log",
    "how-to/memory": "recurrent",
    "how-to/off-policy-evaluation": "off-policy evaluation",
    "how-to/move-from-mlagents": "ml-agents",
    "how-to/old-mlagents-files": "ml-agents",
    "how-to/own-algorithm": "custom algorithm",
    "how-to/own-callback": "callback",
    "how-to/own-environment": "custom environment",
    "how-to/own-model": "custom model",
    "how-to/own-trainable": "trainable",
    "how-to/parallel-envs": "parallel environments",
    "how-to/play-and-rate": "elo",
    "how-to/plug-in": "plug-in",
    "how-to/population-based-training": "population-based training",
    "how-to/randomize": "domain randomization",
    "how-to/ray": "ray",
    "how-to/read-an-experiment": "experiment",
    "how-to/read-results": "metrics",
    "how-to/replay-memory": "replay buffer",
    "how-to/scale": "reward",
    "how-to/schedulers": "schedulers",
    "how-to/self-play": "self-play",
    "how-to/serve": "http",
    "how-to/several-agents": "multi-agent",
    "how-to/several-learners": "learners",
    "how-to/stop-and-resume": "checkpoint",
    "how-to/teams": "team",
    "how-to/tensor-environments": "tensor",
    "how-to/test-unity": "unity",
    "how-to/tune": "hyperparameter search",
    "how-to/unity": "unity",
    "how-to/unity-examples": "ml-agents",
    "how-to/vector-envs": "vectorized environments",
    "how-to/workers": "ray",
    "iteration": "iteration",
    "kernels": "cpu",
    "map": "iteration",
    "performance": "speed",
    "reference/algorithms": "algorithms",
    "reference/mlagents-keys": "ml-agents",
    "reference/presets": "presets",
    "reference/regressions": "regressions",
    "reference/replay-files": "replay buffer",
    "reference/rllib-keys": "rllib",
    "reference/run-directory": "run directory",
    "reference/search-spaces": "search space",
    "reference/settings": "settings",
    "scaling": "scaling",
    "troubleshooting": "troubleshooting",
    "how-to/diagnose": "does it not learn",
    "how-to/diagnose-causes": "causes",
    "how-to/diagnose-examples": "diagnoses",
    "troubleshooting/README": "does not learn",
    "trust": "trust",
    "zoo": "pretrained",
    "tutorial": "tutorial",
}
"""By page, a term of the field that its first 100 words hold, so that a search finds it."""


@pytest.mark.parametrize("name", SEARCHED)
def test_a_page_is_found_by_a_term_of_the_field(name):
    page = ROOT / "README.md" if name == "README" else ROOT / "docs" / f"{name}.md"
    first = " ".join(page.read_text(encoding="utf-8").split()[:100]).lower()
    assert SEARCHED[name] in first, first[:200]


def test_every_page_has_a_term_to_be_found_by():
    found = set((ROOT / "docs").rglob("*.md")) - set(RULE_PAGES)
    pages = {page.relative_to(ROOT / "docs").with_suffix("").as_posix() for page in found}
    assert pages - {"README"} == SEARCHED.keys() - {"README"}


def test_every_rule_has_a_page_with_its_name_and_a_question_that_it_answers():
    questions = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    for page in RULE_PAGES:
        assert page.read_text(encoding="utf-8").startswith(f"# Finding: {page.stem}\n")
        assert f"(troubleshooting/{page.name})" in questions, page.stem
    assert {page.stem for page in RULE_PAGES} == RULES.keys()


def test_the_indices_list_every_page():
    indices = (ROOT / "docs" / "README.md", ROOT / "docs" / "troubleshooting" / "README.md")
    listed = {
        (index.parent / target).resolve()
        for index in indices
        for target in re.findall(r"\]\(([^)#]+)\)", index.read_text(encoding="utf-8"))
    }
    assert set((ROOT / "docs").rglob("*.md")) - {indices[0]} <= listed


def test_the_page_about_the_run_directory_names_every_file_of_a_run(tmp_path):
    text = (ROOT / "docs" / "reference" / "run-directory.md").read_text(encoding="utf-8")
    cfg = PPOConfig(fragment_length=8, epochs=1)
    with Trainer("CartPole-v1", cfg, num_envs=2, seed=0, run_dir=tmp_path / "run") as trainer:
        trainer.train(stop={"iterations": 2})
        checkpoint = trainer.save()
    for path in (*(tmp_path / "run").iterdir(), *checkpoint.iterdir(), *checkpoint.parent.glob("*.json")):
        name = "events.out.tfevents.*" if path.name.startswith("events") else path.name
        assert f"{name}`" in text or f"`{name}/" in text, name


def test_the_page_about_results_names_every_column():
    text = (ROOT / "docs" / "how-to" / "read-results.md").read_text(encoding="utf-8")
    table = text[text.index("## The clocks") :]
    with Trainer("CartPole-v1", PPOConfig(fragment_length=8, epochs=1), num_envs=2, seed=0) as trainer:
        row = trainer.train_iteration().row()
    own = [key for key in row if "/" not in key and key not in ("iteration", "env_steps", "episodes")]
    own += [key for key in row if key.startswith("counters/")]
    assert not [key for key in own if f"`{key}`" not in table]
