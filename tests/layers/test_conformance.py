"""A class that is no structure, or not the one that it says it is: one error that says which and what it lacks."""

from typing import Annotated

import pytest
import torch
from torch import nn

from phmrun.errors import PhmrunError
from phmrun.layers import Linear, Structure, build_structure, conformance, options_of, register
from phmrun.registry import STRUCTURES, load_plugin

PREFIX = "test-conforms-"

SOUND = {
    "__init__": """
    def __init__(self, out_features: int, in_features: int, *, k: Annotated[int, "A number"] = 4) -> None:
        super().__init__(out_features, in_features, k=k)
        self.matrix = nn.Parameter(torch.empty(out_features, in_features))
""",
    "check": """
    @classmethod
    def check(cls, out_features, in_features, *, k):
        return None
""",
    "reset_parameters": """
    def reset_parameters(self, std):
        nn.init.normal_(self.matrix, std=std)
""",
    "materialize": """
    def materialize(self):
        return self.matrix
""",
}


@pytest.fixture(autouse=True)
def forget():
    """No structure of these tests outlives its test."""
    yield
    for name in [name for name in STRUCTURES._registered if name.startswith(PREFIX)]:
        del STRUCTURES._registered[name]


def plugin(folder, **methods):
    """Plug-in file whose class is sound except for ``methods``; empty text removes a method."""
    path = folder / "own.py"
    body = "".join({**SOUND, **methods}.values())
    header = "import torch\nfrom torch import nn\nfrom typing import *\nfrom phmrun.layers import Structure, register\n"
    path.write_text(
        f'{header}\n\n@register("{PREFIX}own")\nclass Own(Structure):\n    """Own."""\n{body}', encoding="utf-8"
    )
    return path


def built(folder, size=(3, 5), **methods):
    load_plugin(plugin(folder, **methods))
    return build_structure(f"{PREFIX}own", *size)


def test_a_sound_one_is_built_and_counted(tmp_path):
    structure = built(tmp_path)
    assert structure.options == {"k": 4}
    assert structure.kept() == 15


@pytest.mark.parametrize(
    ("methods", "said"),
    [
        ({"materialize": ""}, "Own has no materialize"),
        ({"reset_parameters": ""}, "Own has no reset_parameters"),
        ({"check": SOUND["check"].replace(", *, k", "")}, "Own does not take all of its options in check"),
        ({"__init__": SOUND["__init__"].replace(': Annotated[int, "A number"]', "")}, "has the constructor"),
        ({"__init__": SOUND["__init__"].replace(" = 4", "")}, "has the constructor"),
        ({"__init__": SOUND["__init__"].replace("out_features: int", "rows: int")}, "has the constructor"),
    ],
    ids=lambda value: value if isinstance(value, str) else next(iter(value)),
)
def test_what_a_class_lacks_is_said_when_it_is_registered(tmp_path, methods, said):
    with pytest.raises(PhmrunError, match=said) as caught:
        load_plugin(plugin(tmp_path, **methods))
    assert caught.value.where.endswith("own.py:7")
    assert caught.value.hint


@pytest.mark.parametrize(
    ("methods", "said"),
    [
        ({"__init__": SOUND["__init__"].replace("k=k", "z=k, b=1")}, "does not hand its options on: b, k, z"),
        ({"materialize": SOUND["materialize"].replace("self.matrix", "self.matrix.t()")}, r"\[5, 3\] from .* \[3, 5\]"),
        ({"materialize": SOUND["materialize"].replace("return ", "")}, r"returns None from .* \[3, 5\] is due"),
        ({"materialize": SOUND["materialize"].replace("matrix", "matrix.detach()")}, "that is not trained"),
        ({"__init__": SOUND["__init__"].replace("nn.Parameter(", "(")}, "has no parameters"),
    ],
    ids=lambda value: value if isinstance(value, str) else next(iter(value)),
)
def test_what_a_class_does_wrongly_is_said_when_it_is_built(tmp_path, methods, said):
    with pytest.raises(PhmrunError, match=said) as caught:
        built(tmp_path, **methods)
    assert caught.value.where.endswith("own.py:7")


def square_structure(squares: bool) -> str:
    name = f"{PREFIX}{'square' if squares else 'any'}"

    @register(name)
    class Diagonal(Structure):
        """A multiple of the identity, with one parameter."""

        square = squares

        def __init__(self, out_features: int, in_features: int, *, power: Annotated[int, "A power"] = 1) -> None:
            super().__init__(out_features, in_features, power=power)
            self.factor = nn.Parameter(torch.empty(()))

        def reset_parameters(self, std: float) -> None:
            nn.init.constant_(self.factor, std)

        def materialize(self) -> torch.Tensor:
            return self.factor * torch.eye(self.out_features, self.in_features)

    return name


def test_a_square_structure_says_so_wherever_it_does_not_fit():
    name = square_structure(True)
    assert STRUCTURES.get(name).misfit(4, 4) is None
    assert "valid: equal sizes" in STRUCTURES.get(name).misfit(4, 5)
    with pytest.raises(PhmrunError, match="square"):
        Linear(4, 5, structure=name)
    assert options_of(name).defaults()["power"] == 1


@pytest.mark.parametrize("name", [name for name in STRUCTURES.names() if not name.startswith(PREFIX)])
def test_what_comes_with_the_package_conforms(name):
    """Nobody asks this when one of them is built, so that building stays cheap."""
    structure = STRUCTURES.get(name)
    conformance.check_class(structure, Structure)
    sizes = (12, 12) if structure.misfit(12, 12) is None else (16, 16)
    assert conformance.built(structure, *sizes).materialize().shape == sizes
