// Dates as texts, by recorded patterns: there is one for each combination of fields that Node.js was asked for.
const FIELDS = {
  weekday: ["narrow", "short", "long"], year: ["numeric", "2-digit"], month: ["numeric", "2-digit", "narrow", "short", "long"],
  day: ["numeric", "2-digit"], hour: ["numeric", "2-digit"], minute: ["numeric", "2-digit"], second: ["numeric", "2-digit"],
  timeZoneName: ["short", "long", "shortOffset", "longOffset"],
};
const DATE = ["weekday", "year", "month", "day"];
const TIME = ["hour", "minute", "second"];
const STYLES = ["full", "long", "medium", "short"];
const LETTERS = { numeric: "n", "2-digit": "2", narrow: "N", short: "s", long: "l" };
const keyOf = (fields, names) => names.map((name) => LETTERS[fields[name]] ?? "-").join("");

const zoneOf = (given) => {
  if (given === undefined) return "UTC";
  const zone = host.zone(String(given));
  if (zone === undefined) throw new RangeError(`the time zone ${JSON.stringify(String(given))} is not supported in code nodes; supported are the names of the IANA database, for example "Asia/Shanghai" and "UTC"`);
  return ["Etc/UTC", "Etc/UCT", "Etc/Zulu", "Etc/Universal", "UCT", "Zulu", "Universal"].includes(zone) ? "UTC" : zone;
};

const dateFields = ({ options, choice, number, refuse }, required, defaults) => {
  const fields = {};
  if (options.era !== undefined) refuse("era", options.era, "none");
  if (options.dayPeriod !== undefined) refuse("dayPeriod", options.dayPeriod, "none");
  for (const [name, supported] of Object.entries(FIELDS)) fields[name] = choice(name, supported);
  fields.fractionalSecondDigits = number("fractionalSecondDigits", 1, 3);
  fields.dateStyle = choice("dateStyle", STYLES);
  fields.timeStyle = choice("timeStyle", STYLES);
  const used = Object.keys(fields).filter((name) => fields[name] !== undefined);
  if (fields.dateStyle || fields.timeStyle) {
    const other = used.find((name) => name !== "dateStyle" && name !== "timeStyle");
    if (other) throw new TypeError(`Can't set option ${other} when ${fields.dateStyle ? "dateStyle" : "timeStyle"} is used`);
    if (required === "date" && fields.timeStyle) throw new TypeError("Invalid option : timeStyle");
    if (required === "time" && fields.dateStyle) throw new TypeError("Invalid option : dateStyle");
    return fields;
  }
  const has = (names) => names.some((name) => fields[name] !== undefined);
  const complete = (required !== "time" && has(DATE)) || (required !== "date" && has([...TIME, "fractionalSecondDigits"]));
  if (!complete && defaults !== "time") Object.assign(fields, { year: "numeric", month: "numeric", day: "numeric" });
  if (!complete && defaults !== "date") Object.assign(fields, { hour: "numeric", minute: "numeric", second: "numeric" });
  return fields;
};

const TAILS = { short: "z", long: "zl", shortOffset: "zo", longOffset: "zO" };
// A pattern that is the same for all names of zones, or for all counts of digits, was written once.
const timeOf = (times, key, part, tail) => {
  for (const one of tail ? [tail, "z"] : [""]) {
    for (const other of part ? [part, "f3"] : [""]) if (times[key + other + one] !== undefined) return times[key + other + one];
  }
  return undefined;
};

