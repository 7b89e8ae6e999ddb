// SPDX-License-Identifier: Apache-2.0
// One exchange between two ranks as a plan of its own: compiled and run by the same code as a training step's.
#pragma once
#include <motley/executor.h>
#include <motley/plan.h>

#include <memory>
#include <string>
#include <vector>

namespace motley::bench {

enum class Kind : std::uint8_t { all_reduce, all_gather, reduce_scatter, halo };

struct Case {
  Kind kind = Kind::all_reduce;
  Index elements = 0;  // f32: of the whole result (all_gather), of each partial (sums), of each rank's message (halo)
  Index share = 50;    // rank 0's part in percent
  bool apart = false;  // the ranks are on two hosts, or do as if: messages, no windows
};
std::string name_of(Kind kind);
std::vector<Index> parts_of(const Case& c);  // elements per rank, of what is cut

// A plan without kernels of its own: each rank's input is its partial sum or its part, the exchange makes the result from them. A
// halo's ranks have their rows already, as if a kernel had written them.
Plan plan_of(const Case& c);

// This rank's end of it.
class Exchange {
 public:
  Exchange(const Case& c, Backend& backend, Transport& transport);  // collective
  void run() { executor_->run(); }
  // Every value that this rank reads is right. InternalError: which is not.
  void check_result() const;

 private:
  Case case_;
  Plan plan_;
  Program program_;
  std::unique_ptr<State> state_;
  std::unique_ptr<Executor> executor_;
};

}  // namespace motley::bench
