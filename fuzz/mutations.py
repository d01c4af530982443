# SPDX-License-Identifier: Apache-2.0
"""Damage done to files: bytes and words that are changed, cut, repeated or put in."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import strategies as st


@dataclass(frozen=True)
class Edit:
    """One change: what is done, where (a share of the length), how much, and with what."""

    kind: str
    where: float
    length: int
    bytes: bytes


PATCHES = (
    b"\x00", b"\xff", b"\x80\xfe", b"\xff" * 8, b"\x00" * 64, b"\xff\xff\xff\x7f", b"\x00\x00\x00\x00\x00\x00\x00\x80",
)  # fmt: skip
places = st.floats(0, 1, exclude_max=True, allow_subnormal=False)
edits = st.lists(
    st.builds(
        Edit,
        kind=st.sampled_from(["flip", "flip", "flip", "cut", "repeat", "insert", "replace", "end"]),
        where=places,
        length=st.sampled_from([1, 2, 7, 64, 1000]),
        bytes=st.sampled_from(PATCHES) | st.binary(min_size=1, max_size=9),
    ),
    min_size=1,
    max_size=4,
)


def damaged(content: bytes, changes: Sequence[Edit]) -> bytes:
    """The content after the changes, in order."""
    for edit in changes:
        at = int(edit.where * len(content))
        before, piece, after = content[:at], content[at : at + edit.length], content[at + edit.length :]
        if edit.kind == "flip":
            flipped = bytes([content[at] ^ (1 << edit.length % 8)]) if at < len(content) else b""
            content = before + flipped + content[at + 1 :]
        else:
            middle = {"cut": b"", "repeat": piece * 2, "insert": edit.bytes + piece, "replace": edit.bytes, "end": b""}
            content = before + middle[edit.kind] + (b"" if edit.kind == "end" else after)
    return content


def damaged_inside(content: bytes, member: int, changes: Sequence[Edit]) -> bytes:
    """The archive with one file in it damaged, and its checksum right again."""
    result = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as source, zipfile.ZipFile(result, "w") as target:
        names = source.namelist()
        for name in names:
            data = source.read(name)
            target.writestr(name, damaged(data, changes) if name == names[member % len(names)] else data)
    return result.getvalue()


@dataclass(frozen=True)
class Word:
    """One word of a text that is replaced: which (a share of all words), and by what."""

    where: float
    text: str


DEEP = 20_000
BOMB = "[&a0 [x], " + ", ".join(f"&a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 12)) + "]"
"""A few lines of YAML that mean more than fits into a memory."""
WORDS = (
    "1e999", "-1e999", "-1", "0", "1e-400", "nan", ".nan", ".inf", "inf", "0x1F", "1_000", "2147483648", "9" * 5000,
    "true", "null", "None", "~", "''", '"text"', "[1, 2]", "(1, 2)", "{a: 1}", "[]", "[[1], [2, 3]]", "2001-01-01",
    "&a", "*a", "&a [*a]", BOMB, "<<: *a", "!!python/object/apply:os.system [true]", "!!binary aGk=", "!!set {a}",
    "[" * DEEP + "]" * DEEP, "(" * DEEP, "{" * DEEP, "a: " * DEEP, "- " * DEEP, "x" * 100_000, "\u2028", "\ufeff", "é€",
    "\x7f", "\t", "---", "...", "%YAML 9.9", "# ", "@./other.usda@", "@nothing.usda@", "</Robot>", "</Robot/joints>",
    "string", "double", "double[]", "int", "token", "asset", "asset[]", "rel", "bool", "half3", "timecode", "custom",
    "uniform", "over", "class", "def", "prepend", "delete", "references", "variants", "inherits = </Robot>", "(.*)*$",
    "network.pt", "../../etc/passwd", "/dev/zero",
)  # fmt: skip
words = st.lists(st.builds(Word, places, st.sampled_from(WORDS) | st.text(max_size=8)), min_size=1, max_size=4)


def reworded(text: str, changes: Sequence[Word]) -> str:
    """The text after the changes, in order."""
    for word in changes:
        found = list(re.finditer(r"[\w.:+-]+|\S", text))
        if found:
            match = found[int(word.where * len(found))]
            text = text[: match.start()] + word.text + text[match.end() :]
    return text
