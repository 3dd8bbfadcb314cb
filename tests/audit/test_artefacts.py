"""Two images or exports: the first layer, entry and field that differ are named."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from apertus_image.audit.artefacts import Layer, compare_layers
from apertus_image.audit.compare import Auditor
from apertus_image.audit.report import ADDED, DEPENDENCY, OVERLAY, REMOVED, SAME, WILL
from apertus_image.audit.subject import of
from apertus_image.errors import UserError
from apertus_image.oci.image import Image
from apertus_image.oci.layer import Layer as ImageLayer
from apertus_image.oci.layer import digest
from apertus_image.oci.paths import LayerPath
from apertus_image.store.store import Store
from support import exports, releases, trees
from support.checkouts import commit
from support.images import PROJECT
from support.layouts import file, folder, gone, layer, layout, link

BASE = [folder("etc"), file("etc/a", "one\ntwo\nthree\n"), link("etc/l", "a"),
        file("etc/z", b"\0\1\2")]


def audit(old: object, new: object, tmp_path: Path, programs: Path | None = None):
    sides = []
    for number, each in enumerate((old, new)):
        scratch = tmp_path / f"scratch{number}"
        scratch.mkdir(exist_ok=True)
        sides.append(of(str(each), tmp_path, scratch))
    return Auditor("", Store(), lambda: programs).compare(*sides)


def images(tmp_path: Path, change, compression: str = "none"):
    """Layouts of two layers, the upper one changed."""
    found = []
    for name, members in (("old", BASE), ("new", change(list(BASE)))):
        found.append(layout(tmp_path / name, [layer(folder("low")), layer(
            *members, compression=compression)]))
    return found


CHANGES = {
    "content": (lambda m: m[:1] + [file("etc/a", "one\n2wo\nthree\n")] + m[2:], "/etc/a",
                "content", "-two\n+2wo"),
    "size": (lambda m: m[:1] + [file("etc/a", "one\ntwo\n")] + m[2:], "/etc/a", "size", "-three"),
    "mode": (lambda m: m[:1] + [file("etc/a", "one\ntwo\nthree\n", 0o755)] + m[2:], "/etc/a",
             "mode", ""),
    "target": (lambda m: [*m[:2], link("etc/l", "z"), m[3]], "/etc/l", "target", ""),
    "type": (lambda m: [*m[:2], file("etc/l"), m[3]], "/etc/l", "type", ""),
    "presence": (lambda m: m[:3], "/etc/z", "presence", ""),
    "binary": (lambda m: [*m[:3], file("etc/z", b"\0\1\3")], "/etc/z", "content", ""),
    "whiteout": (lambda m: [*m, gone("etc/y")], "/etc/y (whiteout)", "presence", ""),
    "time": (lambda m: [*m[:3], file("etc/z", b"\0\1\2", mtime=5)], "etc/z", "mtime in the tar",
             ""),
    "owner": (lambda m: [*m[:3], file("etc/z", b"\0\1\2", uid=5)], "etc/z", "uid in the tar", ""),
}


@pytest.mark.parametrize("what", CHANGES)
@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_the_first_difference_of_two_images(what, compression, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")  # no diffoscope
    change, path, field, text = CHANGES[what]
    report = audit(*images(tmp_path, change, compression), tmp_path)
    assert [each.state for each in report.layers] == [SAME, WILL]
    found = report.difference
    assert (found.entry, found.field) == (path, field)
    assert text in found.text and bool(found.text) == bool(text)
    assert report.exit_code == 20 and len(set(report.image_ids)) == 2


def test_all_that_differs_is_counted_and_the_first_is_shown(tmp_path):
    report = audit(*images(tmp_path, lambda m: [file("a"), *m[:2], file("etc/z", "x")]), tmp_path)
    assert (report.difference.entry, report.difference.count) == ("/a", 3)


def test_the_text_is_of_the_first_file_that_is_one(tmp_path):
    report = audit(*images(tmp_path, lambda m: [file("b.pyc", b"\0new"), *CHANGES["content"][0](m)]
                           ), tmp_path)
    assert report.difference.entry == "/b.pyc"  # it came
    one, other = (layout(tmp_path / name, [layer(file("b.pyc", b"\0" + name.encode()),
                                                 file("b.py", name))]) for name in ("one", "two"))
    found = audit(one, other, tmp_path).difference
    assert found.entry == "/b.py" and found.count == 2 and "+two" in found.text
    one, other = (layout(tmp_path / name, [layer(file("a.pyc", b"\0" + name.encode()),
                                                 file("b.py", name))]) for name in ("1", "2"))
    found = audit(one, other, tmp_path).difference
    assert found.entry == "/a.pyc" and found.text.startswith("--- old/b.py")


def test_a_long_text_is_cut(tmp_path):
    lines = "".join(f"{number}\n" for number in range(900))
    old, new = (layout(tmp_path / name, [layer(file("f", text))])
                for name, text in (("o", lines), ("n", lines.replace("\n", "x\n"))))
    text = audit(old, new, tmp_path).difference.text.splitlines()
    assert len(text) == 41 and "more lines" in text[-1]


def test_diffoscope_is_asked_where_it_is_there(tmp_path, monkeypatch):
    program = tmp_path / "bin/diffoscope"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n[ -f \"$3\" ] && [ -f \"$4\" ] && echo said of ${3##*/}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    assert audit(*images(tmp_path, CHANGES["binary"][0]), tmp_path).difference.text == "said of z"


def test_the_same_image_is_the_same(tmp_path):
    report = audit(*images(tmp_path, list), tmp_path)
    assert report.exit_code == 0 and report.difference is None


def test_another_compression_is_the_same_image_but_for_the_blobs(tmp_path):
    old = layout(tmp_path / "old", [layer(*BASE)])
    new = layout(tmp_path / "new", [layer(*BASE, compression="gzip")])
    report = audit(old, new, tmp_path)
    assert report.exit_code == 0 and [each.state for each in report.layers] == [SAME]


def test_the_config_alone(tmp_path):
    old, new = (layout(tmp_path / name, [layer(*BASE)], {"Env": ["A=1", env], "Cmd": ["x"]})
                for name, env in (("old", "B=1"), ("new", "B=2")))
    report = audit(old, new, tmp_path)
    assert [(each.name, each.old, each.new) for each in report.changes] == [("Env B", "1", "2")]
    assert report.exit_code == 10


def stored(folder_: Path, text: str) -> Path:
    """An image JSON of two layers, the upper one called the overlay's."""
    made = []
    for name, content in (("userland", "u"), ("patches", text)):
        tree = trees.make(folder_ / name, {f"opt/{name}": content})
        paths = (LayerPath(str(tree), (f"^{tree}", ""), ()),)
        made.append(ImageLayer(*digest(paths), paths, {"created_by": f"apertus-image: {name}"}))
    image = Image.make({"Cmd": ["x"]}, made, "amd64", "2026-07-15T00:00:00Z")
    (folder_ / "image.json").write_text(image.json())
    return folder_ / "image.json"


