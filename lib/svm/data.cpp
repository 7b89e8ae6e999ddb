// SPDX-License-Identifier: Apache-2.0
// Samples in libsvm's text format, and in .npy arrays.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <motley/svm.h>

#include <charconv>
#include <cmath>
#include <limits>
#include <string_view>

#include "base/files.h"
#include "base/npy.h"
#include "base/utf8.h"
#include "svm/text.h"

namespace motley::svm {

namespace {

constexpr Index kMostIndex = std::numeric_limits<std::int32_t>::max();

bool is_label(double value) {
  return value == std::nearbyint(value) && std::abs(value) <= 1e9;
}

}  // namespace

void complain(const Place& at, const std::string& text) {
  throw UserError(fmt::format("{}:{}:{}: error: {}", at.name, at.line, at.column, text), Exit::data);
}

std::optional<double> number_in(std::string_view word) {
  if (word.starts_with('+')) word.remove_prefix(1);
  double out = 0;
  const auto read = std::from_chars(word.data(), word.data() + word.size(), out);
  if (read.ec != std::errc() || read.ptr != word.data() + word.size() || word.empty()) return {};
  return out;
}

std::string_view Words::next() {
  while (at_ < line_.size() && (line_[at_] == ' ' || line_[at_] == '\t' || line_[at_] == '\r')) at_++;
  began_ = at_;
  while (at_ < line_.size() && line_[at_] != ' ' && line_[at_] != '\t' && line_[at_] != '\r') at_++;
  return line_.substr(began_, at_ - began_);
}

void read_entries(Words& words, Place at, Data& into) {
  Index before = 0;
  for (std::string_view word = words.next(); !word.empty(); word = words.next()) {
    at.column = words.column();
    const std::size_t colon = word.find(':');
    Index index = 0;
    const char* const end = word.data() + (colon == std::string_view::npos ? word.size() : colon);
    const auto read = std::from_chars(word.data(), end, index);
    if (colon == std::string_view::npos || read.ptr != end || end == word.data())
      complain(at, "expected INDEX:VALUE, found \"" + printable(word) + "\"");
    if (read.ec != std::errc() || index > kMostIndex)
      complain(at, fmt::format("the index {} is too large: at most {}", word.substr(0, colon), kMostIndex));
    if (index < 1) complain(at, fmt::format("the index {} is less than 1: indices begin at 1", index));
    if (index <= before) complain(at, fmt::format("the index {} follows {}: indices must ascend within a line", index, before));
    const std::optional<double> value = number_in(word.substr(colon + 1));
    at.column += static_cast<Index>(colon) + 1;
    if (!value) complain(at, "expected a number, found \"" + printable(word.substr(colon + 1)) + "\"");
    if (!std::isfinite(*value)) complain(at, fmt::format("the value {} is not finite", word.substr(colon + 1)));
    before = index;
    into.features = std::max(into.features, index);
    if (*value == 0) continue;
    into.columns.push_back(static_cast<std::int32_t>(index - 1));
    into.values.push_back(*value);
  }
  into.offsets.push_back(static_cast<Index>(into.values.size()));
}

Data Data::parse(const std::string& name, const std::string& text) {
  Data out;
  Lines lines(text);
  for (Place at{name, 0, 1}; auto line = lines.next();) {
    at.line++;
    at.column = 1;
    Words words(*line);
    const std::string_view label = words.next();
    at.column = words.column();
    if (label.empty() || label.find(':') != std::string_view::npos) complain(at, "no label; expected LABEL INDEX:VALUE ...");
    const std::optional<double> value = number_in(label);
    if (!value || !is_label(*value))
      complain(at, "expected a label (an integer that names the class), found \"" + printable(label) + "\"");
    out.labels.push_back(*value);
    read_entries(words, at, out);
  }
  if (out.labels.empty()) throw UserError(name + ": no samples; expected lines LABEL INDEX:VALUE ...", Exit::data);
  return out;
}

Data Data::load(const std::filesystem::path& file) {
  const InputFile in(file);
  return parse(file.string(), in.text());
}

namespace {

std::vector<double> doubles_in(const NpyArray& array) {
  return std::visit([](const auto& values) { return std::vector<double>(values.begin(), values.end()); }, array.data);
}

std::string shape_of(const NpyArray& array) {
  return fmt::format("[{}]", fmt::join(array.extents, ", "));
}

void read_labels(const std::filesystem::path& file, Data& into) {
  const NpyArray array = read_npy(file);
  if (array.extents != std::vector<Index>{into.samples()})
    throw UserError(
        fmt::format("{}: labels of shape {}; expected [{}], one per sample", file.string(), shape_of(array), into.samples()),
        Exit::data);
  into.labels = doubles_in(array);
  for (std::size_t s = 0; s < into.labels.size(); s++)
    if (!is_label(into.labels[s]))
      throw UserError(fmt::format("{}: the label of sample {} is {}; expected an integer", file.string(), s, into.labels[s]),
                      Exit::data);
}

}  // namespace

Data Data::load_npy(const std::filesystem::path& file, const std::filesystem::path& labels) {
  const NpyArray array = read_npy(file);
  if (array.extents.size() != 2 || array.extents[0] < 1 || array.extents[1] < 1 || array.extents[1] > kMostIndex)
    throw UserError(fmt::format("{}: an array of shape {}; expected [samples, features]", file.string(), shape_of(array)),
                    Exit::data);
  const std::vector<double> values = doubles_in(array);
  Data out;
  out.features = array.extents[1];
  out.labels.assign(static_cast<std::size_t>(array.extents[0]), 0.0);
  for (Index s = 0, at = 0; s < array.extents[0]; s++) {
    for (Index c = 0; c < out.features; c++, at++) {
      const double value = values[static_cast<std::size_t>(at)];
      if (!std::isfinite(value))
        throw UserError(fmt::format("{}: the value [{}, {}] is not finite", file.string(), s, c), Exit::data);
      if (value == 0) continue;
      out.columns.push_back(static_cast<std::int32_t>(c));
      out.values.push_back(value);
    }
    out.offsets.push_back(static_cast<Index>(out.values.size()));
  }
  if (!labels.empty()) read_labels(labels, out);
  return out;
}

}  // namespace motley::svm
