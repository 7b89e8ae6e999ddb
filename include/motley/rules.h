// SPDX-License-Identifier: Apache-2.0
/// @file
/// Layout rules: which dim is cut over which mesh axis, and in which parts.
#pragma once
#include <motley/dims.h>
#include <motley/exchange.h>

#include <filesystem>
#include <map>
#include <string>
#include <variant>
#include <vector>

namespace motley {
/// @addtogroup layouts
/// @{

/// How parts are computed. profile: with the least predicted step time. even: equal parts. proportional: by one speed number per
/// device, from its time for the complete layer.
enum class CutBy : std::uint8_t { profile, even, proportional };
/// Parts in these proportions, rounded by largest remainder.
struct Shares {
  std::vector<double> of{};  ///< one per rank along the axes, at least 0, one above 0
  bool operator==(const Shares&) const = default;
};
/// Parts of these sizes.
struct Sizes {
  std::vector<Index>
      of{};  ///< one per rank along the axes; they sum to the dim's size (of a dim that windows slide over: in the inputs)
  bool operator==(const Sizes&) const = default;
};
/// Sizes that differ along another axis.
struct Jagged {
  std::vector<std::vector<Index>> of{};  ///< one list of sizes per coordinate of `per`; each sums to the dim's size
  std::string per{};                     ///< an axis that the cut itself does not use
  bool operator==(const Jagged&) const = default;
};
using Parts = std::variant<CutBy, Shares, Sizes, Jagged>;  ///< How a dim is divided.

/// Axes of a rule. A separate type, so that `{"data", "model"}` is never taken for one std::string.
struct Axes {
  Axes() = default;
  Axes(const char* one) : names{one} {}                                                        ///< one axis
  Axes(std::string one) : names{std::move(one)} {}                                             ///< one axis
  Axes(std::initializer_list<const char*> several) : names(several.begin(), several.end()) {}  ///< several, outer to inner
  explicit Axes(std::vector<std::string> several) : names(std::move(several)) {}               ///< several, outer to inner
  std::vector<std::string> names{};  ///< outer to inner; empty: not cut (the override `null`)
  bool operator==(const Axes&) const = default;
};

/// One dim, the axes it is cut over, and how.
struct Rule {
  std::string dim{};             ///< name of the dim
  Axes axes{};                   ///< the mesh axes
  Parts parts = CutBy::profile;  ///< how it is divided
  /// For a Dim object of the program.
  Rule(const Dim& d, Axes a, Parts p = CutBy::profile) : dim(d.name), axes(std::move(a)), parts(std::move(p)) {}
  /// For a dim by its name.
  Rule(std::string d, Axes a, Parts p = CutBy::profile) : dim(std::move(d)), axes(std::move(a)), parts(std::move(p)) {}
  bool operator==(const Rule&) const = default;
};

/// What the planner chooses in addition to parts: the layouts of layers.
struct OpenLayouts {
  bool everything = false;            ///< of every layer without a place or an override of its own
  std::vector<std::string> dims{};    ///< whether a layer that has one of these dims is cut along it
  std::vector<std::string> layers{};  ///< of these layers
  bool any() const { return everything || !dims.empty() || !layers.empty(); }  ///< whether anything is chosen
  bool operator==(const OpenLayouts&) const = default;
};

/// One axis of a DeviceOrder.
struct NamedSize {
  std::string name{};  ///< of the axis
  Index size = 0;      ///< ranks along it
  bool operator==(const NamedSize&) const = default;
};
/// The axes, and which device is where along them, that a layout was chosen with ("axes": "auto").
struct DeviceOrder {
  std::vector<NamedSize> axes{};       ///< empty: any mesh with the axes that the rules name
  std::vector<std::string> devices{};  ///< names, row-major in the axes
  bool operator==(const DeviceOrder&) const = default;
};

/// How all tensors of a step are cut. Checked once a step and a mesh are given: balance(), measure().
struct LayoutRules {
  LayoutRules() = default;
  static LayoutRules automatic();                                   ///< the planner chooses everything: "auto"
  LayoutRules(std::initializer_list<Rule> rules) : split(rules) {}  ///< rules for every tensor that has the dim
  static LayoutRules load(const std::filesystem::path& file);       ///< Reads a layout file. UserError with file, line and column
  /// Overrides for one tensor (a parameter's or a layer output's name) or for all tensors of one layer. Returns these rules.
  LayoutRules& tensor(const std::string& name, std::vector<Rule> rules);
  /// Only these devices compute the layer; the others store and receive no part of it. Returns these rules.
  LayoutRules& place(const std::string& layer, std::vector<std::string> devices);
  std::vector<Rule> split{};                                 ///< for every tensor that has the dim
  std::map<std::string, std::vector<Rule>> tensors{};        ///< overrides: tensor or layer -> its rules
  std::map<std::string, std::vector<std::string>> places{};  ///< layer -> the devices that compute it
  OpenLayouts open{};                                        ///< what balance() chooses by the profile
  /// Where parameters are stored if another plan has decided that (Plan::homes()): parameter -> boxes of ranks, none empty, that
  /// hold each element once. Parameters not named here are stored as the rules cut them; names that the step does not have are
  /// ignored.
  std::map<std::string, std::vector<Shard>> homes{};
  DeviceOrder arrangement{};  ///< the mesh must have these axes and devices
  bool operator==(const LayoutRules&) const = default;
};

/// @}
}  // namespace motley
