"""Code lines of each package: total lines, lines of code, and lines of code without imports.

Blank lines, comments and docstrings are no code; a string that documents an attribute is a docstring, too.
``python benchmarks/lines.py [ROOT] [--json]`` counts ``phmrun/`` and ``tasks/`` of a checkout.
"""

import argparse
import ast
import io
import json
import tokenize
from collections import Counter
from pathlib import Path

IGNORED = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}


def code_lines(text: str) -> tuple[int, int]:
    """Number of code lines in a Python source, with and without its import statements."""
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in IGNORED:
            code.update(range(token.start[0], token.end[0] + 1))
    imports: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            code.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        elif isinstance(node, ast.Import | ast.ImportFrom):
            imports.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(code), len(code - imports)


def package_of(path: Path) -> str:
    """Package that a file is counted for: ``phmrun`` for its own files, ``tasks/lm`` for a task's."""
    parts = path.parts
    if parts[0] == "tasks":
        return "/".join(parts[:2]) if len(parts) > 2 else "tasks"
    return parts[1] if len(parts) > 2 else "phmrun"


def count(root: Path) -> dict[str, Counter[str]]:
    """Files, total lines, code lines and code lines without imports of each package."""
    counts: dict[str, Counter[str]] = {}
    for top in ("phmrun", "tasks"):
        for path in sorted((root / top).rglob("*.py")):
            name = path.relative_to(root)
            if "__pycache__" in name.parts or any(part.is_symlink() for part in path.parents):
                continue
            text = path.read_text(encoding="utf-8")
            code, without = code_lines(text)
            row = counts.setdefault(package_of(name), Counter())
            row.update(files=1, lines=len(text.splitlines()), code=code, without_imports=without)
    return counts


def main() -> None:
    """Print one line per package, and the total."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", nargs="?", type=Path, default=Path(__file__).resolve().parents[1])
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    counts = count(options.root)
    total = sum(counts.values(), Counter())
    if options.json:
        print(json.dumps({**counts, "total": total}, indent=2))
        return
    print(f"{'package':<24}{'files':>8}{'lines':>8}{'code':>8}{'without imports':>18}")
    for name, row in [*sorted(counts.items()), ("total", total)]:
        print(f"{name:<24}{row['files']:>8}{row['lines']:>8}{row['code']:>8}{row['without_imports']:>18}")


if __name__ == "__main__":
    main()
