// SPDX-License-Identifier: Apache-2.0
// The CPU backend against the reference, capped to the ISA in MOTLEY_TEST_ISA (one per process: meson runs this once per ISA).
#include <motley/error.h>

#include <catch2/catch.hpp>
#include <cstdlib>

#include "kernels/cpu/cpu_backend.h"
#include "support/backend_law.h"

using namespace motley;
using namespace motley::testing;

namespace {

Device device(int threads) {
  Device device;
  const char* isa = std::getenv("MOTLEY_TEST_ISA");
  device.isa = isa == nullptr ? "" : isa;
  device.threads = threads;
  return device;
}

}  // namespace

TEST_CASE("CPU backend law: exact") {
  const auto backend = open_cpu_backend(device(1));
  CHECK(backend_law(*backend, 11, 3000, LawMode::exact) == "");
}

TEST_CASE("CPU backend law: tolerance") {
  const auto backend = open_cpu_backend(device(1));
  CHECK(backend_law(*backend, 12, 3000, LawMode::tolerance) == "");
}
