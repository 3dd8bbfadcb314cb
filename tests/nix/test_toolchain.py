"""The build world, in the empty sandbox, with the settings every build uses (trap 6)."""

from __future__ import annotations

import base64
import hashlib
import json
import platform
import shutil
import subprocess
from pathlib import Path

import pytest
from apertus_image.pins import requirements
from apertus_image.pins.names import store_name
from apertus_image.store.paths import fixed_output_path
from support.world import FIXTURE, build, built, evaluate, nix

ROOT = Path(__file__).parents[2]
PINS = ROOT / "nix/pins"
LOCKED = json.loads((ROOT / "flake.lock").read_text())["nodes"]["nix2container"]["locked"]
MAKER = fixed_output_path(
    "source", base64.b64decode(LOCKED["narHash"].removeprefix("sha256-")).hex(), recursive=True
)

pytestmark = [
    pytest.mark.nix,
    pytest.mark.skipif(not shutil.which("nix-build"), reason="not run: Nix is not here"),
]


# -- names and requirements: Nix and Python agree -------------------------------------


def fixture(attribute: str) -> str:
    return f"(import {FIXTURE} {{ }}).{attribute}"


def test_store_names_agree():  # trap 3
    names = [
        "libpcre2-8-0_10.46-1~deb13u3_amd64.deb", "libstdc++6_14.2.0-19_amd64.deb",
        "zlib1g_1%3a1.3.dfsg+really1.3.1-1_amd64.deb", "torch-2.11.0+cu130-cp313-x.whl",
        ".hidden", "..", "a.b", "~", "a!b c@d", "a=b?c", "-a", "_a",
    ]
    table = json.dumps(json.dumps(names)).replace("${", "\\${")
    expression = f"map {fixture('pins.storeName')} (builtins.fromJSON {table})"
    assert evaluate(expression) == [store_name(name) for name in names]


@pytest.mark.parametrize("text", [
    "a\nb\n", "a\r\nb\r\n", "# only\n\n  # comments\n", "a # why\n\t b  \n\n\nc", "", "x  y\n",
])
def test_requirement_checksums_agree(tmp_path, text):  # case 48
    file = tmp_path / "some.packages"
    file.write_bytes(text.encode())
    assert evaluate(f"{fixture('pins.normalisedHash')} {file}") == requirements.sha256(file)


def test_lock_older_than_its_requirements_stops_evaluation(tmp_path):  # case 48
    for file in [*PINS.glob("*.json"), *PINS.glob("*.packages"), PINS / "requirements.in"]:
        shutil.copy(file, tmp_path)
    ask = ["nix-instantiate", "--eval", "--strict", FIXTURE, "--arg", "locks", tmp_path]
    assert nix(*ask, "-A", "pins.toolchain.amd64").returncode == 0

    with (tmp_path / "toolchain.packages").open("a") as file:
        file.write("# a comment changes nothing\n")
    assert nix(*ask, "-A", "pins.toolchain.amd64").returncode == 0

    with (tmp_path / "toolchain.packages").open("a") as file:
        file.write("hello\n")
    result = nix(*ask, "-A", "pins.toolchain.amd64")
    assert result.returncode != 0
    assert "older than its requirements (toolchain.packages)" in result.stderr
    assert "tools/lock toolchain" in result.stderr


@pytest.mark.parametrize("system", ["x86_64-linux", "aarch64-linux"])
def test_both_build_systems_evaluate(system):
    world = f'(import {FIXTURE} {{ system = "{system}"; }}).world'
    expression = f"with {world}; [ bootstrap.drvPath toolchain.drvPath go.drvPath ]"
    assert all(path.endswith(".drv") for path in evaluate(expression))


# -- the sandbox and what runs in it --------------------------------------------------


def test_sandbox_has_no_host_program():  # trap 6
    assert built("host").read_text() == ""


def test_python_works_from_the_store():
    toolchain = str(built("world.toolchain"))
    seen = json.loads(built("imports").read_text())
    assert seen["python"] == [3, 13]
    assert seen["executable"] == seen["child"] == f"{toolchain}/bin/python3"
    assert all(path.startswith(toolchain) for path in seen["path"])
    assert seen["certificates"].startswith(toolchain)
    assert seen["pools"] == {"fork": [1, 2], "spawn": [1, 2]}
    assert seen["sha256"] == hashlib.sha256(b"abc").hexdigest()
    assert seen["zstd"] == "abc"


def test_toolchain_refers_to_itself_alone_and_stays_as_it_is():
    toolchain = built("world.toolchain")
    references = nix("nix-store", "--query", "--references", toolchain).stdout.split()
    assert references == [str(toolchain)]
    # Run as root outside of a sandbox, Python must not write its caches into the store.
    subprocess.run(
        [toolchain / "bin/python3", "-c", "import requests, yaml, zstandard, elftools.elf.elffile"],
        check=True, env={},
    )
    assert nix("nix-store", "--verify-path", toolchain).returncode == 0


@pytest.mark.parametrize(("program", "says"), [
    ("jq", "jq-1.7"), ("zstd", "v1.5.7"), ("patchelf", "0.18.0"), ("mksquashfs", "4.6.1"),
])
def test_programs_run_without_an_environment(program, says):
    option = "-version" if program == "mksquashfs" else "--version"
    command = [built("world.toolchain") / "bin" / program, option]
    result = subprocess.run(command, capture_output=True, text=True, env={})
    assert says in result.stdout + result.stderr


def test_builder_runs_a_module_whose_tree_holds_its_manifest():
    tree = built("identity")
    manifest = tree / "usr/share/apertus/manifests/content-identity"
    paths = [json.loads(line)["path"] for line in manifest.read_text().splitlines()]
    assert "/usr/share/apertus/content-id" in paths
    assert (tree / "usr/share/apertus/content-id").is_file()


def test_store_path_in_content_stops_the_build():  # trap 5
    described = json.loads(built("mention", "--arg", "content", "false").read_text())
    assert described["mention"].startswith("/nix/store/")
    result = build("mention", "--arg", "content", "true")
    assert result.returncode != 0
    assert "not allowed to refer to" in result.stderr


def test_library_holds_only_the_parts_named():  # trap 4
    expression = f'"${{import {ROOT}/nix/library.nix [ "tree" "fetch/index.py" ]}}"'
    result = nix("nix-instantiate", "--eval", "--json", "--read-write-mode", "--expr", expression)
    library = Path(json.loads(result.stdout))
    files = {str(path.relative_to(library)) for path in library.rglob("*") if path.is_file()}
    named = {file.removeprefix("apertus_image/") for file in files}
    tree = {f"tree/{file.name}" for file in (ROOT / "tools/apertus_image/tree").glob("*.py")}
    assert named == {"__init__.py", "errors.py", "fetch/index.py", *tree}


# -- nix2container under it -----------------------------------------------------------


@pytest.mark.skipif(platform.machine() != "x86_64", reason="not run: builds on x86_64 only")
def test_nix2container_makes_the_recorded_vector():
    if not Path(MAKER).exists():
        pytest.skip("not run: nix2container's source is not here")
    result = build("vector", "--arg", "maker", MAKER)
    if "tools/prefetch" in result.stderr:
        pytest.skip("not run: nix2container's Go modules or Go are not in the store")
    assert result.returncode == 0, result.stderr
    image = json.loads(Path(result.stdout.strip()).read_text())
    (layer,) = image["layers"]
    assert layer["size"] == 21504
    assert layer["digest"] == (
        "sha256:0a8b4b209d0cfe677eab3c6c0b0612dd4b3c5246b1e7300b7df379fed6401bab"
    )
    assert image["arch"] == {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
