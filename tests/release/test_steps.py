"""What each step takes as done, where the machine alone cannot know."""

from __future__ import annotations

from types import SimpleNamespace

from apertus_image.release.context import Context
from apertus_image.release.state import Done, Folder
from apertus_image.release.steps import steps


class Store:
    """A store that holds these paths."""

    def __init__(self, *paths):
        self.paths = set(paths)

    def valid(self, paths):
        return self.paths & set(paths)


def step(name, tmp_path, **changed):
    """One step of a release whose surroundings are made up."""
    given = {"project": tmp_path, "profile": SimpleNamespace(image="smoke-image", registry=None),
             "store": Store(), "maker": None, "folder": Folder(tmp_path / "release"),
             "gate": None, "application": None, "bring": lambda _name: None,
             "progress": lambda _label, _total: lambda _count: None, "say": lambda _line: None}
    return next(each for each in steps(Context(**given | changed)) if each.name == name)


def test_an_image_of_other_code_or_at_another_place_is_not_the_one_that_was_built(tmp_path):
    result = {"json": "/nix/store/i", "source": "/nix/store/at-a"}

    def holds(store, path):
        code = path and SimpleNamespace(path=path)
        return step("build", tmp_path, store=store, application=code).holds({}, result)

    there = Store("/nix/store/i")
    assert holds(there, "/nix/store/at-a")
    assert not holds(there, "/nix/store/at-b")
    assert not holds(there, None)
    assert not holds(Store(), "/nix/store/at-a")


def test_inputs_that_are_gone_are_brought_again_unless_the_image_is_there(tmp_path):
    folder = Folder(tmp_path / "release")
    folder.make()
    result = step("prefetch", tmp_path, bring=lambda _name: "/nix/store/in").run({})

    def holds(*paths):
        return step("prefetch", tmp_path, folder=folder, store=Store(*paths)).holds({}, result)

    assert holds("/nix/store/in") and not holds()
    folder.write("build", Done({"json": "/nix/store/i"}, "", {}))
    assert holds("/nix/store/i") and not holds()
