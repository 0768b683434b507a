// An everything server on the official TypeScript SDK, second generation, written as its users write servers.
//
//   node server.mjs               speaks on stdin and stdout
//   node server.mjs --http PORT   listens on 127.0.0.1:PORT, at /mcp; prints its address when it does
//
// One factory serves both eras on both transports, so that what differs through the workbench is the workbench's doing.

import { addQuestions, verifyState } from "./asking.mjs";
import { listen } from "./http.mjs";
import { addReads } from "./reads.mjs";
import { load } from "./sdk.mjs";
import { addTools } from "./tools.mjs";

const { McpServer } = load("@modelcontextprotocol/server");
const { serveStdio } = load("@modelcontextprotocol/server/stdio");

const capabilities = {
  tools: { listChanged: true },
  resources: { subscribe: true, listChanged: true },
  prompts: { listChanged: true },
  logging: {},
  completions: {},
};

/** A server for one connection, or for one request of the modern era; `hooks` are what its transport adds. */
function build(hooks) {
  const server = new McpServer(
    { name: "everything-typescript", version: "1.0" },
    { capabilities, requestState: { verify: verifyState } },
  );
  addTools(server, hooks);
  addQuestions(server);
  addReads(server);
  return server;
}

const [option, port] = process.argv.slice(2);
if (option === "--http") await listen(build, Number(port));
else serveStdio(() => build({}));
