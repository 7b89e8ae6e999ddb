// SPDX-License-Identifier: Apache-2.0
#include "train/dump.h"

#include <motley/error.h>

#include "base/npy.h"

namespace motley {

void make_folder(const std::filesystem::path& folder) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed) throw UserError("cannot make the folder " + folder.string() + ": " + failed.message(), Exit::io);
}

std::vector<Index> Dump::note(const std::string& file, const std::string& name, const std::vector<Dim>& dims) {
  make_folder((folder_ / file).parent_path());
  Json names{Json::Array{}}, numbers{Json::Array{}}, entry;
  std::vector<Index> sizes;
  for (const Dim& d : dims) {
    names.push(d.name);
    numbers.push(d.size);
    sizes.push_back(d.size);
  }
  entry.set("dims", names).set("sizes", numbers);
  for (const std::string& one : {name, std::filesystem::path(file).stem().string()})  // "mean_9" and "loss"
    if (tensors_.find(one) == nullptr) tensors_.set(one, entry);
  return sizes;
}

void Dump::tensor(const std::string& file, const WholeTensor& tensor, DType dtype) {
  const std::vector<Index> sizes = note(file, tensor.name, tensor.shape.dims());
  if (dtype == DType::f64)
    write_npy(folder_ / file, sizes, tensor.values);
  else
    write_npy(folder_ / file, sizes, std::vector<float>(tensor.values.begin(), tensor.values.end()));
}

void Dump::integers(const std::string& file, const std::string& name, const std::vector<Dim>& dims,
                    const std::vector<Index>& values) {
  write_npy(folder_ / file, note(file, name, dims), values);
}

void Dump::finish() const {
  Json all;
  all.set("version", 1).set("tensors", tensors_);
  make_folder(folder_);
  write_file((folder_ / "manifest.json").string(), to_text(all, 2));
}

}  // namespace motley
