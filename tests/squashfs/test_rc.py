"""The generated /etc/rc does what Enroot's does: outputs recorded from Enroot's own (8ea147d)."""

from __future__ import annotations

import os
import subprocess

import pytest
from apertus_image.squashfs.enroot import generated

PRINT = ["printf", "[%s]"]
WORDS = ["a b", "", '"q"', "it's", "$HOME", "`id`", "\\", "*", "é", "-n", "~", "A=b", "#x", "!"]
SAID = "".join(f"[{word}]" for word in WORDS)
TELL = 'echo "$# ${OLDPWD-unset} $(pwd)"\n'


def text(config, path):
    node = next(node for node in generated(config) if node.path == path)
    return b"".join(piece.data for piece in node.pieces).decode()


@pytest.fixture
def run(tmp_path):
    """Run an image's /etc/rc: (config, rc.local, arguments) -> (exit code, stdout)."""

    def run(config, local="", *arguments):
        (tmp_path / "local").write_text(local)
        rc = text(config, "/etc/rc").replace("/etc/rc.local", str(tmp_path / "local"))
        (tmp_path / "rc").write_text(rc, newline="")
        done = subprocess.run(
            ["sh", tmp_path / "rc", *arguments], capture_output=True, text=True, cwd="/",
            input="echo a shell", env={"PATH": os.environ["PATH"], "OLDPWD": "/x", "HOME": "/h"})
        return done.returncode, done.stdout

    return run


@pytest.mark.parametrize(("config", "arguments", "wanted"), [
    ({}, [], "a shell\n"),
    ({"Entrypoint": [], "Cmd": [], "WorkingDir": ""}, [], "a shell\n"),
    ({"Entrypoint": None, "Cmd": None, "WorkingDir": None}, [], "a shell\n"),
    ({}, [*PRINT, *WORDS], SAID),
    ({"Cmd": [*PRINT, *WORDS]}, [], SAID),
    ({"Cmd": [*PRINT, "cmd"]}, ["printf", "<%s>", "given"], "<given>"),
    ({"Entrypoint": PRINT}, [], "[]"),
    ({"Entrypoint": PRINT}, WORDS, SAID),
    ({"Entrypoint": PRINT, "Cmd": WORDS}, [], SAID),
    ({"Entrypoint": [*PRINT, "e"], "Cmd": ["cmd"]}, ["given"], "[e][given]"),
    ({"Entrypoint": [*PRINT, "e"], "Cmd": ["cmd"]}, [""], "[e][]"),
    ({"Labels": {"a": "`echo no`", "b": "$(echo no)", "c": "\recho no"}, "Cmd": PRINT}, [], "[]"),
])
def test_what_is_executed(config, arguments, wanted, run):
    assert run(config, "", *arguments) == (0, wanted)


@pytest.mark.parametrize(("local", "arguments", "wanted"), [
    (TELL, [], (0, "0 unset /\n[cmd]")),
    (TELL, ["echo", "given"], (0, "2 unset /\ngiven\n")),
    ('exec "$@"\n', ["echo", "a  b"], (0, "a  b\n")),  # what Pyxis writes
    ("set -- echo from local\n", [], (0, "from local\n")),
    ("false\n", [], (0, "[cmd]")),
    ("exit 7\n", ["echo", "x"], (7, "")),
])
def test_rc_local_is_sourced(local, arguments, wanted, run):
    assert run({"Cmd": [*PRINT, "cmd"]}, local, *arguments) == wanted


@pytest.mark.parametrize("name", ["w", "a b", "it's", "deep/er", "é"])
def test_the_working_directory_is_made_and_entered(name, run, tmp_path):
    where = str(tmp_path / "jobs" / name)
    assert run({"Cmd": ["pwd"], "WorkingDir": where}, TELL) == (
        0, f"0 unset {where}\n{where}\n")


@pytest.mark.parametrize("name", ["$HOME", '"', "`id`"])
def test_a_working_directory_is_no_shell_code(name, run, tmp_path):
    # Enroot's own expands these at start.
    where = str(tmp_path / name)
    assert run({"Cmd": ["pwd"], "WorkingDir": where}) == (0, f"{where}\n")


def test_a_working_directory_that_cannot_be(run):
    assert run({"Cmd": ["echo", "no"], "WorkingDir": "/dev/null/x"}) == (1, "")


def test_a_program_that_is_not_there(run):
    assert run({"Cmd": ["/no/such/program"]}) == (127, "")


@pytest.mark.parametrize("word", ["x\ty", "\x01\x7f"])
def test_odd_characters_arrive(word, run):
    # Enroot's own writes $'..', which dash does not know.
    assert run({"Cmd": [*PRINT, word]}) == (0, f"[{word}]")


def test_env_and_volumes_as_enroot_writes_them():
    config = {"Env": ["A=b c", 'B="q"', "A=2", "C=$HOME", "D", "E=é", "F=a=b"],
              "Volumes": {"/b": {}, "/a": {}, "/A": {}}}
    assert text(config, "/etc/environment") == (
        'A=b c\nB="q"\nA=2\nC=$HOME\nD\nE=é\nF=a=b\n')
    fields = [line.split()[:4] for line in text(config, "/etc/fstab").splitlines()]
    assert fields == [[f"${{ENROOT_ROOTFS}}{path}", path, "none",
                       "x-create=dir,bind,rw,nosuid,nodev"] for path in ("/A", "/a", "/b")]
