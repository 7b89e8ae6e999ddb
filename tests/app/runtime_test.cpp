// SPDX-License-Identifier: Apache-2.0
// Ranks as threads, records, and the rules of the watch (by hand-made records: a poll is a beat, no time passes).
#include <motley/runtime.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <thread>

#include "run/shared_space.h"
#include "run/start.h"
#include "run/watch.h"
#include "tests/support/directory.h"
#include "tests/support/few_threads.h"

using namespace motley;
using Catch::Matchers::Contains;
using motley::testing::Directory;

namespace {

// Three ranks' records, written from here.
struct Trio {
  Directory directory;
  RecordWriter zero{directory.path, 0, "fast"}, one{directory.path, 1, "old"}, two{directory.path, 2, "älter"};
  void all(void (RecordWriter::*call)()) {
    for (RecordWriter* r : {&zero, &one, &two}) (r->*call)();
  }
};

}  // namespace

TEST_CASE("ranks as threads") {
  std::atomic<int> sum{0};
  run_ranks_in_memory(4, [&](Runtime& rt) {
    sum += rt.rank() + 10 * rt.ranks();
    CHECK(!rt.stop_requested());
    rt.phase("no observer");
    CHECK(agree(rt.transport(), rt.rank()).status == 3);
  });
  CHECK(sum == 166);
}

TEST_CASE("ranks as threads: the first error is thrown, and ends the others") {
  auto body = [](Runtime& rt) {
    if (rt.rank() == 2) throw UserError("rank 2 does not want");
    static_cast<void>(rt.transport().gather_all({}));
  };
  CHECK_THROWS_WITH(run_ranks_in_memory(3, body), "rank 2 does not want");
  CHECK_THROWS_AS(run_ranks_in_memory(3, body), UserError);
  CHECK_THROWS_WITH(run_ranks_in_memory(2, {}), "there is no body to run");
  CHECK_THROWS_AS(run_ranks_in_memory(2, [](Runtime&) { throw std::out_of_range("at"); }), std::out_of_range);
}

TEST_CASE("ranks as threads: one that cannot be started ends the others") {
  std::atomic<int> ended{0};
  const testing::FewThreads threads(3);
  CHECK_THROWS_MATCHES(run_ranks_in_memory(5,
                                           [&](Runtime& rt) {
                                             try {
                                               static_cast<void>(rt.transport().gather_all({}));
                                             } catch (const Error&) {
                                               ended++;
                                               throw;
                                             }
                                           }),
                       DeviceError, Catch::Message("rank 3 has no thread to run on: Resource temporarily unavailable"));
  CHECK(ended == 3);
}

TEST_CASE("ranks as threads: MOTLEY_HUNG_SECONDS ends their waits") {
  const double usual = deadline_seconds();
  const auto with = [](const char* seconds) {
    setenv("MOTLEY_HUNG_SECONDS", seconds, 1);
    set_deadline_seconds(0);
    run_ranks_in_memory(2, [](Runtime& rt) {
      if (rt.rank() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(500));
      static_cast<void>(rt.transport().gather_all({}));
    });
  };
  CHECK_NOTHROW(with("20"));
  CHECK_THROWS_WITH(with("0.2"), Contains("for rank 0 in") && Contains("set MOTLEY_HUNG_SECONDS above that time"));
  CHECK_THROWS_WITH(with("soon"), "MOTLEY_HUNG_SECONDS=soon in the environment: expected a number of seconds above 0");
  CHECK_THROWS_AS(with("0"), UserError);
  unsetenv("MOTLEY_HUNG_SECONDS");
  set_deadline_seconds(0);
  CHECK(deadline_seconds() == 30);
  set_deadline_seconds(usual);
}

