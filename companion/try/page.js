// What the reader sees and does. The state is one object, which the address carries; every change asks the model again,
// in the worker, and shows what comes back. Text of the reader is only ever text.

const read = (id) => document.getElementById(id).textContent;
const at = (id) => document.getElementById(id);
const data = JSON.parse(read("data"));
const form = at("ask");
const fields = form.elements;
const CARDS = ["sentence", "control", "fact"];
const LAYERS = data.model.layers;
const HEADS = data.model.heads;
const REACH = 8; // bits on a scale
const START = { ...data.things[0].state, off: [], guess: false, look: data.things[0].state.off[0] };
const scores = new Map(data.heads.map((one) => [one.head, one]));
const most = Math.max(...data.heads.map((one) => Math.abs(one.score)));
let state = { ...START };
let answers = [];
let due = new Set(CARDS);
let typed = {};
let later;
let moved = new Map();
let isOpen = true;
let turn = 0;
let mapping = 0;

// ---- words and small elements
const signed = (x) => `${x < -0.005 ? "−" : x > 0.005 ? "+" : ""}${Math.abs(x).toFixed(2)}`;
const small = (x) => `${x < 0 ? "−" : "+"}${Math.abs(x).toFixed(4)}`;
const percent = (share) => (share < 0.005 ? "<1 %" : `${Math.round(100 * share)} %`);
const isChanged = () => state.off.length > 0 || state.out || state.front.trim() !== "";

function make(name, text = "", kind = "") {
  const element = document.createElement(name);
  element.textContent = text;
  if (kind) element.className = kind;
  return element;
}

// ---- the worker
const program = URL.createObjectURL(new Blob([read("worker")], { type: "text/javascript" }));
const worker = new Worker(program);
const waiting = new Map();
let count = 0;

// The worker's reply to one message; `report` is called with what it says meanwhile.
function call(kind, what = {}, report = () => {}) {
  const number = ++count;
  const reply = new Promise((done, failed) => waiting.set(number, { done, failed, report }));
  worker.postMessage({ kind, number, ...what });
  return reply;
}

worker.onmessage = ({ data: { number, reply, problem, report } }) => {
  const { done, failed, report: tell } = waiting.get(number);
  if (report) return tell(report);
  waiting.delete(number);
  if (problem) failed(new Error(problem));
  else done(reply);
};

// ---- the state, and the address that carries it
const KEYS = { s: "sentence", f: "front", c: "control", q: "fact" };

function address() {
  const parts = new URLSearchParams();
  for (const [key, name] of Object.entries(KEYS)) {
    if (state[name] !== START[name]) parts.set(key, state[name]);
  }
  if (state.off.length) parts.set("off", state.off.join("."));
  if (state.out) parts.set("out", "1");
  if (state.guess) parts.set("guess", "1");
  if (state.look !== START.look) parts.set("look", state.look);
  return `#${parts}`;
}

function readAddress() {
  const parts = new URLSearchParams(location.hash.slice(1));
  const known = (name) => scores.has(name);
  state = {
    ...START,
    off: [...new Set((parts.get("off") ?? "").split("."))].filter(known),
    out: parts.has("out"),
    guess: parts.has("guess"),
  };
  for (const [key, name] of Object.entries(KEYS)) state[name] = parts.get(key) ?? START[name];
  if (known(parts.get("look"))) state.look = parts.get("look");
}

// Change the state, show it, ask again. What was typed a moment ago belongs to it too.
function set(change) {
  clearTimeout(later);
  change = { ...typed, ...change };
  typed = {};
  state = { ...state, ...change };
  isOpen = !(state.guess && isChanged());
  if (["sentence", "front", "control", "fact"].some((name) => name in change)) forget();
  history.replaceState(null, "", address());
  showState();
  return refresh(Object.keys(change).join() === "look" ? ["sentence"] : CARDS);
}

// ---- asking
// The answers to these of the three; an answer that comes after the next change is dropped, and asked for again.
async function refresh(names) {
  const mine = ++turn;
  const change = { off: state.off, out: state.out, look: state.look };
  const found = [...answers];
  for (const name of names) due.add(name);
  at("answer").classList.add("stale");
  if (answers.length && due.size === CARDS.length) at("verdict").textContent = "Asking the model …";
  for (const name of due) {
    try {
      found[CARDS.indexOf(name)] = await call("ask", {
        sentence: blank(state[name]),
        front: blank(state.front),
        change,
      });
    } catch (error) {
      if (mine === turn) refuse(name, error.message);
      return;
    }
    if (mine !== turn) return;
  }
  due.clear();
  at("problem").hidden = true;
  for (const field of CARDS) fields[field].setAttribute("aria-invalid", "false");
  answers = found;
  at("answer").classList.remove("stale");
  at("every").disabled = false;
  showAnswers();
}

