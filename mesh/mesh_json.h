// SPDX-License-Identifier: Apache-2.0
// A mesh as JSON (the keys are documented in the tables).
#pragma once
#include <motley/mesh.h>

#include <optional>
#include <string>
#include <vector>

#include "base/json_fields.h"

namespace motley {

// A device's name without the "[k]" that its `count` added.
std::string without_number(const std::string& name);
// What is wrong with the devices that the i-th link is between; empty: nothing.
std::string link_mistake(const std::vector<MeshLink>& links, std::size_t i, const std::vector<Device>& devices);

// The valid parts of a mesh; whole: set if everything is valid.
struct MeshParts {
  std::optional<std::vector<Axis>> axes{};
  std::optional<std::vector<Device>> devices{};
  std::optional<Mesh> whole{};
  bool open_axes = false;  // "axes": "auto": the planner arranges the devices, which are given along one axis `all`
};
MeshParts read_mesh_parts(Reader& reader, const Json& json, VersionKey version);
// Nothing after a complaint. "axes": "auto": one axis `all`.
std::optional<Mesh> read_mesh(Reader& reader, const Json& json, VersionKey version);
// What is valid but perhaps not meant: devices that are bound to the same core.
std::vector<std::string> mesh_notes(const Mesh& mesh);
Json to_json(const Mesh& mesh);
Json to_json(const Device& device);  // as in a mesh's list
Json mesh_schema(VersionKey version);

}  // namespace motley
