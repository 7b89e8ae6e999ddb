// SPDX-License-Identifier: Apache-2.0
// Who watches whom, by hand-made records: a poll is a beat, no time passes. Links between hosts go over loopback.
#include "run/host_watch.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <motley/error.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <future>
#include <thread>

#include "run/heartbeat.h"
#include "run/meet_hosts.h"
#include "tests/support/directory.h"

using namespace motley;
using Catch::Matchers::Contains;
using motley::testing::Directory;

namespace {

constexpr std::uint64_t kToken = 0x1234567890abcdef;
constexpr double kPatience = 20;  // of waits that end at once where all is well

// The ranks of a job, all of this process.
struct Ranks {
  explicit Ranks(int count) {
    for (int r = 0; r < count; r++) all.push_back(std::make_unique<RecordWriter>(directory.path, r, "device " + std::to_string(r)));
    for (auto& one : all) one->ready();
  }
  WatchedRank near(int rank) const { return {rank, RecordPlace{record_path(directory.path, rank)}}; }
  // The ranks from `from` on, so many, turned so that the one after `me` comes first.
  std::vector<WatchedRank> ring(int from, int count, int me) const {
    std::vector<WatchedRank> out;
    for (int i = 1; i < count; i++) out.push_back(near(from + (me - from + i) % count));
    return out;
  }
  void beat() {
    for (auto& one : all) one->beat();
  }
  Directory directory;
  std::vector<std::unique_ptr<RecordWriter>> all{};
};

// Both ends of a link over loopback.
std::pair<HostLink, HostLink> linked() {
  HostListener listener;
  const auto addresses = listener.addresses();
  REQUIRE(!addresses.empty());
  auto other = std::async(std::launch::async, [&] { return reach(addresses, 1, kToken, kPatience); });
  auto here = listener.accept(2, kToken, kPatience);
  HostLink there = other.get();
  REQUIRE((here[1].open() && there.open() && !here[0].open()));
  return {std::move(here[1]), std::move(there)};
}

// What has come, once something has.
std::vector<Record> heard(HostLink& link) {
  std::vector<Record> out;
  for (int i = 0; i < 2000 && out.empty() && link.open(); i++) {
    pollfd file{link.fd(), POLLIN, 0};
    static_cast<void>(::poll(&file, 1, 10));
    out = link.receive();
  }
  return out;
}

// Blocks in the first write after `slow` was set until it is unset.
struct SlowFile : RecordWriter {
  using RecordWriter::RecordWriter;
  bool write(const Record& record) override {
    std::unique_lock lock(mutex);
    if (slow) {
      in_write = true;
      changed.notify_all();
      changed.wait(lock, [this] { return !slow; });
    }
    return RecordWriter::write(record);
  }
  std::mutex mutex;
  std::condition_variable changed;
  bool slow = false, in_write = false;
};

}  // namespace

TEST_CASE("a slow file holds up the heartbeat alone; what changed meanwhile is written after it") {
  const Directory directory;
  SlowFile record(directory.path, 0, "");
  record.slow = true;
  auto beat = std::async(std::launch::async, [&] { record.beat(); });
  {
    std::unique_lock lock(record.mutex);
    record.changed.wait(lock, [&] { return record.in_write; });
  }
  auto step = std::async(std::launch::async, [&] {
    record.waiting("halo conv2d_1", 1);
    record.done(100);
    record.phase("step 7");
  });
  const bool goes_on = step.wait_for(std::chrono::seconds(20)) == std::future_status::ready;
  {
    const std::lock_guard lock(record.mutex);
    record.slow = false;
  }
  record.changed.notify_all();
  beat.get();
  step.get();
  CHECK(goes_on);
  const auto now = RecordReader(record_path(directory.path, 0)).read();
  REQUIRE(now);
  CHECK(std::string(now->phase) == "step 7");
  CHECK(now->bytes == 100);
  CHECK(now->beat == 1);
}

TEST_CASE("a record that is not whole is not used") {
  const Directory directory;
  RecordWriter record(directory.path, 0, "device");
  const std::filesystem::path file = record_path(directory.path, 0);
  REQUIRE(RecordReader(file).read());
  for (const std::size_t place : {offsetof(Record, beat), offsetof(Record, reason), sizeof(Record) - 1}) {
    const int fd = open(file.c_str(), O_WRONLY | O_CLOEXEC);
    REQUIRE(pwrite(fd, "x", 1, static_cast<off_t>(place)) == 1);
    close(fd);
    CHECK(!RecordReader(file).read());
    record.beat();
    CHECK(RecordReader(file).read());
  }
}

