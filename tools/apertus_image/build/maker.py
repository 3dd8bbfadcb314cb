"""Which program makes the layers: nix2container, or the emitter in its place.

Both give the same image JSON, byte for byte (design decision 5); where nix2container's
source cannot be had, the build goes on without it, and says so.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import requests

from apertus_image.errors import UserError
from apertus_image.store.paths import fixed_output_path
from apertus_image.store.store import Store

__all__ = ["INPUT", "Maker", "choose", "folder_url", "locked_source", "source"]

INPUT = "nix2container"
ANSWER_SECONDS = 3.0
PATH = "/:@!$&'()*+,;="


@dataclass(frozen=True)
class Maker:
    """What makes the layers of a build.

    Attributes:
        name: `nix2container` or `emitter`.
        why: half a sentence for the user.
        arguments: what `nix build` needs to be told for it.
    """

    name: str
    why: str
    arguments: tuple[str, ...] = ()


def locked_source(project: Path) -> tuple[str, str]:
    """The store path that flake.lock pins nix2container's source to, and its URL.

    Raises:
        UserError: flake.lock does not lock the input.
    """
    lock_file = project / "flake.lock"
    try:
        lock = json.loads(lock_file.read_text())
        node = lock["nodes"][lock["nodes"][lock["root"]]["inputs"][INPUT]]["locked"]
        digest = base64.b64decode(node["narHash"].removeprefix("sha256-")).hex()
        url = f"https://github.com/{node['owner']}/{node['repo']}"
    except (OSError, KeyError, ValueError) as error:
        raise UserError(
            "the flake's lock does not pin nix2container",
            where=lock_file,
            expected=f"a locked github input named {INPUT}",
            got=f"{type(error).__name__}: {error}",
            next_step="git checkout flake.lock",
        ) from error
    return fixed_output_path("source", digest, recursive=True), url


def choose(
    project: Path,
    store: Store,
    wanted: str = "auto",
    answers: Callable[[str], bool] | None = None,
) -> Maker:
    """Take nix2container if its source is in the store or GitHub answers, else the emitter.

    Args:
        project: root of the clone.
        wanted: `auto`, or the name of the maker that must be taken.
        answers: says whether a URL can be reached; a test's own, or a HEAD request.

    Raises:
        UserError: nix2container was asked for by name and cannot be had.
    """
    path, url = locked_source(project)
    emitter = ("--override-input", INPUT, folder_url((project / "nix/emitter").resolve()),
               "--no-write-lock-file")
    if wanted == "emitter":
        return Maker("emitter", "asked for", emitter)
    if store.valid([path]):
        return Maker(INPUT, "its locked source is in the store")
    if (answers or _answers)(url):
        return Maker(INPUT, "GitHub answers, so Nix fetches its locked source")
    if wanted == INPUT:
        raise UserError(
            "nix2container's source cannot be had",
            where=path,
            expected="the source in the store, or an answer from GitHub",
            got=f"neither within {ANSWER_SECONDS:.0f} s",
            next_step="bring it with: nix flake archive --to URL, or build with --maker emitter",
        )
    return Maker(
        "emitter", "nix2container's source is not in the store and GitHub does not answer", emitter
    )


def folder_url(folder: Path) -> str:
    """A folder as a flake's URL, in which a space or a percent sign has to be quoted.

    What may stand there stays (RFC 3986, "pchar"): Nix 2.8 does not undo any quoting, so it has no
    URL at all for a path with a space.
    """
    return f"path:{quote(str(folder), safe=PATH)}"


def source(project: Path, store: Store) -> Path:
    """nix2container's source tree, fetched by Nix if it is not there yet."""
    path, _ = locked_source(project)
    if not store.valid([path]):
        command = ["nix", *store.nix_args(), "flake", "archive", str(project)]
        result = subprocess.run(command, env=os.environ | store.environment(project))
        if result.returncode:
            raise UserError("Nix cannot fetch nix2container's source", where=path,
                            next_step="tools/build --maker emitter")
    return store.physical(path)


def _answers(url: str) -> bool:
    try:
        return requests.head(url, timeout=ANSWER_SECONDS, allow_redirects=False).ok
    except requests.RequestException:
        return False
