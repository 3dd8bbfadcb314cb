"""One table of machines, in Python and in Nix (case 6)."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from apertus_image.errors import UserError
from apertus_image.tree.machine import MACHINES, machine, this_machine

ROOT = Path(__file__).parents[2]
FIELDS = ("name", "system", "debian", "oci")  # of those, the ones that Nix needs


@pytest.mark.parametrize("each", MACHINES.values(), ids=MACHINES)
def test_found_by_the_name_of_any_world(each):
    for field in FIELDS:
        assert machine(getattr(each, field)) is each


def test_no_two_machines_share_a_name():
    for field in (*FIELDS, "triplet", "elf_machine", "loader"):
        assert len({getattr(each, field) for each in MACHINES.values()}) == len(MACHINES)


@pytest.mark.parametrize("name", ["", "arm", "arm32v7", "armv7l", "riscv64", "AMD64", "linux"])
def test_an_unknown_name_is_an_error_that_lists_the_known(name):
    with pytest.raises(UserError) as error:
        machine(name)
    assert error.value.got == name
    assert all(known in error.value.expected for known in MACHINES)


def test_this_machine_is_one_of_them(monkeypatch):
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    assert this_machine().oci == "arm64"
    monkeypatch.setattr("platform.machine", lambda: "s390x")
    with pytest.raises(UserError, match="s390x"):
        this_machine()


@pytest.mark.nix
@pytest.mark.skipif(not shutil.which("nix-instantiate"), reason="not run: Nix is not here")
def test_nix_has_the_same_table():
    result = subprocess.run(
        ["nix-instantiate", "--eval", "--strict", "--json", ROOT / "nix/machines.nix"],
        capture_output=True, text=True, check=True)
    assert json.loads(result.stdout) == {
        name: {field: getattr(each, field) for field in FIELDS} for name, each in MACHINES.items()}
