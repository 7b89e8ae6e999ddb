// SPDX-License-Identifier: Apache-2.0
// A plan bound to one rank's device; every run is a whole step on the same synthetic batch.
#pragma once
#include <motley/executor.h>
#include <motley/plan.h>
#include <motley/state.h>

#include <string>
#include <vector>

namespace motley::bench {

// What one kernel of a step takes, on average over the runs.
struct Taken {
  std::string kernel{}, implementation{};
  double seconds = 0;
  Index runs = 0;
};

class Bound {
 public:
  Bound(Plan plan, Program program, Backend& backend, Transport& transport);
  Ran run();
  const Plan& plan() const { return plan_; }
  const std::vector<double>& seconds() const { return seconds_; }            // per run
  const std::vector<double>& contractions() const { return contractions_; }  // of these, in convolutions, products and attention
  std::vector<Taken> taken() const;                                          // every kernel and exchange, the slowest first

 private:
  double in_contractions() const;  // seconds so far
  Plan plan_;
  Program program_;
  State state_;
  Executor executor_;
  std::vector<double> seconds_{}, contractions_{};
};

// The same plan with whole messages.
Plan without_tiles(const Plan& plan);
// The same kernels, and no exchange.
Program kernels_alone(Program program);
double least(const std::vector<double>& values);
double median(std::vector<double> values);
// Per run the slowest rank's. Collective.
std::vector<double> slowest(Transport& transport, const std::vector<double>& mine);

// One rank's device alone: its plan, and the step that is predicted while the others rest (0: not known).
struct Alone {
  Plan plan;
  double predicted_seconds = 0;
};
Alone alone(const Step& step, const Mesh& mesh, int rank, const Profile& profile);

// On a shared machine one core slows down beside the other without any process to be seen. What two ranks alone take beside their
// predictions.
struct Speeds {
  double both = 1;   // their geometric mean
  double moved = 1;  // the greater over the less; above kMoved the profile was of another machine than the steps
};
inline constexpr double kMoved = 1.1;
Speeds speeds_of(double first_over_predicted, double second_over_predicted);

}  // namespace motley::bench
