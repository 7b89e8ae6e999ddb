// SPDX-License-Identifier: Apache-2.0
// Ranks that each work alone end together, whichever takes longest or fails.
#include "run/each_alone.h"

#include <motley/error.h>

#include <array>
#include <catch2/catch.hpp>
#include <chrono>
#include <string>
#include <thread>

#include "tests/lib/train_nets.h"

using namespace motley;

namespace {

void rest() {
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
}

}  // namespace

TEST_CASE("ranks work alone, each as long as it needs, and go on together") {
  constexpr int kRanks = 4;
  for (const auto& pieces : {std::array<int, kRanks>{0, 0, 0, 0}, {20, 0, 0, 0}, {0, 20, 3, 0}, {3, 16, 40, 0}}) {
    std::array<int, kRanks> did{};
    std::array<bool, kRanks> all_done{};
    run_ranks_in_memory(kRanks, [&](Runtime& rt) {
      const auto me = static_cast<std::size_t>(rt.rank());
      each_alone(rt, "test: ", [&](const Alive& alive) {
        for (int k = 0; k < pieces[me]; k++) {
          rest();
          alive("resting");
          did[me]++;
        }
      });
      static_cast<void>(agree(rt.transport(), 0));  // no message of the meetings is left
      all_done[me] = did == pieces;
    });
    CHECK(all_done == std::array<bool, kRanks>{true, true, true, true});
  }
}

TEST_CASE("work alone that fails on one rank ends on all, with its error") {
  constexpr int kRanks = 3;
  for (int failing = 0; failing < kRanks; failing++)
    for (const bool at_once : {true, false}) {
      std::array<std::string, kRanks> heard;
      std::array<bool, kRanks> finished{};
      run_ranks_in_memory(kRanks, [&](Runtime& rt) {
        const auto me = static_cast<std::size_t>(rt.rank());
        try {
          each_alone(rt, "test: ", [&](const Alive& alive) {
            if (rt.rank() == failing) {
              for (int k = 0; k < (at_once ? 0 : 20); k++) rest(), alive("resting");
              throw UserError("no luck", Exit::data);
            }
            if (rt.rank() == (failing + 1) % kRanks) return;
            for (int k = 0; k < 1000; k++) rest(), alive("resting");  // 20 s, unless the failure ends it
            finished[me] = true;
          });
        } catch (const Error& e) {
          heard[me] = e.what();
          CHECK_NOTHROW(agree(rt.transport(), 0));
        }
      });
      CAPTURE(failing, at_once);
      for (const std::string& text : heard) CHECK(text.find("no luck") != std::string::npos);
      CHECK(finished == std::array<bool, kRanks>{});
    }
}
