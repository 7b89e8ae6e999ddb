#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""key_tables.py MOTLEY: docs/keys.md, from `motley schema`. A test compares the two; after a change of keys:
scripts/key_tables.py build/motley > docs/keys.md"""
import json
import subprocess
import sys

INTRO = """# Keys of the files

Made from the program's own tables by `scripts/key_tables.py`; `motley schema KIND` prints the same as JSON Schema, for editors.
A job holds the other three: each of its parts is a path or the object itself, and inside a job needs no `version`.
Comments (`//`, `/* */`) are allowed. An unknown key is an error.

```sh
build/motley schema job
```

In an editor that knows JSON Schema, point the kind of file at the printed schema: keys are then completed and checked while you type.
`motley check FILE` checks more than a schema can (parts that do not sum, dims that no layer has).
"""


def words(schema):
    if "const" in schema:
        return json.dumps(schema["const"])
    if "enum" in schema:
        return " \\| ".join(f"`{json.dumps(one)}`" for one in schema["enum"])
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return " or ".join(dict.fromkeys(words(one) for one in schema[key]))
    kind = schema.get("type", "anything")
    if kind == "array":
        return "list of " + words(schema["items"]) if "items" in schema else "list"
    if kind == "string":
        return "name" if "pattern" in schema else "text"
    if kind == "object":
        if schema.get("properties"):
            return "object"
        inner = schema.get("additionalProperties")
        return "object" if not isinstance(inner, dict) else f"object: name -> {words(inner)}"
    return kind


def table(schema):
    rows = ["| key | value | default | meaning |", "|---|---|---|---|"]
    for key, one in schema["properties"].items():
        usual = "required" if key in schema.get("required", []) else f"`{json.dumps(one['default'])}`" if "default" in one else ""
        rows.append(f"| `{key}` | {words(one)} | {usual} | {one['description'].replace('|', chr(92) + '|')} |")
    return "\n".join(rows)


def objects(schema):
    """Objects with keys of their own that a value may be."""
    if schema.get("properties"):
        yield schema
    for key in ("anyOf", "oneOf"):
        for one in schema.get(key, []):
            yield from objects(one)
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from objects(schema[key])


def section(title, schema, level, skip=()):
    out = [f"{'#' * level} {title}\n\n{table(schema)}\n"]
    for key, one in schema["properties"].items():
        if key in skip:
            continue
        for inner in objects(one):
            op = inner["properties"].get("op", {}).get("enum")
            name = f"`{key}` of op {', '.join(op)}" if op and key in ("layers", "loss") else f"`{key}`"
            out += section(name, inner, level + 1)
    return out


def main():
    out = [INTRO]
    for kind in ("job", "mesh", "model", "layout"):
        schema = json.loads(subprocess.run([sys.argv[1], "schema", kind], check=True, capture_output=True, text=True).stdout)
        forms = [schema] if "properties" in schema else schema["oneOf"]  # a model may be a network of the zoo
        for form in forms:
            title = f"{kind.capitalize()} files" + (" of the zoo" if "zoo" in form["properties"] else "")
            out += section(title, form, 2, skip=("mesh", "model", "layout") if kind == "job" else ())
    print("\n".join(out).rstrip())


main()
