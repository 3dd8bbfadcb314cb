"""Progress is for a terminal alone."""

from __future__ import annotations

import io

import pytest
from apertus_image.ui import progress
from apertus_image.ui.progress import Progress, size


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_sees_amounts_rate_and_time_left(monkeypatch):
    clock = iter(range(100))
    monkeypatch.setattr(progress.time, "monotonic", lambda: float(next(clock)))
    stream = Terminal()
    with Progress("fetching", 4_000_000, stream) as told:
        told.add(1_000_000)
    assert "fetching: 1.0 MB of 4.0 MB, 1.0 MB/s, 3 s left" in stream.getvalue()


def test_a_file_sees_nothing(monkeypatch):
    clock = iter(range(100))
    monkeypatch.setattr(progress.time, "monotonic", lambda: float(next(clock)))
    stream = io.StringIO()
    with Progress("fetching", 10, stream) as told:
        told.add(5)
        told.add(-2)
    assert stream.getvalue() == "" and told.done == 3


@pytest.mark.parametrize(("count", "text"), [(0, "0 B"), (999, "999 B"), (1500, "1.5 kB"),
                                             (4.4e9, "4.40 GB"), (-2e6, "-2.0 MB")])
def test_sizes(count, text):
    assert size(count) == text
