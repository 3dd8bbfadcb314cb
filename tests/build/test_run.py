"""Where what keeps a build is linked."""

from __future__ import annotations

import pytest
from apertus_image.build.maker import Maker
from apertus_image.build.run import root
from apertus_image.errors import UserError
from apertus_image.store.store import Store


def test_a_clone_that_cannot_be_written_to_is_one_error(tmp_path, monkeypatch):
    monkeypatch.delenv("APERTUS_WORK", raising=False)
    (tmp_path / ".roots").touch()  # in the way, also of root
    with pytest.raises(UserError, match=r"(?s)no place.*\.roots.*set APERTUS_WORK"):
        root(tmp_path, "toolchain", Store(), Maker("emitter", "asked for"))
