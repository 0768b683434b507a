// Compile JSON Schemas with the validator of the official TypeScript client, first generation; print as JSON what each
// failed with, or null.
//
//   node compile.mjs SCHEMAS.json

import { readFileSync } from "node:fs";
import { load } from "./driver.mjs";

const { AjvJsonSchemaValidator } = load("@modelcontextprotocol/sdk/validation/ajv-provider.js");

console.warn = () => {};
const outcomes = JSON.parse(readFileSync(process.argv[2], "utf8")).map((schema) => {
  try {
    new AjvJsonSchemaValidator().getValidator(schema);
    return null;
  } catch (error) {
    return String(error.message);
  }
});
process.stdout.write(JSON.stringify(outcomes));
