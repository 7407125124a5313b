"""Whether a policy may do something else in one episode than in another, by the number of the episode.

Such a checkpoint can be several programs in one: a comparison on train cases that is worth little on hidden ones. Seen
is a policy whose ``reset`` has its first argument, or an attribute that it is kept in, decide: in a condition, a
comparison, a remainder or an index. What is passed on to other functions is not followed.
"""

import ast
from collections.abc import Iterable


def acts_by_episode(policy: ast.Module | None) -> bool:
    """Return whether what ``policy.py`` does may hang on the number of the episode; not where it can't be parsed."""
    if policy is None:
        return False
    classes = (node for node in policy.body if isinstance(node, ast.ClassDef) and node.name == "Policy")
    return any(_decides(one) for one in classes)


def _decides(policy: ast.ClassDef) -> bool:
    resets = [node for node in policy.body if isinstance(node, ast.FunctionDef) and node.name == "reset"]
    for reset in resets:
        parameters = [*reset.args.posonlyargs, *reset.args.args]
        if len(parameters) < 2:  # noqa: PLR2004 - itself and the number
            continue
        names, attributes = _kept(reset, parameters[1].arg)
        inside = any(_is_one(node, names, attributes) for one in _deciding(reset) for node in ast.walk(one))
        if inside or any(_is_one(node, set(), attributes) for one in _deciding(policy) for node in ast.walk(one)):
            return True
    return False


def _kept(reset: ast.FunctionDef, name: str) -> tuple[set[str], set[str]]:
    """Return the names and the attributes that hold the number, as far as it is assigned as it is."""
    names, attributes = {name}, set[str]()
    for node in ast.walk(reset):
        if not isinstance(node, ast.Assign):
            continue
        for target, value in _assigned(node):
            if not _is_one(value, names, attributes):
                continue
            if isinstance(target, ast.Name):
                names.add(target.id)
            elif isinstance(target, ast.Attribute):
                attributes.add(target.attr)
    return names, attributes


def _assigned(node: ast.Assign) -> Iterable[tuple[ast.expr, ast.expr]]:
    for target in node.targets:
        if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            yield from zip(target.elts, node.value.elts, strict=False)
        else:
            yield target, node.value


def _deciding(part: ast.AST) -> Iterable[ast.AST]:
    """Yield what decides in a part of a program."""
    for node in ast.walk(part):
        match node:
            case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test) | ast.Match(subject=test):
                yield test
            case ast.Compare():
                yield node
            case ast.BinOp(op=ast.Mod() | ast.FloorDiv()):
                yield node
            case ast.Subscript(slice=index):
                yield index


def _is_one(node: ast.AST, names: set[str], attributes: set[str]) -> bool:
    return (isinstance(node, ast.Name) and node.id in names) or (
        isinstance(node, ast.Attribute)
        and node.attr in attributes
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    )
