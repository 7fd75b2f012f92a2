# SPDX-License-Identifier: BSD-3-Clause
"""Field cases of networks and kernels: troubles of users of similar packages, with their threads.

`named` accepts any documented refusal: an error or a warning whose text holds one of the given words. Inputs
are ours.
"""

import copy
import warnings

import numpy as np
import pytest
import torch
from torch import nn

from rfmlearn import (
    KernelRegimeClassifier,
    KernelRegimeRegressor,
    NFMTransformer,
    RFMRegressor,
)
from rfmlearn.kernels import NNGP, NTK, Kernel
from rfmlearn.neural import layer_features

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
RNG = np.random.default_rng(0)
X = RNG.standard_normal((12, 6))
XF = X.astype(np.float32)
S = RNG.standard_normal((10, 4, 6)).astype(np.float32)  # sequences
Y = np.sin(X[:, 0]) + X[:, 1]


def mlp(out=3, act=nn.Tanh, dtype=torch.float32, seed=0):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(6, 8), act(), nn.Linear(8, out)).to(dtype)


def seeded(make, seed=0):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return make()


def agop_of(f, H):
    """AGOP by a loop of Jacobians, one row at a time: nothing of rfmlearn in it."""
    G = 0
    for h in H:
        J = torch.autograd.functional.jacobian(f, h).reshape(-1, h.numel())
        G = G + J.T @ J
    return (G / len(H)).detach().numpy()


def close(a, b, tol=1e-4):
    a, b = np.asarray(a, float), np.asarray(b, float)
    assert a.shape == b.shape and np.isfinite(a).all()
    assert np.abs(a - b).max() <= tol * np.abs(b).max()


def named(call, *words):
    """Run call; return its result and whether it refused, or warned, in a sentence that holds one of words."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = call()
        except (ValueError, TypeError) as error:
            assert any(w.lower() in str(error).lower() for w in words), f"says only: {error}"
            return None, True
    said = any(w.lower() in str(c.message).lower() for c in caught for w in words)
    return result, said


# --- layers that the reader does not see ---------------------------------------------------------


def test_f2_01_linear_inside_multihead_attention():
    """pytorch/pytorch#78109, #128413: hooks on out_proj never fire, the weight is used directly.

    The projection is an nn.Linear with weights that were learned: listed, or its absence told.
    """

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.inp = nn.Linear(6, 8)
            self.att = nn.MultiheadAttention(8, 2, batch_first=True)
            self.out = nn.Linear(8, 3)

        def forward(self, x):
            h = self.inp(x)
            return self.out(self.att(h, h, h, need_weights=False)[0].mean(1))

    layers, said = named(lambda: layer_features(seeded(Net), S), "out_proj", "att")
    assert said or any("out_proj" in layer.name for layer in layers)


def test_f2_02_other_convolutions_beside_linear():
    """microsoft/mup#3, #14 (Conv1d and ConvTranspose2d users), huggingface/transformers#32269 (layers of another class skipped).

    The guide says "every linear and convolutional layer": Conv1d listed, or its absence told.
    """
    net = seeded(
        lambda: nn.Sequential(nn.Conv1d(4, 5, 3), nn.ReLU(), nn.Flatten(), nn.Linear(20, 2))
    )
    layers, said = named(lambda: layer_features(net, S), "Conv1d")
    assert said or layers[0].name == "0"
    images = RNG.standard_normal((4, 2, 6, 6)).astype(np.float32)
    up = seeded(lambda: nn.Sequential(nn.Conv2d(2, 3, 3), nn.ReLU(), nn.ConvTranspose2d(3, 2, 3)))
    layers, said = named(lambda: layer_features(up, images), "ConvTranspose2d")
    assert said or len(layers) == 2


# --- gradients that are not those of the network ---------------------------------------------------


@pytest.mark.parametrize("cut", ["numpy", "argmax", "detach"])
def test_f2_04_outputs_without_a_gradient(cut):
    """PAIR-code/saliency#84, ZF4444/MMAL-Net#8, charlesCXK/TorchSemiSeg#45: no gradient comes back, and zeros are shown.

    A zero AGOP and a NaN alignment are no measurement: a sentence.
    """
    ends = {
        "numpy": lambda z: torch.from_numpy(z.detach().numpy()),
        "argmax": lambda z: z.argmax(1),
        "detach": lambda z: z.detach(),
    }
    _, said = named(
        lambda: layer_features(mlp(), XF, output=ends[cut]), "gradient", "differentiable", "depend"
    )
    assert said


def test_f2_05_hook_of_the_user_that_changes_the_output():
    """pytorch/pytorch PR#22285, PR#87370, TransformerLensOrg/TransformerLens PR#303: order of hooks.

    Steering, pruning and quantisation change a layer's output in a forward hook, which is part of the network.
    """
    net = mlp(dtype=torch.float64)
    net[0].register_forward_hook(lambda m, args, z: 2 * z)
    close(
        layer_features(net, X)[0].agop,
        agop_of(lambda h: net(h[None])[0], torch.from_numpy(X)),
        1e-10,
    )


def test_f2_06_layer_called_by_keyword():
    """zjunlp/EasyEdit PR#654, pytorch/pytorch#156695: args of the hook are empty, IndexError."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(6, 8), nn.Linear(8, 2)

        def forward(self, x):
            return self.b(input=torch.tanh(self.a(input=x)))

    net = seeded(Net)
    Z = NFMTransformer(net, layer=1, n_components=2).fit(XF).transform(XF)
    plain = (
        NFMTransformer(nn.Sequential(net.a, nn.Tanh(), net.b), layer=1, n_components=2)
        .fit(XF)
        .transform(XF)
    )
    close(Z, plain, 1e-5)


