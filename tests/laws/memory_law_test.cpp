// SPDX-License-Identifier: Apache-2.0
// Memory law: a rank keeps the boxes that it has a part in, and nothing between them. No buffer is larger than the boxes in it
// together, and no arena than all boxes that the plan has this rank read, write, own, send or receive.
#include <motley/error.h>
#include <motley/program.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "base/overlaps.h"
#include "config/model.h"
#include "config/zoo.h"
#include "plan/kernel_of.h"
#include "plan/plan_data.h"
#include "program/stored.h"
#include "tests/support/config_files.h"
#include "tests/support/random_network.h"
#include "tests/support/shrink.h"

using namespace motley;
using namespace motley::law;

namespace {

Index volume_of(const std::vector<Box>& boxes) {
  Index sum = 0;
  for (const Box& b : boxes) sum += volume(b);
  return sum;
}

// Those that are not inside others, each once.
std::vector<Box> outer(const std::set<Box>& boxes) {
  std::vector<Box> out;
  for (const Box& b : boxes) {
    bool inside = false;
    for (const Box& other : boxes) inside = inside || (other != b && contains(other, b));
    if (!inside) out.push_back(b);
  }
  return out;
}

// Visits each box that this rank reads or writes in a pass.
template <class Visit>
void each_operand(const PlanData& data, int rank, Visit visit) {
  for (std::size_t p = 0; p < data.passes.passes.size(); p++) {
    const std::vector<Work>& work = data.pass_plans[p].work;
    if (work.empty() || !work[static_cast<std::size_t>(rank)].any) continue;
    const Pass& pass = data.passes.passes[p];
    for (const PassOperand& o : pass.reads) visit(o.tensor, operand_box(o, work[static_cast<std::size_t>(rank)].box));
    visit(pass.writes.tensor, operand_box(pass.writes, work[static_cast<std::size_t>(rank)].box));
  }
}

// Bytes of the boxes that the plan has this rank own, keep, read or write, each once; once more for each pass, which may need an
// operand in another order or make a partial sum; and twice for messages, which may be packed.
Index bytes_of_boxes(const PlanData& data, int rank) {
  std::vector<std::set<Box>> boxes(data.tensors.size());
  Index bytes = 0;
  each_operand(data, rank, [&](int tensor, const Box& box) {
    const auto t = static_cast<std::size_t>(tensor);
    boxes[t].insert(box);
    bytes += volume(box) * item_bytes(data, t);
  });
  for (std::size_t t = 0; t < boxes.size(); t++) {
    const TensorPlan& plan = data.tensors[t];
    for (const auto* list : {&plan.owners, &plan.home, &plan.readers})
      for (const Shard& s : *list)
        if (s.rank == rank) boxes[t].insert(s.box);
    Index elements = volume_of(outer(boxes[t]));
    for (const auto hop : kHops)
      for (const BoxMessage& m : (plan.*hop).messages) elements += m.from == rank || m.to == rank ? 2 * volume(m.box) : 0;
    bytes += elements * item_bytes(data, t);
  }
  return bytes;
}

struct Found {
  int several = 0, overlapping = 0;  // tensors on a rank in several buffers; in buffers with common elements
};

void check_memory(const Plan& plan, Found& found) {
  for (int r = 0; r < plan.mesh().ranks(); r++) {
    INFO("rank " << r);
    const Program program = compile(plan, r, {.reuse_memory = false});
    Index padding = 0;
    for (const Buffer& b : program.buffers) padding += b.space == Space::arena ? 64 : 0;
    CHECK(program.arena_bytes <= bytes_of_boxes(plan.data(), r) + padding);
    for (std::size_t t = 0; t < program.stored.size(); t++) {
      if (plan.data().passes.tensors[t].role == TensorRole::parameter) continue;  // kept by its owners, copied for readers
      std::map<int, std::set<Box>> buffers;
      for (const Stored& s : program.stored[t]) buffers[s.buffer].insert(s.box);
      found.several += buffers.size() > 1 ? 1 : 0;
      bool overlap = false;
      for (const auto& [buffer, boxes] : buffers) {
        const Box& all = program.buffers[static_cast<std::size_t>(buffer)].box;
        if (volume(all) > volume_of(outer(boxes))) {
          INFO("tensor " << plan.data().passes.tensors[t].name << ", buffer " << to_string(all));
          CHECK(volume(all) <= volume_of(outer(boxes)));
        }
        for (const auto& [other, its] : buffers)
          for (const Box& a : boxes)
            for (const Box& b : its) overlap = overlap || (other != buffer && overlaps(a, b));
      }
      found.overlapping += overlap ? 1 : 0;
    }
  }
}

ModelSpec zoo_model(const std::string& keys, const std::string& inputs) {
  const Folder folder("motley-memory");
  return ModelSpec::load(folder.write("m.json", "{ \"version\": 1, " + keys + ", \"inputs\": { " + inputs + " } }"));
}

ModelSpec zoo_images(const std::string& keys, Index batch, Index size) {
  return zoo_model(keys, "\"image\": { \"batch\": " + std::to_string(batch) +
                             ", \"channels\": 3, \"rows\": " + std::to_string(size) + ", \"cols\": " + std::to_string(size) + " }");
}

}  // namespace

