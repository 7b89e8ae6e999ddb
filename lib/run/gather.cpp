// SPDX-License-Identifier: Apache-2.0
#include "run/gather.h"

#include <motley/error.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/at.h"
#include "base/copy_box.h"
#include "mesh/control.h"
#include "plan/plan_data.h"

namespace motley {

namespace {

// The dims' ranges, then the values as doubles.
void pack(const BoxValues& from, std::vector<std::byte>& bytes) {
  auto put = [&](const void* data, std::size_t size) {
    const auto* p = static_cast<const std::byte*>(data);
    bytes.insert(bytes.end(), p, p + size);
  };
  for (const Range& r : from.box) {
    put(&r.begin, sizeof r.begin);
    put(&r.end, sizeof r.end);
  }
  put(from.values.data(), from.values.size() * sizeof(double));
}

// The values of elements that no box has had so far: a NaN that nothing computes.
constexpr std::uint64_t kMissing = 0x7ff8'006d'6f74'6c79;

// A tensor while its boxes arrive.
struct Assembly {
  const Shape& shape;
  std::vector<double> values{};
  Index given = 0;  // elements

  void begin() { values.assign(static_cast<std::size_t>(shape.elements()), std::bit_cast<double>(kMissing)); }

  void add(std::span<const std::byte> bytes) {
    const Box all = whole(shape);
    const std::vector<Index> strides = row_major(all);
    while (!bytes.empty()) {
      Box box(shape.rank());
      for (Range& r : box) {
        std::memcpy(&r.begin, bytes.data(), sizeof r.begin);
        std::memcpy(&r.end, bytes.data() + sizeof r.begin, sizeof r.end);
        bytes = bytes.subspan(2 * sizeof r.begin);
      }
      copy_box(extents_of(box), sizeof(double), bytes.data(), row_major(box),
               std::as_writable_bytes(std::span(values)).data() + item_of(all, strides, box) * static_cast<Index>(sizeof(double)),
               strides);
      bytes = bytes.subspan(static_cast<std::size_t>(volume(box)) * sizeof(double));
      given += volume(box);
    }
  }

  // As many as the tensor has, and none is missing: each once.
  bool each_once() const {
    return given == static_cast<Index>(values.size()) &&
           std::none_of(values.begin(), values.end(), [](double v) { return std::bit_cast<std::uint64_t>(v) == kMissing; });
  }
};

Assembly assembled(const Shape& shape, const std::vector<BoxValues>& mine, Transport& transport, Gathered where) {
  std::vector<std::byte> bytes;
  for (const BoxValues& box : mine) pack(box, bytes);
  Assembly out{shape};
  if (where == Gathered::everywhere || transport.rank() == 0) out.begin();
  if (where == Gathered::everywhere)
    for (const auto& its : transport.gather_all(bytes)) out.add(its);
  else
    control::to_first(transport, bytes, "collecting a tensor", [&](int, std::span<const std::byte> its) { out.add(its); });
  return out;
}

}  // namespace

std::vector<double> put_together(const Shape& shape, const std::vector<BoxValues>& mine, Transport& transport, Gathered where) {
  Assembly out = assembled(shape, mine, transport, where);
  check(out.each_once(), "every element of a parameter has one owner");
  return std::move(out.values);
}

WholeTensor gather_output(const Plan& plan, const Program& program, const Executor& executor, Transport& transport, int tensor,
                          Gathered where) {
  std::vector<BoxValues> mine;
  const TensorPlan& t = at(plan.data().tensors, tensor);
  for (const Shard& h : t.owners)
    if (h.rank == program.rank)
      if (const int buffer = program.buffer_of(tensor, Stored::As::owner, h.box); buffer >= 0)
        mine.push_back({h.box, executor.read(buffer, h.box)});
  const StepTensor& whole = at(plan.data().passes.tensors, tensor);
  return {whole.name, whole.shape, assembled(whole.shape, mine, transport, where).values};
}

WholeTensor gather_parameter(const Plan& plan, const Program& program, const Executor& executor, Transport& transport,
                             int parameter, Part part, Gathered where) {
  std::vector<BoxValues> mine;
  for (const Slice& s : program.slices)
    if (s.tensor == parameter) mine.push_back({s.box, executor.read(part == Part::value ? s.value : s.gradient, s.box)});
  const StepTensor& whole = at(plan.data().passes.tensors, parameter);
  return {whole.name, whole.shape, put_together(whole.shape, mine, transport, where)};
}

}  // namespace motley
