// SPDX-License-Identifier: Apache-2.0
#include "bench/support/exchanges.h"

#include <motley/error.h>
#include <motley/ops.h>

#include <cstring>

#include "plan/plan_data.h"
#include "plan/planner.h"

namespace motley::bench {

namespace {

constexpr int kResult = 2;  // tensors 0 and 1 are the ranks' inputs

// Small integers: sums are exact.
float input_value(int rank, Index at) {
  return static_cast<float>(at % (rank == 0 ? 7 : 5) + rank);
}

Range part(const Case& c, int rank) {
  const std::vector<Index> parts = parts_of(c);
  return rank == 0 ? Range{0, parts[0]} : Range{parts[0], parts[0] + parts[1]};
}

// What a rank has before, and what it reads after the exchange.
Box given(const Case& c, int rank) {
  if (c.kind == Kind::all_reduce || c.kind == Kind::reduce_scatter) return {{0, c.elements}};
  return {part(c, rank)};
}
Box read_by(const Case& c, int rank) {
  const Range mine = part(c, rank);
  if (c.kind == Kind::reduce_scatter) return {mine};
  if (c.kind == Kind::halo) return {rank == 0 ? Range{0, mine.end + c.elements} : Range{mine.begin - c.elements, mine.end}};
  return {{0, parts_of(c)[0] + parts_of(c)[1]}};
}

Passes passes_of(Index size) {
  Passes out;
  for (const char* name : {"input 0", "input 1", "result"}) {
    StepTensor t;
    t.name = name;
    t.shape = Shape{{"i", size}};
    t.role = out.tensors.size() < 2 ? TensorRole::input : TensorRole::activation;
    out.tensors.push_back(std::move(t));
  }
  for (int r = 0; r < 2; r++) {
    Pass p;
    p.name = "partial " + std::to_string(r);
    p.indices = {{"i", size}};
    p.reads = {{r, {0}}};
    p.writes = {kResult, {0}};
    out.passes.push_back(std::move(p));
  }
  return out;
}

TensorPlan result_plan(const Case& c) {
  TensorPlan out;
  for (int r = 0; r < 2; r++) {
    out.readers.push_back({r, read_by(c, r)});
    out.home.push_back({r, c.kind == Kind::all_reduce ? read_by(c, r) : Box{part(c, r)}});
  }
  if (c.kind == Kind::halo) {
    out.fill.messages = copies(out.home, out.readers);
    return out;
  }
  out.owners = c.kind == Kind::all_reduce ? owners(out.readers) : out.home;
  for (const Shard& tile : out.owners)
    for (int r = 0; r < 2; r++)
      if (contains(given(c, r), tile.box)) out.add.messages.push_back({r, tile.rank, tile.box, {r}});
  if (c.kind == Kind::all_reduce) out.copy.messages = copies(out.owners, out.home);
  if (c.kind == Kind::all_gather) out.fill.messages = copies(out.home, out.readers);
  return out;
}

}  // namespace

std::string name_of(Kind kind) {
  constexpr const char* kNames[] = {"all_reduce", "all_gather", "reduce_scatter", "halo"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::vector<Index> parts_of(const Case& c) {
  if (c.kind == Kind::halo) return {2 * c.elements, 2 * c.elements};
  const Index first = c.elements * c.share / 100;
  return {first, c.elements - first};
}

Plan plan_of(const Case& c) {
  const std::vector<Index> parts = parts_of(c);
  const Index size = parts[0] + parts[1];
  PlanData data;
  data.passes = passes_of(size);
  data.hosts = {0, c.apart ? 1 : 0};
  data.on_device = {false, false};
  data.formats.assign(data.passes.tensors.size(), Format::plain);
  data.tensors.resize(data.passes.tensors.size());
  data.predicted.resize(2);
  for (int r = 0; r < 2; r++) {
    PassPlan pass;
    pass.work.resize(2);
    if (c.kind != Kind::halo) {
      pass.work[static_cast<std::size_t>(r)] = {true, given(c, r), 0, r};
      data.tensors[static_cast<std::size_t>(r)].readers = {{r, given(c, r)}};
    }
    data.pass_plans.push_back(std::move(pass));
  }
  data.tensors[kResult] = result_plan(c);
  Graph graph;
  const Step step = inference({relu(graph.input("none", {Dim{"i", 1}}))});
  return plan_from(step, Mesh({{"all", 2}}, std::vector<Device>(2)), std::move(data));
}

Exchange::Exchange(const Case& c, Backend& backend, Transport& transport)
    : case_(c),
      plan_(plan_of(c)),
      program_(compile(plan_, transport.rank(), {.hosts = transport.hosts()})),
      state_(std::make_unique<State>(plan_, program_.rank, 1)),
      executor_(std::make_unique<Executor>(program_, backend, transport, *state_)) {
  executor_->feed([&](const std::string& name, const Box& box, std::span<std::byte> out) {
    const int rank = name.back() - '0';
    auto* values = reinterpret_cast<float*>(out.data());
    for (Index i = box[0].begin; i < box[0].end; i++) *values++ = input_value(rank, i);
  });
  if (c.kind != Kind::halo) return;
  const Box mine{part(c, transport.rank())};
  std::vector<double> values;
  for (Index i = mine[0].begin; i < mine[0].end; i++) values.push_back(static_cast<double>(input_value(transport.rank(), i)));
  executor_->write(program_.buffer_of(kResult, Stored::As::home, mine), mine, values);
}

void Exchange::check_result() const {
  const Box box = read_by(case_, program_.rank);
  const bool sums = case_.kind == Kind::all_reduce || case_.kind == Kind::reduce_scatter;
  const std::vector<double> values = executor_->read(program_.buffer_of(kResult, Stored::As::reader, box), box);
  for (Index i = box[0].begin; i < box[0].end; i++) {
    const int writer = i < part(case_, 0).end ? 0 : 1;
    const float want = sums ? input_value(0, i) + input_value(1, i) : input_value(writer, i);
    if (values[static_cast<std::size_t>(i - box[0].begin)] != static_cast<double>(want))
      throw InternalError("element " + std::to_string(i) + " of " + name_of(case_.kind) + " is wrong");
  }
}

}  // namespace motley::bench
