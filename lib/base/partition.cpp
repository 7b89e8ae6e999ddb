// SPDX-License-Identifier: Apache-2.0
#include <motley/error.h>
#include <motley/partition.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace motley {

__extension__ using Wide = __int128;  // the product of two sizes

Partition Partition::even(Index size, int parts) {
  if (parts < 1 || size < 0)
    throw UserError("expected a size of at least 0 and parts, found " + std::to_string(size) + " and " + std::to_string(parts));
  Partition out;
  for (int i = 0; i < parts; i++) out.offsets_.push_back(out.offsets_.back() + size / parts + (i < size % parts ? 1 : 0));
  return out;
}

Partition Partition::even(Index size, int parts, Index multiple) {
  if (multiple < 1) throw UserError("expected multiples of at least 1, found " + std::to_string(multiple));
  Partition out = even(size, parts);
  if (multiple == 1 || size / multiple < parts) return out;
  for (int i = 1; i < parts; i++) {
    Index& offset = out.offsets_[static_cast<std::size_t>(i)];
    const Wide twice = 2 * static_cast<Wide>(parts) * multiple;
    offset = static_cast<Index>((2 * static_cast<Wide>(i) * size + static_cast<Wide>(parts) * multiple) / twice) * multiple;
  }
  return out;
}

Partition Partition::proportional(Index size, std::span<const double> shares) {
  const double total = std::accumulate(shares.begin(), shares.end(), 0.0);
  const bool bad = std::any_of(shares.begin(), shares.end(), [](double s) { return !(s >= 0); });
  if (bad || !(total > 0) || !std::isfinite(total))
    throw UserError("shares must be numbers of at least 0, one of them above 0, with a finite sum");
  std::vector<Index> sizes(shares.size());
  std::vector<double> missing(shares.size());
  Index given = 0;
  for (std::size_t i = 0; i < shares.size(); i++) {
    const double exact = static_cast<double>(size) * (shares[i] / total);
    sizes[i] = exact < static_cast<double>(size - given) ? static_cast<Index>(std::floor(exact)) : size - given;
    missing[i] = shares[i] > 0 ? exact - static_cast<double>(sizes[i]) : -1.0;
    given += sizes[i];
  }
  std::vector<std::size_t> order(shares.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  // Remainders that differ only by rounding are equal: 1e-9 of a unit.
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return std::llround(missing[a] * 1e9) > std::llround(missing[b] * 1e9); });
  while (given < size)
    for (std::size_t i : order)
      if (given < size && shares[i] > 0) {
        sizes[i]++;
        given++;
      }
  return of(sizes);
}

Partition Partition::of(std::span<const Index> sizes) {
  Partition out;
  for (Index s : sizes) {
    if (s < 0) throw UserError("a part of size " + std::to_string(s));
    if (s > std::numeric_limits<Index>::max() - out.offsets_.back()) throw UserError("the parts sum to more than 2^63");
    out.offsets_.push_back(out.offsets_.back() + s);
  }
  return out;
}

std::vector<Index> Partition::sizes() const {
  std::vector<Index> out;
  for (int i = 0; i < parts(); i++) out.push_back(range(i).size());
  return out;
}

Partition Partition::shifted(Index by, Index to) const {
  Partition out = *this;
  for (Index& b : out.offsets_) b = b == 0 ? 0 : b == size() ? to : std::clamp<Index>(b + by, 0, to);
  return out;
}

Partition Partition::scaled(Index from, Index to) const {
  if (from != size())
    throw UserError("a partition of " + std::to_string(size()) + " units cannot be scaled from " + std::to_string(from));
  if (to < 0) throw UserError("a partition cannot be scaled to " + std::to_string(to) + " units");
  if (from == to || from == 0) return *this;
  Partition out = *this;
  for (Index& b : out.offsets_) b = static_cast<Index>((2 * static_cast<Wide>(b) * to + from) / (2 * static_cast<Wide>(from)));
  return out;
}

}  // namespace motley
