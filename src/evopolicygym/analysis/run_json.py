"""What every reader of a ``run.json`` that may come from a stranger shares: texts, parts, complaints."""

import json
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, Field, ValidationError

from evopolicygym.core.environment import Anchor, Kind, Success
from evopolicygym.core.errors import RecordError
from evopolicygym.core.printable import printable
from evopolicygym.specs.game_identity import Game, success_of

Name = Annotated[str, AfterValidator(printable)]
"""Text that may come from a stranger: printed as it stands here, and nothing else."""
Document = TypeVar("Document", bound=BaseModel)


class AgentFields(BaseModel):
    """Who played."""

    name: Name
    model: Name = ""
    effort: Name | None = None
    command: tuple[Name, ...] = ()
    label: Name = ""
    program_sha256: Name = ""


class EnvironmentFields(BaseModel):
    """What was played."""

    name: Name
    family: Name
    kind: Kind
    random_anchor: Anchor | None = None
    idle_anchor: Anchor | None = None
    id: Name
    max_steps: int
    arguments: dict[str, Any] = Field(default_factory=dict)
    success: Success | None = None

    @property
    def game(self) -> Game:
        """What was played under the task's name."""
        return Game(self.id, self.max_steps, self.arguments, success_of(self.success))


def decoded(kind: type[Document], text: str | bytes) -> Document:
    """Return the parts of a document that a reader wants; raise ``RecordError`` where it hasn't got them."""
    try:
        return kind.model_validate(json.loads(text))
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in problem["loc"]) or "the document"
        raise RecordError(f"run.json can't be read: {printable(where)}: {problem['msg']}.") from error
    except (ValueError, RecursionError) as error:
        raise RecordError(f"run.json is no JSON: {error}.") from error
