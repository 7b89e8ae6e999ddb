// SPDX-License-Identifier: Apache-2.0
#include "graph/compiled.h"

namespace motley {

std::vector<CompiledFormula>& compiled_formulas() {
  static std::vector<CompiledFormula> list;
  return list;
}

}  // namespace motley
