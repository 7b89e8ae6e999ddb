// SPDX-License-Identifier: Apache-2.0
// Runs a training step under a layout on ranks that are threads, and gathers what it made.
#pragma once
#include <motley/executor.h>
#include <motley/program.h>

#include <map>
#include <string>
#include <vector>

namespace motley {

struct Outcome {
  double loss = 0;
  std::vector<double> logits{};
  std::map<std::string, std::vector<double>> gradients{};  // of the first step
  std::map<std::string, std::vector<double>> weights{};    // after the last
  std::vector<Index> counted{}, first{};                   // bytes per rank: in the last step, in the first one
};

// Weights and biases that start from 1 or 0 get values around 1, so that what they do is seen.
void spread_constants(const Plan& plan, const Program& program, Executor& executor);

struct RunOptions {
  int steps = 2;
  std::uint64_t seed = 7;
  bool integers = false;         // inputs and weights are small integers
  bool cpu_backend = false;      // the one users run, instead of the reference
  bool real_devices = false;     // CUDA devices are what they are
  Index piece_bytes = 64;        // of a piece of a message from or to a device with memory of its own
  bool device_messages = false;  // the transport takes the device's memory (support/device_transport.h)
  CompileOptions program{};      // share: false: messages alone
  unsigned restless =
      0;  // above 0: ranks sleep now and then before a step, determined by this seed, and run a forward half before each step
};
// A rank whose device is a CUDA one runs the same kernels on a device that is none (support/fake_device.h), but for real_devices.
// Inputs are determined by the element's global index and the seed; labels in 0..classes-1.
Outcome run_plan(const Plan& plan, const RunOptions& options = {});
// Largest difference over a tensor, divided by its largest magnitude.
double difference(const Outcome& a, const Outcome& b);

}  // namespace motley
