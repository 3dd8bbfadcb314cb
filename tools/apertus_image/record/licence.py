"""Under which licences a package is, by what it says itself.

A wheel says it in METADATA (core metadata: License-Expression, License, classifiers), a Debian
package in its copyright file (copyright-format 1.0, where it keeps to it).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from email.parser import HeaderParser
from pathlib import Path

from cyclonedx.spdx import fixup_id, is_expression

__all__ = ["Licences", "of_copyright", "of_metadata"]

PREFIX = "License :: "
COMMON = re.compile(r"/usr/share/common-licenses/([0-9A-Za-z.+-]*[0-9A-Za-z])")
FAMILY = re.compile(r"(A?GPL|LGPL|GFDL)-?(\d(?:\.\d)?)(\+?)")
LONGEST_NAME = 80  # a License field may hold the whole text

# Classifiers and words that say one licence and not a family of them.
WORDS = {
    "Apache 2.0": "Apache-2.0", "Apache License 2.0": "Apache-2.0", "MIT License": "MIT",
    "Apache License, Version 2.0": "Apache-2.0", "Apache Software License 2.0": "Apache-2.0",
    "MIT No Attribution License (MIT-0)": "MIT-0", "ISC License (ISCL)": "ISC",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0", "The Unlicense (Unlicense)": "Unlicense",
    "GNU General Public License v3 (GPLv3)": "GPL-3.0-only",
    "GNU General Public License v3 or later (GPLv3+)": "GPL-3.0-or-later",
    "GNU General Public License v2 or later (GPLv2+)": "GPL-2.0-or-later",
    "GNU Lesser General Public License v3 (LGPLv3)": "LGPL-3.0-only",
    "Boost Software License 1.0 (BSL-1.0)": "BSL-1.0", "zlib/libpng License": "Zlib",
}
# Debian's short names that are others than SPDX's (copyright-format 1.0, "License name").
DEBIAN = {"Expat": "MIT", "Apache-2": "Apache-2.0", "BSD-2-clause": "BSD-2-Clause",
          "BSD-3-clause": "BSD-3-Clause", "BSD-4-clause": "BSD-4-Clause", "ZLIB": "Zlib"}


@dataclass(frozen=True)
class Licences:
    """What is known of a package's licences.

    Attributes:
        names: SPDX ids where there is one, else the package's own words; sorted.
        expression: an SPDX expression instead of names, where the package has one.
        unknown: why nothing is known, where nothing is.
    """

    names: tuple[str, ...] = ()
    expression: str = ""
    unknown: str = ""


def of_metadata(file: Path) -> Licences:
    """Of an installed wheel.

    Args:
        file: the METADATA in its dist-info.
    """
    fields = HeaderParser().parsestr(file.read_text(encoding="utf-8", errors="replace"))
    if expression := fields.get("License-Expression"):
        return Licences(expression=str(expression).strip())
    said = [line.rpartition(" :: ")[2] for line in map(str, fields.get_all("Classifier", []))
            if line.startswith(PREFIX) and line != f"{PREFIX}OSI Approved"]
    own = str(fields.get("License") or "").strip()
    if own and "\n" not in own and len(own) <= LONGEST_NAME and own.upper() != "UNKNOWN":
        # Closer than a classifier, of which many name a family alone.
        if fixup_id(own) is None and is_expression(own):
            return Licences(expression=own)
        said = [own]
    names = {WORDS.get(each, each) for each in said}
    if names:
        return Licences(tuple(sorted(fixup_id(each) or each for each in names)))
    return Licences(unknown="its METADATA names none" if not own else
                    "its METADATA holds a text instead of a name")


def of_copyright(file: Path) -> Licences:
    """Of a Debian package.

    Args:
        file: /usr/share/doc/PACKAGE/copyright, in the image's tree.
    """
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return Licences(unknown="it has no copyright file")
    if text.startswith("Format:") and "copyright-format" in text.partition("\n")[0]:
        names = {_debian(name) for line in text.splitlines() if line.startswith("License:")
                 for name in re.split(r",? and |,? or |, ", line.partition(":")[2].strip())}
        if names := names - {""}:
            return Licences(tuple(sorted(names)))
    reason = "its copyright file is free text"
    if pointed := ", ".join(sorted(set(COMMON.findall(text)))):
        # Of which parts, only a reader can tell: Python's own points at the GPL alone.
        reason += f", which points at {pointed}"
    return Licences(unknown=reason)


def _debian(name: str) -> str:
    """A short name of Debian's as SPDX's, where there is one."""
    name = name.strip().rstrip(".,")
    if family := FAMILY.fullmatch(name):
        kind, version, later = family.groups()
        version = version if "." in version else f"{version}.0"
        spdx = f"{kind}-{version}-{'or-later' if later else 'only'}"
        return fixup_id(spdx) or name
    return fixup_id(DEBIAN.get(name, name)) or name
