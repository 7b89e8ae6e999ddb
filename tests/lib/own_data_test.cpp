// SPDX-License-Identifier: Apache-2.0
// Data of the users' own: arrays, tokens, and what is changed of them (pictures: pictures_test.cpp).
#include <motley/data.h>
#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>

#include "base/npy.h"
#include "base/random.h"
#include "tests/support/config_files.h"
#include "tests/support/samples.h"
#include "train/npy_data.h"
#include "train/token_samples.h"

using namespace motley;
using Catch::Contains;

namespace {

std::string raw(const std::string& descr, const std::vector<Index>& extents, const void* values, std::size_t bytes) {
  return npy_start(descr, extents) + std::string(static_cast<const char*>(values), bytes);
}
template <class T>
std::string array(const std::string& descr, const std::vector<Index>& extents, const std::vector<T>& values) {
  return raw(descr, extents, values.data(), values.size() * sizeof(T));
}

}  // namespace

TEST_CASE("arrays: floats are taken as they are, bytes are scaled to 0..1") {
  const Folder in("motley-own-npy");
  std::vector<float> values(3 * 2 * 2 * 3);
  for (std::size_t i = 0; i < values.size(); i++) values[i] = static_cast<float>(i) - 7.5F;
  std::vector<std::uint8_t> small(values.size());
  for (std::size_t i = 0; i < small.size(); i++) small[i] = static_cast<std::uint8_t>(7 * i);
  const std::string x = in.write("x.npy", array("<f4", {3, 2, 2, 3}, values)),
                    u = in.write("u.npy", array("|u1", {3, 2, 2, 3}, small)),
                    y = in.write("y.npy", array<std::int64_t>("<i8", {3}, {2, 0, 1}));
  const Datasets data = load_npy({x, y, u, in.write("z.npy", array<std::uint8_t>("|u1", {3}, {0, 3, 1}))});
  CHECK(data.train->samples() == 3);
  CHECK(data.train->classes() == 4);
  CHECK(data.test->classes() == 4);
  CHECK(data.train->label(0) == 2);
  CHECK(data.test->label(1) == 3);
  CHECK(data.train->sample_extents() == std::vector<Index>{2, 2, 3});
  std::vector<double> part(2);
  data.train->read(1, {{1, 2}, {0, 2}, {2, 3}}, part);  // elements 12 + 6 + 2 and 12 + 6 + 5
  CHECK(part == std::vector<double>{12.5, 15.5});
  data.test->read(1, {{1, 2}, {0, 2}, {2, 3}}, part);
  CHECK(part == std::vector<double>{140 / 255.0, 161 / 255.0});
  CHECK(load_npy({x, y}).test == nullptr);
  CHECK(load_npy({x, y}, {.extents = {2, 2, 3}, .classes = 9}).train->classes() == 9);
  CHECK(all_of(*npy_samples(in.write("h.npy", array<std::uint16_t>("<f2", {1, 2}, {0x3c00, 0xc000}))), 0) ==
        std::vector<double>{1, -2});
  const std::string numbers = in.write("i.npy", array<std::uint16_t>("<u2", {1, 3}, {7, 0, 65535}));
  const auto tokens = npy_samples(numbers, std::vector<Index>{3}, DType::i32);
  CHECK(tokens->dtype() == DType::i32);
  CHECK(all_of(*tokens, 0) == std::vector<double>{7, 0, 65535});
  CHECK_THAT(refused(Exit::data, [&] { npy_samples(numbers, std::vector<Index>{3}); }), Contains("an array of integers"));
  CHECK_THAT(refused(Exit::data, [&] { npy_samples(x, std::vector<Index>{2, 2, 3}, DType::i32); }), Contains("expected integers"));
  const auto large = npy_samples(in.write("l.npy", array<std::int64_t>("<i8", {1, 1}, {std::int64_t{1} << 40})),
                                 std::vector<Index>{1}, DType::i32);
  CHECK_THAT(refused(Exit::data, [&] { all_of(*large, 0); }), Contains("2^31"));
  CHECK(all_of(*npy_samples(in.write("d.npy", array<double>("<f8", {1, 1}, {0.1}))), 0) == std::vector<double>{0.1});
}

