// Validates Bardo's tool schemas with Ajv: each must be a valid draft 2020-12 schema, accept its tool's own example and
// reject an unknown field.
//
// BARDO_NODE_MODULES is the folder with ajv; stdin is the output of `bardo tools --format json`. Fails on an invalid
// schema.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

const load = createRequire(join(process.env.BARDO_NODE_MODULES, "here.js"));
const Ajv = load("ajv/dist/2020").default;

// Number formats of OpenAPI's registry and schemars; ajv knows JSON Schema's own formats only.
const sizes = ["uint", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float", "double", "password"];
const formats = Object.fromEntries(sizes.map((name) => [name, true]));
// A nullable field has two types.
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
