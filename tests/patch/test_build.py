"""The overlay: patched source and bytecode together, and a RECORD that is true."""

from __future__ import annotations

import base64
import csv
import hashlib
import importlib.util
import json
import marshal
import os
import py_compile
import shutil
import subprocess
import sys

import pytest
from apertus_image.errors import UserError
from apertus_image.patch.build import build
from apertus_image.tree import manifest
from support import patches as data

ONCE = data.SOURCE.replace("VALUE = 1", "VALUE = 2")
TWICE = ONCE.replace("return VALUE", "return VALUE + 1")


def spec(tmp_path, *patches):
    return {
        "prefix": "/opt/apertus", "python": data.PYTHON, "patches": list(patches),
        "wheel": {"name": "pkg", "version": "1.0", "path": str(data.wheel(tmp_path)),
                  "file": "pkg-1.0-py3-none-any.whl"},
        "installed": str(data.installed(tmp_path / "installed")),
    }


def value_of(site):
    code = "import pkg.m; print(pkg.m.VALUE)"
    result = subprocess.run([sys.executable, "-B", "-c", code], capture_output=True, text=True,
                            check=True, env=os.environ | {"PYTHONPATH": str(site)})
    return result.stdout.strip()


def test_only_what_changed_is_there(tmp_path):
    build(spec(tmp_path, data.patch(tmp_path, "one", data.SOURCE, ONCE)), tmp_path / "out",
          tmp_path / "manifest")
    tag = sys.implementation.cache_tag
    files = {e.path: e.origin for e in manifest.read(tmp_path / "manifest") if e.type == "file"}
    site = f"/{data.SITE}"
    assert files == {f"{site}/pkg/m.py": "patch:one",
                     f"{site}/pkg/__pycache__/m.{tag}.pyc": "patch:one",
                     f"{site}/pkg-1.0.dist-info/RECORD": "patch:one"}


def test_record_is_true_again(tmp_path):
    out = tmp_path / "out"
    build(spec(tmp_path, data.patch(tmp_path, "one", data.SOURCE, ONCE)), out, tmp_path / "m")
    site = out / data.SITE
    rows = list(csv.reader((site / "pkg-1.0.dist-info/RECORD").read_text().splitlines()))
    assert [r[0] for r in rows][:2] == ["pkg/__init__.py", "pkg/m.py"]
    checked = 0
    for path, value, size in rows:
        if value and (site / path).exists():
            text = (site / path).read_bytes()
            digest = base64.urlsafe_b64encode(hashlib.sha256(text).digest()).rstrip(b"=").decode()
            assert (value, size) == (f"sha256={digest}", str(len(text)))
            checked += 1
    assert checked == 1
    assert next(r for r in rows if r[0].endswith(".pyc"))[1:] == ["", ""]


def compiled_by_hash(source):
    py_compile.compile(str(source), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)


def compiled_by_time(source):
    py_compile.compile(str(source), invalidation_mode=py_compile.PycInvalidationMode.TIMESTAMP)


@pytest.mark.parametrize("stale", [compiled_by_hash, compiled_by_time])
def test_new_behaviour_is_seen_after_import(tmp_path, stale):  # trap 14
    merged = tmp_path / "merged"
    out = tmp_path / "out"
    build(spec(tmp_path, data.patch(tmp_path, "one", data.SOURCE, ONCE)), out, tmp_path / "m")
    assert len(ONCE) == len(data.SOURCE)
    shutil.copytree(tmp_path / "installed", merged)
    source = merged / data.SITE / "pkg/m.py"
    os.utime(source, (1, 1))  # as in a layer
    stale(source)
    assert value_of(merged / data.SITE) == "1"
    # The control: the source alone replaced, and the old code goes on running.
    shutil.copyfile(out / data.SITE / "pkg/m.py", source)
    os.utime(source, (1, 1))
    assert value_of(merged / data.SITE) == "1"
    shutil.copytree(out, merged, dirs_exist_ok=True)
    for file in merged.rglob("*"):
        os.utime(file, (1, 1))
    assert value_of(merged / data.SITE) == "2"


def test_bytecode_is_unchecked_and_of_its_source(tmp_path):  # trap 14
    out = tmp_path / "out"
    build(spec(tmp_path, data.patch(tmp_path, "one", data.SOURCE, ONCE)), out, tmp_path / "m")
    (file,) = (out / data.SITE).rglob("*.pyc")
    head = file.read_bytes()[:16]
    assert head[:8] == importlib.util.MAGIC_NUMBER + (1).to_bytes(4, "little")
    assert head[8:] == importlib.util.source_hash(ONCE.encode())
    code = marshal.loads(file.read_bytes()[16:])
    assert code.co_filename == f"/{data.SITE}/pkg/m.py"


