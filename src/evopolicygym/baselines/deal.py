"""The deal: which case an episode of training plays. Train cases of the public split only, in order, over and over."""

from evopolicygym.core.cases import PUBLIC_KEY, Split, derive


class Deal:
    """Hands out train cases, so many at most, and keeps what each episode returned, in the order of their ends."""

    def __init__(self, environment: str, episodes: int | None = None) -> None:
        """Deal ``episodes`` cases at most; any number where that is None."""
        self._seeds = derive(PUBLIC_KEY, environment).seeds[Split.TRAIN]
        self._most = episodes
        self.dealt = 0
        """Episodes begun."""
        self.returns: list[float] = []
        """Of episodes that ended."""

    @property
    def first(self) -> int:
        """The seed of the first train case, to look at spaces with."""
        return self._seeds[0]

    @property
    def is_spent(self) -> bool:
        """Whether no case is left to deal."""
        return self._most is not None and self.dealt >= self._most

    def next(self) -> int:
        """Return the seed of the next case; raise ``LookupError`` where none is left."""
        if self.is_spent:
            raise LookupError(f"all {self.dealt} episodes of the budget have been dealt")
        seed = self._seeds[self.dealt % len(self._seeds)]
        self.dealt += 1
        return seed
