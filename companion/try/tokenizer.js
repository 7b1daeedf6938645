// From text to token numbers, as Hugging Face's BertNormalizer, BertPreTokenizer and WordPiece do it.
// Which characters are removed, are spaces, stand alone or are punctuation is read from tables that the tokenizer itself
// gave when the page was built: its Unicode is older than the browser's.

const LONGEST_WORD = 100; // letters; a longer one is unknown
const MOST_TOKENS = 100; // of a text, so that an answer never takes long; the model itself reads 256
const MOST_LETTERS = 2000; // of a text, likewise: a word of any length is one token, unknown

// Something that the reader can put right: its message is shown as it is.
class Problem extends Error {}

class Tokenizer {
  // vocabulary: words by number; tables: {class: [first, last, first, last, ...]}; special: {"[MASK]": 4, ...}
  constructor({ vocabulary, tables, special }) {
    this.words = vocabulary;
    this.numbers = new Map(vocabulary.map((word, number) => [word, number]));
    this.special = new Map(Object.entries(special)); // an object would know "valueOf" too
    this.classes = new Map();
    for (const [name, edges] of Object.entries(tables)) {
      for (let i = 0; i < edges.length; i += 2) {
        for (let point = edges[i]; point <= edges[i + 1]; point++) this.classes.set(point, name);
      }
    }
  }

  // The numbers of a text's tokens, between [CLS] and [SEP].
  encode(text) {
    const found = [this.special.get("[CLS]")];
    for (const part of text.split(/(\[(?:PAD|UNK|CLS|SEP|MASK)\])/)) {
      if (this.special.has(part)) found.push(this.special.get(part));
      else for (const word of this.split(part)) found.push(...this.pieces(word));
    }
    return [...found, this.special.get("[SEP]")];
  }

  // Lower case, no accents, no control characters.
  normalised(text) {
    let kept = "";
    for (const character of text) {
      const kind = this.kind(character);
      if (kind === "space") kept += " ";
      else if (kind === "alone") kept += ` ${character} `;
      else if (kind !== "removed") kept += character;
    }
    let plain = "";
    for (const character of kept.normalize("NFD")) {
      if (this.kind(character) !== "removed") plain += character.toLowerCase(); // one by one: no final sigma
    }
    return plain;
  }

  // Words, and each mark of punctuation as one.
  split(text) {
    const words = [""];
    for (const character of this.normalised(text)) {
      const kind = this.kind(character);
      if (kind === "punctuation") words.push(character, "");
      else if (kind === "space") words.push("");
      else words[words.length - 1] += character;
    }
    return words.filter((word) => word);
  }

  // A word as the longest pieces that the vocabulary has, from the left.
  pieces(word) {
    const letters = [...word];
    const unknown = [this.special.get("[UNK]")];
    const found = [];
    if (letters.length > LONGEST_WORD) return unknown;
    for (let start = 0; start < letters.length;) {
      let end = letters.length;
      let number;
      for (; end > start; end--) {
        number = this.numbers.get((start ? "##" : "") + letters.slice(start, end).join(""));
        if (number !== undefined) break;
      }
      if (end === start) return unknown;
      found.push(number);
      start = end;
    }
    return found;
  }

  kind(character) {
    return this.classes.get(character.codePointAt(0));
  }

  // {ids, place}: a text with one [MASK], and where that stands; what cannot be asked is a Problem.
  question(sentence, front = "") {
    const blanks = sentence.split("[MASK]").length - 1;
    if (!sentence.trim()) {
      throw new Problem("The sentence is empty: write one, with [MASK] where a word is missing.");
    }
    if (!blanks) {
      throw new Problem("The sentence has no blank: write [MASK] where a word is missing.");
    }
    if (blanks > 1) {
      throw new Problem(
        `The sentence has ${blanks} blanks: leave one [MASK], and write words for the others.`,
      );
    }
    if (front.includes("[MASK]")) {
      throw new Problem(
        "The sentence in front has a blank too: write a word in place of its [MASK].",
      );
    }
    const text = `${front.trim()} ${sentence.trim()}`.trim();
    if (text.length > MOST_LETTERS) {
      throw new Problem(
        `This is ${text.length} letters long, and an answer would take long: shorten it to ${MOST_LETTERS}.`,
      );
    }
    const ids = this.encode(text);
    if (ids.length > MOST_TOKENS) {
      throw new Problem(
        `This is ${ids.length} tokens long, and an answer would take long: shorten it to ${MOST_TOKENS}, some ${0.8 * MOST_TOKENS} words.`,
      );
    }
    return { ids, place: ids.indexOf(this.special.get("[MASK]")) };
  }
}
