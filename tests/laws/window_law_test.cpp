// SPDX-License-Identifier: Apache-2.0
// Window law: ranks that read each other's memory in place get what messages bring, bit for bit and byte for byte counted,
// whichever rank is late, and whether or not exchanges go on while kernels run; no read and no message meets a write that is not
// ordered against it, in any order in which the ranks may run.
#include <motley/error.h>
#include <motley/program.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <deque>
#include <map>
#include <optional>
#include <set>

#include "kernels/operands.h"
#include "plan/plan_data.h"
#include "plan/planner.h"
#include "plan/schedules.h"
#include "tests/support/config_files.h"
#include "tests/support/random_network.h"
#include "tests/support/run_plan.h"
#include "tests/support/shrink.h"

using namespace motley;
using namespace motley::law;

namespace {

// In micro-batches, where the network's batch can be cut into so many.
// At times with norms that the update needs, of the gradients and of parameters.
Step step_of(const Network& net, Index micro_batches, Random& random) {
  const Optimizer optimizer =
      chance(random, 0.3) ? Optimizer{Lamb{.learning_rate = 0.05}} : Sgd{.learning_rate = 0.05, .momentum = 0.9};
  TrainingOptions options{.clip_norm = chance(random, 0.3) ? 0.05 : 0, .accumulate = micro_batches};
  try {
    return training(net.loss, optimizer, options);
  } catch (const UserError& e) {
    REQUIRE(std::string(e.what()).find("accumulate: ") == 0);
    options.accumulate = 1;
    return training(net.loss, optimizer, options);
  }
}

// Up to 4 ranks, at times on two hosts, at times with picks or schedules at random; nothing: the rules do not go together.
std::optional<Plan> random_plan(Random& random, DType dtype) {
  Recipe recipe = random_recipe(random);
  if (chance(random, 0.2)) recipe = with_upsampling(recipe, random);
  if (chance(random, 0.2)) recipe = with_norms(recipe, random);
  Case one{recipe, {{"a", static_cast<int>(pick(random, 2, 4))}}, {}, 0};
  if (chance(random, 0.4)) one.axes = {{"a", 2}, {"b", 2}};
  const Network net = build(one.net);
  one.cuts = random_cuts(random, net, one.axes, {.often = 0.4, .spatial = 0.3, .nested = 0.1, .jagged = 0.15});
  std::vector<Device> devices(static_cast<std::size_t>(mesh_of(one.axes).ranks()));
  if (chance(random, 0.4))
    for (Device& d : devices) d.host = chance(random, 0.5) ? "here" : "there";
  try {
    const Step step = step_of(net, chance(random, 0.4) ? pick(random, 2, 3) : 1, random);
    const Mesh mesh(one.axes, devices);
    const auto number = static_cast<unsigned>(random());
    const Plan plan = chance(random, 0.5)
                          ? with_random_picks(step, mesh, rules_of(one, net), number, dtype, random_ownership(number))
                          : balance(step, mesh, rules_of(one, net), {}, {.dtype = dtype});
    return chance(random, 0.5) ? with_random_schedules(plan, static_cast<unsigned>(random())) : plan;
  } catch (const UserError& e) {
    REQUIRE(std::string(e.what()).find("cannot both be cut") != std::string::npos);
    return std::nullopt;
  }
}

// Clocks that say which steps of other ranks have surely happened: clock[r] steps of rank r.
using Clock = std::vector<int>;

struct Cell {  // one element of a rank's arena
  int writer = -1, written = 0;
  int buffer = -1;  // for which it was written
  Clock read{};
};

// A training step of several micro-batches as one list of steps, each time with exchanges of its own. begins: where each begins.
Program unrolled(Program program, std::set<std::size_t>& begins) {
  const std::vector<ProgramStep> steps = std::exchange(program.steps, {});
  const int exchanges = static_cast<int>(program.exchange_names.size());
  for (int m = 0; m < program.micro_batches; m++) {
    const bool last = m + 1 == program.micro_batches;
    begins.insert(program.steps.size());
    for (std::size_t i = 0; i < (last ? steps.size() : static_cast<std::size_t>(program.combine_begin)); i++) {
      if (m > 0 && steps[i].once) continue;
      ProgramStep step = steps[i];
      if (auto* post = std::get_if<Post>(&step.what)) post->exchange += m * exchanges;
      if (auto* wait = std::get_if<Wait>(&step.what)) wait->exchange += m * exchanges;
      program.steps.push_back(std::move(step));
    }
  }
  return program;
}

// Runs all Programs twice, step by step, and keeps clocks in place of values.
class Races {
 public:
  explicit Races(std::vector<Program> programs)
      : programs_(std::move(programs)),
        begins_(programs_.size()),
        clocks_(programs_.size(), Clock(programs_.size(), 0)),
        at_(programs_.size(), 0),
        memory_(programs_.size()) {
    for (std::size_t r = 0; r < programs_.size(); r++) programs_[r] = unrolled(std::move(programs_[r]), begins_[r]);
    for (std::size_t r = 0; r < programs_.size(); r++)
      memory_[r].resize(static_cast<std::size_t>(programs_[r].arena_bytes) / 4 + 32);
  }
  int shared = 0;  // window pieces and reads of peers' memory

