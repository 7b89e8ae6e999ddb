// SPDX-License-Identifier: Apache-2.0
// A step under its layout against the same step on one device: does cutting change the network?
#pragma once
#include <motley/data.h>
#include <motley/plan.h>
#include <motley/runtime.h>

#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "run/gather.h"
#include "train/feed_names.h"

namespace motley {

struct VerifyInput {
  const Step* step = nullptr;   // training, over the few samples that verify runs
  const Step* whole = nullptr;  // the same without micro-batches, where it has some
  const Mesh* mesh = nullptr;
  LayoutRules rules{};  // rank 0's count
  Profile profile{};
  std::shared_ptr<const Dataset> data{};
  FeedNames names{};
  std::uint64_t seed = 1;        // of weights and order
  Index steps = 3;               // every one on the epoch's first batch
  std::filesystem::path dump{};  // empty: none
};

// The largest difference from the unsharded f64 run, divided by the tensor's largest magnitude there (absolute below 1e-30; at
// least a thousandth of the largest of all gradients, or weights; of a gradient that is 0 but for rounding by what is added into
// it: RunRecord::summed); the worst tensor's.
struct Difference {
  double loss = 0, logits = 0, gradients = 0, weights = 0;
  // Absolute; how far apart parameters are whose gradient is rounding alone, which Adam and LAMB move in any direction. They are
  // not compared, but the next steps' values follow from them.
  double adrift = 0;
  char worst_gradient[96]{}, worst_weights[96]{};  // the parameters (a report travels as bytes)
};

// The gradient that is farthest off beyond 1e-4 in f32, compared with the same tensor of unsharded f32 runs (at least with their
// median tensor).
struct Farthest {
  double times = 0;
  char gradient[96]{};
};

struct VerifyReport {
  Difference f64{}, f32{};
  // Of the unsharded f32 run on rank 0's device, the largest of up to four with parameters changed by at most 2^-22 (in bf16 2^-8);
  // looked for where f32 is beyond the bounds. plain: the same by f64_backend(), nothing fused.
  Difference alone{}, plain{};
  Farthest farthest{};     // compared with `alone` and `plain`
  bool diverged = false;   // the unsharded f64 run has values that are not finite
  bool inference = false;  // loss and logits alone
  bool bf16 = false;       // f32 stores tensors as bf16
  Difference nudged{};     // of the unsharded f64 run with parameters changed by at most 2^-45; looked for where f64 is beyond it
  bool exact() const;      // what ok() asks of f64
  // f64 <= 1e-11, or 4 times `nudged`, at most 1e-7 (losses and weights: unless parameters drift); f32 <= 1e-5 (loss, logits) and
  // 1e-4 (gradients, weights), or 4 times `alone` (in bf16 or `plain`, if that is larger), but for weights at most 16 times
  // `plain`, and `farthest` at most 8. A NaN is not ok.
  bool ok() const;
  std::string json() const;
  std::string text() const;
};

// What one run of a few steps made.
struct RunRecord {
  std::vector<double> losses{};                    // of every step
  WholeTensor loss{}, logits{};                    // of the first step
  std::map<std::string, WholeTensor> gradients{};  // of the first step, without weight decay
  // Of each gradient the largest sum of the magnitudes of what is added into an element (graph/magnitudes.h); empty: not known.
  struct Summed {
    double most = 0;
    bool complete = false;
  };
  std::map<std::string, Summed> summed{};
  // Whether the optimizer divides a gradient by its own size (Adam's square): one that is mere rounding moves its parameter too.
  bool moves_by_rounding = true;
  std::map<std::string, WholeTensor> weights_before{}, weights_after{};
  std::map<std::string, WholeTensor> averages_after{};  // of the weights, where the step keeps them
  // Per step: the values at which relu and max_pool2d decide (f32 run). A value that f32 rounds to the other side of a kink changes
  // a gradient by whole elements, in any layout; so the f64 truth of the f32 gradients decides as the f32 run did, where both
  // values agree within the bound of values.
  std::vector<std::map<std::string, WholeTensor>> decided{};
};
// NaN where a value is missing or no number.
Difference difference(const RunRecord& run, const RunRecord& truth);

// Collective; the same on every rank. Both sharded runs over all ranks: f64 by f64_backend(), f32 by the kernels of this
// rank's device. Then rank 0 runs the unsharded one, twice if f32 decides otherwise somewhere (RunRecord::decided): at the same
// time where its host has another rank and enough memory. Rank 0 writes the dump. Errors: those of planning and of devices; (io).
VerifyReport verify(Runtime& rt, const VerifyInput& input);

// The passes that evaluation and prediction run, in the place of training's.
struct InferenceInput {
  const Step *logits = nullptr, *loss = nullptr;  // inference({logits}), inference({loss}): the samples of VerifyInput::step
  LayoutRules rules{};                            // of both; rank 0's count
};
// Collective; likewise: inference Programs on parameters stored as training's plan stores them, against the unsharded f64
// inference. Running statistics are drawn, so that they are neither 0 nor 1; `steps` counts for nothing.
VerifyReport verify_inference(Runtime& rt, const VerifyInput& training, const InferenceInput& inference);

}  // namespace motley