def test_patches_of_one_file_build_on_each_other_in_order(tmp_path):
    one = data.patch(tmp_path, "one", data.SOURCE, ONCE)
    two = data.patch(tmp_path, "two", ONCE, TWICE, data.SECOND)
    build(spec(tmp_path, one, two), tmp_path / "out", tmp_path / "m")
    assert (tmp_path / "out" / data.SITE / "pkg/m.py").read_text() == TWICE
    with pytest.raises(UserError, match="for another file"):
        shutil.rmtree(tmp_path / "installed")
        build(spec(tmp_path, two, one), tmp_path / "out2", tmp_path / "m")


@pytest.mark.parametrize(
    ("before", "after", "what"),
    [(data.SOURCE + "#", ONCE, "for another file"),
     (data.SOURCE, TWICE, "another file than recorded"),
     (ONCE, data.SOURCE, "in the file already")],
)
def test_a_wrong_hash_stops_the_build(tmp_path, before, after, what):
    with pytest.raises(UserError) as error:
        build(spec(tmp_path, data.patch(tmp_path, "one", before, after)), tmp_path / "out",
              tmp_path / "m")
    assert what in error.value.what and "pkg/m.py" in str(error.value)


def test_what_is_told_of_a_wrong_hash(tmp_path):
    given = spec(tmp_path, data.patch(tmp_path, "one", data.SOURCE, TWICE))
    with pytest.raises(UserError) as error:
        build(given, tmp_path / "out", tmp_path / "m")
    told = error.value
    assert (told.where, told.next_step) == ("one, pkg/m.py", "tools/lock patches")
    assert (told.expected, told.got) == (f"sha256 {data.sha256(TWICE)}",
                                         f"sha256 {data.sha256(ONCE)}")


def test_as_a_command_a_fault_is_one_error(tmp_path):
    given = spec(tmp_path, data.patch(tmp_path, "one", data.SOURCE + "#", ONCE))
    (tmp_path / "spec.json").write_text(json.dumps(given))
    command = [sys.executable, "-m", "apertus_image.patch.build", tmp_path / "spec.json",
               tmp_path / "out", tmp_path / "m"]
    result = subprocess.run(command, capture_output=True, text=True,
                            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)})
    assert result.returncode == 1
    assert result.stderr.startswith("error: a patch is for another file\n")
    assert "Traceback" not in result.stderr and not (tmp_path / "out").exists()


def test_a_patch_for_another_version(tmp_path):
    given = spec(tmp_path, data.patch(tmp_path, "one", data.SOURCE, ONCE))
    given["wheel"]["version"] = "1.1"
    with pytest.raises(UserError, match="for another wheel"):
        build(given, tmp_path / "out", tmp_path / "m")


def test_a_patch_of_another_name(tmp_path):
    given = spec(tmp_path, data.patch(tmp_path, "one", data.SOURCE, ONCE, name="two"))
    given["patches"][0]["name"] = "one"
    with pytest.raises(UserError, match="another name"):
        build(given, tmp_path / "out", tmp_path / "m")


def test_a_file_that_the_wheel_does_not_have(tmp_path):
    diff = data.DIFF.replace("m.py", "gone.py")
    files = {"pkg/gone.py": {"before": data.sha256(data.SOURCE), "after": data.sha256(ONCE)}}
    given = spec(tmp_path, data.patch(tmp_path, "one", "", "", diff, files=files))
    with pytest.raises(UserError, match="does not have") as error:
        build(given, tmp_path / "out", tmp_path / "m")
    assert error.value.where == "one, pkg/gone.py"


def test_a_result_that_does_not_compile(tmp_path):
    broken = data.SOURCE.replace("VALUE = 1", "VALUE =")
    diff = data.DIFF.replace("VALUE = 2", "VALUE =")
    with pytest.raises(UserError, match="does not compile"):
        build(spec(tmp_path, data.patch(tmp_path, "one", data.SOURCE, broken, diff)),
              tmp_path / "out", tmp_path / "m")


def test_another_file_installed_than_the_wheels(tmp_path):
    given = spec(tmp_path, data.patch(tmp_path, "one", data.SOURCE, ONCE))
    (tmp_path / "installed" / data.SITE / "pkg/m.py").write_text("# another wheel's\n")
    with pytest.raises(UserError, match="not the wheel's"):
        build(given, tmp_path / "out", tmp_path / "m")


def test_a_wheel_that_is_not_installed(tmp_path):
    given = spec(tmp_path, data.patch(tmp_path, "one", data.SOURCE, ONCE))
    shutil.rmtree(tmp_path / "installed" / data.SITE / "pkg-1.0.dist-info")
    with pytest.raises(UserError, match="not installed"):
        build(given, tmp_path / "out", tmp_path / "m")


def test_bytecode_that_record_does_not_list(tmp_path):
    given = spec(tmp_path, data.patch(tmp_path, "one", data.SOURCE, ONCE))
    record = tmp_path / "installed" / data.SITE / "pkg-1.0.dist-info/RECORD"
    record.write_text("".join(line for line in record.read_text().splitlines(True)
                              if ".pyc" not in line))
    with pytest.raises(UserError, match="not in the wheel's RECORD"):
        build(given, tmp_path / "out", tmp_path / "m")
