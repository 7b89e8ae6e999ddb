// SPDX-License-Identifier: Apache-2.0
// The fields of meshes, layouts and exchanges.
#pragma once
#include <motley/exchange.h>
#include <motley/layout.h>
#include <motley/schedule.h>

#include "base/value_fields.h"

namespace motley {

template <>
struct Fields<Axis> {
  static constexpr std::tuple list{field("name", &Axis::name), field("size", &Axis::size)};
};
template <>
struct Fields<MeshLink> {
  static constexpr std::tuple list{field("between", &MeshLink::between), field("a", &MeshLink::a), field("b", &MeshLink::b),
                                   field("seconds", &MeshLink::seconds), field("bytes_per_second", &MeshLink::bytes_per_second)};
};
template <>
struct Fields<Mesh> {
  static constexpr std::tuple list{field("axes", &Mesh::axes), field("devices", &Mesh::devices), field("links", &Mesh::links)};
};
template <>
struct Fields<Cut> {
  static constexpr std::tuple list{field("axes", &Cut::axes), field("per", &Cut::per), field("lists", &Cut::lists)};
};
template <>
struct Fields<Layout> {
  static constexpr std::tuple list{field("shape", &Layout::shape), field("cuts", &Layout::cuts)};
};
template <>
struct Fields<Shard> {
  static constexpr std::tuple list{field("rank", &Shard::rank), field("box", &Shard::box)};
};
template <>
struct Fields<BoxMessage> {
  static constexpr std::tuple list{field("from", &BoxMessage::from), field("to", &BoxMessage::to), field("box", &BoxMessage::box),
                                   field("writers", &BoxMessage::writers), field("tree", &BoxMessage::tree)};
};
template <>
struct Fields<Schedule> {
  static constexpr std::tuple list{field("tree", &Schedule::tree), field("chunks", &Schedule::chunks)};
};

}  // namespace motley
