// SPDX-License-Identifier: Apache-2.0
// What a folder of pictures holds, by names alone: the classes, their pictures, and what is passed over.
#pragma once
#include <motley/dims.h>

#include <filesystem>
#include <string>
#include <vector>

namespace motley {

struct FolderPart {                  // of the data: to train on, to evaluate on
  std::string name{};                // of its folder: "train", "val"; empty: there is none
  std::vector<std::string> files{};  // "CLASS/FILE", by class and name
  std::vector<std::int32_t> labels{};
};

struct FolderListing {
  std::vector<std::string> classes{};  // those of `train`
  FolderPart train{}, test{};
  // Names such as "train/cup/a.webp": of files of another kind; hidden; in folders inside a class's folder, or outside of all
  // classes; of classes without pictures; of folders that could be the test part too.
  std::vector<std::string> others{}, hidden{}, elsewhere{}, empty{}, unused{};
  // "601 pictures in 5 classes; 1 file of another kind ignored (train/cup/a.webp)".
  std::string text() const;
};

// UserError: 66 no such folder, or no training part in it; 65 a class that only the test part has, a test part that is not a
// folder, a part without pictures; 74. without: pictures that are left out.
FolderListing list_folder(const std::filesystem::path& folder, const std::vector<std::string>& without = {});
// The name of the folder that holds the test part; empty: there is none.
std::string test_folder(const std::filesystem::path& folder);

bool is_picture_name(const std::string& file);  // ends with .png, .jpg or .jpeg
// The pictures in a folder and its folders, without hidden ones, sorted: relative to it. UserError: 66 there are none, 74.
std::vector<std::string> pictures_below(const std::filesystem::path& folder);

}  // namespace motley
