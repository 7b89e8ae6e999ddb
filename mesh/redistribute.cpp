// SPDX-License-Identifier: Apache-2.0
#include <motley/error.h>
#include <motley/redistribute.h>

#include <algorithm>
#include <map>
#include <memory>

#include "base/copy_box.h"
#include "mesh/control.h"

namespace motley {

namespace {

constexpr int kRedistributeTag = 32000;  // of one redistribute() after another; exchanges of Programs count from 0

std::string dims_of(const Shape& shape) {
  std::string out;
  for (const Dim& d : shape.dims()) out += (out.empty() ? "" : " ") + d.name + "=" + std::to_string(d.size);
  return "[" + out + "]";
}

// Position in `from` of every dim of `to`.
std::vector<std::size_t> order_of(const Shape& to, const Shape& from) {
  std::vector<std::size_t> order;
  for (const Dim& d : to.dims())
    if (const auto at = from.find(d.name); at && from[*at].size == d.size) order.push_back(*at);
  if (order.size() != to.rank() || to.rank() != from.rank())
    throw UserError("a tensor " + dims_of(from) + " cannot be redistributed to " + dims_of(to) +
                    ": redistribute() keeps the names and sizes of the dims; give both layouts the same dims (in any order)");
  return order;
}

template <class List>
List ordered(const List& in, const std::vector<std::size_t>& order) {
  List out(in.size());
  for (std::size_t d = 0; d < order.size(); d++) out[order[d]] = in[d];
  return out;
}

// That its axes are the mesh's, and its lists have a part for each of their ranks.
void check_cut(const Mesh& mesh, const std::string& dim, const Cut& cut) {
  const auto axes = static_cast<int>(mesh.axes().size());
  const auto size_of = [&](int axis) {
    if (axis < 0 || axis >= axes)
      throw UserError("the cut of \"" + dim + "\" names axis " + std::to_string(axis) + "; the mesh has " + std::to_string(axes));
    return mesh.axes()[static_cast<std::size_t>(axis)].size;
  };
  int parts = 1, lists = 1;
  for (const int axis : cut.axes) parts *= size_of(axis);
  if (cut.per >= 0) lists = size_of(cut.per);
  if (std::find(cut.axes.begin(), cut.axes.end(), cut.per) != cut.axes.end())
    throw UserError("the lists of \"" + dim + "\" differ along axis " + std::to_string(cut.per) + ", which the cut itself uses");
  if (static_cast<int>(cut.lists.size()) != lists)
    throw UserError("the cut of \"" + dim + "\" has " + std::to_string(cut.lists.size()) + " lists of parts; expected " +
                    (cut.per < 0 ? "one" : std::to_string(lists) + ", one per coordinate of the axis it differs along"));
  for (const Partition& list : cut.lists)
    if (list.parts() != parts)
      throw UserError("\"" + dim + "\" has " + std::to_string(list.parts()) + " parts; its axes have " + std::to_string(parts) +
                      " ranks");
}

void check_cuts(const LaidOut& at) {
  std::map<int, std::string> cut_by;  // axis -> the dim that is cut along it
  for (const auto& [dim, cut] : at.layout.cuts) {
    if (!at.layout.shape.has(dim))
      throw UserError("the layout cuts \"" + dim + "\", which is not a dim of " + dims_of(at.layout.shape));
    check_cut(at.mesh, dim, cut);
    for (const int axis : cut.axes)
      if (const auto [other, first] = cut_by.emplace(axis, dim); !first)
        throw UserError("axis \"" + at.mesh.axes()[static_cast<std::size_t>(axis)].name + "\" cuts \"" + other->second +
                        (other->second == dim ? "\" twice" : "\" and \"" + dim + "\"") + "; a layout cuts one dim along an axis");
    for (const Partition& list : cut.lists)
      if (list.size() != at.layout.shape.size_of(dim))
        throw UserError("the parts of \"" + dim + "\" sum to " + std::to_string(list.size()) + ", its size is " +
                        std::to_string(at.layout.shape.size_of(dim)));
  }
}

// A rank after the mesh's last holds nothing.
Box box_of(const LaidOut& at, int rank) {
  return rank < at.mesh.ranks() ? at.layout.box(at.mesh, rank) : Box(at.layout.shape.rank());
}
Index values_of(const LaidOut& at, int rank) {
  return rank < at.mesh.ranks() ? volume(at.layout.box(at.mesh, rank)) : 0;
}

std::vector<Shard> held_by(const LaidOut& at, const std::vector<std::size_t>& order) {
  std::vector<Shard> out;
  for (int r = 0; r < at.mesh.ranks(); r++)
    if (Box box = ordered(box_of(at, r), order); volume(box) > 0) out.push_back({r, std::move(box)});
  return out;
}

std::vector<std::size_t> as_is(const Shape& shape) {
  return order_of(shape, shape);
}

// Memory that holds a box in some order of its dims.
template <class Byte>
struct SentSlice {
  std::span<Byte> bytes{};
  Box box{};
  std::vector<Index> strides{};
  std::size_t item = 0;

