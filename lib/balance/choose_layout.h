// SPDX-License-Identifier: Apache-2.0
// Open rules -> rules that say what is cut, and their parts.
#pragma once
#include <motley/step.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "balance/choose_parts.h"
#include "balance/layout_choices.h"
#include "balance/priced_passes.h"

namespace motley {

struct ChosenLayout {
  std::string text{};                            // "conv2d_1 to conv2d_8 by batch; dense_9 by hidden"; empty: the rules said it
  std::vector<int> chosen{};                     // per bundle (LayoutChoices)
  LayoutRules rules{};                           // nothing open but parts
  std::shared_ptr<const PricedPasses> priced{};  // under these rules
  ChosenParts parts{};
  bool uniform = false;                  // one of LayoutChoices::uniform()
  Weights weights = Weights::as_chosen;  // of `rules`
  std::vector<LayerChoice> layers{};
  std::string others{};  // for people: the other layouts and their seconds
};

// Of which layouts. beyond_one_axis: those that cut some layer over a part of the axes alone; the others are the same on one axis.
enum class Among : std::uint8_t { all, beyond_one_axis };

// The least predicted of these, each with its best parts: the best layouts on tables (layout_tables.h) and the uniform ones
// (LayoutChoices::uniform), with both Weights, then what changes of one bundle make of the fastest while the step gets faster.
// Uniform ones also win within half a per cent. Then the others that are predicted within 15 % of it, at most 2.
// Without a profile: the best on tables alone.
// Rules with nothing open: one, of these rules. Pure.
std::vector<ChosenLayout> choose_layouts(const Step& step, const Mesh& mesh, const LayoutRules& rules, const Profile& profile,
                                         DType dtype, Among among = Among::all);

// Predicted seconds of the fastest layout with the parts of the tables; nothing: there is none, or the fastest device alone is no
// slower. Rules that leave layouts open. Pure.
std::optional<double> seconds_with_table_parts(const Step& step, const Mesh& mesh, const LayoutRules& rules, const Profile& profile,
                                               DType dtype, Among among);
// Seconds of the best layout on tables, without a complete plan: they rank meshes, and are no prediction. Rules that leave layouts
// open. Pure.
double least_on_tables(const Step& step, const Mesh& mesh, const LayoutRules& rules, const Profile& profile, DType dtype);

// What a profile has to know to choose between layouts: these rules; where something is open, the uniform layouts.
std::vector<LayoutRules> layouts_to_measure(const Step& step, const Mesh& mesh, const LayoutRules& rules);
// The rules of a plan with those parts open again that the given ones, which may leave layouts open, do not say.
LayoutRules with_open_parts(LayoutRules resolved, const LayoutRules& given);

}  // namespace motley
