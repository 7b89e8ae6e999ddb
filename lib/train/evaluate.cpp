// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <motley/error.h>
#include <motley/predictor.h>

#include <algorithm>
#include <cmath>

#include "base/at.h"
#include "mesh/control.h"
#include "plan/plan_data.h"
#include "run/start.h"
#include "run/trace_summary.h"
#include "train/feed_names.h"
#include "train/read_ahead.h"
#include "train/score.h"

namespace motley {

void Score::add(const std::vector<double>& logits, const std::vector<std::int32_t>& labels, Index classes, Index after,
                Index ignored) {
  check(static_cast<Index>(logits.size()) == static_cast<Index>(labels.size()) * classes, "a row of logits per label");
  std::vector<double> row(static_cast<std::size_t>(classes));
  for (Index r = 0; r < static_cast<Index>(labels.size()); r++) {
    const std::int32_t label = at(labels, r);
    if (label < 0 || label == ignored) continue;
    const Index first = r / after * classes * after + r % after;
    for (Index k = 0; k < classes; k++) at(row, k) = at(logits, first + k * after);
    const auto best = std::max_element(row.begin(), row.end());
    double sum = 0;
    for (const double v : row) sum += std::exp(v - *best);
    loss += std::log(sum) + *best - at(row, label);
    right += best - row.begin() == label ? 1 : 0;
    rows++;
  }
}

namespace {

// A row-major tensor with its dim `at` outermost.
std::vector<double> outermost(const std::vector<double>& values, const Shape& shape, std::size_t found) {
  if (found == 0) return values;
  const auto size = static_cast<std::size_t>(shape[found].size);
  std::size_t before = 1;
  for (std::size_t d = 0; d < found; d++) before *= static_cast<std::size_t>(shape[d].size);
  const std::size_t after = values.size() / (before * size);
  std::vector<double> out(values.size());
  for (std::size_t k = 0; k < size; k++)
    for (std::size_t b = 0; b < before; b++)
      std::copy_n(values.begin() + static_cast<std::ptrdiff_t>((b * size + k) * after), after,
                  out.begin() + static_cast<std::ptrdiff_t>((k * before + b) * after));
  return out;
}

// Where an output has its samples and its classes.
struct OutputDims {
  std::size_t samples = 0, classes = 0;
};

OutputDims dims_of(const Passes& passes, const StepTensor& output, const EvaluateOptions& options) {
  const int image = passes.find(options.image);
  if (image < 0) throw UserError("the step has no input \"" + options.image + "\" for the images");
  const Shape& images = at(passes.tensors, image).shape;
  if (images.rank() == 0) throw UserError("\"" + options.image + "\" has no dim for the samples");
  const std::string& batch = images[0].name;
  const Shape& shape = output.shape;
  if (!shape.has(batch)) throw UserError("\"" + output.name + "\" has no dim \"" + batch + "\"; each sample needs its own logits");
  std::string over = options.over;
  if (over.empty() && shape.rank() == 2) over = shape[1 - shape.position(batch)].name;
  if (over.empty() || over == batch || !shape.has(over))
    throw UserError("which dim of \"" + output.name + "\" counts the classes? Name it in EvaluateOptions::over" +
                    (over.empty() ? "" : ", not \"" + over + "\""));
  return {shape.position(batch), shape.position(over)};
}

}  // namespace

Evaluation evaluate(Runtime& rt, Predictor& predictor, const std::shared_ptr<const Dataset>& data, const EvaluateOptions& options) {
  if (data == nullptr) throw UserError("there are no samples to evaluate on");
  const PlanData& plan = predictor.plan().data();
  if (plan.passes.outputs.size() != 1)
    throw UserError("an evaluation needs a step with one output, the logits; this one has " +
                    std::to_string(plan.passes.outputs.size()));
  const StepTensor& output = at(plan.passes.tensors, plan.passes.outputs.front());
  const Shape& shape = output.shape;
  const OutputDims dims = dims_of(plan.passes, output, options);
  const Index classes = shape[dims.classes].size, batch = shape[dims.samples].size;
  Index after = 1;
  std::vector<Index> each;  // of a sample's rows: the labels' dims
  for (std::size_t d = 0; d < shape.rank(); d++)
    if (d != dims.samples && d != dims.classes) {
      each.push_back(shape[d].size);
      if (d > dims.classes) after *= shape[d].size;
    }
  const Shape& images = at(plan.passes.tensors, plan.passes.find(options.image)).shape;
  std::vector<Index> extents;
  for (std::size_t d = 1; d < images.rank(); d++) extents.push_back(images[d].size);
  if (data->sample_extents() != extents)
    throw UserError(fmt::format("a sample has the sizes [{}], \"{}\" has [{}]", fmt::join(data->sample_extents(), ", "),
                                options.image, fmt::join(extents, ", ")));
  if (data->samples() < 1) throw UserError("there is no sample to evaluate on", Exit::data);
  if (data->classes() > classes)
    throw UserError("the data has " + std::to_string(data->classes()) + " classes, \"" + output.name + "\" has " +
                    std::to_string(classes));
  if (const std::vector<Index> its = data->label_extents(); !its.empty() && its != each)
    throw UserError(fmt::format("a sample's labels have the sizes [{}], \"{}\" has the rows [{}]", fmt::join(its, ", "),
                                output.name, fmt::join(each, ", ")));
  Box all;
  Index rows = 1;
  for (const Index size : each) all.push_back({0, size}), rows *= size;
  Score score;
  std::vector<double> seconds;
  const auto feeds_of = [&](Index first) {  // a short last batch is filled up
    std::vector<Index> which(static_cast<std::size_t>(batch), kNoSample);
    for (Index n = first; n < std::min(first + batch, data->samples()); n++) at(which, n - first) = n;
    return first < data->samples()
               ? feeds_from(batch_of(data, std::move(which), 0, 0), {.image = options.image, .label = ""}, plan.passes)
               : ReadAhead::Feeds{};
  };
  ReadAhead ahead(spare_cores(), feeds_of(0));
  for (Index first = 0; first < data->samples(); first += batch) {
    rt.phase("evaluating from sample " + std::to_string(first));
    const Index count = std::min(batch, data->samples() - first);
    std::vector<std::int32_t> labels(static_cast<std::size_t>(batch * rows), static_cast<std::int32_t>(kNoSample));
    for (Index n = 0; n < count; n++) {
      const auto its = std::span(labels).subspan(static_cast<std::size_t>(n * rows), static_cast<std::size_t>(rows));
      data->read_labels(first + n, all, its);
      for (const std::int32_t label : its)
        if ((!options.ignored || label != *options.ignored) && (label < 0 || label >= classes))
          throw UserError(
              fmt::format("sample {} has the label {}; \"{}\" has the classes 0 to {}", first + n, label, output.name, classes - 1),
              Exit::data);
    }
    seconds.push_back(predictor.run_named(ahead.next(feeds_of(first + batch))).seconds);
    score.add(outermost(predictor.get(output.name), shape, dims.samples), labels, classes, after, options.ignored.value_or(-1));
  }
  const auto slowest = control::all_of(rt.transport(), quartiles(std::move(seconds)).median);
  if (score.rows == 0) throw UserError("no label of the samples counts", Exit::data);
  const auto count = static_cast<double>(score.rows);
  return {data->samples(), static_cast<double>(score.right) / count, score.loss / count,
          *std::max_element(slowest.begin(), slowest.end()), plan.step_seconds};
}

}  // namespace motley