TEST_CASE("arrays: any box of a sample that is larger than what is read at once") {
  const Folder in("motley-own-boxes");
  constexpr Index kSamples = 2, kChannels = 3, kRows = 40, kCols = 300;
  std::vector<float> values(kSamples * kChannels * kRows * kCols);
  for (std::size_t i = 0; i < values.size(); i++) values[i] = static_cast<float>(i);
  const auto data = npy_samples(in.write("x.npy", array("<f4", {kSamples, kChannels, kRows, kCols}, values)));
  for (const Box& box : {Box{{0, kChannels}, {0, kRows}, {0, kCols}}, Box{{1, 3}, {0, kRows}, {0, kCols}},
                         Box{{0, kChannels}, {7, 31}, {0, kCols}}, Box{{0, kChannels}, {0, kRows}, {150, kCols}},
                         Box{{2, 3}, {39, 40}, {299, 300}}, Box{{0, kChannels}, {4, 4}, {0, kCols}}}) {
    std::vector<double> out(static_cast<std::size_t>(volume(box))), expected;
    data->read(1, box, out);
    for (Index c = box[0].begin; c < box[0].end; c++)
      for (Index h = box[1].begin; h < box[1].end; h++)
        for (Index w = box[2].begin; w < box[2].end; w++)
          expected.push_back(static_cast<double>(((kChannels + c) * kRows + h) * kCols + w));
    CHECK(out == expected);
  }
}

