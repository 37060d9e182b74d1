"""Record PHM and quaternion layers of astonzhang/Parameterization-of-Hypercomplex-Multiplications.

python tests/reference/make_phm.py GIT_DIRECTORY
"""

import contextlib
import sys
import types
from collections.abc import Callable, Sequence

import torch
from recording import Source, checked_out, record
from torch import Tensor, nn

SOURCE = Source(
    repository="https://github.com/astonzhang/Parameterization-of-Hypercomplex-Multiplications",
    commit="cc290e6024049cf414773e6e6b24a3a62433fb82",
    license="Apache-2.0",
    files=("LICENSE", "layers/qlib.py"),
    how="run",
    changes="the functions of TensorFlow 1 that layers/qlib.py calls are torch's, and each variable begins normal",
)
D, K = 16, 32


def tensorflow(variables: dict[str, nn.Parameter]) -> types.ModuleType:
    """TensorFlow's functions of the same meaning in torch; variables are added by name."""

    def get_variable(name: str, shape: Sequence[int], initializer: object = None) -> Tensor:
        variables[name] = nn.Parameter(torch.randn(*shape))
        return variables[name].clone()

    def split(value: Tensor, parts: int, axis: int) -> tuple[Tensor, ...]:
        return value.chunk(parts, dim=axis)

    def concat(values: Sequence[Tensor], axis: int) -> Tensor:
        return torch.cat(list(values), dim=axis)

    functions: dict[str, Callable[..., object]] = {
        **{"get_variable": get_variable, "split": split, "concat": concat, "reshape": torch.reshape},
        **{"tile": torch.tile, "transpose": torch.permute, "matmul": torch.matmul},
        "variable_scope": lambda *_, **__: contextlib.nullcontext(),
    }
    module = types.ModuleType("tensorflow")
    for name, function in functions.items():
        setattr(module, name, function)
    module.nn = types.SimpleNamespace(  # type: ignore[attr-defined]
        sigmoid=torch.sigmoid, rnn_cell=types.SimpleNamespace(RNNCell=object)
    )
    return module


def main(git_directory: str) -> None:
    """Outputs, gradients and a step of Adam: PHM with n = 2 and 4, dual n = 4, and quaternions."""
    variables: dict[str, nn.Parameter] = {}
    with checked_out(SOURCE, git_directory) as folder:
        sys.modules["tensorflow"] = tensorflow(variables)
        for name, part in (("framework", "dtypes"), ("ops", "random_ops")):
            sys.modules[f"tensorflow.python.{name}"] = module = types.ModuleType(name)
            setattr(module, part, None)
        Tensor.get_shape = lambda self: types.SimpleNamespace(as_list=lambda: list(self.shape))  # type: ignore
        sys.path.insert(0, str(folder / "layers"))
        import qlib  # type: ignore[import-not-found]
    for name in [name for name in sys.modules if name.startswith("tensorflow")]:
        del sys.modules[name]  # torch looks for the real one
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(1)
    inputs = torch.randn(5, D)
    numbers: dict[str, Tensor] = {"inputs": inputs}
    layers = {
        "n2": lambda: qlib.random_ffn(inputs, K, n=2, init=True),
        "n4": lambda: qlib.random_ffn(inputs, K, n=4, init=True),
        "dual": lambda: qlib.random_ffn(inputs, K, n=4, init=True, dual=1),
        "quaternion": lambda: qlib.quarternion_ffn(inputs, K, init=True),
    }
    for label, layer in layers.items():
        variables.clear()
        outputs = layer()
        numbers |= {f"{label}/before/{name}": value.detach().clone() for name, value in variables.items()}
        outputs.square().sum().backward()
        numbers |= {f"{label}/gradient/{name}": value.grad for name, value in variables.items()}
        torch.optim.Adam(variables.values(), lr=0.01, betas=(0.9, 0.997), eps=1e-9).step()
        numbers |= {f"{label}/after/{name}": value for name, value in variables.items()}
        numbers[f"{label}/outputs"] = outputs
    record("phm", SOURCE, numbers)


if __name__ == "__main__":
    main(sys.argv[1])
