"""dpkg's database, so that `dpkg -l` and scanners see what the root is made of."""

from __future__ import annotations

from apertus_image.debian.unpack import Root

__all__ = ["write"]


def write(root: Root, packages: dict[str, dict[str, bytes]]) -> None:
    """Write status, and list and md5sums of each package.

    Args:
        packages: name -> files of its control archive.
    """
    paragraphs = []
    for name in sorted(packages):
        control = packages[name]
        text = control["control"].decode().strip("\n")
        head, _, rest = text.partition("\n")
        paragraphs.append(f"{head}\nStatus: install ok installed\n{rest}\n")
        same = "Multi-Arch: same" in text
        architecture = next(line.split(": ")[1] for line in text.splitlines()
                            if line.startswith("Architecture: "))
        stem = f"var/lib/dpkg/info/{name}" + (f":{architecture}" if same else "")
        root.write(f"{stem}.list", "".join(f"{path}\n" for path in root.listed[name]))
        if "md5sums" in control:
            root.write(f"{stem}.md5sums", control["md5sums"])
    root.write("var/lib/dpkg/status", "\n".join(paragraphs))
    root.write("var/lib/dpkg/available", "")
    root.write("var/lib/dpkg/info/format", "1\n")
