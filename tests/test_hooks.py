"""What the hooks claim, proved on tiny models of every family, in float64 where a number is compared."""

import copy
import itertools
import math
from unittest.mock import Mock

import pytest
import torch
import transformers
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

from lib import CompanionError
from lib.engine import hooks
from tests.tiny import ENCODERS, FAMILIES, batch, tiny

LAYERS, HEADS, SIZE, HIDDEN = 3, 4, 8, 32
every_family = pytest.mark.parametrize("family", FAMILIES)


def logits(model, **options):
    outputs = model.net(**batch(model), **options)
    return outputs.prediction_logits if model.has_nsp else outputs.logits


def states(model):
    """Embeddings, then the output of each layer."""
    return model.net(**batch(model), output_hidden_states=True).hidden_states


def real(model, *shape):
    """Random numbers of the model's type, the same at every call."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(1)).to(model.net.dtype)


def orthonormal(model, *shape):
    """Random orthonormal rows: [d, width] or [heads, d, width]."""
    return torch.linalg.qr(real(model, *shape).mT).Q.mT


def unrolled(model):
    """An ALBERT of the same function whose layers each have weights of their own."""
    config = copy.deepcopy(model.net.config)
    config.num_hidden_groups = config.num_hidden_layers
    net = transformers.AlbertForMaskedLM(config).to(model.net.dtype)
    shared = "albert_layer_groups.0."
    weights = {
        key.replace(shared, f"albert_layer_groups.{group}."): value
        for key, value in model.net.state_dict().items()
        for group in range(LAYERS)
    }
    net.load_state_dict(weights)
    return type(model)(net.eval().requires_grad_(False), model.tokenizer, "unrolled", "in memory")


def albert_layer(net, group):
    return net.albert.encoder.albert_layer_groups[group].albert_layers[0]


def output_projection(net, layer):
    """W^O of a layer, [hidden out, hidden in], spelled out here a second time on purpose."""
    return {
        "bert": lambda: net.bert.encoder.layer[layer].attention.output.dense.weight,
        "roberta": lambda: net.roberta.encoder.layer[layer].attention.output.dense.weight,
        "albert": lambda: albert_layer(net, layer).attention.dense.weight,
        "distilbert": lambda: net.distilbert.transformer.layer[layer].attention.out_lin.weight,
        "gpt2": lambda: net.transformer.h[layer].attn.c_proj.weight.T,
        "llama": lambda: net.model.layers[layer].self_attn.o_proj.weight,
        "electra": lambda: (
            net.electra.encoder.layer[layer].attention.output.dense.weight
        ),  # of test_families.py
        "qwen2": lambda: net.model.layers[layer].self_attn.o_proj.weight,
    }[net.config.model_type]()


def hook_count(model):
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.net.modules())


@every_family
def test_ones_in_a_mask_are_nothing_and_zero_is_a_zeroed_column_block_of_the_output_projection(
    family,
):
    for attention in ("eager", "sdpa"):
        model = tiny(family, attention, dtype=torch.float64)
        plain = logits(model)
        with hooks.head_mask(model, torch.ones(LAYERS, HEADS)):
            assert torch.equal(logits(model), plain)  # not a bit is changed
    mask = torch.ones(LAYERS, HEADS)
    mask[0, 1] = mask[1, 3] = mask[2, 0] = 0
    with hooks.head_mask(model, mask):
        masked = logits(model)
    cut = unrolled(model) if family == "albert" else model
    torch.testing.assert_close(logits(cut), plain)
    for layer, head in [(0, 1), (1, 3), (2, 0)]:
        output_projection(cut.net, layer)[:, head * SIZE : (head + 1) * SIZE] = 0
    torch.testing.assert_close(masked, logits(cut))
    assert (masked - plain).abs().max() > 1e-3


def test_a_forward_that_breaks_off_shifts_no_layer_and_one_that_was_there_is_given_back():
    model = tiny("albert")
    mask = real(model, LAYERS, HEADS)
    with hooks.head_mask(model, mask):
        expected = logits(model)
        handle = albert_layer(model.net, 0).ffn.register_forward_pre_hook(
            Mock(side_effect=KeyError("half way"))
        )
        with pytest.raises(KeyError):
            logits(model)
        handle.remove()
        assert torch.equal(logits(model), expected)
    # accelerate puts a forward of its own on modules that it has placed
    model = tiny("bert")
    layer, states = model.net.base_model.encoder.layer[0], torch.zeros(1, 3, 32)
    layer.forward = own = layer.forward
    try:
        with hooks.resume(model, 1, states), hooks.resume(model, 2, states):
            pass
        assert layer.__dict__["forward"] is own
        assert "forward" not in model.net.base_model.encoder.layer[1].__dict__
    finally:
        del layer.forward


@every_family
def test_the_gradient_of_the_mask_is_its_finite_difference(family):
    model = tiny(family, dtype=torch.float64)
    if family == "llama":  # its own norm drops to float32 inside, too coarse for differences
        for name, norm in list(model.net.named_modules()):
            if type(norm).__name__ == "LlamaRMSNorm":
                exact = torch.nn.RMSNorm(HIDDEN, norm.variance_epsilon)
                exact.weight = norm.weight
                model.net.set_submodule(name, exact)
    direction = real(model, *logits(model).shape)

    def loss(mask):
        with hooks.head_mask(model, mask):
            return (logits(model).tanh() * direction).sum()

    at = torch.ones(LAYERS, HEADS, dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(loss(at), at)
    steps = 1e-5 * torch.eye(LAYERS * HEADS, dtype=torch.float64).view(-1, LAYERS, HEADS)
    with torch.no_grad():
        numeric = torch.stack([(loss(at + step) - loss(at - step)) / 2e-5 for step in steps]).view(
            LAYERS, HEADS
        )
    torch.testing.assert_close(gradient, numeric, rtol=1e-6, atol=1e-6)
    assert gradient.abs().min() > 1e-4
    assert not any(
        weight.requires_grad or weight.grad is not None for weight in model.net.parameters()
    )


@every_family
def test_recorded_layers_are_hidden_states_and_queries_keys_and_values_make_the_attention(family):
    model = tiny(family)
    with hooks.record(model, ["embeddings", *(f"layer.{n}" for n in range(LAYERS))]) as seen:
        expected = states(model)
    assert len(expected) == LAYERS + 1
    for value, name in zip(expected, ["embeddings", "layer.0", "layer.1", "layer.2"]):
        assert torch.equal(seen[name], value), name
    model = tiny(family, "eager", dtype=torch.float64)
    inputs = batch(model)
    for n in range(LAYERS):
        with hooks.record(model, [f"attn.{part}.{n}" for part in ("q", "k", "v", "out")]) as seen:
            maps = model.net(**inputs, output_attentions=True).attentions
        q, k, v = (seen[f"attn.{part}.{n}"].transpose(1, 2) for part in "qkv")
        assert q.shape == (*inputs.input_ids.shape[:1], HEADS, inputs.input_ids.shape[1], SIZE)
        if family == "llama":
            positions = torch.arange(q.shape[2])[None]
            q, k = apply_rotary_pos_emb(q, k, *model.net.model.rotary_emb(q, positions))
            k, v = k.repeat_interleave(2, dim=1), v.repeat_interleave(2, dim=1)
        allowed = inputs.attention_mask[:, None, None].bool()
        if model.is_causal:
            allowed = allowed & torch.ones(q.shape[2], q.shape[2], dtype=torch.bool).tril()
        attention = (q @ k.mT / math.sqrt(SIZE)).masked_fill(~allowed, -math.inf).softmax(-1)
        loose = dict(
            rtol=1e-5, atol=1e-6, check_dtype=False
        )  # LLaMA's softmax is always in float32
        torch.testing.assert_close(attention, maps[n], **loose)
        torch.testing.assert_close((attention @ v).transpose(1, 2), seen[f"attn.out.{n}"], **loose)


@pytest.mark.parametrize("family", ENCODERS)
def test_the_sentence_vector_is_the_poolers_or_the_first_token_and_the_model_goes_on_with_it(
    family,
):
    model = tiny(family)
    with hooks.record(model, ["pooler"]) as seen:
        last = states(model)[-1]
    expected = model.net.bert.pooler(last) if family == "bert" else last[:, 0]
    assert torch.equal(seen["pooler"], expected)
    if family in ("roberta", "albert"):  # a pooler is used where there is one
        base = type(model.net.base_model)(model.net.config).eval()
        with hooks.record(
            type(model)(base, model.tokenizer, "with pooler", "in memory"), ["pooler"]
        ) as seen:
            assert torch.equal(base(**batch(model)).pooler_output, seen["pooler"])
    basis = orthonormal(model, 1, HIDDEN)
    before = model.net(**batch(model))
    with (
        hooks.project(model, {"pooler": hooks.Projection(basis)}),
        hooks.record(model, ["pooler"]) as seen,
    ):
        after = model.net(**batch(model))
    assert components(seen["pooler"], basis).abs().max() < 2e-6
    if family == "bert":
        assert torch.equal(
            after.seq_relationship_logits, model.net.cls.seq_relationship(seen["pooler"])
        )
        assert torch.equal(after.prediction_logits, before.prediction_logits)
        assert not torch.allclose(
            after.seq_relationship_logits, before.seq_relationship_logits, atol=1e-4
        )
    else:  # no pooler: the first token of the last layer
        assert torch.equal(after.logits[:, 1:], before.logits[:, 1:])
        assert not torch.allclose(after.logits[:, 0], before.logits[:, 0], atol=1e-4)


def components(h, basis):
    return torch.einsum("...hw,hdw->...hd" if basis.dim() == 3 else "...w,dw->...d", h, basis)


@every_family
def test_a_projection_leaves_the_share_one_minus_weight_and_all_else(family):
    model = tiny(family)
    basis = orthonormal(model, 2, HIDDEN)
    for name, weight in itertools.product(
        ["embeddings", "layer.0", "layer.1"], [1.0, torch.tensor([0.7, 0.2])]
    ):
        with hooks.record(model, [name]) as plain:
            logits(model)
        with (
            hooks.project(model, {name: hooks.Projection(basis, weight)}),
            hooks.record(model, [name]) as seen,
        ):
            logits(model)
        removed = components(plain[name], basis) * weight
        left = components(plain[name], basis) - removed
        torch.testing.assert_close(components(seen[name], basis), left, rtol=0, atol=2e-6)
        torch.testing.assert_close(plain[name], seen[name] + removed @ basis, rtol=0, atol=2e-6)
        assert removed.abs().max() > 0.1


@every_family
def test_each_head_loses_its_own_direction_and_tokens_first_the_first_tokens_alone(family):
    model = tiny(family)
    names = ["attn.q.1", "attn.k.1", "attn.v.1"]
    with hooks.record(model, names) as plain:
        before = logits(model)
    bases = {name: orthonormal(model, plain[name].shape[2], 1, SIZE) for name in names}
    cut = {name: hooks.Projection(basis) for name, basis in bases.items()}
    with hooks.project(model, cut), hooks.record(model, names) as seen:
        after = logits(model)
    for name, basis in bases.items():
        assert components(seen[name], basis).abs().max() < 2e-6
        assert components(plain[name], basis).abs().max() > 0.1
        taken = torch.einsum("...hd,hdw->...hw", components(plain[name], basis), basis)
        torch.testing.assert_close(seen[name], plain[name] - taken)
    assert (after - before).abs().max() > 1e-3
    basis = orthonormal(model, 1, HIDDEN)
    plain = states(model)
    with hooks.project(model, {"layer.1": hooks.Projection(basis, tokens="first")}):
        seen = states(model)  # transformers' own record sees the projection too
    assert torch.equal(seen[2][:, 1:], plain[2][:, 1:])
    assert components(seen[2][:, 0], basis).abs().max() < 2e-6
    assert not torch.allclose(
        seen[3][:, 1:], plain[3][:, 1:], atol=1e-4
    )  # the next layer mixes tokens


def at(family, location, *shape, **options):
    """A projection on random rows of this shape."""
    model = tiny(family)
    return hooks.project(model, {location: hooks.Projection(orthonormal(model, *shape), **options)})


@pytest.mark.parametrize(
    "call, said",
    [
        *(
            (lambda mask=mask: hooks.head_mask(tiny("bert"), mask), r"needs a tensor \[3, 4\]")
            for mask in (torch.ones(4, 3), torch.ones(12), [[1] * 4] * 3, None)
        ),
        *(
            (
                lambda location=location: hooks.record(tiny("bert"), ["layer.0", location]),
                "N from 0 to 2",
            )
            for location in ("layer.3", "attn.q.3", "attn.x.0", "layer", "pooler.1", "layer.-1", "")
        ),
        (
            lambda: hooks.record(tiny("gpt2"), ["pooler"]),
            "layer.2",
        ),  # its first token sees itself alone
        (lambda: hooks.Projection(2 * torch.eye(4)), "orthonormal"),
        *(
            (lambda basis=basis: hooks.Projection(basis), "is a tensor")
            for basis in ([[1.0, 0.0]], torch.eye(4)[0])
        ),
        (lambda: at("bert", "layer.0", 1, HIDDEN, tokens="cls"), "'all' or 'first'"),
        (lambda: at("bert", "pooler", 1, HIDDEN, tokens="first"), "no tokens"),
        (lambda: at("bert", "attn.q.0", 1, HIDDEN), r"\[4, d, 8\]"),
        (lambda: at("bert", "layer.0", 4, 1, SIZE), r"\[d, 32\]"),
        (lambda: at("bert", "layer.0", 1, 31), r"\[d, 32\]"),
        (lambda: at("llama", "attn.k.0", 4, 1, SIZE), r"\[2, d, 8\]"),
    ],
)
def test_what_would_do_something_else_is_refused(call, said):
    with pytest.raises(CompanionError, match=said), call():
        pass


@every_family
def test_nested_in_any_order_and_no_hook_stays_whatever_happens(family):
    model = tiny(family)
    plain, before = logits(model), hook_count(model)
    mask = real(model, LAYERS, HEADS)
    cut = {"layer.1": hooks.Projection(orthonormal(model, 1, HIDDEN))}
    where = ["layer.1", "attn.out.1"]
    with (
        hooks.head_mask(model, mask),
        hooks.project(model, cut),
        hooks.record(model, where) as inner,
    ):
        one = logits(model)
    with (
        hooks.record(model, where) as outer,
        hooks.project(model, cut),
        hooks.head_mask(model, mask),
    ):
        other = logits(model)
    assert torch.equal(one, other) and all(torch.equal(inner[name], outer[name]) for name in where)
    with hooks.head_mask(model, mask):
        assert not torch.allclose(logits(model), one, atol=1e-3)
    with pytest.raises(ZeroDivisionError), hooks.project(model, cut), hooks.head_mask(model, mask):
        with hooks.record(model, ["layer.1"]):
            assert hook_count(model) >= before + LAYERS + 2
            raise ZeroDivisionError
    assert hook_count(model) == before and torch.equal(logits(model), plain)


@every_family
def test_a_resumed_forward_ends_as_the_whole_one(family):
    """Under a mask too: ALBERT's layers are one module, and which one runs must be known though some are skipped."""
    model, mask = tiny(family), torch.ones(LAYERS, HEADS)
    mask[2, 1] = 0

    def last():
        return model.net.base_model(**batch(model)).last_hidden_state

    with torch.inference_mode(), hooks.head_mask(model, mask):
        with hooks.record(model, ["embeddings", "layer.0", "layer.1"]) as seen:
            whole = last()
        for layer, states in enumerate(seen.values()):
            with hooks.resume(model, layer, states):
                torch.testing.assert_close(last(), whole, atol=1e-6, rtol=1e-5)
            with hooks.resume(model, layer, states.flip(-1)):
                assert not torch.allclose(last(), whole, atol=1e-3)
        torch.testing.assert_close(last(), whole, atol=0, rtol=0)


@every_family
def test_a_forward_that_finishes_at_one_token_is_right_there(family):
    """Under a mask in the last layer too; W^O and the feed-forward part see that token alone, in that layer alone."""
    model, mask = tiny(family, dtype=torch.float64), torch.ones(LAYERS, HEADS)
    mask[2, 1] = 0
    rows, places = torch.tensor([0, 1]), torch.tensor([4, 1])
    with torch.inference_mode(), hooks.head_mask(model, mask):
        whole = model.net.base_model(**batch(model)).last_hidden_state
        inside = ["attn.out.1", "ffn.1", "attn.out.2", "ffn.2"]
        with hooks.finish(model, places), hooks.record(model, inside) as seen:
            finished = model.net.base_model(**batch(model)).last_hidden_state
    torch.testing.assert_close(finished[rows, places], whole[rows, places])
    assert not torch.allclose(finished[rows, places + 1], whole[rows, places + 1])
    assert [value.shape[1] for value in seen.values()] == [whole.shape[1]] * 2 + [
        1
    ] * 2 and hook_count(model) == 0
