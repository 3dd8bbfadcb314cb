"""tools/bootstrap: one folder every time, and on a bare machine the bits of the ordinary way."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import time

import pytest
from apertus_image.bundle import plan
from apertus_image.fetch.bootstrap import nar_sha256
from apertus_image.fetch.plan import inputs
from apertus_image.oci.image import Image
from apertus_image.squashfs.export import Exporter
from apertus_image.squashfs.source import StoredImage
from apertus_image.tree.machine import MACHINES, this_machine
from support import bare, images
from support.checkout import clean_clone

PINS = images.PROJECT / "nix/pins"
# It may lie anywhere, and Nix reads paths as URLs.
FOLDER = "/home/my f%20lder é"
OTHER = next(each for each in MACHINES.values() if each != this_machine())

pytestmark = [
    pytest.mark.nix,
    pytest.mark.skipif(not shutil.which("nix"), reason="not run: Nix is not here"),
]


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    return clean_clone(tmp_path_factory.mktemp("project") / "clone")


def bootstrap(clone, folder, *options, umask=-1):
    return subprocess.run([clone / "tools/bootstrap", folder, *options, "--json"],
                          capture_output=True, text=True, umask=umask)


def here(machine):
    """Whether the folder's own inputs are in the store; bringing them is no test's work."""
    paths = [each.store_path for each in plan.inputs(PINS, machine)]
    return images.STORE.valid(paths) == set(paths)


@pytest.fixture(scope="module")
def made(clone, tmp_path_factory):
    if not here(this_machine()):
        pytest.skip("not run: the folder's inputs are not in the store (tools/bootstrap DIR)")
    folder = tmp_path_factory.mktemp("made") / "folder"
    result = bootstrap(clone, folder)
    assert result.returncode == 0, result.stderr
    return folder


def test_two_folders_are_the_same_bytes(clone, made, tmp_path):
    other = bootstrap(clone, tmp_path / "b", umask=0o077)
    assert other.returncode == 0, other.stderr
    assert nar_sha256(made) == nar_sha256(tmp_path / "b")
    listing = ["find", ".", "-printf", "%P %m %T@ %l\n"]
    one, two = (sorted(subprocess.run(listing, cwd=(folder / "current").resolve(), text=True,
                                        capture_output=True).stdout.splitlines())
                  for folder in (made, tmp_path / "b"))
    assert one == two and len(one) > 1000


def test_made_again_it_is_there_and_what_is_damaged_is_made_whole(clone, made):
    before = nar_sha256(made)
    assert "is there already" in bootstrap(clone, made).stderr
    (made / "current/libexec/git").write_bytes(b"purged")
    assert "is there already" not in bootstrap(clone, made).stderr
    assert nar_sha256(made) == before


def test_a_killed_run_leaves_no_version_and_the_next_removes_what_it_left(clone, made, tmp_path):
    folder = tmp_path / "folder"
    run = subprocess.Popen([clone / "tools/bootstrap", folder], stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT)
    while run.poll() is None and not [*folder.glob(".content.*.part/new/*")]:
        time.sleep(0.02)
    run.kill()
    assert run.wait() == -signal.SIGKILL and run.stdout.read() == b""
    left = [each.name for each in folder.iterdir()]
    assert left and all(name.startswith(".content.") for name in left)
    assert bootstrap(clone, folder).returncode == 0
    assert sorted(each.name for each in folder.iterdir()) == sorted(
        [(made / "current").resolve().name, "bin", "current"])


def test_another_folder_is_refused(clone, tmp_path):
    (tmp_path / "mine.txt").touch()
    refused = bootstrap(clone, tmp_path)
    assert refused.returncode == 1 and "something else has the name" in refused.stderr
    assert [each.name for each in tmp_path.iterdir()] == ["mine.txt"]


def test_another_machines_folder_is_made_here(clone, tmp_path):
    if not here(OTHER):
        pytest.skip(f"not run: the inputs for {OTHER.name} are not in the store")
    result = bootstrap(clone, tmp_path / "f", "--machine", OTHER.name)
    assert result.returncode == 0, result.stderr
    head = (tmp_path / "f/current/libexec/nix").read_bytes()[:20]
    assert int.from_bytes(head[18:20], "little") == OTHER.elf_machine
    assert json.loads(result.stdout)["machine"] == OTHER.name


@pytest.fixture(scope="module")
def machine(made, clone, tmp_path_factory):
    """A bare machine with a copy of the folder, a clone, and all inputs in /inputs."""
    if not bare.possible():
        pytest.skip("not run: no root, or no user namespaces")
    wanted, boot = inputs(PINS, ["smoke-image"], this_machine())
    paths = [each.store_path for each in wanted] + [boot.store_path]
    if images.STORE.valid(paths) != set(paths):
        pytest.skip("not run: the smoke image's inputs are not in the store")
    tree = images.STORE.physical(boot.store_path)
    root = bare.machine(tmp_path_factory.mktemp("bare") / "root", tree / "bin/busybox")
    root.parent.parent.chmod(0o755)
    root.parent.chmod(0o755)
    subprocess.run(["cp", "-a", made, root / FOLDER[1:]], check=True)
    subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", clone, root / "home/clone"],
                   check=True)
    subprocess.run(["cp", "-a", root / "home/clone", root / "readable"], check=True)
    (root / "inputs").mkdir()
    for each in [*wanted, *plan.inputs(PINS, this_machine())]:
        shutil.copy(images.STORE.physical(each.store_path), root / "inputs" / each.pin.file)
    # Its packages are not kept once it is unpacked: it comes from a folder of Nix's own.
    subprocess.run(["nix", *images.STORE.nix_args(), "copy", "--to",
                    f"file://{root}/inputs/cache?compression=none", boot.store_path],
                   check=True, capture_output=True)
    bare.own(root / "home")
    yield root
    subprocess.run(["chmod", "-R", "u+w", root], check=True)


INPUTS = {"APERTUS_DEBIAN_MIRRORS": "/inputs", "APERTUS_PYPI_INDEX": "/inputs",
          "APERTUS_SUBSTITUTERS": "file:///inputs/cache"}


def test_the_bare_machine_is_bare(machine):  # the control of those below
    there = bare.run(machine, "sh", "-c", "id -u; ls / /bin; python3 -V || nix --version")
    assert there.stdout.split()[0] == str(bare.USER) and "nix" not in there.stdout.split()
    assert there.returncode == 127


def test_an_image_and_its_export_have_the_bits_of_the_ordinary_way(machine):  # acceptance 5
    built = bare.run(machine, f"{FOLDER}/bin/build", "smoke-image", "--maker", "emitter",
                     **INPUTS)
    assert built.returncode == 0, built.stderr
    path = built.stdout.strip()
    ours = images.built("smoke-image")
    assert (machine / FOLDER[1:] / "store" / path.lstrip("/")).read_bytes() == ours.read_bytes()
    # The image by default, which is what was built last.
    export = bare.run(machine, f"{FOLDER}/bin/export-sqsh", "-o", "/home", "--json")
    assert export.returncode == 0, export.stderr
    theirs = json.loads(export.stdout)
    source = StoredImage(Image.load(ours))
    wanted = Exporter(images.built("toolchain") / "bin").export(
        source, machine / "tmp/ours.sqsh").record
    assert (theirs["sha256"], theirs["image"]) == (wanted["sha256"], wanted["image"])
    told = bare.run(machine, f"{FOLDER}/bin/inspect",
                    *(f"/home/{file.name}" for file in (machine / "home").glob("*.sqsh")))
    assert told.returncode == 0 and theirs["image"] in told.stdout, told.stderr


def test_the_versions_are_not_written_to(machine, made):
    bare.run(machine, f"{FOLDER}/bin/inspect", "--help")
    version = (made / "current").resolve().name
    assert nar_sha256(machine / FOLDER[1:] / version) == nar_sha256(made / version)


def test_the_machine_brings_a_folder_of_its_own_by_the_pins_alone(machine, made):  # acceptance 5
    """With sh, sed, tar and xz, in a clone; the folder is the one that is made anywhere else."""
    folder = json.loads((made / "current/bundle.json").read_text())
    bootstrapped = bare.run(machine, "/home/clone/tools/bootstrap", "/home/its own", "--json",
                            HOME="/home", **INPUTS)
    assert bootstrapped.returncode == 0, bootstrapped.stderr
    assert json.loads(bootstrapped.stdout) == folder
    own = machine / "home/its own" / folder["identity"][:12]
    assert nar_sha256(own) == nar_sha256((made / "current").resolve())
    left = [path.name for path in (machine / "home/.cache/apertus-image/seed").rglob("*")]
    assert left == []


PROFILE = """
image: smoke-image
scratch: /home/scratch
publish:
  folder: /home/published
  readable: all
