// SPDX-License-Identifier: Apache-2.0
#include "run/gather.h"

#include <motley/error.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "plan/plan_data.h"

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
  std::size_t at = 0;
  while (at < bytes.size()) {
    Box box(dims);
    for (Range& r : box) {
      std::memcpy(&r.begin, bytes.data() + at, sizeof r.begin);
      std::memcpy(&r.end, bytes.data() + at + sizeof r.begin, sizeof r.end);
      at += 2 * sizeof r.begin;
    }
    std::vector<Index> i(dims, 0);
    for (Index left = volume(box); left > 0; left--) {
      Index global = 0;
      for (std::size_t d = 0; d < dims; d++) global = global * into.shape[d].size + box[d].begin + i[d];
      std::memcpy(&into.values[static_cast<std::size_t>(global)], bytes.data() + at, sizeof(double));
      seen[static_cast<std::size_t>(global)]++;
      at += sizeof(double);
      for (std::size_t d = dims; d-- > 0;) {
        if (++i[d] < box[d].size()) break;
        i[d] = 0;
      }
    }
  }
}

WholeTensor put_together(const StepTensor& tensor, const Parcel& mine, Transport& transport, std::vector<int>& seen) {
  WholeTensor out{tensor.name, tensor.shape, std::vector<double>(static_cast<std::size_t>(tensor.shape.elements()), std::numeric_limits<double>::quiet_NaN())};
  seen.assign(out.values.size(), 0);
  for (const auto& bytes : transport.gather_all(mine.bytes)) unpack(bytes, out, seen);
  return out;
}

std::uint64_t hash_of(const std::vector<double>& values) {
  std::uint64_t h = 14695981039346656037ULL;
  for (double v : values) h = (h ^ std::bit_cast<std::uint64_t>(v)) * 1099511628211ULL;
  return h;
}

}  // namespace

WholeTensor gather_output(const Plan& plan, const Program& program, const Executor& executor, Transport& transport, int tensor) {
  Parcel mine;
  const TensorPlan& t = plan.data().tensors[static_cast<std::size_t>(tensor)];
  const int buffer = program.main_buffer[static_cast<std::size_t>(tensor)];
  for (const Held& h : t.tiles)
    if (h.rank == program.rank && buffer >= 0) mine.add(h.box, executor.read(buffer, h.box));
  std::vector<int> seen;
  return put_together(plan.data().passes.tensors[static_cast<std::size_t>(tensor)], mine, transport, seen);
}

WholeTensor gather_parameter(const Plan& plan, const Program& program, const Executor& executor, Transport& transport, int parameter, Part part) {
  Parcel mine;
  for (const Slice& s : program.slices)
    if (s.tensor == parameter) mine.add(s.box, executor.read(part == Part::value ? s.value : s.gradient, s.box));
  std::vector<int> seen;
  WholeTensor out = put_together(plan.data().passes.tensors[static_cast<std::size_t>(parameter)], mine, transport, seen);
  for (int n : seen) check(n == 1, "every element of a parameter has one owner");
  return out;
}

std::vector<std::string> copies_differ(const Plan& plan, const Program& program, const Executor& executor, Transport& transport) {
  std::vector<std::string> out;
  const PlanData& data = plan.data();
  for (int parameter : data.passes.parameters) {
    const auto at = static_cast<std::size_t>(parameter);
    std::vector<std::uint64_t> mine;  // per owner's box: 0 where this rank has no whole copy of it
    const int buffer = program.main_buffer[at];
    for (const Held& owner : data.tensors[at].rest) {
      std::uint64_t h = 0;
      if (owner.rank == program.rank) {
        for (const Slice& s : program.slices)
          if (s.tensor == parameter && s.box == owner.box) h = hash_of(executor.read(s.value, s.box)) | 1U;
      } else if (buffer >= 0) {
        for (const Held& need : data.tensors[at].needs)
          if (need.rank == program.rank && contains(need.box, owner.box) && program.buffers[static_cast<std::size_t>(buffer)].space == Space::arena)
            h = hash_of(executor.read(buffer, owner.box)) | 1U;
      }
      mine.push_back(h);
    }
    const auto* bytes = reinterpret_cast<const std::byte*>(mine.data());
    const auto all = transport.gather_all({bytes, mine.size() * sizeof(std::uint64_t)});
    bool differ = false;
    for (std::size_t k = 0; k < mine.size(); k++) {
      std::uint64_t truth = 0;
      for (const auto& one : all) {
        std::uint64_t h = 0;
        std::memcpy(&h, one.data() + k * sizeof h, sizeof h);
        if (h == 0) continue;
        differ = differ || (truth != 0 && h != truth);
        truth = h;
      }
    }
    if (differ) out.push_back(data.passes.tensors[at].name);
  }
  return out;
}

}  // namespace motley
