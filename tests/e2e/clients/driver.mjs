// What the drivers share: play scripts of steps with clients over stdio or HTTP, one script after the other, and print all
// that came of each as a line of JSON.
//
//   node ts1.mjs SCRIPTS.json
//
// The file is a list of scripts. A script: {
//   "server":       [COMMAND, ARGUMENT, ...], or
//   "url":          where it is served, with "headers" for every request
//   "mode":         "legacy" | "auto" | "modern"; only the second client has a choice
//   "capabilities": what the client declares
//   "answers":      {METHOD: ANSWER, always the same | [ANSWER, ...], one after the other}, to what the server asks
//   "env":          what the server gets beside the few variables that the client passes on
//   "steps":        [{"do": STEP, ...}]
// }
// A step is the name of a method of the client with its "params", or
//   {"do": "request", "method", "params"}                   a request that the client sends as it is
//   {"do": "callToolTask", "params"}                        a call as a task, and all its stages; only the first client
//   {"do": "wait", "method", "match"?, "count"?, "ms"?}     until so many notifications arrived, whose params have these fields;
//                                                           with "fresh": true only those since the step before began
// and may have "progress": true to ask for progress, "abort": N to be cancelled at the N-th progress notification.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const REQUEST_MS = 30_000;
const require = createRequire(new URL("../../../.cache/e2e/npm-clients/", import.meta.url));

export const load = (name) => require(name);

/** What went over the pipe, both ways, as the transport saw it, before the client made anything of it. */
class Tap {
  sent = [];
  received = [];
  /** How much had been received when the last step began that was no wait. */
  begun = 0;
  #waiting = new Set();

