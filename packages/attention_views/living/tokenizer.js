// Byte-pair encoding, as in bpe.py: text to ids and back. A token is a string with one
// character, from 0 to 255, for each of its bytes.

// Where GPT-2 splits a text; \p{White_Space} is what Python and Rust call \s.
const CUTS = new RegExp(
  String.raw`'(?:[stmd]|re|ve|ll)| ?\p{L}+| ?\p{N}+| ?[^\p{White_Space}\p{L}\p{N}]+` +
    String.raw`|\p{White_Space}+(?!\P{White_Space})|\p{White_Space}+`,
  "gu",
);

const toBytes = (text) =>
  Array.from(new TextEncoder().encode(text), (byte) => String.fromCharCode(byte)).join("");
const fromBytes = (bytes) => Uint8Array.from(bytes, (byte) => byte.charCodeAt(0));

class Tokenizer {
  // tokens: the bytes of each id. special: {id: name}. merges: [left, right], the
  // first one learned first; null where a token is a whole word.
  constructor({ tokens, special, merges, unknown }) {
    Object.assign(this, { tokens, special, unknown, made: merges && new Map() });
    this.idOf = new Map();
    tokens.forEach((token, id) => id in special || this.idOf.set(token, id));
    merges?.forEach(([left, right], rank) => {
      const id = this.idOf.get(tokens[left] + tokens[right]);
      this.made.set(`${left} ${right}`, { left, right, id, rank });
    });
  }

  encode(text) {
    return (text.match(CUTS) ?? []).flatMap((word) => this.encodeWord(toBytes(word)));
  }

  // Merge within one word: of all pairs in it, first the one that was learned first.
  encodeWord(word) {
    if (!this.made) return [this.idOf.get(word) ?? this.unknown];
    let ids = [...word].map((byte) => this.idOf.get(byte));
    for (;;) {
      let best = null;
      for (let i = 1; i < ids.length; i++) {
        const merge = this.made.get(`${ids[i - 1]} ${ids[i]}`);
        if (merge && !(best?.rank <= merge.rank)) best = merge;
      }
      if (!best) return ids;
      const joined = [];
      for (let i = 0; i < ids.length; i++) {
        const pair = ids[i] === best.left && ids[i + 1] === best.right;
        joined.push(pair ? best.id : ids[i]);
        if (pair) i++;
      }
      ids = joined;
    }
  }

  // A function from the next id to the text that it adds: a letter of several bytes
  // appears with its last byte.
  reader() {
    const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
    return (id) =>
      this.special[id] ?? decoder.decode(fromBytes(this.tokens[id]), { stream: true });
  }

  // One token by itself, for a list; half a letter as its bytes: <E2>.
  name(id) {
    if (id in this.special) return this.special[id];
    const bytes = fromBytes(this.tokens[id]);
    const text = new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes);
    const hex = (byte) => `<${byte.toString(16).toUpperCase().padStart(2, "0")}>`;
    return text.includes("\ufffd") ? Array.from(bytes, hex).join("") : text;
  }
}
