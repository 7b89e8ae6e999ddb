// SPDX-License-Identifier: Apache-2.0
// When each event of a training step began and ended: the ring, the Chrome trace, the table, on ranks that are threads.
#include <motley/error.h>
#include <motley/trainer.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <mutex>
#include <set>

#include "base/json.h"
#include "explain/describe.h"
#include "plan/plan_data.h"
#include "run/chrome_trace.h"
#include "run/timeline_file.h"
#include "run/trace_summary.h"
#include "tests/lib/train_nets.h"
#include "tests/support/allocations.h"
#include "train/train_job.h"

using namespace motley;

namespace {

// One measured kernel per rank; all others are modelled from it.
Profile made_up(int ranks, double seconds = 1e-5) {
  Profile profile;
  KernelSpec dense;
  dense.op = KernelOp::dense;
  dense.roles.n = dense.roles.c = dense.roles.f = 8;
  for (int r = 0; r < ranks; r++) {
    profile.devices.emplace_back();
    profile.add({r, dense, {seconds, seconds, seconds, 1}, ""});
  }
  return profile;
}

// Names of hosts make messages of what would be read in place.
Mesh line_on(int ranks, bool hosts) {
  std::vector<Device> devices(static_cast<std::size_t>(ranks));
  for (int r = 0; r < ranks; r++) {
    devices[static_cast<std::size_t>(r)].name = "device " + std::to_string(r);
    if (hosts) devices[static_cast<std::size_t>(r)].host = "host " + std::to_string(r);
  }
  return Mesh({{"all", ranks}}, devices);
}

Plan plan_on(int ranks, bool hosts = false) {
  return balance(small_step(4), line_on(ranks, hosts), small_rules(ranks), made_up(ranks));
}

// Rank 0's trace of a training of so many steps; per rank: the Program's steps.
RunTrace trained(const Plan& plan, const Profile& profile, int steps, std::vector<std::size_t>* sizes = nullptr) {
  RunTrace out;
  std::mutex lock;
  const int ranks = plan.mesh().ranks();
  if (sizes != nullptr) sizes->resize(static_cast<std::size_t>(ranks));
  run_ranks_in_memory(ranks, [&](Runtime& rt) {
    Trainer trainer(rt, plan);
    const Datasets data = small_data(40);
    Order order(40, 4, 1);
    for (int s = 0; s < steps; s++) {
      const Batch b = batch_of(data.train, order.batch_of(s), s, 0);
      trainer.step_named({{"image", b.images}, {"label", b.labels}});
    }
    RunTrace mine = gather_trace(plan, profile, trainer.trace(), rt.transport());
    const std::lock_guard hold(lock);
    if (sizes != nullptr) (*sizes)[static_cast<std::size_t>(rt.rank())] = trainer.program().steps.size();
    if (rt.rank() == 0) out = std::move(mine);
  });
  return out;
}

Json parsed(const std::string& text) {
  Complaints complaints;
  auto json = read_json("test", text, complaints);
  REQUIRE(json.has_value());
  return *json;
}

double number(const Json& json, const char* key) {
  const Json* at = json.find(key);
  REQUIRE(at != nullptr);
  if (const auto* whole = std::get_if<std::int64_t>(&at->value)) return static_cast<double>(*whole);
  return std::get<double>(at->value);
}

std::string word(const Json& json, const char* key) {
  const Json* at = json.find(key);
  REQUIRE(at != nullptr);
  return std::get<std::string>(at->value);
}

struct Event {
  double begin, end;
  std::string category;
};

// What a Chrome trace holds.
struct Chrome {
  std::map<int, std::string> processes{};
  std::map<std::pair<int, int>, std::vector<Event>> tracks{};  // of whole events, by process and track
  std::map<std::string, std::map<int, std::size_t>> events{};  // by process name and training step
  std::map<std::string, std::vector<double>> transfers{};      // by id: begin, end
  std::map<std::string, std::set<std::string>> names{};        // by process name
  std::map<std::string, std::map<int, double>> begins{};       // of each training step's own event
  std::size_t with_peers = 0;

