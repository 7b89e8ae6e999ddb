// SPDX-License-Identifier: Apache-2.0
// Layout rules: which dim lies on which mesh axis and how it is cut.
#pragma once
#include <motley/dims.h>

#include <filesystem>
#include <map>
#include <string>
#include <variant>
#include <vector>

namespace motley {

enum class CutBy : std::uint8_t { profile, even, proportional };
struct Shares {
  std::vector<double> of{};
  bool operator==(const Shares&) const = default;
};
struct Sizes {
  std::vector<Index> of{};
  bool operator==(const Sizes&) const = default;
};
struct Jagged {  // one list per coordinate of the axis `per`
  std::vector<std::vector<Index>> of{};
  std::string per{};
  bool operator==(const Jagged&) const = default;
};
using Parts = std::variant<CutBy, Shares, Sizes, Jagged>;

// A type of its own, so that {"data", "model"} never becomes one std::string.
struct Axes {
  Axes() = default;
  Axes(const char* one) : names{one} {}
  Axes(std::string one) : names{std::move(one)} {}
  Axes(std::initializer_list<const char*> several) : names(several.begin(), several.end()) {}
  explicit Axes(std::vector<std::string> several) : names(std::move(several)) {}
  std::vector<std::string> names{};  // outer to inner; empty: not cut (the override `null`)
  bool operator==(const Axes&) const = default;
};

struct Rule {
  std::string dim{};
  Axes axes{};
  Parts parts = CutBy::profile;
  Rule(const Dim& d, Axes a, Parts p = CutBy::profile) : dim(d.name), axes(std::move(a)), parts(std::move(p)) {}
  Rule(std::string d, Axes a, Parts p = CutBy::profile) : dim(std::move(d)), axes(std::move(a)), parts(std::move(p)) {}
  bool operator==(const Rule&) const = default;
};

struct LayoutRules {
  LayoutRules() = default;
  LayoutRules(std::initializer_list<Rule> rules) : split(rules) {}
  static LayoutRules load(const std::filesystem::path& file);  // UserError with file, line and column
  // Overrides for one tensor (a parameter's or a layer output's name) or for all tensors of one layer.
  LayoutRules& tensor(const std::string& name, std::vector<Rule> rules);
  LayoutRules& place(const std::string& layer, std::vector<std::string> devices);
  std::vector<Rule> split{};
  std::map<std::string, std::vector<Rule>> tensors{};
  std::map<std::string, std::vector<std::string>> places{};
};

}  // namespace motley
