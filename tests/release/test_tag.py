"""The tag of a release: the last that is put, and never taken from another image."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from types import SimpleNamespace

import pytest
from apertus_image.errors import UserError
from apertus_image.oci.layout import INDEX_TYPES
from apertus_image.registry.client import Client
from apertus_image.registry.manifest import FORMATS
from apertus_image.registry.push import push
from apertus_image.registry.reference import Reference
from apertus_image.registry.source import from_image
from apertus_image.release.context import Context
from apertus_image.release.state import Folder
from apertus_image.release.steps import steps
from fakes import registry as fake
from support.pushing import image, layer, tree

OWN = "r_1"
"""The tag of the release r+1."""


@dataclass
class Bench:
    """A release that is pushed as v2s2, and a registry.

    Attributes:
        manifests: of the image by form, and one of an `other` image.
        said: lines for the user.
    """

    registry: fake.Registry
    context: Context
    manifests: dict
    said: list[str]

    def name(self, tag, what):
        """Let a tag name an image, or an index of some."""
        found = self.manifests.get(what)
        self.registry.manifests[tag] = (found.media_type, found.data) if found else (
            INDEX_TYPES[0], b'{"schemaVersion": 2, "manifests": []}')

    def publish(self, **settings):
        """Run the step; what it gives."""
        self.context.profile.registry = {
            "host": self.registry.host, "repository": "t/i", **settings}
        return steps(self.context)[-1].run({
            "record": {"name": "r+1", "documents": {}},
            "push": {"pushed": "v2s2", "manifests": {
                form: self.manifests[form].digest for form in FORMATS}},
            "export": {"file": "e", "record": {"sha256": hashlib.sha256(b"e").hexdigest()}}})

    def is_mine(self, tag):
        return self.registry.manifests[tag][1] == self.manifests["v2s2"].data


@pytest.fixture
def bench(tmp_path):
    sources = [from_image(image([layer(tree(tmp_path / name, {f"opt/{name}": name}))]))
               for name in ("mine", "other")]
    manifests = {form: sources[0].manifest(form) for form in FORMATS}
    manifests["other"] = sources[1].manifest("v2s2")
    folder, said = Folder(tmp_path / "release"), []
    folder.make()
    (folder.files / "e").write_bytes(b"e")
    context = Context(
        project=tmp_path, store=None, maker=None, folder=folder, gate=None, application=None,
        bring=None, progress=lambda _label, _total: lambda _count: None, say=said.append,
        profile=SimpleNamespace(publish=tmp_path / "published", readable="all"))
    context.source = lambda _results: sources[0]
    with fake.serve() as registry:
        for each in sources:
            push(each, Reference(registry.host, "t/i"), Client(registry.host))
        yield Bench(registry, context, manifests, said)


def test_it_is_the_releases_name(bench):
    assert bench.publish()["tag"] == OWN
    assert bench.is_mine(OWN) and not bench.said
    bench.registry.asked.clear()
    assert bench.publish()["tag"] == OWN
    assert not bench.registry.sent("PUT") and not bench.said


@pytest.mark.parametrize("what", ["other", "index"])
def test_one_that_names_another_image_is_refused_before_anything_is_published(bench, what):
    bench.name(OWN, what)
    before = bench.registry.manifests[OWN]
    with pytest.raises(UserError, match="another image's") as refused:
        bench.publish()
    assert refused.value.got == f"sha256:{hashlib.sha256(before[1]).hexdigest()}"
    assert bench.manifests["v2s2"].digest in refused.value.expected
    assert bench.registry.manifests[OWN] == before
    assert not bench.context.profile.publish.exists()


def test_another_form_of_the_same_image_gives_way_and_is_told(bench):
    bench.name(OWN, "oci")
    assert bench.publish()["tag"] == OWN and bench.is_mine(OWN)
    assert bench.manifests["oci"].digest in bench.said[0]


def test_one_that_the_profile_names_moves_and_that_is_told(bench):
    bench.name("latest", "other")
    assert bench.publish(tag="latest")["tag"] == "latest" and bench.is_mine("latest")
    assert bench.manifests["other"].digest in bench.said[0]
    assert OWN not in bench.registry.manifests
