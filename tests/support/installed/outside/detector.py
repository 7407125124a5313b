"""A detector: programs that define a policy."""

from collections.abc import Iterator

from evopolicygym.analysis.conduct.detector import AuditFinding, Detector, Grade, Material


def look(material: Material) -> Iterator[AuditFinding]:
    """Yield every program that defines one."""
    for program in material.programs:
        if "class Policy" in program.text:
            yield AuditFinding("policies", Grade.NOTE, "defines a policy", program.location, "class Policy")


DETECTOR = Detector("programs that define a policy", look)