registry:
  serve: /home/registry
  repository: team/smoke
"""


def test_a_release_from_a_clone_has_the_bits_of_the_ordinary_way(machine):  # acceptance 5
    """On the folder that was made there: its git, Nix, docker-registry and SquashFS programs."""
    (machine / "tmp/profile.yaml").write_text(PROFILE)
    released = bare.run(machine, "/home/clone/tools/release", "--profile", "/tmp/profile.yaml",
                        "--maker", "emitter", "--json", HOME="/home", **INPUTS)
    assert released.returncode == 0, released.stderr
    theirs = json.loads(released.stdout)
    ours = StoredImage(Image.load(images.built("smoke-image")))
    wanted = Exporter(images.built("toolchain") / "bin").export(ours, machine / "tmp/release.sqsh")
    assert theirs["build"]["image"] == wanted.record["image"]
    published = machine / theirs["publish"]["file"].lstrip("/")
    assert published.read_bytes() == wanted.path.read_bytes()


def test_a_copied_folder_serves_a_clone_too(machine):
    """Whatever the clone has of its own."""
    published = str(next((machine / "home/published").glob("*.sqsh"))).removeprefix(str(machine))
    verified = bare.run(machine, "/home/clone/tools/verify", published, "--full",
                        APERTUS_BOOTSTRAP=FOLDER)
    assert verified.returncode == 0, verified.stdout + verified.stderr
    written = bare.run(machine, f"{FOLDER}/bin/edf", "write", published,
                       "--workload", "one-node", "-o", "/tmp/x.toml")
    assert written.returncode == 0, written.stderr
    linted = bare.run(machine, f"{FOLDER}/bin/edf", "lint", "/tmp/x.toml", "--strict")
    assert (linted.returncode, linted.stdout) == (0, "")
    refused = bare.run(machine, "/home/clone/tools/test")
    assert refused.returncode == 3 and "tools/test --setup" in refused.stderr


def test_another_users_clone_is_not_written_to(machine):
    """What was built is kept beside the folder. Nix has to be told that the clone is trusted."""
    told = bare.run(machine, f"{FOLDER}/current/programs/git", "config", "--global", "--add",
                    "safe.directory", "/readable", HOME="/home")
    assert told.returncode == 0, told.stderr
    built = bare.run(machine, "/readable/tools/build", "smoke-image", "--maker", "emitter",
                     APERTUS_BOOTSTRAP=FOLDER, HOME="/home")
    assert built.returncode == 0, built.stderr
    result = machine / FOLDER[1:] / "var/result"
    assert result.readlink().name == built.stdout.strip().rpartition("/")[2]
    assert not {".roots", "result"} & {path.name for path in (machine / "readable").iterdir()}


def test_without_user_namespaces_a_build_is_one_error(machine):
    """In a chroot the kernel makes none."""
    result = subprocess.run(
        ["chroot", f"--userspec={bare.USER}:{bare.USER}", machine, f"{FOLDER}/bin/build",
         "smoke-image", "--maker", "emitter"], capture_output=True, text=True,
        env={"PATH": "/bin:/usr/sbin:/usr/bin", **INPUTS})
    assert result.returncode == 1 and result.stdout == ""
    assert "needs user namespaces" in result.stderr and "Traceback" not in result.stderr
