"""Releases of the smoke image: whole, killed anywhere, from two clones, with one's own code."""

from __future__ import annotations

import json
import random
import shutil
import subprocess

import pytest
from apertus_image.registry.client import Client
from apertus_image.registry.pull import fetch_manifest
from apertus_image.registry.reference import Reference
from apertus_image.registry.referrers import referrers
from apertus_image.registry.server.borrowed import borrowed
from apertus_image.registry.server.folder import Folder
from apertus_image.release.profile import STEPS
from support.checkout import clean_clone, git
from support.kills import Aim, adopting, run
from support.releasing import (
    command,
    needs_programs,
    places,
    profile,
    published,
    release,
    surroundings,
)
from support.remains import Undisturbed, moments

pytestmark = [pytest.mark.nix, needs_programs]


def test_all_of_it_is_there_and_verified(reference, clone):
    names = published(reference)
    stem = next(name for name in names if name.endswith(".sqsh")).removesuffix(".sqsh")
    assert set(names) == {f"{stem}{end}" for end in (
        ".sqsh", ".sqsh.sha256", ".record.json", ".sbom.cdx.json", ".provenance.json")} | {
        "lint.json", "export-read-back.json"}
    commit = subprocess.run(["git", "-C", clone, "rev-parse", "HEAD"], capture_output=True,
                            text=True).stdout.strip()
    assert json.loads(names[f"{stem}.record.json"])["source"]["commit"] == commit
    assert commit[:12] in stem
    verified = subprocess.run([clone / "tools/verify", "--full",
                               reference / f"published/{stem}.sqsh"],
                              capture_output=True, text=True)
    assert verified.returncode == 0 and "SHA-256" in verified.stdout, verified.stdout


def test_again_there_is_nothing_to_do(reference, clone):
    before = {path: path.stat().st_mtime_ns for path in (reference / "published").rglob("*")}
    again = release(clone, reference)
    assert again.returncode == 0, again.stderr
    for step in ("prefetch", "build", "check", "record"):
        assert f"{step}: done before" in again.stderr
    assert before == {path: path.stat().st_mtime_ns
                      for path in (reference / "published").rglob("*")}


def test_a_release_whose_work_is_gone_is_made_again_beside_what_is_published(
        reference, clone, tmp_path):
    at = tmp_path / "site"
    assert release(clone, at).returncode == 0
    before = {path: path.read_bytes() for path in (at / "published").rglob("*") if path.is_file()}
    shutil.rmtree(at / "scratch")
    again = release(clone, at)
    assert again.returncode == 0, again.stderr
    keys = [str(tmp_path / name) for name in ("key", "other")]
    for key in keys:
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    signed = release(clone, at, "--sign", keys[0])
    assert signed.returncode == 0, signed.stderr
    by_another = release(clone, at, "--sign", keys[1])
    assert by_another.returncode == 1 and "signature by another key" in by_another.stderr
    after = {path: path.read_bytes() for path in (at / "published").rglob("*") if path.is_file()}
    more = after.keys() - before.keys()
    assert [path.name.endswith(".record.json.sig") for path in more] == [True]
    assert {path: after[path] for path in before} == before


