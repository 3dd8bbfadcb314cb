"""Nix code that takes in what no lock pins, and code that only looks as if it did."""

from __future__ import annotations

import pytest
from apertus_image.audit.nixcode import unpinned

UNPINNED = {
    'builtins.fetchTarball "https://h/x"': "fetchTarball",
    'fetchGit { url = "https://h/x"; ref = "main"; }': "fetchGit",
    "lib.fetchurl { inherit url; }": "fetchurl",
    "fetchTree { type = \"git\"; }": "fetchTree",
    'pkgs.fetchFromGitHub { owner = "a"; }': "fetchFromGitHub",
    'builtins.getFlake "nixpkgs"': "getFlake",
    "import <nixpkgs> { }": "<nixpkgs>",
    "import <nixpkgs/lib>": "<nixpkgs/lib>",
    'builtins.getEnv "HOME"': "getEnv",
    "builtins.currentSystem": "currentSystem",
    "builtins.currentTime": "currentTime",
    "import /home/user/x.nix": "/home/user/x.nix",
    "import ~/x/y.nix": "~/x/y.nix",
    "{ __noChroot = true; }": "__noChroot",
    '"text ${builtins.getEnv "X"} text"': "getEnv",
    "''\n  ${toString <nixpkgs>}\n''": "<nixpkgs>",
    '{ a = { sha256 = "x"; }; b = fetchurl { url = "u"; }; }': "fetchurl",
}
PINNED = [
    'fetchurl { url = "https://h/x"; sha256 = "0"; }',
    'fetchTarball { url = "u"; sha256 = lib.concatStrings [ "a" ]; }',
    "# builtins.fetchTarball would do",
    "/* import <nixpkgs> */ 1",
    '"builtins.getEnv is a text"',
    "''\n  fetchurl https://h/x; cat /etc/passwd; echo ''${HOME} '''\n''",
    '"/usr/share/x"', "./a/b.nix", "../toolchain/fetch-deb.sh", "lib.fetchers.proxyImpureEnvVars",
    "a < b", "x: x / y", '"a \\" fetchurl \\" b"', '"$${builtins.getEnv}"',
]


@pytest.mark.parametrize("text", UNPINNED)
def test_what_is_not_pinned_is_named_with_its_line(text):
    found = list(unpinned(f"\n\n{text}\n"))
    assert [what for _, what, _ in found] == [UNPINNED[text]]
    assert found[0][0] == 2 + text[: text.index(UNPINNED[text])].count("\n") + 1


@pytest.mark.parametrize("text", PINNED)
def test_what_is_pinned_or_no_code_passes(text):
    assert list(unpinned(text)) == []
