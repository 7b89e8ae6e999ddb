// SPDX-License-Identifier: Apache-2.0
// Catch2's main over MPI. After each test case the ranks tell each other whether anyone failed; a rank that left a case
// early makes the others' waits end by their deadline, so nothing hangs.
#define CATCH_CONFIG_RUNNER
#include <motley/mpi.h>

#include <catch2/catch.hpp>
#include <cstdio>

#include "mesh/mpi_session.h"
#include "tests/support/mpi_world.h"

namespace {

std::unique_ptr<motley::Transport> g_world;
int g_failed_cases = 0;

constexpr double kDeadlineSeconds = 10;

struct Together : Catch::TestEventListenerBase {
  using TestEventListenerBase::TestEventListenerBase;
  void testCaseEnded(const Catch::TestCaseStats& stats) override {
    const bool failed = stats.totals.assertions.failed > 0;
    try {
      // Twice the deadline: those who still wait for this rank must have given up before.
      motley::set_deadline_seconds(2 * kDeadlineSeconds);
      const motley::Verdict all = motley::agree(world(), failed ? 1 : 0, stats.testInfo.name);
      motley::set_deadline_seconds(kDeadlineSeconds);
      if (all.status == 0) return;
      g_failed_cases++;
      if (!failed)
        std::fprintf(stderr, "rank %d: \"%s\" failed on rank %d\n", world().rank(), stats.testInfo.name.c_str(), all.rank);
    } catch (const motley::Error& e) {
      std::fprintf(stderr, "rank %d after \"%s\": %s\n", world().rank(), stats.testInfo.name.c_str(), e.what());
      motley::MpiSession::abort(1);
    }
  }
};
CATCH_REGISTER_LISTENER(Together)

}  // namespace

motley::Transport& world() {
  return *g_world;
}

int main(int argc, char** argv) {
  motley::MpiSession session(argc, argv);
  g_world = session.transport();
  motley::set_deadline_seconds(kDeadlineSeconds);
  const int failed = Catch::Session().run(argc, argv);
  g_world.reset();
  // A rank that failed may have left messages open: no orderly end with those.
  if (failed != 0 || g_failed_cases != 0) motley::MpiSession::abort(1);
  session.finish();
  return 0;
}
