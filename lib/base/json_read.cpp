// SPDX-License-Identifier: Apache-2.0
// Complaints with their lines, and the Reader that finds them.
#include <motley/dims.h>

#include <algorithm>
#include <cmath>

#include "base/foreign_words.h"
#include "base/json.h"
#include "base/utf8.h"

namespace motley {

namespace {

constexpr double kExact = 9007199254740992.0;  // 2^53: the integers that a double represents exactly
constexpr std::size_t kWindow = 100, kLongest = 200;

struct Position {
  std::size_t line = 1, column = 1;
  std::size_t begin = 0, end = 0;  // of the line, in bytes
};

Position position_of(const std::string& text, std::size_t byte) {
  byte = std::min(byte, text.size());
  Position p;
  p.line = static_cast<std::size_t>(std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(byte), '\n')) + 1;
  p.begin = byte == 0 ? 0 : text.rfind('\n', byte - 1) + 1;  // npos + 1 is 0
  p.end = std::min(text.find('\n', byte), text.size());
  if (p.begin == 0 && text.starts_with("\xEF\xBB\xBF") && byte >= 3) p.begin = 3;  // a byte order mark is not a character
  p.column = characters(text, p.begin, byte) + 1;
  return p;
}

// The line and a caret below it; for a long line the characters around the position.
std::string excerpt(const std::string& text, const Position& p) {
  std::size_t end = p.end;
  while (end > p.begin && printable(text.substr(end - 1, 1)) == " ") end--;
  const std::size_t all = characters(text, p.begin, end);
  std::size_t first = 0, last = all, caret = p.column - 1;
  if (all > kWindow) {
    first = caret > kWindow * 6 / 10 ? std::min(caret - kWindow * 6 / 10, all - kWindow) : 0;
    last = std::min(first + kWindow, all);
  }
  std::size_t begin = p.begin;
  for (std::size_t i = 0; i < first; i++) begin += std::max<std::size_t>(utf8_length(text, begin), 1);
  std::string line = first > 0 ? "..." : "";
  line += printable(first_characters(std::string_view(text).substr(begin, end - begin), last - first));
  if (last < all) line += "...";
  caret = caret - first + (first > 0 ? 3 : 0);
  return "  " + line + "\n  " + std::string(caret, ' ') + "^\n";
}

bool is_not_built(const std::string& word, const std::vector<std::string>& known) {
  const auto foreign = foreign_word(word, known);
  return foreign && foreign->meant.empty();
}

}  // namespace

void Complaints::add(Where where, std::string path, std::string text, Exit code) {
  list.push_back({std::move(where), std::move(path), std::move(text), code});
  if (list.size() >= kMost) raise();
}

std::string Complaints::print() const {
  std::vector<const Source*> files;  // in the order of their first complaints
  auto rank = [&](const One& one) {
    const auto at = std::find(files.begin(), files.end(), one.where.source.get());
    return std::pair(at - files.begin(), one.where.byte);
  };
  std::vector<const One*> sorted;
  for (const One& one : list) {
    if (std::find(files.begin(), files.end(), one.where.source.get()) == files.end()) files.push_back(one.where.source.get());
    sorted.push_back(&one);
  }
  std::stable_sort(sorted.begin(), sorted.end(), [&](const One* a, const One* b) { return rank(*a) < rank(*b); });
  std::string out;
  for (std::size_t i = 0; i < sorted.size(); i++) {
    if (i == most_printed) {
      out += "and " + std::to_string(sorted.size() - most_printed) + " more" +
             (sorted.size() < kMost ? "" : "; what follows was not read") + "\n";
      break;
    }
    const One& one = *sorted[i];
    const std::string said = (one.path.empty() ? "" : shortened(printable(one.path), kLongest) + ": ") + printable(one.text);
    if (one.where.source == nullptr) {
      out += "error: " + said + "\n";
      continue;
    }
    const Position p = position_of(one.where.source->text, one.where.byte);
    out += printable(one.where.source->name) + ":" + std::to_string(p.line) + ":" + std::to_string(p.column) + ": error: " + said +
           "\n";
    const bool shown = i > 0 && sorted[i - 1]->where.source == one.where.source && sorted[i - 1]->where.byte == one.where.byte;
    if (!shown) out += excerpt(one.where.source->text, p);
  }
  return out;
}

void Complaints::raise(std::optional<Exit> as) const {
  if (empty()) return;
  const Exit largest = std::max_element(list.begin(), list.end(), [](const One& a, const One& b) { return a.code < b.code; })->code;
  std::string text = print();
  text.pop_back();  // the caller that prints an error ends its line
  throw UserError(text, as.value_or(largest));
}

std::string pointer_token(const std::string& key) {
  std::string out;
  for (char c : key) out += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
  return out;
}