  std::string check() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t r = 0; r < programs_.size(); r++)
        while (at_[r] < 2 * programs_[r].steps.size() && perform(static_cast<int>(r))) moved = true;
    }
    for (std::size_t r = 0; r < programs_.size(); r++)
      if (at_[r] < 2 * programs_[r].steps.size())
        wrong_ = "rank " + std::to_string(r) + " waits for ever at step " + std::to_string(at_[r]);
    return wrong_;
  }

 private:
  struct Spot {
    int rank;
    Index unit;  // of 4 bytes
    int buffer;
  };

  const Program& program(int rank) const { return programs_[static_cast<std::size_t>(rank)]; }

  // The buffer of a peer that this one shows.
  std::optional<Spot> spot(int rank, const Place& place) const {
    const Buffer& b = program(rank).buffers[static_cast<std::size_t>(place.buffer)];
    const Index unit = place.element * static_cast<Index>(bytes_of(b.dtype)) / 4;
    if (b.space == Space::state || b.space == Space::kept) return std::nullopt;
    if (b.space == Space::arena) return Spot{rank, b.offset / 4 + unit, place.buffer};
    int k = 0;
    for (const ProgramStep& s : program(b.peer).steps)
      if (const auto* post = std::get_if<Post>(&s.what); post != nullptr && post->exchange == b.exchange)
        for (const Piece& p : post->sends)
          if (p.window && p.peer == rank && k++ == b.piece) {
            auto there = spot(b.peer, p.at);
            if (there) there->unit += unit;
            return there;
          }
    return Spot{-1, 0, -1};
  }

  void touch(int rank, const Place& place, const std::vector<Index>& extents, const std::vector<Index>& strides, bool writes,
             const std::string& name) {
    const auto from = spot(rank, place);
    if (!from) return;
    if (from->rank < 0) {
      wrong_ = name + ": a peer buffer that no rank shares";
      return;
    }
    shared += from->rank != rank;
    const Buffer& b = program(rank).buffers[static_cast<std::size_t>(place.buffer)];
    const Index units = static_cast<Index>(bytes_of(b.dtype)) / 4;
    std::vector<Index> at(extents.size(), 0);
    Index count = 1;
    for (Index e : extents) count *= e;
    for (; count > 0; count--) {
      Index element = 0;
      for (std::size_t d = 0; d < at.size(); d++) element += at[d] * strides[d];
      for (Index u = 0; u < units; u++)
        use(rank, memory_[static_cast<std::size_t>(from->rank)].at(static_cast<std::size_t>(from->unit + element * units + u)),
            writes, from->buffer, name);
      for (std::size_t d = at.size(); d-- > 0;) {
        if (++at[d] < extents[d]) break;
        at[d] = 0;
      }
    }
  }

  void use(int rank, Cell& cell, bool writes, int buffer, const std::string& name) {
    const Clock& now = clocks_[static_cast<std::size_t>(rank)];
    auto before = [&](int other, int step) { return other == rank || now[static_cast<std::size_t>(other)] >= step; };
    if (cell.writer >= 0 && !before(cell.writer, cell.written))
      wrong_ = name + " on rank " + std::to_string(rank) + " meets a write of rank " + std::to_string(cell.writer);
    if (cell.read.empty()) cell.read.assign(programs_.size(), 0);
    if (!writes) {
      if (cell.buffer >= 0 && cell.buffer != buffer)
        wrong_ = name + " on rank " + std::to_string(rank) + " reads what was written for another buffer";
      cell.read[static_cast<std::size_t>(rank)] = now[static_cast<std::size_t>(rank)];
      return;
    }
    for (std::size_t r = 0; r < programs_.size(); r++)
      if (!before(static_cast<int>(r), cell.read[r]))
        wrong_ = name + " on rank " + std::to_string(rank) + " overwrites what rank " + std::to_string(r) + " still reads";
    cell.writer = rank;
    cell.buffer = buffer;
    cell.written = now[static_cast<std::size_t>(rank)];
  }

  void touch_piece(int rank, const Piece& p, bool writes) {
    if (p.window) return;
    const Buffer& b = program(rank).buffers[static_cast<std::size_t>(p.at.buffer)];
    touch(rank, p.at, {p.bytes / static_cast<Index>(bytes_of(b.dtype))}, {1}, writes, "message");
  }

  bool perform(int rank) {
    const auto r = static_cast<std::size_t>(rank);
    const Program& mine = programs_[r];
    const int run = static_cast<int>(at_[r] / mine.steps.size());
    const std::size_t at = at_[r] % mine.steps.size();
    if (begins_[r].contains(at))
      for (const FedBuffer& f : mine.feeds) {
        const Buffer& b = mine.buffers[static_cast<std::size_t>(f.buffer)];
        touch(rank, {f.buffer, 0}, {volume(b.box)}, {1}, true, "feed " + f.name);
      }
    const auto& what = mine.steps[at].what;
    Clock& now = clocks_[r];
    if (const auto* wait = std::get_if<Wait>(&what)) {
      const Post& post = *posts_.at({wait->exchange, rank});
      for (const Piece& p : post.receives)
        if (signalled_[{wait->exchange, p.peer, rank}].size() <= static_cast<std::size_t>(run)) return false;
      // A long message leaves when its reader has posted the exchange too (the rendezvous of MPI).
      for (const Piece& p : post.sends)
        if (!p.window && posted_[{wait->exchange, p.peer}] <= run) return false;
      now[r]++;
      for (const Piece& p : post.receives) {
        const Clock& then = signalled_[{wait->exchange, p.peer, rank}][static_cast<std::size_t>(run)];
        for (std::size_t k = 0; k < now.size(); k++) now[k] = std::max(now[k], then[k]);
        touch_piece(rank, p, true);
        shared += p.window;
      }
      for (const Piece& p : post.sends) touch_piece(rank, p, false);
    } else if (const auto* post = std::get_if<Post>(&what)) {
      now[r]++;
      posts_[{post->exchange, rank}] = post;
      posted_[{post->exchange, rank}]++;
      for (const Piece& p : post->receives) touch_piece(rank, p, true);
      for (const Piece& p : post->sends) {
        touch_piece(rank, p, false);
        auto& signals = signalled_[{post->exchange, rank, p.peer}];
        if (signals.size() <= static_cast<std::size_t>(run)) signals.push_back(now);
      }
    } else {
      now[r]++;
      const auto& kernel = std::get<RunKernel>(what);
      for (std::size_t k = 0; k < kernel.operands.size(); k++) {
        const OperandUse use = operands_of(kernel.spec)[k];
        if (kernel.spec.op == KernelOp::map)
          touch(rank, kernel.operands[k], kernel.spec.extents, kernel.spec.operands[k].strides, use.written, kernel.pass);
        else
          touch(rank, kernel.operands[k], {use.elements}, {1}, use.written, kernel.pass);
      }
    }
    at_[r]++;
    return true;
  }

  std::vector<Program> programs_;
  std::vector<std::set<std::size_t>> begins_;  // of micro-batches
  std::vector<Clock> clocks_;
  std::vector<std::size_t> at_;
  std::vector<std::vector<Cell>> memory_;
  std::map<std::tuple<int, int, int>, std::vector<Clock>> signalled_;  // (exchange, from, to): when, per run
  std::map<std::pair<int, int>, const Post*> posts_;
  std::map<std::pair<int, int>, int> posted_;  // (exchange, rank): how often
  std::string wrong_;
};

