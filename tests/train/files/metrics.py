"""Writes metrics.json, the values that tests/train/metrics_test.cpp expects: what torchmetrics computes.

usage: metrics.py >metrics.json        (with torch and torchmetrics)
"""
import json

import torch
import torchmetrics
from torchmetrics.classification import (BinaryAUROC, BinaryAveragePrecision, BinaryF1Score, BinaryJaccardIndex,
                                         MulticlassAccuracy, MulticlassConfusionMatrix, MulticlassF1Score,
                                         MulticlassJaccardIndex, MulticlassPrecision, MulticlassRecall)
from torchmetrics.text import Perplexity

torch.manual_seed(21)
CLASSES = 5  # of which the last one never occurs
BATCHES = 3


def batch(n):
    # Multiples of 1/8, so that they are the same in every floating dtype.
    logits = (torch.randn(n, CLASSES) * 8).round() / 8
    logits[:, CLASSES - 1] -= 8
    target = torch.randint(0, CLASSES - 1, (n,))
    target[::4] = -100
    return logits, target


batches = [batch(n) for n in (16, 7, 30)]


def run(metric):
    for logits, target in batches:
        metric.update(logits, target)
    return metric.compute().tolist()


options = {"num_classes": CLASSES, "ignore_index": -100}
result = {
    "batches": [{"logits": logits.tolist(), "target": target.tolist()} for logits, target in batches],
    "accuracy": run(MulticlassAccuracy(average="micro", **options)),
    "top2": run(MulticlassAccuracy(average="micro", top_k=2, **options)),
    "confusion": run(MulticlassConfusionMatrix(**options)),
    "confusion_true": run(MulticlassConfusionMatrix(normalize="true", **options)),
    "confusion_pred": run(MulticlassConfusionMatrix(normalize="pred", **options)),
    "confusion_all": run(MulticlassConfusionMatrix(normalize="all", **options)),
}
for name, kind in (("precision", MulticlassPrecision), ("recall", MulticlassRecall), ("f1", MulticlassF1Score),
                   ("jaccard", MulticlassJaccardIndex)):
    for average in ("micro", "macro", "weighted", "none"):
        result[f"{name}_{average}"] = run(kind(average=average, **options))

perplexity = Perplexity(ignore_index=-100)
for logits, target in batches:
    perplexity.update(logits.double()[None], target[None])
result["perplexity"] = perplexity.compute().item()

preds = [torch.randn(n, dtype=torch.float64) for n in (4, 9)]
targets = [p + torch.randn(p.shape, dtype=torch.float64) + 3 for p in preds]
weights = [torch.rand(p.shape, dtype=torch.float64) for p in preds]
result["numbers"] = [{"preds": p.tolist(), "target": t.tolist(), "weight": w.tolist()}
                     for p, t, w in zip(preds, targets, weights)]
for name, metric in (("mse", torchmetrics.MeanSquaredError()), ("rmse", torchmetrics.MeanSquaredError(squared=False)),
                     ("mae", torchmetrics.MeanAbsoluteError()), ("r2", torchmetrics.R2Score())):
    metric = metric.set_dtype(torch.float64)
    for p, t in zip(preds, targets):
        metric.update(p, t)
    result[name] = metric.compute().item()
mean = torchmetrics.MeanMetric().set_dtype(torch.float64)
for p, w in zip(preds, weights):
    mean.update(p, w)
result["weighted_mean"] = mean.compute().item()

# Multiples of 1/16, which are thresholds themselves where there are 17; scores of 1 are left out, as torchmetrics' curve
# then does not begin at 0, 0.
binary = [((torch.rand(n) * 16).floor() / 16, torch.randint(0, 2, (n,))) for n in (20, 9)]
binary[0][1][3] = -100
result["binary"] = [{"preds": p.tolist(), "target": t.tolist()} for p, t in binary]
for name, metric in ([(f"auroc_{n}", BinaryAUROC(thresholds=n, ignore_index=-100)) for n in (2, 11, 17)] +
                     [(f"ap_{n}", BinaryAveragePrecision(thresholds=n, ignore_index=-100)) for n in (2, 11, 17)] +
                     [("f1_binary", BinaryF1Score(ignore_index=-100)),
                      ("jaccard_binary", BinaryJaccardIndex(ignore_index=-100))]):
    for p, t in binary:
        metric.update(p, t)
    result[name] = metric.compute().item()
print(json.dumps(result))
