"""Profiles: every fault of one in one message, variables filled in, the two that come with it."""

from __future__ import annotations

import pytest
from apertus_image.errors import UserError
from apertus_image.release.profile import PROFILES, STEPS, Profile

WHOLE = """\
image: smoke-image
scratch: /s
publish: {folder: "${WHERE:-/p}"}
"""


def load(tmp_path, text, **environment):
    file = tmp_path / "p.yaml"
    file.write_text(text)
    return Profile.load(str(file), environment)


def test_a_small_one(tmp_path):
    profile = load(tmp_path, WHOLE)
    assert (profile.image, str(profile.publish), profile.readable) == ("smoke-image", "/p", "all")
    assert profile.registry is None and profile.slurm is None and profile.store is None
    assert str(load(tmp_path, WHOLE, WHERE="/q").publish) == "/q"


def test_every_fault_is_listed(tmp_path):
    with pytest.raises(UserError, match="2 faults") as caught:
        load(tmp_path, "image: 1\nscratch: /s\npublish: {folder: /p}\nwrong: 2\n")
    assert "'wrong' was unexpected" in str(caught.value) and "as text: 1\n" in str(caught.value)


@pytest.mark.parametrize(("text", "said"), [
    ("[", "no YAML"),
    (WHOLE + "registry: {repository: a, serve: /r, host: h:1}\n", "or host.*\n.*got: +both"),
    (WHOLE + "registry: {repository: a}\n", "got: +neither"),
    (WHOLE + "slurm: {time: 12:00:00}\n", "read as text: 43200\n.*in quotes"),
    (WHOLE + "registry: {repository: a, serve: /r, tag: 26.10}\n", "text: 26.1\n.*in quotes"),
    (WHOLE + "registry: {repository: a, serve: /r, tag: 2026-10-01}\n", "date.*\n.*in quotes"),
    (WHOLE + "registry: {repository: [a], serve: /r}\n", "not of type.*\n.*docs/release.md"),
    (WHOLE + "registry: {repository: Team/x, serve: /r}\n", "cannot be named so"),
    (WHOLE + "registry: {repository: a, serve: /r, tag: a b}\n", "cannot be named so"),
    (WHOLE + "registry: {repository: a, host: 'h:1/b'}\n", "cannot be named so"),
    (WHOLE + "slurm: {time: '1', jobs: [[build], [prefetch]]}\n", "every step once"),
    (WHOLE.replace(":-/p", ""), "variable that is not set"),
    (WHOLE.replace("smoke-image", "../../x"), "does not fit"),
    (WHOLE.replace(":-/p", ":-"), "path is empty"),
    (WHOLE.replace("/s", "~nobody-at-all/s"), "nobody's home"),
    (WHOLE + "registry: {repository: a, host: 'h:1', ca: none.pem}\n", "certificates are not"),
])
def test_one_fault_is_named(tmp_path, text, said):
    with pytest.raises(UserError, match=said):
        load(tmp_path, text)


PLACES = """\
image: smoke-image
scratch: "{at}scratch"
store: "{at}store"
publish: {{folder: "{at}publish"}}
registry: {{{kind}, repository: a, ca: "{at}ca.pem"}}
"""


@pytest.mark.parametrize(("at", "whole"), [
    ("~/", "home/"), ("", "here/"), ("../", ""), ("${AT}/", "there/"), ("${NO:-~}/a/../", "home/"),
])
def test_every_path_is_made_whole_by_one_rule(tmp_path, monkeypatch, at, whole):
    for name in ("home", "here", "there"):
        (tmp_path / name).mkdir()
    folder = tmp_path / whole
    (folder / "ca.pem").write_text("")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path / "here")
    for kind in (f'serve: "{at}serve"', "host: 'h:1'"):
        profile = load(tmp_path, PLACES.format(at=at, kind=kind), AT=str(tmp_path / "there"))
        registry = dict(profile.registry)
        assert (registry.pop("serve", folder / "serve"), registry.pop("host", "h:1")) == (
            folder / "serve", "h:1")
        assert registry == {"repository": "a", "ca": folder / "ca.pem"}
        assert (profile.scratch, profile.store, profile.publish) == tuple(
            folder / name for name in ("scratch", "store", "publish"))


def test_two_paths_that_cannot_be_are_told_together(tmp_path):
    with pytest.raises(UserError, match="2 faults"):
        load(tmp_path, PLACES.format(at="/none/${NONE:-}/", kind="host: 'h:1'").replace(
            "/none/${NONE:-}/store", "${NONE:-}"))


def test_every_variable_that_is_not_set_is_told_once():
    with pytest.raises(UserError, match="3 faults") as caught:
        Profile.load("clariden", {"APERTUS_IMAGES": ""})
    nexts = [line.split()[-1] for line in str(caught.value).splitlines() if "next:" in line]
    assert nexts == ["SCRATCH=…", "APERTUS_IMAGES=…", "APERTUS_ACCOUNT=…"]
    with pytest.raises(UserError, match="export APERTUS_ACCOUNT") as caught:
        Profile.load("clariden", {"SCRATCH": "/s", "APERTUS_IMAGES": "/i"})
    assert "faults" not in str(caught.value)


def test_a_file_that_is_no_text_is_one_error(tmp_path):
    (tmp_path / "p.yaml").write_bytes(b"\xff")
    with pytest.raises(UserError, match="no text"):
        Profile.load(str(tmp_path / "p.yaml"))


def test_another_image_is_one_that_can_be(tmp_path):
    profile = load(tmp_path, WHOLE)
    assert profile.of("apertus-image").image == "apertus-image"
    for name in ("../../x", "a/b", "", "a b"):
        with pytest.raises(UserError, match="no image has such a name"):
            profile.of(name)


def test_an_unknown_name_tells_the_known_ones():
    with pytest.raises(UserError, match="clariden, laptop"):
        Profile.load("nowhere")


def test_those_that_come_with_it_are_whole():
    names = sorted(file.stem for file in PROFILES.glob("*.yaml"))
    assert names == ["clariden", "laptop"]
    environment = {"SCRATCH": "/iopsstor/scratch/cscs/me", "APERTUS_IMAGES": "/capstor/store/p",
                   "APERTUS_ACCOUNT": "p1"}
    clariden = Profile.load("clariden", environment)
    assert clariden.image == "apertus-image-aarch64" and clariden.slurm.account == "p1"
    assert tuple(step for job in clariden.slurm.jobs for step in job) == STEPS
    assert Profile.load("laptop").origin == "laptop"
    with pytest.raises(UserError, match="APERTUS_ACCOUNT"):
        Profile.load("clariden", {**environment, "APERTUS_ACCOUNT": ""})