// Kernels between an exchange's Post and its Wait.
int under_way(const Program& program) {
  int kernels = 0;
  std::set<int> open;
  for (const ProgramStep& s : program.steps) {
    if (const auto* post = std::get_if<Post>(&s.what); post != nullptr && !post->receives.empty()) open.insert(post->exchange);
    if (const auto* wait = std::get_if<Wait>(&s.what)) open.erase(wait->exchange);
    kernels += std::holds_alternative<RunKernel>(s.what) && !open.empty();
  }
  return kernels;
}

std::string races(const Plan& plan, const CompileOptions& options, int* shared, int* hidden) {
  std::vector<Program> programs;
  for (int r = 0; r < plan.mesh().ranks(); r++) programs.push_back(compile(plan, r, options));
  for (const Program& p : programs) *hidden += under_way(p);
  for (const Program& p : programs)
    if (p.exchange_names != programs[0].exchange_names || p.windows != programs[0].windows)
      return "the ranks number exchanges differently";
  Races law(std::move(programs));
  const std::string out = law.check();
  *shared += law.shared;
  return out;
}

}  // namespace

TEST_CASE("window law: every read is ordered against every write, and no one waits in a circle", "[law]") {
  int shared = 0, unshared = 0, hidden = 0, at_once = 0;
  for (int number = 0; number < share_of(100); number++) {
    Random random(static_cast<unsigned>(31000 + number));
    const auto plan = random_plan(random, chance(random, 0.5) ? DType::f32 : DType::f64);
    if (!plan) continue;
    INFO("case " << number);
    const bool keep = chance(random, 0.5);
    // After each pass that may make a rank wait: exchange, coalesce, share, settle, overlap; and where it packs less, or takes more
    // memory.
    REQUIRE(races(*plan, {.keep_gradients = keep, .pending = Pending::none, .share = false, .coalesce = false}, &unshared,
                  &at_once) == "");
    REQUIRE(races(*plan, {.keep_gradients = keep, .pending = Pending::none, .share = false}, &unshared, &at_once) == "");
    REQUIRE(races(*plan, {.keep_gradients = keep, .pending = Pending::none, .coalesce = false, .settle = false}, &shared,
                  &at_once) == "");
    REQUIRE(races(*plan, {.keep_gradients = keep, .pending = Pending::none, .settle = false}, &shared, &at_once) == "");
    REQUIRE(races(*plan, {.keep_gradients = keep, .pending = Pending::none}, &shared, &at_once) == "");
    REQUIRE(races(*plan, {.keep_gradients = keep}, &shared, &hidden) == "");
    REQUIRE(races(*plan, {.keep_gradients = keep, .fuse = false}, &shared, &hidden) == "");
    REQUIRE(races(*plan, {.keep_gradients = keep, .fuse_maps = false}, &shared, &hidden) == "");
    REQUIRE(races(*plan, {.keep_gradients = keep, .chain = Chained::all}, &shared, &hidden) == "");
    REQUIRE(races(*plan, {.keep_gradients = keep, .reuse_memory = false}, &shared, &hidden) == "");
    REQUIRE(races(with_hosts_apart(*plan), {.keep_gradients = keep}, &shared, &hidden) == "");
  }
  CHECK(shared > when_all(13000));
  CHECK(unshared == 0);
  CHECK(at_once == 0);
  CHECK(hidden > when_all(600));
}

