"""The page with a model in it: its numbers are torch's, its tokens the tokenizer's, and a reader can
neither break it nor be left alone by it, in a real browser.
"""

import io
import json
import random
import re
import time
from contextlib import redirect_stdout

import pandas as pd
import pytest
import torch

import lib
from companion import totry, trypage
from lib import CompanionError, fill, head_mask, paths, project
from lib.engine import hooks
from lib.projective import projection
from lib.text import contexts, data, pairs
from tests.browser import LOW_CONTRAST

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
    """The page, opened once: tests that follow set its state."""
    chromium.look(1200)
    chromium.open(file.as_uri())
    chromium.run("opened")
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


def text(page, selector):
    return page.run(f"document.querySelector({json.dumps(selector)}).textContent")


# ---- what is packed
def test_each_row_has_a_scale_of_its_own_and_is_off_by_at_most_half_of_it():
    matrix = torch.tensor([[1.27, -0.635, 0.0], [0.0, 0.0, 0.0], [-254.0, 3.0, 1.0]])
    small, scale = trypage.quantised(matrix)
    assert small.tolist() == [[127, -64, 0], [0, 0, 0], [-127, 2, 0]]
    assert scale.tolist() == pytest.approx([0.01, 1, 2])
    drawn = torch.randn(5, 40)
    small, scale = trypage.quantised(drawn)
    assert ((small * scale[:, None] - drawn).abs() <= scale[:, None] / 2 + 1e-7).all()


def test_the_page_is_one_file_of_at_most_25_megabytes_that_only_its_own_script_may_run(file):
    content = file.read_text(encoding="utf-8")
    assert len(content.encode()) < 25e6
    shell = re.sub(r'(id="weights">)[^<]+', r"\1", content)
    assert not re.findall(r'(?:src|href)="(?!#|data:)', shell) and "://" not in shell
    assert "eval(" not in shell and "innerHTML" not in shell
    assert "default-src 'none'" in shell and "'unsafe-eval'" not in shell


def test_a_page_that_cannot_be_written_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setattr(trypage, "render", lambda: "page")
    (tmp_path / "report").write_text("a file where a folder should be")
    with pytest.raises(CompanionError, match="could not be written .*: make .* writable"):
        trypage.write(tmp_path / "report" / "try.html")


def test_what_is_said_of_things_to_try_comes_from_stored_tables(monkeypatch, tmp_path):
    before = {one["id"]: one for one in totry.things("mini-bert")}
    names = [one["head"] for one in totry.heads("mini-bert")]
    assert before["top3"]["state"]["off"] == names[:3]
    assert len(before["all"]["state"]["off"]) == 91
    assert "SEAT 1.35 becomes 1.21, pseudo-perplexity 4.09 becomes 4.16" in before["top3"]["paper"]
    stored = totry._table

    def changed(name):
        table = stored(name)
        if name == "04_table1":
            table.loc[table["masked"] == "Top-3", "SEAT"] = 9.87
        return table

    assert "becomes 9.87" not in before["top3"]["found"]
    monkeypatch.setattr(totry, "_table", changed)
    after = {one["id"]: one for one in totry.things("mini-bert")}
    assert "becomes 9.87" in after["top3"]["found"]
    monkeypatch.undo()
    monkeypatch.setattr(paths, "FIGURES", tmp_path)
    with pytest.raises(CompanionError, match=r"02_heads.csv is missing.*--only 02 --store"):
        totry.heads("mini-bert")


# ---- right
def texts_of_all_kinds() -> list[str]:
    """2,000: sentences of this repository, and strings drawn from many scripts."""
    found = [*data.demo("prose"), *data.demo("factual_gender_200")["sentence"]]
    found += [*data.demo("nli")["premise"], *data.demo("triples")["context"]]
    found = list(dict.fromkeys(found))[:900]
    found += [
        *(
            "",
            " ",
            "\t\n",
            "Ångström café naïve ÀÉÎÕÜ ﬁ ß İstanbul ΟΔΟΣ",
            "日本語と漢字 中文",
            "𠀀𪜀",
        ),
        *("👩‍⚕️ 👨🏽‍🔧 🏳️‍🌈", "x" * 100, "x" * 101, "a\u0301" * 60, "[MASK][SEP] [mask] [CLS]x"),
        *("zyxwvut qqqqq", "don't—stop…", "a\u00adb\u200bc\ufeffd\x00e\ufffdf", "\u2028a\u00a0b"),
        *(
            "<b>bold</b> &amp; ${x} `y`",
            "각 한국어",
            "ｆｕｌｌ　ｗｉｄｔｈ",
            "नर्स",
            "ممرضة",
            "1,000.5€",
        ),
    ]
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
    assert len(texts) == 2000
    encode = rounded.tokenizer.backend_tokenizer.encode
    ours = page.run(f"call('encode', {json.dumps({'texts': texts})})")
    wrong = [one for one, ids in zip(texts, ours) if ids != encode(one).ids]
    assert wrong == []
    unknown = rounded.tokenizer.unk_token_id
    assert sum(unknown in ids for ids in ours) > 100  # words that it does not know are among them