def test_f2_08_called_under_autocast():
    """embeddings-benchmark/mteb#1297, locuslab/open-unlearning PR#156, pytorch/pytorch#110285: bfloat16 has no NumPy type.

    An evaluation inside torch.autocast is ordinary: the same matrices to the digits of bfloat16.
    """
    net = mlp()
    plain = layer_features(net, XF)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = layer_features(net, XF)
    for a, b in zip(found, plain, strict=True):
        close(a.nfm, b.nfm, 0.03)
        close(a.agop, b.agop, 0.05)


def test_f2_11_a_row_of_nan_through_relu():
    """pytorch/pytorch#10238, apache/mxnet#11115: relu hides NaN.

    In torch 2.13 its derivative at NaN is 1: rows of NaN give a finite AGOP, as if all units were active, without a word (tanh gives NaN).
    """
    broken = XF.copy()
    broken[:, 2] = np.nan
    _, said = named(lambda: layer_features(mlp(act=nn.ReLU), broken), "nan", "finite")
    assert said


def test_f2_12_module_that_writes_into_its_input():
    """Trusted-AI/adversarial-robustness-toolbox#2262, meta-pytorch/captum#156: in-place first step, rows shared with NumPy."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(6, 8), nn.Linear(8, 2)

        def forward(self, x):
            x.mul_(2.0)
            return self.b(torch.tanh(self.a(x)))

    rows = XF.copy()
    layer_features(seeded(Net), rows)
    assert np.array_equal(rows, XF)


# --- the initial weights under another name -----------------------------------------------------------


@pytest.mark.parametrize("kind", ["weight_norm", "spectral_norm", "prune", "old weight_norm"])
def test_f2_13_init_of_reparametrised_weights(kind):
    """facebookresearch/higher#14 (weight_norm), jaeho-lee/layer-adaptive-sparsity#2 (pruning masks): no key "weight" in the state.

    init= may be a module, whose weights are attributes; and lottery tickets are compared with their initial weights.
    """
    from torch.nn.utils import parametrizations, prune, spectral_norm, weight_norm  # noqa: F401

    net = mlp()
    {
        "weight_norm": lambda: parametrizations.weight_norm(net[0]),
        "spectral_norm": lambda: parametrizations.spectral_norm(net[0]),
        "prune": lambda: prune.l1_unstructured(net[0], "weight", 0.5),
        "old weight_norm": lambda: weight_norm(net[0]),
    }[kind]()
    net.eval()
    start = (
        copy.deepcopy(net) if kind == "weight_norm" else None
    )  # deepcopy of the others is torch's trouble
    W0 = (start or net)[0].weight.detach().numpy().copy()
    first = layer_features(net, XF, init=start or net)[0]
    close(first.init_nfm, W0.T @ W0)


# --- models of other forms: controls -------------------------------------------------------------------


# what torch says of itself while it compiles
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning")
def test_f2_15_compiled_before_and_after_the_first_call():
    """pytorch/pytorch#117758, #96722: hooks registered after compilation do not run."""
    net = mlp()
    plain = layer_features(net, XF)
    compiled = torch.compile(copy.deepcopy(net), backend="eager")
    for _ in range(2):
        for a, b in zip(layer_features(compiled, XF), plain, strict=True):
            close(a.agop, b.agop)
        with torch.no_grad():
            compiled.eval()(torch.from_numpy(XF))


