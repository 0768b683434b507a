// A server of the matrix on the official TypeScript SDK, second generation: it asks, logs, reports, changes its list and
// has results of any shape.
//
//   node server.mjs ERA                speaks on stdin and stdout
//   node server.mjs ERA --http PORT    listens on 127.0.0.1:PORT, at /mcp; prints its address when it does
//
// ERA is `dual`, `handshake` or `modern`: which clients it understands.

import { listen } from "../conformance/typescript/http.mjs";
import { load, said, text, z } from "../conformance/typescript/sdk.mjs";

const { McpServer, ProtocolError, UrlElicitationRequiredError, fromJsonSchema, inputRequired } = load(
  "@modelcontextprotocol/server",
);
const { StdioServerTransport, serveStdio } = load("@modelcontextprotocol/server/stdio");

const MARK = z.object({ mark: z.string() });
const NAME = z.object({ name: z.string() });
const PAGE = "https://example.org/consent";
const FORM = { type: "object", properties: { name: { type: "string" } }, required: ["name"] };
const capabilities = { tools: { listChanged: true }, logging: {} };

/** Tools that were added to every connection, by name. */
const added = new Set();
/** Callers that were sent to a page before. */
const sent = new Set();

const sampling = (mark) => ({ messages: [{ role: "user", content: text(`${mark} samples`) }], maxTokens: 20 });
const answered = (answer) => said(`Answered: ${JSON.stringify(answer)}`);

// -- in the middle of a call

async function ask(ctx, method, params) {
  try {
    return answered(await ctx.mcpReq.send({ method, ...(params && { params }) }));
  } catch (error) {
    return { content: [text(`Not answered: ${error.message}`)], isError: true };
  }
}

const ASKING = {
  form: ({ mark }, ctx) => ask(ctx, "elicitation/create", { message: `${mark} asks`, requestedSchema: FORM }),
  url: ({ mark }, ctx) => {
    const params = { mode: "url", message: `${mark} sends`, url: PAGE, elicitationId: `${mark}-page` };
    return ask(ctx, "elicitation/create", params);
  },
  sample: ({ mark }, ctx) => ask(ctx, "sampling/createMessage", sampling(mark)),
  roots: (_, ctx) => ask(ctx, "roots/list"),
};

// -- by calling again

const again = (request) => async ({ mark }, ctx) => {
  const answer = ctx.mcpReq.inputResponses?.answer;
  return answer === undefined ? inputRequired({ inputRequests: { answer: request(mark) } }) : answered(answer);
};

const ROUNDS = {
  form_again: again((mark) => inputRequired.elicit({ message: `${mark} asks again`, requestedSchema: FORM })),
  url_again: again((mark) => inputRequired.elicitUrl({ message: `${mark} sends again`, url: PAGE })),
  sample_again: again((mark) => inputRequired.createMessage(sampling(`${mark} again`))),
  roots_again: again(() => inputRequired.listRoots()),
};

// -- what it says

async function log({ mark }, ctx) {
  for (const [level, word] of [["info", "one"], ["warning", "two"]]) await ctx.mcpReq.log(level, `${mark} ${word}`);
  return said("Logged");
}

async function progress({ mark }, ctx) {
  const progressToken = ctx.mcpReq._meta?.progressToken;
  for (const step of progressToken === undefined ? [] : [1, 2, 3]) {
    const params = { progressToken, progress: step, total: 3, message: `${mark} ${step}` };
    await ctx.mcpReq.notify({ method: "notifications/progress", params });
  }
  return said("Reported");
}

// -- results and errors

const OUTPUTS = {
  object: [{ type: "object", properties: { n: { type: "integer" } }, required: ["n"] }, { n: 1 }],
  array: [{ type: "array", items: { type: "integer" } }, [1, 2]],
  number: [{ type: "number" }, 0.5],
};

async function fails() {
  return { content: [text("It failed")], isError: true };
}

async function refuses() {
  throw new ProtocolError(-32050, "It refuses", { because: ["of", "this"] });
}

/** The first time, the caller is sent to a page by an error. */
async function needs_page({ mark }) {
  if (sent.has(mark)) return said("Visited");
  sent.add(mark);
  throw new UrlElicitationRequiredError([
    { mode: "url", message: `${mark} sends by an error`, url: PAGE, elicitationId: `${mark}-page` },
  ]);
}

// -- the whole of it

function addTools(server, hooks) {
  const add = (name, inputSchema, handler, more = {}) =>
    server.registerTool(name, { description: `The tool ${name}`, inputSchema, ...more }, handler);
  for (const [name, handler] of Object.entries({ ...ASKING, ...ROUNDS, log, progress, needs_page })) add(name, MARK, handler);
  for (const [name, [schema, value]] of Object.entries(OUTPUTS)) {
    const result = { content: [text(JSON.stringify(value))], structuredContent: value };
    add(name, z.object({}), async () => result, { outputSchema: fromJsonSchema(schema) });
  }
  add("annotated", fromJsonSchema(ODD_INPUT), async () => said("Odd"), {
    title: "Ünïcode ✓",
    annotations: { readOnlyHint: true, title: "" },
    _meta: { "example.org/any": { deep: [1, null, "x"] } },
  });
  for (const [name, handler] of Object.entries({ fails, refuses })) add(name, z.object({}), handler);
  addChanges(server, add, hooks);
}

const ODD_INPUT = {
  $schema: "https://json-schema.org/draft/2020-12/schema",
  type: "object",
  $defs: { node: { type: "object", properties: { next: { $ref: "#/$defs/node" } } } },
  properties: { "a/b~c": { $ref: "#/$defs/node" }, "": { const: null } },
  oneOf: [{ required: ["a/b~c"] }, { not: { required: ["a/b~c"] } }],
  "x-unknown": { kept: true },
};

function addChanges(server, add, { notify }) {
  const registered = new Map();
  const put = (name) => registered.set(name, add(name, z.object({}), async () => said(name)));
  for (const name of added) put(name);
  add("change", NAME, async ({ name }) => {
    added.add(name);
    if (!registered.has(name)) put(name);
    notify?.toolsChanged();
    return said("Changed");
  });
  add("restore", NAME, async ({ name }) => {
    added.delete(name);
    registered.get(name)?.remove();
    return said("Restored");
  });
}

function build(hooks = {}) {
  const server = new McpServer({ name: "matrix-typescript", version: "1" }, { capabilities });
  addTools(server, hooks);
  return server;
}

const [era, option, port] = process.argv.slice(2);
if (option === "--http") await listen(build, Number(port), era);
else if (era === "handshake") await build().connect(new StdioServerTransport());
else serveStdio(() => build(), { legacy: era === "modern" ? "reject" : "serve" });
