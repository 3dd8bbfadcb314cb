"""What each step takes as done, where the machine alone cannot know."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from types import SimpleNamespace

import pytest
from apertus_image.errors import UserError
from apertus_image.place.whole import write_whole
from apertus_image.record.sign import fingerprint, sign
from apertus_image.release.context import Context
from apertus_image.release.state import Done, Folder
from apertus_image.release.steps import steps


class Store:
    """A store that holds these paths."""

    def __init__(self, *paths):
        self.paths = set(paths)

    def valid(self, paths):
        return self.paths & set(paths)


def step(name, tmp_path, **changed):
    """One step of a release whose surroundings are made up."""
    given = {"project": tmp_path, "profile": SimpleNamespace(image="smoke-image", registry=None),
             "store": Store(), "maker": None, "folder": Folder(tmp_path / "release"),
             "gate": None, "application": None, "bring": lambda _name: None,
             "progress": lambda _label, _total: lambda _count: None, "say": lambda _line: None}
    return next(each for each in steps(Context(**given | changed)) if each.name == name)


def test_an_image_of_other_code_or_at_another_place_is_not_the_one_that_was_built(tmp_path):
    result = {"json": "/nix/store/i", "source": "/nix/store/at-a"}

    def holds(store, path):
        code = path and SimpleNamespace(path=path)
        return step("build", tmp_path, store=store, application=code).holds({}, result)

    there = Store("/nix/store/i")
    assert holds(there, "/nix/store/at-a")
    assert not holds(there, "/nix/store/at-b")
    assert not holds(there, None)
    assert not holds(Store(), "/nix/store/at-a")


def test_inputs_that_are_gone_are_brought_again_unless_the_image_is_there(tmp_path):
    folder = Folder(tmp_path / "release")
    folder.make()
    result = step("prefetch", tmp_path, bring=lambda _name: "/nix/store/in").run({})

    def holds(*paths):
        return step("prefetch", tmp_path, folder=folder, store=Store(*paths)).holds({}, result)

    assert holds("/nix/store/in") and not holds()
    folder.write("build", Done({"json": "/nix/store/i"}, "", {}))
    assert holds("/nix/store/i") and not holds()


@pytest.fixture
def signed(tmp_path):
    """A release's folder with a record, signed by the first of two keys; what its step noted."""
    if not shutil.which("ssh-keygen"):
        pytest.skip("not run: ssh-keygen is not here")
    keys = [tmp_path / name for name in ("mine", "other")]
    for key in keys:
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    folder = Folder(tmp_path / "release")
    folder.make()
    documents = {"r.record.json": b"{}", "r.record.json.sig": sign(b"{}", keys[0])}
    for name, data in documents.items():
        (folder.files / name).write_bytes(data)
    return folder, keys, {"name": "r", "documents": {
        name: hashlib.sha256(data).hexdigest() for name, data in documents.items()}}


def test_a_record_signed_by_another_key_is_signed_again(signed, tmp_path):
    folder, (mine, other), result = signed

    def holds(key, result=result):
        return step("record", tmp_path, folder=folder, key=key).holds({}, result)

    assert holds(None) and holds(mine) and not holds(other)
    unsigned = {"name": "r", "documents": dict(list(result["documents"].items())[:1])}
    assert holds(None, unsigned) and not holds(mine, unsigned)
    (folder.files / "r.record.json.sig").write_text("")
    assert not holds(mine)


def test_another_keys_signature_that_is_published_is_neither_replaced_nor_passed_over(
        signed, tmp_path):
    folder, (mine, other), result = signed
    profile = SimpleNamespace(registry=None, publish=tmp_path / "published", readable="all")
    (folder.files / "e.sqsh").write_bytes(b"e")
    results = {"record": result, "export": {
        "file": "e.sqsh", "record": {"sha256": hashlib.sha256(b"e").hexdigest()}}}
    published = profile.publish / "r.record.json.sig"

    def publish(key):
        step("publish", tmp_path, folder=folder, profile=profile, key=key).run(results)
        return published.read_bytes()

    first = publish(mine)
    assert publish(mine) == first
    theirs = sign(b"{}", other)
    write_whole(folder.files / "r.record.json.sig", theirs)  # as the step before would
    with pytest.raises(UserError, match="signature by another key") as refused:
        publish(other)
    assert fingerprint(other) in refused.value.expected and refused.value.got == fingerprint(mine)
    assert published.read_bytes() == first == publish(None)
    published.unlink()
    assert publish(other) == theirs
