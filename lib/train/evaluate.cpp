// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <motley/error.h>
#include <motley/predictor.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <optional>

#include "base/at.h"
#include "base/interval.h"
#include "mesh/control.h"
#include "plan/plan_data.h"
#include "run/agreed.h"
#include "run/planned.h"
#include "run/start.h"
#include "run/trace_summary.h"
#include "train/batch_reader.h"
#include "train/feed_names.h"
#include "train/read_ahead.h"
#include "train/score.h"

namespace motley {

void Score::add(const std::vector<double>& logits, const std::vector<std::int32_t>& labels, Index classes, Index after,
                Index ignored, double smoothing) {
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
    if (smoothing > 0)
      loss += smoothing * (at(row, label) - std::accumulate(row.begin(), row.end(), 0.0) / static_cast<double>(classes));
    right += best - row.begin() == label ? 1 : 0;
    rows++;
    if (confusion.empty()) continue;
    at(confusion, label * classes + (best - row.begin()))++;
    const double its = at(row, label);  // of equal logits the first ones count
    const auto before = std::count_if(row.begin(), row.begin() + label, [&](double v) { return v >= its; });
    in_top += before + std::count_if(row.begin() + label + 1, row.end(), [&](double v) { return v > its; }) < kTop ? 1 : 0;
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

// Where an output has its samples and its classes; without classes: after its last dim.
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
  if (options.loss != LossKind::softmax_cross_entropy) return {shape.position(batch), shape.rank()};
  std::string over = options.over;
  if (over.empty() && shape.rank() == 2) over = shape[1 - shape.position(batch)].name;
  if (over.empty() || over == batch || !shape.has(over))
    throw UserError("it is not known which dim of \"" + output.name + "\" counts the classes; name it in EvaluateOptions::over" +
                    (over.empty() ? "" : ", not \"" + over + "\""));
  return {shape.position(batch), shape.position(over)};
}

const char* name_of_loss(LossKind loss) {
  switch (loss) {
    case LossKind::softmax_cross_entropy: return "softmax_cross_entropy";
    case LossKind::binary_cross_entropy: return "binary_cross_entropy";
    case LossKind::mean_squared_error: return "mean_squared_error";
    case LossKind::mean_absolute_error: return "mean_absolute_error";
    case LossKind::huber: return "huber";
  }
  return "";
}

// Of one element and its label.
double loss_of(const EvaluateOptions& options, double x, double y) {
  const double off = std::abs(x - y);
  switch (options.loss) {
    case LossKind::mean_squared_error: return off * off;
    case LossKind::mean_absolute_error: return off;
    case LossKind::huber: return off <= options.delta ? 0.5 * off * off : options.delta * (off - 0.5 * options.delta);
    default: return std::max(x, 0.0) - x * y + std::log1p(std::exp(-std::abs(x)));
  }
}

// An evaluation, after its arguments have been checked.
class Evaluating {
 public:
  Evaluating(Runtime& rt, Predictor& predictor, const std::shared_ptr<const Dataset>& data, const EvaluateOptions& options)
      : rt_(rt),
        predictor_(predictor),
        data_(data),
        options_(options),
        passes_(predictor.plan().data().passes),
        output_((check_output(), at(passes_.tensors, passes_.outputs.front()))),
        dims_(dims_of(passes_, output_, options)),
        batch_(output_.shape[dims_.samples].size) {
    for (std::size_t d = 0; d < output_.shape.rank(); d++)
      if (d != dims_.samples && d != dims_.classes) {
        each_.push_back(output_.shape[d].size);
        if (d > dims_.classes) after_ *= output_.shape[d].size;
      }
    for (const Index size : each_) whole_.push_back({0, size});
    require_within("label_smoothing", options.label_smoothing, {.least = 0, .most = 1});
    check_samples();
    check_labels();
  }

  Evaluation run() {
    Score score;
    if (options_.per_class) score.confusion.resize(static_cast<std::size_t>(classes() * classes()));
    const double seconds = options_.loss == LossKind::softmax_cross_entropy
                               ? for_each_batch([&](Index first, Index count) { add_classes(score, first, count); })
                               : for_each_batch([&](Index first, Index count) { add_numbers(score, first, count); });
    if (score.rows == 0) throw AgreedError("every label of the samples is ignored, so there is no loss", Exit::data, -1);
    const auto count = static_cast<double>(score.rows);
    Evaluation out{.samples = data_->samples(),
                   .mean_loss = score.loss / count,
                   .batch_seconds = seconds,
                   .predicted_seconds = predictor_.plan().data().step_seconds};
    if (options_.loss == LossKind::softmax_cross_entropy) out.accuracy = static_cast<double>(score.right) / count;
    out.rows = score.rows;
    out.confusion = std::move(score.confusion);
    out.in_top5 = score.in_top;
    return out;
  }