TEST_CASE("boxes share a buffer where it is no larger than they are together") {
  using Numbers = std::vector<std::size_t>;
  const auto numbers = [](const std::vector<Box>& boxes) { return buffers_for(boxes); };
  CHECK(numbers({{{0, 4}, {0, 8}}}) == Numbers{0});
  CHECK(numbers({{{0, 4}, {0, 8}}, {{4, 8}, {0, 8}}}) == Numbers{0, 0});            // next to each other
  CHECK(numbers({{{0, 6}, {0, 8}}, {{2, 8}, {0, 8}}}) == Numbers{0, 0});            // overlapping
  CHECK(numbers({{{0, 1}, {0, 1}}, {{62, 64}, {0, 8}}}) == Numbers{0, 1});          // an origin beside a rank's samples
  CHECK(numbers({{{0, 2}, {0, 8}}, {{0, 1}, {0, 1}}}) == Numbers{0, 0});            // inside
  CHECK(numbers({{{0, 32}, {0, 8}}, {{0, 64}, {0, 4}}}) == Numbers{0, 0});          // half of each dim: as much as the whole
  CHECK(numbers({{{0, 16}, {0, 8}}, {{0, 64}, {0, 2}}}) == Numbers{0, 1});          // a quarter of each dim
  CHECK(numbers({{{0, 2}}, {{8, 9}}, {{2, 4}}, {{1, 3}}}) == Numbers{0, 1, 0, 0});  // a chain, and one apart
  CHECK(numbers({{}, {}}) == Numbers{0, 0});
}

TEST_CASE("memory law: random networks under random layouts and picks", "[law]") {
  Found found;
  for (unsigned number = 1; number <= share_of(250U); number++) {
    Random random(number);
    Case one{random_recipe(random), {{"a", static_cast<int>(pick(random, 1, 4))}}, {}, 0};
    if (chance(random, 0.3)) one.net = with_norms(one.net, random);
    if (chance(random, 0.3)) one.axes = {{"a", 2}, {"b", 2}};
    const Network net = build(one.net);
    one.cuts = random_cuts(random, net, one.axes, {.often = 0.5, .spatial = 0.3, .nested = 0.1, .jagged = 0.2});
    const Step step = training(net.loss, Sgd{.learning_rate = 0.05, .momentum = 0.9});
    const Mesh mesh = mesh_of(one.axes, static_cast<int>(number % 2) + 1);
    INFO("case " << number);
    try {
      const LayoutRules rules = rules_of(one, net);
      const Plan plan = number % 2 == 0 ? with_random_picks(step, mesh, rules, number, DType::f32) : balance(step, mesh, rules, {});
      check_memory(plan, found);
    } catch (const UserError&) {
    }
  }
  CHECK(found.several > when_all(300));
  CHECK(found.overlapping > when_all(100));
}

TEST_CASE("memory law: the zoo at an eighth of its width, cut by samples, rows and filters", "[law]") {
  Found found;
  int number = 0;
  for (const std::string& name : zoo_networks()) {
    if (name == "resnet1001" || name == "resnet110") continue;       // as resnet56, for long
    if (name == "gpt" || name == "bert" || name == "vit") continue;  // no convolutions
    if (number++ * law_percent() % 100 >= law_percent()) continue;
    INFO(name);
    const std::string stem = has_small_stem(name) ? R"(, "stem": "cifar")" : "";
    const std::string keys = "\"zoo\": \"" + name + "\", \"width\": 0.125, \"classes\": 5" + stem;
    const Model model = build_model(zoo_images(keys, 12, name == "mobilenet_v2" ? 64 : 32), 0);
    const Step step = training(model.loss, Sgd{.learning_rate = 0.01, .momentum = 0.9});
    std::set<std::string> filters;
    for (const StepTensor& t : step.passes().tensors)
      if (t.role == TensorRole::parameter && t.name.ends_with(".weight") && t.shape.rank() == 4) filters.insert(t.shape[0].name);
    std::vector<LayoutRules> layouts{
        {{"batch", "a", Sizes{{3, 3, 3, 3}}}}, {{"batch", "a", Sizes{{9, 1, 1, 1}}}}, {{"rows", "a", CutBy::even}}, {}};
    for (const std::string& dim : filters) layouts.back().split.push_back({dim, "a", CutBy::even});
    for (const LayoutRules& rules : layouts) check_memory(balance(step, mesh_of({{"a", 4}}), rules, {}), found);
  }
  CHECK(found.several > when_all(200));
  CHECK(found.overlapping > when_all(100));
}

TEST_CASE(
    "memory law: ranks with equal parts of ResNet-50's samples need equal memory, a rank with one sample what one sample needs") {
  const auto memory = [](const std::vector<Index>& parts) {
    Index batch = 0;
    for (Index part : parts) batch += part;
    const std::string net = law_percent() == 100 ? "resnet50" : "resnet18";
    const Model model = build_model(zoo_images("\"zoo\": \"" + net + "\", \"classes\": 1000", batch, 224), 0);
    const Step step = training(model.loss, Sgd{.learning_rate = 0.01, .momentum = 0.9});
    LayoutRules rules;
    rules.split.push_back({"batch", "a", Sizes{parts}});
    const Plan plan = balance(step, mesh_of({{"a", static_cast<int>(parts.size())}}), rules, {});
    std::vector<Index> out;
    for (const PredictedRank& rank : plan.data().predicted) out.push_back(rank.memory_bytes);
    return out;
  };
  const std::vector<Index> equal = memory({64, 64, 64, 64});
  const auto [least, most] = std::minmax_element(equal.begin(), equal.end());
  CHECK(static_cast<double>(*most) <= 1.03 * static_cast<double>(*least));
  const Index one = memory({1}).front();
  const std::vector<Index> small = memory({253, 1, 1, 1});
  for (std::size_t r = 1; r < small.size(); r++) CHECK(static_cast<double>(small[r]) <= 1.3 * static_cast<double>(one));
}
