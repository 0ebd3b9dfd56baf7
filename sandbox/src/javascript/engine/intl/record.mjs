// Records the tables of this folder from Node.js: its texts are the measure, so they are observed, not derived from rules.
// Run it with a current Node.js from this folder: `node record.mjs NAMES`, where NAMES is a file with a time zone a line.
import { readFileSync, writeFileSync } from "node:fs";

const locales = ["en-US", "en-GB", "zh-CN", "ja-JP", "ko-KR", "de-DE", "fr-FR", "es-ES", "pt-BR"];
const UTC = "UTC";
const at = (month, day, hour = 0, minute = 0, second = 0, ms = 0) => new Date(Date.UTC(2026, month, day, hour, minute, second, ms));
const months = [...Array(12).keys()].map((month) => at(month, 5));
const weekdays = [...Array(7).keys()].map((day) => at(1, 1 + day)); // 2026-02-01 is a Sunday.
const hours = [...Array(24).keys()].map((hour) => at(0, 2, hour));
const value = (format, date, index) => format.formatToParts(date)[index].value;

// One pattern: literals, and fields in braces. Names are numbered lists; equal lists have equal numbers.
function pattern(locale, options, lists) {
  const format = new Intl.DateTimeFormat(locale, { timeZone: UTC, ...options });
  const named = (kind, values) => {
    const text = JSON.stringify(values);
    const all = lists[kind].map((list) => JSON.stringify(list));
    if (!all.includes(text)) lists[kind].push(values);
    return `{${kind}${all.includes(text) ? all.indexOf(text) : lists[kind].length - 1}}`;
  };
  const padded = (index, date, letter) => {
    const text = value(format, date, index);
    if (text === "1") return `{${letter}}`;
    if (text === "01") return `{${letter}${letter}}`;
    throw new Error(`${locale} ${JSON.stringify(options)}: ${text}`);
  };
  return format.formatToParts(at(0, 1, 1, 1, 1, 111)).map((part, index) => {
    if (part.type === "literal") return part.value;
    if (part.type === "year") return part.value === "2026" ? "{y}" : "{yy}";
    if (part.type === "day") return padded(index, at(0, 1), "d");
    if (part.type === "minute") return padded(index, at(0, 1, 1, 1, 1), "m");
    if (part.type === "second") return padded(index, at(0, 1, 1, 1, 1), "s");
    if (part.type === "fractionalSecond") return "{f}";
    if (part.type === "timeZoneName") return "{z}";
    if (part.type === "month") {
      const values = months.map((date) => value(format, date, index));
      if (values[0] === "1" && values[11] === "12") return "{M}";
      if (values[0] === "01" && values[11] === "12") return "{MM}";
      return named("L", values);
    }
    if (part.type === "weekday") return named("E", weekdays.map((date) => value(format, date, index)));
    if (part.type === "dayPeriod") {
      const values = hours.map((date) => value(format, date, index));
      if (values.some((text, hour) => text !== values[hour < 12 ? 0 : 12])) throw new Error(`${locale}: periods of a day`);
      return named("a", [values[0], values[12]]);
    }
    if (part.type === "hour") {
      const seen = [0, 12, 13].map((hour) => Number(value(format, hours[hour], index))).join();
      const cycle = { "0,12,13": "H", "12,12,1": "h", "0,0,1": "K", "24,12,13": "k" }[seen];
      if (!cycle) throw new Error(`${locale}: hours ${seen}`);
      return padded(index, at(0, 1, 1), cycle);
    }
    throw new Error(`${locale}: ${part.type}`);
  }).join("");
}

const given = (options) => Object.fromEntries(Object.entries(options).filter(([, text]) => text !== undefined));
const digits = [undefined, "numeric", "2-digit"];
const names = [undefined, "narrow", "short", "long"];
const cycles = {
  "": {}, t: { hour12: true }, f: { hour12: false }, h11: { hourCycle: "h11" }, h12: { hourCycle: "h12" }, h23: { hourCycle: "h23" }, h24: { hourCycle: "h24" },
};
const letter = { numeric: "n", "2-digit": "2", narrow: "N", short: "s", long: "l" };
const code = (...fields) => fields.map((field) => (field === undefined ? "-" : letter[field])).join("");

function dates(locale, lists) {
  const found = {};
  for (const weekday of names) for (const year of digits) for (const month of [...digits, "narrow", "short", "long"]) for (const day of digits) {
    if (!weekday && !year && !month && !day) continue;
    found[code(weekday, year, month, day)] = pattern(locale, given({ weekday, year, month, day }), lists);
  }
  return found;
}