 private:
  Index classes() const { return output_.shape[dims_.classes].size; }

  void check_output() const {
    if (passes_.outputs.size() != 1)
      throw UserError("an evaluation needs a step with one output, the logits; this one has " +
                      std::to_string(passes_.outputs.size()));
  }

  void check_samples() const {
    const Shape& images = at(passes_.tensors, passes_.find(options_.image)).shape;
    std::vector<Index> extents;
    for (std::size_t d = 1; d < images.rank(); d++) extents.push_back(images[d].size);
    if (data_->sample_extents() != extents)
      throw UserError(fmt::format("a sample has the sizes [{}], \"{}\" has [{}]", fmt::join(data_->sample_extents(), ", "),
                                  options_.image, fmt::join(extents, ", ")));
    if (data_->samples() < 1) throw UserError("there is no sample to evaluate on", Exit::data);
    require_whole_batches(passes_, options_.image, data_->samples());
  }

  void check_labels() const {
    const bool classes = options_.loss == LossKind::softmax_cross_entropy;
    if (options_.per_class && !classes)
      throw UserError(std::string("the labels of ") + name_of_loss(options_.loss) +
                      " have no classes that could be counted one by one");
    if (options_.per_class && this->classes() > EvaluateOptions::kMostPerClass)
      throw UserError(fmt::format("{} classes are too many to be counted one by one; at most {}", this->classes(),
                                  EvaluateOptions::kMostPerClass));
    if (classes && data_->label_dtype() != DType::i32)
      throw UserError("the data's labels are floats; softmax_cross_entropy expects class indices");
    if (classes && data_->classes() > output_.shape[dims_.classes].size)
      throw UserError("the data has " + std::to_string(data_->classes()) + " classes, \"" + output_.name + "\" has " +
                      std::to_string(output_.shape[dims_.classes].size));
    if (const std::vector<Index> its = data_->label_extents(); !(its.empty() && classes) && its != each_)
      throw UserError(fmt::format("a sample's labels have the sizes [{}], \"{}\" has the rows [{}]", fmt::join(its, ", "),
                                  output_.name, fmt::join(each_, ", ")));
  }

  // each(first sample, how many): called once their outputs are there. Returns a batch's seconds, the median of the slowest rank.
  double for_each_batch(const std::function<void(Index, Index)>& each) {
    const auto feeds_of = [&](Index first) {  // a short last batch is filled up
      std::vector<Index> which(static_cast<std::size_t>(batch_), kNoSample);
      for (Index n = first; n < std::min(first + batch_, data_->samples()); n++) at(which, n - first) = n;
      return first < data_->samples()
                 ? feeds_from(batch_of(data_, std::move(which), 0, 0), {.image = options_.image, .label = ""}, passes_)
                 : ReadAhead::Feeds{};
    };
    std::vector<double> seconds;
    ReadAhead ahead(spare_cores(), feeds_of(0));
    for (Index first = 0; first < data_->samples(); first += batch_) {
      if (agree_on_unread(rt_.stop_requested() ? kStop : 0) == kStop)
        throw Stopped("stopped on request after " + std::to_string(first) + " samples of the evaluation");
      rt_.phase("evaluating from sample " + std::to_string(first));
      say_progress(first);
      ReadAhead::Feeds feeds = ahead.next(feeds_of(first + batch_));
      for (auto& [name, read] : feeds)
        read = [this, its = std::move(read)](const Box& box, std::span<std::byte> out) {
          if (!reads([&] { its(box, out); })) std::fill(out.begin(), out.end(), std::byte{0});
        };
      seconds.push_back(predictor_.run_named(feeds).seconds);
      each(first, std::min(batch_, data_->samples() - first));
    }
    agree_on_unread(0);
    say_progress(data_->samples());
    const auto slowest = control::all_of(rt_.transport(), quartiles(std::move(seconds)).median);
    return *std::max_element(slowest.begin(), slowest.end());
  }

