// The only host object for code: a console. There are no files, no network and no timers.
(function (print) {
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
})