def test_probabilities_are_torchs_on_200_questions(page, rounded, gender):
    """Untouched, with heads off, with the direction taken out, with a sentence in front."""
    rng = random.Random(1)
    heads = [one["head"] for one in totry.heads("mini-bert")]
    sentences = [
        contexts.pronoun_prompt(rounded, job) for job in data.words("occupations").singular
    ]
    sentences += [
        one.format(fill.BLANK) for one in data.demo("factual_gender_200")["sentence"][:62]
    ]
    changes = [{}] * 120
    for n in range(80):
        sentences.append(sentences[n])
        changes.append({"off": rng.sample(heads, rng.choice([0, 1, 3, 91])), "out": n % 2 == 0})
    numbers = rounded.tokenizer.get_vocab()
    worst = 0
    for n, (sentence, change) in enumerate(zip(sentences, changes)):
        front = "My brother works as a nurse." if n % 4 == 3 else ""
        most = 16_384 if n % 40 == 0 else 50  # now and then the whole vocabulary
        answer = ask(page, sentence, front, most, **change)
        mask = torch.ones(12, 12)
        for name in change.get("off", []):
            layer, head = map(int, name.split("-"))
            mask[layer - 1, head - 1] = 0
        with head_mask(rounded, mask), project(rounded, gender if change.get("out") else {}):
            theirs = fill.probabilities(rounded, [f"{front} {sentence}".strip()])[0]
        for word, _, ours in answer["fillers"]:
            worst = max(worst, abs(ours - float(theirs[numbers[word]])))
        first, second = (theirs[numbers[word]] for word in answer["pair"])
        assert answer["after"] == pytest.approx(float(torch.log2(first / second)), abs=1e-3)
    assert len(sentences) == 200
    print(f"largest difference from torch: {worst:.1e}")
    assert worst < 1e-4


def test_a_head_looks_where_torch_says(page, rounded):
    batch = rounded.tokenizer([NURSE], return_tensors="pt")
    with torch.inference_mode():
        maps = rounded.net.base_model(**batch, output_attentions=True).attentions
    for layer, head in ((1, 1), (6, 3), (12, 9)):
        answer = ask(page, NURSE, look=f"{layer}-{head}")
        assert answer["weights"] == pytest.approx(
            maps[layer - 1][0, head - 1, 1].tolist(), abs=1e-5
        )
    assert answer["tokens"][1] == "[MASK]" and answer["place"] == 1


def test_the_map_is_each_head_off_by_itself_and_can_be_stopped(page):
    alone = {
        name: ask(page, NURSE, off=[name], look="1-1")["after"] for name in ("12-9", "7-4", "1-3")
    }
    untouched = ask(page, NURSE)["after"]
    page.run("set({control: '[MASK].', fact: '[MASK].'})")  # short ones, to be quick
    page.run("document.getElementById('every').click()")
    while page.run("mapping !== 0"):
        time.sleep(0.2)
    found = page.run("Object.fromEntries(moved)")
    assert len(found) == 144 and page.run("document.getElementById('progress').hidden")
    for name, odds in alone.items():
        assert found[name][0] == pytest.approx(odds - untouched, abs=1e-6)
    assert "Off alone: your sentence" in page.run("about('12-9')")
    page.run("document.getElementById('every').click()")
    while page.run("moved.size < 5"):
        time.sleep(0.01)
    page.run("document.getElementById('stop').click()")
    seen = page.run("moved.size")
    assert 5 <= seen < 144 and page.run("document.getElementById('stop').hidden")
    page.run("refresh(CARDS)")
    assert page.run("moved.size") == seen  # nothing comes after the stop
    page.run("fields.colour.value = 'score'; set({front: 'A new one.'})")
    assert page.run("moved.size") == 0  # what was asked before is nothing to the new sentence


