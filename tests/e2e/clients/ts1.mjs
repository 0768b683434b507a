// A driver for the official TypeScript client, first generation: the handshake is all that it knows.

import { load, play } from "./driver.mjs";

const { Client } = load("@modelcontextprotocol/sdk/client/index.js");
const { StdioClientTransport } = load("@modelcontextprotocol/sdk/client/stdio.js");
const { StreamableHTTPClientTransport } = load("@modelcontextprotocol/sdk/client/streamableHttp.js");
const types = load("@modelcontextprotocol/sdk/types.js");

const QUESTIONS = {
  elicitation: types.ElicitRequestSchema,
  sampling: types.CreateMessageRequestSchema,
  roots: types.ListRootsRequestSchema,
};

function make({ capabilities }, answer) {
  const client = new Client({ name: "ts1", version: "1" }, { capabilities });
  for (const [capability, schema] of Object.entries(QUESTIONS))
    if (capability in capabilities) client.setRequestHandler(schema, ({ method }) => answer(method));
  return client;
}

const request = (client, message, options) => client.request(message, types.ResultSchema, options);
request.callTool = (client, params, options) => client.callTool(params, undefined, options);
request.callToolTask = async (client, params, options) => {
  const stages = [];
  for await (const stage of client.experimental.tasks.callToolStream(params, undefined, options)) stages.push(stage);
  return { stages };
};
request.version = (_, tap) => tap.received[0].result.protocolVersion;

await play(make, { Stdio: StdioClientTransport, Http: StreamableHTTPClientTransport }, request);
