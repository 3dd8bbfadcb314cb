"""One revision by itself: each fault is found and named, and what is sound passes."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pytest
from apertus_image.audit.check import check, pins_of
from apertus_image.audit.licences import of_deb, of_wheel, spdx
from apertus_image.errors import UserError
from apertus_image.pins import lockfile, requirements
from apertus_image.pins.names import store_name
from apertus_image.store.paths import fixed_output_path
from apertus_image.store.store import Store
from support import debs, wheels
from support.images import PROJECT
from support.revisions import lock, replace

pytestmark = [
    pytest.mark.nix,
    pytest.mark.skipif(not shutil.which("nix-instantiate"), reason="not run: Nix is not here"),
]
MIT = "License-Expression: MIT\n"


class Elsewhere(Store):
    """A store of a few files that a test puts there; Nix itself keeps to its own."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder

    def physical(self, path: str) -> Path:
        return self._folder / path.removeprefix("/")

    def put(self, made: Path, sha256: str) -> Path:
        file = self.physical(fixed_output_path(store_name(made.name), sha256))
        file.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(made, file)
        return file


@pytest.fixture
def project(tmp_path):
    """This project's flake and pins."""
    folder = tmp_path / "project"
    shutil.copytree(PROJECT / "nix", folder / "nix")
    for name in ("flake.nix", "flake.lock"):
        shutil.copy(PROJECT / name, folder / name)
    return folder


@pytest.fixture
def store(tmp_path):
    return Elsewhere(tmp_path / "store")


def found(project: Path, store: Store) -> list[str]:
    return [str(each) for each in check(project, store).findings]


def first(project: Path, name: str, section: str, change: dict) -> dict:
    """Change the first pin of a section."""
    lock(project, name, lambda data: data[section][0].update(change))
    return json.loads((project / f"nix/pins/{name}.json").read_text())[section][0]


def test_what_is_sound_passes_and_what_was_not_seen_is_counted(project, store):
    done = check(project, store)
    assert done.findings == []
    assert done.absent > 500 and done.counts["pins"] >= done.absent
    assert done.counts["files of the store"] == 0


def another_url(project):
    replace(project / "flake.nix", "github:nlewo/nix2container/", "github:someone/else/")
    return "input nix2container", "declared: github:someone/else/"


def an_input_that_is_not_locked(project):
    replace(project / "flake.nix", "inputs.source = {",
            'inputs.more = { url = "github:a/b"; };\n  inputs.source = {')
    return "input more", "locked: nothing"


def an_input_that_is_not_declared(project):
    data = json.loads((project / "flake.lock").read_text())
    data["nodes"]["root"]["inputs"]["more"] = "nix2container"
    (project / "flake.lock").write_text(json.dumps(data))
    return "input more", "does not declare"


def no_flake_lock(project):
    (project / "flake.lock").unlink()
    return "the flake has no lock", "flake.lock"


def no_lock(project):
    (project / "nix/pins/wheels.json").unlink()
    return "a lock is missing", "wheels.json"


def a_hash_cut_short(project):
    name = first(project, "wheels", "x86_64", {"sha256": "0" * 63})["name"]
    return "hash is malformed", f"wheels.json, x86_64, {name}"


def requirements_after_the_lock(project):
    replace(project / "nix/pins/userland.packages", "bash", "bash\nnano")
    return "older than its requirements", "tools/lock userland"


def one_hash_for_two(project):
    data = json.loads((project / "nix/pins/wheels.json").read_text())
    name = first(project, "wheels", "x86_64", {"sha256": data["x86_64"][1]["sha256"]})["name"]
    return "one hash is pinned under two names", name


def a_wheel_of_another_version(project):
    name = first(project, "wheels", "aarch64", {"version": "0.0.1"})["name"]
    return "named for something else", f"wheels.json, aarch64, {name}"


def a_wheel_for_another_machine(project):
    name = first(project, "wheels", "x86_64", {"tags": ["cp313-cp313-win32"]})["name"]
    return "named for something else", f"{name} "


def a_package_of_another_version(project):
    name = first(project, "userland", "amd64", {"version": "1:9.9"})["name"]
    return "named for something else", f"expected: {name}_9.9_"


def a_wheel_name_that_is_still_escaped(project):  # case 29
    name = first(project, "wheels", "x86_64", {
        "version": "2.0+cu130", "file": "a-2.0%2Bcu130-py3-none-any.whl", "sha256": "0" * 64,
        "tags": ["py3-none-any"]})["name"]
    return "named for something else", f"x86_64, {name}"


def a_fetch_without_a_hash(project):
    replace(project / "nix/default.nix", "groups = import ./groups.nix;",
            'groups = lib.fetchTarball "https://h/x.tar.gz";')
    return "takes in what is not pinned", "nix/default.nix:"


def a_hash_of_an_input_cut_short(project):
    data = json.loads((project / "flake.lock").read_text())
    data["nodes"]["nix2container"]["locked"]["narHash"] = "sha256-short="
    (project / "flake.lock").write_text(json.dumps(data))
    return "an input's hash is malformed", "input nix2container"


def a_patch_without_a_licence(project):
    replace(project / "nix/patches/vllm/help-without-a-gpu/patch.json", "Apache-2.0", "some kind")
    return "a patch's licence", "vllm/help-without-a-gpu"


