// SPDX-License-Identifier: Apache-2.0
// Whole tensors as .npy files that any other framework can read, and what their dims are.
#pragma once
#include <motley/plan.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/json.h"
#include "run/gather.h"

namespace motley {

// A folder of dumped tensors: NAME.npy, f32 or f64 as the run had them, row-major in the tensor's own dims: convolution weights
// [out, in, rows, cols], dense weights [out.., in..], images [batch, channels, rows, cols]. Used by rank 0. Error(io).
class Dump {
 public:
  explicit Dump(std::filesystem::path folder) : folder_(std::move(folder)) {}
  void tensor(const std::string& file, const WholeTensor& tensor, DType dtype);
  void integers(const std::string& file, const std::string& name, const std::vector<Dim>& dims, const std::vector<Index>& values);
  void finish() const;  // manifest.json: {"version": 1, "tensors": {NAME: {"dims": [...], "sizes": [...]}}}

 private:
  std::vector<Index> note(const std::string& file, const std::string& name, const std::vector<Dim>& dims);  // the sizes
  std::filesystem::path folder_;
  Json tensors_{Json::Object{}};
};

void make_folder(const std::filesystem::path& folder);  // with its parents; Error(io)

}  // namespace motley