  explicit Chrome(const std::string& text) {
    const Json json = parsed(text);
    const auto& all = std::get<Json::Array>(json.find("traceEvents")->value);
    for (const Json& e : all)
      if (word(e, "ph") == "M" && word(e, "name") == "process_name")
        processes[static_cast<int>(number(e, "pid"))] = word(*e.find("args"), "name");
    for (const Json& e : all) {
      const std::string phase = word(e, "ph");
      if (phase == "M") continue;
      const int pid = static_cast<int>(number(e, "pid"));
      const Json& args = *e.find("args");
      const int step = static_cast<int>(number(args, "step"));
      events[processes.at(pid)][step]++;
      with_peers += args.find("peers") != nullptr && number(args, "bytes") > 0;
      if (phase != "X") {
        transfers[word(e, "id")].push_back(number(e, "ts"));
        continue;
      }
      names[processes.at(pid)].insert(word(e, "name"));
      if (word(e, "cat") == "step") begins[processes.at(pid)][step] = number(e, "ts");
      tracks[{pid, static_cast<int>(number(e, "tid"))}].push_back(
          {number(e, "ts"), number(e, "ts") + number(e, "dur"), word(e, "cat")});
    }
  }
};

// Each event is in its training step, but for the inputs before and the figures after it; none overlaps another. Rounded to
// nanoseconds.
void check_nesting(std::vector<Event> events) {
  constexpr double kRound = 1.5e-3;
  std::vector<Event> steps;
  for (const Event& e : events)
    if (e.category == "step") steps.push_back(e);
  events.erase(std::remove_if(events.begin(), events.end(), [](const Event& e) { return e.category == "step"; }), events.end());
  for (auto* list : {&steps, &events}) {
    std::stable_sort(list->begin(), list->end(),
                     [](const Event& a, const Event& b) { return std::pair(a.begin, a.end) < std::pair(b.begin, b.end); });
    for (std::size_t i = 1; i < list->size(); i++) REQUIRE((*list)[i - 1].end <= (*list)[i].begin + kRound);
  }
  for (const Event& e : events) {
    const bool inside = std::any_of(steps.begin(), steps.end(),
                                    [&](const Event& s) { return s.begin <= e.begin + kRound && e.end <= s.end + kRound; });
    REQUIRE((inside || e.category == "feed" || e.category == "agreements"));
  }
}

}  // namespace

TEST_CASE("step trace: a ring of whole steps", "[trace]") {
  StepTrace trace(2, {.steps = 3});
  std::size_t allocated = 0;
  CHECK(trace.events() == 2 + kTraceParts);
  CHECK(trace.capacity() == 3);
  CHECK(trace.steps() == 0);
  trace.program_step(0, 1, 2);  // outside any training step
  for (Index step = 1; step <= 5; step++) {
    const auto at = static_cast<double>(step);
    const std::size_t before = testing::allocations().count;
    trace.begin(step);
    trace.program_step(0, at, at + 0.1);
    trace.program_step(1, at + 0.1, at + 0.2);
    trace.part(TracePart::figures, at + 0.2, at + 0.3);
    allocated += testing::allocations().count - before;
    CHECK(trace.steps() == static_cast<std::size_t>(std::min<Index>(step - 1, 2)));
    trace.end();
    CHECK(trace.steps() == static_cast<std::size_t>(std::min<Index>(step, 3)));
  }
  trace.program_step(0, 7, 8);
  CHECK(allocated == 0);
  for (std::size_t k = 0; k < 3; k++) {
    const double at = 3 + static_cast<double>(k);
    CHECK(trace.number(k) == static_cast<Index>(k) + 3);
    CHECK(trace.spans(k)[0].begin == at);
    CHECK(trace.spans(k)[1].end == at + 0.2);
    CHECK(trace.spans(k)[2 + static_cast<std::size_t>(TracePart::figures)].end == at + 0.3);
  }
  trace.begin(6);  // and never whole: the oldest is gone, the others stay
  CHECK(trace.steps() == 2);
  CHECK(trace.number(0) == 4);
  trace.begin(6);
  CHECK(trace.steps() == 2);
  CHECK(StepTrace(1000, {.steps = 100, .bytes = 16 * 1003 * 7 + 5}).capacity() == 7);
  CHECK(StepTrace(1000, {.steps = 100, .bytes = 1}).capacity() == 1);
}

