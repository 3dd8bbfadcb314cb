"""Declared inputs against the lock, offline (case 31); Nix is the referee of how a URL is read."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from apertus_image.pins.flake import faults, parsed
from apertus_image.store.store import Store

ROOT = Path(__file__).parents[2]
REV = "20d339590c3c36252514a57b0241c47bcd8a08ce"
OTHER = "f" * 40
HASH = "sha256-vgxwF/GS9lRC9s211RnmJaGKHIUexMiRs7Eslh11E08="
URLS = [
    "github:a/b", "github:a/b/v1.0", f"github:a/b/{REV}", "github:a/b/feature/x",
    "github:a/b?ref=x&dir=d", "github:a/b?host=x.y", "gitlab:a%2Fc/b/m?host=g.h",
    "sourcehut:~u/r", "git+https://h/x.git?ref=main&submodules=1", f"git+ssh://git@h/x?rev={REV}",
    "git+https://h/x?shallow=1&dir=q", "git+file:///a/b", "hg+https://h/x", "https://h/x.tar.gz",
    "https://h/x.tar.gz?y=1", f"https://h/x.tar.gz?narHash={HASH}", "path:/a/b", "/a/b",
    "flake:nixpkgs", "nixpkgs/x", f"nixpkgs/x/{REV}",
]


@pytest.mark.nix
@pytest.mark.skipif(not shutil.which("nix"), reason="not run: Nix is not here")
@pytest.mark.parametrize("url", URLS)
def test_a_url_means_what_nix_says(url, tmp_path):
    registry = tmp_path / "registry.json"
    subprocess.run(["nix", *Store().nix_args(), "registry", "add", "--registry", registry, "x",
                    url], check=True, capture_output=True)
    said = json.loads(registry.read_text())["flakes"][0]["to"]
    assert parsed({"url": url}) == parsed(said)


@pytest.mark.parametrize("declared", [{}, {"url": "what://ever"}, {"url": "github:a"}, {"url": ""}])
def test_what_is_not_known_is_not_guessed(declared):
    assert parsed(declared) is None


def lock(**inputs):
    """A lock of these inputs: name -> (original, locked), or a list it follows."""
    nodes = {"root": {"inputs": {
        name: each if isinstance(each, list) else name for name, each in inputs.items()}}}
    for name, each in inputs.items():
        if not isinstance(each, list):
            nodes[name] = {"flake": False, "original": each[0], "locked": each[1]}
    return {"nodes": nodes, "root": "root", "version": 7}


GITHUB = {"type": "github", "owner": "a", "repo": "b"}
LOCKED = GITHUB | {"rev": REV, "narHash": HASH, "lastModified": 1}
DECLARED = {"n": {"url": "github:a/b", "flake": False}, "s": {"follows": "", "flake": False}}
SOUND = {"n": (GITHUB, LOCKED), "s": []}


def found(tmp_path, declared, locked):
    file = tmp_path / "flake.lock"
    file.write_text(locked if isinstance(locked, str) else json.dumps(locked))
    return [str(each) for each in faults(declared, file)]


def test_a_lock_that_matches_has_no_fault(tmp_path):
    assert found(tmp_path, DECLARED, lock(**SOUND)) == []


def test_this_projects_own_lock_matches():
    lock = json.loads((ROOT / "flake.lock").read_text())
    original = lock["nodes"]["nix2container"]["original"]
    declared = {"nix2container": {"url": f"github:nlewo/nix2container/{original['rev']}",
                                  "flake": False}, "source": {"follows": "", "flake": False}}
    assert list(faults(declared, ROOT / "flake.lock")) == []


@pytest.mark.parametrize(("change", "says"), [
    ({"n": {"url": "github:a/c", "flake": False}}, ["input n", "declared: github:a/c",
                                                    "locked: github:a/b"]),
    ({"n": {"url": f"github:a/b/{OTHER}", "flake": False}}, [OTHER, "locked: github:a/b"]),
    ({"n": {"url": "git+https://h/a/b", "flake": False}}, ["declared: git+https://h/a/b"]),
    ({"n": {"type": "github", "owner": "a", "repo": "c", "flake": False}}, ["github:a/c"]),
    ({"n": {"url": "github:a/b"}}, ["flake = true", "flake = false"]),
    ({"n": {"follows": "s"}}, ['declared: follows "s"', "locked: github:a/b"]),
    ({"s": {"url": "github:me/app", "flake": False}}, ["github:me/app", 'locked: follows ""']),
    ({"s": {"follows": "n"}}, ['declared: follows "n"', 'locked: follows ""']),
    ({"new": {"url": "github:x/y"}}, ["input new", "locked: nothing"]),
    ({"n": {"url": "what://ever", "flake": False}}, ["cannot be compared", "what://ever"]),
])
def test_an_input_that_is_declared_otherwise_is_named(tmp_path, change, says):  # case 31
    fault, = found(tmp_path, DECLARED | change, lock(**SOUND))
    assert all(word in fault for word in says), fault


def test_an_input_that_is_no_more_declared_is_named(tmp_path):
    fault, = found(tmp_path, {"s": DECLARED["s"]}, lock(**SOUND))
    assert "does not declare" in fault and "input n" in fault


@pytest.mark.parametrize(("locked", "says"), [
    ({key: value for key, value in LOCKED.items() if key != "narHash"}, "no narHash"),
    ({key: value for key, value in LOCKED.items() if key != "rev"}, "no rev"),
    (GITHUB, "no narHash and no rev"), ({}, "not pinned"),
    ({"type": "path", "path": "/home/me/x", "narHash": HASH}, "of one machine"),
    ({"type": "git", "url": "file:///home/me/x", "rev": REV, "narHash": HASH}, "of one machine"),
])
def test_an_input_that_is_not_pinned_is_named(tmp_path, locked, says):
    fault, = found(tmp_path, DECLARED, lock(n=(GITHUB, locked), s=[]))
    assert says in fault and "input n" in fault


def test_inputs_of_inputs_are_compared_where_they_are_declared(tmp_path):
    both = lock(n=(GITHUB, LOCKED), m=(GITHUB, LOCKED))
    both["nodes"]["n"]["inputs"] = {"m": ["m"], "other": "m"}
    declared = {name: {"url": "github:a/b", "flake": False} for name in ("n", "m")}
    assert found(tmp_path, declared, both) == []
    declared["n"] = declared["n"] | {"inputs": {"m": {"follows": "m"}}}
    assert found(tmp_path, declared, both) == []
    declared["n"] = declared["n"] | {"inputs": {"m": {"follows": "x"}}}
    fault, = found(tmp_path, declared, both)
    assert "input n/m" in fault


@pytest.mark.parametrize(("text", "says"), [
    ("{", "cannot be read"), ("[]", "cannot be read"), ('{"nodes": {}}', "cannot be read"),
    ('{"nodes": {"root": {}}, "root": "root", "version": 99}', "version"),
])
def test_a_lock_that_cannot_be_read_is_one_fault(tmp_path, text, says):
    fault, = found(tmp_path, DECLARED, text)
    assert says in fault


def test_a_lock_that_is_missing_is_one_fault(tmp_path):
    fault, = faults(DECLARED, tmp_path / "flake.lock")
    assert "has no lock" in str(fault)
