// SPDX-License-Identifier: Apache-2.0
#include "config/data_options.h"

#include <algorithm>
#include <map>
#include <utility>

#include "train/folder.h"
#include "train/folder_listing.h"

namespace motley {

namespace {

const std::vector<std::string> kDataKinds{"fashion_mnist", "mnist", "cifar10", "synthetic", "npy", "folder", "tokens"};
const std::vector<std::string> kTokenTypes{"u16", "u32"};
const std::vector<std::string> kDamaged{"error", "skip"};

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
      {"resize", {folder}},
      {"damaged", {folder}},
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

// Two numbers, the smaller one first.
Field<RandomCrop> bounds_field(const char* name, const char* doc, std::pair<double RandomCrop::*, double RandomCrop::*> ends,
                               const Interval<double>& each) {
  return {name,
          doc,
          "list",
          false,
          [ends, each](Reader& r, const Json& j, RandomCrop& crop) {
            std::vector<double> found;
            const std::size_t before = r.complaints.list.size();
            if (!r.list(j, [&](const Json& one, std::size_t) { r.number(one, found.emplace_back(), each); })) return;
            if (r.complaints.list.size() != before) return;
            if (found.size() != 2 || found[0] > found[1]) return r.complain(j, "expected two numbers, the smaller one first");
            crop.*ends.first = found[0];
            crop.*ends.second = found[1];
          },
          schema_of_list(schema_of_type("number")),
          Json(Json::Array{RandomCrop{}.*ends.first, RandomCrop{}.*ends.second})};
}

const Table<RandomCrop>& random_crop_table() {
  static const Table<RandomCrop> table{
      bounds_field("scale", "least and largest share of the picture's area", {&RandomCrop::least_area, &RandomCrop::most_area},
                   {.most = 1, .above = true}),
      bounds_field("ratio", "least and largest ratio of columns to rows", {&RandomCrop::least_ratio, &RandomCrop::most_ratio},
                   {.most = 1e6, .above = true})};
  return table;
}

constexpr Index kMostEdge = Index{1} << 16;

// One number for both edges, or [rows, cols].
bool read_edges(Reader& r, const Json& j, Index& rows, Index& cols) {
  if (!std::holds_alternative<Json::Array>(j.value)) {
    if (!r.integer(j, rows, 1, kMostEdge)) return false;
    cols = rows;
    return true;
  }
  const std::size_t before = r.complaints.list.size();
  std::vector<Index> edges;
  r.list(j, [&](const Json& one, std::size_t) { r.integer(one, edges.emplace_back(), 1, kMostEdge); });
  if (r.complaints.list.size() != before) return false;
  if (edges.size() != 2)
    return r.complain(j, "expected [rows, columns], found " + std::to_string(edges.size()) + " numbers"), false;
  rows = edges[0];
  cols = edges[1];
  return true;
}

Json edges_schema() {
  return schema_of_any({schema_of_type("integer"), schema_of_list(schema_of_type("integer"))});
}

const Table<Resize>& shorter_table() {
  static const Table<Resize> table{
      {"shorter", "pixels that the shorter edge is scaled to; the aspect is kept", "integer", true,
       [](Reader& r, const Json& j, Resize& resize) { r.integer(j, resize.shorter, 1, kMostEdge); }},
      {"crop", "size of the middle that is taken of it: a number, or [rows, columns]", "integer or list", true,
       [](Reader& r, const Json& j, Resize& resize) { read_edges(r, j, resize.rows, resize.cols); }, edges_schema()}};
  return table;
}

void read_resize(Reader& r, const Json& j, Resize& resize) {
  if (!std::holds_alternative<Json::Object>(j.value)) {
    if (std::holds_alternative<Json::Array>(j.value) || std::holds_alternative<std::int64_t>(j.value) ||
        std::holds_alternative<double>(j.value))
      read_edges(r, j, resize.rows, resize.cols);
    else
      r.complain(j, "expected a number of pixels for both edges, [rows, columns] or { \"shorter\": 256, \"crop\": 224 }, found " +
                        Reader::kind(j));
    return;
  }
  const std::size_t before = r.complaints.list.size();
  r.object(j, shorter_table(), resize);
  if (const Index most = std::max(resize.rows, resize.cols); r.complaints.list.size() == before && resize.shorter < most)
    r.in("shorter", [&] {
      r.complain(*j.find("shorter"), "the crop of " + std::to_string(resize.rows) + " x " + std::to_string(resize.cols) +
                                         " does not fit into pictures whose shorter edge is " + std::to_string(resize.shorter) +
                                         "; expected at least " + std::to_string(most));
    });
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
       std::int64_t{0}},
      {"random_crop", "a random part of each picture, scaled to the input's size, in the place of `resize` (folder)", "object",
       false,
       [](Reader& r, const Json& j, Augment& a) {
         if (!std::holds_alternative<Json::Object>(j.value))
           return r.complain(j, "expected { \"scale\": [0.08, 1], \"ratio\": [0.75, 1.33] }, or {} for these, found " + to_text(j));
         r.object(j, random_crop_table(), a.random_crop.emplace());
       },
       object_schema(random_crop_table())}};
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

}  // namespace

