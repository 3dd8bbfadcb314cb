"""The full image, where it has been built: what it is for works in its tree."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from apertus_image.oci.image import Image
from support import images

pytestmark = [
    pytest.mark.nix,
    pytest.mark.skipif(not shutil.which("nix"), reason="not run: Nix is not here"),
]
NEEDED = 12 * 2**30


@pytest.fixture(scope="module")
def file():
    if not images.full_image_is_here():
        pytest.skip("not run: the full image is not in the store (tools/build)")
    return images.built("apertus-image-x86_64")


@pytest.fixture(scope="module")
def tree(file, tmp_path_factory):
    if os.geteuid() != 0:
        pytest.skip("not run: chroot needs root")
    root = tmp_path_factory.mktemp("full") / "root"
    if shutil.disk_usage(root.parent).free < NEEDED:
        pytest.skip("not run: no room to unpack the full image")
    image = images.unpack(file, root)
    os.mknod(root / "dev/null", 0o020666, os.makedev(1, 3))
    os.mknod(root / "dev/urandom", 0o020666, os.makedev(1, 9))
    (root / "dev/shm").mkdir()
    yield root, image
    shutil.rmtree(root)


def test_both_makers_write_the_same_file(file):
    assert images.built("apertus-image-x86_64", "nix2container").read_bytes() == file.read_bytes()


def test_bounds(file):
    layers = Image.load(file).layers
    assert 8 <= len(layers) <= 40 and max(layer.size for layer in layers) <= 2**31
    # What an edit to a patch sends again.
    assert layers[-1].size < 2**20


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_lint_passes(machine):
    if not images.full_image_is_here(machine):
        pytest.skip(f"not run: the full image for {machine} is not in the store")
    result = images.nix("build", "--no-link", "--json",
                        f"{images.PROJECT}#apertus-image-{machine}-lint")
    assert result.returncode == 0, result.stderr
    report = Path(json.loads(result.stdout)[0]["outputs"]["out"])
    checked = json.loads(report.read_text())["checked"]
    assert checked["machine"] > 1000 and checked["bytecode"] > 20_000


def test_imports(tree):
    root, image = tree
    code = "import vllm, torch, ray, flashinfer, xgrammar; print(vllm.__version__)"
    result = images.run_inside(root, image, "python", "-c", code)
    assert result.stdout.split()[-1:] == ["0.25.1"], result.stderr[-2000:]


def test_users_of_the_downgraded_package_import(tree):  # trap 1
    root, image = tree
    result = images.run_inside(root, image, "python", "-c", "import cuda.tile; print('fine')")
    assert result.stdout.strip() == "fine", result.stderr[-2000:]


@pytest.mark.parametrize("arguments", [["--help"], ["serve", "--help"], ["--version"]])
def test_help_without_a_gpu(tree, arguments):
    root, image = tree
    result = images.run_inside(root, image, "vllm", *arguments)
    assert result.returncode == 0, result.stderr[-2000:]
    assert "0.25.1" in result.stdout or "vllm [subcommand] --help" in result.stdout or (
        "vllm serve --help" in result.stdout)


def test_the_patched_module_is_the_recorded_one(tree):
    root, image = tree
    folder = images.PROJECT / "nix/patches/vllm/mnnvl-workspace-guard"
    (path, hashes), = json.loads((folder / "patch.json").read_text())["files"].items()
    module = path.removesuffix(".py").replace("/", ".")
    code = (f"import hashlib, inspect, {module} as m; "
            "print(hashlib.sha256(open(m.__file__, 'rb').read()).hexdigest(), "
            # From the code that runs, not from the source.
            "'destroy' in m._create_workspace.__code__.co_names)")
    result = images.run_inside(root, image, "python", "-c", code)
    assert result.stdout.split()[-2:] == [hashes["after"], "True"], result.stderr[-2000:]


def test_a_cpp_program_compiles_and_runs(tree):
    root, image = tree
    (root / "tmp/a.cc").write_text("#include <iostream>\nint main() { std::cout << \"fine\"; }\n")
    result = images.run_inside(root, image, "sh", "-c", "g++ /tmp/a.cc -o /tmp/a && /tmp/a")
    assert result.stdout == "fine", result.stderr


def test_a_cuda_program_links(tree):  # trap 13
    root, image = tree
    (root / "tmp/a.cu").write_text("#include <cuda.h>\n#include <cub/cub.cuh>\n"
                                   "int main() { return cuInit(0); }\n")
    result = images.run_inside(root, image, "sh", "-c", "nvcc -arch=sm_90a /tmp/a.cu -o /tmp/b "
                               "-L$CUDA_HOME/lib64 -L$CUDA_HOME/lib64/stubs -lcudart -lcuda")
    assert result.returncode == 0, result.stderr


@pytest.mark.skipif(not os.environ.get("APERTUS_SLOW_TESTS"),
                    reason="not run: takes minutes (set APERTUS_SLOW_TESTS)")
@pytest.mark.parametrize("module", ["jit.sampling.gen_sampling_module",
                                    "jit.comm.gen_trtllm_comm_module"])
def test_flashinfer_compiles_and_links_its_modules(tree, module):  # traps 1, 13
    root, image = tree
    where, _, name = module.rpartition(".")
    code = (f"from flashinfer.{where} import {name}; s = {name}(); s.build(verbose=False); "
            "print(s.jit_library_path)")
    result = images.run_inside(root, image, "python", "-c", code,
                               FLASHINFER_CUDA_ARCH_LIST="9.0a", MAX_JOBS="2")
    path = result.stdout.split()[-1] if result.stdout else ""
    assert path.endswith(".so") and (root / path.lstrip("/")).is_file(), result.stderr[-2000:]
