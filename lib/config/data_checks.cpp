// SPDX-License-Identifier: Apache-2.0
#include "config/data_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>

#include "base/at.h"
#include "base/utf8.h"
#include "run/start.h"
#include "train/folder.h"
#include "train/npy_data.h"
#include "train/read_all.h"

namespace motley {

namespace {

using Complain = std::function<void(const std::string& pointer, const UserError& error)>;  // of the data's tree

// As load_data() without a validation part, plus faults that appear only when files are read through. Errors are thrown, or given
// to `complain`.
Datasets load_checked(const DataOptions& data, const SampleKind& expected, const Complain& complain) {
  if (data.kind == DataKind::npy) {
    NpyFiles files = npy_files(data);
    const auto unknown = [&](const auto& input) {  // it has been complained about
      return !expected.any_samples && std::none_of(expected.further.begin(), expected.further.end(),
                                                   [&](const SampleKind& k) { return k.input == input.first; });
    };
    std::erase_if(files.inputs, unknown);
    std::erase_if(files.test_inputs, unknown);
    std::vector<NpyError> wrong;
    Datasets out = check_npy(files, expected, wrong);
    for (const NpyError& e : wrong) complain("/" + e.which(), e);
    return out;
  }
  if (data.kind == DataKind::tokens) check_tokens(token_files(data), expected);
  DataOptions all = data;
  all.validation = 0;
  Datasets out = load_data(all, expected, 0, 0);
  if (const auto found = out.train->sample_extents(); !expected.extents.empty() && found != expected.extents)
    throw UserError(
        data.path + ": samples of the sizes " + sizes_text(found) + ", the model's input has " + sizes_text(expected.extents),
        Exit::data);
  return out;
}

std::string how_to_resize(const std::vector<Index>& extents) {
  return fmt::format("; \"resize\": [{}, {}] would scale all pictures", extents[1], extents[2]);
}

// A folder's pictures: those that are damaged are complained about, or left out and counted.
Datasets load_pictures(const DataOptions& data, const SampleKind& expected, Depth depth, const Complain& complain,
                       std::vector<std::string>& lines) {
  FolderData found = open_folder(data.path, expected, {data.resize});
  const FolderHeaders headers = read_headers(found);
  const std::vector<DamagedPicture> damaged =
      depth == Depth::samples ? undecodable(found, {0, found.samples()}, 1, allowed_cores()) : headers.damaged;
  for (const std::string& text : headers.other_size)
    complain("/path", UserError(text + (&text != &headers.other_size.front() ? "" : how_to_resize(found.train->sample_extents())),
                                Exit::data));
  if (data.damaged == Damaged::error)
    for (const DamagedPicture& one : damaged)
      complain("/path", UserError(one.why + (&one == &damaged.front() ? damaged_advice(data.damaged) : ""), Exit::data));
  lines.push_back("data: " + found.listing.text());
  if (const std::string counts = text_of(headers.counts); !counts.empty()) lines.push_back("data: " + counts);
  if (!damaged.empty() && data.damaged == Damaged::skip) {
    lines.push_back("data: " + skipped_text(damaged, found.samples()) + (depth == Depth::samples ? "" : ", by their headers"));
    found = open_folder(data.path, expected, {data.resize, names_of(damaged)});
  }
  return {found.train, found.test};
}

// Which samples are trained on and which are evaluated.
std::string samples_text(const DataOptions& data, const Datasets& all, Depth depth) {
  const std::string test = data.kind == DataKind::folder ? test_folder(data.path) : "the test part";
  std::string out = fmt::format("trains on {} samples", all.train->samples());
  if (all.validation) out += fmt::format("; evaluates the {} of the validation part during training", all.validation->samples());
  if (all.test)
    out += fmt::format("{}evaluates the {} of {}", all.validation ? ", `motley eval` " : "; ", all.test->samples(), test);
  if (!all.test && !all.validation)
    out +=
        "; evaluates nothing" + std::string(data.kind == DataKind::folder ? ": there is no folder test or val beside train" : "");
  if (data.kind == DataKind::folder && data.damaged == Damaged::skip && depth != Depth::samples)
    out += "; fewer where pictures cannot be decoded";
  return out;
}

// Class by class, the number of samples of each part. Nothing: samples have no class, or there are too many to look at each.
std::vector<std::string> class_table(const Datasets& all) {
  constexpr Index kMostSamples = 1 << 21;
  const Dataset& train = *all.train;
  if (train.label_dtype() != DType::i32 || !train.label_extents().empty() || train.samples() > kMostSamples) return {};
  std::vector<std::string> names = train.class_names();
  for (Index k = static_cast<Index>(names.size()); k < train.classes(); k++) names.push_back(std::to_string(k));
  std::size_t width = 5;
  for (const std::string& name : names) width = std::max(width, characters(name, 0, name.size()));
  const auto row = [&](const std::string& name) {
    return "  " + name + std::string(width - characters(name, 0, name.size()), ' ');
  };
  std::vector<std::string> out{row("class")};
  for (const std::string& name : names) out.push_back(row(name));
  for (const auto& [name, part] : {std::pair{"train", all.train}, {"validation", all.validation}, {"test", all.test}}) {
    if (!part) continue;
    std::vector<Index> counts(names.size());
    for (Index n = 0; n < std::min(part->samples(), kMostSamples); n++)
      if (const Index label = part->label(n); label >= 0 && label < static_cast<Index>(counts.size())) at(counts, label)++;
    out.front() += fmt::format("{:>12}", name);
    for (std::size_t k = 0; k < counts.size(); k++) out[k + 1] += fmt::format("{:>12}", counts[k]);
  }
  return out;
}

// The key that names the file which the error is about.
std::string pointer_of(const DataOptions& data, const std::string& error) {
  const auto about = [&](const std::string& file) { return !file.empty() && error.starts_with(file + ":"); };
  for (const auto& [key, file] : {std::pair{"/test_path", &data.test_path},
                                  {"/images", &data.images},
                                  {"/labels", &data.labels},
                                  {"/test_images", &data.test_images},
                                  {"/test_labels", &data.test_labels}})
    if (about(*file)) return key;
  for (const auto& [key, files] : {std::pair{"/inputs/", &data.inputs}, {"/test_inputs/", &data.test_inputs}})
    for (const auto& [name, file] : *files)
      if (about(file)) return key + name;
  return "/path";
}

// Reads every sample: what is wrong with values appears only then.
void read_samples(const DataOptions& data, const Datasets& all, const Complain& complain) {
  for (const auto& part : {all.train, all.test}) {
    if (!part) continue;
    const auto wrong = unreadable(
        {0, part->samples()}, 1, [&](Index n) { read_whole(*part, n); }, allowed_cores());
    for (const Unreadable& one : wrong) complain(pointer_of(data, one.why), UserError(one.why, Exit::data));
  }
}

// Labels per pixel move with their pixels.
void check_pixel_labels(Reader& r, const Json& tree, const DataOptions& data, const SampleKind& expected) {
  const bool own_labels = data.kind == DataKind::npy || data.kind == DataKind::synthetic;  // each element's; else one for all
  if (data.augment.any() && own_labels && expected.label_extents.size() >= 2) {
    if (!expected.label_per_pixel)
      complain_below(r, tree, "/augment",
                     "augmentation moves labels with the image, but the last two dims of these labels are not its rows and "
                     "columns; leave \"augment\" out");
    else if (data.augment.crop_padding > 0 && !expected.ignored)
      complain_below(r, tree, "/augment/crop_padding",
                     "padding pixels have no label; give a softmax_cross_entropy an \"ignore_index\", which becomes their label, "
                     "or leave this out (flip alone needs none)");
  }
}

// The files of the model's further inputs.
void check_inputs(Reader& r, const Json& tree, const DataOptions& data, const SampleKind& expected) {
  if (data.kind != DataKind::npy) {
    if (!expected.further.empty() && data.kind != DataKind::synthetic)
      complain_below(r, tree, "/kind",
                     "the model has further inputs (\"" + expected.further.front().input + "\"), which " + to_string(data.kind) +
                         " data does not have; npy and synthetic do");
    return;
  }
  for (const auto& [key, files] : {std::pair{"/inputs", &data.inputs}, {"/test_inputs", &data.test_inputs}}) {
    if (key == std::string("/test_inputs") && data.test_images.empty()) {
      if (!files->empty()) complain_below(r, tree, key, "these belong to \"test_images\", which are not given");
      continue;
    }
    for (const SampleKind& its : expected.further)
      if (!files->contains(its.input))
        complain_below(r, tree, "",
                       "the model's input \"" + its.input + "\" has no file; expected \"" + (key + 1) + "\": { \"" + its.input +
                           "\": \"FILE.npy\" }");
    for (const auto& file : *files) {
      const std::string& name = file.first;
      if (std::none_of(expected.further.begin(), expected.further.end(), [&](const SampleKind& k) { return k.input == name; }))
        complain_below(r, tree, key + ("/" + name), "the model has no further input \"" + name + "\"");
    }
  }
}

}  // namespace

void check_changes(Reader& r, const Json& tree, const DataOptions& data, const SampleKind& expected) {
  const std::vector<Index>& extents = expected.extents;
  if (expected.dtype == DType::i32 && !data.normalize.mean.empty())
    complain_below(r, tree, "/normalize",
                   "the model's first input holds integers, which are not normalized; leave \"normalize\" out");
  else if (const std::size_t count = data.normalize.mean.size();
           count > 1 && (extents.empty() || extents.front() != static_cast<Index>(count)))
    complain_below(r, tree, "/normalize/mean",
                   "expected a number for each of the " + std::to_string(extents.empty() ? 1 : extents.front()) +
                       " channels of the model's input (its first dim after the batch), or one for all; found " +
                       std::to_string(count));
  if (data.augment.any() && extents.size() < 2)
    complain_below(r, tree, "/augment",
                   "augmentation needs images: the model's input has no rows and columns; leave \"augment\" out");
  if (data.augment.crop_padding > 0 && extents.size() >= 2)
    if (const Index least = std::min(extents[extents.size() - 2], extents.back()); data.augment.crop_padding >= least)
      complain_below(r, tree, "/augment/crop_padding",
                     std::to_string(data.augment.crop_padding) + " pixels around images of " +
                         std::to_string(extents[extents.size() - 2]) + " x " + std::to_string(extents.back()) +
                         ": some crops would have nothing of the image; expected less than " + std::to_string(least));
  if (data.augment.random_crop && data.kind != DataKind::folder)
    complain_below(r, tree, "/augment/random_crop",
                   "crops are taken from pictures as their files have them, which " + to_string(data.kind) +
                       " data does not have; expected folder data, or \"crop_padding\"");
  if (data.resize.rows > 0 && extents.size() == 3 && (data.resize.rows != extents[1] || data.resize.cols != extents[2]))
    complain_below(r, tree, "/resize",
                   "pictures become " + std::to_string(data.resize.rows) + " x " + std::to_string(data.resize.cols) +
                       ", the model's input has " + std::to_string(extents[1]) + " x " + std::to_string(extents[2]) +
                       " (rows, columns)");
  check_pixel_labels(r, tree, data, expected);
  check_inputs(r, tree, data, expected);
}

DataReport check_files(Reader& r, const Json& tree, const DataOptions& data, const SampleKind& expected, std::uint64_t seed,
                       Depth depth) {
  DataReport out;
  const std::size_t before = r.complaints.list.size();
  const Complain complain = [&](const std::string& pointer, const UserError& e) {
    complain_below(r, tree, pointer, e.what(), e.code());
  };
  if (depth == Depth::samples) r.complaints.most_printed = std::numeric_limits<std::size_t>::max();
  try {
    if (data.kind == DataKind::tokens && expected.extents.size() != 1) return out;
    if (data.kind == DataKind::synthetic && (data.validation == 0 || expected.any_samples)) return out;
    Datasets all = data.kind == DataKind::folder ? load_pictures(data, expected, depth, complain, out.lines)
                                                 : load_checked(data, expected, complain);
    if (r.complaints.list.size() != before) return {};
    if (depth == Depth::samples && data.kind != DataKind::folder) read_samples(data, all, complain);
    if (data.validation > 0) try {
        all = with_validation(std::move(all), data.validation, seed);
      } catch (const UserError& e) {
        complain("/validation", e);
      }
    if (r.complaints.list.size() != before) return {};
    out.samples = all.train->samples();
    out.lacks_test = !all.test && !all.validation;
    out.lines.push_back("data: " + samples_text(data, all, depth));
    out.classes = class_table(all);
  } catch (const UserError& e) {
    complain(pointer_of(data, e.what()), e);
  }
  return out;
}

}  // namespace motley
