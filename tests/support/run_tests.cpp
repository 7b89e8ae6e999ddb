// SPDX-License-Identifier: Apache-2.0
// Catch2 itself, compiled here alone.
#define CATCH_CONFIG_RUNNER
#include "tests/support/run_tests.h"

#include <catch2/catch.hpp>

int run_tests(int argc, char** argv) {
  return Catch::Session().run(argc, argv);
}
