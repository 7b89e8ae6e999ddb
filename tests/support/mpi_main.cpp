// SPDX-License-Identifier: Apache-2.0
// Catch2's main over MPI. After each test case the ranks agree whether anyone failed; then all end. Those who wait
// for a rank that left a case early are woken by their deadline, so nothing hangs.
#define CATCH_CONFIG_EXTERNAL_INTERFACES
#include <motley/mpi.h>

#include <catch2/catch.hpp>
#include <cstdio>

#include "mesh/control.h"
#include "mesh/mpi_session.h"
#include "tests/support/mpi_world.h"
#include "tests/support/run_tests.h"

namespace {

std::unique_ptr<motley::Transport> g_world;
bool g_failed = false;  // on some rank: messages may be left over, later cases would read them

constexpr double kDeadlineSeconds = 10;

[[noreturn]] void end_failed();

// Meets all ranks wherever they are, and says whether one of them has failed.
motley::Verdict meet(bool failed, const std::string& text) {
  try {
    // Twice the deadline: those who still wait for this rank must have given up before.
    motley::set_deadline_seconds(2 * kDeadlineSeconds);
    const auto all = motley::control::farewell(world(), failed ? 1 : 0, text, 0);
    motley::set_deadline_seconds(kDeadlineSeconds);
    return all->worst;
  } catch (const motley::Error& e) {
    std::fprintf(stderr, "rank %d after \"%s\": %s\n", world().rank(), text.c_str(), e.what());
    motley::MpiSession::abort(1);
  }
}

struct Together : Catch::TestEventListenerBase {
  using TestEventListenerBase::TestEventListenerBase;
  void testCaseStarting(const Catch::TestCaseInfo& info) override {
    if (!g_failed) return;
    std::fprintf(stderr, "rank %d: \"%s\" and what follows are left out\n", world().rank(), info.name.c_str());
    end_failed();
  }
  void testCaseEnded(const Catch::TestCaseStats& stats) override {
    const bool failed = stats.totals.assertions.failed > 0;
    const motley::Verdict all = meet(failed, stats.testInfo.name);
    if (all.status == 0) return;
    g_failed = true;
    if (!failed) std::fprintf(stderr, "rank %d: \"%s\" failed on rank %d\n", world().rank(), stats.testInfo.name.c_str(), all.rank);
  }
};
CATCH_REGISTER_LISTENER(Together)

void end_failed() {
  std::fflush(nullptr);
  static_cast<void>(meet(true, "the end"));  // all ranks have printed
  motley::MpiSession::abort(1);
}

}  // namespace

motley::Transport& world() {
  return *g_world;
}

int main(int argc, char** argv) {
  motley::MpiSession session(argc, argv);
  g_world = session.transport();
  motley::set_deadline_seconds(kDeadlineSeconds);
  const int failed = run_tests(argc, argv);
  if (failed != 0 || g_failed) end_failed();
  g_world.reset();
  session.finish();
  return 0;
}