// Underscores are a blank where they stand alone: __init__ is a word.
const blank = (text) => text.replace(/\[mask\]|(?<!\w)_{2,}(?!\w)/gi, "[MASK]");

function refuse(name, message) {
  at("problem").textContent = name === "sentence" ? message : `The ${name}: ${message}`;
  at("problem").hidden = false;
  fields[name].setAttribute("aria-invalid", "true");
  at("verdict").textContent =
    `No answer yet: see the note under the sentence.${answers.length ? " Below is the last one." : ""}`;
}

// ---- showing answers
function showAnswers() {
  at("guessing").hidden = isOpen;
  if (!isOpen && fields.guessed.dataset.of !== address()) {
    Object.assign(fields.guessed, { value: answers[0].before }).dataset.of = address();
    at("guessing").querySelector("output").textContent = signed(answers[0].before);
  }
  CARDS.forEach((name, i) => showCard(at(name), answers[i], blank(state[name])));
  const [verdict, why] = isOpen
    ? concluded()
    : ["What will it do?", "Drag, then press See. The control and the fact are hidden too."];
  at("verdict").replaceChildren(verdict, make("small", why));
  at("brief").textContent = isOpen
    ? CARDS.map(
        (name, i) =>
          `${["yours", "control", "fact"][i]} ${signed(answers[i].before)} → ${signed(answers[i].after)}`,
      ).join(", ")
    : "";
  showAttention();
}

function showCard(card, { pair: [first, second], before, after, kept, fillers }, sentence) {
  const of = (kind) => card.querySelector(kind);
  const now = isOpen ? after : before;
  const place = (x) => 50 + 50 * Math.max(-1, Math.min(1, x / REACH));
  const [start, end] = sentence.split("[MASK]");
  const front = state.front.trim();
  of(".asked").replaceChildren(
    ...(front && isOpen ? [make("i", `${blank(front)} `)] : []),
    start,
    make("mark", "blank"),
    end,
  );
  of(".before").style.left = `${place(before)}%`;
  of(".after").style.left = `${place(now)}%`;
  of(".after").style.display = isOpen ? "" : "none";
  Object.assign(of(".way").style, {
    left: `${Math.min(place(before), place(now))}%`,
    width: `${Math.abs(place(before) - place(now))}%`,
  });
  const guess = state.guess && isOpen && isChanged() && card.id === "sentence";
  Object.assign(of(".guessed").style, {
    display: guess ? "block" : "none",
    left: `${place(fields.guessed.value)}%`,
  });
  of(".first").textContent = `${first} →`;
  of(".second").textContent = `← ${second}`;
  const [more, less] = now >= 0 ? [first, second] : [second, first];
  const times = 2 ** Math.abs(now);
  const likely =
    times < 1.05
      ? `${first} and ${second} are equally likely`
      : `${more} is ${times < 10 ? times.toFixed(1) : Math.round(times)} times as likely as ${less}`;
  const change = isChanged() && isOpen ? `${signed(before)} → ` : "";
  const share = kept[isOpen ? 1 : 0];
  const rare =
    share < RARE ? ` But both together get ${percent(share)}: their odds say little.` : "";
  of(".odds").replaceChildren(
    change,
    make("b", signed(now)),
    ` bits${isChanged() && isOpen ? `, a change of ${signed(after - before)}` : ""}. `,
    `Now ${likely}.${rare}`,
  );
  of(".scale").setAttribute(
    "aria-label",
    `Odds of ${first} against ${second}: ${change.replace("→", "to")}${signed(now)} bits`,
  );
  const shown = isOpen ? fillers : [...fillers].sort((a, b) => b[1] - a[1]); // or the order would tell
  of(".fillers").replaceChildren(
    ...shown.map(([word, was, is]) => filler(word, was, isOpen ? is : was)),
  );
}

const FEMALE = new Set(["she", "her", "herself", "woman", "girl", "mary"]);
const MALE = new Set(["he", "his", "him", "himself", "man", "boy", "john"]);

