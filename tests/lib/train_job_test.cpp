// SPDX-License-Identifier: Apache-2.0
// The files of a training job, and runs whose copies differ, on ranks that are threads.
#include <fmt/format.h>
#include <motley/backend.h>
#include <motley/error.h>
#include <motley/measure.h>
#include <motley/predictor.h>
#include <motley/trainer.h>
#include <sys/resource.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <csignal>
#include <fstream>
#include <mutex>
#include <optional>
#include <set>
#include <sstream>
#include <thread>

#include "balance/balance_within.h"
#include "base/json.h"
#include "base/npy.h"
#include "plan/plan_data.h"
#include "run/copies.h"
#include "run/rank_facts.h"
#include "tests/lib/train_nets.h"
#include "train/evaluation_line.h"
#include "train/train_job.h"

using namespace motley;

namespace {

Json parsed(const std::string& text) {
  Complaints complaints;
  auto json = read_json("test", text, complaints);
  REQUIRE(json.has_value());
  return *json;
}

double number(const Json& json, const std::string& pointer) {
  const Json* at = json.at(pointer);
  REQUIRE(at != nullptr);
  if (const auto* integer = std::get_if<std::int64_t>(&at->value)) return static_cast<double>(*integer);
  REQUIRE(std::holds_alternative<double>(at->value));
  return std::get<double>(at->value);
}

}  // namespace

TEST_CASE("copies: one that is not its owner's is named", "[train]") {
  const Plan plan =
      balance(small_step(4), line_of(2), {{"batch", "all", Sizes{{3, 1}}}}, {}, {.dtype = DType::f64});  // every weight is copied
  std::vector<CopyDifference> same, disturbed;
  run_ranks_in_memory(2, [&](Runtime& rt) {
    const Program program = compile(plan, rt.rank());
    const auto backend = reference_backend();
    State state(plan, program.rank, 1);
    Executor executor(program, *backend, rt.transport(), state);
    const Batch b = batch_of(std::make_shared<Fixed>(4), {0, 1, 2, 3}, 0, 0);
    executor.feed([&](const std::string& name, const Box& box, std::span<std::byte> out) {
      (name == "image" ? b.images : b.labels)(box, out);
    });
    const auto first = copies_differ(plan, program, executor, rt.transport());
    // The owners change their values after they have sent them: what the others read is old then.
    executor.on_step([&](const char* what) {
      if (std::string(what) != "dense_6 forward") return;
      for (const Slice& s : program.slices)
        *reinterpret_cast<double*>(state.address(s.name, "", program.buffers[static_cast<std::size_t>(s.value)])) += 1;
    });
    const auto second = copies_differ(plan, program, executor, rt.transport());
    if (rt.rank() != 0) return;
    same = first;
    disturbed = second;
  });
  CHECK(same.empty());
  std::set<std::string> names;
  for (const CopyDifference& d : disturbed) names.insert(plan.data().passes.tensors[static_cast<std::size_t>(d.tensor)].name);
  const std::vector<std::string> all = plan.step().parameters();
  CHECK(names == std::set<std::string>(all.begin(), all.end()));
}

