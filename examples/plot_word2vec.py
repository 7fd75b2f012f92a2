# SPDX-License-Identifier: BSD-3-Clause
"""
Word vectors of infinite width
==============================

Word2Vec is a linear network with one hidden layer: word in, word out. In muP, its limit of infinite
width is a network as wide as there are words, whose embedding starts as the identity (Tensor
Programs IV, arXiv 2011.14522, section 6). The embedding is what one wants of it, and a kernel
regime leaves it at its initial value, where all words are at right angles.

Without arguments on a small language that is made up. On real text::

    python examples/plot_word2vec.py --corpus corpus.txt.gz --analogies questions-words.txt \\
        --similarities simlex999.txt
"""

# %%
# The made-up language has 24 families of four words, as *France, Paris, French, Franc*. A sentence
# has words of one family, or words that play the same part in different families.

import argparse
import gzip
import time
from collections import Counter

import matplotlib.pyplot as plt
import numpy as np
import torch
from scipy.stats import spearmanr
from torch.nn import functional

from rfmlearn.neural import InfiniteLinearNetwork

parser = argparse.ArgumentParser(description="CBOW at widths 16 to 1024, and its limit.")
parser.add_argument("--corpus", help="a sentence a line, lower case; may end in .gz")
parser.add_argument("--analogies", help="four words a line, as in questions-words.txt")
parser.add_argument("--similarities", help="word, word, score: tabs between them")
parser.add_argument("--vocabulary", type=int, default=2000, help="most frequent words to keep")
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--widths", type=int, nargs="+", help="16 64 256 1024 unless made up")
args = parser.parse_args()
args.widths = args.widths or ([16, 64, 256, 1024] if args.corpus else [4, 8, 16, 64, 256])
rng = np.random.default_rng(0)


def made_up_language(families=24, parts=4, sentences=6000):
    names = [[f"w{f}.{p}" for p in range(parts)] for f in range(families)]
    for _ in range(sentences):
        f, p = rng.integers(families), rng.integers(parts)
        same_family = rng.choice(names[f], 6)
        same_part = [names[g][p] for g in rng.integers(families, size=6)]
        yield list(same_family if rng.random() < 0.5 else same_part)


def made_up_analogies(families=24, parts=4):
    for _ in range(500):
        (f, g), (p, q) = rng.choice(families, 2, False), rng.choice(parts, 2, False)
        yield [f"w{f}.{p}", f"w{f}.{q}", f"w{g}.{p}", f"w{g}.{q}"]


def read(path):
    with (gzip.open if path.endswith(".gz") else open)(path, "rt") as file:
        yield from file


if args.corpus:
    sentences = [line.split() for line in read(args.corpus)]
    counts = Counter(word for words in sentences for word in words)
    words = [word for word, _ in counts.most_common(args.vocabulary)]
    analogies = [line.lower().split() for line in read(args.analogies) if line[0] != ":"]
    window, subsampling = 8, 1e-4
else:
    sentences = list(made_up_language())
    counts = Counter(word for words in sentences for word in words)
    words, analogies, window, subsampling = sorted(counts), list(made_up_analogies()), 3, 1.0
number = {word: i for i, word in enumerate(words)}
frequency = np.array([counts[word] for word in words], dtype=float)
texts = [np.array([number[w] for w in s if w in number], dtype=np.int64) for s in sentences]
print(f"{sum(map(len, texts))} words of {len(words)} different ones")

# %%
# Continuous bag of words with negative sampling: the mean of the embeddings of the words around a
# position is to tell the word there from 25 random ones. Weights and learning rate are those of
# the reference; the rate is the same for all widths. A batch is 128 positions.

NEGATIVES, RATE, DECAY, BATCH = 25, 0.05, 1e-3, 128


def positions(epoch):
    """Return the words of all positions, subsampled, and the words around each."""
    generator = np.random.default_rng(epoch)
    share = frequency / sum(counts.values())
    keep = np.minimum(1, np.sqrt(subsampling / share) + subsampling / share)
    targets, around = [], []
    for text in texts:
        text = text[generator.random(len(text)) < keep[text]]
        if len(text) < 2:
            continue
        reach = generator.integers(1, window + 1, size=len(text))
        offset = np.arange(-window, window + 1)
        where = np.arange(len(text))[:, None] + offset
        inside = (where >= 0) & (where < len(text)) & (offset != 0)
        inside &= np.abs(offset) <= reach[:, None]
        targets.append(text)
        around.append(np.where(inside, text[where.clip(0, len(text) - 1)], -1))
    order = generator.permutation(sum(map(len, targets)))
    return np.concatenate(targets)[order], np.concatenate(around)[order]