const zoned = { "": undefined, z: "short", zl: "long", zo: "shortOffset", zO: "longOffset" };
const timeKeys = function* () {
  for (const hour of digits) for (const minute of digits) for (const second of digits) for (const part of [undefined, 3, 2, 1]) for (const [tail, zone] of Object.entries(zoned)) {
    for (const [cycle, choice] of Object.entries(cycles)) {
      if (cycle && !hour) continue;
      if ((!hour && !minute && !second) || (part && !second) || (hour && second && !minute)) continue;
      const options = given({ hour, minute, second, fractionalSecondDigits: part, timeZoneName: zone, ...choice });
      yield { key: cycle + code(hour, minute, second), part: part ? `f${part}` : "", tail, options };
    }
  }
};

// A pattern that does not depend on the kind of the zone's name, or on the count of digits, is written once.
function times(locale, lists) {
  const found = {};
  for (const { key, part, tail, options } of timeKeys()) {
    const text = pattern(locale, options, lists);
    if (timeOf(found, key, part, tail) !== text) found[key + part + tail] = text;
  }
  return found;
}

const timeOf = (found, key, part, tail) => {
  const parts = part ? [part, "f3"] : [""];
  const tails = tail ? [tail, "z"] : [""];
  for (const one of tails) for (const other of parts) if (found[key + other + one] !== undefined) return found[key + other + one];
  return undefined;
};

function glueOf(locale, whole, date, time) {
  const left = whole.indexOf(date);
  if (left < 0) return null;
  const rest = whole.slice(0, left) + "{1}" + whole.slice(left + date.length);
  return rest.includes(time) ? rest.replace(time, () => "{0}") : null;
}

// How a date and a time are joined, and the whole patterns that are not joined in that way.
function glues(locale, tables, lists) {
  const found = {};
  const odd = {};
  const all = [...timeKeys()];
  const some = all.filter(({ key, part, options }) => !part && (options.minute ?? "2-digit") === "2-digit" && ["", "t", "h23"].includes(key.replace(/...$/, "")));
  for (const [key, date] of Object.entries(tables.dates)) {
    const [weekday, year, month, day] = [...key].map((one) => Object.keys(letter).find((name) => letter[name] === one));
    const fields = given({ weekday, year, month, day });
    const whole = pattern(locale, { ...fields, hour: "numeric", minute: "numeric", second: "numeric", hourCycle: "h23" }, lists);
    found[key] = glueOf(locale, whole, date, tables.times["h23nnn"]);
    for (const [tail, timeZoneName] of Object.entries(zoned)) {
      if (!tail) continue;
      const text = pattern(locale, { ...fields, timeZoneName }, lists);
      if (found[key]?.replace("{1}", () => date).replace("{0}", () => "{z}") !== text) odd[`${key} ${tail}`] = text;
    }
    const alone = !year && !month && !day;
    const whole_texts = {};
    let irregular = false;
    for (const { key: time, part, tail, options } of alone ? all : some) {
      const text = pattern(locale, { ...fields, ...options }, lists);
      const usual = found[key]?.replace("{1}", () => date).replace("{0}", () => timeOf(tables.times, time, part, tail));
      irregular ||= usual !== text;
      if (usual !== text || alone) whole_texts[`${key} ${time}${part}${tail}`] = text;
    }
    if (!irregular) continue;
    // A weekday alone often has its own patterns with times. The usual ones are kept, and others are refused.
    if (alone) found[key] = null;
    for (const [name, text] of Object.entries(whole_texts)) if (!alone || /^.... (t|f|h12|h23)?([^f]{3})z?$/.test(name)) odd[name] = text;
  }
  return { found, odd };
}

function styles(locale, lists) {
  const found = {};
  const all = [undefined, "full", "long", "medium", "short"];
  for (const dateStyle of all) for (const timeStyle of all) for (const [cycle, choice] of Object.entries(cycles)) {
    if (!dateStyle && !timeStyle) continue;
    const text = pattern(locale, given({ dateStyle, timeStyle, ...choice }), lists);
    const key = `${dateStyle ?? ""}/${timeStyle ?? ""}`;
    if (found[key] !== text) found[key + cycle] = text;
  }
  return found;
}

function template(locale, number, options) {
  return new Intl.NumberFormat(locale, { maximumFractionDigits: 0, ...options }).formatToParts(number)
    .map(({ type, value }) => ({ integer: "#", currency: "¤" })[type] ?? value).join("");
}

