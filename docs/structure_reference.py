"""Reference of all weight structures, made from the classes: formula, count, options, a picture of a small matrix."""

import base64
import io
from typing import TYPE_CHECKING, Any

import torch

from phmrun.layers import Structure, build_structure, options_of
from phmrun.registry import STRUCTURES

if TYPE_CHECKING:
    from mkdocs.structure.files import Files

PAGE = "reference/structures.md"
SIZE = 16  # rows and columns of the pictured matrices
HEAD = """# Weight structures

A structure is a recipe for a dense matrix `W [k, d]` (`out_features`, `in_features`) from fewer numbers. Each picture
is a `W` of 16 × 16 as it is initialized with seed 1: red is positive, blue negative, white zero. `phmrun layers
NAME` prints counts for other sizes. To add one, see [Your own layer](../own-parts.md#weight-structure).
"""
LATEX = {  # formula and number of parameters; a structure without has those of its class
    "added": (r"W = W_0 + s \hat{W}, \quad W_0 \text{ frozen}", r"|\hat{W}|"),
    "blast": (r"W_{[i,j]} = B_i \,\mathrm{diag}(D_{ij})\, C_j", r"r\,(k + d + b^2)"),
    "block-circulant": (r"W_{[I,J]} = \mathrm{circ}(c_{IJ})", r"k d / b"),
    "circulant": (r"W_{ij} = c_{(i-j) \bmod d}", r"d"),
    "dense": (r"W", r"k d"),
    "group": (r"W = \mathrm{diag}(B_1, \ldots, B_g)", r"k d / g"),
    "group-shuffle": (r"W = P \,\mathrm{diag}(B_1, \ldots, B_g)", r"k d / g"),
    "guided": (r"W = \alpha D + (1 - \alpha)\,\hat{W}", r"|\hat{W}| \; (\text{in training } +\, k d)"),
    "hypercomplex": (r"W = \sum_{i=1}^{n} S_i \otimes A_i, \quad A \text{ constant}", r"k d / n"),
    "kronecker": (r"W = \sum_{i=1}^{r} A_i \otimes B_i", r"2 r \lceil \sqrt{k} \rceil \lceil \sqrt{d} \rceil"),
    "low-rank": (r"W = U V", r"r\,(k + d)"),
    "monarch": (r"W_{[i,j]} = L_{ij} R_{ij}, \quad \mathrm{rank}\; r", r"r b\,(k + d)"),
    "phm": (r"W = \sum_{i=1}^{n} A_i \otimes S_i", r"k d / n + n^3"),
    "sparse-low-rank": (r"W = U V + S, \quad S \text{ sparse}", r"r\,(k + d) + k m"),
    "symmetric": (r"W = \mathrm{diag}(w)", r"d"),
}


def on_files(files: "Files", config: Any) -> "Files":
    """Add the page to the documentation (a hook of mkdocs)."""
    from mkdocs.structure.files import File  # only the build of the documentation needs it

    files.append(File.generated(config, PAGE, content=page()))
    return files


def page() -> str:
    """Return the page as Markdown, one section for each registered structure."""
    return "\n\n".join([HEAD, *(section(name) for name in sorted(STRUCTURES.names()))]) + "\n"


def section(name: str) -> str:
    """Return the section of one structure."""
    structure: type[Structure] = STRUCTURES.get(name)
    typeset = name in LATEX
    formula, count = map(mathml, LATEX[name]) if typeset else (structure.formula, structure.count_formula)
    summary = (structure.__doc__ or "").strip().partition("\n")[0]
    rows = [
        ("formula", formula),
        ("parameters", count),
        ("constraint", structure.constraint),
        ("source", structure.source),
    ]
    table = "\n".join(["| | value |", "|---|---|", *(f"| {label} | {text} |" for label, text in rows)])
    fields = options_of(name).model_fields.items()
    options = "\n".join(
        ["| option | default | meaning |", "|---|---|---|"]
        + [f"| `{key}` | `{field.default}` | {field.description} |" for key, field in fields]
    )
    return f"## {name}\n\n{summary}\n\n{picture(name)}\n\n{table}\n\n{options}"


def picture(name: str) -> str:
    """Return an image of a 16 × 16 matrix, embedded in the page."""
    from matplotlib import image

    torch.manual_seed(1)
    structure = build_structure(name, SIZE, SIZE)
    structure.reset_parameters(1.0)
    weight = structure.materialize().detach().float()
    bound = float(weight.abs().max()) or 1.0
    buffer = io.BytesIO()
    image.imsave(buffer, weight.numpy(), cmap="RdBu_r", vmin=-bound, vmax=bound, format="png")
    data = base64.b64encode(buffer.getvalue()).decode()
    style = "width:128px;image-rendering:pixelated;border:1px solid"
    return f'<img alt="a {name} matrix" src="data:image/png;base64,{data}" style="{style}">'


def mathml(latex: str) -> str:
    """Return a formula in LaTeX as MathML, which browsers draw without a script."""
    from latex2mathml.converter import convert  # only the build of the documentation needs it

    text: str = convert(latex)
    return text.replace("|", "&#124;")
