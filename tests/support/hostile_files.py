"""Python files that break parsers, recursion, or both."""

DEEP = 30_000
DEEP_FILES = {
    "brackets": b"(" * DEEP + b")" * DEEP,
    "lists": b"[" * 90 + b"]" * 90,
    "signs": b"-" * DEEP + b"1",
    "negations": b"not " * DEEP + b"1",
    "sum": b"1+" * DEEP + b"1",
    "attributes": b"a" + b".a" * DEEP,
    "calls": b"f" + b"()" * DEEP,
    "lambdas": b"lambda:" * (DEEP // 2) + b"1",
    "conditions": b"1 if 1 else " * (DEEP // 4) + b"1",
    "elifs": b"if 1: pass\n" + b"elif 1: pass\n" * 5_000,
    "blocks": b"".join(b" " * depth + b"if 1:\n" for depth in range(400)),
    "null bytes": b"a = 1\0",
    "no text": bytes(range(128, 256)),
    "unknown encoding": b"# coding: nowhere\na = 1",
    "long number": b"a = " + b"9" * 10_000,
    "f-strings": b"f'{" * 500 + b"1" + b"}'" * 500,
    "surrogate": b"a = '\\ud800'",
}
