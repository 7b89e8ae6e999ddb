// SPDX-License-Identifier: Apache-2.0
// A mesh as JSON (docs of the keys stand in the tables).
#pragma once
#include <motley/mesh.h>

#include <optional>
#include <string>
#include <vector>

#include "base/json_fields.h"

namespace motley {

// What of a mesh is right by itself; whole: everything.
struct MeshParts {
  std::optional<std::vector<Axis>> axes{};
  std::optional<std::vector<Device>> devices{};
  std::optional<Mesh> whole{};
};
MeshParts read_mesh_parts(Reader& reader, const Json& json, VersionKey version);
// Nothing when it complained.
std::optional<Mesh> read_mesh(Reader& reader, const Json& json, VersionKey version);
// What is right and perhaps not meant: devices that are bound to one core.
std::vector<std::string> mesh_notes(const Mesh& mesh);
Json to_json(const Mesh& mesh);
Json mesh_schema(VersionKey version);

}  // namespace motley
