"""Lists the public names of ``mlagents_envs`` with their signatures: tests/rookery_mlagents/mlagents_envs_api.json.

It runs in an environment of its own that has ``mlagents_envs`` 1.1.0, by nothing but the standard library:

    PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION=python PYTHON benchmarks/peers/mlagents_api.py > FILE
"""

import enum
import importlib
import inspect
import json
import sys

MODULES = (
    "base_env", "environment", "exception", "side_channel", "side_channel.side_channel",
    "side_channel.incoming_message", "side_channel.outgoing_message", "side_channel.engine_configuration_channel",
    "side_channel.environment_parameters_channel", "side_channel.float_properties_channel",
    "side_channel.raw_bytes_channel", "side_channel.stats_side_channel", "side_channel.side_channel_manager",
    "registry", "registry.unity_env_registry", "logging_util",
)  # fmt: skip


def parameters(function):
    """Returns the names of a function's parameters, each with its default as text, or None."""
    found = []
    for one in inspect.signature(function).parameters.values():
        found.append([one.name, None if one.default is one.empty else repr(one.default)])
    return found


def of_class(cls):
    """Returns what a class has: its parameters, methods, properties, fields and members."""
    told = {}
    if issubclass(cls, enum.Enum):
        return {"members": {name: int(member.value) for name, member in cls.__members__.items()}}
    if hasattr(cls, "_fields"):
        told["fields"] = list(cls._fields)
    if "__init__" in vars(cls) and not hasattr(cls, "_fields"):
        told["parameters"] = parameters(cls)
    members = {}
    for above in reversed(cls.__mro__):
        if above.__module__.startswith("mlagents_envs"):
            members.update(vars(above))
    names = [name for name in members if not name.startswith("_") and name not in told.get("fields", ())]
    told["methods"] = {name: parameters(getattr(cls, name)) for name in names if inspect.isfunction(getattr(cls, name))}
    told["properties"] = sorted(name for name in names if isinstance(members[name], property))
    told["constants"] = {name: members[name] for name in names if name.isupper() and len(str(members[name])) < 10}
    return told


def main():
    """Writes the list."""
    found = {}
    for name in MODULES:
        module = importlib.import_module("mlagents_envs." + name)
        classes, functions = {}, {}
        for key, value in sorted(vars(module).items()):
            home = str(getattr(value, "__module__", ""))
            if key.startswith("_") or not home.startswith("mlagents_envs"):
                continue
            if inspect.isclass(value) and "communicator" not in home and "_pb2" not in home:
                classes[key] = of_class(value) if home == module.__name__ else {}
            elif inspect.isfunction(value) and home == module.__name__:
                functions[key] = parameters(value)
        found[name] = {"classes": classes, "functions": functions}
    lines = [f" {json.dumps(name)}: {json.dumps(told, sort_keys=True)}" for name, told in sorted(found.items())]
    sys.stdout.write("{\n" + ",\n".join(lines) + "\n}\n")


main()