TEST_CASE("copies: a run whose copies differ ends with the tensor, the ranks and the step, after so many steps and at its end",
          "[train]") {
  const Plan plan = balance(small_step(4), line_of(3), {{"batch", "all", Sizes{{2, 1, 1}}}}, {});
  for (const bool at_end : {false, true}) {
    int ended = 0;
    std::mutex lock;
    std::optional<CopiesDiffer> found;
    run_ranks_in_memory(3, [&](Runtime& rt) {
      Trainer trainer(rt, plan, {.compare_copies_every = at_end ? 0 : 2});
      const Program& program = trainer.program();
      Index steps = 0;
      // In step 4, or in the comparison at the end, the owner's own weights change unseen by the others: after they were sent,
      // two signs at once.
      trainer.executor().on_step([&](const char* what) {
        if (steps != 4 || std::string(what) != "dense_6 forward") return;
        for (const Slice& s : program.slices)
          if (s.name == "conv2d_1.weight") {  // one owner has all of it
            std::vector<double> values = trainer.executor().read(s.value, s.box);
            values[0] = -values[0], values[1] = -values[1];
            trainer.executor().write(s.value, s.box, values);
          }
      });
      Order order(40, 4, 1);
      const Datasets data = small_data(40);
      try {
        for (; steps < 6;) {
          steps++;
          if (at_end && steps == 4) trainer.compare_copies();
          trainer.step_named(feeds_of(batch_of(data.train, order.batch_of(steps), steps, 0)));
        }
      } catch (const CopiesDiffer& e) {
        const std::lock_guard hold(lock);
        ended++;
        found = e;
      }
    });
    INFO("at the end: " << at_end);
    CHECK(ended == 3);
    REQUIRE(found.has_value());
    CHECK(found->code() == Exit::internal);
    CHECK(found->tensors() == std::vector<std::string>{"conv2d_1.weight"});
    CHECK_THAT(found->what(), Catch::Contains(at_end ? "copies differ at step 3: " : "copies differ at step 4: "));
    const int weight = plan.data().passes.find("conv2d_1.weight");
    const std::vector<Shard>& home = plan.data().tensors[static_cast<std::size_t>(weight)].home;
    REQUIRE(home.size() == 1);
    const int owner = home.front().rank, a = owner == 0 ? 1 : 0, b = owner == 2 ? 1 : 2;
    const std::string by = fmt::format(" (owned by rank {})", owner);
    CHECK_THAT(found->what(), Catch::Contains("\"conv2d_1.weight\" on ranks 0, 1, 2" + by) ||
                                  Catch::Contains(fmt::format("\"conv2d_1.weight\" on ranks {}, {}", a, b) + by));
    const Folder folder;
    TrainSummary summary;
    note_failure(summary, *found);
    write_run_json(folder.path(), summary);
    const Json run = parsed(text_of(folder.path() / "run.json"));
    CHECK(std::get<std::string>(run.at("/status")->value) == "failed");
    CHECK(number(run, "/code") == 70);
    CHECK(number(run, "/rank") == found->rank());
    CHECK(std::get<std::string>(run.at("/reason")->value) == found->what());
    CHECK(std::get<std::string>(run.at("/copies_differ/0")->value) == "conv2d_1.weight");
  }
}

TEST_CASE("a training job whose evaluation does not fit beside it ends before its first step", "[train]") {
  Index both = 0;
  const Plan unlimited = small_plan(1, DType::f32), evaluated = evaluation_plan(unlimited);
  run_ranks_in_memory(1, [&](Runtime& rt) {
    Trainer trainer(rt, unlimited);
    both = trainer.executor().memory_bytes() + Predictor(rt, evaluated, trainer.state()).memory_bytes();
  });
  for (const Index missing : {0, 1}) {
    Device device;
    device.memory_bytes = both - missing;
    const Mesh mesh({{"all", 1}}, {device});
    const Plan plan = balance(small_step(4), mesh, {}, {});
    LayoutRules rules;
    rules.homes = plan.homes();
    const Plan evaluation = balance(small_inference(4), mesh, rules, {});
    const Folder folder;
    auto train = [&] {
      run_ranks_in_memory(1, [&](Runtime& rt) {
        train_job(
            rt, {.plan = &plan, .evaluation = &evaluation, .data = small_data(20), .max_steps = 1, .run_directory = folder.path()});
      });
    };
    if (missing == 0) {
      train();
    } else {
      CHECK_THROWS_WITH(train(), Catch::Contains("for the evaluation beside it, the mesh gives it"));
      CHECK_FALSE(std::filesystem::exists(folder.path() / "metrics.jsonl"));
    }
  }
}

TEST_CASE("a plan for measured devices leaves room for workspaces and the evaluation: whatever the limit, its job runs",
          "[train]") {
  const Step step = small_step(8), inference = small_inference(8);
  const LayoutRules rules{{"f1", "all"}, {"f2", "all"}};
  const auto mesh_with = [](Index memory) {
    std::vector<Device> devices(2);
    devices[0].library = devices[1].library = "eigen";  // has large workspaces
    devices[1].memory_bytes = memory;
    return Mesh({{"all", 2}}, std::move(devices));
  };
  const auto plans = [&](Index memory, const Profile& profile) {
    return balance_both(step, inference, mesh_with(memory), rules, profile);
  };
  Profile profile;
  run_ranks_in_memory(2, [&](Runtime& rt) {
    const Profile mine = measure(rt, mesh_with(0), step, rules, "", {.budget_seconds = 20, .when = Measure::always});
    if (rt.rank() == 1) profile = mine;
  });
  for (KernelPoint point : profile.kernels()) {  // both ranks are of use, whatever was measured
    const double seconds = 1e-6 + 1e-6 * (flops(point.spec) + static_cast<double>(bytes_touched(point.spec)));
    point.seconds = {seconds, seconds, seconds, 3};
    profile.add(std::move(point));
  }
  for (DeviceFacts& device : profile.devices) device.alone_over_shared = 1;
  for (Link& link : profile.links) link = {link.from, link.to, {{1, 1e-6, 1e10}}, {{1, 1e-7, 1e10}}, 0};
  const auto run = [&](Index memory, const TrainPlans& both) {
    const Folder folder;
    std::vector<Index> used;
    const auto train = [&] {
      run_ranks_in_memory(2, [&](Runtime& rt) {
        const TrainSummary out = train_job(rt, {.plan = &both.training,
                                                .evaluation = &both.evaluation,
                                                .data = small_data(24),
                                                .max_steps = 1,
                                                .run_directory = folder.path()});
        if (rt.rank() == 1) used = {*out.ranks[0].memory_bytes, *out.ranks[1].memory_bytes};
      });
    };
    INFO("limit " << memory);
    CHECK_NOTHROW(train());
    for (std::size_t r = 0; r < used.size(); r++) CHECK(used[r] <= both.training.data().predicted[r].memory_bytes);
    return used;
  };
  const std::vector<Index> free = run(0, plans(0, profile));
  REQUIRE(free.size() == 2);
  REQUIRE(free[1] > 4096);
  std::set<Index> memory{256};  // nothing but the ranks' own flags
  for (int tenth = 1; tenth <= 16; tenth++) memory.insert(free[1] * tenth / 10);
  for (const Index m : memory) run(m, plans(m, profile));
  CHECK_THROWS_WITH(plans(79, profile), Catch::Contains("rank 1") && Catch::Contains("bytes"));
}