TEST_CASE("arrays that are missing, damaged or not as expected are refused by name") {
  const Folder in("motley-own-bad-npy");
  const std::vector<float> values(12);
  const std::string good = array("<f4", {3, 2, 2}, values), x = in.write("x.npy", good),
                    y = in.write("y.npy", array<std::int32_t>("<i4", {3}, {2, 0, 1}));
  CHECK_THAT(refused(Exit::missing, [&] { load_npy({in.at("none.npy"), y}); }), Contains("none.npy"));
  CHECK_THAT(refused(Exit::missing, [&] { load_npy({x, in.at("none.npy")}); }), Contains("none.npy"));
  for (std::size_t size = 0; size < good.size(); size += 11)
    CHECK_THAT(refused(Exit::data, [&] { load_npy({in.write("cut.npy", good.substr(0, size)), y}); }), Contains("cut.npy: byte "));
  CHECK_THAT(refused(Exit::data,
                     [&] {
                       load_npy({in.write("cut.npy", good + "x"), y});
                     }),
             Contains("12 elements of 4 bytes expected"));
  CHECK_THAT(refused(Exit::data,
                     [&] {
                       load_npy({x, y}, {.extents = {1, 2, 2}});
                     }),
             Contains("x.npy: an array [3, 2, 2]; expected [samples, 1, 2, 2]"));
  CHECK_THAT(refused(Exit::data, [&] { load_npy({y, y}); }), Contains("y.npy: an array of integers ('<i4')"));
  CHECK_THAT(refused(Exit::data, [&] { load_npy({x, x}); }), Contains("x.npy: labels of type '<f4'; expected integers"));
  CHECK_THAT(refused(Exit::data,
                     [&] {
                       load_npy({x, y}, {.classes = 2});
                     }),
             Contains("y.npy: sample 0 has the label 2; expected 0 to 1"));
  const auto labels = [&](const std::string& text) { return refused(Exit::data, [&] { load_npy({x, in.write("l.npy", text)}); }); };
  CHECK_THAT(labels(array<std::int8_t>("|i1", {3}, {0, -1, 0})), Contains("sample 1 has the label -1; expected 0 or more"));
  CHECK_THAT(labels(array<std::uint64_t>("<u8", {3}, {0, 0, ~std::uint64_t{0}})),
             Contains("sample 2 has the label 18446744073709551615; expected 0 or more"));
  CHECK_THAT(labels(array<std::int8_t>("|i1", {2}, {0, 1})), Contains("2 labels for the 3 samples of"));
  CHECK_THAT(labels(array<std::int8_t>("|i1", {3, 1}, {0, 1, 1})), Contains("an array [3, 1]; expected [samples]"));
  CHECK_THAT(refused(Exit::data,
                     [&] {
                       load_npy({x, in.write("l.npy", array<std::int8_t>("|i1", {3}, {-1, -1, -1}))}, {.ignored = -1});
                     }),
             Contains("l.npy: every label is -1, which \"ignore_index\" excludes"));
  const auto parts = [&](const std::string& text) {
    return refused(Exit::data, [&] {
      load_npy({x, in.write("l.npy", text)}, {.label_extents = {2}, .label_dtype = DType::f32, .label_is_part = true});
    });
  };
  CHECK(parts(array<float>("<f4", {3, 2}, {0, 1, 0.5, 0, 0, 0})) == "fine");
  CHECK_THAT(parts(array<float>("<f4", {3, 2}, {0, 1, 0.5, 1.5, 0, 0})),
             Contains("sample 1 has the label 1.5; binary_cross_entropy"));
  CHECK_THAT(parts(array<std::uint8_t>("|u1", {3, 2}, {0, 1, 0, 0, 0, 255})), Contains("sample 2 has the label 255"));
  const float nan = std::numeric_limits<float>::quiet_NaN(), infinite = std::numeric_limits<float>::infinity();
  CHECK_THAT(parts(array<float>("<f4", {3, 2}, {0, 1, nan, 0, 0, 0})), Contains("l.npy: sample 1 has the label nan"));
  const SampleKind real{.label_extents = {2}, .label_dtype = DType::f32};
  const auto numbers = [&](const std::string& text) {
    return refused(Exit::data, [&] { load_npy({x, in.write("l.npy", text)}, real); });
  };
  CHECK(numbers(array<float>("<f4", {3, 2}, {-7, 1e30f, 0, 0, 0, 0})) == "fine");
  CHECK_THAT(numbers(array<float>("<f4", {3, 2}, {0, 0, 0, nan, infinite, 0})),
             Contains("l.npy: sample 1 has the label nan; expected finite numbers"));
  CHECK_THAT(numbers(array<double>("<f8", {3, 2}, {0, 0, 0, 0, 0, -infinite})), Contains("l.npy: sample 2 has the label -inf"));
  CHECK_THAT(numbers(array<std::uint16_t>("<f2", {3, 2}, {0x7c00, 0, 0, 0, 0, 0})), Contains("l.npy: sample 0 has the label inf"));
  CHECK_THAT(refused(Exit::data,
                     [&] {
                       load_npy({in.write("e.npy", array<float>("<f4", {0, 2}, {})), y});
                     }),
             Contains("without samples"));
  CHECK_THAT(refused(Exit::data,
                     [&] {
                       load_npy({in.write("b.npy", array("<c8", {3, 2, 2}, std::vector<double>(12))), y});
                     }),
             Contains("elements of type '<c8'"));
  const std::string swapped = in.write("s.npy", array(">f4", {3, 2, 2}, values));
  CHECK_THAT(refused(Exit::data,
                     [&] {
                       load_npy({swapped, y});
                     }),
             Contains("s.npy: elements of type '>f4' are big-endian; expected '<f4', which array.astype('<f4') gives"));
  CHECK_THAT(refused(Exit::data,
                     [&] {
                       load_npy({x, in.write("s.npy", array<std::int32_t>(">i4", {3}, {0, 0, 0}))});
                     }),
             Contains("s.npy: elements of type '>i4' are big-endian; expected '<i4'"));
}

