"""Clones of this project with one thing changed, and pins made anew for them."""

from __future__ import annotations

import hashlib
import io
import json
import re
import shutil
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

from apertus_image.debian import deb
from apertus_image.patch.lock import relock
from apertus_image.pins import lockfile
from apertus_image.pins.names import store_name
from apertus_image.store.paths import fixed_output_path
from support import debs, pinned
from support.checkouts import commit, git, repository
from support.images import PROJECT, STORE
from support.wheels import row

REV = "f" * 40
NAR_HASH = f"sha256-{'A' * 43}="


def clone(folder: Path) -> Path:
    """This project as it is, as a git repository of its own."""
    names = git(PROJECT, "ls-files", "--cached", "--others", "--exclude-standard", "-z")
    repository(folder, {})
    for name in filter(None, names.split("\0")):
        if (PROJECT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(PROJECT / name, folder / name, follow_symlinks=False)
    commit(folder, "the project")
    return folder


def changed(project: Path, change: Callable[[Path], None], folder: Path) -> Path:
    """A copy of a clone with one more commit."""
    shutil.copytree(project, folder, symlinks=True)
    change(folder)
    commit(folder, change.__name__)
    return folder


def replace(file: Path, old: str, new: str) -> None:
    """Change one text in a file."""
    text = file.read_text()
    assert old in text, f"{file} has no {old}"
    file.write_text(text.replace(old, new))


def lock(project: Path, name: str, change: Callable[[dict], None]) -> None:
    """Change a lock and write it as tools/lock would."""
    file = project / f"nix/pins/{name}.json"
    data = json.loads(file.read_text())
    change(data)
    lockfile.write(data, file)


def stored(folder: Path, name: str, data: bytes) -> dict:
    """Put a file into the store as a pin; the fields of its entry that follow from it."""
    folder.mkdir(exist_ok=True)
    file = folder / store_name(name)
    file.write_bytes(data)
    STORE.add_file(file)
    return {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}


def entry(project: Path, name: str, section: str, pin: str) -> dict:
    data = json.loads((project / f"nix/pins/{name}.json").read_text())
    return next(each for each in data[section] if each["name"] == pin)


def wheel_remade(project: Path, name: str, version: str, **files: Callable[[bytes], bytes]) -> None:
    """A pinned pure wheel under another version; of its files those named are changed.

    Args:
        files: name without its folder and suffix -> what makes it another.
    """
    old = entry(project, "wheels", "x86_64", name)["version"]
    stem, later = f"{name}-{old}.dist-info", f"{name}-{version}.dist-info"
    out, rows = io.BytesIO(), ""
    with zipfile.ZipFile(pinned.wheel(name)) as source, zipfile.ZipFile(out, "w") as target:
        for member in source.namelist():
            data, path = source.read(member), member.replace(stem, later)
            data = files.get(Path(path).stem, lambda data: data)(data)
            if path == f"{later}/METADATA":
                data = data.replace(f"\nVersion: {old}\n".encode(),
                                    f"\nVersion: {version}\n".encode())
            if path != f"{later}/RECORD":
                rows += row(path, data)
                target.writestr(zipfile.ZipInfo(path), data)
        target.writestr(zipfile.ZipInfo(f"{later}/RECORD"), f"{rows}{later}/RECORD,,\n")
    file = f"{name}-{version}-py3-none-any.whl"
    fields = {"version": version, "file": file}
    fields |= stored(project.parent / "made", file, out.getvalue())
    lock(project, "wheels", lambda data: [each.update(fields) for section in ("x86_64", "aarch64")
                                          for each in data[section] if each["name"] == name])


def wheel_bumped(project: Path) -> None:
    """The pinned click under a higher version, nothing else of it changed."""
    old = entry(project, "wheels", "x86_64", "click")["version"]
    wheel_remade(project, "click", f"{old}.post1")


def package_bumped(project: Path) -> None:
    """The pinned zlib1g, a library, under a higher version; its files are the same."""
    pin = entry(project, "userland", "amd64", "zlib1g")
    version = f"{pin['version']}+audit1"
    file = f"zlib1g_{version.partition(':')[2] or version}_amd64.deb"
    source = STORE.physical(fixed_output_path(
        store_name(pin["path"].rpartition("/")[2]), pin["sha256"]))
    control = deb.control_files(source)
    control["control"] = re.sub(rb"(?m)^Version: .*$", f"Version: {version}".encode(),
                                control["control"])
    with deb.open_member(source, "data.tar") as tar:
        members = io.BytesIO()
        with tarfile.open(fileobj=members, mode="w", format=tarfile.GNU_FORMAT) as out:
            for info in tar:
                data = tar.extractfile(info).read() if info.isreg() else b""
                out.addfile(info, io.BytesIO(data))
    made = debs.ar({
        "debian-binary": b"2.0\n",
        "control.tar": debs.tar([debs.file(name, data) for name, data in control.items()]),
        "data.tar": members.getvalue()})
    fields = {"version": version, "path": f"pool/main/z/zlib/{file}"}
    fields |= stored(project.parent / "made", file, made)
    lock(project, "userland", lambda data: [each.update(fields) for each in data["amd64"]
                                            if each["name"] == "zlib1g"])


def patch_line(project: Path) -> None:
    folder = project / "nix/patches/smoke/visible-after-import"
    replace(folder / "patch.diff", "__apertus_smoke__ = True", "__apertus_smoke__ = 'audited'")
    relock([folder], lambda name, _version: pinned.wheel(name))


def environment_value(project: Path) -> None:
    replace(project / "nix/image.nix", '"LANG=C.UTF-8"', '"LANG=C"')


def maker_revision(project: Path) -> None:
    data = json.loads((project / "flake.lock").read_text())
    node = data["nodes"]["nix2container"]
    replace(project / "flake.nix", node["locked"]["rev"], REV)
    node["original"]["rev"] = REV
    node["locked"] |= {"rev": REV, "narHash": NAR_HASH,
                       "lastModified": node["locked"]["lastModified"] + 1}
    (project / "flake.lock").write_text(json.dumps(data, indent=2) + "\n")


def requirements_without_lock(project: Path) -> None:
    with (project / "nix/pins/requirements.in").open("a") as file:
        file.write("rich\n")


def creation_date(project: Path) -> None:
    lock(project, "wheels", lambda data: data.update(exclude_newer="2026-07-16"))


def readme_alone(project: Path) -> None:
    with (project / "README.md").open("a") as file:
        file.write("\nMore.\n")


def waiver(project: Path) -> None:
    replace(project / "nix/pins/waivers.json", "stray build scripts", "other stray build scripts")


def grouping(project: Path) -> None:
    replace(project / "nix/default.nix",
            'groups = [{ name = "all"; wheels = map (wheel: wheel.name) selection.wheels; }];',
            'groups = [ { name = "low"; wheels = [ "click" "msgpack" ]; } { name = "high"; wheels ='
            ' lib.filter (name: !lib.elem name [ "click" "msgpack" ]) '
            "(map (wheel: wheel.name) selection.wheels); } ];")


def summary_of_a_patch(project: Path) -> None:
    """The derivation of the overlay moves, and its bytes do not."""
    replace(project / "nix/patches/smoke/visible-after-import/patch.json", "Adds a name",
            "Adds one name")