TEST_CASE("window law: two sends that wait for each other's readers are a circle", "[law]") {
  // Each rank waits for the exchange in which it sends before it posts the one in which it reads.
  std::vector<Program> programs(2);
  for (int r = 0; r < 2; r++) {
    Program& p = programs[static_cast<std::size_t>(r)];
    p.rank = r;
    p.exchange_names = {"values of a", "values of b"};
    p.arena_bytes = 64;
    p.buffers = {{.name = "sent", .bytes = 4}, {.name = "read", .bytes = 4, .offset = 32}};
    p.steps = {{Post{.exchange = r, .sends = {{.peer = 1 - r, .at = {0, 0}, .bytes = 4}}}},
               {Wait{r}},
               {Post{.exchange = 1 - r, .receives = {{.peer = 1 - r, .at = {1, 0}, .bytes = 4}}}},
               {Wait{1 - r}}};
  }
  CHECK(Races(programs).check() == "rank 1 waits for ever at step 1");
  for (Program& p : programs) std::swap(p.steps[1], p.steps[2]);  // both posts first
  CHECK(Races(programs).check() == "");
}

TEST_CASE("pass law: share, coalesce, fused maps, overlap and place change no bit and no byte counted, whichever rank is late",
          "[law]") {
  int chains = 0;
  for (int number = 0; number < share_of(60); number++) {
    Random random(static_cast<unsigned>(41000 + number));
    const auto plan = random_plan(random, DType::f64);
    if (!plan) continue;
    INFO("case " << number);
    const auto same = [](const Outcome& one, const Outcome& other) {
      CHECK(other.loss == one.loss);
      CHECK(other.logits == one.logits);
      CHECK(other.gradients == one.gradients);
      CHECK(other.weights == one.weights);
      CHECK(other.counted == one.counted);
    };
    const unsigned seed = 1 + static_cast<unsigned>(number);
    const Outcome messages =
        run_plan(*plan, {.steps = 3, .program = {.pending = Pending::none, .fuse_maps = false, .share = false, .coalesce = false}});
    same(messages, run_plan(*plan, {.steps = 3, .restless = seed}));
    same(messages, run_plan(*plan, {.steps = 3, .program = {.coalesce = false}}));
    same(messages, run_plan(*plan, {.steps = 3, .program = {.fuse_maps = false}}));
    for (int rank = 0; rank < plan->mesh().ranks(); rank++)
      chains += static_cast<int>(compile(*plan, rank, {.chain = Chained::all}).chains.size());
    same(messages, run_plan(*plan, {.steps = 3, .program = {.chain = Chained::all}}));
    same(messages, run_plan(*plan, {.steps = 3, .program = {.fuse_maps = false, .chain = Chained::all}}));
    same(messages, run_plan(*plan, {.steps = 3, .program = {.share = false}, .restless = seed}));
    same(messages, run_plan(*plan, {.steps = 3, .program = {.reuse_memory = false}}));
    const Plan apart = with_hosts_apart(*plan);
    same(run_plan(apart, {.steps = 3, .program = {.pending = Pending::none, .coalesce = false}}),
         run_plan(apart, {.steps = 3, .restless = seed}));
  }
  CHECK(chains > when_all(100));
}

