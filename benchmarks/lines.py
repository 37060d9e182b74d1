"""Code lines of each package, of tests and benchmarks; length of functions and lines.

``python benchmarks/lines.py [ROOT] [--json]`` counts a checkout. A code line has a token that is neither a comment nor
a docstring; a string below an attribute is the attribute's docstring. Imports are code. The line ``product`` is the
figure with the limit: ``phmrun/``, ``tasks/``, ``results/build.py`` and the templates, whose lines all count if they
are not blank.

For commit 760b2cf0 this prints 37,775. A tokenizer that takes all lines of statements for code, except the docstrings
of modules, classes and functions, counts 38,565. The difference of 790 is the docstrings of attributes, which Python
does not keep and documentation tools read.
"""

import argparse
import ast
import io
import json
import statistics
import tokenize
from collections import Counter
from pathlib import Path
from typing import Any

IGNORED = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}
BESIDE = ("tests", "benchmarks")
"""Folders that are counted and have a limit of their own."""


def code_lines(text: str) -> set[int]:
    """Numbers of the code lines of a Python source."""
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in IGNORED:
            code.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            code.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return code


def function_lengths(text: str, code: set[int]) -> dict[str, int]:
    """Code lines of each function by its name; a function within another counts for both."""
    return {
        node.name: len(code.intersection(range(node.lineno, (node.end_lineno or node.lineno) + 1)))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def package_of(path: Path) -> str:
    """Package that a file is counted for: ``phmrun`` for its own files, ``tasks/lm`` for a task's."""
    parts = path.parts
    if parts[0] == "tasks":
        return "/".join(parts[:2]) if len(parts) > 2 else "tasks"
    if parts[0] != "phmrun":
        return parts[0]
    return parts[1] if len(parts) > 2 else "phmrun"


def sources(root: Path) -> list[Path]:
    """Python files and templates of a checkout, relative to it."""
    files = [path for top in ("phmrun", "tasks", *BESIDE) for path in (root / top).rglob("*.py")]
    files += [*(root / "phmrun").rglob("*.jinja"), *root.glob("results/build.py")]
    names = [path.relative_to(root) for path in files if not any(part.is_symlink() for part in path.parents)]
    return sorted(name for name in names if "__pycache__" not in name.parts)


def measure(root: Path) -> dict[str, Any]:
    """Files, total lines and code lines of each package, and lengths of the product's functions and lines."""
    packages: dict[str, Counter[str]] = {}
    functions: dict[str, int] = {}
    widths: list[int] = []
    for name in sources(root):
        text = (root / name).read_text(encoding="utf-8")
        lines = text.splitlines()
        template = name.suffix == ".jinja"
        code = {number for number, line in enumerate(lines, 1) if line.strip()} if template else code_lines(text)
        package = "templates" if template else package_of(name)
        packages.setdefault(package, Counter()).update(files=1, lines=len(lines), code=len(code))
        if package not in BESIDE and not template:
            functions |= {f"{name}:{key}": count for key, count in function_lengths(text, code).items()}
            widths += [len(lines[number - 1]) for number in code]
    product = sum((row for key, row in packages.items() if key not in BESIDE), Counter[str]())
    longest = max(functions, key=functions.__getitem__)
    lengths = list(functions.values())
    return {
        "packages": packages,
        "product": product,
        "functions": {
            "count": len(lengths),
            "mean": statistics.mean(lengths),
            "median": statistics.median(lengths),
            "longest": functions[longest],
            "where": longest,
        },
        "line_length": {"mean": statistics.mean(widths), "95th percentile": statistics.quantiles(widths, n=20)[-1]},
    }


def commands() -> tuple[int, int]:
    """Number of verbs of the command line, and of their options without ``--help``."""
    from phmrun.cli.app import whole

    verbs = [verb for group in whole().commands.values() for verb in getattr(group, "commands", {"": group}).values()]
    return len(verbs), sum(parameter.param_type_name == "option" for verb in verbs for parameter in verb.params)


def main() -> None:
    """Print one line per package, the product, and the lengths."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", nargs="?", type=Path, default=Path(__file__).resolve().parents[1])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--commands", action="store_true", help="count verbs and options instead")
    options = parser.parse_args()
    if options.commands:
        print("{} verbs, {} options".format(*commands()))
        return
    report = measure(options.root)
    if options.json:
        print(json.dumps(report, indent=2))
        return
    print(f"{'package':<24}{'files':>8}{'lines':>8}{'code':>8}")
    packages = sorted(report["packages"].items(), key=lambda item: (item[0] in BESIDE, item[0]))
    for name, row in [*packages, ("product", report["product"])]:
        print(f"{name:<24}{row['files']:>8}{row['lines']:>8}{row['code']:>8}")
    functions, width = report["functions"], report["line_length"]
    print(
        f"\ncode lines per function: mean {functions['mean']:.1f}, median {functions['median']:.0f}, "
        f"longest {functions['longest']} ({functions['where']}), {functions['count']} functions"
        f"\ncharacters per code line: mean {width['mean']:.1f}, 95th percentile {width['95th percentile']:.0f}"
    )


if __name__ == "__main__":
    main()
