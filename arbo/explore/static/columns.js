// Columns of numbers and strings as bytes; see `arbo/explore/report.py`.

// Where lists of these lengths begin, and where the last ends; lengths below 0 count as 0.
export function startsOf(lengths) {
  const start = new Int32Array(lengths.length + 1);
  for (let i = 0; i < lengths.length; i++) start[i + 1] = start[i] + Math.max(0, lengths[i]);
  return start;
}

// The columns of a block: {head, columns}. Columns are typed arrays, and `Strings`.
export function unpacked(bytes) {
  const size = new DataView(bytes.buffer).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + size)));
  const columns = {};
  let at = 4 + size;
  for (const [name, kind, n] of head.columns) {
    const values = integers(bytes, at, n);
    at += 4 * n;
    if (kind === "d") for (let i = 1; i < n; i++) values[i] += values[i - 1];
    columns[name] = kind === "f" ? new Float32Array(values.buffer) : values;
    if (kind === "s") {
      const start = startsOf(values.map((length) => length + 1)), end = Math.max(at, at + start[n] - 1);
      columns[name] = new Strings(bytes.subarray(at, end), start);
      at = end;
    }
  }
  return { head, columns };
}

function integers(bytes, at, n) {
  const out = new Int32Array(n);
  const [second, third, fourth] = [at + n, at + 2 * n, at + 3 * n];
  for (let i = 0; i < n; i++) {
    out[i] = bytes[at + i] | (bytes[second + i] << 8) | (bytes[third + i] << 16) | (bytes[fourth + i] << 24);
  }
  return out;
}

// Strings, with a NUL between each two, that are decoded when they are asked for.
class Strings {
  constructor(bytes, start) {
    Object.assign(this, { bytes, start, length: start.length - 1, decoder: new TextDecoder("utf-8", { ignoreBOM: true }) });
  }
  at(i) {
    return this.decoder.decode(this.bytes.subarray(this.start[i], this.start[i + 1] - 1));
  }
  all() {
    return (this.every ??= this.length ? this.decoder.decode(this.bytes).split("\0") : []);
  }
  // Which strings have these words, whatever their case: 1 or 0 for each.
  having(words) {
    const found = new Uint8Array(this.length), wanted = words.toLowerCase();
    this.lowered ??= this.decoder.decode(this.bytes).toLowerCase();
    this.starts ??= startsOf(this.lowered.split("\0").map((text) => text.length + 1));
    for (let row = 0, at; row < this.length && (at = this.lowered.indexOf(wanted, this.starts[row])) >= 0; row++) {
      while (this.starts[row + 1] <= at) row++;
      found[row] = 1;
    }
    return found;
  }
  indexOf(text) {
    this.index ??= new Map(this.all().map((own, i) => [own, i]));
    return this.index.get(text) ?? -1;
  }
}
