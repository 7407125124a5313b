"""Results that don't depend on the processor: what libraries choose by it is pinned."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from evopolicygym.rollout import arithmetic
from evopolicygym.rollout.cluster.node_compatibility import incompatibilities
from places import SUPPORT
from playground import local_executor, policy
from simulators import spec

COMPUTE = """
import hashlib, math
def bits():
    random = np.random.default_rng(1)
    square, vector = random.standard_normal((17, 17)), random.standard_normal(257)
    numbers = [square @ square, np.linalg.solve(square, square[0]), vector @ vector, np.exp(vector), np.tanh(vector)]
    numbers += [np.sin(vector), np.float32(vector) ** 3, [math.sin(x) + math.exp(x) for x in vector]]
    return hashlib.sha256(b"".join(np.asarray(one).tobytes() for one in numbers)).hexdigest()
"""
STAND_INS = (
    {},
    {"OPENBLAS_CORETYPE": "Prescott"},
    {"OPENBLAS_CORETYPE": "Haswell"},
    {"NPY_DISABLE_CPU_FEATURES": " ".join(arithmetic.variables()["NPY_DISABLE_CPU_FEATURES"].split()[-1:])},
    {"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-FMA4"},
)
"""Variables by which this machine computes as other processors do."""
TOGETHER = {name: value for stand_in in STAND_INS for name, value in stand_in.items()}
EACH = [pytest.param(TOGETHER, id="all"), *(pytest.param(one, marks=pytest.mark.nightly) for one in STAND_INS)]
PROGRAM = f"import numpy as np\n{COMPUTE}\nprint(bits())"


ROUNDING = "from simulators import STEPS, rounding\nprint(sum([rounding()] * STEPS))"


def computed(environment: dict[str, str], program: str = PROGRAM) -> str:
    """Return what a program of its own computes under some variables."""
    plain = {name: value for name, value in os.environ.items() if name not in arithmetic.variables()}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**plain, **environment, "PYTHONPATH": str(SUPPORT)},
        capture_output=True,
        check=True,
        encoding="utf-8",
    )
    return done.stdout


@pytest.mark.parametrize("stand_in", EACH)
def test_a_policy_computes_the_same_on_any_processor(
    stand_in: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever processor libraries are told that they run on, a policy computes what it computes with pinned ones."""
    for name, value in stand_in.items():
        monkeypatch.setenv(name, value)
    with local_executor("bubblewrap", spec("Plain"), tmp_path) as ground:
        said = ground.play_one(policy(reset="print(bits())", top=COMPUTE)).read()

    assert said == computed(dict(arithmetic.variables()))


@pytest.mark.parametrize("stand_in", EACH)
def test_a_simulator_computes_the_same_on_any_processor(
    stand_in: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same holds for simulators: rewards that come of such arithmetic are the same, bit for bit."""
    for name, value in stand_in.items():
        monkeypatch.setenv(name, value)
    with local_executor("bubblewrap", spec("Rounding"), tmp_path) as ground:
        episode = ground.play_one(policy()).episode

    assert episode.episode_return == float(computed(dict(arithmetic.variables()), ROUNDING))


def test_the_record_says_by_what_it_computes(tmp_path: Path) -> None:
    """Findings name kernels, vector code, C library and processor; another processor alone makes no place unlike."""
    with local_executor("bubblewrap", spec("Plain"), tmp_path) as ground:
        here = ground.executor.info
    there = replace(here, findings={**here.findings, "processor": "another"})

    assert arithmetic.variables().get("OPENBLAS_CORETYPE", "own") in here.findings["arithmetic"]
    assert here.findings["processor"] == arithmetic.processor()
    assert incompatibilities(here, there) == []
