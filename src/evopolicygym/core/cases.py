"""Cases: how the experiment's secret and an index determine the seed of an environment's reset.

``seed = HMAC-SHA256(secret, "evopolicygym case 1|environment|split|index|attempt")``, its first 128 bits, or its first
31 in the public split and in older experiments. (A policy could try all seeds of 31 bits against its first
observation.) ``attempt`` is raised while an earlier index, in the order train, validation, held_out, has the same first
31 bits: so the three splits are disjoint, even for a simulator that is given only the first 31 bits (``short_seed``).
"""

import hashlib
import hmac
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import count

from evopolicygym.core.task import HELD_OUT_CASES, TRAIN_CASES, VALIDATION_CASES

SECRET_BYTES = 32
IDENTITY_LENGTH = 32
"""Hexadecimal digits of an experiment's identity."""
NONCE = re.compile(r"[A-Za-z0-9._-]{1,100}", re.ASCII)
"""A board's nonce."""
SEED_BITS, SHORT_SEED_BITS = 128, 31
"""Bits of seeds in private experiments, and of short seeds (see above)."""


class Split(StrEnum):
    """The three disjoint sets of cases. Agents see only train indices."""

    TRAIN = "train"
    VALIDATION = "validation"
    HELD_OUT = "held_out"


class SplitSource(StrEnum):
    """Where a run's cases come from."""

    PRIVATE = "private"
    """Derived from the experiment's secret."""
    PUBLIC = "public"
    """Derived from a published key, for comparisons between laboratories."""
    DIRECTORY = "directory"
    """Read from files in the format of the paper's release."""


SIZES: Mapping[Split, int] = {
    Split.TRAIN: TRAIN_CASES,
    Split.VALIDATION: VALIDATION_CASES,
    Split.HELD_OUT: HELD_OUT_CASES,
}

PUBLIC_KEY = hashlib.sha256(b"evopolicygym public split 1").digest()
"""The published key of the public split."""


@dataclass(frozen=True, slots=True)
class CaseSet:
    """The seeds of an environment's three splits, by index. Stays on the trusted side."""

    environment: str
    seeds: Mapping[Split, tuple[int, ...]]

    def seed(self, split: Split, index: int) -> int:
        """Return the seed that resets the environment for this case."""
        return self.seeds[split][index]


def derive(secret: bytes, environment: str, bits: int = SHORT_SEED_BITS, sizes: Mapping[Split, int] = SIZES) -> CaseSet:
    """Return the cases that a 256-bit secret determines in an environment, with seeds of ``bits`` bits.

    ``sizes`` says how many there are of each split, in the order of the splits.
    """
    taken: set[int] = set()
    seeds: dict[Split, tuple[int, ...]] = {}
    for split, size in sizes.items():
        chosen = []
        for index in range(size):
            candidates = _candidates(secret, environment, split, index, bits)
            seed = next(number for number in candidates if number >> (bits - SHORT_SEED_BITS) not in taken)
            taken.add(seed >> (bits - SHORT_SEED_BITS))
            chosen.append(seed)
        seeds[split] = tuple(chosen)
    return CaseSet(environment, seeds)


def short_seed(seed: int) -> int | None:
    """Return the first 31 bits of a long seed, for simulators that reject long seeds; None if the seed is short."""
    return None if seed >> SHORT_SEED_BITS == 0 else seed >> (SEED_BITS - SHORT_SEED_BITS)


def _candidates(secret: bytes, environment: str, split: Split, index: int, bits: int) -> Iterator[int]:
    """Yield the seeds of a case by ``attempt``, without end."""
    label = f"evopolicygym case 1|{environment}|{split.value}|{index}"
    return (_number(secret, f"{label}|{attempt}", bits=bits) for attempt in count())


def policy_seed(secret: bytes, environment: str, split: Split, index: int, run_seed: int) -> int:
    """Return the number that seeds ``random`` and ``numpy.random`` in the policy's process (32 bits).

    It is derived from the secret, so that it doesn't reveal the split. It is independent of the environment's seed and
    may be shown.
    """
    return _number(secret, f"evopolicygym policy seed 1|{environment}|{split.value}|{index}|{run_seed}", bits=32)


def world_seed(secret: bytes, environment: str) -> int:
    """Return the number that seeds what a world draws in one environment, for a whole experiment (128 bits)."""
    return _number(secret, f"evopolicygym world 1|{environment}", bits=SEED_BITS)


def commitment(cases: CaseSet, salt: bytes) -> str:
    """Return the salted SHA-256 by which a run commits to its cases, in hexadecimal."""
    text = json.dumps({split.value: list(seeds) for split, seeds in cases.seeds.items()}, separators=(",", ":"))
    return hashlib.sha256(b"evopolicygym commitment 1|" + salt + b"|" + text.encode()).hexdigest()


def salt(secret: bytes, environment: str) -> bytes:
    """Return the salt of an environment's commitment, which the secret determines."""
    return hmac.digest(secret, f"evopolicygym salt 1|{environment}".encode(), "sha256")


def identity_of_secret(secret: bytes) -> str:
    """Return the identity of an experiment with this secret: whoever publishes it can't exchange the secret later."""
    return hashlib.sha256(b"evopolicygym experiment 1|" + secret).hexdigest()[:IDENTITY_LENGTH]


def nonce_key(secret: bytes, nonce: str) -> bytes:
    """Return what cases and draws are derived from in place of the secret, in an experiment with a board's nonce."""
    return hmac.digest(secret, f"evopolicygym nonce 1|{nonce}".encode(), "sha256")


def _number(secret: bytes, label: str, bits: int) -> int:
    digest = hmac.digest(secret, label.encode(), "sha256")
    return int.from_bytes(digest, "big") >> (8 * len(digest) - bits)


PROTOCOL_VERSION = "1.0"
"""The version of ``docs/reference/protocol.md``; the first number changes if existing agents would break."""
