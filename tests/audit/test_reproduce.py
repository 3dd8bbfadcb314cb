"""The smoke image built again in other surroundings; and a build that is not reproducible."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
from datetime import UTC, datetime

import pytest
from apertus_image.audit import evidence
from apertus_image.audit.again import inputs_of
from apertus_image.audit.entries import Difference
from apertus_image.audit.reproduce import Compared, Report
from apertus_image.audit.vary import Varied
from apertus_image.commands.reproduce import main
from apertus_image.errors import UserError
from apertus_image.oci.image import Image
from apertus_image.record import pins, record
from apertus_image.record.source import SourceState
from apertus_image.release.git import Git
from apertus_image.squashfs.export import Exporter
from apertus_image.squashfs.source import StoredImage
from click.testing import CliRunner
from support import checkouts, images, releases
from support.checkout import clean_clone

needs_nix = pytest.mark.skipif(not shutil.which("nix"), reason="not run: Nix is not here")
ALWAYS = {"clone's path", "clone's files", "store", "umask", "time zone", "CPUs", "hash seed",
          "other variables"}
DIGEST = f"sha256:{'1' * 64}"


def a_record(folder, **more):
    """What a release of the smoke image would record."""
    image = Image.load(images.built("smoke-image"))
    exported = Exporter(images.built("toolchain") / "bin").export(StoredImage(image), folder)
    made = record.compose(
        source=SourceState(Git(images.PROJECT).head()), pins=pins.digests(images.PROJECT),
        image=image, manifests={"oci": DIGEST}, export=exported.record,
        application=more.get("application"))
    file = folder / "x.record.json"
    file.write_bytes(record.Record.of(made.data | more).bytes)
    return file


@pytest.mark.nix
@needs_nix
def test_the_smoke_image_built_again_is_the_recorded_one(tmp_path):
    result = subprocess.run(
        [images.PROJECT / "tools/reproduce", "--record", a_record(tmp_path), "--sqsh", "--json",
         "--evidence", tmp_path], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    said = json.loads(result.stdout)
    assert said["same"] and said["difference"] is None
    assert said["built"] > 10 and said["inputs"] > 50
    rows = {each["what"]: each for each in said["varied"]}
    assert rows.keys() >= ALWAYS | {"user", "locale", "Nix", "layers made by", "machine"}
    assert all(rows[name]["second"] and not rows[name]["why"] for name in ALWAYS)
    assert all(bool(row["second"]) != bool(row["why"]) for row in rows.values())
    compared = {each["what"] for each in said["compared"]}
    assert compared >= {"image ID", "image JSON", "layer 0, userland", ".sqsh",
                        "recorded image ID", "recorded layer 3", "recorded .sqsh"}
    page = (tmp_path / "reproduce-smoke-image-x86_64.md").read_text()
    assert said["commit"] in page and "the same, bit for bit" in page
    assert socket.gethostname() not in page and "/tmp" not in page and str(tmp_path) not in page


@pytest.mark.nix
@needs_nix
def test_a_builder_that_writes_the_clock_is_found(tmp_path):  # the negative control
    clone = clean_clone(tmp_path / "clone")
    builder = clone / "tools/apertus_image/elf/ldcache.py"
    text = builder.read_text()
    builder.write_text(text.replace(
        '    manifest.write(manifest.scan(out, "generated")',
        "    import time\n"
        '    (out / "etc/built-at").write_text(f"{time.time_ns()}\\n")\n'
        '    manifest.write(manifest.scan(out, "generated")'))
    assert builder.read_text() != text
    checkouts.commit(clone)
    result = subprocess.run([clone / "tools/reproduce", "--image", "smoke-image"],
                            capture_output=True, text=True)
    assert result.returncode == 1 and "Traceback" not in result.stderr, result.stderr
    lines = result.stdout.splitlines()
    assert [line.split(":")[0] for line in lines if line.startswith("differs")] == [
        "differs     image ID", "differs     image JSON", "differs     layer 2, environment",
        "differs     layer 3, patches"]  # the content's identity lies in the last
    at = lines.index("first difference, in layer 2, environment:")
    assert lines[at + 1 : at + 3] == ["  entry:    /etc/built-at", "  field:    content"]
    assert "  made by:  loader-cache" in lines and lines[-1].endswith("NOT the same bits")


@pytest.mark.nix
@needs_nix
def test_all_that_is_not_pinned_is_built_again():  # trap 12
    images.built("smoke-image")
    found = inputs_of(images.PROJECT, "smoke-image", images.STORE, images.maker("emitter"))
    # The test of the smoke image finds the same by asking Nix.
    assert set(found.closure.built) == set(images.derivations("smoke-image", "emitter"))
    assert found.paths == found.closure.fixed and len(found.paths) > 50


def test_a_damaged_or_unfit_record_is_one_clear_error(tmp_path):
    file = tmp_path / "x.record.json"
    for content in (None, b"{", b"{}\n"):
        if content is not None:
            file.write_bytes(content)
        result = CliRunner().invoke(main, ["--record", str(file)])
        assert result.exit_code == 1 and result.output.startswith("error: "), result.output


def test_a_release_that_its_commit_does_not_give_is_refused(tmp_path):
    dirty = SourceState("c" * 40, findings=[UserError("a file is modified")])
    file = tmp_path / "x.record.json"
    file.write_bytes(releases.release(tmp_path).record(source=dirty).bytes)
    result = CliRunner().invoke(main, ["--record", str(file)])
    assert result.exit_code == 1 and "a release of what was not committed" in result.output


def report(**more):
    fields = {"image": "i", "commit": "c" * 40, "built": 3, "inputs": 4,
              "varied": (Varied("umask", "0022", "0077"), Varied("Nix", "2.8", why="no | other")),
              "compared": (Compared("image ID", "a", "a"), Compared("layer 0", "b", "c")),
              "layer": "layer 0", "difference": Difference("/e", "mode", "0444", "0555", "t")}
    return Report(**(fields | more))


def test_a_difference_stands_in_the_evidence(tmp_path):
    page = evidence.markdown(report(), datetime(2026, 7, 15, tzinfo=UTC))
    assert "2026-07-15" in page and "**not the same**" in page
    assert "| Nix | 2.8 | not varied: no \\| other |" in page
    assert "| image ID | `a` | same |" in page and "| layer 0 | `b` | **`c`** |" in page
    assert "layer 0, `/e` (from t), its mode: `0444`, then `0555`" in page
    assert evidence.write(report(), tmp_path) == tmp_path / "reproduce-i.md"
    assert [file.name for file in tmp_path.iterdir()] == ["reproduce-i.md"]


def test_one_difference_is_no_reproduction():
    assert not report().same and not report().json()["same"]
    assert report(compared=(Compared("image ID", "a", "a"),)).same
