// Writes `cases.json`: expressions, and the texts that a current Node.js gives for them. The tests compare.
import { readFileSync, writeFileSync } from "node:fs";

const locales = ["en-US", "en-GB", "zh-CN", "ja-JP", "ko-KR", "de-DE", "fr-FR", "es-ES", "pt-BR"];
const cases = [];
const add = (text) => cases.push([text, String((0, eval)(text))]);
const json = (value) => JSON.stringify(value);

const numbers = ["1234567.891", "-1234.5", "0", "1005e-3", "1e21", "NaN", "-Infinity", "12345678901234567890n"];
const numberOptions = [
  undefined, { style: "percent" }, { style: "percent", minimumFractionDigits: 1 }, { maximumFractionDigits: 0 }, { minimumFractionDigits: 2, maximumFractionDigits: 2 },
  { maximumSignificantDigits: 3 }, { useGrouping: false }, { signDisplay: "exceptZero" },
  ...["USD", "EUR", "GBP", "JPY", "CNY", "KRW", "BRL", "CHF"].map((currency) => ({ style: "currency", currency })),
  { style: "currency", currency: "USD", currencySign: "accounting" }, { style: "currency", currency: "EUR", currencyDisplay: "code" },
  { style: "currency", currency: "CAD", currencyDisplay: "narrowSymbol", minimumFractionDigits: 0 },
];
locales.forEach((locale, first) => numberOptions.forEach((options, second) => {
  const value = numbers[(first + second) % 2 === 0 ? 0 : (first * 7 + second) % numbers.length];
  add(`(${value}).toLocaleString(${json(locale)}${options ? `, ${json(options)}` : ""})`);
}));
for (const locale of locales) {
  add(`(1234).toLocaleString(${json(locale)})`);
  add(`JSON.stringify(new Intl.NumberFormat(${json(locale)}, {style: "currency", currency: "EUR"}).formatToParts(-1234.5))`);
}

const dates = ["new Date(Date.UTC(2026, 0, 2, 15, 4, 5, 67))", "new Date(Date.UTC(2026, 6, 31, 0, 0, 0))", "new Date(Date.UTC(1999, 11, 31, 23, 59, 59, 999))"];
const zones = ["UTC", "Asia/Shanghai", "America/New_York", "Europe/Berlin", "Asia/Kolkata", "America/Sao_Paulo", "asia/tokyo", "Australia/Lord_Howe"];
const dateOptions = [
  {}, ...["full", "long", "medium", "short"].flatMap((style) => [{ dateStyle: style }, { timeStyle: style }, { dateStyle: style, timeStyle: style }]),
  { year: "numeric", month: "2-digit", day: "2-digit" }, { year: "numeric", month: "long" }, { month: "short", day: "numeric" },
  { weekday: "long", year: "numeric", month: "long", day: "numeric" }, { weekday: "short" }, { hour: "2-digit", minute: "2-digit" },
  { hour: "numeric", minute: "2-digit", hour12: true }, { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false },
  { hour: "numeric", hourCycle: "h23", minute: "2-digit", timeZoneName: "short" }, { year: "2-digit", month: "numeric", day: "numeric", hour: "numeric", minute: "numeric" },
  { minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3 }, { timeZoneName: "long" }, { timeZoneName: "longOffset" }, { weekday: "short", hour: "numeric", minute: "2-digit" },
];
locales.forEach((locale, first) => dateOptions.forEach((options, second) => {
  const method = options.timeStyle || options.dateStyle || second % 3 === 0 ? "toLocaleString" : second % 3 === 1 ? "toLocaleDateString" : "toLocaleTimeString";
  add(`${dates[(first + second) % 3]}.${method}(${json(locale)}, ${json({ timeZone: zones[(first * 5 + second) % zones.length], ...options })})`);
}));
for (const locale of locales) for (const method of ["toLocaleDateString", "toLocaleTimeString"]) add(`${dates[0]}.${method}(${json(locale)}, {timeZone: "UTC"})`);
for (const locale of locales) add(`JSON.stringify(new Intl.DateTimeFormat(${json(locale)}, {timeZone: "America/New_York", dateStyle: "medium", timeStyle: "long"}).formatToParts(${dates[1]}))`);

