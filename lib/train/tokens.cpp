// SPDX-License-Identifier: Apache-2.0
// Numbers of tokens, one after another: what a language model is trained on.
#include <motley/data.h>
#include <motley/error.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/files.h"

namespace motley {

namespace fs = std::filesystem;

namespace {

constexpr Index kMostChecked = Index{1} << 30;  // bytes

class TokenFile {
 public:
  TokenFile(const fs::path& path, TokenType type) : file_(path), bytes_(type == TokenType::u16 ? 2 : 4) {
    if (const auto size = static_cast<Index>(file_.bytes().size()); size % bytes_ != 0)
      throw UserError(path.string() + ": " + std::to_string(size) + " bytes are not a whole number of tokens of " +
                          std::to_string(bytes_) + " bytes; \"type\" says how wide one is",
                      Exit::data);
  }
  const fs::path& path() const { return file_.path(); }
  Index tokens() const { return static_cast<Index>(file_.bytes().size()) / bytes_; }
  Index bytes_of_one() const { return bytes_; }
  Index at(Index i) const {
    const std::byte* from = file_.bytes().data() + i * bytes_;
    return bytes_ == 2 ? value<std::uint16_t>(from) : value<std::uint32_t>(from);
  }
  // UserError (65): it is not below `most`.
  Index at(Index i, Index most) const {
    const Index token = at(i);
    if (token >= most)
      throw UserError(path().string() + ": byte " + std::to_string(i * bytes_) + ": token " + std::to_string(i) + " is " +
                          std::to_string(token) + "; the vocabulary has 0 to " + std::to_string(most - 1),
                      Exit::data);
    return token;
  }

 private:
  template <class T>
  static Index value(const std::byte* from) {
    T out;
    std::memcpy(&out, from, sizeof out);
    return out;
  }
  MappedFile file_;
  Index bytes_;
};

class Tokens final : public Dataset {
 public:
  // Those of `range`.
  Tokens(std::shared_ptr<const TokenFile> file, Range range, Index positions, Index vocabulary)
      : file_(std::move(file)), range_(range), positions_(positions), vocabulary_(vocabulary) {}
  Index samples() const override { return range_.size() == 0 ? 0 : (range_.size() - 1) / positions_; }
  Index classes() const override { return vocabulary_; }
  std::vector<Index> sample_extents() const override { return {positions_}; }
  std::vector<Index> label_extents() const override { return {positions_}; }
  DType dtype() const override { return DType::i32; }
  std::int32_t label(Index sample) const override { return token(sample, 1); }  // of the first position
  void read(Index sample, const Box& box, std::span<double> out) const override {
    check(volume(box) == static_cast<Index>(out.size()), "a sample's box fills what is given");
    for (std::size_t i = 0; i < out.size(); i++) out[i] = token(sample, box[0].begin + static_cast<Index>(i));
  }
  void read_labels(Index sample, const Box& box, std::span<std::int32_t> out) const override {
    check(volume(box) == static_cast<Index>(out.size()), "labels fill what is given");
    for (std::size_t i = 0; i < out.size(); i++) out[i] = token(sample, box[0].begin + static_cast<Index>(i) + 1);
  }

 private:
  std::int32_t token(Index sample, Index position) const {
    check(sample >= 0 && sample < samples(), "a token of a sample");
    return static_cast<std::int32_t>(file_->at(range_.begin + sample * positions_ + position, vocabulary_));
  }

  std::shared_ptr<const TokenFile> file_;
  Range range_;
  Index positions_, vocabulary_;
};

// Numbers are below it; 0: nothing is expected.
Index vocabulary_of(const SampleKind& expected) {
  if (expected.numbers == 0 || expected.classes == 0) return std::max(expected.numbers, expected.classes);
  return std::min(expected.numbers, expected.classes);
}

std::vector<std::shared_ptr<const TokenFile>> open(const TokenFiles& files) {
  std::vector<std::shared_ptr<const TokenFile>> out{std::make_shared<TokenFile>(files.path, files.type)};
  if (!files.test_path.empty()) out.push_back(std::make_shared<TokenFile>(files.test_path, files.type));
  return out;
}

}  // namespace

Datasets load_tokens(const TokenFiles& files, const SampleKind& expected) {
  if (expected.extents.size() != 1 || expected.extents[0] < 1)
    throw UserError("tokens are samples of one dim, the positions; there are " + std::to_string(expected.extents.size()));
  const Index positions = expected.extents[0];
  const auto opened = open(files);
  Index vocabulary = vocabulary_of(expected);
  if (vocabulary == 0)
    for (const auto& file : opened)
      for (Index i = 0; i < file->tokens(); i++)
        vocabulary = std::max(vocabulary, file->at(i, std::numeric_limits<std::int32_t>::max()) + 1);
  const TokenFile& first = *opened.front();
  const Index test_tokens = files.test_path.empty() ? first.tokens() / 10 : 0, split = first.tokens() - test_tokens;
  const auto train = std::make_shared<Tokens>(opened.front(), Range{0, split}, positions, vocabulary);
  const auto test = std::make_shared<Tokens>(
      opened.back(), files.test_path.empty() ? Range{split, first.tokens()} : Range{0, opened.back()->tokens()}, positions,
      vocabulary);
  const auto refuse_short = [&](const TokenFile& file, Index tokens) {
    throw UserError(file.path().string() + ": " + std::to_string(tokens) + " tokens" +
                        (files.test_path.empty() ? ", without the last tenth," : "") + " are fewer than a sample's " +
                        std::to_string(positions) + " and the one after them",
                    Exit::data);
  };
  if (train->samples() == 0) refuse_short(first, split);
  if (!files.test_path.empty() && test->samples() == 0) refuse_short(*opened.back(), opened.back()->tokens());
  return {train, test->samples() == 0 ? nullptr : test};
}

void check_tokens(const TokenFiles& files, const SampleKind& expected) {
  const Index vocabulary = vocabulary_of(expected);
  for (const auto& file : open(files))
    for (Index i = 0; vocabulary > 0 && i < std::min(file->tokens(), kMostChecked / file->bytes_of_one()); i++)
      static_cast<void>(file->at(i, vocabulary));
}

}  // namespace motley