TEST_CASE("an evaluation that takes a second counts its samples, one that is expected to from its beginning", "[train]") {
  std::vector<std::string> lines;
  const auto say = [&](const std::string& line) { lines.push_back(line); };
  const auto expected = evaluation_line(20, 1.5, say), unexpected = evaluation_line(20, std::nullopt, say);
  expected(0);
  unexpected(0);
  CHECK(lines == std::vector<std::string>{"evaluating 0 of 20 samples"});
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  unexpected(20);
  CHECK(lines.back() == "evaluating 20 of 20 samples");
  CHECK(!evaluation_line(20, 1.5, {}));
}

TEST_CASE("a training job leaves its files", "[train]") {
  const Folder folder, dump;
  const Datasets data = small_data(20);
  const Plan plan = small_plan(3, DType::f32), evaluation = evaluation_plan(plan);
  std::vector<std::string> lines;
  run_ranks_in_memory(3, [&](Runtime& rt) {
    const TrainSummary s = train_job(rt, {.plan = &plan,
                                          .evaluation = &evaluation,
                                          .data = data,
                                          .epochs = 2,
                                          .run_directory = folder.path(),
                                          .dump = dump.path(),
                                          .progress = [&](const std::string& line) { lines.push_back(line); }});
    if (s.steps != 10) throw InternalError("two epochs of five batches are ten steps");
  });
  REQUIRE(lines.size() == 11);
  CHECK_THAT(lines[9], !Catch::Contains("accuracy"));
  CHECK_THAT(lines[10], Catch::Contains("step 10  loss") && Catch::Contains("  test accuracy ") && Catch::Contains(" %  "));
  const Json run = parsed(text_of(folder.path() / "run.json"));
  CHECK(std::get<std::string>(run.at("/status")->value) == "done");
  CHECK(number(run, "/steps") == 10);
  CHECK(number(run, "/bytes_predicted") == number(run, "/bytes_counted"));
  CHECK(number(run, "/measured_step_seconds") > 0);
  CHECK(std::holds_alternative<std::nullptr_t>(run.at("/predicted_step_seconds")->value));
  CHECK(number(run, "/test_accuracy") >= 0);
  CHECK(number(run, "/test_batch_seconds") > 0);
  CHECK(std::get<Json::Array>(run.at("/copies_differ")->value).empty());
  REQUIRE(std::get<Json::Array>(run.at("/ranks")->value).size() == 3);
  for (const char* key :
       {"measured_step_seconds", "busy_seconds", "waiting_seconds", "bytes_predicted", "bytes_counted", "memory_bytes"})
    CHECK(number(run, std::string("/ranks/2/") + key) >= 0);
  std::istringstream metrics(text_of(folder.path() / "metrics.jsonl"));
  std::string line;
  int step = 0;
  while (std::getline(metrics, line)) {
    const Json one = parsed(line);
    CHECK(number(one, "/step") == ++step);
    CHECK(number(one, "/epoch") == (step <= 5 ? 1 : 2));
    CHECK(number(one, "/seconds") > 0);
    if (step == 10) CHECK(number(one, "/loss") == number(run, "/train_loss"));
  }
  CHECK(step == 10);
  CHECK(text_of(folder.path() / "plan.json") == plan.json());

  const NpyArray before = read_npy(dump.path() / "weights_before/conv2d_1.weight.npy"),
                 after = read_npy(dump.path() / "weights_after/conv2d_1.weight.npy");
  CHECK(before.extents == std::vector<Index>{5, 2, 3, 3});
  CHECK(before.extents == after.extents);
  CHECK(std::get<std::vector<float>>(before.data) != std::get<std::vector<float>>(after.data));
  const NpyArray batches = read_npy(dump.path() / "batches.npy");
  CHECK(batches.extents == std::vector<Index>{10, 4});
  const auto first = Order(20, 4, 1).batch_of(0);
  for (std::size_t i = 0; i < 4; i++) CHECK(std::get<std::vector<std::int64_t>>(batches.data)[i] == first[i]);
  const Json manifest = parsed(text_of(dump.path() / "manifest.json"));
  CHECK(number(manifest, "/tensors/conv2d_1.weight/sizes/0") == 5);
}

