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

TEST_CASE("mpi: a long message goes in parts, which count as data that moves") {
  if (world().size() < 2) return;
  std::vector<std::byte> data(std::size_t{40} << 20);
  const std::uint64_t before = world().parts();
  if (world().rank() < 2) {
    const int other = 1 - world().rank();
    const auto ticket = world().rank() == 0 ? world().send(other, 0, data) : world().receive(other, 0, data);
    wait(world(), std::span(&ticket, 1), "a long message");
    CHECK(world().parts() - before == 3);
  }
  static_cast<void>(agree(world(), 0));
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