TEST_CASE("pass law: coalesced messages are fewer, and change no bit and no byte", "[law]") {
  const auto sent = [](const Plan& plan, const CompileOptions& options) {  // messages; waits for a peer's flag
    std::pair<Index, Index> out;
    for (int r = 0; r < plan.mesh().ranks(); r++)
      for (const ProgramStep& s : compile(plan, r, options).steps)
        if (const auto* post = std::get_if<Post>(&s.what)) {
          std::set<int> flags;
          for (const Piece& p : post->receives) {
            out.first += p.window ? 0 : 1;
            if (p.window) flags.insert(p.peer);
          }
          out.second += static_cast<Index>(flags.size());
        }
    return out;
  };
  const auto host_of = [](int hosts, std::size_t rank) { return std::to_string(rank % static_cast<std::size_t>(hosts)); };
  for (const bool batch : {true, false})
    for (const int ranks : {2, 3, 4})
      for (const int hosts : {1, 2, ranks}) {
        Recipe recipe;
        recipe.batch = 5, recipe.in = 2, recipe.rows = 6, recipe.cols = 5, recipe.classes = 3, recipe.hidden = 20;
        for (Index k = 0; k < 4; k++)
          recipe.layers.push_back({.id = k,
                                   .filters = 5 + 9 * k,
                                   .rows = {3, 1, 1, 1, 1},
                                   .cols = {3, 1, 1, 1, 1},
                                   .bias = true,
                                   .activation = "relu"});
        const Network net = build(recipe);
        std::vector<Device> devices(static_cast<std::size_t>(ranks));
        for (std::size_t r = 0; r < devices.size(); r++) devices[r].host = host_of(hosts, r);
        LayoutRules rules{{"batch", "all", CutBy::even}};
        if (!batch) rules = {{"f1", "all", CutBy::even}, {"f3", "all", CutBy::even}};
        const Plan plan = balance(training(net.loss, Sgd{.learning_rate = 0.05, .momentum = 0.9}), Mesh({{"all", ranks}}, devices),
                                  rules, {}, {.dtype = DType::f32});
        INFO((batch ? "batch" : "filters") << " cut over " << ranks << " ranks of " << hosts << " hosts");
        const auto apart = sent(plan, {.coalesce = false}), together = sent(plan, {});
        CHECK(together.first <= apart.first);
        CHECK(together.second <= apart.second);
        if (batch) CHECK(together.first + together.second < apart.first + apart.second);
        if (hosts == ranks) CHECK(together.second == 0);
        if (batch && hosts == ranks) CHECK(together.first < apart.first);
        const std::vector<std::string> names = compile(plan, 0).exchange_names;
        const auto has = [&](const std::string& begins) {
          return std::any_of(names.begin(), names.end(),
                             [&](const std::string& name) { return name.starts_with(begins) && name.ends_with(" more"); });
        };
        if (batch) CHECK(has("values of "));
        if (batch) CHECK(has("results of gradient of "));
        const Outcome without = run_plan(plan, {.steps = 4, .program = {.coalesce = false}}),
                      with = run_plan(plan, {.steps = 4, .restless = 9});
        CHECK(with.loss == without.loss);
        CHECK(with.gradients == without.gradients);
        CHECK(with.weights == without.weights);
        CHECK(with.counted == without.counted);
        for (std::size_t r = 0; r < with.counted.size(); r++) CHECK(with.counted[r] == plan.data().predicted[r].bytes);
      }
}

