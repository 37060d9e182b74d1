"""Rounded ONNX graphs leave the process's logging as it was."""

import logging

import pytest


def test_rounding_gives_the_root_logger_no_handler(tmp_path, monkeypatch):
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    from phmrun.exchange.rounding import write_rounded

    weight = onnx.helper.make_tensor("w", onnx.TensorProto.FLOAT, [4, 4], [0.5] * 16)
    vectors, outputs = (
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [None, 4]) for name in ("x", "y")
    )
    product = onnx.helper.make_node("MatMul", ["x", "w"], ["y"])
    graph = onnx.helper.make_graph([product], "product", [vectors], [outputs], [weight])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=9)
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])  # pytest's own would hide the effect
    write_rounded(model, tmp_path / "rounded.onnx", "int8", computed=True)
    assert (root.handlers, root.filters) == ([], [])
    assert (tmp_path / "rounded.onnx").stat().st_size > 0
