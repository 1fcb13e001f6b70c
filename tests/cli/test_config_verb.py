"""The schema of configuration files: it takes what Rookery takes, and refuses what an editor should underline."""

from __future__ import annotations

import json
import re
from pathlib import Path
from textwrap import dedent

import pytest
from ruamel.yaml import YAML

from rookery.algorithms.names import ALGORITHMS
from rookery.core.config import resolve
from rookery.core.settings.layers import yaml_layer
from rookery.run.describe.schema import config_schema
from rookery.run.settings import RunConfig
from rookery.tune.schema import experiment_schema

KINDS = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "null": type(None),
    "number": (int, float),
    "integer": int,
}


def wrong(schema, value, root, at="") -> list[str]:
    """Yields the errors of a value in a schema, for the part of JSON Schema that ours uses."""
    if "$ref" in schema:
        return wrong(root["$defs"][schema["$ref"].rpartition("/")[2]], value, root, at)
    found = []
    kinds = schema.get("type", [])
    if kinds and not any(is_a(value, kind) for kind in ([kinds] if isinstance(kinds, str) else kinds)):
        return [f"{at}: {value!r} is no {kinds}"]
    if "const" in schema and value != schema["const"]:
        found.append(f"{at}: {value!r} is not {schema['const']!r}")
    if "enum" in schema and value not in schema["enum"]:
        found.append(f"{at}: {value!r} is none of {schema['enum']}")
    if is_a(value, "number"):
        for key, holds in (
            ("minimum", lambda limit: value >= limit),
            ("exclusiveMinimum", lambda limit: value > limit),
            ("maximum", lambda limit: value <= limit),
            ("exclusiveMaximum", lambda limit: value < limit),
        ):
            if key in schema and not holds(schema[key]):
                found.append(f"{at}: {value} breaks {key} {schema[key]}")
    if isinstance(value, str) and "pattern" in schema and not re.search(schema["pattern"], value):
        found.append(f"{at}: {value!r} does not look like {schema['pattern']}")
    if isinstance(value, dict):
        found += [f"{at}: {key} is missing" for key in schema.get("required", ()) if key not in value]
        for key, part in value.items():
            own = [schema["properties"][key]] if key in schema.get("properties", {}) else []
            own += [inner for pattern, inner in schema.get("patternProperties", {}).items() if re.search(pattern, key)]
            rest = schema.get("additionalProperties", {})
            if not own and rest is False:
                found.append(f"{at}.{key}: there is no such setting")
            for inner in own or ([rest] if rest else []):
                found += wrong(inner, part, root, f"{at}.{key}")
    if isinstance(value, list):
        found += [f"{at}: wrong length"] if len(value) < schema.get("minItems", 0) else []
        found += [f"{at}: wrong length"] if len(value) > schema.get("maxItems", 1 << 30) else []
        first = schema.get("prefixItems", [])
        for number, part in enumerate(value):
            inner = first[number] if number < len(first) else schema.get("items", {})
            found += wrong(inner, part, root, f"{at}[{number}]")
    for word, fits in (("anyOf", lambda n: n >= 1), ("oneOf", lambda n: n == 1)):
        if word in schema:
            tried = [wrong(inner, value, root, at) for inner in schema[word]]
            if not fits(sum(not problems for problems in tried)):
                found += min(tried, key=len) or [f"{at}: fits more than one"]
    return found


def is_a(value, kind):
    if isinstance(value, bool):
        return kind == "boolean"
    if kind == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, KINDS[kind])


@pytest.fixture(scope="module")
def schema():
    return config_schema()


@pytest.fixture(scope="module")
def of_experiments():
    return experiment_schema()