// Samples whose reading, by the evaluation, shows what a run that died in it would find.
class Witness final : public Dataset {
 public:
  Witness(std::function<void()> see) : see_(std::move(see)) {}
  Index samples() const override { return 4; }
  Index classes() const override { return kClasses; }
  std::vector<Index> sample_extents() const override { return {2, 6, 5}; }
  void read(Index, const Box&, std::span<double> out) const override {
    see_();
    std::fill(out.begin(), out.end(), 0.5);
  }
  std::int32_t label(Index) const override { return 1; }

 private:
  std::function<void()> see_;
};

TEST_CASE("a checkpoint that is being written is complete before an evaluation, and so is the line of its step", "[train]") {
  const Plan plan = small_plan(2, DType::f32), evaluation = evaluation_plan(plan);
  for (const bool by_epochs : {false, true}) {  // begun before the epoch's last step; due after it
    const Folder folder;
    std::mutex lock;
    std::vector<std::set<std::string>> seen;
    std::set<std::size_t> lines;  // that rank 0, which writes them, sees
    static thread_local bool writes = false;
    Datasets data = small_data(20);
    data.test = std::make_shared<Witness>([&] {
      const std::lock_guard guard(lock);
      std::set<std::string> complete;
      for (const auto& entry : std::filesystem::directory_iterator(folder.path() / "checkpoints"))
        if (std::filesystem::exists(entry.path() / "complete")) complete.insert(entry.path().filename().string());
      if (seen.empty() || seen.back() != complete) seen.push_back(std::move(complete));
      const std::string metrics = text_of(folder.path() / "metrics.jsonl");
      if (writes) lines.insert(static_cast<std::size_t>(std::count(metrics.begin(), metrics.end(), '\n')));
    });
    run_ranks_in_memory(2, [&](Runtime& rt) {
      writes = rt.rank() == 0;
      train_job(rt, {.plan = &plan,
                     .evaluation = &evaluation,
                     .data = data,
                     .epochs = 2,
                     .checkpoint = {.every_steps = by_epochs ? 0 : 4, .every_epochs = by_epochs ? 1 : 0, .keep = 9},
                     .evaluate_every_epochs = 1,
                     .run_directory = folder.path()});
    });
    using Names = std::vector<std::set<std::string>>;
    CHECK(seen == (by_epochs ? Names{{"step-5"}, {"step-5", "step-10"}} : Names{{"step-4"}, {"step-4", "step-8"}}));
    CHECK(lines == std::set<std::size_t>{5, 10});
    std::istringstream metrics(text_of(folder.path() / "metrics.jsonl"));
    int step = 0;
    for (std::string line; std::getline(metrics, line);) {
      const Json one = parsed(line);
      CHECK(number(one, "/step") == ++step);
      CHECK((one.find("test_loss") != nullptr) == (step % 5 == 0));
    }
    CHECK(step == 10);
  }
}

