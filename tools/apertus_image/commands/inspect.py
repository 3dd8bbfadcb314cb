"""tools/inspect: what an export or an image is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from apertus_image.build.run import programs, work
from apertus_image.commands.images import found
from apertus_image.commands.project import PROJECT, maker_option, setup_option, store_option
from apertus_image.errors import UserError
from apertus_image.oci.image import Image
from apertus_image.record.beside import Beside
from apertus_image.record.record import Record
from apertus_image.squashfs.describe import describe_export, describe_image
from apertus_image.squashfs.source import StoredImage
from apertus_image.store.store import Store
from apertus_image.ui.errors import command_errors
from apertus_image.ui.progress import size

__all__ = ["main"]


@click.command()
@click.argument("file", default=str(work(PROJECT) / "result"), metavar="[FILE]")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
@maker_option
@store_option
@setup_option
@command_errors
def main(file: str, as_json: bool, wanted: str, store: Store) -> None:
    """Say what FILE is: a .sqsh, an image JSON (default: result), an OCI layout's folder.

    Identity, labels, Python environments, layers and size, without mounting it. Nothing is
    hashed: tools/export-sqsh did that, and the record beside the file, its own or its release's,
    says so.

    \b
    Example:
      tools/inspect apertus-image-0.25.1-0123456789ab.sqsh
    """
    if file.endswith(".sqsh"):
        described = describe_export(Path(file), programs(PROJECT, store, wanted))
        if described["record"] == "none":
            described |= _released(Path(file), described["size"])
    elif file.endswith(".record.json"):
        raise UserError("a record is read as it is", where=file,
                        next_step="cat it; or name the .sqsh beside it")
    else:
        source = found(file, store)
        image = Image.load(Path(file)) if isinstance(source, StoredImage) else None
        described = describe_image(source, image, store.physical)
    click.echo(json.dumps(described, indent=1) if as_json else "\n".join(_lines(described)))


def _released(file: Path, size: int) -> dict[str, Any]:
    """What the record of a release says of its export; nothing where there is none."""
    beside = Beside.of(file)
    if beside is None or not beside.record.is_file():
        return {}
    try:
        data = Record.parse(beside.record.read_bytes(), beside.record).data
    except (OSError, UserError):
        return {"record": "damaged: tools/verify says how"}
    if data["squashfs"]["size"] != size:
        return {"record": "of another file"}
    image = data["image"]
    return {"record": beside.record.name, "identity": data["identity"],
            "image": image["config"], "architecture": image["architecture"],
            "sha256": data["squashfs"]["sha256"].removeprefix("sha256:"),
            "settings": data["squashfs"]["settings"], "layers": image["layers"]}


def _lines(described: dict[str, Any]) -> list[str]:
    def line(name: str, value: object) -> str:
        return f"{name and name + ':':<14}{value}"

    def each(name: str, values: list[str]) -> list[str]:
        return [line("" if number else name, value) for number, value in enumerate(values)]

    lines = [line(key.replace("_", " "), described[key])
             for key in ("kind", "identity", "image", "content_id", "architecture", "sha256",
                         "check", "record", "entries", "workdir") if described.get(key) is not None]
    if described["size"]:
        lines.append(line("size", f"{size(described['size'])} ({described['size']} bytes)"))
    lines += each("labels", [f"{key}={value}" for key, value in described["labels"].items()])
    lines += each("env", described["env"])
    lines += each("environments", [f"{one['path']}, {one['packages']} packages"
                                   for one in described["environments"]])
    lines += each("layers", [" ".join(filter(None, [
        one["digest"], f"{size(one['size']):>9}" if "size" in one else "", one.get("what")]))
        for one in described["layers"]])
    return [text.rstrip() for text in lines]


if __name__ == "__main__":
    main(prog_name="tools/inspect")
