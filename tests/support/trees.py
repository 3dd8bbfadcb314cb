"""Trees for tests: described as data, made on disk."""

from __future__ import annotations

import random
from pathlib import Path

# A name ending in `/` is a folder, one with `->` a link; else it is a file with its text.
Description = dict[str, str | bytes | tuple[str, bool]]

# The vector of the notes on nix2container, section 3.
VECTOR: Description = {
    "etc/x": ("hi\n", True),
    "etc/l": "-> x",
    "opt/é": "é",
    "opt/" + "a" * 60 + "/" + "b" * 60 + "/f": "q\n",
    "opt/" + "n" * 101: "z\n",
    "opt/" + "m" * 200: "z\n",
    "opt/" + "/".join(f"d{n:02}" + "x" * 40 for n in range(7)) + "/file": "deep\n",
    "opt/longlink": "-> " + "t" * 120,
}

ODD: Description = {
    **VECTOR,
    "empty/": "",
    "zero": "",
    "a b/c\td/'\"\\$": "odd\n",
    "new\nline": "n",
    "A/b": "1", "A.b": "2", "A-b": "3", "a/B": "4",  # orders that differ by `/` and case
    "exactly/" + "e" * 91: "100 with the slashes\n",
    "p" * 99: "f", "q" * 100: "f",
    "split/" + "s" * 149 + "/" + "f" * 99: "prefix of 155\n",
    "split/" + "s" * 150 + "/" + "f" * 99: "prefix of 156\n",
    "split/" + "u" * 60 + "/" + "f" * 100: "name of 100\n",
    "both/" + "w" * 60 + "/" + "v" * 60 + "/link": "-> " + "t" * 101,
    "links/100": "-> " + "t" * 100,
    "links/101": "-> " + "t" * 101,
    "links/é": "-> ü/../x",
    "links/untidy": "-> ./a//b/../c/",
    "links/absolute": "-> /nowhere",
    "links/slash at 100": "-> " + "t" * 99 + "/" + "z" * 20,
    "ünicode/" + "é" * 60 + "/ß": "long and not ASCII",
    "日本/語": "three bytes each",
    "bin/run": ("#!/bin/sh\n", True),
    "block": b"\0" * 512, "block-1": b"x" * 511, "block+1": b"y" * 513,
}


def make(root: Path, description: Description, *, backwards: bool = False) -> Path:
    """Make the described tree in `root`, with the modes the Nix store would give."""
    root.mkdir(parents=True, exist_ok=True)
    names = sorted(description, reverse=backwards)
    for name in names:
        content = description[name]
        path = root / name
        if name.endswith("/"):
            path.mkdir(parents=True, exist_ok=True)
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, str) and content.startswith("-> "):
            path.symlink_to(content[3:])
            continue
        text, executable = content if isinstance(content, tuple) else (content, False)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        path.chmod(0o555 if executable else 0o444)
    for folder in sorted((p for p in root.rglob("*") if p.is_dir() and not p.is_symlink()),
                         key=lambda p: -len(p.parts)):
        folder.chmod(0o555)
    root.chmod(0o555)
    return root


def chance(seed: int, entries: int = 60) -> Description:
    """A tree by chance, the same for one seed: deep, long and foreign names, links."""
    source = random.Random(seed)
    alphabet = "abcXYZ0189._-+ é日"

    def name() -> str:
        length = source.choice([1, 3, 8, 30, 70])
        text = "".join(source.choice(alphabet) for _ in range(length)).strip(" .") or "n"
        return text.encode()[:200].decode(errors="ignore")

    found: Description = {}
    for number in range(entries):
        path = "/".join(name() for _ in range(source.randint(1, 5))) + f"/{number}"
        if source.random() < 0.2:
            found[path] = "-> " + "/".join(name() for _ in range(source.randint(1, 4)))
        else:
            text = source.randbytes(source.choice([0, 1, 511, 512, 513, 5000]))
            found[path] = (text, source.random() < 0.3)
    return found
