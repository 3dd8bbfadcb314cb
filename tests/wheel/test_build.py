"""A group of wheels as one tree: collisions, RECORD, scripts, bytecode."""

from __future__ import annotations

import base64
import csv
import hashlib
import itertools
import posixpath
import zipfile
from pathlib import Path

import pytest
from apertus_image.errors import UserError
from apertus_image.tree import manifest
from apertus_image.wheel.build import build
from support import wheels
from support.wheels import PREFIX, SITE, content, make, spec, waiver

LIBRARY = "nvidia/lib/libthing.so"


def install(tmp_path, *pins, into="out", count=2, **more):
    out = tmp_path / into
    build(spec(*pins, **more), out, tmp_path / f"{into}.manifest", count)
    return out


def refusal(tmp_path, *pins, **more):
    with pytest.raises(UserError) as error:
        install(tmp_path, *pins, **more)
    assert not (tmp_path / "out.manifest").exists()
    return str(error.value)


def rows(out, info):
    text = (out / f"{SITE[1:]}/{info}/RECORD").read_text()
    return {path: (value, size) for path, value, size in csv.reader(text.splitlines())}


def test_different_bytes_for_one_library_stop_the_build(tmp_path):  # case 34
    one = make(tmp_path, "cuda-a", {LIBRARY: b"twelve"})
    two = make(tmp_path, "cuda-b", {LIBRARY: b"thirteen"})
    for order in ([one, two], [two, one]):
        said = refusal(tmp_path, *order)
        assert f"{SITE}/{LIBRARY}" in said
        assert "cuda-a has sha256 " + hashlib.sha256(b"twelve").hexdigest()[:12] in said
        assert "cuda-b has sha256 " + hashlib.sha256(b"thirteen").hexdigest()[:12] in said
        assert "waivers.json" in said


def test_equal_files_of_two_wheels_merge(tmp_path):  # case 34
    one = make(tmp_path, "ns-a", {"ns/__init__.py": "x = 1\n", "ns/a.py": ""})
    two = make(tmp_path, "ns-b", {"ns/__init__.py": "x = 1\n", "ns/b.py": ""})
    out = install(tmp_path, one, two)
    assert (out / f"{SITE[1:]}/ns/__init__.py").read_text() == "x = 1\n"
    assert "ns/__init__.py" in rows(out, "ns_a-1.0.dist-info")
    assert "ns/__init__.py" in rows(out, "ns_b-1.0.dist-info")
    origins = {e.path: e.origin for e in manifest.read(tmp_path / "out.manifest")}
    assert origins[f"{SITE}/ns/__init__.py"] == "wheel:ns-a"


def test_equal_bytes_with_another_executable_bit_collide(tmp_path):  # case 34
    one = make(tmp_path, "ns-a", {"ns/run": ("x", True)})
    two = make(tmp_path, "ns-b", {"ns/run": ("x", False)})
    assert "executable" in refusal(tmp_path, one, two)


def licences(tmp_path):
    return (make(tmp_path, "lic-a", {"LICENSE": "MIT\n", "a.py": ""}),
            make(tmp_path, "lic-b", {"LICENSE": "BSD\n", "b.py": ""}))


def test_a_waiver_says_whose_file_stays(tmp_path):  # case 34
    pins = licences(tmp_path)
    assert "/LICENSE" in refusal(tmp_path, *pins)
    out = install(tmp_path, *pins, into="waived", waivers=[waiver("LICENSE", "lic-a", "lic-b")])
    assert (out / f"{SITE[1:]}/LICENSE").read_text() == "MIT\n"
    assert "LICENSE" in rows(out, "lic_a-1.0.dist-info")
    assert "LICENSE" not in rows(out, "lic_b-1.0.dist-info")


@pytest.mark.parametrize("given", [
    waiver("LICENSE.txt", "lic-a", "lic-b"), waiver("LICENSE", "lic-a", "lic-c"),
])
def test_a_waiver_for_something_else_does_not_help(tmp_path, given):  # case 34
    assert "/LICENSE" in refusal(tmp_path, *licences(tmp_path), waivers=[given])


def test_a_file_and_a_folder_of_one_name_collide_in_both_orders(tmp_path):  # case 34
    one = make(tmp_path, "as-file", {"thing": "a file"})
    two = make(tmp_path, "as-folder", {"thing/x": "in a folder"})
    large = make(tmp_path, "large-file", {"thing": "a file", "padding": bytes(10_000)})
    for pins in ((one, two), (large, two)):
        assert "/thing" in refusal(tmp_path, *pins, count=1)


def test_order_and_workers_never_matter(tmp_path):  # cases 34, 38
    pins = [
        make(tmp_path, "ns-a", {"ns/__init__.py": "x = 1\n", "ns/a.py": "y = ('k', 'l')\n"}),
        make(tmp_path, "ns-b", {"ns/__init__.py": "x = 1\n", "ns/b.py": "y = ('k', 'l')\n"}),
        make(tmp_path, "lic-a", {"LICENSE": "MIT\n", "lic_a.py": ""}),
        make(tmp_path, "lic-b", {"LICENSE": "BSD\n", "lic_b.py": ""}),
    ]
    waivers = [waiver("LICENSE", "lic-b", "lic-a")]
    expected = None
    for number, order in enumerate(itertools.permutations(pins)):
        out = install(tmp_path, *order, into=str(number), count=1 + number % 4, waivers=waivers)
        found = content(out), (tmp_path / f"{number}.manifest").read_bytes()
        expected = expected or found
        assert found == expected
    assert number == 23


