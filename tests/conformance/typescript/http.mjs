// Serves both eras at one address: requests of the modern era one by one, those of the handshake era in sessions that
// can be resumed.

import { randomUUID } from "node:crypto";
import { createServer } from "node:http";

import { load } from "./sdk.mjs";

const { classifyInboundRequest, createMcpHandler, isInitializeRequest } = load("@modelcontextprotocol/server");
const { NodeStreamableHTTPServerTransport, localhostHostValidation, toNodeHandler } = load("@modelcontextprotocol/node");

const RETRY_MS = 100;

/** All events of this run, by their number, with the stream of each. */
class Events {
  #sent = [];

  async storeEvent(stream, message) {
    this.#sent.push({ stream, message });
    return String(this.#sent.length);
  }

  async replayEventsAfter(last, { send }) {
    const { stream } = this.#sent[Number(last) - 1];
    for (let number = Number(last) + 1; number <= this.#sent.length; number += 1) {
      const event = this.#sent[number - 1];
      if (event.stream === stream && Object.keys(event.message ?? {}).length > 0) await send(String(number), event.message);
    }
    return stream;
  }
}

class Sessions {
  #transports = new Map();
  #build;

  constructor(build) {
    this.#build = build;
  }

  async handle(request, response, body) {
    const id = request.headers["mcp-session-id"];
    const known = this.#transports.get(id);
    if (known !== undefined) return known.handleRequest(request, response, body);
    if (id !== undefined) return refuse(response, 404, "Session not found");
    if (!isInitializeRequest(body)) return refuse(response, 400, "A session is required");
    const transport = await this.#begin();
    return transport.handleRequest(request, response, body);
  }

  async #begin() {
    const transport = new NodeStreamableHTTPServerTransport({
      sessionIdGenerator: () => randomUUID(),
      eventStore: new Events(),
      retryInterval: RETRY_MS,
      onsessioninitialized: (id) => this.#transports.set(id, transport),
    });
    const closeStream = (request) => transport.closeSSEStream(request);
    await this.#build({ closeStream }).connect(transport);
    transport.onclose = () => this.#transports.delete(transport.sessionId);
    return transport;
  }
}

function refuse(response, status, message) {
  response.writeHead(status, { "content-type": "application/json" });
  response.end(JSON.stringify({ jsonrpc: "2.0", error: { code: -32000, message }, id: null }));
}

async function bodyOf(request) {
  let text = "";
  for await (const piece of request.setEncoding("utf8")) text += piece;
  return text === "" ? undefined : JSON.parse(text);
}

const isLegacy = ({ method, headers }, body) =>
  method !== "POST" ||
  classifyInboundRequest({
    httpMethod: method,
    protocolVersionHeader: headers["mcp-protocol-version"],
    mcpMethodHeader: headers["mcp-method"],
    body,
  }).kind === "legacy";

/** Which of the two ways a request takes, in a server of one era or of both. */
const ERAS = { dual: isLegacy, handshake: () => true, modern: () => false };

/** Listen, and print the address. */
export async function listen(build, port, era = "dual") {
  const modern = createMcpHandler(() => build({ notify: modern.notify }), { legacy: "reject", onerror: console.error });
  const handleModern = toNodeHandler(modern);
  const sessions = new Sessions((hooks) => build({ ...hooks, notify: modern.notify }));
  const isLocal = localhostHostValidation();
  const server = createServer(async (request, response) => {
    if (!isLocal(request, response)) return;
    const body = await bodyOf(request);
    if (ERAS[era](request, body)) await sessions.handle(request, response, body);
    else await handleModern(request, response, body);
  });
  await new Promise((resolve) => server.listen(port, "127.0.0.1", resolve));
  console.log(`http://127.0.0.1:${server.address().port}/mcp`);
}
