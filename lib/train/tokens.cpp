// SPDX-License-Identifier: Apache-2.0
// Token numbers in sequence: the data of a language model.
#include <fmt/format.h>
#include <motley/data.h>
#include <motley/error.h>

#include <algorithm>
#include <limits>
#include <string>

#include "base/likely_kind.h"
#include "train/elements.h"
#include "train/token_samples.h"

namespace motley {

namespace fs = std::filesystem;

namespace {

class TokenFile {
 public:
  // vocabulary: 0: any. UserError (65): not a file of such tokens.
  TokenFile(const fs::path& path, TokenType type, Index vocabulary) : file_(path), bytes_(type == TokenType::u16 ? 2 : 4) {
    if (const auto size = static_cast<Index>(file_.size()); size % bytes_ != 0)
      throw UserError(path.string() + ": " + std::to_string(size) + " bytes are not a whole number of tokens of " +
                          std::to_string(bytes_) + " bytes; expected \"type\" to be the type of a token in the file",
                      Exit::data);
    refuse_other_kind();
    bytes_ == 2 ? refuse_wider<std::uint16_t>(vocabulary) : refuse_wider<std::uint32_t>(vocabulary);
  }
  const fs::path& path() const { return file_.path(); }
  Index tokens() const { return static_cast<Index>(file_.size()) / bytes_; }
  Index bytes_of_one() const { return bytes_; }
  // Calls use(token) for `count` tokens. UserError (65): one is not below `most`.
  template <class F>
  void each(Index first, Index count, Index most, F&& use) const {
    bytes_ == 2 ? each_as<std::uint16_t>(first, count, most, use) : each_as<std::uint32_t>(first, count, most, use);
  }

 private:
  // A file of another kind would be trained on as if its bytes were tokens.
  void refuse_other_kind() const {
    const std::string kind = likely_kind(file_.text(0, std::min<std::uint64_t>(file_.size(), kKindBytes)));
    if (kind.empty()) return;
    throw UserError(
        fmt::format("{}: expected the numbers of tokens alone, {} bits each, as numpy.asarray(ids, \"<u{}\").tofile(...) "
                    "writes them{}",
                    path().string(), 8 * bytes_, bytes_, kind),
        Exit::data);
  }
  // Numbers of wider tokens: every second one, an upper half, is 0 (at most most_upper, if the vocabulary exceeds T), others are
  // greater and not all equal. Such a file would be trained on without any error, with the zeros guessed right.
  template <class T>
  void refuse_wider(Index vocabulary) const {
    constexpr Index kLookedAt = Index{1} << 16, kLeastGreater = 16;
    const Index count = std::min(tokens(), kLookedAt), most_upper = std::max<Index>(vocabulary - 1, 0) >> (8 * sizeof(T));
    Index first = -1, greater = 0;
    bool varied = false, third_is_0 = true;  // third: of each four
    Elements<T> numbers(file_, 0, tokens());
    for (Index i = 0; i < count; i++) {
      const Index value = numbers.from(i, 1).front();
      if (i % 2 == 1 && value > most_upper) return;
      if (i % 2 == 1) continue;
      if (i == 0) first = value;
      varied = varied || value != first;
      greater += value > most_upper ? 1 : 0;
      third_is_0 = third_is_0 && (i % 4 == 0 || value == 0);
    }
    if (!varied || greater < kLeastGreater) return;
    const bool four = bytes_ == 2 && third_is_0;
    const std::string found =
        fmt::format("{}: {} of its first {} numbers {} {}", path().string(), four ? "three of every four" : "every second one",
                    count, four ? "are" : "is", most_upper == 0 ? "0" : fmt::format("at most {}", most_upper));
    if (bytes_ == 2 && !four)
      throw UserError(found + ", as in a file of tokens of 32 bits; expected tokens of 16 bits, or \"type\": \"u32\"", Exit::data);
    throw UserError(found +
                        ", as in a file of tokens of 64 bits; expected 16 or 32 bits, which "
                        "numpy.asarray(ids, \"<u4\").tofile(...) writes for \"type\": \"u32\"",
                    Exit::data);
  }
  template <class T, class F>
  void each_as(Index first, Index count, Index most, F&& use) const {
    Elements<T>(file_, 0, tokens()).each(first, count, [&](Index i, T value) {
      const Index token = value;
      if (token >= most)
        throw UserError(path().string() + ": byte " + std::to_string(i * bytes_) + ": token " + std::to_string(i) + " is " +
                            std::to_string(token) + "; the vocabulary has 0 to " + std::to_string(most - 1),
                        Exit::data);
      use(token);
    });
  }
  InputFile file_;
  Index bytes_;
};

class Tokens final : public Dataset {
 public:
  // The tokens of `range`. labelled: each has a next one.
  Tokens(std::shared_ptr<const TokenFile> file, Range range, Index positions, Index vocabulary, bool labelled = true)
      : file_(std::move(file)), range_(range), positions_(positions), vocabulary_(vocabulary), labelled_(labelled) {}
  Index samples() const override { return range_.size() == 0 ? 0 : (range_.size() - (labelled_ ? 1 : 0)) / positions_; }
  Index classes() const override { return vocabulary_; }
  std::vector<Index> sample_extents() const override { return {positions_}; }
  std::vector<Index> label_extents() const override { return {positions_}; }
  DType dtype() const override { return DType::i32; }
  std::int32_t label(Index sample) const override {  // of the first position
    std::int32_t out = 0;
    copy(sample, 1, std::span(&out, 1));
    return out;
  }
  void read(Index sample, const Box& box, std::span<double> out) const override {
    check(volume(box) == static_cast<Index>(out.size()), "a sample's box fills what is given");
    copy(sample, box[0].begin, out);
  }
  void read_labels(Index sample, const Box& box, std::span<std::int32_t> out) const override {
    check(volume(box) == static_cast<Index>(out.size()), "labels fill what is given");
    copy(sample, box[0].begin + 1, out);
  }

