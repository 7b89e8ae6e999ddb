// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <motley/dims.h>

#include <cstddef>

namespace motley::svm {

// As vectors take it.
inline std::size_t at(Index i) {
  return static_cast<std::size_t>(i);
}

}  // namespace motley::svm
