// SPDX-License-Identifier: Apache-2.0
// CIFAR-10, binary version (Krizhevsky, https://www.cs.toronto.edu/~kriz/cifar.html): records of one label byte and
// 3 x 32 x 32 bytes, red, green, blue planes.
#include <motley/error.h>

#include <array>

#include "train/byte_images.h"
#include "train/packed_file.h"

namespace motley {
namespace fs = std::filesystem;
namespace {

constexpr Index kClasses = 10, kImage = 3 * 32 * 32, kRecord = 1 + kImage;

struct Records {
  std::vector<std::uint8_t> pixels{}, labels{};
};

void read_batch(const fs::path& folder, const std::string& name, Records& into) {
  const fs::path path =
      find_packed(folder, name, "unpack cifar-10-binary.tar.gz; data.path names the folder with data_batch_1.bin in it");
  PackedFile file(path);
  std::array<std::uint8_t, kRecord> record{};
  do {
    const Index at = file.position();
    file.read(record);
    if (record[0] >= kClasses) file.damaged(at, "the label " + std::to_string(record[0]) + "; 0 to 9 belongs here");
    into.labels.push_back(record[0]);
    into.pixels.insert(into.pixels.end(), record.begin() + 1, record.end());
  } while (!file.at_end());
}

std::shared_ptr<const Dataset> made(Records records) {
  return std::make_shared<ByteImages>(std::vector<Index>{3, 32, 32}, std::move(records.pixels), std::move(records.labels),
                                      kClasses);
}

}  // namespace

Datasets load_cifar10(const fs::path& folder) {
  Records train, test;
  for (int i = 1; i <= 5; i++) read_batch(folder, "data_batch_" + std::to_string(i) + ".bin", train);
  read_batch(folder, "test_batch.bin", test);
  return {made(std::move(train)), made(std::move(test))};
}

}  // namespace motley
