// SPDX-License-Identifier: Apache-2.0
// MPI's own collectives over all ranks, blocking: beside which bench/exchange times motley's exchanges.
#pragma once
#include <motley/dims.h>

#include <span>
#include <vector>

namespace motley::mpi_collectives {

// Sums, f32. All buffers have the same size on every rank.
void all_reduce(std::span<const float> mine, std::span<float> sum);
// parts: elements per rank; `mine` has this rank's, `whole` all of them.
void all_gather(std::span<const float> mine, std::span<float> whole, const std::vector<Index>& parts);
void reduce_scatter(std::span<const float> mine, std::span<float> part, const std::vector<Index>& parts);
// With one other rank, both ways at once.
void send_receive(int other, std::span<const float> out, std::span<float> in);

}  // namespace motley::mpi_collectives
