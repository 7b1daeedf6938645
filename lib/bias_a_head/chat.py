"""What base and chat models answer to a question (beside Bias A-head's Fig. 6-7)."""

import torch

from lib.engine import models

FORM = "Question: {question}\nAnswer:"  # what a decoder without a chat template reads


@torch.inference_mode()
def answers(
    name: str, questions: list[str], tokens: int = 24, device: str | None = None
) -> list[str]:
    """The likeliest continuation of each question, up to so many tokens.

    A question is put in the form of the tokenizer's chat template, where it has one.
    """
    model = models.load(name, device=device)
    given_answers = []
    for question in questions:
        text = FORM.format(question=question)
        if model.tokenizer.chat_template:
            messages = [{"role": "user", "content": question}]
            text = model.tokenizer.apply_chat_template(
                messages, tokenize=False, add_generation_prompt=True
            )
        prompt = model.tokenizer(text, return_tensors="pt").to(model.device)
        (ids,) = model.net.generate(
            **prompt,
            max_new_tokens=tokens,
            do_sample=False,
            use_cache=True,  # which `models.load` switches off for single forwards
            pad_token_id=model.tokenizer.eos_token_id,
        )
        continuation = ids[prompt["input_ids"].shape[1] :]
        answer = model.tokenizer.decode(continuation, skip_special_tokens=True)
        given_answers.append(" ".join(answer.split()))
    return given_answers
