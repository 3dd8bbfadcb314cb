"""The bootstrap: two static programs of two packages, as one tree with a locked hash (trap 6)."""

from __future__ import annotations

import shutil

import pytest
from apertus_image.errors import UserError
from apertus_image.fetch import bootstrap
from apertus_image.store.paths import fixed_output_path
from apertus_image.store.store import Store
from support import debs


@pytest.fixture
def packages(tmp_path):
    """(name, file) of both packages, as Debian lays them out."""
    made = []
    for name, members in {
        "bash-static": [debs.folder("bin"), debs.file("bin/bash-static", "a shell", 0o755),
                        debs.link("usr/share/bash", "bash-static")],
        "busybox-static": [debs.file("usr/share/doc/busybox", "text"),
                           debs.file("usr/bin/busybox", "tools", 0o755)],
    }.items():
        debs.make(tmp_path / "debs", name, members)
        made.append((name, next((tmp_path / "debs").glob(f"{name}_*.deb"))))
    return made


def test_the_programs_alone_are_unpacked(packages, tmp_path):
    folder = tmp_path / "tree"
    bootstrap.unpack([packages[0]], folder)
    assert [path.name for path in (folder / "bin").iterdir()] == ["bash"]
    assert (folder / "bin/bash").read_text() == "a shell"
    assert (folder / "bin/bash").stat().st_mode & 0o777 == 0o555


def test_a_package_without_its_program(tmp_path):
    debs.make(tmp_path, "bash-static", [debs.file("usr/share/x", "x")])
    (file,) = tmp_path.glob("*.deb")
    with pytest.raises(UserError, match="no static program"):
        bootstrap.unpack([("bash-static", file)], tmp_path / "tree")


def test_another_tree_than_the_locked_one_is_refused(packages, tmp_path):
    with pytest.raises(UserError, match="not the locked one") as error:
        bootstrap.add(packages[:1], "x86_64-linux", "00" * 32, Store(tmp_path / "root"))
    assert "tools/lock bootstrap" in str(error.value)
    assert not (tmp_path / "root").exists()


@pytest.mark.nix
@pytest.mark.skipif(not shutil.which("nix-store"), reason="not run: Nix is not here")
def test_the_locked_tree_goes_where_the_build_expects_it(packages, tmp_path):
    bootstrap.unpack(packages[:1], tmp_path / "tree")
    digest = bootstrap.nar_sha256(tmp_path / "tree")
    store = Store(tmp_path / "root")
    path = bootstrap.add(packages[:1], "x86_64-linux", digest, store)
    name = f"{bootstrap.NAME}-x86_64-linux"
    assert path == fixed_output_path(name, digest, recursive=True)
    assert store.physical(path).joinpath("bin/bash").read_text() == "a shell"