TEST_CASE("files of another kind are called what they are, and arrays that are nearly right get the way to make them so") {
  const Folder in("motley-own-kinds");
  const std::string y = in.write("y.npy", array<std::int32_t>("<i4", {3}, {0, 1, 2}));
  const auto images = [&](const std::string& content) {
    return refused(Exit::data, [&] { load_npy({in.write("x.npy", content), y}); });
  };
  CHECK_THAT(images("PK\x03\x04 x.npy"), Contains("not a .npy file of version 1.0 to 3.0; it is a zip archive, as .npz files are"));
  CHECK_THAT(images(""), Contains("; it is empty"));
  CHECK_THAT(images("\n<!DOCTYPE html><title>Not found"), Contains("; it is an HTML page"));
  CHECK_THAT(images("version https://git-lfs.github.com/spec/v1\noid sha256:0"), Contains("git lfs pull"));
  CHECK_THAT(images("0.5,0.25,0.125,0.5,0.25,0.125,0.5,0.25\n"), Contains("; it is a text"));
  CHECK_THAT(images("\x93NUMPY\x09"), !Contains("; it is"));
  // A row of zeros and a one for each sample.
  const std::vector<float> rows{1, 0, 0, 0, 1, 0, 0, 0, 1};
  const std::string x = in.write("x.npy", array<float>("<f4", {3, 2}, std::vector<float>(6)));
  const SampleKind three{.classes = 3};
  CHECK_THAT(refused(Exit::data,
                     [&] {
                       load_npy({x, in.write("l.npy", array<float>("<f4", {3, 3}, rows))}, three);
                     }),
             Contains("labels of type '<f4'; expected integers; of a row per sample, 1 at its class, labels.argmax(1)"));
  const std::vector<std::uint8_t> bytes(rows.begin(), rows.end());
  CHECK_THAT(refused(Exit::data,
                     [&] {
                       load_npy({x, in.write("l.npy", array<std::uint8_t>("|u1", {3, 3}, bytes))}, three);
                     }),
             Contains("an array [3, 3]; expected [samples], a label for each; of a row per sample"));
  // As Python 2 wrote shapes.
  std::string old = array<float>("<f4", {3, 2}, {1, 2, 3, 4, 5, 6});
  old.replace(old.find("(3, 2), }"), 11, "(3L, 2L), }");
  CHECK(all_of(*npy_samples(in.write("old.npy", old)), 1) == std::vector<double>{3, 4});
}

TEST_CASE("a file that becomes shorter while it is used is named") {
  const Folder in("motley-own-shorter");
  const std::vector<float> values(3 * 20000);
  const std::string x = in.write("x.npy", array("<f4", {3, 20000}, values)),
                    y = in.write("y.npy", array("<i4", {3, 20000}, std::vector<std::int32_t>(values.size(), 1))),
                    t = in.write("t.bin", std::string(80000, '\0'));
  const auto arrays = load_npy({x, y}, {.extents = {20000}, .classes = 2, .label_extents = {20000}}).train;
  const auto tokens = load_tokens({t, t}, {.extents = {100}, .classes = 5, .dtype = DType::i32}).train;
  std::vector<std::int32_t> labels(20000);
  std::filesystem::resize_file(x, 128 + 4 * 20000);  // one sample: nothing is read ahead of it
  CHECK(all_of(*arrays, 0) == std::vector<double>(20000));
  CHECK_THAT(refused(Exit::data, [&] { all_of(*arrays, 1); }), Contains("x.npy: byte "));
  for (const std::string& file : {x, y, t}) std::filesystem::resize_file(file, 1000);
  CHECK_THAT(refused(Exit::data, [&] { all_of(*arrays, 1); }),
             Contains("x.npy: byte ") && Contains("it had 240128 bytes when it was opened"));
  CHECK_THAT(refused(Exit::data, [&] { arrays->read_labels(2, {{0, 20000}}, labels); }), Contains("y.npy: byte "));
  CHECK_THAT(refused(Exit::data, [&] { all_of(*tokens, 300); }), Contains("t.bin: byte "));
}

TEST_CASE("a real label that is not finite is named when it is read, too") {  // beyond the part that is checked at first
  const Folder in("motley-own-late-nan");
  const std::string x = in.write("x.npy", array<float>("<f4", {2, 1}, {0, 0})),
                    y = in.write("y.npy", array<float>("<f4", {2, 2}, {0, 0, 0, 0}));
  const auto data = load_npy({x, y}, {.label_extents = {2}, .label_dtype = DType::f32}).train;
  std::vector<double> out(2);
  std::ofstream(y, std::ios::binary | std::ios::in) << array<float>("<f4", {2, 2}, {0, 0, 0, std::nanf("")});
  data->read_targets(0, {{0, 2}}, out);
  CHECK_THAT(refused(Exit::data,
                     [&] {
                       data->read_targets(1, {{0, 2}}, out);
                     }),
             Contains("y.npy: sample 1 has the label nan; expected finite numbers"));
}