def test_images_of_the_store_by_the_names_of_their_layers(tmp_path):
    report = audit(stored(tmp_path / "old", "1"), stored(tmp_path / "new", "2"), tmp_path)
    assert [(each.name, each.part, each.state) for each in report.layers] == [
        ("userland", DEPENDENCY, SAME), ("patches", OVERLAY, WILL)]
    assert report.difference.entry == "/opt/patches" and report.exit_code == 10


def test_layers_are_paired_by_digest_then_name_then_place():
    def made(*names):
        return [Layer(name.partition("=")[0], name, 1, DEPENDENCY) for name in names]
    def states(old, new):
        return [(each.name, each.state) for each in compare_layers(made(*old), made(*new))]
    assert states(["a=1", "b=1"], ["b=1", "a=1"]) == [("b", SAME), ("a", SAME)]
    assert states(["a=1", "b=1"], ["a=1", "c=1", "b=2"]) == [
        ("a", SAME), ("c", ADDED), ("b", WILL)]
    assert states(["a=1", "b=1"], ["a=1"]) == [("a", SAME), ("b", REMOVED)]


def test_a_record_and_an_image_are_compared_by_their_layers(tmp_path):
    release = releases.release(tmp_path / "release")
    record = tmp_path / "x.record.json"
    record.write_bytes(release.record().bytes)
    image = tmp_path / "image.json"
    image.write_text(release.image.json())
    report = audit(record, image, tmp_path)
    assert report.exit_code == 0 and [each.state for each in report.layers] == [SAME] * 3
    upper = release.image.layers[-1]
    other = replace(release.image, layers=(*release.image.layers[:-1],
                                           replace(upper, digest=f"sha256:{'9' * 64}")))
    image.write_text(other.json())
    report = audit(record, image, tmp_path)
    assert [(each.part, each.state) for each in report.layers] == [
        (DEPENDENCY, SAME), (DEPENDENCY, SAME), (OVERLAY, WILL)]
    assert report.exit_code == 10


