// SPDX-License-Identifier: Apache-2.0
// Weights files and checkpoints: what is written is read; what is cut, flipped or hostile is refused (65), or its values are those
// that were written.
#include <motley/error.h>
#include <zlib.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <fstream>
#include <functional>
#include <random>

#include "base/half.h"
#include "base/hash.h"
#include "base/random.h"
#include "tests/support/directory.h"
#include "train/keep.h"
#include "train/same_network.h"
#include "weights/checkpoint.h"

using namespace motley;
using Catch::Contains;
using testing::Directory;
namespace fs = std::filesystem;

namespace {

struct Tensors {
  std::vector<StoredTensor> list{};
  std::vector<NpyData> values{};
};

Tensors some(bool integers) {
  Tensors out;
  const auto add = [&](const std::string& name, const std::string& dtype, std::vector<Index> extents) {
    const Index n = *elements_of(extents);
    const RandomStream random(1, name);
    NpyData values = std::vector<float>();
    if (dtype == "F64") values = std::vector<double>();
    if (dtype == "I32") values = std::vector<std::int32_t>();
    if (dtype == "I64") values = std::vector<std::int64_t>();
    std::visit(
        [&](auto& list) {
          for (Index i = 0; i < n; i++)
            list.push_back(static_cast<typename std::remove_reference_t<decltype(list)>::value_type>(
                1e3 * random.uniform(static_cast<std::uint64_t>(i))));
        },
        values);
    out.list.push_back({name, dtype, std::move(extents)});
    out.values.push_back(std::move(values));
  };
  add("conv.weight", "F32", {3, 2, 2, 2});
  add("a \"nämé\"\t/x", "F64", {5});
  add("empty", "F32", {0, 7});
  add("scalar", "F32", {});
  if (integers) add("steps", "I64", {2});
  add("labels", "I32", {2, 1});
  return out;
}

void write(WeightsWriter& writer, const Tensors& tensors) {
  for (const NpyData& values : tensors.values) writer.add(values);
  writer.finish();
}

bool equal(const WeightsFile& file, const Tensors& tensors) {
  std::vector<NpyData> values;  // all of them first: a name or a shape may be found to be damaged here
  for (std::size_t i = 0; i < file.tensors().size(); i++) values.push_back(file.read(static_cast<int>(i)));
  return file.tensors() == tensors.list && values == tensors.values;
}

std::string content(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
void put(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

// What reading it says; "": nothing is wrong.
std::string refusal(const std::function<void()>& read) {
  try {
    read();
    return "";
  } catch (const UserError& e) {
    CHECK(e.code() == Exit::data);
    return e.what();
  }
}

// Every cut and many flips of a file: refused, or the values are as they were.
void damage(const fs::path& file, const Tensors& tensors, const std::function<std::unique_ptr<WeightsFile>()>& open) {
  const std::string good = content(file);
  int refused = 0, tried = 0;
  const auto attempt = [&](const std::string& bytes) {
    put(file, bytes);
    tried++;
    bool same = false;
    if (!refusal([&] { same = equal(*open(), tensors); }).empty())
      refused++;
    else if (!same)
      FAIL("other values were read from " << file << ": " << bytes);
  };
  for (std::size_t size = 0; size < good.size(); size++) attempt(good.substr(0, size));
  for (std::size_t at = 0; at < good.size(); at++)
    for (const unsigned flip : {1U, 2U, 16U, 128U, 0xffU}) {
      std::string bytes = good;
      bytes[at] = static_cast<char>(static_cast<unsigned char>(bytes[at]) ^ flip);
      attempt(bytes);
    }
  attempt(good + '\0');
  put(file, good);
  CHECK(refused > tried * 3 / 4);
}

std::string safetensors(const std::string& header, const std::string& buffer = "") {
  const std::uint64_t size = header.size();
  return std::string(reinterpret_cast<const char*>(&size), sizeof size) + header + buffer;
}

}  // namespace

TEST_CASE("files of weights keep the names of the classes") {
  const Directory in;
  const Tensors tensors = some(false);
  const std::vector<std::string> names{"cup", "a \"dog\"", "", "nämé"};
  write(*new_safetensors(in.path / "a.safetensors", tensors.list, metadata_of(names)), tensors);
  CHECK(open_weights(in.path / "a.safetensors")->classes() == names);
  write(*new_checkpoint(in.path / "a", tensors.list, names), tensors);
  CHECK(open_weights(in.path / "a")->classes() == names);
  write(*new_checkpoint(in.path / "b", tensors.list), tensors);
  CHECK(open_weights(in.path / "b")->classes().empty());
  // Another program's metadata of that name.
  for (const char* text : {"3", "\\\"cup\\\"", "[1, 2]", "[\\\"cup\\\", 1]", "cup, dog", "["}) {
    put(in.path / "b.safetensors", safetensors(R"({"__metadata__": {"classes": ")" + std::string(text) + R"("}})"));
    CHECK(open_weights(in.path / "b.safetensors")->classes().empty());
  }
}

TEST_CASE("safetensors, npz and checkpoints give back what was written") {
  const Directory in;
  const Tensors tensors = some(true), without = some(false);
  write(*new_safetensors(in.path / "a.safetensors", tensors.list, {{"by", "a test"}}), tensors);
  CHECK(equal(*open_weights(in.path / "a.safetensors"), tensors));
  write(*new_npz(in.path / "a.npz", tensors.list), tensors);
  CHECK(equal(*open_weights(in.path / "a.npz"), tensors));
  write(*new_npz(in.path / "large.npz", tensors.list, 100), tensors);
  CHECK(equal(*open_weights(in.path / "large.npz"), tensors));
  write(*new_checkpoint(in.path / "a", without.list), without);
  CHECK(equal(*open_weights(in.path / "a"), without));
  CHECK_THROWS_WITH(new_checkpoint(in.path / "b", tensors.list), Contains("cannot hold I64"));
  write(*new_safetensors(in.path / "none.safetensors", {}, {}), {});
  CHECK(open_weights(in.path / "none.safetensors")->tensors().empty());
  write(*new_npz(in.path / "none.npz", {}), {});
  CHECK(open_weights(in.path / "none.npz")->tensors().empty());
  // Nothing is left of what was not finished.
  new_safetensors(in.path / "half.safetensors", tensors.list, {})->add(tensors.values[0]);
  new_checkpoint(in.path / "half", without.list)->add(without.values[0]);
  for (const auto& entry : fs::directory_iterator(in.path)) CHECK(entry.path().string().find("half") == std::string::npos);
  CHECK_THROWS_AS(open_weights(in.path / "nowhere"), UserError);
  // Boxes.
  const auto boxes = open_weights(in.path / "a")
                         ->read_boxes(0, {{{1, 3}, {0, 1}, {1, 2}, {0, 2}}, {{0, 0}, {0, 2}, {0, 2}, {0, 2}}}, {3, 2, 2, 2});
  const auto& all = std::get<std::vector<float>>(tensors.values[0]);
  CHECK(boxes[0] == std::vector<double>{all[10], all[11], all[18], all[19]});
  CHECK(boxes[1].empty());
  CHECK(open_weights(in.path / "a.npz")->read_boxes(0, {{{1, 3}, {0, 1}, {1, 2}, {0, 2}}}, {3, 2, 2, 2})[0] == boxes[0]);
}

TEST_CASE("a damaged weights file or checkpoint is refused, or its values are those that were written") {
  const Directory in;
  const Tensors tensors = some(false);
  const fs::path a = in.path / "a.safetensors", b = in.path / "b.npz", c = in.path / "c";
  write(*new_safetensors(a, tensors.list, {}), tensors);
  damage(a, tensors, [&] { return open_safetensors(a); });
  write(*new_npz(b, tensors.list), tensors);
  damage(b, tensors, [&] { return open_npz(b); });
  write(*new_npz(b, tensors.list, 100), tensors);
  damage(b, tensors, [&] { return open_npz(b); });
  write(*new_checkpoint(c, tensors.list), tensors);
  for (const char* file : {"manifest.json", "complete", "rank-0.bin"})
    damage(c / file, tensors, [&] { return open_checkpoint(c); });
}

TEST_CASE("safetensors: what the format forbids is named") {
  const Directory in;
  const fs::path file = in.path / "a.safetensors";
  const auto said = [&](const std::string& bytes) {
    put(file, bytes);
    return refusal([&] { static_cast<void>(open_safetensors(file)->tensors()); });
  };
  const std::string good = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  CHECK(said(safetensors(good + "   ", "12345678")).empty());
  CHECK_THAT(said("abc"), Contains("a.safetensors") && Contains("3 bytes"));
  CHECK_THAT(said(std::string(7, '\xff') + '\x7f'), Contains("at most 100000000"));
  CHECK_THAT(said(safetensors(good + " ", "1234")), Contains("data_offsets [0, 8] of 4 bytes"));
  CHECK_THAT(said(safetensors(good, "123456789")), Contains("9 bytes of values, its tensors take 8"));
  CHECK_THAT(said(safetensors(" " + good, "12345678")), Contains("expected {"));
  CHECK_THAT(said(safetensors("[]")), Contains("expected {"));
  const auto tensor = [](const std::string& rest) { return safetensors("{\"a\":{" + rest + "}}", "12345678"); };
  for (const auto& [text, part] : std::vector<std::pair<std::string, std::string>>{
           {R"("dtype":"F32","shape":[3],"data_offsets":[0,8])", "F32 [3] takes 12 bytes, its data_offsets give it 8"},
           {R"("dtype":"F5","shape":[8],"data_offsets":[0,8])", "dtype \"F5\"; F32, F64, F16, BF16, I32 and I64"},
           {R"("dtype":"F4","shape":[8],"data_offsets":[0,8])", "F4 [8] takes 4 bytes, its data_offsets give it 8"},
           {R"("dtype":"BOOL","shape":[7],"data_offsets":[0,8])", "BOOL [7] takes 7 bytes, its data_offsets give it 8"},
           {R"("dtype":"F32","shape":[2])", "\"data_offsets\" is missing"},
           {R"("dtype":"F32","shape":[-2],"data_offsets":[0,8])", "expected an integer from 0"},
           {R"("dtype":"F32","shape":[2.0],"data_offsets":[0,8])", "expected an integer from 0"},
           {R"("dtype":"F32","shape":[9223372036854775808],"data_offsets":[0,8])", "expected an integer from 0"},
           {R"("dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8])", "more elements than a file can hold"},
           {R"("dtype":"F64","shape":[4611686018427387904],"data_offsets":[0,8])", "more elements than a file can hold"},
           {R"("dtype":"F32","shape":[2],"data_offsets":[8,0])", "data_offsets [8, 0]"},
           {R"("dtype":"F32","shape":[2],"data_offsets":[0,8,8])", "expected two numbers"},
           {R"("dtype":"F32","shape":[2],"data_offsets":[0,8],"more":1)", "unknown key \"more\""},
           {R"("dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8])", "dtype"}})
    CHECK_THAT(said(tensor(text)), Contains(part));
  CHECK_THAT(said(safetensors(
                 R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
                 "12345678")),
             Contains("\"/a\""));
  CHECK_THAT(said(safetensors(
                 R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],"data_offsets":[2,6]}})",
                 "123456")),
             Contains("they overlap"));
  CHECK_THAT(said(safetensors(
                 R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}})",
                 "123456789012")),
             Contains("a gap"));
  CHECK_THAT(said(safetensors(R"({"__metadata__":{"a":1}})")), Contains("expected a text"));
  CHECK_THAT(said(safetensors(R"({"__metadata__":{"xxh3:b":"0"}})")), Contains("\"b\", a tensor that is not there"));
  CHECK_THAT(said(safetensors(std::string(1000000, '['))), Contains("expected {"));
  CHECK_THAT(said(safetensors("{\"a\":" + std::string(1000000, '['))), Contains("byte"));
}

