// Reads a file of schemas and, on standard input, lines {"case": index, "text": JSON text}; checks every text against
// its schema with ajv. Usage: node validate.mjs SCHEMAS.json (run where ajv and ajv-formats are installed)
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { createRequire } from "node:module";

const require = createRequire(process.cwd() + "/");
const Ajv = require("ajv/dist/2020").default;
const addFormats = require("ajv-formats").default;

// Without a precision ajv takes large multiples for none (it parses the quotient as text).
const ajv = new Ajv({ strict: false, logger: false, allErrors: false, multipleOfPrecision: 9 });
addFormats(ajv);
const cases = JSON.parse(readFileSync(process.argv[2], "utf8"));
const validators = cases.map((item) => ajv.compile(item.schema));

const runs = new Map();
let failures = 0;
for await (const line of createInterface({ input: process.stdin })) {
  const { case: index, text } = JSON.parse(line);
  runs.set(index, (runs.get(index) ?? 0) + 1);
  let problem = null;
  try {
    if (!validators[index](JSON.parse(text))) problem = ajv.errorsText(validators[index].errors);
  } catch (error) {
    problem = String(error);
  }
  if (problem === null) continue;
  failures++;
  if (failures <= 20) console.log(`case ${index} (${cases[index].description}): ${problem}\n  ${text.slice(0, 300)}`);
}
let total = 0;
for (const n of runs.values()) total += n;
console.log(`${total} outputs of ${runs.size} schemas, ${failures} invalid`);
process.exit(failures > 0 ? 1 : 0);