TEST_CASE("pass law: both sums of a norm's backward half travel as one, and change no bit and no byte", "[law]") {
  for (const int ranks : {2, 3, 4})
    for (const int hosts : {1, ranks}) {
      INFO(ranks << " ranks of " << hosts << " hosts");
      Graph graph;
      const Dim batch{"batch", 9}, in{"in", 6}, hidden{"hidden", 7}, classes{"classes", 3};
      const Tensor x = graph.input("x", {batch, in}), label = graph.input("label", {batch}, DType::i32);
      Tensor h = relu(batch_norm(dense(x, {.in = {in}, .out = {hidden}, .name = "first"}), {.name = "norm"}));
      h = layer_norm(h, {.over = {hidden}, .name = "last"});
      const Tensor loss = mean(softmax_cross_entropy(dense(h, {.in = {hidden}, .out = {classes}}), label, classes));
      std::vector<Device> devices(static_cast<std::size_t>(ranks));
      for (std::size_t r = 0; r < devices.size(); r++) devices[r].host = std::to_string(r % static_cast<std::size_t>(hosts));
      for (const std::string cut : {"batch", "hidden"}) {
        INFO(cut << " cut");
        LayoutRules rules{{cut == "batch" ? batch : hidden, "all", CutBy::even}};
        const Plan plan =
            balance(training(loss, Sgd{.learning_rate = 0.05}), Mesh({{"all", ranks}}, devices), rules, {}, {.dtype = DType::f32});
        const std::vector<std::string> names = compile(plan, 0).exchange_names;
        const auto found = std::find(names.begin(), names.end(), "results of norm.sum_g_normal + 1 more");
        if (cut == "batch") CHECK(found != names.end());
        const Outcome without = run_plan(plan, {.steps = 3, .program = {.coalesce = false}}),
                      with = run_plan(plan, {.steps = 3, .restless = 5});
        CHECK(with.loss == without.loss);
        CHECK(with.gradients == without.gradients);
        CHECK(with.weights == without.weights);
        CHECK(with.counted == without.counted);
      }
    }
}

TEST_CASE("pass law: fused and separate kernels differ by rounding alone", "[law]") {
  int fewer = 0;
  for (int number = 0; number < share_of(60); number++) {
    Random random(static_cast<unsigned>(51000 + number));
    const auto plan = random_plan(random, DType::f64);
    if (!plan) continue;
    INFO("case " << number);
    const Outcome fused = run_plan(*plan, {.steps = 1}), apart = run_plan(*plan, {.steps = 1, .program = {.fuse = false}});
    CHECK(difference(apart, fused) < 1e-12);
    CHECK(apart.counted == fused.counted);
    for (int r = 0; r < plan->mesh().ranks(); r++)
      fewer += compile(*plan, r).steps.size() < compile(*plan, r, {.fuse = false}).steps.size();
  }
  CHECK(fewer > when_all(60));
}

