"""Cases: splits are disjoint and stable, and nothing that is shown tells which split is played."""

import pytest

from evopolicygym.core import cases
from evopolicygym.core.cases import PUBLIC_KEY, SIZES, CaseSet, Split

PUBLIC = cases.derive(PUBLIC_KEY, "acrobot")
GOLDEN_FIRST = {Split.TRAIN: 422834999, Split.VALIDATION: 2134080691, Split.HELD_OUT: 923246563}
GOLDEN_COMMITMENT = "d36c2a5eed8b92776846321dbe8f1b7592049c6c3541fe030347eab5d481d754"


def test_splits_have_their_sizes() -> None:
    """1024 train, 64 validation and 256 held-out cases."""
    assert tuple(len(PUBLIC.seeds[split]) for split in Split) == (1024, 64, 256)


@pytest.mark.parametrize("environment", ["acrobot", "reacher", "cartpole"])
def test_splits_are_disjoint(environment: str) -> None:
    """No seed stands twice, within a split or across."""
    seeds = [seed for split in cases.derive(PUBLIC_KEY, environment).seeds.values() for seed in split]

    assert len(seeds) == len(set(seeds))


def test_seeds_taken_are_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """A seed that an earlier index has is not given again: the next attempt is."""
    tiny = {"|0": 1, "|1": 2, "|2": 3}
    sizes = {Split.TRAIN: 1, Split.VALIDATION: 1, Split.HELD_OUT: 1}
    monkeypatch.setattr(cases, "_number", lambda _secret, label, **_bits: tiny[label[-2:]])

    assert cases.derive(b"", "toy", sizes=sizes).seeds == {
        Split.TRAIN: (1,),
        Split.VALIDATION: (2,),
        Split.HELD_OUT: (3,),
    }


def test_the_public_split_never_changes() -> None:
    """Anyone's public cases are these: a score on them can be compared for ever."""
    first = {split: PUBLIC.seeds[split][0] for split in Split}

    assert first == GOLDEN_FIRST
    assert cases.commitment(PUBLIC, cases.salt(PUBLIC_KEY, "acrobot")) == GOLDEN_COMMITMENT


@pytest.mark.parametrize(("secret", "environment"), [(PUBLIC_KEY, "reacher"), (b"x" * 32, "acrobot")])
def test_another_secret_or_environment_has_other_cases(secret: bytes, environment: str) -> None:
    """Cases of one environment or experiment tell nothing of another's."""
    other = cases.derive(secret, environment)

    assert set(other.seeds[Split.TRAIN]) & set(PUBLIC.seeds[Split.TRAIN]) == set()


def test_seeds_fit_every_simulator() -> None:
    """A seed has at most 31 bits."""
    assert all(0 <= seed < 2**31 for split in PUBLIC.seeds.values() for seed in split)


def test_seed_of_a_case() -> None:
    """A case's seed is the one at its index."""
    assert PUBLIC.seeds[Split.VALIDATION][3] == PUBLIC.seed(Split.VALIDATION, 3)


def policy_seeds(split: Split, run_seed: int = 0) -> list[int]:
    return [cases.policy_seed(PUBLIC_KEY, "acrobot", split, index, run_seed) for index in range(SIZES[split])]


def test_policy_seeds_are_not_the_environments() -> None:
    """What seeds a policy's generators is not what resets the environment."""
    own = {seed >> 1 for seed in policy_seeds(Split.TRAIN)} | set(policy_seeds(Split.TRAIN))

    assert own & set(PUBLIC.seeds[Split.TRAIN]) == set()


def test_policy_seeds_don_t_tell_the_split() -> None:
    """Policies' seeds of the three splits share no value and the same range, so none can be told by its seed."""
    each = [set(policy_seeds(split)) for split in Split]

    assert sum(map(len, each)) == len(set.union(*each))
    assert all(min(one) < 2**28 and max(one) > 2**32 - 2**28 for one in each)


@pytest.mark.parametrize("run_seed", [1, 2])
def test_policy_seeds_depend_on_the_run(run_seed: int) -> None:
    """Another run's policies draw other numbers on the same cases."""
    assert set(policy_seeds(Split.HELD_OUT)) & set(policy_seeds(Split.HELD_OUT, run_seed)) == set()


def test_a_commitment_holds_to_every_seed_and_to_its_salt() -> None:
    """Changing one hidden seed or the salt changes what was committed to."""
    changed = CaseSet("acrobot", {**PUBLIC.seeds, Split.HELD_OUT: (7, *PUBLIC.seeds[Split.HELD_OUT][1:])})
    salts = cases.salt(PUBLIC_KEY, "acrobot"), cases.salt(PUBLIC_KEY, "reacher")
    found = {cases.commitment(changed, salts[0]), *(cases.commitment(PUBLIC, salt) for salt in salts)}

    assert len(found) == 3
