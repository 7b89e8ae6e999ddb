// SPDX-License-Identifier: Apache-2.0
/// @file
/// Which rank has which half-open range of one dim.
#pragma once
#include <motley/dims.h>

#include <span>
#include <vector>

namespace motley {
/// @addtogroup layouts
/// @{

/// P+1 offsets over one dim; empty parts are legal. The only code that divides or rounds a dim.
class Partition {
 public:
  Partition() = default;
  /// size / parts each; the first size % parts get one more. UserError: a negative size, no parts.
  static Partition even(Index size, int parts);
  /// The same, with inner boundaries rounded to multiples of `multiple` if `size` has at least as many multiples as there are
  /// parts.
  static Partition even(Index size, int parts, Index multiple);
  /// By largest remainder; of equal remainders the lower rank's counts first; a share of 0 gets nothing. UserError: no share above
  /// 0.
  static Partition proportional(Index size, std::span<const double> shares);
  static Partition of(std::span<const Index> sizes);                   ///< parts of these sizes. UserError: a negative one
  int parts() const { return static_cast<int>(offsets_.size()) - 1; }  ///< number of parts, empty ones included
  Index size() const { return offsets_.back(); }                       ///< of the dim
  /// Global indices of a part.
  Range range(int part) const { return {offsets_[static_cast<std::size_t>(part)], offsets_[static_cast<std::size_t>(part) + 1]}; }
  std::vector<Index> sizes() const;  ///< of the parts
  /// The same cut of a dim whose size a window op has changed: offset b becomes `(2*b*to + from) / (2*from)`.
  /// UserError: `from` is not its size; `to` is negative.
  Partition scaled(Index from, Index to) const;
  /// The same cut of a dim that was sliced or padded: inner boundaries move by `by`, clamped to 0..to.
  Partition shifted(Index by, Index to) const;
  auto operator<=>(const Partition&) const = default;

 private:
  std::vector<Index> offsets_{0};
};

/// @}
}  // namespace motley
