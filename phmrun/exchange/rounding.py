"""Rounding of the weights in ONNX graphs to bfloat16 or 8 bits."""

import logging
import tempfile
from pathlib import Path
from typing import Any

import torch

from phmrun.layers.factored_file import to_int8


def write_rounded(proto: Any, path: Path, precision: str, *, computed: bool) -> None:
    """Write an ONNX graph with rounded weights.

    Args:
        proto: The graph; changed in place.
        path: File to write.
        precision: "bfloat16" or "int8".
        computed: True to compute products in 8 bits, too, by ``onnxruntime.quantization.quantize_dynamic`` (int8 only),
            with weights of 7 bits. False to store rounded weights only: the graph converts them to single precision,
            which onnxruntime does once, when it loads the file.
    """
    import onnx

    if not computed:
        _store_rounded(proto, precision)
        onnx.save(proto, path)
        return
    from onnxruntime.quantization import QuantType, quantize_dynamic

    root, silent = logging.getLogger(), logging.NullHandler()
    # onnxruntime advises to pre-process the graph, which torch has done. Its logging.warning would give a root logger
    # without handlers one that prints every later message a second time.
    root.addHandler(silent)
    root.addFilter(_without_advice)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        exact = Path(folder) / "exact.onnx"
        onnx.save(proto, exact)
        try:
            # Seven bits: sums of two products of eight overflow 16 bits on processors without VNNI.
            quantize_dynamic(exact, path, weight_type=QuantType.QInt8, per_channel=True, reduce_range=True)
        finally:
            root.removeFilter(_without_advice)
            root.removeHandler(silent)


def _without_advice(record: logging.LogRecord) -> bool:
    """Return False for onnxruntime's advice to pre-process a graph.

    Torch's exporter has done so. True for other messages.
    """
    return "pre-processing" not in record.getMessage()


def _store_rounded(proto: Any, precision: str) -> None:
    """Replace float32 weights by rounded ones, in place.

    Further nodes at the graph's beginning convert them to single precision under their old names. The stored tensors
    have ".stored" appended to theirs, scales ".factor". With "bfloat16" all are rounded, with "int8" only large tensors
    (:func:`phmrun.layers.factored_file.to_int8`).
    """
    import onnx
    from onnx import numpy_helper

    graph, single = proto.graph, onnx.TensorProto.FLOAT
    weights = {
        item.name: torch.from_numpy(numpy_helper.to_array(item).copy())
        for item in graph.initializer
        if item.data_type == single
    }
    scales = to_int8(weights) if precision == "int8" else {}
    nodes = []
    for item in list(graph.initializer):
        if item.name not in (scales if precision == "int8" else weights):
            continue
        values, stored = weights[item.name], f"{item.name}.stored"
        if precision == "int8":
            factor, whole = f"{item.name}.factor", f"{item.name}.whole"
            graph.initializer.append(numpy_helper.from_array(values.numpy(), stored))
            graph.initializer.append(numpy_helper.from_array(weights[scales[item.name]].numpy(), factor))
            nodes.append(onnx.helper.make_node("Cast", [stored], [whole], to=single))
            nodes.append(onnx.helper.make_node("Mul", [whole, factor], [item.name]))
        else:
            raw = values.bfloat16().contiguous().view(torch.int16).numpy().tobytes()
            kind, shape = onnx.TensorProto.BFLOAT16, values.shape
            graph.initializer.append(onnx.helper.make_tensor(stored, kind, shape, raw, raw=True))
            nodes.append(onnx.helper.make_node("Cast", [stored], [item.name], to=single))
        graph.initializer.remove(item)
    old = list(graph.node)
    del graph.node[:]
    graph.node.extend([*nodes, *old])
