// SPDX-License-Identifier: Apache-2.0
// A job's "initial", "freeze" and "groups": weights that one already has, and parameters that are trained differently or not at
// all.
#pragma once
#include <motley/step.h>

#include <string>
#include <vector>

#include "base/json_schema.h"

namespace motley {

struct InitialOptions {
  std::string weights{};             // absolute; empty: all values are drawn
  std::vector<std::string> fresh{};  // "new": patterns of tensors that are drawn nevertheless
};

// In the lists a pattern that was complained about is empty.
void read_initial(Reader& r, const Json& j, InitialOptions& initial);
void read_patterns(Reader& r, const Json& j, std::vector<std::string>& patterns);
void read_groups(Reader& r, const Json& j, std::vector<ParameterGroup>& groups);
Json initial_schema();
Json patterns_schema();
Json groups_schema();

struct PatternComplaint {
  std::string pointer{}, text{};  // below "train"
};
// Patterns that match none of the parameters; nothing is left to train. Those of "new" may also match a tensor of the file alone.
std::vector<PatternComplaint> wrong_patterns(const std::vector<std::string>& freeze, const std::vector<ParameterGroup>& groups,
                                             const std::vector<std::string>& parameters);

}  // namespace motley
