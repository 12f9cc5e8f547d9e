"""Writes histogram.json, the histograms that tests/train/tensorboard_sink_test.cpp expects: what
torch.utils.tensorboard makes of the same values.

usage: histogram.py >histogram.json        (with torch and tensorboard)
"""
import json

import numpy as np
from torch.utils.tensorboard.summary import make_histogram

limits = []
value = 1e-12
while value < 1e20:
    limits.append(value)
    value *= 1.1
bins = [-limit for limit in limits[::-1]] + [0] + limits

generator = np.random.default_rng(21)
cases = [generator.standard_normal(50), np.zeros(3), np.array([1e-12, 2.5, -1e-30, -7e19]),
         np.exp(generator.uniform(-20, 20, 40)) * generator.choice([-1, 1], 40)]
result = []
for values in cases:
    histogram = make_histogram(values, bins)
    result.append({"values": values.tolist(), "min": histogram.min, "max": histogram.max, "num": histogram.num,
                   "sum": histogram.sum, "sum_squares": histogram.sum_squares,
                   # Of the limits the ends: those between are 1.1 times each other, or 0.
                   "limits": [histogram.bucket_limit[0], histogram.bucket_limit[-1], len(histogram.bucket_limit)],
                   "counts": [[i, count] for i, count in enumerate(histogram.bucket) if count > 0]})
print(json.dumps(result))
