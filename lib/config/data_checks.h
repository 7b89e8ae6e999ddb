// SPDX-License-Identifier: Apache-2.0
// Whether a job's data is what its model reads: by its keys, then by its files.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "config/data_options.h"

namespace motley {

// Complains about changes that do not fit such samples. `tree`: of the data.
void check_changes(Reader& r, const Json& tree, const DataOptions& data, const SampleKind& expected);

struct DataReport {
  std::optional<Index> samples{};      // to train on; nothing: something is wrong, or it is not known
  bool lacks_test = false;             // there is nothing to evaluate
  std::vector<std::string> lines{};    // what there is, what is passed over and what is evaluated
  std::vector<std::string> classes{};  // a table of the classes and their numbers of samples
};
enum class Depth : std::uint8_t { headers, samples };  // of pictures: whether pixels are read too, of arrays each value
// Complains about files that are missing (66), damaged or not as expected (65).
DataReport check_files(Reader& r, const Json& tree, const DataOptions& data, const SampleKind& expected, std::uint64_t seed,
                       Depth depth);

}  // namespace motley
