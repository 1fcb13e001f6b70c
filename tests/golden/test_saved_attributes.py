"""A class whose saved attributes change has a higher version, so that stored runs still load."""

import json

from saved_attributes import TABLE, saved_attributes

WRITE = "then write the table: python tests/golden/saved_attributes.py"


def test_what_a_class_saves_changes_only_with_its_version():
    stored, now = json.loads(TABLE.read_text(encoding="utf-8")), json.loads(json.dumps(saved_attributes()))
    changed = [name for name in stored if name in now and stored[name] != now[name] and stored[name][0] == now[name][0]]
    assert changed == [], f"count state_version up and define upgrade (rookery/core/state.py), {WRITE}"
    assert stored == now, WRITE
