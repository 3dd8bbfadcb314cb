"""Layers compressed for a registry, with bytes that are the same everywhere.

A compressed layer's digest is that of an encoder's output, and encoders differ: Python's zlib may
be zlib or zlib-ng, and either's output changes between versions. So it is the pinned toolchain's
zstd program that compresses, gzip too, in one thread and with nothing of the environment. The
image ID does not change: it is made of the layers before compression.

A size and a digest are needed before a blob is sent, and there are no image-sized temporary
files, so a layer is compressed twice the first time: once for its digest, which is noted, and
once while it is sent.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from apertus_image.errors import UserError
from apertus_image.registry.blobs import Blob, Reader
from apertus_image.registry.source import Source

__all__ = ["LEVELS", "Encoder", "compressed"]

LEVELS = {"gzip": 6, "zstd": 3}
CHUNK = 1 << 20


@dataclass(frozen=True)
class Encoder:
    """A way to compress.

    Attributes:
        program: zstd of the pinned toolchain.
        kind: `gzip` or `zstd`.
        level: the program's.
    """

    program: Path
    kind: str
    level: int

    @property
    def arguments(self) -> list[str]:
        """What decides the bytes, besides the program."""
        return [f"--format={self.kind}", f"-{self.level}", "--single-thread", "--check"]

    def record(self) -> dict[str, Any]:
        """What a record has to name, so that the same bytes can be made again.

        Raises:
            UserError: the program cannot be run.
        """
        try:
            said = subprocess.run([self.program, "--version"], capture_output=True, text=True,
                                  check=True, env={})
        except (OSError, subprocess.CalledProcessError) as error:
            raise UserError("the compressor cannot be run", where=self.program, got=error,
                            next_step="tools/build --setup") from error
        return {"kind": self.kind, "level": self.level, "arguments": self.arguments,
                "encoder": said.stdout.strip().strip("* "), "program": str(self.program)}

    def chunks(self, plain: Blob) -> Iterator[bytes]:
        """A blob's bytes, compressed; the blob's own digest is checked on the way.

        Raises:
            UserError: the blob is no longer what its digest says, or the program fails.
        """
        command = [self.program, "--quiet", "--stdout", *self.arguments]
        failed: list[BaseException] = []
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, env={}) as process:
            feeder = threading.Thread(target=_feed, args=(plain, process, failed), daemon=True)
            feeder.start()
            try:
                while chunk := process.stdout.read(CHUNK):
                    yield chunk
                feeder.join()
                said = process.stderr.read().decode(errors="replace").strip()
            finally:
                process.kill()  # where the reader has had enough; else it has ended already
                feeder.join()
        if failed:
            raise failed[0]
        if process.returncode:
            raise UserError("the compressor failed", where=self.program, got=said)


def _feed(plain: Blob, process: subprocess.Popen, failed: list[BaseException]) -> None:
    reader, left = Reader(plain), plain.size
    room = memoryview(bytearray(min(CHUNK, plain.size)))
    try:
        # Closing flushes, and fails too where the program has ended.
        with contextlib.suppress(BrokenPipeError), process.stdin as pipe:
            while left:
                piece = room[: min(left, CHUNK)]
                reader.fill(piece)
                pipe.write(piece)
                left -= len(piece)
            reader.check()
    except BaseException as error:  # handed over, and raised where the bytes are read
        failed.append(error)
        process.kill()


def compressed(source: Source, encoder: Encoder, notes: Path | None = None, *,
               workers: int | None = None,
               progress: Callable[[int], None] = lambda _count: None) -> Source:
    """The image with its plain layers compressed; others stay as they are.

    Args:
        notes: folder where digests are noted, so that the next push need not compress for them.
        workers: layers at a time, by default one a processor.
        progress: called with the number of plain bytes that are done.

    Raises:
        UserError: a layer is no longer what its digest says, or the compressor fails.
    """
    version = json.dumps(encoder.record(), sort_keys=True)

    def one(layer: tuple[Blob, str]) -> tuple[Blob, str]:
        plain, kind = layer
        if kind != "tar":
            return layer
        blob = _blob(plain, encoder, _note(notes, plain, version))
        progress(plain.size)
        return blob, encoder.kind

    with ThreadPoolExecutor(workers or os.cpu_count() or 1) as pool:
        layers = tuple(pool.map(one, source.layers))
    return Source(source.config, layers, source.original if layers == source.layers else None)


def _note(notes: Path | None, plain: Blob, version: str) -> Path | None:
    if notes is None:
        return None
    name = hashlib.sha256(f"{plain.digest}\n{version}".encode()).hexdigest()[:32]
    return notes / f"{name}.json"


def _blob(plain: Blob, encoder: Encoder, note: Path | None) -> Blob:
    found = _noted(note)
    if found is None:
        digest, size = hashlib.sha256(), 0
        for chunk in encoder.chunks(plain):
            digest.update(chunk)
            size += len(chunk)
        found = (f"sha256:{digest.hexdigest()}", size)
        if note:
            with contextlib.suppress(OSError):
                note.parent.mkdir(parents=True, exist_ok=True)
                part = note.with_suffix(f".{os.getpid()}-{threading.get_ident()}")
                part.write_text(json.dumps(found))
                part.replace(note)

    def changed(now: tuple[str, int]) -> UserError:
        if note:
            note.unlink(missing_ok=True)
        return UserError("a layer is compressed to other bytes than before",
                         where=f"layer {plain.digest}", expected=f"{found[0]}, {found[1]} bytes",
                         got=f"{now[0]}, {now[1]} bytes",
                         next_step="push again: its digest is made anew")

    return Blob(*found, lambda: encoder.chunks(plain), changed)


def _noted(note: Path | None) -> tuple[str, int] | None:
    try:
        digest, size = json.loads(note.read_bytes()) if note else (None, None)
    except (OSError, ValueError, TypeError):
        return None
    return (digest, size) if isinstance(digest, str) and isinstance(size, int) else None