TEST_CASE("records in one file of a host, whose name may go") {
  const Directory directory;
  const std::filesystem::path file = directory.path / "records";
  RecordWriter zero({file, 0}, 4, ""), one({file, sizeof(Record)}, 6, "");
  CHECK_THROWS_AS(RecordWriter({file, 0}, 4, ""), Error);
  RecordReader reader({file, sizeof(Record)});
  CHECK(reader.read()->rank == 6);
  std::filesystem::remove(file);
  one.phase("later");
  CHECK(std::string(reader.read()->phase) == "later");
}

TEST_CASE("reads per beat grow with the ranks, not with their square") {
  constexpr int kRanks = 16;
  for (const int per_host : {16, 4, 1}) {
    Ranks ranks(kRanks);
    std::vector<HostWatch> all;
    for (int r = 0; r < kRanks; r++) {
      const int first = r / per_host * per_host;
      std::unique_ptr<Watch> watch;
      if (r == first) {
        std::vector<WatchedRank> own = ranks.ring(first, per_host, r);
        own.push_back(ranks.near(r));
        watch = std::make_unique<Watch>(std::move(own), kRanks, Limits{});
      }
      all.emplace_back(HostWatch::Options{.rank = r}, Successor(ranks.ring(first, per_host, r), Limits{}), std::move(watch),
                       std::vector<FarHost>{});
    }
    std::uint64_t before = 0, after = 0;
    for (HostWatch& one : all) before += one.reads();
    for (int beat = 0; beat < 10; beat++) {
      ranks.beat();
      for (HostWatch& one : all) REQUIRE(!one.beat());
    }
    for (HostWatch& one : all) after += one.reads();
    CHECK(after - before == static_cast<std::uint64_t>(10 * (kRanks + (per_host > 1 ? kRanks : 0))));
  }
}

TEST_CASE("a successor: the next rank that runs") {
  Ranks ranks(4);
  Successor next(ranks.ring(0, 4, 1), {.hung_seconds = 1, .end_seconds = 1});
  auto polls = [&](int times, int silent) {
    std::optional<Hung> hung;
    for (int i = 0; i < times && !hung; i++) {
      for (int r = 0; r < 4; r++)
        if (r != silent) ranks.all[static_cast<std::size_t>(r)]->beat();
      hung = next.beat();
    }
    return hung;
  };
  CHECK(!polls(20, 3));  // rank 3 is rank 2's affair
  ranks.all[2]->ended(0, "");
  const auto hung = polls(20, 3);
  REQUIRE(hung);
  CHECK(hung->rank == 3);
  CHECK_THAT(hung->text, Contains("rank 3 (\"device 3\"") && Contains("hung in phase 'ready': no heartbeat for 1 s"));
  CHECK(!next.quiet());
  ranks.all[3]->ended(0, "");
  CHECK(!polls(3, -1));
  ranks.all[0]->ended(86, "rank 2 hung", 2);
  const auto known = polls(1, -1);
  REQUIRE(known);
  CHECK(known->known);
  CHECK(known->rank == 2);
  CHECK(known->text == "rank 2 hung");
  CHECK(!Successor({}, {}).beat());
}

TEST_CASE("a process that ends: named where it left no code") {
  for (const bool in_order : {false, true}) {
    const Directory directory;
    int ready[2];
    REQUIRE(pipe(ready) == 0);
    const pid_t child = fork();
    if (child == 0) {
      RecordWriter record(directory.path, 1, "old");
      record.phase("conv2d_2 backward");
      if (in_order) record.ended(70, "its own sentence");
      if (::write(ready[1], "x", 1) != 1) _exit(1);
      pause();
    }
    char byte = 0;
    REQUIRE(::read(ready[0], &byte, 1) == 1);
    std::vector<WatchedRank> ring{{1, RecordPlace{record_path(directory.path, 1)}}};
    Successor next(ring, {});
    REQUIRE(!next.beat());
    REQUIRE((next.process() >= 0) == !in_order);
    REQUIRE(kill(child, SIGKILL) == 0);
    if (!in_order) {
      pollfd file{next.process(), POLLIN, 0};
      REQUIRE(::poll(&file, 1, 20000) == 1);
      const auto dead = next.process_ended();
      REQUIRE(dead);
      CHECK_THAT(dead->text,
                 Contains("rank 1 (\"old\", pid " + std::to_string(child)) && Contains("died in phase 'conv2d_2 backward'"));
    }
    CHECK(waitpid(child, nullptr, 0) == child);
    close(ready[0]);
    close(ready[1]);
  }
}