TEST_CASE("a job that goes on from an older checkpoint gives up the newer ones; one elsewhere keeps a checkpoint of its own",
          "[train]") {
  const Folder folder, elsewhere;
  const Plan plan = small_plan(2, DType::f64);
  std::vector<std::string> ended;
  const auto run = [&](const Folder& in, const std::filesystem::path& resume, Index max_steps) {
    run_ranks_in_memory(2, [&](Runtime& rt) {
      train_job(rt, {.plan = &plan,
                     .data = small_data(20),
                     .max_steps = max_steps,
                     .checkpoint = {.every_steps = 2, .keep = 9},
                     .resume = resume,
                     .began =
                         [&](const auto& list) {
                           for (const auto& one : list) ended.push_back(one);
                         },
                     .run_directory = in.path()});
    });
  };
  const auto kept = [&](const Folder& in) {
    std::set<std::string> out;
    for (const auto& entry : std::filesystem::directory_iterator(in.path() / "checkpoints"))
      out.insert(entry.path().filename().string());
    return out;
  };
  run(folder, {}, 6);
  CHECK(ended.empty());
  CHECK(kept(folder) == std::set<std::string>{"step-2", "step-4", "step-6"});
  run(elsewhere, folder.path() / "checkpoints/step-6", 6);  // nothing is left to train
  CHECK(ended.empty());
  CHECK(kept(elsewhere) == std::set<std::string>{"step-6"});
  run(folder, folder.path() / "checkpoints/step-2", 4);
  CHECK(ended == std::vector<std::string>{"step-6", "step-4"});
  CHECK(kept(folder) == std::set<std::string>{"step-2", "step-4"});
}

TEST_CASE("an evaluation of labels that are all ignored keeps what was trained", "[train]") {
  const Folder folder;
  const Plan plan = small_plan(2, DType::f64), evaluation = evaluation_plan(plan);
  int refused = 0;
  std::mutex lock;
  const Datasets all = small_data(20);
  run_ranks_in_memory(2, [&](Runtime& rt) {
    try {
      EvaluateOptions evaluate;
      evaluate.ignored = 0;
      train_job(rt, {.plan = &plan,
                     .evaluation = &evaluation,
                     .evaluate = evaluate,
                     .data = {all.train, std::make_shared<Fixed>(1)},
                     .max_steps = 3,
                     .run_directory = folder.path()});
    } catch (const Error& e) {
      const std::lock_guard hold(lock);
      refused += std::string(e.what()).find("every label of the samples is ignored") != std::string::npos ? 1 : 0;
    }
  });
  CHECK(refused == 2);
  CHECK(std::filesystem::exists(folder.path() / "weights.safetensors"));
  CHECK(std::filesystem::exists(folder.path() / "checkpoints/step-3/complete"));
}

TEST_CASE("a training job that fails says so in run.json", "[train]") {
  const Folder folder;
  const Plan plan = small_plan(2, DType::f64);
  Datasets data{std::make_shared<Fixed>(4, 2), nullptr};
  int thrown = 0;
  std::mutex lock;
  try {
    run_ranks_in_memory(2, [&](Runtime& rt) {
      try {
        train_job(rt, {.plan = &plan, .data = data, .max_steps = 3, .run_directory = folder.path()});
      } catch (const LossNotFinite&) {
        const std::lock_guard hold(lock);
        thrown++;
      }
    });
  } catch (const Error&) {
  }
  CHECK(thrown == 2);
  const Json run = parsed(text_of(folder.path() / "run.json"));
  CHECK(std::get<std::string>(run.at("/status")->value) == "failed");
  CHECK(number(run, "/code") == 70);
  CHECK(std::get<std::string>(run.at("/reason")->value).find("\"image\"") != std::string::npos);
  CHECK(std::holds_alternative<std::nullptr_t>(run.at("/train_loss")->value));
}

TEST_CASE("a run directory that is renamed or removed ends the job, and is not made again", "[train]") {
  const Plan plan = small_plan(2, DType::f64);
  for (const bool removed : {false, true}) {
    const Folder folder;
    const std::filesystem::path run = folder.path() / "run", elsewhere = folder.path() / "elsewhere";
    std::filesystem::create_directory(run);
    std::atomic<int> thrown = 0;
    std::string warned;
    run_ranks_in_memory(2, [&](Runtime& rt) {
      int lines = 0;
      const auto progress = [&](const std::string&) {
        if (++lines != 3) return;
        if (!removed) return std::filesystem::rename(run, elsewhere);
        for (std::error_code error; std::filesystem::exists(run);)
          std::filesystem::remove_all(run, error);  // ranks still write there
      };
      try {
        train_job(rt, {.plan = &plan,
                       .data = small_data(20),
                       .max_steps = 20,
                       .checkpoint = {.every_steps = 2},
                       .run_directory = run,
                       .progress = progress,
                       .warn = [&](const std::string& line) { warned += line + "\n"; }});
      } catch (const Error& e) {
        thrown += e.code() == Exit::io && std::string(e.what()).find("renamed or removed") != std::string::npos ? 1 : 0;
      }
    });
    CHECK(thrown == 2);
    CHECK(!std::filesystem::exists(run));
    CHECK(warned.find("renamed or removed") != std::string::npos);
    CHECK(std::filesystem::exists(elsewhere) == !removed);
    CHECK(!std::filesystem::exists(elsewhere / "checkpoints/step-4"));
  }
}

