// A driver for the official TypeScript client, second generation, in each of its modes.

import { load, play } from "./driver.mjs";

const { Client, StreamableHTTPClientTransport } = load("@modelcontextprotocol/client");
const { StdioClientTransport } = load("@modelcontextprotocol/client/stdio");

const MODES = { legacy: "legacy", auto: "auto", modern: { pin: "2026-07-28" } };
const QUESTIONS = { elicitation: "elicitation/create", sampling: "sampling/createMessage", roots: "roots/list" };
const ANYTHING = { "~standard": { version: 1, vendor: "driver", validate: (value) => ({ value }) } };

function make({ mode, capabilities }, answer) {
  const client = new Client(
    { name: "ts2", version: "1" },
    { capabilities, versionNegotiation: { mode: MODES[mode] } },
  );
  for (const [capability, method] of Object.entries(QUESTIONS))
    if (capability in capabilities) client.setRequestHandler(method, () => answer(method));
  return client;
}

const request = (client, message, options) => client.request(message, ANYTHING, options);
request.callTool = (client, params, options) => client.callTool(params, options);
request.version = (client) => client.getNegotiatedProtocolVersion();

await play(make, { Stdio: StdioClientTransport, Http: StreamableHTTPClientTransport }, request);