TEST_CASE("a process that ended before it could be watched died, too") {
  const Directory directory;
  const pid_t child = fork();
  if (child == 0) {
    RecordWriter record(directory.path, 1, "old");
    record.phase("conv2d_2 backward");
    _exit(0);
  }
  REQUIRE(waitpid(child, nullptr, 0) == child);
  std::vector<WatchedRank> ring{{1, RecordPlace{record_path(directory.path, 1)}}};
  HostWatch watch({.rank = 0}, Successor(ring, {}), nullptr, {});
  const auto dead = watch.beat();
  REQUIRE(dead);
  CHECK_THAT(dead->text, Contains("rank 1 (\"old\", pid ") && Contains("died in phase 'conv2d_2 backward'"));
  CHECK(!watch.beat());  // reported once
}

TEST_CASE("a link: records arrive whole, texts at their length") {
  auto [here, there] = linked();
  Record record;
  record.rank = 3;
  record.beat = 17;
  record.bytes = std::int64_t{1} << 40;
  std::strcpy(record.phase, "step 12");
  std::strcpy(record.reason, "älter");
  const std::vector<Record> sent{record, {}};
  there.send(1, sent);
  const auto got = heard(here);
  REQUIRE(got.size() == 2);
  CHECK(got[0].rank == 3);
  CHECK(got[0].beat == 17);
  CHECK(got[0].bytes == record.bytes);
  CHECK(std::string(got[0].phase) == "step 12");
  CHECK(std::string(got[0].reason) == "älter");
  there.close();
  CHECK(heard(here).empty());
  CHECK(!here.open());
}

TEST_CASE("a link that is not read: frames are left out, none is cut") {
  auto [here, there] = linked();
  std::vector<Record> many(200);
  for (std::uint64_t i = 1; i <= 2000; i++) {  // 200 x 100 bytes each: more than a connection takes
    for (Record& r : many) r.beat = i;
    there.send(1, many);
  }
  std::uint64_t last = 0, frames = 0;
  for (int quiet = 0; quiet < 20;) {
    there.send(1, {});  // what is under way goes on
    const auto got = here.receive();
    REQUIRE(here.open());
    REQUIRE(got.size() % many.size() == 0);
    quiet = got.empty() ? quiet + 1 : 0;
    if (got.empty()) ::poll(nullptr, 0, 10);
    for (const Record& r : got) {
      REQUIRE(r.beat >= last);
      last = r.beat;
    }
    frames += got.size() / many.size();
  }
  CHECK(frames > 0);
  CHECK(frames < 2000);
}

TEST_CASE("a heartbeat ends its process though nothing reads what it says of many ranks") {
  constexpr int kRanks = 200;
  const Directory directory;
  int ends[2];
  REQUIRE((pipe2(ends, O_CLOEXEC) == 0 && fcntl(ends[1], F_SETPIPE_SZ, 4096) == 4096));
  const pid_t child = fork();
  if (child == 0) {
    const Limits limits{.start_seconds = 0.25};
    std::vector<std::unique_ptr<RecordWriter>> records;
    for (int r = 0; r < kRanks; r++) records.push_back(std::make_unique<RecordWriter>(directory.path, r, ""));
    dup2(ends[1], STDERR_FILENO);
    Heartbeat heartbeat(*records[0], limits, Heartbeat::Voice::speaks);
    heartbeat.watch(std::make_unique<HostWatch>(HostWatch::Options{}, Successor({}, limits),
                                                std::make_unique<Watch>(directory.path, kRanks, limits), std::vector<FarHost>{}));
    ::poll(nullptr, 0, 1000 * static_cast<int>(kPatience));
    _exit(1);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WEXITSTATUS(status) == static_cast<int>(Exit::hung));
  std::string said(4096, 0);
  CHECK(::read(ends[0], said.data(), said.size()) == 4096);
  CHECK_THAT(said, Contains("motley: not ready 0 s after the start: rank 0 (pid "));
  for (const int end : ends) ::close(end);
}

