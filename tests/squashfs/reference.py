"""What Enroot's importer makes of an OCI layout, and what lies in a SquashFS file.

The way is the importer's own (notes on Enroot, 1, and seen by running it): GNU tar unpacks every
layer into a folder of its own, chmod mends the modes, whiteouts become marks, and the folders are
laid over each other as overlayfs does, the topmost first. Nothing of the export is used here.

Four differences from Enroot are meant:
- folders get u+w at every depth; Enroot stops at the 14th (at the 4th up to 3.5.0);
- below /dev absolute names are dropped too; Enroot's pattern overlooks them;
- a whiteout in a folder that is nowhere else just hides nothing, as in Enroot 3; 4 stops at it;
- an opaque mark at the root and a device stop the import; overlayfs overlooks the one, and
  `enroot create` fails on the other.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import stat
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import zstandard

CHUNK = 1 << 16
GENERATED = ("/etc/environment", "/etc/fstab", "/etc/rc", "/etc/rc.local")
TAR = ["tar", "--warning=no-timestamp", "--anchored", "--exclude=dev/*", "--exclude=./dev/*",
       "--exclude=/dev/*", "--delay-directory-restore", "-pxf", "-", "-C"]


class Stops(Exception):
    """The importer stops here."""


class Entry(NamedTuple):
    """One path of an imported tree.

    Attributes:
        mode: type and permissions as `ls -l` writes them.
        owner: UID/GID.
        size: bytes of a file, None where the text is the exporter's own.
        target: of a link.
        content: a digest of a file's bytes, None as for the size.
    """

    mode: str
    owner: str = "0/0"
    size: int | None = 0
    target: str = ""
    content: str | None = ""


def imported(layout: Path, work: Path) -> dict[str, Entry]:
    """path -> entry of what Enroot makes of a layout's image.

    Raises:
        Stops: with the importer's reason.
    """
    config, blobs = _image(layout)
    folders = [work / "0"]
    _folder_0(folders[0], config)
    for number, blob in enumerate(reversed(blobs), 1):
        folders.append(work / str(number))
        _unpack(blob, folders[-1])
    if any((folder / ".wh..wh..opq").exists() for folder in folders):
        raise Stops("an opaque root")
    tree = {"/": _entry(folders[0])}
    try:
        _merge([os.fsencode(folder) for folder in folders], b"/", tree)
    except OSError as error:  # a path that is too long
        raise Stops(str(error)) from error
    return {path: entry._replace(size=None, content=None) if path in GENERATED else entry
            for path, entry in tree.items()}


def _image(layout: Path) -> tuple[Mapping[str, Any], list[Path]]:
    def blob(descriptor: Mapping[str, Any]) -> Path:
        return layout / "blobs" / descriptor["digest"].replace(":", "/")

    index = json.loads((layout / "index.json").read_text())
    manifest = json.loads(blob(index["manifests"][0]).read_text())
    config = json.loads(blob(manifest["config"]).read_text())
    return config.get("config") or {}, [blob(each) for each in manifest["layers"]]


def _folder_0(folder: Path, config: Mapping[str, Any]) -> None:
    """The importer's own files, in a folder that lies over every layer."""
    workdir = Path(f"{folder}/{(config.get('WorkingDir') or '/').lstrip('/')}")
    subprocess.run(["mkdir", "-p", folder / "etc", workdir], check=True, umask=0o022)
    for path in GENERATED:
        (folder / path[1:]).touch()
        (folder / path[1:]).chmod(0o644)


def _unpack(blob: Path, folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o755)
    with subprocess.Popen([*TAR, folder], stdin=subprocess.PIPE, stderr=subprocess.PIPE,
                          umask=0o022, env={"PATH": os.environ["PATH"], "LC_ALL": "C"}) as tar:
        try:
            for chunk in _plain(blob):
                tar.stdin.write(chunk)
            tar.stdin.close()
        except BrokenPipeError:
            pass
        said = tar.stderr.read().decode(errors="replace")
    if tar.returncode:
        raise Stops(said)
    subprocess.run(["chmod", "-f", "-R", "u+rX", folder], check=True)
    subprocess.run(["find", folder, "-type", "d", "!", "-perm", "-u=w",
                    "-exec", "chmod", "-f", "u+w", "{}", "+"], check=True)


def _plain(blob: Path) -> Iterator[bytes]:
    """A layer's tar, whatever the media type says."""
    with blob.open("rb") as data:
        start = data.read(4)
        data.seek(0)
        stream = (gzip.GzipFile(fileobj=data) if start[:2] == b"\x1f\x8b" else
                  zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True)
                  if start == b"\x28\xb5\x2f\xfd" else data)
        while chunk := stream.read(CHUNK):
            yield chunk


