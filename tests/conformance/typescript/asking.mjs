// The tools and the prompt that ask the client: in the middle of a call, as the handshake era has it, or by returning the
// question and being called again with the answer.

import { load, said, text, z } from "./sdk.mjs";

const { CLIENT_CAPABILITIES_META_KEY, acceptedContent, createRequestStateCodec, inputRequired } = load(
  "@modelcontextprotocol/server",
);

const state = createRequestStateCodec({ key: crypto.getRandomValues(new Uint8Array(32)) });
export const verifyState = state.verify;

const SIZES = ["small", "large"];
const TITLED = SIZES.map((size) => ({ const: size, title: size }));
const strings = (...names) => Object.fromEntries(names.map((name) => [name, { type: "string" }]));
const object = (properties, required = Object.keys(properties)) => ({ type: "object", properties, required });

const FORMS = {
  test_elicitation: object(strings("username", "email")),
  test_elicitation_sep1034_defaults: object(
    {
      name: { type: "string", default: "John Doe" },
      age: { type: "integer", default: 30 },
      score: { type: "number", default: 95.5 },
      status: { type: "string", enum: ["active", "inactive", "pending"], default: "active" },
      verified: { type: "boolean", default: true },
    },
    [],
  ),
  test_elicitation_sep1330_enums: object(
    {
      untitledSingle: { type: "string", enum: SIZES },
      titledSingle: { type: "string", oneOf: TITLED },
      legacyEnum: { type: "string", enum: SIZES, enumNames: ["Small", "Large"] },
      untitledMulti: { type: "array", items: { type: "string", enum: SIZES } },
      titledMulti: { type: "array", items: { anyOf: TITLED } },
    },
    [],
  ),
};

// -- in the middle of a call

async function sampled({ prompt }, ctx) {
  const params = { messages: [{ role: "user", content: text(prompt) }], maxTokens: 50 };
  try {
    const answer = await ctx.mcpReq.send({ method: "sampling/createMessage", params });
    return said(`LLM response: ${answer.content?.text}`);
  } catch (error) {
    return said(`Sampling failed: ${error.message}`);
  }
}

const elicited = (requestedSchema) => async ({ message }, ctx) => {
  const params = { message: message ?? "Please fill this in", requestedSchema };
  try {
    const { action, content } = await ctx.mcpReq.send({ method: "elicitation/create", params });
    return said(`Elicitation completed: action=${action}, content=${JSON.stringify(content ?? {})}`);
  } catch (error) {
    return said(`Elicitation failed: ${error.message}`);
  }
};

// -- by calling again

const form = (message, requestedSchema) => inputRequired.elicit({ message, requestedSchema });
const nameForm = () => form("Who is there?", object(strings("name")));
const confirmForm = () => form("Is that right?", object({ ok: { type: "boolean" } }));
const completion = (prompt) =>
  inputRequired.createMessage({ messages: [{ role: "user", content: text(prompt) }], maxTokens: 50 });
const filled = (ctx, key, field) => acceptedContent(ctx.mcpReq.inputResponses, key)?.[field];

async function nameByForm(_, ctx) {
  const name = filled(ctx, "user_name", "name");
  if (typeof name === "string") return said(`Good day, ${name}.`);
  return inputRequired({ inputRequests: { user_name: nameForm() } });
}

async function wordBySampling(_, ctx) {
  const answer = ctx.mcpReq.inputResponses?.capital_question;
  if (answer !== undefined) return said(`The model answered: ${answer.content?.text}`);
  return inputRequired({ inputRequests: { capital_question: completion("Which city is the capital of France?") } });
}

async function rootsCounted(_, ctx) {
  const roots = ctx.mcpReq.inputResponses?.client_roots?.roots;
  if (Array.isArray(roots)) return said(`Roots: ${roots.length}`);
  return inputRequired({ inputRequests: { client_roots: inputRequired.listRoots() } });
}

async function stateBroughtBack(_, ctx) {
  if (filled(ctx, "confirm", "ok") !== undefined && ctx.mcpReq.requestState() !== undefined) return said("state-ok");
  return inputRequired({ inputRequests: { confirm: confirmForm() }, requestState: await state.mint({ asked: "once" }) });
}

async function threeAtOnce(_, ctx) {
  const { greeting, client_roots: roots } = ctx.mcpReq.inputResponses ?? {};
  if (filled(ctx, "user_name", "name") && greeting && roots) return said("Everything was answered.");
  const inputRequests = {
    user_name: nameForm(),
    greeting: completion("Greet somebody."),
    client_roots: inputRequired.listRoots(),
  };
  return inputRequired({ inputRequests, requestState: await state.mint({ asked: "three" }) });
}

/** A name, then a colour; the state holds what was learnt so far. */
async function twoRounds(_, ctx) {
  const known = ctx.mcpReq.requestState();
  const name = known?.name ?? (known && filled(ctx, "step1", "name"));
  if (!name) return inputRequired({ inputRequests: { step1: nameForm() }, requestState: await state.mint({}) });
  const colour = known.name && filled(ctx, "step2", "color");
  if (colour) return said(`${name} chose ${colour}.`);
  const step2 = form("Which colour?", object(strings("color")));
  return inputRequired({ inputRequests: { step2 }, requestState: await state.mint({ name }) });
}

async function onlyWhatTheClientCan(_, ctx) {
  const can = ctx.mcpReq.envelope?.[CLIENT_CAPABILITIES_META_KEY] ?? {};
  const inputRequests = {
    ...(can.sampling && { sample: completion("Greet somebody.") }),
    ...(can.elicitation && { ask: nameForm() }),
  };
  if (Object.keys(inputRequests).length === 0) return said("The client can answer nothing.");
  return inputRequired({ inputRequests });
}

async function promptByForm(ctx) {
  const words = filled(ctx, "user_context", "context");
  if (typeof words === "string") return { messages: [{ role: "user", content: text(`It is about this: ${words}`) }] };
  return inputRequired({ inputRequests: { user_context: form("What is it about?", object(strings("context"))) } });
}

const ROUNDS = {
  test_input_required_result_elicitation: nameByForm,
  test_input_required_result_sampling: wordBySampling,
  test_input_required_result_list_roots: rootsCounted,
  test_input_required_result_request_state: stateBroughtBack,
  test_input_required_result_multiple_inputs: threeAtOnce,
  test_input_required_result_multi_round: twoRounds,
  test_input_required_result_tampered_state: stateBroughtBack,
  test_input_required_result_capabilities: onlyWhatTheClientCan,
};

export function addQuestions(server) {
  const add = (name, handler, inputSchema = z.object({})) =>
    server.registerTool(name, { description: `Fixture ${name}`, inputSchema }, handler);
  add("test_sampling", sampled, z.object({ prompt: z.string() }));
  for (const [name, schema] of Object.entries(FORMS))
    add(name, elicited(schema), name === "test_elicitation" ? z.object({ message: z.string() }) : z.object({}));
  for (const [name, handler] of Object.entries(ROUNDS)) add(name, handler);
  server.registerPrompt(
    "test_input_required_result_prompt",
    { description: "Fixture test_input_required_result_prompt" },
    promptByForm,
  );
}
