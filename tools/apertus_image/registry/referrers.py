"""Documents attached to an image by its digest (distribution-spec, "Listing Referrers" and
"Pushing Manifests with Subject").

Where a registry does not know referrers, the client keeps their list under a tag made of the
subject's digest ("Referrers Tag Schema").
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urljoin, urlsplit

from apertus_image.errors import UserError
from apertus_image.oci import gojson
from apertus_image.oci.layout import INDEX_TYPES, Descriptor
from apertus_image.registry.auth import scope_of
from apertus_image.registry.blobs import from_bytes
from apertus_image.registry.client import Client
from apertus_image.registry.manifest import FORMATS, Manifest
from apertus_image.registry.pull import fetch_manifest
from apertus_image.registry.push import send_blobs
from apertus_image.registry.reference import Reference
from apertus_image.registry.reply import Reply

__all__ = ["Attached", "artifact", "attach", "referrers"]

INDEX = INDEX_TYPES[0]
EMPTY = from_bytes(b"{}")  # image-spec, manifest.md, "Guidance for an Empty Descriptor"
EMPTY_TYPE = "application/vnd.oci.empty.v1+json"
TRIES = 3  # of writing a list that other clients write as well
MOST_PAGES = 100


@dataclass(frozen=True)
class Attached:
    """What was attached.

    Attributes:
        reference: of the artifact's manifest, by digest.
        fallback: whether its list is kept under a tag, the registry not knowing referrers.
        added: whether the list did not have it.
    """

    reference: Reference
    fallback: bool
    added: bool


def artifact(subject: Manifest, artifact_type: str, data: bytes,
             annotations: dict[str, str] | None = None) -> Manifest:
    """The manifest of a document about an image: bytes that depend on these alone.

    Args:
        artifact_type: a media type, also the document's own.
    """
    blob = from_bytes(data)
    fields: dict[str, Any] = {
        "schemaVersion": 2, "mediaType": FORMATS["oci"].manifest, "artifactType": artifact_type,
        "config": {"mediaType": EMPTY_TYPE, "digest": EMPTY.digest, "size": EMPTY.size},
        "layers": [{"mediaType": artifact_type, "digest": blob.digest, "size": blob.size}],
        "subject": subject.descriptor()}
    if annotations:
        fields["annotations"] = dict(sorted(annotations.items()))
    return Manifest(gojson.compact(fields).encode(), FORMATS["oci"].manifest)


def attach(client: Client, subject: Reference, artifact_type: str, data: bytes,
           annotations: dict[str, str] | None = None,
           say: Callable[[str], None] = lambda _line: None) -> Attached:
    """Attach a document to an image that is in a registry; once, however often it is asked.

    Args:
        subject: by digest.

    Raises:
        UserError: the image is not there, or the registry refuses.
    """
    repository, scope = subject.repository, scope_of(subject.repository)
    client.ping(scope)
    made = artifact(fetch_manifest(client, subject), artifact_type, data, annotations)
    send_blobs([from_bytes(data), EMPTY], repository, client, say=say)
    # Put even where it is there: the answer says who keeps the list.
    reply = client.send("PUT", client.url(repository, "manifests", made.digest), scope,
                        headers={"Content-Type": made.media_type}, body=made.data,
                        expect=(200, 201, 202))
    reference = subject.at(made.digest)
    if reply.headers.get("OCI-Subject"):
        return Attached(reference, fallback=False, added=True)
    entry = {**made.descriptor(), "artifactType": artifact_type,
             **({"annotations": dict(sorted(annotations.items()))} if annotations else {})}
    return Attached(reference, fallback=True, added=_list(client, subject, entry))


def referrers(client: Client, subject: Reference, artifact_type: str = "") -> list[Descriptor]:
    """What is attached to an image, of one type or of any.

    Args:
        subject: by digest.

    Raises:
        UserError: the list cannot be read.
    """
    scope = scope_of(subject.repository, "pull")
    client.ping(scope)
    url = client.url(subject.repository, "referrers", subject.digest)
    found: list[dict[str, Any]] = []
    for _ in range(MOST_PAGES):
        reply = client.send("GET", url, scope, headers={"Accept": INDEX}, expect=(200, 404))
        if reply.status == 404:
            found = _tagged(client, subject)
            break
        found += _entries(reply)
        following = _next(reply)
        if following is None:
            break
        url = following
    distinct = {each.get("digest"): each for each in found}
    return [Descriptor.parse(each, str(subject)) for each in distinct.values()
            if artifact_type in ("", each.get("artifactType"))]


def _tag(subject: Reference) -> str:
    return subject.digest.replace(":", "-")


def _tagged(client: Client, subject: Reference) -> list[dict[str, Any]]:
    reply = client.send("GET", client.url(subject.repository, "manifests", _tag(subject)),
                        scope_of(subject.repository, "pull"), headers={"Accept": INDEX},
                        expect=(200, 404))
    return _entries(reply) if reply.status == 200 else []


def _entries(reply: Reply) -> list[dict[str, Any]]:
    listed = (reply.json() or {}).get("manifests")
    if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
        raise UserError("a registry's list of referrers is malformed", where=reply.url,
                        expected="an index", got=reply.headers.get("Content-Type"))
    return listed


def _next(reply: Reply) -> str | None:
    """The next page of a list, on the same host (RFC 8288: <URL>; rel="next")."""
    target, _, relation = reply.headers.get("Link", "").partition(">")
    if 'rel="next"' not in relation and "rel=next" not in relation:
        return None
    url = urljoin(reply.url, target.strip().removeprefix("<"))
    return url if urlsplit(url).netloc == urlsplit(reply.url).netloc else None


def _list(client: Client, subject: Reference, entry: dict[str, Any]) -> bool:
    """Add to the list under the tag; False if it is there. Registries have no lock for it, so it
    is read again, and written again where another client wrote over it."""
    added = False
    for _ in range(TRIES):
        entries = _tagged(client, subject)
        if any(each.get("digest") == entry["digest"] for each in entries):
            return added
        index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": [*entries, entry]}
        client.send("PUT", client.url(subject.repository, "manifests", _tag(subject)),
                    scope_of(subject.repository), headers={"Content-Type": INDEX},
                    body=json.dumps(index, separators=(",", ":")).encode(), expect=(200, 201, 202))
        added = True
    if any(each.get("digest") == entry["digest"] for each in _tagged(client, subject)):
        return True
    raise UserError("the list of an image's documents keeps being written over",
                    where=f"{client.host}/{subject.repository}:{_tag(subject)}",
                    next_step="run it again when no other client attaches to the same image")
