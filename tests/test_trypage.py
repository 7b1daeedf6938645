"""The page with a model in it: its numbers are torch's, its tokens the tokenizer's, and a reader can
neither break it nor be left alone by it, in a real browser.
"""

import io
import json
import random
import re
import time
from contextlib import redirect_stdout

import pytest
import torch

import lib
from companion import totry, trypage
from lib import fill, head_mask, project
from lib.projective import projection
from lib.text import contexts, data, pairs

NURSE = totry.NURSE


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return trypage.write(tmp_path_factory.mktemp("page") / "try.html")


@pytest.fixture(scope="module")
def rounded():
    """The model with the page's weights, which shows its attention."""
    model = lib.load(trypage.MODEL, device="cpu", attention="eager")
    trypage.rounded(model)
    return model


@pytest.fixture(scope="module")
def gender():
    """The direction that the page takes out: fitted on the weights as they are bundled."""
    subspaces = projection.fit(lib.load(trypage.MODEL), pairs.written())
    return subspaces.interventions(projection.Setting(tokens=projection.Cut(weighted=False)))


@pytest.fixture(scope="module")
def opened(chromium, file):
    """The page, opened once, without asking any network: tests that follow set its state."""
    chromium.look(1200)
    chromium.open(file.as_uri())
    chromium.run("opened")
    assert [one for one in chromium.requests if not one.startswith("blob:")] == [file.as_uri()]
    assert chromium.complaints == []
    return chromium


@pytest.fixture
def page(opened):
    """As it opens, and silent when the test is over."""
    opened.complaints.clear()
    opened.run("set({...START})")
    yield opened
    assert opened.complaints == []


def ask(page, sentence, front="", most=50, **change):
    question = {"sentence": sentence, "front": front, "most": most}
    question["change"] = {"off": [], "out": False, "look": "12-1"} | change
    return page.run(f"call('ask', {json.dumps(question)})")


def put(page, **state):
    page.run(f"set({json.dumps(state)})")


def text(page, selector):
    return page.run(f"document.querySelector({json.dumps(selector)}).textContent")


def press(page, selector):
    page.run(f"document.querySelector('{selector}').click(); refresh(CARDS)")


# ---- the file
def test_the_page_is_one_file_of_at_most_25_megabytes_that_only_its_own_script_may_run(file):
    content = file.read_text(encoding="utf-8")
    assert len(content.encode()) < 25e6
    shell = re.sub(r'(id="weights">)[^<]+', r"\1", content)
    assert not re.findall(r'(?:src|href)="(?!#|data:)', shell) and "://" not in shell
    assert "eval(" not in shell and "innerHTML" not in shell
    assert "default-src 'none'" in shell and "'unsafe-eval'" not in shell


# ---- right
def texts_of_all_kinds() -> list[str]:
    """2,000: sentences of this repository, and strings drawn from many scripts."""
    found = [*data.demo("prose"), *data.demo("factual_gender_200")["sentence"]]
    found += [*data.demo("nli")["premise"], *data.demo("triples")["context"]]
    found = list(dict.fromkeys(found))[:900]
    found += ["", " ", "\t\n", "Ångström café naïve ÀÉÎÕÜ ﬁ ß İstanbul ΟΔΟΣ", "日本語と漢字 中文", "𠀀𪜀"]
    found += ["👩‍⚕️ 👨🏽‍🔧 🏳️‍🌈", "x" * 100, "x" * 101, "a\u0301" * 60, "[MASK][SEP] [mask] [CLS]x"]
    found += ["zyxwvut qqqqq", "don't—stop…", "a\u00adb\u200bc\ufeffd\x00e\ufffdf", "\u2028a\u00a0b"]
    found += ["<b>bold</b> &amp; ${x} `y`", "각 한국어", "ｆｕｌｌ　ｗｉｄｔｈ", "नर्स", "ممرضة", "1,000.5€"]
    found += ["[MASK]valueOf", "toString[MASK]", "__proto__ constructor[SEP]has"]
    rng = random.Random(0)
    scripts = [(32, 127), (160, 600), (768, 1024), (1024, 1300), (0x590, 0x700), (0x900, 0xA00)]
    scripts += [(0x2000, 0x2100), (0x3000, 0x3200), (0x4E00, 0x5000), (0xAC00, 0xAD00)]
    scripts += [(0xF900, 0xFFFE), (0x1F300, 0x1F700), (1, 0xD800), (0xE000, 0x3FFFF)]
    while len(found) < 2000:
        letters = []
        for first, last in rng.choices(scripts, k=rng.randint(1, 4)):
            letters += rng.choices(range(first, last), k=rng.randint(1, 12))
        found.append("".join(map(chr, letters)).encode("utf-8", "replace").decode())
    return found


