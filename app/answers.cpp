// SPDX-License-Identifier: Apache-2.0
#include "app/answers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <motley/error.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "base/at.h"
#include "base/json.h"
#include "base/npy.h"
#include "base/utf8.h"
#include "train/prediction_text.h"

namespace motley::app {

namespace {

struct ClassFigures {
  std::string name{};
  Index count = 0, answered = 0, right = 0;  // rows with this label, with this answer, with both
  std::optional<double> accuracy() const {
    return count == 0 ? std::nullopt : std::optional(static_cast<double>(right) / static_cast<double>(count));
  }
  std::optional<double> iou() const {
    const Index either = count + answered - right;
    return either == 0 ? std::nullopt : std::optional(static_cast<double>(right) / static_cast<double>(either));
  }
};

Index classes_in(const Evaluation& of) {
  Index n = 0;
  while (n * n < static_cast<Index>(of.confusion.size())) n++;
  return n;
}

std::vector<ClassFigures> figures_of(const Evaluation& of, const std::vector<std::string>& names) {
  const Index n = classes_in(of);
  std::vector<ClassFigures> out(static_cast<std::size_t>(n));
  for (Index label = 0; label < n; label++) {
    at(out, label).name = label < static_cast<Index>(names.size()) ? at(names, label) : std::to_string(label);
    for (Index answer = 0; answer < n; answer++) {
      const Index rows = at(of.confusion, label * n + answer);
      at(out, label).count += rows;
      at(out, answer).answered += rows;
      if (label == answer) at(out, label).right = rows;
    }
  }
  return out;
}

std::optional<double> mean_iou(const std::vector<ClassFigures>& figures) {
  double sum = 0;
  int known = 0;
  for (const ClassFigures& one : figures)
    if (const auto iou = one.iou()) {
      sum += *iou;
      known++;
    }
  return known == 0 ? std::nullopt : std::optional(sum / known);
}

std::string percent(const std::optional<double>& share) {
  return share ? fmt::format("{:.2f} %", 100 * *share) : "-";
}

Json known(const std::optional<double>& value) {
  return value ? Json(*value) : Json(nullptr);
}

double top5(const Evaluation& of) {
  return of.rows == 0 ? 0 : static_cast<double>(of.in_top5) / static_cast<double>(of.rows);
}

std::string padded(const std::string& text, std::size_t width) {
  return text + std::string(width - std::min(width, characters(text, 0, text.size())), ' ');
}

// The three answers other than the label itself that are most frequent.
std::string taken_for(const Evaluation& of, const std::vector<ClassFigures>& figures, Index label) {
  const Index n = classes_in(of);
  std::vector<Index> order(figures.size());
  std::iota(order.begin(), order.end(), Index{0});
  const auto rows = [&](Index answer) { return answer == label ? 0 : at(of.confusion, label * n + answer); };
  std::stable_sort(order.begin(), order.end(), [&](Index a, Index b) { return rows(a) > rows(b); });
  std::string out;
  for (std::size_t i = 0; i < std::min<std::size_t>(3, order.size()) && rows(order[i]) > 0; i++)
    out += fmt::format("{}{} {}", out.empty() ? "" : ", ", at(figures, order[i]).name, rows(order[i]));
  return out;
}

std::string class_lines(const Evaluation& of, const std::vector<std::string>& names, bool masks) {
  const std::vector<ClassFigures> figures = figures_of(of, names);
  std::size_t width = 5;
  for (const ClassFigures& one : figures) width = std::max(width, characters(one.name, 0, one.name.size()));
  std::string out;
  if (figures.size() > 5) out = fmt::format("top-5     {}\n", percent(top5(of)));
  if (masks) out += fmt::format("mean IoU  {}\n", percent(mean_iou(figures)));
  out += fmt::format("\n{}{:>12}{:>12}{}   taken for\n", padded("class", width), masks ? "elements" : "samples", "accuracy",
                     masks ? fmt::format("{:>12}", "IoU") : "");
  for (std::size_t k = 0; k < figures.size(); k++)
    out +=
        fmt::format("{}{:>12}{:>12}{}   {}\n", padded(figures[k].name, width), figures[k].count, percent(figures[k].accuracy()),
                    masks ? fmt::format("{:>12}", percent(figures[k].iou())) : "", taken_for(of, figures, static_cast<Index>(k)));
  return out;
}

Json per_class_json(Json out, const Evaluation& of, const std::vector<std::string>& names, bool masks) {
  const std::vector<ClassFigures> figures = figures_of(of, names);
  Json classes{Json::Array{}}, confusion{Json::Array{}};
  for (const ClassFigures& one : figures) {
    Json its;
    its.set("class", one.name).set("count", one.count).set("accuracy", known(one.accuracy()));
    if (masks) its.set("iou", known(one.iou()));
    classes.push(std::move(its));
  }
  const Index n = classes_in(of);
  for (Index label = 0; label < n; label++) {
    Json row{Json::Array{}};
    for (Index answer = 0; answer < n; answer++) row.push(at(of.confusion, label * n + answer));
    confusion.push(std::move(row));
  }
  out.set("top5_accuracy", top5(of));
  if (masks) out.set("mean_iou", known(mean_iou(figures)));
  return std::move(out.set("classes", std::move(classes)).set("confusion", std::move(confusion)));
}

}  // namespace

std::string evaluation_text(const Evaluation& of, const Options& options, const std::vector<std::string>& names, bool masks) {
  if (options.form == Form::json) {
    Json out;
    out.set("loss", of.mean_loss).set("accuracy", known(of.accuracy)).set("samples", of.samples);
    return to_text(options.per_class ? per_class_json(std::move(out), of, names, masks) : out);
  }
  std::string out = fmt::format("loss      {:.6g}\n", of.mean_loss);
  if (of.accuracy) out += fmt::format("accuracy  {}\n", percent(of.accuracy));
  out += fmt::format("samples   {}", of.samples);
  return options.per_class ? out + "\n" + class_lines(of, names, masks) : out;
}

void check_answer_options(const Options& options) {
  if (options.output.empty() && options.top == 0)
    throw UserError(
        "expected -o FILE, where the outputs are written, or --top N, which prints the N most probable classes, or both",
        Exit::usage);
  const std::string end = options.output.extension().string();
  if (!options.output.empty() && end != ".npy" && end != ".csv" && end != ".json")
    throw UserError("-o " + options.output.string() + ": expected a name that ends in .npy, .csv or .json", Exit::usage);
}

std::string give_predictions(const Predictions& outputs, const Task& task, const std::vector<std::string>& samples,
                             const std::vector<std::string>& classes) {
  const Options& options = task.options;
  const LossSpec& loss = task.job.model.loss;
  const PredictionText text{.outputs = outputs,
                            .samples = samples,
                            .over = loss.has_classes() ? loss.over : "",
                            .classes = loss.has_classes() ? classes : std::vector<std::string>{},
                            .top = std::max(1, options.top)};
  const std::string end = options.output.extension().string();
  if (end == ".csv") write_file(options.output.string(), prediction_csv(text));
  if (end == ".json") write_file(options.output.string(), prediction_json(text));
  if (end == ".npy" && task.job.train.dtype() == DType::f64) write_npy(options.output, outputs.extents, outputs.values);
  if (end == ".npy" && task.job.train.dtype() != DType::f64)
    write_npy(options.output, outputs.extents, std::vector<float>(outputs.values.begin(), outputs.values.end()));
  std::string out;
  if (options.top > 0) out = prediction_lines(text);
  if (!options.output.empty()) out += fmt::format("{}: [{}]\n", options.output.string(), fmt::join(outputs.extents, ", "));
  if (!out.empty()) out.pop_back();  // printed as lines
  return out;
}

}  // namespace motley::app
