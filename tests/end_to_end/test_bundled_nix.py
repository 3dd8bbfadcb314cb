"""The self-contained folder's Nix by itself, as a second Nix of tools/reproduce is called."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from apertus_image.bundle import plan
from apertus_image.fetch.plan import inputs
from apertus_image.tree.machine import this_machine
from support import images

PINS = images.PROJECT / "nix/pins"
ONE = ('derivation {{ name = "one"; system = "{}-linux"; builder = "/bin/sh"; '
       'args = [ "-c" "echo one > $out" ]; }}')

pytestmark = [
    pytest.mark.nix,
    pytest.mark.skipif(not shutil.which("nix"), reason="not run: Nix is not here"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    wanted = [each.store_path for each in plan.inputs(PINS, this_machine())]
    if images.STORE.valid(wanted) != set(wanted):
        pytest.skip("not run: the folder's inputs are not in the store (tools/bootstrap DIR)")
    made = tmp_path_factory.mktemp("made") / "folder"
    done = subprocess.run([images.PROJECT / "tools/bootstrap", made], capture_output=True,
                          text=True)
    assert done.returncode == 0, done.stderr
    return (made / "current").resolve()


def build(program, tmp_path):
    """Build one small derivation in a store of its own, with none of the shell's variables."""
    boot = inputs(PINS, ["smoke-image"], this_machine())[1].store_path
    if not images.STORE.valid([boot]):
        pytest.skip("not run: the bootstrap is not in the store (tools/prefetch smoke-image)")
    shell = images.STORE.physical(boot) / "bin/busybox"
    settings = images.STORE.settings() | {"sandbox-paths": f"/bin/sh={shell}"}
    return subprocess.run(
        [*program, "build", "--impure", "--expr", ONE.format(this_machine().name), "--no-link",
         "--print-out-paths", "--store", tmp_path / "store",
         *(word for pair in settings.items() for word in ("--option", *pair))],
        capture_output=True, text=True, env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)})


def test_it_builds_without_the_folders_variables(folder, tmp_path):
    for name in ("nix", "nix-store"):
        said = subprocess.run([folder / "programs" / name, "--version"], capture_output=True,
                              text=True, check=True).stdout
        assert said.startswith(f"{name} (Nix) 2.")
    done = build([folder / "programs/nix"], tmp_path)
    assert done.returncode == 0 and "__build-remote" not in done.stderr, done.stderr
    assert (tmp_path / f"store{done.stdout.strip()}").read_text() == "one\n"


def test_started_bare_it_takes_the_loader_for_itself(folder, tmp_path):  # the control
    loader = next((folder / "lib").glob("*/ld-linux-*"))
    done = build([loader, "--library-path", loader.parent, "--argv0", folder / "programs/nix",
                  folder / "libexec/nix"], tmp_path)
    # Whether the build fails of it depends on which of the two ends first.
    assert "__build-remote: cannot open shared object file" in done.stderr