TEST_CASE("a link takes nothing without the job's token, and nothing out of form") {
  for (const bool token_is_right : {false, true}) {
    auto [here, there] = linked();
    const std::uint64_t token = token_is_right ? kToken : kToken + 1;
    const std::uint32_t head[2] = {1, token_is_right ? 3U : 0U};  // three bytes are no record, none are a frame in form
    REQUIRE(::send(there.fd(), &token, sizeof token, 0) == 8);
    REQUIRE(::send(there.fd(), head, sizeof head, 0) == 8);
    REQUIRE(::send(there.fd(), "abc", head[1], 0) == static_cast<ssize_t>(head[1]));
    CHECK(heard(here).empty());
    CHECK(!here.open());
  }
}

TEST_CASE("strangers at the listener: neither their number nor what they send keeps a host away") {
  HostListener listener;
  auto addresses = listener.addresses();
  REQUIRE(!addresses.empty());
  std::vector<int> strangers;
  const auto connected = [&] {
    const int fd = ::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    REQUIRE(::connect(fd, reinterpret_cast<const sockaddr*>(&addresses.back()), sizeof addresses.back()) == 0);  // loopback
    strangers.push_back(fd);
    return fd;
  };
  const std::vector<char> much(std::size_t{1} << 20U, 'x');
  for (int i = 0; i < 100; i++) {
    const int fd = connected();
    if (i % 2 == 0) static_cast<void>(::send(fd, much.data(), much.size(), MSG_DONTWAIT | MSG_NOSIGNAL));
  }
  auto other = std::async(std::launch::async, [&] { return reach(addresses, 1, kToken, kPatience); });
  const auto here = listener.accept(2, kToken, kPatience);
  CHECK(here[1].open());
  CHECK(other.get().open());
  for (const int fd : strangers) ::close(fd);
}

TEST_CASE("hosts that cannot be reached: not linked, after the patience") {
  HostListener listener;
  CHECK(listener.accept(3, kToken, 0.05).size() == 3);
  for (const HostLink& link : listener.accept(3, kToken, 0.05)) CHECK(!link.open());
  CHECK(!reach({}, 1, kToken, 0.05).open());
  const auto addresses = listener.addresses();
  CHECK(!reach(addresses, 1, kToken, 0.05).open());  // no one answers
  const std::string note = unheard_note({{0, 1}, {2, 3}, {4}}, {true, false, true}, {"a", "b", "c"}, 30);
  CHECK_THAT(note, Contains("host b (ranks 2, 3)") && Contains("MOTLEY_HUNG_SECONDS") && !Contains("host c"));
  CHECK(unheard_note({{0}, {1}}, {true, true}, {"a", "b"}, 30).empty());
}

