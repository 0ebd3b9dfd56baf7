// BullMQ: one worker in this process, used in one of two ways.
//   next  each job adds the one after it. A worker that dies between adding and completing adds twice.
//   flow  FlowProducer: a run is a tree of jobs stored at once, children before parents. No step is added twice.
// Jobs are removed when they complete: BullMQ is not made to keep a history, and nothing here would read it.
// Called as: on_bullmq.mjs PORT DIRECTORY next|flow
import { FlowProducer, Queue, Worker } from 'bullmq';
import { TEXT, expect, measure } from './measure.mjs';

const [port, , how] = process.argv.slice(2);
const connection = { host: '127.0.0.1', port: Number(port), maxRetriesPerRequest: null };
// Jobs that the worker runs at once; its default is one.
const CONCURRENCY = 50;
const QUEUE = 'steps';
const opts = { removeOnComplete: true, removeOnFail: true };

const queue = new Queue(QUEUE, { connection });
const flow = new FlowProducer({ connection });
// Runs that the load waits for: the number of executed steps, and the callback for the end.
const runs = new Map();
let newest = 0;

const worker = new Worker(QUEUE, step, { connection, concurrency: CONCURRENCY });
worker.on('failed', (job, error) => fail(new Error(`job ${job?.id} failed: ${error.message}`)));
for (const side of [worker, queue, flow]) side.on('error', fail);
await worker.waitUntilReady();

if (how === 'next') {
  // A join would need a separate counter, so there is no W3.
  await measure('bullmq-next', {
    chain: (steps) => run(steps, (id) => queue.add('step', job(id, { left: steps - 1 }), opts)),
    runs: 2000,
  });
} else {
  await measure('bullmq-flow', {
    chain: (steps) => run(steps, (id) => flow.add(tree(id, steps))),
    fan: (width) => run(width + 2, (id) => queue.add('step', job(id, { fansOutTo: width }), opts)),
    runs: 1000,
  });
}
process.exit(0);

/** A run is over when its last job is; by then all of its steps must have been executed. */
async function run(steps, submit) {
  const id = ++newest;
  const ended = new Promise((resolve) => runs.set(id, { executed: 0, resolve }));
  await submit(id);
  const { executed, text } = await ended;
  expect(executed, steps, `steps of run ${id}`);
  expect(text, TEXT, `result of run ${id}`);
}

/** What a worker does with a job: hand the text on, and whatever comes next in this run. */
async function step({ data }) {
  const own = runs.get(data.run);
  own.executed += 1;
  if (data.left > 0) await queue.add('step', { ...data, left: data.left - 1 }, opts);
  if (data.fansOutTo) await flow.add(join(data.run, data.fansOutTo));
  if (data.left === 0) {
    runs.delete(data.run);
    own.resolve({ executed: own.executed, text: data.text });
  }
  return data.text;
}

function job(id, more) {
  return { run: id, text: TEXT, ...more };
}

function node(data, children) {
  return { name: 'step', queueName: QUEUE, data, opts, ...(children && { children }) };
}

/** A chain: the first step is the innermost child. */
function tree(id, steps) {
  let inner = node(job(id));
  for (let at = 2; at <= steps; at++) inner = node(job(id, at === steps && { left: 0 }), [inner]);
  return inner;
}

/** Steps side by side, and the one that waits for them. */
function join(id, width) {
  return node(job(id, { left: 0 }), Array.from({ length: width }, () => node(job(id))));
}

function fail(error) {
  console.error(`bullmq: ${error.message}`);
  process.exit(1);
}
