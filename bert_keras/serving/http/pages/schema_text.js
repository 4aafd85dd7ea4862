// Write a JSON schema as a type, as TypeScript does: {text: string, top?: integer}.

const STEP = "  ";

// schemas: the definitions that "$ref" names
export function describeSchema(schema, schemas, indent = "") {
  if (schema.$ref) return describeSchema(schemas[schema.$ref.split("/").pop()], schemas, indent);
  if (schema.anyOf) return [...new Set(schema.anyOf.map((one) => describeSchema(one, schemas, indent)))].join(" | ");
  if ("const" in schema) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((one) => JSON.stringify(one)).join(" | ");
  if (schema.type === "array") return describeArray(schema, schemas, indent);
  if (schema.properties) return describeObject(schema, schemas, indent);
  return schema.type ?? "any";
}

function describeArray(schema, schemas, indent) {
  const item = schema.items ? describeSchema(schema.items, schemas, indent) : "any";
  return item.includes(" | ") ? `(${item})[]` : `${item}[]`;
}

// A field that may be left out has a "?"; null is left out with it
function describeObject(schema, schemas, indent) {
  const lines = Object.entries(schema.properties).map(([name, value]) => {
    const isRequired = schema.required?.includes(name);
    const kinds = (value.anyOf ?? [value]).filter((one) => isRequired || one.type !== "null");
    const text = describeSchema(kinds.length > 1 ? { anyOf: kinds } : kinds[0], schemas, indent + STEP);
    const comment = value.description ? `  // ${value.description}` : "";
    return `${indent}${STEP}${name}${isRequired ? "" : "?"}: ${text}${comment}`;
  });
  const title = schema.description && !indent ? `  // ${schema.description.replaceAll("\n", " ")}` : "";
  return `{${title}\n${lines.join("\n")}\n${indent}}`;
}
