"""The lint as a derivation runs it: one report, or every fault told."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import apertus_image
import pytest
from apertus_image.errors import UserError
from apertus_image.lint.build import build, lint
from support import elf, roots
from support.elf import needs_gcc
from support.wheels import SITE

pytestmark = needs_gcc
STORE = "/nix/" + "store/0123-x"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return roots.good(tmp_path_factory.mktemp("lint") / "root")


@pytest.fixture
def root(made, tmp_path):
    return shutil.copytree(made, tmp_path / "root", symlinks=True)


def spec(tmp_path, root, **options):
    return roots.spec(root, roots.cached(tmp_path, root), **options)


def test_a_good_root_gives_a_report_of_what_was_checked(tmp_path, root):
    build(spec(tmp_path, root), tmp_path / "out")
    report = json.loads((tmp_path / "out").read_text())
    assert set(report["checked"]) == {"layout", "machine", "needs", "versions", "store",
                                      "bytecode", "tags"}
    assert all(report["checked"].values())
    assert report["findings"] == [] and report["waived"] == 0


def spoil(root):
    """One fault for each check."""
    site = SITE[1:]
    roots.text(root, "usr/bin/script", f"#!{STORE}/bin/sh\n")  # store
    roots.text(root, f"{site}/pkg/m.py", "value = 2\n")  # bytecode
    roots.wheel_tag(root, "cp313-cp313-manylinux_2_99_x86_64", name="new")  # tags
    (root / site / "foreign.so").write_bytes(elf.header(183))  # machine
    gone = elf.library(root / "gone.so", soname="libgone.so.1")
    elf.library(root / site / "x.so", needs=(gone,))  # needs
    gone.unlink()
    newer = roots.libc(root / "newer/libc.so.6", "2.2.5", "2.99")
    elf.compile_c(root / site / "y.so", roots.START.format(f="f_2_99"), "-shared", "-fPIC",
                  "-nostdlib", newer)  # versions
    shutil.rmtree(root / "newer")
    (root / "etc/passwd").unlink()  # layout


def test_all_faults_of_all_checks_are_told_together(tmp_path, root):
    spoil(root)
    with pytest.raises(UserError) as error:
        build(spec(tmp_path, root), tmp_path / "out")
    assert not (tmp_path / "out").exists()
    lines = str(error.value).splitlines()
    assert "7 faults" in lines[0] and "lint-waivers.json" in lines[-1]
    assert [line.split(":")[0].strip() for line in lines[1:8]] == [
        "bytecode", "layout", "machine", "needs", "store", "tags", "versions"]


@pytest.mark.parametrize("cores", ["1", "4"])
def test_the_report_does_not_depend_on_workers(tmp_path, root, monkeypatch, cores):
    spoil(root)
    given = spec(tmp_path, root)
    monkeypatch.setenv("NIX_BUILD_CORES", cores)
    found = lint(given)
    monkeypatch.setenv("NIX_BUILD_CORES", "2")
    assert found == lint(given)


def test_waivers_are_for_their_machine(tmp_path, root):
    roots.text(root, "usr/bin/script", f"#!{STORE}/bin/sh\n")
    waiver = {"check": "store", "path": "/usr/bin/script", "subject": "*", "reason": "a test's"}
    for machine, count in (("", 0), ("x86_64", 0), ("aarch64", 1)):
        report = lint(spec(tmp_path, root, waivers=[{**waiver, "machine": machine}]))
        # A waiver of another machine neither helps nor is told as needless.
        assert len(report["findings"]) == count
        assert report["waived"] == 1 - count


def test_an_overlay_is_looked_at_as_the_image_has_it(tmp_path, root):  # trap 14
    overlay = tmp_path / "overlay"
    path = f"{SITE[1:]}/pkg/m.py"
    roots.text(overlay, path, "value = 2\n")
    report = lint(roots.spec(root, roots.cached(tmp_path, root), overlay))
    assert [f.subject for f in report["findings"]] == ["stale"]
    roots.module(overlay, path, "value = 2\n")
    assert lint(roots.spec(root, roots.cached(tmp_path, root), overlay))["findings"] == []


def test_an_image_without_bytecode_is_not_passed_in_silence(tmp_path, root):
    shutil.rmtree(root / SITE[1:] / "pkg")
    [found] = lint(spec(tmp_path, root))["findings"]
    assert found.check == "bytecode" and "looked at nothing" in found.why


def test_as_a_builder(tmp_path, root):
    (tmp_path / "spec.json").write_text(json.dumps(spec(tmp_path, root)))
    command = [sys.executable, "-m", "apertus_image.lint.build", tmp_path / "spec.json",
               tmp_path / "out"]
    surroundings = os.environ | {"PYTHONPATH": str(Path(apertus_image.__path__[0]).parent)}
    subprocess.run(command, check=True, env=surroundings)
    (tmp_path / "out").unlink()
    (root / "etc/passwd").unlink()
    result = subprocess.run(command, capture_output=True, text=True, env=surroundings)
    assert result.returncode == 1 and not (tmp_path / "out").exists()
    assert result.stderr.startswith("error: the image's file system has 1 faults")
    assert "/etc/passwd" in result.stderr and "Traceback" not in result.stderr
