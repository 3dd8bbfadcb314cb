"""Whether a revision's patches fit the wheels that it pins: told without a build (case 30)."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from apertus_image.errors import UserError
from apertus_image.fetch.plan import Input, wheels
from apertus_image.patch.data import Patch
from apertus_image.patch.lock import folders
from apertus_image.store.store import Store
from apertus_image.tree.machine import MACHINES

__all__ = ["Tried", "tried"]


@dataclass
class Tried:
    """What trying the patches gave.

    Attributes:
        faults: each with the patch, the file and the hunk, as far as they are known.
        count: patches that were tried on a wheel.
        unseen: file names of patched wheels that are not in the store.
    """

    faults: list[UserError] = field(default_factory=list)
    count: int = 0
    unseen: list[str] = field(default_factory=list)


def tried(project: Path, store: Store) -> Tried:
    """Try every patch on every machine's pinned wheel, in the order of the series.

    Args:
        project: root of a revision's files.
    """
    done = Tried()
    pinned = _pinned(project)
    state: dict[tuple[str, str], bytes | None] = {}
    try:
        listed = folders(project / "nix/patches")
    except (UserError, OSError, ValueError) as error:
        done.faults.append(_unreadable(error, project / "nix/patches/series.json"))
        return done
    for folder in listed:
        try:
            patch = Patch.load(folder / "patch.json", folder / "patch.diff")
        except (UserError, OSError, ValueError) as error:
            done.faults.append(_unreadable(error, folder))
            continue
        found = [each for each in pinned or () if each.name == patch.wheel]
        done.faults += _other_versions(patch, found) if pinned is not None else ()
        files = {each.store_path: store.physical(each.store_path) for each in found}
        here = {path: file for path, file in files.items() if file.is_file()}
        done.count += bool(here)
        faults = [fault for path, file in here.items() for fault in _on(patch, path, file, state)]
        done.faults += {str(each): each for each in faults}.values()  # once for all machines
        done.unseen += [each.pin.file for each in found
                        if each.store_path not in here and each.pin.file not in done.unseen]
    return done


def _pinned(project: Path) -> list[Input] | None:
    """The wheels; None where their lock is of no use, which is another's finding."""
    try:
        file = project / "nix/pins/wheels.json"
        return [each for machine in MACHINES for each in wheels(file, machine)]
    except UserError:
        return None


def _other_versions(patch: Patch, pinned: Iterable[Input]) -> Iterator[UserError]:
    versions = sorted({each.version for each in pinned})
    if versions != [patch.version]:
        yield UserError(
            "a patch is for another version of its wheel" if versions else
            "a patch is for a wheel that is not pinned", where=patch.name,
            expected=f"{patch.wheel} {patch.version}",
            got=f"{patch.wheel} {', '.join(versions)}" if versions else None,
            next_step="see that its diff is right there, set its version and take its hashes out "
            "of patch.json, then tools/lock patches")


def _on(patch: Patch, wheel: str, file: Path, state: dict[tuple[str, str], bytes | None]
        ) -> Iterator[UserError]:
    """One patch on one wheel.

    Args:
        state: the wheels' files after the patches before; None for one that could not be had.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            names = set(archive.namelist())
            for path in patch.files:
                if (wheel, path) not in state and path in names:
                    state[wheel, path] = archive.read(path)
    except (OSError, zipfile.BadZipFile) as error:
        yield UserError("a patched wheel cannot be read", where=file, got=error,
                        next_step=f"nix-store --delete {wheel}, then tools/prefetch")
        return
    for path in patch.files:
        if (wheel, path) not in state:
            yield UserError("a patch changes a file that the wheel does not have",
                            where=f"{patch.name}, {path}", next_step="write the patch anew")
        elif (before := state[wheel, path]) is not None:
            state[wheel, path] = None
            try:
                # First without the hashes: what does not fit is told by its hunk.
                state[wheel, path] = patch.changed(path, before)
                patch.apply(path, before)
            except UserError as error:
                yield error


def _unreadable(error: Exception, where: Path) -> UserError:
    return error if isinstance(error, UserError) else UserError(
        "a patch cannot be read", where=where, got=error, next_step="git checkout it")
