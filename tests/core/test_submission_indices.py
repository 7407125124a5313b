"""How an agent writes train case indices: what is read, what is refused, and that nothing is expanded in vain."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from evopolicygym.core.errors import RefusalStatus, RequestRefused
from evopolicygym.core.submission import parse_env_instances

CASES, MOST = 1024, 128
index = some.integers(0, CASES - 1)
part = index | some.tuples(index, some.integers(0, 9)).map(lambda pair: (pair[0], min(CASES - 1, sum(pair))))


def spelled(parts: list[int | tuple[int, int]], space: str) -> str:
    return f"{space},{space}".join(str(one) if isinstance(one, int) else f"{one[0]}{space}-{one[1]}" for one in parts)


def expanded(parts: list[int | tuple[int, int]]) -> tuple[int, ...]:
    ranges = [range(one, one + 1) if isinstance(one, int) else range(one[0], one[1] + 1) for one in parts]
    return tuple(value for each in ranges for value in each)


def refusal(asked: object, most: int = MOST) -> RequestRefused:
    with pytest.raises(RequestRefused) as caught:
        parse_env_instances(asked, CASES, most)
    return caught.value


@given(some.lists(index, min_size=1, max_size=MOST))
def test_a_list_is_kept_as_it_is(asked: list[int]) -> None:
    """Order and repeats of a list stand for themselves."""
    assert tuple(asked) == parse_env_instances(asked, CASES, MOST)


@given(some.lists(part, min_size=1, max_size=12), some.sampled_from(["", " "]))
def test_text_means_closed_ranges(parts: list[int | tuple[int, int]], space: str) -> None:
    """Text names indices and closed ranges, in their order and with their repeats."""
    assert expanded(parts) == parse_env_instances(spelled(parts, space), CASES, MOST)


@pytest.mark.parametrize(("asked", "expected"), [("5,5", (5, 5)), ("0-3,7", (0, 1, 2, 3, 7)), ("1023", (1023,))])
def test_known_texts(asked: str, expected: tuple[int, ...]) -> None:
    """The protocol's own examples are read as it says."""
    assert expected == parse_env_instances(asked, CASES, MOST)


@pytest.mark.parametrize(
    "asked",
    [
        *([], "", " ", ",", "1,", ",1", "1-", "-1", "a", "1.5", "1 2", "0x1", "1--2", "1-2-3", "\uff11", "0-3;7", "\n"),
        *([True], [False], [1.0], ["1"], [None], [[1]], [{}], [-1], [CASES], [2**63], [-(2**63)], [10**400]),
        *(None, 3, 2.5, True, {"a": 1}, {}),
        *("1024", "0-1024", "9999999999999999999", "5-3"),
    ],
)
def test_what_is_no_index_is_refused(asked: object) -> None:
    """Booleans, floats, text of another form and whatever lies outside the split are refused by name."""
    assert refusal(asked).status == RefusalStatus.INVALID_ENV_INSTANCE


@pytest.mark.parametrize(("asked", "named"), [([7, 10**400], "30 digits"), ([True], "True"), ("5-3", "5-3")])
def test_a_refusal_names_the_value(asked: object, named: str) -> None:
    """The message holds the value that is wrong, in a line's worth."""
    message = str(refusal(asked))

    assert named in message
    assert len(message) < 200


@pytest.mark.parametrize("asked", ["0-1023", "0-9,0-1023", ",".join(["0-1023"] * 5000), list(range(129))])
def test_too_many_are_refused(asked: object) -> None:
    """More indices than a submission may have are a matter of the budget."""
    assert refusal(asked).status == RefusalStatus.BUDGET_INVALID


def test_nothing_is_expanded_before_it_is_counted() -> None:
    """A range of a thousand million is refused at once: it never becomes a list."""
    with pytest.raises(RequestRefused) as caught:
        parse_env_instances("0-999999999", 10**9, MOST)

    assert str(caught.value) == "1000000000 episodes requested; one submission may play at most 128."


@given(some.text() | some.lists(some.integers() | some.booleans() | some.floats() | some.text()))
def test_anything_is_read_or_refused(asked: object) -> None:
    """Whatever is asked, the answer is indices of the split or a refusal."""
    try:
        indices = parse_env_instances(asked, CASES, MOST)
    except RequestRefused:
        return

    assert all(type(one) is int and 0 <= one < CASES for one in indices)
    assert 1 <= len(indices) <= MOST
