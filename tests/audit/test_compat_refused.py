"""Checkouts and images that cannot be judged: one clear error, whatever is wrong in them."""

from __future__ import annotations

import copy
import functools
import tomllib

import pytest
import tomli_w
from apertus_image.audit.compat import judged
from apertus_image.audit.project import Project
from apertus_image.commands import compat
from apertus_image.errors import UserError
from click.testing import CliRunner
from support.pythons import checkout, entry, root

WRONG = {
    "no pyproject": ({}, "no Python project"),
    "no TOML": ({"pyproject.toml": "x ="}, "pyproject.toml cannot be read"),
    "no project": ({"pyproject.toml": "[tool.x]\n"}, "pyproject.toml is malformed"),
    "bad requirement": ({"pyproject.toml": '[project]\nname="a"\ndependencies=["=="]\n'},
                        "pyproject.toml is malformed"),
    "lists for texts": ({"pyproject.toml": '[project]\nname=["a"]\n'}, "pyproject.toml is malfor"),
    "malformed lock": ({"uv.lock": "version = 1\n[["}, "uv.lock cannot be understood"),
    "other version": ({"uv.lock": "version = 2\n"}, "uv.lock is of an unknown version"),
    "no names": ({"uv.lock": "version = 1\n[[package]]\nversion='1'\n"}, "cannot be understood"),
    "texts for tables": ({"uv.lock": "version = 1\n[[package]]\nname='app'\nsource='x'\n"},
                         "uv.lock cannot be understood"),
    "another's lock": ({"uv.lock": "version = 1\n"}, "uv.lock is not this project's"),
    "dangling": ({"uv.lock": "version = 1\n" + root("gone")}, "0 packages fit the dependency gone"),
    "no group": ({"pyproject.toml": '[project]\nname="app"\n[dependency-groups]\n'
                  'a = [{include-group = "b"}]\n'}, "pyproject.toml is malformed"),
    "bad marker": ({"uv.lock": "version = 1\n" + root({"name": "idna", "marker": "x y"})
                    + entry("idna")}, "a marker is malformed"),
    "stale lock": ({"pyproject.toml": '[project]\nname="app"\ndependencies=["idna>=3"]\n',
                    "uv.lock": "version = 1\n" + root("idna", requires=[
                        {"name": "idna", "specifier": ">=2"}]) + entry("idna")},
                   "uv.lock is older than pyproject.toml"),
    "dynamic": ({"pyproject.toml": '[project]\nname="app"\ndynamic=["dependencies"]\n'},
                "made up by its build"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_checkout_is_one_clear_error(tmp_path, image, name, monkeypatch):
    files, message = WRONG[name]
    if files and "pyproject.toml" not in files:
        files = {"pyproject.toml": '[project]\nname = "app"\n'} | files
    for path, text in files.items():
        (tmp_path / path).write_text(text)
    monkeypatch.setattr(compat, "_installed", lambda *_: image)
    result = CliRunner().invoke(compat.main, [str(tmp_path)])
    assert result.exit_code == 1 and result.output.startswith("error: "), result.output
    assert message in result.output and result.output.count("error: ") == 1


def places(data, at=()):
    """The path of every value of a document."""
    for key, value in data.items() if isinstance(data, dict) else (
            enumerate(data) if isinstance(data, list) else ()):
        yield (*at, key)
        yield from places(value, (*at, key))


@pytest.mark.parametrize("file", ["pyproject.toml", "uv.lock"])
def test_whatever_is_wrong_in_a_document_there_is_no_traceback(tmp_path, image, file):
    lock = (root("idna", extras={"fast": [{"name": "part", "extra": ["x"], "marker": "os_name=='a'",
                                           "version": "1.0"}]}, groups={"dev": ["idna"]},
                 requires=[{"name": "idna", "specifier": ">=3"}, {"name": "part"}])
            + entry("idna", "3.18") + entry("part", source={"editable": "."}))
    made = checkout(tmp_path / "c", "dependencies = ['idna>=3']\noptional-dependencies = "
                    "{ fast = ['part'] }\nrequires-python = '>=3'\n[dependency-groups]\n"
                    "dev = ['idna', {include-group = 'no'}]\nno = []\n"
                    "[tool.uv.sources]\npart = { path = '.' }", lock)
    whole = tomllib.loads((made / file).read_text())
    refused = 0
    for place in places(whole):
        for wrong in (1, "?", "", [], [1], {}, {"name": "?"}):
            data = copy.deepcopy(whole)
            inside = functools.reduce(lambda value, key: value[key], place[:-1], data)
            inside[place[-1]] = wrong
            (made / file).write_text(tomli_w.dumps(data))
            try:
                judged(Project.read(made), image, ["fast"], ["dev"])
            except UserError:
                refused += 1
    assert refused > 50


@pytest.mark.parametrize("arguments", [
    ["--extra", "x"], ["--group", "x"], ["--extra", "x", "--no-extra"]])
def test_an_extra_that_is_not_there_is_an_error(tmp_path, image, arguments, monkeypatch):
    monkeypatch.setattr(compat, "_installed", lambda *_: image)
    result = CliRunner().invoke(compat.main, [str(checkout(tmp_path / "c")), *arguments])
    assert result.exit_code == 1 and result.output.startswith("error: ")


def test_an_image_that_is_none_is_an_error(tmp_path):
    made = str(checkout(tmp_path / "c"))
    (tmp_path / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    for image, message in (("no.sqsh", "no such export"), ("no.json", "no such image"),
                           (str(tmp_path), "an OCI layout is not looked into")):
        result = CliRunner().invoke(compat.main, [made, "--image", image])
        assert result.exit_code == 1 and message in result.output