  constructor(transport) {
    const send = transport.send.bind(transport);
    transport.send = (message, ...rest) => {
      this.sent.push(message);
      return send(message, ...rest);
    };
    transport.onmessage = (message) => {
      this.received.push(message);
      for (const check of this.#waiting) check();
    };
  }

  notifications(method, match = {}, since = 0) {
    const fits = ({ params = {} }) => Object.entries(match).every(([name, value]) => same(params[name], value));
    return this.received.slice(since).filter((message) => message.method === method && !("id" in message) && fits(message));
  }

  /** What the server asked: requests, or those that an answer of the modern era carries. */
  questions() {
    return this.received.flatMap((message) => {
      if ("method" in message) return "id" in message ? [question(message)] : [];
      return Object.values(message.result?.inputRequests ?? {}).map(question);
    });
  }

  /** The answers to what was sent since a point in time. */
  answers(since) {
    const asked = this.sent.slice(since).filter((message) => "method" in message && "id" in message);
    return asked.map(({ id, method }) => {
      const answer = this.received.find((message) => message.id === id && !("method" in message));
      if (answer === undefined) return { method };
      return "error" in answer ? { method, error: answer.error } : { method, result: answer.result };
    });
  }

  /**
   * What was said of the progress of the requests sent in a span of time; late news come in later. Not what the client
   * calls back with: it drops a notification that arrives together with the answer.
   */
  progress(since, end) {
    const tokens = this.sent.slice(since, end).map((message) => message.params?._meta?.progressToken);
    const asked = new Set(tokens.filter((token) => token !== undefined));
    return () =>
      this.notifications("notifications/progress")
        .filter(({ params }) => asked.has(params.progressToken))
        .map(({ params: { progressToken, ...news } }) => news);
  }

  async until(condition, what, ms = REQUEST_MS) {
    if (condition()) return;
    let check;
    let timer;
    try {
      await new Promise((resolve, reject) => {
        check = () => condition() && resolve();
        timer = setTimeout(() => reject(new Error(`${what} did not arrive within ${ms} ms`)), ms);
        this.#waiting.add(check);
      });
    } finally {
      clearTimeout(timer);
      this.#waiting.delete(check);
    }
  }
}

const same = (left, right) => JSON.stringify(left) === JSON.stringify(right);
const question = ({ method, params }) => ({ method, params });

const told = (error) => {
  const { code, message, data } = error;
  return { name: error.constructor.name, code, message, data };
};

/** Answers to questions, from the script. */
function answering(answers) {
  const left = structuredClone(answers);
  return (method) => {
    const answer = left[method];
    const next = Array.isArray(answer) ? answer.shift() : answer;
    if (next === undefined) throw new Error(`The script has no answer to ${method}`);
    return next;
  };
}

async function perform(client, tap, step, request) {
  const since = tap.sent.length;
  const outcome = { do: step.do };
  const options = { timeout: REQUEST_MS, cacheMode: "bypass" };
  if (step.do !== "wait") tap.begun = tap.received.length;
  if (step.progress || step.abort) {
    const controller = new AbortController();
    let count = 0;
    options.signal = controller.signal;
    options.onprogress = () => {
      count += 1;
      if (count === step.abort) controller.abort("The script wants no answer");
    };
  }
  try {
    outcome.result = await carryOut(client, tap, step, options, request);
    if (outcome.result === undefined) delete outcome.result;
  } catch (error) {
    outcome.error = told(error);
  }
  outcome.wire = tap.answers(since);
  outcome.progress = tap.progress(since, tap.sent.length);
  return outcome;
}

async function carryOut(client, tap, step, options, request) {
  if (step.do === "wait") {
    const { method, match, count = 1, ms, fresh } = step;
    const arrived = () => tap.notifications(method, match, fresh ? tap.begun : 0).length >= count;
    await tap.until(arrived, `${count} of ${method}`, ms);
    return undefined;
  }
  if (step.do === "request") return request(client, { method: step.method, params: step.params ?? {} }, options);
  if (step.do === "callTool") return request.callTool(client, step.params, options);
  if (step.do === "callToolTask") return request.callToolTask(client, step.params, options);
  if (step.do === "ping") return client.ping(options);
  if (step.do === "sendRootsListChanged") return client.sendRootsListChanged();
  if (step.do === "listen") return { honoredFilter: (await client.listen(step.params, options)).honoredFilter };
  return client[step.do](step.params, options);
}

/**
 * Play the scripts of the command line. `make` gives a client for one, with `answer` behind its handlers; `request` sends
 * a request and takes any answer, `request.callTool` calls a tool.
 */
export async function play(make, transports, request) {
  for (const script of JSON.parse(readFileSync(process.argv[2], "utf8"))) {
    const defaults = { mode: "legacy", capabilities: {}, answers: {}, env: {} };
    process.stdout.write(`${JSON.stringify(await playOne({ ...defaults, ...script }, make, transports, request))}\n`);
  }
}

function open({ url, headers, server, env }, { Http, Stdio }) {
  if (url !== undefined) return new Http(new URL(url), { requestInit: { headers } });
  const [command, ...args] = server;
  return new Stdio({ command, args, env });
}

async function playOne(script, make, transports, request) {
  const transport = open(script, transports);
  const tap = new Tap(transport);
  const client = make(script, answering(script.answers));
  const problems = [];
  client.onerror = (error) => problems.push(told(error));
  const report = { steps: [] };
  try {
    await client.connect(transport, { timeout: REQUEST_MS });
    report.greeting = {
      protocolVersion: request.version(client, tap),
      serverInfo: client.getServerVersion(),
      capabilities: client.getServerCapabilities(),
      instructions: client.getInstructions(),
    };
    report.connecting = tap.sent.map(({ method }) => method);
    for (const step of script.steps) report.steps.push(await perform(client, tap, step, request));
  } catch (error) {
    report.fatal = told(error);
  }
  const hungUp = performance.now();
  await client.close();
  report.closing_ms = Math.round(performance.now() - hungUp);
  for (const outcome of report.steps) outcome.progress = outcome.progress();
  report.notifications = tap.received.filter((message) => "method" in message && !("id" in message)).map(question);
  report.questions = tap.questions();
  report.unanswered = tap.answers(0).filter((answer) => !("result" in answer || "error" in answer));
  report.problems = problems;
  return report;
}
