"""Final names are given once, with hard links and without."""

from __future__ import annotations

import errno
import os

import pytest
from apertus_image.squashfs.final import name_it


@pytest.fixture(params=[True, False], ids=["hard links", "none"])
def links(request, monkeypatch):
    if not request.param:
        def refuse(*_paths, **_options):
            raise OSError(errno.EPERM, "no hard links here")
        monkeypatch.setattr(os, "link", refuse)


def made(folder, name, text):
    (folder / name).write_text(text)
    return folder / name


def test_a_free_name_is_given(links, tmp_path):
    assert name_it(made(tmp_path, "part", "new"), tmp_path / "final", replace=False)
    assert (tmp_path / "final").read_text() == "new"


def test_anothers_file_stays(links, tmp_path):
    made(tmp_path, "final", "another's")
    assert not name_it(made(tmp_path, "part", "new"), tmp_path / "final", replace=False)
    assert (tmp_path / "final").read_text() == "another's"


def test_it_is_replaced_where_that_is_asked_for(links, tmp_path):
    made(tmp_path, "final", "old")
    assert name_it(made(tmp_path, "part", "new"), tmp_path / "final", replace=True)
    assert (tmp_path / "final").read_text() == "new"