// The pattern of the fields, or nothing where none was recorded.
const patternOf = (texts, fields, cycle) => {
  if (fields.dateStyle || fields.timeStyle) {
    const key = `${fields.dateStyle ?? ""}/${fields.timeStyle ?? ""}`;
    return texts.styles[key + cycle] ?? texts.styles[key];
  }
  const dateKey = keyOf(fields, DATE);
  const date = texts.dates[dateKey];
  const part = fields.fractionalSecondDigits ? `f${fields.fractionalSecondDigits}` : "";
  const tail = TAILS[fields.timeZoneName] ?? "";
  const timeKey = keyOf(fields, TIME);
  const untimed = timeKey === "---" && !part;
  if (untimed && !tail) return date;
  const key = untimed ? "" : (fields.hour ? cycle : "") + timeKey;
  const time = untimed ? "{z}" : timeOf(texts.times, key, part, tail);
  if (dateKey === "----" || !time) return time;
  const usual = texts.glues[dateKey]?.replace("{1}", () => date).replace("{0}", () => time);
  return texts.odd[`${dateKey} ${key}${part}${tail}`] ?? usual;
};

// As in Node.js: twelve hours are counted from 0 in Japan, and from 12 where no country is given; and where the hour was not asked
// for, a cycle only decides between twelve and twenty-four hours.
const cycleOf = (tag, hourCycle, hour12, isUsual) => {
  if (isUsual && (hour12 !== undefined || hourCycle)) return (hour12 ?? ["h11", "h12"].includes(hourCycle)) ? "t" : "f";
  if (hour12 === undefined) return hourCycle;
  return hour12 ? (tag === "ja" ? "h12" : "t") : "f";
};

const CYCLES = { H: "h23", h: "h12", K: "h11", k: "h24" };
const dateRules = (locales, given, required, defaults) => {
  const { tag, name } = resolved(locales);
  const read = reader("Intl.DateTimeFormat", given);
  const { choice, options } = read;
  choice("localeMatcher", ["lookup", "best fit"]);
  choice("formatMatcher", ["basic", "best fit"]);
  choice("calendar", ["gregory"]);
  choice("numberingSystem", ["latn"]);
  const hourCycle = choice("hourCycle", Object.values(CYCLES), "");
  const zone = zoneOf(options.timeZone);
  const fields = dateFields(read, required, defaults);
  const isUsual = fields.hour !== undefined && options.hour === undefined;
  if (isUsual && hourCycle === "h24" && fields.timeZoneName) read.refuse("hourCycle", "h24", '"h23" and "h12", or h24 with hour, minute and second');
  const cycle = cycleOf(tag, hourCycle, options.hour12, isUsual);
  const pattern = patternOf(table(name), fields, cycle);
  if (!pattern) {
    const asked = Object.keys(fields).filter((field) => fields[field] !== undefined).join(", ");
    throw new RangeError(`the combination of ${asked} is not supported by Intl.DateTimeFormat in code nodes for ${name}; supported are dateStyle and timeStyle, and dates with times of hour, minute and second`);
  }
  return { tag, name, zone, fields, pattern };
};

const shiftText = (name, seconds, long) => {
  const [zero, ahead, late] = table(name).offsets;
  if (seconds === 0 && !long) return zero;
  const minutes = Math.abs(seconds) / 60;
  if (!Number.isInteger(minutes)) throw new RangeError("an offset with seconds is not supported by timeZoneName in code nodes");
  const hour = String(Math.floor(minutes / 60)).padStart(long ? 2 : 1, "0");
  const rest = minutes % 60 || long ? ":" + String(minutes % 60).padStart(2, "0") : "";
  return (seconds < 0 ? late : ahead) + hour + rest;
};

const zoneText = (rules, seconds, year) => {
  const kind = rules.fields.timeZoneName ?? (rules.fields.timeStyle === "full" ? "long" : "short");
  if (kind.endsWith("Offset")) return shiftText(rules.name, seconds, kind === "longOffset");
  const [since, ...names] = table("shared").zones[rules.zone] ?? [Infinity];
  const isFixed = names.length === 2 && /^(UTC|GMT|Etc\/.*)$/.test(rules.zone);
  for (let at = 0; (isFixed || (year >= since && year <= 2037)) && at < names.length; at += 2) {
    if (names[at] === seconds / 60) return table(rules.name).zones[names[at + 1]][kind === "long" ? 1 : 0];
  }
  throw new RangeError(`the ${kind} name of the time zone ${rules.zone} is not known in code nodes for ${year}; supported: timeZoneName "shortOffset" and "longOffset"${since < 2038 ? `, and names for the years ${since} to 2037` : ""}`);
};

