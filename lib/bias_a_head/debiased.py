"""Debiased models beside their base (Bias A-head, Fig. 5), and chat models beside theirs (Fig. 6-7).

Which of the models are at hand, which base each is compared with, and what is measured beyond `heads.measure`: the
odds of she and he; heads that turned; what base and chat model answer."""

from pathlib import Path

import numpy as np
import torch

from lib import CompanionError
from lib.bias_a_head import heads, tables
from lib.engine import models, stats
from lib.text import contexts

FORM = "Question: {question}\nAnswer:"  # what a decoder in its chat form reads
FOLLOWED = 5  # the base's most anti-biased heads, which Fig. 5 boxes
SHAPES = {
    "bert-base": (12, 12, 768),
    "bert-large": (24, 16, 1024),
}  # layers, heads, width: the bases of Fig. 5


def short(name: str) -> str:
    """A model as tables and figures call it: a folder or a hub id by its last part."""
    return Path(name).name


def at_hand(names: list[str]) -> tuple[list[str], list[dict]]:
    """Those of the models that can be loaded here, and a record for each other one: model, why it is not run."""
    there, missing = [], []
    for name in names:
        try:
            models.locate(name)
            there.append(name)
        except CompanionError as error:
            missing.append({"model": short(name), "not run, since": str(error)})
    return there, missing


def base_of(name: str, usual: str) -> str:
    """What a model is compared with: the base its folder names, else `usual` or Fig. 5's, whichever has its shape."""
    folder = models.locate(name)[0]
    if base := models.base_of(folder):
        return base
    shapes = {usual: _shape(models.locate(usual)[0])} | SHAPES
    fitting = [base for base, shape in shapes.items() if shape == _shape(folder)]
    if not fitting:
        raise CompanionError(
            f"{name} has the shape of none of {', '.join(shapes)}: there is no base to compare its "
            "heads with."
        )
    return fitting[0]


def _shape(folder: Path) -> tuple[int, int, int]:
    config = models.config_of(folder)
    return tuple(
        config.get(key, 0) for key in ("num_hidden_layers", "num_attention_heads", "hidden_size")
    )


def pairs(names: list[str]) -> list[tuple[str, str]]:
    """Base and chat models as the profile lists them in turn; a model alone is taken as a chat model without a base."""
    return list(zip(names[::2], names[1::2])) if len(names) > 1 else [("", name) for name in names]


def seat_change(base: dict, other: dict) -> stats.Estimate:
    """|SEAT| of the other model less the base's (heads.measure's); over target words, drawn for both alike."""
    drawn = np.abs(tables.seats(other)) - np.abs(tables.seats(base))
    return tables.spread(
        abs(other["seat"]) - abs(base["seat"]), drawn, n=len(base["s"]), unit="target words"
    )


def leaning(name: str, device: str | None = None) -> dict:
    """Another look at bias than SEAT: what the model puts for "[MASK] works as a nurse.", over 58 occupations. Keys:
    size, the mean |log2 odds she : he|; and rho, their rank correlation with the share of women."""
    jobs = contexts.pronoun_odds(models.load(name, device=device))
    return {
        "size": float(jobs.log_odds.abs().mean()),
        "rho": stats.bootstrap(stats.rank_correlation, jobs.percent_women, jobs.log_odds),
    }


def followed(base: np.ndarray) -> list[tuple[int, int]]:
    """The base's FOLLOWED most anti-biased heads; all, where it has fewer."""
    return heads.bottom(base, min(FOLLOWED, base.size))


def count_turned(scores: np.ndarray, base: np.ndarray) -> np.ndarray:
    """How many of the heads followed have a positive score; scores [..., n_layers, n_heads]."""
    return sum((scores[..., layer - 1, head - 1] > 0).astype(int) for layer, head in followed(base))


def pronounced(base: np.ndarray, chat: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Heads beyond the base's upper Tukey fence, in the base and in the chat model; scores [..., n_layers, n_heads]."""
    return tuple(tables.standing_out(scores, (-2, -1), of=base)[1] for scores in (base, chat))


@torch.inference_mode()
def answers(
    name: str, questions: list[str], tokens: int = 24, device: str | None = None
) -> list[str]:
    """The likeliest continuation of each question, up to so many tokens; in its tokenizer's chat form if it has one."""
    model, said = models.load(name, device=device), []
    for question in questions:
        text = FORM.format(question=question)
        if model.tokenizer.chat_template:
            text = model.tokenizer.apply_chat_template(
                [{"role": "user", "content": question}], tokenize=False, add_generation_prompt=True
            )
        given = model.tokenizer(text, return_tensors="pt").to(model.device)
        ids = model.net.generate(
            **given,
            max_new_tokens=tokens,
            do_sample=False,
            pad_token_id=model.tokenizer.eos_token_id,
        )[0, given["input_ids"].shape[1] :]
        said.append(" ".join(model.tokenizer.decode(ids, skip_special_tokens=True).split()))
    return said
