"""JSON Schema of an experiment's file: the schema of a training, with a domain for any value, and section tune."""

from __future__ import annotations

from rookery.run.describe.schema import SchemaWriter, closed_mapping, run_schema
from rookery.run.describe.schema_definitions import Schema, with_definitions
from rookery.tune.names import SCHEDULERS, SEARCHES
from rookery.tune.settings import ExperimentFile
from rookery.tune.space import FUNCTIONS
from rookery.tune.spec import LISTS


def experiment_schema() -> Schema:
    """Returns the schema of a file for ``rookery tune``."""
    schema = run_schema(everywhere={"$ref": "#/$defs/domain"})
    known = {"search": SEARCHES, "scheduler": SCHEDULERS}
    own = SchemaWriter(known).section(ExperimentFile)["properties"]
    for name, classes in known.items():
        own["tune"]["properties"][name]["oneOf"].insert(0, {"enum": list(classes)})
    return with_definitions(
        {
            **schema,
            "title": "Rookery experiment",
            "properties": {**schema["properties"], **own},
            "$defs": {**schema["$defs"], "domain": _domain()},
        }
    )


def _domain() -> Schema:
    """Returns the schema of a mapping with one key, the name of a function of `tune.space`."""
    kinds = []
    for name, function in FUNCTIONS.items():
        arguments: Schema = {"type": "array", "minItems": 1} if name in LISTS else {}
        text = (function.__doc__ or "").splitlines()[0]
        kinds.append(closed_mapping({name: {**arguments, "description": text}}, [name]))
    return {"description": "A domain: values to choose from.", "oneOf": kinds}
