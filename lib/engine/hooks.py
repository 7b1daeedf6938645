"""Look into a model, or change what flows through it.

Nothing else in the project hooks into a network or changes it.

    head_mask(model, mask)            multiply each head's output (Bias A-head, equation 2)
    patch(model, layer, head, value)  put something else in a head's place
    put(model, location, value)       put something else in the place of all that passes a location
    project(model, interventions)     remove a subspace of hidden states (Projective Methods, eq. 5)
    record(model, locations)          keep what passed a location in the last forward
    resume(model, layer, states)      start a forward half way, from recorded states
    finish(model, places)             compute the end of a forward for one token of each text alone
    pool(model, first)                an encoder's sentence vectors, from its last layer
    Projection                        one subspace, how much of it goes, and for which tokens

The first seven are context managers, may be nested in any order, and leave no hook behind, whatever
happens inside. They change the model for all who use it meanwhile: a model belongs to one thread.
At one location masks and projections come first and `record` last: it keeps what really flows on.

Locations count layers FROM 0, like the models' code. Heads written (layer, head), as in
lib/bias_a_head/heads.py, count both FROM 1, like the papers: layer 11 of the Projective paper is
"layer.10" here.

    embeddings   what enters the first layer: [batch, tokens, hidden]
    layer.N      what leaves layer N, transformers' hidden_states[N + 1]: [batch, tokens, hidden].
                 Where a norm closes the last layer (GPT-2, LLaMA), that is seen after it
    attn.q.N     queries of layer N, [batch, tokens, heads, head size]: before what some families do
                 to them, norms (Qwen3, Gemma 3) and rotation (LLaMA and its like)
    attn.k.N     keys, likewise; a LLaMA and its like may have fewer heads of keys and values
    attn.v.N     values, likewise
    attn.out.N   each head's output, as it enters the output projection W^O; likewise
    ffn.N        what enters the feed-forward part of layer N: [batch, tokens, hidden]
    ffn.out.N    what that part gives, before it is added to the stream; likewise
    pooler       an encoder's sentence vector, [batch, hidden]: the pooler's output, or in a model
                 without a pooler the first token of the last layer
"""

import contextlib
import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from numbers import Integral

import torch
from torch import nn

from lib import CompanionError
from lib.engine import models


@dataclass(frozen=True, eq=False)
class Projection:
    """h - sum_i weight_i <h, g_i> g_i, for orthonormal g_i: equation 5 of Projective Methods.

    basis    [d, width], or at attn.* [heads, d, head size]: one subspace per head
    weight   [d], or at attn.* also [heads, d]. 1 removes a component entirely (the paper's n = 0,
             hard); the share of variance that it explains removes that share of it (n = 1, soft);
             0 leaves it
    tokens   "all", or "first": the first token alone, BERT's [CLS]
    """

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
        is_real = self.basis.is_floating_point() and not self.basis.is_meta
        if not is_real or not self.basis.isfinite().all():
            raise CompanionError(
                "A Projection's basis has values that are no real numbers: "
                "take it from a PCA or QR."
            )
        self._check_weight()
        self._check_orthonormal()

    def _check_weight(self):
        try:
            weight = torch.as_tensor(self.weight)
            is_share = bool(((weight >= 0) & (weight <= 1)).all())  # false for nan
        except (TypeError, ValueError, RuntimeError):  # no numbers, or complex ones
            is_share = False
        if not is_share:
            raise CompanionError(
                f"A Projection's weight is {self.weight}: give 0 (leaves it) to 1 (takes it out)."
            )
        per_direction = self.basis.shape[-2:-1]
        per_head_and_direction = self.basis.shape[:-1]
        if weight.dim() and weight.shape not in (per_direction, per_head_and_direction):
            raise CompanionError(
                f"A Projection has {list(weight.shape)} weights for a basis of "
                f"{list(self.basis.shape)}: give one number, or one for each direction."
            )

    def _check_orthonormal(self):
        gram = self.basis.float() @ self.basis.float().mT
        identity = torch.eye(gram.shape[-1]).to(gram).expand_as(gram)
        if not torch.allclose(gram, identity, atol=1e-3):
            raise CompanionError(
                "A Projection's basis must have orthonormal rows: take it from a PCA or QR."
            )

    def __call__(self, h: torch.Tensor) -> torch.Tensor:
        """Project h: [..., width], or where each head has its basis [..., heads, head size]."""
        basis = self.basis.to(h)
        weight = torch.as_tensor(self.weight).to(h)
        heads = "h" if basis.dim() == 3 else ""
        components = torch.einsum(f"...{heads}w,{heads}dw->...{heads}d", h, basis)
        return h - torch.einsum(f"...{heads}d,{heads}dw->...{heads}w", components * weight, basis)


