// SPDX-License-Identifier: Apache-2.0
#include <motley/dims.h>
#include <motley/error.h>

#include <algorithm>
#include <set>

#include "base/foreign_words.h"

namespace motley {

Shape::Shape(std::vector<Dim> dims) : dims_(std::move(dims)) {
  std::set<std::string> seen;
  double elements = 1;
  for (const Dim& d : dims_) {
    if (!is_name(d.name))
      throw UserError("\"" + d.name + "\" is not a valid dim name: letters, digits, _ and -, a letter or _ first");
    if (!seen.insert(d.name).second) throw UserError("dim \"" + d.name + "\" is listed twice in one shape");
    if (d.size < 0) throw UserError("dim \"" + d.name + "\" has the size " + std::to_string(d.size));
    elements *= static_cast<double>(d.size);
  }
  if (elements > 9007199254740992.0) throw UserError("a tensor of more than 2^53 elements");
}

std::optional<std::size_t> Shape::find(const std::string& name) const {
  for (std::size_t i = 0; i < dims_.size(); i++)
    if (dims_[i].name == name) return i;
  return std::nullopt;
}

std::size_t Shape::position(const std::string& name) const {
  if (auto at = find(name)) return *at;
  std::vector<std::string> known;
  for (const Dim& d : dims_) known.push_back(d.name);
  throw UserError("no dim \"" + name + "\" here" + did_you_mean(name, known));
}

Index Shape::elements() const {
  Index n = 1;
  for (const Dim& d : dims_) n *= d.size;
  return n;
}

Range intersect(Range a, Range b) {
  Range r{std::max(a.begin, b.begin), std::min(a.end, b.end)};
  if (r.end < r.begin) r.end = r.begin;
  return r;
}

Box intersect(const Box& a, const Box& b) {
  check(a.size() == b.size(), "boxes of one tensor have one rank");
  Box out(a.size());
  for (std::size_t i = 0; i < a.size(); i++) out[i] = intersect(a[i], b[i]);
  return out;
}

Index volume(const Box& box) {
  Index n = 1;
  for (const Range& r : box) n *= r.size();
  return n;
}

bool contains(const Box& outer, const Box& inner) {
  if (volume(inner) == 0) return true;
  check(outer.size() == inner.size(), "boxes of one tensor have one rank");
  for (std::size_t i = 0; i < outer.size(); i++)
    if (inner[i].begin < outer[i].begin || inner[i].end > outer[i].end) return false;
  return true;
}

Box hull(const Box& a, const Box& b) {
  if (volume(a) == 0) return b;
  if (volume(b) == 0) return a;
  check(a.size() == b.size(), "boxes of one tensor have one rank");
  Box out(a.size());
  for (std::size_t i = 0; i < a.size(); i++) out[i] = {std::min(a[i].begin, b[i].begin), std::max(a[i].end, b[i].end)};
  return out;
}

Box whole(const Shape& shape) {
  Box box;
  for (const Dim& d : shape.dims()) box.push_back({0, d.size});
  return box;
}

std::string to_string(const Box& box) {
  std::string text;
  for (const Range& r : box) text += (text.empty() ? "[" : "x[") + std::to_string(r.begin) + "," + std::to_string(r.end) + ")";
  return text.empty() ? "[]" : text;
}

bool is_name(const std::string& text) {
  auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  if (text.empty() || !letter(text[0])) return false;
  return std::all_of(text.begin(), text.end(), [&](char c) { return letter(c) || (c >= '0' && c <= '9') || c == '-'; });
}

bool is_layer_name(const std::string& text) {
  bool number = false;
  int parts = 0;
  for (std::size_t begin = 0; begin <= text.size(); parts++) {
    const std::size_t end = std::min(text.find('.', begin), text.size());
    const std::string part = text.substr(begin, end - begin);
    const bool digits = begin > 0 && !part.empty() && part.find_first_not_of("0123456789") == std::string::npos;
    if (!digits && !is_name(part)) return false;
    number = number || digits;
    begin = end + 1;
  }
  return number || parts > 2 || is_name(text);
}

namespace {
// Levenshtein's distance with transpositions.
std::size_t distance(const std::string& a, const std::string& b) {
  std::vector<std::vector<std::size_t>> d(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); i++)
    for (std::size_t j = 0; j <= b.size(); j++) {
      if (i == 0 || j == 0) {
        d[i][j] = i + j;
        continue;
      }
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0U : 1U)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  return d[a.size()][b.size()];
}
}  // namespace

std::string probably_meant(const std::string& wrong, const std::vector<std::string>& right) {
  if (const auto foreign = foreign_word(wrong, right)) return foreign->meant;
  if (wrong.size() > 200) return "";
  std::size_t best = std::max<std::size_t>(1, wrong.size() / 3) + 1;
  std::string near;
  for (const std::string& r : right) {
    if (r == wrong || std::max(r.size(), wrong.size()) - std::min(r.size(), wrong.size()) >= best) continue;
    if (const std::size_t d = distance(wrong, r); d < best) {
      best = d;
      near = r;
    }
  }
  return near;
}

std::string did_you_mean(const std::string& wrong, const std::vector<std::string>& right) {
  if (const std::string meant = probably_meant(wrong, right); !meant.empty()) return "; did you mean \"" + meant + "\"?";
  constexpr std::size_t kMostNamed = 100;
  std::string known;
  for (std::size_t i = 0; i < std::min(right.size(), kMostNamed); i++) known += (i == 0 ? "" : ", ") + right[i];
  if (right.size() > kMostNamed) known += " and " + std::to_string(right.size() - kMostNamed) + " more";
  return known.empty() ? "" : " (known: " + known + ")";
}

}  // namespace motley
