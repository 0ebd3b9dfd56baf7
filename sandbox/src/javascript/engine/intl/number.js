// Numbers as texts. Rounding is done on decimal digits, as ICU does: 1.005 with two digits is 1.01.
const decimal = (value) => {
  let text = typeof value === "bigint" ? String(value) : Object.is(value, -0) ? "-0" : String(value).trim();
  const negative = text.startsWith("-");
  text = text.replace(/^[+-]/, "");
  if (text === "NaN") return { negative: false, special: "NaN" };
  if (text === "Infinity") return { negative, special: "∞" };
  const [, whole, fraction = "", exponent = "0"] = /^(\d*)\.?(\d*)(?:[eE]([+-]?\d+))?$/.exec(text);
  return { negative, digits: whole + fraction, point: whole.length + Number(exponent) };
};

// The value that a formatter gets: a text keeps all of its digits.
const numeric = (value) => {
  if (typeof value === "object" && value !== null) value = value[Symbol.toPrimitive]?.("number") ?? (typeof value.valueOf() === "object" ? String(value) : value.valueOf());
  if (typeof value === "bigint") return value;
  if (typeof value === "string" && /^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?\s*$/.test(value)) return value;
  return Number(value);
};

// Digits before and after the point, cut at `point + places` and rounded half away from zero.
const rounded = ({ digits, point }, places) => {
  if (point < 0) { digits = "0".repeat(-point) + digits; point = 0; }
  const end = point + places;
  digits = digits.padEnd(point, "0");
  let kept = end < 0 ? "" : digits.slice(0, end);
  if (end >= 0 && digits[end] >= "5") {
    let at = kept.length - 1;
    while (at >= 0 && kept[at] === "9") at -= 1;
    kept = at < 0 ? "1" + "0".repeat(kept.length) : kept.slice(0, at) + (Number(kept[at]) + 1) + "0".repeat(kept.length - at - 1);
    if (at < 0) point += 1;
  }
  kept = kept.padEnd(point, "0");
  return { whole: kept.slice(0, point).replace(/^0+/, ""), fraction: kept.slice(point) };
};

const withDigits = (amount, rules) => {
  const zero = /^0*$/.test(amount.digits);
  let { whole, fraction } = { whole: "", fraction: "" };
  let least = rules.fractionMin;
  if (rules.significantMax !== undefined) {
    const leading = amount.digits.search(/[1-9]/);
    const top = (point) => rules.significantMax - (zero ? 1 : point);
    ({ whole, fraction } = rounded(amount, top(amount.point - leading)));
    const size = whole.length || (/[1-9]/.test(fraction) ? -fraction.search(/[1-9]/) : 1);
    least = Math.max(0, rules.significantMin - size);
  } else {
    ({ whole, fraction } = rounded(amount, rules.fractionMax));
  }
  fraction = fraction.replace(/0+$/, "").padEnd(least, "0");
  return { whole: whole.padStart(rules.integerMin, "0"), fraction };
};

const digitRules = (read, style, currency) => {
  const { number, options } = read;
  const usual = style === "currency" ? table("shared").fractions[currency] ?? 2 : 0;
  const most = style === "currency" ? usual : style === "percent" ? 0 : 3;
  const rules = { integerMin: number("minimumIntegerDigits", 1, 21, 1) };
  let least = number("minimumFractionDigits", 0, 100);
  let limit = number("maximumFractionDigits", 0, 100);
  if (options.minimumSignificantDigits !== undefined || options.maximumSignificantDigits !== undefined) {
    rules.significantMin = number("minimumSignificantDigits", 1, 21, 1);
    rules.significantMax = number("maximumSignificantDigits", rules.significantMin, 21, 21);
    return rules;
  }
  least ??= Math.min(usual, limit ?? usual);
  limit ??= Math.max(most, least);
  if (least > limit) throw new RangeError(`maximumFractionDigits value is out of range: it is smaller than minimumFractionDigits, ${least}`);
  return { ...rules, fractionMin: least, fractionMax: limit };
};

const groupingOf = (given) => {
  if (given === undefined || given === "true" || given === "false") return "auto";
  if (given === true) return "always";
  if (!given) return false;
  if (["auto", "always", "min2"].includes(String(given))) return String(given);
  throw new RangeError(`the option useGrouping: ${JSON.stringify(given)} of Intl.NumberFormat is not supported; supported: true, false, "auto", "always", "min2"`);
};

