"""Cases: which reset an index stands for, and how a secret turns into seeds.

``seed = HMAC-SHA256(secret, "evopolicygym case 1|environment|split|index|attempt")``, its first 128 bits; its first 31
in the published split and in experiments that began before seeds had 128. A policy could try all seeds of 31 bits
against its first observation. Seeds whose first 31 bits an earlier index has (train before validation before held_out)
are passed over by raising ``attempt``: so the three splits are disjoint, also where a simulator refuses long seeds and
is given the first 31 bits (``short_seed``).
"""

import hashlib
import hmac
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import count

from evopolicygym.core.task import HELD_OUT_CASES, TRAIN_CASES, VALIDATION_CASES

SECRET_BYTES = 32
SEED_BITS, SHORT_SEED_BITS = 128, 31
"""Of seeds of private experiments; and of published splits, older experiments and simulators that refuse long seeds."""


class Split(StrEnum):
    """The three disjoint sets of cases. Only train indices are ever visible to an agent."""

    TRAIN = "train"
    VALIDATION = "validation"
    HELD_OUT = "held_out"


class SplitSource(StrEnum):
    """Where a run's cases come from."""

    PRIVATE = "private"
    """Derived from the experiment's secret."""
    PUBLIC = "public"
    """Derived from a published key: for exact comparison between laboratories, and named as public."""
    DIRECTORY = "directory"
    """Read from files in the layout of the paper's release."""


SIZES: Mapping[Split, int] = {
    Split.TRAIN: TRAIN_CASES,
    Split.VALIDATION: VALIDATION_CASES,
    Split.HELD_OUT: HELD_OUT_CASES,
}

PUBLIC_KEY = hashlib.sha256(b"evopolicygym public split 1").digest()
"""The published key of the public split."""


@dataclass(frozen=True, slots=True)
class CaseSet:
    """The seeds behind the indices of one environment's three splits. Never leaves the trusted side."""

    environment: str
    seeds: Mapping[Split, tuple[int, ...]]

    def seed(self, split: Split, index: int) -> int:
        """Return the seed that resets the environment for this case."""
        return self.seeds[split][index]


def derive(secret: bytes, environment: str, bits: int = SHORT_SEED_BITS) -> CaseSet:
    """Return the cases that a 256-bit secret stands for in one environment, with seeds of so many bits."""
    taken: set[int] = set()
    seeds: dict[Split, tuple[int, ...]] = {}
    for split, size in SIZES.items():
        chosen = []
        for index in range(size):
            candidates = _candidates(secret, environment, split, index, bits)
            seed = next(one for one in candidates if one >> (bits - SHORT_SEED_BITS) not in taken)
            taken.add(seed >> (bits - SHORT_SEED_BITS))
            chosen.append(seed)
        seeds[split] = tuple(chosen)
    return CaseSet(environment, seeds)


def short_seed(seed: int) -> int | None:
    """Return the first 31 bits of a long seed, for simulators that refuse those; None where it isn't a long one."""
    return None if seed >> SHORT_SEED_BITS == 0 else seed >> (SEED_BITS - SHORT_SEED_BITS)


def _candidates(secret: bytes, environment: str, split: Split, index: int, bits: int) -> Iterator[int]:
    """Yield the seeds that one case would take, best first, without end."""
    label = f"evopolicygym case 1|{environment}|{split.value}|{index}"
    return (_number(secret, f"{label}|{attempt}", bits=bits) for attempt in count())


def policy_seed(secret: bytes, environment: str, split: Split, index: int, run_seed: int) -> int:
    """Return the number that seeds ``random`` and ``numpy.random`` in the policy's process (32 bits).

    It is derived by the secret, so that a policy can't tell from it which split it plays; it says nothing of the
    environment's seed, and may be shown.
    """
    return _number(secret, f"evopolicygym policy seed 1|{environment}|{split.value}|{index}|{run_seed}", bits=32)


def world_seed(secret: bytes, environment: str) -> int:
    """Return the number that seeds what a world draws in one environment, for a whole experiment (128 bits)."""
    return _number(secret, f"evopolicygym world 1|{environment}", bits=SEED_BITS)


def commitment(cases: CaseSet, salt: bytes) -> str:
    """Return the salted SHA-256 that a run's journal commits to its cases with, in hexadecimal."""
    text = json.dumps({split.value: list(seeds) for split, seeds in cases.seeds.items()}, separators=(",", ":"))
    return hashlib.sha256(b"evopolicygym commitment 1|" + salt + b"|" + text.encode()).hexdigest()


def salt(secret: bytes, environment: str) -> bytes:
    """Return the salt of one environment's commitment: whoever holds the secret can recompute it."""
    return hmac.digest(secret, f"evopolicygym salt 1|{environment}".encode(), "sha256")


def _number(secret: bytes, label: str, bits: int) -> int:
    digest = hmac.digest(secret, label.encode(), "sha256")
    return int.from_bytes(digest, "big") >> (8 * len(digest) - bits)


PROTOCOL_VERSION = "1.0"
"""Of ``docs/reference/protocol.md``: the first number changes when an agent written before would break."""
