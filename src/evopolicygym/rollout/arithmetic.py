"""Pins arithmetic, so that every processor of one architecture computes the same bits.

Three libraries choose code by the processor, and each choice rounds differently: OpenBLAS its kernels, numpy its vector
code, the GNU C library its ``sin``, ``exp`` and ``pow``. Environment variables restrict them to what the oldest
processor that numpy's wheels support can run, and to one thread. They are set before a process starts: for workers, for
policies, and for the camera.
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
"""Has the C library round after each multiplication, as processors without fused operations do."""
ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
ARITHMETIC, PROCESSOR = "arithmetic", "processor"
"""Names of the findings; the processor may differ while results are equal."""
INFORMATION = Path("/proc/cpuinfo")


@cache
def variables(*, pinned: bool = True) -> Mapping[str, str]:
    """Return the environment variables that pin arithmetic; without ``pinned``, only the number of threads.

    Runs whose record has no finding ``arithmetic`` were played without pinning.
    """
    if not pinned:
        return ONE_THREAD
    settings = {**ONE_THREAD, "MKL_CBWR": "COMPATIBLE", "NPY_DISABLE_CPU_FEATURES": " ".join(_vector_features())}
    kernels, is_x86 = KERNELS.get(platform.machine()), platform.machine() == "x86_64"
    if kernels:
        settings["OPENBLAS_CORETYPE"] = kernels
    return {**settings, "GLIBC_TUNABLES": NO_FUSED_OPERATIONS} if is_x86 else settings


def findings() -> dict[str, str]:
    """Return descriptions of the arithmetic of this process and of the processor, for a run's record."""
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
    """Return this machine's architecture and, if known, the processor's name."""
    try:
        lines = INFORMATION.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith(("model name", "Model"))]
    return ", ".join([platform.machine(), *names[:1]])


def _vector_features() -> list[str]:
    """Return all optional CPU features of this numpy, whether this processor has them or not."""
    extensions = np.show_config(mode="dicts")["SIMD Extensions"]
    return sorted({*extensions.get("found", ()), *extensions.get("not found", ())})
