"""Look into a model, or change what flows through it. Nothing else in the project hooks into a network or changes it.

    head_mask(model, mask)          multiply each attention head's output    (Bias A-head, equation 2)
    patch(model, layer, head, value)  put something else in a head's place
    project(model, interventions)   take a subspace out of hidden vectors    (Projective methods, equation 5)
    record(model, locations)        keep what passed a location in the last forward
    resume(model, layer, states)    start a forward half way, from recorded states
    finish(model, places)           end a forward at one token a text: the last layer's larger part for it alone
    pool(model, first)              an encoder's sentence vectors from the first tokens of its last layer
    Projection                      one subspace, how much of it goes, and for which tokens

The first six are context managers, may be nested in any order, and leave no hook behind, whatever happens inside.
At one location masks and projections come first and `record` last: it keeps what really flows on.

Locations count layers FROM 0, like the models' code. Heads written (layer, head), as in lib/bias_a_head/heads.py, count
both FROM 1, like the papers: layer 11 of the Projective paper is "layer.10" here.

    embeddings   what enters the first layer                                [batch, tokens, hidden]
    layer.N      what leaves layer N: transformers' hidden_states[N + 1], so the last layer of GPT-2 and
                 LLaMA is seen after the closing norm                       [batch, tokens, hidden]
    attn.q.N     queries of layer N; LLaMA's before their rotation          [batch, tokens, heads, head size]
    attn.k.N     keys, likewise, and attn.v.N values; a LLaMA may have fewer of these heads
    attn.out.N   each head's output, as it enters the output projection W^O
    ffn.N        what enters the feed-forward part of layer N               [batch, tokens, hidden]
    pooler       an encoder's sentence vector: the pooler's output, or in a model without pooler the
                 first token of the last layer                              [batch, hidden]"""

import contextlib
import itertools
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import nn

from lib import CompanionError


@dataclass(frozen=True, eq=False)
class Projection:
    """h - sum_i weight_i <h, g_i> g_i, for orthonormal g_i: equation 5 of Projective methods.

    basis    [d, width], or at attn.* [heads, d, head size]: one subspace per head
    weight   [d], or at attn.* also [heads, d]; 1 takes a component out whole (the paper's n = 0, hard), the
             share of variance that it explains takes that share of it (n = 1, soft), 0 leaves it
    tokens   "all", or "first": the first token alone, BERT's [CLS]"""

    basis: torch.Tensor
    weight: torch.Tensor | float = 1.0
    tokens: str = "all"

    def __post_init__(self):
        if not isinstance(self.basis, torch.Tensor) or self.basis.dim() not in (2, 3):
            raise CompanionError(
                "A Projection's basis is a tensor, [d, width] or [heads, d, width]: make it one."
            )
        if self.tokens not in ("all", "first"):
            raise CompanionError(
                f"A Projection has no tokens='{self.tokens}': choose 'all' or 'first'."
            )
        if not self.basis.is_floating_point() or not self.basis.isfinite().all():
            raise CompanionError(
                "A Projection's basis has values that are no real numbers: take it from a PCA or QR."
            )
        weight = torch.as_tensor(self.weight)
        if not ((weight >= 0) & (weight <= 1)).all():  # of nan neither is so
            raise CompanionError(
                f"A Projection's weight is {self.weight}: give 0 (leaves it) to 1 (takes it out)."
            )
        if weight.dim() and weight.shape not in (self.basis.shape[-2:-1], self.basis.shape[:-1]):
            raise CompanionError(
                f"A Projection has {list(weight.shape)} weights for a basis of "
                f"{list(self.basis.shape)}: give one number, or one for each direction."
            )
        gram = self.basis.float() @ self.basis.float().mT
        if not torch.allclose(gram, torch.eye(gram.shape[-1]).to(gram).expand_as(gram), atol=1e-3):
            raise CompanionError(
                "A Projection's basis must have orthonormal rows: take it from a PCA or QR."
            )

    def __call__(self, h: torch.Tensor) -> torch.Tensor:
        """Project h: [..., width], or where each head has its basis [..., heads, head size]."""
        basis, weight = self.basis.to(h), torch.as_tensor(self.weight).to(h)
        heads = "h" if basis.dim() == 3 else ""
        components = torch.einsum(f"...{heads}w,{heads}dw->...{heads}d", h, basis)
        return h - torch.einsum(f"...{heads}d,{heads}dw->...{heads}w", components * weight, basis)


