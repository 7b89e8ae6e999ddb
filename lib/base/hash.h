// SPDX-License-Identifier: Apache-2.0
// The one hash of the project: XXH3, 64 bits (Y. Collet, xxHash 0.8: its values are fixed), over the fields of values or over
// bytes.
#pragma once
#include <motley/dims.h>

#include <array>
#include <bit>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/fields.h"

namespace motley {

std::uint64_t hash_bytes(const void* from, std::size_t size);
std::uint64_t hash_by_avx2(const void* from, std::size_t size);  // the same values, faster, where the CPU has AVX2
bool has_avx2();
inline std::uint64_t hash_bytes(std::string_view text) {
  return hash_bytes(text.data(), text.size());
}

// Hashes values of one type such that unequal values give unequal bytes: numbers at full width, lists and texts after their length,
// variants after their index, optionals after a flag. Bytes are in this machine's order: for ranks of one run and for files of one
// machine.
class Hash {
 public:
  Hash() {}  // buffer_ is filled as it is used
  ~Hash();
  Hash(const Hash&) = delete;
  Hash& operator=(const Hash&) = delete;
  void bytes(const void* from, std::size_t size) {
    if (size > buffer_.size() - used_) return spill(from, size);
    if (size > 0) std::memcpy(buffer_.data() + used_, from, size);
    used_ += size;
  }
  std::uint64_t value();

  template <class T>
  requires std::is_integral_v<T> || std::is_enum_v<T> Hash& add(T v) {
    bytes(&v, sizeof v);
    return *this;
  }
  Hash& add(double v) { return add(std::bit_cast<std::uint64_t>(v == 0 ? 0.0 : v)); }  // -0 equals 0
  Hash& add(const std::string& v) {
    add(v.size()).bytes(v.data(), v.size());
    return *this;
  }
  template <class T>
  Hash& add(const std::vector<T>& v) {
    add(v.size());
    return elements(v);
  }
  template <class T>
  requires std::is_same_v<T, Box> Hash& add(const T& v) {
    add(v.size());
    return elements(v);
  }
  template <class T, std::size_t N>
  Hash& add(const std::array<T, N>& v) {
    return elements(v);
  }
  template <class K, class T>
  Hash& add(const std::map<K, T>& v) {
    add(v.size());
    for (const auto& [key, one] : v) add(key).add(one);
    return *this;
  }
  template <class T>
  Hash& add(const std::optional<T>& v) {
    add(v.has_value());
    return v ? add(*v) : *this;
  }
  template <class T>
  Hash& add(const std::shared_ptr<T>& v) {
    add(v != nullptr);
    return v != nullptr ? add(*v) : *this;
  }
  template <class... T>
  Hash& add(const std::variant<T...>& v) {
    add(v.index());
    std::visit([&](const auto& one) { add(one); }, v);
    return *this;
  }
  template <HasFields T>
  Hash& add(const T& v) {
    for_each_field<T>([&](const auto& f) { add(std::invoke(f.member, v)); });
    return *this;
  }

 private:
  template <class List>
  Hash& elements(const List& v) {
    using T = typename List::value_type;
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>)
      bytes(v.data(), v.size() * sizeof(T));
    else
      for (const T& one : v) add(one);
    return *this;
  }
  void spill(const void* from, std::size_t size);
  std::array<std::byte, 1024> buffer_;  // most values fit: they are hashed at once
  std::size_t used_ = 0;
  void* state_ = nullptr;  // XXH3's, from the first byte that did not fit on
};

template <class T>
std::uint64_t hash_of(const T& value) {
  Hash hash;
  hash.add(value);
  return hash.value();
}

}  // namespace motley