std::string Reader::kind(const Json& j) {
  if (const auto* b = std::get_if<bool>(&j.value)) return *b ? "true" : "false";
  if (const auto* s = std::get_if<std::string>(&j.value)) return "\"" + shortened(*s, 40) + "\"";
  if (std::holds_alternative<Json::Array>(j.value)) return "a list";
  if (std::holds_alternative<Json::Object>(j.value)) return "an object";
  if (std::holds_alternative<double>(j.value) && j.where.source != nullptr) {  // as written: with all digits
    const std::string& text = j.where.source->text;
    const std::size_t end = std::min(text.find_first_not_of("+-.0123456789eE", j.where.byte), text.size());
    if (end > j.where.byte) return shortened(text.substr(j.where.byte, end - j.where.byte), 40);
  }
  return to_text(j);  // a number or null
}

bool Reader::integer(const Json& j, std::int64_t& out, const Interval<std::int64_t>& expected) {
  std::optional<std::int64_t> v;
  if (const auto* i = std::get_if<std::int64_t>(&j.value)) v = *i;
  const auto* d = std::get_if<double>(&j.value);
  if (d != nullptr && std::floor(*d) == *d && std::abs(*d) <= kExact) v = static_cast<std::int64_t>(*d);  // 20e9
  if (!v || !expected.contains(*v)) {
    const bool exceeds = v ? *v > expected.most : d != nullptr && *d > kExact;
    const bool digits = d != nullptr && !v && *d >= static_cast<double>(expected.least) &&
                        *d < static_cast<double>(expected.most) && std::floor(*d) == *d;
    complain(j, mismatch(expected, kind(j), exceeds) + (digits ? "; above 2^53 it is written without a point or an exponent" : ""));
    return false;
  }
  out = *v;
  return true;
}

bool Reader::number(const Json& j, double& out, const Interval<double>& expected) {
  std::optional<double> v;
  if (const auto* i = std::get_if<std::int64_t>(&j.value)) v = static_cast<double>(*i);
  if (const auto* d = std::get_if<double>(&j.value)) v = *d;
  if (!v || !expected.contains(*v)) return complain(j, mismatch(expected, kind(j), v && *v > expected.most)), false;
  out = *v;
  return true;
}

bool Reader::boolean(const Json& j, bool& out) {
  if (const auto* b = std::get_if<bool>(&j.value)) return out = *b, true;
  return complain(j, "expected true or false, found " + kind(j)), false;
}

bool Reader::text(const Json& j, std::string& out, const std::vector<std::string>& allowed) {
  const auto* s = std::get_if<std::string>(&j.value);
  if (s == nullptr) return complain(j, "expected a string, found " + kind(j)), false;
  if (!allowed.empty() && !is_one_of(*s, allowed))
    return complain(j,
                    kind(j) + (is_not_built(*s, allowed) ? " is not built yet" : " is not known here") + did_you_mean(*s, allowed)),
           false;
  out = *s;
  return true;
}

bool Reader::name(const Json& j, std::string& out) {
  const auto* s = std::get_if<std::string>(&j.value);
  if (s == nullptr) return complain(j, "expected a name, found " + kind(j)), false;
  if (!is_name(*s)) return complain(j, kind(j) + " is not a valid name: letters, digits, _ and -, a letter or _ first"), false;
  out = *s;
  return true;
}

bool Reader::layer_name(const Json& j, std::string& out) {
  const auto* s = std::get_if<std::string>(&j.value);
  if (s != nullptr && !is_layer_name(*s) && is_layer_name(*s + ".0")) {  // two words
    std::string joined = *s;
    std::replace(joined.begin(), joined.end(), '.', '_');
    return complain(j, kind(j) + " is not a valid name: letters, digits, _ and -, a letter or _ first; call it \"" + joined +
                           "\": weights of " + *s + " load by that name"),
           false;
  }
  if (s == nullptr || !is_layer_name(*s)) return name(j, out);
  out = *s;
  return true;
}

void Reader::unknown_key(const Json::Member& m, const std::vector<std::string>& names) {
  complain(m.where, (is_not_built(m.key, names) ? "not built yet" : "unknown key") + did_you_mean(m.key, names));
}

bool Reader::lacks(const Json& object, const std::vector<std::string>& names, const std::vector<std::string>& keys) {
  if (std::any_of(keys.begin(), keys.end(), [&](const std::string& key) { return object.find(key) != nullptr; })) return false;
  const auto& members = std::get<Json::Object>(object.value);
  return std::none_of(members.begin(), members.end(), [&](const Json::Member& m) {
    return !is_one_of(m.key, names) && is_one_of(probably_meant(m.key, names), keys);
  });
}

bool Reader::is_one_of(const std::string& name, const std::vector<std::string>& names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace motley
