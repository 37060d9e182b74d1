"""tdozat/Parser-v2 as released in 2017, made to run under Python 3.11 and TensorFlow 2.

Python 2 is translated by lib2to3, and TensorFlow is ``tensorflow_1``. Needs ``scipy`` and ``matplotlib``, too.
"""

import configparser
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from recording import Source, checked_out
from tensorflow_1 import compute_in_double

SOURCE = Source(
    repository="https://github.com/tdozat/Parser-v2",
    commit="304c638aa780a5591648ef27060cfa7e4bee2bd0",
    license="Apache-2.0 (stated in the head of parser/neural/models/nn.py; the repository has no license file)",
    files=("config/defaults.cfg", "parser"),
    changes="Python 2 translated by lib2to3; TensorFlow 1 is tensorflow.compat.v1; float64; no fit of word "
    "frequencies; the optimizer's counts of steps are read before they are raised, an order that the code leaves open",
)
LEAKED = "            # TODO This is super hacky\n"
"""The line before which a comprehension's variable is read, as Python 2 lets one."""

READ_FIRST = (
    "    t = tf.assign_add(tm1, 1)\n",
    "    count, tm1 = tm1, tm1 * 1\n    with tf.control_dependencies([tm1]):\n      t = tf.assign_add(count, 1)\n",
)
"""In the optimizer a variable's count of steps, ``base_optimizer.py:165``, and the same read before it is raised."""


@contextmanager
def released(git_directory: str, *, double: bool) -> Iterator[Path]:
    """Folder with the translated package ``parser``, the current one, first on ``sys.path``.

    Args:
        git_directory: Git directory of a clone of the repository.
        double: Compute in float64, and in an order that repeats; in float32, as released, if not.
    """
    from lib2to3.refactor import RefactoringTool, get_fixers_from_package  # gone from Python 3.13

    logging.disable(logging.INFO)
    with checked_out(SOURCE, git_directory) as folder:
        RefactoringTool(get_fixers_from_package("lib2to3.fixes")).refactor_dir(str(folder / "parser"), write=True)
        for path in (folder / "parser").rglob("*.py"):
            path.write_text(translated(path.read_text(encoding="utf-8"), double=double), encoding="utf-8")
        if double:
            compute_in_double()
        configparser.SafeConfigParser = configparser.ConfigParser  # type: ignore[attr-defined]
        sys.path.insert(0, str(folder / "parser"))  # for imports of neighbours without a dot
        before = Path.cwd()
        os.chdir(folder)  # config/defaults.cfg is read from there
        try:
            from parser.vocabs import PretrainedVocab  # type: ignore[import-not-found]

            PretrainedVocab.count = lambda self: None  # fits a curve that nothing reads, for minutes
            yield folder
        finally:
            os.chdir(before)


def translated(code: str, *, double: bool) -> str:
    """Code with the changes that lib2to3 leaves: TensorFlow's name, renamed methods and binary files."""
    code = code.replace("import tensorflow as tf", "import tensorflow.compat.v1 as tf")
    code = code.replace("def iteritems(self)", "def items(self)")
    code = code.replace("'history.pkl'), 'w')", "'history.pkl'), 'wb')")
    code = code.replace(LEAKED, LEAKED + "            subvocab = list(vocab)[-1]\n")
    if double:
        code = code.replace("float32", "float64").replace("tf.to_float", "tf.to_double")
        code = code.replace("tf.Variable(0.,", "tf.Variable(0., dtype=tf.float64,")
        code = code.replace(*READ_FIRST)
    return code
