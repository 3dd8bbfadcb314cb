"""Compiled libraries of two wheels that find each other by a relative run path (case 39)."""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from apertus_image.wheel.build import build
from support.wheels import SITE, make, spec

gcc = shutil.which("gcc")
pytestmark = pytest.mark.skipif(gcc is None, reason="not run: there is no gcc")


def library(folder: Path, name: str, source: str, *options: str) -> bytes:
    """Compile a shared library."""
    (folder / f"{name}.c").write_text(source)
    out = folder / f"{name}.so"
    subprocess.run([gcc, "-shared", "-fPIC", f"-Wl,-soname,{name}.so", "-o", out,
                    folder / f"{name}.c", *options], check=True)
    return out.read_bytes()


@pytest.fixture
def pins(tmp_path):
    """Two wheels: one library, and another that needs it by `$ORIGIN/../../liba/lib`."""
    work = tmp_path / "work"
    work.mkdir()
    tag = f"py3-none-manylinux_2_17_{platform.machine()}"
    one = library(work, "liba", "int answer(void) { return 34; }\n")
    two = library(work, "libb", "int answer(void); int ask(void) { return answer(); }\n",
                  f"-L{work}", "-l:liba.so", "-Wl,-rpath,$ORIGIN/../../liba/lib",
                  "-Wl,--enable-new-dtags")
    return (make(tmp_path, "liba", {"liba/lib/liba.so": (one, True)}, tag=tag),
            make(tmp_path, "libb", {"libb/lib/libb.so": (two, True)}, tag=tag))


def install(tmp_path, name, *pins):
    out = tmp_path / name
    build({**spec(*pins), "machine": platform.machine()}, out, tmp_path / f"{name}.m")
    return out


def load(root):
    """What the library says when a fresh process loads it."""
    code = "import ctypes, sys; print(ctypes.CDLL(sys.argv[1]).ask())"
    return subprocess.run([sys.executable, "-c", code, root / f"{SITE[1:]}/libb/lib/libb.so"],
                          capture_output=True, text=True)


def test_libraries_of_one_group_find_each_other(tmp_path, pins):  # case 39
    assert load(install(tmp_path, "both", *pins)).stdout == "34\n"


def test_libraries_of_two_layers_find_each_other_once_merged(tmp_path, pins):  # case 39
    merged = install(tmp_path, "second", pins[1])
    before = load(merged)
    assert before.returncode and "liba.so" in before.stderr
    shutil.copytree(install(tmp_path, "first", pins[0]), merged, dirs_exist_ok=True)
    assert load(merged).stdout == "34\n"
    # Real files, not a farm of links, which $ORIGIN would follow elsewhere.
    assert not [path for path in merged.rglob("*") if path.is_symlink()]
