// The only host object for code: a console. There are no files, no network and no timers.
(function (print, load) {
  "use strict";
  const shown = (value) => {
    if (typeof value === "string") return value;
    if (value instanceof Error) return `${value.name}: ${value.message}\n${value.stack ?? ""}`;
    if (typeof value === "object" && value !== null) {
      try {
        return JSON.stringify(value) ?? String(value);
      } catch {
        return Object.prototype.toString.call(value);
      }
    }
    return typeof value === "bigint" ? `${value}n` : String(value);
  };
  const line = (toErrors) => (...values) => print(toErrors, (values.map(shown).join(" ") + "\n").toWellFormed());
  const nothing = () => {};
  globalThis.console = {
    log: line(false), info: line(false), debug: line(false), dir: line(false), table: line(false),
    warn: line(true), error: line(true), trace: line(true),
    assert: nothing, time: nothing, timeEnd: nothing, timeLog: nothing, group: nothing, groupEnd: nothing, count: nothing,
  };
  globalThis.global = globalThis;

  // Texts by locale. The engine's own methods ignore their arguments. The tables are read when code first needs them.
  let loaded;
  const intl = () => (loaded ??= load());
  const define = (target, methods) => {
    for (const [name, value] of Object.entries(methods)) {
      Object.defineProperty(target, name, { value, writable: true, enumerable: false, configurable: true });
    }
  };
  Object.defineProperty(globalThis, "Intl", {
    get: () => intl().Intl, enumerable: false, configurable: true,
    set: (value) => Object.defineProperty(globalThis, "Intl", { value, writable: true, enumerable: false, configurable: true }),
  });
  const { getTime } = Date.prototype;
  const numberOf = Number.prototype.valueOf;
  const bigOf = BigInt.prototype.valueOf;
  const text = (value, method) => {
    if (value === null || value === undefined) throw new TypeError(`String.prototype.${method} called on null or undefined`);
    return String(value);
  };
  define(Number.prototype, { toLocaleString(locales, options) { return intl().methods.number(numberOf.call(this), locales, options); } });
  define(BigInt.prototype, { toLocaleString(locales, options) { return intl().methods.number(bigOf.call(this), locales, options); } });
  define(Date.prototype, {
    toLocaleString(locales, options) { return intl().methods.date(getTime.call(this), locales, options, "any", "all"); },
    toLocaleDateString(locales, options) { return intl().methods.date(getTime.call(this), locales, options, "date", "date"); },
    toLocaleTimeString(locales, options) { return intl().methods.date(getTime.call(this), locales, options, "time", "time"); },
  });
  const items = {
    toLocaleString(locales, options) {
      const all = [];
      for (let index = 0; index < this.length; index += 1) all.push(this[index] === null || this[index] === undefined ? "" : String(this[index].toLocaleString(locales, options)));
      return all.join(",");
    },
  };
  define(Array.prototype, items);
  define(Object.getPrototypeOf(Uint8Array.prototype), items);
  define(String.prototype, {
    localeCompare(that, locales, options) { return intl().methods.compare(text(this, "localeCompare"), String(that), locales, options); },
    toLocaleUpperCase(locales) {
      if (locales !== undefined) intl().methods.checked(locales);
      return text(this, "toLocaleUpperCase").toUpperCase();
    },
    toLocaleLowerCase(locales) {
      if (locales !== undefined) intl().methods.checked(locales);
      return text(this, "toLocaleLowerCase").toLowerCase();
    },
  });
})
