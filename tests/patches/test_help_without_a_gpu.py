"""`vllm --help` where there is no device: the changed functions run over stubs.

They are cut out of the wheel's file, before and after the patch: the module itself imports
torch. What a user sees is in tests/end_to_end.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import functools
import types
import typing
import zipfile
from pathlib import Path

import pytest
from apertus_image.patch.data import Patch
from support import pinned

pytestmark = pytest.mark.nix

FOLDER = Path(__file__).parents[2] / "nix/patches/vllm/help-without-a-gpu"
FILE = "vllm/engine/arg_utils.py"
PATCH = Patch.load(FOLDER / "patch.json", FOLDER / "patch.diff")
NEEDED = {"_compute_kwargs", "_maybe_add_docs_url", "get_type_hints", "create_engine_config"}


class FieldInfo:
    """Stands for pydantic's."""

    def __init__(self, default_factory):
        self.default_factory = default_factory


class NoDevice:
    def __init__(self):
        raise RuntimeError("Failed to infer device type")


class Broken:
    def __init__(self):
        raise ValueError("another fault")


class Reached(Exception):
    """The engine's config went on to make its device config."""


@pytest.fixture(scope="module")
def texts():
    with zipfile.ZipFile(pinned.wheel("vllm")) as archive:
        pristine = archive.read(FILE)
    return {"shipped": pristine, "patched": PATCH.apply(FILE, pristine)}


def functions(text, *, unspecified):
    """The functions by name, with stubs for what they use."""
    tree = ast.parse(text)
    found = [node for node in ast.walk(tree)
             if isinstance(node, ast.FunctionDef) and node.name in NEEDED]
    assert {node.name for node in found} == NEEDED
    for node in found:  # annotations name types that are not here
        node.returns = None
        for argument in (*node.args.args, *node.args.kwonlyargs):
            argument.annotation = None

    def make_device_config(device):
        raise Reached(device)

    names = vars(typing) | vars(dataclasses) | {
        "functools": functools, "UnionType": types.UnionType, "NEEDS_HELP": False,
        "FieldInfo": FieldInfo, "suppress_logging": contextlib.nullcontext, "TypeHint": object,
        "DeviceConfig": make_device_config, "Device": str,
        "current_platform": types.SimpleNamespace(
            is_unspecified=lambda: unspecified, pre_register_and_update=lambda: None,
            device_type="" if unspecified else "cuda"),
    }
    exec(compile(ast.Module(found, []), FILE, "exec"), names)
    return names


def config(kind):
    """A config with one field, whose default is made by calling `kind`."""
    if not dataclasses.is_dataclass(kind):
        dataclasses.dataclass(kind)
    return dataclasses.make_dataclass("Config", [
        ("device_config", kind, dataclasses.field(default=FieldInfo(kind)))])


@dataclasses.dataclass
class Fine:
    size: int = 3


def test_as_shipped_the_help_dies(texts):  # the negative control
    with pytest.raises(RuntimeError, match="infer device type"):
        functions(texts["shipped"], unspecified=True)["_compute_kwargs"](config(NoDevice))


def test_without_a_device_the_default_is_none(texts):
    options = functions(texts["patched"], unspecified=True)["_compute_kwargs"](config(NoDevice))
    assert options["device_config"]["default"] is None


def test_with_a_device_the_fault_is_raised_as_before(texts):
    with pytest.raises(RuntimeError, match="infer device type"):
        functions(texts["patched"], unspecified=False)["_compute_kwargs"](config(NoDevice))


def test_other_faults_are_raised_as_before(texts):
    with pytest.raises(ValueError, match="another fault"):
        functions(texts["patched"], unspecified=True)["_compute_kwargs"](config(Broken))


@pytest.mark.parametrize("unspecified", [False, True])
@pytest.mark.parametrize("which", ["shipped", "patched"])
def test_a_default_that_can_be_made_is_made(texts, which, unspecified):
    compute = functions(texts[which], unspecified=unspecified)["_compute_kwargs"]
    assert compute(config(Fine))["device_config"]["default"] == Fine(3)


def test_no_engine_is_made_without_a_device(texts):
    create = functions(texts["patched"], unspecified=True)["create_engine_config"]
    with pytest.raises(RuntimeError, match="Failed to infer device type"):
        create(None)


@pytest.mark.parametrize(("which", "unspecified"),
                         [("shipped", True), ("shipped", False), ("patched", False)])
def test_an_engine_is_made_as_before(texts, which, unspecified):
    create = functions(texts[which], unspecified=unspecified)["create_engine_config"]
    with pytest.raises(Reached):
        create(None)