TokenFiles token_files(const DataOptions& data) {
  return {data.path, data.test_path, data.type};
}

NpyFiles npy_files(const DataOptions& data) {
  NpyFiles files{data.images, data.labels, data.test_images, data.test_labels};
  files.inputs.insert(data.inputs.begin(), data.inputs.end());
  files.test_inputs.insert(data.test_inputs.begin(), data.test_inputs.end());
  return files;
}

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
                 "train/CLASS/*.png or *.jpg, and test/ (or val/) likewise; tokens: the file itself",
                 &DataOptions::path),
      {"samples", "synthetic: number of samples; default: 8 batches", "integer", false,
       [](Reader& r, const Json& j, DataOptions& d) { r.integer(j, d.samples, 1, Index{1} << 40); }},
      path_field("images", "npy: a .npy file [samples, channels, rows, cols] of floats (as they are) or u8 (scaled to 0..1)",
                 &DataOptions::images),
      path_field("labels",
                 "npy: a .npy file [samples], or with the labels' further dims, of integers from 0; for losses other than "
                 "softmax_cross_entropy: with all dims of the labels, floats or integers, used as they are",
                 &DataOptions::labels),
      path_field("test_images", "npy: test samples, in the form of images; without them nothing is evaluated",
                 &DataOptions::test_images),
      path_field("test_labels", "npy: the labels of test_images", &DataOptions::test_labels),
      inputs_field("inputs", "npy: the files of the model's inputs after the first, by input name, in the form of images",
                   &DataOptions::inputs),
      inputs_field("test_inputs", "npy: the same for test_images", &DataOptions::test_inputs),
      word_field("type", "tokens: integer type of a token in the file, little-endian", &DataOptions::type, kTokenTypes),
      path_field("test_path", "tokens: the file to evaluate on; default: the last tenth of `path`", &DataOptions::test_path),
      {"resize",
       "folder: how pictures of any size become samples: one number for both edges, [rows, columns] (the aspect is not kept), or { "
       "\"shorter\": 256, \"crop\": 224 }; default: all pictures have the input's size",
       "integer, list or object", false, [](Reader& r, const Json& j, DataOptions& d) { read_resize(r, j, d.resize); },
       schema_of_any({schema_of_type("integer"), schema_of_list(schema_of_type("integer")), object_schema(shorter_table())})},
      word_field("damaged", "folder: what a picture that cannot be decoded does: it ends the run, or is skipped",
                 &DataOptions::damaged, kDamaged),
      {"validation", "share of each class's training samples that is not trained on, but evaluated during training, as 0.1",
       "number", false,
       [](Reader& r, const Json& j, DataOptions& d) {
         r.number(j, d.validation,
                  {.least = 0, .most = 1, .above = true, .below = true, .otherwise = "without it all are trained on"});
       }},
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

bool is_evaluated(const DataOptions& data) {
  if (data.validation > 0) return true;
  if (data.kind == DataKind::npy) return !data.test_images.empty();
  return data.kind != DataKind::folder || !test_folder(data.path).empty();
}

std::string damaged_advice(Damaged damaged) {
  return damaged == Damaged::error ? "; \"damaged\": \"skip\" would leave such pictures out" : "";
}

Datasets load_data(const DataOptions& data, const SampleKind& expected, Index samples, std::uint64_t seed,
                   const std::vector<std::string>& without) {
  const auto load = [&]() -> Datasets {
    switch (data.kind) {
      case DataKind::fashion_mnist: return load_fashion_mnist(data.path);
      case DataKind::mnist: return load_mnist(data.path);
      case DataKind::cifar10: return load_cifar10(data.path);
      case DataKind::npy: return load_npy(npy_files(data), expected);
      case DataKind::folder: {
        const FolderData all = open_folder(data.path, expected, {data.resize, without}, damaged_advice(data.damaged));
        return {all.train, all.test};
      }
      case DataKind::tokens: return load_tokens(token_files(data), expected);
      case DataKind::synthetic: break;
    }
    return synthetic(expected, data.samples > 0 ? data.samples : samples, seed);
  };
  Datasets out = load();
  return data.validation > 0 ? with_validation(std::move(out), data.validation, seed) : out;
}

}  // namespace motley