def broken(tmp_path):
    """One wheel with each fault of case 36."""
    return make(
        tmp_path, "broken",
        {"wrong.py": "x\n", "unlisted.py": "", "../../escape.py": "", "unhashed.py": "",
         "right.py": ""},
        wrong=("wrong.py",), unlisted=("unlisted.py", "unhashed.py"), missing=("missing.py",),
        rows="unhashed.py,,\n",
    )


def test_all_faults_of_all_wheels_are_told_together(tmp_path):  # case 36
    other = make(tmp_path, "other", {"also.py": "x\n"}, wrong=("also.py",))
    said = refusal(tmp_path, broken(tmp_path), other)
    file = "broken-1.0-py3-none-any.whl"
    assert f"{file}: wrong.py: RECORD says sha256" in said
    assert f"{file}: unlisted.py: has no row" in said
    assert f"{file}: missing.py: RECORD names it" in said
    assert f"{file}: ../../escape.py: leads out" in said
    assert f"{file}: unhashed.py: its row has no SHA-256" in said
    assert "other-1.0-py3-none-any.whl: also.py: RECORD says" in said
    assert "right.py" not in said
    assert "6 faults" in said


def test_nothing_is_written_outside_the_tree(tmp_path):  # case 36
    refusal(tmp_path, broken(tmp_path))
    assert not [path for path in tmp_path.rglob("escape.py")]


def test_a_vendors_known_mistake_passes_by_its_hash_alone(tmp_path):  # case 36
    pin = make(tmp_path, "vendor", {"m.py": "x\n"}, wrong=("m.py",))
    known = {"wheel": "vendor", "member": "m.py", "reason": "a test's",
             "sha256": hashlib.sha256(b"x\n").hexdigest()}
    out = install(tmp_path, pin, into="waived", record_waivers=[known])
    value, size = rows(out, "vendor-1.0.dist-info")["m.py"]
    assert (value, size) == (true_value(b"x\n"), "2")
    assert "m.py" in refusal(tmp_path, pin, record_waivers=[{**known, "sha256": "0" * 64}])


@pytest.mark.parametrize("sha256", [hashlib.sha256(b"x\n").hexdigest(), "0" * 64])
def test_an_exception_that_nothing_needs_is_refused(tmp_path, sha256):  # case 36
    pin = make(tmp_path, "vendor", {"m.py": "x\n"})
    known = {"wheel": "vendor", "member": "m.py", "reason": "a test's", "sha256": sha256}
    said = refusal(tmp_path, pin, record_waivers=[known])
    assert f"{pin['file']}: m.py: an exception" in said and "nothing needs" in said
    # One that is for another machine's wheel of the same name concerns nothing here.
    install(tmp_path, pin, into="other", record_waivers=[{**known, "member": "m-aarch64.so"}])


def true_value(data):
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def test_written_record_is_true_and_whole(tmp_path):  # case 36
    pin = make(tmp_path, "pkg", {
        "pkg/__init__.py": "a = 1\n", "pkg/data.bin": b"\0" * 3_000_000,
        "pkg-1.0.data/scripts/tool": "#!python\nprint(1)\n", "pkg-1.0.data/data/share/x": "x",
        "pkg/__pycache__/__init__.cpython-399.pyc": "stale",
    }, entry_points="[console_scripts]\nlaunch = pkg:main\n")
    out = install(tmp_path, pin)
    found = rows(out, "pkg-1.0.dist-info")
    own = "pkg-1.0.dist-info/RECORD"
    assert found.pop(own) == ("", "")
    for path, (value, size) in found.items():
        data = (out / SITE[1:] / path).resolve().read_bytes()
        # Bytecode's rows are bare, as pip's are.
        bare = path.endswith(".pyc")
        assert (value, size) == (("", "") if bare else (true_value(data), str(len(data)))), path
    present = {posixpath.relpath(e.path, SITE) for e in manifest.read(tmp_path / "out.manifest")
               if e.type == "file"}
    assert present == {*found, own}
    assert "../../../bin/tool" in found and "../../../bin/launch" in found
    assert "../../../share/x" in found
    assert not any("399" in path for path in found)
    assert list(found) == sorted(found)


@pytest.mark.parametrize("first", [
    "#!python", "#!pythonw", "#!python -E", "#!/home/packager/venv/bin/python3.9 -E",
    "#! /usr/bin/python3",
])
def test_scripts_start_with_the_images_interpreter(tmp_path, first):  # case 36
    pin = make(tmp_path, "pkg", {"pkg-1.0.data/scripts/tool": f"{first}\nprint(1)\n"})
    tool = install(tmp_path, pin) / f"{PREFIX[1:]}/bin/tool"
    assert tool.read_text().splitlines()[0].split()[0] == f"#!{PREFIX}/bin/python"
    assert tool.stat().st_mode & 0o100


