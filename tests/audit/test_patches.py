"""Patches tried on the pinned wheels: what does not fit is told by patch, file and hunk."""

from __future__ import annotations

import hashlib
import json
import zipfile
from pathlib import Path

import pytest
from apertus_image.audit.patches import tried
from apertus_image.pins import lockfile, requirements
from apertus_image.pins.names import store_name
from apertus_image.store.paths import fixed_output_path
from support import patches

OTHER = patches.SOURCE.replace("VALUE = 1", "VALUE = 3")
FIRST = patches.SOURCE.replace("VALUE = 1", "VALUE = 2")
BOTH = FIRST.replace("return VALUE", "return VALUE + 1")
REMOTE = "--- a/pkg/none.py\n+++ b/pkg/none.py\n@@ -1 +1 @@\n-a\n+b\n"


class Project:
    """A revision with two patches of one file in a row, and a store with the wheel."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.pins = folder, folder / "nix/pins"
        self.pins.mkdir(parents=True)
        (self.pins / "requirements.in").write_text("pkg\n")
        for name, before, after, diff in (("one", patches.SOURCE, FIRST, patches.DIFF),
                                          ("two", FIRST, BOTH, patches.SECOND)):
            patches.patch(folder / "nix/patches/x", name, before, after, diff)
        (folder / "nix/patches/series.json").write_text('{"x": ["x/one", "x/two"]}')
        self.pin(patches.SOURCE)

    def physical(self, path: str) -> Path:
        return self.folder / path.removeprefix("/")

    def pin(self, source: str, version: str = "1.0", *, other: str | None = None) -> None:
        """Pin a wheel with this pkg/m.py; for aarch64 one with another, if it is said."""
        self.lock(x86_64=[self._wheel(source, version, "x86_64")],
                  aarch64=[self._wheel(other or source, version, "aarch64")])

    def lock(self, **sections) -> None:
        wanted = {"requirements.in": requirements.sha256(self.pins / "requirements.in")}
        (self.pins / "wheels.json").write_text(lockfile.dumps({
            "format": 1, "kind": "wheels", "exclude_newer": "2026-07-15",
            "requirements": wanted, **sections}))

    def _wheel(self, source: str, version: str, machine: str) -> dict:
        name = f"pkg-{version}-py3-none-manylinux_2_28_{machine}.whl"
        file = self.folder / name
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr(zipfile.ZipInfo("pkg/m.py"), source)
        sha256 = hashlib.sha256(file.read_bytes()).hexdigest()
        at = self.physical(fixed_output_path(store_name(name), sha256))
        at.parent.mkdir(parents=True, exist_ok=True)
        file.rename(at)
        return {"name": "pkg", "version": version, "file": name, "sha256": sha256,
                "size": at.stat().st_size, "tags": [f"py3-none-manylinux_2_28_{machine}"],
                "requires": []}

    def tried(self):
        return tried(self.folder, self)

    def faults(self):
        return [(each.what, each.where) for each in self.tried().faults]


@pytest.fixture
def project(tmp_path):
    return Project(tmp_path)


def test_what_fits_gives_no_fault(project):
    done = project.tried()
    assert (done.faults, done.count, done.unseen) == ([], 2, [])


@pytest.mark.parametrize(("source", "faults"), [
    (OTHER, [("a patch does not fit", "one, pkg/m.py, hunk 1, line 1")]),
    (FIRST, [("a patch is in the file already", "one, pkg/m.py, hunk 1, line 1")]),
    (BOTH, [("a patch is in the file already", "one, pkg/m.py, hunk 1, line 1")]),
    # The lines are as they were, and the file is another.
    (patches.SOURCE + "more = 1\n", [("a patch is for another file", "one, pkg/m.py"),
                                     ("a patch is for another file", "two, pkg/m.py")]),
    (patches.SOURCE.replace("return VALUE", "return 0"),
     [("a patch is for another file", "one, pkg/m.py"),
      ("a patch does not fit", "two, pkg/m.py, hunk 1, line 5")]),
], ids=["no longer applies", "already applied", "both already applied", "another file",
        "the second no longer applies"])
def test_what_does_not_fit_is_told_once_for_all_machines(project, source, faults):
    project.pin(source)
    assert project.faults() == faults


def test_a_wheel_of_one_machine_that_differs_is_found(project):
    project.pin(patches.SOURCE, other=OTHER)
    assert project.faults() == [("a patch does not fit", "one, pkg/m.py, hunk 1, line 1")]


def test_another_version_is_told_even_where_every_patch_fits(project):
    project.pin(patches.SOURCE, "1.1")
    assert project.faults() == [("a patch is for another version of its wheel", "one"),
                                ("a patch is for another version of its wheel", "two")]
    fault = project.tried().faults[0]
    assert (fault.expected, fault.got) == ("pkg 1.0", "pkg 1.1")
    project.lock(x86_64=[], aarch64=[])
    assert project.faults() == [("a patch is for a wheel that is not pinned", "one"),
                                ("a patch is for a wheel that is not pinned", "two")]


def test_a_wheel_that_is_not_here_is_named_and_not_taken_for_granted(project):
    project.pin(OTHER)
    wheel = next(project.folder.rglob("*x86_64.whl"))
    for file in project.folder.rglob("*.whl"):
        file.unlink()
    done = project.tried()
    assert (done.faults, done.count) == ([], 0)
    assert wheel.name.endswith(done.unseen[0]) and len(done.unseen) == 2


def test_what_cannot_be_read_is_one_fault_each(project):
    folder = project.folder / "nix/patches/x"
    for file in project.folder.rglob("*x86_64.whl"):
        file.write_bytes(b"no zip")
    assert {what for what, _ in project.faults()} == {"a patched wheel cannot be read"}
    project.pin(patches.SOURCE)
    data = json.loads((folder / "one/patch.json").read_text())
    (folder / "one/patch.json").write_text(json.dumps(data | {"files": {
        "pkg/none.py": {"before": "0" * 64, "after": "1" * 64}}}))
    assert project.faults()[0] == ("a patch's description names other files than its diff",
                                   folder / "one/patch.json")
    (folder / "one/patch.diff").write_text(REMOTE)
    assert project.faults()[0] == ("a patch changes a file that the wheel does not have",
                                   "one, pkg/none.py")
    (folder / "one/patch.json").unlink()
    assert project.faults()[0] == ("a patch cannot be read", folder / "one")
    (folder.parent / "series.json").write_text('{"x": ["x/one"]}')
    assert [what for what, _ in project.faults()] == ["series.json and the patch folders differ"]
    (folder.parent / "series.json").write_text("[")
    assert [what for what, _ in project.faults()] == ["a patch cannot be read"]


def test_a_lock_that_is_of_no_use_is_anothers_finding(project):
    project.pin(OTHER)
    assert project.faults()
    (project.pins / "wheels.json").write_text("{}")
    assert (project.faults(), project.tried().count) == ([], 0)
