"""Compile caches of this image, apart from those of any other image or user.

Started by apertus_cache.pth in every interpreter of the environment: in a login shell,
under Pyxis and in Ray's workers alike. A warm cache of another image breaks vLLM, and
ninja trusts times, which are all equal in an image; so each image has a cache of its own,
by the identity of its content. A variable that the user set is left alone; one that this
file set in another image, or on another node, is set anew.

    APERTUS_CACHE_DIR      where caches go, made if it is missing; else the first of
                           $SLURM_TMPDIR, $TMPDIR and /tmp that can be written
    APERTUS_CACHE_IN_USE   set here: the folder that the variables lead to
"""

import os
import stat

CONTENT_ID = "/usr/share/apertus/content-id"
IN_USE = "APERTUS_CACHE_IN_USE"

# variable -> folder below the cache
VARIABLES = {
    "CUDA_CACHE_PATH": "cuda",
    "CUTE_DSL_CACHE_DIR": "cute-dsl",
    "FLASHINFER_WORKSPACE_BASE": "flashinfer",
    "FLASH_ATTENTION_CUTE_DSL_CACHE_DIR": "flash-attention",
    "HUMMING_CACHE_DIR": "humming",
    "HUMMING_TMP_DIR": "humming-tmp",  # its compiled modules
    "MINFER_FMHA_CACHE_DIR": "minfer",
    "NUMBA_CACHE_DIR": "numba",
    "QUACK_CACHE_DIR": "quack",
    "TILELANG_CACHE_DIR": "tilelang",
    "TORCHINDUCTOR_CACHE_DIR": "inductor",
    "TORCH_EXTENSIONS_DIR": "torch-extensions",
    "TRITON_CACHE_DIR": "triton",
    "TVM_FFI_CACHE_DIR": "tvm-ffi",
    "VLLM_CACHE_ROOT": "vllm",
}


def _content_id():
    with open(CONTENT_ID) as file:
        return file.read(16)


def _own(folder):
    """Make a folder that only this user can enter; say whether it is such a one."""
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        pass
    found = os.lstat(folder)
    return (stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
            and not found.st_mode & 0o077)


def _bases():
    """Where caches may go, best first."""
    wanted = os.environ.get("APERTUS_CACHE_DIR")
    if wanted:
        try:
            os.makedirs(wanted, 0o700, exist_ok=True)
        except OSError:
            pass
    candidates = [wanted, os.environ.get("SLURM_TMPDIR"), os.environ.get("TMPDIR"), "/tmp"]
    return [os.path.abspath(base) for base in candidates if base and os.path.isdir(base)]


def _folder_below(base, identity, inherited):
    # A parent's folder serves as well, so that a fresh one is made once and not by each child.
    if inherited.startswith(base + "/") and os.path.basename(inherited) == identity:
        try:
            if _own(inherited):
                return inherited
        except OSError:
            pass  # the parent ran on another node
    user = os.path.join(base, "apertus-%d" % os.geteuid())
    if not _own(user):
        import tempfile

        user = tempfile.mkdtemp(prefix="apertus-", dir=base)
    own = os.path.join(user, identity)
    if not _own(own):
        raise PermissionError(own)
    return own


def folder(inherited=""):
    """This user's cache folder for this image; a fresh one where it is another's.

    Raises OSError where nothing can be written.
    """
    identity, fault = _content_id(), FileNotFoundError("/tmp")
    for base in _bases():
        try:
            return _folder_below(base, identity, inherited)
        except OSError as error:
            fault = error
    raise fault


def apply():
    """Set the variables that the user did not. An interpreter starts whatever happens here."""
    inherited = os.environ.pop(IN_USE, "")
    ours = {name: below for name, below in VARIABLES.items() if name not in os.environ
            or (inherited and os.environ[name] == os.path.join(inherited, below))}
    for name in ours:
        os.environ.pop(name, None)  # where no folder can be had, none is better than another's
    try:
        own = folder(inherited) if ours else ""
    except (OSError, ValueError):
        return
    for name, below in ours.items():
        os.environ[name] = os.path.join(own, below)
    if own:
        os.environ[IN_USE] = own


apply()
