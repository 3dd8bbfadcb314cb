"""Annotations: the hooks that the Container Engine runs, and what they need."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator

from apertus_image.edf.document import Edf, flat
from apertus_image.edf.finding import DOCS, Finding

__all__ = ["KNOWN", "OFI", "check", "needs_libcudart"]

HOOKS = f"{DOCS}/resource-hook.md"
OFI = "com.hooks.aws_ofi_nccl.enabled"
VARIANT = "com.hooks.aws_ofi_nccl.variant"
SOURCE = "com.hooks.netstack.source"
SSH = "com.hooks.ssh.enabled"
MPS = "com.hooks.nvidia_cuda_mps.enabled"

SWITCH = ("true", "false")
ANY: tuple[str, ...] = ()
KNOWN: dict[str, tuple[str, ...]] = {
    "com.hooks.cxi.enabled": SWITCH,
    OFI: SWITCH,
    VARIANT: ("cuda12", "cuda13", "cuda-dl", "rocm5", "rocm6"),
    SOURCE: ("host", "artifact"),
    "com.hooks.netstack.version": ANY,
    "com.hooks.netstack.name": ANY,
    SSH: SWITCH,
    "com.hooks.ssh.authorize_ssh_key": ANY,
    "com.hooks.ssh.port": ANY,
    MPS: SWITCH,
    "com.hooks.dcgm.enabled": SWITCH,
    "com.pyxis.pytorch_remap_vars": SWITCH,
    "com.pyxis.entrypoint_log": SWITCH,
}
"""Annotation -> the values it can have, empty for any."""


def needs_libcudart(edf: Edf) -> bool:
    """Whether the image must hold an unversioned libcudart.so: the artifact's plugin loads it."""
    told = edf.merged("annotations")
    return told.get(OFI) == "true" and told.get(SOURCE, "artifact") == "artifact"


def check(edf: Edf) -> Iterator[Finding]:
    """Annotations that are unknown, of no effect, or at odds with something else."""
    for key, value in flat(edf.data.get("annotations")).items():
        yield from _one(edf, key, value)
    yield from _both_forms(edf)
    told = edf.merged("annotations")

    def found(severity, key: str, what: str, why: str, next_step: str) -> Finding:
        return Finding(severity, f"annotations.{key}", what, why, next_step,
                       line=edf.line(f"annotations.{key}"))

    if VARIANT in told and told.get(SOURCE, "artifact") == "artifact":
        yield found("warning", VARIANT, "variant has no effect under the artifact netstack",
                    "Clariden and Daint take the network stack from an artifact by default, "
                    f"whose one plugin fits every CUDA ({HOOKS})",
                    f"take it out, or set {SOURCE} = \"host\"")
    elif VARIANT in told and told.get(OFI) != "true":
        yield found("warning", VARIANT, "variant is set, and the hook is not enabled",
                    f"the hook runs where {OFI} is \"true\" ({HOOKS})",
                    f"{OFI} = \"true\", or take it out")
    elif VARIANT in told and told[VARIANT] in ("cuda12", "rocm5", "rocm6"):
        yield found("warning", VARIANT, f"{told[VARIANT]} is not for an image with CUDA 13",
                    f"the plugin is linked to that runtime ({HOOKS})", "cuda13")
    if told.get(OFI) == "true" and told.get("com.hooks.cxi.enabled") == "false":
        yield found("error", "com.hooks.cxi.enabled", "cxi is off and aws_ofi_nccl is on",
                    f"aws_ofi_nccl implies cxi ({HOOKS})", "take one of them out")
    for hook in (SSH, MPS):
        if told.get(hook) == "true" and edf.effective("writable", True) is False:
            yield found("error", hook, "this hook needs a writable container",
                        f"it writes into the container's file system ({DOCS}/edf.md)",
                        "writable = true")


def _one(edf: Edf, key: str, value: object) -> Iterator[Finding]:
    where = f"annotations.{key}"
    line = edf.line(where)
    if not isinstance(value, str):
        text = str(value).lower() if isinstance(value, bool) else value
        yield Finding("error", where, f"{value!r} is not a string",
                      f"annotations are strings, \"true\" and \"false\" too ({DOCS}/edf.md)",
                      f"{key} = \"{text}\"", line=line)
    elif key not in KNOWN:
        if key.startswith(("com.hooks.", "com.pyxis.")):
            near = difflib.get_close_matches(key, KNOWN, 1)
            yield Finding("warning", where, f"no hook is known by {key}",
                          f"an unknown annotation does nothing, without a word ({HOOKS})",
                          f"write {near[0]}" if near else "see the site's list of hooks", line=line)
    elif KNOWN[key] and value not in KNOWN[key]:
        yield Finding("error", where, f"{value!r} is no value of {key}",
                      f"it can be {', '.join(KNOWN[key])} ({HOOKS})",
                      "write one of these", line=line)
    elif key == "com.hooks.ssh.port" and not re.fullmatch("[1-9][0-9]{0,4}", value):
        yield Finding("error", where, f"{value!r} is no port", f"its default is 15263 ({HOOKS})",
                      "write a number", line=line)


def _both_forms(edf: Edf) -> Iterator[Finding]:
    """Dotted keys and sub-tables: the engine reads one form or the other (edf.md)."""
    below = [key for name, key in edf.keys.items() if name.startswith("annotations.")]
    tables = [key for key in below if key.table.startswith("annotations.")]
    dotted = [key for key in below if key.table in ("", "annotations") and "." in
              key.written.removeprefix("annotations.")]
    if tables and dotted:
        last = max((min(tables, key=lambda key: key.line), min(dotted, key=lambda key: key.line)),
                   key=lambda key: key.line)
        yield Finding("error", "annotations", "dotted keys and a sub-table are mixed",
                      f"annotations are dotted keys or sub-tables, not both ({DOCS}/edf.md)",
                      "write all of them as dotted keys below [annotations]", line=last.line)