const numberRules = (locales, given) => {
  const { tag, name } = resolved(locales);
  const read = reader("Intl.NumberFormat", given);
  const { choice, options } = read;
  choice("localeMatcher", ["lookup", "best fit"]);
  choice("numberingSystem", ["latn"]);
  const style = choice("style", ["decimal", "percent", "currency"], "decimal");
  if (style === "currency" && options.currency === undefined) throw new TypeError("Currency code is required with currency style.");
  const currency = options.currency === undefined ? undefined : String(options.currency).toUpperCase();
  if (currency !== undefined && !/^[A-Z]{3}$/.test(currency)) throw new RangeError(`Invalid currency code : ${options.currency}`);
  const rules = {
    tag, name, style, currency: style === "currency" ? currency : undefined,
    display: choice("currencyDisplay", style === "currency" ? ["symbol", "narrowSymbol", "code"] : ["symbol", "narrowSymbol", "code", "name"], "symbol"),
    accounting: choice("currencySign", ["standard", "accounting"], "standard") === "accounting",
  };
  choice("notation", ["standard"]);
  for (const [option, only] of [["roundingMode", "halfExpand"], ["roundingIncrement", "1"], ["roundingPriority", "auto"], ["trailingZeroDisplay", "auto"]]) choice(option, [only]);
  Object.assign(rules, digitRules(read, style, currency));
  rules.grouping = groupingOf(options.useGrouping);
  rules.signs = choice("signDisplay", ["auto", "always", "never", "exceptZero", "negative"], "auto");
  return rules;
};

const signOf = (signs, { negative, special }, zero) => {
  if (signs === "never") return 0;
  if (signs === "negative") return negative && !zero ? 1 : 0;
  if (signs === "exceptZero" && (zero || special === "NaN")) return 0;
  return negative ? 1 : signs === "auto" ? 0 : 2;
};

const figures = (texts, { whole, fraction }, grouping) => {
  const parts = [];
  const least = grouping === "always" ? 1 : grouping === "min2" ? 2 : texts.minimum_grouping;
  let groups = [whole];
  if (grouping && whole.length >= 3 + least) groups = whole.match(/^\d{1,3}(?=(?:\d{3})*$)|\d{3}/g);
  groups.forEach((value, index) => {
    if (index) parts.push({ type: "group", value: texts.group });
    parts.push({ type: "integer", value });
  });
  if (fraction) parts.push({ type: "decimal", value: texts.decimal }, { type: "fraction", value: fraction });
  return parts;
};

const TYPES = { "-": "minusSign", "+": "plusSign", "%": "percentSign" };
const numberParts = (rules, value) => {
  const texts = table(rules.name).numbers;
  const amount = decimal(value);
  let inner;
  let zero = false;
  if (amount.special) inner = [{ type: amount.special === "NaN" ? "nan" : "infinity", value: amount.special }];
  else {
    if (rules.style === "percent") Object.assign(amount, { digits: amount.digits.padEnd(amount.point + 2, "0"), point: amount.point + 2 });
    const both = withDigits(amount, rules);
    zero = /^0*$/.test(both.whole + both.fraction);
    inner = figures(texts, both, rules.grouping);
  }
  const sign = signOf(rules.signs, amount, zero);
  let symbol;
  let template = rules.style === "percent" ? texts.percent : texts.plain;
  if (rules.currency) {
    symbol = rules.currency;
    if (rules.display !== "code") symbol = texts.symbols[rules.currency] ?? symbol;
    if (rules.display === "narrowSymbol") symbol = texts.narrow[rules.currency] ?? symbol;
    template = (rules.accounting ? texts.accounting : texts.money)[amount.special || /[\p{S}\p{Z}]$/u.test(symbol) ? 0 : 1];
  }
  return template[sign].match(/[-+%#¤]|[^-+%#¤]+/g).flatMap((piece) =>
    piece === "#" ? inner : [{ type: piece === "¤" ? "currency" : TYPES[piece] ?? "literal", value: piece === "¤" ? symbol : piece }]);
};

function NumberFormat(locales, options) {
  const rules = numberRules(locales, options);
  const format = (value) => joined(numberParts(rules, numeric(value)));
  const self = Object.create(NumberFormat.prototype);
  define(self, "format", format);
  define(self, "formatToParts", (value) => numberParts(rules, numeric(value)));
  define(self, "resolvedOptions", () => ({
    locale: rules.tag, numberingSystem: "latn", style: rules.style,
    ...(rules.currency && { currency: rules.currency, currencyDisplay: rules.display, currencySign: rules.accounting ? "accounting" : "standard" }),
    minimumIntegerDigits: rules.integerMin,
    ...(rules.significantMax === undefined
      ? { minimumFractionDigits: rules.fractionMin, maximumFractionDigits: rules.fractionMax }
      : { minimumSignificantDigits: rules.significantMin, maximumSignificantDigits: rules.significantMax }),
    useGrouping: rules.grouping, notation: "standard", signDisplay: rules.signs, roundingIncrement: 1,
    roundingMode: "halfExpand", roundingPriority: "auto", trailingZeroDisplay: "auto",
  }));
  return self;
}
for (const name of ["formatRange", "formatRangeToParts"]) define(NumberFormat.prototype, name, () => unsupported(`${name} of Intl.NumberFormat`, ", with format and formatToParts"));
define(NumberFormat, "supportedLocalesOf", supportedLocalesOf);
define(made.Intl, "NumberFormat", NumberFormat);
made.methods.number = (value, locales, options) => joined(numberParts(numberRules(locales, options), value));