const dateParts = (rules, instant) => {
  const time = instant === undefined ? Date.now() : Number(instant);
  if (!(Math.abs(time) <= 8.64e15)) throw new RangeError("Invalid time value");
  const seconds = rules.zone === "UTC" ? 0 : host.offset(rules.zone, time / 1000);
  if (typeof seconds !== "number") throw new RangeError(`dates before 1976 in ${rules.zone} are not supported in code nodes`);
  const local = new Date(Math.trunc(time) + seconds * 1000);
  const year = local.getUTCFullYear();
  if (year < 1 || (rules.zone !== "UTC" && (year < 1900 || year > 2099))) {
    throw new RangeError(`the year ${year} in ${rules.zone} is not supported in code nodes; supported are the years from 1 in UTC, and 1900 to 2099 in other time zones`);
  }
  const { lists } = table(rules.name);
  const hour = local.getUTCHours();
  const values = {
    y: ["year", year], M: ["month", local.getUTCMonth() + 1], d: ["day", local.getUTCDate()], H: ["hour", hour],
    h: ["hour", hour % 12 || 12], K: ["hour", hour % 12], k: ["hour", hour || 24], m: ["minute", local.getUTCMinutes()], s: ["second", local.getUTCSeconds()],
  };
  const field = (name) => {
    const numbered = Number(name.slice(1));
    if (name[0] === "L") return { type: "month", value: lists.L[numbered][local.getUTCMonth()] };
    if (name[0] === "E") return { type: "weekday", value: lists.E[numbered][local.getUTCDay()] };
    if (name[0] === "a") return { type: "dayPeriod", value: lists.a[numbered][hour < 12 ? 0 : 1] };
    if (name === "z") return { type: "timeZoneName", value: zoneText(rules, seconds, year) };
    if (name === "f") return { type: "fractionalSecond", value: String(local.getUTCMilliseconds()).padStart(3, "0").slice(0, rules.fields.fractionalSecondDigits) };
    if (name === "yy") return { type: "year", value: String(year % 100).padStart(2, "0") };
    const [type, value] = values[name[0]];
    return { type, value: String(value).padStart(name.length, "0") };
  };
  return rules.pattern.match(/\{\w+\}|[^{]+/g).map((piece) => (piece[0] === "{" ? field(piece.slice(1, -1)) : { type: "literal", value: piece }));
};

// Whole texts have plain spaces before AM and PM, parts have narrow ones: so does Node.js.
const dateText = (rules, instant) => joined(dateParts(rules, instant)).replace(/\u202f/g, " ");

function DateTimeFormat(locales, options) {
  const rules = dateRules(locales, options, "any", "date");
  const self = Object.create(DateTimeFormat.prototype);
  define(self, "format", (date) => dateText(rules, date));
  define(self, "formatToParts", (date) => dateParts(rules, date));
  define(self, "resolvedOptions", () => {
    const hour = /\{([HhKk])/.exec(rules.pattern)?.[1];
    const cycle = hour && { hourCycle: CYCLES[hour], hour12: hour === "h" || hour === "K" };
    return { locale: rules.tag, calendar: "gregory", numberingSystem: "latn", timeZone: rules.zone, ...cycle, ...JSON.parse(JSON.stringify(rules.fields)) };
  });
  return self;
}
for (const name of ["formatRange", "formatRangeToParts"]) define(DateTimeFormat.prototype, name, () => unsupported(`${name} of Intl.DateTimeFormat`, ", with format and formatToParts"));
define(DateTimeFormat, "supportedLocalesOf", supportedLocalesOf);
define(made.Intl, "DateTimeFormat", DateTimeFormat);
made.methods.date = (time, locales, options, required, defaults) =>
  Number.isNaN(time) ? "Invalid Date" : dateText(dateRules(locales, options, required, defaults), time);
