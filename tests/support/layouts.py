"""OCI image layouts for tests: layers described member by member, and what can be wrong with them.

A layer is a list of members, each of which says what its tar header says: nothing is sorted,
tidied, implied or left out. Source: image-spec 1.1, layer.md and image-layout.md.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import zstandard

CHUNK = 1 << 20
END = b"\0" * 1024
PLAIN = "application/vnd.oci.image.layer.v1.tar"
GZIP, ZSTD = f"{PLAIN}+gzip", f"{PLAIN}+zstd"
DOCKER_GZIP = "application/vnd.docker.image.rootfs.diff.tar.gzip"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
WHEN = 1_600_000_000


@dataclass(frozen=True)
class Member:
    """One member of a tar: its header's bytes, its data, and zeros after that.

    Attributes:
        head: the header blocks, extended headers among them.
        data: what follows, without padding.
        zeros: bytes of zeros after the data, made while streaming.
    """

    head: bytes
    data: bytes = b""
    zeros: int = 0

    def stream(self) -> Iterator[bytes]:
        yield self.head
        yield self.data
        left = self.zeros
        while left:
            step = min(left, CHUNK)
            yield bytes(step)
            left -= step
        yield bytes(-(len(self.data) + self.zeros) % tarfile.BLOCKSIZE)


def _member(name: str | bytes, kind: bytes, mode: int, data: bytes = b"", target: str = "",
            form: int = tarfile.GNU_FORMAT, zeros: int = 0, **fields: Any) -> Member:
    text = name.decode(errors="surrogateescape") if isinstance(name, bytes) else name
    info = tarfile.TarInfo(text)
    info.type, info.mode, info.linkname = kind, mode, target
    info.size, info.mtime, info.uid, info.gid = len(data) + zeros, WHEN, 1234, 5678
    for field, value in fields.items():
        setattr(info, field, value)
    return Member(info.tobuf(form, "utf-8", "surrogateescape"), data, zeros)


def file(name: str | bytes, data: bytes | str = b"", mode: int = 0o644, **fields: Any) -> Member:
    text = data.encode() if isinstance(data, str) else data
    return _member(name, tarfile.REGTYPE, mode, text, **fields)


def typed(name: str, kind: bytes, data: str = "", mode: int = 0o644) -> Member:
    """A member with a type flag of the test's choice."""
    return _member(name, kind, mode, data.encode())


def gnu_times(name: str, data: str) -> Member:
    """A file as GNU tar writes it for incremental backups: times where ustar has a prefix."""
    made = file(name, data)
    return _changed(made, 345, b"%011o\0" % WHEN * 2)


def sized(field: bytes) -> Member:
    """An empty file with this in its header's size."""
    return _changed(file("sized"), 124, field)


def _changed(member: Member, at: int, data: bytes) -> Member:
    """A member whose header has other bytes there, under a true checksum."""
    head = bytearray(member.head)
    head[at : at + len(data)] = data
    head[148:156] = b" " * 8
    head[148:156] = b"%06o\0 " % sum(head[:512])
    return replace(member, head=bytes(head))


def folder(name: str | bytes, mode: int = 0o755, **fields: Any) -> Member:
    return _member(name, tarfile.DIRTYPE, mode, **fields)


def link(name: str | bytes, target: str, mode: int = 0o777, **fields: Any) -> Member:
    return _member(name, tarfile.SYMTYPE, mode, target=target, **fields)


def hard(name: str | bytes, target: str, mode: int = 0o644, **fields: Any) -> Member:
    """A hard link to a member of the same layer, or to what isn't there."""
    return _member(name, tarfile.LNKTYPE, mode, target=target, **fields)


def fifo(name: str | bytes, mode: int = 0o644) -> Member:
    return _member(name, tarfile.FIFOTYPE, mode)


def device(name: str | bytes, major: int = 1, minor: int = 3, *, block: bool = False,
           mode: int = 0o666) -> Member:
    return _member(name, tarfile.BLKTYPE if block else tarfile.CHRTYPE, mode,
                   devmajor=major, devminor=minor)


def gone(name: str) -> Member:
    """A whiteout: what lower layers have under this name is not there."""
    parent, slash, last = name.rpartition("/")
    return file(f"{parent}{slash}.wh.{last}", mode=0o600)


def opaque(name: str) -> Member:
    """An opaque folder: nothing that lower layers have in it is there."""
    return file(f"{name}/.wh..wh..opq" if name else ".wh..wh..opq", mode=0o600)


def zero_tail(name: str, start: bytes, size: int) -> Member:
    """A file of `size` bytes that is zeros after its start, stored in full."""
    return _member(name, tarfile.REGTYPE, 0o644, start, zeros=size - len(start))


def gnu_sparse(name: str, size: int, extents: Mapping[int, bytes]) -> Member:
    """GNU's old sparse format: up to four extents in the header itself (tar manual, D.3)."""
    data = b"".join(extents.values())
    ends = dict(extents) | ({} if size in extents else {size: b""})
    head = bytearray(_member(name, b"S", 0o644, data).head)
    position = 386
    for offset, part in list(ends.items())[:4]:
        head[position : position + 24] = _number(offset) + _number(len(part))
        position += 24
    return _changed(Member(bytes(head), data), 483, _number(size))