function filler(word, was, is) {
  const row = make("li", "", FEMALE.has(word) ? "female" : MALE.has(word) ? "male" : "");
  const bar = make("span", "", "bar");
  const share = make("i");
  const before = make("i", "", "was");
  share.style.width = `${100 * is}%`;
  before.style.width = `${100 * was}%`;
  bar.append(share, before);
  bar.setAttribute("aria-hidden", "true");
  row.append(make("span", word), bar, make("span", percent(is)));
  row.title = `${word}: ${(100 * was).toFixed(1)} % untouched, ${(100 * is).toFixed(1)} % now`;
  return row;
}

// What the three changes come to, in a sentence, and why. Less than LITTLE bits is next to nothing.
const LITTLE = 0.3;
const RARE = 0.1; // bits; the probability of both words together

// Whether two sentences differ in one word at most, the article before it aside: else one is no control of the other.
function isControl(one, other) {
  const words = (text) =>
    blank(text)
      .toLowerCase()
      .split(/\s+/)
      .filter((word) => !["", "a", "an"].includes(word));
  const [mine, its] = [words(one), words(other)];
  return mine.length === its.length && mine.filter((word, i) => word !== its[i]).length === 1;
}

function concluded() {
  const [d, c] = answers.map(({ before, after }) => after - before);
  const { before, after, pair } = answers[2];
  const right = before > 0 ? pair[0] : pair[1];
  const lost = Math.sign(before) * (before - after);
  const doubt = isControl(state.sentence, state.control)
    ? ""
    : " The control is not your sentence about another job: change it, or the comparison says little.";
  const told = `Your sentence ${signed(d)}, the control ${signed(c)}, the fact ${signed(after - before)} bits.${doubt}`;
  const guess = state.guess
    ? ` You expected ${signed(Number(fields.guessed.value))}, it is ${signed(answers[0].after)}.`
    : "";
  if (!isChanged()) {
    return [
      "Nothing is changed yet. Press something to try, or switch a head off.",
      `Your sentence has odds of ${signed(answers[0].before)} bits, the control of ${signed(answers[1].before)}.${doubt}`,
    ];
  }
  if (Math.sign(after) !== Math.sign(before)) {
    return [
      `Damage: even the fact flips, “${right}” is no longer the likelier word.`,
      told + guess,
    ];
  }
  const ruined = answers.find(({ kept: [was, is] }) => is < was / 2);
  if (ruined) {
    return [
      `Damage: “${ruined.pair.join("” and “")}” hardly come to mind any more, with ${percent(ruined.kept[1])} of the probability where it was ${percent(ruined.kept[0])}.`,
      told + guess,
    ];
  }
  const along = Math.sign(c) === Math.sign(d) && Math.abs(c) > Math.abs(d) / 2;
  if (along && Math.sign(after - before) === Math.sign(d) && lost > 1) {
    return [
      "All three move the same way: the words in general, facts included, not a stereotype.",
      told + guess,
    ];
  }
  if (lost > 1) {
    return [
      `Mind the fact: its “${right}” loses ${lost.toFixed(1)} bits. Part of this is damage, not a remedy.`,
      told + guess,
    ];
  }
  if (Math.abs(d) < LITTLE) return ["Your sentence hardly moves.", told + guess];
  if (along) {
    return [
      "The control moves the same way: a change of one word's odds in general, not of a stereotype.",
      told + guess,
    ];
  }
  return [
    `${Math.abs(c) < LITTLE ? "Your sentence moves, the control hardly does" : "Your sentence and the control move apart"}, and the fact ${Math.abs(after - before) < LITTLE ? "stays" : `keeps its “${right}”`}: what a stereotype would look like. One sentence is no evidence.`,
    told + guess,
  ];
}

function showAttention() {
  const { tokens, weights, place } = answers[0];
  at("attention").querySelector(".name").textContent =
    state.look + (state.off.includes(state.look) ? " (off)" : "");
  at("attention")
    .querySelector(".tokens")
    .replaceChildren(
      ...tokens.map((token, i) => {
        const box = make("span", token, i === place ? "blank" : "");
        box.style.setProperty("--weight", weights[i]);
        box.append(make("small", `${Math.round(100 * weights[i])} %`));
        return box;
      }),
    );
}

// ---- the heads
function drawMap() {
  const cells = [];
  for (let layer = LAYERS; layer >= 1; layer--) {
    cells.push(make("span", layer));
    for (let head = 1; head <= HEADS; head++) {
      const cell = make("button");
      cell.type = "button";
      cell.dataset.head = `${layer}-${head}`;
      cell.setAttribute("role", "switch");
      cells.push(cell);
    }
  }
  at("map").replaceChildren(
    ...cells,
    make("span"),
    ...Array.from({ length: HEADS }, (_, i) => make("span", i + 1)),
  );
}

