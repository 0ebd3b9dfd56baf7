// Order of texts, and the parts of Intl that do not exist here.
const collatorRules = (locales, given) => {
  const { tag, name } = resolved(locales);
  const { choice, options } = reader("Intl.Collator", given);
  choice("localeMatcher", ["lookup", "best fit"]);
  choice("usage", ["sort"]);
  choice("collation", ["default"]);
  const sensitivity = choice("sensitivity", ["base", "accent", "case", "variant"], "variant");
  const caseFirst = choice("caseFirst", ["upper", "lower", "false"], "false");
  const numeric = Boolean(options.numeric);
  const ignorePunctuation = Boolean(options.ignorePunctuation);
  const keywords = (caseFirst === "false" ? "" : `-kf-${caseFirst}`) + (numeric ? "-kn" : "");
  // The data of Chinese is stored under its script.
  const language = (name === "zh-CN" ? "und-Hans" : name.slice(0, 2)) + (keywords && `-u${keywords}`);
  return { tag, name, rules: `${language}/${sensitivity}/${ignorePunctuation}`, resolved: { locale: tag, usage: "sort", sensitivity, ignorePunctuation, collation: "default", numeric, caseFirst } };
};

const HAN = /\p{Script=Han}/u;
// Some thousand Han characters are elsewhere in the order of Node.js. Each follows a character of the common order: it is compared
// as that character with a letter, so that it comes directly after it. The letters of `SEATS` are in the order of the locales.
const SEATS = [..."abcdefghijklmnopqrstuvwxyz"].flatMap((first) => [..."ab"].map((second) => first + second));
const seats = {};
const seated = (language) => (seats[language] ??= new Map(table("han")[language].split(" ").flatMap((group) => {
  const all = [...group];
  return all.map((one, index) => [one, all[0] + SEATS[index]]);
})));

const comparable = (text, language) => {
  const moved = seated(language);
  return text.replace(/\p{Script=Han}/gu, (one) => {
    if (!/[\u4e00-\u9fff\u3005\u3007]/.test(one)) {
      throw new RangeError(`the order of the rare character ${one} is not supported in code nodes; supported are the Han characters U+4E00 to U+9FFF`);
    }
    return moved.get(one) ?? one;
  });
};

const compared = ({ name, rules }, left, right) => {
  if (left === right) return 0;
  if (!left.isWellFormed() || !right.isWellFormed()) throw new RangeError("texts with half a surrogate pair cannot be compared by locale in code nodes");
  if (HAN.test(left) && HAN.test(right)) {
    const language = ["zh", "ja", "ko"].find((one) => name.startsWith(one)) ?? "en";
    return host.compare(rules, comparable(left, language), comparable(right, language));
  }
  return host.compare(rules, left, right);
};

function Collator(locales, options) {
  const rules = collatorRules(locales, options);
  const self = Object.create(Collator.prototype);
  define(self, "compare", (left, right) => compared(rules, String(left), String(right)));
  define(self, "resolvedOptions", () => ({ ...rules.resolved }));
  return self;
}
define(Collator, "supportedLocalesOf", supportedLocalesOf);
define(made.Intl, "Collator", Collator);
for (const name of ["DisplayNames", "DurationFormat", "ListFormat", "Locale", "PluralRules", "RelativeTimeFormat", "Segmenter"]) {
  const missing = function () { unsupported(`Intl.${name}`); };
  define(missing, "supportedLocalesOf", () => []);
  define(made.Intl, name, missing);
}
for (const name of ["getCanonicalLocales", "supportedValuesOf"]) define(made.Intl, name, () => unsupported(`Intl.${name}`));
Object.defineProperty(made.Intl, Symbol.toStringTag, { value: "Intl", configurable: true });

// Sorting compares many pairs with the same locale and options.
let last;
made.methods.compare = (left, right, locales, options) => {
  if (options !== undefined || typeof locales === "object") return compared(collatorRules(locales, options), left, right);
  if (!last || last.locales !== locales) last = { locales, rules: undefined };
  last.rules ??= collatorRules(locales);
  return compared(last.rules, left, right);
};
// Upper and lower case are the same in all these locales; Turkish and others, which differ, are refused.
made.methods.checked = resolved;
