"""TensorFlow 1 in TensorFlow 2: graphs, sessions and variables as they were, by the same operations.

Needs ``tensorflow-cpu`` 2.21 beside torch, in an environment of its own: no test imports this.
"""

import inspect
from collections.abc import Callable
from functools import wraps
from types import SimpleNamespace
from typing import Any

import tensorflow.compat.v1 as tf
from tensorflow.python.ops.losses import losses_impl

tf.disable_v2_behavior()


def compute_in_double() -> None:
    """Make float64 the type of TensorFlow's functions where none is given."""

    def with_double(function: Callable[..., Any], *, only_floats: bool = False) -> Callable[..., Any]:
        signature = inspect.signature(function)

        @wraps(function)
        def call(*args: Any, **options: Any) -> Any:
            has_type = "dtype" in signature.bind_partial(*args, **options).arguments
            if not has_type and (not only_floats or isinstance(args[0], float)):
                options["dtype"] = tf.float64
            return function(*args, **options)

        return call

    for name in ("ones", "zeros", "random_uniform", "eye", "one_hot", "get_variable"):
        setattr(tf, name, with_double(getattr(tf, name)))
    tf.convert_to_tensor = with_double(tf.convert_to_tensor, only_floats=True)
    types = {name: getattr(losses_impl.dtypes, name) for name in dir(losses_impl.dtypes)}
    losses_impl.dtypes = SimpleNamespace(**types | {"float32": tf.float64})  # losses are summed in it