TEST_CASE("tokens: samples one after another, labels the next token") {
  const Folder in("motley-own-tokens");
  const auto file = [&](const std::string& name, Index count, Index bytes, Index bad = -1) {
    std::string text;
    for (Index i = 0; i < count; i++) {
      const Index token = i == bad ? 60000 : i * 7 % 50;
      for (Index b = 0; b < bytes; b++) text += static_cast<char>(token >> 8 * b & 255);
    }
    return in.write(name, text);
  };
  const auto tokens = [](Index from, Index count) {
    std::vector<double> out;
    for (Index i = from; i < from + count; i++) out.push_back(static_cast<double>(i * 7 % 50));
    return out;
  };
  const SampleKind kind{.extents = {8}, .classes = 50, .dtype = DType::i32};
  for (const auto& [type, bytes] : {std::pair{TokenType::u16, 2}, {TokenType::u32, 4}}) {
    const Datasets data = load_tokens({file("t.bin", 103, bytes), "", type}, kind);  // 93 to train on, 10 to evaluate on
    CHECK(data.train->samples() == 11);
    CHECK(data.test->samples() == 1);
    CHECK(data.train->dtype() == DType::i32);
    CHECK(data.train->classes() == 50);
    CHECK(data.train->label_extents() == std::vector<Index>{8});
    CHECK(all_of(*data.train, 10) == tokens(80, 8));
    CHECK(all_of(*data.test, 0) == tokens(93, 8));
    std::vector<std::int32_t> labels(3);
    data.train->read_labels(10, {{5, 8}}, labels);
    CHECK(std::vector<double>(labels.begin(), labels.end()) == tokens(86, 3));
    CHECK(data.train->label(1) == 9 * 7 % 50);
    // As a step reads them: a box of the batch.
    const Batch batch = batch_of(data.train, {3, kNoSample, 0}, 0, 0);
    std::vector<std::int32_t> ids(6);
    batch.images({{0, 3}, {6, 8}}, std::as_writable_bytes(std::span(ids)));
    CHECK(ids == std::vector<std::int32_t>{30 * 7 % 50, 31 * 7 % 50, 0, 0, 42, 49});
    batch.labels({{0, 3}, {6, 8}}, std::as_writable_bytes(std::span(ids)));
    CHECK(ids == std::vector<std::int32_t>{31 * 7 % 50, 32 * 7 % 50, -1, -1, 49, 56 % 50});
  }
  const std::string good = file("t.bin", 103, 2);
  const Datasets two = load_tokens({good, file("e.bin", 9, 2)}, {.extents = {8}});
  CHECK(two.train->samples() == 12);
  CHECK(two.test->samples() == 1);
  CHECK(two.train->classes() == 50);  // the largest number and one
  CHECK(load_tokens({file("s.bin", 12, 2)}, kind).test == nullptr);
  check_tokens({good}, kind);
  CHECK_THAT(refused(Exit::data, [&] { check_tokens({good}, {.extents = {8}, .classes = 50, .numbers = 49}); }),
             Contains("t.bin: byte 14: token 7 is 49; the vocabulary has 0 to 48"));
  const std::string bad = file("b.bin", 103, 4, 77);
  CHECK_THAT(refused(Exit::data,
                     [&] {
                       check_tokens({bad, "", TokenType::u32}, kind);
                     }),
             Contains("b.bin: byte 308: token 77 is 60000"));
  CHECK_THAT(refused(Exit::data,
                     [&] {
                       all_of(*load_tokens({bad, "", TokenType::u32}, kind).train, 9);
                     }),
             Contains("token 77 is 60000"));
  CHECK_THAT(refused(Exit::data,
                     [&] {
                       load_tokens({in.write("odd.bin", "123"), ""}, kind);
                     }),
             Contains("odd.bin: 3 bytes are not a whole number of tokens of 2 bytes"));
  CHECK_THAT(refused(Exit::data, [&] { load_tokens({file("s.bin", 8, 2)}, kind); }),
             Contains("s.bin: 8 tokens, without the last tenth, are too few for one sample: it needs 8 and the next one"));
  CHECK_THAT(refused(Exit::data, [&] { load_tokens({good, file("e.bin", 8, 2)}, kind); }), Contains("e.bin: 8 tokens are too few"));
  const std::string npy = in.write("t.npy", array("<u2", {16}, std::vector<std::uint16_t>(16, 7)));
  CHECK_THAT(
      refused(Exit::data, [&] { load_tokens({npy}, {.extents = {8}, .classes = 50257}); }),
      Contains("t.npy: expected the numbers of tokens alone, 16 bits each, as numpy.asarray(ids, \"<u2\").tofile(...) writes "
               "them; it is a .npy file"));
  const std::string words = in.write("t.txt", "Once upon a time there was a text of even length.\n");
  CHECK_THAT(refused(Exit::data,
                     [&] {
                       load_tokens({words, "", TokenType::u16}, {.extents = {8}, .classes = 50257});
                     }),
             Contains("t.txt: expected the numbers of tokens alone") && Contains("; it is a text"));
  CHECK_THAT(refused(Exit::data,
                     [&] {
                       load_tokens({good, words}, {.extents = {8}, .classes = 50257});
                     }),
             Contains("it is a text"));
  CHECK_THAT(refused(Exit::missing, [&] { load_tokens({in.at("none.bin")}, kind); }), Contains("none.bin"));
  CHECK_THAT(refused(Exit::missing, [&] { load_tokens({good, in.at("none.bin")}, kind); }), Contains("none.bin"));
  CHECK_THAT(refused(Exit::config, [&] { load_tokens({good}, {.extents = {2, 4}}); }), Contains("one dim"));
}

