// SPDX-License-Identifier: Apache-2.0
// The fields of base's values.
#pragma once
#include <motley/device.h>
#include <motley/partition.h>

#include "base/fields.h"

namespace motley {

template <>
struct Fields<Dim> {
  static constexpr std::tuple list{field("name", &Dim::name), field("size", &Dim::size)};
};
template <>
struct Fields<Shape> {
  static constexpr std::tuple list{field("dims", &Shape::dims)};
};
template <>
struct Fields<Range> {
  static constexpr std::tuple list{field("begin", &Range::begin), field("end", &Range::end)};
};
template <>
struct Fields<Partition> {  // offsets start with 0
  static constexpr std::tuple list{field("sizes", &Partition::sizes)};
};
template <>
struct Fields<Device> {
  static constexpr std::tuple list{field("name", &Device::name),
                                   field("host", &Device::host),
                                   field("isa", &Device::isa),
                                   field("library", &Device::library),
                                   field("kind", &Device::kind),
                                   field("index", &Device::index),
                                   field("threads", &Device::threads),
                                   field("cores", &Device::cores),
                                   field("memory_bytes", &Device::memory_bytes),
                                   field("of", &Device::of),
                                   field("slowdown", &Device::slowdown),
                                   field("tf32", &Device::tf32),
                                   field("deterministic", &Device::deterministic)};
};

}  // namespace motley
