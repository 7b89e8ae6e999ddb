// SPDX-License-Identifier: Apache-2.0
// Arrays in .npy files as samples: only the parts that are needed are read.
#pragma once
#include <motley/data.h>
#include <motley/error.h>

namespace motley {

// An array [samples, a sample's dims...] of f2, f4, f8 (values as they are) or u1 (scaled to 0..1), or (dtype i32) of integers; all
// labels are 0. UserError: 66; 65 damaged, another type, or other sizes than `sample` (none: any).
std::shared_ptr<const Dataset> npy_samples(const std::filesystem::path& file, const std::optional<std::vector<Index>>& sample = {},
                                           DType dtype = DType::f32);

// An error of one of load_npy()'s files.
class NpyError : public UserError {
 public:
  NpyError(std::string which, const UserError& error) : UserError(error.what(), error.code()), which_(std::move(which)) {}
  const std::string& which() const { return which_; }  // the name of the NpyFiles field: "labels", "inputs/NAME"

 private:
  std::string which_;
};

// As load_npy(), but also reads the first 1 GiB of each array of whole numbers: a number for which the network has no row is
// refused (65). All faulty files are listed in `wrong`; data is returned if there are none.
Datasets check_npy(const NpyFiles& files, const SampleKind& expected, std::vector<NpyError>& wrong);

}  // namespace motley