  Byte* at(const Box& part) const { return bytes.data() + static_cast<std::size_t>(item_of(box, strides, part)) * item; }
  bool whole_runs(const Box& part) const {  // the part is row-major and without gaps
    const std::vector<Index> dense = row_major(part);
    for (std::size_t d = 0; d < part.size(); d++)
      if (part[d].size() > 1 && strides[d] != dense[d]) return false;
    return true;
  }
};

void move_part(const SentSlice<const std::byte>& from, const SentSlice<std::byte>& to, const Box& part) {
  copy_box(extents_of(part), from.item, from.at(part), from.strides, to.at(part), to.strides);
}

// All parts that one rank sends another: one message, part after part, each row-major.
struct Packet {
  std::vector<Box> parts{};
  std::unique_ptr<std::byte[]> memory{};
  std::span<std::byte> packed{};  // in `memory`; empty: the message is sent, or received, where the part is
  void allocate(std::size_t item) {
    const std::size_t bytes = static_cast<std::size_t>(items()) * item;
    memory = std::make_unique_for_overwrite<std::byte[]>(bytes);
    packed = {memory.get(), bytes};
  }
  Index items() const {
    Index sum = 0;
    for (const Box& b : parts) sum += volume(b);
    return sum;
  }
  SentSlice<std::byte> slice(Index first, const Box& part, std::size_t item) {
    const std::size_t at = static_cast<std::size_t>(first) * item;
    return {packed.subspan(at, static_cast<std::size_t>(volume(part)) * item), part, row_major(part), item};
  }
};

void exchange(const std::vector<BoxMessage>& messages, const SentSlice<const std::byte>& mine, const SentSlice<std::byte>& result,
              Transport& transport, const std::shared_ptr<const void>& result_owner) {
  const int me = transport.rank();
  struct Memory {
    std::map<int, Packet> outgoing{}, incoming{};
    std::shared_ptr<const void> result{};
  };
  const auto memory = std::make_shared<Memory>();
  auto& [outgoing, incoming, kept] = *memory;
  kept = result_owner;
  for (const BoxMessage& m : messages) {
    if (m.from == me && m.to == me)
      move_part(mine, result, m.box);
    else if (m.from == me)
      outgoing[m.to].parts.push_back(m.box);
    else if (m.to == me)
      incoming[m.from].parts.push_back(m.box);
  }
  control::InFlight in_flight(transport, memory);
  for (auto& [from, packet] : incoming) {
    if (packet.parts.size() == 1 && result.whole_runs(packet.parts[0])) {
      in_flight.receive(from, kRedistributeTag,
                        {result.at(packet.parts[0]), static_cast<std::size_t>(packet.items()) * result.item});
      continue;
    }
    packet.allocate(result.item);
    in_flight.receive(from, kRedistributeTag, packet.packed);
  }
  for (auto& [to, packet] : outgoing) {
    if (packet.parts.size() == 1 && mine.whole_runs(packet.parts[0])) {
      in_flight.send(to, kRedistributeTag, {mine.at(packet.parts[0]), static_cast<std::size_t>(packet.items()) * mine.item});
      continue;
    }
    packet.allocate(mine.item);
    Index first = 0;
    for (const Box& part : packet.parts) {
      move_part(mine, packet.slice(first, part, mine.item), part);
      first += volume(part);
    }
    in_flight.send(to, kRedistributeTag, packet.packed);
  }
  in_flight.finish("redistribute");
  for (auto& [from, packet] : incoming) {
    if (packet.packed.empty()) continue;
    Index first = 0;
    for (const Box& part : packet.parts) {
      const SentSlice<std::byte> arrived = packet.slice(first, part, result.item);
      move_part({arrived.bytes, arrived.box, arrived.strides, arrived.item}, result, part);
      first += volume(part);
    }
  }
}

void check_size(std::size_t found, const LaidOut& at, std::size_t item, const std::string& what, int rank) {
  const auto values = static_cast<std::size_t>(values_of(at, rank));
  if (found != values * item)
    throw UserError("rank " + std::to_string(rank) + " " + what + " " + std::to_string(values) + " values, its box " +
                    to_string(box_of(at, rank)) + ", but " + std::to_string(found / item) +
                    " were given; size it by layout.box(mesh, rank)");
}

// result_owner: of the memory of `result`, for messages that an error leaves unfinished; none: it is the caller's.
void redistribute_into(std::span<const std::byte> local, std::span<std::byte> result, DType dtype, const LaidOut& from,
                       const LaidOut& to, Transport& transport, const std::shared_ptr<const void>& result_owner) {
  const std::vector<BoxMessage> messages = moves(from, to);
  const int me = transport.rank();
  const std::size_t item = bytes_of(dtype);
  for (const LaidOut* at : {&from, &to})
    if (at->mesh.ranks() > transport.size())
      throw UserError("the mesh has " + std::to_string(at->mesh.ranks()) + " ranks, the transport " +
                      std::to_string(transport.size()) + "; start one rank per device");
  check_size(local.size(), from, item, "holds", me);
  check_size(result.size(), to, item, "is to hold", me);
  const std::vector<std::size_t> order = order_of(to.layout.shape, from.layout.shape);
  const Box had = box_of(from, me), gets = box_of(to, me);
  exchange(messages, {local, had, row_major(had), item}, {result, ordered(gets, order), ordered(row_major(gets), order), item},
           transport, result_owner);
}

template <class T>
std::vector<T> redistributed(std::span<const T> local, DType dtype, const LaidOut& from, const LaidOut& to, Transport& transport) {
  check_cuts(to);
  const auto result = std::make_shared<std::vector<T>>(static_cast<std::size_t>(values_of(to, transport.rank())));
  redistribute_into(std::as_bytes(local), std::as_writable_bytes(std::span(*result)), dtype, from, to, transport, result);
  return std::move(*result);
}

}  // namespace

std::vector<BoxMessage> moves(const LaidOut& from, const LaidOut& to) {
  check_cuts(from);
  check_cuts(to);
  return fill(held_by(from, as_is(from.layout.shape)), held_by(to, order_of(to.layout.shape, from.layout.shape)));
}

void redistribute(std::span<const std::byte> local, std::span<std::byte> result, DType dtype, const LaidOut& from,
                  const LaidOut& to, Transport& transport) {
  redistribute_into(local, result, dtype, from, to, transport, nullptr);
}

std::vector<float> redistribute(std::span<const float> local, const LaidOut& from, const LaidOut& to, Transport& transport) {
  return redistributed(local, DType::f32, from, to, transport);
}
std::vector<double> redistribute(std::span<const double> local, const LaidOut& from, const LaidOut& to, Transport& transport) {
  return redistributed(local, DType::f64, from, to, transport);
}
std::vector<std::int32_t> redistribute(std::span<const std::int32_t> local, const LaidOut& from, const LaidOut& to,
                                       Transport& transport) {
  return redistributed(local, DType::i32, from, to, transport);
}

}  // namespace motley