TEST_CASE("a metrics file that cannot be written ends the job on all ranks", "[train]") {
  const Folder folder;
  rlimit usual{};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &usual) == 0);
  const auto before = std::signal(SIGXFSZ, SIG_IGN);
  const auto limit_files = [&](rlim_t bytes) {
    const rlimit limit{bytes, usual.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  };
  int lines = 0;
  // Called before a step's line is written: the first step's cannot be, and all that is written later can.
  const auto progress = [&](const std::string&) { limit_files(lines++ == 0 ? 0 : usual.rlim_cur); };
  const Plan plan = small_plan(2, DType::f64);
  int thrown = 0;
  std::mutex lock;
  run_ranks_in_memory(2, [&](Runtime& rt) {
    try {
      train_job(rt, {.plan = &plan, .data = small_data(20), .max_steps = 50, .run_directory = folder.path(), .progress = progress});
    } catch (const Error& e) {
      const std::lock_guard hold(lock);
      thrown += e.code() == Exit::io ? 1 : 0;
    }
  });
  limit_files(usual.rlim_cur);
  std::signal(SIGXFSZ, before);
  CHECK(thrown == 2);
  const Json run = parsed(text_of(folder.path() / "run.json"));
  CHECK(number(run, "/code") == 74);
  CHECK(number(run, "/steps") == 2);
  CHECK(std::filesystem::exists(folder.path() / "weights.safetensors"));
  CHECK(std::filesystem::exists(folder.path() / "checkpoints/step-2/complete"));
}

TEST_CASE("unlike versions on the ranks are named, each kind once", "[facts]") {
  const RankFacts one{"a", "CPU", "oneDNN 2.6.3", "MPICH 4.0.2", "0.1.0", "Linux 6.1, glibc 2.36"};
  CHECK(version_notes({}).empty());
  RankFacts other = one;
  other.host = "b";
  other.model = "another CPU";
  other.library = "cuDNN 9.1";  // not a version of oneDNN
  CHECK(version_notes({one, other, one}).empty());
  other.library = "oneDNN 3.1";
  other.system = "Linux 5.10, glibc 2.31";
  const std::vector<std::string> notes = version_notes({one, other, one});
  REQUIRE(notes.size() == 2);
  CHECK(notes[0].starts_with("the ranks have unlike versions of glibc: 2.31 (rank 1 on b), 2.36 (rank 0 on a and 1 more);"));
  CHECK(notes[1].starts_with("the ranks have unlike versions of oneDNN: 2.6.3 (rank 0 on a and 1 more), 3.1 (rank 1 on b);"));
  const auto backend = f64_backend();
  std::vector<RankFacts> facts;
  run_ranks_in_memory(2, [&](Runtime& rt) {
    const std::vector<RankFacts> all = gather_facts(rt.transport(), *backend);
    if (rt.rank() == 1) facts = all;
  });
  REQUIRE(facts.size() == 2);
  CHECK(facts[0] == facts[1]);
  CHECK(facts[0].library == backend->library());
  CHECK(facts[0].mpi.find("Version") == std::string::npos);
}

