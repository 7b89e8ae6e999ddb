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
struct DataOptions {
  DataKind kind = DataKind::synthetic;
  std::string path{};  // a folder, for tokens a file; absolute; empty: fashion_mnist's usual place
  Index samples = 0;   // of synthetic data
  std::string images{}, labels{}, test_images{}, test_labels{};  // npy: absolute; the test part: both or none
  std::map<std::string, std::string> inputs{}, test_inputs{};    // npy: absolute, for the model's further inputs
  TokenType type = TokenType::u16;                               // tokens
  std::string test_path{};                                       // tokens: absolute; empty: the last tenth
  Normalize normalize{};
  Augment augment{};
};
std::string to_string(DataKind kind);
// Whether it is to have a test part, by its keys and folders; that of tokens may turn out too short for a sample.
bool has_test_part(const DataOptions& data);

Table<DataOptions> data_table(VersionKey version);
std::optional<DataOptions> read_data(Reader& r, const Json& j, VersionKey version);
// Keys whose values are paths, or objects of paths.
const std::vector<std::string>& data_paths();

// Complains about changes that do not fit such samples. `tree`: of the data.
void check_changes(Reader& r, const Json& tree, const DataOptions& data, const SampleKind& expected);
// Complains about files that are missing (66), damaged or not as expected (65); of pictures only the headers are read. Returns the
// number of samples to train on; nothing: something is wrong, or the data has no files.
std::optional<Index> check_files(Reader& r, const Json& tree, const DataOptions& data, const SampleKind& expected);

std::string sizes_text(const std::vector<Index>& extents);  // "3 x 32 x 32"

// The data as the files have it: not normalized. No test part where the data has none. samples: of synthetic data that does not
// state it. UserError: 66, 65.
Datasets load_data(const DataOptions& data, const SampleKind& expected, Index samples, std::uint64_t seed);

}  // namespace motley
