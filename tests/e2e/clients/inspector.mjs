// The command line of the MCP Inspector, many times in one process: `node inspector.mjs CLI`, where CLI is its module.
//
// Each line of stdin is an array of arguments; for each there is one line on stdout, with what the Inspector wrote to
// its stdout and stderr and the status that it ended with.

import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const { runCli, handleError } = await import(pathToFileURL(process.argv[2]).href);

class Ended extends Error {
  constructor(status) {
    super(`ended with ${status}`);
    this.status = status;
  }
}

const say = process.stdout.write.bind(process.stdout);
const heard = { stdout: "", stderr: "" };

function hear(name) {
  process[name].write = (chunk, encoding, done) => {
    heard[name] += typeof chunk === "string" ? chunk : Buffer.from(chunk).toString("utf8");
    (typeof encoding === "function" ? encoding : done)?.();
    return true;
  };
}

async function statusOf(args) {
  try {
    await runCli([process.argv[0], "mcp-inspector", ...args]);
  } catch (error) {
    await handleError(error);
  }
  return 0;
}

hear("stdout");
hear("stderr");
process.exit = (status) => {
  throw new Ended(status);
};

for await (const line of createInterface({ input: process.stdin })) {
  Object.assign(heard, { stdout: "", stderr: "" });
  const status = await statusOf(JSON.parse(line)).catch((error) => {
    if (error instanceof Ended) return error.status;
    throw error;
  });
  say(`${JSON.stringify({ ...heard, status })}\n`);
}
