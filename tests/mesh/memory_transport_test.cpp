// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <chrono>

#include "tests/mesh/transport_cases.h"
#include "tests/support/threads.h"

using namespace motley;

TEST_CASE("memory: every case at 1 to 4 ranks") {
  for (const auto& [name, body] : transport_cases())
    for (int ranks = 1; ranks <= 4; ranks++) {
      INFO(name << ", " << ranks << " ranks");
      CHECK_NOTHROW(on_threads(ranks, body));
    }
}

TEST_CASE("memory: an abort wakes every rank that waits, with the error") {
  std::vector<std::string> woken(3);
  std::vector<int> codes(3);
  auto ranks = in_memory(3);
  std::vector<std::thread> threads;
  const auto start = std::chrono::steady_clock::now();
  for (std::size_t r = 0; r < 3; r++)
    threads.emplace_back([&, r] {
      if (r == 2) {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        ranks[2]->abort(UserError("loss is not finite", Exit::internal));
        ranks[2]->abort(UserError("a second reason"));  // the first stands
        return;
      }
      try {
        if (r == 0) static_cast<void>(ranks[0]->gather_all({}));
        int value = 0;
        const auto ticket = ranks[r]->receive(2, 0, std::as_writable_bytes(std::span(&value, 1)));
        wait(*ranks[r], std::span(&ticket, 1), "never");
      } catch (const Error& e) {
        woken[r] = e.what();
        codes[r] = static_cast<int>(e.code());
      }
    });
  for (std::thread& t : threads) t.join();
  CHECK(woken == std::vector<std::string>{"loss is not finite", "loss is not finite", ""});
  CHECK(codes == std::vector<int>{70, 70, 0});
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(20));
}

TEST_CASE("memory: 6 ranks on few cores finish quickly") {
  const auto start = std::chrono::steady_clock::now();
  on_threads(6, [](Transport& t) {
    for (int i = 0; i < 100; i++) static_cast<void>(agree(t, 0));
  });
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(20));
}
