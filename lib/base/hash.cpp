// SPDX-License-Identifier: Apache-2.0
#include "base/hash.h"

#include <motley/error.h>

// Compiled into this file: no library at run time.
#define XXH_INLINE_ALL
#include <xxhash.h>
#undef XXH_INLINE_ALL

namespace motley {

std::uint64_t hash_bytes(const void* from, std::size_t size) {
  static const bool by_avx2 = has_avx2();
  return by_avx2 ? hash_by_avx2(from, size) : XXH3_64bits(from, size);
}

Hash::~Hash() {
  XXH3_freeState(static_cast<XXH3_state_t*>(state_));
}

void Hash::spill(const void* from, std::size_t size) {
  if (state_ == nullptr) {
    state_ = XXH3_createState();
    check(state_ != nullptr && XXH3_64bits_reset(static_cast<XXH3_state_t*>(state_)) == XXH_OK, "XXH3 has memory for its state");
  }
  auto* const state = static_cast<XXH3_state_t*>(state_);
  check(XXH3_64bits_update(state, buffer_.data(), used_) == XXH_OK && XXH3_64bits_update(state, from, size) == XXH_OK,
        "XXH3 takes bytes");
  used_ = 0;
}

std::uint64_t Hash::value() {
  if (state_ == nullptr) return XXH3_64bits(buffer_.data(), used_);
  spill(nullptr, 0);
  return XXH3_64bits_digest(static_cast<XXH3_state_t*>(state_));
}

}  // namespace motley
