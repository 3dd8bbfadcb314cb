"""Names of images in registries."""

from __future__ import annotations

import pytest
from apertus_image.errors import UserError
from apertus_image.registry.reference import Reference

DIGEST = "sha256:" + "a1" * 32


@pytest.mark.parametrize(("text", "parts"), [
    ("docker://reg.example:5000/a/b:tag", ("reg.example:5000", "a/b", "tag", "")),
    ("localhost/a", ("localhost", "a", "", "")),
    ("127.0.0.1:1/a-b__c.d/e:V1.0_x", ("127.0.0.1:1", "a-b__c.d/e", "V1.0_x", "")),
    (f"[::1]:5000/a:t@{DIGEST}", ("[::1]:5000", "a", "t", DIGEST)),
    (f"reg.example/a@{DIGEST}", ("reg.example", "a", "", DIGEST)),
])
def test_names_are_taken_apart_and_put_together(text, parts):
    found = Reference.parse(text)
    assert (found.host, found.repository, found.tag, found.digest) == parts
    assert str(found) == text.removeprefix("docker://")


@pytest.mark.parametrize(("text", "why"), [
    ("image:tag", "no registry"), ("team/image", "no registry"), ("", "no registry"),
    ("reg.example/A/b", "lower case"), ("reg.example/a//b", "not allowed"),
    ("reg.example/a:", "tag"), ("reg.example/a:-x", "tag"), ("reg.example/a@sha256:12", "SHA-256"),
    ("reg.example/a@", "SHA-256"), ("reg.example/a:" + "t" * 129, "tag"),
    ("user:pw@reg.example/a", "no registry"), ("https://reg.example/a", "no registry"),
])
def test_what_is_no_name_is_told(text, why):
    with pytest.raises(UserError, match="not the name of an image") as error:
        Reference.parse(text)
    assert why in error.value.got