def test_an_export_that_was_damaged_after_its_check_is_not_published(clone, tmp_path):
    at = tmp_path / "site"
    assert release(clone, at, "--only", "record").returncode == 0
    export = next((at / "scratch").rglob("*.sqsh"))
    data = bytearray(export.read_bytes())
    data[len(data) // 2] ^= 1
    export.write_bytes(data)
    refused = release(clone, at)
    assert refused.returncode == 1 and "no longer what was written" in refused.stderr
    assert not list((at / "published").glob("*"))
    export.unlink()
    done = release(clone, at)
    assert done.returncode == 0, done.stderr


def test_another_clone_gives_the_same_bytes(reference, tmp_path):
    other = clean_clone(tmp_path / "elsewhere/other")
    done = release(other, tmp_path / "site")
    assert done.returncode == 0, done.stderr
    assert published(tmp_path / "site") == published(reference)


@pytest.mark.parametrize("when", ["at its start", "within it", "when a name is given"])
def test_killed_in_every_step_it_goes_on_to_the_same_bytes(reference, clone, tmp_path, when):
    at, chance = tmp_path / "site", random.Random(7)
    aims = {
        "at its start": [Aim(step, 0) for step in STEPS],
        "within it": [Aim(step, chance.uniform(0, 0.6)) for step in STEPS],
        "when a name is given": [aim for aim in moments(places(at)).values() for _ in range(3)],
    }[when]
    undisturbed, file, killed = Undisturbed(places(reference)), profile(at), 0
    with adopting():
        for aim in aims:
            killed += run(command(clone, file), surroundings(at), aim).killed is not None
            assert not undisturbed.faults(places(at))
        done = run(command(clone, file), surroundings(at))
    assert killed > len(aims) / 2 and done.code == 0, done.said
    assert published(at) == published(reference)
    assert set(places(at).layout.blobs()) == undisturbed.blobs
    assert Folder(at / "registry").holder() is None
    assert not places(at).left_over()


def test_what_is_not_committed_is_refused_or_marked_and_not_published(clone, tmp_path):
    junk = clone / "junk"
    junk.write_text("")
    try:
        refused = release(clone, tmp_path / "site")
        assert refused.returncode != 0 and "not tracked" in refused.stderr
        assert not (tmp_path / "site/scratch").exists()
        tried = release(clone, tmp_path / "site", "--allow-dirty")
        assert tried.returncode == 0 and "not published" in tried.stderr, tried.stderr
    finally:
        junk.unlink()
    assert not (tmp_path / "site/published").exists()
    records = list((tmp_path / "site/scratch").rglob("*.record.json"))
    assert [name.name.endswith("-dirty.record.json") for name in records] == [True]


def test_ones_own_code_is_in_the_image_and_the_record(clone, reference, tmp_path):
    code = tmp_path / "code"
    code.mkdir()
    git(code, "init", "--quiet")
    (code / "train.py").write_text("print('trained')\n")
    git(code, "add", "--all")
    git(code, "commit", "--quiet", "--message", "one")
    done = release(clone, tmp_path / "site", "--source", str(code), "--source-at", "/opt/train")
    assert done.returncode == 0, done.stderr
    record, plain = (json.loads(next((at / "published").glob("*.record.json")).read_text())
                     for at in (tmp_path / "site", reference))
    assert record["application"]["commit"] == git(code, "rev-parse", "HEAD").strip()
    layers, before = ([layer["digest"] for layer in each["image"]["layers"]]
                      for each in (record, plain))
    assert record["application"]["layer"] == layers[-1] and layers[:3] == before[:3]
    verified = subprocess.run([clone / "tools/verify", done.stdout.strip()], capture_output=True)
    assert verified.returncode == 0
    elsewhere = release(clone, tmp_path / "site", "--source", str(code), "--source-at", "/srv/t")
    assert elsewhere.returncode == 0, elsewhere.stderr
    assert elsewhere.stdout != done.stdout
    places = {json.loads(file.read_text())["application"]["path"]
              for file in (tmp_path / "site/published").glob("*.record.json")}
    assert places == {"/opt/train", "/srv/t"}
    # What git would show as changed is refused, and named.
    (code / "train.py").write_text("")
    refused = release(clone, tmp_path / "site", "--source", str(code))
    assert refused.returncode != 0 and str(code / "train.py") in refused.stderr


def test_the_tag_comes_last_and_leads_to_the_release(reference, clone):
    stem = next((reference / "published").glob("*.sqsh")).stem
    with borrowed(reference / "registry") as host:
        client = Client(host)
        tagged = fetch_manifest(client, Reference(host, "team/smoke", stem))
        attached = referrers(client, Reference(host, "team/smoke", digest=tagged.digest))
    record = json.loads((reference / f"published/{stem}.record.json").read_text())
    assert tagged.digest in record["image"]["manifests"].values()
    assert len(attached) == 3
