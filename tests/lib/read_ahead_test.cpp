// SPDX-License-Identifier: Apache-2.0
// A batch that was read ahead is the batch; what goes wrong in the thread comes out where it is asked for.
#include <motley/error.h>
#include <catch2/catch.hpp>

#include <atomic>
#include <chrono>
#include <cstring>

#include "run/start.h"
#include "tests/support/few_threads.h"
#include "train/read_ahead.h"

using namespace motley;

namespace {

// Element (n, i) of batch `step` is 1000 step + 10 n + i.
ReadBox numbers(Index step, std::atomic<int>* reads = nullptr, Index bad = -1) {
  return [=](const Box& box, std::span<std::byte> out) {
    if (reads != nullptr) ++*reads;
    std::size_t at = 0;
    for (Index n = box[0].begin; n < box[0].end; n++) {
      if (n == bad) throw UserError("picture 7 is damaged", Exit::data);
      for (Index i = box[1].begin; i < box[1].end; i++) {
        const auto value = static_cast<double>(1000 * step + 10 * n + i);
        std::memcpy(out.data() + at, &value, sizeof value);
        at += sizeof value;
      }
    }
  };
}

std::vector<double> ask(const ReadAhead::Feeds& feeds, const std::string& name, const Box& box) {
  std::vector<double> out(static_cast<std::size_t>(volume(box)), -1);
  feeds.at(name)(box, std::as_writable_bytes(std::span(out)));
  return out;
}

std::vector<double> expected(Index step, const Box& box) {
  std::vector<double> out(static_cast<std::size_t>(volume(box)));
  numbers(step)(box, std::as_writable_bytes(std::span(out)));
  return out;
}

}  // namespace

TEST_CASE("every box of every batch is what the feed gives, asked once, twice or not at all") {
  const std::vector<Box> boxes{{{0, 20}, {1, 4}}, {{20, 40}, {1, 4}}, {{3, 3}, {0, 9}}, {{5, 6}, {0, 1}}};
  const std::vector<int> cores = GENERATE(std::vector<int>{}, allowed_cores());
  std::atomic<int> reads{0};
  ReadAhead ahead(cores, {{"x", numbers(0, &reads)}, {"y", numbers(5000)}});
  for (Index step = 0; step < 200; step++) {
    const auto feeds = ahead.next(step < 199 ? ReadAhead::Feeds{{"x", numbers(step + 1, &reads)}, {"y", numbers(step + 5001)}}
                                             : ReadAhead::Feeds{});
    REQUIRE(feeds.size() == 2);
    if (step % 7 == 3) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    for (const Box& box : boxes) {
      if (step % 5 == 4 && box == boxes[1]) continue;
      CHECK(ask(feeds, "x", box) == expected(step, box));
      if (step % 3 == 0) CHECK(ask(feeds, "x", box) == expected(step, box));
    }
    CHECK(ask(feeds, "y", boxes[0]) == expected(step + 5000, boxes[0]));
  }
  CHECK(reads > 200);
}

TEST_CASE("an error in the thread is the step's that asks for it") {
  const Box box{{0, 32}, {0, 2}};
  ReadAhead ahead(allowed_cores(), {{"x", numbers(0)}});
  for (Index step = 0; step < 6; step++) {
    const auto feeds = ahead.next({{"x", numbers(step + 1, nullptr, step + 1 == 5 ? 7 : -1)}});
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    if (step < 5) {
      CHECK(ask(feeds, "x", box) == expected(step, box));
      continue;
    }
    try {
      ask(feeds, "x", box);
      FAIL("it is damaged");
    } catch (const UserError& e) {
      CHECK(e.code() == Exit::data);
      CHECK(std::string(e.what()) == "picture 7 is damaged");
    }
  }
}

TEST_CASE("where no thread can be started, the steps read") {
  const Box box{{0, 32}, {0, 2}};
  const testing::FewThreads none(0);
  ReadAhead ahead(allowed_cores(), {{"x", numbers(0)}});
  for (Index step = 0; step < 3; step++) CHECK(ask(ahead.next({{"x", numbers(step + 1)}}), "x", box) == expected(step, box));
}

TEST_CASE("it ends while it reads, or with nothing read") {
  { const ReadAhead none(allowed_cores(), {}); }
  std::atomic<bool> begun{false};
  const ReadBox slow = [&](const Box&, std::span<std::byte>) {
    begun = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  };
  std::vector<double> out(2);
  ReadAhead ahead(allowed_cores(), {{"x", slow}});
  for (int step = 0; step < 2; step++) {
    const auto feeds = ahead.next({{"x", slow}});
    feeds.at("x")({{0, 1}, {0, 2}}, std::as_writable_bytes(std::span(out)));
  }
  begun = false;
  const auto feeds = ahead.next({{"x", slow}});
  while (!begun) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}