GOOD = [
    "",
    "env: {name: CartPole-v1}",
    "{env: {name: 'my.module:MyEnv', config: {size: 8}, wrappers: ['a:B']}, seed: 3}",
    "algorithm: {lr: 3e-4, epochs: 4}",
    "algorithm: {name: ppo, lr: {start: 1e-3, end: 0}, clip: {points: [[0, 0.3], [1000, 0.1]]}}",
    "algorithm: {model: {hidden: [32, 32], activation: relu, module: 'my.module:Net', module_config: {width: 3}}}",
    "algorithm: {target_kl: null, max_grad_norm: 0.5}",
    "algorithm: {name: a2c, rms_alpha: 0.9}",
    "algorithm: {name: 'my.module:MyConfig', anything: 1}",
    "policies: {a: {lr: 1e-3, frozen: true, init_from: runs/x}, b: , c: {name: a2c, rms_alpha: 0.9}}",
    "stop: {env_steps: 1000, policies/main/kl: 0.1}",
    "{algorithm.lr: 3e-4, sampling: , logging: {console: json}, policy_mapping: {a: b}}",
]

BAD = [
    ("[1]", "is no"),
    ("sede: 3", ".sede: there is no such setting"),
    ("seed: -1", ".seed: -1 breaks minimum 0"),
    ("seed: three", ".seed: 'three' is no integer"),
    ("sampling: {num_envs: 0}", ".sampling.num_envs: 0 breaks minimum 1"),
    ("sampling: {num_envs: 2.5}", ".sampling.num_envs: 2.5 is no integer"),
    ("env: {implementation: serail}", "'serail' is none of ['auto', 'c', 'batched', 'serial', 'processes', 'threads']"),
    ("env: {wrappers: none}", ".env.wrappers: 'none' is no array"),
    ("algorithm: {lr: 0}", ".algorithm.lr: 0 breaks exclusiveMinimum 0"),
    ("algorithm: {gamma: 1.5}", ".algorithm.gamma: 1.5 breaks maximum 1"),
    ("algorithm: {name: sac, alpha: often}", ".algorithm.alpha"),
    ("algorithm: {gama: 0.9}", ".algorithm.gama: there is no such setting"),
    ("algorithm: {lr: {start: 1e-3}}", ".algorithm.lr"),
    ("algorithm: {clip: {points: [[0, 1, 2]]}}", ".algorithm.clip"),
    ("algorithm: {name: pppo}", ".algorithm.name: 'pppo' is not 'ppo'"),
    ("algorithm: {name: a2c, epochs: 4}", ".algorithm"),
    ("algorithm: {model: {hidden: [0]}}", ".algorithm.model.hidden[0]: 0 breaks minimum 1"),
    ("algorithm: {model: {activation: sigmoid}}", "'sigmoid' is none of"),
    ("algorithm: {normalize_advantage: 1}", ".algorithm.normalize_advantage: 1 is no boolean"),
    ("policies: {a: {frozen: maybe}}", ".policies.a.frozen: 'maybe' is no boolean"),
    ("policies: {a: 3}", ".policies.a: 3 is no"),
    ("stop: {env_steps: lots}", ".stop.env_steps: 'lots' is no number"),
]


def read(text):
    return YAML(typ="safe", pure=True).load(dedent(text)) or {}


@pytest.mark.parametrize("text", GOOD)
def test_what_rookery_takes_fits_the_schema(text, schema, tmp_path):
    assert wrong(schema, read(text), schema) == []
    if "my.module" not in text:
        (tmp_path / "good.yaml").write_text(text)
        resolve(RunConfig, [yaml_layer(tmp_path / "good.yaml")], ALGORITHMS)


@pytest.mark.parametrize(("text", "message"), BAD)
def test_a_mistake_does_not_fit_the_schema(text, message, schema):
    assert any(message in problem for problem in wrong(schema, read(text), schema)), wrong(schema, read(text), schema)


def test_what_a_run_writes_fits_the_schema(finished_runs, schema):
    for name in ("cart", "arena"):
        assert wrong(schema, read((finished_runs / name / "config.yaml").read_text()), schema) == []


def test_the_schema_is_written_to_a_file_or_shown(rookery, schema, tmp_path):
    code, out, err = rookery("config", "schema")
    assert (code, err) == (0, "")
    assert json.loads(out) == schema
    code, out, _ = rookery("config", "schema", "-o", "run.schema.json")
    assert code == 0
    assert out.startswith("written: run.schema.json; ")
    assert json.loads((tmp_path / "run.schema.json").read_text()) == schema


