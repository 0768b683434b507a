// The tools that ask nothing: every kind of content, logs, progress, changes.

import { SOUND, embedded, load, picture, said, sleep, text, z } from "./sdk.mjs";

const { fromJsonSchema, inputRequired } = load("@modelcontextprotocol/server");

const STEP_MS = 50;
const AWAY_MS = 200;
const NO_ARGUMENTS = z.object({});

const CONTENT = {
  test_simple_text: [text("This is a simple text response for testing.")],
  test_image_content: [picture()],
  test_audio_content: [{ type: "audio", data: SOUND, mimeType: "audio/wav" }],
  test_embedded_resource: [
    embedded("test://embedded-resource", "text/plain", "This is an embedded resource content."),
  ],
  test_multiple_content_types: [
    text("Multiple content types test:"),
    picture(),
    embedded("test://mixed-content-resource", "application/json", '{"test":"data","value":123}'),
  ],
};

// The keywords that the scenario `json-schema-2020-12` looks for, in the places where it looks for them.
const KEYWORDS_2020 = {
  $schema: "https://json-schema.org/draft/2020-12/schema",
  type: "object",
  $defs: {
    address: {
      $anchor: "addressDef",
      type: "object",
      properties: { street: { type: "string" }, city: { type: "string" } },
    },
  },
  properties: {
    name: { type: "string" },
    address: { $ref: "#/$defs/address" },
    contactMethod: { type: "string", enum: ["phone", "email"] },
    phone: { type: "string" },
    email: { type: "string" },
  },
  allOf: [{ anyOf: [{ required: ["phone"] }, { required: ["email"] }] }],
  if: { properties: { contactMethod: { const: "phone" } }, required: ["contactMethod"] },
  then: { required: ["phone"] },
  else: { required: ["email"] },
  additionalProperties: false,
};

const WITH_HEADER = { type: "object", properties: { region: { type: "string", "x-mcp-header": "Region" } } };

export function addTools(server, hooks) {
  const add = (name, handler, inputSchema = NO_ARGUMENTS) =>
    server.registerTool(name, { description: `Fixture ${name}`, inputSchema }, handler);
  for (const [name, content] of Object.entries(CONTENT)) add(name, async () => ({ content }));
  add("test_error_handling", async () => {
    throw new Error("This tool intentionally returns an error for testing");
  });
  add("json_schema_2020_12_tool", async () => said("Its schema is what matters."), fromJsonSchema(KEYWORDS_2020));
  add("test_x_mcp_header", async ({ region }) => said(`region: ${region}`), fromJsonSchema(WITH_HEADER));
  add("test_tool_with_logging", logged);
  add("test_logging_tool", loggedAtLevel);
  add("test_tool_with_progress", progressed);
  add("test_reconnection", (_, ctx) => reconnected(ctx, hooks));
  add("test_missing_capability", needsSampling);
  add("test_streaming_elicitation", async () => said("The stream has this answer and no request."));
  addChanges(add, server, hooks);
}

async function logged(_, ctx) {
  for (const data of ["Tool execution started", "Tool processing data", "Tool execution completed"]) {
    await ctx.mcpReq.notify({ method: "notifications/message", params: { level: "info", data } });
    await sleep(STEP_MS);
  }
  return said("Three lines were logged.");
}

async function loggedAtLevel(_, ctx) {
  await ctx.mcpReq.log("info", "This is sent at the level that the request asked for");
  return said("A line was logged.");
}

async function progressed(_, ctx) {
  const progressToken = ctx.mcpReq._meta?.progressToken;
  if (progressToken === undefined) return said("Nobody asked for progress.");
  for (const progress of [0, 50, 100]) {
    const params = { progressToken, progress, total: 100, message: `${progress} of 100` };
    await ctx.mcpReq.notify({ method: "notifications/progress", params });
    await sleep(STEP_MS);
  }
  return said("All of it is done.");
}

async function reconnected(ctx, { closeStream }) {
  closeStream?.(ctx.mcpReq.id);
  await sleep(AWAY_MS);
  return said("The answer came after the stream was closed.");
}

/** Asks for a completion, which the SDK refuses to a client that did not declare sampling. */
async function needsSampling(_, ctx) {
  if (ctx.mcpReq.inputResponses?.answer !== undefined) return said("The client declared sampling.");
  const messages = [{ role: "user", content: text("Say something.") }];
  return inputRequired({ inputRequests: { answer: inputRequired.createMessage({ messages, maxTokens: 16 }) } });
}

/** Over HTTP changes go to all that listen; on stdio the connection is the only one there is. */
function addChanges(add, server, { notify }) {
  add("test_trigger_tool_change", async () => {
    if (notify) notify.toolsChanged();
    else server.sendToolListChanged();
    return said("The change was told.");
  });
  add("test_trigger_prompt_change", async () => {
    if (notify) notify.promptsChanged();
    else server.sendPromptListChanged();
    return said("The change was told.");
  });
}
