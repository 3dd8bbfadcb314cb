"""The overlay: patched source and bytecode together, and a RECORD that is true."""

from __future__ import annotations

import base64
import csv
import hashlib
import os
import py_compile
import shutil
import subprocess
import sys

import pytest
from apertus_image.errors import UserError
from apertus_image.patch.build import build
from apertus_image.patch.lock import relock
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
    assert checked == 2


def test_new_behaviour_is_seen_after_import(tmp_path):  # trap 14
    merged = tmp_path / "merged"
    out = tmp_path / "out"
    build(spec(tmp_path, data.patch(tmp_path, "one", data.SOURCE, ONCE)), out, tmp_path / "m")
    shutil.copytree(tmp_path / "installed", merged)
    source = merged / data.SITE / "pkg/m.py"
    py_compile.compile(str(source), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    assert value_of(merged / data.SITE) == "1"
    # The control: the source alone replaced, and the old code goes on running.
    shutil.copyfile(out / data.SITE / "pkg/m.py", source)
    assert value_of(merged / data.SITE) == "1"
    shutil.copytree(out, merged, dirs_exist_ok=True)
    assert value_of(merged / data.SITE) == "2"


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


def test_a_patch_for_another_version(tmp_path):
    given = spec(tmp_path, data.patch(tmp_path, "one", data.SOURCE, ONCE))
    given["wheel"]["version"] = "1.1"
    with pytest.raises(UserError, match="for another wheel"):
        build(given, tmp_path / "out", tmp_path / "m")


def test_relock_recomputes_and_tells(tmp_path):
    data.patch(tmp_path, "one", data.SOURCE, "wrong")
    data.patch(tmp_path, "two", "wrong", TWICE, data.SECOND)
    folders = [tmp_path / "one", tmp_path / "two"]
    wheel = data.wheel(tmp_path)
    before = (tmp_path / "one/patch.json").read_text()
    told = relock(folders, lambda name, version: wheel, write=False)
    assert (tmp_path / "one/patch.json").read_text() == before
    assert [(c.patch, c.which) for c in told] == [("one", "after"), ("two", "before")]
    assert relock(folders, lambda name, version: wheel) == told
    assert relock(folders, lambda name, version: wheel) == []
