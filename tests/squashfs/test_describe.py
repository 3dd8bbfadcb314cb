"""What an export and an image say of themselves."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest
from apertus_image.errors import UserError
from apertus_image.oci.image import Image
from apertus_image.squashfs.describe import describe_export, describe_image
from apertus_image.squashfs.export import Exporter
from apertus_image.squashfs.source import StoredImage
from support import images

pytestmark = [
    pytest.mark.nix,
    pytest.mark.skipif(not shutil.which("nix"), reason="not run: Nix is not here"),
]


@pytest.fixture(scope="module")
def programs():
    return images.built("toolchain") / "bin"


@pytest.fixture(scope="module")
def exported(programs, tmp_path_factory):
    image = StoredImage(Image.load(images.built("smoke-image")))
    return Exporter(programs).export(image, tmp_path_factory.mktemp("export"))


def test_an_export_and_its_image_tell_the_same(exported, programs):
    image = Image.load(images.built("smoke-image"))
    of_file = describe_export(exported.path, programs)
    of_image = describe_image(StoredImage(image), image)
    assert of_file["record"] == "beside it" and of_file["sha256"] == exported.record["sha256"]
    for what in ("image", "architecture", "labels", "env", "content_id", "environments"):
        assert of_file[what] == of_image[what] and of_image[what], what
    assert [layer["digest"] for layer in of_file["layers"]] == images.digests(
        images.built("smoke-image"))
    assert of_file["environments"][0]["packages"] > 3
    assert of_image["size"] == sum(layer.size for layer in image.layers)


def test_an_export_without_its_record_still_tells_what_is_in_it(exported, programs, tmp_path):
    alone = tmp_path / "alone.sqsh"
    shutil.copy(exported.path, alone)
    told = describe_export(alone, programs)
    assert told["record"] == "none" and told["image"] is None
    assert told["content_id"] and told["labels"] and told["entries"] > 1000


def test_a_record_of_another_file_is_not_believed(exported, programs, tmp_path):
    other = tmp_path / "other.sqsh"
    shutil.copy(exported.path, other)
    with other.open("ab") as data:
        data.write(bytes(4096))
    (tmp_path / "other.sqsh.json").write_text(json.dumps(exported.record))
    told = describe_export(other, programs)
    assert told["record"] == "of another file" and told["image"] is None


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04zip", None])
def test_what_is_no_squashfs_is_one_clear_error(content, programs, tmp_path):
    file = tmp_path / "x.sqsh"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(UserError, match="SquashFS|cannot be read"):
        describe_export(file, programs)


def test_a_truncated_file_is_one_clear_error(exported, programs, tmp_path):
    file = tmp_path / "x.sqsh"
    file.write_bytes(exported.path.read_bytes()[:1_000_000])
    with pytest.raises(UserError, match="cannot read the file"):
        describe_export(file, programs)


def test_the_command_prints_both_forms(exported):
    tool = images.PROJECT / "tools/inspect"
    text = subprocess.run([tool, exported.path], capture_output=True, text=True, check=True).stdout
    assert "image:        sha256:" in text and "/opt/apertus, " in text
    out = subprocess.run([tool, images.built("smoke-image"), "--json"], capture_output=True,
                         text=True, check=True).stdout
    assert json.loads(out)["kind"] == "image"
    wrong = subprocess.run([tool, "/nowhere.sqsh"], capture_output=True, text=True)
    assert wrong.returncode != 0 and "Traceback" not in wrong.stderr and not wrong.stdout