FAULTS = [another_url, a_hash_of_an_input_cut_short, a_patch_without_a_licence,
          an_input_that_is_not_locked, an_input_that_is_not_declared, no_flake_lock, no_lock,
          a_hash_cut_short, requirements_after_the_lock, one_hash_for_two,
          a_wheel_of_another_version, a_wheel_for_another_machine, a_package_of_another_version,
          a_wheel_name_that_is_still_escaped, a_fetch_without_a_hash]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_fault_is_found_and_named(project, store, fault):  # cases 29, 31, 48
    wanted = fault(project)
    said = found(project, store)
    assert len(said) == 1, said
    assert all(each in said[0] for each in wanted), said[0]


@pytest.mark.parametrize("name", ["requirements.in", "userland.packages"])
def test_line_ends_are_no_fault(project, store, name):  # case 48
    file = project / "nix/pins" / name
    file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
    assert found(project, store) == []


def test_a_local_version_keeps_its_plus(project, store):  # case 29
    pin = first(project, "wheels", "x86_64", {
        "name": "mine", "version": "2.0+cu130", "tags": ["py3-none-any"], "sha256": "0" * 64,
        "file": "mine-2.0+cu130-py3-none-any.whl"})
    assert found(project, store) == []
    path = next(each.path for each in pins_of(project) if each.file == pin["file"])
    assert path.endswith("-2.0+cu130-py3-none-any.whl")


def test_all_faults_are_told_at_once(project, store):
    for fault in (another_url, a_fetch_without_a_hash, one_hash_for_two):
        fault(project)
    assert len(found(project, store)) == 3


def test_nothing_is_written_and_no_network_asked(project, store, monkeypatch):  # case 31
    def state():
        return {file: (file.lstat().st_mtime_ns, file.lstat().st_size)
                for file in project.rglob("*")}
    another_url(project)
    for name in ("http_proxy", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    before = state()
    assert len(found(project, store)) == 1
    assert state() == before


def pinned(project: Path, tmp_path: Path, **options) -> tuple[Path, str]:
    """Pin a wheel of a test's own in place of the first."""
    made = Path(wheels.make(tmp_path / "made", "mine", {"mine.py": "x = 1\n"}, **options)["path"])
    sha256 = hashlib.sha256(made.read_bytes()).hexdigest()
    lock(project, "wheels", lambda data: data["x86_64"].__setitem__(0, {
        "name": "mine", "version": "1.0", "file": made.name, "sha256": sha256,
        "size": made.stat().st_size, "tags": ["py3-none-any"], "requires": []}))
    return made, sha256


def test_a_file_of_the_store_that_changed_is_found(project, store, tmp_path):
    made, sha256 = pinned(project, tmp_path, metadata=MIT)
    file = store.put(made, sha256)
    assert found(project, store) == []
    assert check(project, store).counts["files of the store"] == 1
    file.write_bytes(made.read_bytes()[:-1] + b"!")
    said = found(project, store)
    assert len(said) == 1 and "not the one that is pinned" in said[0] and sha256 in said[0]


@pytest.mark.parametrize(("metadata", "says"), [
    ("", "its METADATA names none"), ("License: Mine alone\n", "Mine alone"),
])
def test_a_licence_without_a_name_needs_an_exception(project, store, tmp_path, metadata, says):
    store.put(*pinned(project, tmp_path, metadata=metadata))
    said = found(project, store)
    assert len(said) == 1 and "x86_64, mine" in said[0] and says in said[0]
    file = project / "nix/pins/licence-exceptions.json"
    entries = json.loads(file.read_text())
    file.write_text(json.dumps([*entries, {"kind": "wheel", "name": "mine", "says": says,
                                           "reason": "a test's"}]))
    assert found(project, store) == []


def test_an_exception_of_none_is_a_finding_once_all_was_seen(tmp_path, store):
    """Only where every pin's file is there can it be known."""
    project = tmp_path / "small"
    (project / "nix/pins").mkdir(parents=True)
    (project / "flake.nix").write_text("{ outputs = _: { }; }\n")
    (project / "flake.lock").write_text(json.dumps(
        {"nodes": {"root": {}}, "root": "root", "version": 7}))
    (project / "nix/pins/x.in").write_text("mine\n")
    entry = {"name": "mine", "version": "1.0", "tags": [], "requires": []}
    made_from = {"x.in": requirements.sha256(project / "nix/pins/x.in")}
    lockfile.write({"format": 1, "kind": "wheels", "exclude_newer": "2026-07-15",
                    "requirements": made_from, "x86_64": [entry], "aarch64": []},
                   project / "nix/pins/wheels.json")
    store.put(*pinned(project, tmp_path, metadata=MIT))
    (project / "nix/pins/licence-exceptions.json").write_text(json.dumps(
        [{"kind": "wheel", "name": "other", "says": "*", "reason": "none"}]))
    said = [each for each in found(project, store) if "an exception for" in each]
    assert len(said) == 1 and "not needed" in said[0] and "wheel other" in said[0]


def test_malformed_exceptions_are_one_error(project, store):
    (project / "nix/pins/licence-exceptions.json").write_text('[{"kind": "wheel"}]')
    with pytest.raises(UserError, match="malformed"):
        check(project, store)


def test_licences_of_files_that_are_not_installed(tmp_path):
    text = ("Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n"
            "Files: *\nLicense: Expat\n")
    for name, members, wanted in (
        ("a", [debs.file("usr/share/doc/a/copyright", text)], True),
        ("b", [debs.link("usr/share/doc/b", "a")], "its copyright file is a's"),
        ("c", [debs.file("usr/bin/c")], "it has no copyright file"),
    ):
        found = of_deb(Path(debs.make(tmp_path, name, members)["path"]), name)
        assert spdx(found) if wanted is True else found.unknown == wanted
    assert spdx(of_wheel(Path(wheels.make(tmp_path, "w", {}, metadata=MIT)["path"])))
