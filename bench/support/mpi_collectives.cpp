// SPDX-License-Identifier: Apache-2.0
#include "bench/support/mpi_collectives.h"

#include <mpi.h>

#include "mesh/mpi_check.h"

namespace motley::mpi_collectives {

namespace {

MPI_Count count(std::size_t elements) {
  return static_cast<MPI_Count>(elements);
}

struct Counts {
  std::vector<MPI_Count> sizes{};
  std::vector<MPI_Aint> begins{};
  explicit Counts(const std::vector<Index>& parts) {
    MPI_Aint begin = 0;
    for (Index part : parts) {
      sizes.push_back(static_cast<MPI_Count>(part));
      begins.push_back(begin);
      begin += static_cast<MPI_Aint>(part);
    }
  }
};

}  // namespace

void all_reduce(std::span<const float> mine, std::span<float> sum) {
  mpi_check(MPI_Allreduce_c(mine.data(), sum.data(), count(mine.size()), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD), "MPI_Allreduce_c");
}

void all_gather(std::span<const float> mine, std::span<float> whole, const std::vector<Index>& parts) {
  const Counts counts(parts);
  mpi_check(MPI_Allgatherv_c(mine.data(), count(mine.size()), MPI_FLOAT, whole.data(), counts.sizes.data(), counts.begins.data(),
                             MPI_FLOAT, MPI_COMM_WORLD),
            "MPI_Allgatherv_c");
}

void reduce_scatter(std::span<const float> mine, std::span<float> part, const std::vector<Index>& parts) {
  const Counts counts(parts);
  mpi_check(MPI_Reduce_scatter_c(mine.data(), part.data(), counts.sizes.data(), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD),
            "MPI_Reduce_scatter_c");
}

void send_receive(int other, std::span<const float> out, std::span<float> in) {
  mpi_check(MPI_Sendrecv_c(out.data(), count(out.size()), MPI_FLOAT, other, 0, in.data(), count(in.size()), MPI_FLOAT, other, 0,
                           MPI_COMM_WORLD, MPI_STATUS_IGNORE),
            "MPI_Sendrecv_c");
}

}  // namespace motley::mpi_collectives
