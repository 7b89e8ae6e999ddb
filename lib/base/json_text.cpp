// SPDX-License-Identifier: Apache-2.0
// Json -> text; members; files read and written whole.
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/files.h"
#include "base/json.h"
#include "base/utf8.h"

namespace motley {

namespace {

void write_string(const std::string& text, std::string& out) {
  constexpr const char* kDigits = "0123456789abcdef";
  out += '"';
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t n = utf8_length(text, i);
    const auto c = static_cast<unsigned char>(text[i]);
    if (n == 0)
      out += "\xEF\xBF\xBD";  // U+FFFD: our files are UTF-8, whatever a vendor called its device
    else if (c == '"' || c == '\\')
      out += {'\\', text[i]};
    else if (c == '\n')
      out += "\\n";
    else if (c < 32)
      out += {'\\', 'u', '0', '0', kDigits[c / 16], kDigits[c % 16]};
    else
      out.append(text, i, n);
    i += n == 0 ? 1 : n;
  }
  out += '"';
}

void write_number(double v, std::string& out) {
  if (!std::isfinite(v)) {
    out += "null";
    return;
  }
  char digits[40];
  const auto end = std::to_chars(digits, digits + sizeof digits, v).ptr;  // the shortest text that parses to v
  const std::string text(digits, end);
  out += text;
  if (text.find_first_of(".e") == std::string::npos) out += ".0";
}

bool is_scalar(const Json& j) {
  return !std::holds_alternative<Json::Array>(j.value) && !std::holds_alternative<Json::Object>(j.value);
}

struct Writer {
  int indent;
  std::string out{};

  void line(int depth) {
    if (indent > 0) out += "\n" + std::string(static_cast<std::size_t>(indent * depth), ' ');
  }
  void write(const Json& j, int depth) {
    if (const auto* b = std::get_if<bool>(&j.value)) out += *b ? "true" : "false";
    if (std::holds_alternative<std::nullptr_t>(j.value)) out += "null";
    if (const auto* i = std::get_if<std::int64_t>(&j.value)) out += std::to_string(*i);
    if (const auto* d = std::get_if<double>(&j.value)) write_number(*d, out);
    if (const auto* s = std::get_if<std::string>(&j.value)) write_string(*s, out);
    if (const auto* a = std::get_if<Json::Array>(&j.value)) {
      const bool flat = std::all_of(a->begin(), a->end(), is_scalar);
      out += '[';
      for (std::size_t i = 0; i < a->size(); i++) {
        if (i > 0) out += flat || indent == 0 ? ", " : ",";
        if (!flat) line(depth + 1);
        write((*a)[i], depth + 1);
      }
      if (!flat) line(depth);
      out += ']';
    }
    if (const auto* o = std::get_if<Json::Object>(&j.value)) {
      out += '{';
      for (std::size_t i = 0; i < o->size(); i++) {
        if (i > 0) out += indent == 0 ? ", " : ",";
        line(depth + 1);
        write_string((*o)[i].key, out);
        out += ": ";
        write((*o)[i].value, depth + 1);
      }
      if (!o->empty()) line(depth);
      out += '}';
    }
  }
};

}  // namespace

std::string to_text(const Json& json, int indent) {
  Writer writer{indent};
  writer.write(json, 0);
  return std::move(writer.out);
}

const Json* Json::find(const std::string& key) const {
  if (const auto* o = std::get_if<Object>(&value))
    for (const Member& m : *o)
      if (m.key == key) return &m.value;
  return nullptr;
}

const Json* Json::at(const std::string& pointer) const {
  const Json* j = this;
  for (std::size_t begin = 0; begin < pointer.size() && j != nullptr;) {
    if (pointer[begin] != '/') return nullptr;
    const std::size_t end = std::min(pointer.find('/', begin + 1), pointer.size());
    const std::string token = pointer.substr(begin + 1, end - begin - 1);
    const Json* inner = nullptr;
    if (const auto* o = std::get_if<Object>(&j->value))
      for (const Member& m : *o)
        if (inner == nullptr && pointer_token(m.key) == token) inner = &m.value;
    if (const auto* a = std::get_if<Array>(&j->value)) {
      std::size_t i = 0;
      const auto read = std::from_chars(token.data(), token.data() + token.size(), i);
      if (read.ec == std::errc{} && read.ptr == token.data() + token.size() && i < a->size()) inner = &(*a)[i];
    }
    j = inner;
    begin = end;
  }
  return j;
}

Json& Json::set(std::string key, Json v) {
  if (std::holds_alternative<std::nullptr_t>(value)) value = Object{};
  auto& members = std::get<Object>(value);
  members.push_back({std::move(key), std::move(v), {}});
  return *this;
}

Json& Json::push(Json v) {
  if (std::holds_alternative<std::nullptr_t>(value)) value = Array{};
  std::get<Array>(value).push_back(std::move(v));
  return *this;
}

std::string read_file(const std::string& path) {
  constexpr std::size_t kMost = std::size_t{64} << 20;
  std::error_code failed;
  auto too_large = [&] { return UserError(path + " is larger than 64 MiB, the limit for motley's JSON files", Exit::config); };
  if (std::filesystem::is_directory(path, failed)) {
    const bool run = std::filesystem::exists(std::filesystem::path(path) / "run.json", failed);
    throw UserError(path + " is a folder; expected a file" + (run ? ", for instance its run.json or plan.json" : ""),
                    Exit::missing);
  }
  if (std::filesystem::is_fifo(path, failed))  // nothing may ever be written into it, and files are read more than once
    throw UserError(path + " is a pipe; expected a file", Exit::missing);
  std::ifstream file(path, std::ios::binary);
  if (!file)
    throw UserError((errno == ENOENT ? "no file " + path : "cannot read " + path + ": " + std::strerror(errno)), Exit::missing);
  if (const auto size = std::filesystem::file_size(path, failed); !failed && size > kMost) throw too_large();
  note_read(path);
  std::string text;
  std::vector<char> piece(std::size_t{1} << 16);
  while (file.read(piece.data(), static_cast<std::streamsize>(piece.size())) || file.gcount() > 0) {
    text.append(piece.data(), static_cast<std::size_t>(file.gcount()));
    if (text.size() > kMost) throw too_large();  // for example a device
  }
  if (file.bad()) throw UserError("cannot read " + path + ": " + std::strerror(errno), Exit::missing);
  return text;
}

void write_file(const std::string& path, const std::string& text) {
  std::error_code failed;
  const auto kind = std::filesystem::status(path, failed).type();
  using std::filesystem::file_type;
  if (kind == file_type::character || kind == file_type::fifo) return write_into(path, text);  // no file beside it
  write_text(std::filesystem::path(path), text);
}

}  // namespace motley
