"""Record PHM and quaternion layers of astonzhang/Parameterization-of-Hypercomplex-Multiplications.

python tests/reference/make_phm.py GIT_DIRECTORY
"""

import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from recording import Source, checked_out, record
from tensorflow_1 import compute_in_double, tf
from torch import Tensor, nn

SOURCE = Source(
    repository="https://github.com/astonzhang/Parameterization-of-Hypercomplex-Multiplications",
    commit="cc290e6024049cf414773e6e6b24a3a62433fb82",
    license="Apache-2.0",
    files=("LICENSE", "layers/qlib.py"),
    changes="TensorFlow 1 is tensorflow.compat.v1; float64; each variable begins normal; the step is torch's Adam",
)
D, K = 16, 32


def main(git_directory: str) -> None:
    """Outputs, gradients and a step of Adam: PHM with n = 2 and 4, dual n = 4, and quaternions."""
    with checked_out(SOURCE, git_directory) as folder:
        sys.modules["tensorflow"] = tf
        tf.nn.rnn_cell = SimpleNamespace(RNNCell=object)  # the base of cells that are not recorded
        sys.path.insert(0, str(folder / "layers"))
        import qlib  # type: ignore[import-not-found]
    compute_in_double()
    drawn = np.random.default_rng(1)
    inputs = drawn.standard_normal((5, D))
    numbers: dict[str, Tensor] = {"inputs": torch.from_numpy(inputs)}
    layers = {
        "n2": lambda: qlib.random_ffn(tf.constant(inputs), K, n=2, init=True),
        "n4": lambda: qlib.random_ffn(tf.constant(inputs), K, n=4, init=True),
        "dual": lambda: qlib.random_ffn(tf.constant(inputs), K, n=4, init=True, dual=1),
        "quaternion": lambda: qlib.quarternion_ffn(tf.constant(inputs), K, init=True),
    }
    get_variable = tf.get_variable

    def normal(name: str, shape: list[int], initializer: object = None) -> Any:
        return get_variable(name, initializer=drawn.standard_normal(shape))

    tf.get_variable = normal
    for label, layer in layers.items():
        tf.reset_default_graph()
        outputs = layer()
        learned = {value.op.name.split("/")[-1]: value for value in tf.trainable_variables()}
        gradients = tf.gradients(tf.reduce_sum(outputs**2), list(learned.values()))
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            values, slopes, result = session.run([list(learned.values()), gradients, outputs])
        parameters = {name: nn.Parameter(torch.from_numpy(value)) for name, value in zip(learned, values, strict=True)}
        numbers |= {f"{label}/before/{name}": value.detach().clone() for name, value in parameters.items()}
        for value, slope in zip(parameters.values(), slopes, strict=True):
            value.grad = torch.from_numpy(slope)
        numbers |= {f"{label}/gradient/{name}": value.grad for name, value in parameters.items()}
        torch.optim.Adam(parameters.values(), lr=0.01, betas=(0.9, 0.997), eps=1e-9).step()
        numbers |= {f"{label}/after/{name}": value for name, value in parameters.items()}
        numbers[f"{label}/outputs"] = torch.from_numpy(result)
    record("phm", SOURCE, numbers)


if __name__ == "__main__":
    main(sys.argv[1])
