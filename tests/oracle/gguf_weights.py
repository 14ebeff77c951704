"""Metadata and dequantised tensors of a GGUF file, read by the `gguf` package."""

import numpy as np
from gguf import GGUFReader, dequantize


class GgufFile:
    def __init__(self, path):
        self.reader = GGUFReader(path)
        self.tensors = {t.name: t for t in self.reader.tensors}
        self.arch = self.value("general.architecture")

    def value(self, key, default=None):
        field = self.reader.fields.get(key)
        return default if field is None else field.contents()

    def hyper(self, key, default=None):
        return self.value(f"{self.arch}.{key}", default)

    def weight(self, name):
        """The tensor as f32, shape as stored row by row: (rows, columns) or (n,)."""
        tensor = self.tensors[name]
        values = dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        return values.reshape([int(n) for n in reversed(tensor.shape)])
