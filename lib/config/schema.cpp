// SPDX-License-Identifier: Apache-2.0
#include "config/schema.h"

#include "config/job.h"
#include "config/model.h"
#include "mesh/mesh_json.h"
#include "plan/rules_json.h"

namespace motley {

const std::vector<std::string>& schema_kinds() {
  static const std::vector<std::string> kinds{"job", "mesh", "model", "layout"};
  return kinds;
}

Json schema_of_file(const std::string& kind) {
  Json body = kind == "job"     ? job_schema()
              : kind == "mesh"  ? mesh_schema(VersionKey::required)
              : kind == "model" ? model_schema(VersionKey::required)
                                : rules_schema(VersionKey::required);
  Json out{Json::Object{}};
  out.set("$schema", "https://json-schema.org/draft/2020-12/schema").set("title", "motley: " + kind);
  for (Json::Member& m : std::get<Json::Object>(body.value)) out.set(m.key, std::move(m.value));
  return out;
}

}  // namespace motley
