// SPDX-License-Identifier: Apache-2.0
// IDX files (LeCun, Cortes, Burges, "The MNIST database", file format): big-endian magic and sizes, then bytes.
#include <motley/error.h>

#include <algorithm>

#include "base/files.h"
#include "base/likely_kind.h"
#include "train/byte_images.h"
#include "train/data_files.h"
#include "train/packed_file.h"

namespace motley {
namespace fs = std::filesystem;
namespace {

constexpr std::uint32_t kImages = 0x803, kLabels = 0x801;  // unsigned bytes, three dims and one
constexpr std::uint8_t kIdxClasses = 10;

std::string hex_of_magic(std::uint32_t x) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string out;
  for (int shift = 28; shift >= 0; shift -= 4) out += kDigits[(x >> shift) & 15];
  return "0x" + out;
}

struct Idx {
  std::vector<Index> extents{};
  std::vector<std::uint8_t> bytes{};
};

Idx read_idx(const fs::path& path, PackedFile& file, std::uint32_t magic) {
  if (const std::uint32_t found = file.read_big_endian(); found != magic) {
    const InputFile raw(path);
    const std::string kind = likely_kind(raw.text(0, std::min<std::uint64_t>(raw.size(), kKindBytes)));
    file.damaged(0, "an IDX file of " + std::string(magic == kImages ? "images" : "labels") + " starts with " +
                        hex_of_magic(magic) + ", this one with " + hex_of_magic(found) +
                        (kind.find("gzip") == std::string::npos ? kind : ""));
  }
  Idx out;
  Index elements = 1;
  for (std::uint32_t d = 0; d < (magic & 0xff); d++) {
    const Index at = file.position();
    const Index extent = file.read_big_endian();
    if (extent == 0) file.damaged(at, "a size of 0");
    out.extents.push_back(extent);
    if (__builtin_mul_overflow(elements, extent, &elements) || elements > file.most_bytes())
      file.damaged(at, "the header claims more elements than the file contains");
  }
  out.bytes.resize(static_cast<std::size_t>(elements));
  file.read(out.bytes);
  if (!file.at_end()) file.damaged(file.position(), "the file should end here, but more data follows");
  return out;
}

using FileNames = std::vector<std::string>;

std::shared_ptr<const Dataset> load_pair(const fs::path& images_path, const fs::path& labels_path, const FileNames& classes) {
  PackedFile image_file(images_path);
  PackedFile label_file(labels_path);
  Idx images = read_idx(images_path, image_file, kImages);
  Idx labels = read_idx(labels_path, label_file, kLabels);
  if (labels.extents[0] != images.extents[0])
    label_file.damaged(4, std::to_string(labels.extents[0]) + " labels for " + std::to_string(images.extents[0]) + " images");
  constexpr Index kHeader = 8;  // of a file of labels
  for (std::size_t i = 0; i < labels.bytes.size(); i++)
    if (labels.bytes[i] >= kIdxClasses)
      label_file.damaged(kHeader + static_cast<Index>(i), "the label " + std::to_string(labels.bytes[i]) + "; expected 0 to 9");
  return std::make_shared<ByteImages>(std::vector<Index>{1, images.extents[1], images.extents[2]}, std::move(images.bytes),
                                      std::move(labels.bytes), classes);
}

Datasets load_both(const fs::path& folder, const std::vector<fs::path>& files, const FileNames& classes) {
  Datasets out{load_pair(files[0], files[1], classes), load_pair(files[2], files[3], classes)};
  if (out.train->sample_extents() != out.test->sample_extents())
    throw UserError(folder.string() + ": the images of train-* and of t10k-* differ in size", Exit::data);
  return out;
}

}  // namespace

Datasets load_mnist(const fs::path& folder) {
  return load_both(folder, mnist_files(folder), {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"});
}

Datasets load_fashion_mnist(const fs::path& folder) {
  // Xiao, Rasul, Vollgraf, "Fashion-MNIST", table 2.
  return load_both(folder, fashion_mnist_files(folder),
                   {"T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"});
}

}  // namespace motley