const words = ["zebra", "Äpfel", "apfel", "Apfel", "été", "ete", "Straße", "Strasse", "ñandú", "nube", "œuvre", "item 10", "item 2", "_x", "-x", "東京", "北京", "上海", "咖啡", "啊", "阿", "あい", "アイ", "가나", "나가", "佳", "1", "10", "2", "彪", "曠"];
for (const locale of ["", ...locales]) {
  for (const options of ["", "{numeric: true}", "{sensitivity: \"base\"}", "{caseFirst: \"upper\"}", "{ignorePunctuation: true}"]) {
    if (!locale && options) continue;
    const rest = [locale && json(locale), options].filter(Boolean).join(", ");
    add(`${json(words)}.sort((a, b) => a.localeCompare(b${rest && `, ${rest}`})).join()`);
  }
  if (!locale) continue;
  add(`${json(words)}.reverse().sort(new Intl.Collator(${json(locale)}).compare).join()`);
}
// Words of Han characters, common and rare, in an order that is the same each time.
let seed = 7;
const next = (most) => {
  seed = (Math.imul(seed, 1103515245) + 12345) >>> 0;
  return (seed >>> 9) % most;
};
const rare = Object.values(JSON.parse(readFileSync("tables/han.json", "utf8"))).map((groups) => [...groups.replaceAll(" ", "")]);
for (const locale of ["en-US", "zh-CN", "ja-JP", "ko-KR", "fr-FR"]) for (const list of rare) {
  const one = () => (next(2) ? list[next(list.length)] : String.fromCodePoint(0x4e00 + next(0x5200)));
  const some = [...Array(60)].map(() => one() + (next(2) ? one() : ""));
  add(`${json(some)}.sort((a, b) => a.localeCompare(b, ${json(locale)})).join()`);
}
for (const sensitivity of ["base", "accent", "case", "variant"]) add(`[["a", "A"], ["a", "á"], ["a", "b"]].map(([a, b]) => a.localeCompare(b, "en", {sensitivity: "${sensitivity}"})).join()`);

for (const zone of ["Africa/Casablanca", "Africa/El_Aaiun", "America/Edmonton", "America/Vancouver", "America/Yellowknife", "Canada/Mountain", "Canada/Pacific", "America/Tijuana"]) {
  for (const [year, month] of [[2026, 1], [2026, 2], [2026, 8], [2026, 11], [2027, 2], [2040, 6], [1980, 6]]) {
    add(`new Date(Date.UTC(${year}, ${month}, 20, 12)).toLocaleString("en-GB", {timeZone: "${zone}", timeZoneName: "shortOffset"})`);
  }
}
for (const text of [
  "(1234.5).toLocaleString(\"en-US\")", "(1234.5).toLocaleString()", "(12n).toLocaleString()", "(1234.5).toLocaleString([\"de-DE\", \"en-US\"])", "(1234.5).toLocaleString(\"DE-de\")",
  "[1234.5, null, new Date(0)].toLocaleString(\"de-DE\", {timeZone: \"UTC\"})", "new Uint16Array([1000, 2000]).toLocaleString(\"de-DE\")", "new Date(NaN).toLocaleString(\"en-US\")",
  "\"straße\".toLocaleUpperCase(\"de-DE\")", "\"ÀB\".toLocaleLowerCase()", "new Intl.NumberFormat(\"en-US\").format(\"1234567890123456789.25\")", "[3, 1].map(new Intl.NumberFormat(\"fr-FR\", {style: \"percent\"}).format).join()",
  "Intl.NumberFormat(\"de\").resolvedOptions().locale", "new Intl.DateTimeFormat(\"en-US\", {timeZone: \"asia/shanghai\"}).resolvedOptions().timeZone", "typeof Intl", "String(Intl)",
  "Object.keys(globalThis).includes(\"Intl\")", "new Intl.NumberFormat() instanceof Intl.NumberFormat",
]) add(text);
writeFileSync("cases.json", `[\n${cases.map(json).join(",\n")}\n]\n`);
console.log(cases.length);