TEST_CASE("tokens without labels, as a prediction reads them") {
  const Folder in("motley-own-token-samples");
  std::string text;
  for (int i = 0; i < 17; i++) text += {static_cast<char>(i), '\0'};
  const auto samples = token_samples(in.write("t.bin", text), TokenType::u16, 8, 50);
  CHECK(samples->samples() == 2);  // all tokens but the last: none is needed as a label
  CHECK(all_of(*samples, 1) == std::vector<double>{8, 9, 10, 11, 12, 13, 14, 15});
  CHECK(token_samples(in.write("t.bin", text.substr(0, 16)), TokenType::u16, 8, 50)->samples() == 1);
  CHECK_THAT(refused(Exit::data, [&] { token_samples(in.write("t.bin", text.substr(0, 14)), TokenType::u16, 8, 50); }),
             Contains("7 tokens are too few for one sample of 8"));
}

TEST_CASE("tokens that are wider than their type says are refused, odd files of the right width are not") {
  const Folder in("motley-own-wide-tokens");
  const auto file = [&](Index bytes, const std::vector<Index>& tokens) {
    std::string text;
    for (const Index token : tokens)
      for (Index b = 0; b < bytes; b++) text += static_cast<char>(token >> 8 * b & 255);
    return in.write("t.bin", text);
  };
  const auto verdict = [&](const std::string& path, TokenType type, Index vocabulary = 0) {
    const SampleKind kind{.extents = {8}, .classes = vocabulary};
    const std::string loaded = refused(Exit::data, [&] { load_tokens({path, "", type}, kind); });
    CHECK(loaded == refused(Exit::data, [&] { check_tokens({path, "", type}, kind); }));
    CHECK(loaded == refused(Exit::data, [&] { load_tokens({in.write("good.bin", std::string(64, '\0')), path, type}, kind); }));
    return loaded;
  };
  std::vector<Index> text(100000), large, zeros(1000, 0);
  for (std::size_t i = 0; i < text.size(); i++) text[i] = static_cast<Index>(i * 7 % 50);
  for (const Index token : text) large.push_back(token * 2000);  // up to 98000
  using enum TokenType;
  CHECK_THAT(verdict(file(4, text), u16, 50),
             Contains("t.bin: every second one of its first 65536 numbers is 0, as in a file of tokens of 32 bits; expected tokens "
                      "of 16 bits, or \"type\": \"u32\""));
  CHECK_THAT(verdict(file(4, {text.begin(), text.begin() + 20}), u16), Contains("every second one of its first 40 numbers is 0"));
  CHECK_THAT(verdict(file(4, large), u16, 100000), Contains("every second one of its first 65536 numbers is at most 1"));
  CHECK_THAT(verdict(file(8, text), u16, 50),
             Contains("three of every four of its first 65536 numbers are 0, as in a file of tokens "
                      "of 64 bits; expected 16 or 32 bits"));
  CHECK_THAT(verdict(file(8, text), u32, 50),
             Contains("every second one of its first 65536 numbers is 0, as in a file of tokens of 64"));
  CHECK(verdict(file(2, text), u16, 50) == "fine");
  CHECK(verdict(file(4, text), u32, 50) == "fine");
  CHECK(verdict(file(4, large), u32, 100000) == "fine");
  // Nothing is known of zeros alone, of a few numbers, or of two that take turns; padding has no odd or even places.
  CHECK(verdict(file(4, zeros), u16, 50) == "fine");
  CHECK(verdict(file(4, {text.begin(), text.begin() + 16}), u16, 50) == "fine");
  std::vector<Index> turns, padded;
  for (Index i = 0; i < 1000; i++) {
    turns.push_back(1 - i % 2);
    padded.push_back(i % 100 < 3 ? i % 50 : 0);
  }
  CHECK(verdict(file(2, turns), u16, 2) == "fine");
  CHECK(verdict(file(2, padded), u16, 50) == "fine");
  CHECK(verdict(file(2, padded), u16, 1 << 22) == "fine");  // all are as small as upper halves
  CHECK_THAT(verdict(file(4, padded), u16, 50), Contains("every second one"));
}

