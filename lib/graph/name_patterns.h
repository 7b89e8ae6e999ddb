// SPDX-License-Identifier: Apache-2.0
// Patterns over parameters' names: "layer1.*", "*.bias". `*` stands for any text. A pattern that a name goes on after, at a dot,
// stands for all of these names: "conv1" for "conv1.weight", "layer1" for "layer1.0.conv1.weight".
#pragma once
#include <string>
#include <vector>

namespace motley {

bool matches_name(const std::string& pattern, const std::string& name);
bool matches_any(const std::vector<std::string>& patterns, const std::string& name);
// What is wrong with a pattern, of which some name is expected: `"fcc.*" matches no parameter; did you mean "fc.*"?`. Empty:
// nothing.
std::string wrong_pattern(const std::string& pattern, const std::vector<std::string>& names);

}  // namespace motley
