// Writes `tables/han.json`: the Han characters that Node.js puts elsewhere than the collator of this program does.
// `node han.mjs ORDERS`, where ORDERS is what `cargo test -p tidemill-sandbox order_of_han -- --ignored --nocapture` printed: a line
// for each language, its name and then all characters in order.
import { readFileSync, writeFileSync } from "node:fs";

// The positions of a longest rising sequence: these characters keep their places.
function rising(values) {
  const tails = [];
  const at = [];
  const before = Array(values.length).fill(-1);
  values.forEach((value, index) => {
    let low = 0;
    let high = tails.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (tails[middle] < value) low = middle + 1;
      else high = middle;
    }
    tails[low] = value;
    at[low] = index;
    before[index] = low ? at[low - 1] : -1;
  });
  const kept = new Set();
  for (let index = at[tails.length - 1]; index >= 0; index = before[index]) kept.add(index);
  return kept;
}

const written = {};
for (const [, language, text] of readFileSync(process.argv[2], "utf8").matchAll(/^(en|zh|ja|ko) (\S{1000,})$/gmu)) {
  const place = new Map([...text].map((one, index) => [one, index]));
  const order = [...place.keys()].sort(new Intl.Collator(language).compare);
  const kept = rising(order.map((one) => place.get(one)));
  const groups = [];
  order.forEach((one, index) => {
    if (kept.has(index)) groups.push([one]);
    else if (groups.length) groups.at(-1).push(one);
    else throw new Error(`${language}: ${one} has no character before it`);
  });
  written[language] = groups.filter((group) => group.length > 1).map((group) => group.join("")).join(" ");
}
writeFileSync("tables/han.json", JSON.stringify(written) + "\n");
