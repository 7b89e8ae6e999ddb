// SPDX-License-Identifier: Apache-2.0
// Reading lines of words: what data and model files have in common.
#pragma once
#include <motley/svm.h>

#include <optional>
#include <string>
#include <string_view>

namespace motley::svm {

struct Place {
  std::string name{};  // of the file
  Index line = 1, column = 1;
};
[[noreturn]] void complain(const Place& at, const std::string& text);  // UserError (65), "FILE:LINE:COLUMN: error: text"

std::optional<double> number_in(std::string_view word);  // all of the word; "+1" too

class Lines {
 public:
  explicit Lines(std::string_view text) : text_(text) {}
  std::optional<std::string_view> next() {
    if (at_ >= text_.size()) return {};
    const std::size_t end = std::min(text_.find('\n', at_), text_.size());
    const std::string_view out = text_.substr(at_, end - at_);
    at_ = end + 1;
    return out;
  }

 private:
  std::string_view text_;
  std::size_t at_ = 0;
};

class Words {
 public:
  explicit Words(std::string_view line) : line_(line) {}
  std::string_view next();                                         // empty: no more
  Index column() const { return static_cast<Index>(began_) + 1; }  // of the last word, from 1

 private:
  std::string_view line_;
  std::size_t at_ = 0, began_ = 0;
};

// The rest of a line, INDEX:VALUE ..., becomes a row of `into`. UserError (65)
void read_entries(Words& words, Place at, Data& into);

}  // namespace motley::svm
