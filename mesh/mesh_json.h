// SPDX-License-Identifier: Apache-2.0
// A mesh as JSON (the keys are documented in the tables).
#pragma once
#include <motley/mesh.h>

#include <optional>
#include <string>
#include <vector>

#include "base/json_fields.h"

namespace motley {

// The valid parts of a mesh; whole: set if everything is valid.
struct MeshParts {
  std::optional<std::vector<Axis>> axes{};
  std::optional<std::vector<Device>> devices{};
  std::optional<Mesh> whole{};
};
MeshParts read_mesh_parts(Reader& reader, const Json& json, VersionKey version);
// Nothing after a complaint.
std::optional<Mesh> read_mesh(Reader& reader, const Json& json, VersionKey version);
// What is valid but perhaps not meant: devices that are bound to the same core.
std::vector<std::string> mesh_notes(const Mesh& mesh);
Json to_json(const Mesh& mesh);
Json mesh_schema(VersionKey version);

}  // namespace motley