TEST_CASE("files of other kinds are named") {
  const Directory in;
  const auto said = [&](const std::string& name, const std::string& bytes) {
    put(in.path / name, bytes);
    return refusal([&] { open_weights(in.path / name); });
  };
  const std::string zip("PK\x03\x04\0\0\x08\x08", 8), pickle("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20", 10);
  for (const char* name : {"a.pt", "pytorch_model.bin", "a.npz"})
    CHECK_THAT(said(name, zip + std::string(22, '\0') + "archive/data.pkl"), Contains("PyTorch's own format"));
  CHECK_THAT(said("old.pth", pickle), Contains("PyTorch's own format"));
  CHECK(said("a.safetensors", safetensors("{}" + std::string(638, ' '))).empty());  // a header of 640 bytes begins as a pickle does
  CHECK_THAT(said("job.json", "{ \"version\": 1 }"), Contains("it begins like a text"));
}

TEST_CASE("16-bit floats are widened exactly") {
  for (const auto& [half, value] : std::vector<std::pair<int, float>>{{0x3c00, 1},
                                                                      {0xc000, -2},
                                                                      {0x0001, 0x1p-24F},
                                                                      {0x03ff, 1023 * 0x1p-24F},
                                                                      {0x7bff, 65504},
                                                                      {0x7c00, HUGE_VALF},
                                                                      {0x8000, -0.0F}})
    CHECK(float_of_f16(static_cast<std::uint16_t>(half)) == value);
  CHECK(std::signbit(float_of_f16(0x8000)));
  CHECK(std::isnan(float_of_f16(0x7e00)));
  CHECK(float_of_bf16(0x3fc0) == 1.5F);
  const Directory in;
  put(in.path / "a.safetensors",
      safetensors(R"({"h":{"dtype":"F16","shape":[1],"data_offsets":[0,2]},"b":{"dtype":"BF16","shape":[1],"data_offsets":[2,4]}})",
                  std::string("\x00\x3c\xc0\x3f", 4)));
  const auto file = open_weights(in.path / "a.safetensors");
  CHECK(file->read(0) == NpyData(std::vector<float>{1}));
  CHECK(file->read(1) == NpyData(std::vector<float>{1.5F}));
}