@contextlib.contextmanager
def head_mask(model, mask: torch.Tensor):
    """Multiply the output of head h of layer l by mask[l, h] before W^O mixes the heads.

    mask   [n_layers, n_heads]; 0 removes a head. Ones change nothing, bit for bit; their gradients
           are the bias scores of equation 4
    """
    models.check(model)
    needed = [model.n_layers, model.n_heads]
    is_dense = isinstance(mask, torch.Tensor) and mask.layout == torch.strided
    if not is_dense or list(mask.shape) != needed:
        given = f"tensor {list(mask.shape)}" if is_dense else type(mask).__name__
        raise CompanionError(
            f"This head mask is a {given}: {model.name} needs a tensor {needed}, one row per layer."
        )
    if mask.is_meta or not mask.to(model.net.dtype).isfinite().all():  # as it is multiplied
        raise CompanionError(
            f"This head mask has values that are nan, infinite or missing in {model.net.dtype}: "
            "give a number a head."
        )

    def multiply(heads: torch.Tensor, layer: int) -> torch.Tensor:
        return heads * mask[layer].to(heads)[:, None]

    edits = {}
    for layer in range(model.n_layers):
        edits[f"attn.out.{layer}"] = partial(multiply, layer=layer)
    with _edit(model, edits):
        yield


@contextlib.contextmanager
def patch(model, layer: int, head: int, value: torch.Tensor | float):
    """Put `value` in the place of one head's output, for all tokens; layer and head from 0.

    value   what broadcasts to [batch, tokens, head size]: 0 removes the head, its mean output takes
            out what depends on the text, its output for other texts puts these in
    """
    models.check(model)
    are_numbers = isinstance(layer, Integral) and isinstance(head, Integral)
    if not are_numbers or not (0 <= layer < model.n_layers and 0 <= head < model.n_heads):
        raise CompanionError(
            f"{model.name} has no head {head} of layer {layer}, both from 0: "
            f"it has {model.n_layers} layers of {model.n_heads} heads."
        )
    size = _find(model, f"attn.out.{layer}").head_size
    value = _replacing(model, value, f"head {head} of layer {layer}", ["batch", "tokens", size])

    def replaced(heads: torch.Tensor) -> torch.Tensor:
        patched = heads.clone()
        patched[..., head, :] = value.to(heads)
        return patched

    with _edit(model, {f"attn.out.{layer}": replaced}):
        yield


@contextlib.contextmanager
def put(model, location: str, value: torch.Tensor | float):
    """Put `value` in the place of all that passes a location; 0 removes it.

    value   what broadcasts to the location's tensor
    """
    models.check(model)
    *heads, _, width = _basis_shape(model, location)
    value = _replacing(model, value, location, ["batch", "tokens", *heads, width])

    def replaced(states: torch.Tensor) -> torch.Tensor:
        return value.to(states).expand_as(states)

    with _edit(model, {location: replaced}):
        yield


def _replacing(model, value, what: str, shape: list) -> torch.Tensor:
    """The value that takes the place of something of this shape; what cannot is refused."""
    try:
        value = torch.as_tensor(value)
        fits = not value.dim() or value.dim() <= len(shape) and value.shape[-1] in (1, shape[-1])
    except (TypeError, ValueError, RuntimeError):  # no numbers
        fits = False
    if not fits:
        raise CompanionError(
            f"What takes the place of {what} does not fit: give a number, or a tensor that "
            f"broadcasts to [{', '.join(map(str, shape))}]."
        )
    if not value.to(model.net.dtype).isfinite().all():  # as it is put in
        raise CompanionError(
            f"What takes the place of {what} has values that are nan or infinite in "
            f"{model.net.dtype}: give finite ones."
        )
    return value