TEST_CASE("window law: what several ranks of a host read comes from another host once", "[law]") {
  for (const bool apart : {false, true}) {
    Random random(5);
    Recipe recipe = random_recipe(random);
    recipe.batch = 4;  // one sample a rank
    const Network net = build(recipe);
    std::vector<Device> devices(4);
    for (std::size_t r = 0; r < 4; r++) devices[r].host = apart ? "host " + std::to_string(r) : r < 2 ? "here" : "there";
    const Mesh mesh({{"all", 4}}, devices);
    const LayoutRules rules{{"batch", "all", CutBy::even}};
    const Plan plan = balance(training(net.loss, Sgd{.learning_rate = 0.05}), mesh, rules, {}, {.dtype = DType::f64});
    Index crossed = 0, values = 0;  // bytes of parameter values by message; bytes of all parameters
    for (int t : plan.data().passes.parameters)
      values += plan.data().passes.tensors[static_cast<std::size_t>(t)].shape.elements() * 8;
    for (int r = 0; r < 4; r++) {
      const Program program = compile(plan, r);
      for (const ProgramStep& s : program.steps)
        if (const auto* post = std::get_if<Post>(&s.what);
            post != nullptr && program.exchange_names[static_cast<std::size_t>(post->exchange)].starts_with("values of "))
          for (const Piece& p : post->receives) crossed += p.window ? 0 : p.bytes;
    }
    CHECK(crossed == (apart ? 3 : 1) * values);
  }
}

TEST_CASE("pass law: parameters travel in the first of several micro-batches, where there is memory to keep them", "[law]") {
  const Folder folder("motley-parameters-stay");
  for (const bool batch : {true, false})
    for (const int ranks : {2, 3})
      for (const bool apart : {false, true}) {
        INFO((batch ? "batch" : "filters") << " cut over " << ranks << " ranks of " << (apart ? "as many hosts" : "a host"));
        Recipe recipe;
        recipe.batch = 24, recipe.in = 2, recipe.rows = 5, recipe.cols = 4, recipe.classes = 3, recipe.hidden = 9;
        for (Index k = 0; k < 3; k++)
          recipe.layers.push_back({.id = k,
                                   .filters = 7 + 4 * k,
                                   .rows = {3, 1, 1, 1, 1},
                                   .cols = {3, 1, 1, 1, 1},
                                   .bias = true,
                                   .activation = "relu"});
        const Network net = build(recipe);
        LayoutRules rules{{"batch", "all", CutBy::even}};
        if (!batch) rules = {{"f0", "all", CutBy::even}, {"f2", "all", CutBy::even}};
        const auto plan_with = [&](Index micro_batches, Index memory) {
          std::vector<Device> devices(static_cast<std::size_t>(ranks));
          for (std::size_t r = 0; r < devices.size(); r++) {
            if (apart) devices[r].host = "host " + std::to_string(r);
            devices[r].memory_bytes = memory;
          }
          return balance(training(net.loss, Sgd{.learning_rate = 0.05, .momentum = 0.9}, {.accumulate = micro_batches}),
                         Mesh({{"all", ranks}}, devices), rules, {}, {.dtype = DType::f64});
        };
        const auto most = [](const Plan& plan) {
          Index out = 0;
          for (const PredictedRank& r : plan.data().predicted) out = std::max(out, r.memory_bytes);
          return out;
        };
        const auto steps_once = [](const Plan& plan) {
          std::size_t out = 0;
          for (int r = 0; r < plan.mesh().ranks(); r++)
            for (const ProgramStep& s : compile(plan, r).steps) out += s.once;
          return out;
        };
        CHECK(steps_once(plan_with(1, 0)) == 0);
        const Plan stay = plan_with(4, 0), travel = plan_with(4, most(stay) - 1);
        CHECK(!stay.data().repeats);
        CHECK(steps_once(stay) > 0);
        REQUIRE(travel.data().repeats);
        CHECK(steps_once(travel) == 0);
        for (const Plan* plan : {&stay, &travel}) {
          const Plan loaded = Plan::load(folder.write("plan.json", plan->json()), plan->step(), plan->mesh());
          CHECK(loaded.data().repeats == plan->data().repeats);
          CHECK(loaded.json() == plan->json());
        }
        CHECK(most(travel) < most(stay));
        CHECK(std::any_of(travel.data().notes.begin(), travel.data().notes.end(), [](const std::string& note) {
          return note.starts_with("parameters are sent again in each micro-batch");
        }));
        const Outcome once = run_plan(stay, {.steps = 3, .restless = 7}), each = run_plan(travel, {.steps = 3});
        CHECK(once.loss == each.loss);
        CHECK(once.gradients == each.gradients);
        CHECK(once.weights == each.weights);
        const PlanData& data = stay.data();
        for (std::size_t r = 0; r < data.predicted.size(); r++) {
          Index values = 0, others = 0;  // bytes that travel to the rank
          for (std::size_t t = 0; t < data.tensors.size(); t++)
            for (const auto hop : kHops)
              for (const BoxMessage& m : (data.tensors[t].*hop).messages)
                if (m.from != m.to && m.to == static_cast<int>(r))
                  (data.passes.tensors[t].role == TensorRole::parameter ? values : others) += volume(m.box) * 8;
          CHECK(values > 0);
          CHECK(once.counted[r] == 4 * others + values);
          CHECK(each.counted[r] == 4 * others + 4 * values);
          CHECK(data.predicted[r].bytes == once.counted[r]);
          CHECK(travel.data().predicted[r].bytes == each.counted[r]);
        }
        for (const CompileOptions& options : {CompileOptions{}, CompileOptions{.settle = false}, CompileOptions{.share = false}}) {
          int shared = 0, hidden = 0;
          CHECK(races(stay, options, &shared, &hidden) == "");
        }
      }
}

