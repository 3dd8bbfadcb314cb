"""The MNNVL guard on the CPU: the module runs over stubs, before and after the patch.

data/flashinfer_all_reduce.py.txt is the file of vLLM 0.25.1, unchanged (Apache-2.0, its
notice inside); its hash is the patch's own `before`.
"""

from __future__ import annotations

import atexit
import py_compile
import random
import re
import subprocess
import sys
import types
from pathlib import Path

import pytest
from apertus_image.errors import UserError
from apertus_image.patch.data import Patch, sha256

FOLDER = Path(__file__).parents[2] / "nix/patches/vllm/mnnvl-workspace-guard"
FILE = "vllm/distributed/device_communicators/flashinfer_all_reduce.py"
PRISTINE = (Path(__file__).parent / "data/flashinfer_all_reduce.py.txt").read_bytes()
PATCH = Patch.load(FOLDER / "patch.json", FOLDER / "patch.diff")
PATCHED = PATCH.apply(FILE, PRISTINE)
ABSENT = object()
GUARD = "has no multicast pointer"


class Mnnvl:
    """FlashInfer's MNNVL workspace: `destroy()` takes the pointer away too."""

    backend = "mnnvl"

    def __init__(self, events, pointer, destroy_raises):
        self._events, self._pointer, self._raises = events, pointer, destroy_raises

    @property
    def mc_ptr(self):
        self._events.append("read mc_ptr")
        if self._pointer is ABSENT:
            raise AttributeError("mc_ptr")
        return self._pointer

    def destroy(self):
        self._events.append("destroy mnnvl")
        if self._raises:
            raise RuntimeError("destroy failed")
        self._pointer = ABSENT


class TrtLlm:
    """FlashInfer's TRT-LLM workspace: an attribute it lacks raises, whatever the kind."""

    backend = "trtllm"

    def __init__(self, events):
        self._events = events

    def __getattr__(self, name):
        self._events.append(f"read {name} of trtllm")
        raise RuntimeError(f"no {name} in a TRT-LLM workspace")

    def destroy(self):
        self._events.append("destroy trtllm")


class Logger:
    """Keeps (level, text); the guard's own line is an event too."""

    def __init__(self, events):
        self.said, self._events = [], events

    def __getattr__(self, level):
        def say(text, *arguments):
            self.said.append((level, text % arguments))
            if GUARD in text:
                self._events.append(level)
        return say


@pytest.fixture
def load(monkeypatch):
    """Gives (module, events, log) for a text of the module and a setting of the stubs."""

    def load(text, *, backend="auto", nodes=1, pointer=0, destroy_raises=False):
        events = []
        log = Logger(events)

        def create(*, backend, **_):
            events.append(f"create {backend}")
            random.random()
            if backend == "mnnvl":
                return Mnnvl(events, pointer, destroy_raises)
            return TrtLlm(events)

        stubs = {
            "torch": {"dtype": object, "device": object},
            "torch.distributed": {"ProcessGroup": object},
            "vllm": {}, "vllm.envs": {"VLLM_FLASHINFER_ALLREDUCE_BACKEND": backend},
            "vllm.config": {}, "vllm.config.compilation": {"PassConfig": object},
            "vllm.distributed": {},
            "vllm.distributed.parallel_state": {"get_node_count": lambda: nodes},
            "vllm.logger": {"init_logger": lambda name: log},
            "vllm.platforms": {"current_platform": object()},
            "flashinfer": {},
            "flashinfer.comm": {"allreduce_fusion": None,
                                "create_allreduce_fusion_workspace": create},
            "flashinfer.comm.mnnvl": {"TorchDistBackend": lambda group: None},
        }
        for name, attributes in stubs.items():
            module = types.ModuleType(name)
            vars(module).update(attributes)
            monkeypatch.setitem(sys.modules, name, module)
            parent, _, child = name.rpartition(".")
            if parent:
                monkeypatch.setattr(sys.modules[parent], child, module, raising=False)
        module = types.ModuleType("flashinfer_all_reduce")
        exec(compile(text, FILE, "exec"), vars(module))
        atexit.unregister(module.destroy_fi_ar_workspace)
        return module, events, log

    return load


ARGUMENTS = dict(world_size=2, rank=0, max_token_num=8, hidden_dim=8, dtype=None, group=None)


def name(workspace):
    return workspace and workspace.backend


REJECTED = ["create mnnvl", "read mc_ptr", "destroy mnnvl", "warning_once"]
# Setting -> what 0.25.1 gives as shipped, what it gives patched, and what happens then.
CASES = {
    "one node, 0": ({"pointer": 0}, "mnnvl", "trtllm", [*REJECTED, "create trtllm"]),
    "one node, None": ({"pointer": None}, "mnnvl", "trtllm", [*REJECTED, "create trtllm"]),
    "one node, absent": ({"pointer": ABSENT}, "mnnvl", "trtllm", [*REJECTED, "create trtllm"]),
    "one node, valid": ({"pointer": 0x7F00}, "mnnvl", "mnnvl", ["create mnnvl", "read mc_ptr"]),
    "two nodes, 0": ({"nodes": 2}, "mnnvl", None, REJECTED),
    "two nodes, valid": ({"nodes": 2, "pointer": 0x7F00}, "mnnvl", "mnnvl",
                         ["create mnnvl", "read mc_ptr"]),
    "mnnvl by name, 0": ({"backend": "mnnvl"}, "mnnvl", None, REJECTED),
    "mnnvl by name, valid": ({"backend": "mnnvl", "pointer": 0x7F00}, "mnnvl", "mnnvl",
                             ["create mnnvl", "read mc_ptr"]),
    "trtllm by name": ({"backend": "trtllm"}, "trtllm", "trtllm", ["create trtllm"]),
}