TEST_CASE("values are normalized per channel, in any box") {
  const Folder in("motley-own-normalize");
  const std::string x = in.write("x.npy", array<float>("<f4", {1, 2, 1, 2}, {1, 2, 3, 4}));
  const auto data = npy_samples(x);
  CHECK(all_of(*normalized(data, {{1, 2}, {2, 0.5}}), 0) == std::vector<double>{0, 0.5, 2, 4});
  CHECK(all_of(*normalized(data, {{1}, {2}}), 0) == std::vector<double>{0, 0.5, 1, 1.5});
  CHECK(normalized(data, {}) == data);
  std::vector<double> out(1);
  normalized(data, {{1, 2}, {2, 0.5}})->read(0, {{1, 2}, {0, 1}, {1, 2}}, out);
  CHECK(out[0] == 4);
  CHECK_THAT(refused(Exit::config, [&] { normalized(data, {{1, 2, 3}, {1, 1, 1}}); }), Contains("2 channels"));
  CHECK_THAT(refused(Exit::config, [&] { normalized(data, {{1}, {0}}); }), Contains("above 0"));
}

TEST_CASE("labels of pixels are moved and mirrored with their picture, and get the ignored label where padding comes in") {
  const Folder in("motley-augment-labels");
  constexpr Index kSamples = 30, kRows = 4, kCols = 5;
  std::vector<float> pixels;
  std::vector<std::int32_t> labels;
  for (Index k = 0; k < kSamples * kRows * kCols; k++) {
    labels.push_back(static_cast<std::int32_t>(1 + k % 97));
    pixels.push_back(static_cast<float>(labels.back()));
  }
  const std::string x = in.write("x.npy", array<float>("<f4", {kSamples, 1, kRows, kCols}, pixels)),
                    y = in.write("y.npy", array<std::int32_t>("<i4", {kSamples, kRows, kCols}, labels));
  const auto data = load_npy({.images = x, .labels = y}, {.extents = {1, kRows, kCols}, .label_extents = {kRows, kCols}}).train;
  const auto both = [&](const Dataset& of, Index sample, const Box& box) {  // pixels, their labels
    const auto size = static_cast<std::size_t>(volume(box));
    std::pair<std::vector<double>, std::vector<std::int32_t>> out{std::vector<double>(size), std::vector<std::int32_t>(size)};
    of.read(sample, {{0, 1}, box[0], box[1]}, out.first);
    of.read_labels(sample, box, out.second);
    return out;
  };
  int changed = 0, ignored = 0;
  for (const Augment& how : {Augment{.flip = true}, Augment{.flip = true, .crop_padding = 2, .ignored = -100}}) {
    const auto view = augmented(data, how, 3, 1);
    for (Index sample = 0; sample < kSamples; sample++)
      for (const Box& box : {Box{{0, kRows}, {0, kCols}}, Box{{1, 3}, {2, 5}}, Box{{3, 4}, {0, 1}}, Box{{2, 2}, {0, 5}}}) {
        const auto [is, its] = both(*view, sample, box);
        for (std::size_t k = 0; k < is.size(); k++) CHECK(its[k] == (is[k] == 0 ? -100 : static_cast<std::int32_t>(is[k])));
        changed += its != both(*data, sample, box).second;
        ignored += static_cast<int>(std::count(its.begin(), its.end(), -100));
      }
  }
  CHECK((changed > 60 && ignored > 100));
  CHECK_THAT(refused(Exit::config, [&] { augmented(data, {.crop_padding = 1}, 1, 1); }), Contains("ignores"));
  const std::string z = in.write("z.npy", array<std::int32_t>("<i4", {kSamples, kCols, kRows}, labels));
  const auto turned = load_npy({.images = x, .labels = z}, {.extents = {1, kRows, kCols}, .label_extents = {kCols, kRows}}).train;
  CHECK_THAT(refused(Exit::config, [&] { augmented(turned, {.flip = true}, 1, 1); }),
             Contains("last two dims are its rows and columns"));
}

