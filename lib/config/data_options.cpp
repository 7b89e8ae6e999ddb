// SPDX-License-Identifier: Apache-2.0
#include "config/data_options.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>

#include "train/data_files.h"
#include "train/npy_data.h"

namespace motley {

namespace {

const std::vector<std::string> kDataKinds{"fashion_mnist", "mnist", "cifar10", "synthetic", "npy", "folder", "tokens"};
const std::vector<std::string> kTokenTypes{"u16", "u32"};

// Keys that not all kinds have.
const std::map<std::string, std::vector<DataKind>>& kinds_of_keys() {
  using enum DataKind;
  static const std::map<std::string, std::vector<DataKind>> table{
      {"path", {fashion_mnist, mnist, cifar10, folder, tokens}},
      {"samples", {synthetic}},
      {"images", {npy}},
      {"labels", {npy}},
      {"test_images", {npy}},
      {"test_labels", {npy}},
      {"inputs", {npy}},
      {"test_inputs", {npy}},
      {"type", {tokens}},
      {"test_path", {tokens}},
      {"normalize", {fashion_mnist, mnist, cifar10, synthetic, npy, folder}},
      {"augment", {fashion_mnist, mnist, cifar10, synthetic, npy, folder}}};
  return table;
}

Field<Normalize> numbers_field(const char* name, const char* doc, std::vector<double> Normalize::*member,
                               const Interval<double>& each) {
  return {name, doc, "list", true, [member, each](Reader& r, const Json& j, Normalize& n) {
            r.list(j, [&](const Json& one, std::size_t) { r.number(one, (n.*member).emplace_back(), each); });
          }};
}

const Table<Normalize>& normalize_table() {
  static const Table<Normalize> table{
      numbers_field("mean", "mean that is subtracted, per channel or one for all", &Normalize::mean,
                    {.least = -1e300, .most = 1e300}),
      numbers_field("std", "standard deviation by which the difference is divided, per channel or one for all",
                    &Normalize::deviation, {.most = 1e300, .above = true})};
  return table;
}

const Table<Augment>& augment_table() {
  static const Table<Augment> table{
      boolean_field("flip", "horizontal flip with probability 1/2", &Augment::flip),
      {"crop_padding",
       "random shift by up to this many rows and columns; zeros fill the border",
       "integer",
       false,
       [](Reader& r, const Json& j, Augment& a) { r.integer(j, a.crop_padding, 0, Augment::kMostCropPadding); },
       {},
       std::int64_t{0}}};
  return table;
}

void read_normalize(Reader& r, const Json& j, Normalize& normalize) {
  const std::size_t before = r.complaints.list.size();
  r.object(j, normalize_table(), normalize);
  if (r.complaints.list.size() != before) return;
  if (normalize.mean.empty()) r.in("mean", [&] { r.complain(*j.find("mean"), "expected a number for each channel"); });
  if (normalize.mean.size() != normalize.deviation.size())
    r.in("std", [&] {
      r.complain(*j.find("std"), "expected as many numbers as \"mean\" has (" + std::to_string(normalize.mean.size()) +
                                     "), found " + std::to_string(normalize.deviation.size()));
    });
}

Field<DataOptions> inputs_field(const char* name, const char* doc, std::map<std::string, std::string> DataOptions::*member) {
  return {name,
          doc,
          "object: name -> text",
          false,
          [member](Reader& r, const Json& j, DataOptions& data) {
            const auto* files = std::get_if<Json::Object>(&j.value);
            if (files == nullptr)
              return r.complain(j, "expected an object with a file for each further input of the model, found " + Reader::kind(j));
            for (const Json::Member& file : *files) r.in(file.key, [&] { read_path(r, file.value, (data.*member)[file.key]); });
          },
          schema_of_map(schema_of_type("text"))};
}

TokenFiles token_files(const DataOptions& data) {
  return {data.path, data.test_path, data.type};
}

NpyFiles npy_files(const DataOptions& data) {
  NpyFiles files{data.images, data.labels, data.test_images, data.test_labels};
  files.inputs.insert(data.inputs.begin(), data.inputs.end());
  files.test_inputs.insert(data.test_inputs.begin(), data.test_inputs.end());
  return files;
}

using Complain = std::function<void(const std::string& pointer, const UserError& error)>;  // of the data's tree

// As load_data(), plus faults that appear only when files are read through. Errors are thrown, or given to `complain`.
Datasets load_checked(const DataOptions& data, const SampleKind& expected, const Complain& complain) {
  if (data.kind == DataKind::folder) {
    std::vector<std::string> wrong;
    Datasets out = check_folder(data.path, expected, wrong);
    for (const std::string& text : wrong) complain("/path", UserError(text, Exit::data));
    return out;
  }
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
  Datasets out = load_data(data, expected, 0, 0);
  if (const auto found = out.train->sample_extents(); !expected.extents.empty() && found != expected.extents)
    throw UserError(
        data.path + ": samples of the sizes " + sizes_text(found) + ", the model's input has " + sizes_text(expected.extents),
        Exit::data);
  return out;
}

}  // namespace

std::string sizes_text(const std::vector<Index>& extents) {
  std::string out;
  for (const Index n : extents) out += (out.empty() ? "" : " x ") + std::to_string(n);
  return out;
}

std::string to_string(DataKind kind) {
  return kDataKinds[static_cast<std::size_t>(kind)];
}

Table<DataOptions> data_table(VersionKey version) {
  return {
      version_field<DataOptions>(version),
      word_field("kind", "fashion_mnist, mnist, cifar10, synthetic, npy, folder or tokens", &DataOptions::kind, kDataKinds, true),
      path_field("path",
                 "the folder of its files; fashion_mnist: by default where its Debian package installs them; folder: holds "
                 "train/CLASS/*.png or *.jpg, and test/ likewise; tokens: the file itself",
                 &DataOptions::path),
      {"samples", "synthetic: number of samples; default: 8 batches", "integer", false,
       [](Reader& r, const Json& j, DataOptions& d) { r.integer(j, d.samples, 1, Index{1} << 40); }},
      path_field("images", "npy: a .npy file [samples, channels, rows, cols] of floats (as they are) or u8 (scaled to 0..1)",
                 &DataOptions::images),
      path_field("labels",
                 "npy: a .npy file [samples], or with the labels' further dims, of integers from 0; for mean_squared_error and "
                 "binary_cross_entropy: with all dims of the labels, floats or integers, used as they are",
                 &DataOptions::labels),
      path_field("test_images", "npy: test samples, in the form of images; without them nothing is evaluated",
                 &DataOptions::test_images),
      path_field("test_labels", "npy: the labels of test_images", &DataOptions::test_labels),
      inputs_field("inputs", "npy: the files of the model's inputs after the first, by input name, in the form of images",
                   &DataOptions::inputs),
      inputs_field("test_inputs", "npy: the same for test_images", &DataOptions::test_inputs),
      word_field("type", "tokens: integer type of a token in the file, little-endian", &DataOptions::type, kTokenTypes),
      path_field("test_path", "tokens: the file to evaluate on; default: the last tenth of `path`", &DataOptions::test_path),
      {"normalize", "(value - mean) / std, in training, evaluation and prediction, as { \"mean\": [0.5], \"std\": [0.25] }",
       "object", false, [](Reader& r, const Json& j, DataOptions& d) { read_normalize(r, j, d.normalize); },
       object_schema(normalize_table())},
      {"augment", "random augmentation of training samples, as { \"flip\": true, \"crop_padding\": 4 }", "object", false,
       [](Reader& r, const Json& j, DataOptions& d) { r.object(j, augment_table(), d.augment); }, object_schema(augment_table())}};
}

const std::vector<std::string>& data_paths() {
  static const std::vector<std::string> keys{"path",        "images", "labels",      "test_images",
                                             "test_labels", "inputs", "test_inputs", "test_path"};
  return keys;
}

std::optional<DataOptions> read_data(Reader& r, const Json& j, VersionKey version) {
  DataOptions data;
  const std::size_t before = r.complaints.list.size();
  const Table<DataOptions> table = data_table(version);
  r.object(j, table, data);
  if (r.complaints.list.size() != before) return std::nullopt;
  const std::string kind = to_string(data.kind);
  for (const auto& [key, kinds] : kinds_of_keys()) {
    const Json* given = j.find(key);
    if (given == nullptr || std::find(kinds.begin(), kinds.end(), data.kind) != kinds.end()) continue;
    std::string text = "\"" + key + "\" is a key of " + (kinds.size() > 1 ? "other kinds" : to_string(kinds.front()) + " data");
    if (key == "samples") text = kind + " has its own number of samples; " + text;
    if (key == "path" && data.kind == DataKind::synthetic)
      text = "synthetic data is generated; \"path\" is a key of the other kinds";
    r.in(key, [&] { r.complain(*given, text); });
  }
  const auto needs = [&](const std::string& key, const std::string& what) {
    if (Reader::lacks(j, Reader::names_of(table), {key})) r.complain(j, "\"" + key + "\" is missing (" + what + ")");
  };
  if (data.kind == DataKind::mnist || data.kind == DataKind::cifar10 || data.kind == DataKind::folder)
    needs("path", "the folder of its files");
  if (data.kind == DataKind::tokens) needs("path", "the file of its tokens");
  if (data.kind == DataKind::npy) {
    needs("images", "a .npy file [samples, channels, rows, cols]");
    needs("labels", "a .npy file [samples]");
    if (!data.test_labels.empty()) needs("test_images", "\"test_labels\" are given");
    if (!data.test_images.empty()) needs("test_labels", "\"test_images\" are given");
  }
  if (r.complaints.list.size() != before) return std::nullopt;
  return data;
}

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
    for (const auto& [name, file] : *files)
      if (std::none_of(expected.further.begin(), expected.further.end(), [&](const SampleKind& k) { return k.input == name; }))
        complain_below(r, tree, key + ("/" + name), "the model has no further input \"" + name + "\"");
  }
}

