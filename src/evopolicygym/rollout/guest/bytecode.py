"""Compiles a checkpoint's modules once, so that not every episode does.

The source is untrusted, so a child compiles it that is as confined as a policy. The trusted side never loads what it
sends: it only writes the bytes where Python looks for them, in the policies' import root. Where there is no bytecode,
a policy's process compiles the source itself.
"""

import marshal
import os
import resource
import signal
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib.util import MAGIC_NUMBER, cache_from_source, source_hash
from struct import Struct
from typing import BinaryIO

SUFFIX, FIRST = ".py", "policy.py"
LARGEST_SOURCES = 128 << 10
"""Most bytes of source that are compiled: ``policy.py``, then others by name; a policy may import few of them."""
LARGEST_BYTECODE = 16 << 20
"""Most bytes of bytecode of one module; about ten times those of its source are usual."""
COMPILER_S = 5
"""Most processor time of the compiler, in seconds. How busy the machine is decides nothing."""
UNCHECKED = (1).to_bytes(4, "little")
"""Flags of bytecode that is valid whatever the times of its source."""
SIZE = Struct("<I")


def compile_modules(root: str, times: tuple[float, float], confine: Callable[[int], int]) -> None:
    """Write bytecode beside the modules below ``root``; all that is written has the given times.

    ``confine`` drops the rights of the process that calls it, closes all its descriptors but one, and returns that one.
    """
    sources = _sources(root)
    if not sources:
        return
    ours, theirs = os.pipe()
    compiler = os.fork()
    if compiler == 0:
        try:
            resource.setrlimit(resource.RLIMIT_CPU, (COMPILER_S, COMPILER_S))
            with os.fdopen(confine(theirs), "wb") as answers:
                _compile(sources, answers)
        finally:
            os._exit(0)
    os.close(theirs)
    try:
        with os.fdopen(ours, "rb") as answers:
            for path in sources:
                if bytecode := _receive(answers):
                    _write(cache_from_source(path, optimization=""), bytecode, times)
    finally:
        os.kill(compiler, signal.SIGKILL)
        os.waitpid(compiler, 0)


def _sources(root: str) -> Mapping[str, bytes]:
    """Return the sources that are compiled, by their paths."""
    paths = [
        path
        for directory, _, names in os.walk(root)
        for name in names
        if name.endswith(SUFFIX) and os.path.isfile(path := f"{directory}/{name}")  # noqa: PTH113 - pathlib loads late
    ]
    sources, total = dict[str, bytes](), 0
    for path in sorted(paths, key=lambda path: (path != f"{root}/{FIRST}", path)):
        total += os.stat(path).st_size  # noqa: PTH116 - pathlib loads late
        if total > LARGEST_SOURCES:
            break
        with open(path, "rb") as file:  # noqa: PTH123 - pathlib loads late
            sources[path] = file.read()
    return sources


def _compile(sources: Mapping[str, bytes], answers: BinaryIO) -> None:
    """Send the bytecode of each source, or nothing for one that can't be compiled or that brings a warning.

    Without bytecode, a policy's process reports the error or the warning itself.
    """
    for path, source in sources.items():
        bytecode = b""
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                code = compile(source, path, "exec", dont_inherit=True)
            if not caught:
                bytecode = MAGIC_NUMBER + UNCHECKED + source_hash(source) + marshal.dumps(code)
        except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError):
            pass
        answers.write(SIZE.pack(len(bytecode)) + bytecode)


def _receive(answers: BinaryIO) -> bytes:
    """Return the next module's bytecode; empty if there is none, or the compiler has ended."""
    size = answers.read(SIZE.size)
    if len(size) < SIZE.size or SIZE.unpack(size)[0] > LARGEST_BYTECODE:
        return b""
    bytecode = answers.read(SIZE.unpack(size)[0])
    return bytecode if len(bytecode) == SIZE.unpack(size)[0] else b""


def _write(path: str, bytecode: bytes, times: tuple[float, float]) -> None:
    """Write a module's bytecode, unless the checkpoint has a file in its place."""
    folder = os.path.dirname(path)  # noqa: PTH120 - pathlib loads late
    with suppress(FileExistsError, NotADirectoryError):
        os.makedirs(folder, 0o755, exist_ok=True)  # noqa: PTH103 - pathlib loads late
        with open(path, "xb") as file:  # noqa: PTH123 - pathlib loads late
            file.write(bytecode)
        for written in (path, folder, os.path.dirname(folder)):  # noqa: PTH120 - pathlib loads late
            os.utime(written, times)
