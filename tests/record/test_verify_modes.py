"""What a quick check, one at most and a full one read, and what a stamp is good for."""

from __future__ import annotations

import os
import shutil

import pytest
from apertus_image.record.report import DIFFERS, SAME, UNCHECKED
from apertus_image.record.stamp import Stamps
from support.exports import needs_nix
from support.published import SHA256, flip, standing

pytestmark = needs_nix


def test_quick_says_what_it_did_not_read(verify, there):
    report = verify()
    assert standing(report, SHA256) == UNCHECKED and not report.differs
    flip(there.files.sqsh, 5000)
    assert not verify().differs  # nothing but a full check finds it


def test_after_a_full_check_quick_knows_the_hash_until_the_file_changes(verify, there):
    verify("full")
    assert standing(verify(), SHA256) == SAME
    status = there.files.sqsh.stat()
    flip(there.files.sqsh, 5000)
    os.utime(there.files.sqsh, ns=(status.st_atime_ns, status.st_mtime_ns))  # the time put back
    assert there.files.sqsh.stat().st_mtime_ns == status.st_mtime_ns
    assert standing(verify(), SHA256) == UNCHECKED
    assert standing(verify("once"), SHA256) == DIFFERS
    assert standing(verify(), SHA256) == DIFFERS  # the stamp is of what is there now


def test_a_replaced_file_is_not_taken_for_the_one_that_was_hashed(verify, there):
    verify("full")
    other = there.files.sqsh.with_name("other")
    shutil.copyfile(there.files.sqsh, other)
    flip(other, 5000)
    shutil.copystat(there.files.sqsh, other)
    other.replace(there.files.sqsh)
    assert standing(verify(), SHA256) == UNCHECKED


def test_once_reads_the_file_once(verify, there, monkeypatch):
    assert standing(verify("once"), SHA256) == SAME
    monkeypatch.setattr(Stamps, "hash", None)  # it would fail
    assert standing(verify("once"), SHA256) == SAME
    with pytest.raises(TypeError):
        verify("full")


def test_full_reads_it_whatever_the_stamps_say(verify, there, monkeypatch):
    verify("full")
    flip(there.files.sqsh, 5000)
    digest = there.record.data["squashfs"]["sha256"][7:]
    monkeypatch.setattr(Stamps, "known", lambda self, file: digest)  # a stamp that lies
    assert standing(verify(), SHA256) == SAME
    assert standing(verify("full"), SHA256) == DIFFERS


def test_without_a_cache_it_is_hashed_and_says_so(verify, tmp_path):
    (tmp_path / "file").write_text("")
    report = verify("full", stamps=Stamps(tmp_path / "file/below"))
    (found,) = [item for item in report.items if item.what == SHA256]
    assert found.standing == SAME and "no stamp" in found.why
