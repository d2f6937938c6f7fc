"""A tiny sentence model, made on the spot."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, models, pre_tokenizers


def write(folder: Path, words: list[str], *, pooled: bool = False) -> Path:
    """Put `model.onnx` and `tokenizer.json` into a folder.

    The model looks up one vector for each word: a direction of its own. Where it is
    pooled, it gives the greatest of each number for the whole text.
    """
    onnx.save(_model(len(words), pooled), folder / "model.onnx")
    vocabulary = {word: n for n, word in enumerate(words)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=words[0]))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


def _model(size: int, pooled: bool) -> onnx.ModelProto:
    shape = ["texts", "tokens"]
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64, shape)
        for name in ("input_ids", "attention_mask")
    ]
    kind = TensorProto.FLOAT
    name = "pooled" if pooled else "hidden"
    sizes = ["texts", size] if pooled else [*shape, size]
    output = helper.make_tensor_value_info(name, kind, sizes)
    table = numpy_helper.from_array(np.eye(size, dtype=np.float32), "table")
    lookup = helper.make_node("Gather", ["table", "input_ids"], ["hidden"])
    pool = helper.make_node("ReduceMax", ["hidden"], ["pooled"], axes=[1], keepdims=0)
    nodes = [lookup, pool] if pooled else [lookup]
    graph = helper.make_graph(nodes, "tiny", inputs, [output], [table])
    opset = helper.make_opsetid("", 17)
    return helper.make_model(graph, ir_version=9, opset_imports=[opset])
