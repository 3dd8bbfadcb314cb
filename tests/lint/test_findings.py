"""Waivers: narrow, needed, with a reason; and checks that looked at nothing."""

from __future__ import annotations

import pytest
from apertus_image.errors import UserError
from apertus_image.lint.findings import Finding, Report, Waiver, waivers

NEED = Finding("needs", "/opt/pkg/x.so", "libmissing.so.3", "needs it")


def closed(*findings, allowed=(), present=(), **counts):
    report = Report()
    for check, number in ({"needs": 1} | counts).items():
        report.count(check, number)
    report.add(findings)
    return report.close(allowed, lambda path: path in present)


def waiver(**changes):
    return {"check": "needs", "path": "/opt/pkg/*", "subject": "libmissing.so.*",
            "reason": "a test's", **changes}


def test_a_waiver_covers_its_finding_alone():  # case 39
    other = Finding("needs", "/opt/pkg/x.so", "libother.so.1", "needs it")
    result = closed(NEED, other, allowed=waivers([waiver()]))
    assert result["findings"] == [other] and result["waived"] == 1


@pytest.mark.parametrize("change", [
    {"check": "versions"}, {"path": "/opt/other/*"}, {"subject": "libmissing.so.4"},
])
def test_a_waiver_of_something_else_covers_nothing_and_is_told(change):
    result = closed(NEED, allowed=waivers([waiver(**change)]))
    assert NEED in result["findings"] and result["waived"] == 0
    [told] = [f for f in result["findings"] if f.check == "waiver"]
    assert "nothing needs" in told.why


def test_two_waivers_may_cover_one_finding():
    result = closed(NEED, allowed=waivers([waiver(), waiver(subject="*")]))
    assert result == {"checked": {"needs": 1}, "waived": 1, "findings": []}


def test_a_check_that_looked_at_nothing_is_a_finding():  # case 6: an empty selection
    [found] = closed(bytecode=0)["findings"]
    assert found.check == "bytecode" and "looked at nothing" in found.why
    assert closed(bytecode=3)["findings"] == []


def test_findings_come_in_one_order():
    others = [Finding("store", "/b", "", ""), Finding("needs", "/a", "z", "")]
    assert closed(NEED, *others) == closed(*others[::-1], NEED)


@pytest.mark.parametrize("entry", [
    {k: v for k, v in waiver().items() if k != "reason"}, waiver(reason="  "), waiver(subject=""),
    waiver(extra="x"), waiver(path="*"), waiver(path="/*"), waiver(path="/**/?"),
])
def test_a_waiver_without_a_reason_or_too_wide_is_refused(entry):
    with pytest.raises(UserError, match="lint waiver"):
        waivers([entry])


def test_all_wrong_waivers_are_told_together():
    with pytest.raises(UserError) as error:
        waivers([waiver(path="*"), waiver(), waiver(reason="")])
    assert "2 lint waivers are wrong" in str(error.value)


def test_a_right_waiver_is_read():
    assert waivers([waiver(machine="aarch64")]) == [
        Waiver("needs", "/opt/pkg/*", "libmissing.so.*", "a test's", "aarch64")]


def test_a_library_loaded_before_is_waived_only_while_the_image_has_it():  # case 39
    allowed = waivers([waiver(loaded_from="/opt/torch/lib")])
    assert closed(NEED, allowed=allowed, present=["/opt/torch/lib/libmissing.so.3"]) == {
        "checked": {"needs": 1}, "waived": 1, "findings": []}
    for present in ([], ["/opt/torch/lib/libmissing.so.4"], ["/opt/torch/libmissing.so.3"]):
        assert NEED in closed(NEED, allowed=allowed, present=present)["findings"]