def test_eight_bits_move_the_odds_as_the_page_says(file, rounded):
    jobs = contexts.pronoun_odds(lib.load(trypage.MODEL))["log_odds"]
    off = (contexts.pronoun_odds(rounded)["log_odds"] - jobs).abs()
    said = re.search(
        r"in 58 occupations by\s+([\d.]+) bits in the median, ([\d.]+) at most", file.read_text()
    )
    assert said.groups() == (f"{off.median():.2f}", f"{off.max():.2f}")
    assert off.max() < 0.25


# ---- what the reader sees
def test_the_map_shows_every_score_with_layer_1_at_the_bottom(page):
    cells = page.run("""[...document.querySelectorAll('#map button')].map(cell => [cell.dataset.head,
        cell.classList.contains('vague'), cell.style.getPropertyValue('--tint'), cell.getAttribute('aria-label')])""")
    assert [cells[0][0], cells[11][0], cells[-1][0]] == ["12-1", "12-12", "1-12"]
    table = pd.read_csv(paths.FIGURES / "mini" / "02_heads.csv")
    table = table.query("model == 'mini-bert' and bias == 'gender'")
    expected = {}
    for row in table.itertuples():
        tint = "var(--biased)" if row.score > 0 else "var(--fair)"
        expected[f"{row.layer}-{row.head}"] = (row.low <= 0 <= row.high, tint)
    assert {name: (vague, tint) for name, vague, tint, _ in cells} == expected
    assert all(said.startswith(f"Head {name}: bias score") for name, _, _, said in cells)


def test_the_control_and_the_fact_stand_beside_the_sentence_under_the_same_change(page, rounded):
    page.run("document.querySelector('[data-thing=counter]').click()")
    page.run("set({})")
    front = "The man worked as a nurse."
    for card, sentence in (("sentence", NURSE), ("control", totry.MECHANIC), ("fact", totry.QUEEN)):
        words = ("her", "his") if card == "fact" else ("she", "he")
        odds = fill.log_odds(rounded, [sentence, f"{front} {sentence}"], [words] * 2)
        before, after = (f"{'−' if one < 0 else '+'}{abs(one):.2f}" for one in odds)
        assert f"{before} → {after} bits" in text(page, f"#{card} .odds")
        assert front in text(page, f"#{card} .asked")
        assert f"Odds of {words[0]} against {words[1]}" in page.run(
            f"document.querySelector('#{card} .scale').getAttribute('aria-label')"
        )
    assert "Counteracts" in text(
        page, "#thing .paper"
    ) and "with every ten percent of women" in text(page, "#thing .found")


def test_a_sentence_says_what_the_changes_come_to(page):
    def verdict(yours, control, fact, kept=0.9):
        found = [(2, 2 + yours), (-1, -1 + control), (4, 4 + fact)]
        about = {"pair": ["she", "he"], "kept": [0.9, kept]}
        answers = [{"before": before, "after": after} | about for before, after in found]
        return page.run(f"state.out = true; answers = {json.dumps(answers)}; concluded()[0]")

    assert verdict(-1, 0, 0).startswith("Your sentence moves, the control hardly does")
    assert verdict(-1, 0.8, 0).startswith("Your sentence and the control move apart")
    assert verdict(-1, -0.8, 0).startswith("The control moves the same way")
    assert verdict(-0.1, -0.8, 0).startswith("Your sentence hardly moves")
    assert verdict(-1, 0, -2).startswith("Mind the fact")
    assert verdict(-2, -1.8, -2).startswith("All three move the same way")
    assert verdict(-1, 0, -5).startswith("Damage: even the fact")
    assert verdict(-1, 0.8, 0, kept=0.4).startswith("Damage: “she” and “he” hardly come to mind")
    assert "the fact stays" in verdict(-1, 0, 0) and "the fact keeps its “she”" in verdict(-1, 0, 3)


@pytest.mark.parametrize(
    "sentence, control, alike",
    [
        ("[MASK] works as a nurse.", "[MASK] works as a mechanic.", True),
        ("___ works as an engineer.", "[MASK] works as a  nurse.", True),
        ("[MASK] works as a nurse.", "[MASK] works as a nurse.", False),
        ("My [MASK] is a nurse.", "[MASK] works as a mechanic.", False),
    ],
)
def test_a_control_that_differs_in_more_than_the_job_is_doubted(page, sentence, control, alike):
    page.run(f"set({json.dumps({'sentence': sentence, 'control': control, 'off': ['12-9']})})")
    assert ("The control is not your sentence" in text(page, "#verdict")) is not alike