def _number(value: int) -> bytes:
    """Twelve bytes: octal, or base 256 from 8 GiB on."""
    if value < 8**11:
        return b"%011o\0" % value
    return b"\x80" + value.to_bytes(11, "big")


def pax_sparse(name: str, size: int, extents: Mapping[int, bytes]) -> Member:
    """PAX's sparse format 1.0: the map stands before the data (tar manual, D.3.3)."""
    ends = dict(extents) | ({} if size in extents else {size: b""})
    numbers = [len(ends), *(number for offset, part in ends.items()
                            for number in (offset, len(part)))]
    table = "".join(f"{number}\n" for number in numbers).encode()
    table += bytes(-len(table) % tarfile.BLOCKSIZE)
    parent, slash, last = name.rpartition("/")
    return _member(f"{parent}{slash}GNUSparseFile.0/{last}", tarfile.REGTYPE, 0o644,
                   table + b"".join(extents.values()), form=tarfile.PAX_FORMAT,
                   pax_headers={"GNU.sparse.major": "1", "GNU.sparse.minor": "0",
                                "GNU.sparse.name": name, "GNU.sparse.realsize": str(size)})


@dataclass(frozen=True)
class Layer:
    """A layer as a layout holds it.

    Attributes:
        blob: its bytes, as stored.
        media_type: what the manifest says it is.
        diff_id: what the config says is the digest of its tar.
        digest, size: what the manifest says of the blob; None for the truth.
    """

    blob: bytes
    media_type: str
    diff_id: str
    digest: str | None = None
    size: int | None = None


def digest(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


def layer(*members: Member, compression: str = "none", end: bytes = END, **wrong: Any) -> Layer:
    """A layer of these members.

    Args:
        compression: none, gzip, members (gzip in several members), zstd, or frames (zstd in
            several frames).
        end: what closes the tar; nothing, for one that just stops.
        wrong: fields of Layer that shall not be true.
    """
    diff, out = hashlib.sha256(), io.BytesIO()
    with _encoder(compression, out) as encoded:
        for member in members:
            for chunk in member.stream():
                diff.update(chunk)
                encoded.write(chunk)
        diff.update(end)
        encoded.write(end)
    media_type = {"none": PLAIN, "gzip": GZIP, "members": GZIP}.get(compression, ZSTD)
    made = Layer(out.getvalue(), media_type, "sha256:" + diff.hexdigest())
    return replace(made, **wrong)


def _encoder(compression: str, out: io.BytesIO):
    if compression == "none":
        return _Open(out)
    if compression == "gzip":
        return gzip.GzipFile(fileobj=out, mode="wb", compresslevel=1, mtime=0)
    if compression == "zstd":
        return zstandard.ZstdCompressor(level=1).stream_writer(out, closefd=False)
    one = (lambda part: gzip.compress(part, 1, mtime=0)) if compression == "members" else (
        zstandard.ZstdCompressor(level=1).compress)
    return _Parts(out, one)


class _Open:
    """A stream that `with` doesn't close."""

    def __init__(self, out: io.BytesIO) -> None:
        self.out = out

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def write(self, data: bytes) -> None:
        self.out.write(data)


class _Parts(_Open):
    """Every 700 bytes a gzip member, or a zstd frame, of their own."""

    def __init__(self, out: io.BytesIO, one) -> None:
        super().__init__(out)
        self.one, self.kept = one, b""

    def __exit__(self, *_):
        for start in range(0, len(self.kept), 700):
            self.out.write(self.one(self.kept[start : start + 700]))

    def write(self, data: bytes) -> None:
        self.kept += data


def layout(root: Path, layers: Iterable[Layer], config: Mapping[str, Any] | None = None,
           architecture: str = "amd64", **config_fields: Any) -> Path:
    """Write an OCI image layout of one image, without annotations.

    Args:
        config: the image's `config` (Env, Cmd, ...).
        config_fields: of the config blob, in place of what is true.
    """
    layers = list(layers)
    blobs = root / "blobs/sha256"
    blobs.mkdir(parents=True)

    def store(data: bytes, media_type: str, **wrong: Any) -> dict[str, Any]:
        told = wrong.get("digest") or digest(data)
        (blobs / told.partition(":")[2]).write_bytes(data)
        size = wrong.get("size")
        return {"mediaType": media_type, "digest": told,
                "size": len(data) if size is None else size}

    blob = json.dumps({
        "created": "2026-07-15T00:00:00Z", "architecture": architecture, "os": "linux",
        "config": dict(config or {}),
        "rootfs": {"type": "layers", "diff_ids": [each.diff_id for each in layers]},
        # docker-registry 2.8 answers 400 to Enroot's first probe where there is no history.
        "history": [{"created_by": "a test"} for _ in layers],
        **config_fields}).encode()
    manifest = json.dumps({
        "schemaVersion": 2, "mediaType": MANIFEST, "config": store(blob, CONFIG),
        "layers": [store(each.blob, each.media_type, digest=each.digest, size=each.size)
                   for each in layers]}).encode()
    (root / "index.json").write_text(json.dumps({
        "schemaVersion": 2, "mediaType": INDEX, "manifests": [store(manifest, MANIFEST)]}))
    (root / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    return root