def test_two_records_name_the_pins_that_differ(tmp_path):
    release = releases.release(tmp_path / "release")
    (tmp_path / "old.json").write_bytes(release.record().bytes)
    (release.project / "nix/pins/new.json").write_text("{}\n")
    commit(release.project)
    (tmp_path / "new.json").write_bytes(release.record().bytes)
    report = audit(tmp_path / "old.json", tmp_path / "new.json", tmp_path)
    assert [(each.group, each.kind, each.name) for each in report.changes] == [
        ("record", "added", "nix/pins/new.json")]
    assert report.exit_code == 0  # the same image of another commit


@pytest.mark.parametrize(("name", "code"), [("nix2container", 0), ("source", 10), ("more", 20)])
def test_two_locks_alone_say_what_their_inputs_are_for(name, code, tmp_path):
    data = json.loads((PROJECT / "flake.lock").read_text())
    node = data["nodes"]["nix2container"]
    data["nodes"]["root"]["inputs"] |= {name: "n"}
    for side, rev in (("old", "a" * 40), ("new", "b" * 40)):
        data["nodes"]["n"] = node | {"locked": node["locked"] | {"rev": rev, "narHash": rev}}
        (tmp_path / f"{side}.lock").write_text(json.dumps(data))
    report = audit(tmp_path / "old.lock", tmp_path / "new.lock", tmp_path)
    assert [(each.kind, each.name) for each in report.changes] == [("moved", name)]
    assert report.exit_code == code
    assert audit(tmp_path / "old.lock", tmp_path / "old.lock", tmp_path).exit_code == 0


def test_a_source_that_is_the_flake_itself_is_no_application(tmp_path):
    data = json.loads((PROJECT / "flake.lock").read_text())
    (tmp_path / "new.lock").write_text(json.dumps(data))
    del data["nodes"]["root"]["inputs"]["source"]
    (tmp_path / "old.lock").write_text(json.dumps(data))
    report = audit(tmp_path / "old.lock", tmp_path / "new.lock", tmp_path)
    assert [each.kind for each in report.changes] == ["added"] and report.exit_code == 0


@pytest.mark.nix
@pytest.mark.skipif(not shutil.which("nix"), reason="not run: Nix is not here")
class TestSquashFS:
    """Exports of small layouts."""

    def exported(self, tmp_path, change, **options):
        found = []
        for each in images(tmp_path, change):
            found.append(exports.export(each, tmp_path / f"{each.name}.sqsh", **options).path)
        return found

    @pytest.mark.parametrize("what", ["content", "size", "mode", "target", "type", "presence",
                                      "binary"])
    def test_the_first_difference_by_tree_and_content(self, what, tmp_path):
        change, path, field, text = CHANGES[what]
        files = self.exported(tmp_path, change)
        report = audit(*files, tmp_path, exports.programs())
        assert (report.difference.entry, report.difference.field) == (path, field)
        assert text in report.difference.text and report.exit_code == 20

    def test_the_same_file(self, tmp_path):
        old, new = self.exported(tmp_path, list)
        report = audit(old, new, tmp_path, exports.programs())
        assert report.exit_code == 0 and "byte for byte" in report.notes[0]

    def test_other_bytes_of_one_tree_say_so(self, tmp_path):
        old, new = self.exported(tmp_path, list)
        with new.open("ab") as data:
            data.write(bytes(4096))
        report = audit(old, new, tmp_path, exports.programs())
        assert report.difference is None and "the same content" in report.notes[0]
        assert report.exit_code == 20


@pytest.mark.parametrize(("name", "content"), [("x", b"text"), ("x", b"[]"), ("x", b"{}"),
                                               ("x.sqsh", b"hsqs")])
def test_what_cannot_be_compared_is_one_error(name, content, tmp_path):
    file_ = tmp_path / name
    file_.write_bytes(content)
    other = layout(tmp_path / "layout", [layer(*BASE)])
    with pytest.raises(UserError) as error:
        audit(file_, other, tmp_path)
    assert str(error.value)


def test_what_is_not_there_is_one_error(tmp_path):
    with pytest.raises(UserError, match="nothing of this name"):
        audit("no-such-thing", "--option", tmp_path)


