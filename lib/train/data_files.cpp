// SPDX-License-Identifier: Apache-2.0
#include "train/data_files.h"

#include <string>

#include "train/packed_file.h"

namespace motley {

namespace fs = std::filesystem;

namespace {

std::vector<fs::path> idx_files(const fs::path& folder, const std::string& how) {
  std::vector<fs::path> out;
  for (const char* name :
       {"train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"})
    out.push_back(find_packed(folder, name, how));
  return out;
}

}  // namespace

std::vector<fs::path> mnist_files(const fs::path& folder) {
  return idx_files(folder, "MNIST is four files: {train,t10k}-{images-idx3,labels-idx1}-ubyte[.gz]; data.path names their folder");
}

std::vector<fs::path> fashion_mnist_files(const fs::path& folder) {
  return idx_files(folder.empty() ? fs::path(kFashionMnistFolder) : folder,
                   std::string("`apt-get install dataset-fashion-mnist` puts it into ") + kFashionMnistFolder +
                       ", else data.path names its folder");
}

std::vector<fs::path> cifar10_files(const fs::path& folder) {
  std::vector<fs::path> out;
  for (const char* name :
       {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin", "test_batch.bin"})
    out.push_back(
        find_packed(folder, name, "unpack cifar-10-binary.tar.gz; data.path names the folder with data_batch_1.bin in it"));
  return out;
}

}  // namespace motley