@contextlib.contextmanager
def project(model, interventions: dict[str, Projection]):
    """Project what passes each location: {"layer.10": Projection(...), ...}.

    The model continues with the projected vectors. Where two nested blocks project at one location,
    the inner one acts first.
    """
    models.check(model)
    if not isinstance(interventions, dict) or not all(
        isinstance(one, Projection) for one in interventions.values()
    ):
        raise CompanionError(
            'project takes a dict: write project(model, {"layer.11": Projection(basis)}).'
        )
    edits = {}
    for location, projection in interventions.items():
        edits[location] = _projecting(model, location, projection)
    with _edit(model, edits):
        yield


def _projecting(model, location: str, projection: Projection) -> Callable:
    """What projects the vectors at this location; a basis that does not fit there is refused."""
    shape = list(projection.basis.shape)
    needed = _basis_shape(model, location)
    if shape[:-2] + ["d"] + shape[-1:] != needed:
        raise CompanionError(
            f"A basis of shape {shape} does not fit {location} of {model.name}: make it "
            f"[{', '.join(map(str, needed))}]."
        )
    if projection.tokens == "all":
        return projection
    if location == "pooler":
        raise CompanionError("The pooler has one vector, no tokens: leave tokens='first' out.")

    def project_first(h: torch.Tensor) -> torch.Tensor:
        return torch.cat([projection(h[:, :1]), h[:, 1:]], dim=1)

    return project_first


def _basis_shape(model, location: str) -> list:
    """The shape of a basis at a location, "d" standing for its number of directions."""
    config = model.net.config
    head_size = _find(model, location).head_size
    if not head_size:
        return ["d", config.hidden_size]
    kind = location[:6]
    n_heads = _n_key_heads(model) if kind in ("attn.k", "attn.v") else model.n_heads
    return [n_heads, "d", head_size]


def _n_key_heads(model) -> int:
    """How many heads of keys, and of values, a layer has."""
    return getattr(model.net.config, "num_key_value_heads", None) or model.n_heads


@contextlib.contextmanager
def record(model, locations: list[str]):
    """Yield a dict: for each location the tensor that passed it in the last forward, with graph."""
    models.check(model)
    if isinstance(locations, str) or not isinstance(locations, Iterable):
        raise CompanionError('record takes a list: write record(model, ["layer.11"]).')
    seen = {}

    def keep(value: torch.Tensor, location: str):
        seen[location] = value

    edits = {location: partial(keep, location=location) for location in locations}
    with _edit(model, edits, last=True):
        yield seen


@contextlib.contextmanager
def resume(model, layer: int, states: torch.Tensor, until: int | None = None):
    """Let one forward inside begin at `layer` (from 0), which `states` enter.

    Layers before `layer` and after `until` do nothing.
    """
    passed = itertools.count()  # counted over all layers: ALBERT's are one module

    def resuming(run, hidden, *args, **kwargs):
        n = next(passed)
        if n < layer or (until is not None and n > until):
            return (hidden,) if model.anatomy.layers_give_tuples else hidden
        return run(states if n == layer else hidden, *args, **kwargs)

    modules = set(model.anatomy.layers(model.net.base_model))
    # accelerate may have put a forward of its own on a module
    before = {module: module.__dict__.get("forward") for module in modules}
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
    """In forwards inside, only the outputs at `places` are valid: one token of each text, [batch].

    The last layer's feed-forward part and the product that mixes its heads, three quarters of a
    layer's work, are computed for that token alone. Their results are added to all tokens of the
    text, which is right for that token and wrong for the others. Projections and patches there see
    all tokens: the choice is made after them.
    """

    def chosen(states):
        at = places.to(states.device)
        return states[torch.arange(len(at), device=at.device), at][:, None]

    last = model.n_layers - 1
    with _edit(model, {f"attn.out.{last}": chosen, f"ffn.{last}": chosen}, last=True):
        yield


