"""Every patch of the project is whole: listed, described, with hashes of its own diff."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from apertus_image.errors import UserError
from apertus_image.patch.data import Patch
from apertus_image.patch.lock import folders, relock
from apertus_image.tree.machine import MACHINES
from support import pinned

ROOT = Path(__file__).parents[2] / "nix/patches"


def test_every_folder_is_in_a_series():
    found = folders(ROOT)
    assert found and all((folder / "README.md").is_file() for folder in found)


def test_a_folder_that_no_series_lists(tmp_path):
    (tmp_path / "vllm/x").mkdir(parents=True)
    (tmp_path / "vllm/x/patch.json").write_text("{}")
    (tmp_path / "series.json").write_text('{"vllm": []}')
    with pytest.raises(UserError, match="series.json"):
        folders(tmp_path)


@pytest.mark.nix
@pytest.mark.parametrize("machine", MACHINES)
def test_hashes_are_those_of_the_pinned_wheels(machine):
    # The two machines' wheels hold the same Python files, so one set of hashes serves both.
    found = relock(folders(ROOT), lambda name, version: pinned.wheel(name, machine), write=False)
    assert found == []


@pytest.mark.parametrize("folder", folders(ROOT), ids=lambda folder: folder.name)
def test_descriptions(folder):
    patch = Patch.load(folder / "patch.json", folder / "patch.diff")
    assert patch.name == folder.name
    for before, after in patch.files.values():
        assert len(before) == len(after) == 64 and before != after
    lock = json.loads((ROOT.parent / "pins/wheels.json").read_text())
    for machine in MACHINES:
        versions = {pin["name"]: pin["version"] for pin in lock[machine]}
        assert versions[patch.wheel] == patch.version