def test_f2_16_module_called_twice():
    """meta-pytorch/captum#1236, #794, #857: one layer, two calls, one of them lost."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.o = nn.Linear(6, 6), nn.Linear(6, 2)

        def forward(self, x):
            return self.o(torch.tanh(self.a(torch.tanh(self.a(x)))))

    net = seeded(Net).double()
    first, second, _ = layer_features(net, X)
    H = torch.from_numpy(X)
    close(first.agop, agop_of(net, H), 1e-10)
    close(
        second.agop,
        agop_of(lambda h: net.o(torch.tanh(net.a(h))), torch.tanh(net.a(H)).detach()),
        1e-10,
    )


def test_f2_19_tied_embedding_and_head():
    """huggingface/transformers#11903, #3799: the head shares its weight with the embedding."""

    class LM(nn.Module):
        def __init__(self):
            super().__init__()
            self.e, self.q, self.head = (
                nn.Embedding(7, 6),
                nn.Linear(6, 6),
                nn.Linear(6, 7, bias=False),
            )
            self.head.weight = self.e.weight

        def forward(self, t):
            return self.head(torch.tanh(self.q(self.e(t))))

    net, tokens = seeded(LM).double(), np.random.default_rng(2).integers(0, 7, (5, 3))
    q, head = layer_features(net, tokens, agop_outputs="all")
    W = net.e.weight.detach().numpy()
    close(head.nfm, W.T @ W, 1e-12)
    close(head.agop, 3 * W.T @ W, 1e-10)  # three positions, each the same map
    assert q.name == "q"


# --- kernels ---------------------------------------------------------------------------------------------


class Own(Kernel):
    name = "own"

    def matrix(self, A, B, self_index=None):
        return torch.exp(-torch.cdist(A.values, B.values).square() / 2)

    def gradients(self, A, B, coef, self_index=None):
        D = B.values[None] - A.values[:, None]
        return torch.einsum("ab,abd,bc->acd", self.matrix(A, B), D, coef)


XK = np.random.default_rng(3).standard_normal((40, 3))
YK = np.sin(XK[:, 0])


def test_f2_25_kernel_that_is_not_symmetric():
    """scikit-learn/scikit-learn#8590, QData/GaKCo-SVM#8, crispitagorico/sigkernel#5.

    A Cholesky factor reads one triangle: the fit solves for another kernel than predict uses.
    """

    class Asymmetric(Own):
        def matrix(self, A, B, self_index=None):
            return super().matrix(A, B) * (1 + 0.5 * torch.tanh(A.values[:, :1]))

    RFMRegressor(Own(), max_iter=0, alpha=1.0).fit(XK, YK)  # control
    for alpha in (1.0, 1e-3):
        _, said = named(
            lambda: RFMRegressor(Asymmetric(), max_iter=0, alpha=alpha).fit(XK, YK), "symmetric"
        )
        assert said


@pytest.mark.parametrize("make", [KernelRegimeRegressor, KernelRegimeClassifier])
def test_f2_27_overflow_is_not_lack_of_memory(make):
    """JuliaLang/julia#21076 (cryptic ARPACK error where the matrix holds Inf).

    40 rows cannot exhaust memory: say that the kernel is not finite.
    """
    y = YK.astype(np.float32) if make is KernelRegimeRegressor else YK > 0
    with pytest.raises((ValueError, np.linalg.LinAlgError), match="(?i)finite|overflow|inf"):
        make("ntk", depth=50, weight_std=16.0).fit(XK.astype(np.float32), y)


