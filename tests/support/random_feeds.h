// SPDX-License-Identifier: Apache-2.0
// Random meshes and f64 inputs for training random networks.
#pragma once
#include <motley/batch.h>

#include <cstring>

#include "base/random.h"
#include "tests/support/each_index.h"
#include "tests/support/random_network.h"

namespace motley::law {

// Values determined by the input's name, the element's global index and a number; labels are 0 or 1.
inline ReadBox values_of(const Tensor& input, Index number) {
  return [shape = input.shape(), stream = RandomStream(static_cast<std::uint64_t>(number), input.name()), dtype = input.dtype()](
             const Box& box, std::span<std::byte> out) {
    std::size_t k = 0;
    for_each_index(box, [&](const std::vector<Index>& here) {
      const auto global = static_cast<std::uint64_t>(position_of(shape, here));
      if (dtype == DType::i32) {
        const auto label = static_cast<std::int32_t>(stream.bits(global) % 2);
        std::memcpy(out.data() + sizeof label * k++, &label, sizeof label);
      } else {
        const double value = 2 * stream.uniform(global) - 1;
        std::memcpy(out.data() + sizeof value * k++, &value, sizeof value);
      }
    });
  };
}

inline std::vector<Axis> axes_of(Random& random, int ranks) {
  if (ranks == 4 && chance(random, 0.5)) return {{"a", 2}, {"b", 2}};
  if (chance(random, 0.3)) return {{"a", 1}, {"b", ranks}};
  return {{"a", ranks}};
}

// Of all inputs, or of those that an inference has.
inline std::map<std::string, ReadBox> feeds_of(const Network& net, Index number, bool labels) {
  std::map<std::string, ReadBox> out;
  for (const auto& [name, tensor] : net.inputs)
    if (labels || tensor.dtype() != DType::i32) out.emplace(name, values_of(tensor, number));
  return out;
}

}  // namespace motley::law
