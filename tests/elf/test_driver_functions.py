"""The driver's functions as cuda.h names them, with the preprocessor as referee (trap 13)."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from apertus_image.elf.stub import driver_functions
from support.elf import needs_gcc

# Each way in which cuda.h of 13.0 gives a function the name that its symbol has.
HEADER = """
#if defined(CUDA_API_PER_THREAD_DEFAULT_STREAM)
    #define __CUDA_API_PTDS(api) api ## _ptds
    #define __CUDA_API_PTSZ(api) api ## _ptsz
#else
    #define __CUDA_API_PTDS(api) api
    #define __CUDA_API_PTSZ(api) api
#endif
#define CUDAAPI
typedef int CUresult;
#define cuMemAlloc                          cuMemAlloc_v2
#define cuGraphExecUpdate                   cuGraphExecUpdate_v2\x20
    #define cuMemcpyHtoD                    __CUDA_API_PTDS(cuMemcpyHtoD_v2)
    #define cuMemcpy                        __CUDA_API_PTDS(cuMemcpy)
    #define cuLaunchKernel                  __CUDA_API_PTSZ(cuLaunchKernel)
CUresult CUDAAPI cuInit(unsigned);
CUresult CUDAAPI cuMemAlloc(void **, unsigned long);
CUresult CUDAAPI cuGraphExecUpdate(void *);
CUresult CUDAAPI cuMemcpyHtoD(void *, void *, unsigned long);
CUresult CUDAAPI cuMemcpy(void *, void *, unsigned long);
CUresult CUDAAPI cuLaunchKernel(void *);
"""
PER_THREAD = "-DCUDA_API_PER_THREAD_DEFAULT_STREAM"


def preprocessed(header: Path, *options: str) -> set[str]:
    """The functions that a program including the header may call."""
    text = subprocess.run(["gcc", "-E", "-P", *options, header], capture_output=True, text=True,
                          check=True).stdout
    return set(re.findall(r"\b(cu[A-Z]\w*)\s*\(", text))


@needs_gcc
@pytest.mark.parametrize("options", [(), (PER_THREAD,)], ids=["default", "per thread"])
def test_no_name_that_a_program_may_need_is_missing(tmp_path, options):
    header = tmp_path / "cuda.h"
    header.write_text(HEADER)
    wanted = preprocessed(header, *options)
    assert len(wanted) == 6
    assert wanted <= set(driver_functions(HEADER))


@needs_gcc
@pytest.mark.nix
@pytest.mark.parametrize("options", [(), (PER_THREAD,)], ids=["default", "per thread"])
def test_nor_is_one_of_the_real_header(options):
    places = "*-python-cuda-*/opt/apertus/lib/python3.*/site-packages/nvidia/cu13/include/cuda.h"
    header = next(iter(sorted(Path("/nix/store").glob(places))), None)
    if header is None:
        pytest.skip("not run: no tree of CUDA's wheels is in the store")
    wanted = preprocessed(header, *options)
    assert len(wanted) > 400
    assert wanted <= set(driver_functions(header.read_text(errors="replace")))
