// Ajv against Bardo's tool schemas: each must be a sound schema of draft 2020-12, take its tool's own example and
// refuse an unknown field.
//
// BARDO_NODE_MODULES is the folder with ajv; stdin is what `bardo tools --format json` prints. Ends with an error
// where a schema is not right.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

const load = createRequire(join(process.env.BARDO_NODE_MODULES, "here.js"));
const Ajv = load("ajv/dist/2020").default;

// What OpenAPI's registry and schemars call the sizes of numbers; ajv knows JSON Schema's own formats only.
const sizes = ["uint", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float", "double", "password"];
const formats = Object.fromEntries(sizes.map((name) => [name, true]));
// A field that may be null has two types.
const ajv = new Ajv({ strict: true, allowUnionTypes: true, formats });

const tools = JSON.parse(readFileSync(0, "utf8"));
for (const { name, input_schema, output_schema, example } of tools) {
  for (const schema of [input_schema, output_schema]) {
    assert.ok(ajv.validateSchema(schema), `${name}: ${ajv.errorsText()}`);
  }
  const takes = ajv.compile(input_schema);
  ajv.compile(output_schema);
  assert.ok(takes(example), `${name} refuses its example: ${ajv.errorsText(takes.errors)}`);
  assert.ok(!takes({ ...example, surely_unknown: 1 }), `${name} takes an unknown field`);
  for (const required of input_schema.required ?? []) {
    const { [required]: _, ...rest } = example;
    assert.ok(!takes(rest), `${name} does without ${required}`);
  }
}
console.log(`${tools.length} tools have sound schemas`);
