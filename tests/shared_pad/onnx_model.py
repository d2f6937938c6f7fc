"""A tiny sentence model, made on the spot."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, models, pre_tokenizers


def write(folder: Path, words: list[str]) -> Path:
    """Put `model.onnx` and `tokenizer.json` into a folder.

    The model looks up one vector for each word: a direction of its own.
    """
    onnx.save(_model(len(words)), folder / "model.onnx")
    vocabulary = {word: n for n, word in enumerate(words)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=words[0]))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


def _model(size: int) -> onnx.ModelProto:
    shape = ["texts", "tokens"]
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64, shape)
        for name in ("input_ids", "attention_mask")
    ]
    kind = TensorProto.FLOAT
    output = helper.make_tensor_value_info("hidden", kind, [*shape, size])
    table = numpy_helper.from_array(np.eye(size, dtype=np.float32), "table")
    lookup = helper.make_node("Gather", ["table", "input_ids"], ["hidden"])
    graph = helper.make_graph([lookup], "tiny", inputs, [output], [table])
    opset = helper.make_opsetid("", 17)
    return helper.make_model(graph, ir_version=9, opset_imports=[opset])
