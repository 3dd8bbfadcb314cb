"""What was changed is found and named: a byte of the SquashFS, of a layer, of any document."""

from __future__ import annotations

import dataclasses
import json
import shutil

import pytest
from apertus_image.errors import UserError
from apertus_image.oci.image import Image
from apertus_image.oci.layer import stream
from apertus_image.oci.layout import Descriptor, Layout
from apertus_image.record.beside import Beside
from apertus_image.record.report import SAME, UNCHECKED
from apertus_image.record.verify import Verifier
from support.exports import needs_nix
from support.published import SHA256, differing, flip, places, standing

pytestmark = needs_nix


def test_what_was_not_changed_is_the_same_in_every_part(verify):
    report = verify("full")
    assert {item.standing for item in report.items} == {SAME}, report.items
    said = {item.what for item in report.items}
    for part in ("record: schema and form", "record: identity", SHA256, "SquashFS: superblock",
                 "record: digest, as the verdict probe has it", "SBOM: its image",
                 "provenance: subjects", "image ID, made again from the image JSON"):
        assert part in said
    assert sum(what.startswith("layer sha256:") for what in said) == 3
    assert sum(what.endswith("made again") for what in said) == 2
    assert any("says fail" in item.why for item in report.items)


@pytest.mark.parametrize("name", ["sqsh", "record", "attestation", "checksum"])
def test_any_file_of_the_release_leads_to_all_of_it(verify, there, name):
    assert [item.what for item in verify(artefact=getattr(there.files, name)).items] == [
        item.what for item in verify().items]


def test_a_flipped_byte_of_the_squashfs_is_found(verify, there):  # acceptance 4
    for place in places(there.files.sqsh, 7):
        flip(there.files.sqsh, place)
        found = differing(verify("full"))
        assert SHA256 in found and found[SHA256].where == str(there.files.sqsh)
        assert found[SHA256].expected == there.record.data["squashfs"]["sha256"][7:]
        flip(there.files.sqsh, place)
    assert not differing(verify("full"))


def test_a_flipped_byte_of_the_record_is_found_wherever_it_is(verify, there):  # acceptance 4
    for place in places(there.files.record, 60):
        flip(there.files.record, place)
        found = differing(verify())
        assert any(what.startswith("record: ") for what in found), place
        assert all(item.where.startswith(str(there.files.record)) for what, item in found.items()
                   if what.startswith("record: "))
        flip(there.files.record, place)
    assert not differing(verify())


def test_a_flipped_byte_of_a_layer_is_found_and_its_file_named(release, tmp_path):  # acceptance 4
    copies = {str(tree): tmp_path / "copy" / name for name, tree in release.trees.items()}
    for tree, copy in copies.items():
        shutil.copytree(tree, copy, symlinks=True)
    file = tmp_path / "image.json"
    file.write_text(release.image.json())
    verifier = Verifier("full", physical=lambda path: copies[path])
    assert not verifier.verify(str(file)).differs
    changed = next(copies[str(release.trees["python"])].rglob("c.py"))
    flip(changed, 0)
    (found,) = differing(verifier.verify(str(file))).values()
    assert found.what.startswith(f"layer {release.image.layers[1].digest}")
    assert found.where.endswith("/site-packages/c.py: its content")
    assert found.expected != found.got
    flip(changed, 0)
    flip(next(copies[str(release.trees["python"])].rglob("manifests/python-*")), 0)
    (found,) = differing(verifier.verify(str(file))).values()
    assert release.image.layers[1].digest in found.what


@pytest.mark.parametrize("name", ["provenance", "sbom", "checksum", "signature"])
def test_a_flipped_byte_beside_it_is_found(verify, there, name):
    file = getattr(there.files, name)
    if not file.exists():
        pytest.skip("not run: ssh-keygen is not here")
    for place in places(file, 9):
        flip(file, place)
        found = differing(verify("full"))
        # What ends the last line of a signature is no part of it.
        assert bool(found) != (name == "signature" and place == file.stat().st_size - 1), place
        flip(file, place)


@pytest.mark.parametrize("part", [b'"record": "sha256:', b'"started": "', b'"schema": "'])
def test_an_attestation_of_another_record_or_form_is_found(verify, there, part):
    data = there.files.attestation.read_bytes()
    there.files.attestation.write_bytes(data.replace(part, part + b"0", 1))
    assert any("attestation" in what for what in differing(verify()))


def test_a_verdict_of_another_record_is_found(verify, there):
    file = there.files.verdicts / "probe.json"
    data = json.loads(file.read_bytes()) | {"record": f"sha256:{'9' * 64}"}
    file.write_text(json.dumps(data, sort_keys=True, indent=2) + "\n")
    assert list(differing(verify())) == ["record: digest, as the verdict probe has it"]


def test_a_renamed_release_is_found(verify, there):
    other = Beside(there.files.stem.with_name("other"))
    for name in ("sqsh", "record", "signature"):
        if getattr(there.files, name).exists():
            getattr(there.files, name).rename(getattr(other, name))
    found = differing(verify(artefact=other.sqsh))
    assert list(found) == ["record: its own name"] and there.record.name in str(found)


