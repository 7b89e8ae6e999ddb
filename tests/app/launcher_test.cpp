// SPDX-License-Identifier: Apache-2.0
// Every way in which a run can end: the right code and sentence, within seconds, with nothing left after.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <random>
#include <set>
#include <thread>

#include "app/launch_processes.h"
#include "app/mpiexec.h"
#include "app/outlet.h"
#include "base/clock.h"
#include "run/records.h"
#include "run/start.h"
#include "tests/support/directory.h"

namespace {

namespace fs = std::filesystem;
using namespace motley;
using Catch::Matchers::Contains;

void pause_ms(int ms) {
  std::this_thread::sleep_for(std::chrono::milliseconds(ms));
}

std::set<std::string> shared_memory() {
  std::set<std::string> out;
  for (const auto& file : fs::directory_iterator("/dev/shm")) out.insert(file.path());
  return out;
}

// Whether a process has it open or mapped.
bool is_used(const std::string& file) {
  std::error_code error;
  for (const auto& process : fs::directory_iterator("/proc")) {
    for (fs::directory_iterator at(process.path() / "fd", error), end; !error && at != end; at.increment(error)) {
      std::error_code gone;
      if (fs::read_symlink(at->path(), gone) == file) return true;
    }
    std::ifstream maps(process.path() / "maps");
    for (std::string line; std::getline(maps, line);)
      if (line.ends_with(file)) return true;
  }
  return false;
}

// What is in /dev/shm since `before` and in no process's use: another job's files are in use, or soon gone with it.
std::set<std::string> left_in_shared_memory(const std::set<std::string>& before) {
  std::set<std::string> left;
  for (const double until = seconds_now() + 2; seconds_now() < until; pause_ms(20)) {
    left.clear();
    for (const std::string& file : shared_memory())
      if (!before.contains(file) && !is_used(file) && fs::exists(file)) left.insert(file);
    if (left.empty()) break;
  }
  return left;
}

// One run of launch_probe, in a directory of its own.
class Probe {
 public:
  struct Setup {
    std::string mode{};
    int ranks = 3;
    std::vector<std::string> environment{};  // NAME=value; NAME alone: without it
    std::vector<std::string> before{};       // e.g. mpiexec -n 2
    std::string directory = "run";
  };

  explicit Probe(const Setup& setup) : shared_(shared_memory()) {
    std::string base = (fs::temp_directory_path() / "motley-test-XXXXXX").string();
    REQUIRE(mkdtemp(base.data()) != nullptr);
    base_ = base;
    directory_ = base_ / setup.directory;
    fs::create_directory(directory_);
    std::vector<std::string> words = setup.before;
    words.insert(words.end(), {LAUNCH_PROBE, setup.mode, std::to_string(setup.ranks), directory_.string()});
    start_ = seconds_now();
    pid_ = fork();
    if (pid_ == 0) become(setup, words);
    REQUIRE(pid_ > 0);
  }
  ~Probe() {
    if (pid_ > 0 && kill(pid_, SIGKILL) == 0) waitpid(pid_, nullptr, 0);
    fs::remove_all(base_);
  }
  Probe(const Probe&) = delete;
  Probe& operator=(const Probe&) = delete;

  std::vector<pid_t> processes() const { return processes_with("MOTLEY_RUN_RECORDS=" + (directory_ / ".ranks").string()); }
  void send(int signal) const { REQUIRE(kill(pid_, signal) == 0); }

  // Waits until all ranks say this phase; their process ids.
  std::vector<pid_t> in_phase(const std::string& phase, int ranks) const {
    std::vector<pid_t> pids;
    for (const double until = seconds_now() + 20; seconds_now() < until; pause_ms(5)) {
      pids.clear();
      for (int r = 0; r < ranks; r++)
        if (const auto record = RecordReader(record_path(directory_ / ".ranks", r)).read(); record && record->phase == phase)
          pids.push_back(record->pid);
      if (static_cast<int>(pids.size()) == ranks) return pids;
    }
    FAIL("the ranks did not come to phase " << phase);
    return {};
  }

  // Waits for the end. Kept: exit code (128 + signal), stdout, stderr, seconds.
  void end() {
    int status = 0, ended = 0;
    for (const double until = seconds_now() + 40; ended == 0 && seconds_now() < until; pause_ms(2))
      ended = waitpid(pid_, &status, WNOHANG);
    seconds = seconds_now() - start_;
    REQUIRE(ended == pid_);
    pid_ = -1;
    code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    out = read("out");
    err = read("err");
    INFO("exit " << code << " after " << seconds << " s\nstdout: " << out << "\nstderr: " << err);
    CHECK(processes().empty());
    CHECK(fs::is_empty(directory_));
    CHECK(left_in_shared_memory(shared_) == std::set<std::string>{});
  }

