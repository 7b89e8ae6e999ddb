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
struct Fields<DeviceNumbers::Granules> {
  using T = DeviceNumbers::Granules;
  static constexpr std::tuple list{field("filters", &T::filters), field("channels", &T::channels), field("batch", &T::batch),
                                   field("rows", &T::rows)};
};
template <>
struct Fields<DeviceNumbers::Efficiency> {
  using T = DeviceNumbers::Efficiency;
  static constexpr std::tuple list{field("conv2d", &T::conv2d), field("depthwise", &T::depthwise), field("dense", &T::dense),
                                   field("map", &T::map)};
};
template <>
struct Fields<DeviceNumbers> {
  static constexpr std::tuple list{field("flops_per_second", &DeviceNumbers::flops_per_second),
                                   field("memory_bytes_per_second", &DeviceNumbers::memory_bytes_per_second),
                                   field("launch_seconds", &DeviceNumbers::launch_seconds),
                                   field("cache_bytes", &DeviceNumbers::cache_bytes),
                                   field("granules", &DeviceNumbers::granules),
                                   field("efficiency", &DeviceNumbers::efficiency)};
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
                                   field("deterministic", &Device::deterministic),
                                   field("numbers", &Device::numbers)};
};

}  // namespace motley