def test_a_pointer_leads_to_what_it_points_at(verify, there, tmp_path):
    (tmp_path / "latest.sqsh").symlink_to(there.files.sqsh)
    assert not verify("full", tmp_path / "latest.sqsh").differs


def test_another_size_and_another_superblock_are_found_at_once(verify, there):
    with there.files.sqsh.open("ab") as file:
        file.write(b"\0")
    assert "SquashFS: size" in differing(verify())
    there.files.sqsh.write_bytes(b"x" * there.record.data["squashfs"]["size"])
    assert differing(verify())["SquashFS: superblock"].why == "not a SquashFS file"


def test_parts_that_are_not_here_are_not_checked(verify, there, release, tmp_path):
    there.files.sqsh.unlink()
    report = verify("full", there.files.record, image=None)
    assert not report.differs
    assert {item.what for item in report.items if item.standing == UNCHECKED} == {
        "the SquashFS", "image ID and layers"}
    for file in (there.files.attestation, there.files.provenance, there.files.signature):
        file.unlink(missing_ok=True)
    shutil.rmtree(there.files.verdicts)
    report = verify(artefact=there.files.record, signers=None)
    assert standing(report, "record: digest") == UNCHECKED


def test_another_image_is_not_taken_for_its_own(verify, release):
    other = dataclasses.replace(release.image, created="2026-07-16T00:00:00Z")
    report = verify("full", image=other)
    assert standing(report, "image ID and layers") == UNCHECKED


def test_a_clone_with_other_pins_is_not_taken_for_its_own(verify, release, tmp_path):
    shutil.copytree(release.project, tmp_path / "project")
    (tmp_path / "project/flake.lock").write_text("{}")
    report = verify("full", project=tmp_path / "project")
    assert not report.differs
    assert sum("other pins" in item.why for item in report.items) == 2


def test_a_missing_signature_is_found_where_one_is_wanted(verify, there, tmp_path):
    there.files.signature.unlink(missing_ok=True)
    (tmp_path / "wanted").write_text("")
    assert "signature" in differing(verify(signers=tmp_path / "wanted"))
    assert not verify(signers=None).differs


def test_a_plain_export_is_compared_with_what_lies_beside_it(verify, exported, tmp_path):
    for file in exported.path.parent.iterdir():
        shutil.copyfile(file, tmp_path / file.name)
    mine = tmp_path / exported.path.name
    assert {item.standing for item in verify("full", mine).items} == {SAME}
    flip(mine, 5000)
    assert list(differing(verify("full", mine))) == [SHA256]


def test_a_layout_is_compared_blob_by_blob(release, tmp_path):
    layout = Layout.create(tmp_path / "layout")
    layers = [_stored(layout, "application/vnd.oci.image.layer.v1.tar", stream(each.paths))
              for each in release.image.layers]
    config = _stored(layout, "application/vnd.oci.image.config.v1+json",
                     [release.image.config_blob()])
    manifest = json.dumps({"schemaVersion": 2, "config": config.json(),
                           "layers": [each.json() for each in layers]}).encode()
    layout.tag(_stored(layout, "application/vnd.oci.image.manifest.v1+json", [manifest]), "v1")
    for name in ("", ":v1"):
        full = Verifier("full").verify(f"{tmp_path}/layout{name}")
        assert len(full.items) == 5 and {item.standing for item in full.items} == {SAME}
    flip(layout.path(layers[0].digest), 600)
    assert not Verifier("quick").verify(f"{tmp_path}/layout").differs
    (found,) = differing(Verifier("full").verify(f"{tmp_path}/layout")).values()
    assert found.what == f"layer {layers[0].digest}" and found.expected == layers[0].digest
    flip(layout.path(config.digest), 0)
    assert f"config {config.digest}" in differing(Verifier("quick").verify(f"{tmp_path}/layout"))


def _stored(layout, media_type, chunks):
    digest, size = layout.add(chunks)
    return Descriptor(media_type, digest, size, {})


@pytest.mark.parametrize(("name", "said"), [
    ("none.sqsh", "no such artefact"), ("alone.sqsh", "no record is beside"),
    ("text.json", "not an image JSON"), ("n" * 300, "cannot be read")])
def test_what_cannot_be_verified_is_one_clear_error(verify, tmp_path, name, said):
    if name in ("alone.sqsh", "text.json"):
        (tmp_path / name).write_text("x")
    with pytest.raises(UserError, match=said) as caught:
        verify("full", tmp_path / name)
    assert "Errno" not in str(caught.value)


def test_an_image_json_says_which_layers_are_here(release, tmp_path):
    file = tmp_path / "image.json"
    file.write_text(release.image.json())
    gone = Verifier("full", physical=lambda path: tmp_path / "gone").verify(str(file))
    assert {item.standing for item in gone.items} == {UNCHECKED}
    assert len(gone.items) == len(Image.load(file).layers)
