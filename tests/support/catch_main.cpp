// SPDX-License-Identifier: Apache-2.0
#include "tests/support/run_tests.h"

int main(int argc, char** argv) {
  return run_tests(argc, argv);
}