function numbers(locale) {
  const signs = (options) => [template(locale, 1, options), template(locale, -1, options), template(locale, 1, { ...options, signDisplay: "always" })];
  const parts = new Intl.NumberFormat(locale, { useGrouping: "always" }).formatToParts(1234567.5);
  const symbols = {};
  const narrow = {};
  for (const currency of [...Intl.supportedValuesOf("currency"), "XXX"]) {
    const symbol = (currencyDisplay) => new Intl.NumberFormat(locale, { style: "currency", currency, currencyDisplay }).formatToParts(1).find(({ type }) => type === "currency").value;
    if (symbol("symbol") !== currency) symbols[currency] = symbol("symbol");
    if (symbol("narrowSymbol") !== symbol("symbol")) narrow[currency] = symbol("narrowSymbol");
  }
  const money = (currency, currencySign) => signs({ style: "currency", currency, currencySign, currencyDisplay: currency === "CHF" ? "code" : "narrowSymbol" });
  return {
    group: parts.find(({ type }) => type === "group").value,
    decimal: parts.find(({ type }) => type === "decimal").value,
    minimum_grouping: (1234).toLocaleString(locale).length === 4 ? 2 : 1,
    plain: signs({}), percent: signs({ style: "percent" }).map((text) => text.replace("100", "#")),
    money: [money("USD", "standard"), money("CHF", "standard")], accounting: [money("USD", "accounting"), money("CHF", "accounting")],
    symbols, narrow,
  };
}

function zoneNames(zones) {
  const formats = Object.fromEntries(locales.map((locale) => [locale, {}]));
  const table = {};
  const seen = new Map();
  const byLocale = Object.fromEntries(locales.map((locale) => [locale, []]));
  const instants = [];
  for (let year = 2037; year >= 1970; year -= 1) for (const month of [11, 9, 7, 5, 3, 1]) instants.push(Date.UTC(year, month, 15, 12));
  for (const zone of zones) {
    let make;
    try {
      make = (locale, timeZoneName) => new Intl.DateTimeFormat(locale, { timeZone: zone, timeZoneName });
      make("en-US", "short");
    } catch {
      continue;
    }
    const all = locales.flatMap((locale) => ["short", "long"].map((kind) => make(locale, kind)));
    const shift = make("en-US", "longOffset");
    const last = (format, instant) => format.formatToParts(instant).find(({ type }) => type === "timeZoneName").value;
    const row = new Map();
    let since = 1970;
    for (const instant of instants) {
      const [, sign = "+", hour = "0", minute = "0", second = "0"] = /GMT(?:([+-])(\d+):(\d+)(?::(\d+))?)?/.exec(last(shift, instant));
      const offset = (sign === "-" ? -1 : 1) * (hour * 60 + Number(minute)) + (second !== "0" ? 0.5 : 0);
      const text = JSON.stringify(all.map((format) => last(format, instant)));
      if (!seen.has(text)) {
        seen.set(text, seen.size);
        JSON.parse(text).forEach((name, index) => {
          const list = byLocale[locales[index >> 1]];
          if (index % 2 === 0) list.push([name]);
          else list.at(-1).push(name);
        });
      }
      if ((row.get(offset) ?? seen.get(text)) !== seen.get(text)) {
        since = new Date(instant).getUTCFullYear() + 1;
        break;
      }
      row.set(offset, seen.get(text));
    }
    table[zone] = [since, ...[...row].flat()];
  }
  return { table, byLocale };
}

const { table, byLocale } = zoneNames(readFileSync(process.argv[2], "utf8").trim().split("\n"));
for (const locale of locales) {
  const lists = { L: [], E: [], a: [] };
  const tables = { numbers: numbers(locale), dates: dates(locale, lists), times: times(locale, lists) };
  const { found, odd } = glues(locale, tables, lists);
  Object.assign(tables, { glues: found, odd });
  tables.styles = styles(locale, lists);
  const offset = (timeZone, timeZoneName = "shortOffset") => new Intl.DateTimeFormat(locale, { timeZone, timeZoneName }).formatToParts(at(0, 2)).find(({ type }) => type === "timeZoneName").value;
  tables.offsets = [offset(UTC), offset("Asia/Tokyo"), offset("America/Bogota")].map((text) => text.replace(/[95]/, ""));
  tables.lists = lists;
  tables.zones = byLocale[locale];
  writeFileSync(`tables/${locale}.json`, JSON.stringify(tables) + "\n");
}
const fractions = {};
for (const currency of Intl.supportedValuesOf("currency")) {
  const count = new Intl.NumberFormat("en-US", { style: "currency", currency }).resolvedOptions().maximumFractionDigits;
  if (count !== 2) fractions[currency] = count;
}
writeFileSync("tables/shared.json", JSON.stringify({ zones: table, fractions }) + "\n");