TEST_CASE("pass law: what is made of parameters alone is made in the first of several micro-batches", "[law]") {
  const Dim n{"batch", 12}, in{"in", 3}, rows{"rows", 4}, out{"out", 2};
  for (const bool wide : {true, false})
    for (const int ranks : {1, 2, 3})
      for (const bool apart : {false, true}) {
        INFO((wide ? "rows" : "batch") << " cut over " << ranks << " ranks of " << (apart ? "as many hosts" : "a host"));
        Graph g;
        const Tensor image = g.input("image", {n, rows, in});
        const Tensor table = g.parameter(Shape{{"places", 7}, {"hidden", 5}}, {.name = "table"});
        const Tensor part = slice(table, {.in = {"places", 7}, .range = {1, 5}, .out = rows, .name = "part"});
        const Tensor x = add({dense(image, {.out = {Dim{"hidden", 5}}, .keep = {n, rows}}), tanh(part)});
        const Tensor loss = mean(dense(relu(x), {.out = {out}}));
        std::vector<Device> devices(static_cast<std::size_t>(ranks));
        for (std::size_t r = 0; r < devices.size() && apart; r++) devices[r].host = "host " + std::to_string(r);
        const Mesh mesh({{"all", ranks}}, devices);
        const LayoutRules rules{{wide ? "rows" : "batch", "all", CutBy::even}};
        const Sgd sgd{.learning_rate = 0.05, .momentum = 0.9};
        const auto plan_with = [&](Index micro_batches) {
          return balance(training(loss, sgd, {.accumulate = micro_batches}), mesh, rules, {}, {.dtype = DType::f64});
        };
        const Plan plan = plan_with(4);
        PlanData repeats = plan.data();
        repeats.repeats = true;
        count_bytes(repeats);
        const Plan each = plan_from(plan.step(), mesh, std::move(repeats));
        const Outcome once = run_plan(plan, {.steps = 3, .restless = 5}), again = run_plan(each, {.steps = 3});
        CHECK(once.loss == again.loss);
        CHECK(once.gradients == again.gradients);
        CHECK(once.weights == again.weights);
        for (std::size_t r = 0; r < once.counted.size(); r++) {
          CHECK(once.counted[r] == plan.data().predicted[r].bytes);
          CHECK(again.counted[r] == each.data().predicted[r].bytes);
        }
        bool made_once = false;
        for (int r = 0; r < ranks; r++)
          for (const ProgramStep& s : compile(plan, r).steps)
            if (const auto* run = std::get_if<RunKernel>(&s.what))
              made_once = made_once || (s.once && run->pass.starts_with("tanh"));
        CHECK(made_once);
        int shared = 0, hidden = 0;
        CHECK(races(plan, {}, &shared, &hidden) == "");
        // What only the first micro-batch makes and reads, where it is kept, has its memory for itself.
        const int kept = plan.data().passes.find("part");
        REQUIRE(kept >= 0);
        const Program keeps = compile(plan, 0, {.keep = {kept}});
        const Buffer& its = keeps.buffers[static_cast<std::size_t>(keeps.stored[static_cast<std::size_t>(kept)].front().buffer)];
        CHECK(its.first == 0);
        CHECK(its.last == static_cast<int>(keeps.steps.size()));
      }
}