const about = (name) => {
  const { score, low, high } = scores.get(name);
  const change = moved.get(name);
  const told = change
    ? ` Off alone: your sentence ${signed(change[0])}, control ${signed(change[1])}, fact ${signed(change[2])} bits.`
    : "";
  return `Head ${name}: bias score ${small(score)} [${small(low)}, ${small(high)}]${low <= 0 && high >= 0 ? ", which includes 0" : ""}.${told}`;
};

function showMap() {
  const by = fields.colour.value;
  const of = (name) => (by === "score" ? scores.get(name).score : (moved.get(name)?.[by] ?? 0));
  const reach =
    by === "score"
      ? most
      : Math.max(0.5, ...Array.from(moved.values(), (change) => Math.abs(change[by])));
  const [up, down] = by === "score" ? ["--biased", "--fair"] : ["--female", "--male"];
  for (const cell of at("map").querySelectorAll("button")) {
    const name = cell.dataset.head;
    const { low, high } = scores.get(name);
    const value = of(name);
    cell.setAttribute("aria-checked", String(!state.off.includes(name)));
    cell.setAttribute("aria-label", about(name));
    cell.tabIndex = name === state.look ? 0 : -1;
    cell.classList.toggle("vague", by === "score" && low <= 0 && high >= 0);
    cell.style.setProperty("--tint", `var(${value > 0 ? up : down})`);
    cell.style.setProperty("--share", `${100 * Math.min(1, Math.abs(value) / reach) ** 0.7}%`);
  }
  const box = (color, hatched) => {
    const one = make("i", "", "box");
    one.style.background = hatched
      ? "repeating-linear-gradient(-45deg, transparent 0 3px, var(--soft) 3px 4px)"
      : `var(${color})`;
    return one;
  };
  at("legend").replaceChildren(
    ...(by === "score"
      ? [
          box(up),
          "the head raises bias (SEAT) ",
          box(down),
          "lowers it ",
          box("", true),
          "the 95 % interval includes 0. × is off.",
        ]
      : moved.size
        ? [box(up), "without it more female words ", box(down), "more male ones. × is off."]
        : ["Nothing tried yet: press Try all 144."]),
  );
  showHead(state.look);
}

const showHead = (name) => {
  at("head").textContent = about(name);
};

async function tryAll() {
  forget();
  const mine = (mapping = ++count);
  busy(true);
  try {
    const questions = CARDS.map((name, i) => ({
      sentence: blank(state[name]),
      front: blank(state.front),
      pair: answers[i].pair,
    }));
    const base = await Promise.all(questions.map((one) => call("ask", { ...one, change: {} })));
    if (fields.colour.value === "score") fields.colour.value = "0";
    await call("map", { questions }, ({ head, odds }) => {
      if (mapping !== mine) return;
      moved.set(
        head,
        odds.map((value, i) => value - base[i].after),
      );
      at("progress").value = moved.size;
      if (moved.size % HEADS === 0) showMap();
    });
  } catch (error) {
    refuse("sentence", error.message);
  }
  if (mapping === mine) {
    mapping = 0;
    busy(false);
  }
  showMap();
}

function busy(is) {
  const isHeld = document.activeElement === at(is ? "every" : "stop"); // or the keyboard's place would be lost
  at("progress").hidden = at("stop").hidden = !is;
  at("every").hidden = is;
  at("progress").value = 0;
  if (isHeld) at(is ? "stop" : "every").focus();
}

// What the sentences were asked before is nothing to the new ones.
function forget() {
  moved = new Map();
  if (mapping) stopMap();
}

function stopMap() {
  mapping = 0;
  busy(false);
  call("stop");
}

// ---- the same in Python
function code() {
  const list = (index) => `[${state.off.map((name) => name.split("-")[index] - 1).join(", ")}]`;
  const text = JSON.stringify(
    `${blank(state.front).trim()} ${blank(state.sentence).trim()}`.trim(),
  );
  const lines = [
    `import torch; from lib import fill, head_mask, load${state.out ? ", project; from lib.projective import projection; from lib.text import pairs" : ""}`,
    `bert = load("mini-bert"); mask = torch.ones(${LAYERS}, ${HEADS})${state.off.length ? `; mask[${list(0)}, ${list(1)}] = 0` : ""}`,
  ];
  if (state.out) {
    lines.push(
      "gender = projection.fit(bert, pairs.written()).interventions(projection.Setting(tokens=projection.Cut(weighted=False)))",
    );
  }
  lines.push(
    `with head_mask(bert, mask)${state.out ? ", project(bert, gender)" : ""}: print(fill.top(bert, ${text}))`,
  );
  return lines.join("\n");
}

