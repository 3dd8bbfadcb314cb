"""How a builder ends: a user's mistake and a full disk are told, a bug keeps its traceback."""

from __future__ import annotations

import errno

import pytest
from apertus_image.errors import UserError, run_builder


@pytest.fixture
def argv(tmp_path, monkeypatch):
    (tmp_path / "spec").write_text('{"a": 1}')
    monkeypatch.setattr("sys.argv", ["m", str(tmp_path / "spec"), str(tmp_path / "out")])
    return tmp_path


def test_it_gets_spec_and_outputs(argv):
    got = []
    run_builder(lambda spec, out: got.append((spec, out)))
    assert got == [({"a": 1}, argv / "out")]


@pytest.mark.parametrize(
    ("raised", "said"),
    [(UserError("it broke", next_step="mend it"), "error: it broke\n  next:     mend it"),
     (OSError(errno.ENOSPC, "full", "/x"), "error: the disk is full\n  where:    /x"),
     (OSError(errno.EDQUOT, "quota"), "error: the disk is full")],
)
def test_what_is_told(argv, raised, said):
    def build(spec, out):
        raise raised

    with pytest.raises(SystemExit) as end:
        run_builder(build)
    assert str(end.value.code).startswith(said)


@pytest.mark.parametrize("raised", [ValueError("a bug"), OSError(errno.ENOENT, "a bug")])
def test_a_bug_is_not_hidden(argv, raised):
    def build(spec, out):
        raise raised

    with pytest.raises(type(raised), match="a bug"):
        run_builder(build)