namespace {

// A run of the small network by whose evaluations its course is decided; five steps are an epoch.
struct Decided {
  TrainSummary summary{};
  std::vector<std::string> lines{};  // of metrics.jsonl, without what a clock says
  std::vector<std::string> said{};
  std::set<std::string> kept{};  // checkpoints
};

struct Deciding {
  int ranks = 2;
  CheckpointOptions checkpoint{};
  WatchOptions watch{.keep_best = Watched::test_loss, .stop_after = 4};
  Index max_steps = 200;
  std::filesystem::path resume{};
};

constexpr double kFirstRate = 0.2;

Plan plan_of_falls(int ranks) {
  const TrainingOptions options{
      .schedule = {.kind = RateSchedule::Kind::plateau, .factor = 0.5, .watch = Watched::test_accuracy, .patience = 1}};
  return balance(small_step(4, {.learning_rate = kFirstRate, .momentum = 0.9}, options), line_of(ranks), small_rules(ranks), {},
                 {.dtype = DType::f64});
}

std::string figure(const Json& line, const std::string& key) {
  return line.find(key) == nullptr ? "none" : fmt::format("{}", number(line, "/" + key));
}

Decided decided(const std::filesystem::path& in, const Deciding& how) {
  const Plan plan = plan_of_falls(how.ranks), evaluation = evaluation_plan(plan);
  Decided out;
  run_ranks_in_memory(how.ranks, [&](Runtime& rt) {
    const TrainSummary its = train_job(rt, {.plan = &plan,
                                            .evaluation = &evaluation,
                                            .data = small_data(20),
                                            .max_steps = how.max_steps,
                                            .checkpoint = how.checkpoint,
                                            .evaluate_every_epochs = 1,
                                            .watch = how.watch,
                                            .resume = how.resume,
                                            .run_directory = in,
                                            .say = [&](const std::string& line) { out.said.push_back(line); },
                                            .warn = [&](const std::string& line) { out.said.push_back(line); }});
    if (rt.rank() == 0) out.summary = its;
  });
  std::istringstream metrics(text_of(in / "metrics.jsonl"));
  for (std::string text; std::getline(metrics, text);) {
    const Json line = parsed(text);
    std::string& one = out.lines.emplace_back();
    for (const char* key : {"step", "loss", "learning_rate", "test_loss", "test_accuracy"}) one += figure(line, key) + " ";
  }
  if (std::filesystem::exists(in / "checkpoints"))
    for (const auto& entry : std::filesystem::directory_iterator(in / "checkpoints"))
      out.kept.insert(entry.path().filename().string());
  return out;
}

// What the evaluations in metrics.jsonl should have decided, by plain loops.
struct Expected {
  Index best = 0, end = 0;
  std::vector<double> rates{};  // of all steps
};
Expected expected_of(const std::filesystem::path& in, Index stop_after) {
  Expected out;
  std::istringstream metrics(text_of(in / "metrics.jsonl"));
  double rate = kFirstRate, best_loss = 0, best_accuracy = 0;
  Index without = 0, bad = 0;
  for (std::string text; std::getline(metrics, text);) {
    const Json line = parsed(text);
    out.rates.push_back(rate);
    out.end = static_cast<Index>(number(line, "/step"));
    if (line.find("test_loss") == nullptr) continue;
    const double loss = number(line, "/test_loss"), accuracy = number(line, "/test_accuracy");
    const bool gain = out.best == 0 || loss < best_loss;
    without = gain ? 0 : without + 1;
    if (gain) best_loss = loss, out.best = out.end;
    const bool rises = out.end == 5 || accuracy > best_accuracy * (1 + 1e-4);
    bad = rises ? 0 : bad + 1;
    if (rises) best_accuracy = accuracy;
    if (bad > 1) rate *= 0.5, bad = 0;
    if (without == stop_after) return out;
  }
  return out;
}

std::string step_name(Index step) {
  return "step-" + std::to_string(step);
}

}  // namespace

TEST_CASE("evaluations decide the rate, the best checkpoint and the end, equally on 1 to 4 ranks", "[train]") {
  std::vector<Index> ends, bests;
  for (const int ranks : {1, 2, 3, 4}) {
    INFO("ranks " << ranks);
    const Folder folder;
    const Decided run = decided(folder.path(), {.ranks = ranks, .checkpoint = {.every_steps = 3, .keep = 2}});
    const Expected expected = expected_of(folder.path(), 4);
    REQUIRE(run.summary.best.has_value());
    CHECK(run.summary.status == "done");
    CHECK(run.summary.stopped_early);
    CHECK(run.summary.best->step == expected.best);
    CHECK(run.summary.best->kept == expected.best);
    CHECK(run.summary.best->without_gain == 4);
    CHECK(run.summary.steps == expected.end);
    CHECK(run.lines.size() == static_cast<std::size_t>(expected.end));
    for (std::size_t s = 0; s < expected.rates.size(); s++)
      CHECK_THAT(run.lines[s], Catch::Contains(fmt::format(" {} ", expected.rates[s])));
    CHECK(expected.rates.back() < kFirstRate);
    std::set<std::string> kept{step_name(expected.best), step_name(expected.end)};
    for (Index step = (expected.end - 1) / 3 * 3; kept.size() < 3; step -= 3) kept.insert(step_name(step));
    CHECK(run.kept == kept);
    const Json json = parsed(text_of(folder.path() / "run.json"));
    CHECK(number(json, "/best/step") == static_cast<double>(expected.best));
    CHECK(std::get<std::string>(json.at("/best/checkpoint")->value) == "checkpoints/" + step_name(expected.best));
    CHECK(std::get<bool>(json.at("/stopped_early")->value));
    CHECK(load_run_json(folder.path() / "run.json").best->value == run.summary.best->value);
    CHECK_THAT(run.said.back(), Catch::Contains("test_loss has not gained in 4 evaluations since step"));
    ends.push_back(expected.end);
    bests.push_back(expected.best);
  }
  CHECK(ends == std::vector<Index>(4, ends.front()));
  CHECK(bests == std::vector<Index>(4, bests.front()));
}

