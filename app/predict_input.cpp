// SPDX-License-Identifier: Apache-2.0
#include "app/predict_input.h"

#include <fmt/format.h>
#include <motley/error.h>

#include <algorithm>

#include "base/files.h"
#include "base/likely_kind.h"
#include "run/agreed.h"
#include "train/npy_data.h"
#include "train/skip_damaged.h"
#include "train/token_samples.h"

namespace motley::app {

namespace {

namespace fs = std::filesystem;

enum class Kind : std::uint8_t { folder, picture, array, tokens };

Kind kind_of(const fs::path& input, const Job& job) {
  std::error_code ignored;
  if (fs::is_directory(input, ignored)) return Kind::folder;
  const InputFile file(input);
  const std::string start = file.text(0, std::min<std::uint64_t>(file.size(), kKindBytes));
  if (start.starts_with("\x93NUMPY")) return Kind::array;
  if (start.starts_with("\x89PNG") || start.starts_with("\xff\xd8\xff")) return Kind::picture;
  if (job.data.kind == DataKind::tokens) return Kind::tokens;
  throw UserError(
      input.string() + ": expected a .npy file, a PNG or JPEG picture, or a folder of these pictures" + likely_kind(start),
      Exit::data);
}

std::vector<Index> extents_of(const Tensor& input) {
  std::vector<Index> out;
  for (std::size_t d = 1; d < input.shape().rank(); d++) out.push_back(input.shape()[d].size);
  return out;
}

// Collective. names: of the pictures.
std::shared_ptr<const PictureFiles> pictures(Runtime& rt, const Task& task, const fs::path& input,
                                             const std::vector<Index>& extents, std::vector<std::string>& names) {
  std::shared_ptr<const PictureFiles> out;
  const bool folder = fs::is_directory(input);
  const fs::path base = folder ? input : input.parent_path();
  const auto open = [&] { out = std::make_shared<PictureFiles>(base, names, extents, task.job.data.resize); };
  agreed(rt.transport(), [&] {
    names = folder ? pictures_below(input) : std::vector<std::string>{input.filename().string()};
    open();
  });
  if (task.job.data.damaged == Damaged::skip && folder) {
    const std::vector<DamagedPicture> damaged = damaged_files(rt, *out, {});
    for (const DamagedPicture& one : damaged) std::erase(names, one.file);
    if (!damaged.empty() && rt.rank() == 0) task.console.say(LogLevel::warning, "note: " + skipped_text(damaged, out->samples()));
    agreed(rt.transport(), [&] {
      if (names.empty()) throw UserError(input.string() + ": every picture in it is damaged", Exit::data);
      open();
    });
  }
  on_rank_0(rt.transport(), [&] {
    constexpr std::size_t kMost = 10;
    HeaderCounts counts;
    std::string wrong;
    std::size_t found = 0;
    for (Index n = 0; n < out->samples(); n++) try {
        out->check_header(n, counts);
      } catch (const UserError& e) {
        if (found++ < kMost) wrong += (wrong.empty() ? "" : "\n") + std::string(e.what());
      }
    if (found > kMost) wrong += fmt::format("\nand {} more", found - kMost);
    if (found > 0) throw UserError(wrong, Exit::data);
    if (const std::string text = text_of(counts); !text.empty()) task.console.say(LogLevel::info, "pictures: " + text);
  });
  return out;
}

}  // namespace

std::map<std::string, fs::path> input_files(const Options& options, const ModelSpec& model) {
  std::vector<std::string> names;
  for (const InputSpec& input : model.inputs)
    if (input.name != model.loss.labels) names.push_back(input.name);
  std::map<std::string, fs::path> out;
  for (const std::string& word : options.inputs) {
    const std::size_t end = word.find('=');
    const bool named = end != std::string::npos && std::find(names.begin(), names.end(), word.substr(0, end)) != names.end();
    if (end != std::string::npos && !named && !fs::exists(word))
      throw UserError(
          "--input " + word + ": the model has no input \"" + word.substr(0, end) + "\"" + did_you_mean(word.substr(0, end), names),
          Exit::usage);
    const std::string name = named ? word.substr(0, end) : model.first_input().name;
    if (!out.emplace(name, named ? word.substr(end + 1) : word).second)
      throw UserError("--input gives \"" + name + "\" twice; with several inputs give each once, as --input NAME=FILE",
                      Exit::usage);
  }
  for (const std::string& name : names)
    if (!out.contains(name))
      throw UserError("the model reads \"" + name + "\", which is not given; add --input " + name + "=FILE", Exit::usage);
  return out;
}

void check_input(const fs::path& input, const Job& job) {
  if (kind_of(input, job) == Kind::folder) static_cast<void>(pictures_below(input));
}

PredictInput predict_input(Runtime& rt, const Task& task, const Model& model) {
  std::map<std::string, fs::path> files;
  agreed(rt.transport(), [&] { files = input_files(task.options, task.job.model); });
  PredictInput out;
  std::map<std::string, std::shared_ptr<const Dataset>> samples;
  for (const Tensor& input : model.inputs) {
    const fs::path& file = files.at(input.name());
    const bool first = input.name() == model.inputs.front().name();
    std::shared_ptr<const Dataset>& its = samples[input.name()];
    Kind kind{};
    agreed(rt.transport(), [&] { kind = kind_of(file, task.job); });
    std::vector<std::string> names;
    if (kind == Kind::folder || kind == Kind::picture) its = pictures(rt, task, file, extents_of(input), names);
    agreed(rt.transport(), [&] {
      if (kind == Kind::array) its = npy_samples(file, extents_of(input), input.dtype());
      if (kind == Kind::tokens)
        its = token_samples(file, task.job.data.type, input.shape()[1].size, samples_of(task.job.model, model).numbers);
    });
    if (first) out.names = kind == Kind::picture ? std::vector<std::string>{file.string()} : std::move(names);
  }
  agreed(rt.transport(), [&] {
    const auto first = samples.extract(model.inputs.front().name()).mapped();
    out.samples = normalized(with_inputs(first, std::move(samples)), task.job.data.normalize);
  });
  return out;
}

}  // namespace motley::app
