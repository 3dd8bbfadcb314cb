"""bundle/seed.sh: packages unpacked by sh, the command run on them, and nothing of it left."""

from __future__ import annotations

import os
import platform
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from apertus_image.commands import bootstrap
from support import seeding
from support.seeding import PACKAGES, POOL, cache, only, program, seed
from support.server import body, serve


@pytest.fixture
def project(tmp_path):
    return seeding.make(tmp_path)


def work(project: Path) -> Path:
    return project.parent / "cache/apertus-image/seed"


def test_the_command_is_run_on_what_was_brought_which_then_goes(project):
    result = seed(project, "DIR", "--json")
    assert result.returncode == 0, result.stderr
    words, mirrors, root, _, *certificates = result.stdout.splitlines()
    assert words.endswith("/usr/bin/python3.13 -m apertus_image.commands.bootstrap DIR --json")
    # Nothing is asked for twice.
    assert mirrors == f"mirrors: {work(project)}/debs {project.parent}/mirror"
    assert root.startswith(f"seed: {work(project)}/root.")
    assert "APERTUS_SEED" in certificates[0] and certificates[1:] == ["one", "two"]
    assert [*work(project).iterdir()] == []
    assert result.stderr.splitlines() == [
        "this machine has not what the tools need: bringing 2 packages of the pins"]


def test_what_was_brought_stays_when_the_command_fails(project):
    failed = seed(project, RESULT="7")
    assert failed.returncode == 7
    assert cache(project) == PACKAGES
    again = seed(project, APERTUS_DEBIAN_MIRRORS="/nowhere")
    assert again.returncode == 0, again.stderr


def test_every_option_of_the_command_is_known(project):
    for option in bootstrap.main.params:
        for name in option.opts:
            if option.param_type_name == "option" and name != "--help":
                value = [] if option.is_flag else [option.type.choices[0] if name == "--machine"
                                                   else "x"]
                assert seed(project, name, *value, "DIR").returncode == 0
                assert seed(project, "DIR", "=".join([name, *value])).returncode == 0


@pytest.mark.parametrize("arguments", [
    ["--nope", "DIR"], ["--json"], ["a", "b"], ["DIR", "--machine"], ["DIR", "--machine", "vax"],
    ["DIR", "--machine=vax"], ["DIR", "--store="]])
def test_what_is_not_understood_is_told_before_anything_is_brought(project, arguments):
    result = seed(project, *arguments)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("Usage: tools/bootstrap") and "Error: " in result.stderr
    assert not work(project).exists()


def test_help_brings_nothing(project):
    result = seed(project, "--help")
    assert result.returncode == 0 and result.stdout.startswith("Usage: tools/bootstrap")
    assert not work(project).exists()


def test_packages_are_unpacked_by_tar_and_xz_or_by_dpkg(project, tmp_path):
    for number, more in enumerate([(), ("dpkg-deb",)]):
        if all(map(shutil.which, more)):
            path = only(tmp_path / f"bin{number}", *more)
            if more:
                (Path(path) / "xz").unlink()
            result = seed(project, PATH=path)
            assert result.returncode == 0 and "two" in result.stdout, result.stderr


def test_variables_of_the_programs_used_change_nothing(tmp_path):
    """Also where a pipe that breaks is no signal, as under some who start programs."""
    project = seeding.make(tmp_path, more=os.urandom(1 << 18))
    given = seeding.surroundings(
        project, PATH=only(tmp_path / "bin"), CDPATH=str(tmp_path), TAR_OPTIONS="--verbose",
        XZ_OPT="--format=raw", LD_AUDIT="/x.so", NIX_CONFIG="x", PYTHONINSPECT="1",
        PYTHONPLATLIBDIR="x", POSIXLY_CORRECT="1", LC_ALL="C")
    result = subprocess.run(seeding.command(project), capture_output=True, text=True, env=given,
                            restore_signals=False)
    assert result.returncode == 0 and "led by: \n" in result.stdout, result.stderr
    assert len(result.stdout.splitlines()) == 7
    assert [line for line in result.stderr.splitlines() if "LD_AUDIT" not in line
            and "/x.so" not in line] == [
        "this machine has not what the tools need: bringing 2 packages of the pins"]


def test_a_package_that_cannot_be_unpacked_is_told(tmp_path):
    project = seeding.make(tmp_path, compression="gz")
    result = seed(project, PATH=only(tmp_path / "bin"))
    assert result.returncode == 1 and "cannot be unpacked" in result.stderr
    assert "it has no data.tar.xz" in result.stderr and "next:" in result.stderr


def test_a_file_system_without_programs_is_told(tmp_path):
    """As one that is mounted noexec: the loader cannot be started."""
    project = seeding.make(tmp_path, mode=0o644)
    result = seed(project)
    assert result.returncode == 1 and "programs cannot be started" in result.stderr
    assert "noexec" in result.stderr and cache(project) == PACKAGES


@pytest.mark.parametrize("place", ["o'd $x & \"%s\" |`é` \\b", "relative"])
def test_the_cache_may_lie_anywhere(project, tmp_path, monkeypatch, place):
    monkeypatch.chdir(tmp_path)
    where = place if place == "relative" else str(tmp_path / place)
    result = seed(project, XDG_CACHE_HOME=where)
    assert result.returncode == 0, result.stderr
    assert f"seed: {tmp_path}/{place}/apertus-image/seed/root." in result.stdout


