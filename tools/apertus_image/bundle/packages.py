"""The tools' own Python packages, installed from pinned wheels by pypa/installer."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from installer import install as install_wheel
from installer.destinations import SchemeDictionaryDestination
from installer.sources import WheelFile

from apertus_image.errors import UserError
from apertus_image.fetch.plan import Input
from apertus_image.wheel.source import NO_WHEEL

__all__ = ["FOLDER", "install"]

FOLDER = "lib/python3/dist-packages"
"""Where Debian's Python looks, below the folder it is started from (its site.py)."""


def install(wheels: Iterable[tuple[Input, Path]], folder: Path) -> None:
    """Install wheels into `folder/FOLDER`: no scripts, no bytecode.

    Scripts would name their interpreter by an absolute path, and no tool starts one.

    Args:
        wheels: (pin, file); the file's name is the store's.

    Raises:
        UserError: a file is no wheel, or its RECORD does not match.
    """
    target, aside, renamed = (folder / name for name in (FOLDER, "scripts", "wheels"))
    for path in (target, aside, renamed):
        path.mkdir(parents=True, exist_ok=True)  # Debian's pip is there already
    for each, file in wheels:
        # The store's name may be mangled, and installer reads the wheel's (trap 3).
        named = renamed / each.pin.file
        named.symlink_to(file)
        try:
            with WheelFile.open(named) as wheel:
                wheel.validate_record()
                install_wheel(
                    wheel, SchemeDictionaryDestination(
                        {"purelib": str(target), "platlib": str(target), "data": str(aside),
                         "headers": str(aside), "scripts": str(aside)},
                        interpreter="python3", script_kind="posix"),
                    additional_metadata={"INSTALLER": b"apertus-image\n"})
        except NO_WHEEL as error:
            raise UserError("a wheel cannot be installed", where=each.pin.file, got=error,
                            next_step="tools/lock tools") from error
    for record in target.glob("*.dist-info/RECORD"):  # installer's order is each version's own
        record.write_text("".join(sorted(record.read_text().splitlines(keepends=True))))
    shutil.rmtree(aside)
    shutil.rmtree(renamed)
