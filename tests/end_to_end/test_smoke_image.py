"""The smoke image, by the path that the full image takes."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import zipfile
from pathlib import Path

import pytest
from apertus_image.fetch import plan
from support import images
from support.checkout import clean_clone

pytestmark = pytest.mark.nix
MAKERS = ("emitter", "nix2container")


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    root = tmp_path_factory.mktemp("smoke") / "root"
    return root, images.unpack(images.built("smoke-image"), root)


def test_both_makers_write_the_same_file():
    one, two = (images.built("smoke-image", by) for by in MAKERS)
    assert one.read_bytes() == two.read_bytes()


@pytest.mark.parametrize("by", MAKERS)
def test_every_derivation_built_again_is_identical(by):  # trap 12
    images.built("smoke-image", by)
    found = images.derivations("smoke-image", by)
    assert len(found) > 10
    if by != "emitter":  # what the emitter has too is built again at its turn
        found = set(found).difference(images.derivations("smoke-image", "emitter"))
        assert found
    result = subprocess.run(["nix-store", *images.STORE.nix_args(), "--realise", "--check", *found],
                            capture_output=True, text=True)
    assert result.returncode == 0, result.stderr[-3000:]


def test_aarch64_is_built_here_too():  # case 6
    image = json.loads(images.built("smoke-image-aarch64").read_text())
    assert image["arch"] == "arm64"


def test_the_lint_passes_and_looked_at_something():
    result = images.nix("build", "--no-link", "--json",
                        f"{images.PROJECT}#checks.x86_64-linux.smoke-image-lint")
    assert result.returncode == 0, result.stderr
    report = json.loads(Path(json.loads(result.stdout)[0]["outputs"]["out"]).read_text())
    assert all(report["checked"].values()) and report["findings"] == []


def test_python_runs_and_the_patch_is_in_effect(tree):  # trap 14
    root, image = tree
    code = ("import idna, yaml, markupsafe._speedups, msgpack._cmsgpack, sys;"
            "print(idna.__apertus_smoke__ if hasattr(idna, '__apertus_smoke__') else"
            " idna.package_data.__apertus_smoke__, sys.prefix)")
    result = images.run_inside(root, image, "python", "-c", code)
    assert result.stdout.split() == ["True", "/opt/apertus"], result.stderr


def test_compile_caches_are_the_images_own(tree):  # trap 17
    root, image = tree
    code = "import os; print(os.environ['TRITON_CACHE_DIR'])"
    result = images.run_inside(root, image, "python", "-c", code)
    content = (root / "usr/share/apertus/content-id").read_text()[:16]
    assert result.stdout.strip() == f"/tmp/apertus-0/{content}/triton"
    assert (root / f"tmp/apertus-0/{content}").stat().st_mode & 0o777 == 0o700
    chosen = images.run_inside(root, image, "python", "-c", code, TRITON_CACHE_DIR="/mine")
    assert chosen.stdout.strip() == "/mine"


def test_a_login_shell_keeps_the_path(tree):
    root, image = tree
    result = images.run_inside(root, image, "/bin/sh", "-lc", "echo $PATH")
    assert result.stdout.strip() == image.config["Env"][0].removeprefix("PATH=")


def test_modes_that_the_store_cannot_keep(tree):
    root, _ = tree
    assert (root / "tmp").stat().st_mode & 0o7777 == 0o1777
    assert (root / "root").stat().st_mode & 0o7777 == 0o700


def test_what_was_skipped_is_listed(tree):  # case 42
    root, _ = tree
    skipped = (root / "usr/share/apertus/skipped-maintainer-scripts").read_text()
    assert "base-passwd: postinst\n" in skipped


def test_another_clone_another_user_and_umask_give_the_same_file(tmp_path):
    clone = clean_clone(tmp_path / "elsewhere" / "clone")
    old = os.umask(0o077)
    try:
        for path in [clone, *clone.rglob("*")]:
            os.chown(path, 12345, 12345, follow_symlinks=False)
        again = images.built("smoke-image", project=clone)
    finally:
        os.umask(old)
    assert again == images.built("smoke-image")


UNRELATED = ("README.md", "docs/architecture.md", "tests/oci/test_image.py",
             "tools/apertus_image/commands/build.py", "tools/apertus_image/ui/progress.py",
             "tools/apertus_image/resolve/apt.py", "tools/apertus_image/fetch/prefetch.py")


def test_edits_elsewhere_change_no_derivation(tmp_path):  # trap 4
    clone = clean_clone(tmp_path / "clone")

    def drv(attribute):
        result = images.nix("path-info", "--derivation", f"{clone}#{attribute}")
        assert result.returncode == 0, result.stderr
        return result.stdout.strip()

    names = ("smoke-image", "apertus-image-aarch64")
    before = [drv(name) for name in names]
    for path in UNRELATED:
        file = clone / path
        file.write_text(file.read_text() + "\n# changed\n")
    for room in ("registry", "record", "release", "audit"):
        (clone / "tools/apertus_image" / room).mkdir(exist_ok=True)
        (clone / "tools/apertus_image" / room / "new.py").write_text("NEW = 1\n")
    subprocess.run(["git", "-C", clone, "add", "--all"], check=True)
    assert [drv(name) for name in names] == before
    # The control: what a builder imports does change it.
    file = clone / "tools/apertus_image/wheel/build.py"
    file.write_text(file.read_text() + "\n# changed\n")
    assert [drv(name) for name in names] != before


def wheel_file(name):
    pinned = plan.wheels(images.PROJECT / "nix/pins/wheels.json", "x86_64")
    return images.STORE.physical(next(each.store_path for each in pinned if each.name == name))


def test_an_edit_to_a_patch_moves_the_overlay_alone(tmp_path):
    clone = clean_clone(tmp_path / "clone")
    folder = clone / "nix/patches/smoke/visible-after-import"
    diff, meta = folder / "patch.diff", folder / "patch.json"
    old = json.loads(meta.read_text())["files"]["idna/package_data.py"]["after"]
    with zipfile.ZipFile(wheel_file("idna")) as wheel:
        pristine = wheel.read("idna/package_data.py")
    diff.write_text(diff.read_text().replace("= True", "= 'edited'"))
    new = hashlib.sha256(b"__apertus_smoke__ = 'edited'\n" + pristine).hexdigest()
    meta.write_text(meta.read_text().replace(old, new))
    before = images.digests(images.built("smoke-image"))
    after = images.digests(images.built("smoke-image", project=clone))
    assert before[:-1] == after[:-1] and before[-1] != after[-1]
