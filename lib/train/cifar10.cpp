// SPDX-License-Identifier: Apache-2.0
// CIFAR-10, binary version (Krizhevsky, https://www.cs.toronto.edu/~kriz/cifar.html): records of one label byte and
// 3 x 32 x 32 bytes, red, green, blue planes.
#include <motley/error.h>

#include <array>

#include "train/byte_images.h"
#include "train/data_files.h"
#include "train/packed_file.h"

namespace motley {
namespace fs = std::filesystem;
namespace {

constexpr Index kCifarClasses = 10, kImage = 3 * 32 * 32, kRecord = 1 + kImage;

struct Records {
  std::vector<std::uint8_t> pixels{}, labels{};
};

void read_batch(const fs::path& path, Records& into) {
  PackedFile file(path);
  std::array<std::uint8_t, kRecord> record{};
  do {
    const Index at = file.position();
    file.read(record);
    if (record[0] >= kCifarClasses) file.damaged(at, "the label " + std::to_string(record[0]) + "; expected 0 to 9");
    into.labels.push_back(record[0]);
    into.pixels.insert(into.pixels.end(), record.begin() + 1, record.end());
  } while (!file.at_end());
}

std::shared_ptr<const Dataset> made(Records records) {
  const std::vector<std::string> classes{"airplane", "automobile", "bird",  "cat",  "deer",
                                         "dog",      "frog",       "horse", "ship", "truck"};  // batches.meta.txt
  return std::make_shared<ByteImages>(std::vector<Index>{3, 32, 32}, std::move(records.pixels), std::move(records.labels), classes);
}

}  // namespace

Datasets load_cifar10(const fs::path& folder) {
  Records train, test;
  const std::vector<fs::path> files = cifar10_files(folder);
  for (const fs::path& file : files) read_batch(file, file == files.back() ? test : train);
  return {made(std::move(train)), made(std::move(test))};
}

}  // namespace motley
