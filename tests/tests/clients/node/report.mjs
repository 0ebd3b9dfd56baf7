// What the scripts of all Node clients share: where the server is, and the report, a line of JSON for each method.
import { appendFileSync } from "node:fs";

/** The address of `/v1`, without a slash at its end. */
export const V1 = process.env.TIDEMILL_V1;
/** The end user, another one for each client. */
export const USER = process.env.TIDEMILL_USER;

/** The API key of an app: `chat`, `flow`, `completion` or `form`. */
export const key = (app) => process.env[`TIDEMILL_KEY_${app.toUpperCase()}`];

/** Reports one method. */
export function say(method, result, note = "") {
  appendFileSync(process.env.TIDEMILL_REPORT, JSON.stringify({ method, result, note: String(note).slice(0, 2000) }) + "\n");
}

/** Calls a method that must work; an exception says what is wrong. Returns what it returned. */
export async function works(method, call) {
  try {
    const answer = await call();
    say(method, "works");
    return answer;
  } catch (error) {
    const body = error?.response?.data;
    say(method, "fails", `${error}${body && !body.pipe ? ` ${JSON.stringify(body)}` : ""}`);
    return undefined;
  }
}

/** Fails the method that is being tried unless the condition holds. */
export function must(condition, what) {
  if (!condition) throw new Error(typeof what === "string" ? what : JSON.stringify(what));
}