@contextlib.contextmanager
def head_mask(model, mask: torch.Tensor):
    """Multiply the output of head h of layer l by mask[l, h] before W^O mixes the heads: 0 removes it.
    mask: [n_layers, n_heads]. Ones change nothing, bit for bit; their gradients are the bias scores of equation 4."""
    needed = [model.n_layers, model.n_heads]
    if not isinstance(mask, torch.Tensor) or list(mask.shape) != needed:
        given = (
            f"tensor {list(mask.shape)}" if isinstance(mask, torch.Tensor) else type(mask).__name__
        )
        raise CompanionError(
            f"This head mask is a {given}: {model.name} needs a tensor {needed}, one row per layer."
        )
    if mask.is_meta or not mask.isfinite().all():
        raise CompanionError(
            "This head mask has values that are nan, infinite or missing: give a number a head."
        )

    with _edit(
        model,
        {
            f"attn.out.{layer}": lambda heads, layer=layer: heads * mask[layer].to(heads)[:, None]
            for layer in range(model.n_layers)
        },
    ):
        yield


@contextlib.contextmanager
def patch(model, layer: int, head: int, value: torch.Tensor | float):
    """Put `value` in the place of one head's output, for all tokens; layer and head from 0.

    value   what broadcasts to [batch, tokens, head size]: 0 removes the head, its mean output takes
            out what depends on the text, its output for other texts puts these in
    """
    if not (0 <= layer < model.n_layers and 0 <= head < model.n_heads):
        raise CompanionError(
            f"{model.name} has no head {head} of layer {layer}, both from 0: it has {model.n_layers} "
            f"layers of {model.n_heads} heads."
        )

    def replaced(heads: torch.Tensor) -> torch.Tensor:
        patched = heads.clone()
        patched[..., head, :] = torch.as_tensor(value).to(heads)
        return patched

    with _edit(model, {f"attn.out.{layer}": replaced}):
        yield


@contextlib.contextmanager
def project(model, interventions: dict[str, Projection]):
    """Project what passes each location, {"layer.10": Projection(...), ...}; the model goes on from there.
    Where two nested blocks project at one location, the inner one acts first."""
    if not isinstance(interventions, dict) or not all(
        isinstance(one, Projection) for one in interventions.values()
    ):
        raise CompanionError(
            'project takes a dict: write project(model, {"layer.11": Projection(basis)}).'
        )

    def edit(location, projection):
        shape, config, size = (
            list(projection.basis.shape),
            model.net.config,
            _find(model, location).head_size,
        )
        shared = (
            getattr(config, "num_key_value_heads", None)
            if location[:6] in ("attn.k", "attn.v")
            else None
        )
        needed = [shared or model.n_heads, "d", size] if size else ["d", config.hidden_size]
        if shape[:-2] + ["d"] + shape[-1:] != needed:
            raise CompanionError(
                f"A basis of shape {shape} does not fit {location} of {model.name}: make it "
                f"[{', '.join(map(str, needed))}]."
            )
        if projection.tokens == "all":
            return projection
        if location == "pooler":
            raise CompanionError("The pooler has one vector, no tokens: leave tokens='first' out.")
        return lambda h: torch.cat([projection(h[:, :1]), h[:, 1:]], dim=1)

    with _edit(
        model, {location: edit(location, chosen) for location, chosen in interventions.items()}
    ):
        yield


@contextlib.contextmanager
def record(model, locations: list[str]):
    """Yield a dict: for each location the tensor that passed it in the last forward, graph and all."""
    seen = {}
    with _edit(
        model, {location: partial(seen.__setitem__, location) for location in locations}, last=True
    ):
        yield seen


@contextlib.contextmanager
def resume(model, layer: int, states: torch.Tensor, until: int | None = None):
    """In one forward inside, layers before `layer` (from 0) and after `until` do nothing; `states` enter `layer`."""
    passed = itertools.count()  # counted over all layers: ALBERT's are one module

    def resuming(run, hidden, *args, **kwargs):
        n = next(passed)
        if n < layer or (until is not None and n > until):
            return hidden
        return run(states if n == layer else hidden, *args, **kwargs)

    modules = set(model.anatomy.layers(model.net.base_model))
    before = {
        module: module.__dict__.get("forward") for module in modules
    }  # accelerate may have put one there
    for module in modules:
        module.forward = partial(resuming, module.forward)
    try:
        yield
    finally:
        for module, forward in before.items():
            del module.forward  # the class's own is seen again
            if forward is not None:
                module.forward = forward


@contextlib.contextmanager
def finish(model, places: torch.Tensor):
    """In forwards inside, each text's token at `places`, [batch], leaves the model as ever; the others are garbage.
    The last layer's feed-forward part and the product that mixes its heads, three quarters of a layer, see that token
    alone. What they return is added to all tokens of the text, rightly to the one that it was made from."""

    def chosen(states):
        at = places.to(states.device)
        return states[torch.arange(len(at), device=at.device), at][:, None]

    with _edit(model, {f"{part}.{model.n_layers - 1}": chosen for part in ("attn.out", "ffn")}):
        yield