TEST_CASE("trace: an event per step of every rank's Program and part of the step, in order", "[trace]") {
  for (int ranks = 1; ranks <= 4; ranks++)
    for (const bool hosts : {false, true}) {
      std::vector<std::size_t> sizes;
      const RunTrace trace = trained(plan_on(ranks, hosts), made_up(ranks), 3, &sizes);
      CHECK(trace.steps == std::vector<Index>{1, 2, 3});
      REQUIRE(trace.ranks.size() == static_cast<std::size_t>(ranks));
      for (std::size_t r = 0; r < sizes.size(); r++) {
        const RankTrace& rank = trace.ranks[r];
        CHECK(rank.items.size() == sizes[r] + kTraceParts);
        CHECK(rank.measured.size() == 3 * rank.items.size());
        CHECK(rank.simulated.size() == rank.items.size());
        for (std::size_t k = 0; k < 3; k++) {
          double before = rank.step(k).begin;
          CHECK(rank.at(k, sizes[r] + static_cast<std::size_t>(TracePart::feed)).begin > 0);
          for (std::size_t i = 0; i < sizes[r]; i++) {
            const TraceSpan s = rank.at(k, i);
            REQUIRE(before <= s.begin);
            REQUIRE(s.begin <= s.end);
            before = s.end;
          }
          CHECK(before <= rank.step(k).end);
        }
      }
    }
}

TEST_CASE("trace: where an optimizer moves by norms, their exchange is an event, and micro-batches end in one step", "[trace]") {
  for (const Index micro_batches : {1, 2})
    for (const int ranks : {1, 3}) {
      INFO(micro_batches << " micro-batches on " << ranks << " ranks");
      Graph g;
      const Step step = training(small_net(g, 4).loss, Lamb{}, {.accumulate = micro_batches});
      const Plan plan = balance(step, line_on(ranks, true), small_rules(ranks), made_up(ranks));
      std::vector<std::size_t> sizes;
      const RunTrace trace = trained(plan, made_up(ranks), 2, &sizes);
      for (std::size_t r = 0; r < sizes.size(); r++) {
        const RankTrace& rank = trace.ranks[r];
        const Program program = compile(plan, static_cast<int>(r));
        REQUIRE(rank.items.size() == sizes[r] + 1 + kTraceParts);
        CHECK(rank.simulated.size() == rank.items.size());
        CHECK(rank.items[sizes[r]].name == "exchange norms");
        CHECK(rank.items[sizes[r]].group == "agreements");
        const auto move = static_cast<std::size_t>(program.move_begin);
        for (std::size_t k = 0; k < 2; k++) {
          const TraceSpan norms = rank.at(k, sizes[r]);
          CHECK(norms.begin < norms.end);
          if (move > 0) CHECK(rank.at(k, move - 1).end <= norms.begin);
          if (move < sizes[r]) CHECK(norms.end <= rank.at(k, move).begin);
          CHECK(norms.end <= rank.step(k).end);
        }
        const TraceSpan norms = rank.simulated[sizes[r]];
        CHECK((norms.begin < norms.end) == (ranks > 1));
        CHECK(norms.end <= rank.simulated_step().end);
        for (std::size_t i = 0; i < sizes[r]; i++)
          if (!program.steps[i].once) CHECK(rank.simulated_step().begin <= rank.simulated[i].begin);
      }
    }
}

TEST_CASE("trace: recording takes no memory", "[trace]") {
  for (int ranks = 1; ranks <= 2; ranks++) {
    const Plan plan = plan_on(ranks);
    run_ranks_in_memory(ranks, [&](Runtime& rt) {
      const Program program = compile(plan, rt.rank());
      State state(plan, program.rank, 1, nullptr);
      Executor executor(program, rt.backend(plan.mesh()), rt.transport(), state);
      StepTrace trace(program.steps.size(), {.steps = 2});
      const auto allocations = [&](StepTrace* into) {
        executor.record_into(into);
        const std::size_t before = testing::allocations().count;
        for (Index step = 1; step <= 4; step++) {
          if (into != nullptr) into->begin(step);
          executor.run();
          if (into != nullptr) into->end();
        }
        return testing::allocations().count - before;
      };
      executor.run();
      const std::size_t without = allocations(nullptr), with = allocations(&trace);  // oneDNN takes some for its arguments
      if (with > without)
        throw InternalError("a step takes memory: " + std::to_string(with) + ", without the trace " + std::to_string(without));
      if (trace.steps() != 2 || trace.number(1) != 4) throw InternalError("the last two steps are kept");
    });
  }
}

