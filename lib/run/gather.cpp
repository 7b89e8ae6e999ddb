// SPDX-License-Identifier: Apache-2.0
#include "run/gather.h"

#include <motley/error.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>

#include "plan/plan_data.h"
#include "run/views.h"

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
    for_each_index(box, [&](const std::vector<Index>& i) {
      const auto global = static_cast<std::size_t>(position_of(into.shape, i));
      std::memcpy(&into.values[global], bytes.data() + at, sizeof(double));
      seen[global]++;
      at += sizeof(double);
    });
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

std::vector<std::string> copies_differ(const Plan& plan, const Program& program, Executor& executor, Transport& transport) {
  const PlanData& data = plan.data();
  struct Hashes {  // of one box that an owner gives to a reader
    std::uint64_t given = 0, read = 0;
  };
  std::map<int, std::vector<Hashes>> mine;  // by parameter, in the order of its messages
  for (int p : data.passes.parameters) mine[p].resize(data.tensors[static_cast<std::size_t>(p)].third.size());
  auto hash_read = [&](int p) {
    const auto& messages = data.tensors[static_cast<std::size_t>(p)].third;
    for (std::size_t k = 0; k < messages.size(); k++)
      if (messages[k].to == program.rank) mine[p][k].read = hash_of(executor.read(program.main_buffer[static_cast<std::size_t>(p)], messages[k].box));
  };
  // A copy is whole before the last step that reads it, and its memory may serve another tensor after that.
  std::map<int, std::vector<int>> whole_after;  // step -> parameters
  for (int p : data.passes.parameters) {
    const int buffer = program.main_buffer[static_cast<std::size_t>(p)];
    if (buffer < 0) continue;
    const Buffer& b = program.buffers[static_cast<std::size_t>(buffer)];
    const int last = b.space == Space::state ? program.forward_steps : b.last;
    whole_after[std::min(last, program.forward_steps) - 1].push_back(p);
  }
  executor.run_forward([&](int step) {
    if (const auto at = whole_after.find(step); at != whole_after.end())
      for (int p : at->second) hash_read(p);
  });
  std::vector<std::string> out;
  for (auto& [p, hashes] : mine) {
    const auto& messages = data.tensors[static_cast<std::size_t>(p)].third;
    for (std::size_t k = 0; k < messages.size(); k++)
      for (const Slice& s : program.slices)
        if (messages[k].from == program.rank && s.tensor == p && contains(s.box, messages[k].box)) hashes[k].given = hash_of(executor.read(s.value, messages[k].box));
    const auto all = transport.gather_all(std::as_bytes(std::span(hashes)));
    bool differ = false;
    for (std::size_t k = 0; k < messages.size(); k++) {
      Hashes from, to;
      std::memcpy(&from, all[static_cast<std::size_t>(messages[k].from)].data() + k * sizeof from, sizeof from);
      std::memcpy(&to, all[static_cast<std::size_t>(messages[k].to)].data() + k * sizeof to, sizeof to);
      differ = differ || from.given != to.read;
    }
    if (differ) out.push_back(data.passes.tensors[static_cast<std::size_t>(p)].name);
  }
  return out;
}

}  // namespace motley