@pytest.mark.parametrize("first", ["#!/bin/sh", "#!/usr/bin/env python3", "#!/opt/pythonic"])
def test_scripts_of_other_interpreters_stay_as_they_are(tmp_path, first):  # case 36
    pin = make(tmp_path, "pkg", {"pkg-1.0.data/scripts/tool": f"{first}\necho 1\n"})
    tool = install(tmp_path, pin) / f"{PREFIX[1:]}/bin/tool"
    assert tool.read_text() == f"{first}\necho 1\n"


def test_launchers_start_with_the_images_interpreter(tmp_path):  # case 36
    pin = make(tmp_path, "pkg", {"pkg.py": "def main(): return 0\n"},
               entry_points="[console_scripts]\nlaunch = pkg:main\n")
    tool = install(tmp_path, pin) / f"{PREFIX[1:]}/bin/launch"
    assert tool.read_text().startswith(f"#!{PREFIX}/bin/python\n")
    assert tool.stat().st_mode & 0o100


@pytest.mark.parametrize(("change", "words"), [
    ({"says": "someone-else"}, "says someone-else 1.0, the pin pkg 1.0"),
    ({"tag": "py3-none-manylinux_2_28_aarch64"}, "manylinux_2_28_aarch64, not x86_64"),
])
def test_a_wheel_that_is_not_the_pinned_one(tmp_path, change, words):  # cases 6, 36
    assert words in refusal(tmp_path, make(tmp_path, "pkg", {"a.py": ""}, **change))


def test_a_file_that_is_no_wheel(tmp_path):
    pin = make(tmp_path, "pkg", {"a.py": ""})
    (tmp_path / pin["file"]).write_text("<html>")
    assert "not a wheel" in refusal(tmp_path, pin)


def damaged(pin, change):
    """A wheel with its members changed: a function of name -> bytes, or None to leave out."""
    path = Path(pin["path"])
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            changed = change(name.partition("/")[2], data)
            if changed is not None:
                archive.writestr(name, changed)
    return pin


@pytest.mark.parametrize("change", [
    lambda name, data: None if name == "METADATA" else data,
    lambda name, data: None if name == "RECORD" else data,
    lambda name, data: None if name == "WHEEL" else data,
    lambda name, data: b"\xff\xfe" if name == "METADATA" else data,
    lambda name, data: b"a,b\n" if name == "RECORD" else data,
    lambda name, data: data.replace(b"Wheel-Version: 1.0", b"Wheel-Version: 9.0"),
    lambda name, data: None if name else data,
], ids=["no METADATA", "no RECORD", "no WHEEL", "METADATA", "RECORD", "version", "no dist-info"])
def test_a_damaged_wheel_is_told_by_name(tmp_path, change):  # case 36
    pin = damaged(make(tmp_path, "pkg", {"a.py": "x = 1\n"}), change)
    said = refusal(tmp_path, pin)
    assert "not a wheel" in said and pin["file"] in said


def test_a_hash_that_is_no_base64(tmp_path):  # case 36
    pin = make(tmp_path, "pkg", {"a.py": ""}, unlisted=("a.py",), rows="a.py,sha256=é?,0\n")
    assert "a.py: its row's SHA-256 is no base64" in refusal(tmp_path, pin)


def test_a_wheel_that_was_cut_or_changed_inside(tmp_path):  # case 36
    pin = make(tmp_path, "pkg", {"a.bin": b"A" * 5000})
    path = Path(pin["path"])
    path.write_bytes(path.read_bytes().replace(b"A" * 5000, b"A" * 4999 + b"B"))
    said = refusal(tmp_path, pin)
    assert "not a wheel" in said and "CRC" in said


def test_a_source_without_bytecode_is_told(tmp_path, capfd):
    pin = make(tmp_path, "pkg", {"pkg/good.py": "x = 1\n", "pkg/old.py": "print 'two'\n"})
    out = install(tmp_path, pin)
    assert f"no bytecode for {SITE}/pkg/old.py: SyntaxError" in capfd.readouterr().err
    found = rows(out, "pkg-1.0.dist-info")
    assert "pkg/old.py" in found and not any("old." in p for p in found if p.endswith(".pyc"))


def test_a_mangled_name_in_the_store_changes_nothing(tmp_path):  # trap 3
    pin = make(tmp_path, "pkg", {"a.py": "x = 1\n"})
    plain = install(tmp_path, pin, into="plain")
    assert content(install(tmp_path, wheels.mangled(pin), into="mangled")) == content(plain)


def test_the_manifest_is_what_a_scan_of_the_tree_says(tmp_path):
    pin = make(tmp_path, "pkg", {"a.py": "x = 1\n", "pkg/run": ("x", True)})
    out = install(tmp_path, pin)
    written = {e.path: e.content() for e in manifest.read(tmp_path / "out.manifest")}
    assert written == {e.path: e.content() for e in manifest.scan(out, "generated")}
    origins = {e.origin for e in manifest.read(tmp_path / "out.manifest") if e.type == "file"}
    assert origins == {"wheel:pkg"}