def pool(model, first: torch.Tensor) -> torch.Tensor:
    """Sentence vectors from first tokens of the last layer, [n, hidden] both; without pooler they are the same."""
    base = model.net.base_model
    return first if getattr(base, "pooler", None) is None else model.anatomy.pool(base, first)


# A location is found as a site, and a hook there hands what passes to a function.
@dataclass(frozen=True, eq=False)
class _Site:
    """Which tensor a location means: a module's output (or input), or some part of it."""

    module: nn.Module
    entering: bool = False  # the module's input, not its output
    part: slice | None = None  # of the last dimension: GPT-2's queries, keys or values
    head_size: int | None = None  # split the last dimension into heads of this size
    first_token: bool = False
    turn: int = 0  # where ALBERT runs one layer several times: the run that is meant,
    turns: int = 1  # of how many in a forward,
    layer: nn.Module | None = None  # of this layer

    def take(self, whole):
        value = whole[..., self.part] if self.part else whole
        value = value.unflatten(-1, (-1, self.head_size)) if self.head_size else value
        return value[:, 0] if self.first_token else value

    def put(self, whole, value):
        if self.first_token:
            value = torch.cat([value[:, None], whole[:, 1:]], dim=1)
        if self.head_size:
            value = value.flatten(-2)
        if self.part:
            value = torch.cat(
                [whole[..., : self.part.start], value, whole[..., self.part.stop :]], dim=-1
            )
        return value


def _find(model, location) -> _Site:
    base, parts, config = model.net.base_model, model.anatomy, model.net.config
    layers = parts.layers(base)
    match = re.fullmatch(
        r"embeddings|pooler|(?:layer|ffn|attn\.(?P<part>q|k|v|out))\.(?P<n>\d+)", location
    )
    if not match or int(match["n"] or 0) >= len(layers):
        raise CompanionError(
            f"{model.name} has no location '{location}': name embeddings, pooler, layer.N, "
            f"ffn.N, attn.q.N, attn.k.N, attn.v.N or attn.out.N, N from 0 to {len(layers) - 1}."
        )
    if location == "embeddings":
        return _Site(base.get_submodule(parts.embeddings))
    if location == "pooler":
        if model.is_causal:
            raise CompanionError(
                f"{model.name} has no sentence vector, its first token sees itself alone: "
                f"use layer.{len(layers) - 1}."
            )
        pooler = getattr(base, parts.pooler) if parts.pooler else None
        return (
            _Site(pooler)
            if pooler
            else replace(_find(model, f"layer.{len(layers) - 1}"), first_token=True)
        )
    n, part = int(match["n"]), match["part"]
    runs = [i for i, layer in enumerate(layers) if layer is layers[n]]
    shared = dict(turn=runs.index(n), turns=len(runs), layer=layers[n])
    if location.startswith("ffn"):
        return _Site(layers[n].get_submodule(parts.ffn), entering=True, **shared)
    if part is None:
        closing = parts.norm and n == len(layers) - 1
        return _Site(base.get_submodule(parts.norm)) if closing else _Site(layers[n], **shared)
    module = layers[n].get_submodule(getattr(parts, part))
    head_size = getattr(config, "head_dim", None) or config.hidden_size // model.n_heads
    if part == "out":
        return _Site(module, entering=True, head_size=head_size, **shared)
    start = "qkv".index(part) * config.hidden_size
    third = (
        slice(start, start + config.hidden_size) if parts.q == parts.k else None
    )  # one product makes all three
    return _Site(module, part=third, head_size=head_size, **shared)


@contextlib.contextmanager
def _edit(model, edits: dict[str, Callable], last=False):
    """Hand what passes each location to its function; what it returns, unless None, flows on instead."""
    passed = Counter()  # how often each location's layer was entered in this forward

    def hook(location, function, site):
        def at(whole):
            if site.turns > 1 and (passed[location] - 1) % site.turns != site.turn:
                return None
            value = function(site.take(whole))
            return None if value is None else site.put(whole, value)

        if site.entering:
            return site.module.register_forward_pre_hook(
                lambda _, inputs: at(inputs[0]), prepend=not last
            )
        return site.module.register_forward_hook(
            lambda _, inputs, output: at(output), prepend=not last
        )

    with contextlib.ExitStack() as stack:
        # a forward that broke off half way must not shift the count of the next
        stack.callback(
            model.net.base_model.register_forward_pre_hook(lambda *_: passed.clear()).remove
        )
        for location, function in edits.items():
            site = _find(model, location)
            if (
                site.turns > 1
            ):  # counted where the layer is entered, which `resume` does even with those it skips
                count = site.layer.register_forward_pre_hook(
                    lambda *_, here=location: passed.update([here])
                )
                stack.callback(count.remove)
            stack.callback(hook(location, function, site).remove)
        yield
