"""What a self-contained folder is made of, refused before it could fail elsewhere."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from apertus_image.bundle import packages, plan, programs
from apertus_image.bundle.libraries import settle
from apertus_image.errors import UserError
from apertus_image.fetch.download import Pin
from apertus_image.fetch.plan import Input
from apertus_image.pins import lockfile
from apertus_image.resolve.tools import locked
from apertus_image.tree.machine import MACHINES
from support import debs, elf, images, wheels

PINS = images.PROJECT / "nix/pins"


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
def test_every_wheel_of_the_folder_is_in_the_hash_lock(machine):
    known = locked((images.PROJECT / "requirements.lock").read_text())
    chosen = [each for each in plan.inputs(PINS, machine) if each.kind == "wheel"]
    assert len(chosen) > 15
    for each in chosen:
        version, hashes = known[each.name]
        assert each.version == version and each.pin.sha256 in hashes


def test_a_changed_hash_lock_makes_the_choice_stale(tmp_path):
    pins = tmp_path / "nix/pins"
    pins.mkdir(parents=True)
    shutil.copy(PINS / "tools.json", pins)
    text = (images.PROJECT / "requirements.lock").read_text()
    (tmp_path / "requirements.lock").write_text(text)
    assert lockfile.load(pins / "tools.json")["kind"] == "tools"
    (tmp_path / "requirements.lock").write_text(text.replace("click==", "click==9"))
    with pytest.raises(UserError, match="tools/lock tools"):
        lockfile.load(pins / "tools.json")


def test_locks_that_differ_on_a_package_are_refused(tmp_path):
    (tmp_path / "nix").mkdir()
    shutil.copytree(PINS, tmp_path / "nix/pins")
    shutil.copy(images.PROJECT / "requirements.lock", tmp_path)
    file = tmp_path / "nix/pins/bundle.json"
    lock = json.loads(file.read_text())
    pin = next(each for each in lock["amd64"] if each["name"] == "libc6")
    pin["sha256"] = "0" * 64
    file.write_text(json.dumps(lock))
    with pytest.raises(UserError, match=r"(?s)pin one package differently.*libc6"):
        plan.inputs(tmp_path / "nix/pins", MACHINES["x86_64"])


@elf.needs_gcc
def test_libraries_that_nobody_loads_go_and_missing_ones_are_told(tmp_path):
    lib = tmp_path / "lib"
    used = elf.library(lib / "libused.so.1", soname="libused.so.1")
    deep = elf.library(lib / "libdeep.so.1", soname="libdeep.so.1", needs=(used,))
    elf.library(lib / "libidle.so.1", soname="libidle.so.1")
    (lib / "ld.so").write_bytes(b"")
    user = elf.library(tmp_path / "user.so", needs=(deep,))
    settle(lib, [user], "ld.so")
    assert sorted(each.name for each in lib.iterdir()) == ["ld.so", "libdeep.so.1", "libused.so.1"]
    used.unlink()
    with pytest.raises(UserError, match=r"(?s)lacks a library.*libdeep.*libused"):
        settle(lib, [user], "ld.so")


def test_a_program_that_no_package_brings_is_an_error(tmp_path):
    machine = MACHINES["x86_64"]
    lib = f"usr/lib/{machine.triplet}"
    deb = debs.make(tmp_path, "libc6", [debs.file(f"{lib}/ld-linux-x86-64.so.2", "x"),
                                        debs.file("usr/lib/python3.13/os.py", "")])["path"]
    with pytest.raises(UserError, match=r"(?s)no package has a program.*python3.13"):
        programs.install([("libc6", Path(deb))], machine, tmp_path / "folder")


def test_a_wrapper_finds_its_folder_by_path_link_and_PATH(tmp_path):
    place = tmp_path / "a folder/programs"
    place.mkdir(parents=True)
    loader = tmp_path / "a folder/lib/t/ld.so"
    loader.parent.mkdir(parents=True)
    loader.write_text('#!/bin/sh\nfor word in "$@"; do echo "$word"; done\n')
    loader.chmod(0o755)
    wrapper = place / "nix"
    wrapper.write_text(programs.WRAPPER.format(name="nix", up="..", loader="t/ld.so", triplet="t",
                                               settings=""))
    wrapper.chmod(0o755)
    (place / "nix-store").symlink_to("nix")
    top = str(tmp_path / "a folder")

    def words(command: str, **options):
        return subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True,
                              **options).stdout.splitlines()

    assert words(f"'{wrapper}' a 'b c'")[-3:] == [f"{top}/libexec/nix", "a", "b c"]
    assert words("nix-store x", env={"PATH": f"{place}:/usr/bin:/bin"})[-4:] == [
        "--argv0", f"{place}/nix-store", f"{top}/libexec/nix", "x"]
    assert words("./nix", cwd=place)[-1] == f"{top}/libexec/nix"
    assert words("sh nix", cwd=place)[-1] == f"{top}/libexec/nix"
    # Where CDPATH is set, cd says where it went.
    assert words("programs/nix", cwd=top, env={"PATH": "/usr/bin:/bin", "CDPATH": top})[-1] == (
        f"{top}/libexec/nix")


def pinned(file: Path) -> tuple[Input, Path]:
    return (Input("wheel", "x", "1", Pin(file.name, "0" * 64, file.stat().st_size), "", "", ""),
            file)


def test_packages_are_installed_without_scripts(tmp_path):
    wheel = wheels.make(tmp_path, "x", {"x/__init__.py": b""},
                        entry_points="[console_scripts]\nx = x:main\n")
    packages.install([pinned(Path(wheel["path"]))], tmp_path / "f")
    assert (tmp_path / "f" / packages.FOLDER / "x/__init__.py").exists()
    assert [each.name for each in (tmp_path / "f").iterdir()] == ["lib"]


def test_what_is_no_wheel_is_named(tmp_path):
    file = tmp_path / "x-1-py3-none-any.whl"
    file.write_bytes(b"no zip")
    with pytest.raises(UserError, match=r"(?s)cannot be installed.*x-1-py3"):
        packages.install([pinned(file)], tmp_path / "f")
