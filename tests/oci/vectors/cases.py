"""What the recorded vectors are of: trees, rules, histories and configs worth remembering."""

from __future__ import annotations

import random
from pathlib import Path

from support import trees

# Store paths of the vectors, in names and rules; only the recording needs to write there.
STORE = Path("/tmp/apertus-vectors")
ONE, TWO, DEP = (f"{STORE}/{name}" for name in ("1-one", "2-two", "3-dep"))

EDGES = {f"{n:03}/" + "d" * n + "/" + "f" * m: "x" for n in (40, 150, 151) for m in (93, 100, 101)}
SLASHES = {f"links/{n}-{m}": "-> " + "t" * n + "/" * m + "z" * 20
           for n in (97, 98, 99, 100) for m in (1, 2, 3)}

# name -> {trees, at the root?, perms, history}
LAYERS = {
    "the vector of the notes": {"trees": {ONE: trees.VECTOR}},
    "odd names, modes and links": {"trees": {ONE: trees.ODD}},
    "lengths around the fields' sizes": {"trees": {ONE: {**EDGES, **SLASHES}}},
    "names that are no UTF-8": {"trees": {ONE: {"\udcff/\udcfe\udcfd": "x", "a\udc80" * 90: "y"}}},
    "by chance": {"trees": {ONE: trees.chance(2026, 80)}},
    "two sources that share folders": {"trees": {
        ONE: {"etc/a": "a", "share/x/y": "1", "same": "s"},
        TWO: {"etc/b": "b", "share/x/z": "2", "same": "s"}}},
    "a path that stays in the store": {"trees": {ONE: {"f": "x"}, DEP: {"g": "y", "h/": ""}},
                                       "root": [ONE]},
    "rules": {"trees": {ONE: {"tmp/": "", "a": "", "b": "", "c": ("", True), "l": "-> a"}},
              "perms": [
                  {"path": ONE, "regex": f"^{ONE}/tmp$", "mode": "1777"},
                  {"path": ONE, "regex": "/a$", "mode": "0640", "uid": 2**31, "gid": 7},
                  {"path": ONE, "regex": "/[bl]$", "uname": "u" * 33, "gname": "é"},
                  {"path": ONE, "regex": "/c$", "mode": "4755", "uname": "someone"}]},
    "a history with all fields": {"trees": {ONE: {"x": ""}}, "history": {
        "comment": "c\ttab", "author": "é <a@b> & \u2028", "created_by": "\"quoted\" \\ \x7f",
        "created": "2026-07-15T00:00:00Z", "empty_layer": True}},
    "nothing": {"trees": {ONE: {}}},
}

# name -> {config, arch, created, layers: names of layer vectors}
IMAGES = {
    "all fields": {
        "config": {
            "Labels": {"z": "<&>", "a": "é\n\b\f\x01\x7f", "b": "\u2028\u2029", "Z": "日本"},
            "Env": ["PATH=/bin", "X=a&b", "E=\"'\\"], "Cmd": ["/bin/sh"], "WorkingDir": "/",
            "Volumes": {"/v": {}, "/a b": {}}, "User": "1:2", "ExposedPorts": {"80/tcp": {}},
            "StopSignal": "SIGTERM", "Entrypoint": ["/e", "<x>"], "ArgsEscaped": True},
        "arch": "arm64", "created": "2026-07-15T00:00:00Z",
        "layers": ["odd names, modes and links", "rules", "a history with all fields", "rules"]},
    "empty fields": {
        "config": {"Labels": {}, "Env": [], "Cmd": [], "WorkingDir": "", "Volumes": {},
                   "User": None, "Entrypoint": None, "ArgsEscaped": False},
        "arch": "amd64", "created": "0001-01-01T00:00:00Z", "layers": ["nothing"]},
    "no layer": {"config": {}, "arch": "amd64", "created": "0001-01-01T00:00:00Z", "layers": []},
    "two hundred labels": {
        "config": {"Labels": {
            f"{random.Random(n).getrandbits(32):08x}.é{n}": chr(n + 1) * 3 for n in range(200)}},
        "arch": "arm64", "created": "9999-12-31T23:59:59Z",
        "layers": ["the vector of the notes"]},
}


def graph(case: dict) -> list[dict]:
    """The closure graph of a layer's case."""
    return [{"path": path, "references": []} for path in sorted(case["trees"])]


def rewrites(case: dict) -> list[dict]:
    """The rewrites that copyToRoot makes."""
    return [{"path": path, "regex": f"^{path}", "repl": ""}
            for path in case.get("root", case["trees"])]
