// SPDX-License-Identifier: Apache-2.0
// The locations of the files of each data set. UserError (66): the first missing file, and how to get it.
#pragma once
#include <motley/data.h>

#include <filesystem>
#include <string>
#include <vector>

namespace motley {

inline constexpr const char* kFashionMnistFolder = "/usr/share/datasets/fashion-mnist";  // of Debian's dataset-fashion-mnist

std::vector<std::filesystem::path> mnist_files(
    const std::filesystem::path& folder);  // train images, train labels, test images, test labels
std::vector<std::filesystem::path> fashion_mnist_files(const std::filesystem::path& folder);  // empty: kFashionMnistFolder
std::vector<std::filesystem::path> cifar10_files(const std::filesystem::path& folder);        // five batches, the test batch

}  // namespace motley
