// SPDX-License-Identifier: Apache-2.0
// A job's "data".
#pragma once
#include <motley/data.h>

#include <map>
#include <optional>
#include <string>

#include "base/json_fields.h"

namespace motley {

enum class DataKind : std::uint8_t { fashion_mnist, mnist, cifar10, synthetic, npy, folder, tokens };
enum class Damaged : std::uint8_t { error, skip };
struct DataOptions {
  DataKind kind = DataKind::synthetic;
  std::string path{};  // a folder, for tokens a file; absolute; empty: fashion_mnist's usual place
  Index samples = 0;   // of synthetic data
  std::string images{}, labels{}, test_images{}, test_labels{};  // npy: absolute; the test part: both or none
  std::map<std::string, std::string> inputs{}, test_inputs{};    // npy: absolute, for the model's further inputs
  TokenType type = TokenType::u16;                               // tokens
  std::string test_path{};                                       // tokens: absolute; empty: the last tenth
  Resize resize{};                                               // folder
  Damaged damaged = Damaged::error;                              // folder: what becomes of pictures that cannot be decoded
  double validation = 0;                                         // share of the training samples; 0: none
  Normalize normalize{};
  Augment augment{};
};
std::string to_string(DataKind kind);
// Whether anything is evaluated, by its keys and folders; the test part of tokens may turn out too short for a sample.
bool is_evaluated(const DataOptions& data);

Table<DataOptions> data_table(VersionKey version);
std::optional<DataOptions> read_data(Reader& r, const Json& j, VersionKey version);
// Keys whose values are paths, or objects of paths.
const std::vector<std::string>& data_paths();

std::string sizes_text(const std::vector<Index>& extents);  // "3 x 32 x 32"

TokenFiles token_files(const DataOptions& data);
NpyFiles npy_files(const DataOptions& data);

// The data as the files have it: not normalized. No test part where the data has none. samples: of synthetic data that does not
// state it. seed: of synthetic data and of the validation part. without: pictures of a folder that are left out. UserError: 66, 65.
Datasets load_data(const DataOptions& data, const SampleKind& expected, Index samples, std::uint64_t seed,
                   const std::vector<std::string>& without = {});
// The end of a complaint about a damaged picture: how to go on without it. Empty: such pictures are left out already.
std::string damaged_advice(Damaged damaged);

}  // namespace motley
