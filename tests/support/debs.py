"""Tiny Debian packages for tests, made byte by byte, with members dpkg-deb would refuse too."""

from __future__ import annotations

import gzip
import io
import lzma
import tarfile
from pathlib import Path

import zstandard

PACK = {
    "tar": lambda data: data,
    "gz": lambda data: gzip.compress(data, mtime=0),
    "xz": lzma.compress,
    "zst": lambda data: zstandard.ZstdCompressor().compress(data),
}
MERGED = ("bin", "lib", "lib64", "sbin")

Member = tuple[str, bytes, dict]


def file(path: str, text: str | bytes = "", mode: int = 0o644) -> Member:
    return path, text.encode() if isinstance(text, str) else text, {"mode": mode}


def folder(path: str, mode: int = 0o755) -> Member:
    return path, b"", {"type": tarfile.DIRTYPE, "mode": mode}


def link(path: str, target: str) -> Member:
    return path, b"", {"type": tarfile.SYMTYPE, "linkname": target, "mode": 0o777}


def hard(path: str, target: str, mode: int = 0o644) -> Member:
    return path, b"", {"type": tarfile.LNKTYPE, "linkname": target, "mode": mode}


def device(path: str) -> Member:
    return path, b"", {"type": tarfile.CHRTYPE, "mode": 0o666}


def tar(members: list[Member], **everywhere: object) -> bytes:
    """A GNU tar of members, `./` put before paths that are plain."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for path, data, fields in members:
            info = tarfile.TarInfo(path if path.startswith(("/", ".")) else f"./{path}")
            info.size = len(data)
            for key, value in {**fields, **everywhere}.items():
                setattr(info, key, value)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def ar(members: dict[str, bytes]) -> bytes:
    """An ar archive as dpkg-deb writes it."""
    out = b"!<arch>\n"
    for name, data in members.items():
        head = f"{name:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(data):<10}`\n".encode()
        out += head + data + b"\n" * (len(data) % 2)
    return out


def make(
    where: Path, name: str, members: list[Member], *, version: str = "1.0",
    architecture: str = "amd64", compression: str = "xz", control: str = "",
    scripts: dict[str, str] | None = None, **everywhere: object,
) -> dict:
    """Write a package; give its pin as a builder's spec has it.

    Args:
        control: more lines of its control file.
        scripts: files of control.tar besides `control`.
        everywhere: fields that all tar headers of data.tar get (uid, mtime and so on).
    """
    where.mkdir(parents=True, exist_ok=True)
    text = (f"Package: {name}\nVersion: {version}\nArchitecture: {architecture}\n"
            f"Maintainer: A Test <test@example.org>\nDescription: a test's\n{control}")
    files = [file("control", text), *(file(k, v, 0o755) for k, v in (scripts or {}).items())]
    suffix = "" if compression == "tar" else f".{compression}"
    deb = where / f"{name}_{version}_{architecture}.deb"
    deb.write_bytes(ar({
        "debian-binary": b"2.0\n",
        f"control.tar{suffix}": PACK[compression](tar([folder("."), *files])),
        f"data.tar{suffix}": PACK[compression](tar([folder("."), *members], **everywhere)),
    }))
    return {"name": name, "architecture": architecture, "path": str(deb)}


def base_files(where: Path, **options) -> dict:
    """What base-files has: the merged root's links, and /etc."""
    members = [folder("etc"), folder("usr"), file("etc/debian_version", "13.8\n"),
               folder("run"), folder("var/lock", 0o1777), folder("var/run")]
    for name in MERGED:
        members += [folder(f"usr/{name}"), link(name, f"usr/{name}")]
    return make(where, "base-files", members, scripts={"postinst": "#!/bin/sh\n"}, **options)


def base_passwd(where: Path, **options) -> dict:
    """What base-passwd has: the masters of passwd and group."""
    return make(where, "base-passwd", [
        file("usr/share/base-passwd/passwd.master", "root:*:0:0:root:/root:/bin/bash\n"),
        file("usr/share/base-passwd/group.master", "root:*:0:\n"),
    ], **options)
