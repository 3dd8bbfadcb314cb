"""tools/lock: what it writes, what it says, and when it writes nothing."""

from __future__ import annotations

import functools
import importlib
import json

import pytest
from apertus_image.pins import lockfile
from apertus_image.resolve.apt import Suite
from click.testing import CliRunner
from support import archive
from support.archive import package, publish

pytestmark = pytest.mark.skipif(
    bool(archive.MISSING), reason=f"not run: {', '.join(archive.MISSING)} not on this machine")
command = importlib.import_module("apertus_image.commands.lock")
NEXT = "Sun, 29 Nov 2026 09:40:00 UTC"  # apt refuses a date to come


def packages(version):
    return [each for architecture in ("amd64", "arm64") for each in (
        package("tool", version, architecture, Depends="libtool"),
        package("libtool", "1.5", architecture))]


class Bench:
    """Pins of their own, a mirror of their own, and the command on both."""

    def __init__(self, root, key):
        self.pins, self.mirror, self._key = root / "pins", root / "mirror", key
        self.pins.mkdir()
        self.lock = self.pins / "toolchain.json"
        self.ask("tool")
        self.release("1.0")

    def ask(self, *lines):
        (self.pins / "toolchain.packages").write_text("\n".join(lines) + "\n")

    def release(self, version, **fields):
        publish(self.mirror, self._key, packages(version), **fields)

    def __call__(self, *arguments, code=0):
        result = CliRunner().invoke(command.main, arguments)
        assert result.exit_code == code, result.output + result.stderr
        assert "Traceback" not in result.stderr
        return result.stdout.splitlines(), result.stderr


@pytest.fixture(scope="module")
def key():
    made = archive.Key()
    yield made
    made.close()


@pytest.fixture
def bench(key, tmp_path, monkeypatch):
    made = Bench(tmp_path, key)
    monkeypatch.setattr(command, "PINS", made.pins)
    monkeypatch.setattr(command, "Suite", functools.partial(Suite, keyring=key.ring))
    monkeypatch.setenv("APERTUS_DEBIAN_MIRRORS", str(made.mirror))
    monkeypatch.delenv("APERTUS_DEBIAN_SNAPSHOT", raising=False)
    return made


def test_a_first_lock_and_the_same_bytes_again(bench):
    said, _ = bench("toolchain")
    assert "toolchain: amd64: + tool 1.0" in said and "toolchain: arm64: + libtool 1.5" in said
    first = bench.lock.read_bytes()
    assert lockfile.load(bench.lock)["release"] == "13.8"
    assert bench("toolchain") == ([], "toolchain: resolving\n0 changes\n")
    bench.lock.unlink()
    bench("toolchain")
    assert bench.lock.read_bytes() == first


def test_check_changes_nothing_and_says_by_its_exit_code(bench):
    bench("toolchain")
    before = sorted((path.name, path.read_bytes()) for path in bench.pins.iterdir())
    assert bench("toolchain", "--check")[0] == []
    bench.release("1.1", date=NEXT, Version="13.9")
    said, err = bench("toolchain", "--check", code=10)
    assert said == [
        "toolchain: amd64:   tool 1.0 -> 1.1", "toolchain: arm64:   tool 1.0 -> 1.1",
        f"toolchain: date: {archive.DATE} -> {NEXT}", "toolchain: release: 13.8 -> 13.9"]
    assert "4 changes, none of them written" in err
    assert sorted((path.name, path.read_bytes()) for path in bench.pins.iterdir()) == before


def test_check_of_what_is_not_locked_yet(bench):
    assert bench("toolchain", "--check", code=10)[0]
    assert not bench.lock.exists()


def test_changed_requirements_are_what_it_is_for(bench):  # case 48
    bench("toolchain")
    bench.ask("tool", "-libtool")
    said, _ = bench("toolchain")
    assert "toolchain: arm64: - libtool 1.5" in said
    assert [pin["name"] for pin in lockfile.load(bench.lock)["arm64"]] == ["tool"]


@pytest.mark.parametrize("text", ["{", '{"format": 9}', '{"format": 1, "kind": "debian"}'])
def test_a_broken_lock_is_made_anew(bench, text):
    bench.lock.write_text(text)
    _, err = bench("toolchain")
    assert "toolchain.json cannot be compared with" in err
    lockfile.load(bench.lock)


def test_a_failure_leaves_the_lock_as_it_was(bench):
    bench("toolchain")
    before = bench.lock.read_bytes()
    bench.ask("tool", "no-such-package")
    _, err = bench("toolchain", code=1)
    assert "no-such-package" in err and "mend the .packages file" in err
    assert bench.lock.read_bytes() == before


def test_another_suite_is_refused(bench):
    bench.release("1.0", Suite="stable-updates", Codename="trixie-updates", Version="13-updates")
    _, err = bench("toolchain", code=1)
    assert "no Debian mirror" in err or "no point release's main suite" in err
    assert not bench.lock.exists()


def test_gone_pins_anew_what_is_gone_and_shows_it(bench):
    bench("toolchain")
    old = json.loads(bench.lock.read_text())
    bench.release("1.1", date=NEXT, Version="13.9")
    archive.fill(bench.mirror, [p for p in packages("1.0") if p["Package"] == "libtool"])
    archive.fill(bench.mirror, [p for p in packages("1.0") if p["Architecture"] == "arm64"])

    said, _ = bench("toolchain", "--gone", "--check", code=10)
    assert said == ["toolchain: amd64:   tool 1.0 -> 1.1"]
    assert json.loads(bench.lock.read_text()) == old
    assert bench("toolchain", "--gone")[0] == said
    new = lockfile.load(bench.lock)
    assert new["arm64"] == old["arm64"] and new["amd64"][0] == old["amd64"][0]
    assert new["amd64"][1]["version"] == "1.1" and new["amd64"][1]["date"] == NEXT
    assert (new["release"], new["date"]) == ("13.8", archive.DATE)


def test_gone_where_nothing_is(bench):
    bench("toolchain")
    archive.fill(bench.mirror, packages("1.0"))
    bench.release("1.1", date=NEXT, Version="13.9")
    assert bench("toolchain", "--gone") == ([], "toolchain: resolving\n0 changes\n")
