// SPDX-License-Identifier: Apache-2.0
// motley svm train, motley svm predict.
#include <fmt/format.h>
#include <motley/error.h>
#include <motley/svm.h>

#include <algorithm>
#include <filesystem>

#include "app/rank_verbs.h"
#include "base/files.h"
#include "base/json.h"
#include "base/units.h"
#include "run/agreed.h"

namespace motley::app {

namespace {

std::string progress_line(const svm::Progress& p) {
  std::string out;
  if (p.machines > 1) out = fmt::format("pair {} of {}, ", p.machine + 1, p.machines);
  out += fmt::format("iteration {}, gap {:.3g}, {} of {} samples active", p.iterations, p.gap, p.active, p.samples);
  if (p.seconds_left) out += fmt::format(", {} left", seconds_text(*p.seconds_left));
  return out;
}

std::string text_of(const svm::Result& result, const std::filesystem::path& file) {
  std::string out = fmt::format("model       {}: {} support vectors of {} classes\n", file.string(), result.model.vectors.samples(),
                                result.model.labels.size());
  out += fmt::format("{:<14}{:>9}{:>16}{:>12}{:>9}{:>9}{:>12}{:>11}{:>11}{:>10}{:>12}\n", "classes", "samples", "objective", "rho",
                     "vectors", "bounded", "iterations", "gap", "balance", "checks", "seconds");
  for (const svm::Machine& m : result.machines)
    out += fmt::format("{:<14}{:>9}{:>16.9g}{:>12.6f}{:>9}{:>9}{:>12}{:>11.3g}{:>11.1g}{:>10}{:>12.3g}\n",
                       fmt::format("{:g} / {:g}", m.positive, m.negative), m.samples, m.objective, m.rho, m.support_vectors,
                       m.bounded, m.iterations, m.gap, m.balance, m.reconstructions, m.seconds);
  out += fmt::format("{:<6}{:<18}{:>9}{:>12}{:>10}{:>12}{:>12}{:>12}{:>12}\n", "rank", "device", "samples", "rows", "cached",
                     "row time", "steps", "checks", "waiting");
  for (std::size_t r = 0; r < result.ranks.size(); r++) {
    const svm::RankReport& its = result.ranks[r];
    out += fmt::format("{:<6}{:<18}{:>9}{:>12}{:>10}{:>12}{:>12}{:>12}{:>12}\n", r, its.device, its.samples, its.rows, its.row_hits,
                       seconds_text(its.row_seconds), seconds_text(its.step_seconds), seconds_text(its.check_seconds),
                       seconds_text(its.waiting_seconds));
  }
  return out;
}

std::string json_of(const svm::Result& result) {
  Json out;
  out.set("support_vectors", result.model.vectors.samples());
  out.set("stopped", result.stopped);
  Json machines{Json::Array{}}, ranks{Json::Array{}};
  for (const svm::Machine& m : result.machines)
    machines.push(Json()
                      .set("positive", m.positive)
                      .set("negative", m.negative)
                      .set("samples", m.samples)
                      .set("objective", m.objective)
                      .set("rho", m.rho)
                      .set("gap", m.gap)
                      .set("balance", m.balance)
                      .set("support_vectors", m.support_vectors)
                      .set("bounded", m.bounded)
                      .set("iterations", m.iterations)
                      .set("kernel_values", m.kernel_values)
                      .set("checks", m.reconstructions)
                      .set("least_active", m.least_active)
                      .set("seconds", m.seconds)
                      .set("converged", m.converged));
  for (const svm::RankReport& its : result.ranks)
    ranks.push(Json()
                   .set("device", its.device)
                   .set("samples", its.samples)
                   .set("rows", its.rows)
                   .set("cached_rows", its.row_hits)
                   .set("row_seconds", its.row_seconds)
                   .set("step_seconds", its.step_seconds)
                   .set("check_seconds", its.check_seconds)
                   .set("waiting_seconds", its.waiting_seconds)
                   .set("processor_seconds", its.processor_seconds));
  out.set("machines", std::move(machines));
  out.set("ranks", std::move(ranks));
  return to_text(out, 1) + "\n";
}

// Every rank reads the files; an error in them is one error.
template <class Read>
auto read_on_all(Runtime& rt, Read&& read) {
  rt.phase("data");
  const StopsAtOnce nothing_to_save;
  decltype(read()) out;
  agreed(rt.transport(), [&] { out = read(); });
  return out;
}

svm::Data read_data(Runtime& rt, const Options& options) {
  const std::filesystem::path file = options.files.front();
  return read_on_all(
      rt, [&] { return file.extension() == ".npy" ? svm::Data::load_npy(file, options.labels) : svm::Data::load(file); });
}

}  // namespace

void svm_train_ranks(Runtime& rt, const Mesh& mesh, const Options& options, Console& console) {
  const std::string& name = options.files.front();
  const svm::Data data = read_data(rt, options);
  svm::Options how = options.svm;
  how.progress = [&](const svm::Progress& p) { console.progress(progress_line(p)); };
  how.warn = [&](const std::string& line) { console.say(LogLevel::warning, "note: " + line); };
  if (data.samples() > 0 && std::all_of(data.labels.begin(), data.labels.end(), [&](double l) { return l == data.labels.front(); }))
    throw AgreedError(
        fmt::format("{}: all {} samples are of one class, {:g}; expected two or more", name, data.samples(), data.labels.front()),
        Exit::data, 0);
  const svm::Result result = svm::train(rt, mesh, data, how);
  console.progress_done();
  rt.phase("saving the model");
  on_rank_0(rt.transport(), [&] { result.model.save(options.output); });
  rt.print(options.form == Form::json ? json_of(result) : text_of(result, options.output));
  if (result.stopped)
    throw Stopped(fmt::format("stopped on request: {} has the model that was reached, with a gap of {:.3g}",
                              options.output.string(), result.machines.back().gap));
}

void svm_predict_ranks(Runtime& rt, const Mesh& mesh, const Options& options) {
  const svm::Data data = read_data(rt, options);
  const svm::Model model = read_on_all(rt, [&] { return svm::Model::load(options.files.back()); });
  rt.phase("predicting");
  const StopsAtOnce nothing_to_save;
  const std::vector<double> labels = svm::predict(rt, mesh, model, data);
  on_rank_0(rt.transport(), [&] {
    std::string text;
    for (const double label : labels) text += fmt::format("{}\n", label);  // an integer, with all its digits
    write_text(options.output, text);
  });
  if (options.files.front().ends_with(".npy") && options.labels.empty())  // nothing to compare with
    return rt.print(options.form == Form::json ? to_text(Json().set("samples", data.samples()), 1) + "\n"
                                               : fmt::format("{} samples\n", data.samples()));
  Index correct = 0;
  for (std::size_t k = 0; k < labels.size(); k++) correct += labels[k] == data.labels[k] ? 1 : 0;
  const double accuracy = static_cast<double>(correct) / static_cast<double>(labels.size());
  rt.print(options.form == Form::json
               ? to_text(Json().set("samples", data.samples()).set("correct", correct).set("accuracy", accuracy), 1) + "\n"
               : fmt::format("accuracy {:.2f} % ({} of {} samples)\n", 100 * accuracy, correct, data.samples()));
}

}  // namespace motley::app