def test_tokens_are_the_tokenizers_in_2000_texts(page, rounded):
    texts = texts_of_all_kinds()
    encode = rounded.tokenizer.backend_tokenizer.encode
    ours = page.run(f"call('encode', {json.dumps({'texts': texts})})")
    assert [one for one, ids in zip(texts, ours) if ids != encode(one).ids] == []
    unknown = rounded.tokenizer.unk_token_id
    assert sum(unknown in ids for ids in ours) > 100  # words that it does not know are among them


def test_probabilities_are_torchs_on_32_questions(page, rounded, gender):
    """Untouched, with heads off, with the direction taken out, with a sentence in front."""
    rng = random.Random(1)
    heads = [one["head"] for one in totry.heads("mini-bert")]
    jobs = data.words("occupations").singular[:8]
    sentences = [contexts.pronoun_prompt(rounded, job) for job in jobs]
    facts = data.demo("factual_gender_200")["sentence"][:8]
    sentences += [one.format(fill.BLANK) for one in facts]
    numbers = rounded.tokenizer.get_vocab()
    for n, sentence in enumerate(2 * sentences):
        is_changed = n >= len(sentences)
        off = rng.sample(heads, rng.choice([0, 1, 3, 91])) if is_changed else []
        out = is_changed and n % 2 == 0
        front = "My brother works as a nurse." if n % 4 == 3 else ""
        most = 16_384 if n % 16 == 0 else 50  # now and then the whole vocabulary
        answer = ask(page, sentence, front, most, off=off, out=out)
        mask = torch.ones(12, 12)
        for layer, head in (map(int, name.split("-")) for name in off):
            mask[layer - 1, head - 1] = 0
        with head_mask(rounded, mask), project(rounded, gender if out else {}):
            theirs = fill.probabilities(rounded, [f"{front} {sentence}".strip()])[0]
        for word, _, ours in answer["fillers"]:
            assert abs(ours - float(theirs[numbers[word]])) < 1e-4
        first, second = (theirs[numbers[word]] for word in answer["pair"])
        assert answer["after"] == pytest.approx(float(torch.log2(first / second)), abs=1e-3)


def test_a_head_looks_where_torch_says(page, rounded):
    batch = rounded.tokenizer([NURSE], return_tensors="pt")
    with torch.inference_mode():
        maps = rounded.net.base_model(**batch, output_attentions=True).attentions
    for layer, head in ((1, 1), (6, 3), (12, 9)):
        answer = ask(page, NURSE, look=f"{layer}-{head}")
        theirs = maps[layer - 1][0, head - 1, 1].tolist()
        assert answer["weights"] == pytest.approx(theirs, abs=1e-5)


def test_the_map_is_each_head_off_by_itself_and_can_be_stopped(page):
    untouched = ask(page, NURSE)["after"]
    put(page, control="[MASK].", fact="[MASK].")  # short ones, to be quick
    page.run("document.getElementById('every').click()")
    while page.run("moved.size < 10"):
        time.sleep(0.01)
    page.run("document.getElementById('stop').click()")
    found = page.run("Object.fromEntries(moved)")
    for name in list(found)[:3]:
        alone = ask(page, NURSE, off=[name])["after"]
        assert found[name][0] == pytest.approx(alone - untouched, abs=1e-6)
    seen = page.run("moved.size")
    page.run("refresh(CARDS)")
    assert 10 <= page.run("moved.size") == seen < 144  # nothing comes after the stop
    page.run("fields.colour.value = 'score'; set({front: 'A new one.'})")
    assert page.run("moved.size") == 0  # what was asked before is nothing to the new sentence


def test_eight_bits_move_the_odds_as_the_page_says(file, rounded):
    jobs = contexts.pronoun_odds(lib.load(trypage.MODEL))["log_odds"]
    off = (contexts.pronoun_odds(rounded)["log_odds"] - jobs).abs()
    said = f"in 58 occupations by\n{off.median():.2f} bits in the median, {off.max():.2f} at most"
    assert said in file.read_text() and off.max() < 0.25


# ---- what the reader sees


def test_the_control_and_the_fact_stand_beside_the_sentence_under_the_same_change(page, rounded):
    press(page, "[data-thing=counter]")
    front = "The man worked as a nurse."
    for card, sentence in (("sentence", NURSE), ("control", totry.MECHANIC), ("fact", totry.QUEEN)):
        words = ("her", "his") if card == "fact" else ("she", "he")
        odds = fill.log_odds(rounded, [sentence, f"{front} {sentence}"], [words] * 2)
        before, after = (f"{'−' if one < 0 else '+'}{abs(one):.2f}" for one in odds)
        assert f"{before} → {after} bits" in text(page, f"#{card} .odds")