  void say_progress(Index samples) const {
    if (rt_.rank() == 0 && options_.progress) options_.progress(samples);
  }

  // If a rank cannot read, the others are in the batch: they learn of it afterwards. False: something else must be fed instead.
  bool reads(const std::function<void()>& read) const {
    const std::optional<Error> failed = error_of(read);
    if (failed && !unread_) unread_ = failed;
    return !failed;
  }
  // The greatest status of all ranks. AgreedError: a rank could not read. Collective.
  int agree_on_unread(int status) const {
    const Verdict worst =
        unread_ ? agree(rt_.transport(), static_cast<int>(unread_->code()), unread_->what()) : agree(rt_.transport(), status);
    if (worst.status > kStop) throw AgreedError(worst);
    return worst.status;
  }

  void add_classes(Score& score, Index first, Index count) const {
    const Index classes = output_.shape[dims_.classes].size, rows = volume(whole_);
    std::vector<std::int32_t> labels(static_cast<std::size_t>(batch_ * rows), static_cast<std::int32_t>(kNoSample));
    const Index ignored = options_.ignored.value_or(kNoSample);
    for (Index n = 0; n < count; n++) {
      const auto its = std::span(labels).subspan(static_cast<std::size_t>(n * rows), static_cast<std::size_t>(rows));
      const bool good = reads([&] {
        data_->read_labels(first + n, whole_, its);
        for (const std::int32_t label : its)
          if ((!options_.ignored || label != *options_.ignored) && (label < 0 || label >= classes))
            throw UserError(fmt::format("sample {} has the label {}; \"{}\" has the classes 0 to {}", first + n, label,
                                        output_.name, classes - 1),
                            Exit::data);
      });
      if (!good) std::fill(its.begin(), its.end(), static_cast<std::int32_t>(ignored));
    }
    score.add(outermost(predictor_.get(output_.name), output_.shape, dims_.samples), labels, classes, after_, ignored,
              options_.label_smoothing);
  }

  void add_numbers(Score& score, Index first, Index count) const {
    const std::vector<double> outputs = outermost(predictor_.get(output_.name), output_.shape, dims_.samples);
    const auto elements = static_cast<std::size_t>(volume(whole_));
    std::vector<double> targets(elements);
    for (Index n = 0; n < count; n++) {
      const bool good = reads([&] {
        data_->read_targets(first + n, whole_, targets);
        for (const double target : targets)
          if (!std::isfinite(target))
            throw UserError(fmt::format("sample {} has the label {}; expected finite numbers", first + n, target), Exit::data);
      });
      if (!good) continue;
      for (std::size_t k = 0; k < elements; k++)
        score.loss += loss_of(options_, outputs[static_cast<std::size_t>(n) * elements + k], targets[k]);
    }
    score.rows += count * static_cast<Index>(elements);
  }

  Runtime& rt_;
  Predictor& predictor_;
  const std::shared_ptr<const Dataset>& data_;
  const EvaluateOptions& options_;
  const Passes& passes_;
  const StepTensor& output_;
  const OutputDims dims_;
  const Index batch_;
  std::vector<Index> each_{};  // the labels' dims: one row of logits for each
  Box whole_{};                // the box of all of these
  Index after_ = 1;            // elements after the class dim
  static constexpr int kStop = 1;
  mutable std::optional<Error> unread_{};
};

}  // namespace

Evaluation evaluate(Runtime& rt, Predictor& predictor, const std::shared_ptr<const Dataset>& data, const EvaluateOptions& options) {
  std::optional<Evaluating> evaluating;
  agreed(rt.transport(), [&] {
    if (data == nullptr)
      throw UserError(
          "there are no samples to evaluate on: the data has no test part (npy: test_images; folder: a folder test; tokens: "
          "test_path)");
    evaluating.emplace(rt, predictor, data, options);
  });
  same_settings(rt.transport(), "evaluates",
                {fmt::format("{} samples", data->samples()), "the input " + options.image, "the classes' dim " + options.over,
                 options.ignored ? fmt::format("the ignored label {}", *options.ignored) : "no ignored label",
                 fmt::format("label_smoothing {}", options.label_smoothing),
                 fmt::format("the loss {}, delta {}", name_of_loss(options.loss), options.delta),
                 options.per_class ? "class by class" : "all classes together"});
  return evaluating->run();
}

}  // namespace motley