TEST_CASE("SIGUSR1 stops a rank that srun has started, and no rank under mpiexec") {
  for (const bool hydra : {false, true}) {
    const pid_t child = fork();
    if (child == 0) {
      setenv("SLURM_STEP_ID", "0", 1);
      if (hydra) setenv("HYDI_CONTROL_FD", "7", 1);
      _exit(run(0, nullptr, [](Runtime& rt) {
        raise(SIGUSR1);
        if (rt.stop_requested()) throw Error(Exit::stopped, "stopped");
      }));
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(WEXITSTATUS(status) == (hydra ? 0 : 75));
  }
}

TEST_CASE("a mesh of another number of ranks is refused") {
  const Mesh mesh({{"all", 2}}, {{}, {}});
  run_ranks_in_memory(1, [&](Runtime& rt) {
    CHECK_THROWS_WITH(rt.backend(mesh), "the mesh has 2 devices, but 1 rank runs; start one rank per device: mpiexec -n 2");
  });
}

TEST_CASE("a Runtime has one device: a mesh with another one is refused") {
  run_ranks_in_memory(1, [&](Runtime& rt) {
    Device device;
    device.name = "first";
    Backend& first = rt.backend(Mesh({{"all", 1}}, {device}));
    device.name = "renamed";
    device.memory_bytes = 1 << 30;
    CHECK(&rt.backend(Mesh({{"all", 1}}, {device})) == &first);
    device.isa = "generic";
    CHECK_THROWS_WITH(rt.backend(Mesh({{"all", 1}}, {device})),
                      Catch::Contains("has opened the device \"first\" of another mesh, which differs from \"renamed\""));
  });
}

TEST_CASE("a record is what its rank wrote") {
  Trio trio;
  RecordReader reader(record_path(trio.directory.path, 2));
  trio.two.ready();
  trio.two.phase("train");
  trio.two.waiting("halo conv2d_1", 0);
  trio.two.beat();
  auto record = reader.read();
  REQUIRE(record);
  CHECK(record->ready == 1);
  CHECK(record->code == -1);
  CHECK(record->waiting == 1);
  CHECK(record->waits_for == 0);
  CHECK(std::string(record->what) == "halo conv2d_1");
  CHECK_THAT(who(*record), Contains("rank 2 (\"älter\", pid "));
  trio.two.done(4096);
  trio.two.phase(std::string(94, 'x') + "äöü");  // cut between characters
  trio.two.ended(70, "first");
  trio.two.gave_up(86, "second");
  record = reader.read();
  CHECK(record->exchange == 1);
  CHECK(record->bytes == 4096);
  CHECK(std::string(record->phase) == std::string(94, 'x'));
  CHECK(record->code == 70);
  CHECK(std::string(record->reason) == "first");
  CHECK(record->gave_up == 0);
  CHECK(!RecordReader(record_path(trio.directory.path, 3)).read());
  CHECK_THROWS_AS(RecordWriter(trio.directory.path, 2, ""), Error);  // there is one already
  CHECK_THROWS_AS(RecordWriter(trio.directory.path / "none", 0, ""), Error);
}

TEST_CASE("the watch: silence, a late start, deadlock, slowness") {
  Trio trio;
  Watch watch(trio.directory.path, 3, {.hung_seconds = 2, .start_seconds = 4});
  auto poll = [&](int times) {
    std::optional<Hung> hung;
    for (int i = 0; i < times && !hung; i++) hung = watch.beat();
    return hung;
  };
  SECTION("a late start") {
    trio.zero.ready();
    for (int i = 0; i < 15; i++) {
      trio.all(&RecordWriter::beat);
      REQUIRE(!watch.beat());
    }
    trio.all(&RecordWriter::beat);
    const auto hung = watch.beat();
    REQUIRE(hung);
    CHECK_THAT(hung->text, Contains("not ready 4 s after the start: rank 1 (\"old\"") && Contains(", rank 2 ("));
  }
  SECTION("silence") {
    trio.all(&RecordWriter::ready);
    CHECK(watch.all_ready() == false);  // not polled yet
    for (int i = 0; i < 30; i++) {
      for (RecordWriter* r : {&trio.zero, &trio.one, &trio.two})
        if (r != &trio.one || i < 10) r->beat();
      const auto hung = watch.beat();
      REQUIRE(hung.has_value() == (i >= 17));
      if (hung) {
        CHECK(hung->rank == 1);
        CHECK_THAT(hung->text, Contains("rank 1 (\"old\"") && Contains("hung in phase 'ready': no heartbeat for 2 s"));
        break;
      }
    }
    CHECK(watch.all_ready());
  }
  SECTION("an ended rank may be silent") {
    trio.all(&RecordWriter::ready);
    for (RecordWriter* r : {&trio.zero, &trio.one, &trio.two}) r->ended(0, "");
    CHECK(!poll(50));
  }
  SECTION("all wait") {
    trio.all(&RecordWriter::ready);
    trio.zero.waiting("x", 1);
    trio.one.waiting("y", -1);
    for (int i = 0; i < 20; i++) {  // rank 2 computes
      trio.all(&RecordWriter::beat);
      REQUIRE(!watch.beat());
    }
    const auto slow = watch.slow();
    CHECK(!slow);  // it waits for rank 1, which waits itself
    trio.two.waiting("z", 0);
    std::optional<Hung> hung;
    for (int i = 0; i < 9; i++) {
      trio.all(&RecordWriter::beat);
      if (i == 4) trio.one.done(10);  // something moved after all
      if (i == 5) trio.one.waiting("y again", -1);
      REQUIRE(!watch.beat());
    }
    for (int i = 0; i < 8 && !hung; i++) {
      trio.all(&RecordWriter::beat);
      hung = watch.beat();
    }
    REQUIRE(hung);
    CHECK(hung->text ==
          "every rank waits and no data has moved for 2 s: rank 0 waits for rank 1 in \"x\"; rank 1 waits for the other ranks in "
          "\"y again\"; "
          "rank 2 waits for rank 0 in \"z\"");
  }
  SECTION("slow") {
    trio.all(&RecordWriter::ready);
    trio.one.phase("conv2d_3");
    trio.zero.waiting("x", 1);
    int reports = 0;
    for (int i = 0; i < 30; i++) {
      trio.all(&RecordWriter::beat);
      REQUIRE(!watch.beat());
      if (const auto text = watch.slow()) {
        reports++;
        CHECK_THAT(*text, Contains("rank 0 waits for rank 1 in \"x\" since 2 s: rank 1 (\"old\"") &&
                              Contains("computes in phase 'conv2d_3'"));
      }
    }
    CHECK(reports == 1);
  }
}

TEST_CASE("cores as text") {
  CHECK(parse_cores("0,2,13") == std::vector<int>{0, 2, 13});
  CHECK(to_text({0, 2, 13}) == "0,2,13");
  for (const char* bad : {"", "a", "1,", ",1", "-1", "1 2", "99999999999"}) CHECK_THROWS_AS(parse_cores(bad), UserError);
  CHECK_THROWS_WITH(bind_to_cores({1000}), Contains("cannot run on core 1000: "));
}

TEST_CASE("whether the ranks of a host have the shared memory with which MPI starts") {
  const double mib = 1 << 20;
  const auto space = [&](double total, double free) { return SharedSpace{.total_bytes = total * mib, .free_bytes = free * mib}; };
  CHECK(shared_space_fault(space(64, 10), 2).empty());
  CHECK(shared_space_fault(space(64, 9), 2) ==
        "/dev/shm has 67.1 MB, 9.4 MB free, 2 ranks need 10.5 MB; enlarge it (mount -o remount,size=64m /dev/shm, or docker run "
        "--shm-size=64m)");
  CHECK(shared_space_fault(space(64, 9), 2, 1).empty());  // the other one may have taken its share already
  CHECK_FALSE(shared_space_fault(space(64, 4), 2, 1).empty());
  CHECK_FALSE(shared_space_fault(space(8, 8), 2, 1).empty());
  SharedSpace few = space(64, 64);
  few.total_files = 20;
  few.free_files = 5;
  CHECK_THAT(shared_space_fault(few, 2),
             Contains("/dev/shm has room for 5 more files, 2 ranks need 8; ") && Contains("nr_inodes="));
  CHECK(shared_space_fault(few, 2, 1).empty());
  CHECK_THAT(shared_space_fault(shared_space("/proc/no such folder"), 2),
             Contains("/dev/shm: No such file or directory; ") && Contains("mount a tmpfs there"));
  CHECK(shared_space("/dev/shm").error.empty());
}
