"""Verdicts over small checkouts: reusable, overlay, rebuild, and why."""

from __future__ import annotations

import json
import shutil

import pytest
from apertus_image.audit.compat import OVERLAY, REBUILD, REUSABLE, judged
from apertus_image.audit.installed import of_export, of_image
from apertus_image.audit.project import Project
from apertus_image.commands import compat
from apertus_image.errors import UserError
from apertus_image.oci.image import Image
from apertus_image.squashfs.export import Exporter
from apertus_image.squashfs.source import StoredImage
from click.testing import CliRunner
from support import checkouts, images
from support.pythons import BINARY, PACKAGES, checkout, entry, installed, root

SDIST = {"sdist": {"url": "https://files.example/x.tar.gz"}, "wheels": []}


def locked(folder, image, *packages, extras=(), project="", **files):
    """The environment of a checkout whose lock has these packages, all of them needed."""
    names = [text.partition('name = "')[2].partition('"')[0] for text in packages]
    made = checkout(folder / "checkout", project, root(*names) + "".join(packages), **files)
    return judged(Project.read(made), image, extras)


def declared(folder, image, *dependencies, **more):
    """The environment of a checkout without a lock."""
    made = checkout(folder / "checkout", f"dependencies = {json.dumps(dependencies)}")
    return judged(Project.read(made), image, **more)


def reason(environment, what):
    return next(each for each in environment.reasons if each.what == what and each.why)


def test_the_very_versions_of_the_lock_are_reusable(tmp_path, image):
    found = locked(tmp_path, image, entry("idna", "3.18"), entry("vllm", "0.25.1", (BINARY,)))
    assert found.verdict == REUSABLE and found.name == "base"
    assert [each.what for each in found.reasons] == ["Python", "app", "idna", "vllm"]


@pytest.mark.parametrize(("package", "verdict", "why"), [
    (entry("idna", "3.20"), OVERLAY, "another version"),
    (entry("attrs", "26.1.0"), OVERLAY, "does not have it"),
    (entry("idna", "3.9"), REBUILD, "vllm 0.25.1 needs idna>=3.10"),
    (entry("click", "9.0"), OVERLAY, "another version"),  # vllm[shell]'s bound is not asked for
    (entry("msgpack", "1.1.0", (BINARY,)), REBUILD, "another version"),
    (entry("numpy", "2.4.4", (BINARY,)), REBUILD, "does not have it"),
    (entry("vllm", "0.26.0"), REBUILD, "another version"),  # whatever its tag says
    (entry("flashinfer-python", "0.6.13"), REBUILD, "does not have it"),
    (entry("numpy", "2.4.4", ("cp313-cp313-win_amd64",)), REBUILD, "does not have it"),
    (entry("somewhere", "1", **SDIST), REBUILD, "it has to be built"),
    (entry("idna", "3.18", source={"git": "https://forge.example/idna?rev=main#abc"}), OVERLAY,
     "comes from a git address"),
    (entry("torch", "2.11.0", source={"url": "https://files.example/torch-2.11.0-cp313-cp313-"
                                             "linux_x86_64.whl"}), REBUILD, "from a url address"),
])
def test_what_differs_decides(tmp_path, image, package, verdict, why):
    found = locked(tmp_path, image, package)
    assert found.verdict == verdict
    worst = max((each for each in found.reasons if each.why), key=lambda each: each.verdict)
    assert why in worst.why and worst.wanted.startswith("==")


@pytest.mark.parametrize(("version", "verdict"), [
    ("2.11.0+cu130", REUSABLE), ("2.11.0+cu129", REBUILD), ("2.11.0+cpu", REBUILD)])
def test_a_cuda_label_is_compared_with_the_images_cuda(tmp_path, image, version, verdict):
    assert locked(tmp_path, image, entry("torch", version, (BINARY,))).verdict == verdict


def test_a_version_that_only_the_lock_rules_out_is_said_to_be_allowed(tmp_path, image):
    made = checkout(tmp_path / "c", 'dependencies = ["idna>=3"]',
                    root("idna", requires=[{"name": "idna", "specifier": ">=3"}])
                    + entry("idna", "3.20"))
    assert "pyproject.toml would allow it (>=3)" in reason(
        judged(Project.read(made), image), "idna").why


