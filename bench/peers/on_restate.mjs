// Restate: its server with its own log on disk, and its SDK in this process. A run is one call to a handler.
//   run steps   ctx.run: the step is executed by the handler itself, its result is written to the log
//   call steps  each step is a call to another handler, through the server, which is closest to a job for a worker
// Runs are started over HTTP, because there is no other way.
// Called as: on_restate.mjs 0 DIRECTORY fsync|no-fsync
import './node20.mjs';
import { spawn } from 'node:child_process';
import { openSync, readFileSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import { createRequire } from 'node:module';
import net from 'node:net';
import { join } from 'node:path';
import { TEXT, expect, measure } from './measure.mjs';

process.env.RESTATE_LOGGING = 'ERROR';
const restate = await import('@restatedev/restate-sdk');
const [, directory, sync] = process.argv.slice(2);
const START_MAX_MS = 60_000;
const LOG = join(directory, 'restate.log');

const service = restate.service({
  name: 'bench',
  handlers: {
    step: async (_, text) => text,
    chain: async (ctx, { steps, calls }) => {
      let text = TEXT;
      for (let at = 0; at < steps; at++) text = await one(ctx, calls, `step${at}`, text);
      return text;
    },
    fan: async (ctx, { width, calls }) => {
      const text = await one(ctx, calls, 'first', TEXT);
      const beside = Array.from({ length: width }, (_, at) => one(ctx, calls, `step${at}`, text));
      const all = await restate.RestatePromise.all(beside);
      return one(ctx, calls, 'last', all.every((each) => each === TEXT) ? String(all.length) : 'wrong');
    },
  },
});

function one(ctx, calls, name, text) {
  return calls ? ctx.serviceClient({ name: 'bench' }).step(text) : ctx.run(name, () => text);
}

// Reserve all ports at once, so that none is given twice.
const [nodePort, adminPort, ingressPort, servicePort] = await freePorts(4);
const agent = new http.Agent({ keepAlive: true, maxSockets: 256 });
const server = start();
process.on('exit', () => server.kill('SIGKILL'));
for (const signal of ['SIGTERM', 'SIGINT']) process.on(signal, () => process.exit(1));
server.on('exit', (code, signal) => fail(`restate-server ended (${signal ?? code})`));
server.on('error', (error) => fail(error.message));

await restate.serve({ services: [service], port: servicePort });
await register();
const runs = 1000;
if (sync === 'fsync') {
  await measure('restate', { ...workloads(false), runs });
  await measure('restate-calls', { ...workloads(true), runs: 400, times: 10 });
} else {
  await measure('restate-no-fsync', { ...workloads(false), runs });
}
process.exit(0);

function workloads(calls) {
  return {
    chain: async (steps) => expect(await run('chain', { steps, calls }), TEXT, 'result of a chain'),
    fan: async (width) => expect(await run('fan', { width, calls }), String(width), 'result of a join'),
  };
}

async function run(handler, input) {
  return JSON.parse(await post(ingressPort, `/bench/${handler}`, input));
}

function start() {
  // Set this for both logs, because the default log depends on the version.
  const disabled = sync === 'no-fsync';
  const settings = join(directory, 'restate.toml');
  writeFileSync(settings, [
    `base-dir = "${join(directory, 'data')}"`,
    'disable-telemetry = true', 'log-filter = "error"',
    'bind-ip = "127.0.0.1"', 'listen-mode = "tcp"', `bind-port = ${nodePort}`,
    '[admin]', `bind-port = ${adminPort}`,
    '[ingress]', `bind-port = ${ingressPort}`,
    '[bifrost.local]', `rocksdb-disable-wal-fsync = ${disabled}`,
    '[log-server]', `rocksdb-disable-wal-fsync = ${disabled}`, '',
  ].join('\n'));
  const log = openSync(LOG, 'w');
  const args = ['--config-file', settings, '--no-logo', '--node-name', 'bench'];
  return spawn(program(), args, { stdio: ['ignore', log, log] });
}

/** The program is in a package of its own for each system and processor. */
function program() {
  const name = `@restatedev/restate-server-${process.platform}-${process.arch}`;
  try {
    return createRequire(import.meta.url).resolve(`${name}/bin/restate-server`);
  } catch {
    console.error(`restate: there is no package ${name}`);
    process.exit(1);
  }
}

/** Tells the server where its handlers are, as soon as it listens, and waits until they answer. */
async function register() {
  const until = performance.now() + START_MAX_MS;
  const tried = async (what) => {
    for (;;) {
      try { return await what(); } catch (error) {
        if (performance.now() > until) fail(`restate-server does not serve: ${error.message}`);
        await new Promise((resolve) => setTimeout(resolve, 100));
      }
    }
  };
  await tried(() => post(adminPort, '/deployments', { uri: `http://127.0.0.1:${servicePort}` }));
  await tried(() => post(ingressPort, '/bench/step', TEXT));
}

function post(port, path, input) {
  const body = JSON.stringify(input);
  const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) };
  return new Promise((resolve, reject) => {
    const request = http.request({ host: '127.0.0.1', port, path, method: 'POST', agent, headers }, (answer) => {
      let text = '';
      answer.on('data', (part) => { text += part; });
      answer.on('end', () => {
        if (answer.statusCode < 300) resolve(text);
        else reject(new Error(`${answer.statusCode} ${text}`));
      });
    });
    request.on('error', reject);
    request.end(body);
  });
}

async function freePorts(count) {
  const open = await Promise.all(Array.from({ length: count }, () => new Promise((resolve, reject) => {
    const listener = net.createServer().on('error', reject).listen(0, '127.0.0.1', () => resolve(listener));
  })));
  const ports = open.map((listener) => listener.address().port);
  await Promise.all(open.map((listener) => new Promise((resolve) => listener.close(resolve))));
  return ports;
}

function fail(why) {
  console.error(readFileSync(LOG, 'utf8').slice(-2000));
  console.error(`restate: ${why}`);
  process.exit(1);
}
