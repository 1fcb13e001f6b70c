"""Damage to files, drawn from a seed: the same seed gives the same bytes."""

from __future__ import annotations

import io
import random
import re
import zipfile

WORDS = [
    b"null", b"~", b"true", b"[]", b"{}", b"NaN", b"-Infinity", b"1e400", b"-1", b"0", b"9223372036854775807",
    b"-9223372036854775808", b"18446744073709551616", b"1" + b"0" * 400, b"0.1", b'""', b"''", b"[[1, 2], [3]]",
    b"*a", b"&a", b"!!python/object:os.system", b"<<", b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b"[" * 200,
    b"{\"a\":" * 200,
    b"\"\\ud800\"", b": ", b"- ", b"\t", b"\r\n", b"x" * 3000,
]  # fmt: skip
NUMBERS = [0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 0x7FFFFFFFFFFFFFFF, 0xFFFFFFFFFFFFFFFF]
TOKEN = re.compile(rb"-?\d[\w.+-]*|\"[^\"\n]*\"|\w+")


def mutate_bytes(content: bytes, rng: random.Random) -> bytes:
    """Damages some places of a binary file."""
    found = bytearray(content)
    for _ in range(rng.choice((1, 1, 1, 2, 4, 12))):
        place = rng.randrange(max(len(found), 1))
        kind = rng.randrange(9)
        size = rng.choice((1, 2, 4, 8, 64, 1000))
        if kind == 0 and found:
            found[place] ^= 1 << rng.randrange(8)
        elif kind == 1 and found:
            found[place] = rng.randrange(256)
        elif kind == 2:
            width = rng.choice((1, 2, 4, 8))
            number = (rng.choice(NUMBERS) + rng.randrange(-1, 2)) % (1 << 8 * width)
            found[place : place + width] = number.to_bytes(width, rng.choice(("little", "big")))
        elif kind == 3:
            del found[place : place + size]
        elif kind == 4:
            found[place:place] = bytes(rng.randrange(256) for _ in range(size))
        elif kind == 5:
            found[place : place + size] = bytes(min(size, len(found) - place))
        elif kind == 6:
            other = rng.randrange(max(len(found), 1))
            found[place : place + size] = found[other : other + size]
        elif kind == 7:
            found[place:place] = found[place : place + size]
        elif rng.random() < 0.3:
            del found[place:]
    return bytes(found)


def mutate_text(content: bytes, rng: random.Random) -> bytes:
    """Damages words and lines of a text; sometimes its bytes."""
    if rng.random() < 0.2:
        return mutate_bytes(content, rng)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        kind = rng.randrange(6)
        lines = content.split(b"\n")
        line = rng.randrange(len(lines))
        if kind <= 2:
            tokens = list(TOKEN.finditer(content))
            if not tokens:
                continue
            token = rng.choice(tokens)
            new = rng.choice((rng.choice(WORDS), rng.choice(tokens)[0], b""))
            content = content[: token.start()] + new + content[token.end() :]
        elif kind == 3:
            lines.insert(rng.randrange(len(lines) + 1), lines[line])
            content = b"\n".join(lines)
        elif kind == 4:
            del lines[line]
            content = b"\n".join(lines)
        else:
            place = rng.randrange(len(content) + 1)
            content = content[:place] + rng.choice(WORDS) + content[place:]
    return content


def mutate_zip(content: bytes, rng: random.Random) -> bytes:
    """Damages a member of an archive, whose checksums are right again, or the archive."""
    if rng.random() < 0.3:
        return mutate_bytes(content, rng)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = rng.choice(sorted(members))
    if rng.random() < 0.1:
        del members[name]
    else:
        head = members[name][:128]
        damaged = mutate_bytes(head, rng) if rng.random() < 0.5 else mutate_text(head, rng)
        members[name] = damaged + members[name][128:] if rng.random() < 0.7 else mutate_bytes(members[name], rng)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as archive:
        for one, inside in members.items():
            archive.writestr(one, inside)
    return out.getvalue()