TEST_CASE("checkpoints: hostile manifests are refused before anything else is opened") {
  const Directory in;
  const fs::path dir = in.path / "step-3";
  const Tensors tensors = some(false);
  write(*new_checkpoint(dir, tensors.list), tensors);
  const std::string good = content(dir / kManifest);
  const auto said = [&](std::string from, const std::string& to) {
    std::string text = good;
    REQUIRE(text.find(from) != std::string::npos);
    text.replace(text.find(from), from.size(), to);
    put(dir / kManifest, text);
    put(dir / kMarker, to_hex(hash_bytes(text)) + "\n");
    std::string out = refusal([&] { Checkpoint(dir).check_chunks(); });
    put(dir / kManifest, good);
    put(dir / kMarker, to_hex(hash_bytes(good)) + "\n");
    return out;
  };
  CHECK(said("\"step\": 0", "\"step\": 5").empty());
  CHECK_THAT(said("rank-0.bin", "../rank-0.bin"), Contains("expected a file name such as"));
  CHECK_THAT(said("rank-0.bin", "/etc/passwd"), Contains("expected a file name such as"));
  CHECK_THAT(said("rank-0.bin", "rank-00.bin"), Contains("expected a file name such as"));
  CHECK_THAT(said("rank-0.bin", "rank-1.bin"), Contains("rank-1.bin is missing"));
  CHECK_THAT(said("\"bytes\": 96", "\"bytes\": 9223372036854775808"), Contains("integer"));
  CHECK_THAT(said("\"bytes\": 96", "\"bytes\": 9223372036854775807"), Contains("takes 96 bytes"));
  CHECK_THAT(said("\"epoch\": 0", "\"epoch\": 4611686018427387904"), Contains("is not a valid position in a training"));
  CHECK_THAT(said("\"offset\": 0", "\"offset\": 9223372036854775807"), Contains("a part of"));
  CHECK_THAT(said("\"offset\": 96", "\"offset\": 95"), Contains("the parts before it end at byte 96"));
  CHECK_THAT(said("\"file\": 0", "\"file\": 1"), Contains("file 1 of 1"));
  CHECK_THAT(said("[0, 3]", "[0, 2]"), Contains("takes 64 bytes"));
  CHECK_THAT(said("[0, 3]", "[1, 4]"), Contains("is not one of shape"));
  CHECK_THAT(said("[0, 3]", "[-1, 2]"), Contains("box"));
  CHECK_THAT(said("[0, 3]", "[0, 9223372036854775807]"), Contains("is not one of shape"));
  CHECK_THAT(said("\"labels\"", "\"scalar\""), Contains("listed twice"));
  CHECK_THAT(said("\"version\": 1", "\"version\": 2"), Contains("version"));
  CHECK_THAT(said("\"seed\"", "\"sead\""), Contains("unknown key"));
  CHECK_THAT(said("\"seed\": 0", "\"seed\": \"18446744073709551616\""), Contains("expected an integer from 0 to 2^64 - 1"));
  CHECK(refusal([&] { Checkpoint(dir).check_chunks(); }).empty());
  fs::rename(dir / "rank-0.bin", in.path / "elsewhere");
  fs::create_symlink(in.path / "elsewhere", dir / "rank-0.bin");
  CHECK_THAT(refusal([&] { Checkpoint(dir).check_chunks(); }), Contains("a symbolic link"));
  fs::remove(dir / "rank-0.bin");
  fs::create_directory(dir / "rank-0.bin");
  CHECK_THAT(refusal([&] { Checkpoint(dir).check_chunks(); }), Contains("not a file"));
  fs::remove_all(dir / kMarker);
  CHECK_THAT(refusal([&] { Checkpoint(dir).check_chunks(); }), Contains("not a complete checkpoint: it has no complete"));
}