def test_odds_of_words_that_hardly_come_to_mind_are_doubted(page):
    page.run("set({sentence: 'Paris is the capital of [MASK].'})")
    assert "their odds say little" in text(page, "#sentence .odds")
    assert "their odds say little" not in text(page, "#control .odds")


def test_looking_at_a_head_does_not_lose_what_is_still_asked(page):
    page.run("set({off: ['12-9']}); set({look: '3-4'})")
    expected = ask(page, totry.MECHANIC, off=["12-9"])["after"]
    assert page.run("answers[1].after") == pytest.approx(expected)
    page.run("set({fact: 'nothing'})")
    page.run("set({look: '3-5'})")
    assert page.run("document.getElementById('problem').checkVisibility()")
    assert text(page, "#verdict").startswith("No answer yet")


def test_two_boxes_filled_in_a_hurry_are_both_asked(page):
    page.run("""for (const [name, value] of [["sentence", "[MASK] sings."], ["front", "It rains."]]) {
        fields[name].value = value; fields[name].dispatchEvent(new Event("input", {bubbles: true})) }""")
    page.run("set({out: true})")
    assert page.run("[state.sentence, state.front, state.out]") == [
        "[MASK] sings.",
        "It rains.",
        True,
    ]


def test_a_ruined_model_is_called_damaged(page):
    """All heads of positive score off: perplexity is thousands of times higher."""
    page.run("document.querySelector('[data-thing=all]').click(); refresh(CARDS)")
    assert text(page, "#verdict").startswith("Damage")


def test_everything_to_try_can_be_pressed_and_says_what_was_found(page):
    shown = []
    for thing in totry.things("mini-bert"):
        page.run(f"document.querySelector('[data-thing={thing['id']}]').click()")
        page.run("refresh(CARDS)")
        assert text(page, "#thing .found") == thing["found"]
        assert text(page, "[aria-pressed=true]") == thing["title"]
        shown.append(text(page, "#verdict"))
    assert len(set(shown)) >= 6 and len(shown) == 8
    page.run("document.getElementById('reset').click()")
    page.run("refresh(CARDS)")
    assert page.run("document.getElementById('thing').hidden") and "Nothing is changed" in text(
        page, "#verdict"
    )


def test_a_guess_comes_before_the_answer(page):
    page.run("set({guess: true})")
    assert page.run("document.getElementById('guessing').hidden")  # nothing to guess yet
    untouched = text(page, "#sentence .odds b")
    page.run("set({off: ['12-9']})")
    assert page.run("document.getElementById('guessing').checkVisibility()")
    assert text(page, "#sentence .odds b") == untouched and "→" not in text(page, "#control .odds")
    page.run("fields.guessed.value = -2; document.getElementById('see').click()")
    assert "You expected −2.00, it is " in text(page, "#verdict")
    assert text(page, "#sentence .odds b") != untouched
    assert page.run("document.querySelector('#sentence .guessed').checkVisibility()")


def test_the_copied_code_gives_the_same_words(page):
    page.run("""set({sentence: 'The "old" nurse said that ___ was late.', front: 'My brother\\\\sister is a nurse.',
        off: ['12-9', '5-8'], out: true})""")
    code = text(page, "#code pre")
    assert len(code.splitlines()) == 4
    names = {}
    with redirect_stdout(io.StringIO()) as said:
        exec(code, names)
    theirs = re.findall(r"\d\s+(\S+)\s+([\d.]+)", said.getvalue())
    ours = {word: p for word, _, p in page.run("answers[0].fillers")}
    assert len(theirs) == 5
    for word, p in theirs[:2]:
        assert ours[word] == pytest.approx(float(p), abs=0.05)  # eight bits are not all bits
    page.run("set({...START, off: ['12-9']})")
    assert len(text(page, "#code pre").splitlines()) == 3


def test_a_link_carries_the_state(page, file):
    page.run(
        "set({sentence: 'A <b> & [MASK]?', front: 'It is 50 % ünlikely.', off: ['1-2', '12-12'], out: true, look: '3-4'})"
    )
    state, address = page.run("[state, location.href]")
    page.open(address)
    page.run("opened")
    assert page.run("state") == state
    assert page.run("fields.sentence.value") == "A <b> & [MASK]?"
    page.open(file.as_uri() + "#off=99-1.x.12-3.12-3&look=nonsense")
    page.run("opened")
    assert page.run("state.off") == ["12-3"] and "→" in text(page, "#sentence .odds")


