"""Store paths known beforehand, and a store at any root."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from apertus_image.errors import UserError
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


@pytest.mark.skipif(os.geteuid() != 0, reason="not run: only root can become another user")
@needs_nix
@pytest.mark.nix
def test_a_user_without_nix_is_told_of_a_store_of_their_own(tmp_path):  # trap 11
    if Path("/nix/var/nix/daemon-socket/socket").exists():
        pytest.skip("not run: a daemon serves every user here")
    reader, writer = os.pipe()
    child = os.fork()  # so that nothing of this clone need be readable to that user
    if child == 0:
        said = "no error"
        try:
            os.chdir("/")
            os.environ["HOME"] = "/nonexistent"
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            Store().valid([f"/nix/store/{32 * '0'}-x"])
        except UserError as error:
            said = str(error.next_step)
        finally:
            os.write(writer, said.encode())
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    assert "--store DIR" in said


@needs_nix
@pytest.mark.nix
def test_a_nix_cache_is_asked_only_if_the_user_names_one(tmp_path, monkeypatch):
    file, store = tmp_path / "input", Store(tmp_path / "root")
    file.write_text("x")
    other = Store(tmp_path / "other")
    path = other.add_file(file)
    cache = f"file://{tmp_path}/cache"
    subprocess.run(["nix", *other.nix_args(), "copy", "--to", cache, path], check=True,
                   capture_output=True)
    monkeypatch.delenv("APERTUS_SUBSTITUTERS", raising=False)
    assert not store.substitute(path)
    monkeypatch.setenv("APERTUS_SUBSTITUTERS", cache)
    assert store.substitute(path) and store.physical(path).read_text() == "x"
    assert not store.substitute(fixed_output_path("missing", "00" * 32))
