"""Store paths known beforehand, and a store at any root."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest
from apertus_image.fetch.bootstrap import nar_sha256
from apertus_image.store.paths import fixed_output_path
from apertus_image.store.store import Store
from support import trees

needs_nix = pytest.mark.skipif(not shutil.which("nix-store"), reason="not run: Nix is not here")


@needs_nix
@pytest.mark.parametrize("name", ["x", "torch-2.11.0+cu130.whl", "a_b-1.2_amd64.deb"])
@pytest.mark.parametrize("recursive", [False, True])
def test_paths_are_nixs_own(name, recursive):
    digest = "ab" * 32
    flags = ["--recursive"] if recursive else []
    printed = subprocess.run(
        ["nix-store", "--print-fixed-path", *flags, "sha256", digest, name],
        capture_output=True, text=True, check=True).stdout.strip()
    assert fixed_output_path(name, digest, recursive=recursive) == printed


@needs_nix
def test_the_hash_of_a_tree_is_nixs_own(tmp_path):
    tree = trees.make(tmp_path / "t", trees.ODD)
    printed = subprocess.run(["nix-hash", "--type", "sha256", tree], capture_output=True, text=True,
                             check=True).stdout.strip()
    assert nar_sha256(tree) == printed


@needs_nix
@pytest.mark.nix
def test_a_store_below_a_directory(tmp_path):  # trap 11
    store = Store(tmp_path / "root")
    file = tmp_path / "input"
    file.write_text("x")
    path = store.add_file(file)
    assert path.startswith("/nix/store/")
    assert store.physical(path).read_text() == "x"
    assert store.physical(path).is_relative_to(tmp_path)
    missing = fixed_output_path("missing", "00" * 32)
    assert store.valid([path, missing]) == {path}
    assert Store().valid([missing]) == set()


def test_the_sandbox_is_never_given_up():  # trap 6
    settings = Store().settings()
    assert settings["sandbox"] == "true" and settings["sandbox-fallback"] == "false"
    assert settings["sandbox-paths"] == "" and settings["max-jobs"] == "auto"  # trap 8


def test_a_clone_of_another_user_is_trusted_alone(tmp_path, monkeypatch):  # trap 10
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    assert Store().environment(tmp_path) == {}
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    assert Store().environment(tmp_path) == {
        "GIT_CONFIG_COUNT": "2", "GIT_CONFIG_KEY_1": "safe.directory",
        "GIT_CONFIG_VALUE_1": str(tmp_path)}
