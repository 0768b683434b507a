// Resources, a template and prompts; and the requests that the SDK has no way to register with a method of its own.

import { PICTURE, embedded, load, picture, text, z } from "./sdk.mjs";

const { ResourceTemplate } = load("@modelcontextprotocol/server");

const RESOURCES = {
  "test://static-text": { mimeType: "text/plain", text: "This is the content of the static text resource." },
  "test://static-binary": { mimeType: "image/png", blob: PICTURE },
  "test://watched-resource": { mimeType: "text/plain", text: "Somebody may watch this." },
};

const user = (content) => ({ role: "user", content });

const PROMPTS = {
  test_simple_prompt: [undefined, () => [user(text("This is a simple prompt for testing."))]],
  test_prompt_with_image: [undefined, () => [user(picture()), user(text("Please analyze the image above."))]],
  test_prompt_with_arguments: [
    z.object({ arg1: z.string(), arg2: z.string() }),
    ({ arg1, arg2 }) => [user(text(`Prompt with arguments: arg1='${arg1}', arg2='${arg2}'`))],
  ],
  test_prompt_with_embedded_resource: [
    z.object({ resourceUri: z.string() }),
    ({ resourceUri }) => [
      user(embedded(resourceUri, "text/plain", "Embedded resource content for testing.")),
      user(text("Please process the embedded resource above.")),
    ],
  ],
};

export function addReads(server) {
  for (const [uri, content] of Object.entries(RESOURCES)) {
    const described = { description: `Fixture ${uri}`, mimeType: content.mimeType };
    server.registerResource(uri.replace("test://", ""), uri, described, async () => ({ contents: [{ uri, ...content }] }));
  }
  addTemplate(server);
  for (const [name, [argsSchema, messages]] of Object.entries(PROMPTS)) {
    const described = { description: `Fixture ${name}`, ...(argsSchema && { argsSchema }) };
    server.registerPrompt(name, described, async (given) => ({ messages: messages(given) }));
  }
  addRequests(server.server);
}

function addTemplate(server) {
  const template = new ResourceTemplate("test://template/{id}/data", { list: undefined });
  const described = { description: "Data for an id", mimeType: "application/json" };
  server.registerResource("template", template, described, async (uri, { id }) => {
    const data = JSON.stringify({ id, templateTest: true, data: `Data for ID: ${id}` });
    return { contents: [{ uri: uri.toString(), mimeType: "application/json", text: data }] };
  });
}

function addRequests(low) {
  for (const method of ["resources/subscribe", "resources/unsubscribe", "logging/setLevel"])
    low.setRequestHandler(method, async () => ({}));
  low.setRequestHandler("completion/complete", async ({ params: { argument } }) => ({
    completion: { values: [`${argument.value}-one`], total: 1, hasMore: false },
  }));
}