TEST_CASE("a picture is moved and mirrored by (seed, epoch, sample) alone: every box of it is a part of the same picture") {
  const Datasets data = synthetic({2, 5, 7}, 3, 40, 9);
  const Augment how{.flip = true, .crop_padding = 2};
  int mirrored = 0, moved = 0, changed = 0;
  for (Index sample = 0; sample < 40; sample++) {
    const auto view = augmented(data.train, how, 4, 1);
    const std::vector<double> is = all_of(*view, sample), was = all_of(*data.train, sample);
    CHECK(view->label(sample) == data.train->label(sample));
    CHECK(all_of(*augmented(data.train, how, 4, 1), sample) == is);
    changed += all_of(*augmented(data.train, how, 4, 2), sample) != is;
    // Which of the 2 x 5 x 5 pictures is it?
    int fits = 0;
    for (Index down = -2; down <= 2; down++)
      for (Index right = -2; right <= 2; right++)
        for (const bool flip : {false, true}) {
          std::vector<double> expected(is.size());
          for (Index c = 0; c < 2; c++)
            for (Index h = 0; h < 5; h++)
              for (Index w = 0; w < 7; w++) {
                const Index row = h - down, col = (flip ? 6 - w : w) - right;
                if (row >= 0 && row < 5 && col >= 0 && col < 7)
                  expected[static_cast<std::size_t>((c * 5 + h) * 7 + w)] = was[static_cast<std::size_t>((c * 5 + row) * 7 + col)];
              }
          if (expected != is) continue;
          fits++;
          mirrored += flip;
          moved += down != 0 || right != 0;
        }
    CHECK(fits == 1);
    for (int k = 0; k < 20; k++) {  // boxes, empty ones too
      Box box;
      const RandomStream draws(static_cast<std::uint64_t>(sample), "boxes");
      for (const Index n : {2, 5, 7}) {
        const auto counter = static_cast<std::uint64_t>(k * 6) + 2 * box.size();
        const auto a = static_cast<Index>(draws.uniform(counter) * static_cast<double>(n + 1)),
                   b = static_cast<Index>(draws.uniform(counter + 1) * static_cast<double>(n + 1));
        box.push_back({std::min(a, b), std::max(a, b)});
      }
      std::vector<double> part(static_cast<std::size_t>(volume(box))), expected;
      view->read(sample, box, part);
      for (Index c = box[0].begin; c < box[0].end; c++)
        for (Index h = box[1].begin; h < box[1].end; h++)
          for (Index w = box[2].begin; w < box[2].end; w++) expected.push_back(is[static_cast<std::size_t>((c * 5 + h) * 7 + w)]);
      CHECK(part == expected);
    }
  }
  CHECK((mirrored > 10 && mirrored < 30));
  CHECK((moved > 30 && changed > 30));
  CHECK(augmented(data.train, {}, 1, 1) == data.train);
  CHECK_THAT(refused(Exit::config, [] { augmented(synthetic({4}, 2, 8, 1).train, {.flip = true}, 1, 1); }), Contains("two dims"));
}
