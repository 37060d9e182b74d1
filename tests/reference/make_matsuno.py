"""Record the classifiers of TomokiMatsuno/PACLIC32, the functions of ``my_linalg.py``, in float64.

python tests/reference/make_matsuno.py GIT_DIRECTORY PARSER_V2_GIT_DIRECTORY

Their file holds two functions for ``parser/neural/linalg.py`` of Parser-v2, where one finds its orthonormal start.
"""

import subprocess
import sys
from typing import Any

import numpy as np
import torch
import torch._dynamo  # its import crashes after TensorFlow's
from parser_v2 import SOURCE as PARSER_V2
from recording import Source, checked_out, record
from tensorflow_1 import compute_in_double, tf
from torch import Tensor, nn

SOURCE = Source(
    repository="https://github.com/TomokiMatsuno/PACLIC32",
    commit="1279b82501d2b069b09611982156320ae4db2582",
    license="none stated",
    files=("my_linalg.py",),
    changes="lines 3-81 symmetric, 85-182 circulant; Python 2's xrange is range; TensorFlow 1 is tensorflow.compat.v1; "
    "float64 and complex128; orthonormal_initializer is that of tdozat/Parser-v2 304c638, parser/neural/linalg.py:12; "
    "the step is torch's Adam",
)
WIDTH, WORDS, LABELS = 8, 4, 3
KINDS = {"symmetric": "symmetry_matrix_bilinear", "circulant": "circulant_matrix_bilinear"}
NAMES = {"Weights_re": "real", "Weights_im": "imaginary", "Biases_x": "u", "Biases_y": "v"}


def main(git_directory: str, parser_v2: str) -> None:
    """Starts; then, from random values, scores, gradients and a step of Adam, with one label and with several."""
    released: dict[str, Any] = {"tf": tf, "np": np, "xrange": range}
    path = f"{PARSER_V2.commit}:parser/neural/linalg.py"
    shown = subprocess.run(["git", "--git-dir", parser_v2, "show", path], stdout=subprocess.PIPE, check=True, text=True)
    start = shown.stdout.index("def orthonormal_initializer")
    exec(shown.stdout[start : shown.stdout.index("#===", start)].replace("print ", "print"), released)
    with checked_out(SOURCE, git_directory) as folder:
        exec((folder / "my_linalg.py").read_text().replace("complex64", "complex128"), released)
    compute_in_double()
    drawn = np.random.default_rng(1)
    x, y = drawn.standard_normal((2, 2, WORDS, WIDTH)) / 2
    numbers: dict[str, Tensor] = {"x": torch.from_numpy(x), "y": torch.from_numpy(y)}
    for kind, function in KINDS.items():
        for labels in (1, LABELS):
            tf.reset_default_graph()
            np.random.seed(1)
            if kind == "circulant":
                numbers[f"{kind}{labels}/drawn"] = torch.from_numpy(np.random.rand(WIDTH))
                np.random.seed(1)
            scores = released[function](tf.constant(x), tf.constant(y), labels)
            learned = {NAMES[value.op.name.split("/")[-1]]: value for value in tf.trainable_variables()}
            gradients = tf.gradients(tf.reduce_sum(scores**2), list(learned.values()))
            with tf.Session() as session:
                session.run(tf.global_variables_initializer())
                starts = session.run(list(learned.values()))
                for value in learned.values():
                    value.load(drawn.standard_normal(value.shape.as_list()) / 2, session)
                values, slopes, result = session.run([list(learned.values()), gradients, scores])
            parameters = [nn.Parameter(torch.from_numpy(value)) for value in values]
            before = [value.detach().clone() for value in parameters]
            for value, slope in zip(parameters, slopes, strict=True):
                value.grad = torch.from_numpy(slope)
            torch.optim.Adam(parameters, lr=0.002, betas=(0.9, 0.9), eps=1e-9).step()
            stages = {"start": map(torch.from_numpy, starts), "before": before, "after": parameters}
            stages["gradient"] = map(torch.from_numpy, slopes)
            for stage, tensors in stages.items():
                for name, tensor in zip(learned, tensors, strict=True):
                    bias = name in ("u", "v")  # `[1, width, labels]`; weights are `[1, 1, labels, width]`
                    numbers[f"{kind}{labels}/{stage}/{name}"] = tensor[0].t() if bias else tensor[0, 0]
            numbers[f"{kind}{labels}/scores"] = torch.from_numpy(result)  # `[sentences, words, labels, words]`
    record("matsuno", SOURCE, numbers)


if __name__ == "__main__":
    main(*sys.argv[1:])
