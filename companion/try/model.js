// BERT, as far as the word in a blank needs it: embeddings, layers of attention and feed-forward, the vocabulary head.
// A list of vectors, one a token, is one Float32Array, row after row. Weights come as 8-bit integers with a scale for
// each row, and are multiplied out once, when the page opens.

// The weights by name: matrices are {rows, columns, values}, biases and norms are Float32Arrays.
function unpacked(manifest, bytes) {
  const weights = {};
  for (const [name, { shape, floats, integers }] of Object.entries(manifest)) {
    const [rows, columns] = shape;
    const numbers = new Float32Array(bytes, floats, rows);
    if (integers === undefined) {
      weights[name] = numbers;
      continue;
    }
    const small = new Int8Array(bytes, integers, rows * columns);
    const values = new Float32Array(rows * columns);
    for (let row = 0, i = 0; row < rows; row++) {
      for (const end = i + columns; i < end; i++) values[i] = small[i] * numbers[row];
    }
    weights[name] = { rows, columns, values };
  }
  return weights;
}

const rowOf = (matrix, columns, row) => matrix.subarray(row * columns, (row + 1) * columns);

// x W^T + bias for the vectors of x: four rows of W by two vectors at a time, so that what is read once is used often.
// (Views of one row each are twice as fast as indices into the whole: the engine then leaves out its bounds checks.)
function linear(x, { rows, columns, values }, bias) {
  const n = x.length / columns;
  const out = new Float32Array(n * rows);
  for (let r = 0; r < rows; r += 4) {
    const p = rowOf(values, columns, r);
    const q = rowOf(values, columns, r + 1);
    const g = rowOf(values, columns, r + 2);
    const h = rowOf(values, columns, r + 3);
    for (let t = 0; t < n; t += 2) {
      const next = Math.min(t + 1, n - 1);
      const u = rowOf(x, columns, t);
      const v = rowOf(x, columns, next); // an odd one is done twice
      let pu = 0;
      let pv = 0;
      let qu = 0;
      let qv = 0;
      let gu = 0;
      let gv = 0;
      let hu = 0;
      let hv = 0;
      for (let i = 0; i < columns; i++) {
        const y = u[i];
        const z = v[i];
        pu += p[i] * y;
        pv += p[i] * z;
        qu += q[i] * y;
        qv += q[i] * z;
        gu += g[i] * y;
        gv += g[i] * z;
        hu += h[i] * y;
        hv += h[i] * z;
      }
      out.set([pu + bias[r], qu + bias[r + 1], gu + bias[r + 2], hu + bias[r + 3]], t * rows + r);
      out.set(
        [pv + bias[r], qv + bias[r + 1], gv + bias[r + 2], hv + bias[r + 3]],
        next * rows + r,
      );
    }
  }
  return out;
}

// Each vector with mean 0 and variance 1, then scaled and shifted; `also` is added first.
function norm(x, gain, shift, also) {
  const width = gain.length;
  for (let start = 0; start < x.length; start += width) {
    let mean = 0;
    let variance = 0;
    for (let i = 0; i < width; i++) {
      if (also) x[start + i] += also[start + i];
      mean += x[start + i] / width;
    }
    for (let i = 0; i < width; i++) variance += (x[start + i] - mean) ** 2 / width;
    const scale = 1 / Math.sqrt(variance + 1e-12);
    for (let i = 0; i < width; i++) {
      x[start + i] = (x[start + i] - mean) * scale * gain[i] + shift[i];
    }
  }
  return x;
}

// x Phi(x), with Phi by Abramowitz and Stegun 7.1.26: at most 1.5e-7 off.
function gelu(x) {
  for (let i = 0; i < x.length; i++) {
    const z = Math.abs(x[i]) * Math.SQRT1_2;
    const t = 1 / (1 + 0.3275911 * z);
    const tail =
      t *
      (0.254829592 +
        t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429)))) *
      Math.exp(-z * z);
    x[i] *= x[i] < 0 ? tail / 2 : 1 - tail / 2;
  }
  return x;
}

function softmax(x) {
  let most = -Infinity;
  let total = 0;
  for (const value of x) most = Math.max(most, value);
  for (let i = 0; i < x.length; i++) total += x[i] = Math.exp(x[i] - most);
  for (let i = 0; i < x.length; i++) x[i] /= total;
  return x;
}

class Model {
  constructor({ layers, heads, manifest }, bytes) {
    Object.assign(this, { layers, heads });
    this.weights = unpacked(manifest, bytes);
    this.width = this.weights.words.columns;
    this.direction = this.weights.direction; // of gender, of length 1, in what leaves the second-to-last layer
    this.kept = new Map(); // what entered each layer of an untouched model, for the last texts
  }

