// SPDX-License-Identifier: Apache-2.0
#include "train/predict.h"

#include <motley/error.h>

#include <algorithm>

#include "base/at.h"
#include "plan/plan_data.h"
#include "run/agreed.h"
#include "train/batch_reader.h"
#include "train/feed_names.h"

namespace motley {

Predictions predict(Runtime& rt, Predictor& predictor, const std::shared_ptr<const Dataset>& data, const std::string& image) {
  const Passes& passes = predictor.plan().data().passes;
  check(passes.outputs.size() == 1, "a prediction has one output");
  const StepTensor& output = at(passes.tensors, passes.outputs.front());
  const Dim& batch = at(passes.tensors, passes.find(image)).shape[0];
  const auto found = output.shape.find(batch.name);
  if (!found) throw UserError("\"" + output.name + "\" has no dim \"" + batch.name + "\": it is not computed per sample");
  const Index samples = data->samples();
  require_whole_batches(passes, image, samples);
  Predictions out;
  out.batch = *found;
  Index outer = 1, inner = 1;  // dims before and after the batch's
  for (std::size_t d = 0; d < output.shape.rank(); d++) {
    out.extents.push_back(d == *found ? samples : output.shape[d].size);
    out.dims.push_back(output.shape[d].name);
    (d < *found ? outer : inner) *= d == *found ? 1 : output.shape[d].size;
  }
  if (rt.rank() == 0) out.values.resize(static_cast<std::size_t>(outer * samples * inner));
  for (Index first = 0; first < samples; first += batch.size) {
    if (agree(rt.transport(), rt.stop_requested() ? 1 : 0).status != 0)
      throw Stopped("stopped on request after " + std::to_string(first) + " samples");
    rt.phase("predicting from sample " + std::to_string(first));
    const Index count = std::min(batch.size, samples - first);
    std::vector<Index> which(static_cast<std::size_t>(batch.size), kNoSample);
    for (Index n = 0; n < count; n++) at(which, n) = first + n;
    try {
      predictor.run_named(feeds_from(batch_of(data, std::move(which), 0, 0), {.image = image, .label = ""}, passes));
    } catch (const AgreedError& e) {
      const std::string from = std::to_string(first), to = std::to_string(first + count - 1);
      throw AgreedError((count == 1 ? "in sample " + from : "in the samples " + from + " to " + to) + ": " + e.what(), e.code(),
                        e.rank());
    }
    const std::vector<double> values = predictor.get(output.name);
    if (rt.rank() != 0) continue;
    for (Index o = 0; o < outer; o++)
      std::copy_n(values.begin() + o * batch.size * inner, count * inner, out.values.begin() + (o * samples + first) * inner);
  }
  return out;
}

}  // namespace motley