  const fs::path& directory() const { return directory_; }
  int code = -1;
  double seconds = 0;
  std::string out, err;

 private:
  std::string read(const char* name) const {
    std::ifstream file(base_ / name);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  [[noreturn]] void become(const Setup& setup, std::vector<std::string>& words) const {
    for (const std::string& entry : setup.environment) {
      const std::size_t at = entry.find('=');
      const int bad =
          at == std::string::npos ? unsetenv(entry.c_str()) : setenv(entry.substr(0, at).c_str(), entry.substr(at + 1).c_str(), 1);
      if (bad != 0) _exit(99);
    }
    const int out_file = open((base_ / "out").c_str(), O_CREAT | O_WRONLY, 0600),
              err_file = open((base_ / "err").c_str(), O_CREAT | O_WRONLY, 0600);
    if (dup2(out_file, 1) < 0 || dup2(err_file, 2) < 0) _exit(99);
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    execvp(argv[0], argv.data());
    _exit(98);
  }
  fs::path base_, directory_;
  std::set<std::string> shared_;
  double start_ = 0;
  pid_t pid_ = -1;
};

const std::vector<std::string> kShort{"MOTLEY_HUNG_SECONDS=1.5"};
constexpr double kSoon =
    20;  // seconds: far below the 30 after which a rank that hangs is ended, far above what a busy machine takes

#define CHECK_END(probe, wanted_code, wanted_text)                                                                 \
  do {                                                                                                             \
    (probe).end();                                                                                                 \
    INFO("exit " << (probe).code << " after " << (probe).seconds << " s\n" << (probe).out << "\n" << (probe).err); \
    CHECK((probe).code == (wanted_code));                                                                          \
    CHECK_THAT((probe).err, Contains(wanted_text));                                                                \
  } while (false)

}  // namespace

TEST_CASE("a run that goes well: the result on stdout, 0, any path") {
  Probe probe({.mode = "ok", .ranks = 3, .directory = "mit Leerzeichen und Ümläuten 'und' \"mehr\""});
  probe.end();
  CHECK(probe.code == 0);
  CHECK(probe.out == "result 2\n");
  CHECK(probe.err.empty());
  Probe alone({.mode = "ok", .ranks = 1});
  CHECK_END(alone, 0, "");
  CHECK(alone.out == "result 0\n");
}

TEST_CASE("shared memory of another job is no remnant of this one") {
  std::string name = "/dev/shm/motley-test-XXXXXX";
  Probe probe({.mode = "ok", .ranks = 2});
  const int file = mkostemp(name.data(), O_CLOEXEC);
  REQUIRE(file >= 0);
  probe.end();
  CHECK(probe.code == 0);
  close(file);
  std::set<std::string> before = shared_memory();
  before.erase(name);
  CHECK(left_in_shared_memory(before) == std::set<std::string>{name});
  fs::remove(name);
}

TEST_CASE("each rank has its device's environment") {
  Probe probe({.mode = "environment",
               .ranks = 3,
               .environment = {"ONEDNN_MAX_CPU_ISA", "MOTLEY_CORES=77", "PMI_RANK=1", "PMI_SIZE=7", "PMI_FD=77"}});
  CHECK_END(probe, 0, "");
  CHECK_THAT(probe.out, Contains("threads 2, cores ") &&
                            Contains("isa -, rank 0 cpu\nthreads 1, cores 0, bound 0, isa AVX2, rank 1 cpu\nthreads 1, cores "));
}

TEST_CASE("a rank dies") {
  for (const char* mode : {"kill9", "segv", "exit0"}) {
    INFO(mode);
    Probe probe({.mode = mode});
    CHECK_END(probe, 86, "motley: rank 1 (\"old cpu 1\", pid ");
    CHECK_THAT(probe.err, Contains(") died in phase 'conv2d_2 backward'\n"));
    CHECK(probe.seconds < kSoon);
  }
}

TEST_CASE("a rank that ends before its process is seen is named") {
  const testing::Directory folder;
  const fs::path program = folder.path / "program";
  std::ofstream(program) << "#!/bin/sh\n[ \"$PMI_RANK\" = 1 ] && exit 1\nexec " << LAUNCH_PROBE << " \"$@\"\n";
  fs::permissions(program, fs::perms::owner_all);
  Probe probe({.mode = "train", .environment = {"PROGRAM=" + program.string()}});
  CHECK_END(probe, 86, "motley: rank 1 (\"old cpu 1\") died during startup\n");
  CHECK(probe.seconds < kSoon);
}

TEST_CASE("a rank that a signal ends as it starts is among those that are named, or none is") {
  const testing::Directory folder;
  const fs::path program = folder.path / "program";
  std::ofstream(program) << "#!/bin/sh\n[ \"$PMI_RANK\" = 1 ] && kill -9 $$\nexec " << LAUNCH_PROBE << " \"$@\"\n";
  fs::permissions(program, fs::perms::owner_all);
  for (int i = 0; i < 5; i++) {
    Probe probe({.mode = "train", .environment = {"PROGRAM=" + program.string()}});
    probe.end();
    INFO("exit " << probe.code << "\n" << probe.err);
    const bool named = probe.err.find("rank 1 (\"old cpu 1\") died during startup") != std::string::npos;
    const bool unseen =
        probe.err.find("motley: a rank died during startup, before it could be identified: Killed (signal 9)\n") == 0;
    const bool mpiexec_fell = probe.err.find("motley: mpiexec ended with status 255 before any rank had started") == 0;
    const bool other = probe.err.find(" died during startup\n") != std::string::npos;  // mpiexec ended it before rank 1 was known
    CHECK((mpiexec_fell || (probe.code == 86 && (named || unseen || other))));
    CHECK(probe.seconds < kSoon);
  }
}

TEST_CASE("a rank throws: its sentence once, its code") {
  Probe probe({.mode = "throw"});
  CHECK_END(probe, 70, "");
  CHECK(probe.err == "[rank 1 cpu] the loss is not finite in step 6\n");
  Probe other({.mode = "throw_other"});
  CHECK_END(other, 70, "");
  CHECK(other.err == "[rank 1 cpu] unexpected: vector::at\n");
  Probe unfinished({.mode = "unfinished"});
  CHECK_END(unfinished, 70, "the body ended with an unfinished message");
}

TEST_CASE("all ranks throw: one sentence, and what stdout has stays") {
  Probe probe({.mode = "refuse"});
  CHECK_END(probe, 78, "");
  CHECK(probe.err == "[rank 0 cpu] a bad config\n");
  Probe agreed({.mode = "agreed_error"});
  CHECK_END(agreed, 65, "");
  CHECK(agreed.err == "[rank 1] a bad sample\n");
  Probe result({.mode = "result_and_error"});
  CHECK_END(result, 70, "");
  CHECK(result.out == "{\"ok\": false}\n");
  CHECK(result.err == "[rank 0 cpu] a difference was found\n");
}

TEST_CASE("ranks hang") {
  Probe one({.mode = "stop_one", .environment = kShort});
  CHECK_END(one, 86, ") hung in phase 'conv2d_2 backward': no heartbeat for ");
  CHECK_THAT(one.err, Contains("motley: rank 1 (\"old cpu 1\""));
  Probe all({.mode = "stop_all", .environment = kShort});
  CHECK_END(all, 86, ") hung in phase 'ready': no heartbeat for ");
  Probe deadlock({.mode = "deadlock", .environment = kShort});
  CHECK_END(deadlock, 86,
            "motley: every rank waits and no data has moved for 2 s: rank 0 waits for rank 1 in \"all_gather dense_5.weight\"; "
            "rank 1 waits for rank 2 in");
  CHECK(one.seconds < kSoon);
  CHECK(all.seconds < kSoon);
  CHECK(deadlock.seconds < kSoon);
}

TEST_CASE("MPI_Finalize does not come back: the run ends with the code that all had agreed on") {
  const std::vector<std::string> own{MPIEXEC, "-n", "3"};
  for (const std::vector<std::string>& before : {std::vector<std::string>{}, own}) {
    Probe good({.mode = "hang_at_the_end", .environment = kShort, .before = before});
    good.end();
    INFO("code " << good.code);
    // A user's own mpiexec may end the others when the first one leaves, and about once in nine runs reports 1 for a rank that left
    // MPI by the code 0.
    CHECK((good.code == 0 || (!before.empty() && (good.code == SIGKILL || good.code == 1))));
    CHECK_THAT(good.err, Contains("has not returned; the run was over, this rank exits with the agreed exit code 0"));
    CHECK(good.out.starts_with("result\n"));
    Probe bad({.mode = "refuse_and_hang_at_the_end", .environment = kShort, .before = before});
    bad.end();
    CHECK((bad.code == 78 || !before.empty()));  // mpiexec reports one of the codes that its ranks have and ended them with
    CHECK(bad.code != 0);
    CHECK_THAT(bad.err, Contains("a bad config") && Contains("agreed exit code 78"));
  }
}

TEST_CASE("a rank dies in MPI_Finalize: the run ends with the code that all had agreed on") {
  Probe good({.mode = "die_at_the_end"}), bad({.mode = "refuse_and_die_at_the_end"});
  CHECK_END(good, 0, "");
  CHECK(good.out == "result\n");
  CHECK_END(bad, 78, "a bad config");
}

TEST_CASE("under a user's mpiexec: records of heartbeats where TMPDIR cannot be used") {
  Probe probe({.mode = "ok", .environment = {"TMPDIR=/proc/none"}, .before = {MPIEXEC, "-n", "3"}});
  CHECK_END(probe, 0, "");
  CHECK_THAT(probe.err, !Contains("heartbeat"));
}

TEST_CASE("a slow rank is reported, not ended") {
  Probe probe({.mode = "slow", .ranks = 2, .environment = {"MOTLEY_HUNG_SECONDS=1"}});
  CHECK_END(probe, 0, "motley: rank 0 waits for rank 1 in \"gather_all\" since 1 s: rank 1 (\"old cpu 1\", pid ");
  CHECK(probe.out == "done\n");
}

TEST_CASE("a signal stops the run in order, a second one at once") {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
    Probe probe({.mode = "train"});
    probe.in_phase("train", 3);
    probe.send(signal);
    CHECK_END(probe, 75, "[rank 0 cpu] stopped on request after step ");
  }
  Probe twice({.mode = "deadlock"});
  twice.in_phase("ready", 3);
  twice.send(SIGTERM);
  pause_ms(300);
  const double second = seconds_now();
  twice.send(SIGTERM);
  CHECK_END(twice, 75, "motley: stopped on request\n");
  CHECK(seconds_now() - second < 2);
}

