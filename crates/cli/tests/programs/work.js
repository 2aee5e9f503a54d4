// Objects, strings and typed arrays: prints what depends on every byte of them.
const crypto = require("crypto");

let state = 12345;
const number = () => (state = (state * 1103515245 + 12345) % 2147483648);

const map = new Map();
for (let i = 0; i < 200000; i++) map.set(`key ${number() % 50000}`, { i, text: "x".repeat(number() % 50) });
const entries = [...map.entries()].sort((a, b) => (a[0] < b[0] ? -1 : 1));
console.log(crypto.createHash("sha256").update(JSON.stringify(entries)).digest("hex"));

const buffer = new Uint32Array(4 << 20);
for (let i = 0; i < buffer.length; i++) buffer[i] = (i * 2654435761) >>> 0;
console.log(crypto.createHash("sha256").update(buffer).digest("hex"), map.size);

let rounds = 0;
const again = () => {
  const parts = Array.from({ length: 20000 }, (_, i) => ({ value: (i * 31 + rounds) % 977 }));
  state = parts.reduce((sum, part) => (sum * 33 + part.value) % 2147483648, state);
  if (++rounds < 200) setImmediate(again);
  else console.log(state);
};
again();