def test_a_home_will_do_for_the_cache_and_none_is_told(project, tmp_path):
    (tmp_path / "home").mkdir()
    home = seed(project, without="XDG_CACHE_HOME", HOME=str(tmp_path / "home"))
    assert home.returncode == 0 and f"{tmp_path}/home/.cache/apertus-image" in home.stdout
    none = seed(project, without="XDG_CACHE_HOME")
    assert none.returncode == 1 and "HOME is not set" in none.stderr and "next:" in none.stderr
    file = seed(project, XDG_CACHE_HOME="/dev/null")
    assert file.returncode == 1 and "where:    /dev/null" in file.stderr


def test_missing_programs_are_all_named(project, tmp_path):
    path = only(tmp_path / "bin")
    for name in ("tar", "xz"):
        (tmp_path / "bin" / name).unlink()
    result = seed(project, PATH=path)
    assert result.returncode == 1 and "expected:  tar xz" in result.stderr


def test_another_machine_has_no_pins(project, tmp_path):
    path = only(tmp_path / "bin")
    program(tmp_path / "bin", "uname", "echo riscv64")
    result = seed(project, PATH=path)
    assert platform.machine() != "riscv64"
    assert result.returncode == 1 and "riscv64" in result.stderr


# -- runs beside each other, and runs that were stopped -----------------------------------------


def here() -> str:
    kernel = Path("/proc/sys/kernel/random/boot_id").read_text()[:8]
    return f"{kernel}-{''.join(filter(str.isdigit, os.readlink('/proc/self/ns/pid')))}"


def test_what_stopped_runs_left_goes_and_what_runs_stays(project):
    """Another node's processes have the same numbers, so there only time can tell."""
    gone = subprocess.Popen(["true"])
    gone.wait()
    old = time.time() - 2 * 86400
    left = {f"root.{here()}.{gone.pid}": False, f"root.{here()}.{os.getpid()}": True,
            f"root.00000000-1.{gone.pid}": True, f"root.00000000-1.{os.getpid()}": False}
    for name, stays in left.items():
        (work(project) / name).mkdir(parents=True)
        if not stays:
            os.utime(work(project) / name, (old, old))
    os.utime(work(project) / f"root.{here()}.{os.getpid()}", (old, old))
    result = seed(project)
    assert result.returncode == 0, result.stderr
    # And while somebody runs, what was brought is not taken away.
    assert sorted(path.name for path in work(project).iterdir()) == sorted(
        ["debs", *(name for name, stays in left.items() if stays)])
    assert cache(project) == PACKAGES


def test_a_stopped_run_with_this_very_number_is_in_nobodys_way(project, tmp_path):
    """Numbers begin anew in each container."""
    script = tmp_path / "run.sh"
    script.write_text('mkdir -p "$1.$$" && shift && exec sh "$@"\n')
    result = subprocess.run(
        ["sh", script, work(project) / f"root.{here()}", *seeding.command(project)[1:]],
        capture_output=True, text=True, env=seeding.surroundings(project))
    assert result.returncode == 0, result.stderr
    assert [*work(project).iterdir()] == []


def test_another_run_that_ends_meanwhile_does_no_harm(project):
    """It takes what was brought away."""
    def reply(handler):
        shutil.rmtree(work(project) / "debs", ignore_errors=True)
        body((project.parent / "mirror" / POOL / Path(handler.path).name.replace(
            "%2B", "+")).read_bytes())(handler)

    with serve() as server:
        server.replies = {f"/{POOL}/{deb.name}".replace("+", "%2B"): [reply]
                          for deb in (project.parent / "mirror" / POOL).iterdir()}
        result = seed(project, APERTUS_DEBIAN_MIRRORS=server.url)
    assert result.returncode == 0 and len(server.asked) == 2, result.stderr
    assert [*work(project).iterdir()] == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_a_stopped_run_leaves_whole_packages_and_the_next_ends(project, number):
    second = f"/{POOL}/lib+toolchain_1.0_amd64.deb".replace("+", "%2B")
    with serve() as server:
        server.replies = {second.replace("toolchain", "bundle"): [body(
            (project.parent / "mirror" / POOL / "lib+bundle_1.0_amd64.deb").read_bytes())],
            second: [lambda handler: time.sleep(30)]}
        run = subprocess.Popen(
            seeding.command(project), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env=seeding.surroundings(project, APERTUS_DEBIAN_MIRRORS=server.url),
            # A test run in the background would pass on an ignored SIGINT.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            start_new_session=True)
        while run.poll() is None and second not in [path for _, path, _ in server.asked]:
            time.sleep(0.02)
        os.killpg(run.pid, number)
        assert run.wait(timeout=20) == (-number if number == signal.SIGKILL else 128 + number)
    assert b"error" not in run.stdout.read()
    assert [path for path in cache(project) if path.startswith("debs/")] == PACKAGES[:1]
    assert seed(project).returncode == 0
    assert [*work(project).iterdir()] == []