TEST_CASE("a signal at any time of the first second") {
  std::mt19937 random(7);
  for (int i = 0; i < 10; i++) {
    const int after = static_cast<int>(random() % 700);
    INFO("after " << after << " ms");
    Probe probe({.mode = "train"});
    pause_ms(after);
    probe.send(i % 2 == 0 ? SIGTERM : SIGINT);
    probe.end();
    // Before the program has come to its handlers the signal ends it, as it ends any program.
    CHECK((probe.code == 75 || (after < 30 && probe.code > 128)));
    CHECK(probe.seconds < kSoon);
  }
}

TEST_CASE("the launcher is killed: no rank is left") {
  Probe probe({.mode = "train"});
  probe.in_phase("train", 3);
  probe.send(SIGKILL);
  for (const double until = seconds_now() + 5; seconds_now() < until && !probe.processes().empty();) pause_ms(10);
  fs::remove_all(probe.directory() / ".ranks");  // the next launch in this directory would
  probe.end();
  CHECK(probe.code == 128 + SIGKILL);
}

TEST_CASE("the launcher is killed: a rank that does not heed the end exits by itself") {
  Probe probe({.mode = "deaf", .environment = {"MOTLEY_ORPHAN_SECONDS=1"}});
  const auto ranks = probe.in_phase("train", 3);
  probe.send(SIGKILL);
  for (const double until = seconds_now() + 30; seconds_now() < until && !probe.processes().empty();) pause_ms(10);
  CHECK(probe.processes().empty());
  int left_by_themselves = 0;  // when the first has, mpiexec's helper ends the others
  for (std::size_t r = 0; r < ranks.size(); r++)
    left_by_themselves += RecordReader(record_path(probe.directory() / ".ranks", static_cast<int>(r))).read()->code == 86;
  CHECK(left_by_themselves >= 1);
  fs::remove_all(probe.directory() / ".ranks");
  probe.end();
  CHECK(probe.code == 128 + SIGKILL);
}

