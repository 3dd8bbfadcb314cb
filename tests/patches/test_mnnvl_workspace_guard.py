"""The MNNVL guard on the CPU: the module runs over stubs, before and after the patch.

data/flashinfer_all_reduce.py.txt is the file of vLLM 0.25.1, unchanged (Apache-2.0, its
notice inside); its hash is the patch's own `before`.
"""

from __future__ import annotations

import atexit
import random
import sys
import types
from pathlib import Path

import pytest
from apertus_image.patch.data import Patch, sha256

FOLDER = Path(__file__).parents[2] / "nix/patches/vllm/mnnvl-workspace-guard"
FILE = "vllm/distributed/device_communicators/flashinfer_all_reduce.py"
PRISTINE = (Path(__file__).parent / "data/flashinfer_all_reduce.py.txt").read_bytes()
PATCH = Patch.load(FOLDER / "patch.json", FOLDER / "patch.diff")
ABSENT = object()


class Mnnvl:
    """FlashInfer's MNNVL workspace: `destroy()` takes the pointer away too."""

    backend = "mnnvl"

    def __init__(self, calls, pointer, destroy_raises):
        self._calls, self._raises = calls, destroy_raises
        if pointer is not ABSENT:
            self.mc_ptr = pointer

    def destroy(self):
        self._calls.append("destroy mnnvl")
        if self._raises:
            raise RuntimeError("destroy failed")
        self.__dict__.pop("mc_ptr", None)


class TrtLlm:
    """FlashInfer's TRT-LLM workspace: an attribute it lacks raises, whatever the kind."""

    backend = "trtllm"

    def __init__(self, calls):
        self._calls = calls

    def __getattr__(self, name):
        raise RuntimeError(f"no {name} in a TRT-LLM workspace")

    def destroy(self):
        self._calls.append("destroy trtllm")


class Logger:
    def __init__(self):
        self.said = []

    def __getattr__(self, level):
        return lambda text, *arguments: self.said.append((level, text % arguments))


@pytest.fixture
def load(monkeypatch):
    """Gives (module, calls, log) for a text of the module and a setting of the stubs."""

    def load(text, *, backend="auto", nodes=1, pointer=0, destroy_raises=False):
        calls, log = [], Logger()

        def create(*, backend, **_):
            calls.append(f"create {backend}")
            random.random()
            if backend == "mnnvl":
                return Mnnvl(calls, pointer, destroy_raises)
            return TrtLlm(calls)

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
        return module, calls, log

    return load


def workspaces(module):
    arguments = dict(world_size=2, rank=0, max_token_num=8, hidden_dim=8, dtype=None, group=None)
    return (module.get_fi_ar_workspace(**arguments), module.get_fi_ar_quant_workspace(**arguments))


def name(workspace):
    return workspace and workspace.backend


def patched():
    return PATCH.apply(FILE, PRISTINE)


def test_the_file_is_the_wheels():
    assert sha256(PRISTINE) == PATCH.files[FILE][0]
    assert sha256(PRISTINE).startswith("0811d5b31d7a")


def test_unpatched_keeps_a_workspace_without_a_pointer(load):  # the negative control
    module, calls, _ = load(PRISTINE, pointer=0)
    assert name(workspaces(module)[0]) == "mnnvl"
    assert "destroy mnnvl" not in calls


@pytest.mark.parametrize("pointer", [0, None, ABSENT])
def test_one_node_falls_back(load, pointer):
    module, calls, log = load(patched(), pointer=pointer)
    one, quantised = workspaces(module)
    assert name(one) == "trtllm" and quantised is one
    assert calls == ["create mnnvl", "destroy mnnvl", "create trtllm"]
    levels = [level for level, text in log.said if "no multicast pointer" in text.replace("\n", "")]
    assert levels == ["warning_once"]
    # Destroyed once, though two names stand for it.
    module.destroy_fi_ar_workspace()
    assert calls.count("destroy trtllm") == 1


def test_the_success_line_is_skipped_for_what_was_rejected(load):
    module, _, log = load(patched(), backend="mnnvl")
    workspaces(module)
    debug = [text for level, text in log.said if level == "debug"]
    assert not any("backend=mnnvl" in text for text in debug)


def test_a_valid_pointer_is_left_alone(load):
    module, calls, _ = load(patched(), pointer=0x7F00)
    assert name(workspaces(module)[0]) == "mnnvl"
    assert not any(call.startswith("destroy") for call in calls)


def test_several_nodes_go_without_fusion(load):
    module, calls, _ = load(patched(), nodes=2)
    assert workspaces(module) == (None, None)
    assert calls.count("destroy mnnvl") == 1 and "create trtllm" not in calls


def test_mnnvl_asked_for_by_name_goes_without_fusion(load):
    module, calls, _ = load(patched(), backend="mnnvl")
    arguments = dict(world_size=2, rank=0, max_token_num=8, hidden_dim=8, dtype=None, group=None)
    assert module.get_fi_ar_workspace(**arguments) is None
    assert calls == ["create mnnvl", "destroy mnnvl"]


@pytest.mark.parametrize("text", [PRISTINE, patched()], ids=["pristine", "patched"])
def test_trtllm_asked_for_by_name_is_untouched(load, text):
    module, calls, _ = load(text, backend="trtllm")
    assert name(workspaces(module)[0]) == "trtllm"
    assert calls == ["create trtllm"]


def test_destroy_that_raises_ends_in_a_fallback(load):
    module, calls, log = load(patched(), destroy_raises=True)
    assert name(workspaces(module)[0]) == "trtllm"
    assert calls == ["create mnnvl", "destroy mnnvl", "create trtllm"]
    assert any(level == "warning_once" and "destroy failed" in text for level, text in log.said)


@pytest.mark.parametrize("destroy_raises", [False, True])
def test_the_state_of_random_is_restored(load, destroy_raises):
    module, _, _ = load(patched(), destroy_raises=destroy_raises)
    before = random.getstate()
    workspaces(module)
    assert random.getstate() == before


def test_it_is_not_applied_twice():
    with pytest.raises(Exception, match="in the file already"):
        PATCH.apply(FILE, patched())


def test_it_refuses_any_other_file():
    with pytest.raises(Exception, match="for another file"):
        PATCH.apply(FILE, PRISTINE + b"\n")
