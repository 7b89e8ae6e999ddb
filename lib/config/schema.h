// SPDX-License-Identifier: Apache-2.0
// `motley schema KIND`: JSON Schema of the files that users write, from the field tables that read them.
#pragma once
#include <string>
#include <vector>

#include "base/json.h"

namespace motley {

const std::vector<std::string>& schema_kinds();  // job, mesh, model, layout
Json schema_of_file(const std::string& kind);

}  // namespace motley