TEST_CASE("a manifest keeps every seed, and shows none below 0") {
  for (const std::uint64_t seed : {std::uint64_t{0}, std::uint64_t{INT64_MAX}, std::uint64_t{1} << 63, UINT64_MAX}) {
    const std::string text = to_text(Manifest{.seed = seed});
    CHECK_THAT(text, Contains(std::to_string(seed)));
    CHECK(parse_manifest("manifest.json", text).seed == seed);
  }
  std::string older = to_text(Manifest{});
  older.replace(older.find("\"seed\": 0"), 9, "\"seed\": -1");
  CHECK(parse_manifest("manifest.json", older).seed == UINT64_MAX);
}

TEST_CASE("a checkpoint has a hash for each chunk of 4 MiB") {
  const Directory in;
  Tensors tensors;
  const Index n = 3 << 20;
  tensors.list = {{"w", "F32", {n}}};
  tensors.values = {std::vector<float>(static_cast<std::size_t>(n), 1.0F)};
  write(*new_checkpoint(in.path / "c", tensors.list), tensors);
  const Checkpoint good(in.path / "c");
  CHECK(good.manifest().entries[0].parts[0].hashes.size() == 3);
  std::fstream file(in.path / "c/rank-0.bin", std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(5 << 20);
  file.put('x');
  file.close();
  // What does not touch the damaged chunk is still read.
  const Checkpoint checkpoint(in.path / "c");
  const StoredEntry& entry = checkpoint.manifest().entries[0];
  std::vector<float> out(1 << 20);
  checkpoint.read(entry, {{0, 1 << 20}}, std::as_writable_bytes(std::span(out)));
  CHECK(out == std::vector<float>(1 << 20, 1.0F));
  checkpoint.check(entry, {{2 << 20, n}});
  CHECK_THAT(refusal([&] {
               checkpoint.check(entry, {{(1 << 20) + 5, (1 << 20) + 6}});
             }),
             Contains("bytes 4194304 to 8388608 are damaged"));
  CHECK_THAT(refusal([&] { checkpoint.check_chunks(); }), Contains("are damaged"));
}

TEST_CASE("any box of a checkpoint is read, whatever chunks its rows are in") {
  const Directory in;
  // Rows of less than a chunk that none ends with, rows of more than one, a row that is one, no dims.
  Tensors tensors;
  tensors.list = {
      {"short", "F32", {700, 3, 1001}}, {"long", "F64", {3, 700001, 2}}, {"flat", "F32", {2500000}}, {"none", "F32", {}}};
  std::vector<std::vector<double>> all;
  for (const StoredTensor& its : tensors.list) {
    std::vector<double>& values = all.emplace_back(static_cast<std::size_t>(*elements_of(its.extents)));
    for (std::size_t i = 0; i < values.size(); i++) values[i] = static_cast<double>(i % 8388593);
    if (its.dtype == "F64") tensors.values.emplace_back(values);
    if (its.dtype == "F32") tensors.values.emplace_back(std::vector<float>(values.begin(), values.end()));
  }
  write(*new_checkpoint(in.path / "c", tensors.list), tensors);
  const Checkpoint checkpoint(in.path / "c");
  std::mt19937 random(5);
  for (std::size_t t = 0; t < all.size(); t++)
    for (int number = 0; number < (t < 3 ? 6 : 1); number++) {
      const StoredEntry& entry = checkpoint.manifest().entries[t];
      Box box;
      for (const Index n : entry.tensor.extents) {
        const Index a = std::uniform_int_distribution<Index>(0, n - 1)(random),
                    b = std::uniform_int_distribution<Index>(0, n)(random);
        box.push_back(number == 0 ? Range{0, n} : Range{std::min(a, b), std::max(a + 1, b)});
      }
      CAPTURE(entry.tensor.name, to_string(box));
      std::string bytes(static_cast<std::size_t>(volume(box) * bytes_of_dtype(entry.tensor.dtype)), 'x');
      checkpoint.read(entry, box, std::as_writable_bytes(std::span(bytes)));
      std::vector<double> expected, found;
      for_each_run(box, [&](const std::vector<Index>& here, Index length) {
        Box whole;
        for (const Index n : entry.tensor.extents) whole.push_back({0, n});
        for (Index i = 0; i < length; i++) expected.push_back(all[t][static_cast<std::size_t>(position_in(whole, here) + i)]);
      });
      std::visit([&](const auto& values) { found.assign(values.begin(), values.end()); },
                 values_of({"", entry.tensor.dtype, {volume(box)}}, bytes));
      CHECK((found == expected));
    }
}

TEST_CASE("names and shapes that differ are reported all at once") {
  const std::vector<NamedShape> state{{"conv1.weight", {3, 2}}, {"fc.bias", {4}}, {"fc.weight", {4, 5}}};
  CHECK(differences(state, state).empty());
  const std::string said = to_text(differences(state, {{"conv_1.weight", {3, 2}}, {"fc.weight", {5, 4}}, {"x", {}}}));
  CHECK_THAT(said, Contains("\"conv1.weight\" [3, 2] is missing; did you mean \"conv_1.weight\"?") &&
                       Contains("\"fc.bias\" [4] is missing\n") && Contains("\"x\" [] is not in the network") &&
                       Contains("\"fc.weight\": [5, 4], expected [4, 5]"));
  CHECK_THAT(to_text(differences(state, std::vector<NamedShape>(30, {"y", {}}))), Contains("and 13 more"));
  const std::vector<NamedShape> named{{"wpe", {8, 2}, {"context", "hidden"}}};
  CHECK(differences(named, {{"wpe", {4, 2}}}) == std::vector<std::string>{"\"wpe\": [4, 2], expected [8, 2] (dim \"context\")"});
  CHECK(differences(named, {{"wpe", {4, 3}}}).front() == "\"wpe\": [4, 3], expected [8, 2] (dims \"context\", \"hidden\")");
  CHECK(differences(named, {{"wpe", {1, 4, 2}}}).front() == "\"wpe\": [1, 4, 2], expected [8, 2] (dim \"context\")");
  CHECK(differences(named, {{"wpe", {2, 8, 2}}}).front() == "\"wpe\": [2, 8, 2], expected [8, 2]");
}
