"""Each rule finds its fault, on its line, and not where the fault is mended."""

from __future__ import annotations

import json
import subprocess

import pytest
from apertus_image.edf.lint import lint
from apertus_image.errors import UserError

CLEAN = """\
image = "/nowhere/x-0123456789ab.sqsh"
entrypoint = false
"""
OFI = 'com.hooks.aws_ofi_nccl.enabled = "true"'
DIGEST = "@sha256:" + "a" * 64


@pytest.fixture
def linted(tmp_path):
    def run(text: str, name: str = "x.toml", **variables: str):
        file = tmp_path / name
        file.write_text(text)
        return lint(file, variables)
    return run


def told(findings, *severities):
    return [(each.severity, each.key, each.line) for each in findings
            if not severities or each.severity in severities]


# (what follows CLEAN, severity, key, words; the same mended)
FAULTS = {
    "unknown key": ('moutns = []', "error", "moutns", "no key", 'mounts = []'),
    "wrong type": ('writable = "true"', "error", "writable", "true or false", "writable = true"),
    "mounts of numbers": ("mounts = [1]", "error", "mounts[0]", "a string", "mounts = []"),
    "relative workdir": ('workdir = "a"', "error", "workdir", "absolute", 'workdir = "/a"'),
    "devices": ('devices = ["all"]', "note", "devices", "Sarus", 'workdir = "/a"'),
    "variant under artifact": (
        f'[annotations]\n{OFI}\ncom.hooks.aws_ofi_nccl.variant = "cuda-dl"', "warning",
        "annotations.com.hooks.aws_ofi_nccl.variant", "no effect",
        f'[annotations]\n{OFI}\ncom.hooks.aws_ofi_nccl.variant = "cuda-dl"\n'
        'com.hooks.netstack.source = "host"'),
    "another CUDA's variant": (
        f'[annotations]\n{OFI}\ncom.hooks.netstack.source = "host"\n'
        'com.hooks.aws_ofi_nccl.variant = "cuda12"', "warning",
        "annotations.com.hooks.aws_ofi_nccl.variant", "CUDA 13",
        f'[annotations]\n{OFI}\ncom.hooks.netstack.source = "host"\n'
        'com.hooks.aws_ofi_nccl.variant = "cuda13"'),
    "libcudart": (f"[annotations]\n{OFI}", "note",
                  "annotations.com.hooks.aws_ofi_nccl.enabled", "libcudart.so",
                  f'[annotations]\n{OFI}\ncom.hooks.netstack.source = "host"'),
    "boolean annotation": (
        "[annotations]\ncom.hooks.cxi.enabled = true", "error",
        "annotations.com.hooks.cxi.enabled", "not a string",
        '[annotations]\ncom.hooks.cxi.enabled = "true"'),
    "unknown hook": (
        '[annotations]\ncom.hooks.cxi.enable = "true"', "warning",
        "annotations.com.hooks.cxi.enable", "no hook",
        '[annotations]\ncom.hooks.cxi.enabled = "true"\nmine.is.free = "x"'),
    "no value of a hook": (
        '[annotations]\ncom.hooks.cxi.enabled = "yes"', "error",
        "annotations.com.hooks.cxi.enabled", "no value",
        '[annotations]\ncom.hooks.cxi.enabled = "false"'),
    "implied cxi": (
        f'[annotations]\n{OFI}\ncom.hooks.cxi.enabled = "false"', "error",
        "annotations.com.hooks.cxi.enabled", "cxi is off",
        f'[annotations]\n{OFI}\ncom.hooks.cxi.enabled = "true"'),
    "ssh in a read-only container": (
        'writable = false\n[annotations]\ncom.hooks.ssh.enabled = "true"', "error",
        "annotations.com.hooks.ssh.enabled", "writable",
        'writable = true\n[annotations]\ncom.hooks.ssh.enabled = "true"'),
    "both forms": (
        '[annotations]\ncom.hooks.cxi.enabled = "true"\n[annotations.com.hooks.ssh]\n'
        'enabled = "true"', "error", "annotations", "mixed",
        '[annotations.com.hooks.cxi]\nenabled = "true"\n[annotations.com.hooks.ssh]\n'
        'enabled = "true"'),
    "references among entries": (
        '[env]\nA = "/a"\nB = "${A}/b"', "error", "env.B", "refers to A",
        '[env]\nA = "/a"\nB = "$${A}/b"'),
    "a number in env": ("[env]\nA = 1", "error", "env.A", "not a string", '[env]\nA = "1"'),
    "no variable's name": ('[env]\nA-B = "1"', "error", "env.A-B", "no name", '[env]\nA_B = "1"'),
    "undefined variable": ('[env]\nA = "${NO}"', "warning", "env.A", "not defined",
                           '[env]\nA = "${NO:-}"'),
    "bare variable": ('[env]\nA = "$HOME"', "warning", "env.A", "not expanded",
                      '[env]\nA = "${HOME}"'),
    "unclosed variable": ('[env]\nA = "${HOME"', "error", "env.A", "not closed",
                          '[env]\nA = "${HOME}"'),
    "unknown form": ('[env]\nA = "${HOME%/}"', "error", "env.A", "no known form",
                     '[env]\nA = "${HOME}"'),
    "a default": ('[env]\nA = "${HOME:-/x}"', "warning", "env.A", "default",
                  '[env]\nA = "${HOME:-}"'),
    "literal and expanded": ('[env]\nA = "${HOME}:$${HOME}"', "warning", "env.A", "stays literal",
                             '[env]\nA = "$${HOME}"'),
    "stale plugin": ('[env]\nNCCL_NET_PLUGIN = "aws-ofi"', "warning", "env.NCCL_NET_PLUGIN",
                     "outranks", '[env]\nNCCL_NET_PLUGIN = ""'),
    "NCCL without a hook": ('[env]\nNCCL_NET = "AWS Libfabric"', "error", "env.NCCL_NET",
                            "no hook brings",
                            f'[annotations]\n{OFI}\n[env]\nNCCL_NET = "AWS Libfabric"'),
    "another cross NIC": (
        f'[annotations]\n{OFI}\n[env]\nNCCL_CROSS_NIC = "0"', "note", "env.NCCL_CROSS_NIC",
        "own images", f'[annotations]\n{OFI}\n[env]\nNCCL_CROSS_NIC = "1"'),
    "library path": ('[env]\nLD_LIBRARY_PATH = "/x"', "warning", "env.LD_LIBRARY_PATH",
                     "run paths", '[env]\nLD_LIBRARY_PATH = ""'),
    "image store inside": ('[env]\nEDF_IMAGESTORE = "/x"', "warning", "env.EDF_IMAGESTORE",
                           "no effect", '[env]\nB = "x"'),
    "mount without target": ('mounts = ["/a"]', "error", "mounts[0]", "not a source",
                             'mounts = ["/a:/a"]'),
    "empty target": ('mounts = ["/a::ro"]', "error", "mounts[0]", "not a source",
                     'mounts = ["/a:/a:ro"]'),
    "flags with commas": ('mounts = ["/a:/a:ro,nosuid"]', "error", "mounts[0]", "flags",
                          'mounts = ["/a:/a:ro+nosuid"]'),
    "sqsh with flags": ('mounts = ["/a:/b:ro+sqsh"]', "error", "mounts[0]", "alone",
                        'mounts = ["/a:/b:sqsh"]'),
    "relative source": ('mounts = ["a:/a"]', "error", "mounts[0]", "neither",
                        'mounts = ["/a:/a"]'),
    "caller's source": ('mounts = ["./a:/a"]', "warning", "mounts[0]", "follows",
                        'mounts = ["/a:/a"]'),
    "relative target": ('mounts = ["/a:a"]', "error", "mounts[0]", "absolute",
                        'mounts = ["/a:/a"]'),
    "home": ('mounts = ["/users/me:/users/me"]', "warning", "mounts[0]", "home",
             'mounts = ["/users/me/models:/models"]'),
    "home by variable": ('mounts = ["${HOME}:/h"]', "warning", "mounts[0]", "home",
                         'mounts = ["${HOME}/x:/h"]'),
    "home by tilde": ('mounts = ["~:/h"]', "error", "mounts[0]", "not expanded",
                      'mounts = ["${HOME}/x:/h"]'),
    "over the image": ('mounts = ["/a:/opt"]', "warning", "mounts[0]", "hides",
                       'mounts = ["/a:/opt/mine"]'),
    "mounted twice": ('mounts = ["/a:/c", "/b:/c"]', "error", "mounts[1]", "twice",
                      'mounts = ["/a:/c", "/b:/d"]'),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_a_fault_is_found_and_the_mended_file_has_none(linted, fault):
    bad, severity, key, words, mended = fault
    found = [each for each in linted(CLEAN + bad, HOME="/users/me")
             if each.key == key and words in each.what]
    assert [each.severity for each in found] == [severity]
    assert found[0].line is not None and found[0].why and found[0].next_step
    left = linted(CLEAN + mended, HOME="/users/me")
    assert not [each for each in left if each.key == key and words in each.what]


IMAGES = {
    "no sqsh path": ('image = "images/x.sqsh"', "error", "registry reference"),
    "a path from home": ('image = "~/x.sqsh"', "error", "~ is not expanded"),
    "a relative path": ('image = "./x.sqsh"', "warning", "follows the folder"),
    "gone": ('image = "/tmp/no-such-image-0123456789ab.sqsh"', "error", "is not there"),
    "elsewhere": ('image = "/nowhere/x-0123456789ab.sqsh"', "note", "not on this machine"),
    "scratch": ('image = "/iopsstor/scratch/x-0123456789ab.sqsh"', "warning", "14 days"),
    "unknown variable": ('image = "${NO}/x.sqsh"', "note", "not defined here"),
    "no digest": ('image = "reg#a/b:v1"', "warning", "no digest"),
    "a scheme": (f'image = "docker://reg#a/b{DIGEST}"', "error", "docker://"),
    "a registry with a slash": (f'image = "reg.io/a/b{DIGEST}"', "warning", "reg.io#a/b@sha256"),
    "no image": ("", "error", "neither image"),
    "an empty image": ('image = ""', "warning", "empty"),
}


@pytest.mark.parametrize("fault", IMAGES.values(), ids=IMAGES)
def test_an_image_that_is_not_what_it_seems(linted, fault):
    text, severity, words = fault
    found = [each for each in linted(f"entrypoint = false\n{text}\n")
             if words in each.what or words in each.next_step]
    assert severity in [each.severity for each in found]


def test_a_reference_by_digest_is_clean(linted):
    assert linted(f'image = "reg.io#a/b{DIGEST}"\nentrypoint = false\n') == []


def test_an_entrypoint_must_be_said(linted):
    assert ("warning", "entrypoint", None) in told(linted(CLEAN.splitlines()[0]))
    assert "entrypoint" not in [each.key for each in linted(CLEAN)]


def test_the_image_store_of_references(linted, tmp_path):
    text = f'image = "reg#a/b{DIGEST}"\nentrypoint = false\n'
    assert "is not there" in linted(text, EDF_IMAGESTORE="/no/such")[0].what
    assert "14 days" in linted(text, SCRATCH="/iopsstor/scratch/me")[0].what
    assert linted(text, EDF_IMAGESTORE="void", SCRATCH="/iopsstor/scratch/me") == []
    assert linted(text, EDF_IMAGESTORE=str(tmp_path)) == []


def sqsh(folder, name, image):
    file = folder / name
    file.write_bytes(b"hsqs" + bytes(96))
    (folder / f"{name}.json").write_text(json.dumps({"image": image, "size": 100}))
    return f'image = "{file}"\nentrypoint = false\n'


def test_the_identity_in_the_path_is_the_records(linted, tmp_path):
    image = "sha256:" + "0123456789ab" + "c" * 52
    assert linted(sqsh(tmp_path, "x-1-0123456789ab.sqsh", image)) == []
    other = linted(sqsh(tmp_path, "x-1-ba9876543210.sqsh", image))
    assert told(other) == [("error", "image", 1)] and "ba9876543210" in other[0].what
    alias = linted(sqsh(tmp_path, "x.sqsh", image))
    assert [each.severity for each in alias] == ["warning"] and "identity" in alias[0].what


def test_a_release_record_names_commit_and_content(linted, tmp_path):
    text = sqsh(tmp_path, "x-1-0123456789ab-aaaaaaaaaaaa.sqsh", "sha256:" + "b" * 64)
    assert [each.severity for each in linted(text)] == ["error"]
    (tmp_path / "x-1-0123456789ab-aaaaaaaaaaaa.record.json").write_text(json.dumps(
        {"source": {"commit": "0123456789ab" + "0" * 28}, "content": "a" * 64}))
    assert linted(text) == []


def test_a_cut_or_foreign_file_is_an_error(linted, tmp_path):
    text = sqsh(tmp_path, "x-1-0123456789ab.sqsh", "sha256:0123456789ab" + "c" * 52)
    file = tmp_path / "x-1-0123456789ab.sqsh"
    file.write_bytes(b"hsqs")
    assert "record says 100" in linted(text)[0].what
    file.write_bytes(b"a" * 100)
    assert "not a SquashFS" in linted(text)[0].what


def test_bases_count_and_are_judged(linted, tmp_path):
    (tmp_path / "base.toml").write_text(CLEAN + 'oops = 1\nmounts = ["/a:/a"]\n')
    found = linted(f'base_environment = "{tmp_path}/base.toml"\n')
    assert "neither image" not in str(found) and "entrypoint" not in [f.key for f in found]
    wrong = next(each for each in found if each.key == "oops")
    assert wrong.file == f"{tmp_path}/base.toml" and wrong.line == 3
    by_name = linted('base_environment = ["base"]\n', EDF_PATH=str(tmp_path))
    assert "oops" in [each.key for each in by_name]
    missing = linted('base_environment = "no-such"\n', EDF_PATH=str(tmp_path))
    assert ("warning", "base_environment", 1) in told(missing)


@pytest.mark.parametrize(("levels", "errors"), [(10, 0), (11, 1)])
def test_bases_go_ten_levels_deep(linted, tmp_path, levels, errors):
    for number in range(levels):
        (tmp_path / f"b{number}.toml").write_text(
            CLEAN + (f'base_environment = "b{number + 1}"\n' if number + 1 < levels else ""))
    found = linted('base_environment = "b0"\n', EDF_PATH=str(tmp_path))
    deep = [each for each in found if "levels deep" in each.what]
    assert len(deep) == errors


def test_a_base_of_itself_is_an_error(linted, tmp_path):
    found = linted(CLEAN + 'base_environment = "x"\n', EDF_PATH=str(tmp_path))
    assert "based on itself" in str([each.what for each in found])


def test_the_worst_comes_first(linted):
    order = [each.severity for each in linted("oops = 1\n" + CLEAN)]
    assert order == ["error", "note"]


def test_what_is_no_toml_is_one_error(tmp_path):
    (tmp_path / "x.toml").write_text("image = \n")
    with pytest.raises(UserError, match=r"(?s)not TOML.*line 1"):
        lint(tmp_path / "x.toml")
    with pytest.raises(UserError, match="cannot be read"):
        lint(tmp_path / "no.toml")


@pytest.mark.parametrize(("libraries", "severity"),
                         [(("libcudart.so", "libcudart.so.13"), None),
                          (("libcudart.so.13",), "error")])
def test_the_image_is_looked_into_for_libcudart(tmp_path, programs, libraries, severity):
    root, file = tmp_path / "root", tmp_path / "x-0123456789ab.sqsh"
    root.mkdir()
    for name in libraries:
        (root / name).write_bytes(b"")
    subprocess.run([programs / "mksquashfs", root, file, "-quiet", "-no-progress"], check=True,
                   capture_output=True)
    (tmp_path / "x.toml").write_text(
        f'image = "{file}"\nentrypoint = false\n[annotations]\n{OFI}\n')
    found = [each.severity for each in lint(tmp_path / "x.toml", {}, programs / "unsquashfs")
             if "libcudart" in each.what]
    assert found == ([severity] if severity else [])
