"""The key that signs what a user writes: made once, private, and not needed."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from rookery.core.io import signing
from rookery.core.io.signing import is_signed, is_signed_text, key_file, signed, signed_text, why_unsigned

FACTS = {"files": {"b": 1, "a": [1.5, None]}, "exact": True}


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path


def test_what_was_signed_is_known_again_and_nothing_else_is(home):
    facts = signed("manifest", FACTS)
    assert is_signed("manifest", facts)
    assert is_signed("manifest", dict(reversed(facts.items())))
    assert not is_signed("journal", facts)
    assert not is_signed("manifest", FACTS)
    assert not is_signed("manifest", {**facts, "exact": False})
    assert not is_signed("manifest", {**facts, "more": 1})
    assert not is_signed("manifest", {**facts, "signature": "é"})
    assert not is_signed("manifest", {**facts, "signature": 3})


def test_a_text_is_signed_in_its_last_line(home):
    text = signed_text("config.yaml", "env:\n  name: a\n")
    assert text.startswith("env:\n  name: a\n# signature: ")
    assert is_signed_text("config.yaml", text)
    assert not is_signed_text("config.yaml", text.replace("name: a", "name: b"))
    assert not is_signed_text("config.yaml", text + "env: b\n")
    assert not is_signed_text("config.yaml", "env:\n  name: a\n")
    assert not is_signed_text("other.yaml", text)


def test_the_key_is_private_and_stays(home):
    signed("manifest", FACTS)
    file = home / "config" / "rookery" / "signing-key"
    assert key_file() == file
    assert file.stat().st_mode & 0o777 == 0o600
    assert len(file.read_bytes()) == 32
    assert [path.name for path in file.parent.iterdir()] == ["signing-key"]
    before = file.read_bytes()
    signing._key.cache_clear()
    signed("manifest", FACTS)
    assert file.read_bytes() == before


def test_two_that_make_it_at_the_same_time_have_the_same(home):
    file = key_file()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: signing._make(file), range(8)))
        keys = set(pool.map(lambda _: signing._read(file), range(8)))
    assert len(keys) == 1
    assert [path.name for path in file.parent.iterdir()] == ["signing-key"]


def test_without_links_the_key_is_made_all_the_same(home, monkeypatch):
    def no_links(*_):
        raise PermissionError(1, "no links here")

    monkeypatch.setattr(signing.os, "link", no_links)
    assert is_signed("manifest", signed("manifest", FACTS))


@pytest.mark.parametrize("spoil", ["open", "short", "folder", "home"])
def test_without_a_key_nothing_is_signed_and_the_reason_is_told(spoil, home, monkeypatch):
    file = key_file()
    if spoil == "home":
        monkeypatch.delenv("XDG_CONFIG_HOME")
        monkeypatch.setattr(signing.Path, "home", _homeless)
    elif spoil == "folder":
        (home / "config").write_text("a file")
    else:
        file.parent.mkdir(parents=True)
        file.write_bytes(b"x" * (32 if spoil == "open" else 5))
        file.chmod(0o644 if spoil == "open" else 0o600)
    assert signed("manifest", FACTS) == FACTS
    assert signed_text("config.yaml", "a: 1\n") == "a: 1\n"
    assert not is_signed("manifest", {**FACTS, "signature": "0" * 64})
    told = {"open": "chmod 600", "short": "remove it", "folder": "cannot be made or read", "home": "no folder"}
    assert told[spoil] in why_unsigned()


def _homeless():
    raise RuntimeError("Could not determine home directory.")
