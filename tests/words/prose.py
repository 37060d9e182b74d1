"""Text of Python files: docstrings, comments, help texts and the names of local variables.

Files are read as text and parsed with ``ast``; nothing is imported.
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
HELP_ARGUMENTS = {"help", "description", "short_help", "epilog"}


@dataclass(frozen=True)
class Passage:
    """A piece of text and its place.

    Attributes:
        file: Path of the file.
        line: Line where the passage begins, from 1.
        kind: ``docstring``, ``comment``, ``help`` or ``local``.
        text: The text; for ``local``, the variable's name.
    """

    file: Path
    line: int
    kind: str
    text: str


def python_files(roots: list[Path]) -> Iterator[Path]:
    """Yield each Python file below the roots once; links and hidden folders are left out."""
    for root in roots:
        for path in sorted(root.rglob("*.py")) if root.is_dir() else [root]:
            parents = path.relative_to(root).parents if root.is_dir() else ()
            if not any((root / parent).is_symlink() or parent.name.startswith(".") for parent in parents):
                yield path


def passages(file: Path) -> Iterator[Passage]:
    """Yield the docstrings, help texts, local names and comments of a Python file."""
    source = file.read_text("utf-8")
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED) and (text := ast.get_docstring(node)):
            yield Passage(file, getattr(node, "lineno", 1), "docstring", text)
        if isinstance(node, ast.ClassDef):  # docstrings of fields are descriptions in the schema
            for statement in node.body[1:]:
                if isinstance(statement, ast.Expr) and (text := _literal(statement.value)):
                    yield Passage(file, statement.lineno, "help", text)
        if isinstance(node, ast.Call):
            for keyword in node.keywords:
                if keyword.arg in HELP_ARGUMENTS and (text := _literal(keyword.value)):
                    yield Passage(file, keyword.value.lineno, "help", text)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for name, line in _locals(node):
                yield Passage(file, line, "local", name)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield Passage(file, token.start[0], "comment", token.string.lstrip("# "))


def sentences(text: str) -> list[str]:
    """Return the sentences of a docstring or help text, without code blocks, tables and list marks.

    A blank line, a list mark, an argument's name in an ``Args:`` section, and a full stop before a capital end a
    sentence.
    """
    text = re.sub(r"::\n\n(?:[ \t]+.*\n|\n)+", ".\n\n", text + "\n")
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    text = re.sub(r"^ *=+(?: +=+)+ *\n.*?^ *=+(?: +=+)+ *$(?!\n *\S)", "", text, flags=re.DOTALL | re.MULTILINE)
    blocks = re.split(r"\n\s*\n|\n\s*(?:[-*•]|\d+\.)\s+|\n\s*(?=\w+:\s)|\n(?=\s*[|+])", text)
    return [
        sentence
        for block in blocks
        for sentence in re.split(r"(?<=[.!?;])\s+(?=[A-Z`\"'(])", " ".join(block.split()))
        if re.search(r"[a-z]{2}", sentence)
    ]


def _literal(node: ast.expr) -> str | None:
    """Text of a string literal; an f-string with each field as ``x``; None for anything else."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "x" for part in node.values)
    return None


def _locals(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[tuple[str, int]]:
    """Yield each name that the function's body binds, nested functions left to themselves."""
    pending: list[ast.AST] = list(function.body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, node.lineno
        pending += ast.iter_child_nodes(node)
