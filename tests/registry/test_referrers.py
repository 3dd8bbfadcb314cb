"""Documents by an image's digest, with and without a registry that knows referrers."""

from __future__ import annotations

import json

import pytest
from apertus_image.errors import UserError
from apertus_image.registry.client import Client
from apertus_image.registry.push import push
from apertus_image.registry.reference import Reference
from apertus_image.registry.referrers import attach, referrers
from apertus_image.registry.source import from_image
from fakes import registry as fake
from support.distribution import inspect, running
from support.pushing import four_layers

RECORD, SBOM = "application/vnd.example.record+json", "application/spdx+json"


@pytest.fixture
def image(tmp_path):
    return four_layers(tmp_path, 1000)


@pytest.fixture(params=["knows referrers", "does not"])
def subject(request, bench, image):
    """An image in a registry; its reference by digest."""
    bench.registry.subjects = request.param == "knows referrers"
    target = Reference(bench.registry.host, "team/image", "1")
    return push(from_image(image), target, bench.client()).reference


def test_what_is_attached_is_listed(bench, subject):  # case 47
    first = attach(bench.client(), subject, RECORD, b'{"a":1}', {"b": "2", "a": "1"})
    second = attach(bench.client(), subject, SBOM, b'{"b":1}')
    assert first.fallback == second.fallback == (not bench.registry.subjects)
    listed = referrers(bench.client(), subject)
    assert [each.digest for each in listed] == [first.reference.digest, second.reference.digest]
    only = referrers(bench.client(), subject, SBOM)
    assert [each.digest for each in only] == [second.reference.digest]
    kind, data = bench.registry.manifests[first.reference.digest]
    manifest = json.loads(data)
    assert manifest["subject"]["digest"] == subject.digest
    assert manifest["artifactType"] == manifest["layers"][0]["mediaType"] == RECORD
    assert list(manifest["annotations"]) == ["a", "b"]
    assert bench.registry.blobs[manifest["layers"][0]["digest"]] == b'{"a":1}'


def test_attaching_twice_lists_once(bench, subject):
    first = attach(bench.client(), subject, RECORD, b"{}")
    assert attach(bench.client(), subject, RECORD, b"{}").reference == first.reference
    assert len(referrers(bench.client(), subject)) == 1
    tag = subject.digest.replace(":", "-")
    if bench.registry.subjects:
        assert tag not in bench.registry.manifests
    else:
        assert len(json.loads(bench.registry.manifests[tag][1])["manifests"]) == 1


def test_nothing_is_attached_to_an_image_that_is_not_there(bench):
    missing = Reference(bench.registry.host, "team/image", digest="sha256:" + "0" * 64)
    with pytest.raises(UserError, match="no such image"):
        attach(bench.client(), missing, RECORD, b"{}")
    assert referrers(bench.client(), missing) == []


def test_another_clients_entry_is_kept(bench, image):
    target = Reference(bench.registry.host, "team/image", "1")
    subject = push(from_image(image), target, bench.client()).reference
    attach(bench.client(), subject, SBOM, b"{}")
    tag = subject.digest.replace(":", "-")
    before = bench.registry.manifests[tag]

    def overwritten(handler, body):
        handler.serve(body)
        bench.registry.manifests[tag] = before  # as another client that read earlier writes

    bench.registry.fault("PUT", tag, overwritten)
    attach(bench.client(), subject, RECORD, b"{}")
    assert len(referrers(bench.client(), subject)) == 2
    bench.registry.fault("PUT", tag, overwritten, 99)
    with pytest.raises(UserError, match="written over"):
        attach(bench.client(), subject, RECORD, b"[]")


def test_pages_are_followed(bench, image):
    bench.registry.subjects = True
    target = Reference(bench.registry.host, "team/image", "1")
    subject = push(from_image(image), target, bench.client()).reference
    attach(bench.client(), subject, RECORD, b"{}")
    page = {"manifests": [{"mediaType": "a/b", "digest": "sha256:" + "2" * 64, "size": 1}]}
    bench.registry.fault("GET", "referrers", fake.answer(
        200, json.dumps(page), Link='</v2/team/image/referrers/' + subject.digest
        + '?page=2>; rel="next"'))
    assert len(referrers(bench.client(), subject)) == 2


def test_on_the_real_registry(image, tmp_path):
    with running(tmp_path / "registry") as registry:
        target, client = Reference(registry.host, "a", "1"), Client(registry.host)
        subject = push(from_image(image), target, client).reference
        done = [attach(client, subject, RECORD, b"{}") for _ in range(2)]
        attach(client, subject, SBOM, b"[]")
        assert [each.added for each in done] == [True, False] and done[0].fallback
        assert {each.more["artifactType"] for each in referrers(client, subject)} == {RECORD, SBOM}
        assert inspect(subject)["Digest"] == subject.digest
