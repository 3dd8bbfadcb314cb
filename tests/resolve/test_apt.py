"""apt's resolver on an archive of our own: what it is asked, and what it must not look at."""

from __future__ import annotations

import pytest
from apertus_image.errors import UserError
from apertus_image.pins import lockfile
from apertus_image.resolve import debian
from apertus_image.resolve.apt import Suite, point_release
from support import archive
from support.archive import MAIN, package, publish

pytestmark = pytest.mark.skipif(
    bool(archive.MISSING), reason=f"not run: {', '.join(archive.MISSING)} not on this machine")

# `bash` is installed wherever apt runs, so a resolver that looked at dpkg's status would miss it.
PACKAGES = [
    each
    for architecture in ("amd64", "arm64")
    for each in (
        package("tool", "2:1.0~rc1+b1", architecture, Depends="libtool (>= 1), bash",
                Recommends="extra"),
        package("libtool", "1.5", architecture),
        package("bash", "5.2", architecture),
        package("extra", "1", architecture),
        package("unrelated", "1", architecture),
    )
] + [package("data", "3", "all")]


@pytest.fixture(scope="module")
def key():
    made = archive.Key()
    yield made
    made.close()


@pytest.fixture(scope="module")
def mirror(key, tmp_path_factory):
    return publish(tmp_path_factory.mktemp("mirror"), key, PACKAGES)


@pytest.fixture
def suite(key, mirror):
    with Suite([mirror], key.ring) as made:
        yield made


def wanted(folder, *lines, kind="toolchain"):
    (folder / f"{kind}.packages").write_text("\n".join(lines) + "\n")
    return folder


@pytest.mark.parametrize("architecture", ["amd64", "arm64"])
def test_depends_are_followed_and_recommends_are_not(suite, architecture):
    assert sorted(suite.closure(architecture, ["tool"])) == [
        "bash=5.2", "libtool=1.5", "tool=2:1.0~rc1+b1"]


def test_entries_are_those_of_the_lists(suite):
    (arm,) = suite.entries("arm64", ["tool"])
    told = package("tool", "2:1.0~rc1+b1", "arm64")
    assert arm == {
        "name": "tool", "version": "2:1.0~rc1+b1", "architecture": "arm64",
        "path": "pool/main/t/tool/tool_1.0~rc1+b1_arm64.deb", "sha256": told["SHA256"],
        "size": int(told["Size"])}
    assert suite.entries("amd64", ["data"])[0]["architecture"] == "all"


def test_a_package_that_is_not_there_is_named(suite):
    with pytest.raises(UserError, match="cannot resolve") as error:
        suite.closure("arm64", ["tool", "no-such-thing"])
    assert "no-such-thing" in str(error.value) and "arm64" in str(error.value)
    with pytest.raises(UserError, match="no-such-thing"):
        suite.entries("amd64", ["no-such-thing"])


def test_a_lock_names_its_release_and_is_the_same_twice(key, mirror, tmp_path):
    pins = wanted(tmp_path, "# a comment", "tool", "data")
    made = []
    for _ in range(2):
        with Suite([mirror], key.ring) as suite:
            made.append(lockfile.dumps(debian.resolve("toolchain", pins, suite)))
    assert made[0] == made[1]
    (tmp_path / "toolchain.json").write_text(made[0])
    lock = lockfile.load(tmp_path / "toolchain.json")
    assert (lock["suite"], lock["release"], lock["date"]) == ("trixie", "13.8", archive.DATE)
    for section in ("amd64", "arm64"):
        assert [pin["name"] for pin in lock[section]] == ["bash", "data", "libtool", "tool"]


def test_what_is_left_out_is_left_out(suite, tmp_path):
    lock = debian.resolve("toolchain", wanted(tmp_path, "tool", "-bash"), suite)
    assert [pin["name"] for pin in lock["arm64"]] == ["libtool", "tool"]


def test_leaving_out_what_is_not_there_is_an_error(suite, tmp_path):
    with pytest.raises(UserError, match="does not add") as error:
        debian.resolve("toolchain", wanted(tmp_path, "tool", "-unrelated"), suite)
    assert "unrelated" in str(error.value)


def test_the_next_mirror_is_asked(key, mirror, tmp_path):
    with Suite([str(tmp_path / "nothing"), mirror], key.ring) as suite:
        assert suite.release() == ("13.8", archive.DATE)


def test_no_mirror_at_all_is_one_error_that_names_each_without_its_password(key, tmp_path):
    mirrors = ["http://someone:secret@127.0.0.1:1/debian", str(tmp_path)]
    with Suite(mirrors, key.ring) as suite, pytest.raises(UserError) as error:
        suite.release()
    said = str(error.value)
    assert "127.0.0.1:1" in said and str(tmp_path) in said and "APERTUS_DEBIAN_MIRRORS" in said
    assert "secret" not in said


def test_another_key_is_not_trusted(mirror):
    other = archive.Key()
    try:
        with Suite([mirror], other.ring) as suite, pytest.raises(UserError, match="no Debian"):
            suite.release()
    finally:
        other.close()


def test_lists_changed_after_signing_are_refused(key, tmp_path):
    mirror = publish(tmp_path, key, PACKAGES)
    lists = tmp_path / "dists/trixie/main/binary-arm64/Packages"
    lists.write_text(lists.read_text().replace("5.2", "5.3"))
    with Suite([mirror], key.ring) as suite, pytest.raises(UserError, match="no Debian"):
        suite.closure("amd64", ["tool"])


def test_nothing_is_left_behind(key, mirror, monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with Suite([mirror], key.ring) as suite:
        suite.release()
        assert list(tmp_path.iterdir())
    with Suite([str(tmp_path / "no")], key.ring) as suite, pytest.raises(UserError):
        suite.release()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("fields", [
    {"Suite": "stable-updates", "Codename": "trixie-updates", "Version": "13-updates"},
    {"Suite": "proposed-updates", "Codename": "trixie-proposed-updates", "Version": ""},
    {"Label": "Debian-Security", "Codename": "trixie-security", "Version": "13"},
    {"Codename": "trixie", "Version": "13"},
    {"Codename": "trixie", "Version": ""},
    {"Suite": "testing", "Codename": "forky", "Version": ""},
    {"Codename": "bookworm", "Version": "12.13"},
    {"Date": ""},
])
def test_only_a_point_releases_main_suite_will_do(fields):
    text = "".join(f"{k}: {v}\n" for k, v in (MAIN | {"Date": archive.DATE} | fields).items() if v)
    with pytest.raises(UserError, match="no point release's main suite"):
        point_release(text)
    whole = "".join(f"{k}: {v}\n" for k, v in (MAIN | {"Date": archive.DATE}).items())
    assert point_release(whole) == ("13.8", archive.DATE)


def test_no_release_file_at_all():
    with pytest.raises(UserError, match="no Release file"):
        point_release("")