  // {probabilities, weights}: of every word at `place`, and how the head `look` spreads its attention from there.
  // off: "12-9" for each head switched off, layers and heads from 1; out: whether the gender direction is projected out.
  // What lies below the first change is not computed again.
  answer(ids, place, { off = [], out = false, look = "12-1" } = {}) {
    const name = ids.join();
    const known = this.kept.get(name);
    const last = this.layers - 1;
    const changed = [...off.map((head) => parseInt(head) - 1), ...(out ? [last] : [])];
    const isUntouched = !changed.length;
    const first = known ? Math.min(last, parseInt(look) - 1, ...changed) : 0;
    const entered = known ? known.slice(0, first + 1) : [this.embedded(ids)];
    const heads = new Set(off);
    const looking = [];
    const places = ids.map((_, i) => i);
    let states = entered[first];
    for (let layer = first; layer <= last; layer++) {
      if (layer === last && out) states = this.projected(states);
      const queries = layer === last ? [place] : places;
      const spread = this.layer(states, layer, queries, heads);
      if (layer === parseInt(look) - 1) {
        looking.push(...spread.weights[look.split("-")[1] - 1][queries.indexOf(place)]);
      }
      states = spread.states;
      entered.push(states);
    }
    if (isUntouched && !known) this.keep(name, entered);
    return { probabilities: softmax(this.vocabulary(states)), weights: looking };
  }

  keep(name, entered) {
    this.kept.set(name, entered);
    if (this.kept.size > 12) this.kept.delete(this.kept.keys().next().value);
  }

  embedded(ids) {
    const { words, positions, kind } = this.weights;
    const width = this.width;
    const x = new Float32Array(ids.length * width);
    ids.forEach((id, t) => {
      for (let i = 0; i < width; i++) {
        x[t * width + i] = words.values[id * width + i] + positions.values[t * width + i] + kind[i];
      }
    });
    return norm(x, this.weights["embeddings.gain"], this.weights["embeddings.shift"]);
  }

  // A layer, for the tokens `queries` alone: in the last one nothing but the blank is needed.
  layer(states, number, queries, off) {
    const of = (part) => this.weights[`${number}.${part}`];
    const through = (x, part) => linear(x, of(part), of(`${part}.bias`));
    const width = this.width;
    const asking = new Float32Array(queries.length * width);
    queries.forEach((token, i) =>
      asking.set(states.subarray(token * width, (token + 1) * width), i * width),
    );
    const { mixed, weights } = this.attention(
      through(asking, "query"),
      through(states, "key"),
      through(states, "value"),
    );
    mixed.forEach((output, head) => {
      if (off.has(`${number + 1}-${head + 1}`)) output.fill(0);
    });
    const seen = norm(
      through(this.beside(mixed), "mix"),
      of("seen.gain"),
      of("seen.shift"),
      asking,
    );
    const thought = through(gelu(through(seen, "wide")), "narrow");
    return { states: norm(thought, of("gain"), of("shift"), seen), weights };
  }

  // For each head: its output, a vector for each query, and the weights with which it looks at the tokens.
  attention(queries, keys, values) {
    const width = this.width;
    const size = width / this.heads;
    const tokens = keys.length / width;
    const asked = queries.length / width;
    const mixed = [];
    const weights = [];
    for (let head = 0; head < this.heads; head++) {
      const output = new Float32Array(asked * size);
      const rows = [];
      for (let q = 0; q < asked; q++) {
        const row = new Float32Array(tokens);
        const from = q * width + head * size;
        for (let t = 0; t < tokens; t++) {
          const at = t * width + head * size;
          for (let i = 0; i < size; i++) row[t] += queries[from + i] * keys[at + i];
          row[t] /= Math.sqrt(size);
        }
        softmax(row);
        for (let t = 0; t < tokens; t++) {
          const at = t * width + head * size;
          for (let i = 0; i < size; i++) output[q * size + i] += row[t] * values[at + i];
        }
        rows.push(row);
      }
      mixed.push(output);
      weights.push(rows);
    }
    return { mixed, weights };
  }

  // The heads' outputs side by side, as W^O takes them.
  beside(mixed) {
    const width = this.width;
    const size = width / this.heads;
    const x = new Float32Array(mixed[0].length * this.heads);
    mixed.forEach((output, head) => {
      for (let i = 0; i < output.length; i++) {
        x[Math.floor(i / size) * width + head * size + (i % size)] = output[i];
      }
    });
    return x;
  }

  // Each vector without its part along the gender direction.
  projected(states) {
    const width = this.width;
    const left = states.slice();
    const { direction } = this;
    for (let start = 0; start < left.length; start += width) {
      let along = 0;
      for (let i = 0; i < width; i++) along += left[start + i] * direction[i];
      for (let i = 0; i < width; i++) left[start + i] -= along * direction[i];
    }
    return left;
  }

  // The vocabulary's logits for one vector.
  vocabulary(state) {
    const { weights } = this;
    const x = gelu(linear(state, weights.transform, weights["transform.bias"]));
    return linear(
      norm(x, weights["transform.gain"], weights["transform.shift"]),
      weights.words,
      weights["words.bias"],
    );
  }
}
