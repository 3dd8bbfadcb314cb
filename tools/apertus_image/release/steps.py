"""The steps of a release, each of which can be run again at any time and gives the same result."""

from __future__ import annotations

import contextlib
import hashlib
import json
from pathlib import Path
from typing import Any

from apertus_image.build.run import build
from apertus_image.errors import UserError
from apertus_image.oci.image import Image
from apertus_image.place.lustre import stripe
from apertus_image.record.sign import fingerprint
from apertus_image.registry.client import Client
from apertus_image.registry.manifest import FORMATS
from apertus_image.registry.push import push, put_manifest, tagged
from apertus_image.registry.reference import Reference
from apertus_image.registry.referrers import attach
from apertus_image.registry.state import State, default_folder
from apertus_image.release.context import Context, Results
from apertus_image.release.documents import RECORD, SIGNATURE, Documents, is_makers, signer
from apertus_image.release.publish import made, publish
from apertus_image.squashfs.export import Exporter
from apertus_image.squashfs.source import StoredImage

__all__ = ["steps"]


class _Prefetch:
    name = "prefetch"

    def __init__(self, context: Context) -> None:
        self.context = context

    def run(self, results: Results) -> dict[str, Any]:
        image = self.context.profile.image
        return {"image": image, "inputs": self.context.bring(image)}

    def holds(self, results: Results, result: dict[str, Any]) -> bool:
        """The inputs may go once the image is there."""
        built = self.context.folder.read("build")
        return (result["image"] == self.context.profile.image and bool(self.context.store.valid(
            [result["inputs"], *([built.result["json"]] if built else [])])))


class _Build:
    name = "build"

    def __init__(self, context: Context) -> None:
        self.context = context

    def run(self, results: Results) -> dict[str, Any]:
        context, link = self.context, self.context.folder.path / "image"
        extra = context.application.override() if context.application else ()
        path = build(context.project, context.profile.image, context.store, context.maker,
                     link=link, extra=extra)
        image = Image.load(context.store.physical(str(path)))
        return {"json": str(path), "image": image.image_id, "source": self._source(),
                "layers": [layer.digest for layer in image.layers]}

    def holds(self, results: Results, result: dict[str, Any]) -> bool:
        return (result["source"] == self._source()
                and bool(self.context.store.valid([result["json"]])))

    def _source(self) -> str | None:
        """The user's own code with its place, as a store path: both are in the image."""
        return self.context.application.path if self.context.application else None


class _Push:
    """By digest alone: the tag moves last, when everything else is there."""

    name = "push"

    def __init__(self, context: Context) -> None:
        self.context = context

    def run(self, results: Results) -> dict[str, Any]:
        context, source = self.context, self.context.source(results)
        manifests = {form: source.manifest(form).digest for form in FORMATS}
        if not context.profile.registry:
            return {"pushed": None, "manifests": manifests}
        total = sum(blob.size for blob in source.blobs())
        with context.registry() as (client, target):
            done = push(source, target, client, state=State(default_folder()), say=context.say,
                        form=context.profile.registry.get("format", "auto"),
                        progress=context.progress("pushing", total))
        return {"pushed": done.form, "manifests": manifests}

    def holds(self, results: Results, result: dict[str, Any]) -> bool:
        return not self.context.profile.registry  # what is there already is asked in a second


class _Export:
    name = "export"

    def __init__(self, context: Context) -> None:
        self.context = context

    def run(self, results: Results) -> dict[str, Any]:
        context = self.context
        if word := stripe(context.folder.files).warning:
            context.say(f"warning: {word}")
        exporter = Exporter(context.programs(), progress=context.progress,
                            tell=lambda words: context.say(f"warning: {words}"))
        image = StoredImage(context.image(results), context.store.physical)
        done = exporter.export(image, context.folder.files)
        return {"file": done.path.name, "record": done.record}

    def holds(self, results: Results, result: dict[str, Any]) -> bool:
        return False  # the exporter itself knows an export that is there, and asks its record


class _Check:
    """The lint of the image, and the SHA-256 of the file as it lies there now."""

    name = "check"

    def __init__(self, context: Context) -> None:
        self.context = context

    def run(self, results: Results) -> dict[str, Any]:
        context = self.context
        extra = context.application.override() if context.application else ()
        lint = build(context.project, f"{context.profile.image}-lint", context.store,
                     context.maker, link=None, extra=extra)
        report = json.loads(context.store.physical(str(lint)).read_bytes())
        return {"lint": report["checked"], "sha256": unchanged(context, results)}

    def holds(self, results: Results, result: dict[str, Any]) -> bool:
        return result["sha256"] == results["export"]["record"]["sha256"]


