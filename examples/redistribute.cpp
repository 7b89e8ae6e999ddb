// SPDX-License-Identifier: Apache-2.0
// One piece of motley used alone: rows cut 6 : 3 : 1 over the ranks become columns cut evenly, in a program that brings its own
// MPI.
//   mpiexec -n 3 build/examples/redistribute
#include <motley/mpi.h>
#include <motley/redistribute.h>

#include <cstdio>
#include <exception>
#include <numeric>

using namespace motley;

namespace {

int move_rows_to_cols(Transport& transport) {
  const int ranks = transport.size(), me = transport.rank();
  const Mesh mesh({{"all", ranks}}, std::vector<Device>(static_cast<std::size_t>(ranks)));
  const Shape shape{{"rows", 10}, {"cols", 6}};
  std::vector<double> shares(static_cast<std::size_t>(ranks), 1.0);
  for (std::size_t r = 0; r < 2 && r < shares.size(); r++) shares[r] = r == 0 ? 6.0 : 3.0;
  const LaidOut by_rows{mesh, {shape, {{"rows", {{0}, -1, {Partition::proportional(10, shares)}}}}}};
  const LaidOut by_cols{mesh, {shape, {{"cols", {{0}, -1, {Partition::even(6, ranks)}}}}}};

  const Box had = by_rows.layout.box(mesh, me), gets = by_cols.layout.box(mesh, me);
  std::vector<float> local(static_cast<std::size_t>(volume(had)));  // its rows of 0, 1, 2, ...
  std::iota(local.begin(), local.end(), static_cast<float>(had[0].begin * 6));
  const std::vector<float> columns = redistribute(std::span<const float>(local), by_rows, by_cols, transport);

  int wrong = 0;
  std::size_t k = 0;
  for (Index row = gets[0].begin; row < gets[0].end; row++)
    for (Index col = gets[1].begin; col < gets[1].end; col++) wrong += columns[k++] != static_cast<float>(row * 6 + col);
  std::printf("rank %d had %s, has %s, received %lld bytes\n", me, to_string(had).c_str(), to_string(gets).c_str(),
              static_cast<long long>(transport.bytes_received()));
  return wrong == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  int level = 0, status = 1;
  if (MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level) != MPI_SUCCESS) return 1;
  try {
    status = move_rows_to_cols(*mpi_transport(MPI_COMM_WORLD));
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
  return status;
}
