"""Arithmetic that gives the same bits on every processor of one architecture.

Three libraries choose by the processor how they compute, and round otherwise with each choice: OpenBLAS its kernels,
numpy its vector code, the GNU C library its ``sin``, ``exp`` and ``pow``. Environment variables keep all of them to
what every processor has that numpy's wheels run on, and to one thread. They are set before a process begins: for
workers, which simulators run in, for policies, and for the camera, which plays a recording again.
"""

import os
import platform
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import numpy as np

KERNELS = {"x86_64": "Nehalem", "aarch64": "ARMV8"}
"""By architecture, the OpenBLAS kernels for the oldest processor that numpy's wheels run on."""
NO_FUSED_OPERATIONS = "glibc.cpu.hwcaps=-FMA,-FMA4"
"""Has the C library round after each multiplication, as on processors that can't multiply and add at once."""
ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
ARITHMETIC, PROCESSOR = "arithmetic", "processor"
"""The names of the findings; the second may differ where results don't."""
INFORMATION = Path("/proc/cpuinfo")


@cache
def variables(*, pinned: bool = True) -> Mapping[str, str]:
    """Return the environment variables that pin arithmetic; without ``pinned``, only the number of threads.

    That is how runs were played whose record has no finding ``arithmetic``.
    """
    if not pinned:
        return ONE_THREAD
    found = {**ONE_THREAD, "MKL_CBWR": "COMPATIBLE", "NPY_DISABLE_CPU_FEATURES": " ".join(_vector_features())}
    kernels, is_x86 = KERNELS.get(platform.machine()), platform.machine() == "x86_64"
    if kernels:
        found["OPENBLAS_CORETYPE"] = kernels
    return {**found, "GLIBC_TUNABLES": NO_FUSED_OPERATIONS} if is_x86 else found


def findings() -> dict[str, str]:
    """Return in words what a process with these variables computes by, and the processor, for the record of a run."""
    config = np.show_config(mode="dicts")
    blas = config["Build Dependencies"]["blas"]
    kernels = os.environ.get("OPENBLAS_CORETYPE", "the processor's own")
    extensions = config["SIMD Extensions"]
    vectors = " ".join([*extensions["baseline"], *extensions.get("found", ())])
    library = " ".join(platform.libc_ver()).strip() or "unknown"
    return {
        ARITHMETIC: f"{blas['name']} {blas['version']} with {kernels} kernels, numpy with {vectors or 'no'} vector "
        f"code, C library {library} with {os.environ.get('GLIBC_TUNABLES', 'no tunables')}",
        PROCESSOR: processor(),
    }


def processor() -> str:
    """Return this machine's architecture and the processor's own name, as far as it is known."""
    try:
        lines = INFORMATION.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith(("model name", "Model"))]
    return ", ".join([platform.machine(), *names[:1]])


def _vector_features() -> list[str]:
    """Return all that this numpy can choose by the processor, whether this one has it or not."""
    extensions = np.show_config(mode="dicts")["SIMD Extensions"]
    return sorted({*extensions.get("found", ()), *extensions.get("not found", ())})
