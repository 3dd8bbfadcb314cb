"""The reference import against what Enroot itself made of the same images.

enroot.json was recorded with Enroot at 8ea147d (after 4.1.2), run as root under umask 022 on Linux
6.18, the images in docker-registry 2.8.2 with gzip layers: null where the import stopped, else
path -> mode, and a file's size and content or a link's target.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from squashfs import hostile, reference
from support import layouts

RECORDED = json.loads(Path(__file__).with_name("enroot.json").read_text())

# What is meant to differ, and how Enroot's own result is turned into ours.
STOPS_AT_NOWHERE = ("whiteout of what is not there", "whiteout below a link's name")
DEEP = "0555 folders, deep"
ABSOLUTE_DEV = "below dev, dotted and absolute"


def told(entry: reference.Entry) -> str:
    if entry.content is None:
        return f"{entry.mode} *"
    if entry.mode.startswith("-"):
        return f"{entry.mode} {entry.size} {entry.content[:12]}"
    return f"{entry.mode} {entry.target}" if entry.target else entry.mode


@pytest.fixture
def layout(tmp_path):
    return lambda name: layouts.layout(tmp_path / "layout", hostile.layers(name),
                                       {"Cmd": ["/bin/sh"]})


def test_every_image_was_recorded():
    assert RECORDED.keys() == hostile.EVERY.keys()
    assert all(RECORDED[name] for name in {*hostile.IMPORTED} - {*STOPS_AT_NOWHERE})
    assert not any(RECORDED[name] for name in hostile.REFUSED | hostile.IMPORTED_BY_US)


@pytest.mark.parametrize("name", hostile.IMPORTED)
def test_the_reference_is_enroots(name, layout, tmp_path):
    ours = {path: told(entry)
            for path, entry in reference.imported(layout(name), tmp_path).items()}
    theirs = RECORDED[name]
    if name in STOPS_AT_NOWHERE:
        assert theirs is None
        return
    if name == DEEP:
        theirs = {path: mode.replace("dr-x", "drwx") for path, mode in theirs.items()}
    elif name == ABSOLUTE_DEV:
        theirs = {path: mode for path, mode in theirs.items() if not path.startswith("/dev")}
    assert ours == theirs


@pytest.mark.parametrize("name", [
    *hostile.REFUSED, *hostile.REFUSED_BY_US, *hostile.IMPORTED_BY_US])
def test_the_reference_stops(name, layout, tmp_path):
    with pytest.raises(reference.Stops):
        reference.imported(layout(name), tmp_path)
