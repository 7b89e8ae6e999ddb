// SPDX-License-Identifier: Apache-2.0
// Arrays in .npy files as samples: read where they are needed, not whole.
#pragma once
#include <motley/data.h>
#include <motley/error.h>

namespace motley {

// An array [samples, a sample's dims...] of f2, f4, f8 (as it is) or u1 (scaled to 0..1), or (dtype i32) of integers; every label
// 0. UserError: 66; 65 damaged, another type, or other sizes than `sample` (none: any).
std::shared_ptr<const Dataset> npy_samples(const std::filesystem::path& file, const std::optional<std::vector<Index>>& sample = {},
                                           DType dtype = DType::f32);

// An error of one of load_npy()'s files.
class NpyError : public UserError {
 public:
  NpyError(std::string which, const UserError& error) : UserError(error.what(), error.code()), which_(std::move(which)) {}
  const std::string& which() const { return which_; }  // as NpyFiles' fields are called: "labels", "inputs/NAME"

 private:
  std::string which_;
};

// As load_npy(), and reads the first 1 GiB of each array of whole numbers through: a number that the network has no row for is
// refused (65). Every file that is wrong is in `wrong`; the data is there where none is.
Datasets check_npy(const NpyFiles& files, const SampleKind& expected, std::vector<NpyError>& wrong);

}  // namespace motley
