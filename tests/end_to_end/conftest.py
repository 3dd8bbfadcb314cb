"""One clean clone and one undisturbed release of it, for all tests of releases."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.checkout import clean_clone
from support.releasing import release


@pytest.fixture(scope="session")
def clone(tmp_path_factory) -> Path:
    """A clone that is its commit; whoever changes it puts it back."""
    return clean_clone(tmp_path_factory.mktemp("project") / "clone")


@pytest.fixture(scope="session")
def reference(clone, tmp_path_factory) -> Path:
    """The site of an undisturbed release of the smoke image; no test changes it."""
    at = tmp_path_factory.mktemp("reference")
    done = release(clone, at)
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()).is_file()
    return at
