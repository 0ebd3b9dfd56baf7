// Measures peers written in JavaScript, all in the same way. measure.py does the same for Python.
// A figure is one JSON line on standard output; the driver takes the medians over its rounds.

// The text that every step passes on, as in Tidemill's own workloads: 54 bytes.
export const TEXT = 'x'.repeat(54);
export const isQuick = process.env.BENCH_QUICK === '1';
// W1 and W2 are chains of so many steps. W3 is a step, WIDTH parallel steps, and a step.
export const LONG = 100, SHORT = 20, WIDTH = 100;
const IN_FLIGHT = 200;

/** Measures all workloads. `chain(steps)` and `fan(width)` settle with their run; `runs` is how many W2 takes. */
export async function measure(row, { chain, fan, runs, times = 30 }) {
  if (isQuick) { runs = IN_FLIGHT; times = 5; }
  // Before V8 has compiled the hot code, the figures would be those of V8.
  for (let i = 0; i < 5; i++) await chain(LONG);
  await atOnce(() => chain(SHORT), isQuick ? IN_FLIGHT : 2 * IN_FLIGHT);
  tell(row, 'W1', await oneByOne(() => chain(LONG), times) * 1e3 / LONG);
  tell(row, 'W2', runs * SHORT / (await atOnce(() => chain(SHORT), runs) / 1e3));
  if (!fan) return;
  for (let i = 0; i < 5; i++) await fan(WIDTH);
  tell(row, 'W3', await oneByOne(() => fan(WIDTH), times));
}

/** A wrong result is not a fast one. */
export function expect(found, wanted, what) {
  if (found !== wanted) throw new Error(`${what}: ${found} in place of ${wanted}`);
}

function tell(row, workload, value) {
  console.log(JSON.stringify({ row, workload, value }));
}

/** Milliseconds. */
async function timed(work) {
  const begin = performance.now();
  await work();
  return performance.now() - begin;
}

async function oneByOne(work, times) {
  const each = [];
  for (let i = 0; i < times; i++) each.push(await timed(work));
  each.sort((a, b) => a - b);
  return (each[(times - 1) >> 1] + each[times >> 1]) / 2;
}

/** As many as are allowed at once; as one run ends, the next begins. */
function atOnce(run, runs) {
  let left = runs;
  const lane = async () => { while (left-- > 0) await run(); };
  return timed(() => Promise.all(Array.from({ length: IN_FLIGHT }, lane)));
}