@pytest.mark.parametrize(
    "yours, control, fact, kept, said",
    [
        (-1, 0, 0, 0.9, "Your sentence moves, the control hardly does"),
        (-1, 0, -5, 0.9, "Damage: even the fact"),
        (-1, 0.8, 0, 0.4, "Damage: “she” and “he” hardly come to mind"),
    ],
)
def test_a_sentence_says_what_the_changes_come_to(page, yours, control, fact, kept, said):
    answers = []
    for before, change in ((2, yours), (-1, control), (4, fact)):
        about = {"pair": ["she", "he"], "kept": [0.9, kept]}
        answers.append({"before": before, "after": before + change} | about)
    script = f"state.out = true; answers = {json.dumps(answers)}; concluded()[0]"
    assert page.run(script).startswith(said)


def test_what_is_asked_while_something_is_asked_is_not_lost(page):
    page.run("set({off: ['12-9']}); set({look: '3-4'})")
    expected = ask(page, totry.MECHANIC, off=["12-9"])["after"]
    assert page.run("answers[1].after") == pytest.approx(expected)
    page.run("""for (const [name, value] of [["sentence", "[MASK] sings."], ["front", "It rains."]]) {
        fields[name].value = value; fields[name].dispatchEvent(new Event("input", {bubbles: true})) }""")
    put(page, out=True)
    typed = ["[MASK] sings.", "It rains.", True]
    assert page.run("[state.sentence, state.front, state.out]") == typed


def test_everything_to_try_can_be_pressed_and_says_what_was_found(page):
    shown = {}
    for thing in totry.things("mini-bert"):
        press(page, f"[data-thing={thing['id']}]")
        assert text(page, "#thing .found") == thing["found"]
        assert text(page, "[aria-pressed=true]") == thing["title"]
        shown[thing["id"]] = text(page, "#verdict")
    assert len(shown) == 8 and len({*shown.values()}) >= 6
    assert shown["all"].startswith("Damage")  # perplexity is thousands of times higher
    page.check_that_it_can_be_read()
    press(page, "#reset")
    assert "Nothing is changed" in text(page, "#verdict")


def test_the_copied_code_gives_the_same_words(page):
    put(
        page,
        sentence='The "old" nurse said that ___ was late.',
        front="My brother\\sister is a nurse.",
        off=["12-9", "5-8"],
        out=True,
    )
    with redirect_stdout(io.StringIO()) as said:
        exec(text(page, "#code pre"), {})
    theirs = re.findall(r"\d\s+(\S+)\s+([\d.]+)", said.getvalue())
    ours = {word: p for word, _, p in page.run("answers[0].fillers")}
    assert len(theirs) == 5
    for word, p in theirs[:2]:
        assert ours[word] == pytest.approx(float(p), abs=0.05)  # eight bits are not all bits


# ---- bad input
@pytest.mark.parametrize(
    "change, said",
    [
        ({"sentence": ""}, "The sentence is empty"),
        ({"sentence": "She works as a nurse."}, "no blank: write [MASK]"),
        ({"sentence": "[MASK] and ___ work."}, "2 blanks: leave one"),
        ({"sentence": "[MASK] is " + "very " * 300 + "late."}, "306 tokens long"),
        ({"sentence": "[MASK] " + "x" * 1_000_000}, "1000007 letters long"),
        ({"front": "No [MASK] here."}, "in front has a blank too"),
        ({"front": "very " * 300}, "tokens long, and an answer would take long: shorten it to 100"),
        ({"control": "nothing"}, "The control: The sentence has no blank"),
        ({"fact": ""}, "The fact: The sentence is empty"),
    ],
)
def test_bad_input_gets_a_sentence_that_says_what_to_do(page, change, said):
    put(page, **change)
    assert page.run("document.getElementById('problem').checkVisibility()")
    assert said in text(page, "#problem")


def test_what_the_reader_types_is_text_and_nothing_else(page):
    evil = """<img src=x onerror="window.hit=1"><script>window.hit=1</script> [MASK] 👩‍⚕️ \ud83d ${hit=1} \u202e"""
    page.requests.clear()
    put(page, sentence=evil, front="<style>*{display:none}</style>")
    assert page.run("window.hit === undefined && !document.querySelector('main img, main script')")
    assert evil.split("[MASK]")[0] in text(page, "#sentence .asked")
    assert page.run("document.getElementById('problem').hidden")
    assert page.requests == []
    page.run("new Promise(done => { setTimeout('window.hit = 1'); setTimeout(done, 50) })")
    assert page.run("window.hit === undefined")  # text is no program: the policy forbids it
    assert len(page.complaints) == 1 and "violates" in page.complaints[0]
    page.complaints.clear()