 private:
  template <class T>
  void copy(Index sample, Index position, std::span<T> out) const {
    check(sample >= 0 && sample < samples(), "tokens of a sample");
    std::size_t to = 0;
    file_->each(range_.begin + sample * positions_ + position, static_cast<Index>(out.size()), vocabulary_,
                [&](Index token) { out[to++] = static_cast<T>(token); });
  }

  std::shared_ptr<const TokenFile> file_;
  Range range_;
  Index positions_, vocabulary_;
  bool labelled_;
};

// Tokens must be below it; 0: any.
Index vocabulary_of(const SampleKind& expected) {
  if (expected.numbers == 0 || expected.classes == 0) return std::max(expected.numbers, expected.classes);
  return std::min(expected.numbers, expected.classes);
}

std::vector<std::shared_ptr<const TokenFile>> open(const TokenFiles& files, Index vocabulary) {
  std::vector<std::shared_ptr<const TokenFile>> out{std::make_shared<TokenFile>(files.path, files.type, vocabulary)};
  if (!files.test_path.empty()) out.push_back(std::make_shared<TokenFile>(files.test_path, files.type, vocabulary));
  return out;
}

}  // namespace

Datasets load_tokens(const TokenFiles& files, const SampleKind& expected) {
  if (expected.extents.size() != 1 || expected.extents[0] < 1)
    throw UserError("a sample of tokens has one dim, the positions; found " + std::to_string(expected.extents.size()));
  const Index positions = expected.extents[0];
  Index vocabulary = vocabulary_of(expected);
  const auto opened = open(files, vocabulary);
  if (vocabulary == 0)
    for (const auto& file : opened)
      file->each(0, file->tokens(), std::numeric_limits<std::int32_t>::max(),
                 [&](Index token) { vocabulary = std::max(vocabulary, token + 1); });
  const TokenFile& first = *opened.front();
  const Index test_tokens = files.test_path.empty() ? first.tokens() / 10 : 0, split = first.tokens() - test_tokens;
  const auto train = std::make_shared<Tokens>(opened.front(), Range{0, split}, positions, vocabulary);
  const auto test = std::make_shared<Tokens>(
      opened.back(), files.test_path.empty() ? Range{split, first.tokens()} : Range{0, opened.back()->tokens()}, positions,
      vocabulary);
  const auto refuse_short = [&](const TokenFile& file, Index tokens) {
    throw UserError(file.path().string() + ": " + std::to_string(tokens) + " tokens" +
                        (files.test_path.empty() ? ", without the last tenth," : "") + " are too few for one sample: it needs " +
                        std::to_string(positions) + " and the next one",
                    Exit::data);
  };
  if (train->samples() == 0) refuse_short(first, split);
  if (!files.test_path.empty() && test->samples() == 0) refuse_short(*opened.back(), opened.back()->tokens());
  return {train, test->samples() == 0 ? nullptr : test};
}

std::shared_ptr<const Dataset> token_samples(const fs::path& file, TokenType type, Index positions, Index vocabulary) {
  const auto opened = std::make_shared<TokenFile>(file, type, vocabulary);
  const Index most = vocabulary > 0 ? vocabulary : std::numeric_limits<std::int32_t>::max();
  auto out = std::make_shared<Tokens>(opened, Range{0, opened->tokens()}, positions, most, false);
  if (out->samples() == 0)
    throw UserError(fmt::format("{}: {} tokens are too few for one sample of {}", file.string(), opened->tokens(), positions),
                    Exit::data);
  return out;
}

void check_tokens(const TokenFiles& files, const SampleKind& expected) {
  const Index vocabulary = vocabulary_of(expected);
  for (const auto& file : open(files, vocabulary))
    if (vocabulary > 0) file->each(0, std::min(file->tokens(), kMostChecked / file->bytes_of_one()), vocabulary, [](Index) {});
}

}  // namespace motley