TEST_CASE("two hosts: rank 0 watches the other's ranks, and the other's first rank watches rank 0") {
  Ranks ranks(3);  // rank 0; ranks 1 and 2
  auto ends = linked();
  const Limits limits{.hung_seconds = 1};
  auto watch_of = [&](std::vector<WatchedRank> all) { return std::make_unique<Watch>(std::move(all), 3, limits); };
  std::vector<FarHost> from_zero, from_one;
  from_zero.push_back({1, 2, std::move(ends.first)});
  from_one.push_back({0, 1, std::move(ends.second)});
  auto zero = std::make_unique<HostWatch>(HostWatch::Options{.rank = 0, .host = 0}, Successor({}, limits),
                                          watch_of({ranks.near(0), {1}, {2}}), std::move(from_zero));
  auto one = std::make_unique<HostWatch>(HostWatch::Options{.rank = 1, .host = 1}, Successor(ranks.ring(1, 2, 1), limits),
                                         watch_of({ranks.near(1), ranks.near(2), {0}}), std::move(from_one));
  auto arrive = [](HostWatch& at) {
    std::vector<pollfd> files;
    at.add_files(files);
    REQUIRE(::poll(files.data(), files.size(), 20000) >= 1);
    return at.event();
  };
  auto round = [&](int silent) -> std::optional<Hung> {
    for (int r = 0; r < 3; r++)
      if (r != silent) ranks.all[static_cast<std::size_t>(r)]->beat();
    auto hung = one->beat();
    if (!hung) hung = arrive(*zero);
    if (!hung) hung = zero->beat();
    if (!hung) hung = arrive(*one);
    return hung;
  };
  for (int i = 0; i < 20; i++) REQUIRE(!round(-1));
  SECTION("a rank is silent: its own host says so first, rank 0 says the same") {
    std::optional<Hung> hung;
    for (int i = 0; i < 20 && !hung; i++) hung = round(2);
    REQUIRE(hung);
    CHECK(hung->rank == 2);
    ranks.all[1]->ended(86, hung->text, hung->rank);
    one->last_word();
    const auto same = arrive(*zero);
    const auto heard_later = same ? same : zero->beat();
    REQUIRE(heard_later);
    CHECK(!heard_later->known);  // rank 0 says it too: what ends with the other host may be lost
    CHECK(heard_later->text == hung->text);
  }
  SECTION("rank 0 is silent") {
    std::optional<Hung> hung;
    for (int i = 0; i < 30 && !hung; i++) {
      ranks.all[1]->beat();
      ranks.all[2]->beat();
      hung = one->beat();
    }
    REQUIRE(hung);
    CHECK(hung->rank == 0);
  }
  SECTION("all wait") {
    for (auto& r : ranks.all) r->waiting("x", -1);
    std::optional<Hung> hung;
    for (int i = 0; i < 20 && !hung; i++) hung = round(-1);
    REQUIRE(hung);
    CHECK_THAT(hung->text,
               Contains("every rank waits and no data has moved for 1 s: rank 0 waits for the other ranks in \"x\"; rank 1"));
  }
  SECTION("all but one wait for long: no one is ended, the slow one is named") {
    ranks.all[0]->waiting("x", 2);
    ranks.all[1]->waiting("x", 2);
    ranks.all[2]->phase("a long kernel");
    int reported = 0;
    for (int i = 0; i < 40; i++) {
      REQUIRE(!round(-1));
      while (const auto slow = zero->slow()) {
        reported++;
        CHECK_THAT(*slow, Contains("waits for rank 2") && Contains("computes in phase 'a long kernel'"));
      }
    }
    CHECK(reported == 2);
  }
  SECTION("the other host's first rank dies") {
    one.reset();
    const auto hung = arrive(*zero);
    REQUIRE(hung);
    CHECK(hung->rank == 1);
    CHECK_THAT(hung->text, Contains("rank 1 (\"device 1\"") &&
                               Contains("died in phase 'ready', or was ended because another rank of its host died"));
  }
  SECTION("it ends as agreed") {
    ranks.all[1]->agreed(0, "");
    one->last_word();
    one.reset();
    while (zero->reads() > 0) {
      REQUIRE(!arrive(*zero));
      std::vector<pollfd> files;
      zero->add_files(files);
      if (files.empty()) break;  // the link is closed
    }
  }
}

TEST_CASE("a death is left to the launcher for a while") {
  Ranks ranks(2);
  auto ends = linked();
  std::vector<FarHost> far;
  far.push_back({1, 1, std::move(ends.first)});
  std::vector<WatchedRank> all{ranks.near(0), {1}};
  HostWatch zero({.rank = 0, .death_seconds = 1}, Successor({}, {}), std::make_unique<Watch>(std::move(all), 2, Limits{}),
                 std::move(far));
  const std::vector<Record> its{ranks.all[1]->now()};
  ends.second.send(1, its);
  ends.second.close();
  for (int i = 0; i < 200; i++) {
    std::vector<pollfd> files;
    zero.add_files(files);
    if (files.empty()) break;
    static_cast<void>(::poll(files.data(), files.size(), 100));
    REQUIRE(!zero.event());
  }
  std::optional<Hung> hung;
  int beats = 0;
  for (; beats < 10 && !hung; beats++) {
    ranks.all[0]->beat();
    hung = zero.beat();
  }
  REQUIRE(hung);
  CHECK(beats == 4);
  CHECK(hung->rank == 1);
}