def test_every_algorithm_and_every_setting_is_in_the_schema_with_its_meaning(schema):

    def found(part):
        return found(schema["$defs"][part["$ref"].removeprefix("#/$defs/")]) if "$ref" in part else part

    branches = {found(branch)["title"]: found(branch) for branch in schema["properties"]["algorithm"]["oneOf"]}
    assert list(branches) == [*ALGORITHMS, "your own"]
    gamma = dict(found(branches["ppo"]["properties"]["gamma"]))
    assert gamma.pop("description") == "Discount of the environment's reward."
    assert gamma == {"type": "number", "minimum": 0, "maximum": 1, "default": 0.99}
    silent = []

    def look(section, at):
        for name, part in section.get("properties", {}).items():
            part = found(part)
            silent.extend([] if "description" in part or "const" in part else [f"{at}.{name}"])
            look(part, f"{at}.{name}")

    look(schema, "")
    for title, branch in branches.items():
        look(branch, title)
    assert not silent


def test_the_schema_is_small_and_refers_only_to_its_own_definitions(rookery, schema, of_experiments):
    for words, made in (((), schema), (("--tune",), of_experiments)):
        _, out, _ = rookery("config", "schema", *words)
        assert json.loads(out) == made
        assert len(out) < 210_000
        assert made["$schema"] == "https://json-schema.org/draft/2020-12/schema"
        refs = set(re.findall(r'"\$ref": "([^"]*)"', out))
        assert refs == {f"#/$defs/{name}" for name in made["$defs"]}


PAGES = sorted((Path(__file__).parents[2] / "docs").rglob("*.md"))


def test_settings_files_in_the_docs_fit_the_schema(of_experiments):
    blocks = [text for page in PAGES for text in re.findall(r"^```yaml\n(.*?)^```", page.read_text(), re.S | re.M)]
    files = [values for values in map(read, blocks) if values.keys() & of_experiments["properties"].keys()]
    assert len(files) > 10
    assert [problem for values in files for problem in wrong(of_experiments, values, of_experiments)] == []


GOOD_EXPERIMENTS = [
    "algorithm: {lr: {loguniform: [1e-4, 1e-2]}, gamma: 0.9, model: {hidden: {grid_search: [[64], [32, 32]]}}}",
    "sampling: {num_envs: {choice: [8, 16]}}",
    "algorithm: {model: {hidden: [{choice: [32, 64]}, 32]}}",
    "tune: {search: {}}",
    "policies: {a: {name: a2c, lr: {uniform: {low: 0.1, high: 0.2}}}}",
    "tune: {num_samples: 4, search: optuna, scheduler: {name: asha, max_time: 40}}",
    "tune: {search: {name: optuna, sampler: gp}, metric: [return_mean, length_mean], mode: [max, min]}",
]

BAD_EXPERIMENTS = [
    ("algorithm: {lr: {logunifrm: [1e-4, 1e-2]}}", ".algorithm.lr"),
    ("algorithm: {lr: fast}", ".algorithm.lr: 'fast' is no number"),
    ("tune: {num_sample: 4}", ".tune.num_sample: there is no such setting"),
    ("tune: {scheduler: {name: asha, max_tme: 40}}", ".tune.scheduler"),
    ("tune: {search: optun}", ".tune.search"),
]


@pytest.mark.parametrize("text", [text for text in GOOD if "\n" not in text] + GOOD_EXPERIMENTS)
def test_what_tune_takes_fits_its_schema(text, of_experiments):
    assert wrong(of_experiments, read(text), of_experiments) == []


@pytest.mark.parametrize(("text", "message"), BAD_EXPERIMENTS)
def test_a_mistake_does_not_fit_the_schema_of_experiments(text, message, of_experiments):
    assert message in "; ".join(wrong(of_experiments, read(text), of_experiments))


def test_a_domain_is_nothing_for_a_single_training(schema):
    assert wrong(schema, read(GOOD_EXPERIMENTS[0]), schema)