def train(U, V):
    """Train embeddings U and output vectors V, one row a word, in place."""
    noise = np.cumsum(frequency**0.75)
    for epoch in range(args.epochs):
        targets, around = positions(epoch)
        starts = range(0, len(targets), BATCH)
        generator = np.random.default_rng(100 + epoch)
        for start in starts:
            rate = RATE * max(1 - (epoch + start / len(targets)) / args.epochs, 1e-4)
            centre, context = targets[start : start + BATCH], around[start : start + BATCH]
            present = context >= 0
            some = present.any(axis=1)
            centre, context, present = centre[some], context[some], present[some]
            others = np.searchsorted(noise / noise[-1], generator.random((len(centre), NEGATIVES)))
            asked = torch.from_numpy(np.column_stack([centre, others]))
            label = torch.zeros(asked.shape)
            label[:, 0] = 1.0
            share = torch.from_numpy((present / present.sum(1, keepdims=True)).astype(np.float32))
            bag = torch.from_numpy(context.clip(0))
            h = functional.embedding_bag(bag, U, per_sample_weights=share, mode="sum")
            v = V[asked]  # (batch, 26, n)
            g = rate * (label - torch.sigmoid((v @ h[:, :, None])[:, :, 0]))
            g[:, 1:][asked[:, 1:] == asked[:, :1]] = 0.0  # the word itself is no negative
            e = (g[:, None] @ v)[:, 0]
            # words that are in the batch more than once get all their updates
            i, j = np.nonzero(present)
            update(V, asked.flatten(), np.repeat(np.arange(len(g)), g.shape[1]), g, h, rate)
            update(U, bag[i, j], i, share[i, j], e, rate)


def update(weights, words, rows, factors, steps, rate):
    """Decay the rows of some words, and add to each the factor times the row of `steps`."""
    count = torch.bincount(words, minlength=len(weights))
    weights.mul_(1 - rate * DECAY * count[:, None])
    where = torch.stack([words, torch.from_numpy(rows)])
    size = len(weights), len(steps)
    shares = torch.sparse_coo_tensor(where, factors.flatten(), size, check_invariants=False)
    weights.add_(shares @ steps)


# %%
# `InfiniteLinearNetwork` has the initial weights, and makes the finite ones: random projections of
# the limit. The output vectors start at 0, so that the limit is as wide as the vocabulary.


def embeddings(width=None):
    """Return the embedding and its product with the output vectors, and the seconds."""
    limit = InfiniteLinearNetwork(len(words), 1, output_scale=0.0, dtype=torch.float32)
    network = limit if width is None else limit.finite(width, random_state=0)
    U = network[0].weight.detach().T.clone()
    if width is None:
        U = U[:, : len(words)].contiguous()
    V, start = torch.zeros_like(U), time.perf_counter()
    train(U, V)
    return U.numpy(), (U @ V.T).numpy(), time.perf_counter() - start


def right(U):
    """Return the share of the analogies that the embedding solves."""
    known = np.array([[number[w] for w in q] for q in analogies if all(w in number for w in q)])
    U = U / np.linalg.norm(U, axis=1, keepdims=True)
    a, b, c, d = known.T
    scores = (U[b] - U[a] + U[c]) @ U.T
    for given in (a, b, c):
        scores[np.arange(len(known)), given] = -np.inf
    found = scores.argmax(axis=1)
    # a tie is no answer
    top = np.sort(scores, axis=1)
    return np.mean((found == d) & (top[:, -1] > top[:, -2] + 1e-6)), len(known)


def similarity(U):
    """Return the rank correlation with the judgement of people."""
    lines = [line.split("\t") for line in read(args.similarities) if line[0] != "#"]
    pairs = [(a, b, float(s)) for a, b, s in lines if a in number and b in number]
    U = U / np.linalg.norm(U, axis=1, keepdims=True)
    cosines = [U[number[a]] @ U[number[b]] for a, b, _ in pairs]
    return spearmanr(cosines, [s for *_, s in pairs]).statistic


limit, product, seconds = embeddings()
published = {64: "33.3", 256: "41.6", 1024: "42.6", "infinite": "43.3", "GP and NTK": "0.0"}

print(f"\n{right(limit)[1]} analogies")
print(f"{'width':>12s} {'analogies %':>12s} {'from limit':>11s} {'seconds':>8s}", end="")
print(f" {'text8, TP4 %':>13s} {'similarity':>11s}" if args.corpus else "")
distances, accuracies = [], []
for width in (*args.widths, "infinite", "GP and NTK"):
    if width == "infinite":
        U, UV = limit, product
    elif width == "GP and NTK":
        U, UV, seconds = np.eye(len(words)), np.zeros_like(product), 0.0
    else:
        U, UV, spent = embeddings(width)
    distance = np.linalg.norm(UV - product) / np.linalg.norm(product)
    accuracy = 100 * right(U)[0]
    line = f"{width!s:>12s} {accuracy:12.1f} {distance:11.3f} "
    line += f"{spent if isinstance(width, int) else seconds:8.1f}"
    if args.corpus:
        line += f" {published.get(width, ''):>13s}"
    if args.similarities and width != "GP and NTK":
        line += f" {similarity(U):11.3f}"
    print(line, flush=True)
    if isinstance(width, int):
        distances.append(distance)
        accuracies.append(accuracy)

# %%
# The wider, the closer are the logits to those of the limit, as fast as ``width^-1/2`` or faster,
# and the better the embedding.

figure, (left, middle) = plt.subplots(1, 2, figsize=(8.5, 3.4), layout="constrained")
left.semilogx(args.widths, accuracies, "o-", color="tab:red", label="finite width")
left.axhline(100 * right(limit)[0], color="black", linestyle="--", label="infinite width")
left.axhline(0, color="tab:gray", linestyle=":", label="GP, NTK")
left.set(xlabel="width", ylabel="analogies solved, %")
left.legend(frameon=False)
middle.loglog(args.widths, distances, "o-", color="tab:red")
guide = distances[0] * np.sqrt(args.widths[0] / np.array(args.widths))
middle.loglog(args.widths, guide, color="black", linestyle=":", label="width$^{-1/2}$")
middle.set(xlabel="width", ylabel="relative distance from the limit")
middle.legend(frameon=False)
plt.show()
