// SPDX-License-Identifier: Apache-2.0
#include "run/gather.h"

#include <motley/error.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "base/at.h"
#include "plan/plan_data.h"
#include "program/views.h"

namespace motley {

namespace {

// Boxes with their values as bytes: dims pairs, then doubles.
struct Parcel {
  std::vector<std::byte> bytes{};
  void add(const Box& box, const std::vector<double>& values) {
    for (const Range& r : box) {
      put(&r.begin, sizeof r.begin);
      put(&r.end, sizeof r.end);
    }
    put(values.data(), values.size() * sizeof(double));
  }
  void put(const void* from, std::size_t size) {
    const auto* p = static_cast<const std::byte*>(from);
    bytes.insert(bytes.end(), p, p + size);
  }
};

void unpack(const std::vector<std::byte>& bytes, WholeTensor& into, std::vector<int>& seen) {
  const std::size_t dims = into.shape.rank();
  std::size_t here = 0;
  while (here < bytes.size()) {
    Box box(dims);
    for (Range& r : box) {
      std::memcpy(&r.begin, bytes.data() + here, sizeof r.begin);
      std::memcpy(&r.end, bytes.data() + here + sizeof r.begin, sizeof r.end);
      here += 2 * sizeof r.begin;
    }
    for_each_index(box, [&](const std::vector<Index>& i) {
      const auto global = static_cast<std::size_t>(position_of(into.shape, i));
      std::memcpy(&into.values[global], bytes.data() + here, sizeof(double));
      seen[global]++;
      here += sizeof(double);
    });
  }
}

WholeTensor put_together(const StepTensor& tensor, const Parcel& mine, Transport& transport, std::vector<int>& seen) {
  WholeTensor out{tensor.name, tensor.shape,
                  std::vector<double>(static_cast<std::size_t>(tensor.shape.elements()), std::numeric_limits<double>::quiet_NaN())};
  seen.assign(out.values.size(), 0);
  for (const auto& bytes : transport.gather_all(mine.bytes)) unpack(bytes, out, seen);
  return out;
}

}  // namespace

WholeTensor gather_output(const Plan& plan, const Program& program, const Executor& executor, Transport& transport, int tensor) {
  Parcel mine;
  const TensorPlan& t = at(plan.data().tensors, tensor);
  const int buffer = at(program.main_buffer, tensor);
  for (const Shard& h : t.owners)
    if (h.rank == program.rank && buffer >= 0) mine.add(h.box, executor.read(buffer, h.box));
  std::vector<int> seen;
  return put_together(at(plan.data().passes.tensors, tensor), mine, transport, seen);
}

WholeTensor gather_parameter(const Plan& plan, const Program& program, const Executor& executor, Transport& transport,
                             int parameter, Part part) {
  Parcel mine;
  for (const Slice& s : program.slices)
    if (s.tensor == parameter) mine.add(s.box, executor.read(part == Part::value ? s.value : s.gradient, s.box));
  std::vector<int> seen;
  WholeTensor out = put_together(at(plan.data().passes.tensors, parameter), mine, transport, seen);
  for (int n : seen) check(n == 1, "every element of a parameter has one owner");
  return out;
}

}  // namespace motley