def pool(model, first: torch.Tensor) -> torch.Tensor:
    """Sentence vectors [n, hidden] from the first tokens of the last layer, [n, hidden].

    In a model without a pooler these are the first tokens themselves.
    """
    base = model.net.base_model
    if getattr(base, "pooler", None) is None:
        return first
    return model.anatomy.pool(base, first)


@dataclass(frozen=True, eq=False)
class _Site:
    """Which tensor a location means: a module's output (or input), or some part of it."""

    module: nn.Module
    entering: bool = False  # the module's input, not its output
    part: slice | None = None  # of the last dimension: GPT-2's queries, keys or values
    head_size: int | None = None  # split the last dimension into heads of this size
    is_part_of_head: bool = False  # the part is one of each head's three, as in GPT-NeoX
    first_token: bool = False
    # ALBERT runs one layer several times in a forward:
    turn: int = 0  # which of the runs is meant,
    turns: int = 1  # of how many,
    layer: nn.Module | None = None  # of which layer
    is_in_tuple: bool = False  # the output is a tuple, and its first item is meant

    def take(self, output) -> torch.Tensor:
        """The location's tensor, out of the module's output (or input)."""
        value = output[0] if self.is_in_tuple else output
        if self.is_part_of_head:
            return self._by_head(value)[..., self.part]
        if self.part:
            value = value[..., self.part]
        if self.head_size:
            value = value.unflatten(-1, (-1, self.head_size))
        if self.first_token:
            value = value[:, 0]
        return value

    def put(self, output, value: torch.Tensor):
        """The module's output (or input) with `value` at the location."""
        whole = output[0] if self.is_in_tuple else output
        if self.first_token:
            value = torch.cat([value[:, None], whole[:, 1:]], dim=1)
        if self.is_part_of_head:
            whole = self._by_head(whole)
        elif self.head_size:
            value = value.flatten(-2)
        if self.part:
            before = whole[..., : self.part.start]
            after = whole[..., self.part.stop :]
            value = torch.cat([before, value, after], dim=-1)
        if self.is_part_of_head:
            value = value.flatten(-2)
        return (value, *output[1:]) if self.is_in_tuple else value

    def _by_head(self, whole: torch.Tensor) -> torch.Tensor:
        """[..., heads, 3 * head size]: each head's query, key and value side by side."""
        return whole.unflatten(-1, (-1, 3 * self.head_size))


_LOCATION = re.compile(
    r"embeddings|pooler|(?P<kind>layer|ffn(?:\.out)?|attn\.(?:q|k|v|out))\.(?P<n>\d+)"
)


def _find(model, location: str) -> _Site:
    """The site of a location; a name that is none is refused."""
    base = model.net.base_model
    n_layers = len(model.anatomy.layers(base))
    match = _LOCATION.fullmatch(str(location))
    if not match or int(match["n"] or 0) >= n_layers:
        raise CompanionError(
            f"{model.name} has no location '{location}': name embeddings, pooler, layer.N, "
            "ffn.N, ffn.out.N, attn.q.N, attn.k.N, attn.v.N or attn.out.N, N from 0 to "
            f"{n_layers - 1}."
        )
    if location == "embeddings":
        first = model.anatomy.layers(base)[0]
        return _Site(first, entering=True, **_turn(model, 0))
    if location == "pooler":
        return _pooler_site(model, last=n_layers - 1)
    return _layer_site(model, match["kind"], int(match["n"]))


def _pooler_site(model, last: int) -> _Site:
    """The sentence vector: the pooler's output, or the first token of the last layer."""
    if model.is_causal:
        raise CompanionError(
            f"{model.name} has no sentence vector, its first token sees itself alone: "
            f"use layer.{last}."
        )
    name = model.anatomy.pooler
    pooler = getattr(model.net.base_model, name) if name else None
    if pooler:
        return _Site(pooler)
    return replace(_find(model, f"layer.{last}"), first_token=True)


