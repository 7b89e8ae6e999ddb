// SPDX-License-Identifier: Apache-2.0
// A value's fields, listed once: equality, hash (base/hash.h) and JSON of a type use the same list, so none of them can omit a
// field. A list that leaves a field out, or has one twice, does not compile. The lists are declared beside the types:
// base/value_fields.h, mesh/mesh_fields.h, kernels/kernel_spec_fields.h, graph/step_fields.h, plan/plan_fields.h.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>

namespace motley {

// member: a data member, or a function that returns what a class keeps private. doc and least (of its numbers): for JSON.
template <class M>
struct NamedField {
  const char* name;
  M member;
  const char* doc;
  std::int64_t least;
};
template <class M>
constexpr NamedField<M> field(const char* name, M member, const char* doc = "", std::int64_t least = INT64_MIN) {
  return {name, member, doc, least};
}

// Specialised for each such type: `static constexpr std::tuple list{field("name", &T::name), ...};`, in the order of declaration.
template <class T>
struct Fields;
template <class T>
concept HasFields = requires {
  Fields<T>::list;
};

template <class T, class M>
using FieldType = std::remove_cvref_t<std::invoke_result_t<M, const T&>>;

namespace fields_detail {

template <class T, class... M>
consteval bool holds_all(const std::tuple<NamedField<M>...>*) {
  if constexpr (std::is_aggregate_v<T>) {
    // The listed fields initialise a T, which has no further field.
    return requires {
      T{std::declval<FieldType<T, M>>()...};
    }
    &&!requires {
      T{std::declval<FieldType<T, M>>()..., {}};
    };
  } else {  // with constructors: its fields are contiguous and fill it
    std::size_t end = 0, widest = 1;
    ((end = (end + alignof(FieldType<T, M>) - 1) / alignof(FieldType<T, M>) * alignof(FieldType<T, M>) + sizeof(FieldType<T, M>),
      widest = widest < alignof(FieldType<T, M>) ? alignof(FieldType<T, M>) : widest),
     ...);
    return (end + widest - 1) / widest * widest == sizeof(T);
  }
}

template <class List>
consteval bool differ(const List& list) {
  return std::apply(
      [](const auto&... one) {
        auto same_address = [](const auto& a, const auto& b) {
          if constexpr (std::is_same_v<decltype(a.member), decltype(b.member)>)
            return a.member == b.member;
          else
            return false;
        };
        auto times = [&](const auto& a) { return (0 + ... + (same_address(a, one) ? 1 : 0)); };
        return ((times(one) == 1) && ...);
      },
      list);
}

}  // namespace fields_detail

// Is every field of T in its list, once?
template <HasFields T>
consteval bool lists_all_fields() {
  return fields_detail::holds_all<T>(static_cast<const std::remove_const_t<decltype(Fields<T>::list)>*>(nullptr)) &&
         fields_detail::differ(Fields<T>::list);
}

// Calls visit(field) for each field of the list; the value is std::invoke(field.member, object).
template <HasFields T, class F>
constexpr void for_each_field(F&& visit) {
  static_assert(lists_all_fields<T>(), "Fields<T>::list has every field of T once, in the order of declaration");
  std::apply([&](const auto&... one) { (visit(one), ...); }, Fields<T>::list);
}

// Compares by value, also through pointers.
template <class T>
bool same_value(const T& a, const T& b) {
  return a == b;
}
template <class T>
bool same_value(const std::shared_ptr<T>& a, const std::shared_ptr<T>& b) {
  return a == b || (a != nullptr && b != nullptr && *a == *b);
}

// Equality for types that do not define it themselves.
template <HasFields T>
bool operator==(const T& a, const T& b) {
  bool equal = true;
  for_each_field<T>([&](const auto& f) { equal = equal && same_value(std::invoke(f.member, a), std::invoke(f.member, b)); });
  return equal;
}

}  // namespace motley