@pytest.mark.parametrize(("requires", "pinned", "verdict"), [
    (">=3.12", "", REUSABLE), (">=3.13.14", "", REBUILD), ("<3.13", "", REBUILD),
    (">=3.12", "3.13", REUSABLE), (">=3.12", "3.12", REBUILD), (">=3.12", "3.13.5", REUSABLE)])
def test_another_python_is_a_rebuild(tmp_path, image, requires, pinned, verdict):
    made = checkout(tmp_path / "c", f'requires-python = "{requires}"',
                    **({".python-version": f"{pinned}\n"} if pinned else {}))
    assert judged(Project.read(made), image).verdict == verdict


def test_markers_are_the_images_own_and_not_this_machines(tmp_path):
    lock = (root({"name": "idna", "marker": "platform_machine == 'aarch64'"},
                 {"name": "numpy", "marker": "platform_machine == 'x86_64'"},
                 {"name": "win", "marker": "sys_platform == 'win32'"},
                 {"name": "old", "marker": "python_full_version < '3.13'"})
            + "".join(entry(name, "3.18") for name in ("idna", "numpy", "win", "old")))
    project = Project.read(checkout(tmp_path / "c", "", lock))
    arm = judged(project, installed(tmp_path / "arm", debian="arm64"))
    intel = judged(project, installed(tmp_path / "intel"))
    assert [each.what for each in arm.reasons] == ["Python", "app", "idna"]
    assert [each.what for each in intel.reasons] == ["Python", "app", "numpy"]


def test_each_environment_has_its_own_verdict(tmp_path, image):
    lock = (root("idna", extras={"fast": ["numpy"]}, groups={"dev": ["attrs"]})
            + entry("idna", "3.18") + entry("numpy", "2.4.4", (BINARY,)) + entry("attrs"))
    project = Project.read(checkout(
        tmp_path / "c", "[project.optional-dependencies]\nfast = []\n"
        "[dependency-groups]\ndev = []", lock))
    verdicts = {found.name: found.verdict for found in (
        judged(project, image), judged(project, image, ["fast"]),
        judged(project, image, groups=["dev"]), judged(project, image, ["fast"], ["dev"]))}
    assert verdicts == {"base": REUSABLE, "fast": REBUILD, "group dev": OVERLAY,
                        "fast, group dev": REBUILD}


def test_without_a_lock_the_declared_bounds_decide(tmp_path, image):
    assert declared(tmp_path, image, "idna>=3,<4", "vllm==0.25.*").verdict == REUSABLE
    assert declared(tmp_path, image, "idna>=3.19").verdict == OVERLAY
    assert declared(tmp_path, image, "vllm>=0.26").verdict == REBUILD
    assert declared(tmp_path, image, "attrs; sys_platform == 'win32'").verdict == REUSABLE
    missing = declared(tmp_path, image, "attrs")
    assert missing.verdict == REBUILD and "without uv.lock" in reason(missing, "attrs").why
    git = declared(tmp_path, image, "attrs @ git+https://forge.example/attrs@main")
    assert reason(git, "attrs").wanted == (
        "any version, git git+https://forge.example/attrs@main")


def test_without_a_lock_an_extra_of_a_package_is_looked_up_in_the_image(tmp_path):
    packages = PACKAGES | {"click": ("9.0", "py3-none-any", ())}
    image = installed(tmp_path / "other", packages=packages)
    assert declared(tmp_path, image, "vllm").verdict == REUSABLE
    assert reason(declared(tmp_path, image, "vllm[shell]"), "click").wanted == "<9"


def test_the_checkouts_own_folders_are_its_own_unless_they_compile(tmp_path, image):
    lock = root("part") + entry("part", source={"editable": "part"}, wheels=[])
    made = checkout(tmp_path / "c", "", lock, **{"part/pyproject.toml": "[project]\nname='part'"})
    assert judged(Project.read(made), image).verdict == REUSABLE
    (made / "part/pyproject.toml").write_text("[build-system]\nrequires = ['pybind11>=2']\n")
    assert "asks for pybind11" in reason(judged(Project.read(made), image), "part").why
    (made / "part/pyproject.toml").unlink()
    (made / "part/setup.py").write_text("setup(ext_modules=[CUDAExtension('x')])")
    assert judged(Project.read(made), image).verdict == REBUILD


