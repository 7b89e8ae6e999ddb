// SPDX-License-Identifier: Apache-2.0
// Files of samples: the input in the place of each file of MNIST, of a batch of CIFAR-10, of arrays and their labels, of tokens.
#include <motley/data.h>

#include "tests/fuzz/fuzz.h"

namespace motley::fuzz {

namespace {

constexpr std::string_view kImages("\0\0\x08\x03\0\0\0\x01\0\0\0\x01\0\0\0\x01\x07", 17), kLabels("\0\0\x08\x01\0\0\0\x01\x07", 9);

void read_all(const Dataset& data) {
  Box box, labels;
  Index elements = 1;
  for (const Index extent : data.sample_extents()) box.push_back({0, extent}), elements *= extent;
  std::vector<double> values(static_cast<std::size_t>(elements));
  for (Index s = 0; s < data.samples(); s++) data.read(s, box, values);
}

void read_all(const Datasets& data) {
  for (const auto& part : {data.train, data.test})
    if (part != nullptr) read_all(*part);
}

// The files are the only ones of the folder: a refusal names it.
void take_idx(std::string_view images, std::string_view labels) {
  file_of("train-images-idx3-ubyte", images);
  file_of("train-labels-idx1-ubyte", labels);
  is_taken(folder().string(), [] { read_all(load_mnist(folder())); });
}

}  // namespace

void take(std::string_view input) {
  static const bool beside = [] {
    file_of("t10k-images-idx3-ubyte", kImages);
    file_of("t10k-labels-idx1-ubyte", kLabels);
    for (const char* name : {"data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin", "test_batch.bin"})
      file_of(name, std::string(3073, '\0'));
    return true;
  }();
  static_cast<void>(beside);
  take_idx(input, kLabels);
  take_idx(kImages, input);
  file_of("data_batch_1.bin", input);
  is_taken(folder().string(), [] { read_all(load_cifar10(folder())); });
  const std::string file = file_of("input", input);
  for (const TokenType type : {TokenType::u16, TokenType::u32})
    is_taken(file, [&] {
      const SampleKind kind{.extents = {2}, .dtype = DType::i32};
      read_all(load_tokens({.path = file, .type = type}, kind));
    });
  is_taken(file, [&] { read_all(load_npy({.images = file, .labels = file})); });
}

}  // namespace motley::fuzz
