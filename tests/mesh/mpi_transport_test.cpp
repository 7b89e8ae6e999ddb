// SPDX-License-Identifier: Apache-2.0
#include <motley/mpi.h>

#include <catch2/catch.hpp>
#include <chrono>

#include "tests/mesh/transport_cases.h"
#include "tests/support/mpi_world.h"

using namespace motley;

TEST_CASE("mpi: every case") {
  for (const auto& [name, body] : transport_cases()) {
    INFO(name << ", rank " << world().rank() << " of " << world().size());
    CHECK_NOTHROW(body(world()));
  }
}

TEST_CASE("mpi: whether messages may be in a GPU's memory is what this MPI says") {
  CHECK(world().takes_device_memory() == (MPIX_Query_cuda_support() == 1));
}

TEST_CASE("mpi: groups of every smaller size, side by side") {
  for (int size = 1; size < world().size(); size++) {
    MPI_Comm part = MPI_COMM_NULL;
    REQUIRE(MPI_Comm_split(MPI_COMM_WORLD, world().rank() / size, 0, &part) == MPI_SUCCESS);
    for (const auto& [name, body] : transport_cases()) {
      INFO(name << ", groups of " << size);
      CHECK_NOTHROW(body(*mpi_transport(part)));
    }
    REQUIRE(MPI_Comm_free(&part) == MPI_SUCCESS);
  }
}

TEST_CASE("mpi: ranks that outnumber the cores finish quickly") {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 200; i++) static_cast<void>(agree(world(), 0));
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(20));
}