TEST_CASE("mpiexec is killed") {
  Probe probe({.mode = "train"});
  const auto ranks = probe.in_phase("train", 3);
  const std::vector<pid_t> all = probe.processes();
  const auto mpiexec = std::min_element(all.begin(), all.end());  // the oldest
  REQUIRE(kill(*mpiexec, SIGKILL) == 0);
  CHECK_END(probe, 86, "motley: mpiexec was ended by signal 9\n");
  CHECK(probe.seconds < kSoon);
}

TEST_CASE("an mpiexec that stays after all ranks have ended well is killed: the run ends as they did") {
  const testing::Directory folder;
  const fs::path stays = folder.path / "mpiexec.mpich";
  std::ofstream(stays) << "#!/bin/sh\n" << MPIEXEC << " \"$@\"\nexec sleep 1000\n";
  fs::permissions(stays, fs::perms::owner_all);
  const char* path = std::getenv("PATH");
  Probe probe({.mode = "ok", .ranks = 2, .environment = {"PATH=" + folder.path.string() + ":" + (path == nullptr ? "" : path)}});
  CHECK_END(probe, 0, "motley: mpiexec was still running after all ranks had exited, and was killed\n");
  CHECK(probe.out == "result 1\n");
  CHECK(probe.seconds < kSoon);
}