async function copy(what) {
  const text = what === "code" ? code() : location.href;
  try {
    await navigator.clipboard.writeText(text);
    at("copied").textContent = "Copied.";
  } catch {
    // not every browser lets a file write to the clipboard
    if (what === "link") at("code").querySelector("pre").textContent = text;
    getSelection().selectAllChildren(at("code").querySelector("pre"));
    at("copied").textContent = "Marked: copy it with Ctrl+C.";
  }
}

// ---- showing the state, and what the reader does
function showState() {
  for (const name of ["front", ...CARDS]) {
    if (document.activeElement !== fields[name]) fields[name].value = state[name];
  }
  fields.out.checked = state.out;
  fields.guess.checked = state.guess;
  const same = (thing) =>
    Object.entries(thing.state).every(([name, value]) => String(value) === String(state[name]));
  const thing = data.things.find(same);
  for (const button of document.querySelectorAll("[data-thing]")) {
    button.setAttribute("aria-pressed", String(button.dataset.thing === thing?.id));
  }
  at("thing").hidden = !thing;
  if (thing) {
    for (const part of ["paper", "found", "source"]) {
      at("thing").querySelector(`.${part}`).textContent = thing[part];
    }
  }
  at("on").disabled = !state.off.length;
  at("copied").textContent = "";
  at("code").querySelector("pre").textContent = code();
  showMap();
}

function listen() {
  form.addEventListener("input", ({ target: { name, type, value, checked } }) => {
    if (type === "checkbox") return set({ [name]: checked });
    if (name === "colour") return showMap();
    if (name === "guessed") {
      at("guessing").querySelector("output").textContent = signed(Number(value));
      return;
    }
    clearTimeout(later);
    typed[name] = value;
    later = setTimeout(() => set({}), 350);
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  at("see").addEventListener("click", () => {
    isOpen = true;
    showAnswers();
    at("verdict").focus();
  });
  at("reset").addEventListener("click", () => set({ ...START, guess: state.guess }));
  at("on").addEventListener("click", () => set({ off: [] }));
  at("every").addEventListener("click", tryAll);
  at("stop").addEventListener("click", stopMap);
  for (const button of document.querySelectorAll("[data-thing]")) {
    const thing = data.things.find((one) => one.id === button.dataset.thing);
    button.addEventListener("click", () =>
      set({ ...thing.state, look: thing.state.off[0] ?? state.look }),
    );
  }
  for (const button of document.querySelectorAll("[data-copy]")) {
    button.addEventListener("click", () => copy(button.dataset.copy));
  }
  const map = at("map");
  const of = (event) => event.target.dataset?.head;
  map.addEventListener("click", (event) => {
    const name = of(event);
    if (name) {
      set({
        look: name,
        off: state.off.includes(name)
          ? state.off.filter((one) => one !== name)
          : [...state.off, name],
      });
    }
  });
  map.addEventListener("mouseover", (event) => {
    if (of(event)) showHead(of(event));
  });
  map.addEventListener("mouseleave", () => showHead(state.look));
  map.addEventListener("keydown", (event) => {
    const step = { ArrowUp: [1, 0], ArrowDown: [-1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[
      event.key
    ];
    const name = of(event);
    if (!step || !name) return;
    event.preventDefault();
    const [layer, head] = name.split("-").map(Number);
    const next = `${layer + step[0]}-${head + step[1]}`;
    if (!scores.has(next)) return;
    map.querySelector(`[data-head="${next}"]`).focus();
    set({ look: next });
  });
  addEventListener("hashchange", () => {
    if (document.getElementById(location.hash.slice(1))) {
      return history.replaceState(null, "", address());
    } // "Skip to"
    readAddress();
    set({ sentence: state.sentence });
  });
}

async function open() {
  readAddress();
  drawMap();
  showState();
  listen();
  const weights = read("weights");
  at("weights").remove();
  await call("open", { data, weights });
  await set({ sentence: state.sentence });
}

const opened = open();
