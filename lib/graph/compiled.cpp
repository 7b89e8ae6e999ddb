// SPDX-License-Identifier: Apache-2.0
#include "graph/compiled.h"

#include <map>

namespace motley {

namespace {

struct Declared {
  std::vector<CompiledFormula> formulas{};
  std::vector<std::vector<RowFormula> (*)()> later{};
};
CompiledFormula compiled(const RowFormula& f) {
  CompiledFormula out{f.formula};
  for (const int k : f.still) out.still |= 1U << k;
  for (const int k : f.fixed) out.fixed |= 1U << k;
  for (const int k : f.wide) out.wide |= 1U << k;
  if (out.wide != 0) out.width = Width::f64;
  out.summed = f.summed;
  return out;
}
Declared& declared() {
  static Declared all;
  return all;
}

}  // namespace

Compiled::Compiled(const std::vector<Formula>& formulas, Width width) {
  for (const Formula& f : formulas) declared().formulas.push_back({f, width});
}

Compiled::Compiled(const std::vector<RowFormula>& formulas) {
  for (const RowFormula& f : formulas) declared().formulas.push_back(compiled(f));
}

Compiled::Compiled(std::vector<RowFormula> (*formulas)()) {
  declared().later.push_back(formulas);
}

const std::vector<CompiledFormula>& compiled_formulas() {
  static const std::vector<CompiledFormula> all = [] {
    std::vector<CompiledFormula> out = declared().formulas;
    for (const auto formulas : declared().later)
      for (const RowFormula& f : formulas()) out.push_back(compiled(f));
    return out;
  }();
  return all;
}

Value in_order(const Formula& formula, int first) {
  std::map<int, int> numbers;
  return apply(formula, [&](int k) { return operand(numbers.emplace(k, first + static_cast<int>(numbers.size())).first->second); })
      .front();
}

}  // namespace motley
