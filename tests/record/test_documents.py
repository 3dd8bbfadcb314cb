"""Attestation and verdicts: files of their own that name the record's digest."""

from __future__ import annotations

import subprocess
from datetime import UTC, datetime, timedelta, timezone

import pytest
from apertus_image.errors import UserError
from apertus_image.record import attestation, verdict
from apertus_image.record.attestation import Attestation
from apertus_image.record.verdict import Verdict

START = datetime(2026, 7, 15, 12, 0, tzinfo=timezone(timedelta(hours=2)))


def attest(record, **more):
    return attestation.compose(record, **({"maker": "emitter", "check": "full", "started": START,
                                           "finished": datetime.now(UTC)} | more))


def test_an_attestation_says_what_honest_builders_may_differ_in(release):
    record = release.record()
    found = attest(record, versions={"squashfs-tools": "4.6.1"})
    assert found.data["record"] == record.digest
    assert found.data["started"] == "2026-07-15T10:00:00Z"
    assert found.data["tools"]["squashfs-tools"] == "4.6.1"
    said = subprocess.run(["git", "--version"], capture_output=True, text=True).stdout
    assert found.data["tools"]["git"] in said
    assert Attestation.parse(found.bytes) == found


def test_an_unknown_maker_is_refused(release):
    with pytest.raises(UserError, match="maker"):
        attest(release.record(), maker="by hand")


def test_a_verdict_names_record_and_probe(release):
    record = release.record()
    found = verdict.compose(record, "vllm-tp1", False, {"tokens": 3, "why": "é"})
    assert found.data["record"] == record.digest and not found.passed
    assert Verdict.parse(found.bytes) == found
    assert verdict.compose(record, "vllm-tp1", True).passed


@pytest.mark.parametrize("probe", ["", "../up", "a/b", ".hidden"])
def test_a_probes_name_is_a_files(release, probe):
    with pytest.raises(UserError, match=r"\$\.probe"):
        verdict.compose(release.record(), probe, True)