TEST_CASE("trace: Chrome JSON has measured and simulated ranks side by side", "[trace]") {
  for (int ranks = 1; ranks <= 4; ranks++)
    for (const bool hosts : {false, true})
      for (const double seconds : {1e-9, 1.0}) {  // simulated steps shorter and longer than the measured ones
        const RunTrace trace = trained(plan_on(ranks, hosts), made_up(ranks, seconds), 4);
        const Chrome chrome(chrome_trace(trace));
        CHECK(chrome.processes.size() == 2 * static_cast<std::size_t>(ranks));
        for (int r = 0; r < ranks; r++) {
          const std::string measured = "rank " + std::to_string(r) + " measured",
                            simulated = "rank " + std::to_string(r) + " simulated";
          REQUIRE(chrome.events.count(measured) == 1);
          REQUIRE(chrome.events.count(simulated) == 1);
          CHECK(chrome.events.at(measured) == chrome.events.at(simulated));
          CHECK(chrome.events.at(measured).size() == 4);
          CHECK(chrome.names.at(measured) == chrome.names.at(simulated));
          for (int step = 1; step <= 4; step++) {
            auto first = [&](const std::string& side) {
              double least = HUGE_VAL;
              for (int q = 0; q < ranks; q++)
                least = std::min(least, chrome.begins.at("rank " + std::to_string(q) + " " + side).at(step));
              return least;
            };
            CHECK(first("simulated") == Approx(first("measured")).margin(2e-3));
            CHECK(chrome.begins.at(simulated).at(step) >= first("measured") - 2e-3);
          }
        }
        for (const auto& [track, events] : chrome.tracks) check_nesting(events);
        CHECK(chrome.transfers.empty() == (ranks == 1 || !hosts));
        for (const auto& [id, ends] : chrome.transfers) {
          REQUIRE(ends.size() == 2);
          CHECK(ends[0] <= ends[1]);
        }
        CHECK((chrome.with_peers > 0) == (ranks > 1));
      }
}

TEST_CASE("trace: without a profile nothing is simulated, and that is said", "[trace]") {
  const RunTrace trace = trained(balance(small_step(4), line_of(2), small_rules(2), {}), {}, 2);
  REQUIRE(trace.notes.size() == 1);
  CHECK(trace.notes[0].find("no profile") == 0);
  const Chrome chrome(chrome_trace(trace));
  CHECK(chrome.processes == std::map<int, std::string>{{0, "rank 0 measured"}, {2, "rank 1 measured"}});
  const TraceSummary summary = summarise(trace, 1);
  CHECK(!summary.gap());
  CHECK(to_text(summary).find("predicted step  unknown") != std::string::npos);
}

TEST_CASE("trace: a rank that holds fewer steps, and one of another host", "[trace]") {
  const Plan plan = plan_on(2, true);
  RunTrace trace;
  run_ranks_in_memory(2, [&](Runtime& rt) {
    struct OtherHosts : Transport {
      explicit OtherHosts(Transport& inner) : inner_(inner) { hosts_ = {0, 1}; }
      int rank() const override { return inner_.rank(); }
      int size() const override { return inner_.size(); }
      Ticket send(int to, int tag, std::span<const std::byte> bytes) override { return inner_.send(to, tag, bytes); }
      Ticket receive(int from, int tag, std::span<std::byte> bytes) override { return inner_.receive(from, tag, bytes); }
      bool test(Ticket ticket) override { return inner_.test(ticket); }
      int peer(Ticket ticket) const override { return inner_.peer(ticket); }
      bool idle() const override { return inner_.idle(); }
      std::vector<std::vector<std::byte>> gather_all(std::span<const std::byte> mine) override { return inner_.gather_all(mine); }
      HeldBytes allocate(std::size_t bytes) override { return inner_.allocate(bytes); }
      std::vector<HeldBytes> share(const HeldBytes& mine) override { return inner_.share(mine); }
      Ticket await(const std::atomic<std::uint64_t>& flag, std::uint64_t value, int from, std::int64_t bytes) override {
        return inner_.await(flag, value, from, bytes);
      }
      void abort(const Error& error) noexcept override { inner_.abort(error); }
      Transport& inner_;
    } transport(rt.transport());
    const double ahead = rt.rank() == 0 ? 0 : 1000;
    StepTrace mine(compile(plan, rt.rank()).steps.size(), {.steps = rt.rank() == 0 ? 5U : 3U});
    for (Index step = 1; step <= 5; step++) {
      mine.begin(step);
      const double at = ahead + static_cast<double>(step);
      mine.part(TracePart::feed, at, at + 0.125);
      mine.part(TracePart::figures, at + 0.5, at + 0.75);
      mine.end();
    }
    RunTrace its = gather_trace(plan, {}, mine, transport);
    if (rt.rank() == 0) trace = std::move(its);
  });
  CHECK(trace.steps == std::vector<Index>{3, 4, 5});
  for (std::size_t k = 0; k < 3; k++)
    for (const RankTrace& rank : trace.ranks) {
      const double ahead = &rank == &trace.ranks[0] ? 0 : 1000;  // of the times that were recorded; both read one clock
      CHECK(rank.step(k).begin == Approx(ahead + static_cast<double>(k) + 3.125).margin(0.05));
      CHECK(rank.step(k).end == Approx(ahead + static_cast<double>(k) + 3.5).margin(0.05));
    }
  REQUIRE(trace.notes.size() == 2);
  CHECK(trace.notes[0].find("clocks") != std::string::npos);
}