def test_by_keyboard(page):
    """One head can be reached by Tab, the others by arrows; space switches."""
    assert page.run("document.querySelectorAll('#map [tabindex=\"0\"]').length") == 1
    page.run("document.querySelector('#map [data-head=\"10-7\"]').focus()")

    def press(key, code, text=""):
        for kind in ("keyDown", "keyUp"):
            page.ask(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                code=key,
                windowsVirtualKeyCode=code,
                text=text,
            )

    press("ArrowUp", 38)
    press("ArrowRight", 39)
    assert page.run("document.activeElement.dataset.head") == "11-8"
    press(" ", 32, " ")
    assert page.run("state.off") == ["11-8"]
    assert page.run("document.activeElement.getAttribute('aria-checked')") == "false"
    for _ in range(5):
        press("ArrowRight", 39)
    assert page.run("document.activeElement.dataset.head") == "11-12"  # the edge holds
    page.run("document.querySelector('.skip').click(); new Promise(done => setTimeout(done, 200))")
    assert page.run("state.off") == ["11-8"] and "off=11-8" in page.run("location.href")
    page.run("document.getElementById('every').focus(); document.activeElement.click()")
    assert page.run("document.activeElement.id") == "stop"
    page.run("document.activeElement.click()")
    assert page.run("document.activeElement.id") == "every"


def test_it_can_be_read_by_all(page):
    page.run(
        "document.querySelector('[data-thing=top3]').click(); document.querySelector('details').open = true"
    )
    page.run("refresh(CARDS)")
    for scheme in ("light", "dark"):
        page.look(1200, scheme=scheme)
        assert page.run(LOW_CONTRAST) == []
    for width in (320, 390, 768, 1200):
        page.look(width)
        assert page.run("document.documentElement.scrollWidth") == width
    named = "[...document.querySelectorAll('select, input')].every(e => e.closest('label').textContent.trim())"
    assert page.run(named)
    assert page.run(
        "[...document.querySelectorAll('button')].every(e => e.textContent.trim() || e.ariaLabel)"
    )
    page.look(1200)


# ---- bad input
@pytest.mark.parametrize(
    "change, said",
    [
        ({"sentence": ""}, "The sentence is empty"),
        ({"sentence": "She works as a nurse."}, "no blank: write [MASK]"),
        ({"sentence": "[MASK] and [MASK] work."}, "2 blanks: leave one"),
        ({"sentence": "[MASK] is " + "very " * 300 + "late."}, "306 tokens long"),
        ({"front": "No [MASK] here."}, "in front has a blank too"),
        ({"front": "very " * 300}, "tokens long, and an answer would take long: shorten it to 100"),
        ({"control": "nothing"}, "The control: The sentence has no blank"),
        ({"fact": ""}, "The fact: The sentence is empty"),
    ],
)
def test_bad_input_gets_a_sentence_that_says_what_to_do(page, change, said):
    page.run(f"set({json.dumps(change)})")
    assert page.run("document.getElementById('problem').checkVisibility()")
    assert said in text(page, "#problem")
    page.run("set({...START})")
    assert not page.run("document.getElementById('problem').checkVisibility()")


def test_what_the_reader_types_is_text_and_nothing_else(page):
    evil = """<img src=x onerror="window.hit=1"><script>window.hit=1</script> [MASK] 👩‍⚕️ \ud83d ${hit=1} \u202e"""
    page.requests.clear()
    page.run(f"set({{sentence: {json.dumps(evil)}, front: '<style>*{{display:none}}</style>'}})")
    assert page.run("window.hit === undefined && !document.querySelector('main img, main script')")
    assert evil.split("[MASK]")[0] in text(page, "#sentence .asked")
    assert page.run("document.getElementById('problem').hidden")
    assert page.requests == []
    page.run("new Promise(done => { setTimeout('window.hit = 1'); setTimeout(done, 50) })")
    assert page.run("window.hit === undefined")  # text is no program: the policy forbids it
    assert len(page.complaints) == 1 and "violates" in page.complaints[0]
    page.complaints.clear()


def test_nothing_is_asked_of_any_network(chromium, file):
    chromium.open(file.as_uri())
    chromium.run("opened")
    assert [one for one in chromium.requests if not one.startswith("blob:")] == [file.as_uri()]
    assert chromium.complaints == []


def test_hooks_are_where_the_page_projects(gender):
    assert list(gender) == ["layer.10"] and isinstance(gender["layer.10"], hooks.Projection)