class _Record:
    name = "record"

    def __init__(self, context: Context) -> None:
        self.context = context

    def run(self, results: Results) -> dict[str, Any]:
        documents = Documents(self.context.project, self.context.store, self.context.folder)
        return documents.write(
            gate=self.context.gate, application=self.context.application,
            image=self.context.image(results), results=results, maker=self.context.maker.name,
            key=self.context.key)

    def holds(self, results: Results, result: dict[str, Any]) -> bool:
        files, key, name = self.context.folder.files, self.context.key, result["name"]
        if not all((files / each).is_file() and _sha256(files / each) == sha256
                   for each, sha256 in result["documents"].items()):
            return False
        signature = f"{name}{SIGNATURE}"
        return not key or (signature in result["documents"] and fingerprint(key) == signer(
            files / f"{name}{RECORD}", files / signature))


class _Attach:
    name = "attach"

    def __init__(self, context: Context) -> None:
        self.context = context

    def run(self, results: Results) -> dict[str, Any]:
        context, attached = self.context, {}
        if not context.profile.registry:
            return {"attached": attached}
        digest = results["push"]["manifests"][results["push"]["pushed"]]
        with context.registry() as (client, target):
            for name, kind in results["record"]["types"].items():
                done = attach(client, target.at(digest), kind,
                              (context.folder.files / name).read_bytes(), say=context.say)
                attached[name] = done.reference.digest
        return {"attached": attached}

    def holds(self, results: Results, result: dict[str, Any]) -> bool:
        return not self.context.profile.registry


class _Publish:
    """The file first, then the tag: whoever sees the tag can have all of it."""

    name = "publish"

    def __init__(self, context: Context) -> None:
        self.context = context

    def run(self, results: Results) -> dict[str, Any]:
        context = self.context
        self._refuse_another_signer(results["record"]["name"])
        if not context.profile.registry:
            return {"file": str(self._put(results)), "tag": None}
        with context.registry() as (client, target):
            tag = self._tag(results, client, target)
            file = self._put(results)
            put_manifest(client, target.repository, tag,
                         context.source(results).manifest(results["push"]["pushed"]))
        return {"file": str(file), "tag": tag}

    def _put(self, results: Results) -> Path:
        context, folder = self.context, self.context.profile.publish
        with contextlib.suppress(OSError):  # told below
            made(folder, context.profile.readable)
            if word := stripe(folder).warning:
                context.say(f"warning: {word}")
        sqsh = folder / f"{results['record']['name']}.sqsh"
        if not sqsh.exists():  # what gets the name is what was checked
            unchanged(context, results)
        # What says who made it may be another maker's already: his stays.
        publish({sqsh.name: context.folder.files / results["export"]["file"],
                 **{each: context.folder.files / each for each in results["record"]["documents"]}},
                folder, context.profile.readable, stays=is_makers)
        return sqsh

    def _tag(self, results: Results, client: Client, target: Reference) -> str:
        """The tag: the release's name, which no other image may have, or the profile's own."""
        settings, manifests = self.context.profile.registry, results["push"]["manifests"]
        tag = settings.get("tag") or results["record"]["name"].replace("+", "_")
        found = tagged(client, target.repository, tag)
        if found in ("", manifests[results["push"]["pushed"]]):
            return tag
        where = f"{target.host}/{target.repository}:{tag}"
        if "tag" not in settings and found not in manifests.values():
            raise UserError("the release's tag is another image's", where=where, got=found,
                            expected=f"no such tag, or {' or '.join(manifests.values())}",
                            next_step="the tag carries the content's identity, so somebody pushed "
                            "something else: have it removed, or name a tag in the profile "
                            "(registry.tag), which may move")
        self.context.say(f"{where} named {found} before")
        return tag

    def holds(self, results: Results, result: dict[str, Any]) -> bool:
        return False  # what is published already is compared, and stays

    def _refuse_another_signer(self, name: str) -> None:
        """A published signature stays, so one that was asked for cannot take its place."""
        files, key = self.context.folder.files, self.context.key
        there = self.context.profile.publish / f"{name}{SIGNATURE}"
        if key and there.is_file() and (
                (asked := fingerprint(key)) != (found := signer(files / f"{name}{RECORD}", there))):
            raise UserError("the release is published with a signature by another key",
                            where=there, expected=f"{asked} ({key})", got=found,
                            next_step="leave --sign out, and that signature stays; or remove the "
                            "file, if it is to be yours, and give the same command again")


def unchanged(context: Context, results: Results) -> str:
    """The SHA-256 of the export as it lies there now.

    Raises:
        UserError: it is not what was written.
    """
    file = context.folder.files / results["export"]["file"]
    told, digest = context.progress("hashing", file.stat().st_size), hashlib.sha256()
    with file.open("rb") as data:
        while chunk := data.read(1 << 20):
            digest.update(chunk)
            told(len(chunk))
    if digest.hexdigest() != (expected := results["export"]["record"]["sha256"]):
        raise UserError("the export is no longer what was written", where=file, expected=expected,
                        got=digest.hexdigest(),
                        next_step="look at the disk; remove the file and release again")
    return digest.hexdigest()


def steps(context: Context) -> list[Any]:
    """All, in order."""
    return [each(context) for each in (_Prefetch, _Build, _Push, _Export, _Check, _Record, _Attach,
                                       _Publish)]


def _sha256(file: Path) -> str:
    with file.open("rb") as data:
        return hashlib.file_digest(data, "sha256").hexdigest()
