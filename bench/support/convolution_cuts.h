// SPDX-License-Identifier: Apache-2.0
// One convolution's filters cut over two ranks: chosen from measured tables, and compared with every other cut.
#pragma once
#include <motley/backend.h>
#include <motley/balance_dim.h>
#include <motley/transport.h>

#include <map>

#include "base/json.h"
#include "profiler/run_clock.h"

namespace motley::bench {

struct Convolution {
  Index n, c, hw, f, window;
};

// As in a row.
std::string shape_of(const Convolution& k);

class ConvolutionCuts {
 public:
  ConvolutionCuts(Transport& transport, Backend& backend, bool quick) : transport_(transport), backend_(backend), quick_(quick) {}
  // Collective over two ranks. One row, the same on both: shape, pass, chosen_parts, best_parts, ..._over_best, best_seconds,
  // predicted_over_measured, runs_lost (share of the runs in which a rank lost its core; they were repeated).
  Json row(const Convolution& k, PassKind pass);

 private:
  void measure(const Convolution& k, PassKind pass, const std::vector<Index>& sizes);
  SizeTables tables(Index size) const;
  void list_cuts(Index size, Index chosen);
  std::size_t index_of(const std::vector<Index>& parts);
  void sweep(const Convolution& k, PassKind pass, const std::vector<std::size_t>& keep);
  void leave_out(std::vector<std::size_t>& order, const std::vector<std::size_t>& keep, std::size_t wanted) const;
  RunTime timed(Kernel* kernel, const std::vector<void*>& operands, void* workspace);
  double least(std::size_t cut, std::size_t parity) const;

  Transport& transport_;
  Backend& backend_;
  bool quick_;
  std::vector<std::map<Index, double>> points_{};  // per rank: filters -> seconds
  std::vector<std::vector<Index>> cuts_{};
  std::vector<std::vector<double>> seconds_{};  // [cut][round]: the slower rank, of rounds in which both kept their cores
  std::vector<std::vector<double>> busy_{};     // [cut][round]: CPU seconds of the slower rank, of all rounds
  std::size_t runs_ = 0, lost_ = 0;             // of the sweep
};

}  // namespace motley::bench
