"""What the hooks claim, proved on tiny models of every family.

Numbers that two ways of computing give are compared in float64.
"""

import copy
import itertools
import math
from unittest.mock import Mock

import pytest
import torch
import transformers

from lib.engine import hooks, models
from tests.tiny import DECODERS, ENCODERS, FAMILIES, batch, output_projection, tiny

LAYERS = 3
HEADS = 4
HIDDEN = 32
every_family = pytest.mark.parametrize("family", FAMILIES)
# shared layers, one product for q, k and v, other names: what hooks have to know
few_families = pytest.mark.parametrize("family", ["bert", "albert", "modernbert", "gpt2", "phi3"])


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
    weights = {}
    for key, value in model.net.state_dict().items():
        for group in range(LAYERS):
            weights[key.replace(shared, f"albert_layer_groups.{group}.")] = value
    net.load_state_dict(weights)
    return type(model)(net.eval().requires_grad_(False), model.tokenizer, "unrolled", "in memory")


def size_of_heads(model):
    return getattr(model.net.config, "head_dim", None) or HIDDEN // HEADS


def hook_count(model):
    count = 0
    for module in model.net.modules():
        count += len(module._forward_hooks) + len(module._forward_pre_hooks)
    return count


@every_family
@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_a_mask_of_ones_does_not_change_a_bit(family, attention):
    model = tiny(family, attention, dtype=torch.float64)
    plain = logits(model)
    with hooks.head_mask(model, torch.ones(LAYERS, HEADS)):
        assert torch.equal(logits(model), plain)


@every_family
def test_a_masked_head_is_a_zeroed_column_block_of_the_output_projection(family):
    model = tiny(family, dtype=torch.float64)
    plain = logits(model)
    heads = [(0, 1), (1, 3), (2, 0)]
    mask = torch.ones(LAYERS, HEADS)
    for layer, head in heads:
        mask[layer, head] = 0
    with hooks.head_mask(model, mask):
        masked = logits(model)
    cut = unrolled(model) if family == "albert" else model
    size = size_of_heads(model)
    torch.testing.assert_close(logits(cut), plain)
    for layer, head in heads:
        output_projection(cut.net, layer)[:, head * size : (head + 1) * size] = 0
    torch.testing.assert_close(masked, logits(cut))
    assert (masked - plain).abs().max() > 1e-3


# The product that ends a feed-forward part, inside a layer.
LAST_PRODUCTS = {
    **dict.fromkeys(ENCODERS, "output.dense"),
    **dict.fromkeys(DECODERS, "mlp.down_proj"),
    "albert": "ffn_output",
    "distilbert": "ffn.lin2",
    "modernbert": "mlp.Wo",
    "gpt2": "mlp.c_proj",
    "gpt_neox": "mlp.dense_4h_to_h",
}


@every_family
def test_nothing_in_the_place_of_a_feed_forward_part_is_its_last_product_zeroed(family):
    model = tiny(family, dtype=torch.float64)
    plain = logits(model)
    with hooks.put(model, "ffn.out.1", 0.0):
        replaced = logits(model)
    cut = unrolled(model) if family == "albert" else model
    layer = cut.anatomy.layers(cut.net.base_model)[1]
    for weight in layer.get_submodule(LAST_PRODUCTS[family]).parameters():
        weight.zero_()
    torch.testing.assert_close(replaced, logits(cut))
    assert (replaced - plain).abs().max() > 1e-3
    assert hook_count(model) == 0


def test_a_forward_that_breaks_off_shifts_no_layer_of_the_next():
    """ALBERT's layers are one module, and the hooks count how often it ran."""
    model = tiny("albert")
    layer = model.net.albert.encoder.albert_layer_groups[0].albert_layers[0]
    mask = real(model, LAYERS, HEADS)
    with hooks.head_mask(model, mask):
        expected = logits(model)
        failure = Mock(side_effect=KeyError("half way"))
        handle = layer.ffn.register_forward_pre_hook(failure)
        with pytest.raises(KeyError):
            logits(model)
        handle.remove()
        assert torch.equal(logits(model), expected)


def test_resume_gives_a_module_its_own_forward_back():
    """accelerate puts a forward of its own on modules that it has placed."""
    model = tiny("bert")
    first, second, _ = model.net.base_model.encoder.layer
    states = torch.zeros(1, 3, HIDDEN)
    own = first.forward
    first.forward = own
    with hooks.resume(model, 1, states), hooks.resume(model, 2, states):
        pass
    assert first.__dict__["forward"] is own
    assert "forward" not in second.__dict__


