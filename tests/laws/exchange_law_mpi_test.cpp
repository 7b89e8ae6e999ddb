// SPDX-License-Identifier: Apache-2.0
// The exchange law over MPI.
#include <catch2/catch.hpp>

#include "tests/support/mpi_world.h"
#include "tests/support/redistribute_law.h"

TEST_CASE("exchange law over MPI", "[law]") {
  for (unsigned number = 0; number < motley::law::share_of(60U); number++) {
    INFO("case " << number << ", rank " << world().rank() << " of " << world().size());
    CHECK(motley::law::redistribute_law(world(), number) == "");
  }
}
