"""Publication: finished files under names that last, for others to read, never one replaced."""

from __future__ import annotations

import contextlib
import errno
import filecmp
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Mapping
from pathlib import Path

from apertus_image.errors import UserError, raise_all
from apertus_image.place.whole import synced
from apertus_image.squashfs.final import name_it, remove_left, workplace

__all__ = ["made", "point", "publish"]

FILE_MODES = {"all": 0o444, "group": 0o440}
FOLDER_MODES = {"all": 0o2755, "group": 0o2750}


def publish(files: Mapping[str, Path], folder: Path, readable: str = "all",
            stays: Callable[[str], bool] = lambda _name: False) -> list[Path]:
    """Put files into a folder, each whole and synced before it has its name.

    A hard link where that can be, else a copy. Modes do not depend on the umask; the folder is
    setgid, so that files are its group's. What killed runs left of these names is removed.

    Args:
        files: name below the folder -> the file.
        readable: `all` or `group`.
        stays: whether a file of this name that is there stays, whatever its bytes.

    Raises:
        UserError: a name is another file's, or the folder cannot be written.
    """
    pairs = [(source, folder / name) for name, source in files.items()]
    raise_all((UserError("a published file has this name and other bytes", where=target,
                         expected=f"no file, or the bytes of {source}",
                         next_step="names carry the identity, so one of the two was changed: "
                         "tools/verify says which")
               for name, (source, target) in zip(files, pairs, strict=True)
               if target.exists() and not stays(name) and not source.samefile(target)
               and not filecmp.cmp(source, target, shallow=False)),
              "{n} published files are others")
    try:
        for each in sorted({target.parent for _, target in pairs}):
            made(each, readable)
        for source, target in pairs:
            remove_left(target)
            if not target.exists():
                _put(source, target, FILE_MODES[readable])
        for each in {target.parent for _, target in pairs}:
            synced(each)
    except OSError as error:
        raise UserError("the files cannot be published", where=error.filename2 or error.filename
                        or folder, got=error.strerror,
                        next_step="another folder in the profile, or make room") from error
    return [target for _, target in pairs]


def made(folder: Path, readable: str) -> None:
    """Make a folder, and those it lies in, that its readers can enter whatever the umask.

    One that is there only becomes readable: who may write there, its owner has said.

    Raises:
        OSError: it cannot be made.
    """
    mode = FOLDER_MODES[readable]
    if not folder.is_dir():
        if not folder.parent.is_dir():
            made(folder.parent, readable)
        folder.mkdir(mode & 0o777, exist_ok=True)
        folder.chmod(mode)
    elif (now := stat.S_IMODE(folder.stat().st_mode)) | mode != now:
        with contextlib.suppress(PermissionError):  # it is another user's, who chose
            folder.chmod(now | mode)


def point(folder: Path, name: str, file: str) -> None:
    """Make the link NAME in a folder lead to FILE beside it, at once.

    Args:
        folder: the published one.
        name: the link's.
        file: a file's name there, or its path.

    Raises:
        UserError: FILE is not a file there, or not what NAME promises by its `.sqsh`; or NAME is a
            file: what is published stays.
    """
    given, path = file, Path(file)
    if path.is_absolute() and path.parent.resolve() == folder.resolve():
        file = path.name
    at = folder / file  # a pointer is none: it could lead to itself
    if Path(file).name != file or at.is_symlink() or not at.is_file():
        raise UserError("no such file is published", where=folder, got=given,
                        expected="the name of a file there, or its whole path",
                        next_step="tools/release prints it when it has published")
    if name.endswith(".sqsh") and not file.endswith(".sqsh"):
        raise UserError("the pointer would lead to what is no image", where=folder / name,
                        expected="a .sqsh", got=given,
                        next_step="name the .sqsh, or choose another --name")
    if Path(name).name != name or ((folder / name).exists() and not (folder / name).is_symlink()):
        raise UserError("the pointer's name is taken", where=folder / name,
                        expected="a name that is free, or a link's",
                        next_step="choose another --name")
    part = folder / f".{name}.{secrets.token_hex(4)}"
    try:
        part.symlink_to(file)
        part.replace(folder / name)
    except OSError as error:
        raise UserError("the pointer cannot be moved", where=folder / name,
                        got=error.strerror) from error
    finally:
        part.unlink(missing_ok=True)


def _put(source: Path, target: Path, mode: int) -> None:
    with workplace(target) as work:
        part = work / "file"
        try:
            # A link has the file's own group and owner; a copy takes the folder's group.
            if source.stat().st_gid != target.parent.stat().st_gid:
                raise OSError(errno.EXDEV, "another group")
            os.link(source, part)
        except OSError:
            shutil.copyfile(source, part)
            try:
                shutil.chown(part, group=target.parent.stat().st_gid)
            except PermissionError:  # not one of the folder's group; all others may read it anyway
                if not mode & stat.S_IROTH:
                    raise
        name_it(part, target, replace=False, mode=mode)  # another of the same bytes may be first
