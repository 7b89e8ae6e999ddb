// SPDX-License-Identifier: Apache-2.0
#include "run/gather.h"

#include <motley/error.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "base/at.h"
#include "mesh/control.h"
#include "plan/plan_data.h"
#include "program/views.h"

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

void unpack(std::span<const std::byte> bytes, const Shape& shape, std::vector<double>& values, std::vector<int>& seen) {
  std::size_t here = 0;
  while (here < bytes.size()) {
    Box box(shape.rank());
    for (Range& r : box) {
      std::memcpy(&r.begin, bytes.data() + here, sizeof r.begin);
      std::memcpy(&r.end, bytes.data() + here + sizeof r.begin, sizeof r.end);
      here += 2 * sizeof r.begin;
    }
    for_each_index(box, [&](const std::vector<Index>& i) {
      const auto global = static_cast<std::size_t>(position_of(shape, i));
      std::memcpy(&values[global], bytes.data() + here, sizeof(double));
      seen[global]++;
      here += sizeof(double);
    });
  }
}

// seen: number of ranks that give each element.
std::vector<double> put_together(const Shape& shape, const std::vector<BoxValues>& mine, Transport& transport,
                                 std::vector<int>& seen) {
  std::vector<std::byte> bytes;
  for (const BoxValues& box : mine) pack(box, bytes);
  std::vector<double> out(static_cast<std::size_t>(shape.elements()), std::numeric_limits<double>::quiet_NaN());
  seen.assign(out.size(), 0);
  for (const auto& its : transport.gather_all(bytes)) unpack(its, shape, out, seen);
  return out;
}

}  // namespace

std::vector<double> put_together(const Shape& shape, const std::vector<BoxValues>& mine, Transport& transport) {
  std::vector<int> seen;
  return put_together(shape, mine, transport, seen);
}

std::vector<double> put_together_on_first(const Shape& shape, const std::vector<BoxValues>& mine, Transport& transport) {
  std::vector<std::byte> bytes;
  for (const BoxValues& box : mine) pack(box, bytes);
  std::vector<double> out;
  std::vector<int> seen;
  if (transport.rank() == 0) {
    out.assign(static_cast<std::size_t>(shape.elements()), std::numeric_limits<double>::quiet_NaN());
    seen.assign(out.size(), 0);
  }
  control::to_first(transport, bytes, "collecting a tensor",
                    [&](int, std::span<const std::byte> its) { unpack(its, shape, out, seen); });
  for (int n : seen) check(n == 1, "every element of a parameter has one owner");
  return out;
}

WholeTensor gather_output(const Plan& plan, const Program& program, const Executor& executor, Transport& transport, int tensor) {
  std::vector<BoxValues> mine;
  const TensorPlan& t = at(plan.data().tensors, tensor);
  const int buffer = at(program.main_buffer, tensor);
  for (const Shard& h : t.owners)
    if (h.rank == program.rank && buffer >= 0) mine.push_back({h.box, executor.read(buffer, h.box)});
  const StepTensor& whole = at(plan.data().passes.tensors, tensor);
  return {whole.name, whole.shape, put_together(whole.shape, mine, transport)};
}

WholeTensor gather_parameter(const Plan& plan, const Program& program, const Executor& executor, Transport& transport,
                             int parameter, Part part) {
  std::vector<BoxValues> mine;
  for (const Slice& s : program.slices)
    if (s.tensor == parameter) mine.push_back({s.box, executor.read(part == Part::value ? s.value : s.gradient, s.box)});
  std::vector<int> seen;
  const StepTensor& whole = at(plan.data().passes.tensors, parameter);
  WholeTensor out{whole.name, whole.shape, put_together(whole.shape, mine, transport, seen)};
  for (int n : seen) check(n == 1, "every element of a parameter has one owner");
  return out;
}

}  // namespace motley
