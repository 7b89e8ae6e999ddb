// SPDX-License-Identifier: Apache-2.0
#include "config/fine_tuning.h"

#include <algorithm>

#include "base/json_fields.h"
#include "graph/name_patterns.h"
#include "graph/training_ranges.h"

namespace motley {

namespace {

void read_pattern(Reader& r, const Json& j, std::string& out) {
  std::string text;
  if (!r.text(j, text)) return;
  if (text.empty())
    r.complain(j, "expected a name of parameters, such as \"fc.*\" (`*` stands for any text)");
  else
    out = std::move(text);
}

const Table<InitialOptions>& initial_table() {
  static const Table<InitialOptions> table{
      {"weights", "a .safetensors or .npz file, a checkpoint or a run directory; read before the first step only", "text", true,
       [](Reader& r, const Json& j, InitialOptions& o) { read_path(r, j, o.weights); }},
      {"new", "names of tensors that are drawn again and not read, as [\"fc.*\"] (`*`: any text)", "list", false,
       [](Reader& r, const Json& j, InitialOptions& o) { read_patterns(r, j, o.fresh); }, patterns_schema()}};
  return table;
}

const Table<ParameterGroup>& group_table() {
  static const Table<ParameterGroup> table{
      {"match", "the parameters' names, as \"*.bias\" (`*`: any text); of several groups the first that matches counts", "text",
       true, [](Reader& r, const Json& j, ParameterGroup& g) { read_pattern(r, j, g.match); }},
      {"learning_rate_factor",
       "factor of the learning rate of each step",
       "number",
       false,
       [](Reader& r, const Json& j, ParameterGroup& g) {
         r.number(j, g.learning_rate_factor, TrainingRanges::learning_rate_factor);
       },
       {},
       ParameterGroup{}.learning_rate_factor},
      {"weight_decay", "weight decay in place of the optimizer's; default: the optimizer's, as its `decay` says", "number", false,
       [](Reader& r, const Json& j, ParameterGroup& g) {
         if (double decay = 0; r.number(j, decay, TrainingRanges::weight_decay)) g.weight_decay = decay;
       }}};
  return table;
}

}  // namespace

void read_initial(Reader& r, const Json& j, InitialOptions& initial) {
  r.object(j, initial_table(), initial);
}

void read_patterns(Reader& r, const Json& j, std::vector<std::string>& patterns) {
  r.list(j, [&](const Json& one, std::size_t) { read_pattern(r, one, patterns.emplace_back()); });
}

void read_groups(Reader& r, const Json& j, std::vector<ParameterGroup>& groups) {
  r.list(j, [&](const Json& one, std::size_t) { r.object(one, group_table(), groups.emplace_back()); });
}

Json initial_schema() {
  return object_schema(initial_table());
}

Json patterns_schema() {
  return schema_of_list(schema_of_type("text"));
}

Json groups_schema() {
  return schema_of_list(object_schema(group_table()));
}

std::vector<PatternComplaint> wrong_patterns(const std::vector<std::string>& freeze, const std::vector<ParameterGroup>& groups,
                                             const std::vector<std::string>& parameters) {
  std::vector<PatternComplaint> out;
  const auto look = [&](const std::string& pointer, const std::string& pattern) {
    if (const std::string wrong = pattern.empty() ? "" : wrong_pattern(pattern, parameters); !wrong.empty())
      out.push_back({pointer, wrong});
  };
  for (std::size_t i = 0; i < freeze.size(); i++) look("/freeze/" + std::to_string(i), freeze[i]);
  for (std::size_t i = 0; i < groups.size(); i++) look("/groups/" + std::to_string(i) + "/match", groups[i].match);
  if (std::all_of(parameters.begin(), parameters.end(), [&](const std::string& name) { return matches_any(freeze, name); }))
    out.push_back({"/freeze", "all parameters are frozen: there is nothing to train"});
  return out;
}

}  // namespace motley
