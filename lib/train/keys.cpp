// SPDX-License-Identifier: Apache-2.0
#include "train/keys.h"

#include <cstring>

#include "base/random.h"

namespace motley {

ReadBox random_keys(std::uint64_t seed, const std::string& tensor, Index step) {
  return [stream = RandomStream(seed, tensor), step](const Box& box, std::span<std::byte> out) {
    const Range places = box.empty() ? Range{0, 1} : box.front();
    for (Index n = places.begin; n < places.end; n++) {
      const std::uint32_t key = stream.block(static_cast<std::uint64_t>(step) << 32U | static_cast<std::uint64_t>(n))[0];
      std::memcpy(out.data() + (n - places.begin) * static_cast<Index>(sizeof key), &key, sizeof key);
    }
  };
}

}  // namespace motley
