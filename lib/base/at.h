// SPDX-License-Identifier: Apache-2.0
// Lists whose elements have integer ids.
#pragma once
#include <motley/error.h>

#include <concepts>
#include <cstddef>
#include <string>
#include <type_traits>

namespace motley {

// The element with this id, checked.
template <class List, class Id>
requires std::integral<Id> || std::is_enum_v<Id>
decltype(auto) at(List&& list, Id id) {
  const auto i = static_cast<std::size_t>(id);  // a negative id becomes too large
  if (i >= list.size()) [[unlikely]]
    throw InternalError("id " + std::to_string(static_cast<long long>(id)) + " is not in its list of " +
                        std::to_string(list.size()));
  return list[i];
}

}  // namespace motley