TEST_CASE("a rank is killed while the ranks start") {
  std::mt19937 random(11);
  for (int i = 0; i < 8; i++) {
    Probe probe({.mode = "deadlock"});
    const double until = seconds_now() + 10;
    std::optional<Record> record;
    while (!(record = RecordReader(record_path(probe.directory() / ".ranks", 1)).read()) && seconds_now() < until) pause_ms(1);
    pause_ms(static_cast<int>(random() % 40));
    REQUIRE(record);
    REQUIRE(kill(record->pid, SIGKILL) == 0);
    // Before MPI has started mpiexec may end all of them before they can be examined: then all are named, or those that were known.
    probe.end();
    INFO(probe.err);
    CHECK(probe.code == 86);
    if (probe.err.find(" died during startup") == std::string::npos) {
      CHECK_THAT(probe.err, Contains("rank 1 (\"old cpu 1\", pid "));
      CHECK_THAT(probe.err, Contains(" died in phase "));
    }
    CHECK(probe.seconds < kSoon);
  }
}

TEST_CASE("what a scheduler left in the environment is harmless") {
  Probe probe({.mode = "ok",
               .ranks = 2,
               .environment = {"SLURM_JOB_ID=4711", "SLURM_JOBID=4711", "SLURM_NTASKS=2", "SLURM_NODELIST=nowhere",
                               "SLURM_STEP_NUM_TASKS=1"}});
  CHECK_END(probe, 0, "");
  CHECK(probe.out == "result 1\n");
}

TEST_CASE("what is missing or does not fit is said before a rank starts") {
  Probe nothing({.mode = "ok", .environment = {"PATH=/nowhere"}});
  CHECK_END(nothing, 69, "motley: mpiexec, which starts the ranks, was not found; install it: apt-get install mpich\n");
  Probe limit({.mode = "ok", .environment = {"MOTLEY_HUNG_SECONDS=soon"}});
  CHECK_END(limit, 78, "motley: MOTLEY_HUNG_SECONDS=soon in the environment: expected a number of seconds above 0");
  Probe tasks({.mode = "ok", .environment = {"SLURM_STEP_NUM_TASKS=3", "SLURM_PROCID=0"}});
  CHECK_END(tasks, 78, "srun started 3 tasks without PMI");
}

TEST_CASE("under the user's own mpiexec") {
  const std::vector<std::string> two{MPIEXEC, "-n", "2"};
  Probe good({.mode = "ok", .ranks = 2, .before = two});
  CHECK_END(good, 0, "");
  CHECK(good.out == "result 1\n");
  Probe wrong({.mode = "ok", .ranks = 3, .before = two});
  CHECK_END(wrong, 78, "motley: started on 2 ranks, but the mesh has 3 devices");
  Probe refuse({.mode = "refuse", .ranks = 2, .before = two});
  CHECK_END(refuse, 78, "[rank 0] a bad config\n");
  Probe fails({.mode = "throw", .ranks = 2, .before = two});
  CHECK_END(fails, 70, "[rank 1] the loss is not finite in step 6\n");
  Probe exits({.mode = "exits", .ranks = 2, .before = two});
  CHECK_END(exits, 70, "motley: exit() was called in the body of run()");
  Probe again({.mode = "ok", .ranks = 2, .environment = {"AGAIN=1"}, .before = two});
  again.end();
  CHECK(again.code == 78);
  CHECK_THAT(again.err, Contains("motley: run() was called again in this process"));
  // Both ranks leave by 86; mpiexec, which ends the others when it sees the first, at times reports its own signal to the second
  // (1).
  Probe deadlock({.mode = "deadlock", .ranks = 2, .environment = kShort, .before = two});
  deadlock.end();
  CHECK(deadlock.code != 0);
  CHECK_THAT(deadlock.err, Contains("motley: every rank waits and no data has moved for 2 s: rank 0 waits for rank 1 in"));
  Probe dies({.mode = "kill9", .ranks = 2, .before = two});
  dies.end();
  CHECK(dies.code != 0);
  Probe stopped({.mode = "stop_one", .ranks = 2, .environment = kShort, .before = two});
  stopped.end();
  CHECK(stopped.code != 0);
  CHECK_THAT(stopped.err, Contains(") hung in phase 'conv2d_2 backward'"));
}

