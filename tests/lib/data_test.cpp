// SPDX-License-Identifier: Apache-2.0
#include <motley/data.h>
#include <motley/error.h>
#include <unistd.h>
#include <zlib.h>
#include <catch2/catch.hpp>

#include <algorithm>
#include <fstream>
#include <numeric>
#include <set>

using namespace motley;
namespace fs = std::filesystem;

namespace {

struct Folder {
  fs::path path = fs::temp_directory_path() / ("motley-data-test-" + std::to_string(::getpid()));
  Folder() { fs::create_directories(path); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { fs::remove_all(path); }
  void put(const std::string& name, const std::string& bytes) const { std::ofstream(path / name, std::ios::binary) << bytes; }
  void put_gz(const std::string& name, const std::string& bytes) const {
    gzFile f = gzopen((path / (name + ".gz")).c_str(), "wb");
    REQUIRE(gzwrite(f, bytes.data(), static_cast<unsigned>(bytes.size())) == static_cast<int>(bytes.size()));
    REQUIRE(gzclose(f) == Z_OK);
  }
  std::string get(const std::string& name) const {
    std::ifstream in(path / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
};

std::string big_endian(std::uint32_t x) {
  return {static_cast<char>(x >> 24), static_cast<char>(x >> 16), static_cast<char>(x >> 8), static_cast<char>(x)};
}
// Pixel (sample, row, col) = 7 * sample + 16 * row + col, label = sample % 10.
std::string images(std::uint32_t samples, std::uint32_t rows = 4, std::uint32_t cols = 3) {
  std::string out = big_endian(0x803) + big_endian(samples) + big_endian(rows) + big_endian(cols);
  for (std::uint32_t n = 0; n < samples; n++)
    for (std::uint32_t h = 0; h < rows; h++)
      for (std::uint32_t w = 0; w < cols; w++) out += static_cast<char>(7 * n + 16 * h + w);
  return out;
}
std::string labels(std::uint32_t samples) {
  std::string out = big_endian(0x801) + big_endian(samples);
  for (std::uint32_t n = 0; n < samples; n++) out += static_cast<char>(n % 10);
  return out;
}
void put_mnist(const Folder& folder, std::uint32_t train = 12, std::uint32_t test = 3) {
  folder.put("train-images-idx3-ubyte", images(train));
  folder.put("train-labels-idx1-ubyte", labels(train));
  folder.put_gz("t10k-images-idx3-ubyte", images(test));
  folder.put_gz("t10k-labels-idx1-ubyte", labels(test));
}

struct Refused {
  Exit code = Exit::ok;
  std::string text{};
};
template <class F>
Refused refused(F&& f) {
  try {
    f();
  } catch (const UserError& e) {
    return {e.code(), e.what()};
  }
  return {};
}
bool says(const Refused& r, const std::string& text) {
  INFO(r.text);
  return r.text.find(text) != std::string::npos;
}

template <class T>
std::vector<T> ask(const ReadBox& read, const Box& box) {
  std::vector<T> out(static_cast<std::size_t>(volume(box)));
  read(box, std::as_writable_bytes(std::span<T>(out)));
  return out;
}

}  // namespace

TEST_CASE("IDX files are read, packed or not, whole or by box") {
  Folder folder;
  put_mnist(folder);
  const Datasets data = load_mnist(folder.path);
  CHECK(data.train->samples() == 12);
  CHECK(data.test->samples() == 3);
  CHECK(data.train->classes() == 10);
  CHECK(data.train->sample_extents() == std::vector<Index>{1, 4, 3});
  CHECK(data.train->label(11) == 1);
  std::vector<double> out(4);
  data.train->read(5, {{0, 1}, {2, 4}, {1, 3}}, out);
  CHECK(out == std::vector<double>{68 / 255.0, 69 / 255.0, 84 / 255.0, 85 / 255.0});
  data.test->read(2, {{0, 1}, {0, 1}, {0, 3}}, std::span<double>(out).first(3));
  CHECK(out[2] == 16 / 255.0);
  data.train->read(0, {{0, 0}, {0, 4}, {0, 3}}, {});
  CHECK(load_fashion_mnist(folder.path).train->samples() == 12);
  CHECK(load_fashion_mnist(folder.path).test->class_names().at(9) == "Ankle boot");
  CHECK(data.train->class_names().at(9) == "9");
}

TEST_CASE("an IDX file that is missing is named with how to get it") {
  Folder folder;
  Refused r = refused([&] { load_fashion_mnist(folder.path); });
  CHECK(r.code == Exit::missing);
  CHECK(says(r, "apt-get install dataset-fashion-mnist"));
  CHECK(says(r, (folder.path / "train-images-idx3-ubyte").string()));
  put_mnist(folder);
  fs::remove(folder.path / "t10k-labels-idx1-ubyte.gz");
  r = refused([&] { load_mnist(folder.path); });
  CHECK(r.code == Exit::missing);
  CHECK(says(r, "t10k-labels-idx1-ubyte"));
}

TEST_CASE("a damaged IDX file is named with the byte") {
  Folder folder;
  const auto load = [&] { load_mnist(folder.path); };
  const auto with = [&](const std::string& name, const std::string& bytes) {
    put_mnist(folder);
    folder.put(name, bytes);
    const Refused r = refused(load);
    CHECK(r.code == Exit::data);
    CHECK(says(r, name));
    return r;
  };
  const std::string image_name = "train-images-idx3-ubyte", label_name = "train-labels-idx1-ubyte";
  const std::string good = images(12);
  CHECK(says(with(image_name, labels(12)), "byte 0: an IDX file of images starts with 0x00000803, this one with 0x00000801"));
  CHECK(
      says(with(image_name, good.substr(0, good.size() - 1)), "byte 159: the file ends here; 144 bytes expected from byte 16 on"));
  CHECK(says(with(image_name, good + "x"), "byte 160: the file should end here"));
  CHECK(says(with(image_name, good.substr(0, 18)), "byte 8: the header claims more elements"));
  CHECK(says(with(image_name, ""), "byte 0: the file ends here"));
  CHECK(says(with(image_name, images(12, 0, 3)), "byte 8: a size of 0"));
  const std::string huge = big_endian(0x803) + big_endian(0xffffffff) + big_endian(0xffffffff) + big_endian(0xffffffff);
  CHECK(says(with(image_name, huge), "byte 4: the header claims more elements"));
  CHECK(says(with(label_name, labels(11)), "byte 4: 11 labels for 12 images"));
  std::string wrong = labels(12);
  wrong[13] = 10;
  CHECK(says(with(label_name, wrong), "byte 13: the label 10"));
  put_mnist(folder);
  folder.put_gz("t10k-images-idx3-ubyte", images(3, 5));
  CHECK(says(refused(load), "differ in size"));
}

TEST_CASE("a damaged gzip file is named with the byte") {
  Folder folder;
  put_mnist(folder);
  const std::string name = "t10k-images-idx3-ubyte.gz", good = folder.get(name);
  REQUIRE(good.size() > 30);
  for (std::size_t size = 0; size < good.size(); size++) {
    folder.put(name, good.substr(0, size));
    const Refused r = refused([&] { load_mnist(folder.path); });
    INFO(size << " bytes: " << r.text);
    CHECK(r.code == Exit::data);
    CHECK(says(r, name + (size < 2 ? ": byte " : ": unpacked byte ")));  // two bytes identify gzip
  }
  std::string flipped = good;
  flipped[flipped.size() - 6] = static_cast<char>(flipped[flipped.size() - 6] ^ 1);  // of the checksum
  folder.put(name, flipped);
  CHECK(refused([&] { load_mnist(folder.path); }).code == Exit::data);
}

TEST_CASE("what follows the end of a gzip file is another member, or an error") {
  Folder folder;
  put_mnist(folder);
  const std::string name = "t10k-images-idx3-ubyte.gz", good = folder.get(name);
  for (const std::string& tail : {std::string("x"), std::string("\0", 1), std::string(512, '\0'), std::string("\x1f"),
                                  std::string("\x1f\x8b"), std::string("not gzip"), good.substr(0, 10), std::string(200000, 'x')}) {
    folder.put(name, good + tail);
    const Refused r = refused([&] { load_mnist(folder.path); });
    INFO(tail.size() << " bytes follow: " << r.text);
    CHECK(r.code == Exit::data);
    CHECK(says(r, name + ": unpacked byte "));
    CHECK(says(r, "the gzip data ends here"));
  }
  const std::string whole = images(3);
  const auto packed = [&](const std::string& bytes) {
    folder.put_gz("member", bytes);
    return folder.get("member.gz");
  };
  for (std::size_t first : {std::size_t{0}, std::size_t{3}, std::size_t{20}, whole.size()}) {
    folder.put(name, packed(whole.substr(0, first)) + packed(whole.substr(first)));
    CHECK(load_mnist(folder.path).test->samples() == 3);
  }
  folder.put(name, good + packed("x"));
  CHECK(says(refused([&] { load_mnist(folder.path); }), "the file should end here, but more data follows"));
}

TEST_CASE("CIFAR-10 batches are read and checked") {
  Folder folder;
  const auto record = [](int label, int first) {
    std::string out(3073, '\0');
    out[0] = static_cast<char>(label);
    for (std::size_t i = 1; i < out.size(); i++) out[i] = static_cast<char>((static_cast<std::size_t>(first) + i - 1) % 251);
    return out;
  };
  for (int i = 1; i <= 5; i++) folder.put("data_batch_" + std::to_string(i) + ".bin", record(i, i) + record(9 - i, 0));
  CHECK(refused([&] { load_cifar10(folder.path); }).code == Exit::missing);
  folder.put("test_batch.bin", record(0, 9));
  const Datasets data = load_cifar10(folder.path);
  CHECK(data.train->samples() == 10);
  CHECK(data.test->samples() == 1);
  CHECK(data.train->sample_extents() == std::vector<Index>{3, 32, 32});
  CHECK(data.train->label(2) == 2);
  CHECK(data.train->label(3) == 7);
  std::vector<double> out(2);
  data.train->read(4, {{1, 3}, {1, 2}, {5, 6}}, out);  // batch 3: element (c, 1, 5) is 3 + 1024 c + 37
  CHECK(out == std::vector<double>{(3 + 1024 + 37) % 251 / 255.0, (3 + 2048 + 37) % 251 / 255.0});
  folder.put("data_batch_3.bin", record(3, 0) + record(10, 0));
  Refused r = refused([&] { load_cifar10(folder.path); });
  CHECK(r.code == Exit::data);
  CHECK(says(r, "data_batch_3.bin: byte 3073: the label 10"));
  folder.put("data_batch_3.bin", record(3, 0) + "x");
  r = refused([&] { load_cifar10(folder.path); });
  CHECK(says(r, "data_batch_3.bin: byte 3074: the file ends here"));
}

TEST_CASE("synthetic samples are determined by the seed alone and can be learnt") {
  const Datasets data = synthetic({2, 5, 3}, 4, 64, 7), again = synthetic({2, 5, 3}, 4, 200, 7),
                 other = synthetic({2, 5, 3}, 4, 64, 8);
  CHECK(data.train->samples() == 64);
  CHECK(data.test->samples() == 16);
  const Box all{{0, 2}, {0, 5}, {0, 3}};
  std::vector<double> a(30), b(30), part(4);
  std::vector<std::vector<double>> mean(4, std::vector<double>(30, 0));
  std::vector<int> count(4, 0);
  bool differs = false;
  for (Index s = 0; s < 64; s++) {
    data.train->read(s, all, a);
    again.train->read(s, all, b);
    CHECK(a == b);
    CHECK(data.train->label(s) == again.train->label(s));
    CHECK(std::all_of(a.begin(), a.end(), [](double v) { return v > 0 && v < 1; }));
    other.train->read(s, all, b);
    differs = differs || a != b;
    data.train->read(s, {{1, 2}, {2, 4}, {1, 3}}, part);
    CHECK(part == std::vector<double>{a[22], a[23], a[25], a[26]});
    const auto label = static_cast<std::size_t>(data.train->label(s));
    REQUIRE(label < 4);
    count[label]++;
    for (std::size_t i = 0; i < 30; i++) mean[label][i] += a[i];
  }
  CHECK(differs);
  for (std::size_t k = 0; k < 4; k++) {
    REQUIRE(count[k] > 4);
    for (double& m : mean[k]) m /= count[k];
  }
  for (Index s = 0; s < data.test->samples(); s++) {  // the nearest class mean of the training samples
    data.test->read(s, all, a);
    std::vector<double> far(4, 0);
    for (std::size_t k = 0; k < 4; k++)
      for (std::size_t i = 0; i < 30; i++) far[k] += (a[i] - mean[k][i]) * (a[i] - mean[k][i]);
    CHECK(std::min_element(far.begin(), far.end()) - far.begin() == data.test->label(s));
  }
  std::vector<double> one(1);
  synthetic({}, 2, 1, 1).train->read(0, {}, one);
  CHECK(one[0] > 0);
  CHECK(refused([] { synthetic({1}, 0, 1, 1); }).code == Exit::config);
  CHECK(refused([] { synthetic({1}, 1, 0, 1); }).code == Exit::config);
  CHECK(says(refused([] { synthetic({3, -1}, 1, 1, 1); }), "at least 1"));
}

TEST_CASE("each epoch visits its own permutation, a short last batch is dropped") {
  const Order order(103, 10, 5);
  CHECK(order.steps_per_epoch() == 10);
  std::vector<std::vector<Index>> epochs;
  for (Index epoch = 0; epoch < 3; epoch++) {
    std::vector<Index> seen;
    for (Index s = 0; s < 10; s++)
      for (Index sample : order.batch_of(10 * epoch + s)) seen.push_back(sample);
    CHECK(seen.size() == 100);
    const std::set<Index> unique(seen.begin(), seen.end());
    CHECK(unique.size() == 100);
    CHECK(*unique.begin() >= 0);
    CHECK(*unique.rbegin() < 103);
    epochs.push_back(seen);
  }
  CHECK(epochs[0] != epochs[1]);
  CHECK(epochs[1] != epochs[2]);
  CHECK(Order(103, 10, 5).batch_of(25) == order.batch_of(25));  // whatever was asked before
  CHECK(Order(103, 10, 6).batch_of(25) != order.batch_of(25));
  CHECK(Order(4, 4, 1).batch_of(7).size() == 4);
  CHECK(says(refused([] { Order(9, 10, 1); }), "only 9"));
  CHECK(says(refused([] { Order(10, 10, 1).batch_of(-1); }), "steps are counted from 0"));
  CHECK(refused([] { Order(9, 0, 1); }).code == Exit::config);
}

TEST_CASE("a batch gives every rank its box, in the type asked for") {
  Folder folder;
  put_mnist(folder);
  const auto train = load_mnist(folder.path).train;
  const Batch b = batch_of(train, {3, 0, kNoSample, 11}, 8, 2);
  CHECK(b.step == 8);
  CHECK(b.epoch == 2);
  const Box box{{1, 4}, {0, 1}, {1, 2}, {0, 2}};
  CHECK(ask<double>(b.images, box) == std::vector<double>{16 / 255.0, 17 / 255.0, 0, 0, 93 / 255.0, 94 / 255.0});
  CHECK(ask<float>(b.images, box)[5] == static_cast<float>(94 / 255.0));
  CHECK(ask<float>(b.images, {{2, 2}, {0, 1}, {0, 4}, {0, 3}}).empty());
  CHECK(ask<std::int32_t>(b.labels, {{0, 4}}) == std::vector<std::int32_t>{3, 0, -1, 1});
  CHECK(ask<std::int32_t>(b.labels, {{3, 4}}) == std::vector<std::int32_t>{1});
}

TEST_CASE("a sample that f32 cannot hold is refused in f32, not in f64") {
  class Large final : public Dataset {
   public:
    Index samples() const override { return 2; }
    Index classes() const override { return 2; }
    std::vector<Index> sample_extents() const override { return {2}; }
    std::int32_t label(Index) const override { return 0; }
    void read(Index sample, const Box&, std::span<double> out) const override {
      std::fill(out.begin(), out.end(), sample == 0 ? -3.4e38 : -1e39);
    }
  };
  const Batch b = batch_of(std::make_shared<Large>(), {0, 1}, 0, 0);
  CHECK(ask<double>(b.images, {{1, 2}, {0, 2}}) == std::vector<double>{-1e39, -1e39});
  CHECK(ask<float>(b.images, {{0, 1}, {0, 2}})[1] == -3.4e38F);
  CHECK_THROWS_WITH(ask<float>(b.images, {{0, 2}, {0, 2}}), Catch::Contains("sample 1 has a value that is too large for f32"));
}

TEST_CASE("an epoch is a range of batches that outlives its maker") {
  Folder folder;
  put_mnist(folder);
  std::vector<std::int32_t> seen;
  Index steps = 0;
  for (const Batch& b : FashionMnist{folder.path}.train({"batch", 5}, 1)) {
    CHECK(b.step == steps++);
    for (std::int32_t label : ask<std::int32_t>(b.labels, {{0, 5}})) seen.push_back(label);
  }
  CHECK(steps == 2);
  std::vector<std::int32_t> expected;
  const Order order(12, 5, 1);
  for (Index s = 0; s < 2; s++)
    for (Index sample : order.batch_of(s)) expected.push_back(static_cast<std::int32_t>(sample % 10));
  CHECK(seen == expected);
}

TEST_CASE("the installed Fashion-MNIST is whole", "[.][installed]") {
  if (!fs::exists("/usr/share/datasets/fashion-mnist")) std::exit(77);  // meson: skipped
  const Datasets data = load_fashion_mnist();
  CHECK(data.train->samples() == 60000);
  CHECK(data.test->samples() == 10000);
  CHECK(data.train->sample_extents() == std::vector<Index>{1, 28, 28});
  std::vector<int> count(10, 0);
  for (Index s = 0; s < 60000; s++) count[static_cast<std::size_t>(data.train->label(s))]++;
  CHECK(count == std::vector<int>(10, 6000));
  CHECK(data.train->label(0) == 9);  // an ankle boot
}
