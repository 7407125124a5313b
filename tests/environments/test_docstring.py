"""What is taken of a docstring: words, and names where there is one for each; no numbers, formulas, links or code."""

import pytest

from evopolicygym.environments.derived import read_docstring

TEXT = """
Before all headings.

## Description
A cart carries a pole. Its mass is m = 3 kg. The paper is at https://example.org/paper. Keep it *upright*!

```python
make("It")
```

## Action Space
The action is one of these:
- 0: push to the left
- 1: push to the right

## Observation Space

| Num | Observation | Min | Max |
|-----|-------------|-----|-----|
| 0   | `place`     | -1  | 1   |
| 1   | speed       | -9  | 9   |

### Rewards
Each step pays something. The reward is 1 - 0.9 * steps.

## Episode End
1. The pole falls.
2. The cart leaves the track.
"""


def test_words_without_numbers() -> None:
    """Sentences with formulas, numbers and links are left out."""
    found = read_docstring(TEXT)

    assert found.objective == "A cart carries a pole. Keep it upright!"
    assert found.reward == "Each step pays something."
    assert found.termination == "The pole falls. The cart leaves the track."


def test_names() -> None:
    """Tables and lists that are numbered from 0 name elements and values."""
    found = read_docstring(TEXT)

    assert (found.observations, found.actions) == (("place", "speed"), ("push to the left", "push to the right"))


@pytest.mark.parametrize("items", ["- 1: a\n- 2: b", "- 0: a\n- 2: b", "nothing here"])
def test_names_with_a_gap_are_none(items: str) -> None:
    """What isn't numbered from 0 without a gap names nothing."""
    assert read_docstring(f"## Action Space\n{items}\n").actions == ()


def test_without_headings() -> None:
    """A docstring without headings is a description; an empty one says nothing."""
    text = "Follow the tracks. Avoid others."

    assert read_docstring(f"{text}\n\nSee http://example.org").objective == text
    assert read_docstring("").objective == ""


@pytest.mark.parametrize(
    "arguments",
    [
        "Args:\n    size: How large the grid is.\n\n    seed: A seed, if any.\nReturns:\n    Nothing.\n",
        "Parameters\n----------\nsize : int\n    How large the grid is.\n\nReturns\n-------\nNone\n",
        ":param size: how large the grid is.\n    It may be small.\n:returns: nothing.\n",
        "Example:\n    Play it.\n",
    ],
)
def test_arguments_of_the_constructor_are_no_task(arguments: str) -> None:
    """What documents code is left out; what stands beside it is kept."""
    assert read_docstring(f"A ball rolls.\n\n{arguments}").objective == "A ball rolls."
    assert read_docstring(f"{arguments}\n\n## Description\nA ball rolls.").objective == "A ball rolls."
