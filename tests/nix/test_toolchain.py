"""The build world, in the empty sandbox, with the settings every build uses (trap 6)."""

from __future__ import annotations

import base64
import functools
import hashlib
import http.server
import json
import os
import platform
import shutil
import subprocess
import threading
from pathlib import Path
from urllib.parse import quote

import pytest
from apertus_image.pins import requirements
from apertus_image.pins.names import store_name
from apertus_image.store.paths import fixed_output_path
from apertus_image.store.store import Store

ROOT = Path(__file__).parents[2]
FIXTURE = Path(__file__).with_name("fixture.nix")
PINS = ROOT / "nix/pins"
LOCKED = json.loads((ROOT / "flake.lock").read_text())["nodes"]["nix2container"]["locked"]
MAKER = fixed_output_path(
    "source", base64.b64decode(LOCKED["narHash"].removeprefix("sha256-")).hex(), recursive=True
)
NO_SUCH_HASH = "0" * 63 + "1"

pytestmark = [
    pytest.mark.nix,
    pytest.mark.skipif(not shutil.which("nix-build"), reason="not run: Nix is not here"),
]


def nix(*arguments: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """A Nix command, told of no mirror but those in `variables`."""
    surroundings = {k: v for k, v in os.environ.items() if not k.startswith("APERTUS_")}
    return subprocess.run(
        [*map(str, arguments), *Store().nix_args(), "--option", "substituters", ""],
        capture_output=True, text=True, env={**surroundings, **variables}, timeout=600,
    )


def evaluate(expression: str) -> object:
    result = nix("nix-instantiate", "--eval", "--strict", "--json", "--expr", expression)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def build(attribute: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return nix("nix-build", "--no-out-link", FIXTURE, "-A", attribute, *arguments, **variables)


def built(attribute: str, *arguments: str) -> Path:
    """The store path of an attribute of the fixture."""
    result = build(attribute, *arguments)
    if "tools/prefetch" in result.stderr:
        pytest.skip("not run: the toolchain's packages are not in the store (tools/prefetch)")
    assert result.returncode == 0, result.stderr
    return Path(result.stdout.split()[-1])


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


# -- fetching inside a build (trap 7) -------------------------------------------------


def arguments(name: str, content: bytes) -> list[str]:
    digest = hashlib.sha256(content).hexdigest()
    size = str(len(content))
    return ["--argstr", "name", name, "--argstr", "sha256", digest, "--arg", "size", size]


@pytest.fixture
def mirror(tmp_path):
    """An HTTP server over a folder: (folder, URL, paths asked for)."""
    asked: list[str] = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            asked.append(self.path)
            super().do_GET()

    (tmp_path / "pool/main/x").mkdir(parents=True)
    handler = functools.partial(Handler, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield tmp_path, f"http://127.0.0.1:{server.server_address[1]}", asked
        server.shutdown()


@pytest.mark.parametrize("attribute", ["deb", "wheel", "unknownBootstrap"])
def test_without_mirrors_the_build_names_the_command(attribute):
    built("world.toolchain")
    result = build(attribute, "--argstr", "name", "gone_1~2.deb", "--argstr", "sha256",
                   NO_SUCH_HASH, "--arg", "size", "1")
    assert result.returncode != 0
    assert "tools/prefetch" in result.stderr
    assert "Traceback" not in result.stderr


def test_deb_comes_from_the_first_mirror_that_has_it(mirror):
    folder, url, asked = mirror
    name, content = "some+more_1~rc1_amd64.deb", os.urandom(2000)
    (folder / "pool/main/x" / name).write_bytes(content)
    built("world.bootstrap")
    result = build("deb", *arguments(name, content),
                   APERTUS_DEBIAN_MIRRORS=f"http://127.0.0.1:9/debian {url}")
    assert result.returncode == 0, result.stderr
    assert asked == [f"/pool/main/x/{name.replace('+', '%2b')}"]
    path = Path(result.stdout.strip())
    assert path.name.endswith("-some+more_1_rc1_amd64.deb")
    assert path.read_bytes() == content


def test_deb_that_mirrors_dropped_comes_from_the_snapshot_of_the_day_after_the_lock(mirror):
    folder, url, asked = mirror
    name, content = "old_1_amd64.deb", os.urandom(2000)
    snapshot = folder / "archive/20261122T091544Z/pool/main/x"
    snapshot.mkdir(parents=True)
    (snapshot / name).write_bytes(content)
    built("world.bootstrap")
    result = build("deb", *arguments(name, content), APERTUS_DEBIAN_MIRRORS=url,
                   APERTUS_DEBIAN_SNAPSHOT=f"{url}/archive")
    assert result.returncode == 0, result.stderr
    assert asked == [f"/pool/main/x/{name}", f"/archive/20261122T091544Z/pool/main/x/{name}"]


def test_deb_with_other_content_is_refused_and_every_mirror_told(mirror):  # case: wrong hash
    folder, url, _ = mirror
    name, content = "wrong_1_amd64.deb", os.urandom(2000)
    (folder / "pool/main/x" / name).write_bytes(content[::-1])
    built("world.bootstrap")
    secret = url.replace("://", "://me:secret@")
    result = build("deb", *arguments(name, content),
                   APERTUS_DEBIAN_MIRRORS=f"{secret} {url}/elsewhere")
    assert result.returncode != 0
    assert hashlib.sha256(content[::-1]).hexdigest() in result.stderr
    assert "404" in result.stderr
    assert "secret" not in result.stderr
    assert "tools/prefetch" in result.stderr


def test_wheel_comes_from_the_index(mirror):
    folder, url, asked = mirror
    name, content = "x-1.0+cu130~1-py3-none-any.whl", os.urandom(2000)
    (folder / "simple/x").mkdir(parents=True)
    (folder / "simple/x/index.html").write_text(f'<a href="/files/{quote(name)}">{name}</a>')
    (folder / "files").mkdir()
    (folder / "files" / name).write_bytes(content)
    built("world.toolchain")
    result = build("wheel", *arguments(name, content), APERTUS_PYPI_INDEX=f"{url}/simple/")
    assert result.returncode == 0, result.stderr
    assert asked == ["/simple/x/", f"/files/{quote(name)}"]
    assert Path(result.stdout.strip()).name.endswith("-x-1.0+cu130_1-py3-none-any.whl")
    assert Path(result.stdout.strip()).read_bytes() == content


def test_wheel_with_other_content_is_refused(mirror):  # case: wrong hash
    folder, url, _ = mirror
    name, content = "x-2.0-py3-none-any.whl", os.urandom(2000)
    (folder / name).write_bytes(content[::-1])
    (folder / "simple/x").mkdir(parents=True)
    (folder / "simple/x/index.html").write_text(f'<a href="/{name}">{name}</a>')
    built("world.toolchain")
    result = build("wheel", *arguments(name, content), APERTUS_PYPI_INDEX=f"{url}/simple")
    assert result.returncode != 0
    assert hashlib.sha256(content[::-1]).hexdigest() in result.stderr
    assert "tools/prefetch" in result.stderr
    assert "Traceback" not in result.stderr


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
