// SPDX-License-Identifier: Apache-2.0
// Text -> Json. nlohmann reports values in document order; a scanner of ours walks the same text in lock-step, knows where each
// piece is, and says what is wrong where nlohmann stops.
#include "base/json.h"

#include <motley/dims.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>
#include <unordered_map>

#include "base/utf8.h"

namespace motley {

namespace {

using nl = nlohmann::json;
constexpr std::size_t kDeepest = 64;

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}
bool is_hex(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

// Line and column of a byte, both counted from 1.
std::string line_and_column(const std::string& text, std::size_t byte) {
  const auto end = text.begin() + static_cast<std::ptrdiff_t>(std::min(byte, text.size()));
  const std::size_t begin = byte == 0 ? 0 : text.rfind('\n', byte - 1) + 1;  // npos + 1 is 0
  return "line " + std::to_string(std::count(text.begin(), end, '\n') + 1) + ", column " +
         std::to_string(characters(text, begin, byte) + 1);
}

// Walks a text, never past its end, whatever the text holds.
struct Scanner {
  std::string_view text;
  std::size_t at = 0;
  bool open_comment = false;  // a comment without an end was found; `at` is its beginning

  char peek(std::size_t ahead = 0) const { return at + ahead < text.size() ? text[at + ahead] : '\0'; }
  bool done() const { return at >= text.size(); }
  void skip_blanks() {
    if (at == 0 && text.starts_with("\xEF\xBB\xBF")) at = 3;
    for (;;) {
      while (!done() && is_blank(peek())) at++;
      if (peek() != '/') return;
      if (peek(1) == '/') {
        at = std::min(text.find('\n', at), text.size());
      } else if (peek(1) == '*') {
        const std::size_t end = text.find("*/", at + 2);
        open_comment = end == std::string_view::npos;
        if (open_comment) return;
        at = end + 2;
      } else {
        return;
      }
    }
  }
  // Passes one token and returns its beginning.
  std::size_t pass_token() {
    const std::size_t begin = at;
    if (peek() == '"') {
      for (at++; !done() && peek() != '"'; at++)
        if (peek() == '\\') at++;
      at = std::min(at + 1, text.size());
    } else if (!done() && std::string_view("{}[],:").find(peek()) != std::string_view::npos) {
      at++;
    } else {
      while (!done() && !is_blank(peek()) && std::string_view("{}[],:\"/").find(peek()) == std::string_view::npos) at++;
      if (at == begin && !done()) at++;
    }
    return begin;
  }
};

// What is wrong inside the text that begins with a quote at `begin`; empty: nothing. Moves `begin` to the fault.
std::string fault_in_string(std::string_view text, std::size_t& begin) {
  for (std::size_t i = begin + 1; i < text.size(); i++) {
    const char c = text[i];
    if (c == '"') return "";
    if (c == '\n' || c == '\r') return "this string has no closing quote on its line";
    if (static_cast<unsigned char>(c) < 32) {
      begin = i;
      return c == '\t' ? "a tab inside a string is written \\t" : "a control character inside a string is written \\u00XX";
    }
    if (c != '\\') continue;
    const char escape = i + 1 < text.size() ? text[i + 1] : '\0';
    auto hex4 = [&](std::size_t at) {
      return at + 4 <= text.size() && std::all_of(text.begin() + static_cast<std::ptrdiff_t>(at),
                                                  text.begin() + static_cast<std::ptrdiff_t>(at + 4), is_hex);
    };
    if (escape == 'u') {
      const auto code = hex4(i + 2) ? std::stoul(std::string(text.substr(i + 2, 4)), nullptr, 16) : 0xDC00UL;
      const bool high = code >= 0xD800 && code < 0xDC00;
      const bool pair = high && text.substr(i + 6, 2) == "\\u" && hex4(i + 8) &&
                        (std::stoul(std::string(text.substr(i + 8, 4)), nullptr, 16) & 0xFC00UL) == 0xDC00;
      if ((code >= 0xDC00 && code < 0xE000) || (high && !pair)) {
        begin = i;
        return "\\u needs four hexadecimal digits of a character (or both halves of a surrogate pair)";
      }
      i += pair ? 11 : 5;
    } else if (escape != '\0' && std::string_view("\"\\/bfnrt").find(escape) != std::string_view::npos) {
      i++;
    } else {
      begin = i;
      return "\\ begins one of \\\" \\\\ \\/ \\b \\f \\n \\r \\t \\uXXXX; a backslash itself is written \\\\";
    }
  }
  return "this string has no closing quote";
}

// The fault of a word that has an invisible character, or begins a comment elsewhere; empty: neither.
std::string fault_of_character(const std::string& word) {
  if (word.front() == '#') return "# begins no comment here; write // or /* */";
  // No-break and wide spaces, and characters without a width, which text processors and web pages leave.
  constexpr std::array<std::pair<const char*, const char*>, 8> kInvisible{{{"\xC2\xA0", "00A0"},
                                                                           {"\xE2\x80\x83", "2003"},
                                                                           {"\xE2\x80\x89", "2009"},
                                                                           {"\xE2\x80\x8B", "200B"},
                                                                           {"\xE2\x80\xAF", "202F"},
                                                                           {"\xE2\x81\xA0", "2060"},
                                                                           {"\xE3\x80\x80", "3000"},
                                                                           {"\xEF\xBB\xBF", "FEFF"}}};
  for (const auto& [bytes, code] : kInvisible)
    if (word.find(bytes) != std::string::npos)
      return std::string("the invisible character U+") + code + "; write a space, or nothing";
  return "";
}

// The fault of a word found where a value is expected.
std::string fault_of_word(const std::string& word) {
  const std::string shown = shortened(printable(word), 40);
  if (std::string fault = fault_of_character(word); !fault.empty()) return fault;
  if (word.front() == '\'') return "strings need double quotes: \"...\"";
  for (const char* other : {"NaN", "nan", "Infinity", "-Infinity", "inf", "-inf", "+inf"})
    if (word == other) return shown + " is not a valid JSON number; numbers are finite";
  if (word.find_first_not_of("+-.0123456789eExXabcdefABCDEF_") == std::string::npos &&
      word.find_first_of("0123456789") != std::string::npos)
    return shown +
           " is not a valid JSON number (as 12, -0.5 or 2e-3: no + in front, no leading zeros, digits on both sides of the point)";
  const std::string near = did_you_mean(word, {"true", "false", "null"});
  return shown + " is not valid JSON" + (near.starts_with(";") ? near : "; strings need double quotes");
}

enum class After { nothing, object_begin, key, member, array_begin, element, whole };

struct Fault {
  std::size_t at = 0;
  std::string text{};
};

// What is wrong after the last good token.
Fault fault_after(std::string_view text, std::size_t good_end, After after) {
  Scanner scan{text, good_end};
  auto open_comment = [&] { return Fault{scan.at, "this comment has no end; */ is missing"}; };
  scan.skip_blanks();
  if (scan.open_comment) return open_comment();
  if (after == After::nothing && scan.done()) return {0, "empty; expected a JSON object"};
  if (after == After::whole) return {scan.at, "expected one JSON value; more follows"};
  const bool in_object = after == After::object_begin || after == After::member;
  const char separator = after == After::key ? ':' : ',';
  const bool wants_separator = after == After::key || after == After::member || after == After::element;
  bool separated = false;
  if (wants_separator && scan.peek() == separator) {
    separated = true;
    scan.at++;
    scan.skip_blanks();
    if (scan.open_comment) return open_comment();
  }
  const std::size_t begin = scan.at;
  const char c = scan.peek();
  const std::string closing = in_object ? "}" : "]";
  if (scan.done())
    return {text.empty() ? 0 : text.size() - 1,
            after == After::key ? "the text ends before the value" : "the text ends before the closing " + closing};
  if (c == '"') {
    std::size_t at = begin;
    if (std::string fault = fault_in_string(text, at); !fault.empty()) return {at, fault};
  }
  scan.pass_token();
  const std::string token(text.substr(begin, scan.at - begin)), shown = shortened(printable(token), 40);
  if (std::string fault = fault_of_character(token); !fault.empty()) return {begin, fault};
  if (wants_separator && !separated) {
    if (c == '}' || c == ']')
      return {begin, after == After::key ? "expected : and a value, found " + shown
                                         : "expected " + closing + " or a comma, found " + shown};
    return {begin, std::string(separator == ':' ? "a colon" : "a comma") + " is missing in front of this " + shown};
  }
  if (separated && separator == ',' && shown == closing) return {begin, "extra comma before this " + shown};
  if (in_object) return {begin, "expected a key in double quotes, found " + shown};
  if (std::string_view("}],:{[").find(c) != std::string_view::npos || c == '"' || c == '/')
    return {begin, "expected a value, found " + shown};
  return {begin, fault_of_word(token)};
}

std::string readable_bytes(std::size_t bytes) {
  return std::to_string(bytes >> 20U) + " MiB";
}

class JsonTree final : public nlohmann::json_sax<nl> {
 public:
  JsonTree(std::shared_ptr<const Source> source, Complaints& complaints, std::size_t most_values)
      : source_(std::move(source)), complaints_(complaints), scan_{source_->text}, most_values_(most_values) {}
  Json take() { return std::move(root_); }

  bool null() override { return leaf(nullptr); }
  bool boolean(bool v) override { return leaf(v); }
  bool number_integer(std::int64_t v) override { return leaf(v); }
  bool number_unsigned(std::uint64_t v) override {
    return v > INT64_MAX ? leaf(static_cast<double>(v)) : leaf(static_cast<std::int64_t>(v));
  }
  bool number_float(double v, const std::string&) override { return leaf(v); }
  bool string(std::string& v) override { return leaf(std::move(v)); }
  bool binary(nl::binary_t&) override { return false; }
  bool start_object(std::size_t) override { return begin(Json::Object{}, After::object_begin); }
  bool start_array(std::size_t) override { return begin(Json::Array{}, After::array_begin); }
  bool end_object() override { return end(); }
  bool end_array() override { return end(); }
  bool key(std::string& k) override {
    key_ = k;
    key_where_ = next();
    after_ = After::key;
    const auto [first, fresh] = open_.back().keys.emplace(k, key_where_.byte);
    if (!fresh)
      complaints_.add(key_where_, pointer(),
                      "this key is written twice; the first is at " + line_and_column(source_->text, first->second));
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const nl::exception& e) override {
    const std::string last = source_->text.substr(last_, scan_.at - last_);
    Fault fault = fault_after(source_->text, scan_.at, after_);
    if (!last.empty() && std::string_view("{}[],:\"").find(last[0]) == std::string_view::npos && !nl::accept(last)) {
      fault = {last_, fault_of_word(last)};  // nlohmann accepted its prefix: 0 of 01, true of trueish
    } else if (e.id == 406) {                // outside a double's range
      const Where number = next();
      fault = {number.byte,
               source_->text.substr(number.byte, scan_.at - number.byte) + " is too large for a number (at most 1.7e308)"};
      fault.text = shortened(fault.text, 120);
    }
    complaints_.add({source_, fault.at}, pointer(), fault.text);
    return false;
  }

 private:
  struct Open {
    Json* json;
    std::unordered_map<std::string, std::size_t> keys{};
  };

  Where next() {  // passes separators and the token that nlohmann has just accepted
    scan_.skip_blanks();
    while (scan_.peek() == ',' || scan_.peek() == ':') {
      scan_.at++;
      scan_.skip_blanks();
    }
    last_ = scan_.pass_token();
    return {source_, last_};
  }
  std::string pointer() const {
    std::string p;
    for (std::size_t i = 0; i < open_.size(); i++) {
      const bool last = i + 1 == open_.size();
      if (const auto* o = std::get_if<Json::Object>(&open_[i].json->value)) {
        if (!last) p += "/" + pointer_token(o->back().key);
        if (last && after_ == After::key) p += "/" + pointer_token(key_);
      } else if (const auto* a = std::get_if<Json::Array>(&open_[i].json->value); !last) {
        p += "/" + std::to_string(a->size() - 1);
      }
    }
    return p;
  }
  Json* put(Json j) {
    if (open_.empty()) return &(root_ = std::move(j));
    Json& parent = *open_.back().json;
    if (auto* o = std::get_if<Json::Object>(&parent.value)) {
      o->push_back({key_, std::move(j), key_where_});
      return &o->back().value;
    }
    auto& a = std::get<Json::Array>(parent.value);
    a.push_back(std::move(j));
    return &a.back();
  }
  void close() {
    after_ = open_.empty()                                                    ? After::whole
             : std::holds_alternative<Json::Object>(open_.back().json->value) ? After::member
                                                                              : After::element;
  }
  bool counted(const Json& j) {
    if (++values_ <= most_values_) return true;
    complaints_.add(j.where, pointer(), "more than " + std::to_string(most_values_) + " values in one file");
    return false;
  }
  template <class V>
  bool leaf(V v) {
    Json j(std::move(v));
    j.where = next();
    if (!counted(j)) return false;
    put(std::move(j));
    close();
    return true;
  }
  template <class V>
  bool begin(V empty, After after) {
    Json j(std::move(empty));
    j.where = next();
    if (!counted(j)) return false;
    if (open_.size() == kDeepest) {
      complaints_.add(j.where, pointer(), "nested deeper than " + std::to_string(kDeepest));
      return false;
    }
    open_.push_back({put(std::move(j))});  // stable: nothing is added to a parent while its child is open
    after_ = after;
    return true;
  }
  bool end() {
    next();
    open_.pop_back();
    close();
    return true;
  }

  std::shared_ptr<const Source> source_;
  Complaints& complaints_;
  Scanner scan_;
  std::size_t last_ = 0;  // begin of the last token passed
  std::vector<Open> open_{};
  Json root_{};
  std::string key_{};
  Where key_where_{};
  After after_ = After::nothing;
  std::size_t most_values_, values_ = 0;
};

// Keeps the keys of the outermost object.
class Keys final : public nlohmann::json_sax<nl> {
 public:
  std::vector<std::string> keys{};

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(std::int64_t) override { return true; }
  bool number_unsigned(std::uint64_t) override { return true; }
  bool number_float(double, const std::string&) override { return true; }
  bool string(std::string&) override { return true; }
  bool binary(nl::binary_t&) override { return false; }
  bool start_object(std::size_t) override { return depth_++, true; }
  bool start_array(std::size_t) override { return depth_ += depth_ == 0 ? 2 : 1, true; }
  bool end_object() override { return depth_--, true; }
  bool end_array() override { return depth_--, true; }
  bool key(std::string& k) override {
    if (depth_ == 1) keys.push_back(k);
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const nl::exception&) override { return false; }

 private:
  std::size_t depth_ = 0;
};

// The first byte that does not occur in text files.
std::optional<Fault> fault_of_bytes(const std::string& text) {
  if (text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF")) return Fault{0, "UTF-16; save the file as UTF-8"};
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t n = utf8_length(text, i);
    const auto c = static_cast<unsigned char>(text[i]);
    if (n == 0 || (c < 32 && !is_blank(text[i]))) {
      constexpr const char* kDigits = "0123456789ABCDEF";
      const std::string hex{'0', 'x', kDigits[c / 16], kDigits[c % 16]};
      return Fault{i, n == 0 ? "the byte " + hex + " is not UTF-8; save the file as UTF-8"
                             : "the byte " + hex + " is not valid in a text file"};
    }
    i += n;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::vector<std::string>> json_keys(const std::string& text) {
  Keys found;
  if (!nl::sax_parse(text.begin(), text.end(), &found, nl::input_format_t::json, true, true)) return std::nullopt;
  return std::move(found.keys);
}

std::optional<Json> read_json(const std::string& name, std::string text, Complaints& complaints, JsonLimits limits) {
  const auto source = std::make_shared<const Source>(Source{name, std::move(text)});
  if (const auto fault = fault_of_bytes(source->text)) {
    complaints.add({source, fault->at}, "", fault->text);
    return std::nullopt;
  }
  if (source->text.size() > limits.bytes) {
    complaints.add({source, limits.bytes}, "", "larger than " + readable_bytes(limits.bytes) + ", the limit for such a file");
    return std::nullopt;
  }
  JsonTree tree(source, complaints, limits.values);
  if (!nl::sax_parse(source->text.begin(), source->text.end(), &tree, nl::input_format_t::json, true, true)) return std::nullopt;
  return tree.take();
}

}  // namespace motley