TEST_CASE("trace summary: medians by name, what is between, and shares of the gap", "[trace]") {
  const Quartiles q = quartiles({4, 1, 3, 2});
  CHECK(q.q25 == Approx(1.75));
  CHECK(q.median == Approx(2.5));
  CHECK(q.q75 == Approx(3.25));
  CHECK(quartiles({}).median == 0);
  RunTrace trace;
  trace.steps = {1, 2};
  trace.predicted_step_seconds = 1.0;
  RankTrace rank{.device = "one"};
  rank.items = {{.name = "conv forward", .group = "conv2d forward"},
                {.kind = TraceItem::Kind::post, .name = "w", .group = "posts", .exchange = 0},
                {.kind = TraceItem::Kind::wait, .name = "w", .group = "waits", .exchange = 0}};
  const std::vector<TraceItem> parts = trace_items({});
  rank.items.insert(rank.items.end(), parts.begin(), parts.end());
  for (const double t : {0.0, 10.0})  // 0.5 s between events
    for (const TraceSpan& s :
         {TraceSpan{1, 2}, TraceSpan{2, 2.25}, TraceSpan{2.75, 3.5}, TraceSpan{0, 1}, TraceSpan{3.5, 3.5}, TraceSpan{3.5, 4}})
      rank.measured.push_back({t + s.begin, t + s.end});
  rank.measured[0].end = 900;  // the first step is not timed
  rank.simulated = {{0, 0.5}, {0.5, 0.5}, {0.5, 1}, {0, 0}, {0.5, 0.5}, {1, 1}};
  trace.ranks = {rank};
  TraceSummary s = summarise(trace, 2);
  CHECK(s.steps == 1);
  CHECK(s.first_step == 2);
  CHECK(s.step.median == Approx(2.5));
  CHECK(*s.gap() == Approx(1.5));
  std::map<std::string, TraceRow> rows, groups;
  for (const TraceRow& r : s.ranks[0].rows) rows[r.name] = r;
  for (const TraceRow& r : s.ranks[0].groups) groups[r.name] = r;
  CHECK(rows.size() == 6);  // the exchange's post and wait are one row
  CHECK(rows.at("w").measured.median == Approx(1.0));
  CHECK(*rows.at("w").predicted == Approx(0.5));
  CHECK(*rows.at("conv forward").difference() == Approx(0.5));
  CHECK(rows.at("between events").measured.median == Approx(0.5));
  CHECK(groups.at("posts").measured.median == Approx(0.25));
  CHECK(groups.at("waits").measured.median == Approx(0.75));
  CHECK(groups.at("agreements").measured.median == Approx(0.5));
  CHECK(s.ranks[0].rows.front().name == "conv forward");  // by time
  sort_by(TraceOrder::error, s);
  CHECK(s.ranks[0].rows.front().name == "feed");  // 1 s that no one predicted
  s.ranks[0].disturbed = 0.25;

  const Folder folder;
  save(s, folder.path() / kStepTimesFile);
  const TraceSummary again = load_trace_summary(folder.path() / kStepTimesFile);
  CHECK(to_text(to_json(again)) == to_text(to_json(s)));
  const std::string text = to_text(again);
  CHECK(text.find("more than 5 %") != std::string::npos);
  CHECK(text.find("33 %") != std::string::npos);
  CHECK_THROWS_AS(load_trace_summary(folder.path() / "nothing.json"), UserError);
  write_file((folder.path() / "bad.json").string(), "{\"version\": 1, \"ranks\": 3}");
  try {
    load_trace_summary(folder.path() / "bad.json");
    FAIL("a damaged file is refused");
  } catch (const UserError& e) {
    CHECK(e.code() == Exit::data);
  }
}