def test_the_file_is_the_wheels():
    assert sha256(PRISTINE) == PATCH.files[FILE][0]
    assert sha256(PRISTINE) == "0811d5b31d7a8dad804c0e648c50d8f592267e0f4536a0c62226c4cd1580e330"


@pytest.mark.parametrize("case", CASES)
def test_as_shipped_a_pointer_is_not_looked_at(load, case):  # the negative control
    setting, shipped, _, _ = CASES[case]
    module, events, _ = load(PRISTINE, **setting)
    assert name(module.get_fi_ar_workspace(**ARGUMENTS)) == shipped
    assert events == [f"create {shipped}"]


@pytest.mark.parametrize("case", CASES)
def test_patched(load, case):
    setting, _, given, happened = CASES[case]
    module, events, _ = load(PATCHED, **setting)
    # Also the order: the pointer is read before destroy() takes it away, and memory is
    # given back before the caller allocates again. A TRT-LLM workspace is not touched.
    assert name(module.get_fi_ar_workspace(**ARGUMENTS)) == given
    assert events == happened


def test_the_quant_workspace_stands_for_the_one_fallen_back_to(load):
    module, events, _ = load(PATCHED)
    one = module.get_fi_ar_workspace(**ARGUMENTS)
    assert module.get_fi_ar_quant_workspace(**ARGUMENTS) is one
    assert events.count("create trtllm") == 1
    module.destroy_fi_ar_workspace()
    assert events.count("destroy trtllm") == 1 and events.count("destroy mnnvl") == 1


def test_a_quant_workspace_made_first_is_fallen_back_to(load):
    module, events, _ = load(PATCHED)
    quant = module.get_fi_ar_quant_workspace(**ARGUMENTS)
    assert module.get_fi_ar_workspace(**ARGUMENTS) is quant
    assert events == ["create trtllm", *REJECTED]


def test_the_caller_tells_of_the_fallback(load):
    module, _, log = load(PATCHED)
    module.get_fi_ar_workspace(**ARGUMENTS)
    warnings = [text for level, text in log.said if level.startswith("warning")]
    assert len(warnings) == 2
    assert GUARD in warnings[0] and "falling back to trtllm" in warnings[1]


def test_the_success_line_is_skipped_for_what_was_rejected(load):
    def told(pointer):
        module, _, log = load(PATCHED, backend="mnnvl", pointer=pointer)
        module.get_fi_ar_workspace(**ARGUMENTS)
        return [text for level, text in log.said if level == "debug"]

    assert len(told(pointer=0x7F00)) == 1 and told(pointer=0) == []


@pytest.mark.parametrize(("nodes", "given"), [(1, "trtllm"), (2, None)])
def test_destroy_that_raises_ends_in_none(load, nodes, given):
    module, events, log = load(PATCHED, destroy_raises=True, nodes=nodes)
    assert name(module.get_fi_ar_workspace(**ARGUMENTS)) == given
    assert events[:3] == ["create mnnvl", "read mc_ptr", "destroy mnnvl"]
    assert events.count("destroy mnnvl") == 1
    assert any(level == "warning_once" and "destroy failed" in text for level, text in log.said)


@pytest.mark.parametrize(
    "setting", [{}, {"destroy_raises": True}, {"pointer": 0x7F00}, {"nodes": 2}], ids=str)
def test_the_state_of_random_is_restored(load, setting):
    module, events, _ = load(PATCHED, **setting)
    before = random.getstate()
    module.get_fi_ar_workspace(**ARGUMENTS)
    # The stub draws a number for each workspace it makes.
    assert events and random.getstate() == before


STUBS = {
    "torch/__init__.py": "dtype = device = Tensor = object",
    "torch/distributed.py": "ProcessGroup = object",
    "vllm/envs.py": "", "vllm/config/compilation.py": "PassConfig = object",
    "vllm/distributed/parallel_state.py": "get_node_count = None",
    "vllm/logger.py": "init_logger = print", "vllm/platforms.py": "current_platform = None",
    "flashinfer/comm/__init__.py": "", "flashinfer/comm/mnnvl.py": "TorchDistBackend = None",
}


@pytest.mark.parametrize("which", ["in effect", "stale bytecode", "as shipped"])
def test_the_check_in_the_readme(tmp_path, which):  # trap 14
    for path, text in STUBS.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text + "\n")
    module = tmp_path / FILE
    module.parent.mkdir()
    module.write_bytes(PATCHED if which == "in effect" else PRISTINE)
    py_compile.compile(str(module), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    if which == "stale bytecode":
        module.write_bytes(PATCHED)
    code = re.search(r"```python\n(.*?)```", (FOLDER / "README.md").read_text(), re.DOTALL)[1]
    result = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True,
                            text=True)
    before, after = PATCH.files[FILE]
    assert (result.stdout.split()[-3:], result.stderr) == ({
        "in effect": [after, "True", "True"], "stale bytecode": [after, "False", "False"],
        "as shipped": [before, "True", "False"],
    }[which], "")


def test_it_is_not_applied_twice():
    with pytest.raises(UserError, match="in the file already"):
        PATCH.apply(FILE, PATCHED)


def test_it_refuses_any_other_file():
    with pytest.raises(UserError, match="for another file"):
        PATCH.apply(FILE, PRISTINE + b"\n")
