// Answers the page, beside it: a question at a time, and between two heads of a map whatever else is asked.
// A message has a number, which its answer carries too.

let tokenizer;
let model;
let wanted = 0; // the number of the map that is wanted, 0 for none

const PAIRS = [
  ["she", "he"],
  ["her", "his"],
  ["her", "him"],
  ["herself", "himself"],
];

function odds(probabilities, pair) {
  const [first, second] = pair.map((word) => probabilities[tokenizer.numbers.get(word)]);
  return Math.log2(first / second);
}

const together = (probabilities, pair) =>
  pair.reduce((sum, word) => sum + probabilities[tokenizer.numbers.get(word)], 0);

// Of "her crown" and "herself" different pronouns are asked.
function likeliestPair(probabilities) {
  return PAIRS.reduce((best, pair) =>
    together(probabilities, pair) > together(probabilities, best) ? pair : best,
  );
}

// What the page waits for after each kind of message.
const replies = {
  open({ data, weights }) {
    const text = atob(weights);
    const bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
    tokenizer = new Tokenizer(data.tokenizer);
    model = new Model(data.model, bytes.buffer);
    return {};
  },

  encode: ({ texts }) => texts.map((text) => tokenizer.encode(text)),

  // What the sentence gets before any change and after it: the pair of pronouns that fits it best, log2 of first : second
  // at both times, the probability of both together (`kept`), the likeliest words after it with their probabilities at both, and where a head looks from the blank.
  ask({ sentence, front, change, most = 6 }) {
    const alone = tokenizer.question(sentence);
    const whole = tokenizer.question(sentence, front);
    const before = model.answer(alone.ids, alone.place).probabilities;
    const { probabilities: after, weights } = model.answer(whole.ids, whole.place, change);
    const pair = likeliestPair(before);
    const order = Array.from(after.keys()).sort((a, b) => after[b] - after[a]);
    return {
      pair,
      before: odds(before, pair),
      after: odds(after, pair),
      weights,
      kept: [together(before, pair), together(after, pair)],
      fillers: order.slice(0, most).map((id) => [tokenizer.words[id], before[id], after[id]]),
      tokens: whole.ids.map((id) => tokenizer.words[id]),
      place: whole.place,
    };
  },

  // Each head switched off alone: a report {head, odds: [log2 of first : second, for each question]} as it is known.
  async map({ number, questions }) {
    wanted = number;
    const asked = questions.map((one) => ({
      ...tokenizer.question(one.sentence, one.front),
      pair: one.pair,
    }));
    for (const { ids, place } of asked) model.answer(ids, place); // what is below a head is kept
    for (let layer = model.layers; layer >= 1; layer--) {
      for (let head = 1; head <= model.heads; head++) {
        const name = `${layer}-${head}`;
        const change = { off: [name], look: name };
        const found = asked.map(({ ids, place, pair }) =>
          odds(model.answer(ids, place, change).probabilities, pair),
        );
        self.postMessage({ number, report: { head: name, odds: found } });
        await new Promise((resume) => setTimeout(resume)); // other messages are read here
        if (wanted !== number) return { isStopped: true };
      }
    }
    return { isStopped: false };
  },

  stop() {
    wanted = 0;
    return {};
  },
};

self.onmessage = async ({ data }) => {
  try {
    self.postMessage({ number: data.number, reply: await replies[data.kind](data) });
  } catch (error) {
    if (error instanceof Problem) self.postMessage({ number: data.number, problem: error.message });
    else {
      self.postMessage({
        number: data.number,
        problem: `Something went wrong in the page: ${error.message}. Reload it.`,
      });
    }
  }
};