TEST_CASE("a training job keeps where predicted and measured part, and shows it", "[trace]") {
  const Folder folder, other;
  const Plan plan = plan_on(2);
  const Profile profile = made_up(2);
  std::vector<std::string> lines;
  run_ranks_in_memory(2, [&](Runtime& rt) {
    train_job(rt, {.plan = &plan,
                   .profile = &profile,
                   .data = {small_data(20).train, nullptr},
                   .max_steps = 10,
                   .run_directory = folder.path(),
                   .trace = other.path() / "chrome.json",
                   .say = [&](const std::string& line) { lines.push_back(line); }});
  });
  REQUIRE(lines.size() == 1);
  CHECK(lines.back() == "trace of the last 10 steps: " + (other.path() / "chrome.json").string());
  CHECK(Chrome(read_file((other.path() / "chrome.json").string())).processes.size() == 4);
  const TraceSummary summary = load_trace_summary(folder.path() / kStepTimesFile);
  CHECK(summary.first_step == 3);  // after two steps of warm-up
  CHECK(summary.last_step == 10);
  // The timeline: all of these ten steps, the last ones within a limit, the same when it is read again.
  const RunTrace timeline = load_timeline(folder.path() / kTimelineFile);
  CHECK(timeline.steps.size() == 10);
  REQUIRE(timeline.ranks.size() == 2);
  CHECK(timeline.ranks[0].simulated.size() == timeline.ranks[0].items.size());
  std::set<std::string> layers;
  for (const TraceItem& item : timeline.ranks[0].items)
    if (item.kind == TraceItem::Kind::kernel) layers.insert(item.layer);
  CHECK(layers.contains("conv2d_1"));
  save_timeline(timeline, other.path() / "again.json", {.steps = 3});
  const RunTrace last = load_timeline(other.path() / "again.json");
  CHECK(last.steps == std::vector<Index>{8, 9, 10});
  for (std::size_t r = 0; r < 2; r++)
    for (std::size_t i = 0; i < last.ranks[r].items.size(); i++)
      for (std::size_t k = 0; k < 3; k++) {
        const TraceSpan before = timeline.ranks[r].at(7 + k, i), after = last.ranks[r].at(k, i);
        CHECK(after.end - after.begin == Approx(before.end - before.begin).margin(1.5e-9));
        CHECK(after.begin - last.ranks[0].step(0).begin == Approx(before.begin - timeline.ranks[0].step(7).begin).margin(3e-9));
      }
  save_timeline(timeline, other.path() / "again.json", {.events = 1});
  CHECK(load_timeline(other.path() / "again.json").steps == std::vector<Index>{10});
  const std::string text = to_text(summary);
  std::set<std::string> exchanges;
  for (int r = 0; r < 2; r++) {
    const Program program = compile(plan, r);
    for (const ProgramStep& step : program.steps)
      if (const auto* post = std::get_if<Post>(&step.what))
        exchanges.insert(program.exchange_names[static_cast<std::size_t>(post->exchange)]);
  }
  CHECK(exchanges.size() > 3);
  for (const std::string& name : exchanges) CHECK(text.find(name) != std::string::npos);
  for (const Described& e : describe_exchanges(plan.data(), 2)) CHECK(text.find(e.tensor) != std::string::npos);
  for (const char* part : {"conv2d_1 forward", "update of conv2d_1.weight", "feed", "agree on the loss", "exchange figures",
                           "between events", "predicted step", "measured step", "disturbed"})
    CHECK(text.find(part) != std::string::npos);
  const Json run = parsed(read_file((folder.path() / "run.json").string()));
  for (const char* rank : {"/ranks/0", "/ranks/1"}) {
    CHECK(number(*run.at(rank), "feed_seconds") > 0);
    CHECK(run.at(rank)->find("disturbed") != nullptr);
  }
}