TEST_CASE("mpiexec's banner is no result") {
  const std::string rule(83, '=');
  const std::string banner =
      "\n" + rule + "\n=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   PID 12 RUNNING AT a\n=   EXIT CODE: 9\n" +
      rule +
      "\nYOUR APPLICATION TERMINATED WITH THE EXIT STRING: Killed (signal 9)\nThis typically refers to a problem with your "
      "application.\n"
      "Please see the FAQ page for debugging suggestions\n";
  const std::string result = "a\n\n" + rule + "\nb\n\n\nThis typically refers to a problem\n";
  for (std::size_t piece : {std::size_t{1}, std::size_t{7}, std::size_t{10'000}}) {
    const std::string all = result + banner + "c\n" + banner.substr(banner.find("YOUR APPLICATION TERM")) + "the last line";
    BannerFilter filter;
    std::string got;
    for (std::size_t at = 0; at < all.size(); at += piece) got += filter.pass(std::string_view(all).substr(at, piece));
    CHECK(got + filter.rest() == result + "c\nthe last line");
    CHECK(filter.signal() == "Killed (signal 9)");
  }
}

TEST_CASE("cores are distributed in turn") {
  const auto deal = [](std::vector<Device> devices) { return deal_cores(devices, {0, 1, 2, 3}); };
  using Cores = std::vector<std::vector<int>>;
  CHECK(deal({{.threads = 2}, {.threads = 2}}) == Cores{{0, 1}, {2, 3}});
  CHECK(deal({{}, {.cores = {0, 1}}, {}, {}}) == Cores{{2}, {0, 1}, {3}, {2}});
  CHECK(deal({{.threads = 9}, {}}) == Cores{{0, 1, 2, 3}, {0}});
  CHECK(deal({{.cores = {0, 1, 2, 3}}, {}}) == Cores{{0, 1, 2, 3}, {0}});
  CHECK(deal({{.host = "far"}, {.kind = DeviceKind::emulated, .of = std::make_shared<Device>(Device{.threads = 2})}}) ==
        Cores{{}, {0, 1}});
}

TEST_CASE("a result is shown after what stderr had before it") {
  ResultOrder order;
  const std::string mark(1, kResultMark);
  CHECK(order.output("no result\n") == "no result\n");
  CHECK(order.output("a" + mark + "table") == "a");
  CHECK(order.output("\nmore").empty());
  CHECK(order.errors("step 1\n" + mark + "step 2") == "step 1\nstep 2");
  CHECK(order.output("") == "table\nmore");
  CHECK(order.errors(mark + mark).empty());
  CHECK(order.output(mark + "b" + mark + "c" + mark + "d") == "bc");
  CHECK(order.rest() == "d");
  CHECK(order.rest().empty());
  const std::string longest(std::size_t{1} << 24, 'x');
  CHECK(order.output(mark + longest) == longest);  // the byte was not a mark
}

TEST_CASE("what mpiexec says about itself is left out of stderr") {
  NoiseFilter filter;
  CHECK(filter.pass("\rstep 1\rstep 2") == "\rstep 1\rstep 2");  // at once
  CHECK(filter.pass("\n[rank 1 cpu] bad\n[") == "\n[rank 1 cpu] bad\n");
  CHECK(filter.pass("mpiexec@a] main\n[pro").empty());
  CHECK(filter.pass("xy]\n[proxy:0:0@a] write\nb") == "[proxy]\nb");
  CHECK(filter.pass("\n[m") == "\n");
  CHECK(filter.rest() == "[m");
  CHECK(filter.noise() == "[mpiexec@a] main\n[proxy:0:0@a] write\n");
}