def _merge(folders: list[bytes], path: bytes, tree: dict[str, Entry]) -> None:
    """Put what the folders, topmost first, show under `path` into the tree."""
    listed = [set(os.listdir(folder)) for folder in folders]
    hidden = [_whiteouts(folder, names) for folder, names in zip(folders, listed, strict=True)]
    for name in sorted(set().union(*listed)):
        if name.startswith(b".wh."):
            continue
        below: list[bytes] = []
        for folder, names, gone in zip(folders, listed, hidden, strict=True):
            here = os.path.join(folder, name)
            if name in names:
                is_folder = stat.S_ISDIR(os.lstat(here).st_mode)
                if is_folder or not below:
                    below.append(here)
                if not is_folder or b".wh..wh..opq" in os.listdir(here):
                    break
            if name in gone:
                break
        if below:
            where = os.path.join(path, name)
            tree[os.fsdecode(where)] = _entry(below[0])
            if stat.S_ISDIR(os.lstat(below[0]).st_mode):
                _merge(below, where, tree)


def _whiteouts(folder: bytes, names: set[bytes]) -> set[bytes]:
    """The names that a folder of one layer hides in lower layers."""
    gone = set()
    for name in names:
        here = os.path.join(folder, name)
        if not name.startswith(b".wh."):
            if stat.S_IFMT(os.lstat(here).st_mode) in (stat.S_IFCHR, stat.S_IFBLK):
                raise Stops(f"a device: {here!r}")
            continue
        if stat.S_ISDIR(os.lstat(here).st_mode) and os.listdir(here):
            raise Stops(f"a whiteout that holds something: {here!r}")
        if name == b".wh..wh..opq":
            continue
        if name.startswith(b".wh..wh.") or name[4:] in (b"", b".", b".."):
            raise Stops(f"unsupported whiteout: {here!r}")
        if name[4:] in names:
            raise Stops(f"a whiteout beside what it hides: {here!r}")
        gone.add(name[4:])
    return gone


def _entry(path: bytes | Path) -> Entry:
    status = os.lstat(path)
    mode = stat.filemode(status.st_mode)
    if stat.S_ISREG(status.st_mode):
        return Entry(mode, size=status.st_size, content=content(path))
    if stat.S_ISLNK(status.st_mode):
        return Entry(mode, target=os.fsdecode(os.readlink(os.fsencode(path))))
    return Entry(mode)


def content(path: bytes | Path) -> str:
    """A digest of a file's bytes that costs nothing for holes."""
    digest, zeros = hashlib.sha256(), bytes(CHUNK)
    with open(path, "rb", buffering=0) as data:
        end, at = os.fstat(data.fileno()).st_size, 0
        while at < end:
            try:
                at = os.lseek(data.fileno(), at, os.SEEK_DATA) // CHUNK * CHUNK
            except OSError:  # a hole up to the end
                break
            data.seek(at)
            part = data.read(CHUNK)
            if part != zeros[: len(part)]:
                digest.update(b"%d:" % at + part)
            at += CHUNK
    return digest.hexdigest()


LINE = re.compile(rb"(\S{10}) (\d+/\d+) +(\d+|\d+, *\d+) \d{4}-\d\d-\d\d \d\d:\d\d "
                  rb"squashfs-root(/.*)?")


def found(file: Path, programs: Path, work: Path) -> dict[str, Entry]:
    """path -> entry of a SquashFS file, as unsquashfs lists and unpacks it.

    Args:
        programs: folder of unsquashfs.
        work: a folder for what is unpacked, which must not exist.
    """
    run = {"check": True, "capture_output": True, "env": {"LC_ALL": "C.UTF-8"}}
    subprocess.run([programs / "unsquashfs", "-quiet", "-no-progress", "-d", work, file], **run)
    text = subprocess.run([programs / "unsquashfs", "-lln", file], **run).stdout
    tree = {}
    for line in text.split(b"\n"):
        if (match := LINE.fullmatch(line)) is None:
            continue
        mode, owner, size, name = match.groups()
        path, target = name or b"/", b""
        if mode.startswith(b"l"):  # either part may hold an arrow
            path, target = next(
                (path[:at.start()], path[at.end():]) for at in re.finditer(b" -> ", path)
                if os.path.islink(os.fsencode(work) + path[:at.start()])
                and os.readlink(os.fsencode(work) + path[:at.start()]) == path[at.end():])
        here = os.fsencode(work) + path
        is_file = mode.startswith(b"-")
        tree[os.fsdecode(path)] = Entry(
            mode.decode(), owner.decode(), int(size) if is_file else 0, os.fsdecode(target),
            content(here) if is_file else "")
    return tree


def differences(got: Mapping[str, Entry], wanted: Mapping[str, Entry]) -> list[str]:
    """What differs, one line each; what `wanted` leaves open is not compared."""
    lines = []
    for path in sorted({*got, *wanted}):
        here, there = got.get(path), wanted.get(path)
        if here and there and there.size is None:
            here = here._replace(size=None, content=None)
        if here != there:
            lines.append(f"{path!r}: {here} where Enroot has {there}")
    return lines