std::optional<Index> check_files(Reader& r, const Json& tree, const DataOptions& data, const SampleKind& expected) {
  if (data.kind == DataKind::synthetic || (data.kind == DataKind::tokens && expected.extents.size() != 1)) return std::nullopt;
  const std::size_t before = r.complaints.list.size();
  try {
    const Datasets all = load_checked(data, expected, [&](const std::string& pointer, const UserError& e) {
      complain_below(r, tree, pointer, e.what(), e.code());
    });
    if (r.complaints.list.size() == before) return all.train->samples();
  } catch (const UserError& e) {
    const bool test = !data.test_path.empty() && std::string_view(e.what()).starts_with(data.test_path + ":");
    complain_below(r, tree, test ? "/test_path" : "/path", e.what(), e.code());
  }
  return std::nullopt;
}

bool has_test_part(const DataOptions& data) {
  if (data.kind == DataKind::npy) return !data.test_images.empty();
  std::error_code unreadable;
  return data.kind != DataKind::folder || std::filesystem::is_directory(data.path + "/test", unreadable);
}

Datasets load_data(const DataOptions& data, const SampleKind& expected, Index samples, std::uint64_t seed) {
  switch (data.kind) {
    case DataKind::fashion_mnist: return load_fashion_mnist(data.path);
    case DataKind::mnist: return load_mnist(data.path);
    case DataKind::cifar10: return load_cifar10(data.path);
    case DataKind::npy: return load_npy(npy_files(data), expected);
    case DataKind::folder: return load_folder(data.path, expected);
    case DataKind::tokens: return load_tokens(token_files(data), expected);
    case DataKind::synthetic: break;
  }
  return synthetic(expected, data.samples > 0 ? data.samples : samples, seed);
}

}  // namespace motley