def make_exact(model):
    """Let norms compute in float64: theirs drop to float32 inside, too coarse for differences."""
    for name, norm in list(model.net.named_modules()):
        if "RMSNorm" in type(norm).__name__:
            is_gemma = hasattr(norm, "eps")
            epsilon = norm.eps if is_gemma else norm.variance_epsilon
            exact = torch.nn.RMSNorm(norm.weight.shape, epsilon)
            exact.weight.data = norm.weight.data + is_gemma  # Gemma's scale is 1 + weight
            model.net.set_submodule(name, exact.requires_grad_(False))


@every_family
def test_the_gradient_of_the_mask_is_its_finite_difference(family):
    model = tiny(family, dtype=torch.float64)
    make_exact(model)
    direction = real(model, *logits(model).shape)

    def loss(mask):
        with hooks.head_mask(model, mask):
            return (logits(model).tanh() * direction).sum()

    at = torch.ones(LAYERS, HEADS, dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(loss(at), at)
    # ModernBERT's rotation and Gemma 2's softmax drop to float32: too coarse for small steps
    size, tolerance = (1e-2, 1e-2) if family in ("modernbert", "gemma2") else (1e-5, 1e-6)
    steps = size * torch.eye(LAYERS * HEADS, dtype=torch.float64).view(-1, LAYERS, HEADS)
    with torch.no_grad():
        differences = [(loss(at + step) - loss(at - step)) / (2 * size) for step in steps]
    numeric = torch.stack(differences).view(LAYERS, HEADS)
    torch.testing.assert_close(gradient, numeric, rtol=tolerance, atol=tolerance)
    assert gradient.abs().min() > 1e-4
    for weight in model.net.parameters():
        assert not weight.requires_grad and weight.grad is None


@every_family
def test_recorded_layers_are_the_hidden_states_of_transformers(family):
    model = tiny(family)
    names = ["embeddings", "layer.0", "layer.1", "layer.2"]
    with hooks.record(model, names) as seen:
        expected = states(model)
    for name, value in zip(names, expected, strict=True):
        assert torch.equal(seen[name], value), name


def scores_by_hand(model, layer, q, k):
    """What a family's softmax sees for queries and keys [batch, heads, tokens, size], unmasked.

    Each family's ways are spelled out here a second time.
    """
    family, config = model.family, model.net.config
    if family in ("qwen3", "gemma3_text"):
        attention = model.net.model.layers[layer].self_attn
        q, k = attention.q_norm(q), attention.k_norm(k)
    rotation = getattr(model.net.base_model, "rotary_emb", None)
    if rotation:
        by_kind = family in ("modernbert", "gemma3_text")
        kind = [config.layer_types[layer]] if by_kind else []
        cos, sin = rotation(q, torch.arange(q.shape[2])[None], *kind)
        q, k = rotated(q, cos, sin), rotated(k, cos, sin)
    k = k.repeat_interleave(q.shape[1] // k.shape[1], dim=1)
    scale = config.query_pre_attn_scalar if family.startswith("gemma") else q.shape[-1]
    scores = q @ k.mT / math.sqrt(scale)
    if family == "gemma2":
        cap = config.attn_logit_softcapping
        scores = cap * (scores / cap).tanh()
    if family == "mpnet":
        scores = scores + model.net.mpnet.encoder.compute_position_bias(q[:, 0])
    return scores


def rotated(h, cos, sin):
    """h with its first numbers, as many as cos has, turned by their position's angles."""
    turning, rest = h[..., : cos.shape[-1]], h[..., cos.shape[-1] :]
    first, second = turning.chunk(2, dim=-1)
    turned = turning * cos + torch.cat([-second, first], dim=-1) * sin
    return torch.cat([turned, rest], dim=-1)


def window_by_hand(model, layer):
    """How many tokens away a layer still looks; None: as far as the text goes."""
    config = model.net.config
    if model.family in ("mistral", "phi3"):  # all their layers
        return config.sliding_window - 1
    if model.family == "modernbert":  # to both sides
        return 4 if config.layer_types[layer] == "sliding_attention" else None
    if model.family in ("qwen2", "qwen3", "gemma2", "gemma3_text"):
        return 5 if config.layer_types[layer] == "sliding_attention" else None
    return None


def allowed_by_hand(model, layer, mask):
    """Which token may look at which, boolean: [batch, 1, tokens, tokens]."""
    n_tokens = mask.shape[1]
    distance = torch.arange(n_tokens)[:, None] - torch.arange(n_tokens)
    allowed = mask[:, None, None].bool().expand(-1, 1, n_tokens, -1)
    if model.is_causal:
        allowed = allowed & (distance >= 0)
    window = window_by_hand(model, layer)
    if window is not None:
        allowed = allowed & (distance.abs() <= window)
    return allowed


@every_family
@pytest.mark.parametrize("layer", [0, 1])  # one that sees a window, one that sees all
def test_recorded_queries_keys_and_values_make_the_attention_and_the_output_of_heads(family, layer):
    model = tiny(family, "eager", dtype=torch.float64)
    inputs = batch(model)
    n_texts, n_tokens = inputs.input_ids.shape
    with hooks.record(model, [f"attn.{part}.{layer}" for part in ("q", "k", "v", "out")]) as seen:
        maps = model.net(**inputs, output_attentions=True).attentions
    q, k, v = (seen[f"attn.{part}.{layer}"].transpose(1, 2) for part in "qkv")
    assert q.shape == (n_texts, HEADS, n_tokens, size_of_heads(model))
    allowed = allowed_by_hand(model, layer, inputs.attention_mask)
    scores = scores_by_hand(model, layer, q, k)
    attention = scores.masked_fill(~allowed, -math.inf).softmax(-1)
    v = v.repeat_interleave(HEADS // v.shape[1], dim=1)
    outputs = (attention @ v).transpose(1, 2)
    # decoders' softmax is always in float32
    loose = {"rtol": 1e-5, "atol": 1e-6, "check_dtype": False}
    rows = inputs.attention_mask.bool()
    seen_by = rows[:, None, :, None]  # what padding sees, nobody reads
    torch.testing.assert_close(attention * seen_by, maps[layer] * seen_by, **loose)
    torch.testing.assert_close(outputs[rows], seen[f"attn.out.{layer}"][rows], **loose)


@pytest.mark.parametrize("family", ENCODERS)
def test_the_sentence_vector_is_the_poolers_or_else_the_first_token(family):
    model = tiny(family)
    with hooks.record(model, ["pooler"]) as seen:
        last = states(model)[-1]
    expected = model.net.bert.pooler(last) if family == "bert" else last[:, 0]
    assert torch.equal(seen["pooler"], expected)


@pytest.mark.parametrize("family", ["roberta", "albert", "mpnet"])
def test_the_sentence_vector_is_the_poolers_where_a_base_model_has_one(family):
    model = tiny(family)
    base = type(model.net.base_model)(model.net.config).eval()
    with_pooler = type(model)(base, model.tokenizer, "with pooler", "in memory")
    with hooks.record(with_pooler, ["pooler"]) as seen:
        assert torch.equal(base(**batch(model)).pooler_output, seen["pooler"])


@pytest.mark.parametrize("family", ENCODERS)
def test_the_model_goes_on_with_a_projected_sentence_vector(family):
    model = tiny(family)
    basis = orthonormal(model, 1, HIDDEN)
    before = model.net(**batch(model))
    with (
        hooks.project(model, {"pooler": hooks.Projection(basis)}),
        hooks.record(model, ["pooler"]) as seen,
    ):
        after = model.net(**batch(model))
    assert components(seen["pooler"], basis).abs().max() < 2e-6
    if family == "bert":
        next_sentence = model.net.cls.seq_relationship(seen["pooler"])
        assert torch.equal(after.seq_relationship_logits, next_sentence)
        assert not torch.allclose(next_sentence, before.seq_relationship_logits, atol=1e-4)
        assert torch.equal(after.prediction_logits, before.prediction_logits)
    else:  # no pooler: the first token of the last layer
        assert torch.equal(after.logits[:, 1:], before.logits[:, 1:])
        assert not torch.allclose(after.logits[:, 0], before.logits[:, 0], atol=1e-4)


def components(h, basis):
    """Of vectors h along the rows of a basis, which each head may have of its own."""
    rule = "...hw,hdw->...hd" if basis.dim() == 3 else "...w,dw->...d"
    return torch.einsum(rule, h, basis)


@every_family
def test_a_projection_leaves_the_share_one_minus_weight_and_all_else(family):
    model = tiny(family)
    basis = orthonormal(model, 2, HIDDEN)
    locations = ["embeddings", "layer.0", "layer.1"]
    weights = [1.0, torch.tensor([0.7, 0.2])]
    for name, weight in itertools.product(locations, weights):
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
def test_each_head_loses_its_own_direction(family):
    model = tiny(family)
    size = size_of_heads(model)
    names = ["attn.q.1", "attn.k.1", "attn.v.1"]
    with hooks.record(model, names) as plain:
        before = logits(model)
    bases = {name: orthonormal(model, plain[name].shape[2], 1, size) for name in names}
    cut = {name: hooks.Projection(basis) for name, basis in bases.items()}
    with hooks.project(model, cut), hooks.record(model, names) as seen:
        after = logits(model)
    for name, basis in bases.items():
        assert components(seen[name], basis).abs().max() < 2e-6
        assert components(plain[name], basis).abs().max() > 0.1
        taken = torch.einsum("...hd,hdw->...hw", components(plain[name], basis), basis)
        torch.testing.assert_close(seen[name], plain[name] - taken)
    assert (after - before).abs().max() > 1e-3


@few_families
def test_tokens_first_projects_the_first_token_alone(family):
    model = tiny(family)
    basis = orthonormal(model, 1, HIDDEN)
    plain = states(model)
    with hooks.project(model, {"layer.1": hooks.Projection(basis, tokens="first")}):
        seen = states(model)  # transformers' own record sees the projection too
    assert torch.equal(seen[2][:, 1:], plain[2][:, 1:])
    assert components(seen[2][:, 0], basis).abs().max() < 2e-6
    # the next layer mixes tokens
    assert not torch.allclose(seen[3][:, 1:], plain[3][:, 1:], atol=1e-4)


@few_families
def test_hooks_may_be_nested_in_any_order(family):
    model = tiny(family)
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
    assert torch.equal(one, other)
    for name in where:
        assert torch.equal(inner[name], outer[name])
    with hooks.head_mask(model, mask):
        assert not torch.allclose(logits(model), one, atol=1e-3)


@few_families
def test_no_hook_stays_when_a_block_ends_in_an_error(family):
    model = tiny(family)
    plain = logits(model)
    before = hook_count(model)
    cut = {"layer.1": hooks.Projection(orthonormal(model, 1, HIDDEN))}
    with (
        pytest.raises(ZeroDivisionError),
        hooks.project(model, cut),
        hooks.head_mask(model, real(model, LAYERS, HEADS)),
        hooks.record(model, ["layer.1"]),
    ):
        assert hook_count(model) >= before + LAYERS + 2
        raise ZeroDivisionError
    assert hook_count(model) == before
    assert torch.equal(logits(model), plain)


@every_family
def test_a_resumed_forward_ends_as_the_whole_one(family):
    """Under a mask too: ALBERT's layers are one module, and skipped ones must be counted."""
    model = tiny(family)
    mask = torch.ones(LAYERS, HEADS)
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
    """Under a mask too. In the last layer W^O and the feed-forward part see that token alone."""
    model = tiny(family, dtype=torch.float64)
    mask = torch.ones(LAYERS, HEADS)
    mask[2, 1] = 0
    rows = torch.tensor([0, 1])
    places = torch.tensor([4, 1])
    with torch.inference_mode(), hooks.head_mask(model, mask):
        whole = model.net.base_model(**batch(model)).last_hidden_state
        inside = ["attn.out.1", "ffn.1", "attn.out.2", "ffn.2"]
        with hooks.finish(model, places), hooks.record(model, inside) as seen:
            finished = model.net.base_model(**batch(model)).last_hidden_state
    torch.testing.assert_close(finished[rows, places], whole[rows, places])
    assert not torch.allclose(finished[rows, places + 1], whole[rows, places + 1])
    n_tokens = whole.shape[1]
    assert [value.shape[1] for value in seen.values()] == [n_tokens, n_tokens, 1, 1]
    assert hook_count(model) == 0


@few_families
def test_edits_of_the_last_layer_see_all_tokens_where_a_forward_finishes_at_one(family):
    model = tiny(family, dtype=torch.float64)
    rows = torch.tensor([0, 1])
    places = torch.tensor([4, 1])
    shape = batch(model)["input_ids"].shape
    basis = orthonormal(model, 3, HIDDEN)
    edits = [
        hooks.project(model, {"ffn.2": hooks.Projection(basis, tokens="first")}),
        hooks.patch(model, 2, 1, real(model, *shape, size_of_heads(model))),
    ]
    with torch.inference_mode(), edits[0], edits[1]:
        whole = model.net.base_model(**batch(model)).last_hidden_state
        with hooks.finish(model, places):
            finished = model.net.base_model(**batch(model)).last_hidden_state
    torch.testing.assert_close(finished[rows, places], whole[rows, places])


def test_a_decoder_keeps_no_keys_and_values():
    """Of no use where nothing is generated, and as large as all layers' states."""
    model = models.load("mini-gpt2", device="cpu")
    encoded = model.tokenizer("The nurse smiled.", return_tensors="pt")
    assert model.net.base_model(**encoded).past_key_values is None
