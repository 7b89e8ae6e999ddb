// SPDX-License-Identifier: Apache-2.0
// Who owns which half-open range of one dim.
#pragma once
#include <motley/dims.h>

#include <span>
#include <vector>

namespace motley {

// P+1 offsets over one dim; empty parts are legal. The ONLY code of the house that divides or rounds a dim.
class Partition {
 public:
  Partition() = default;
  static Partition even(Index size, int parts);  // the first size % parts get one more
  // Largest remainder; ties to the lower rank; a share of 0 gets nothing. UserError: no share above 0.
  static Partition proportional(Index size, std::span<const double> shares);
  static Partition of(std::span<const Index> sizes);  // UserError: a negative size
  int parts() const { return static_cast<int>(offsets_.size()) - 1; }
  Index size() const { return offsets_.back(); }
  Range range(int part) const {
    return {offsets_[static_cast<std::size_t>(part)], offsets_[static_cast<std::size_t>(part) + 1]};
  }
  std::vector<Index> sizes() const;
  // The same cut of a dim that has another size after a window op: offset b becomes (2*b*to + from) / (2*from).
  Partition scaled(Index from, Index to) const;
  // The same cut of a dim from which elements were cut off or before which some were put: inner boundaries move by `by`, kept in 0..to.
  Partition shifted(Index by, Index to) const;
  auto operator<=>(const Partition&) const = default;

 private:
  std::vector<Index> offsets_{0};
};

}  // namespace motley
