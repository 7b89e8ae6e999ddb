// SPDX-License-Identifier: Apache-2.0
// Whole tensors as .npy files that other frameworks can read, with the names of their dims.
#pragma once
#include <motley/plan.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/json.h"
#include "run/gather.h"

namespace motley {

// A folder of dumped tensors: NAME.npy, f32 or f64 as the run had them, row-major in the tensor's dims: convolution weights [out,
// in, rows, cols], dense weights [out.., in..], images [batch, channels, rows, cols]. Used by rank 0. Error(io).
class Dump {
 public:
  explicit Dump(std::filesystem::path folder) : folder_(std::move(folder)) {}
  void tensor(const std::string& file, const WholeTensor& tensor, DType dtype);
  void integers(const std::string& file, const std::string& name, const std::vector<Dim>& dims, const std::vector<Index>& values);
  // manifest.json: {"version": 1, "tensors": {NAME: {"dims": [...], "sizes": [...]}}}, NAME: the tensor's and the file's
  void finish() const;

 private:
  std::vector<Index> note(const std::string& file, const std::string& name, const std::vector<Dim>& dims);  // returns the sizes
  std::filesystem::path folder_;
  Json tensors_{Json::Object{}};
};

void make_folder(const std::filesystem::path& folder);  // creates parents too; Error(io)

}  // namespace motley
