// The locales, and how options are read. Each option of the standard is followed or refused by name, never ignored.
const LOCALES = ["en-US", "en-GB", "zh-CN", "ja-JP", "ko-KR", "de-DE", "fr-FR", "es-ES", "pt-BR"];
// A language alone means the same as its locale here: the recorded texts are equal.
const LANGUAGES = { en: "en-US", zh: "zh-CN", ja: "ja-JP", ko: "ko-KR", de: "de-DE", fr: "fr-FR", es: "es-ES", pt: "pt-BR" };
const tags = new Map([...LOCALES.map((tag) => [tag.toLowerCase(), tag]), ...Object.keys(LANGUAGES).map((tag) => [tag, tag])]);

const listed = (locales) => {
  if (locales === undefined) return [];
  if (locales === null) throw new TypeError("locales are null: a locale is a string, for example \"en-US\"");
  const list = typeof locales === "string" ? [locales] : Array.from(Object(locales));
  for (const tag of list) {
    if (typeof tag !== "string") throw new TypeError(`a locale is a string, not ${typeof tag}`);
  }
  return list;
};

// The first locale of the list decides. Taking a later one could differ from what Node.js does.
const resolved = (locales) => {
  const [first = "en-US"] = listed(locales);
  const tag = tags.get(first.toLowerCase());
  if (tag !== undefined) return { tag, name: LANGUAGES[tag] ?? tag };
  throw new RangeError(`the locale "${first}" is not supported in code nodes; supported are ${LOCALES.join(", ")}`);
};

const supportedLocalesOf = (locales) => listed(locales).map((tag) => tags.get(tag.toLowerCase())).filter((tag) => tag !== undefined);

const tables = {};
const table = (name) => (tables[name] ??= JSON.parse(host.table(name)));

// Reads options of one constructor.
const reader = (owner, given) => {
  if (given === null) throw new TypeError(`the options of ${owner} are null`);
  const options = given === undefined ? Object.create(null) : Object(given);
  const refuse = (name, value, supported) => {
    throw new RangeError(`the option ${name}: ${JSON.stringify(value)} of ${owner} is not supported in code nodes; supported: ${supported}`);
  };
  const choice = (name, supported, fallback) => {
    if (options[name] === undefined) return fallback;
    const value = String(options[name]);
    if (!supported.includes(value)) refuse(name, value, supported.map((one) => JSON.stringify(one)).join(", "));
    return value;
  };
  const number = (name, least, most, fallback) => {
    if (options[name] === undefined) return fallback;
    const value = Number(options[name]);
    if (!(value >= least && value <= most)) throw new RangeError(`${name} value is out of range: ${least} to ${most} in ${owner}`);
    return Math.floor(value);
  };
  return { options, refuse, choice, number };
};

const define = (target, name, value) => Object.defineProperty(target, name, { value, writable: true, enumerable: false, configurable: true });
const unsupported = (what, instead) => {
  throw new TypeError(`${what} is not supported in code nodes; supported are Intl.NumberFormat, Intl.DateTimeFormat and Intl.Collator${instead ?? ""}`);
};
const joined = (parts) => parts.map(({ value }) => value).join("");
const made = { Intl: {}, methods: {} };