def test_a_folder_outside_of_the_checkout_has_to_be_brought_along(tmp_path, image):
    checkout(tmp_path / "beside")
    found = locked(tmp_path, image, entry("beside", source={"editable": "../beside"}, wheels=[]))
    assert found.verdict == OVERLAY and "brought along" in reason(found, "beside").why


def test_a_submodule_that_is_needed_and_not_there_is_an_error(tmp_path, image):
    lock = root("part") + entry("part", source={"editable": "third/part/py"}, wheels=[])
    made = checkout(tmp_path / "c", "", lock, **{
        ".gitmodules": '[submodule "part"]\n\tpath = third/part\n\turl = x\n'})
    project = Project.read(made)
    assert [(each.path, each.there) for each in project.submodules] == [("third/part", False)]
    with pytest.raises(UserError, match="submodule third/part") as caught:
        judged(project, image)
    assert "submodule update --init" in caught.value.next_step


def test_an_application_in_the_image_is_compared_file_by_file(tmp_path):
    origin = checkouts.repository(tmp_path / "origin", {
        "pyproject.toml": '[project]\nname = "app"\nversion = "1"\n', "a.py": "a = 1\n",
        "bin/run": "#!/bin/sh\n", "link": "-> a.py"})
    image = installed(tmp_path / "tree", application=origin)
    assert image.application.at == "/opt/app"
    assert judged(Project.read(origin), image).verdict == REUSABLE
    (origin / "notes.txt").write_text("not tracked\n")
    assert judged(Project.read(origin), image).verdict == REUSABLE
    (origin / "a.py").write_text("a = 2\n")
    (origin / "bin/run").chmod(0o644)
    (origin / "link").unlink()
    checkouts.commit(origin)
    found = judged(Project.read(origin), image)
    assert found.verdict == OVERLAY
    assert reason(found, "application").why == (
        "4 files differ: a.py (other content), bin/run (executable in one), "
        "link (not in the checkout) and 1 more")


@pytest.mark.nix
@pytest.mark.skipif(not shutil.which("nix"), reason="not run: Nix is not here")
def test_the_exit_code_is_of_the_environment_that_needs_most(tmp_path):
    made = checkout(tmp_path / "c", "[project.optional-dependencies]\nmore = ['attrs']\n",
                    root("idna", extras={"more": ["attrs"]},
                         requires=[{"name": "attrs", "marker": "extra == 'more'"}])
                    + entry("idna", "3.18") + entry("attrs"))
    image = images.built("smoke-image")
    results = {arguments: CliRunner().invoke(
        compat.main, [str(made), "--image", str(image), *arguments]) for arguments in (
            (), ("--no-extra",), ("--extra", "more"))}
    assert [each.exit_code for each in results.values()] == [10, 0, 10]
    lines = results[()].output.splitlines()
    assert lines[0] == "reusable: base (3 of 3 needs are met)"
    assert lines[1] == "overlay: more (3 of 4 needs are met)"
    assert lines[2] == "  overlay: attrs, the image does not have it"


@pytest.mark.nix
@pytest.mark.skipif(not shutil.which("nix"), reason="not run: Nix is not here")
def test_a_sqsh_tells_the_same_as_the_image_it_was_made_of(tmp_path):
    image, programs = Image.load(images.built("smoke-image")), images.built("toolchain") / "bin"
    exported = Exporter(programs).export(StoredImage(image), tmp_path)
    told = of_export(exported.path, programs)
    assert told == of_image(image) and told.python.startswith("3.13.")
    assert {"idna": "pure", "msgpack": "binary"}.items() <= {
        each.name: each.kind for each in told.packages.values()}.items()
    (tmp_path / "x.sqsh").write_bytes(b"hsqs" + bytes(200))
    with pytest.raises(UserError, match="unsquashfs cannot read the file"):
        of_export(tmp_path / "x.sqsh", programs)
