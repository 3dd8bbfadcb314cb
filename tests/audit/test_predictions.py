"""Ten scripted changes to this project: what is foretold of its layers is what is built."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from apertus_image.audit.compare import Auditor
from apertus_image.audit.report import ADDED, MAY, REMOVED, SAME, WILL
from apertus_image.audit.subject import of
from apertus_image.build.maker import choose
from apertus_image.build.run import build
from apertus_image.errors import UserError
from apertus_image.oci.image import Image
from support import images, pinned, revisions

IMAGE = "smoke-image"
LAYERS = ("userland", "python-all", "environment", "patches")
pytestmark = [
    pytest.mark.nix,
    pytest.mark.skipif(not shutil.which("nix"), reason="not run: Nix is not here"),
]

# change -> (exit code, layer -> state of those that do not stay the same, fields of the config)
CHANGES = [
    (revisions.wheel_bumped, 20, {"python-all": WILL, "patches": WILL}, set()),
    (revisions.patch_line, 10, {"patches": WILL}, set()),
    (revisions.environment_value, 10, {}, {"Env LANG"}),
    (revisions.package_bumped, 20, {"userland": WILL, "patches": WILL}, set()),
    (revisions.maker_revision, 0, {}, set()),
    (revisions.creation_date, 10, {}, {"created"}),
    (revisions.readme_alone, 0, {}, set()),
    (revisions.waiver, 0, {}, set()),
    (revisions.grouping, 20, {"python-low": ADDED, "python-high": ADDED, "python-all": REMOVED,
                              "patches": WILL}, set()),
    (revisions.summary_of_a_patch, 0, {}, set()),
]


def built(folder: Path) -> Image:
    maker = choose(folder, images.STORE, "emitter")
    return Image.load(build(folder, IMAGE, images.STORE, maker, link=None))


AUDITOR = Auditor(IMAGE, images.STORE, lambda: Path())
PROVING = replace(AUDITOR, build=built)


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    images.built(IMAGE)
    return revisions.clone(tmp_path_factory.mktemp("audit") / "project")


def audited(auditor: Auditor, folders: list[Path], scratch: Path):
    """Each folder by its last commit, as a user would name it."""
    sides = []
    for number, folder in enumerate(folders):
        (scratch / f"side{number}").mkdir(exist_ok=True, parents=True)
        sides.append(of("HEAD", folder, scratch / f"side{number}"))
    return auditor.compare(*sides)


@pytest.mark.parametrize(("change", "code", "states", "config"), CHANGES,
                         ids=[change.__name__ for change, *_ in CHANGES])
def test_what_is_foretold_is_what_is_built(change, code, states, config, project, tmp_path):
    after = revisions.changed(project, change, tmp_path / "after")
    foretold = audited(AUDITOR, [project, after], tmp_path / "a")
    moved = {each.name: each.state for each in foretold.layers if each.state != SAME}
    assert moved == states and foretold.exit_code == code
    assert {each.name for each in foretold.changes if each.group == "config"} == config
    proven = audited(PROVING, [project, after], tmp_path / "b")
    assert proven.proven and proven.exit_code == code, proven.notes
    assert {each.name: each.state for each in proven.layers if each.state != SAME} == states
    assert (len(set(proven.image_ids)) == 1) == (not states and not config)


def test_requirements_without_a_lock_stop_both_ways(project, tmp_path):  # case 48
    after = revisions.changed(project, revisions.requirements_without_lock, tmp_path / "after")
    report = audited(AUDITOR, [project, after], tmp_path / "a")
    assert report.exit_code == 1 and not report.layers
    assert [each.notes for each in report.stops] == [("a lock is older than its requirements",)]
    assert [each.name for each in report.changes if each.group == "requirements"] == ["rich"]
    with pytest.raises(UserError):
        built(after)


def test_longer_ids_in_a_diff_change_nothing(project, tmp_path):  # case 30
    folder = "nix/patches/smoke/visible-after-import/patch.diff"

    def with_ids(length):
        def longer(clone):
            text = (project / folder).read_text()
            (clone / folder).write_text(f"index {'0' * length}..{'1' * length} 100644\n{text}")
        return longer
    one, other = (revisions.changed(project, with_ids(length), tmp_path / str(length))
                  for length in (12, 13))
    report = audited(PROVING, [one, other], tmp_path)
    assert report.proven and report.exit_code == 0
    assert [(each.name, each.notes) for each in report.changes] == [
        ("smoke/visible-after-import", ("the patched files are the same",))]


def test_a_patch_whose_hashes_are_not_its_own_stops(project, tmp_path):  # case 30
    def altered(clone):
        revisions.replace(clone / "nix/patches/smoke/visible-after-import/patch.json",
                          '"after": "8', '"after": "9')
    after = revisions.changed(project, altered, tmp_path / "after")
    report = audited(AUDITOR, [project, after], tmp_path)
    assert report.exit_code == 1
    assert [each.kind for each in report.stops] == ["hash changed", "changed"]
    assert "idna/package_data.py" in report.stops[0].notes[0]
    assert report.stops[1].notes == ("a patch gives another file than recorded",)


SMOKE = "nix/patches/smoke/visible-after-import"
LINE = '__version__ = "3.18"'
REPLACING = (f"--- a/idna/package_data.py\n+++ b/idna/package_data.py\n@@ -1 +1 @@\n-{LINE}\n"
             f'+{LINE}; __apertus_smoke__ = True\n')
FILE = "visible-after-import, idna/package_data.py"


@pytest.fixture(scope="module")
def replacing(project, tmp_path_factory):
    """The project with a patch that replaces a line, so that it can fit no longer."""
    def other_patch(clone):
        (clone / SMOKE / "patch.diff").write_text(REPLACING)
        revisions.relock([clone / SMOKE], lambda name, _version: pinned.wheel(name))
    return revisions.changed(project, other_patch, tmp_path_factory.mktemp("patch") / "project")


@pytest.mark.parametrize(("change", "patched_too", "stops"), [
    (lambda data: data, True, []),
    (lambda data: data, False, [("a patch is for another version of its wheel",
                                 "visible-after-import")]),
    (lambda data: data.replace(b"3.18", b"3.19"), True,
     [("a patch does not fit", f"{FILE}, hunk 1, line 1")]),
    (lambda data: data.replace(b'"\n', b'"; __apertus_smoke__ = True\n'), True,
     [("a patch is in the file already", f"{FILE}, hunk 1, line 1")]),
    (lambda data: data + b"more = 1\n", True, [("a patch is for another file", FILE)]),
], ids=["still applies", "not said to", "no longer applies", "already applied", "another file"])
def test_a_patch_on_a_changed_wheel(change, patched_too, stops, replacing, tmp_path, capfd):
    """Case 30: told by the audit without a build, and by the build."""
    def wheel_changed(clone):
        revisions.wheel_remade(clone, "idna", "3.18.post1", package_data=change)
        if patched_too:
            revisions.replace(clone / SMOKE / "patch.json", '"3.18"', '"3.18.post1"')
    after = revisions.changed(replacing, wheel_changed, tmp_path / "after")
    report = audited(AUDITOR, [replacing, after], tmp_path / "a")
    assert [(each.notes[0], each.name) for each in report.stops] == stops
    assert {each.name: each.state for each in report.layers if each.state != SAME} == {
        "python-all": WILL, "patches": WILL}
    proven = audited(PROVING, [replacing, after], tmp_path / "b")
    if not stops:
        assert proven.proven and proven.exit_code == report.exit_code == 20
        return
    assert report.exit_code == 1 and proven.proven is None
    assert "nothing was built: the patches could not be applied" in proven.notes
    capfd.readouterr()
    with pytest.raises(UserError):
        built(after)
    said = capfd.readouterr().err
    assert "a patch is " in said and "visible-after-import" in said


def test_a_prediction_that_is_wrong_is_found_out(project, tmp_path):
    """The negative control: other bytes than those that the revision stands for."""
    after = revisions.changed(project, revisions.patch_line, tmp_path / "after")
    lying = replace(AUDITOR, build=lambda _folder: built(project))
    report = audited(lying, [project, after], tmp_path / "a")
    assert report.proven is False and report.exit_code == 1
    assert "patches" in report.notes[0]


def test_a_locked_application_is_not_promised_anything(project, tmp_path):
    def locked(clone):
        node = {"flake": False, "original": {"type": "git", "url": "https://h/x"}, "locked": {
            "type": "git", "url": "https://h/x", "rev": revisions.REV, "lastModified": 1,
            "narHash": revisions.NAR_HASH}}
        data = json.loads((clone / "flake.lock").read_text())
        data["nodes"] |= {"source": node}
        data["nodes"]["root"]["inputs"]["source"] = "source"
        (clone / "flake.lock").write_text(json.dumps(data))
        revisions.replace(clone / "flake.nix", 'follows = "";', 'url = "git+https://h/x";')
    after = revisions.changed(project, locked, tmp_path / "after")
    report = audited(AUDITOR, [project, after], tmp_path / "a")
    assert report.exit_code == 10
    assert {each.name: each.state for each in report.layers if each.state != SAME} == {
        "patches": MAY, "source": MAY}
    again = audited(AUDITOR, [after, after], tmp_path / "b")
    assert again.exit_code == 0 and again.layers[-1].name == "source"


def test_code_that_changes_promises_nothing(project, tmp_path):
    def edited(folder):
        revisions.replace(folder / "tools/apertus_image/wheel/build.py", '"""Builder:',
                          '"""The builder:')
    after = revisions.changed(project, edited, tmp_path / "after")
    report = audited(PROVING, [project, after], tmp_path / "a")
    assert report.proven and report.exit_code == 0  # only a comment was edited
    foretold = audited(AUDITOR, [project, after], tmp_path / "b")
    assert foretold.exit_code == 20
    assert {each.state for each in foretold.layers} == {SAME, MAY}
    assert "may have to be built" in foretold.verdict


def test_the_clone_is_not_written_to(project, tmp_path):
    def state():
        return {file: (file.lstat().st_mtime_ns, file.lstat().st_size)
                for file in project.rglob("*")}
    before = state()
    audited(AUDITOR, [project, project], tmp_path)
    assert state() == before


def test_the_command_says_it_from_a_clone(project, tmp_path):
    after = revisions.changed(project, revisions.patch_line, tmp_path / "after")
    (after / ".venv").symlink_to(Path(sys.prefix))
    result = subprocess.run([after / "tools/audit", "HEAD~1", "HEAD", "--image", IMAGE, "--json"],
                            capture_output=True, text=True, env=os.environ | {"PYTHONPATH": ""})
    assert result.returncode == 10, result.stderr
    said = json.loads(result.stdout)
    assert said["schema"] == "apertus-image/audit/1" and said["exit_code"] == 10
    assert [each["state"] for each in said["layers"]] == [SAME, SAME, SAME, WILL]
    assert [each["name"] for each in said["layers"]] == list(LAYERS)