def _turn(model, n: int) -> dict:
    """For a _Site: which of the runs of one module layer n is."""
    layers = model.anatomy.layers(model.net.base_model)
    runs = [i for i, other in enumerate(layers) if other is layers[n]]
    return {"turn": runs.index(n), "turns": len(runs), "layer": layers[n]}


def _layer_site(model, kind: str, n: int) -> _Site:
    """A location of layer n. kind: "layer", "ffn", "ffn.out", or "attn.q" to "attn.out"."""
    parts = model.anatomy
    base = model.net.base_model
    layers = parts.layers(base)
    layer = layers[n]
    shared = _turn(model, n)
    if kind == "ffn":
        return _Site(layer.get_submodule(parts.ffn), entering=True, **shared)
    if kind == "ffn.out":
        return _Site(layer.get_submodule(parts.ffn_out), **shared)
    if kind == "layer":
        is_last = n == len(layers) - 1
        if parts.norm and is_last:
            return _Site(base.get_submodule(parts.norm))
        return _Site(layer, is_in_tuple=parts.layers_give_tuples, **shared)
    return _attention_site(model, layer, kind.removeprefix("attn."), shared)


def _attention_site(model, layer: nn.Module, part: str, shared: dict) -> _Site:
    """Queries, keys, values or outputs of a layer's heads. part: "q", "k", "v" or "out"."""
    parts = model.anatomy
    config = model.net.config
    module = layer.get_submodule(getattr(parts, part))
    head_size = getattr(config, "head_dim", None) or config.hidden_size // model.n_heads
    if part == "out":
        return _Site(module, entering=True, head_size=head_size, **shared)
    if parts.q != parts.k:
        return _Site(module, head_size=head_size, **shared)
    # one product makes queries, keys and values
    widths = [head_size] * 3 if parts.qkv_by_head else _fused_widths(model, head_size)
    n = "qkv".index(part)
    start = sum(widths[:n])
    third = slice(start, start + widths[n])
    return _Site(
        module, part=third, head_size=head_size, is_part_of_head=parts.qkv_by_head, **shared
    )


def _fused_widths(model, head_size: int) -> list[int]:
    """How wide all queries, all keys and all values are in the output of one product."""
    n_keys = _n_key_heads(model)
    return [n * head_size for n in (model.n_heads, n_keys, n_keys)]


@contextlib.contextmanager
def _edit(model, edits: dict[str, Callable], last: bool = False):
    """Hand what passes each location to its function; what that returns, unless None, flows on.

    last   act after all other hooks at the location, not before them
    """
    passed = Counter()  # how often each location's layer was entered in this forward

    def start_anew(*_):
        passed.clear()  # a forward that broke off half way must not shift the count of the next

    with contextlib.ExitStack() as stack:
        stack.callback(model.net.base_model.register_forward_pre_hook(start_anew).remove)
        for location, function in edits.items():
            site = _find(model, location)
            stack.callback(_hook(site, location, function, passed, last).remove)
            if site.turns > 1:
                # counted where the layer is entered: `resume` enters even those that it skips
                stack.callback(_count_runs(site, location, passed).remove)
        yield


def _count_runs(site: _Site, location: str, passed: Counter):
    """Count in `passed` how often the layer of a location is entered; returns the hook's handle.

    It counts before any other hook looks.
    """

    def count(*_):
        passed[location] += 1

    return site.layer.register_forward_pre_hook(count, prepend=True)


def _hook(site: _Site, location: str, function: Callable, passed: Counter, last: bool):
    """Hand what passes a site to a function, as `_edit` says; returns the hook's handle."""

    def edited(output):
        if site.turns > 1 and (passed[location] - 1) % site.turns != site.turn:
            return None
        value = function(site.take(output))
        if value is None:
            return None
        return site.put(output, value)

    def on_input(module, inputs):
        value = edited(inputs[0])
        return None if value is None else (value, *inputs[1:])  # a layer is given its mask too

    def on_output(module, inputs, output):
        return edited(output)

    if site.entering:
        return site.module.register_forward_pre_hook(on_input, prepend=not last)
    return site.module.register_forward_hook(on_output, prepend=not last)
