"""Purged file systems are known by their prefix, wherever links lead."""

import pytest
from apertus_image.errors import UserError
from apertus_image.place.purge import purged, warning


@pytest.mark.parametrize(("path", "days"), [
    ("/iopsstor/scratch/cscs/me/.edf_imagestore", 14), ("/capstor/scratch/cscs/me/.enroot", 30),
    ("/iopsstor/scratch", 14), ("/iopsstor/scratch/../scratch/x", 14),
    ("/iopsstor/scratches/me", None), ("/capstor/store/cscs/project", None),
    ("/iopsstor/scratch/../store", None), ("/home/me", None),
])
def test_known_prefixes_purge(path, days):
    found = purged(path, {})
    assert (found and found.days) == days


def test_a_site_adds_prefixes_and_the_longest_counts(tmp_path):
    site = {"APERTUS_PURGED": f"{tmp_path}/=90:{tmp_path}/fast=7:/capstor/scratch=60"}
    assert purged(tmp_path / "fast/mine", site).days == 7
    assert purged(tmp_path / "faster", site).days == 90
    assert purged("/capstor/scratch/me", site).days == 60
    assert purged("/iopsstor/scratch/me", site).days == 14
    assert purged(tmp_path, {"APERTUS_PURGED": ""}) is None


def test_links_are_followed_both_ways(tmp_path):
    (tmp_path / "disk/scratch").mkdir(parents=True)
    (tmp_path / "scratch").symlink_to("disk/scratch")
    (tmp_path / "home").symlink_to("scratch/me")
    (tmp_path / "disk/scratch/away").symlink_to(tmp_path)
    site = {"APERTUS_PURGED": f"{tmp_path}/scratch=3"}
    found = purged(tmp_path / "home/registry", site)
    assert (found.days, found.path) == (3, tmp_path / "disk/scratch/me/registry")
    assert purged(tmp_path / "disk/scratch/away/x", site) is None


@pytest.mark.parametrize("value", ["/a", "/a=", "/a=0", "/a=-1", "/a=two", "a=3", "=3",
                                   "/a=3,/b=4:"])
def test_a_malformed_variable_is_one_clear_error(value):
    with pytest.raises(UserError, match=r"(?s)APERTUS_PURGED is malformed.*/scratch=30"):
        purged("/tmp", {"APERTUS_PURGED": value})


def test_the_warning_says_when_and_what_to_do():
    text = warning("/capstor/scratch/me", {})
    assert "30 days" in text and "/capstor/scratch/me" in text
    assert "Store" in text and "never touch" in text and "checksums" in text
    assert warning("/capstor/store/me", {}) is None