TEST_CASE("what evaluations have decided goes on after any checkpoint", "[train]") {
  const Folder whole, alone;
  const Decided run = decided(whole.path(), {.checkpoint = {.every_steps = 1, .keep = 1000}});
  REQUIRE(run.summary.stopped_early);
  const auto same = [&](const Decided& again) {
    CHECK(again.lines == run.lines);
    CHECK(again.summary.stopped_early);
    REQUIRE(again.summary.best.has_value());
    CHECK(again.summary.best->value == run.summary.best->value);
    CHECK(again.summary.best->step == run.summary.best->step);
    CHECK(again.summary.best->kept == run.summary.best->step);
    CHECK(again.summary.best->without_gain == 4);
  };
  const Index best_step = run.summary.best->step, end = run.summary.steps;
  for (const Index step : {Index{3}, Index{5}, best_step - 1, best_step, best_step + 1, best_step + 5, end - 1, end}) {
    INFO("from step " << step);
    const Folder folder;
    std::filesystem::copy(whole.path(), folder.path(), std::filesystem::copy_options::recursive);
    for (Index later = step + 1; later <= end; later++)
      std::filesystem::remove_all(folder.path() / "checkpoints" / step_name(later));
    same(decided(folder.path(),
                 {.checkpoint = {.every_steps = 7, .keep = 1}, .resume = folder.path() / "checkpoints" / step_name(step)}));
  }
  // The best alone, and the last step.
  const Decided best = decided(alone.path(), {});
  same(best);
  CHECK(best.kept == std::set<std::string>{step_name(best_step), step_name(end)});
  std::filesystem::remove_all(alone.path() / "checkpoints" / step_name(end));
  same(decided(alone.path(), {.resume = alone.path() / "checkpoints" / step_name(best_step)}));
}

TEST_CASE("a best checkpoint that cannot be written leaves the one before it", "[train]") {
  const Folder whole, folder;
  const Index best = decided(whole.path(), {}).summary.best->step;
  REQUIRE(best > 5);
  const auto taken = folder.path() / "checkpoints" / step_name(best);
  std::filesystem::create_directories(taken);
  std::ofstream(taken / "mine") << "a file of the user";
  const Decided run = decided(folder.path(), {});
  CHECK(run.summary.checkpoints_failed == 1);
  CHECK(run.summary.best->step == best);
  REQUIRE(run.summary.best->kept.has_value());
  CHECK(*run.summary.best->kept < best);
  CHECK(run.kept.contains(step_name(*run.summary.best->kept)));
  CHECK(std::filesystem::exists(taken / "mine"));
}

TEST_CASE("a job that watches something else, or nothing, begins to compare again", "[train]") {
  const Folder folder, elsewhere;
  const Decided run = decided(folder.path(), {.checkpoint = {.every_steps = 5, .keep = 100}});
  const auto from = folder.path() / "checkpoints" / step_name(run.summary.steps);
  const auto has = [](const Decided& its, const std::string& text) {
    return std::any_of(its.said.begin(), its.said.end(),
                       [&](const std::string& line) { return line.find(text) != std::string::npos; });
  };
  const Decided branch = decided(elsewhere.path(), {.max_steps = run.summary.steps + 5, .resume = from});
  CHECK(has(branch, fmt::format("note: the best test_loss so far, {:.4g} after step {}, has no checkpoint in this run's directory",
                                run.summary.best->value, run.summary.best->step)));
  CHECK_FALSE(branch.summary.best->kept.has_value());
  const Decided other =
      decided(folder.path(), {.watch = {.keep_best = Watched::test_accuracy}, .max_steps = run.summary.steps + 5, .resume = from});
  CHECK(has(other, "note: the checkpoint's run watched test_loss, this job watches test_accuracy"));
  CHECK(other.summary.best->watch == Watched::test_accuracy);
  CHECK(other.summary.best->step >= run.summary.steps);
  const Decided none = decided(folder.path(), {.watch = {},
                                               .max_steps = run.summary.steps + 10,
                                               .resume = folder.path() / "checkpoints" / step_name(run.summary.steps + 5)});
  CHECK_FALSE(none.summary.best.has_value());
  const Plan plan = plan_of_falls(1);
  CHECK_THROWS_WITH(
      run_ranks_in_memory(1,
                          [&](Runtime& rt) {
                            train_job(rt, {.plan = &plan, .data = small_data(20), .max_steps = 1, .run_directory = folder.path()});
                          }),
      Catch::Contains("nothing is evaluated that could be watched"));
}