def test_f2_28_ntk_and_nngp_against_own_formulas():
    """google/neural-tangents#138, #136 (is it the NTK of my network?), #134 (negative eigenvalues).

    Arc-cosine and arcsine recursions in mpmath with 40 digits; float32 near-coincident rows stay PSD.
    """
    mp = pytest.importorskip("mpmath")
    mp.mp.dps = 40
    rows = XK[:3].copy()
    rows[2] = rows[1] + 1e-7

    def reference(kind, depth, w2, b2):
        n, d = rows.shape
        R = [[mp.mpf(float(v)) for v in r] for r in rows]
        K = [
            [w2 * mp.fsum(p * q for p, q in zip(R[i], R[j])) / d + b2 for j in range(n)]
            for i in range(n)
        ]
        T = [r[:] for r in K]
        for _ in range(depth):
            E, D = [[0] * n for _ in range(n)], [[0] * n for _ in range(n)]
            for i in range(n):
                for j in range(n):
                    p, q, k = K[i][i], K[j][j], K[i][j]
                    if kind == "relu":
                        c = k / mp.sqrt(p * q)
                        th = mp.acos(c) if i != j else mp.mpf(0)
                        E[i][j] = (
                            mp.sqrt(p * q) / (2 * mp.pi) * (mp.sin(th) + (mp.pi - th) * mp.cos(th))
                        )
                        D[i][j] = (mp.pi - th) / (2 * mp.pi)
                    else:
                        E[i][j] = 2 / mp.pi * mp.asin(2 * k / mp.sqrt((1 + 2 * p) * (1 + 2 * q)))
                        D[i][j] = 4 / mp.pi / mp.sqrt((1 + 2 * p) * (1 + 2 * q) - 4 * k * k)
            K = [[w2 * E[i][j] + b2 for j in range(n)] for i in range(n)]
            T = [[K[i][j] + w2 * D[i][j] * T[i][j] for j in range(n)] for i in range(n)]
        return np.array(K, float), np.array(T, float)

    for kind, w in (("relu", 2**0.5), ("erf", 1.25)):
        for depth in (1, 4, 20):
            K, T = reference(kind, depth, mp.mpf(w) ** 2, mp.mpf(0.1) ** 2)
            for cls, R in ((NNGP, K), (NTK, T)):
                kernel = cls(depth=depth, activation=kind, weight_std=w, bias_std=0.1)
                r = kernel.rows(torch.from_numpy(rows))
                close(kernel.matrix(r, r, torch.arange(3)).numpy(), R, 1e-12)
    twins = np.vstack([XK, XK[:10] + 1e-6]).astype(np.float32)
    for depth in (3, 50):
        kernel = NTK(depth=depth)
        r = kernel.rows(torch.from_numpy(twins))
        G = kernel.matrix(r, r, torch.arange(len(twins))).numpy()
        assert np.linalg.eigvalsh(G.astype(float)).min() > -1e-5 * np.linalg.norm(G, 2)


def test_f2_29_cnngp_and_cntk_against_loops():
    """google/neural-tangents#7, #170: shape and value of an infinite convolutional kernel, own loops."""
    from rfmlearn.kernels._convolution import ConvolutionalKernel
    from rfmlearn.kernels._patches import Grid

    images = np.random.default_rng(4).standard_normal((3, 2, 5, 4))
    w2, b2 = 2.0, 0.01

    def covariance(x, z):  # of all pairs of positions of the first convolution, 2 x 2 windows
        def cut(im):
            return np.array(
                [[im[:, i : i + 2, j : j + 2].ravel() for j in range(3)] for i in range(4)]
            )

        return w2 * np.einsum("ijp,klp->ijkl", cut(x), cut(z)) / 8 + b2

    def dual(K, p, q):
        norm = np.sqrt(p[:, :, None, None] * q[None, None])
        th = np.arccos(np.clip(K / norm, -1, 1))
        return norm / (2 * np.pi) * (np.sin(th) + (np.pi - th) * np.cos(th)), (np.pi - th) / (
            2 * np.pi
        )

    def window(E):  # mean over 2 x 2 windows that move together
        h, w = E.shape[0] - 1, E.shape[1] - 1
        return (
            sum(E[i : i + h, j : j + w, i : i + h, j : j + w] for i in (0, 1) for j in (0, 1)) / 4
        )

    def same(K):
        return np.einsum("ijij->ij", K)

    def kernel(x, z, pooling, tangent):
        K, Kx, Kz = covariance(x, z), covariance(x, x), covariance(z, z)
        T = K
        for last in (False, True):
            E, D = dual(K, same(Kx), same(Kz))
            T = D * T
            if last:
                mean = (lambda A: A.mean()) if pooling else (lambda A: same(A).mean())
                K = w2 * mean(E) + b2
                return K + w2 * mean(T) if tangent else K
            Kx, Kz = (w2 * window(dual(A, same(A), same(A))[0]) + b2 for A in (Kx, Kz))
            K = w2 * window(E) + b2
            T = K + w2 * window(T)

    flat = torch.from_numpy(images.reshape(3, -1))
    for pooling in (False, True):
        for tangent in (False, True):
            k = ConvolutionalKernel(Grid((2, 5, 4), (2, 2)), 2, tangent, pooling, 2**0.5, 0.1)
            r = k.rows(flat)
            found = k.matrix(r, r, torch.arange(3)).numpy()
            right = [[kernel(x, z, pooling, tangent) for z in images] for x in images]
            close(found, right, 1e-7)
